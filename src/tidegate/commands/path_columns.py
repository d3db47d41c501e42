"""The values in folder names of a source, such as ``date=2026-01-28/``: which become columns of the table, which not.

They are not in the files, so they would be lost. ``sink.partition_by`` without a column takes them from the path; the
columns are then partitions of the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tidegate.core.files.paths import Layout
from tidegate.core.files.plan import FileSlice
from tidegate.errors import TidegateError
from tidegate.formats.samples import Sampler
from tidegate.parquet.partitions import path_values
from tidegate.protocol.delta import pin_table
from tidegate.schema.names import MADE_COLUMNS
from tidegate.specs.files import PathSource
from tidegate.specs.locations import Location
from tidegate.storage.port import ObjectInfo, ObjectStore

MOST_VALUES = 100
"""Values up to which a key that is no time makes partitions: each of them is a folder of the table."""

SAMPLED_LINES = 20


@dataclass(frozen=True, slots=True)
class PathColumns:
    """The keys of folder names: ``kept`` as columns, in order, and those that are not, each with the reason."""

    kept: tuple[str, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> Iterator[tuple[str, str]]:
        """What to say about them, with labels."""
        if self.kept:
            folders = "".join(f"{key}=…/" for key in self.kept)
            yield "columns", f"also {', '.join(self.kept)} from folder names ({folders}), which partition the table"
        for key, reason in self.dropped:
            yield "not kept", f"the values of {key}=…/ in folder names: {reason}"


def path_columns(
    store: ObjectStore, source: PathSource, files: Sequence[ObjectInfo], table: Location, asked: str | None
) -> PathColumns:
    """The keys of the folder names of ``files``; ``asked`` is what the user wants the table to be partitioned by."""
    found = [path_values(file.path) for file in files]
    keys = tuple(dict.fromkeys(key for values in found for key in values))
    if not keys:
        return PathColumns()
    if asked is not None:
        named = {part.partition("=")[0] for part in asked.rpartition(":")[2].split("/")}
        others = tuple((key, "--partition-by names other columns") for key in keys if key not in named)
        return PathColumns((), others)
    reasons = {key: _reason(key, [values.get(key) for values in found], keys) for key in keys}
    of_records = _columns(store, source, files)
    reasons |= {key: "the records have a column of that name" for key in keys if key.lower() in of_records}
    kept = tuple(key for key in keys if not reasons[key])
    existing = _partition_columns(table)
    if existing is not None and existing != kept:
        how = f"partitioned by {', '.join(existing)}" if existing else "not partitioned"
        reason = f"the table exists and is {how}; a new table keeps them"
        reasons |= dict.fromkeys((key for key in kept if key not in existing), reason)
        kept = existing if existing and set(existing) <= set(keys) else ()
    return PathColumns(kept, tuple((key, reasons[key]) for key in keys if key not in kept))


def _reason(key: str, values: Sequence[str | None], keys: Sequence[str]) -> str:
    """Why the values of ``key`` do not become a column; empty if they do."""
    if not re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII) or key in MADE_COLUMNS:
        return "the key is not a name for a column"
    # Delta and Spark do not distinguish them.
    if sum(each.lower() == key.lower() for each in keys) > 1:
        return "two keys differ only in case"
    if None in values:
        return f"not all files are in such a folder; keep them with --partition-by '{key}=*'"
    different = set(values)
    is_time = all(Layout().time_of(f"{key}={value}") for value in different)
    if len(different) > MOST_VALUES and not is_time:
        return f"more than {MOST_VALUES} values, each a folder of the table; keep them with --partition-by '{key}=*'"
    return ""


def _columns(store: ObjectStore, source: PathSource, files: Sequence[ObjectInfo]) -> frozenset[str]:
    """The columns of some of the files, in lower case; none if they cannot be read, which the run reports."""
    # Old and new files may have different columns.
    some = {file.path: file for file in (files[0], files[len(files) // 2], files[-1])}
    slices = [FileSlice(file.path, file.size, file.etag) for file in some.values()]
    with suppress(TidegateError):
        return frozenset(field.name.lower() for field in Sampler(store, source, SAMPLED_LINES).infer(slices).fields)
    return frozenset()


def _partition_columns(table: Location) -> tuple[str, ...] | None:
    """The partition columns of the table; None if there is none yet, or it cannot be read, which the run reports."""
    with suppress(TidegateError):
        snapshot = pin_table(table)
        return None if snapshot is None else snapshot.facts.partition_columns
    return None
