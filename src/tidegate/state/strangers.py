"""What others do to a table while Tidegate writes into it: append rows of their own, compact files.

For ``chaos`` and for tests: these are commits without any trace of ours, made by the Delta library alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.specs import Location

if TYPE_CHECKING:
    import pyarrow as pa


def append_rows(table: Location, rows: pa.Table) -> None:
    """Append rows to a table that exists; columns they lack are NULL."""
    from deltalake import write_deltalake

    write_deltalake(table.uri, rows, mode="append", schema_mode="merge", storage_options=dict(table.options))


def compact(table: Location) -> None:
    """OPTIMIZE: the same rows in fewer files; a stream sees nothing of it."""
    from deltalake import DeltaTable

    DeltaTable(table.uri, storage_options=dict(table.options)).optimize.compact()
