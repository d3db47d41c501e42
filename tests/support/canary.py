"""A variable of the environment whose value must turn up nowhere."""

from __future__ import annotations

import os

NAME = "TIDEGATE_CANARY"
CANARY = "canary-5f3a9c1e"


def plant() -> None:
    """Put it into the environment of this process, and of those that it starts from now on."""
    os.environ[NAME] = CANARY
