"""Named places where a test can make a process die, fail or lose a response.

``TIDEGATE_FAILPOINTS="state.commit.before=kill, sink.upload.after=raise@3"`` switches them on: ``kill`` sends this
process SIGKILL, ``raise`` raises :class:`InjectedFailure`, ``stop`` sends SIGSTOP, ``sleep:SECONDS`` waits;
``@n`` means the nth time the place is reached. Without the variable a failpoint is one dictionary lookup.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass

VARIABLE = "TIDEGATE_FAILPOINTS"


class InjectedFailure(Exception):
    """Raised by a failpoint that was told to raise."""


@dataclass(slots=True)
class _Armed:
    action: str
    countdown: int


def _parse(text: str) -> dict[str, _Armed]:
    armed: dict[str, _Armed] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, action = item.partition("=")
        action, _, nth = action.partition("@")
        if action not in ("kill", "raise", "stop") and not action.startswith("sleep:"):
            raise ValueError(f"{VARIABLE}: {item!r} is not NAME=kill|raise|stop|sleep:SECONDS[@N]")
        armed[name.strip()] = _Armed(action, int(nth or 1))
    return armed


_armed = _parse(os.environ.get(VARIABLE, ""))


def arm(text: str) -> None:
    """Replace what is armed in this process (tests); the empty string disarms everything."""
    _armed.clear()
    _armed.update(_parse(text))


def failpoint(name: str) -> None:
    """Do nothing, unless ``name`` is armed."""
    if not _armed:
        return
    point = _armed.get(name)
    if point is None:
        return
    point.countdown -= 1
    if point.countdown:
        return
    match point.action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "raise":
            raise InjectedFailure(name)
        case _:
            time.sleep(float(point.action.removeprefix("sleep:")))
