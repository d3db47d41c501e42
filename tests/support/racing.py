"""Processes that begin at the same moment."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faults.racing import ENVIRONMENT


def raced(program: Path, arguments: Sequence[str]) -> list[dict[str, Any]]:
    """What the program tells as JSON, once for each argument; each says that it is ready, and begins when its input
    ends.
    """
    pipe = subprocess.PIPE
    with contextlib.ExitStack() as stack:
        racers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, str(program), argument], stdin=pipe, stdout=pipe, text=True, env=ENVIRONMENT
                )
            )
            for argument in arguments
        ]
        for racer in racers:
            stack.callback(racer.kill)
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.close()
        return [json.loads(racer.stdout.read()) for racer in racers if racer.stdout is not None]
