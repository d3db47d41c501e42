"""Avro object container files, block by block, in bounded memory.

A union with null is a nullable value; one of whole numbers and fractions has the wider type. Values of any other union
are kept as JSON text, since no column type fits them all.

The native reader reads blocks straight into columns, if it is installed and knows the types of the file. A library that
makes Python values reads the rest: odd records, and files of other types. Both give the same result; a law in
``tests/laws`` says so.
"""

from __future__ import annotations

import base64
import bz2
import contextlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain, islice
from typing import Any, BinaryIO
from uuid import UUID

import orjson
import pyarrow as pa

from tidegate.core.files.plan import FileSlice
from tidegate.errors import SourceError, TidegateError
from tidegate.formats.columnar import MIXED, ColumnarFormat
from tidegate.formats.json import array_of
from tidegate.formats.port import LARGEST_WINDOW, Decoded, check_start
from tidegate.schema.literals import find_native
from tidegate.schema.names import avro_library
from tidegate.schema.types import TIMESTAMP

Shape = Callable[[Any], Any]
"""Converts a decoded value (never null) to the value of the Arrow column."""

ShapedType = tuple[pa.DataType, Shape | None]
"""The type of a column, and how its values are converted; None for unchanged."""

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
}
_WIDTHS = ("int", "long", "float", "double")


class AvroTypes:
    """Arrow types of one file's schema; names that it defines can be used further down."""

    def __init__(self) -> None:
        self._named: dict[str, ShapedType] = {}

    def of(self, schema: Any) -> ShapedType:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return (_PRIMITIVES[schema], None) if schema in _PRIMITIVES else self._named.get(schema, (MIXED, _text))
        logical = schema.get("logicalType")
        if logical == "decimal":
            return pa.decimal128(schema["precision"], schema.get("scale", 0)), None
        if logical == "uuid":
            return pa.string(), str
        if logical in _LOGICAL:
            return _LOGICAL[logical], None
        match schema["type"]:
            case "record" | "error":
                return self._record(schema)
            case "enum":
                return self._name(schema, (pa.string(), None))
            case "fixed":
                return self._name(schema, (pa.binary(), None))
            case "array":
                kind, shape = self.of(schema["items"])
                return pa.list_(pa.field("element", kind)), _each(shape)
            case "map":
                kind, shape = self.of(schema["values"])
                return pa.map_(pa.string(), kind), _pairs(shape)
            case inner:
                return self.of(inner)

    def _name(self, schema: dict[str, Any], found: ShapedType) -> ShapedType:
        self._named[schema["name"]] = found
        return found

    def _record(self, schema: dict[str, Any]) -> ShapedType:
        """The type of a record; one inside itself is unknown when met, so it is kept as JSON text."""
        fields, shapes = [], {}
        for each in schema["fields"]:
            kind, shape = self.of(each["type"])
            fields.append(pa.field(each["name"], kind))
            if shape is not None:
                shapes[each["name"]] = shape
        return self._name(schema, (pa.struct(fields), _members(shapes)))

    def _union(self, branches: list[Any]) -> ShapedType:
        values = [branch for branch in branches if branch != "null"]
        if not values:
            return pa.null(), None
        if len(values) == 1:
            return self.of(values[0])
        if all(branch in _WIDTHS for branch in values):
            widest = max(values, key=_WIDTHS.index)
            return _PRIMITIVES["double" if "long" in values and widest == "float" else widest], None
        for branch in values:
            self.of(branch)
        return MIXED, _text


class _UnknownType(Exception):
    """The native reader does not know a type."""


_LOGICAL_PLANS: dict[tuple[str, str], tuple[str, int | None]] = {
    ("date", "int"): ("date", None),
    ("timestamp-millis", "long"): ("moment", 1000),
    ("timestamp-micros", "long"): ("moment", 1),
    ("local-timestamp-millis", "long"): ("moment", 1000),
    ("local-timestamp-micros", "long"): ("moment", 1),
    ("time-millis", "int"): ("time", 1000),
    ("time-micros", "long"): ("time", 1),
    ("uuid", "string"): ("uuid", None),
}
_DEEPEST, _MOST_VALUES, _MOST_SYMBOLS = 32, 10_000, 100_000

Plan = tuple[str, int, Any]
"""The type of a value, the branch of its union that is null (-1: none), and its contents."""


class _NativePlan:
    """The schema of a file for the native reader; raises :class:`_UnknownType`.

    Each value must have a byte at least, so that a block cannot have more values than bytes.
    """

    def __init__(self) -> None:
        self.values = self._symbols = 0
        self._named: dict[str, Any] = {}

    def of(self, schema: Any, depth: int = 0) -> Plan:
        self.values += 1
        if depth > _DEEPEST or self.values > _MOST_VALUES:
            raise _UnknownType
        if isinstance(schema, list):
            return self._union(schema, depth)
        if isinstance(schema, str):
            if schema in _PRIMITIVES and schema != "null":
                return schema, -1, None
            if schema not in self._named:
                raise _UnknownType
            return self.of(self._named[schema], depth + 1)
        kind = schema["type"]
        if "logicalType" in schema:
            return self._logical(schema, kind)
        match kind:
            case "record" | "error" if schema["fields"]:
                found: Plan = "record", -1, [self.of(each["type"], depth + 1) for each in schema["fields"]]
            case "enum":
                self._symbols += len(schema["symbols"])
                if self._symbols > _MOST_SYMBOLS:
                    raise _UnknownType
                found = "enum", -1, schema["symbols"]
            case "fixed" if schema["size"] > 0:
                found = "fixed", -1, schema["size"]
            case "array":
                return "array", -1, self.of(schema["items"], depth + 1)
            case "map":
                return "map", -1, self.of(schema["values"], depth + 1)
            case str() if kind in _PRIMITIVES and kind != "null":
                return kind, -1, None
            case _:
                raise _UnknownType
        self._named[schema["name"]] = schema
        return found

    def _logical(self, schema: dict[str, Any], kind: str) -> Plan:
        if schema["logicalType"] == "decimal" and kind in ("bytes", "fixed"):
            precision, scale = schema["precision"], schema.get("scale", 0)
            size = schema["size"] if kind == "fixed" else None
            if 0 <= scale <= precision <= 38 and size != 0:
                return "decimal", -1, (size, precision, scale)
        if (schema["logicalType"], kind) not in _LOGICAL_PLANS:
            raise _UnknownType
        name, unit = _LOGICAL_PLANS[schema["logicalType"], kind]
        return name, -1, unit

    def _union(self, branches: list[Any], depth: int) -> Plan:
        if len(branches) != 2 or branches.count("null") != 1:
            raise _UnknownType
        null = branches.index("null")
        kind, inner_null, inner = self.of(branches[1 - null], depth + 1)
        if inner_null >= 0:
            raise _UnknownType
        return kind, null, inner


def _each(shape: Shape | None) -> Shape | None:
    if shape is None:
        return None
    return lambda values: [None if each is None else shape(each) for each in values]


def _pairs(shape: Shape | None) -> Shape:
    if shape is None:
        return lambda values: list(values.items())
    return lambda values: [(key, None if each is None else shape(each)) for key, each in values.items()]


def _members(shapes: dict[str, Shape]) -> Shape | None:
    if not shapes:
        return None

    def shape_members(record: dict[str, Any]) -> dict[str, Any]:
        for name, shape in shapes.items():
            if record[name] is not None:
                record[name] = shape(record[name])
        return record

    return shape_members


def _text(value: Any) -> str:
    return orjson.dumps(value, default=_word).decode()


def _word(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return orjson.Fragment(format(value, "f"))
        case datetime() | date() | time():
            return value.isoformat()
        case UUID():
            return str(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form")


_ROWS = 8192
_LARGEST_BATCH = 1_000_000
"""The most values in the native reader, null or not."""

_MAGIC = b"Obj\x01"
_CODEC = b"avro.codec"
_MOST_EMPTY = 1_000_000
"""The most empty records of a block."""

LARGEST_BLOCK = 64 * 1024 * 1024
"""The most bytes of a block, packed and unpacked."""


class AvroFormat(ColumnarFormat):
    """Reads Avro files, each with its own schema."""

    seeks = False

    def read(self, raw: BinaryIO, each: FileSlice) -> Iterator[Decoded]:
        """The records from ``each.start_record`` on; whole blocks before it are not decoded."""
        file = AvroFile(raw, each.path)
        unknown = self._fit.unknown(file.schema, each.path)
        for batch in file.batches(each.start_record):
            yield self._decode(batch, unknown)
        check_start(each, file.records)


class PlainAvro:
    """A container file as the library reads it best: uncompressed, and each block within the limit.

    The library trusts the sizes that a file declares, and decompresses blocks without a limit. So the blocks are
    decompressed here, within the limit, and passed on as those of an uncompressed file.
    """

    def __init__(self, raw: BinaryIO, path: str) -> None:
        self._raw = raw
        self._path = path
        self._place = 0
        self._pieces = self._container()
        self._rest = io.BytesIO()

    def read(self, size: int) -> bytes:
        """That many bytes, fewer only at the end."""
        found = self._rest.read(size)
        while len(found) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._rest = io.BytesIO(piece)
            found += self._rest.read(size - len(found))
        self._place += len(found)
        return found

    def tell(self) -> int:
        """The number of bytes read; the library asks for nothing else."""
        return self._place

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Records and content of each block after the head."""
        while (records := self._long(at_end=True)) is not None:
            plain = self._decompress(self._sized("an Avro block"))
            self._check("an Avro block unpacks to", len(plain))
            if not 0 <= records <= max(len(plain), _MOST_EMPTY):
                raise ValueError(f"{records} records in a block of {len(plain)} bytes")
            if self._exactly(16) != self.sync:
                raise ValueError("expected sync marker not found")
            yield records, plain

    def _container(self) -> Iterator[bytes]:
        if self._exactly(len(_MAGIC)) != _MAGIC:
            raise ValueError("cannot read header - is it an avro file?")
        metadata = dict(self._metadata())
        self.sync = self._exactly(16)
        codec = metadata.pop(_CODEC, b"null").decode("utf-8", "replace")
        decompress = _CODECS.get(codec)
        if decompress is None:
            raise ValueError(f"Unrecognized codec: {codec}")
        self._decompress = decompress
        entries = b"".join(_bytes(key) + _bytes(value) for key, value in metadata.items())
        self.head = _MAGIC + _long(len(metadata)) + entries + (_long(0) if metadata else b"") + self.sync
        yield self.head
        for records, plain in self.blocks():
            yield _block(records, plain, self.sync)

    def _metadata(self) -> Iterator[tuple[bytes, bytes]]:
        while (count := self._long()) != 0:
            if count is not None and count < 0:
                self._long()
            for _ in range(abs(count or 0)):
                yield self._sized("the Avro header"), self._sized("the Avro header")

    def _sized(self, what: str) -> bytes:
        size = self._long() or 0
        self._check(f"{what} has", size)
        return self._exactly(size)

    def _check(self, what: str, size: int) -> None:
        if size < 0:
            raise ValueError(f"a size of {size} bytes")
        if size > LARGEST_BLOCK:
            amount = f"more than {LARGEST_BLOCK:,}" if size == LARGEST_BLOCK + 1 else f"{size:,}"
            raise SourceError(
                f"{self._path}: {what} {amount} bytes, the limit is {LARGEST_BLOCK // 2**20} MiB",
                "write smaller blocks (a smaller sync interval)",
            )

    def _exactly(self, size: int) -> bytes:
        found = self._raw.read(size)
        while len(found) < size:
            more = self._raw.read(size - len(found))
            if not more:
                raise ValueError(f"it ends {size - len(found)} bytes too early")
            found += more
        return found

    def _long(self, *, at_end: bool = False) -> int | None:
        """An Avro number; None at the end of the file, if that is allowed."""
        first = self._raw.read(1)
        if not first and at_end:
            return None
        value = _varint(chain(first, iter(lambda: self._exactly(1)[0], None)))
        return (value >> 1) ^ -(value & 1)


def _varint(content: Iterable[int]) -> int:
    """The number at the beginning of bytes: seven bits of each, the least first."""
    value = shift = 0
    for byte in content:
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            break
        shift += 7
        if shift > 63:
            raise ValueError("a number that is too long")
    return value


def _long(value: int) -> bytes:
    """Encode an Avro number."""
    rest = value << 1
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _block(records: int, plain: bytes, sync: bytes) -> bytes:
    return _long(records) + _bytes(plain) + sync


def _snappy(data: bytes) -> bytes:
    """Decompress a snappy block, with its plain size before it and its checksum after it."""
    import cramjam

    size = _varint(data)
    return bytes(LARGEST_BLOCK + 1) if size > LARGEST_BLOCK else bytes(cramjam.snappy.decompress_raw(data[:-4]))


def _zstandard(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW).stream_reader(data).read(LARGEST_BLOCK + 1)


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": lambda data: zlib.decompressobj(-15).decompress(data, LARGEST_BLOCK + 1),
    "bzip2": lambda data: bz2.BZ2Decompressor().decompress(data, LARGEST_BLOCK + 1),
    "xz": lambda data: lzma.LZMADecompressor(memlimit=LARGEST_WINDOW).decompress(data, LARGEST_BLOCK + 1),
    "snappy": _snappy,
    "zstandard": _zstandard,
}
"""Decompressors that give at most one byte more than the limit."""


class AvroFile:
    """One open file with the columns ``schema``; ``records`` counts the records so far."""

    def __init__(self, raw: BinaryIO, path: str) -> None:
        self._path = path
        self.records = 0
        with self._naming_file():
            self._plain = PlainAvro(raw, path)
            self._library = avro_library().block_reader(self._plain)
            kind, self._shape = AvroTypes().of(self._library.writer_schema)
        if not pa.types.is_struct(kind):
            raise SourceError(f"{path}: its schema is not a record", "write the file with a record schema")
        self._type = kind
        self.schema = pa.schema(list(kind))
        self._native = _native_reader(self._library.writer_schema)

    def batches(self, start: int = 0) -> Iterator[pa.RecordBatch]:
        """The records from ``start`` on, some thousands at a time."""
        if self._native is not None:
            yield from self._natively(start, *self._native)
            return
        for block, skip in self._behind(start, self._library, lambda block: int(block.num_records)):
            yield from self._of_block(block, skip)

    def _behind(self, start: int, blocks: Iterator[Any], records_of: Callable[[Any], int]) -> Iterator[tuple[Any, int]]:
        """Each block with a record after ``start``, and how many of its records lie before."""
        while True:
            with self._naming_file():
                block = next(blocks, None)
            if block is None:
                return
            before, self.records = self.records, self.records + records_of(block)
            if self.records > start:
                yield block, max(start - before, 0)

    def _natively(self, start: int, reader: Any, most: int) -> Iterator[pa.RecordBatch]:
        """Blocks together, until there are ``most`` records or some megabytes."""
        held = 0
        for (records, plain), skip in self._behind(start, self._plain.blocks(), lambda block: int(block[0])):
            done = at = 0
            good = True
            while good and done < records:
                count, at, good = reader.read(plain, at, min(records - done, most - held))
                done, held = done + count, held + count
                if skip or done < records or held >= most:
                    batch, held = self._finished(reader), 0
                    skipped = min(skip, batch.num_rows)
                    skip -= skipped
                    if skipped < batch.num_rows:
                        yield batch.slice(skipped)
            if not good:
                with self._naming_file():
                    alone = io.BytesIO(self._plain.head + _block(records, plain, self._plain.sync))
                    block = next(avro_library().block_reader(alone))
                yield from self._of_block(block, skip + done)
        if held:
            yield self._finished(reader)

    def _finished(self, reader: Any) -> pa.RecordBatch:
        _, columns = reader.finish()
        arrays = [array_of(each.type, parts) for each, parts in zip(self.schema, columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _of_block(self, block: Iterable[dict[str, Any]], skip: int) -> Iterator[pa.RecordBatch]:
        records = islice(block, skip, None)
        while True:
            with self._naming_file():
                found = list(islice(records, _ROWS))
                if self._shape is not None:
                    found = [self._shape(record) for record in found]
                batch = pa.RecordBatch.from_struct_array(pa.array(found, self._type))
            if not batch.num_rows:
                return
            yield batch

    @contextlib.contextmanager
    def _naming_file(self) -> Iterator[None]:
        """Report any error of the library as a damaged file."""
        try:
            yield
        except (TidegateError, MemoryError):
            raise
        except Exception as error:
            raise SourceError(f"{self._path}: not a whole Avro file ({error})", "write the file again") from error


def _native_reader(schema: Any) -> tuple[Any, int] | None:
    """A native reader for a schema, and how many records it may hold; None if there is none."""
    reader = getattr(find_native(), "AvroReader", None)
    plan = _NativePlan()
    if reader is None:
        return None
    try:
        _, _, fields = plan.of(schema)
        return reader(fields), max(_LARGEST_BATCH // plan.values, 64)
    except (_UnknownType, TypeError, ValueError, OverflowError):  # the last three: invalid sizes
        return None
