"""Files of a secondary input as rows of text.

Equal values have equal texts in all formats: digits of integers, ``true`` and ``false``, decimals without an exponent,
dates and times in ISO form, moments with a zone in UTC.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from itertools import chain, islice
from typing import Any, BinaryIO, cast
from urllib.parse import unquote
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from tidegate.errors import ObjectMissing, SourceError
from tidegate.formats.avro import PlainAvro
from tidegate.formats.avro_types import Nanoseconds, OutOfRange, load_library
from tidegate.formats.json import LONGEST_LINE, LineTooLong, blocks, element_lines, strip_byte_order_mark
from tidegate.formats.port import compression_of
from tidegate.sources.file_discovery import refuse_left_out
from tidegate.specs.files import Compression
from tidegate.specs.locations import Location
from tidegate.specs.units import InputFormat, SecondaryInput
from tidegate.storage.port import ObjectInfo, ObjectStore, Scope, SeekableInput
from tidegate.storage.stores import open_store


class NoText(Exception):
    """A value without a plain text; the argument names it."""


def value_text(value: object) -> str | None:
    """The text of one value; None for null. Raises :class:`NoText` for objects, lists and bytes.

    >>> plain_text(5), plain_text(True), plain_text(Decimal("1.50")), plain_text(date(2020, 1, 2))
    ('5', 'true', '1.50', '2020-01-02')
    """
    match value:
        case None:
            return None
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case Nanoseconds():
            return value_text(value.truncate())
        case int() | float() | UUID():
            return str(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            aware = value.tzinfo is not None
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if aware else value.isoformat()
        case date() | time():
            return value.isoformat()
        case bytes() | bytearray():
            raise NoText("bytes")
        case Mapping():
            raise NoText("an object")
        case list() | tuple():
            raise NoText("a list")
        case _:
            raise NoText(type(value).__name__)


def column_texts(column: pa.Array) -> list[str | None]:
    """The texts of a column; raises :class:`NoText`."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column_texts(column.dictionary_decode())
    if pa.types.is_timestamp(kind):
        column = pc.cast(column, pa.timestamp("us", kind.tz), safe=False)
    elif pa.types.is_integer(kind):
        column = pc.cast(column, pa.string())
    values: list[object] = column.to_pylist()
    if pa.types.is_string(column.type) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return values  # type: ignore[return-value]  # a column of texts holds texts and nulls
    return [value_text(value) for value in values]


# Numbers as they are written: a float would give another text than the same value in CSV.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
_BLANK = b" \t\r\n"
_WRONG_JSON = "write the file again, or correct `format`"


def json_records(plain: Iterator[bytes], path: str) -> Iterator[dict[str, Any]]:
    """The objects of one file, an array or lines; raises :class:`SourceError` at the first that is none."""
    pieces, beginning = strip_byte_order_mark(plain), b""
    while not beginning and (piece := next(pieces, None)) is not None:
        beginning = piece.lstrip(_BLANK)
    content = chain([beginning], pieces)
    is_array = beginning.startswith(b"[")
    lines = blocks(element_lines(content, path) if is_array else content)
    noun = "element" if is_array else "line"
    try:
        for number, line in enumerate((line for block in lines for line in block.split(b"\n")[:-1]), 1):
            if stripped := line.strip(_BLANK):
                yield _parse_object(stripped, f"{path}: {noun} {number}")
    except LineTooLong as error:
        problem = f"{path}: a record is larger than {LONGEST_LINE // 2**20} MiB, or not closed"
        raise SourceError(problem, _WRONG_JSON) from error


def _parse_object(text: bytes, place: str) -> dict[str, Any]:
    try:
        value = _DECODER.decode(text.decode())
    except UnicodeDecodeError as error:
        raise SourceError(f"{place}: not UTF-8", _WRONG_JSON) from error
    except json.JSONDecodeError as error:
        what = "something follows the object" if error.msg == "Extra data" else f"not JSON: {error.msg}"
        raise SourceError(f"{place}: {what}", _WRONG_JSON) from error
    if not isinstance(value, dict):
        raise SourceError(f"{place}: not an object", _WRONG_JSON)
    return value


Columns = Mapping[str, Sequence[str | None]]
"""Some rows: the texts of each field."""

_CHUNK = 1024 * 1024
_ROWS = 65536
_SHOWN = 20
_HIDDEN = ("_", ".")


@dataclass(frozen=True, slots=True)
class InputFiles:
    """The listed files of an input."""

    store: ObjectStore
    files: tuple[ObjectInfo, ...]

    @property
    def version(self) -> str:
        """A short text that changes with the names, sizes and etags of the files."""
        known = json.dumps([[file.path, file.size, file.etag] for file in self.files])
        return f"files {hashlib.sha256(known.encode()).hexdigest()[:16]}"


def input_files(location: Location) -> InputFiles:
    """The files at ``location``, a file or a folder; :class:`SourceError` if there are none.

    Links in the folder are followed, as in a mounted ConfigMap; each file counts once.
    """
    parent, _, name = location.uri.rpartition("/")
    # The root of a bucket has nothing above it.
    if not parent.endswith("/"):
        beside = open_store(Location(parent, location.options))
        try:
            return InputFiles(beside, (beside.head(unquote(name)),))
        except ObjectMissing:
            pass
    store, scope = open_store(location), Scope(follow_links=True)
    listed = store.list(scope=scope)
    found = sorted((each for each in listed if not _is_hidden(each.path)), key=lambda each: each.path)
    refuse_left_out(
        scope, f"secondary input {location.uri}", "repair or remove the link, or give the file a name that is text"
    )
    if not found:
        raise SourceError(
            f"secondary input {location.uri}: there are no files", "check `path`, or write the input first"
        )
    return InputFiles(store, tuple(found))


def rows_of(input: SecondaryInput, found: InputFiles, fields: Sequence[str]) -> Iterator[Columns]:
    """The rows of all files, with these fields; :class:`SourceError` names what cannot be read."""
    for file in found.files:
        path = f"secondary input {found.store.location.uri}/{file.path}"
        try:
            yield from _rows(input, found.store, file, path, fields)
        except NoText as error:
            raise SourceError(f"{path}: {error}", "name fields with plain values") from error
        except (pa.ArrowException, OSError, EOFError) as error:
            raise SourceError(
                f"{path}: not a whole {input.format} file ({_first_line(error)})",
                "write the file again, or correct `format`",
            ) from error


def _rows(
    input: SecondaryInput, store: ObjectStore, each: ObjectInfo, path: str, fields: Sequence[str]
) -> Iterator[Columns]:
    if input.format is InputFormat.PARQUET:
        yield from _parquet(store, each, path, fields)
        return
    with closing(store.open_input(each.path, etag=each.etag, size=each.size)) as raw, _plain(raw, each.path) as content:
        match input.format:
            case InputFormat.CSV:
                yield from _csv(content, each.path, path, input, fields)
            case InputFormat.AVRO:
                yield from _from_records(_avro_records(content, path, fields), path, fields)
            case _:
                pieces = iter(lambda: content.read(_CHUNK), b"")
                yield from _from_records(json_records(pieces, path), path, fields)


def _plain(raw: BinaryIO, name: str) -> BinaryIO:
    compression = compression_of(name, Compression.AUTO)
    if compression is Compression.NONE:
        return raw
    return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(raw, "r"), compression.value))


def _parquet(store: ObjectStore, each: ObjectInfo, path: str, fields: Sequence[str]) -> Iterator[Columns]:
    seekable = SeekableInput(store, each.path, etag=each.etag, size=each.size)
    with pq.ParquetFile(io.BufferedReader(seekable, 1024 * 1024), coerce_int96_timestamp_unit="us") as file:
        check_fields(fields, file.schema_arrow.names, path)
        for batch in file.iter_batches(_ROWS, columns=list(fields), use_threads=False):
            yield columns_of(batch, fields)


def _csv(raw: BinaryIO, name: str, path: str, input: SecondaryInput, fields: Sequence[str]) -> Iterator[Columns]:
    how = input.csv
    tabbed = name.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tsv")
    reader = pacsv.open_csv(
        raw,
        pacsv.ReadOptions(use_threads=False, skip_rows=how.skip_rows, column_names=_names(input)),
        pacsv.ParseOptions(
            delimiter=how.delimiter or ("\t" if tabbed else ","),
            quote_char=how.quote or False,
            escape_char=how.escape or False,
            double_quote=how.escape is None,
            newlines_in_values=True,
        ),
        pacsv.ConvertOptions(
            column_types={field: pa.string() for field in fields},
            null_values=list(how.null_values),
            strings_can_be_null=True,
            # Quotes are how a writer tells an empty text from null.
            quoted_strings_can_be_null=False,
        ),
    )
    check_fields(fields, reader.schema.names, path)
    for batch in reader:
        yield columns_of(batch, fields)


def _names(input: SecondaryInput) -> list[str] | None:
    """The column names if the file has no header."""
    return None if input.csv.header else list(input.csv.columns)


def _avro_records(raw: BinaryIO, path: str, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    library = load_library()
    try:
        for number, record in enumerate(library.reader(PlainAvro(raw, path)), 1):
            for field in fields:
                if isinstance(value := record.get(field), OutOfRange):
                    raise SourceError(f"{path}: record {number}: {field!r}: {value.reason}", "correct the record")
            yield record
    except SourceError:
        raise
    except Exception as error:
        # The library raises errors of every kind for a damaged file.
        raise SourceError(f"{path}: not a whole Avro file ({_first_line(error)})", "write the file again") from error


def _from_records(records: Iterator[dict[str, Any]], path: str, fields: Sequence[str]) -> Iterator[Columns]:
    """Objects as columns; a field that none has is missing, one that some lack is null there."""
    unseen, names, total = set(fields), dict[str, None](), 0
    while some := list(islice(records, _ROWS)):
        unseen -= {field for field in unseen if any(field in record for record in some)}
        if unseen:
            names.update(dict.fromkeys(name for record in some[:_SHOWN] for name in record))
        total += len(some)
        yield {field: [_text(record.get(field), field) for record in some] for field in fields}
    if total and unseen:
        check_fields(sorted(unseen), list(names), path)


def columns_of(batch: pa.RecordBatch, fields: Sequence[str]) -> Columns:
    """A batch as texts; raises :class:`NoText`."""
    found = {}
    for field in fields:
        try:
            found[field] = column_texts(batch.column(field))
        except NoText as error:
            raise NoText(f"field {field!r} holds {error}") from error
    return found


def _text(value: object, field: str) -> str | None:
    try:
        return value_text(value)
    except NoText as error:
        raise NoText(f"field {field!r} holds {error}") from error


def check_fields(fields: Sequence[str], names: Sequence[str], path: str) -> None:
    """Raise :class:`SourceError` if a field is missing, with the nearest name, or ambiguous."""
    for field in fields:
        if field not in names:
            near = get_close_matches(field, names, 1)
            has = ", ".join(names[:_SHOWN]) or "none"
            raise SourceError(
                f"{path}: there is no field {field!r}",
                f"did you mean {near[0]!r}?" if near else f"its fields are {has}",
            )
        if list(names).count(field) > 1:
            raise SourceError(f"{path}: there are two fields {field!r}", "write the input with each name once")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _is_hidden(path: str) -> bool:
    return any(part.startswith(_HIDDEN) for part in path.split("/"))
