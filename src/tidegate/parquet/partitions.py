"""Assigns rows to directories of the table.

A key of ``prefix_template`` takes its value from one of three places: the same ``key=`` of the source path (without
``column``), strftime over the column (``date=%Y-%m-%d``), or a column itself (the key alone). A column that is a key is
not in the files: Delta keeps its values beside them. Empty text is null, as in every Delta table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import TidegateError
from tidegate.schema.names import spell
from tidegate.schema.types import TIMESTAMP, arrow_schema
from tidegate.specs.table import FieldSpec, PartitionBy
from tidegate.storage.port import NameLimits

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
METADATA_COLUMNS: dict[str, pa.DataType] = {
    "_source_file": pa.string(),
    "_source_record": pa.int64(),
    "_ingested_at": TIMESTAMP,
}

FILE_NAME_BYTES = 44
"""The name of a data file in its directory: a UUID and ``.parquet``."""

_OTHER_BYTES = 64
"""No value of another type than text has more bytes as a directory."""

# The set of Hive and Spark: a path that is escaped otherwise is another partition to them.
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(32)}
_DAY = 86_400
_SORTED_BY_DIGITS = 2**16
"""Up to this many different numbers numpy sorts by their digits, in a tenth of the time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNSUITABLE = (pa.types.is_nested, pa.types.is_floating, pa.types.is_binary)

Codes = npt.NDArray[np.int64]
Rows = slice | npt.NDArray[np.int64]
"""Some rows of a batch, as a numpy index."""


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """One partition column. ``column`` is None if the path has the value; ``template`` is strftime over it."""

    name: str
    column: str | None = None
    template: str | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """The values of all keys, in order, in Delta's form; None is null."""

    values: tuple[tuple[str, str | None], ...] = ()

    @property
    def directory(self) -> str:
        """The directory of its files below the table, escaped once, with a trailing slash unless it is the root."""
        return "".join(f"{escape_path(name)}={_directory_value(value)}/" for name, value in self.values)

    def as_mapping(self) -> dict[str, str | None]:
        """Value by partition column."""
        return dict(self.values)


def escape_path(text: str) -> str:
    """Escape ``text`` for a path, as Hive does.

    >>> escape_path("14:30")
    '14%3A30'
    """
    return "".join(f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in text)


def _directory_value(value: str | None) -> str:
    return NULL_DIRECTORY if value is None else escape_path(value)


def path_values(path: str) -> Mapping[str, str | None]:
    """Parse the ``key=value`` directories of a source path."""
    values: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        name, equals, value = part.partition("=")
        if equals:
            values[unquote(name)] = None if value in (NULL_DIRECTORY, "") else unquote(value)
    return values


class Partitioning:
    """Splits batches by the keys of a template; without a template there is one partition."""

    def __init__(self, by: PartitionBy | None, declared: pa.Schema) -> None:
        self.keys = () if by is None else _parse_keys(by, declared)
        _check_keys(self.keys, declared)
        moved = {key.name for key in self.keys if key.column == key.name and key.template is None}
        self.columns = tuple(key.name for key in self.keys)
        self.from_path = tuple(key.name for key in self.keys if key.column is None)
        texts = {field.name: field for field in declared if pa.types.is_string(field.type)}
        # An empty text, which is null as a partition value, counts as missing.
        self.required = tuple(name for name in moved if name in texts and not texts[name].nullable)
        self.texts = tuple(key.column for key in self.keys if key.template is None and key.column in texts)

    def split(
        self, batch: pa.RecordBatch, path: str, schema: pa.Schema | None = None
    ) -> list[tuple[Partition, pa.RecordBatch, Rows]]:
        """Split rows by partition, without the key columns; with their positions, ascending.

        They have the types of ``schema``, if given.
        """
        codes, labels = self._labels(batch, path)
        rest = batch.select([name for name in batch.schema.names if name not in self.columns])
        self.check_rest(rest.schema.names)
        if schema is not None and not rest.schema.equals(schema):
            rest = rest.cast(schema)
        return [
            (Partition(tuple(zip(self.columns, label, strict=True))), rows, positions)
            for label, rows, positions in _group_rows(rest, codes, labels)
        ]

    def check_rest(self, names: Sequence[str]) -> None:
        """Raise if files would have none of these columns: rows without columns cannot be in a file."""
        if self.columns and set(names) <= set(self.columns):
            raise TidegateError(
                f"partition_by: all columns are keys ({', '.join(map(repr, self.columns))}), so that files would have "
                "none, and could not hold rows",
                "leave one out, or add a column (sink.metadata_columns)",
            )

    def _labels(self, batch: pa.RecordBatch, path: str) -> tuple[Codes, list[tuple[str | None, ...]]]:
        """Return a code per row, and the values of all keys for each code."""
        values_in_path = path_values(path) if self.from_path else {}
        codes = np.zeros(batch.num_rows, np.int64)
        labels: list[tuple[str | None, ...]] = [()]
        for key in self.keys:
            if key.column is None:
                labels = [(*label, values_in_path.get(key.name)) for label in labels]
            else:
                own, texts = _encode_column(batch.column(key.column), key.template)
                codes, labels = _combine_codes(codes, labels, own, texts)
        return codes, labels

    def find_too_long(self, batch: pa.RecordBatch, path: str, limits: NameLimits) -> dict[int, str]:
        """Find the rows whose values make a path that the store cannot have, each with the reason."""
        # A bound that costs nothing first: almost no value is ever too long, and every batch passes here.
        if not batch.num_rows or limits.allow(self._bound_lengths(batch, path), FILE_NAME_BYTES):
            return {}
        codes, labels = self._labels(batch, path)
        reasons = [self._explain_too_long(label, limits) for label in labels]
        return {row: reason for row, code in enumerate(codes.tolist()) if (reason := reasons[code])}

    def _bound_lengths(self, batch: pa.RecordBatch, path: str) -> Iterator[int]:
        """Yield at least as many bytes as the directory of each key can have."""
        values_in_path = path_values(path) if self.from_path else {}
        for key in self.keys:
            if key.column is None:
                value = len(_directory_value(values_in_path.get(key.name)).encode())
            elif key.template is None and pa.types.is_string(batch.column(key.column).type):
                # An escaped character takes three bytes.
                value = 3 * (pc.max(pc.binary_length(batch.column(key.column))).as_py() or 0)
            else:
                value = _OTHER_BYTES + 3 * len((key.template or "").encode())
            yield len(escape_path(key.name).encode()) + 1 + max(value, len(NULL_DIRECTORY))

    def _explain_too_long(self, label: tuple[str | None, ...], limits: NameLimits) -> str:
        """Explain why the directory of these values is impossible; empty if it is not."""
        segments = [
            f"{escape_path(name)}={_directory_value(value)}" for name, value in zip(self.columns, label, strict=True)
        ]
        lengths = [len(segment.encode()) for segment in segments]
        if limits.allow(lengths, FILE_NAME_BYTES):
            return ""
        length = max(lengths)
        name = self.columns[lengths.index(length)]
        if limits.segment is not None and length > limits.segment:
            lengths_shown = f"{length} bytes, and a name in its path can have {limits.segment}"
        else:
            lengths_shown = (
                f"{length} bytes, and the path of its file would have {sum(lengths) + len(lengths) + FILE_NAME_BYTES} "
            )
            lengths_shown += f"of at most {limits.path} bytes"
        return f"the value of partition column {name!r} is too long: its folder would have {lengths_shown}"

    def add_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add keys made from a column as columns, after the others."""
        for key in self.keys:
            if key.column is not None and key.name not in batch.schema.names:
                codes, texts = _encode_column(batch.column(key.column), key.template)
                column = pa.array(texts, pa.string()).take(pa.array(codes))
                batch = batch.append_column(key.name, column)
        return batch


def _parse_keys(by: PartitionBy, declared: pa.Schema) -> tuple[PartitionKey, ...]:
    keys = []
    for part in by.prefix_template.strip("/").split("/"):
        name, equals, template = part.partition("=")
        if by.column is None:
            keys.append(PartitionKey(name))
        elif equals:
            keys.append(PartitionKey(name, spell(by.column, declared.names), template))
        else:
            own = spell(name, declared.names)
            keys.append(PartitionKey(own, own if own in declared.names else spell(by.column, declared.names)))
    return tuple(keys)


def _check_keys(keys: tuple[PartitionKey, ...], declared: pa.Schema) -> None:
    for key in keys:
        taken = key.name in declared.names and not (key.column == key.name and key.template is None)
        if taken:
            raise TidegateError(
                f"partition_by: {key.name!r} is a column of the records too",
                "give the key another name, or take it from that column (`column`, and the key alone)",
            )
        if key.column is None:
            continue
        if key.column not in declared.names:
            raise TidegateError(f"partition_by: there is no column {key.column!r}", "declare it")
        kind = declared.field(key.column).type
        if key.template is not None and not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            raise TidegateError(
                f"partition_by: {key.template!r} needs a timestamp or date, {key.column!r} is {kind}",
                "take another column, or the key alone",
            )
        if any(unsuitable(kind) for unsuitable in _UNSUITABLE):
            raise TidegateError(f"partition_by: a {kind} ({key.column!r}) cannot be a key", "take another column")


def _encode_column(column: pa.Array, template: str | None) -> tuple[Codes, list[str | None]]:
    """Return a code per row, and the text of each code; null has the last code."""
    if template is not None:
        return _encode_times(column, template)
    encoded = column.dictionary_encode()
    texts = [_delta_text(value) or None for value in encoded.dictionary.to_pylist()]
    return encoded.indices.fill_null(len(texts)).to_numpy().astype(np.int64), [*texts, None]


def _encode_times(column: pa.Array, template: str) -> tuple[Codes, list[str | None]]:
    """Encode times; formats one moment per hour or day instead of each."""
    days = pa.types.is_date(column.type)
    per = 1 if days else (3600 if "%H" in template else _DAY) * 1_000_000
    storage = column.cast(pa.int32()).cast(pa.int64()) if days else column.cast(pa.int64())
    periods, codes = np.unique(storage.fill_null(0).to_numpy() // per, return_inverse=True)
    length = timedelta(days=1) if days else timedelta(microseconds=per)
    moments = [_EPOCH + int(period) * length for period in periods]
    # glibc writes %Y without leading zeros, so that the year 987 would sort behind 2026.
    texts = [moment.strftime(template.replace("%Y", f"{moment.year:04d}")) for moment in moments]
    missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else False
    return np.where(missing, len(texts), codes).astype(np.int64), [*texts, None]


def _delta_text(value: Any) -> str | None:
    """Write a partition value in the form of the Delta protocol."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.astimezone(UTC).strftime(f"{value.year:04d}-%m-%d %H:%M:%S.%f")
        case date():
            return value.isoformat()
        case _:
            return format(value, "f") if hasattr(value, "as_tuple") else str(value)


def _combine_codes(
    codes: Codes, labels: list[tuple[str | None, ...]], own: Codes, texts: list[str | None]
) -> tuple[Codes, list[tuple[str | None, ...]]]:
    if len(labels) == 1:
        return own, [(*labels[0], text) for text in texts]
    pairs, combined = np.unique(codes * len(texts) + own, return_inverse=True)
    labels_of_pairs = [(*labels[int(pair) // len(texts)], texts[int(pair) % len(texts)]) for pair in pairs]
    return combined.astype(np.int64), labels_of_pairs


def _group_rows(
    batch: pa.RecordBatch, codes: Codes, labels: list[tuple[str | None, ...]]
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch, Rows]]:
    """Group rows by label; equal labels form one group."""
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    if len(numbers) <= 1 or not len(codes):
        if len(codes):
            yield labels[0], batch, slice(None)
        return
    narrow = np.uint16 if len(numbers) <= _SORTED_BY_DIGITS else np.int64
    merged: npt.NDArray[Any] = np.array([numbers[label] for label in labels], narrow)[codes]
    order = np.argsort(merged, kind="stable")
    ordered = batch if bool(np.all(merged[1:] >= merged[:-1])) else batch.take(pa.array(order))
    bounds = [0, *np.cumsum(np.bincount(merged, minlength=len(numbers))).tolist()]
    for label, number in numbers.items():
        start, end = bounds[number], bounds[number + 1]
        if end > start:
            yield label, ordered.slice(start, end - start), order[start:end]


def table_schema(
    fields: tuple[FieldSpec, ...], by: PartitionBy | None, metadata_columns: tuple[str, ...] = ()
) -> pa.Schema:
    """All columns of the table: declared, metadata, then the keys that are not declared columns."""
    declared = arrow_schema(fields)
    metadata = [pa.field(name, METADATA_COLUMNS[name]) for name in metadata_columns]
    return with_keys(pa.schema([*declared, *metadata]), Partitioning(by, declared).keys)


def with_keys(declared: pa.Schema, keys: tuple[PartitionKey, ...]) -> pa.Schema:
    """``declared``, then the keys that are not declared columns."""
    added = [pa.field(key.name, _key_type(key, declared)) for key in keys if key.name not in declared.names]
    return pa.schema([*declared, *added])


def _key_type(key: PartitionKey, declared: pa.Schema) -> pa.DataType:
    if key.column is None or key.template is not None:
        return pa.string()
    return declared.field(key.column).type
