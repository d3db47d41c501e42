"""What to list next, and which of the listed files to take. Decisions only; the requests are in ``sources``.

A poll lists each open partition from ``list_after`` on, skips directories that are not open, takes the files
that ``accepts`` has no reason against, and hands the rest over in a ``PathListing``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

from tidegate.core.files.file_status import file_statuses
from tidegate.core.files.paths import Layout, SourceFile, cold_start_prefixes, just_below, split
from tidegate.core.files.sealing import Directories, is_directory_sealed, is_sealed, opened
from tidegate.core.files.state import PathState
from tidegate.core.globs import matches_any_level, matches_path
from tidegate.core.reasons import Reason, Skipped
from tidegate.specs.project import Format, LateFiles, PathSource

_ENDINGS = {
    Format.NDJSON: (".ndjson", ".jsonl", ".json"),
    Format.CSV: (".csv", ".tsv"),
    Format.PARQUET: (".parquet",),
    Format.AVRO: (".avro",),
    Format.JSON: (".json",),
}
SUFFIXES = {
    format: tuple(
        ending + compression
        for ending in endings
        for compression in (("", ".gz", ".zst") if format.is_compressible else ("",))
    )
    for format, endings in _ENDINGS.items()
}
"""How the names of files end, by format."""


@dataclass(frozen=True, slots=True)
class PathListing:
    """What a poll saw: accepted files; each partition from its bound on, up to some name if it was cut off.

    ``complete`` is false when the listing stopped after a number of new files; ``deep`` says that every open
    directory was looked into; ``any_files`` that the source is not empty. ``directories`` comes from
    ``survey``. ``sorts_in_time`` is looked at only where no watermark is used. ``tables`` are the directories with a
    Delta log whose data files the source would take. ``unseen`` are the paths that were left out together with whatever
    is at or below them: a file there is not gone because the listing does not show it.
    """

    files: tuple[SourceFile, ...]
    skipped: tuple[Skipped, ...] = ()
    directories: Directories = field(default_factory=Directories)
    list_requests: int = 0
    listed_keys: int = 0
    complete: bool = True
    deep: bool = True
    any_files: bool = True
    sorts_in_time: bool = False
    tables: tuple[str, ...] = ()
    unseen: frozenset[str] = frozenset()


def cold_prefixes(source: PathSource, state: PathState, now: datetime) -> tuple[str, ...] | None:
    """The directories that a filtered cold start looks at, oldest first; ``None`` to look everywhere."""
    if source.partition_filter is None or not state.is_fresh:
        return None
    return cold_start_prefixes(source.partition_filter, now)


def list_after(source: PathSource, state: PathState, partition: str) -> str | None:
    """The name after which ``partition`` is to be listed; ``None`` to list it whole.

    That is the watermark or the start of the late window, and always below a file that is not finished.
    """
    watermark = state.partition_watermarks.get(partition)
    if watermark is None:
        return None
    bounds: list[str | None] = [watermark]
    window = state.late_window.get(partition) if source.late_files is LateFiles.WINDOW else None
    if window is not None:
        bounds.append(window.above)
    unfinished = state.first_unfinished.get(partition, watermark)
    if unfinished < watermark:
        bounds.append(just_below(unfinished))
    return min(bound or "" for bound in bounds) or None


def is_new(source: PathSource, state: PathState) -> Callable[[str], bool]:
    """Whether a listed path is not finished: what a limit on new files counts."""
    standing_of = cache(file_statuses(source, state))

    def is_unfinished(path: str) -> bool:
        partition, name = split(path)
        return not standing_of(partition).is_finished(name)

    return is_unfinished


def is_open(source: PathSource, state: PathState, directory: str, now: datetime) -> bool:
    """Whether ``directory`` or anything below it may hold files to read; sealed ones need not be listed."""
    return not is_directory_sealed(Layout.of(source), opened(source, state, now), directory)


def is_partition_open(source: PathSource, state: PathState, partition: str, now: datetime) -> bool:
    """Whether the files that lie directly in ``partition`` are looked at."""
    return not is_sealed(Layout.of(source), opened(source, state, now), partition)


def survey(source: PathSource, state: PathState, directories: Iterable[str], now: datetime) -> Directories:
    """The directories directly below each non-time prefix, sealed and open: what shows late ones.

    Give every directory that was seen, sealed or not. A filtered cold start sees too few of them to tell.
    """
    if cold_prefixes(source, state, now) is not None:
        return Directories()
    layout = Layout.of(source)
    sealed: dict[str, int] = {}
    found_open: list[str] = []
    for directory in directories:
        time = layout.time_of(directory)
        if time is None or split(directory)[0] != time.prefix:
            continue
        if is_directory_sealed(layout, state, directory):
            sealed[time.prefix] = sealed.get(time.prefix, 0) + 1
        else:
            found_open.append(directory)
    return Directories(sealed, tuple(sorted(found_open)))


def accepts(source: PathSource, path: str) -> Reason | None:
    """Why the file at ``path`` is not taken; ``None`` to take it."""
    if path.endswith("/"):
        return Reason.MARKER
    if is_apart(source, path):
        return Reason.TABLE
    if path.startswith(("_", ".")) or "/_" in path or "/." in path:
        return Reason.INTERNAL
    if source.pattern is None:
        if not path.endswith(SUFFIXES[source.format]):
            return Reason.SUFFIX
    elif not matches_path(source.pattern, path):
        return Reason.PATTERN
    if any(matches_any_level(pattern, path) for pattern in source.exclude):
        return Reason.EXCLUDED
    return None


def accepts_directory(source: PathSource, directory: str) -> Reason | None:
    """Why nothing below ``directory`` is taken; ``None`` to look into it."""
    if is_apart(source, directory):
        return Reason.TABLE
    if directory.startswith(("_", ".")) or "/_" in directory or "/." in directory:
        return Reason.INTERNAL
    levels = (pattern for pattern in source.exclude if "/" not in pattern)
    return Reason.EXCLUDED if any(matches_any_level(pattern, directory) for pattern in levels) else None


def table_of(source: PathSource, path: str) -> str | None:
    """The directory of the Delta table whose log ``path`` is or lies in, if its data files would be taken."""
    before, log, _ = f"/{path}/".partition("/_delta_log/")
    directory = before.strip("/")
    if not log or accepts(source, f"{directory}/0.parquet".lstrip("/")) is not None:
        return None
    return directory


def is_behind(path: str, unseen: Collection[str]) -> bool:
    """Whether ``path`` is at or below something that a listing left out: then it need not be gone."""
    while unseen and path:
        if path in unseen:
            return True
        path = split(path)[0]
    return False


def is_apart(source: PathSource, path: str) -> bool:
    """Whether ``path`` lies in a table, or is one."""
    return any(path == place or path.startswith(f"{place}/") for place in source.apart)
