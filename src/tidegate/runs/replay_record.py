"""The record of a replay: which chunks are finished, kept in the table that is written.

The rows of a chunk are committed together with the record that has it finished. A chunk that moves the production
watermark is committed together with that instead, so that a run in between reads nothing twice, and is noted in the
record afterwards: killed between the two, it is read once more and takes its own place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from tidegate.errors import ColumnsChanged, CommitLost, StateError
from tidegate.failpoints import failpoint
from tidegate.planning.replay_handover import chunk_columns, chunk_zone, fitted_bounds, handed_over
from tidegate.runs.column_place import ColumnPlace, encoded
from tidegate.runs.place import Clock
from tidegate.specs import PipelineSpec
from tidegate.state.files import Change
from tidegate.state.identity import Identity, SourceKey
from tidegate.state.opened import Opened
from tidegate.state.store import PositionStore
from tidegate.state.work_areas import WorkRemover
from tidegate.state.written_files import KIND as WORK
from tidegate.storage.opening import open_store
from tidegate.watermarks.chunks import ChunkInterval, ReplayConfig
from tidegate.watermarks.column_state import ColumnState, text_of, watermark_text
from tidegate.watermarks.column_values import kind_of
from tidegate.watermarks.replay_state import KIND, ReplayState, decode, encode

TRIES_AGAINST_OTHERS = 5

Result = TypeVar("Result")
ChunkChange = Callable[[Opened], Change]
"""What a chunk changes in the table as it is then; the state is not in it."""


@dataclass(frozen=True, slots=True)
class _Handover:
    """The production position as it is, and the watermark that it goes on with."""

    opened: Opened
    before: ColumnState | None
    after: ColumnState


class ReplayRecord:
    """The record of one replay; ``pipeline`` says which table is written."""

    def __init__(self, place: ColumnPlace, pipeline: PipelineSpec, config: ReplayConfig, clock: Clock) -> None:
        self._place = place
        self._config = config
        self._clock = clock
        self.positions = replay_positions(place, pipeline)
        self.state = _asked_for(place, config)
        self.chunks = self.state.chunks
        self.saved: str | None = None
        self._moves: set[int] = set()

    def has_production_moved(self, since: int) -> bool:
        """Whether production committed after that position; what this replay moved itself does not count."""
        return not self._moves.issuperset(range(since + 1, self._place.positions.position() + 1))

    def resume(self, *, fresh: bool) -> tuple[bool, str | None]:
        """Go on with an unfinished record of the same chunks, else with a new one: whether some are finished, and what
        is given up for it.
        """
        opened = self.positions.open(read_only=True)
        found = None if fresh or opened.state is None else decode(opened.state)
        self.state = replace(self.state, begun=opened.version)
        if found is None or found.is_finished:
            return False, None
        if not found.is_same(self.state):
            return False, f"an unfinished replay is given up: {described(found)}"
        self.state = found
        return bool(found.finished), None

    def recorded_kind(self) -> str | None:
        """The kind of the bounds of an unfinished replay that is this one, but for dates that have become times."""
        opened = self.positions.open(read_only=True)
        found = None if opened.state is None else decode(opened.state)
        if found is None or found.is_finished:
            return None
        kind = kind_of(found.start)
        asked = _asked_for(self._place, fitted_bounds(self._config, kind, self._place.source.source_timezone))
        return kind if found.is_same(asked) else None

    def commit(self, number: int, change: ChunkChange) -> bool:
        """Commit a chunk; False where somebody else has finished it."""
        return _against_others(lambda: self._commit(number, change))

    def hand_over(self) -> None:
        """Let production go on where the finished chunks end, if it does not yet."""

        def moved() -> None:
            handover = self._handover(self.state)
            if handover is not None:
                self._move(handover, Change(state={}, embedded={}))

        _against_others(moved)

    def _commit(self, number: int, change: ChunkChange) -> bool:
        opened = self.positions.open()
        self.state = self._current(opened)
        if number in self.state.finished:
            return False
        after = self.state.with_finished(number, self._clock())
        handover = self._handover(after)
        failpoint("runs.commit.before")
        if handover is None:
            self._put(opened, change(opened), after)
        else:
            self._move(handover, change(handover.opened))
            _against_others(lambda: self._note(number))
        failpoint("runs.commit.after")
        return True

    def _note(self, number: int) -> None:
        """The chunk is in the table; say so."""
        opened = self.positions.open()
        self._put(opened, Change(state={}, embedded={}), self._current(opened).with_finished(number, self._clock()))

    def _put(self, opened: Opened, change: Change, state: ReplayState) -> None:
        text = encode(state)
        self.positions.commit(opened, replace(change, state=text, embedded=text, action=KIND))
        self.state = state

    def _current(self, opened: Opened) -> ReplayState:
        """The record as it is now: another process may carry out the same replay."""
        if opened.version == self.state.begun or opened.state is None:
            return self.state
        found = decode(opened.state)
        if found.begun < self.state.begun:
            return self.state
        if not found.is_same(self.state):
            raise StateError(
                f"{opened.key}: another replay was started meanwhile: {described(found)}",
                "let it finish, then start this one again",
            )
        return found

    def _handover(self, after: ReplayState) -> _Handover | None:
        """Where production would go on after these chunks; None where it stays."""
        reached = after.reached if self._config.save_watermark else None
        if reached is None:
            return None
        opened = self._place.open()
        before = self._place.state_of(opened)
        moved = handed_over(self._place.source, before, self._config.chunk_column, reached, self._clock())
        return None if moved is before else _Handover(opened, before, moved)

    def _move(self, handover: _Handover, change: Change) -> None:
        state = encoded(handover.after)
        debts = (*change.debts, *self._place.debts(handover.before, handover.after))
        after = self._place.positions.commit(
            handover.opened, replace(change, state=state, embedded=state, debts=debts, action=KIND)
        )
        self._moves.add(after.version)
        self.saved = watermark_text(handover.after)


def described(state: ReplayState) -> str:
    """What a replay is about, for people."""
    return f"{state.column} from {text_of(state.start)} up to {text_of(state.end)}"


def _against_others(attempt: Callable[[], Result]) -> Result:
    """Try again where others committed first."""
    for _ in range(TRIES_AGAINST_OTHERS - 1):
        try:
            return attempt()
        except (CommitLost, ColumnsChanged):
            continue
    return attempt()


def _asked_for(place: ColumnPlace, config: ReplayConfig) -> ReplayState:
    given = config.chunk_interval
    interval = given if given is None or isinstance(given, ChunkInterval) else ChunkInterval.of(given)
    columns = ", ".join(chunk_columns(place.source, config.chunk_column))
    zone = chunk_zone(place.source, config)
    return ReplayState(columns, config.start, config.end, interval, timezone=zone)


def replay_positions(place: ColumnPlace, pipeline: PipelineSpec) -> PositionStore:
    """Where the record of replays of this source is kept, in the table that is written."""
    site = place.positions.site
    store = open_store(pipeline.sink.table)
    return PositionStore(
        SourceKey(site.key.pipeline, f"{site.key.source}~{KIND}"),
        Identity(KIND, place.source.uri, None, place.source.notes, place.source.former_uri),
        pipeline.sink.table,
        store,
        checkpoint_every=site.checkpoint_every,
        search_commits=site.search_commits,
        evolution=site.evolution,
        properties=site.properties,
        payers={WORK: WorkRemover(store).pay},
        pace=site.pace,
        emit=site.emit,
    )
