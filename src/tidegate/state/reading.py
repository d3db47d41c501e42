"""Small questions to a table without Spark: for the demo, the docs and tests."""

from __future__ import annotations

from typing import Any

from tidegate.specs import Location


def query(table: Location, sql: str) -> list[dict[str, Any]]:
    """The rows of ``sql`` over the newest version of ``table``, which it calls ``t``."""
    from deltalake import DeltaTable, QueryBuilder

    found = DeltaTable(table.uri, storage_options=dict(table.options))
    return [
        row for batch in QueryBuilder().register("t", found).execute(sql) for row in batch.to_struct_array().to_pylist()
    ]
