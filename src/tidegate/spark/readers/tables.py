"""Tables that Spark scans itself (Delta, Iceberg, folders of Parquet files), and files that tasks scan in full.

Spark skips files of tables by their statistics. The first question pins a table to its newest version and a folder to
its present files, so that greatest values and rows come from one state.

Of an Iceberg table Spark's Parquet reader gets those files of one snapshot that can hold wanted rows. Columns are found
by Iceberg's field ids, whatever a file calls them. Spark's vectorised reader and its pushed filters also go by names:
where a name once meant another column, rows are read one by one and no row group is skipped.

Tasks decode CSV, JSON and Excel files as strictly as file sources, then Spark filters the rows. Only the rows tell the
greatest watermark values, so the batch itself gives the new watermark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.files.discovery import Reason
from tidegate.core.files.plan import FileSlice
from tidegate.errors import EnvironmentProblem, SourceError
from tidegate.formats.excel import WorkbookScan, infer_workbooks, workbooks_of
from tidegate.reports.wording import visible
from tidegate.schema.types import arrow_schema
from tidegate.sources.file_discovery import refuse_left_out
from tidegate.sources.reader import kinds_of_times
from tidegate.spark.arrow_types import to_spark_columns
from tidegate.spark.filters import exact_column, kinds_in
from tidegate.spark.readers.reader import FrameReader, name_source_in_errors, task_count
from tidegate.spark.s3a import spark_path
from tidegate.spark.session import put, quote
from tidegate.spark.tasks import Packed, deal, slot_frame, slot_numbers
from tidegate.specs.columns import ColumnSource, TableFormat, TableRead
from tidegate.specs.files import PathSource
from tidegate.specs.table import FieldSpec, SchemaSpec
from tidegate.storage.options import split_uri
from tidegate.storage.port import Scope
from tidegate.storage.stores import open_store
from tidegate.tasks.read_task import files_of, infer_files, list_files, scan_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

    from tidegate.sources.iceberg import IcebergTable


class TableReader(FrameReader):
    """Reads one table with Spark's own scan."""

    fixed_first = True
    _remedy = "check source_uri, and that the files are what 'type' says"

    def __init__(self, session: SparkSession, source: ColumnSource, read: TableRead, schema: SchemaSpec) -> None:
        super().__init__(session, source, schema)
        self._read = read

    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        """Which columns hold times."""
        return kinds_of_times(columns, kinds_in(self._whole.schema), self._source.name)

    def _frame(self, rows: RowFilter) -> DataFrame:
        return self._whole

    @cached_property
    def _whole(self) -> DataFrame:
        """The pinned state."""
        path = spark_path(self._session, self._read.location, self._source.name)
        with name_source_in_errors(self._source.name, self._remedy):
            if self._read.format is TableFormat.DELTA:
                return self._delta(path)
            self._check_layout()
            # Otherwise Spark takes the columns of one file for those of all.
            reader = self._session.read.option("mergeSchema", "true")
            if self._read.pattern:
                reader = reader.option("pathGlobFilter", self._read.pattern).option("recursiveFileLookup", "true")
            return reader.parquet(path)

    def _check_layout(self) -> None:
        """Refuse what Spark would read twice (links), or leave out without a word (files outside its partitions)."""
        location, scope = self._read.location, Scope(follow_links=self._read.follow_links)
        store = open_store(location)
        is_local = split_uri(location.uri)[0] == "file"
        if (is_local and not store.exists()) or (self._read.pattern and not is_local):
            return
        overlooked = find_overlooked(info.path for info in store.list(scope=scope))
        refuse_left_out(scope, location.uri, "set follow_links: true, or put the files themselves there")
        again = [each for each in scope.left_out if each.reason is Reason.LINK_AGAIN]
        if again:
            raise SourceError(f"{location.uri}: {again[0]}", "remove the link: Spark would read these files twice")
        # With a pattern Spark looks into all folders.
        if overlooked is not None and not self._read.pattern:
            raise SourceError(
                f"{location.uri}: Spark would leave out {visible(overlooked)}, which is not where the other files are",
                'set pattern: "*.parquet" to read the files of all folders (folders named key=value are no columns '
                "then), or name the folder that has the files",
            )

    def _delta(self, path: str) -> DataFrame:
        # Pinned: a commit between the question for the greatest values and the read would give rows above them.
        history = self._session.sql(f"DESCRIBE HISTORY delta.{quote(path)} LIMIT 1")
        version = history.select("version").collect()[0][0]
        return self._session.read.format("delta").option("versionAsOf", version).load(path)


def find_overlooked(paths: Iterable[str]) -> str | None:
    """A file of ``paths`` that Spark does not read without a pattern, or ``None``.

    Once a folder is named key=value, Spark reads the files below such folders alone; else those of the top alone.
    """
    top = below = None
    has_partitions = False
    for path in paths:
        *folders, name = path.split("/")
        if name.startswith(("_", ".")) or any(each.startswith(("_", ".")) and "=" not in each for each in folders):
            continue
        if any("=" in each for each in folders):
            has_partitions = True
        elif folders:
            below = below or path
        else:
            top = top or path
    return (below or top) if has_partitions else below


NUMBER = "parquet.field.id"
"""Where Spark looks for the number of a column."""

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_HYPHENS = "^(.{8})(.{4})(.{4})(.{4})(.{12})$"


def spark_columns(fields: Sequence[Mapping[str, Any]], source: str) -> StructType:
    """Spark columns for ``fields``, a struct in the JSON of the Iceberg specification; raises for types Spark lacks."""
    from pyspark.sql.types import StructType

    return StructType([_field(field, field["name"], source) for field in fields])


def as_written(frame: DataFrame, fields: Sequence[Mapping[str, Any]]) -> DataFrame:
    """``frame`` without Iceberg's field ids, and with UUIDs as text."""
    uuids = {field["name"] for field in fields if field["type"] == "uuid"}
    return frame.select(*(_simplify_column(field, is_uuid=field.name in uuids) for field in frame.schema))


def _simplify_column(field: StructField, *, is_uuid: bool) -> Column:
    from pyspark.sql import functions as f

    column = exact_column(field.name)
    if is_uuid:
        return f.regexp_replace(f.lower(f.hex(column)), _HYPHENS, "$1-$2-$3-$4-$5").alias(field.name)
    # Cast even to the same type: that drops the field's own metadata, for which Spark 4.0 ignores `metadata={}`.
    return column.cast(_simplify_type(field.dataType)).alias(field.name)


def _simplify_type(kind: DataType) -> DataType:
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    match kind:
        case StructType():
            return StructType([StructField(each.name, _simplify_type(each.dataType), each.nullable) for each in kind])
        case ArrayType():
            return ArrayType(_simplify_type(kind.elementType), kind.containsNull)
        case MapType():
            return MapType(_simplify_type(kind.keyType), _simplify_type(kind.valueType), kind.valueContainsNull)
        case _:
            return kind


def _field(described: Mapping[str, Any], path: str, source: str) -> StructField:
    from pyspark.sql.types import StructField

    from tidegate.sources.iceberg import refuse_default

    refuse_default(described, path, source)
    kind = _type(described["type"], path, source)
    return StructField(described["name"], kind, metadata={NUMBER: described["id"]})


def _type(described: Any, path: str, source: str) -> DataType:
    from pyspark.sql.types import ArrayType, MapType, StructType

    match described:
        case {"type": "struct", "fields": fields}:
            return StructType([_field(field, f"{path}.{field['name']}", source) for field in fields])
        case {"type": "list", "element": element}:
            return ArrayType(_type(element, f"{path}.element", source))
        case {"type": "map", "key": key, "value": value}:
            return MapType(_type(key, f"{path}.key", source), _type(value, f"{path}.value", source))
        case str():
            return _simple(described, path, source)
    raise AssertionError(described)


def _simple(described: str, path: str, source: str) -> DataType:
    from pyspark.sql import types as t

    kinds: dict[str, DataType] = {
        "boolean": t.BooleanType(),
        "int": t.IntegerType(),
        "long": t.LongType(),
        "float": t.FloatType(),
        "double": t.DoubleType(),
        "date": t.DateType(),
        "timestamp": t.TimestampNTZType(),
        "timestamptz": t.TimestampType(),
        "string": t.StringType(),
        **dict.fromkeys(("uuid", "fixed", "binary"), t.BinaryType()),
    }
    if number := _DECIMAL.fullmatch(described):
        return t.DecimalType(int(number[1]), int(number[2]))
    if kind := kinds.get(described.partition("[")[0]):
        return kind
    from tidegate.sources.iceberg import type_error

    raise type_error(described, path, source)


_BY_NUMBER = "spark.sql.parquet.fieldId.read.enabled"
_BY_NAME = ("spark.sql.parquet.enableVectorizedReader", "spark.sql.parquet.filterPushdown")
_GLOB = re.compile(r"([\\\[\]{}*?])")
"""What Spark would take for a pattern in a path."""


class IcebergReader(TableReader):
    """Reads one Iceberg table, pinned to the newest snapshot at the first question."""

    def _frame(self, rows: RowFilter) -> DataFrame:
        planned = self._table.plan_files(self._fit(rows, self._whole.schema))
        roots = {each.root: spark_path(self._session, each.root, self._source.name) for each in planned}
        return self._scan([roots[each.root] + _GLOB.sub(r"\\\1", each.path) for each in planned])

    @cached_property
    def _whole(self) -> DataFrame:
        """An empty frame with all columns."""
        return self._scan([])

    @cached_property
    def _table(self) -> IcebergTable:
        spark_path(self._session, self._read.location, self._source.name)
        try:
            from tidegate.sources.iceberg import IcebergTable
        except ImportError as error:
            raise EnvironmentProblem(
                f"{self._source.name}: reading Iceberg tables needs pyiceberg, which is missing ({error.name})",
                "pip install 'tidegate[iceberg]'",
            ) from error
        return IcebergTable(self._read.location, self._source.name)

    def _scan(self, paths: list[str]) -> DataFrame:
        fields = self._table.fields
        columns = spark_columns(fields, self._source.name)
        put(self._session, {_BY_NUMBER: "true"})
        if not self._table.keeps_names:
            put(self._session, dict.fromkeys(_BY_NAME, "false"))
        if not paths:
            return as_written(self._session.createDataFrame([], columns), fields)
        return as_written(self._session.read.schema(columns).parquet(*paths), fields)


_SLOTS_PER_TASK = 4

Slots = Sequence[Sequence[FileSlice]]
Scan = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


class FilesReader(FrameReader):
    """Reads CSV, JSON and Excel files below one location."""

    _remedy = "correct the file, or declare schema.fields"

    def __init__(self, session: SparkSession, source: ColumnSource, read: TableRead, schema: SchemaSpec) -> None:
        super().__init__(session, source, schema)
        self._read = read
        self._is_excel = read.format is TableFormat.EXCEL
        self._files = (workbooks_of if self._is_excel else files_of)(source.name, read)

    def _frame(self, rows: RowFilter) -> DataFrame:
        return self._whole

    @cached_property
    def _whole(self) -> DataFrame:
        """All files that exist now."""

        slices = list_files(self._files)
        fields = self._schema.fields or self._infer(slices)
        slots = deal(slices, _SLOTS_PER_TASK * task_count(self._session))
        columns = to_spark_columns(arrow_schema(fields))
        return slot_frame(self._session, len(slots)).mapInArrow(self._scan(fields, slots), columns)

    def _scan(self, fields: tuple[FieldSpec, ...], slots: Slots) -> Scan:
        if self._is_excel:
            zone = self._source.source_timezone
            return WorkbookScan(self._files, fields, self._schema, self._read.sheet, zone, slots)
        return Packed(_scan_slots, self._files, fields, self._schema, slots)

    def _infer(self, slices: Sequence[FileSlice]) -> tuple[FieldSpec, ...]:
        """Columns inferred from the first records of some files."""
        if not self._is_excel:
            return infer_files(self._files, slices, self._schema)
        return infer_workbooks(self._files, slices, self._read.sheet, self._source.source_timezone, self._schema)


def _scan_slots(
    batches: Iterator[pa.RecordBatch],
    files: PathSource,
    fields: tuple[FieldSpec, ...],
    schema: SchemaSpec,
    slots: Slots,
) -> Iterator[pa.RecordBatch]:
    """The function that runs in a task."""
    for slot in slot_numbers(batches):
        yield from scan_files(files, fields, schema, slots[slot])
