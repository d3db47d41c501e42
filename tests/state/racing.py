"""Starting and awaiting processes that act on one table."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from state.lake import Lake
from support import scripts

RACER = Path(__file__).with_name("racer.py")


def start(lake: Lake, failpoints: str = "", **settings: Any) -> scripts.Process:
    """A process that ingests into ``lake``; the settings are those of ``racer``."""
    given = {"uri": lake.location.uri, "options": dict(lake.location.options), **settings}
    return scripts.start(RACER, json.dumps(given), failpoints=failpoints)


def finished(process: scripts.Process) -> dict[str, Any]:
    """What the process reported, once it ended well."""
    assert process.wait() == 0, process.output[-3000:]
    outcome: dict[str, Any] = json.loads(process.output.splitlines()[-1])
    return outcome


def died(process: scripts.Process) -> bool:
    """Whether the process was killed, once it ended."""
    return process.wait() == -signal.SIGKILL
