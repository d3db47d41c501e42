"""The position of a source in the log of its table, with the settings of its pipeline."""

from __future__ import annotations

from tidegate.observe.events import Emit
from tidegate.specs import PipelineSpec, ProjectSpec
from tidegate.state.identity import Identity, SourceKey
from tidegate.state.pace import Pace
from tidegate.state.store import PositionStore
from tidegate.state.work_areas import WorkRemover
from tidegate.state.written_files import KIND as WORK
from tidegate.storage.port import ObjectStore


def log_positions(
    project: ProjectSpec,
    pipeline: PipelineSpec,
    source: str,
    identity: Identity,
    table_store: ObjectStore,
    emit: Emit,
    pace: Pace | None,
) -> PositionStore:
    """For a source whose rows go through work areas; sends nothing yet."""
    return PositionStore(
        SourceKey(pipeline.name, source),
        identity,
        pipeline.sink.table,
        table_store,
        checkpoint_every=pipeline.sink.delta_checkpoint_interval,
        search_commits=project.recovery_max_commits,
        evolution=pipeline.schema.evolution,
        properties=pipeline.sink.table_properties,
        payers={WORK: WorkRemover(table_store).pay},
        pace=pace or Pace(deadline_secs=project.commit_deadline_secs),
        emit=emit,
    )
