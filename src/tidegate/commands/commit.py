"""Commits what writers staged below the tables, once or continuously, and adopts files from a list.

Nothing is adopted automatically. Files that Tidegate wrote and did not commit are refused: their records are read
again, and would be in the table twice.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from tidegate.commands.project import (
    Config,
    Mode,
    agree,
    bound_files,
    load,
    open_emitter,
    pipelines_of,
    without_secrets,
)
from tidegate.errors import CommitLost, ConfigError, ObjectChanged, StateError, TableError, TidegateError
from tidegate.observe import events
from tidegate.observe.events import Emit, ignore
from tidegate.parquet.partitions import path_values
from tidegate.protocol.change import Change, SourceKey, write_files
from tidegate.protocol.log import References
from tidegate.protocol.position import Pace, Position, utc_now
from tidegate.protocol.staging import COMMITTER, list_staged_files
from tidegate.protocol.table_checks import MAX_FILES
from tidegate.reports.commit import AdoptedFile, CommitReport, FileAdoption, RejectedUnit, StagedSource, TableCommit
from tidegate.runs.bind import bind, is_files
from tidegate.runs.committer import (
    TRIES_AGAINST_OTHERS,
    CommitterCounts,
    TableCommitter,
    next_state,
    read_positions,
)
from tidegate.runs.file_source import FileSource
from tidegate.runs.loop import stops_on_signals
from tidegate.runs.maintenance import maintain_after
from tidegate.runs.orphans import is_ours
from tidegate.runs.staged_units import (
    FOOTERS_AT_ONCE,
    ForeignFiles,
    ParquetFooter,
    TableColumns,
    check_path,
    examine,
    schema_in,
)
from tidegate.runs.tracker import Clock
from tidegate.specs.files import PathSource
from tidegate.specs.project import Delivery, PipelineSpec, ProjectSpec, StagingSpec
from tidegate.specs.table import Maintenance
from tidegate.storage.port import ObjectInfo, Scope

Confirm = Callable[[FileAdoption], bool]


def commit(
    config: Config,
    pipeline: str | None = None,
    *,
    mode: Mode = "once",
    emit: Emit = ignore,
    stop: threading.Event | None = None,
) -> CommitReport:
    """Commit what staged runs and foreign writers left below the tables; ``mode="continuous"`` until ``stop`` is set.

    With ``pipeline`` only its table, for all its writers in the configuration. Starts no Spark.
    """
    flag = stop or threading.Event()
    project = load(config)
    chosen = _select_staged(project, pipeline)

    def interval(of: PipelineSpec) -> float:
        return poll_interval(project, of.sink.table.uri)

    with stops_on_signals(flag), open_emitter(project, chosen, mode, emit, interval) as told:
        committing = Committing(project, told, flag)
        return committing.once(chosen) if mode == "once" else committing.continuously(chosen)


def adopt_files(
    config: Config,
    pipeline: str | None = None,
    *,
    prefix: str,
    confirm: Confirm = agree,
    emit: Emit = ignore,
) -> FileAdoption:
    """Add the Parquet files below ``prefix`` that the table's log does not name, if ``confirm`` agrees to the list."""
    project = load(config)
    told = without_secrets(emit, project)
    tables = {each.sink.table.uri for each in _select_staged(project, pipeline)}
    if len(tables) > 1:
        raise ConfigError((f"{project.origin}: it has {len(tables)} tables; name a pipeline of the one you mean",))
    sources = tuple(each for each in bound_files(project, None, told) if each.table_uri in tables)
    return FileAdopting(sources, told).run(prefix, confirm)


def _select_staged(project: ProjectSpec, pipeline: str | None) -> tuple[PipelineSpec, ...]:
    """The pipelines whose tables can have staged files; runs over other sources commit themselves."""
    chosen = pipelines_of(project, pipeline)
    tables = {each.sink.table.uri for each in project.pipelines if each.of(PathSource)}
    found = tuple(each for each in chosen if each.sink.table.uri in tables)
    if not found:
        named = ", ".join(each.name for each in chosen)
        raise ConfigError((f"{named} stages nothing: only file sources can be staged",))
    return found


@dataclass(frozen=True, slots=True)
class _ForeignFound:
    """The files below a prefix: those to add, those refused, and how many the log already has."""

    foreign: ForeignFiles
    report: FileAdoption


class FileAdopting:
    """Adds the foreign files below a prefix of one table."""

    def __init__(self, sources: Sequence[FileSource], emit: Emit = ignore) -> None:
        self._committer = TableCommitter(sources, emit=emit)
        self._bound = sources[0]
        self._store = sources[0].table_store

    def run(self, prefix: str, confirm: Confirm) -> FileAdoption:
        """Find the files and, if ``confirm`` agrees to exactly these, add them; raises what stops it."""
        accepted: dict[str, tuple[int, str | None]] | None = None
        for attempt in range(TRIES_AGAINST_OTHERS):
            opened = self._committer.open()
            columns = TableColumns(opened)
            found = self._look(prefix.strip("/"), columns, opened)
            if accepted is None:
                if not found.foreign.files or not confirm(found.report):
                    return found.report
                accepted = _contents(found.report)
            # A person agreed to these files; between the list and the commit somebody may have written others.
            self._check_agreed(found.report, accepted)
            try:
                return self._add(opened, columns, found)
            except CommitLost:
                if attempt + 1 == TRIES_AGAINST_OTHERS:
                    raise
        raise AssertionError("unreachable")

    def _look(self, prefix: str, columns: TableColumns, opened: Position) -> _ForeignFound:
        if not columns.known:
            self._committer.declare(columns, opened)
        if not columns.known:
            raise TableError(
                f"there is no table at {self._store.location.uri}, and no pipeline declares its columns",
                "declare schema.fields, or run the pipeline first",
            )
        listed = list(self._files(prefix))
        # After the listing: what was committed or staged in between is named by now, and not taken for foreign.
        named = {*References(self._store).paths(), *list_staged_files(self._store)}
        new = [info for info in listed if info.path not in named]
        if len(new) > MAX_FILES:
            raise TableError(
                f"{len(new)} files below {prefix!r}, at most {MAX_FILES} at once", "name a folder below it"
            )
        foreign, shown = ForeignFiles(), []
        with ThreadPoolExecutor(FOOTERS_AT_ONCE, "footer") as pool:
            for info, examined in zip(new, pool.map(lambda info: self._examine(info, columns), new), strict=True):
                shown.append(self._judge(info, examined, columns, foreign))
        told = FileAdoption(self._store.location.uri, prefix, tuple(shown), known=len(listed) - len(new))
        return _ForeignFound(foreign, told)

    def _files(self, prefix: str) -> Iterator[ObjectInfo]:
        """The Parquet files below ``prefix`` that may be data."""
        for info in self._store.list(prefix, scope=Scope()):
            # Its files belong to another log, which may remove them at any time.
            if "_delta_log/" in info.path and not info.path.startswith("_delta_log/"):
                raise TableError(f"{info.path}: another table lies below {prefix!r}", "name a folder without it")
            try:
                check_path(info.path)
            except StateError:
                continue
            yield info

    def _examine(self, info: ObjectInfo, columns: TableColumns) -> ParquetFooter | StateError:
        if is_ours(info.path):
            return StateError("Tidegate wrote it and did not commit it", "a run reads its records again")
        given = path_values(info.path)
        values = {key: given[key] for key in columns.partition_columns if key in given}
        try:
            return examine(self._store, info.path, values, info.size, None)
        except StateError as error:
            return error

    def _judge(
        self, info: ObjectInfo, examined: ParquetFooter | StateError, columns: TableColumns, foreign: ForeignFiles
    ) -> AdoptedFile:
        told = AdoptedFile(info.path, info.size, info.etag)
        try:
            if isinstance(examined, StateError):
                raise examined
            schema = schema_in(examined, columns, self._bound.pipeline.schema.evolution)
        except (StateError, TableError) as error:
            return replace(told, refused=str(error))
        foreign.files.append((examined.file, schema))
        return replace(told, rows=examined.file.record_count)

    def _check_agreed(self, told: FileAdoption, accepted: dict[str, tuple[int, str | None]]) -> None:
        """Check that the files and their content are those agreed to."""
        now = _contents(told)
        heads = {path: self._store.head(path) for path in now}
        different = now != accepted or any((heads[path].size, heads[path].etag) != now[path] for path in now)
        if different:
            raise ObjectChanged(f"the files below {told.prefix!r} changed since they were shown", "look at them again")

    def _add(self, opened: Position, columns: TableColumns, found: _ForeignFound) -> FileAdoption:
        files = found.foreign.data_files
        state = next_state(opened, read_positions(opened), files)
        rows = sum(file.record_count for file in files)
        groups = (
            *self._committer.first_columns(columns, opened),
            *found.foreign.group_files(columns.partition_columns),
        )
        change = Change(state, write_files(groups), action="commit")
        (after,) = self._committer.send(opened, change)
        return replace(found.report, adopted=len(files), rows=rows, table_version=after.table_version)


def _contents(told: FileAdoption) -> dict[str, tuple[int, str | None]]:
    return {file.path: (file.size, file.etag) for file in told.files if file.refused is None}


JITTER = 0.2
"""A committer waits up to this share longer, so that several do not look at the same moment."""


def poll_interval(project: ProjectSpec, uri: str) -> int:
    """Seconds between two looks at a table: the shortest interval of its staged pipelines."""
    staged = [each for each in project.pipelines if each.sink.table.uri == uri and each.delivery is Delivery.STAGED]
    return min((each.staging.poll_interval_secs for each in staged), default=StagingSpec().poll_interval_secs)


@dataclass(slots=True)
class Committing:
    """The tables of a project and their committers; ``clock`` and ``pace`` are as in a run."""

    project: ProjectSpec
    emit: events.Emit = events.ignore
    stop: threading.Event = field(default_factory=threading.Event)
    clock: Clock = utc_now
    pace: Pace | None = None
    _committers: dict[str, TableCommitter] = field(default_factory=dict)
    _errors: dict[str, TidegateError] = field(default_factory=dict)

    def once(self, pipelines: Sequence[PipelineSpec]) -> CommitReport:
        """Commit what waits below every table of these pipelines; a failure does not stop the others."""
        started = time.monotonic()
        tables = self._tables(pipelines)
        for uri in tables:
            if not self.stop.is_set():
                self._commit(uri)
        return self._report(tables, started)

    def continuously(
        self, pipelines: Sequence[PipelineSpec], jitter: Callable[[], float] = random.random
    ) -> CommitReport:
        """Commit for each table at its interval until ``stop`` is set; the report has the totals."""
        started = time.monotonic()
        tables = self._tables(pipelines)
        due = dict.fromkeys(tables, 0.0)
        while not self.stop.is_set():
            uri = min(tables, key=lambda each: due[each])
            if self.stop.wait(max(0.0, due[uri] - time.monotonic())):
                break
            self._commit(uri)
            due[uri] = time.monotonic() + poll_interval(self.project, uri) * (1 + JITTER * jitter())
        return self._report(tables, started)

    def _tables(self, pipelines: Sequence[PipelineSpec]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.sink.table.uri for each in pipelines))

    def _committer(self, uri: str) -> TableCommitter:
        """The committer of a table, for all its writers in the project."""
        if uri not in self._committers:
            self._committers[uri] = TableCommitter(self._sources(uri), emit=self.emit, stop=self.stop, clock=self.clock)
        return self._committers[uri]

    def _sources(self, uri: str) -> tuple[FileSource, ...]:
        found = (
            bind(self.project, pipeline, source, 1, self.emit, self.pace)
            for pipeline in self.project.pipelines
            if pipeline.sink.table.uri == uri
            for source in pipeline.of(PathSource)
        )
        return tuple(filter(is_files, found))

    def _commit(self, uri: str) -> None:
        self._errors.pop(uri, None)
        try:
            committer = self._committer(uri)
            before = committer.tally.commits
            committer.run()
            self._care(uri, committer.position, committer.tally.commits - before)
        except TidegateError as error:
            self._errors[uri] = error
            self.emit(events.SourceFailed(COMMITTER.pipeline, COMMITTER.source, f"{uri}: {error}"))
        for pipeline in self.project.pipelines:
            if pipeline.sink.table.uri == uri:
                for source in pipeline.of(PathSource):
                    self._tell_look(uri, SourceKey(pipeline.name, source.name))

    def _tell_look(self, uri: str, key: SourceKey) -> None:
        """Emit the state of a source after a look at its table."""
        tally = self._tally(uri)
        error = self._errors.get(uri) or tally.errors.get(key)
        told = None if error is None else str(error)
        position, left = tally.positions.get(key, 0), tally.left.get(key, 0)
        self.emit(events.CommitterLooked(key.pipeline, key.source, position, left, told))

    def _tally(self, uri: str) -> CommitterCounts:
        return self._committers[uri].tally if uri in self._committers else CommitterCounts(self.emit)

    def _care(self, uri: str, position: int, commits: int) -> None:
        """Do the maintenance that is due after so many commits, for pipelines whose runs make none themselves."""
        for pipeline in self.project.pipelines:
            staged = pipeline.sink.table.uri == uri and pipeline.delivery is Delivery.STAGED
            if not staged or pipeline.sink.maintenance == Maintenance() or self.stop.is_set():
                continue
            maintain_after(pipeline, pipeline.sources[0].name, position - commits, position, self.emit)

    def _report(self, uris: Sequence[str], started: float) -> CommitReport:
        tables = tuple(self._table_report(uri) for uri in uris)
        well = all(
            each.error is None and not each.rejected and not any(source.error for source in each.sources)
            for each in tables
        )
        return CommitReport(tables, well, time.monotonic() - started)

    def _table_report(self, uri: str) -> TableCommit:
        tally, error = self._tally(uri), self._errors.get(uri)
        failed = [error] if error else list(tally.errors.values())
        return TableCommit(
            table_uri=uri,
            table_version=tally.table_version,
            commits=tally.commits,
            units=sum(tally.units.values()),
            files=tally.files,
            rows=tally.rows,
            foreign=tally.foreign,
            duplicates=tally.duplicates,
            dropped=tally.dropped,
            waiting=tally.waiting,
            unknown=tally.unknown,
            aging=tally.aging,
            rejected=tuple(RejectedUnit(each.path, each.reason) for each in tally.rejected),
            sources=tuple(
                StagedSource(
                    key.pipeline,
                    key.source,
                    tally.positions.get(key, 0),
                    tally.units.get(key, 0),
                    tally.source_rows.get(key, 0),
                    tally.left.get(key, 0),
                    str(tally.errors[key]) if key in tally.errors else None,
                )
                for key in sorted({*tally.positions, *tally.errors}, key=str)
            ),
            error=None if error is None else str(error),
            exit_code=failed[0].exit_code if failed else 0,
        )
