"""Trackers of file sources: by a watermark per partition, and by the set of all paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.core.files.advance import Advance, PathSteps, SetSteps, apply_commits, mark_idle
from tidegate.core.files.discovery import NOT_IN_TIME, Known, PathListing, Reason, future_seals
from tidegate.core.files.edit import Sorted, sort_by_state
from tidegate.core.files.paths import SourceFile, join
from tidegate.core.files.plan import Plan, describe_unsearched
from tidegate.core.files.planner import Sizing, plan_paths, plan_set
from tidegate.core.files.state import (
    Covered,
    Failed,
    PathState,
    RecordsRead,
    Seal,
    SetState,
    decode_paths,
    decode_set,
    drop_window,
    encode_paths,
    encode_set,
)
from tidegate.errors import ColumnsChanged, CommitLost, ObjectChanged, ObjectMissing, StateError, TidegateError
from tidegate.protocol.change import Coverage, Identity, State
from tidegate.protocol.position import Position, utc_now
from tidegate.protocol.staging import Signal, signals_of
from tidegate.reports.checks import Check
from tidegate.reports.plan import WOULD_STOP, SourcePlan
from tidegate.reports.status import FailedFile
from tidegate.reports.watermark import StateTable
from tidegate.reports.wording import count
from tidegate.runs.checks import CheckSettings, collect_checks
from tidegate.runs.file_source import FileSource, FileTracker, SourceState, Steps, discover_files, plan_files
from tidegate.runs.path_segments import RememberedPaths
from tidegate.runs.tracker import (
    Abridged,
    Backlog,
    Comparable,
    ConfirmMove,
    Copied,
    Described,
    Editable,
    Examinable,
    HasPassRules,
    InParts,
    PassRules,
    Recoverable,
    Summary,
    Walk,
    WatermarkEdit,
)
from tidegate.schema.names import avro_library
from tidegate.sources.file_discovery import NameOrder, Order, discover_all, names_sort_in_time, sample_files, scope_of
from tidegate.sources.file_discovery import discover as discover_paths
from tidegate.specs.files import Format
from tidegate.specs.project import Delivery

if TYPE_CHECKING:
    from tidegate.reports.reconcile import SourceComparison
    from tidegate.reports.watermark import WatermarkMove
    from tidegate.runs.pass_ import Pass
    from tidegate.runs.reconcile import ComparisonRun
    from tidegate.storage.port import ObjectInfo

EXAMPLES = 10
# `status` answers for many sources at once; "at least 10,000" says as much to a person as the exact number.
BACKLOG_LIMIT = 10_000
ARROW, DATAFRAME = "arrow", "dataframe"


@dataclass(frozen=True, slots=True)
class FileTrackerBase(FileTracker, Described, HasPassRules, Copied, Editable, Recoverable, Comparable, Examinable):
    """The common part of both file trackers: one prefix of files, read by one walk."""

    kind: ClassVar[str]
    reads: ClassVar[str] = "reads files"
    instead: ClassVar[Mapping[str, str]] = {"replay": "a range is for column sources"}
    copy_in_debt: ClassVar[bool] = False
    # Files that vanish or change between listing and reading are left to a new listing.
    pass_rules: ClassVar[PassRules] = PassRules(
        20, (CommitLost, ColumnsChanged, ObjectMissing, ObjectChanged), keeps_position=True
    )

    @property
    def identity(self) -> Identity:
        """The prefix and the pattern."""
        return Identity(self.kind, self.source.location.uri, self.source.pattern)

    def walk(self, run: Pass) -> Walk:
        """Discover, plan, read, commit."""
        from tidegate.runs.file_walk import FileWalk

        return FileWalk(run)

    def plan(self, source: FileSource, now: datetime, *, accept_new_partitions: bool = False) -> SourcePlan:
        """Plan the next pass by the steps that it would take, without writing anything."""
        if source.pipeline.delivery is Delivery.STAGED:
            from tidegate.runs.staged import stage

            source = stage(source)
        # A plan may be asked for by somebody who may not write, and pays no debts.
        opened = source.open(read_only=True)
        state = source.state_of(opened)
        plan = plan_files(source, state, opened.version, now)
        waiting = len(_units_above(source, 0 if opened.parent is None else opened.parent.version))
        lane, why = _lane(source, opened)
        notes = (*opened.warnings, *why, *_obstacles(source, opened, plan), *_pending_notes(source, waiting))
        return SourcePlan(*source.names, plan, source.table_uri, lane=lane, notes=notes, pending_units=waiting)

    def backlog(self, source: FileSource, state: Any, version: int, now: datetime) -> Backlog:
        """What waits above the watermark; staged units count as done."""
        waiting = _units_above(source, version)
        known = Backlog()
        if waiting:
            source, state, known = _with_pending(source, state, version, waiting, now)
        plan = plan_files(source, state, version, now, limit=BACKLOG_LIMIT)
        ahead = plan.future_seals
        return replace(
            known,
            files=plan.files,
            bytes=plan.bytes,
            complete=plan.complete and not ahead,
            behind=True if plan.files else None if ahead else False,
            empty=not plan.any_files,
            sealed=_count_sealed(plan),
            notes=(*known.notes, *plan.findings, *plan.notes),
            left_out=plan.left_out,
            future_seals=ahead,
            remarks=self._not_looked_for(state, plan),
            remembers=self._remembers(state, plan),
        )

    def _not_looked_for(self, state: Any, plan: Plan) -> tuple[str, ...]:
        """What polls do not find, reported each time."""
        return ()

    def _remembers(self, state: Any, plan: Plan) -> str:
        """What the state remembers, if the plan knows more than the state; else nothing."""
        return ""

    def edit(self, source: FileSource, edit: WatermarkEdit, now: datetime, confirm: ConfirmMove) -> WatermarkMove:
        """Move the watermark, because a person says so."""
        from tidegate.runs.file_edit import edit_files

        return edit_files(source, edit, now, confirm)

    def read_next(self, source: FileSource, state: Any, version: int, now: datetime) -> str:
        """The files of the next plan, some by name."""
        plan = plan_files(source, state, version, now)
        paths = [each.path for unit in plan.groups for each in unit.slices]
        if not paths:
            return "no file: nothing at the source lies above that state"
        more = f" and {count(len(paths) - EXAMPLES, 'more', 'more')}" if len(paths) > EXAMPLES else ""
        listed = "" if plan.complete else "at least "
        return f"{listed}{count(len(paths), 'file')}: {', '.join(paths[:EXAMPLES])}{more}"

    def carry_forward(
        self, source: FileSource, state: Any, commits: Sequence[tuple[Coverage, ...]], now: datetime
    ) -> Any | None:
        """Impossible unless the state says how far each partition was read."""
        return None

    def compare(self, source: FileSource, run: ComparisonRun) -> SourceComparison:
        """Compare the listed files with the ledger."""
        from tidegate.runs.reconcile import compare_files

        return compare_files(source, run)

    def source_checks(self, source: FileSource, by: CheckSettings) -> list[Check]:
        """Whether the source answers, and whether its names sort in time."""
        name = f"source {self.key}"

        def look() -> Iterator[Check]:
            recorded = source.read_recorded()
            state = source.decode_recorded(recorded)
            backlog = self.backlog(source, state, 0 if recorded is None else recorded.version, utc_now())
            least = "" if backlog.complete else "at least "
            yield Check(name, "ok", f"{self.source.location.uri} answers; {least}{count(backlog.files, 'new file')}")
            wanted = str(backlog.left_out)
            warnings = (note for note in backlog.notes if not note.startswith(NOT_IN_TIME) and note != wanted)
            yield from (Check(name, "warn", note) for note in warnings)
            if self.source.format is Format.AVRO:
                avro_library()
            yield self._names_check(
                name, state, names_sort_in_time(sample_files(self.store, scope=scope_of(self.source)))
            )

        return collect_checks(name, look)

    def _names_check(self, name: str, state: Any, verdict: NameOrder) -> Check:
        """A check of the names: files that sort below the watermark are easily missed."""
        if verdict.order is Order.NOT_IN_TIME:
            remedy = (
                "files that sort below the watermark are found only inside the late window; name files by time "
                "(Unix time, ISO 8601 or UUIDv7 first)"
            )
            return Check(name, "warn", verdict.describe(), remedy)
        return Check(name, "ok", verdict.describe())

    def table_checks(self, source: FileSource, name: str, position: Position, state: Any) -> Iterator[Check]:
        """Compare the declared schema with the table's columns; raises as a run would if it does not fit.

        The columns after a transform are those of its result, which only a run knows.
        """
        from tidegate.runs.lanes import resolve_declared

        declared = resolve_declared(source, position) if source.pipeline.transform is None else None
        if declared is None or declared.existing is None:
            return
        new = [each for each in declared.table.names if each not in declared.existing.names]
        left = [each for each in declared.existing.names if each not in declared.table.names]
        if new:
            yield Check(name, "ok", f"the schema declares columns that the table does not have yet: {', '.join(new)}")
        if left:
            told = f"the table has columns that the schema does not declare: {', '.join(left)}"
            remedy = "new rows get null there; declare the columns under schema.fields if the files have them"
            yield Check(name, "warn", told, remedy)
        if not new and not left:
            yield Check(name, "ok", "the declared schema and the table have the same columns")

    def _summary(self, state: Any, encoded: Mapping[str, Any], **more: Any) -> Summary:
        unfinished = list(state.find_unfinished())
        updated = _moment(state.last_update_ts)
        return Summary(
            state=type(state.watermark).__name__,
            watermark=state.value,
            value=state.value,
            updated=updated,
            files=encoded["source_state"]["files"],
            state_files=len(state.files),
            in_progress=sum(1 for _, each in unfinished if isinstance(each, RecordsRead)),
            failed=tuple(
                FailedFile(path, each.reason, each.attempts) for path, each in unfinished if isinstance(each, Failed)
            ),
            last_committed_file=state.last_committed_file,
            **more,
        )


@dataclass(frozen=True, slots=True)
class PathTracker(FileTrackerBase, Abridged):
    """Remembers the greatest finished name of each partition."""

    kind: ClassVar[str] = "path"

    def _not_looked_for(self, state: PathState, plan: Plan) -> tuple[str, ...]:
        return describe_unsearched(self.source, state, plan.directories)

    def _remembers(self, state: PathState, plan: Plan) -> str:
        return _partitions(state, _count_sealed(plan))

    def decode(self, recorded: State | None) -> PathState:
        return PathState() if recorded is None else decode_paths(recorded)

    def fresh(self) -> PathState:
        return PathState()

    def encode(self, state: PathState) -> dict[str, object]:
        return encode_paths(state)

    def abridge(self, encoded: State) -> State:
        return drop_window(encoded)

    def make_copy(self, state: PathState) -> dict[str, object]:
        """The watermark, and the last finished file of each open partition."""
        finished = sorted(join(partition, name) for partition, name in state.partition_watermarks.items())
        return {"kind": self.kind, "watermark": state.value, "partitions": finished}

    def discover(self, state: PathState, now: datetime, *, limit: int, polls: int) -> PathListing:
        return discover_paths(self.store, self.source, state, now, limit=limit, poll_count=polls)

    def plan_listing(self, state: PathState, version: int, listing: PathListing, now: datetime, sizing: Sizing) -> Plan:
        plan = plan_paths(self.key.pipeline, self.source, state, version, listing, now, sizing=sizing)
        # A plan may be made for a time in the past (--at): seals are ahead only if they are ahead of the clock, too.
        return replace(plan, future_seals=future_seals(self.source, state, max(now, utc_now())))

    def steps(self, plan: Plan) -> Steps:
        return PathSteps(
            self.source,
            plan.listed,
            plan.now,
            complete=plan.complete,
            directories=plan.directories,
            seals_by=plan.seals_by,
        ).after

    def sort_files(self, state: PathState, files: Sequence[SourceFile], now: datetime) -> Sorted:
        return sort_by_state(self.source, state, files, now)

    def watermarks(self, state: PathState) -> PathState:
        return state

    def recount(self, state: PathState, polled: PathListing) -> PathState | None:
        counted = polled.directories.sealed
        sealed = {
            prefix: Seal(seal.below, counted[prefix])
            for prefix, seal in state.sealed.items()
            if seal.directories is not None and seal.directories < counted.get(prefix, 0)
        }
        return replace(state, sealed={**state.sealed, **sealed}) if sealed and polled.complete else None

    def idle(self, state: PathState, any_files: bool) -> PathState:
        return mark_idle(state, any_files)

    def carry_forward(
        self, source: FileSource, state: PathState, commits: Sequence[tuple[Coverage, ...]], now: datetime
    ) -> PathState | None:
        """The state after those commits; None without a state, or if they do not follow it."""
        if not commits:
            return None
        listing = discover_files(source, state, now)
        ranges = [
            [Covered(each.file, each.size, each.etag, each.start, each.end, each.eof) for each in coverage]
            for coverage in commits
        ]
        try:
            return apply_commits(self.source, state, ranges, listing.files, now)
        except StateError:
            return None

    def summary(self, state: PathState) -> Summary:
        encoded: dict[str, Any] = encode_paths(state)
        sealed = sum(seal.directories or 0 for seal in state.sealed.values())
        return self._summary(
            state,
            encoded,
            tracking="watermark",
            remembers=_partitions(state, sealed),
            facts=(("watermark", state.value), ("finished up to", state.last_committed_file)),
            tables=partial(
                state_tables, state.partition_watermarks, encoded["source_state"]["files"], encoded["sealed"]
            ),
            partitions=dict(state.partition_watermarks),
            open_partitions=len(state.partition_watermarks),
            sealed=encoded["sealed"],
            sealed_directories=sealed,
        )


@dataclass(frozen=True, slots=True)
class SetTracker(FileTrackerBase, InParts):
    """Remembers every path that was read, in segments below the table.

    With ``pending``, somebody else commits and writes the segments: until then the files of a step are kept there, by
    path, and are not read again.
    """

    kind: ClassVar[str] = "path-set"
    remembered: RememberedPaths
    pending: dict[str, SourceFile] | None = None

    def decode(self, recorded: State | None) -> SetState:
        return SetState() if recorded is None else decode_set(recorded)

    def fresh(self) -> SetState:
        return SetState()

    def encode(self, state: SetState) -> dict[str, object]:
        return encode_set(state)

    def make_copy(self, state: SetState) -> dict[str, object]:
        """The number of files read, and the greatest of their names: never the names themselves."""
        return {"kind": self.kind, "watermark": state.value, "files": state.remembered}

    def discover(self, state: SetState, now: datetime, *, limit: int, polls: int) -> PathListing:
        return discover_all(self.store, self.source, state, partial(self._look_up, state), limit=limit)

    def plan_listing(self, state: SetState, version: int, listing: PathListing, now: datetime, sizing: Sizing) -> Plan:
        return plan_set(self.key.pipeline, self.source, state, version, listing, now, sizing=sizing)

    def steps(self, plan: Plan) -> Steps:
        return SetSteps(self.source, plan.listed, plan.now, complete=plan.complete).after

    def sort_files(self, state: SetState, files: Sequence[SourceFile], now: datetime) -> Sorted:
        known = self._look_up(state, files)
        finished = tuple(file for file, what in zip(files, known, strict=True) if what is not Known.NEW)
        return Sorted(finished, tuple(file for file, what in zip(files, known, strict=True) if what is Known.NEW))

    def remember_again(self, state: SetState, files: Sequence[SourceFile]) -> SetState:
        """The set with the current sizes and etags of rewritten files."""
        known = self.remembered.look_up(state.segments, files)
        rewritten = [file for file, what in zip(files, known, strict=True) if what is Known.REWRITTEN]
        return self.remembered.renew(state, rewritten) if rewritten else state

    def edit(self, source: FileSource, edit: WatermarkEdit, now: datetime, confirm: ConfirmMove) -> WatermarkMove:
        """Forget every path, because a person says so."""
        from tidegate.runs.file_edit import forget_paths

        return forget_paths(source, edit, now, confirm)

    def _look_up(self, state: SetState, files: Sequence[SourceFile]) -> list[Known]:
        known = self.remembered.look_up(state.segments, files)
        if not self.pending:
            return known
        return [
            _compare_pending(self.pending.get(file.path), file) or what for file, what in zip(files, known, strict=True)
        ]

    def watermarks(self, state: SetState) -> PathState:
        """Only unfinished files: nothing can be late without a watermark."""
        return PathState(files=dict(state.find_unfinished()))

    def idle(self, state: SetState, any_files: bool) -> SetState:
        return mark_idle(state, any_files)

    def write_state(self, step: Advance[SetState]) -> SetState:
        if self.pending is None:
            return self.remembered.extend(step.state, step.finished)
        self.pending.update((file.path, file) for file in step.finished)
        return step.state

    def parts(self) -> Iterator[ObjectInfo]:
        """The existing segments."""
        folder = self.key.segment("").rpartition("/")[0]
        return (info for info in self.table_store.list(folder) if info.path.endswith(".parquet"))

    def parts_of(self, recorded: State) -> Iterator[str]:
        """The segments of a recorded state; none if it is not one of a set, as after a change of use_watermark."""
        match recorded.get("set"):
            case {"segments": list(segments)}:
                yield from (self.key.segment(str(each["sha256"])) for each in segments)

    def check_parts(self, state: SetState) -> None:
        self.remembered.check(state.segments)

    def rebuild(self, source: FileSource, position: Position, state: SetState) -> SetState:
        files: dict[str, SourceFile] = {}
        for document in source.ledger.chain(position.parent):
            # What was read before the set was emptied is not in it.
            if document.action == "watermark reset":
                break
            # From the newest down: a file that was read again is remembered as it was then.
            for each in (each for each in document.coverage if each.eof):
                files.setdefault(each.file, SourceFile(each.file, each.size, each.etag))
        # A set with one path missing would read that file again, without a word; so all of them, or none.
        if len(files) != state.remembered:
            raise StateError(
                f"{self.key}: the documents name {len(files):,} finished files, and the set had"
                f" {state.remembered:,}; nothing was written",
                "put the missing segments back from a backup, or write into a new table_uri to read everything again",
            )
        return self.remembered.extend(replace(state, segments=()), files.values())

    def keep_pending(self) -> SetTracker:
        """The committer writes segments: until then finished paths are kept here."""
        return replace(self, pending={})

    def forget_pending(self) -> None:
        """Start over with what is pending."""
        if self.pending is not None:
            self.pending.clear()

    def _names_check(self, name: str, state: SetState, verdict: NameOrder) -> Check:
        """The cost of remembering every path, and whether it is needed."""
        remembered = f"every poll lists all files and remembers their paths ({state.remembered:,} so far)"
        told = f"{remembered}; {verdict.describe()}"
        if verdict.order is Order.IN_TIME:
            return Check(name, "warn", told, "use_watermark: true, for a new table, lists only what is new")
        return Check(name, "ok", told)

    def summary(self, state: SetState) -> Summary:
        paths = count(state.remembered, "path")
        encoded: dict[str, Any] = encode_set(state)
        return self._summary(
            state,
            encoded,
            tracking="set",
            remembered=state.remembered,
            remembers=f"{paths} remembered, each poll lists the whole source",
            watermark_label="last read",
            facts=(("last read", state.value), ("remembered", paths)),
            tables=partial(state_tables, {}, encoded["source_state"]["files"], {}),
        )


def _count_sealed(plan: Plan) -> int:
    return next((each.count for each in plan.skipped if each.reason is Reason.SEALED), 0)


def _partitions(state: PathState, sealed: int) -> str:
    return f"{count(len(state.partition_watermarks), 'open partition')}, {sealed:,} sealed"


def state_tables(
    partitions: Mapping[str, str], files: Mapping[str, Any], sealed: Mapping[str, Any]
) -> tuple[StateTable, ...]:
    """The newest partitions first, then files by need: failed ones, those in progress, those above a gap."""
    return (
        StateTable("partition", "finished up to", dict(sorted(partitions.items(), reverse=True)), "partition"),
        StateTable("file", "progress", dict(sorted(files.items(), key=_need)), "file"),
        StateTable("sealed prefix", "below", sealed, "prefix", "prefixes"),
    )


def _need(item: tuple[str, object]) -> tuple[int, str]:
    path, progress = item
    if isinstance(progress, Mapping):
        return (0 if "Failed" in progress else 1), path
    return 2, path


def _compare_pending(read: SourceFile | None, listed: SourceFile) -> Known | None:
    """What is known of a listed file that may wait for its commit as ``read``."""
    if read is None:
        return None
    # A local disk has no etags, and a writer may not have known one.
    same = read.size == listed.size and (None in (read.etag, listed.etag) or read.etag == listed.etag)
    return Known.PENDING if same else Known.REWRITTEN


def _moment(seconds: int) -> datetime | None:
    """When a state changed last; None without a valid time."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    # The time comes from a document that somebody may have edited; it is only shown.
    except (ValueError, OverflowError, OSError):
        return None


def _with_pending(
    bound: FileSource, state: SourceState, version: int, waiting: Sequence[Signal], now: datetime
) -> tuple[FileSource, SourceState, Backlog]:
    """What waits for the committer, and the source and its state on top of it.

    If the units do not follow the state, or cannot be read, the state stays as it is: a note says so.
    """
    from tidegate.runs.staged import fold_units, read_group_at_once, with_memory_of_pending

    oldest = min(signal.since for signal in waiting)
    known = Backlog(pending_units=len(waiting), pending_seconds=max(0.0, (now - oldest).total_seconds()))
    try:
        units = [read_group_at_once(bound.positions.site, signal.seq) for signal in waiting]
        known = replace(known, pending_files=sum(len(unit.data_files) for unit in units))
        if [signal.seq for signal in waiting] != list(range(version + 1, version + 1 + len(waiting))):
            raise StateError("they do not follow the committed position", "look again")
        there = with_memory_of_pending(bound)
        return there, fold_units(there, state, units), known
    except (StateError, ObjectMissing) as error:
        return bound, state, replace(known, notes=(f"backlog without the staged units: {error.problem}",))


def _units_above(bound: FileSource, version: int) -> tuple[Signal, ...]:
    """The staged units that wait above a committed position."""
    return tuple(signal for signal in signals_of(bound.table_store, bound.key) if signal.seq > version)


def _pending_notes(bound: FileSource, units: int) -> tuple[str, ...]:
    if not units:
        return ()
    if bound.pipeline.delivery is Delivery.STAGED:
        return (f"after the staged units that wait for `tidegate commit`: {units:,}",)
    return (f"{WOULD_STOP}staged units wait ({units:,}); commit them with `tidegate commit CONFIG --once`",)


def _lane(bound: FileSource, opened: Position) -> tuple[str, tuple[str, ...]]:
    """The lane of a run, and why, or why there is none."""
    if bound.pipeline.transform is None and not opened.needs_frames:
        return ARROW, ()
    from tidegate.runs.lanes import frame_reasons

    try:
        return DATAFRAME, (f"Spark writes this table: {'; '.join(frame_reasons(bound, opened))}",)
    except TidegateError as error:
        return DATAFRAME, (f"{WOULD_STOP}{error}",)


def _obstacles(bound: FileSource, opened: Position, plan: Plan) -> tuple[str, ...]:
    """Why a run would stop before it reads anything, as far as known here."""
    if not plan.groups or opened.schema_json is None:
        return ()
    from tidegate.runs.lanes import as_read, resolve_declared

    try:
        resolve_declared(bound, as_read(bound, opened))
    except TidegateError as error:
        return (f"{WOULD_STOP}{error}",)
    return ()
