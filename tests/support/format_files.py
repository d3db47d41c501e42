"""The same records written in every format, for tests that hold for all of them; workbooks are for downloads alone."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from openpyxl import Workbook  # type: ignore[import-untyped]  # it has no types

ENDINGS = {"ndjson": ".ndjson", "csv": ".csv", "parquet": ".parquet", "avro": ".avro", "json": ".json"}

_AVRO: dict[type, Any] = {
    int: "long",
    float: "double",
    bool: "boolean",
    str: "string",
    bytes: "bytes",
    datetime: {"type": "long", "logicalType": "timestamp-micros"},
    date: {"type": "int", "logicalType": "date"},
    Decimal: {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4},
}

Records = Sequence[dict[str, Any]]


def written(format: str, records: Records, **options: Any) -> bytes:
    """A file of ``format`` that holds ``records``, which have the same keys; ``gzip=True`` compresses it."""
    data = _WRITERS[format](records, options)
    return gzip.compress(data, 1) if options.get("gzip") else data


def _ndjson(records: Records, options: dict[str, Any]) -> bytes:
    return "".join(json.dumps(each, default=_word) + "\n" for each in records).encode()


def _json(records: Records, options: dict[str, Any]) -> bytes:
    return json.dumps(list(records), default=_word, indent=options.get("indent")).encode()


def _csv(records: Records, options: dict[str, Any]) -> bytes:
    text = io.StringIO()
    names = list(records[0]) if records else options["names"]
    writer = csv.DictWriter(text, names, lineterminator="\n", delimiter=options.get("delimiter", ","))
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in each.items()} for each in records)
    return text.getvalue().encode()


def _parquet(records: Records, options: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    table = pa.Table.from_pylist(list(records), options.get("schema"))
    pq.write_table(table, out, row_group_size=options.get("row_group", 1000))
    return out.getvalue()


def _avro(records: Records, options: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fields = [{"name": name, "type": _avro_type(records, name)} for name in (records[0] if records else ["id"])]
    schema = options.get("schema") or {"type": "record", "name": "row", "fields": fields}
    codec = options.get("codec", "deflate")
    fastavro.writer(out, fastavro.parse_schema(schema), list(records), codec=codec, sync_interval=4000)
    return out.getvalue()


def _excel(records: Records, options: dict[str, Any]) -> bytes:
    book, out = Workbook(write_only=True), io.BytesIO()
    sheet = book.create_sheet(options.get("sheet", "data"))
    for row in ([*records[0]], *(each.values() for each in records)):
        sheet.append([*row])
    book.save(out)
    return out.getvalue()


def _avro_type(records: Records, name: str) -> Any:
    values = (each[name] for each in records if each[name] is not None)
    return ["null", _AVRO[type(next(values, "" if records else 0))]]


def _word(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _cell(value: Any) -> Any:
    return "" if value is None else _word(value)


_WRITERS = {"ndjson": _ndjson, "json": _json, "csv": _csv, "parquet": _parquet, "avro": _avro, "excel": _excel}
