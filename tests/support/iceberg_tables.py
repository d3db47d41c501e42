"""Real Iceberg tables, written by pyiceberg with a catalog in SQLite."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

MARCH = datetime(2026, 3, 1, tzinfo=UTC)


ORDERS = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "at", TimestamptzType()),
    NestedField(3, "local", TimestampType()),
    NestedField(4, "price", DecimalType(9, 2)),
    NestedField(5, "code", UUIDType()),
    NestedField(6, "mark", FixedType(2)),
    NestedField(7, "raw", BinaryType()),
    NestedField(8, "buyer", StructType(NestedField(9, "name", StringType()), NestedField(20, "mark", FixedType(2)))),
    NestedField(10, "lines", ListType(11, StructType(NestedField(12, "item", StringType())), False)),
    NestedField(13, "sparse", LongType()),
    NestedField(14, "tags", MapType(15, StringType(), 16, StructType(NestedField(17, "n", IntegerType())), False)),
)
"""Columns of many types, nested ones among them."""


def row(number: int) -> dict[str, Any]:
    """A row of :data:`ORDERS`; some values are null in some of them."""
    at = MARCH + timedelta(hours=number)
    return {
        "id": number,
        "at": at,
        "local": at.replace(tzinfo=None),
        "price": Decimal(number) / 4,
        "code": UUID(int=number).bytes,
        "mark": b"ab",
        "raw": b"c",
        "buyer": None if number % 3 == 0 else {"name": f"b{number}", "mark": None},
        "lines": [{"item": f"i{number}"}, {"item": None}][: number % 3],
        "sparse": None if number % 10 == 0 else number,
        "tags": [(f"k{n}", {"n": n}) for n in range(number % 3)],
    }


def new_table(folder: Path, name: str, schema: Schema, location: str | None = None, **settings: Any) -> Table:
    """An empty table ``name`` in ``folder``, or at ``location``."""
    folder.mkdir(parents=True, exist_ok=True)
    properties = settings.pop("properties", {})
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=folder.as_uri(), **properties)
    catalog.create_namespace_if_not_exists("shop")
    return catalog.create_table(f"shop.{name}", schema, location or f"file://{folder}/{name}", **settings)


def add(table: Table, rows: Iterable[dict[str, Any]]) -> None:
    """Append one data file; columns that a row does not name are null."""
    table.append(pa.Table.from_pylist(list(rows), schema=table.schema().as_arrow()))


def data_file(table: Table, content: DataFileContent, format_: FileFormat, **facts: Any) -> DataFile:
    """The entry of a file that nobody has to open."""
    return DataFile.from_args(
        content=content,
        file_path=f"{table.location()}/data/{content.name.lower()}.{format_.value.lower()}",
        file_format=format_,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=100,
        spec_id=0,
        **facts,
    )


def delete_rows(table: Table, content: DataFileContent, **facts: Any) -> None:
    """Commit a delete file, as writers do that merge on read."""
    with table.transaction() as transaction:
        deleting = _Deleting(Operation.APPEND, transaction, table.io)
        deleting.file = data_file(table, content, FileFormat.PARQUET, **facts)
        with deleting:
            pass


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _Deleting(_FastAppendFiles):
    file: DataFile

    def _existing_manifests(self) -> list[ManifestFile]:
        metadata = self._transaction.table_metadata
        output = self._io.new_output(f"{metadata.location}/metadata/deletes-{self.commit_uuid}.avro")
        with _DeletesWriter(metadata.spec(), metadata.schema(), output, self._snapshot_id, "deflate") as writer:
            writer.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=self.file
                )
            )
        return [*super()._existing_manifests(), writer.to_manifest_file()]
