"""Avro object container files, block by block, in bounded memory.

A union with null is a nullable value; one of whole numbers and fractions is the wider of them. Values of any other
union are kept as JSON text, since no column type holds them all.
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
from tidegate.formats.files import LARGEST_WINDOW
from tidegate.formats.json_decoder import Decoded
from tidegate.formats.port import check_start
from tidegate.schema.names import avro_library
from tidegate.schema.types import TIMESTAMP

Shape = Callable[[Any], Any]
"""A value as it was decoded (never null), to the value that the Arrow column takes."""

ShapedType = tuple[pa.DataType, Shape | None]
"""The type of a column, and how its values are shaped; None for as they are."""

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
        """A record inside itself is not known yet when it is met, so it is kept as JSON text."""
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
_MAGIC = b"Obj\x01"
_CODEC = b"avro.codec"
_MOST_EMPTY = 1_000_000
"""Records of no byte at all, as a block may have them."""

LARGEST_BLOCK = 64 * 1024 * 1024
"""Bytes of a block, as it lies in the file and as it unpacks."""


class AvroFormat(ColumnarFormat):
    """Reads Avro files with the schema that each of them carries."""

    seeks = False

    def read(self, raw: BinaryIO, each: FileSlice) -> Iterator[Decoded]:
        """The records from ``each.start_record`` on; whole blocks before it are not decoded."""
        file = AvroFile(raw, each.path)
        unknown = self._fit.unknown(file.schema, each.path)
        for batch in file.batches(each.start_record):
            yield self._decode(batch, unknown)
        check_start(each, file.records)


class PlainAvro:
    """A container file as the library reads it best: not compressed, and each block within the limit.

    The library believes the sizes that a file declares, and decompresses a block to whatever it gives. So the blocks
    are decompressed here, with a bound, and handed on as those of a file without compression.
    """

    def __init__(self, raw: BinaryIO, path: str) -> None:
        self._raw = raw
        self._path = path
        self._place = 0
        self._pieces = self._container()
        self._rest = io.BytesIO()

    def read(self, size: int) -> bytes:
        """So many bytes, fewer only at the end."""
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
        """How many bytes were read, which is all that the library asks besides reading."""
        return self._place

    def _container(self) -> Iterator[bytes]:
        if self._exactly(len(_MAGIC)) != _MAGIC:
            raise ValueError("cannot read header - is it an avro file?")
        metadata = dict(self._metadata())
        sync = self._exactly(16)
        codec = metadata.pop(_CODEC, b"null").decode("utf-8", "replace")
        decompress = _CODECS.get(codec)
        if decompress is None:
            raise ValueError(f"Unrecognized codec: {codec}")
        entries = b"".join(_bytes(key) + _bytes(value) for key, value in metadata.items())
        yield _MAGIC + _long(len(metadata)) + entries + (_long(0) if metadata else b"") + sync
        while (records := self._long(at_end=True)) is not None:
            plain = decompress(self._sized("an Avro block"))
            self._check("an Avro block unpacks to", len(plain))
            if records > max(len(plain), _MOST_EMPTY):
                raise ValueError(f"{records} records in a block of {len(plain)} bytes")
            if self._exactly(16) != sync:
                raise ValueError("expected sync marker not found")
            yield _long(records) + _bytes(plain) + sync

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
        """A number as Avro writes it; None where the file is at its end and may be."""
        first = self._raw.read(1)
        if not first and at_end:
            return None
        value = _varint(chain(first, iter(lambda: self._exactly(1)[0], None)))
        return (value >> 1) ^ -(value & 1)


def _varint(content: Iterable[int]) -> int:
    """The number that bytes begin with: seven bits of each, the least first."""
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
    """A number as Avro writes it."""
    rest = value << 1
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _snappy(data: bytes) -> bytes:
    """A block of snappy, whose checksum stands behind it and whose plain size before it."""
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
"""Blocks decompressed to one byte more than the limit at most."""


class AvroFile:
    """One open file, whose columns are ``schema``; ``records`` counts those that have gone by."""

    def __init__(self, raw: BinaryIO, path: str) -> None:
        self._path = path
        self.records = 0
        with self._naming_file():
            self._blocks = avro_library().block_reader(PlainAvro(raw, path))
            kind, self._shape = AvroTypes().of(self._blocks.writer_schema)
        if not pa.types.is_struct(kind):
            raise SourceError(f"{path}: its schema is not a record", "write the file with a record schema")
        self._type = kind
        self.schema = pa.schema(list(kind))

    def batches(self, start: int = 0) -> Iterator[pa.RecordBatch]:
        """The records from ``start`` on, some thousands at a time."""
        while True:
            with self._naming_file():
                block = next(self._blocks, None)
            if block is None:
                return
            before, self.records = self.records, self.records + block.num_records
            if self.records > start:
                records = iter(block)
                with self._naming_file():
                    list(islice(records, max(start - before, 0)))
                yield from self._of_block(records)

    def _of_block(self, records: Iterator[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
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
        """Whatever the library raises means that the file is not whole."""
        try:
            yield
        except (TidegateError, MemoryError):
            raise
        except Exception as error:
            raise SourceError(f"{self._path}: not a whole Avro file ({error})", "write the file again") from error
