"""Decides which messages are due about a source: by what is known of it, and by what a destination was told before.

Reasons that last (it failed, it is late …) are told again after a while, and taken back by ``recovered`` when none of
them holds any more. The others, such as a new column, happen once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.core.health import (
    EMPTIED,
    TOLERATED_DEAD_LETTERS,
    Evidence,
    Health,
    HealthLevel,
    Outcome,
    judge_freshness,
    judge_run,
    judge_table,
    name_command,
)
from tidegate.core.json_shape import load_json
from tidegate.specs.masking import shorten
from tidegate.specs.notify import MessageReason, NotifySpec

LASTING = (MessageReason.FAILED, MessageReason.LATE, MessageReason.NO_DATA, MessageReason.DEAD_LETTERS)
"""Reasons that hold until somebody, or new data, ends them."""

FORGOTTEN_AFTER = timedelta(days=30)
SENT_VERSION = 1
LONGEST_TEXT = 1_000
_UNKNOWN = Health(HealthLevel.UNKNOWN)


@dataclass(frozen=True, slots=True)
class FoundReason:
    """One reason for a message about a source, in words; ``command`` goes on from there."""

    reason: MessageReason
    text: str
    since: datetime | None = None
    command: str = ""


@dataclass(frozen=True, slots=True)
class SourceNews:
    """What is known of a source, and what happened to it ``once``; ``files`` and ``rows`` are what was read.

    Without ``known`` nothing is known of its health: it was left to another run, or a person stopped it.
    """

    pipeline: str
    source: str
    health: Health = _UNKNOWN
    known: Evidence | None = None
    once: tuple[FoundReason, ...] = ()
    files: int = 0
    rows: int = 0
    block: str | None = None

    def add(self, later: SourceNews) -> SourceNews:
        """The ``later`` news, with what happened once before it and was not told."""
        merged = {each.reason: each for each in self.once}
        for each in later.once:
            before = merged.get(each.reason)
            text = each.text if before is None else shorten(f"{before.text}; {each.text}", LONGEST_TEXT)
            merged[each.reason] = replace(each, text=text)
        latest = later if later.known is not None else replace(later, health=self.health, known=self.known)
        return replace(latest, once=tuple(merged.values()))


def find_reasons(news: SourceNews, rule: NotifySpec, now: datetime) -> tuple[FoundReason, ...]:
    """The reasons that hold now, whether or not ``rule`` wants to be told."""
    known = news.known
    if known is None:
        return ()
    found = [_find_failure(known), _find_lateness(known, rule, now), _find_void(known), _find_letters(known, rule)]
    return tuple(each for each in found if each is not None)


def _find_failure(known: Evidence) -> FoundReason | None:
    run = judge_run(replace(known, open_letters=0))
    table = judge_table(known) if known.problem else Health(HealthLevel.HEALTHY)
    if run.level.is_fine and table.level.is_fine:
        return None
    # A run that failed says more than a table that nobody could look at.
    health = table if run.level.is_fine else run
    return FoundReason(MessageReason.FAILED, health.reason, health.since, health.command)


def _find_lateness(known: Evidence, rule: NotifySpec, now: datetime) -> FoundReason | None:
    expected = rule.late_after or known.expect_every
    health = judge_freshness(replace(known, expect_every=expected), now)
    if health.level.is_fine or health.since is None or expected is None:
        return None
    last = known.last_data_at
    text = "it has never had any data" if last is None else f"no new data since {_shown(last)}"
    return FoundReason(MessageReason.LATE, text, health.since, health.command)


def _find_void(known: Evidence) -> FoundReason | None:
    has_nothing = known.outcome is Outcome.SUCCEEDED and not known.position and known.last_data_at is None
    if not known.empty and not has_nothing:
        return None
    text = EMPTIED if known.empty else "it ran, and has never had any data"
    return FoundReason(MessageReason.NO_DATA, text, None, name_command(known, "plan"))


def _find_letters(known: Evidence, rule: NotifySpec) -> FoundReason | None:
    limit = TOLERATED_DEAD_LETTERS if rule.dead_letters_above is None else rule.dead_letters_above
    letters = Evidence(
        known.pipeline, known.config, position=1, open_letters=known.open_letters, tolerated_letters=limit
    )
    health = judge_run(letters)
    if health.level.is_fine:
        return None
    return FoundReason(MessageReason.DEAD_LETTERS, health.reason, None, health.command)


@dataclass(frozen=True, slots=True)
class SentReason:
    """When a destination was last told of a reason; ``since`` when first, if it still ``holds`` as far as it knows."""

    at: datetime
    since: datetime
    holds: bool = False


@dataclass(frozen=True, slots=True)
class SentMessages:
    """What each destination was told about one source."""

    by_destination: Mapping[str, Mapping[MessageReason, SentReason]] = field(default_factory=dict)

    def find_due(self, destination: str, rule: NotifySpec, news: SourceNews, now: datetime) -> tuple[FoundReason, ...]:
        """The findings that the destination is to be told now."""
        sent = self.by_destination.get(destination, {})
        lasting = [each for each in find_reasons(news, rule, now) if each.reason in rule.on]
        wanted = [each for each in (*lasting, *news.once) if each.reason in rule.on]
        due = [each for each in wanted if _is_due(sent.get(each.reason), rule.every, now)]
        open_since = {reason: each.since for reason, each in sent.items() if each.holds}
        if news.known is None or lasting or not open_since or MessageReason.RECOVERED not in rule.on:
            return tuple(due)
        was = ", ".join(reason.value for reason in open_since)
        return (
            FoundReason(MessageReason.RECOVERED, f"it is well again (it was: {was})", min(open_since.values())),
            *due,
        )

    def note(self, destination: str, told: Iterable[FoundReason], now: datetime) -> SentMessages:
        """What was sent before, and what the destination was told ``now``."""
        sent = dict(self.by_destination.get(destination, {}))
        for each in told:
            if each.reason is MessageReason.RECOVERED:
                sent = {reason: replace(before, holds=False) for reason, before in sent.items()}
            else:
                before = sent.get(each.reason)
                since = before.since if before is not None and before.holds else now
                sent[each.reason] = SentReason(now, since, each.reason in LASTING)
        return SentMessages({**self.by_destination, destination: sent}).forget(now)

    def forget(self, now: datetime) -> SentMessages:
        """The same without what was sent long ago."""
        kept = {
            name: {reason: each for reason, each in sent.items() if now - each.at < FORGOTTEN_AFTER}
            for name, sent in self.by_destination.items()
        }
        return SentMessages({name: sent for name, sent in kept.items() if sent})

    def to_bytes(self) -> bytes:
        """The content of the object."""
        sent = {
            name: {
                reason.value: {"at": each.at.isoformat(), "since": each.since.isoformat(), "holds": each.holds}
                for reason, each in reasons.items()
            }
            for name, reasons in self.by_destination.items()
        }
        return json.dumps({"version": SENT_VERSION, "sent": sent}, ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> SentMessages:
        """Decode what was sent; what cannot be read, or is of a later release, counts as not sent."""
        try:
            data = load_json(content)
            if data["version"] != SENT_VERSION:
                return cls()
            return cls({str(name): _decode_reasons(reasons) for name, reasons in data["sent"].items()})
        # Never needed: a message that is sent twice does no harm.
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls()


def _decode_reasons(data: Mapping[str, Any]) -> dict[MessageReason, SentReason]:
    return {
        MessageReason(reason): SentReason(_moment(each["at"]), _moment(each["since"]), bool(each["holds"]))
        for reason, each in data.items()
        # Another release may know other reasons.
        if reason in MessageReason.__members__.values()
    }


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _is_due(sent: SentReason | None, every: timedelta, now: datetime) -> bool:
    # A clock that was set back must not silence a source for long.
    return sent is None or now - sent.at >= every or sent.at > now


def _shown(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%MZ}"


def name_destinations(rules: Iterable[NotifySpec]) -> tuple[str, ...]:
    """A name for each destination that holds no secret and stays the same from run to run."""
    names: list[str] = []
    for each in rules:
        name = str(each.to)
        same = sum(1 for known in names if known == name or known.startswith(f"{name} #"))
        names.append(f"{name} #{same + 1}" if same else name)
    return tuple(names)
