"""Trackers of file sources: by watermark, and by a set of all paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from tidegate.core.files import codec
from tidegate.core.files.advance import Advance, advance, idle
from tidegate.core.files.discovery import PathListing
from tidegate.core.files.edit import Sorted, sorted_by_state
from tidegate.core.files.path_set import SetAdvance, SetState, advance_set, decode_set, encode_set, idle_set
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.plan import Plan
from tidegate.core.files.planner import Sizing, plan_paths, plan_set
from tidegate.core.files.state import FileOutcome, PathState
from tidegate.errors import StateError
from tidegate.protocol.change import State
from tidegate.protocol.path_segments import Known, RememberedPaths
from tidegate.runs.tracker import Summary
from tidegate.sources.file_discovery import discover, discover_all
from tidegate.specs.project import PathSource
from tidegate.storage.port import ObjectStore


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

    def told(self, state: PathState) -> Summary:
        sealed = codec.encode(state)["sealed"]
        assert isinstance(sealed, dict)
        return Summary(
            "watermark",
            partitions=dict(state.partition_watermarks),
            sealed=sealed,
            sealed_directories=sum(seal.directories or 0 for seal in state.sealed.values()),
            files=len(state.files),
        )


@dataclass(frozen=True, slots=True)
class SetTracker:
    """The set of paths of one source.

    With ``pending``, commits are left to somebody else, who also writes the segments: until then the files of a step
    are kept there, by path, and are not read again.
    """

    pipeline: str
    source: PathSource
    store: ObjectStore
    remembered: RememberedPaths
    kind: str = "path-set"
    pending: dict[str, SourceFile] | None = None

    def decode(self, recorded: State | None) -> SetState:
        return SetState() if recorded is None else decode_set(recorded)

    def discover(self, state: SetState, now: datetime, *, limit: int, polls: int) -> PathListing:
        return discover_all(self.store, self.source, state, partial(self._look_up, state), limit=limit)

    def plan(self, state: SetState, version: int, listing: PathListing, now: datetime, sizing: Sizing) -> Plan:
        return plan_set(self.pipeline, self.source, state, version, listing, now, sizing=sizing)

    def advance(self, state: SetState, plan: Plan, outcomes: Sequence[FileOutcome]) -> SetAdvance:
        return advance_set(self.source, state, plan.listed, outcomes, plan.now, complete=plan.complete)

    def sorted(self, state: SetState, files: Sequence[SourceFile], now: datetime) -> Sorted:
        known = self._look_up(state, files)
        finished = tuple(file for file, what in zip(files, known, strict=True) if what is not Known.NEW)
        return Sorted(finished, tuple(file for file, what in zip(files, known, strict=True) if what is Known.NEW))

    def _look_up(self, state: SetState, files: Sequence[SourceFile]) -> list[Known]:
        known = self.remembered.look_up(state.segments, files)
        if not self.pending:
            return known
        return [_pending(self.pending.get(file.path), file) or what for file, what in zip(files, known, strict=True)]

    def idle(self, state: SetState, any_files: bool) -> SetState:
        return idle_set(state, any_files)

    def written(self, step: SetAdvance) -> SetState:
        if self.pending is None:
            return self.remembered.including(step.state, step.finished)
        self.pending.update((file.path, file) for file in step.finished)
        return step.state

    def encode(self, state: SetState) -> dict[str, object]:
        return encode_set(state)

    def embedded(self, encoded: State) -> State:
        return encoded

    def check(self, state: SetState) -> None:
        self.remembered.check(state.segments)

    def rebuilt(self, state: SetState, read: Iterable[SourceFile]) -> SetState:
        files = {file.path: file for file in read}
        if len(files) != state.remembered:
            raise StateError(
                f"{self.pipeline}/{self.source.name}: the documents name {len(files):,} finished files, and the set had"
                f" {state.remembered:,}; nothing was written",
                "put the missing segments back from a backup, or write into a new table_uri to read everything anew",
            )
        return self.remembered.including(replace(state, segments=()), files.values())

    def told(self, state: SetState) -> Summary:
        return Summary("set", remembered=state.remembered, files=len(state.files))


def _pending(read: SourceFile | None, listed: SourceFile) -> Known | None:
    """What is known of a listed file that may wait for its commit as ``read``."""
    if read is None:
        return None
    same = read.size == listed.size and (None in (read.etag, listed.etag) or read.etag == listed.etag)
    return Known.PENDING if same else Known.REWRITTEN
