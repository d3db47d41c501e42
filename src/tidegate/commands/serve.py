"""Serve: metrics and health of pipelines that run elsewhere, from what they left behind. Changes nothing.

Gauges are those of ``status``. Counters of rows, files, bytes and commits come from the ledger, which also has the
commits of runs that were killed, of replays and of ``tidegate commit``; all others from the recorded runs. Whoever
serves a source counts the same, so that a restart looks like nothing at all, and not like a counter that fell.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime

from tidegate.commands.project import Config, load
from tidegate.commands.status import bind_each, status_in
from tidegate.errors import TidegateError
from tidegate.protocol.ledger import Ledger
from tidegate.protocol.ledger_blocks import LedgerEntry
from tidegate.reports.status import SourceStatus
from tidegate.runs.tracker import TrackedSource
from tidegate.specs.masking import Mask
from tidegate.specs.project import ProjectSpec

FILES_PER_LOOK = 200_000
"""Commits, and files in them, that are counted at one look until a long history is counted once."""

Name = tuple[str, str]


def serve(
    config: Config,
    pipeline: str | None = None,
    *,
    address: str | None = None,
    every: float = 15.0,
    started: Callable[[str], None] = lambda address: None,
    stop: threading.Event | None = None,
) -> None:
    """Serve metrics and health of pipelines that run elsewhere, until ``stop`` is set or a signal comes.

    The numbers are those of ``status`` and of the ledger, at most ``every`` seconds old. ``address`` defaults to the
    configuration's; ``started`` gets it once the server answers.
    """
    from tidegate.observe.pages import serve_status
    from tidegate.runs.loop import stops_on_signals

    flag = stop or threading.Event()
    project = load(config, pipeline=pipeline)
    where = address or project.metrics.address
    counted = SourceCounts()

    def look() -> tuple[SourceStatus, ...]:
        # With blocks, runs elsewhere may have found other tables since.
        now = load(config, pipeline=pipeline) if project.blocks else project
        # Errors of drivers and servers may repeat what they were given, and anybody may read these pages.
        return Mask.around(now).deep(tuple(_look_at(now, pipeline, counted)))

    with (
        stops_on_signals(flag),
        serve_status(look, where, every, project.second_names, counted.counts) as found,
    ):
        started(found)
        flag.wait()


def _look_at(project: ProjectSpec, pipeline: str | None, counted: SourceCounts) -> Iterator[SourceStatus]:
    moment = datetime.now(UTC)
    counted.begin()
    for spec, source, bound in bind_each(project, pipeline):
        found = status_in(project, spec, source, bound, moment)
        if bound is not None:
            counted.look(bound, found)
        yield found


class LedgerCounts:
    """What the commits of one source brought in all; ``is_complete`` once it has counted the whole ledger."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self.is_complete = False
        self._next = 1
        self._left: Iterator[LedgerEntry] | None = None

    def look(self, ledger: Ledger, position: int, most: int) -> int:
        """Count what came since the last look, or about ``most`` of a long history; returns how much it was."""
        # An older copy of the table is in its place: what it commits from here on counts, and nothing is taken back.
        self._next = min(self._next, position + 1)
        if self._left is None and position < self._next:
            self.is_complete = True
            return 0
        # Kept from look to look: a block of the ledger is not read twice for its second half.
        self._left = self._left or ledger.entries(start=self._next)
        done = 0
        try:
            for entry in self._left:
                self._add(entry)
                done += 1 + len(entry.coverage)
                # Once complete, there are only a few new ones.
                if done >= most and not self.is_complete:
                    return done
        except TidegateError:
            self._left = None
            raise
        self._left, self.is_complete = None, True
        return done

    def _add(self, entry: LedgerEntry) -> None:
        self._next = entry.version + 1
        self.totals["commit_outcomes_total.committed"] += 1
        self.totals["records_processed_total"] += entry.rows
        for each in entry.coverage:
            if each.eof:
                self.totals[f"files_processed_total.{'dead' if each.given_up else 'finished'}"] += 1
                self.totals["bytes_read_total"] += each.size


_OF_LEDGER = (
    "commit_outcomes_total.committed",
    "records_processed_total",
    "files_processed_total.finished",
    "files_processed_total.dead",
    "bytes_read_total",
)


class SourceCounts:
    """The counters of all sources; none decreases, and those of a source are there once its ledger is counted."""

    def __init__(self, most: int = FILES_PER_LOOK) -> None:
        self._most = self._left = most
        self._ledgers: dict[Name, LedgerCounts] = {}
        self._recorded: dict[Name, dict[str, float]] = {}

    def begin(self) -> None:
        """Begin a look at all sources, which share the work of one look."""
        self._left = self._most

    def look(self, source: TrackedSource, status: SourceStatus) -> None:
        """Count what is new of a source."""
        recorded = self._recorded.setdefault(source.names, {})
        for key, number in status.totals.items():
            # Another run may have overwritten the record with an older one.
            recorded[key] = max(number, recorded.get(key, 0.0))
        counter = self._ledgers.setdefault(source.names, LedgerCounts())
        if status.error is None and (self._left > 0 or counter.is_complete):
            # The next look tries again; what is wrong is told by the next status of the source.
            with suppress(TidegateError):
                self._left -= counter.look(source.ledger, status.version, self._left)

    def counts(self) -> Mapping[Name, Mapping[str, float]]:
        """The counters of each source whose ledger is counted."""
        return {
            name: self._recorded[name] | {key: counter.totals[key] for key in _OF_LEDGER}
            for name, counter in self._ledgers.items()
            if counter.is_complete
        }
