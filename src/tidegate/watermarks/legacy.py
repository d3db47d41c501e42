"""Checkpoints of Blizzard, as states of ours: read without guessing, and settled against what lies at the source.

Its files and transactions hold the same fields as our state in several older forms: a watermark that is a plain
string or an object, with or without an entry per partition, or only the last finished file; paths may be full URIs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.errors import StateError
from tidegate.watermarks.codec import decode
from tidegate.watermarks.path_state import FileProgress, Finished, PathState
from tidegate.watermarks.paths import SourceFile, sort_key, split


@dataclass(frozen=True, slots=True)
class Older:
    """A state that an older program wrote, and in words the form it had."""

    state: PathState
    form: str


@dataclass(frozen=True, slots=True)
class Settled:
    """The state to go on from.

    ``left_out`` are files that count as read although no entry says so: the old program never came back to them.
    ``resumed`` are in progress at or below a watermark, where it would not have gone on. ``gone`` are in progress and
    not at the source any more. ``gaps`` are unread and lie below a file that it had begun or finished.
    """

    state: PathState
    left_out: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


def paths_in(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Every path that an older checkpoint names."""
    return tuple(_paths(data))


def _paths(data: Mapping[str, Any]) -> Iterator[str]:
    watermark, kept = data.get("watermark"), data.get("source_state")
    value = watermark.get("value") if isinstance(watermark, Mapping) else watermark
    if isinstance(value, str):
        yield value
    if isinstance(kept, Mapping):
        last, files = kept.get("last_committed_file"), kept.get("files")
        if isinstance(last, str):
            yield last
        if isinstance(files, Mapping):
            yield from files


def is_absolute(path: str) -> bool:
    """Whether a path says by itself where it lies."""
    return "://" in path or path.startswith("/")


def is_about(path: str, bases: Sequence[str]) -> bool:
    """Whether a path is relative, or lies below one of ``bases``."""
    return not is_absolute(path) or any(path.startswith(f"{base}/") for base in bases)


def read_older(data: Mapping[str, Any], bases: Sequence[str]) -> Older:
    """The state in an older checkpoint of the source at ``bases``, which are ways to write the same place.

    ``StateError`` for a path of another place, and for whatever is not understood.
    """
    paths = paths_in(data)
    foreign = next((path for path in paths if not is_about(path, bases)), None)
    if foreign is not None:
        raise StateError(
            f"the old checkpoint is about another place: it names {foreign}, and this source reads {bases[0]}",
            "set source_uri to the place that the old program read, or choose another source",
        )
    base = next((base for base in bases if any(path.startswith(f"{base}/") for path in paths)), bases[0])
    return Older(decode(data, source_uri=base), _form(data))


def _form(data: Mapping[str, Any]) -> str:
    if not data:
        return "empty: nothing was read yet"
    watermark = data.get("watermark")
    if data.get("partition_watermarks"):
        return "a watermark per partition"
    if isinstance(watermark, str):
        return "one watermark for everything, as a string"
    if isinstance(watermark, Mapping):
        return "one watermark for everything, with its state"
    return "the last finished file, and the files in progress"


def settled(older: PathState, listed: Sequence[SourceFile], *, read_skipped: bool = False) -> Settled:
    """The state in its own terms, given all files at the source.

    Partitions without an entry, at or below the old watermark, count as read: whether they were, nobody can tell, and
    reading them could double their rows; ``read_skipped`` leaves them to be read. What is in progress gets the size and
    etag that it has now.
    """
    state, at_source = older, {file.path: file for file in listed}
    state = _unsealed(state, listed)
    left_out = () if read_skipped else _without_entry(state, listed)
    state = replace(state, partition_watermarks={**state.partition_watermarks, **_last_names(left_out)})
    files = {path: _sized(progress, at_source.get(path)) for path, progress in state.files.items()}
    in_progress = [path for path, _ in state.unfinished()]
    return Settled(
        replace(state, files=files),
        left_out,
        tuple(path for path in in_progress if _is_passed(state, path)),
        tuple(path for path in in_progress if path not in at_source),
        _gaps(state, listed),
    )


def _unsealed(state: PathState, listed: Sequence[SourceFile]) -> PathState:
    """A file in progress in a sealed partition opens it; its other files, and those of partitions above, stay read."""
    waiting = [partition for partition in state.first_unfinished if partition < state.sealed_below]
    if not waiting:
        return state
    first = min(waiting)
    reopened = [file.path for file in listed if first <= split(file.path)[0] < state.sealed_below]
    entries = {**_last_names(reopened), **state.partition_watermarks}
    return replace(state, partition_watermarks=entries, sealed_below=first)


def _without_entry(state: PathState, listed: Sequence[SourceFile]) -> tuple[str, ...]:
    """The files at or below the watermark in open partitions of which nothing is recorded."""
    if state.value is None:
        return ()
    watermark, found = sort_key(state.value), []
    for file in listed:
        partition, name = split(file.path)
        known = partition in state.partition_watermarks or (partition and partition < state.sealed_below)
        begun = state.first_unfinished.get(partition)
        if not known and sort_key(file.path) <= watermark and (begun is None or name < begun):
            found.append(file.path)
    return tuple(found)


def _gaps(state: PathState, listed: Sequence[SourceFile]) -> tuple[str, ...]:
    """The files above a partition's watermark and below the greatest one that is begun or finished."""
    greatest = _last_names(tuple(state.files))
    gaps = []
    for file in listed:
        partition, name = split(file.path)
        begun = greatest.get(partition)
        above = name > state.partition_watermarks.get(partition, "")
        if begun is not None and above and name < begun and file.path not in state.files:
            gaps.append(file.path)
    return tuple(gaps)


def _last_names(paths: Sequence[str]) -> dict[str, str]:
    """The greatest name of each partition."""
    last: dict[str, str] = {}
    for partition, name in map(split, paths):
        last[partition] = max(name, last.get(partition, name))
    return last


def _is_passed(state: PathState, path: str) -> bool:
    partition, name = split(path)
    return name <= state.partition_watermarks.get(partition, "")


def _sized(progress: FileProgress, file: SourceFile | None) -> FileProgress:
    if isinstance(progress, Finished) or file is None:
        return progress
    return replace(progress, size=file.size, etag=file.etag)
