"""Parquet files that no unit tells of: what their footers say, as files to commit.

For metas of foreign writers, which hold five fields and no columns, and for files that are adopted. A wrong
statistic hides rows, so bounds of floats are left out: a footer does not tell whether there was a NaN.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import ObjectMissing, StateError
from tidegate.schema.types import plain_field
from tidegate.sink.statistics import delta_statistics, float_columns
from tidegate.state.files import DataFile
from tidegate.state.staging import STAGING
from tidegate.storage.port import ObjectStore
from tidegate.storage.seekable import SeekableInput

_RESERVED = ("_delta_log", "_tidegate", "_blizzard", STAGING)


@dataclass(frozen=True, slots=True)
class Examined:
    """A Parquet file as its footer tells of it; ``columns`` are those in the file, without partition columns."""

    file: DataFile
    columns: pa.Schema


def check_path(path: str) -> None:
    """``StateError`` unless ``path`` can be a data file of the table."""
    parts = path.split("/")
    wrong = (
        not path.endswith(".parquet")
        or "://" in path
        or any(part in ("", ".", "..") or part.startswith((".", "_")) for part in parts[-1:])
        or any(part in ("", ".", "..") for part in parts)
        or parts[0] in _RESERVED
    )
    if wrong:
        raise StateError(f"{path!r} is not the path of a Parquet file below the table", "name it relative to the table")


def examine(store: ObjectStore, path: str, values: Mapping[str, str | None], size: int, rows: int | None) -> Examined:
    """The file at ``path``, by its footer; ``StateError`` when it is not the one that is told of."""
    check_path(path)
    try:
        found = store.head(path)
    except ObjectMissing as error:
        raise StateError(f"there is no Parquet file {path}", "write it before its meta") from error
    if found.size != size:
        raise StateError(f"{path} has {found.size} bytes, and its meta says {size}", "write the meta last")
    try:
        with pq.ParquetFile(SeekableInput(store, path)) as parquet:
            footer, columns = parquet.metadata, parquet.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise StateError(f"{path} is not a readable Parquet file ({error})", "write it again") from error
    if rows is not None and footer.num_rows != rows:
        raise StateError(f"{path} has {footer.num_rows} rows, and its meta says {rows}", "write the meta last")
    columns = pa.schema([plain_field(field) for field in columns])
    stats = delta_statistics(footer, columns, frozenset(float_columns(columns)))
    given = {name: value or None for name, value in values.items()}
    return Examined(DataFile(path, size, footer.num_rows, given, stats), columns)


def fitted(examined: Examined, table: pa.Schema, keys: tuple[str, ...]) -> pa.Schema:
    """The columns of the file as they fit the table, with its partition columns behind them.

    A column that the table requires must have no null in the file: that is known from its footer, or it does not fit.
    """
    present = [name for name in keys if name in examined.columns.names]
    if present:
        raise StateError(f"{examined.file.path} holds the partition column {present[0]!r}", "leave it out of the file")
    _check_values(examined.file, table, keys)
    required = {field.name for field in table if not field.nullable}
    columns = [
        field.with_nullable(False) if field.name in required and _has_no_null(examined.file, field.name) else field
        for field in examined.columns
    ]
    known = {field.name: field for field in table}
    return pa.schema([*columns, *(known[name] for name in keys)])


def _has_no_null(file: DataFile, column: str) -> bool:
    counts = json.loads(file.stats or "{}").get("nullCount", {})
    return bool(counts.get(column) == 0)


def _check_values(file: DataFile, table: pa.Schema, keys: tuple[str, ...]) -> None:
    if set(file.partition_values) != set(keys):
        raise StateError(
            f"{file.path} has values for {sorted(file.partition_values)}, and the table is partitioned by {list(keys)}",
            "give every partition column its value",
        )
    for name in keys:
        field, value = table.field(name), file.partition_values[name]
        if value is None and not field.nullable:
            raise StateError(f"{file.path}: partition column {name!r} is required and has no value", "give it one")
        if value is not None and not _is_value(field.type, value):
            raise StateError(f"{file.path}: {value!r} is no {field.type} for partition column {name!r}", "correct it")


def _is_value(kind: pa.DataType, text: str) -> bool:
    """Whether ``text`` is a value of that type as the Delta protocol writes it."""
    parse = next((parse for fits, parse in _PARSERS if fits(kind)), None)
    try:
        if parse is not None:
            parse(text)
    except (ValueError, ArithmeticError):
        return False
    return parse is not None


def _boolean(text: str) -> None:
    if text not in ("true", "false"):
        raise ValueError(text)


_PARSERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[str], Any]], ...] = (
    (pa.types.is_string, str),
    (pa.types.is_large_string, str),
    (pa.types.is_integer, int),
    (pa.types.is_date, date.fromisoformat),
    (pa.types.is_timestamp, datetime.fromisoformat),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_decimal, Decimal),
    (pa.types.is_floating, float),
)
