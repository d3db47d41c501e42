"""Adopting Parquet files that lie below a table and are not in its log: once, by a list that somebody has seen.

Nothing is ever adopted by itself. Files that Tidegate wrote and did not commit are refused: their records are read
again, and would be in the table twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tidegate.errors import CommitLost, ObjectChanged, StateError, TableError
from tidegate.failpoints import failpoint
from tidegate.observe.events import Emit, ignore
from tidegate.runs.orphans import is_ours
from tidegate.runs.place import Place
from tidegate.runs.staged_columns import TableColumns
from tidegate.runs.staged_commit import TRIES_AGAINST_OTHERS, TableCommitter, next_state, recorded_positions
from tidegate.runs.staged_files import Examined, check_path, examine
from tidegate.runs.staged_foreign import FOOTERS_AT_ONCE, ForeignFiles, schema_in
from tidegate.sink.partitions import path_values
from tidegate.staging_reports import AdoptedFile, FileAdoption
from tidegate.state.files import Change
from tidegate.state.fitting import MAX_FILES
from tidegate.state.opened import Opened
from tidegate.state.pending import staged_files
from tidegate.state.references import References
from tidegate.storage.port import ObjectInfo
from tidegate.storage.scope import Scope

Confirm = Callable[[FileAdoption], bool]


@dataclass(frozen=True, slots=True)
class _Found:
    """What lies below a prefix: the files to add, those that cannot be, and how many are in the log."""

    foreign: ForeignFiles
    told: FileAdoption


class FileAdopting:
    """Adds the foreign files below a prefix of one table."""

    def __init__(self, places: Sequence[Place], emit: Emit = ignore) -> None:
        self._committer = TableCommitter(places, emit=emit)
        self._place = places[0]
        self._store = places[0].table_store

    def run(self, prefix: str, confirm: Confirm) -> FileAdoption:
        """What is there and, if ``confirm`` agrees to exactly that, what was added; raises what stopped it."""
        agreed: dict[str, tuple[int, str | None]] | None = None
        for attempt in range(TRIES_AGAINST_OTHERS):
            opened = self._committer.open()
            columns = TableColumns(opened)
            found = self._look(prefix.strip("/"), columns, opened)
            if agreed is None:
                if not found.foreign.files or not confirm(found.told):
                    return found.told
                agreed = _listed(found.told)
            self._check_agreed(found.told, agreed)
            try:
                return self._add(opened, columns, found)
            except CommitLost:
                if attempt + 1 == TRIES_AGAINST_OTHERS:
                    raise
        raise AssertionError("unreachable")

    def _look(self, prefix: str, columns: TableColumns, opened: Opened) -> _Found:
        if not columns.known:
            self._committer.declare(columns, opened)
        if not columns.known:
            raise TableError(
                f"there is no table at {self._store.location.uri}, and no pipeline declares its columns",
                "declare schema.fields, or run the pipeline first",
            )
        listed = list(self._files(prefix))
        named = {*References(self._store).paths(), *staged_files(self._store)}
        new = [info for info in listed if info.path not in named]
        if len(new) > MAX_FILES:
            raise TableError(f"{len(new)} files below {prefix!r}, at most {MAX_FILES} at once", "name a part of it")
        foreign, shown = ForeignFiles(), []
        with ThreadPoolExecutor(FOOTERS_AT_ONCE, "footer") as pool:
            for info, examined in zip(new, pool.map(lambda info: self._examined(info, columns), new), strict=True):
                shown.append(self._fitted(info, examined, columns, foreign))
        told = FileAdoption(self._store.location.uri, prefix, tuple(shown), known=len(listed) - len(new))
        return _Found(foreign, told)

    def _files(self, prefix: str) -> Iterator[ObjectInfo]:
        """The Parquet files below ``prefix`` that could be data."""
        for info in self._store.list(prefix, scope=Scope()):
            if "_delta_log/" in info.path and not info.path.startswith("_delta_log/"):
                raise TableError(f"{info.path}: another table lies below {prefix!r}", "name a part without it")
            try:
                check_path(info.path)
            except StateError:
                continue
            yield info

    def _examined(self, info: ObjectInfo, columns: TableColumns) -> Examined | StateError:
        if is_ours(info.path):
            return StateError("Tidegate wrote it and did not commit it: its records are read again", "")
        given = path_values(info.path)
        values = {key: given[key] for key in columns.partition_columns if key in given}
        try:
            return examine(self._store, info.path, values, info.size, None)
        except StateError as error:
            return error

    def _fitted(
        self, info: ObjectInfo, examined: Examined | StateError, columns: TableColumns, foreign: ForeignFiles
    ) -> AdoptedFile:
        told = AdoptedFile(info.path, info.size, info.etag)
        try:
            if isinstance(examined, StateError):
                raise examined
            schema = schema_in(examined, columns, self._place.pipeline.schema.evolution)
        except (StateError, TableError) as error:
            return replace(told, refused=error.problem)
        foreign.files.append((examined.file, schema))
        return replace(told, rows=examined.file.record_count)

    def _check_agreed(self, told: FileAdoption, agreed: dict[str, tuple[int, str | None]]) -> None:
        """Exactly what was agreed to: the same files with the same content."""
        now = _listed(told)
        heads = {path: self._store.head(path) for path in now}
        different = now != agreed or any((heads[path].size, heads[path].etag) != now[path] for path in now)
        if different:
            raise ObjectChanged(
                f"the files below {told.prefix!r} are not those that were shown any more", "look at them again"
            )

    def _add(self, opened: Opened, columns: TableColumns, found: _Found) -> FileAdoption:
        files = found.foreign.data_files
        state = next_state(opened, recorded_positions(opened), files)
        rows = sum(file.record_count for file in files)
        change = Change(
            state=state,
            embedded={name: value for name, value in state.items() if name != "foreign"},
            data_files=files,
            rows=rows,
            groups=(
                *self._committer.first_columns(columns, opened),
                *found.foreign.written(columns.partition_columns),
            ),
            action="commit",
        )
        failpoint("staging.commit.before")
        after = self._committer.positions.commit(opened, change)
        return replace(found.told, adopted=len(files), rows=rows, table_version=after.table_version)


def _listed(told: FileAdoption) -> dict[str, tuple[int, str | None]]:
    return {file.path: (file.size, file.etag) for file in told.files if file.refused is None}
