"""A message about sources as JSON and for Slack, and what became of the messages of one command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from tidegate.core.health import HealthLevel
from tidegate.core.messages import FoundReason, SourceNews
from tidegate.reports.page import Block, Cell, Columns, Gap, Style, cell, line, moment, table
from tidegate.reports.report import Report, View, to_json
from tidegate.reports.wording import count, visible
from tidegate.specs.masking import shorten
from tidegate.specs.notify import MessageReason

MESSAGE_VERSION = 1
SHOWN_SOURCES = 20
"""Sources that a message for a chat names one by one; JSON has all."""

SHOWN_CHARACTERS = 600
"""Slack refuses sections of more than 3,000 characters, and a longer error is not read in a chat."""

_REASON_WORDS = {
    MessageReason.FAILED: "failed",
    MessageReason.RECOVERED: "recovered",
    MessageReason.LATE: "late",
    MessageReason.NO_DATA: "without data",
    MessageReason.NEW_COLUMN: "with new columns",
    MessageReason.DEAD_LETTERS: "with dead letters",
    MessageReason.UNIT_GIVEN_UP: "with files or work units given up",
}


@dataclass(frozen=True, slots=True)
class SourceMessage(Report):
    """What a message says about one source."""

    pipeline: str
    source: str
    health: HealthLevel
    files: int
    rows: int
    reasons: tuple[FoundReason, ...]

    @classmethod
    def of(cls, news: SourceNews, due: tuple[FoundReason, ...]) -> SourceMessage:
        """The message about ``news`` for the reasons that are due."""
        return cls(news.pipeline, news.source, news.health.level, news.files, news.rows, due)

    @property
    def name(self) -> str:
        """The source, or the whole run."""
        return f"{self.pipeline}/{self.source}" if self.pipeline else "the run"

    def to_json(self) -> dict[str, Any]:
        """Return the fields; what is absent is null."""
        reasons = [{**to_json(each), "command": each.command or None} for each in self.reasons]
        return {
            "pipeline": self.pipeline,
            "source": self.source,
            "health": self.health.value,
            "files": self.files,
            "rows": self.rows,
            "reasons": reasons,
        }


@dataclass(frozen=True, slots=True)
class Message(Report):
    """One message: what became of some sources, or ``test``, which says only that messages arrive."""

    project: str
    at: datetime
    sources: tuple[SourceMessage, ...] = ()
    run: str | None = None
    kind: Literal["sources", "test"] = "sources"

    @property
    def text(self) -> str:
        """The message in a line."""
        if self.kind == "test":
            return f"{self.project}: this is a test; messages about this project arrive here"
        found = Counter(each.reason for source in self.sources for each in source.reasons)
        parts = [
            f"{count(found[reason], 'source')} {words}" for reason, words in _REASON_WORDS.items() if found[reason]
        ]
        return f"{self.project}: {', '.join(parts)}"

    def to_json(self) -> dict[str, Any]:
        """Return the documented form; keys are only added within a version."""
        return {
            "version": MESSAGE_VERSION,
            "kind": self.kind,
            "project": self.project,
            "run": self.run,
            "at": to_json(self.at),
            "text": self.text,
            "sources": [each.to_json() for each in self.sources],
        }

    def to_slack(self) -> dict[str, Any]:
        """Return the message for Slack and what understands its form."""
        paragraphs = [f"*{_escape(self.project)}*{_escape(self.text.removeprefix(self.project))}"]
        paragraphs += ("\n".join(_tell_source(each)) for each in self.sources[:SHOWN_SOURCES])
        if len(self.sources) > SHOWN_SOURCES:
            left = len(self.sources) - SHOWN_SOURCES
            paragraphs.append(f"and {count(left, 'more source', 'more sources')}: `tidegate status`")
        if self.run is not None:
            paragraphs.append(f"run {_escape(self.run)}")
        sections = [{"type": "section", "text": {"type": "mrkdwn", "text": each}} for each in paragraphs]
        return {"text": _escape(self.text), "blocks": sections}


def _tell_source(message: SourceMessage) -> Iterator[str]:
    for each in message.reasons:
        since = f" since {moment(each.since)}" if each.since is not None else ""
        sign = "✔" if each.reason is MessageReason.RECOVERED else message.health.sign
        words = each.reason.value.replace("_", " ")
        told = shorten(visible(each.text), SHOWN_CHARACTERS)
        yield f"{sign} *{_escape(message.name)}* {words}{since}: {_escape(told)}"
        if each.command:
            yield f"`{_escape(visible(each.command))}`"


def _escape(text: str) -> str:
    """A text in which Slack finds no link and nobody to call."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@dataclass(frozen=True, slots=True)
class MessageDelivery(Report):
    """What became of the message for one destination: ``sources`` it was about; ``error`` is why it did not arrive."""

    destination: str
    sources: int = 0
    sent: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class NotifyReport(Report):
    """What became of the messages of ``notify``."""

    test: bool
    deliveries: tuple[MessageDelivery, ...]

    def code(self, *, stopped: bool = False) -> int:
        """Return 1 if a message did not arrive."""
        return int(any(each.error is not None for each in self.deliveries))

    def describe(self, view: View) -> Iterator[Block]:
        """Yield a row per destination, and why messages did not arrive."""
        yield table(_COLUMNS, self.deliveries)
        failed = [each for each in self.deliveries if each.error is not None]
        if failed:
            yield Gap()
        yield from (line(each.error or "", Style.BAD, each.destination) for each in failed)


def _tell_delivery(delivery: MessageDelivery) -> Cell:
    if delivery.error is not None:
        return Cell("not delivered", Style.BAD)
    return Cell("delivered", Style.GOOD) if delivery.sent else Cell("nothing due", Style.DIM)


_COLUMNS: Columns[MessageDelivery] = {
    "destination": lambda each: each.destination,
    "message": _tell_delivery,
    ">sources": lambda each: cell(each.sources or "-"),
}
