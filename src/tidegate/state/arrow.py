"""Delta schemas and Arrow schemas, each from the other; loads both libraries only when called."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@lru_cache(maxsize=64)
def arrow_schema(schema_json: str) -> pa.Schema:
    """The Arrow schema of a Delta schema string."""
    import pyarrow
    from deltalake import Schema

    return pyarrow.schema(Schema.from_json(schema_json))


@lru_cache(maxsize=64)
def schema_json(schema: pa.Schema) -> str:
    """The Delta schema string of an Arrow schema."""
    from deltalake import Schema

    return str(Schema.from_arrow(schema).to_json())


def no_rows(schema: pa.Schema) -> pa.RecordBatchReader:
    """Columns without a row."""
    import pyarrow

    return pyarrow.RecordBatchReader.from_batches(schema, [])
