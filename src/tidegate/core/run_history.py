"""How the last runs of a source ended: also those that refused, failed before there was a table, or found nothing.

Runs in a row that ended alike share one entry, so that months of failures stay small and still say when they began.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from tidegate.core.health import STOPPING, Outcome
from tidegate.core.json_shape import load_json

MOST_ENTRIES = 30
MOST_ERROR_CHARACTERS = 1_000
HISTORY_VERSION = 1

_SUMS = ("times", "seconds", "files", "bytes", "rows", "commits", "dead_letters", "conflicts")


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run of a source, or ``times`` of them in a row that ended alike; numbers are those of all of them.

    ``began_at`` is when the first began, ``ended_at`` when the last ended, ``run`` the id of the last. ``failed`` files
    and work units are those of the last one.
    """

    run: str
    began_at: datetime
    ended_at: datetime
    outcome: Outcome
    error: str | None = None
    exit_code: int = 0
    times: int = 1
    seconds: float = 0.0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    commits: int = 0
    dead_letters: int = 0
    failed: int = 0
    conflicts: int = 0

    @property
    def has_data(self) -> bool:
        """Whether it read something new."""
        return bool(self.rows or self.files)

    def is_like(self, later: PastRun) -> bool:
        """Whether the ``later`` run shares an entry with this one: it ended alike, and tells nothing new."""
        alike = (self.outcome, self.error) == (later.outcome, later.error)
        # The passes of one continuous run are told as one; two scheduled runs with rows of their own are not.
        return alike and (self.run == later.run or not (self.has_data or later.has_data))

    def add(self, later: PastRun) -> PastRun:
        """This entry with the ``later`` run in it."""
        sums = {name: getattr(self, name) + getattr(later, name) for name in _SUMS}
        return replace(later, began_at=self.began_at, **sums)

    def to_stored(self) -> dict[str, Any]:
        """The stored form: what is zero or absent is left out."""
        data: dict[str, Any] = {
            "run": self.run,
            "began_at": self.began_at.isoformat(),
            "ended_at": self.ended_at.isoformat(),
            "outcome": self.outcome.value,
        }
        rest = {name: getattr(self, name) for name in ("error", "exit_code", "failed", *_SUMS)}
        return data | {name: value for name, value in rest.items() if value is not None and value != 0}

    @classmethod
    def from_stored(cls, data: Mapping[str, Any]) -> PastRun:
        """Decode an entry; ``KeyError``, ``ValueError`` or ``TypeError`` if it is none."""
        numbers = {name: int(data.get(name, 0)) for name in ("exit_code", "failed", *_SUMS)}
        seconds = float(data.get("seconds", 0))
        error = data.get("error")
        return cls(
            str(data["run"]),
            _moment(data["began_at"]),
            _moment(data["ended_at"]),
            Outcome(data["outcome"]),
            None if error is None else str(error),
            **(numbers | {"seconds": seconds}),  # type: ignore[arg-type]  # the numbers, by their names
        )


@dataclass(frozen=True, slots=True)
class RunHistory:
    """The last runs of a source, oldest first; ``last_success_at`` and ``last_data_at`` outlive their entries.

    ``first_at`` is the end of the first run that was ever recorded. ``totals`` add up all recorded runs: those numbers
    of theirs that can be added, ``failures``, the runs that an error ended, and the counters of their metrics.
    """

    runs: tuple[PastRun, ...] = ()
    first_at: datetime | None = None
    last_success_at: datetime | None = None
    last_data_at: datetime | None = None
    totals: Mapping[str, float] = field(default_factory=dict)

    @property
    def last(self) -> PastRun | None:
        """The last entry that says how the source is: a run that a person stopped says nothing."""
        return next((each for each in reversed(self.runs) if each.outcome is not Outcome.STOPPED), None)

    @property
    def last_since(self) -> datetime | None:
        """When runs began to end as the last one did: any failure, or any success, in an unbroken row."""
        since: datetime | None = None
        kind: bool | Outcome | None = None
        for each in reversed(self.runs):
            if each.outcome is Outcome.STOPPED:
                continue
            its_kind = True if each.outcome in STOPPING else each.outcome
            if kind is not None and kind != its_kind:
                break
            kind, since = its_kind, each.began_at
        return since

    def add(self, later: PastRun) -> RunHistory:
        """The history after one more run."""
        later = replace(later, error=None if later.error is None else _shorten(later.error))
        runs = self.runs
        runs = (*runs[:-1], runs[-1].add(later)) if runs and runs[-1].is_like(later) else (*runs, later)
        succeeded = later.outcome is Outcome.SUCCEEDED
        return RunHistory(
            runs[-MOST_ENTRIES:],
            self.first_at or later.ended_at,
            later.ended_at if succeeded else self.last_success_at,
            later.ended_at if later.has_data and later.commits else self.last_data_at,
            self._sum_up(later),
        )

    def count(self, counts: Mapping[str, float]) -> RunHistory:
        """The history with what counters have grown by, such as ``runs_total.failed``."""
        return replace(self, totals=_add(self.totals, counts))

    def _sum_up(self, later: PastRun) -> dict[str, float]:
        more = {name: getattr(later, name) for name in _SUMS} | {"failures": int(later.outcome in STOPPING)}
        return _add(self.totals, more)

    def to_bytes(self) -> bytes:
        """The content of the object."""
        moments = {name: getattr(self, name) for name in ("first_at", "last_success_at", "last_data_at")}
        told = {name: None if moment is None else moment.isoformat() for name, moment in moments.items()}
        runs = [each.to_stored() for each in self.runs]
        content = {"version": HISTORY_VERSION, **told, "totals": dict(self.totals), "runs": runs}
        return json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace")

    @classmethod
    def from_bytes(cls, content: bytes) -> RunHistory:
        """Decode a history; a damaged one, or one of a later release, tells nothing."""
        try:
            data = load_json(content)
            if data["version"] != HISTORY_VERSION:
                return cls()
            moments = (data[name] for name in ("first_at", "last_success_at", "last_data_at"))
            first, success, rows = (None if each is None else _moment(each) for each in moments)
            totals = {str(name): float(number) for name, number in data["totals"].items()}
            return cls(tuple(map(PastRun.from_stored, data["runs"])), first, success, rows, totals)
        # Never needed: what cannot be read is as good as not there.
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls()


def _add(totals: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    return {**totals, **{name: totals.get(name, 0) + number for name, number in more.items()}}


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return found


def _shorten(error: str) -> str:
    return error if len(error) <= MOST_ERROR_CHARACTERS else f"{error[: MOST_ERROR_CHARACTERS - 1]}…"
