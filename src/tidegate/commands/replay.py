"""Replay of files: reads chosen source files again, and replaces their old rows in one commit.

A replay that misses old rows doubles them. Rows are found by the column that names their file; without it, whole data
files are, by the ledger (``ledger_replay``). Rows under another location of the same source are refused.

By the column, the ordinary tasks read the files into a work area below the table that no commit refers to. From there
the rows stream into one Delta commit that removes the old rows, adds the new ones and moves the position by one. By the
ledger, they write data files as a run does, and the commit removes the old ones. An unreadable file stops the whole
replay, and nothing changes. Bad lines become dead letters as in a run, and the earlier letters of these files are
answered.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from tidegate.commands.ledger_replay import LedgerChoice, choose_by_ledger, describe_rest
from tidegate.commands.project import Config, agree, load, on_engine, open_engine, source_of, without_secrets
from tidegate.core.files.discovery import EXAMPLES, Skipped, accepts, is_behind
from tidegate.core.files.edit import Selection
from tidegate.core.files.paths import SourceFile, sort_key
from tidegate.core.files.plan import FileGroup, FileSlice, Plan
from tidegate.core.files.planner import group_files
from tidegate.core.files.state import Changed, FileOutcome, Refused
from tidegate.errors import CommitLost, ObjectChanged, SourceError, TidegateError, UnsupportedTable
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.parquet.parquet_file import uuid7
from tidegate.protocol.change import (
    Change,
    Coverage,
    NextState,
    ReplaceFiles,
    ReplaceRows,
    SourceKey,
    Write,
    Written,
    write_files,
)
from tidegate.protocol.delta import literal, rows_by_value
from tidegate.protocol.ledger_blocks import REPLAYED_FILES
from tidegate.protocol.position import Position, utc_now
from tidegate.reports.replay import ColumnReplayReport, ReplayReport
from tidegate.reports.watermark import FileSet
from tidegate.reports.wording import count
from tidegate.runs.bind import require_files
from tidegate.runs.engine import FileTasks
from tidegate.runs.file_edit import DeadLetterSelection as LetterChoice
from tidegate.runs.file_edit import select_letters, write_answers
from tidegate.runs.file_source import FileSource, SourceState, sizing_of
from tidegate.runs.file_walk import coverage_of, letter_debts, letters_of, read_all
from tidegate.runs.lanes import TableColumnsPlan, frame_reasons, resolve_columns
from tidegate.runs.loop import stops_on_signals
from tidegate.runs.pass_ import CommitCommand, Lane, Pass
from tidegate.runs.tracker import AnySource, Clock, PassRules
from tidegate.schema.dead_letter import REPLAYED
from tidegate.sources.file_discovery import scope_of
from tidegate.specs.files import PathSource
from tidegate.specs.locations import Location
from tidegate.specs.project import ProjectSpec
from tidegate.storage.stores import open_store
from tidegate.tasks.read_task import GroupResult, ReadTask
from tidegate.tasks.row_task import FILE_BYTES, rows_of

FILE_COLUMN = "_source_file"
MOST_FILES = 10_000
"""The names go into the predicate, and that into the log: this many take less than a second and a megabyte."""


def replay(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    files: str | None = None,
    partition: str | None = None,
    drop_missing: bool = False,
    widen: bool = False,
    confirm: Callable[[ReplayReport], bool] = agree,
    emit: events.Emit = events.ignore,
    stop: threading.Event | None = None,
    engine: str | None = None,
) -> ReplayReport:
    """Read finished files again and replace exactly their rows, in one commit, if ``confirm`` agrees.

    ``files`` is a pattern, ``partition`` a directory of the source: give one of them. An unreadable file raises and
    nothing changes. ``drop_missing`` also removes the rows of files that are no longer in the source. Without
    ``_source_file`` in ``sink.metadata_columns`` the ledger says which data files have the rows; ``widen`` also replays
    the other files with rows in these. Uses the engine as ``run`` does.
    """
    selection = Selection(files, None if partition is None else partition.strip("/"))
    flag = stop or threading.Event()
    project = on_engine(load(config), engine, pipeline=pipeline)
    told = without_secrets(emit, project)
    bound = require_files(source_of(project, pipeline, source), "replay")
    with open_engine(project, told, flag) as opened, stops_on_signals(flag):
        made = FileReplay(
            bound,
            opened,
            selection,
            drop_missing=drop_missing,
            widen=widen,
            others=other_locations(project, bound),
            beside=other_sources(project, bound),
            emit=told,
            stop=flag,
        )
        return made.run(confirm)


BoundT = TypeVar("BoundT", bound=AnySource)
ReportT = TypeVar("ReportT", ReplayReport, ColumnReplayReport)


class Replay(ABC, Generic[BoundT, ReportT]):
    """One replay of one source: plan, agree, carry out. Subclasses decide what is read and which rows are replaced."""

    def __init__(self, bound: BoundT, emit: events.Emit, stop: threading.Event | None, clock: Clock) -> None:
        self._bound = bound
        self._emit = emit
        self._stop = stop or threading.Event()
        self._clock = clock
        self._names = bound.names
        self.is_needed = True

    @abstractmethod
    def plan(self) -> ReportT:
        """What would be done, and whether it ``is_needed``; writes nothing and needs no Spark."""

    @abstractmethod
    def carry_out(self, planned: ReportT) -> ReportT:
        """Carry it out and report the result."""

    def run(self, confirm: Callable[[ReportT], bool] = agree) -> ReportT:
        """Carry the replay out if ``confirm`` agrees; report what was done, or would have been."""
        started = time.monotonic()
        planned = self.plan()
        if not self.is_needed or not confirm(planned):
            return planned
        return replace(self.carry_out(planned), applied=True, seconds=time.monotonic() - started)


@dataclass(frozen=True, slots=True)
class ReplaySelection:
    """Files to read again, files that are ``due`` anyway, and names in the table that are gone from the source.

    ``dropped`` are those of the ``missing`` whose rows go; ``rows`` counts the rows to remove. ``unseen`` are names
    in the table that may still be at the source, behind a link or a name that the listing ignores: their rows stay.
    """

    base: str
    files: tuple[SourceFile, ...]
    due: tuple[SourceFile, ...]
    missing: tuple[str, ...]
    dropped: tuple[str, ...]
    rows: int
    blank: int
    left_out: tuple[Skipped, ...] = ()
    unseen: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to replace."""
        return not self.files and not self.dropped

    @property
    def predicate(self) -> str:
        """The rows to remove, in SQL."""
        paths = [*(file.path for file in self.files), *self.dropped]
        return f"{FILE_COLUMN} IN ({', '.join(literal(self.base + path) for path in paths)})"

    def notes(self) -> Iterator[str]:
        """Notes to read before the replay."""
        yield from map(str, self.left_out)
        if self.blank:
            yield f"without a row in the table: {count(self.blank, 'file')}; their rows are only added"
        yield from describe_rest(self.due, self.unseen, self.missing, removes=bool(self.dropped))


def file_set(files: Sequence[SourceFile]) -> FileSet:
    """The files for a report."""
    return FileSet(len(files), sum(file.size for file in files), tuple(file.path for file in files[:EXAMPLES]))


def other_locations(project: ProjectSpec, bound: FileSource) -> tuple[str, ...]:
    """The locations of the other sources of the same table."""
    return tuple(source.location.uri for _, source in _others(project, bound))


def other_sources(project: ProjectSpec, bound: FileSource) -> tuple[SourceKey, ...]:
    """The other file sources of the same table."""
    return tuple(SourceKey(pipeline, source.name) for pipeline, source in _others(project, bound))


def _others(project: ProjectSpec, bound: FileSource) -> Iterator[tuple[str, PathSource]]:
    for pipeline in project.pipelines:
        if pipeline.sink.table.uri == bound.pipeline.sink.table.uri:
            for source in pipeline.of(PathSource):
                if (pipeline.name, source.name) != (bound.pipeline.name, bound.source.name):
                    yield pipeline.name, source


def names_files(bound: FileSource, opened: Position) -> bool:
    """Whether the rows of the table say which file they came from, at least those that are written now."""
    schema = opened.schema()
    return FILE_COLUMN in bound.pipeline.sink.metadata_columns and schema is not None and FILE_COLUMN in schema.names


def check_locations(bound: FileSource, others: Sequence[str]) -> None:
    """Refuse a table in which the same files are under the same name for several sources."""
    base = f"{bound.source.location.uri}/"
    for uri in others:
        if f"{uri}/".startswith(base) or base.startswith(f"{uri}/"):
            raise TidegateError(
                f"{bound.key}: another source reads {uri} into the same table, and shares files with "
                f"{bound.source.location.uri}; so Tidegate cannot tell whose rows are whose",
                "give each source its own location, or its own table",
            )


def choose(
    bound: FileSource,
    others: Sequence[str],
    selection: Selection,
    state: SourceState,
    now: datetime,
    *,
    drop_missing: bool = False,
) -> ReplaySelection | None:
    """The selected files, found in source and table; None if their old rows may be there without a name."""
    source, base = bound.source, f"{bound.source.location.uri}/"
    scope = scope_of(source)
    listed = bound.tracker.store.list(selection.prefix, scope=scope)
    there = {info.path: info for info in listed if selection.selects(info.path)}
    files = [SourceFile(path, there[path].size, there[path].etag) for path in sorted(there, key=sort_key)]
    by_state = bound.tracker.sort_files(state, [file for file in files if accepts(source, file.path) is None], now)
    rows = {
        value.removeprefix(base): number
        for value, number in rows_by_value(bound.pipeline.sink.table, FILE_COLUMN, f"{base}{selection.prefix}")
    }
    not_there = [path for path in sorted(rows) if path not in there and selection.selects(path)]
    behind = scope.unseen
    unseen = tuple(path for path in not_there if is_behind(path, behind))
    # A link that is not followed, or a broken mount, must not look like files that were deleted.
    missing = tuple(path for path in not_there if not is_behind(path, behind))
    dropped = missing if drop_missing else ()
    _check_number(bound, len(by_state.finished) + len(dropped))
    blank = {file.path for file in by_state.finished if file.path not in rows}
    if blank and not _are_elsewhere_by_name(bound, others, blank):
        return None
    leaving = [*(file.path for file in by_state.finished), *dropped]
    counted = sum(rows.get(path, 0) for path in leaving)
    left_out = scope.left_out
    return ReplaySelection(
        base, by_state.finished, by_state.due, missing, dropped, counted, len(blank), left_out, unseen
    )


def _check_number(bound: FileSource, number: int) -> None:
    if number > MOST_FILES:
        raise TidegateError(
            f"{bound.key}: {number:,} files are selected, and one replay takes at most {MOST_FILES:,}",
            "narrow the pattern, or replay one partition after the other",
        )


def _are_elsewhere_by_name(bound: FileSource, others: Sequence[str], paths: set[str]) -> bool:
    """Whether every other row has the name of its file; refuses files whose rows are under another location."""
    table, base = bound.pipeline.sink.table, f"{bound.source.location.uri}/"
    known = tuple(f"{uri}/" for uri in others)
    for value, rows in rows_by_value(table, FILE_COLUMN, base, outside=True):
        if not value:
            return False
        same = None if value.startswith(known) else _end_in(value, paths)
        if same is not None:
            raise TidegateError(
                f"{bound.key}: {same} has no row in {table.uri} under {base}, but {value} has {rows:,}: the source was "
                "moved, and a replay would double these rows",
                f"set {FILE_COLUMN!r} of the old rows to the new location first (UPDATE with Spark)",
            )
    return True


def _end_in(value: str, paths: set[str]) -> str | None:
    """The path that ``value`` ends with, after a slash."""
    levels = value.split("/")
    ends = ("/".join(levels[start:]) for start in range(len(levels)))
    return next((end for end in ends if end in paths), None)


TRIES_AGAINST_OTHERS = 20


class FileReplay(Replay[FileSource, ReplayReport]):
    """A replay of selected files; ``others`` are the locations of the table's other sources, ``beside`` their keys."""

    def __init__(
        self,
        bound: FileSource,
        engine: FileTasks,
        selection: Selection,
        *,
        drop_missing: bool = False,
        widen: bool = False,
        others: Sequence[str] = (),
        beside: Sequence[SourceKey] = (),
        emit: events.Emit = events.ignore,
        stop: threading.Event | None = None,
        clock: Clock = utc_now,
    ) -> None:
        super().__init__(bound, emit, stop, clock)
        self._engine = engine
        self._selection = selection
        self._drop_missing = drop_missing
        self._widen = widen
        self._others = tuple(others)
        self._beside = tuple(beside)
        self._run = uuid7()

    def plan(self) -> ReplayReport:
        """The selected files and the fate of their rows."""
        self._pass().run(CommitCommand(self._open, self._choose))
        choice = self._choice
        if not (choice.files or choice.due or choice.missing or choice.unseen):
            raise TidegateError(
                f"{self._bound.key}: no file matches {self._selection}",
                "paths begin below source_uri, and * stays inside one level: **/*.gz crosses them",
            )
        self.is_needed = not choice.is_empty
        return self._report(choice, self._opened)

    def _choose(self, opened: Position) -> Position:
        self._opened = opened
        self._choice = self._choose_by_name(opened) or self._choose_by_ledger(opened)
        return opened

    def _choose_by_name(self, opened: Position) -> ReplaySelection | None:
        if not names_files(self._bound, opened):
            return None
        check_locations(self._bound, self._others)
        state, drop = self._bound.state_of(opened), self._drop_missing
        return choose(self._bound, self._others, self._selection, state, self._clock(), drop_missing=drop)

    def _choose_by_ledger(self, opened: Position) -> LedgerChoice:
        return choose_by_ledger(
            self._bound,
            self._beside,
            self._selection,
            opened,
            self._clock(),
            drop_missing=self._drop_missing,
            widen=self._widen,
        )

    def carry_out(self, planned: ReplayReport) -> ReplayReport:
        """Read the files and replace their rows."""
        choice = self._choice
        done, rows = self._replace_rows(choice) if isinstance(choice, ReplaySelection) else self._replace_files(choice)
        return replace(planned, rows_written=rows, version=done.version, table_version=done.table_version)

    def _replace_rows(self, choice: ReplaySelection) -> tuple[Position, int]:
        self._bound.clean_work(self._clock())
        with Lane(self._bound) as lane:
            work = lane.new_area().location
            columns, results = self._read(self._opened, choice.files, work)
            write = self._replacement(choice, columns, results, work)
            # The rows stay correct on top of another run: those of a finished file do not depend on the position.
            run = self._pass()
            done = run.run(
                CommitCommand(self._open, lambda opened: run.commit(opened, self._change(opened, write, results)))
            )
        return done, write.rows

    def _replace_files(self, choice: LedgerChoice) -> tuple[Position, int]:
        run = self._pass()
        rows = 0

        def go(opened: Position) -> Position:
            nonlocal rows
            removed = choice.find_again(self._bound, self._beside, opened)
            # Each time anew: files of a lost commit are in none, and `reconcile --clean` may be removing them.
            columns, results = self._read(opened, choice.files)
            files = tuple(file for result in results for file in result.data_files)
            written = (Written(columns.table, columns.partition_columns, files),)
            write = ReplaceFiles(removed, written) if removed else write_files(written)
            rows = write.rows
            return run.commit(opened, self._change(opened, write, results, REPLAYED_FILES))

        return run.run(CommitCommand(self._open, go)), rows

    def _pass(self) -> Pass:
        """A pass that tries again if another run of the source came first."""
        # Other errors are final: rows that were read for other columns have to be read again, by a new replay.
        return Pass(self._bound, stop=self._stop, rules=PassRules(TRIES_AGAINST_OTHERS, (CommitLost,)))

    def _open(self) -> Position:
        opened = self._bound.positions.open()
        reasons = "; ".join(frame_reasons(self._bound, opened))
        if reasons:
            problem = f"table {self._bound.table_uri}: rows of it cannot be replaced by `tidegate replay`: {reasons}"
            raise UnsupportedTable(problem, "replace them with Spark")
        if opened.first_run or opened.table_version < 0:
            raise TidegateError(f"{self._bound.key}: nothing was ingested yet", "run the pipeline first")
        return opened

    def _read(
        self, opened: Position, files: Sequence[SourceFile], work: Location | None = None
    ) -> tuple[TableColumnsPlan, tuple[GroupResult, ...]]:
        """Read every file whole, by the ordinary tasks; an unreadable one raises."""
        units = self._units(files)
        plan = Plan(*self._names, version=opened.version, now=self._clock(), groups=units)
        columns = resolve_columns(self._bound, opened, plan, self._emit)
        task = self._task(columns, work)
        size = sum(unit.bytes for unit in units)
        self._emit(events.WaveStarted(*self._names, len(units), len(files), size))
        tell = lambda done, *read: self._emit(events.WaveProgressed(*self._names, done, len(units), *read))  # noqa: E731
        results = read_all(
            self._engine, task, units, at_once=self._bound.slots, stop=self._stop, check=_check, progress=tell
        )
        failpoint("runs.read")
        return columns, results

    def _units(self, files: Sequence[SourceFile]) -> tuple[FileGroup, ...]:
        slices = [FileSlice(file.path, file.size, file.etag) for file in files]
        return group_files(slices, sizing_of(self._bound))

    def _task(self, columns: TableColumnsPlan, work: Location | None) -> ReadTask:
        """The task of a run for whole files; into a work area in pieces that can be read back one at a time."""
        task = columns.task(self._bound.pipeline, self._bound.source, None, self._run)
        if work is None:
            return replace(task, whole_files=True)
        # They are read back whole, one after the other, while the commit streams them.
        writer = replace(task.writer, file_size=min(task.writer.file_size, FILE_BYTES))
        return replace(task, table=work, writer=writer, whole_files=True)

    def _replacement(
        self, choice: ReplaySelection, columns: TableColumnsPlan, results: Sequence[GroupResult], work: Location
    ) -> ReplaceRows:
        store = open_store(work)
        files = [file for result in results for file in result.data_files]
        return ReplaceRows(
            choice.predicate,
            lambda schema: rows_of(store, files, schema),
            columns.table,
            columns.partition_columns,
            sum(result.rows for result in results),
        )

    def _change(self, opened: Position, write: Write, results: Sequence[GroupResult], action: str = "replay") -> Change:
        """The change on top of ``opened``, with the new letters of the files, and answers to their old ones."""
        choice = self._choice
        # On top of the current position: a person may have moved the watermark below these files since they were
        # listed.
        state = self._still_finished(self._bound.state_of(opened), choice)
        paths = {*(file.path for file in choice.files), *choice.dropped}
        before = [letter for letter in select_letters(self._bound, LetterChoice()) if letter.file in paths]
        letters = letters_of(results) + write_answers(self._bound, before, REPLAYED, self._run)
        return Change(
            NextState(state, self._bound.abridge(state)),
            write,
            # An empty coverage for files that are gone, so that the ledger no longer counts their rows.
            coverage=(*coverage_of(results), *(Coverage(path, 0, None, 0, 0, True) for path in choice.dropped)),
            letters=letters,
            debts=letter_debts(letters, self._bound, opened),
            action=action,
        )

    def _still_finished(self, state: Any, choice: ReplaySelection | LedgerChoice) -> dict[str, object]:
        """The current state; raises if one of the files is to be read by now."""
        now = self._clock()
        due = self._bound.tracker.sort_files(state, choice.files, now).due
        if due:
            raise TidegateError(
                f"{self._bound.key}: {due[0].path} was finished when the replay began, and now waits to be read: the "
                "watermark was moved meanwhile",
                "nothing was replaced; replay again",
            )
        state = self._bound.tracker.remember_again(state, choice.files)
        return self._bound.tracker.encode(replace(state, last_update_ts=int(now.timestamp())))

    def _report(self, choice: ReplaySelection | LedgerChoice, opened: Position) -> ReplayReport:
        return ReplayReport(
            pipeline=self._bound.pipeline.name,
            source=self._bound.source.name,
            table_uri=self._bound.pipeline.sink.table.uri,
            selected=str(self._selection),
            replayed=file_set(choice.files),
            left_to_run=file_set(choice.due),
            missing=FileSet(len(choice.missing), 0, choice.missing[:EXAMPLES]),
            drop_missing=self._drop_missing,
            rows_removed=choice.rows,
            rows_written=None,
            notes=(*opened.warnings, *choice.notes()),
            version=opened.version,
            table_version=opened.table_version,
        )


def _check(outcomes: Sequence[FileOutcome]) -> None:
    """Give up the replay if a file could not be read; nothing was changed."""
    for outcome in outcomes:
        match outcome:
            case Changed(path=path):
                raise ObjectChanged(f"{path} changed while it was read again", "nothing was replaced; replay again")
            case Refused(path=path, reason=reason):
                raise SourceError(
                    f"{path} cannot be read again: {reason}",
                    "nothing was replaced: correct the file and replay again, or leave it out",
                )
            case _:
                pass
