"""The two vectorised parsers: a quick one that forgives and bends, and Arrow's own, which is strict and slower.

Both read a block whose lines are known to be objects (:func:`~tidegate.sink.grammar.objects`), and both raise
:class:`Suspicious` unless they find exactly one record per line.
"""

from __future__ import annotations

import io
import re

import pyarrow as pa
import pyarrow.json as pj
from arro3.io import read_json

from tidegate.schema.types import arrow_type
from tidegate.sink.relaxed import Suspicious
from tidegate.specs import FieldSpec

MISHANDLED = re.compile(
    rb"\\u(?:0000|[dD](?:8[4-9a-fA-F]|[9abAB])|00(?:2[2cC]|3[aA]|6[cCeE]|7[5bBdD]))",
)
"""Escapes that are not for the quick parser: a zero character in its error message ends the process, characters
from U+20000 on come out as others; and escaped punctuation or ``null`` would upset the counting."""


def parse_quickly(block: bytes, lines: int, schema: pa.Schema, rows_per_step: int) -> pa.RecordBatch:
    """What the quick parser makes of a block without :data:`MISHANDLED` escapes."""
    try:
        table = pa.table(read_json(io.BytesIO(block), schema, batch_size=rows_per_step))
    except Exception as error:
        raise Suspicious(str(error)) from error
    return one_batch(table, lines)


def parse_strictly(block: bytes, lines: int, options: pj.ParseOptions) -> pa.RecordBatch:
    """What Arrow's parser makes of a block: unknown fields ignored, repeated ones and misfits refused."""
    reading = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
    try:
        if not block.isascii():
            block.decode()
        table = pj.read_json(pa.BufferReader(block), reading, options)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise Suspicious(str(error)) from error
    return one_batch(table, lines)


def one_batch(table: pa.Table, rows: int) -> pa.RecordBatch:
    """A table as one batch; raises :class:`Suspicious` unless it has that many rows."""
    if table.num_rows != rows:
        raise Suspicious(f"{table.num_rows} records on {rows} lines")
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def strict_options(fields: tuple[FieldSpec, ...], barred: list[pa.Field]) -> pj.ParseOptions:
    """Arrow's parser refuses what does not fit; only texts are left to us."""
    schema = pa.schema([*(_strict_field(field) for field in fields), *barred])
    return pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")


def _strict_field(field: FieldSpec) -> pa.Field:
    return pa.field(field.name, _strict_type(field), field.nullable)


def _strict_type(field: FieldSpec) -> pa.DataType:
    if field.type == "struct":
        return pa.struct([_strict_field(child) for child in field.fields])
    if field.type == "list" and field.items is not None:
        return pa.list_(pa.field("element", _strict_type(field.items), field.items.nullable))
    if field.type in ("timestamp", "date", "binary"):
        return pa.string()
    return arrow_type(field)
