"""Tracking by a set: every path that was read is remembered, in segments below the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from tidegate.errors import StateError
from tidegate.planning.discovery import PathListing
from tidegate.planning.grouping import Sizing
from tidegate.planning.plan import Plan
from tidegate.planning.selecting import Sorted
from tidegate.planning.set_planner import plan_set
from tidegate.runs.tracking import Told
from tidegate.sources.files.set_discovery import discover_all
from tidegate.specs import PathSource
from tidegate.state.files import State
from tidegate.state.remembered import Known, RememberedPaths
from tidegate.storage.port import ObjectStore
from tidegate.watermarks.outcomes import FileOutcome
from tidegate.watermarks.path_set import SetAdvance, SetState, advance_set, idle_set
from tidegate.watermarks.paths import SourceFile
from tidegate.watermarks.set_codec import decode_set, encode_set


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

    def told(self, state: SetState) -> Told:
        return Told("set", remembered=state.remembered, files=len(state.files))


def _pending(read: SourceFile | None, listed: SourceFile) -> Known | None:
    """What is known of a listed file that may wait for its commit as ``read``."""
    if read is None:
        return None
    same = read.size == listed.size and (None in (read.etag, listed.etag) or read.etag == listed.etag)
    return Known.PENDING if same else Known.REWRITTEN
