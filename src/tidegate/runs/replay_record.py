"""The record of a replay in the written table, and fences against writers that slept.

The rows of a chunk are committed together with its record. A chunk that moves the production watermark is committed
together with that instead, so that a run in between reads nothing twice, and is recorded afterwards: killed between the
two, it is read again and replaces itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.core.columns.replay import (
    KIND,
    ChunkInterval,
    ReplayConfig,
    ReplayState,
    chunk_columns,
    chunk_zone,
    decode,
    encode,
    fit_bounds,
    hand_over,
    is_covered,
)
from tidegate.core.columns.state import ColumnState, column_watermark_text, format_value, kind_of
from tidegate.errors import CommitLost, StateError, TidegateError
from tidegate.failpoints import failpoint
from tidegate.protocol.change import Change, Identity, NextState, SourceKey, State
from tidegate.protocol.documents import WORK
from tidegate.protocol.follow_ups import WorkRemover
from tidegate.protocol.ledger_blocks import describe_state
from tidegate.protocol.log import sources_of
from tidegate.protocol.position import Position
from tidegate.protocol.staging import COMMITTER
from tidegate.protocol.store import PositionStore, open_delta
from tidegate.reports.wording import count
from tidegate.runs.pass_ import CommitCommand, Pass
from tidegate.runs.tracker import AnySource, BoundSource, Clock, ColumnBound, PassRules, Replayable, StateKind
from tidegate.specs.columns import ColumnSource, Value
from tidegate.specs.project import PipelineSpec
from tidegate.storage.stores import open_store

TRIES_AGAINST_OTHERS = 5
_RULES = PassRules(TRIES_AGAINST_OTHERS)

ChunkChange = Callable[[Position, NextState], Change]
"""The change that writes a chunk into the table as opened, together with a state."""


def _no_rows(opened: Position, state: NextState) -> Change:
    return Change(state, action=KIND)


@dataclass(frozen=True, slots=True)
class _Handover:
    """The current production position, and the watermark that it continues with."""

    opened: Position
    before: ColumnState | None
    after: ColumnState


class ReplayRecord:
    """The record of one replay; ``pipeline`` has the written table."""

    def __init__(self, bound: ColumnBound, pipeline: PipelineSpec, config: ReplayConfig, clock: Clock) -> None:
        self._bound = bound
        self._config = config
        self._clock = clock
        self.source = replay_source(bound, pipeline)
        self.positions = self.source.positions
        self.state = _make_state(bound, config)
        self.chunks = self.state.chunks
        self.saved: str | None = None
        self._moves: set[int] = set()

    def has_production_moved(self, since: int) -> bool:
        """Whether production committed after that position; this replay's own moves do not count."""
        # Production may be moved by this very replay, which must not take itself for a rival.
        return not self._moves.issuperset(range(since + 1, self._bound.positions.position() + 1))

    def resume(self, production: ColumnState | None, *, fresh: bool, again: bool) -> tuple[bool, str | None]:
        """Continue an unfinished record of the same chunks, else start a new one.

        Returns whether some are finished, and a note about that. A finished replay that saves the watermark skips what
        the ``production`` watermark covers, unless ``again``.
        """
        opened = self.positions.open(read_only=True)
        found = None if fresh or opened.state is None else decode(opened.state)
        self.state = replace(self.state, begun=opened.version)
        if found is None or (found.is_finished and (again or not found.is_same(self.state))):
            return False, None
        if found.is_finished:
            return self._skip_covered(production or ColumnState())
        if not found.is_same(self.state):
            return False, f"an unfinished replay is abandoned: {describe_replay(found)}"
        self.state = found
        return bool(found.finished), None

    def _skip_covered(self, production: ColumnState) -> tuple[bool, str | None]:
        """Count chunks at or below the stored watermark as finished, if this replay saves its end."""
        columns = chunk_columns(self._bound.source, self._config.chunk_column)
        stored = [production.values.get(each) for each in columns] if self._config.save_watermark else []
        covered = frozenset(number for number, chunk in enumerate(self.chunks) if is_covered(chunk, stored))
        if not covered:
            return False, None
        self.state = replace(self.state, finished=covered)
        some = f"{len(covered):,} of {count(len(self.chunks), 'chunk')}"
        watermark = column_watermark_text(production)
        return True, (
            f"this replay was finished before: {some} end at or below the stored watermark ({watermark}) and are"
            " skipped; --again reads them again"
        )

    def find_recorded_kind(self) -> str | None:
        """The kind of the bounds of this replay's unfinished record, apart from dates that have become times."""
        opened = self.positions.open(read_only=True)
        found = None if opened.state is None else decode(opened.state)
        if found is None or found.is_finished:
            return None
        kind = kind_of(found.start)
        asked = _make_state(self._bound, fit_bounds(self._config, kind, self._bound.source.source_timezone))
        return kind if found.is_same(asked) else None

    def commit(self, number: int, change: ChunkChange) -> bool:
        """Commit a chunk; False if somebody else has finished it."""
        run = Pass(self.source, rules=_RULES)
        committed = False

        def go(opened: Position) -> Position:
            nonlocal committed
            self.state = self._current(opened)
            if number in self.state.finished:
                return opened
            after = self.state.with_finished(number, self._clock())
            handover = None if self._reached(after) is None else self._handover(self._bound.open(), after)
            if handover is None:
                position = self._put(run, opened, change, after)
            else:
                # Two commits, since a statement of Spark carries the transaction of one source only. The rows go with
                # the watermark: a kill in between repeats the chunk, which replaces itself; the other way round, a run
                # in between would append its rows again.
                self._move(handover, change)
                position = self._note(number)
            committed = True
            return position

        run.run(CommitCommand(self.positions.open, go))
        return committed

    def hand_over(self) -> None:
        """Let production continue where the finished chunks end, if it does not yet."""

        def go(opened: Position) -> Position:
            handover = self._handover(opened, self.state)
            return opened if handover is None else self._move(handover, _no_rows)

        if self._reached(self.state) is not None:
            Pass(self._bound, rules=_RULES).run(CommitCommand(self._bound.open, go))

    def _note(self, number: int) -> Position:
        """Record that the chunk is in the table."""
        run = Pass(self.source, rules=_RULES)

        def go(opened: Position) -> Position:
            return self._put(run, opened, _no_rows, self._current(opened).with_finished(number, self._clock()))

        return run.run(CommitCommand(self.positions.open, go))

    def _put(self, run: Pass, opened: Position, change: ChunkChange, state: ReplayState) -> Position:
        after = run.commit(opened, change(opened, NextState.of(encode(state))))
        self.state = state
        return after

    def _current(self, opened: Position) -> ReplayState:
        """The current record: another process may carry out the same replay."""
        if opened.version == self.state.begun or opened.state is None:
            return self.state
        found = decode(opened.state)
        # The record of an earlier replay: this one has begun since, and replaces it with its first commit.
        if found.begun < self.state.begun:
            return self.state
        if not found.is_same(self.state):
            raise StateError(
                f"{opened.key}: another replay was started meanwhile: {describe_replay(found)}",
                "let it finish, then start this one again",
            )
        return found

    def _reached(self, after: ReplayState) -> Value | None:
        """Up to where the finished chunks leave no gap, if production is to continue there."""
        return after.reached if self._config.save_watermark else None

    def _handover(self, opened: Position, after: ReplayState) -> _Handover | None:
        """Where production, as opened, would continue after these chunks; None if it stays."""
        reached = self._reached(after)
        assert reached is not None
        before = self._bound.state_of(opened)
        moved = hand_over(self._bound.source, before, self._config.chunk_column, reached, self._clock())
        return None if moved is before else _Handover(opened, before, moved)

    def _move(self, handover: _Handover, change: ChunkChange) -> Position:
        state = NextState.of(self._bound.tracker.encode(handover.after))
        # Not retried here: the outer pass opens both positions again and recomputes where production stands.
        after = Pass(self._bound).commit(handover.opened, change(handover.opened, state))
        self._moves.add(after.version)
        self.saved = column_watermark_text(handover.after)
        return after


def describe_replay(state: ReplayState) -> str:
    """A description of a replay for people."""
    return f"{state.column} from {format_value(state.start)} up to {format_value(state.end)}"


def _make_state(bound: ColumnBound, config: ReplayConfig) -> ReplayState:
    given = config.chunk_interval
    interval = given if given is None or isinstance(given, ChunkInterval) else ChunkInterval.of(given)
    columns = ", ".join(chunk_columns(bound.source, config.chunk_column))
    zone = chunk_zone(bound.source, config)
    return ReplayState(columns, config.start, config.end, interval, timezone=zone)


@dataclass(frozen=True, slots=True)
class ReplayStates(StateKind):
    """The states of replays of a column source, which have their own position in the table they write."""

    source: ColumnSource

    @property
    def identity(self) -> Identity:
        return Identity(KIND, self.source.uri, None, self.source.notes)

    def decode(self, recorded: State | None) -> ReplayState | None:
        """The record; None without a replay."""
        return None if recorded is None else decode(recorded)

    def fresh(self) -> ReplayState:
        """A finished, empty record: the next replay starts new."""
        return ReplayState("", 0, 1, finished=frozenset({0}))

    def encode(self, state: ReplayState) -> dict[str, object]:
        return dict(encode(state))


def replay_source(bound: ColumnBound, pipeline: PipelineSpec) -> BoundSource[ColumnSource, ReplayStates]:
    """Replays of this source, as a source of their own in the written table."""
    site = bound.positions.site
    store = open_store(pipeline.sink.table)
    states = ReplayStates(bound.source)
    replays = replace(
        site,
        # A position of its own: a long replay must not block, or be lost to, the runs of its source.
        key=SourceKey(site.key.pipeline, f"{site.key.source}~{KIND}"),
        identity=states.identity,
        store=store,
        delta=open_delta(pipeline.sink.table, store),
        second_mirror=None,
        polls=0,
        payers={WORK: WorkRemover(store).pay},
        # Providers keep the production watermark; a replay's record would overwrite it.
        owed=lambda before, after: (),
        describe=describe_state,
    )
    return BoundSource(pipeline, bound.source, store, PositionStore(replays), states, 1, 1)


FENCE_TRIES = 20


def replays_in(table: AnySource, sources: Sequence[AnySource]) -> list[AnySource]:
    """The replays of ``sources`` that have, or tried to make, a position in this table."""
    written = sources_of(table.table_store)
    replays = (each.tracker.replays(each, table.pipeline) for each in sources if isinstance(each.tracker, Replayable))
    return [each for each in replays if each.key in written]


def fence(writers: Sequence[AnySource]) -> datetime:
    """Make an empty commit for every writer; returns the store's time of the first of them.

    Whoever read the position of a source before that can never commit any more.
    """
    return min(_fence(writer) for writer in writers)


def _fence(writer: AnySource) -> datetime:
    # Not ColumnsChanged: a commit without rows has no columns that could differ.
    run = Pass(writer, rules=PassRules(FENCE_TRIES, (CommitLost,)))
    after = run.run(CommitCommand(writer.positions.open, lambda opened: run.commit(opened, _nothing(writer, opened))))
    assert after.parent is not None
    failpoint("runs.fence.after")
    # The store's clock, as for the files that are compared with it: this machine's may be off by hours.
    return writer.table_store.head(writer.key.document(after.version, after.parent.attempt)).modified


def _nothing(writer: AnySource, opened: Position) -> Change:
    """A change that changes nothing."""
    tracker = writer.tracker
    if opened.state is not None:
        # Decoded only to check: a fence must not carry a state on that no run could read.
        writer.state_of(opened)
        return Change(NextState(opened.state, writer.abridge(opened.state)), action="reconcile")
    state = tracker.encode(tracker.fresh())
    return Change(NextState(state, writer.abridge(state)), action="reconcile")


def check_all_known(writers: Sequence[AnySource], uri: str) -> None:
    """Stop if the table has positions of sources that are not among ``writers``: they cannot be fenced from here."""
    strangers = sources_of(writers[0].table_store) - {COMMITTER, *(each.key for each in writers)}
    if strangers:
        named = ", ".join(sorted(map(str, strangers)))
        raise TidegateError(
            f"{uri} is also written by {named}, which this configuration does not have: "
            "they cannot be fenced, so their unfinished work could be taken for orphans; nothing was removed",
            "clean with a configuration that has all sources of the table; add a source that is gone for good "
            "once more for this",
        )
