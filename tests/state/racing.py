"""Starting and awaiting processes that act on one table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from state.lake import Lake

RACER = Path(__file__).with_name("racer.py")


def start(lake: Lake, environment: dict[str, str] | None = None, **settings: Any) -> subprocess.Popen[str]:
    """A process that ingests into ``lake``; the settings are those of ``racer``."""
    given = {"uri": lake.location.uri, "options": dict(lake.location.options), **settings}
    return subprocess.Popen(
        [sys.executable, str(RACER), json.dumps(given)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What the process reported, once it ended well."""
    output, problems = process.communicate(timeout=180)
    assert process.returncode == 0, problems[-3000:]
    outcome: dict[str, Any] = json.loads(output)
    return outcome


def died(process: subprocess.Popen[str]) -> bool:
    """Whether the process was killed, once it ended."""
    process.communicate(timeout=180)
    return process.returncode == -signal.SIGKILL
