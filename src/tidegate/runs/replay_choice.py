"""Which files a replay is about, and whether their old rows can be found: by the column ``_source_file``.

A replay that misses old rows doubles them. So it refuses tables that do not record the file, rows that say nothing
although they may be meant, and rows that lie there under another location of the same source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.corrections import FileSet
from tidegate.errors import TidegateError
from tidegate.observe.wording import count
from tidegate.planning.discovery import accepts, is_behind
from tidegate.planning.reasons import EXAMPLES, Skipped
from tidegate.planning.selecting import Selection
from tidegate.runs.place import Place
from tidegate.runs.tracking import SourceState
from tidegate.sources.files.discovery import scope_of
from tidegate.specs import ProjectSpec
from tidegate.state.opened import Opened
from tidegate.state.reading import literal, rows_by_value
from tidegate.watermarks.paths import SourceFile, sort_key

FILE_COLUMN = "_source_file"
MOST_FILES = 10_000
"""The names go into the predicate, and that into the log: as many take less than a second and a megabyte."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Files to read again, files that are ``due`` anyway, and names in the table that the source has no more.

    ``dropped`` are those of the ``missing`` whose rows go; ``rows`` counts what leaves the table. ``unseen`` are names
    in the table that the source may still have, behind a link or a name that its listing leaves out: their rows stay.
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
        """The rows that leave, in SQL."""
        paths = [*(file.path for file in self.files), *self.dropped]
        return f"{FILE_COLUMN} IN ({', '.join(literal(self.base + path) for path in paths)})"

    def notes(self) -> Iterator[str]:
        """What somebody should know before it is done."""
        yield from map(str, self.left_out)
        if self.blank:
            yield f"without a row in the table now: {count(self.blank, 'file')}; their rows are only added"
        if self.due:
            yield f"not finished yet: {count(len(self.due), 'file')}, left to the next run"
        if self.unseen:
            yield f"behind what is left out: {count(len(self.unseen), 'file')}, e.g. {self.unseen[0]}; their rows stay"
        if self.missing:
            fate = "are removed" if self.dropped else "stay (--drop-missing removes them)"
            yield f"gone from the source: {count(len(self.missing), 'file')}; their rows {fate}"


def file_set(files: Sequence[SourceFile]) -> FileSet:
    """As it is reported."""
    return FileSet(len(files), sum(file.size for file in files), tuple(file.path for file in files[:EXAMPLES]))


def other_locations(project: ProjectSpec, place: Place) -> tuple[str, ...]:
    """Where the other sources lie that are read into the same table."""
    return tuple(
        source.location.uri
        for pipeline in project.pipelines
        if pipeline.sink.table.uri == place.pipeline.sink.table.uri
        for source in pipeline.sources
        if (pipeline.name, source.name) != (place.pipeline.name, place.source.name)
    )


def check_rows_are_told_apart(place: Place, opened: Opened, others: Sequence[str]) -> None:
    """Refuse a table in which the rows of a file cannot be found."""
    sink, base = place.pipeline.sink, f"{place.source.location.uri}/"
    if opened.first_run or opened.table_version < 0:
        raise TidegateError(f"{place.key}: nothing was ingested yet", "run the pipeline first")
    schema = opened.schema()
    if FILE_COLUMN not in sink.metadata_columns or schema is None or FILE_COLUMN not in schema.names:
        raise TidegateError(
            f"{place.key}: which rows came from which file is not recorded in {sink.table.uri}",
            f"a replay needs {FILE_COLUMN!r} in sink.metadata_columns from the first run on; without it, delete the "
            "rows yourself and then move the watermark back (`tidegate watermark set`)",
        )
    for uri in others:
        if f"{uri}/".startswith(base) or base.startswith(f"{uri}/"):
            raise TidegateError(
                f"{place.key}: another source reads {uri} into the same table, and shares files with "
                f"{place.source.location.uri}; whose rows are whose cannot be told",
                "give the sources locations, or tables, of their own",
            )


def choose(
    place: Place,
    others: Sequence[str],
    selection: Selection,
    state: SourceState,
    now: datetime,
    *,
    drop_missing: bool = False,
) -> Choice:
    """The files that are meant, after looking into source and table."""
    source, base = place.source, f"{place.source.location.uri}/"
    scope = scope_of(source)
    listed = place.source_store.list(selection.prefix, scope=scope)
    there = {info.path: info for info in listed if selection.takes(info.path)}
    files = [SourceFile(path, there[path].size, there[path].etag) for path in sorted(there, key=sort_key)]
    by_state = place.tracker.sorted(state, [file for file in files if accepts(source, file.path) is None], now)
    rows = {
        value.removeprefix(base): number
        for value, number in rows_by_value(place.pipeline.sink.table, FILE_COLUMN, f"{base}{selection.prefix}")
    }
    not_there = [path for path in sorted(rows) if path not in there and selection.takes(path)]
    behind = scope.unseen
    unseen = tuple(path for path in not_there if is_behind(path, behind))
    missing = tuple(path for path in not_there if not is_behind(path, behind))
    dropped = missing if drop_missing else ()
    _check_number(place, len(by_state.finished) + len(dropped))
    blank = {file.path for file in by_state.finished if file.path not in rows}
    if blank:
        _check_elsewhere(place, others, blank)
    leaving = [*(file.path for file in by_state.finished), *dropped]
    counted = sum(rows.get(path, 0) for path in leaving)
    left_out = scope.left_out
    return Choice(base, by_state.finished, by_state.due, missing, dropped, counted, len(blank), left_out, unseen)


def _check_number(place: Place, number: int) -> None:
    if number > MOST_FILES:
        raise TidegateError(
            f"{place.key}: {number:,} files are selected, and one replay takes at most {MOST_FILES:,}",
            "narrow the pattern, or replay one partition after the other",
        )


def _check_elsewhere(place: Place, others: Sequence[str], paths: set[str]) -> None:
    """Refuse files whose old rows may be there without a name, or under that of another location."""
    table, base = place.pipeline.sink.table, f"{place.source.location.uri}/"
    known = tuple(f"{uri}/" for uri in others)
    for value, rows in rows_by_value(table, FILE_COLUMN, base, outside=True):
        if not value:
            raise TidegateError(
                f"{place.key}: {rows:,} rows of {table.uri} do not say which file they came from, and {len(paths):,} "
                f"selected files (e.g. {min(paths)}) have no row under their name: their old rows cannot be found",
                f"select files that were ingested since {FILE_COLUMN!r} is recorded",
            )
        same = None if value.startswith(known) else _end_in(value, paths)
        if same is not None:
            raise TidegateError(
                f"{place.key}: {same} has no row in {table.uri} under {base}, but {value} has {rows:,}: the source was "
                "moved, and a replay would double these rows",
                f"set {FILE_COLUMN!r} of the old rows to the new location first (UPDATE with Spark)",
            )


def _end_in(value: str, paths: set[str]) -> str | None:
    """The path that ``value`` ends with, after a slash."""
    levels = value.split("/")
    ends = ("/".join(levels[start:]) for start in range(len(levels)))
    return next((end for end in ends if end in paths), None)
