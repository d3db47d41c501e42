"""Iceberg tables without a catalog: the newest state of a folder, and the data files that may have wanted rows.

Everything is read through our own stores, with the storage options of the source. The state is pinned when the table is
opened. Statistics and partitions in its manifests exclude files; the rest may have more than the wanted rows, never
less. This is the only module that knows the library ``pyiceberg``.

Spark reads the planned files, or this module reads them as Arrow columns. Both find columns by Iceberg's field ids,
whatever their names in a file; a column that a file lacks is null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import reduce
from io import BufferedReader, BytesIO
from typing import Any, NoReturn
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThan,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotNull,
    Or,
    Reference,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.io import FileIO, InputFile
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import FileScanTask, StaticTable
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.errors import ObjectMissing, SourceError, TidegateError
from tidegate.specs.columns import NullWatermark, Value, WatermarkMode
from tidegate.specs.locations import Location, Options
from tidegate.storage.options import split_uri
from tidegate.storage.port import ObjectStore, SeekableInput
from tidegate.storage.stores import open_store

_METADATA = re.compile(r"(?:^|/)v?(\d+)(?:-[^/]*)?(?:\.gz)?\.metadata\.json(?:\.gz)?$")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGITS = 400
"""More digits than any bound has."""

_FUNCTION = "read the table with your own function ('type: python')"
_DELETES = f"rewrite its data files (in Spark: CALL system.rewrite_data_files), or {_FUNCTION}"
_KINDS = {
    "boolean": ("boolean", pa.bool_()),
    "int": ("int", pa.int32()),
    "long": ("bigint", pa.int64()),
    "float": ("float", pa.float32()),
    "double": ("double", pa.float64()),
    "date": ("date", pa.date32()),
    "timestamp": ("timestamp_ntz", pa.timestamp("us")),
    "timestamptz": ("timestamp", pa.timestamp("us", "UTC")),
    "string": ("string", pa.string()),
    **dict.fromkeys(("uuid", "fixed", "binary"), ("binary", pa.binary())),
}
"""By name of a type: Spark's name and Arrow's type."""

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A data file: ``path`` lies below ``root``, the root of a disk or a bucket."""

    root: Location
    path: str


class IcebergTable:
    """The state of the table in the folder ``location``, pinned when it is opened."""

    def __init__(self, location: Location, source: str) -> None:
        self._source = source
        self._options = location.options
        try:
            self._table = _open(location, source)
        except Exception as error:
            self._refuse(error)
        schema = self._table.schema()
        self._kinds = {field.name: field.field_type for field in schema.fields}
        self.fields: Sequence[Mapping[str, Any]] = json.loads(schema.model_dump_json())["fields"]
        """The columns, in the JSON of the Iceberg specification."""
        self.keeps_names = _keeps_names(self._table)
        """Whether each column has had its name, and no other column that name, in every possible data file."""

    def plan_files(self, rows: RowFilter) -> tuple[PlannedFile, ...]:
        """The data files that may have one of ``rows``; raises if Spark alone would misread them."""
        try:
            self._refuse_equality_deletes()
            tasks = list(self._table.scan(row_filter=_expression(rows, self._kinds)).plan_files())
        except Exception as error:
            self._refuse(error)
        return tuple(self._check_file(task) for task in tasks)

    @property
    def kinds(self) -> dict[str, str]:
        """The Spark types of the columns; UUIDs are text."""
        return {field["name"]: "string" if field["type"] == "uuid" else _kind(field["type"]) for field in self.fields}

    def columns(self, names: Sequence[str] | None = None) -> pa.Schema:
        """All columns, or those with these ``names``, as :meth:`scan` returns them."""
        wanted = [field for field in self.fields if names is None or field["name"] in names]
        return pa.schema([self._column(each) for each in wanted])

    def scan(self, rows: RowFilter, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """A superset of the matching rows, in all columns or those with these ``names``."""
        columns = self.columns(names)
        numbers = {field["name"]: field for field in self.fields}
        for file in self.plan_files(rows):
            try:
                for batch in _read(file, [numbers[column.name]["id"] for column in columns]):
                    found = {_number(each): array for each, array in zip(batch.schema, batch.columns, strict=True)}
                    arrays = [_project(found, numbers[column.name], column.type, len(batch)) for column in columns]
                    yield pa.record_batch(arrays, columns)
            except (pa.ArrowException, NotImplementedError) as error:
                told = str(error).partition("\n")[0]
                problem = f"{self._source}: data file {file.path} cannot be read: {told}"
                raise SourceError(problem, "set engine: spark, which may read it") from error

    def _column(self, described: Mapping[str, Any]) -> pa.Field:
        """A column of the rows; :class:`SourceError` for a type that neither Spark nor a table has."""
        if described["type"] == "uuid":
            return pa.field(described["name"], pa.string())
        return pa.field(described["name"], self._type(described, described["name"]))

    def _type(self, described: Mapping[str, Any], path: str) -> pa.DataType:
        refuse_default(described, path, self._source)
        match described["type"]:
            case {"type": "struct", "fields": fields}:
                return pa.struct([(field["name"], self._type(field, f"{path}.{field['name']}")) for field in fields])
            case {"type": "list", "element": element}:
                return pa.list_(pa.field("element", self._type({"type": element}, f"{path}.element")))
            case {"type": "map", "key": key, "value": value}:
                return pa.map_(self._type({"type": key}, f"{path}.key"), self._type({"type": value}, f"{path}.value"))
            case str() as name if found := _DECIMAL.fullmatch(name):
                return pa.decimal128(int(found[1]), int(found[2]))
            case str() as name if name.partition("[")[0] in _KINDS:
                return _KINDS[name.partition("[")[0]][1]
            case other:
                raise type_error(other, path, self._source)

    def _check_file(self, task: FileScanTask) -> PlannedFile:
        path = task.file.file_path
        if task.file.file_format is not FileFormat.PARQUET:
            kind = task.file.file_format.value.capitalize()
            raise SourceError(f"{self._source}: data file {path} is {kind}, and Tidegate reads only Parquet", _FUNCTION)
        if task.delete_files:
            raise SourceError(f"{self._source}: rows of data file {path} are deleted by a delete file", _DELETES)
        root, below = _split_path(path)
        return PlannedFile(Location(root, self._options), below)

    def _refuse_equality_deletes(self) -> None:
        """Look for equality deletes in every delete file: the values in those cannot exclude them."""
        snapshot = self._table.current_snapshot()
        for manifest in snapshot.manifests(self._table.io) if snapshot else ():
            if manifest.content is not ManifestContent.DELETES:
                continue
            for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True):
                if entry.data_file.content is DataFileContent.EQUALITY_DELETES:
                    path = entry.data_file.file_path
                    raise SourceError(f"{self._source}: {path} deletes rows by their values", _DELETES)

    def _refuse(self, error: Exception) -> NoReturn:
        if isinstance(error, TidegateError):
            raise error
        told = str(error).partition("\n")[0]
        raise SourceError(
            f"{self._source}: {type(error).__name__}: {told}", "check source_uri, and that it is an Iceberg table"
        ) from error


def refuse_default(described: Mapping[str, Any], path: str, source: str) -> None:
    """:class:`SourceError` for a column with a default value, which no file has."""
    if described.get("initial-default") is not None:
        raise SourceError(
            f"{source}: column {path!r} has a default for older rows, which Tidegate does not read",
            "rewrite the data files of the table, or read it by a function of yours ('type: python')",
        )


def type_error(described: Any, path: str, source: str) -> SourceError:
    """The error for a type that Spark does not have."""
    return SourceError(f"{source}: column {path!r} is of type {described}, which Spark cannot read", _FUNCTION)


def _kind(described: Any) -> str:
    """Spark's name of a type; only the outer kind for a nested one."""
    if not isinstance(described, str):
        return str(described["type"])
    name = described.partition("[")[0]
    return _KINDS[name][0] if name in _KINDS else described.replace(" ", "")


def _read(file: PlannedFile, numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in those of these columns that it has; at most one row group is in memory."""
    raw = BufferedReader(SeekableInput(open_store(file.root), file.path), 1024 * 1024)
    with pq.ParquetFile(raw) as parquet:
        there = {_number(each): each.name for each in parquet.schema_arrow}
        # By name alone, a column could be one that had this name before.
        if set(there) == {None}:
            raise pa.ArrowInvalid("its columns have no numbers")
        names = [there[number] for number in numbers if number in there]
        # For pyarrow `a.b` is also the field `b` of a struct `a`.
        plain = all(map(_PLAIN.fullmatch, names))
        yield from parquet.iter_batches(columns=names if plain and names else None)


def _number(field: pa.Field) -> int | None:
    """The field id of a column in a file."""
    found = (field.metadata or {}).get(_ID)
    return None if found is None else int(found)


def _project(
    found: Mapping[int | None, pa.Array], described: Mapping[str, Any], kind: pa.DataType, rows: int
) -> pa.Array:
    """The column with a field id, of ``kind``; nulls if a file has none."""
    array = found.get(described["id"])
    return pa.nulls(rows, kind) if array is None else _convert_column(array, described["type"], kind)


def _convert_column(array: pa.Array, described: Any, kind: pa.DataType) -> pa.Array:
    """A column of a file as one of the table; nested fields are found by their ids, too."""
    match described:
        case {"type": "struct", "fields": fields}:
            inside = {_number(field): part for field, part in zip(array.type, array.flatten(), strict=True)}
            arrays = [_project(inside, field, part.type, len(array)) for field, part in zip(fields, kind, strict=True)]
            return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=array.is_null())
        case {"type": "list", "element": element}:
            values = _convert_column(array.flatten(), element, kind.value_type)
            return pa.ListArray.from_arrays(_offsets(array), values, kind, mask=array.is_null())
        case {"type": "map", "key": key, "value": value}:
            # `keys` and `items` of a slice have the values of the whole array; lists made from the offsets do not.
            keys, items = (pa.ListArray.from_arrays(array.offsets, each) for each in (array.keys, array.items))
            parts = (
                _convert_column(keys.flatten(), key, kind.key_type),
                _convert_column(items.flatten(), value, kind.item_type),
            )
            return pa.MapArray.from_arrays(_offsets(keys), *parts, kind, mask=array.is_null())
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    if pa.types.is_timestamp(array.type) and (array.type.tz is None) != (getattr(kind, "tz", None) is None):
        raise pa.ArrowInvalid(f"it holds {array.type} for {described}")
    if described == "uuid" and pa.types.is_string(kind):
        return pa.array([None if each is None else str(UUID(bytes=each)) for each in array.to_pylist()], kind)
    return array.cast(kind)


def _offsets(array: pa.Array) -> pa.Array:
    """The start of each list's values among those that are there."""
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32()))
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


class _StoreIO(FileIO):
    """Files of a table through our own stores; read-only."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self._options = options
        self._stores: dict[str, ObjectStore] = {}

    def new_input(self, location: str) -> InputFile:
        root, path = _split_path(location)
        store = self._stores.get(root) or self._stores.setdefault(root, open_store(Location(root, self._options)))
        return _StoredFile(location, store, path)

    def new_output(self, location: str) -> NoReturn:
        raise PermissionError(location)

    def delete(self, location: object) -> NoReturn:
        raise PermissionError(location)


class _StoredFile(InputFile):
    def __init__(self, location: str, store: ObjectStore, path: str) -> None:
        super().__init__(location)
        self._store = store
        self._path = path

    def __len__(self) -> int:
        return self._store.head(self._path).size

    def exists(self) -> bool:
        try:
            return len(self) >= 0
        except ObjectMissing:
            return False

    def open(self, seekable: bool = True) -> BytesIO:
        return BytesIO(self._store.get(self._path))


def _open(location: Location, source: str) -> StaticTable:
    files = _StoreIO(location.options)
    address = _metadata(location, source)
    metadata = FromInputFile.table_metadata(files.new_input(address))
    return StaticTable((source,), metadata, address, files, NoopCatalog(source))


def _metadata(location: Location, source: str) -> str:
    """The address of the newest metadata: the file that a hint names, or the one with the greatest number."""
    scheme, bucket, path = split_uri(location.uri)
    address = f"{scheme}://{bucket}/{path}"
    if path.endswith(".metadata.json"):
        return address
    store = open_store(location)
    try:
        hint = store.get("metadata/version-hint.text").decode().strip()
    except ObjectMissing:
        hint = ""
    # A numeric hint is not trusted: it is written after the commit, so it may be behind or missing.
    if hint and not hint.isnumeric():
        return f"{address}/metadata/{hint.removesuffix('.metadata.json')}.metadata.json"
    versions: dict[int, list[str]] = {}
    for info in store.list_directory("metadata").objects:
        if found := _METADATA.search(info.path):
            versions.setdefault(int(found[1]), []).append(info.path)
    if not versions:
        raise SourceError(f"{source}: there is no Iceberg metadata in {location.uri}/metadata", "check source_uri")
    newest = versions[max(versions)]
    if len(newest) > 1:
        raise SourceError(
            f"{source}: {' and '.join(newest)} in {location.uri} both look like the newest metadata",
            "wait for the next commit, or set source_uri to the one that the catalog names",
        )
    return f"{address}/{newest[0]}"


def _keeps_names(table: StaticTable) -> bool:
    """Compare the earlier schemas; false if one is gone, or a name is encoded."""
    schemas = table.schemas()
    if sorted(schemas) != list(range(len(schemas))):
        return False
    present = table.schema()
    numbers = _numbers(present)
    names = {number: name for name, number in numbers.items()}
    return all(_PLAIN.fullmatch(present.find_field(number).name) for number in names) and all(
        numbers.get(name, number) == number and names.get(number, name) == name
        for earlier in schemas.values()
        for name, number in _numbers(earlier).items()
    )


def _numbers(schema: Schema) -> dict[str, int]:
    """The ids of the columns, nested ones too, by name as Spark compares them."""
    return {name.lower(): schema.find_field(name).field_id for name in schema.column_names}


def _split_path(path: str) -> tuple[str, str]:
    """Root and rest of a path in metadata: an address without percent-encoding, or a path on disk."""
    scheme, found, rest = path.partition("://")
    if not found or scheme == "file":
        return "file://", (rest if found else path.removeprefix("file:")).lstrip("/")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key


def _expression(rows: RowFilter, kinds: Mapping[str, IcebergType]) -> BooleanExpression:
    """A condition on files that every wanted row meets."""
    nulls: list[BooleanExpression] = [IsNull(term=Reference(column)) for column in rows.columns]
    if not nulls:
        return AlwaysTrue()
    includes = rows.nulls is NullWatermark.INCLUDE
    if rows.mode is WatermarkMode.TUPLE:
        first = rows.ranges[0]
        # Equal in the first column, a row may be greater in the next.
        wanted = [_compare(first, first.lower, kinds, is_upper=False, or_equal=True)]
        caps = [_compare(first, first.upper, kinds, is_upper=True, or_equal=True)]
        if includes:
            wanted, caps = [*wanted, *nulls], [*caps, *nulls]
        return And(_one_of(wanted), _one_of(caps))
    wanted = [_new_rows(interval, kinds) for interval in rows.ranges]
    if includes:
        wanted.append(_all_of(nulls))
    return _all_of([_one_of(wanted), *(_covered_rows(interval, kinds) for interval in rows.ranges)])


def _one_of(parts: Sequence[BooleanExpression]) -> BooleanExpression:
    nothing: BooleanExpression = AlwaysFalse()
    return reduce(Or, parts, nothing)


def _all_of(parts: Sequence[BooleanExpression]) -> BooleanExpression:
    everything: BooleanExpression = AlwaysTrue()
    return reduce(And, parts, everything)


def _new_rows(each: ColumnRange, kinds: Mapping[str, IcebergType]) -> BooleanExpression:
    if each.lower is None:
        return NotNull(term=Reference(each.column)) if each.any_value else AlwaysTrue()
    return _compare(each, each.lower, kinds, is_upper=False)


def _covered_rows(each: ColumnRange, kinds: Mapping[str, IcebergType]) -> BooleanExpression:
    if each.only_null:
        return IsNull(term=Reference(each.column))
    # A null in one column excludes no row: another column may make it new.
    return Or(_compare(each, each.upper, kinds, is_upper=True), IsNull(term=Reference(each.column)))


def _compare(
    each: ColumnRange,
    bound: Bound | None,
    kinds: Mapping[str, IcebergType],
    *,
    is_upper: bool,
    or_equal: bool = False,
) -> BooleanExpression:
    rounding = ROUND_CEILING if is_upper else ROUND_FLOOR
    value = None if bound is None else _literal(bound.value, kinds[each.column], rounding)
    if bound is None or value is None:
        return AlwaysTrue()
    signs = (LessThan, LessThanOrEqual) if is_upper else (GreaterThan, GreaterThanOrEqual)
    return signs[bound.inclusive or or_equal](term=Reference(each.column), value=literal(value))


def _literal(value: Value, kind: IcebergType, rounding: str) -> Any:
    """``value`` for comparison with statistics of ``kind``, rounded outwards; None if they do not compare.

    Statistics of floating-point numbers ignore NaN, which Spark sorts above everything: they exclude no file.
    """
    match kind, value:
        case (IntegerType() | LongType() | DecimalType(), int() | float() | Decimal()):
            exact = Decimal(value)
            scale = kind.scale if isinstance(kind, DecimalType) else 0
            if not exact.is_finite():
                return None
            rounded = exact.quantize(Decimal(1).scaleb(-scale), rounding, Context(prec=_DIGITS))
            return rounded if isinstance(kind, DecimalType) else int(rounded)
        case (TimestampType() | TimestamptzType(), datetime()) | (StringType(), str()):
            return value
        case (DateType(), date()):
            return value
    return None
