"""Tracking by watermarks: the greatest finished name of each partition is remembered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.planning.discovery import PathListing
from tidegate.planning.grouping import Sizing
from tidegate.planning.path_planner import plan_paths
from tidegate.planning.plan import Plan
from tidegate.planning.selecting import Sorted, sorted_by_state
from tidegate.runs.tracking import Told
from tidegate.sources.files.discovery import discover
from tidegate.specs import PathSource
from tidegate.state.files import State
from tidegate.storage.port import ObjectStore
from tidegate.watermarks import codec
from tidegate.watermarks.advance import Advance, advance, idle
from tidegate.watermarks.outcomes import FileOutcome
from tidegate.watermarks.path_state import PathState
from tidegate.watermarks.paths import SourceFile


@dataclass(frozen=True, slots=True)
class PathTracker:
    """Path watermarks of one source."""

    pipeline: str
    source: PathSource
    store: ObjectStore
    kind: str = "path"

    def decode(self, recorded: State | None) -> PathState:
        return PathState() if recorded is None else codec.decode(recorded)

    def discover(self, state: PathState, now: datetime, *, limit: int, polls: int) -> PathListing:
        return discover(self.store, self.source, state, now, limit=limit, poll_count=polls)

    def plan(self, state: PathState, version: int, listing: PathListing, now: datetime, sizing: Sizing) -> Plan:
        return plan_paths(self.pipeline, self.source, state, version, listing, now, sizing=sizing)

    def advance(self, state: PathState, plan: Plan, outcomes: Sequence[FileOutcome]) -> Advance:
        return advance(
            self.source,
            state,
            plan.listed,
            outcomes,
            plan.now,
            complete=plan.complete,
            directories=plan.directories,
        )

    def sorted(self, state: PathState, files: Sequence[SourceFile], now: datetime) -> Sorted:
        return sorted_by_state(self.source, state, files, now)

    def idle(self, state: PathState, any_files: bool) -> PathState:
        return idle(state, any_files)

    def written(self, step: Advance) -> PathState:
        return step.state

    def encode(self, state: PathState) -> dict[str, object]:
        return codec.encode(state)

    def embedded(self, encoded: State) -> State:
        return codec.embedded(encoded)

    def check(self, state: PathState) -> None:
        """A state of watermarks refers to nothing."""

    def rebuilt(self, state: PathState, read: Iterable[SourceFile]) -> PathState:
        return state

    def told(self, state: PathState) -> Told:
        sealed = codec.encode(state)["sealed"]
        assert isinstance(sealed, dict)
        return Told(
            "watermark",
            partitions=dict(state.partition_watermarks),
            sealed=sealed,
            sealed_directories=sum(seal.directories or 0 for seal in state.sealed.values()),
            files=len(state.files),
        )
