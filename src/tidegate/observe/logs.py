"""Event logs, one line per event: text for people, JSON lines for machines.

A JSON line has ``ts`` (ISO 8601, UTC), ``level``, ``event`` (its stable name), ``pipeline``, ``source`` and
``fields``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum

from tidegate.observe.events import Event
from tidegate.observe.sentences import facts, sentence, subject

Write = Callable[[str], object]
Now = Callable[[], datetime]


class Level(IntEnum):
    """How much an event matters; a log shows its own level and above."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40

    @classmethod
    def named(cls, name: str) -> Level:
        """The level of that name, in any case; ``KeyError`` if there is none."""
        return cls[name.strip().upper()]


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class TextLog:
    """Writes lines such as ``2026-01-28 14:30:05Z info    events/asia: committed …``."""

    write: Write
    level: Level = Level.INFO
    now: Now = _utc_now

    def __call__(self, event: Event) -> None:
        if Level.named(event.level) < self.level:
            return
        stamp = self.now().astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        about = subject(event)
        self.write(f"{stamp} {event.level:<7} {about + ': ' if about else ''}{sentence(event)}\n")


@dataclass(frozen=True, slots=True)
class JsonLog:
    """Writes one JSON object per line."""

    write: Write
    level: Level = Level.INFO
    now: Now = _utc_now

    def __call__(self, event: Event) -> None:
        if Level.named(event.level) < self.level:
            return
        stamp = self.now().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {
            "ts": stamp,
            "level": event.level,
            "event": event.name,
            "pipeline": event.pipeline,
            "source": event.source,
            "fields": facts(event),
        }
        self.write(json.dumps(line, default=str) + "\n")
