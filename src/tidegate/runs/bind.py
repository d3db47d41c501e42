"""Binds the sources of a configuration, and gives each its tracker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard

from tidegate.core.watermark_text import WatermarkSerializer
from tidegate.errors import SourceError, StateError
from tidegate.observe.events import Emit, ignore
from tidegate.protocol.change import SourceKey, State
from tidegate.protocol.dead_letters import KIND as LETTERS
from tidegate.protocol.dead_letters import DeadLetterTable
from tidegate.protocol.documents import WORK
from tidegate.protocol.follow_ups import WorkRemover
from tidegate.protocol.ledger_blocks import describe_state
from tidegate.protocol.position import INFERRED_SCHEMA, InferredSchema, Pace, Payer, TableContext
from tidegate.protocol.store import PositionStore, StateCopy, manager_of, open_delta
from tidegate.runs.file_source import FileSource, FileTracker
from tidegate.runs.files import PathTracker, SetTracker
from tidegate.runs.path_segments import RememberedPaths
from tidegate.runs.tracker import (
    AnySource,
    BoundSource,
    Copied,
    HasDeadLetters,
    TrackedSource,
    Tracker,
    UnitBound,
    refuse,
)
from tidegate.specs.columns import ColumnSource
from tidegate.specs.files import PathSource, Tracking
from tidegate.specs.foreign import ForeignWriter
from tidegate.specs.project import PipelineSpec, ProjectSpec, SourceSpec
from tidegate.specs.units import UnitSource
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import TablePlaces, keep_apart, open_store

# Twice the cores, so that Spark always has the next task at hand while a finished one is received.
SLOTS_PER_CORE = 2


@dataclass(frozen=True, slots=True)
class Binding:
    """What a tracker can be made from."""

    project: ProjectSpec
    pipeline: PipelineSpec
    source: Any
    table_store: ObjectStore
    pace: Pace
    emit: Emit

    @property
    def key(self) -> SourceKey:
        """The owner of the position."""
        return SourceKey(self.pipeline.name, self.source.name)


def _files(binding: Binding) -> Tracker:
    pipeline, table_store = binding.pipeline, binding.table_store
    source = keep_apart(binding.source, TablePlaces.of(binding.project))
    letter_store = open_store(pipeline.dead_letters)
    letters = DeadLetterTable(
        letter_store,
        open_delta(pipeline.dead_letters, letter_store),
        binding.pace,
        checkpoint_every=pipeline.sink.delta_checkpoint_interval,
        emit=binding.emit,
    )
    store = open_store(source.location)
    match source.tracking:
        case Tracking.WATERMARK:
            return PathTracker(binding.key, source, store, table_store, letters)
        case Tracking.SET:
            remembered = RememberedPaths(table_store, binding.key)
            return SetTracker(binding.key, source, store, table_store, letters, remembered)


def _columns(binding: Binding) -> Tracker:
    from tidegate.runs.columns import ColumnTracker

    return ColumnTracker(binding.key, binding.source)


def _units(binding: Binding) -> Tracker:
    from tidegate.runs.units import UnitTracker

    return UnitTracker(binding.key, binding.source)


TRACKERS: dict[type, Callable[[Binding], Tracker]] = {
    PathSource: _files,
    ColumnSource: _columns,
    UnitSource: _units,
}
"""The maker of the tracker, by type of the source's spec. A line here is all that others have to know of a kind."""


def _copy(project: ProjectSpec, key: SourceKey, tracker: Tracker) -> StateCopy:
    """The copy that the project's state provider keeps of a source."""

    def text(recorded: State) -> str:
        state = tracker.decode(recorded)
        return WatermarkSerializer.serialize(
            tracker.make_copy(state) if isinstance(tracker, Copied) else tracker.encode(state)
        )

    in_debt = isinstance(tracker, Copied) and tracker.copy_in_debt
    return StateCopy(manager_of(project.state), str(key), text, in_debt=in_debt)


def _describe(tracker: Tracker, recorded: State) -> tuple[str | None, str | None]:
    """The name and the watermark of a recorded state; decoded only if its document does not say them."""
    name, watermark = describe_state(recorded)
    if name is not None:
        return name, watermark
    try:
        summary = tracker.summary(tracker.decode(recorded))
    # The ledger describes states of every position, also of kinds that the source had before; that must not stop it.
    except StateError:
        return None, None
    return summary.state or "Active", summary.watermark


def _payers(tracker: Tracker, table_store: ObjectStore, pipeline: PipelineSpec) -> dict[str, Payer]:
    """The payers of follow-ups, by kind of debt."""
    payers: dict[str, Payer] = {
        WORK: WorkRemover(table_store).pay,
        INFERRED_SCHEMA: InferredSchema(table_store, pipeline.name).pay,
    }
    if isinstance(tracker, HasDeadLetters):
        payers[LETTERS] = tracker.letters.pay
    return payers


def _second_mirror(writer: ForeignWriter | None, pipeline: PipelineSpec, source: SourceSpec) -> str | None:
    """Where another system's tools look for the checkpoint, if the configuration asks for one there."""
    wanted = isinstance(source, PathSource) and source.mirror_legacy
    return writer.checkpoint_of(pipeline.name, source.name) if writer is not None and wanted else None


def is_files(source: AnySource) -> TypeGuard[FileSource]:
    """Whether a source is one of files."""
    return isinstance(source.tracker, FileTracker)


def require_files(source: TrackedSource, command: str = "files") -> FileSource:
    """The source, which must be one of files."""
    if is_files(source):
        return source
    raise refuse(source, command, "allowed here: a pipeline whose source is files")


def require_units(source: TrackedSource) -> UnitBound:
    """The source, which must have work units."""
    from tidegate.runs.units import UnitTracker

    if isinstance(source.tracker, UnitTracker):
        return source
    raise refuse(source, "units", "allowed here: a source with a time or unit watermark")


def bind(
    project: ProjectSpec,
    pipeline: PipelineSpec,
    source: SourceSpec,
    parallelism: int = 1,
    emit: Emit = ignore,
    pace: Pace | None = None,
    turn: Callable[[], AbstractContextManager[object]] = nullcontext,
    run_id: str = "",
) -> TrackedSource:
    """Create the clients; sends nothing yet. ``pace`` replaces the project's time limits of commits.

    ``turn`` is entered while a commit is sent; sources of one table share it. Commits name ``run_id``.
    :class:`SourceError` for a table of a block that is refused.
    """
    if pipeline.refused is not None:
        raise SourceError(pipeline.refused.problem, pipeline.refused.remedy)
    table_store = open_store(pipeline.sink.table)
    pace = pace or Pace(deadline_secs=project.commit_deadline_secs)
    tracker = TRACKERS[type(source)](Binding(project, pipeline, source, table_store, pace, emit))
    site = TableContext(
        SourceKey(pipeline.name, source.name),
        tracker.identity,
        table_store,
        open_delta(pipeline.sink.table, table_store),
        checkpoint_every=pipeline.sink.delta_checkpoint_interval,
        search_commits=project.recovery_max_commits,
        evolution=pipeline.schema.evolution,
        properties=pipeline.sink.table_properties,
        second_mirror=_second_mirror(project.foreign.writer, pipeline, source),
        foreign=project.foreign.writer,
        payers=_payers(tracker, table_store, pipeline),
        describe=partial(_describe, tracker),
        pace=pace,
        emit=emit,
        turn=turn,
        run=run_id,
    )
    positions = PositionStore(site).with_copy(_copy(project, site.key, tracker))
    limits = [limit for limit in (pipeline.max_concurrent_files, project.total_concurrency) if limit]
    slots = min([*limits, parallelism * SLOTS_PER_CORE])
    return BoundSource(pipeline, tracker.source, table_store, positions, tracker, parallelism, slots)
