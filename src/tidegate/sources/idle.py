"""Finds out without Spark whether a column source has anything new: a poll that finds nothing need not start Java.

The question is smaller than Spark's: is there a row above the watermark, or none? The condition is the text that Spark
would send. Only "none" counts: then the pass ends. Spark asks as usual if there is a row, if the column is not of the
watermark's kind, if a JDBC driver might answer differently, and after any error; people then see Spark's error.

Databases are asked by the reader of the local engine, if its driver is installed. Delta and Iceberg tables answer by
the statistics in their own metadata, and by the few files whose statistics are not exact enough.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.core.columns.predicates import ColumnRange, RowFilter, matches
from tidegate.core.columns.state import is_above, kind_of
from tidegate.core.dialects.address import HARMLESS_FOR_POLLS, Unsupported
from tidegate.core.dialects.registry import dialect_of
from tidegate.protocol.delta import pin_table
from tidegate.protocol.table import arrow_schema
from tidegate.sources.databases import connectable
from tidegate.specs.columns import ColumnSource, JdbcRead, NullWatermark, TableFormat, TableRead, Value, WatermarkMode
from tidegate.storage.port import ObjectStore, SeekableInput
from tidegate.storage.stores import open_store

MOST_FILES = 16
"""The most files of a table to read; Spark reads more of them faster."""


class NoAnswer(Exception):
    """Only Spark knows what is new; ``reason`` is for people, and empty if nobody can change it."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def nulls_if_idle(source: ColumnSource, rows: RowFilter) -> int | None:
    """The number of rows with null instead of a watermark, if no row of ``source`` matches; None if one does.

    ``rows`` are those above a watermark. :class:`NoAnswer` if only Spark knows.
    """
    if not _has_lower_bounds(rows):
        raise NoAnswer
    try:
        match source.read:
            case JdbcRead() as read:
                return _ask_database(source, read, rows)
            case TableRead(format=TableFormat.DELTA) as read:
                return _ask_delta(read, rows)
            case TableRead(format=TableFormat.ICEBERG) as read:
                return _ask_iceberg(read, rows, source.name)
    except NoAnswer:
        raise
    except Exception as error:  # Spark will meet and report it, too
        raise NoAnswer(f"Tidegate could not query it without Spark ({type(error).__name__})") from None
    raise NoAnswer


def _has_lower_bounds(rows: RowFilter) -> bool:
    if rows.mode is WatermarkMode.TUPLE:
        return bool(rows.ranges) and rows.ranges[0].lower is not None
    return bool(rows.ranges) and all(each.lower is not None or each.any_value for each in rows.ranges)


def _check_kinds(rows: RowFilter, kinds: Mapping[str, str | None]) -> None:
    """Check that every bound is of its column's kind: Spark decides what else it means."""
    for each in rows.ranges:
        kind = kinds.get(each.column)
        bounds = {kind_of(bound.value) for bound in (each.lower, each.upper) if bound is not None}
        if kind is None or bounds - {kind}:
            raise NoAnswer


def _ask_database(source: ColumnSource, read: JdbcRead, rows: RowFilter) -> int | None:
    try:
        database = connectable(read, source.name, HARMLESS_FOR_POLLS)
    except Unsupported as unsupported:
        raise NoAnswer(unsupported.reason) from None
    except ImportError:
        driver = dialect_of(read.url).python
        extra = f"install '{driver.extra}', and such a run starts without Java" if driver else ""
        raise NoAnswer(extra) from None
    return database.nulls_if_idle(rows, source.source_timezone)


@dataclass(frozen=True, slots=True)
class _DataFile:
    """A data file: ``greatest`` and ``nulls`` by column, if known; nothing is greatest among nulls."""

    store: ObjectStore
    path: str
    greatest: Mapping[str, Value] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)
    rows: int | None = None


_ARROW_KINDS = {"string": "text", "large_string": "text", "date32[day]": "date", "timestamp[us]": "datetime_naive"}
_READ_BY_ALL = frozenset(("timestampNtz",))
_ROUNDING = timedelta(milliseconds=1)
"""Statistics of a Delta table cut times to the millisecond."""


def _ask_delta(read: TableRead, rows: RowFilter) -> int | None:
    snapshot = pin_table(read.location)
    if snapshot is None:
        raise NoAnswer
    protocol = snapshot.facts.protocol
    # Version 2 brings column mapping: files and statistics name columns differently.
    if protocol.min_reader == 2 or not _READ_BY_ALL.issuperset(protocol.reader_features):
        raise NoAnswer("its table has features that only Spark can read")
    schema = arrow_schema(snapshot.facts.schema_json)
    wanted = [schema.field(name) for name in rows.columns if name in schema.names]
    _check_kinds(rows, {each.name: _arrow_kind(each.type) for each in wanted})
    keys = snapshot.facts.partition_columns
    store, adds = open_store(read.location), snapshot.file_statistics()
    files = [_delta_file(add, rows.columns, keys, store) for add in adds]
    held = [each for each in files if _may_hold(each, rows)]
    # Values of partition columns are not in the files, so there is nothing to look at.
    if held and (len(held) > MOST_FILES or any(name in keys for name in rows.columns)):
        raise NoAnswer
    if _any_matches(held, wanted, rows):
        return None
    return _count_nulls(files, rows)


def _delta_file(add: Mapping[str, Any], columns: Sequence[str], keys: Sequence[str], store: ObjectStore) -> _DataFile:
    greatest, nulls = {}, {}
    for name in columns:
        value = add.get(f"partition.{name}") if name in keys else add.get(f"max.{name}")
        missing = add.get(f"null_count.{name}")
        if name in keys:
            missing = 0 if value is not None else add.get("num_records")
        if value is not None:
            greatest[name] = value
        if missing is not None:
            nulls[name] = missing
    return _DataFile(store, unquote(add["path"]), greatest, nulls, add.get("num_records"))


def _may_hold(file: _DataFile, rows: RowFilter) -> bool:
    """Whether the file may have a matching row; a cursor is judged by its first column."""
    ranges = rows.ranges[:1] if rows.mode is WatermarkMode.TUPLE else rows.ranges
    return any(_reaches(file, each.column, None if each.lower is None else each.lower.value) for each in ranges) and (
        file.rows != 0
    )


def _reaches(file: _DataFile, column: str, lower: Value | None) -> bool:
    """Whether a value of the column may lie at or above ``lower``, and above if the file is exact."""
    value: Any = file.greatest.get(column)
    if value is None:
        return file.rows is None or file.nulls.get(column) != file.rows
    if lower is None:
        return True
    return is_above(value + _ROUNDING if kind_of(value).startswith("datetime") else value, lower) or value == lower


def _count_nulls(files: Iterable[_DataFile], rows: RowFilter) -> int:
    """Rows with null in every column (in a cursor: in any), if the statistics have them."""
    found = list(files)
    if any(name not in file.nulls for file in found for name in rows.columns):
        raise NoAnswer
    counts = [sum(file.nulls[name] for file in found) for name in rows.columns]
    none = max(counts) == 0 if rows.mode is WatermarkMode.TUPLE else min(counts) == 0
    if none:
        return 0
    if len(counts) > 1 or rows.extra is not None:
        raise NoAnswer
    return counts[0]


def _any_matches(files: Iterable[_DataFile], fields: Sequence[pa.Field], rows: RowFilter) -> bool:
    """Whether one of these files has a matching row; ignores the extra condition, which is Spark's."""
    return any(matches(rows, row) for file in files for row in _rows_near(file, fields, rows))


def _rows_near(file: _DataFile, fields: Sequence[pa.Field], rows: RowFilter) -> Iterable[Mapping[str, Any]]:
    """The rows of a file that reach the lower bound of a column, or of the first of a cursor."""
    raw = io.BufferedReader(SeekableInput(file.store, file.path), 1024 * 1024)
    # As nanoseconds, which is the default, INT96 ends in the year 2262.
    with pq.ParquetFile(raw, coerce_int96_timestamp_unit="us") as parquet:
        names = [each.name for each in fields if each.name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(columns=names):
            columns = {
                each.name: batch.column(each.name).cast(each.type) if each.name in names else pa.nulls(len(batch))
                for each in fields
            }
            yield from pa.table(columns).filter(_near(columns, rows)).to_pylist()


def _near(columns: Mapping[str, Any], rows: RowFilter) -> Any:
    is_cursor = rows.mode is WatermarkMode.TUPLE
    found = pa.array([False] * len(next(iter(columns.values()))))
    for each in rows.ranges[:1] if is_cursor else rows.ranges:
        column = columns[each.column]
        if each.lower is None or pa.types.is_null(column.type):
            found = pc.or_(found, pc.is_valid(column))
            continue
        compare = pc.greater_equal if is_cursor or each.lower.inclusive else pc.greater
        found = pc.or_(found, pc.fill_null(compare(column, pa.scalar(each.lower.value, column.type)), False))
    return found


def _arrow_kind(kind: pa.DataType) -> str | None:
    text = str(kind)
    if text.startswith(("int", "uint")):
        return "int"
    if text.startswith("timestamp[us, tz="):
        return "datetime"
    return "decimal" if text.startswith("decimal128") else _ARROW_KINDS.get(text)


_ICEBERG_TYPES = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}


def _ask_iceberg(read: TableRead, rows: RowFilter, source: str) -> int | None:
    """Exclude files by metadata; if one may have a row without a watermark, Spark counts those."""
    from tidegate.sources.iceberg import IcebergTable

    table = IcebergTable(read.location, source)
    types = {each["name"]: each["type"] for each in table.fields}
    wanted = [pa.field(name, _ICEBERG_TYPES[types[name]]) for name in rows.columns if types.get(name) in _ICEBERG_TYPES]
    _check_kinds(rows, {each.name: _arrow_kind(each.type) for each in wanted})
    if any(map(table.plan_files, _null_rows(rows))):
        raise NoAnswer
    held = table.plan_files(replace(rows, nulls=NullWatermark.EXCLUDE))
    if held and (len(held) > MOST_FILES or not table.keeps_names):
        raise NoAnswer
    found = _any_matches((_DataFile(open_store(each.root), each.path) for each in held), wanted, rows)
    return None if found else 0


def _null_rows(rows: RowFilter) -> list[RowFilter]:
    """Conditions for rows with null in every column (in a cursor: in any); each such row meets one."""
    nulls = [ColumnRange(name, only_null=True) for name in rows.columns]
    groups = [(each,) for each in nulls] if rows.mode is WatermarkMode.TUPLE else [tuple(nulls)]
    return [RowFilter(group, nulls=NullWatermark.INCLUDE) for group in groups]
