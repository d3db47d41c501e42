"""Avro files whose schema says anything about their values: they are written as what they are stored as."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

SYNC = b"s" * 16


def without_logical_types(schema: Any) -> Any:
    """The schema of the values as they are stored."""
    if isinstance(schema, list):
        return [without_logical_types(each) for each in schema]
    if isinstance(schema, dict):
        left = {key: without_logical_types(each) for key, each in schema.items() if key != "logicalType"}
        return left["type"] if left.keys() == {"type"} else left
    return schema


def avro_file(schema: Any, records: list[dict[str, Any]], *, sync_interval: int = 16_000) -> bytes:
    """A file of this schema, word by word; ``records`` have stored values: days, microseconds, bytes."""
    stored = fastavro.parse_schema(without_logical_types(schema))
    head, whole = io.BytesIO(), io.BytesIO()
    fastavro.writer(head, stored, [], sync_marker=SYNC)
    fastavro.writer(whole, stored, records, sync_marker=SYNC, sync_interval=sync_interval)
    return avro_head(schema) + whole.getvalue()[len(head.getvalue()) :]


def avro_head(schema: Any) -> bytes:
    """The beginning of an uncompressed file."""
    out = io.BytesIO()
    meta = {"type": "map", "values": "bytes"}
    fastavro.schemaless_writer(out, meta, {"avro.schema": json.dumps(schema).encode()})
    return b"Obj\x01" + out.getvalue() + SYNC


def record_of(fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A record schema."""
    return {"type": "record", "name": "row", **more, "fields": [{"name": k, "type": t} for k, t in fields.items()]}
