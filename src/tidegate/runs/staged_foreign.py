"""Metas without a unit: Parquet files that a foreign writer left, to be committed by the committer itself.

They carry no position, so a second commit is kept off by the path: of what is visible in the table, and of what was
committed last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.errors import StateError, TableError
from tidegate.runs.staged_columns import TableColumns
from tidegate.runs.staged_files import Examined, examine, fitted
from tidegate.runs.staged_fold import Rejection
from tidegate.specs import Evolution
from tidegate.state.files import DataFile, Written
from tidegate.state.staging import Meta
from tidegate.storage.port import ObjectStore

if TYPE_CHECKING:
    import pyarrow as pa

FOOTERS_AT_ONCE = 16


@dataclass(slots=True)
class ForeignFiles:
    """Files to commit by their columns, and what became of each meta."""

    files: list[tuple[DataFile, pa.Schema]] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        """What becomes visible."""
        return tuple(file for file, _ in self.files)

    def written(self, keys: tuple[str, ...]) -> tuple[Written, ...]:
        """The same by columns."""
        groups: list[tuple[pa.Schema, list[DataFile]]] = []
        for file, schema in self.files:
            for known, files in groups:
                if known.equals(schema):
                    files.append(file)
                    break
            else:
                groups.append((schema, [file]))
        return tuple(Written(schema, keys, tuple(files)) for schema, files in groups)

    def add(
        self,
        store: ObjectStore,
        metas: Mapping[str, Meta],
        visible: frozenset[str],
        columns: TableColumns,
        mode: Evolution,
    ) -> None:
        """Take every meta whose file is there, fits, and is not ``visible`` yet."""
        new: dict[str, tuple[str, Meta]] = {}
        for path, meta in metas.items():
            if meta.filename in visible or meta.filename in new:
                self.duplicates.append(path)
            else:
                new[meta.filename] = (path, meta)
        found = looked_at(store, [meta for _, meta in new.values()])
        for (path, _), examined in zip(new.values(), found, strict=True):
            try:
                if isinstance(examined, StateError):
                    raise examined
                schema = schema_in(examined, columns, mode)
            except (StateError, TableError) as error:
                self.rejected.append(Rejection(path, error.problem))
                continue
            self.files.append((examined.file, schema))
            self.taken.append(path)


def schema_in(examined: Examined, columns: TableColumns, mode: Evolution) -> pa.Schema:
    """The columns of a file in a table that has ``columns``; they count from now on. Raises when they do not fit."""
    table = columns.schema()
    assert table is not None
    schema = fitted(examined, table, columns.partition_columns)
    columns.add_files(schema, columns.partition_columns, [examined.file], mode)
    return schema


def looked_at(store: ObjectStore, metas: Sequence[Meta]) -> list[Examined | StateError]:
    """The footers of the files, or what is wrong with each; several at once."""

    def look(meta: Meta) -> Examined | StateError:
        try:
            return examine(store, meta.filename, meta.partition_values, meta.size, meta.record_count)
        except StateError as error:
            return error

    with ThreadPoolExecutor(FOOTERS_AT_ONCE, "footer") as pool:
        return list(pool.map(look, metas))
