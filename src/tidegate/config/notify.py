"""Messages: checks of their destinations, and what their keys mean together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from tidegate.config.column_source import lag
from tidegate.config.document import Block, Items, Notes, Problem, Spot, nearest, sentence
from tidegate.config.models import Model, Parts, dump, fields, part
from tidegate.config.values import check, duration, refusal, secret, texts
from tidegate.errors import ConfigError
from tidegate.specs.locations import Secret, split_address
from tidegate.specs.masking import MASK
from tidegate.specs.notify import DestinationSpec, MessageReason

_LEAST_INTERVAL = timedelta(minutes=1)


@check()
def webhook(value: object) -> Secret:
    """An address to post to; as a whole it is a secret: who knows it can post."""
    found = secret(value)
    try:
        parts = split_address(found.value.strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ConfigError:
        is_address = False
    # A shown configuration loads again, with its secrets masked.
    if not is_address and found.value != MASK:
        raise refusal("is not an address to post to", "allowed: https://HOST/PATH")
    return Secret(found.value.strip())


@check({"anyOf": [{"enum": [*MessageReason]}, {"items": {"enum": [*MessageReason]}, "type": "array"}]})
def reasons(value: object) -> tuple[MessageReason, ...]:
    """Reasons for messages, each once; a single one counts as a list of one."""
    words, known = texts(value), [each.value for each in MessageReason]
    if not words:
        raise refusal("is empty", "name a reason, or leave the key out")
    wrong = [each for each in words if each not in known]
    if wrong:
        raise refusal(f"{wrong[0]!r} is not one of {', '.join(known)}", nearest(wrong[0], known))
    return tuple(dict.fromkeys(map(MessageReason, words)))


@check(show=duration)
def message_interval(value: object) -> timedelta:
    """A duration that keeps a source that fails all the time from filling a channel."""
    found = lag(value)
    if found is None or found < _LEAST_INTERVAL:
        raise refusal("is not a time between messages", "allowed: from PT1M on, such as PT1H or P1D")
    return found


class DestinationModel(Model):
    """Where messages go: to an address or to a program."""

    spec: ClassVar = DestinationSpec
    takes: ClassVar[Parts] = (part(DestinationSpec),)

    @classmethod
    def show(cls, spec: DestinationSpec) -> dict[str, Any]:
        """The keys that have a value: the others exclude them."""
        return dump(cls, spec, [key for key in fields(cls) if getattr(spec, key)])


def _entries(top: Spot) -> Iterator[Spot]:
    found = top.get("notify")
    for at, item in enumerate(found if isinstance(found, Items) else ()):
        if isinstance(item, Block):
            yield Spot(top.root, ("notify", at), item)


def _has_late_after(entry: Spot) -> bool:
    return str(entry.text("late_after") or "none").lower() != "none"


def notify_problems(top: Spot) -> Iterator[Problem]:
    """Problems between keys of ``notify``."""
    names = [name for name, _ in top.each("pipelines")]
    for entry in _entries(top):
        to = entry.below("to")
        if not to.has("webhook") and not to.has("command"):
            yield entry.problem("names no destination; give a 'webhook' or a 'command'", "to")
        yield from to.both("command", "webhook")
        if to.has("command") and not to.words("command"):
            yield to.problem("is empty; name a program", "command")
        if to.has("format") and not to.has("webhook"):
            yield to.problem("works only with a webhook: a command always gets JSON; remove it", "format")
        if _has_late_after(entry) and entry.has("on") and MessageReason.LATE.value not in entry.words("on"):
            yield entry.problem("has no effect: 'on' does not have 'late'; add it, or remove late_after", "late_after")
        for pattern in entry.words("pipelines"):
            # Tables of a block get their names from the database.
            if not any(fnmatchcase(name, pattern) or pattern.startswith(f"{name}.") for name in names):
                text = sentence(f"{str(pattern)!r} matches no pipeline", nearest(pattern, names))
                yield entry.problem(text, "pipelines")


def note_notify(top: Spot, notes: Notes) -> None:
    """Notices about ``late`` where nobody says when that is."""
    expects = any(
        source.has("expect_every") for _, pipeline in top.each("pipelines") for _, source in pipeline.each("sources")
    )
    for entry in _entries(top):
        if MessageReason.LATE.value in entry.words("on") and not expects and not _has_late_after(entry):
            place = entry.path("on")
            notes.notices.append(f"{place}: nothing is ever late; give late_after, or expect_every of a source")
