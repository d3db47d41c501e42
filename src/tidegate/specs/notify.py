"""Messages about the sources of a project: where they go, and for which reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated
from urllib.parse import urlsplit

from tidegate.specs.keys import Checked, CountOrNone, Key
from tidegate.specs.locations import Secret

SLACK_HOST = "hooks.slack.com"


class MessageReason(StrEnum):
    """Why a message is sent."""

    FAILED = "failed"
    RECOVERED = "recovered"
    LATE = "late"
    NO_DATA = "no_data"
    NEW_COLUMN = "new_column"
    DEAD_LETTERS = "dead_letters"
    UNIT_GIVEN_UP = "unit_given_up"


USUAL_REASONS = (
    MessageReason.FAILED,
    MessageReason.RECOVERED,
    MessageReason.LATE,
    MessageReason.DEAD_LETTERS,
    MessageReason.UNIT_GIVEN_UP,
)
"""What somebody has to look at; an emptied location and a new column are often meant."""


class MessageFormat(StrEnum):
    """The form of a message that is posted to an address."""

    JSON = "json"
    SLACK = "slack"


@dataclass(frozen=True, slots=True)
class DestinationSpec:
    """Where messages go: to an address or to a program."""

    webhook: Annotated[
        Secret | None, Checked("webhook"), Key("The address that messages are posted to; never shown.")
    ] = None
    format: Annotated[
        MessageFormat | None, Key("slack, or json; unset: slack for addresses of Slack, json for others.")
    ] = None
    command: Annotated[
        tuple[str, ...],
        Key("A program and its arguments, instead; it gets the message as JSON on its standard input."),
    ] = ()

    @property
    def host(self) -> str:
        """The host of the address, which is all that is shown of it."""
        try:
            return urlsplit(self.webhook.value).hostname or "" if self.webhook is not None else ""
        except ValueError:
            return ""

    @property
    def posted_as(self) -> MessageFormat:
        """The form of its messages."""
        return self.format or (MessageFormat.SLACK if self.host == SLACK_HOST else MessageFormat.JSON)

    def __str__(self) -> str:
        return f"command {self.command[0]}" if self.command else f"webhook {self.host or '***'}"


@dataclass(frozen=True, slots=True)
class NotifySpec:
    """One destination, and what it is told."""

    to: Annotated[DestinationSpec, Key("Where the messages go.")] = field(default_factory=DestinationSpec)
    on: Annotated[
        tuple[MessageReason, ...],
        Checked("reasons"),
        Key("The reasons for a message; unset: failed, recovered, late, dead_letters and unit_given_up."),
    ] = USUAL_REASONS
    late_after: Annotated[
        timedelta | None, Key("How long a source may be without new data, such as PT2H; unset: its expect_every.")
    ] = None
    dead_letters_above: Annotated[
        CountOrNone | None, Key("Open dead letters from which on a source is not well; unset: 100.")
    ] = None
    every: Annotated[
        timedelta,
        Checked("message_interval"),
        Key("The least time between two messages about the same source for the same reason."),
    ] = timedelta(hours=1)
    pipelines: Annotated[
        tuple[str, ...], Key("Only these pipelines and blocks of tables, by name or glob; unset: all.")
    ] = ()

    def concerns(self, pipeline: str, block: str | None = None) -> bool:
        """Whether it is told about a pipeline, which may be one of a ``block`` of tables."""
        names = (pipeline, *([block] if block is not None else []))
        return not self.pipelines or any(fnmatchcase(name, each) for each in self.pipelines for name in names)


def count_tolerated(rules: tuple[NotifySpec, ...], usual: int) -> int:
    """Open dead letters up to which a source is healthy: the fewest that somebody is told of, else ``usual``."""
    return min((each.dead_letters_above for each in rules if each.dead_letters_above is not None), default=usual)
