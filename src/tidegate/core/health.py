"""The one health of a source: the worst of its last run, its freshness and its table.

``status``, ``/health``, metrics, reports and messages all ask :func:`judge`, so that a source is called the same
everywhere. A pipeline, a block of tables and a project have the health of their worst source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from shlex import quote

TOLERATED_DEAD_LETTERS = 100
"""Open dead letters up to which a source is healthy, unless a message is asked for earlier."""

EMPTIED = "its location is empty: it holds no file at all, read or not"

FAILING_AFTER = 3
"""So many times ``expect_every`` without new data, and a late source is a failing one."""


class HealthLevel(StrEnum):
    """How well a source is, from well to broken."""

    HEALTHY = "healthy"
    WAITING = "waiting"
    DEGRADED = "degraded"
    # Worse than degraded: nobody knows what is behind it. Better than failing: that is known to need somebody.
    UNKNOWN = "unknown"
    FAILING = "failing"

    @property
    def sign(self) -> str:
        """A sign for those who do not see colours."""
        return _SIGNS[self]

    @property
    def badness(self) -> int:
        """How much worse than healthy."""
        return _ORDER.index(self)

    @property
    def is_fine(self) -> bool:
        """Whether nobody needs to look."""
        return self in (HealthLevel.HEALTHY, HealthLevel.WAITING)


_ORDER = tuple(HealthLevel)
_SIGNS = {
    HealthLevel.HEALTHY: "●",
    HealthLevel.WAITING: "○",
    HealthLevel.DEGRADED: "▲",
    HealthLevel.UNKNOWN: "?",
    HealthLevel.FAILING: "✖",
}


class Outcome(StrEnum):
    """How a run of a source ended."""

    SUCCEEDED = "succeeded"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    REFUSED = "refused"
    STOPPED = "stopped"


STOPPING = (Outcome.FAILED, Outcome.REFUSED)
"""Outcomes of runs that an error ended."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a source, why, since when, and the command that repairs it, ready to copy."""

    level: HealthLevel
    reason: str = ""
    since: datetime | None = None
    command: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a source. ``problem`` is why its state cannot be read.

    ``outcome``, ``error``, ``outcome_since`` and ``exit_code`` are those of the last run that is recorded;
    ``outcome_since`` is when the first of an unbroken row of such runs began. ``position`` is 0 before
    the first commit.
    """

    pipeline: str
    config: str
    problem: str | None = None
    outcome: Outcome | None = None
    outcome_since: datetime | None = None
    error: str | None = None
    exit_code: int = 0
    position: int = 0
    failed_files: int = 0
    failed_units: int = 0
    open_letters: int = 0
    tolerated_letters: int = TOLERATED_DEAD_LETTERS
    empty: bool = False
    sealed_ahead: bool = False
    expect_every: timedelta | None = None
    last_data_at: datetime | None = None
    first_seen_at: datetime | None = None


def judge(known: Evidence, now: datetime) -> Health:
    """The worst of what speaks against the source; healthy, or waiting for its first rows, if nothing does."""
    return worst([judge_run(known), judge_freshness(known, now), judge_table(known)])


def judge_refusal(pipeline: str, config: str, error: str, exit_code: int) -> Health:
    """The health of a source whose next run would end with this error, as its plan tells."""
    known = Evidence(pipeline, config, error=error, exit_code=exit_code)
    return Health(HealthLevel.FAILING, error, None, _find_repair(known))


def worst(found: Iterable[Health]) -> Health:
    """The worst of several; of equally bad ones the first. Healthy if there is none.

    >>> worst([Health(HealthLevel.DEGRADED), Health(HealthLevel.HEALTHY)]).level
    <HealthLevel.DEGRADED: 'degraded'>
    """
    return max(found, key=lambda each: each.level.badness, default=Health(HealthLevel.HEALTHY))


def judge_run(known: Evidence) -> Health:
    """The health by how the last run ended, and by what it left behind."""
    since = known.outcome_since
    if known.outcome in STOPPING:
        verb = "refuses to run" if known.outcome is Outcome.REFUSED else "failed"
        reason = known.error or f"the last run {verb}"
        return Health(HealthLevel.FAILING, reason, since, _find_repair(known))
    failing: list[tuple[str, str]] = []
    if known.failed_units:
        failing.append(
            (_count(known.failed_units, "work unit") + " failed", name_command(known, "units list", "--failed"))
        )
    if known.failed_files:
        failing.append((_count(known.failed_files, "file") + " cannot be read", name_command(known, "status")))
    if known.open_letters > known.tolerated_letters:
        failing.append((_count(known.open_letters, "dead letter") + " open", name_command(known, "dlq list")))
    if failing:
        since = since if known.outcome is Outcome.INCOMPLETE else None
        return Health(HealthLevel.DEGRADED, " and ".join(reason for reason, _ in failing), since, failing[0][1])
    if known.outcome is None and not known.position:
        return Health(HealthLevel.WAITING, "it has not run yet", None, name_command(known, "run"))
    return Health(HealthLevel.HEALTHY)


def judge_freshness(known: Evidence, now: datetime) -> Health:
    """The health by when new data last came; healthy if nobody says how often it must."""
    last = known.last_data_at or known.first_seen_at
    if known.expect_every is None or last is None:
        return Health(HealthLevel.HEALTHY)
    due = last + known.expect_every
    if now <= due:
        return Health(HealthLevel.HEALTHY)
    level = HealthLevel.FAILING if now > last + FAILING_AFTER * known.expect_every else HealthLevel.DEGRADED
    what = f"no new data since {known.last_data_at:%Y-%m-%d %H:%M:%SZ}" if known.last_data_at else "no data ever"
    reason = f"late: {what}, although expect_every is {_period(known.expect_every)}"
    return Health(level, reason, due, name_command(known, "plan"))


def judge_table(known: Evidence) -> Health:
    """The health by the position, the table and the location of the source."""
    if known.problem:
        command = _find_command(known.problem, known.config, known.pipeline) or name_command(known, "doctor")
        return Health(HealthLevel.UNKNOWN, known.problem, None, command)
    if known.sealed_ahead:
        reason = "a clock that was ahead sealed folders: their new files are not read"
        return Health(HealthLevel.DEGRADED, reason, None, name_command(known, "reconcile", "--ingest"))
    if known.empty and known.position:
        return Health(HealthLevel.DEGRADED, EMPTIED, None, name_command(known, "plan"))
    return Health(HealthLevel.HEALTHY)


_BY_EXIT_CODE = {2: "config check", 3: "doctor", 4: "doctor", 5: "plan"}
_NAMED = re.compile(r"`(tidegate [a-z][^`]*)`")
_GROUPS = frozenset({"config", "dlq", "schema", "table", "units", "watermark", "files"})


def _find_repair(known: Evidence) -> str:
    """The command that the error names; else the one that finds out more about errors of its kind."""
    named = _find_command(known.error or "", known.config, known.pipeline)
    return named or name_command(known, _BY_EXIT_CODE.get(known.exit_code, "run"))


def _find_command(text: str, config: str, pipeline: str) -> str:
    """The first command that a remedy names in backquotes, with the configuration and the pipeline filled in.

    >>> _find_command("continue with `tidegate recover --accept restore`", "shop.yml", "orders")
    'tidegate recover shop.yml -p orders --accept restore'
    """
    found = _NAMED.search(text)
    if found is None:
        return ""
    words = found[1].split()
    named = 3 if words[1] in _GROUPS and len(words) > 2 else 2
    rest = [word for word in words[named:] if word != "CONFIG"]
    chosen = [] if "-p" in rest or "--pipeline" in rest else ["-p", quote(pipeline)]
    return " ".join([*words[:named], quote(config), *chosen, *rest])


def name_command(known: Evidence, name: str, *more: str) -> str:
    """A command about the pipeline, ready to copy."""
    chosen = () if name == "config check" else ("-p", quote(known.pipeline))
    return " ".join(["tidegate", name, quote(known.config), *chosen, *more])


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _period(period: timedelta) -> str:
    """A period as its key takes it.

    >>> _period(timedelta(hours=2)), _period(timedelta(days=1, minutes=30))
    ('PT2H', 'P1DT30M')
    """
    minutes, seconds = divmod(period.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days = f"{period.days}D" if period.days else ""
    parts = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if number)
    return f"P{days}" + (f"T{parts}" if parts else "")
