"""One pass over one source of any kind: open, walk, commit, until the walk ends.

A walk reads and proposes; the pass commits, counts and starts over if another run was first. Results count only once
they are committed: what was read on top of a lost position is discarded. Runs, replays, retries of dead letters and
fences are all walks of a pass. Besides it, only the committer of staged batches and a person's edit commit a position.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, runtime_checkable
from urllib.parse import urlsplit

from tidegate.errors import CommitLost, RunStopped, StorageError, TidegateError
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.protocol.change import Change, RowChanges, RowCount, SparkWrite, State
from tidegate.protocol.follow_ups import WorkArea, new_work_area, remove_work
from tidegate.protocol.position import Attempts, Position, utc_now
from tidegate.reports.status import FailedUnit
from tidegate.runs.engine import Engine, WaitingFrame
from tidegate.runs.schedule import give_place
from tidegate.runs.tracker import AnySource, Clock, PassRules, Walk

SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 60.0
"""Seconds before a pass that lost starts over, so that two do not collide again and again."""

ANOTHER_RUN = "another_run"
"""The reason to skip what another run does."""


def without_name(name: tuple[str, str], error: TidegateError) -> str:
    """The error without the name of the source, which stands beside it."""
    return str(error).removeprefix(f"{'/'.join(name)}: ")


@dataclass(slots=True)
class Totals:
    """The totals of a pass so far."""

    files: int = 0
    bytes: int = 0
    rows: int = 0
    changes: RowChanges = field(default_factory=RowChanges)
    commits: int = 0
    staged: int = 0
    table_version: int | None = None
    empty: bool = False
    skipped: dict[str, int] = field(default_factory=dict)
    unknown_fields: Counter[str] = field(default_factory=Counter)
    bad_records: int = 0
    dead_files: int = 0
    work_units: int = 0
    failed_units: list[FailedUnit] = field(default_factory=list)
    lacks_native: bool = False
    conflicts: int = 0


@runtime_checkable
class CommandWalk(Walk, Protocol):
    """The walk of a command: it opens the position in its own way, and nobody is told of a poll."""

    def open(self) -> Position:
        """The position to start from, or an error that says why the command cannot be carried out."""


@dataclass(frozen=True, slots=True)
class CommitCommand:
    """A command that makes one commit on top of the position as opened."""

    open: Callable[[], Position]
    go: Callable[[Position], Position]


class Pass:
    """Carries one source as far as possible now; ``state`` and ``totals`` say how far that was.

    ``since`` is the previous pass over the same source, whose last state is ``previous``. ``shared`` is what trackers
    of one run share, by name. ``unsaved`` is a state that could not be committed because there is no table. Commands
    that read nothing need no ``engine``; they have ``rules`` of their own.
    """

    def __init__(
        self,
        source: AnySource,
        engine: Engine | None = None,
        *,
        emit: events.Emit = events.ignore,
        stop: threading.Event | None = None,
        clock: Clock = utc_now,
        polls: int = 0,
        since: Pass | None = None,
        shared: dict[str, Any] | None = None,
        accept_new_partitions: bool = False,
        action: str = "run",
        rules: PassRules | None = None,
    ) -> None:
        self.totals = Totals()
        self.source = source.at_poll(polls)
        self.state: Any = source.tracker.decode(None)
        self.position: Position | None = None if since is None else since.position
        self.is_first = False
        self.is_opened = False
        self.before: Attempts | None = None
        self.unsaved: State | None = None
        self._engine = engine
        self.emit = emit
        self.stop = stop or threading.Event()
        self.clock = clock
        self.polls = polls
        self.previous: Any = None if since is None else since.state
        self.shared = {} if shared is None else shared
        self.accept_new_partitions = accept_new_partitions
        self.action = action
        self.names = source.names
        self._rules: PassRules = rules or source.pass_rules
        self._losses = 0
        self._began = 0.0
        self._is_first_pass = since is None
        self._told: set[str] = set()

    @property
    def engine(self) -> Engine:
        """The engine of a pass that reads."""
        assert self._engine is not None, "a walk that reads is given an engine"
        return self._engine

    def run(self, walk: Walk | None = None) -> Position:
        """Make the pass; raises what stopped it, and committed work stays. ``walk`` replaces the tracker's."""
        # One walk for all attempts: it remembers what this pass has tried already.
        chosen: Walk = walk or self.source.tracker.walk(self)
        while True:
            self._began = time.monotonic()
            try:
                self.position = chosen.go(chosen.open() if isinstance(chosen, CommandWalk) else self._begin())
                return self.position
            except self._rules.errors as error:
                # Nothing of the lost attempt is kept: what it planned may be read by the winner, or be done already.
                self._losses += 1
                self.totals.conflicts += isinstance(error, CommitLost)
                if self._losses == self._rules.tries or self.stop.is_set():
                    raise
                if self._rules.in_a_row and isinstance(error, CommitLost):
                    self._back_off()

    def _open(self) -> Position:
        """The position; if the tracker allows it, the one at which the previous pass ended, if still current."""
        before, self.position = self.position, None
        # One HEAD of the next log entry instead of an OPEN: polls of an idle source are mostly this request.
        if before is not None and self._rules.keeps_position and self.source.positions.is_current(before):
            # They were shown when the position was opened; an idle poll must not repeat them.
            return replace(before, warnings=())
        return self.source.open()

    def _begin(self) -> Position:
        """Open the position and say that a poll starts there."""
        position = self._open()
        for warning in position.warnings:
            self.notice(warning)
        self.emit(events.PollStarted(*self.names, position.version, position.table_version))
        # Before anything of the source is read: only now the features of the table are known.
        self.engine.check_write(str(self.source.key), position.needs_frames)
        self.begin_at(position)
        return position

    def begin_at(self, position: Position) -> None:
        """Continue from the state of ``position``."""
        self.is_opened, self.is_first, self.before = True, position.first_run, self.source.attempts(position)
        is_new = position.state is None
        self.state = self.source.state_after_attempts(self.before) if is_new else self.source.state_of(position)
        self._note_version(position)

    def commit(self, position: Position, change: Change, state: Any = None) -> Position:
        """Make ``change`` visible; returns the position after it, whose decoded state is ``state``."""
        failpoint("runs.commit.before")
        after = self.source.positions.commit(position, change)
        failpoint("runs.commit.after")
        self.state = state
        self.totals.commits += change.staged is None
        self.totals.staged += change.staged is not None
        self.totals.rows += after.rows if change.staged is None else change.write.rows
        # A staged unit has changed nothing yet: the committer makes its rows visible.
        if change.staged is None:
            self.totals.changes += after.changes
        self._note_version(after)
        # Progress was made, so the count of losses starts over.
        if self._rules.in_a_row:
            self._losses, self._began = 0, time.monotonic()
        return after

    def idle(self, position: Position, state: State | None = None) -> Position:
        """Show in the mirror that a run looked and found nothing, if there is a state to show."""
        shown = position.state if state is None else state
        return position if shown is None else self.source.positions.idle(position, shown)

    def notice(self, text: str) -> None:
        """Emit a notice about this source."""
        self.emit(events.Notice(*self.names, text))

    def notice_once(self, text: str) -> None:
        """Emit a notice that belongs to the configuration: in the first pass over this source only, and once."""
        if self._is_first_pass and text not in self._told:
            self._told.add(text)
            self.notice(text)

    @contextmanager
    def take_server_turn(self) -> Iterator[None]:
        """While inside, no other source of this run sends requests to a server that limits their rate."""
        request = self.source.source.request
        if getattr(request, "rate_limit", None) is None:
            yield
            return
        assert request is not None
        # By connection: its limit is that of all its sources together, and each of them would use up the whole.
        server = request.connection or urlsplit(request.url).netloc
        turn = self.shared.setdefault(f"turn of {server}", threading.Lock())
        with give_place(self.stop):
            while not turn.acquire(timeout=SHORTEST_PAUSE):
                if self.stop.is_set():
                    raise RunStopped(f"stopped while another source had its turn with {server}")
        try:
            yield
        finally:
            turn.release()

    def _note_version(self, position: Position) -> None:
        self.totals.table_version = position.table_version if position.table_version >= 0 else None

    def _back_off(self) -> None:
        """Leave the source to the winner, longer after each loss in a row, by the work that this pass lost."""
        # By the lost work, not by a fixed time: a pass of an hour that lost would lose again if it began at once.
        wasted = max(SHORTEST_PAUSE, time.monotonic() - self._began)
        self.stop.wait(min(LONGEST_PAUSE, wasted * 2.0 ** (self._losses - 1)) * (0.5 + random.random() / 2))


class Lane:
    """The way of rows through Spark: into a work area, and from there into the table by one commit.

    The commit owes the removal of the areas that it took rows from. As a context, or by :meth:`drop`, a lane removes
    those that no commit took. A process that dies leaves its own behind; ``clean_work`` of a later one removes them.
    """

    def __init__(self, source: AnySource) -> None:
        self._source = source
        self._areas: dict[str, WorkArea] = {}
        self._taken: tuple[WorkArea, ...] = ()

    def new_area(self) -> WorkArea:
        """A work area for rows that no commit refers to yet."""
        area = new_work_area(self._source.key, self._source.pipeline.sink.table)
        self._areas[area.name] = area
        return area

    def write(
        self,
        frame: WaitingFrame,
        opened: Position,
        partition_columns: tuple[str, ...],
        rows: int,
        counts: RowCount,
        areas: Collection[str] | None = None,
    ) -> SparkWrite:
        """The write of ``frame``, whose rows are in the areas of these names, or in all, on top of ``opened``."""
        self._taken = tuple(area for name, area in self._areas.items() if areas is None or name in areas)
        # One debt for all areas: its payer notes the data files of the commit, which must happen once.
        debts = tuple(area.debt(self._taken[1:]) for area in self._taken[:1])
        return SparkWrite(frame, frame.columns(opened.schema()), partition_columns, rows, counts, debts)

    def release(self) -> None:
        """Leave the areas of the last write to the commit that took them."""
        for area in self._taken:
            del self._areas[area.name]
        self._taken = ()

    def drop(self) -> None:
        """Remove the areas that no commit took, if possible now."""
        for area in self._areas.values():
            # Only space is lost: ``clean_work`` of a later run removes what is left after a day.
            with suppress(StorageError):
                remove_work(self._source.table_store, area.directory)
        self._areas.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.drop()
