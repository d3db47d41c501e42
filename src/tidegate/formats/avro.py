"""Avro object container files, block by block, in bounded memory.

The native reader reads blocks straight into columns, if it is installed and knows the types of the file. A library that
makes Python values reads the rest: odd records, and files of other types. Both give the same result; a law in
``tests/laws`` says so.
"""

from __future__ import annotations

import bz2
import contextlib
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from tidegate.core.files.plan import FileSlice
from tidegate.errors import SourceError, TidegateError
from tidegate.formats.avro_types import AvroTypes, NativePlan, UnknownType, json_text, load_library, readable_schema
from tidegate.formats.columnar import ColumnarFormat
from tidegate.formats.json import array_of
from tidegate.formats.port import LARGEST_WINDOW, Decoded, Rejected, check_start
from tidegate.reports.wording import count
from tidegate.schema.literals import find_native

_ROWS = 8192
_LARGEST_BATCH = 1_000_000
"""The most values in the native reader, null or not."""

_MISFIT = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError)
"""What Arrow raises for a value that is not of its type; running out of memory is something else."""

_MAGIC = b"Obj\x01"
_CODEC, _SCHEMA = b"avro.codec", b"avro.schema"
_MOST_EMPTY = 1_000_000
"""The most empty records of a block."""

LARGEST_BLOCK = 64 * 1024 * 1024
"""The most bytes of a block, packed and unpacked."""


class AvroFormat(ColumnarFormat):
    """Reads Avro files, each with its own schema."""

    seeks = False

    def read(self, raw: BinaryIO, file: FileSlice) -> Iterator[Decoded]:
        """Yield the records from ``file.start_record`` on; whole blocks before it are not decoded."""
        avro = AvroFile(raw, file.path)
        unknown = self._fit.find_unknown(avro.schema, file.path)
        for block in avro.batches(file.start_record, unknown):
            yield self._decode(block, unknown)
        check_start(file, avro.records)


class PlainAvro:
    """A container file as the library reads it best: uncompressed, and each block within the limit.

    The library trusts the sizes that a file declares, and decompresses blocks without a limit. So the blocks are
    decompressed here, within the limit, and passed on as those of an uncompressed file, with a schema that has our
    logical types.
    """

    def __init__(self, raw: BinaryIO, path: str) -> None:
        self._raw = raw
        self._path = path
        self._place = 0
        self._pieces = self._container()
        self._rest = io.BytesIO()

    def read(self, size: int) -> bytes:
        """Read that many bytes, fewer only at the end."""
        content = self._rest.read(size)
        while len(content) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._rest = io.BytesIO(piece)
            content += self._rest.read(size - len(content))
        self._place += len(content)
        return content

    def tell(self) -> int:
        """The number of bytes read; the library asks for nothing else."""
        return self._place

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number of records and the content of each block after the head."""
        while (records := self._read_long(at_end=True)) is not None:
            plain = self._decompress(self._read_sized("an Avro block"))
            self._check_size("an Avro block unpacks to", len(plain))
            # Records of nulls alone take no byte, so the content does not bound their number.
            if not 0 <= records <= max(len(plain), _MOST_EMPTY):
                raise ValueError(f"{count(records, 'record')} in a block of {count(len(plain), 'byte')}")
            if self._read_exactly(16) != self.sync:
                raise ValueError("expected sync marker not found")
            yield records, plain

    def _container(self) -> Iterator[bytes]:
        if self._read_exactly(len(_MAGIC)) != _MAGIC:
            raise ValueError("cannot read header - is it an avro file?")
        metadata = dict(self._metadata())
        self.sync = self._read_exactly(16)
        codec = metadata.pop(_CODEC, b"null").decode("utf-8", "replace")
        decompress = _CODECS.get(codec)
        if decompress is None:
            raise ValueError(f"Unrecognized codec: {codec}")
        self._decompress = decompress
        if _SCHEMA in metadata:
            metadata[_SCHEMA] = json.dumps(readable_schema(json.loads(metadata[_SCHEMA]))).encode()
        entries = b"".join(_encode_bytes(key) + _encode_bytes(value) for key, value in metadata.items())
        self.head = _MAGIC + _encode_long(len(metadata)) + entries + (_encode_long(0) if metadata else b"") + self.sync
        yield self.head
        for records, plain in self.blocks():
            yield _encode_block(records, plain, self.sync)

    def _metadata(self) -> Iterator[tuple[bytes, bytes]]:
        while (count := self._read_long()) != 0:
            if count is not None and count < 0:
                self._read_long()
            for _ in range(abs(count or 0)):
                yield self._read_sized("the Avro header"), self._read_sized("the Avro header")

    def _read_sized(self, what: str) -> bytes:
        size = self._read_long() or 0
        self._check_size(f"{what} has", size)
        return self._read_exactly(size)

    def _check_size(self, what: str, size: int) -> None:
        if size < 0:
            raise ValueError(f"a size of {size} bytes")
        if size > LARGEST_BLOCK:
            amount = f"more than {LARGEST_BLOCK:,}" if size == LARGEST_BLOCK + 1 else f"{size:,}"
            raise SourceError(
                f"{self._path}: {what} {amount} bytes, the limit is {LARGEST_BLOCK // 2**20} MiB",
                "write smaller blocks (a smaller sync interval)",
            )

    def _read_exactly(self, size: int) -> bytes:
        content = self._raw.read(size)
        while len(content) < size:
            more = self._raw.read(size - len(content))
            if not more:
                raise ValueError(f"it ends {count(size - len(content), 'byte')} too early")
            content += more
        return content

    def _read_long(self, *, at_end: bool = False) -> int | None:
        """An Avro number; None at the end of the file, if that is allowed."""
        first = self._raw.read(1)
        if not first and at_end:
            return None
        value = _read_varint(chain(first, iter(lambda: self._read_exactly(1)[0], None)))
        return (value >> 1) ^ -(value & 1)


def _read_varint(content: Iterable[int]) -> int:
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


def _encode_long(value: int) -> bytes:
    """Encode an Avro number."""
    rest = value << 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def _encode_bytes(value: bytes) -> bytes:
    return _encode_long(len(value)) + value


def _encode_block(records: int, plain: bytes, sync: bytes) -> bytes:
    return _encode_long(records) + _encode_bytes(plain) + sync


def _unpack_snappy(data: bytes) -> bytes:
    """Decompress a snappy block, with its plain size before it and its checksum after it."""
    import cramjam

    size = _read_varint(data)
    # Too large by its own account: the check that follows refuses this, and nothing is unpacked.
    return bytes(LARGEST_BLOCK + 1) if size > LARGEST_BLOCK else bytes(cramjam.snappy.decompress_raw(data[:-4]))


def _unpack_zstandard(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW).stream_reader(data).read(LARGEST_BLOCK + 1)


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": lambda data: zlib.decompressobj(-15).decompress(data, LARGEST_BLOCK + 1),
    "bzip2": lambda data: bz2.BZ2Decompressor().decompress(data, LARGEST_BLOCK + 1),
    "xz": lambda data: lzma.LZMADecompressor(memlimit=LARGEST_WINDOW).decompress(data, LARGEST_BLOCK + 1),
    "snappy": _unpack_snappy,
    "zstandard": _unpack_zstandard,
}
"""Decompressors that give at most one byte more than the limit."""


class AvroFile:
    """One open file with the columns ``schema``; ``records`` counts the records so far."""

    def __init__(self, raw: BinaryIO, path: str) -> None:
        self._path = path
        self.records = 0
        with self._name_file_in_errors():
            self._plain = PlainAvro(raw, path)
            self._library = load_library().block_reader(self._plain)
            self._types = AvroTypes()
            kind, self._shape = self._types.of(self._library.writer_schema)
        if not pa.types.is_struct(kind):
            raise SourceError(f"{path}: its schema is not a record", "write the file with a record schema")
        self._type = kind
        self.schema = pa.schema(list(kind))
        self._native = _open_native_reader(self._library.writer_schema)

    def batches(self, start: int = 0, ignored: Sequence[str] = ()) -> Iterator[Decoded]:
        """Yield the records from ``start`` on, some thousands at a time, as columns of the file's own types.

        A record with a value that its type does not allow is rejected, except in a column or field of ``ignored``,
        which are paths: there the value is null.
        """
        if self._native is not None:
            yield from self._read_natively(start, ignored, *self._native)
            return
        for block, skip in self._blocks_from(start, self._library, lambda block: int(block.num_records)):
            yield from self._decode_block(block, skip, ignored)

    def _blocks_from(
        self, start: int, blocks: Iterator[Any], records_of: Callable[[Any], int]
    ) -> Iterator[tuple[Any, int]]:
        """Each block with a record after ``start``, and how many of its records lie before."""
        while True:
            with self._name_file_in_errors():
                block = next(blocks, None)
            if block is None:
                return
            before, self.records = self.records, self.records + records_of(block)
            if self.records > start:
                yield block, max(start - before, 0)

    def _read_natively(self, start: int, ignored: Sequence[str], reader: Any, most: int) -> Iterator[Decoded]:
        """Blocks together, until there are ``most`` records or some megabytes."""
        held = 0
        for (records, plain), skip in self._blocks_from(start, self._plain.blocks(), lambda block: int(block[0])):
            done = at = 0
            good = True
            while good and done < records:
                count, at, good = reader.read(plain, at, min(records - done, most - held))
                done, held = done + count, held + count
                if skip or done < records or held >= most:
                    batch, held = self._take_batch(reader), 0
                    skipped = min(skip, batch.num_rows)
                    skip -= skipped
                    if skipped < batch.num_rows:
                        yield Decoded.of_good(batch.slice(skipped))
            if not good:
                # From the first odd record on, the library reads the block (decision 0029).
                with self._name_file_in_errors():
                    alone = io.BytesIO(self._plain.head + _encode_block(records, plain, self._plain.sync))
                    block = next(load_library().block_reader(alone))
                yield from self._decode_block(block, skip + done, ignored)
        if held:
            yield Decoded.of_good(self._take_batch(reader))

    def _take_batch(self, reader: Any) -> pa.RecordBatch:
        _, columns = reader.finish()
        arrays = [array_of(column.type, parts) for column, parts in zip(self.schema, columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _decode_block(self, block: Iterable[dict[str, Any]], skip: int, ignored: Sequence[str]) -> Iterator[Decoded]:
        remaining = islice(block, skip, None)
        while True:
            with self._name_file_in_errors():
                records = list(islice(remaining, _ROWS))
                if not records:
                    return
                decoded = self._decode_at_once(records) or self._decode_one_by_one(records, ignored)
            yield decoded

    def _decode_at_once(self, records: list[dict[str, Any]]) -> Decoded | None:
        """Records as columns; None if a value does not fit."""
        self._types.problems.clear()
        try:
            batch = self._batch([self._columns_of(record) for record in records])
        except _MISFIT:
            return None
        return None if self._types.problems else Decoded.of_good(batch)

    def _decode_one_by_one(self, records: list[dict[str, Any]], ignored: Sequence[str]) -> Decoded:
        good: list[dict[str, Any]] = []
        places: list[int] = []
        rejected: list[Rejected] = []
        for number, record in enumerate(records):
            self._types.problems.clear()
            columns = dict(self._columns_of(record))
            problems = [*self._types.problems, *self._null_misfits(columns)]
            reasons = [f"{path!r}: {why}" for path, why in problems if not _is_below(path, ignored)]
            if reasons:
                rejected.append(Rejected(number, reasons[0], json_text(record)))
            else:
                good.append(columns)
                places.append(number)
        return Decoded(self._batch(good), len(records), np.array(places, np.int64), tuple(rejected))

    def _columns_of(self, record: dict[str, Any]) -> dict[str, Any]:
        return record if self._shape is None else self._shape(record)

    def _null_misfits(self, columns: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """Replace values that are not of their column's type, as a whole number beyond 32 bits, by null."""
        for field in self.schema:
            try:
                pa.array([columns[field.name]], field.type)
            except _MISFIT as error:
                columns[field.name] = None
                yield field.name, f"a value does not fit {field.type} ({error})"

    def _batch(self, columns: list[dict[str, Any]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_struct_array(pa.array(columns, self._type))

    @contextlib.contextmanager
    def _name_file_in_errors(self) -> Iterator[None]:
        """Report any error of the library as a damaged file."""
        try:
            yield
        # When memory runs out, the task decides what to do; the file is not damaged.
        except (TidegateError, MemoryError):
            raise
        except Exception as error:
            raise SourceError(f"{self._path}: not a whole Avro file ({error})", "write the file again") from error


def _is_below(path: str, others: Sequence[str]) -> bool:
    return any(path == other or path.startswith(f"{other}.") for other in others)


def _open_native_reader(schema: Any) -> tuple[Any, int] | None:
    """A native reader for a schema, and how many records it may hold; None if there is none."""
    reader = getattr(find_native(), "AvroReader", None)
    plan = NativePlan()
    if reader is None:
        return None
    try:
        _, _, fields = plan.of(schema)
        return reader(fields), max(_LARGEST_BATCH // plan.values, 64)
    except (UnknownType, TypeError, ValueError, OverflowError):  # the last three: a schema with impossible sizes
        return None
