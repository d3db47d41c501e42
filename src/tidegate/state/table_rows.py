"""Rows of a table at one version, without Spark: for inputs that are small beside what is moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.state.arrow import arrow_schema
from tidegate.state.delta import DeltaLakeTable, DeltaSnapshot
from tidegate.storage.opening import open_store

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.specs import Location


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version of a table, held fast: whatever is committed meanwhile, its rows stay the same."""

    snapshot: DeltaSnapshot

    @property
    def version(self) -> int:
        """Its number."""
        return self.snapshot.facts.version

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(arrow_schema(self.snapshot.facts.schema_json).names)

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Its rows, with these columns only, some thousands at a time."""
        import pyarrow
        from deltalake import QueryBuilder

        wanted = ", ".join(_quoted(name) for name in columns)
        table: Any = self.snapshot.table
        with self.snapshot.mapped("read"):
            for batch in QueryBuilder().register("t", table).execute(f"SELECT {wanted} FROM t"):
                yield pyarrow.record_batch(batch)


def pinned(location: Location) -> TableVersion | None:
    """The newest version of the table at ``location``; None where there is no table."""
    snapshot = DeltaLakeTable(location, open_store(location)).snapshot()
    if snapshot is None:
        return None
    assert isinstance(snapshot, DeltaSnapshot)
    return TableVersion(snapshot)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
