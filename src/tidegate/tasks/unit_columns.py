"""The columns of a wave of work units: declared, or inferred from every fetched record.

JSON and Excel contribute the records with something new, CSV cells of each kind, Parquet and Avro the schemas of the
files.

An existing table keeps its types: a work unit whose records do not fit them fails, and no other.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import SourceError, TableError
from tidegate.formats.avro import AvroFile
from tidegate.formats.csv import sample_records
from tidegate.formats.excel import WorkbookFormat, sheet_lines
from tidegate.formats.json import LONGEST_LINE, Decoder, LineTooLong, line_blocks
from tidegate.formats.parquet import open_parquet, read_schema
from tidegate.formats.port import Fetcher, FormatReader, chunks
from tidegate.formats.strict_lines import RecordRules
from tidegate.parquet.partitions import Partitioning
from tidegate.schema.inference import Inference, cell_kind, infer_cells, infer_json, why_unreadable
from tidegate.schema.names import column_problems
from tidegate.schema.types import arrow_schema, arrow_type, examples_of, field_specs, infer_types, simplify_type
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.responses import LineBlock, Shapes
from tidegate.sources.units.work import Fetched, FetchedFile, UnitWave
from tidegate.specs.columns import CsvOptions
from tidegate.specs.files import Format
from tidegate.specs.table import FieldSpec, SchemaSpec
from tidegate.specs.units import FileFormat, FileRead, UnitRead
from tidegate.storage.stores import open_store
from tidegate.tasks.read_task import ReadTask, open_format


def open_fetched(file: FetchedFile, *, seeks: bool) -> BinaryIO:
    """Open a file as it was fetched or listed."""
    if file.content is not None:
        return io.BytesIO(file.content)
    return Fetcher(open_store(file.location)).open(file.slice, seeks=seeks)


def file_format(read: UnitRead, schema: SchemaSpec, fields: tuple[FieldSpec, ...], file: FetchedFile) -> FormatReader:
    """The reader of a fetched file; pages of an API are lines of JSON."""
    if isinstance(read, FileRead) and read.format is FileFormat.EXCEL:
        coerce = schema.coerce_conflicts_to_utf8
        rules = RecordRules(fields, schema.numbers, coerce, rescued=schema.rescued)
        return WorkbookFormat(rules, read.sheet, read.timezone)
    task = ReadTask(
        source=file.location,
        table=file.location,
        fields=fields,
        file_schema=b"",
        compression=file.compression,
        format=Format(read.format) if isinstance(read, FileRead) else Format.NDJSON,
        csv=read.csv if isinstance(read, FileRead) else CsvOptions(),
        numbers=schema.numbers,
        coerce_conflicts_to_utf8=schema.coerce_conflicts_to_utf8,
        rescued=schema.rescued,
    )
    return open_format(task, Partitioning(None, arrow_schema(fields)))


def name_file(error: SourceError | LineTooLong, file: FetchedFile) -> SourceError:
    """Put the file name that people know into the error."""
    if isinstance(error, LineTooLong):
        return SourceError(f"{file.where}: a record is longer than {LONGEST_LINE // 2**20} MiB", "write the file again")
    rest = error.problem.removeprefix(file.slice.path)
    return SourceError(error.problem if rest == error.problem else f"{file.where}{rest}", error.remedy)


class RecordBlocks:
    """Decodes the blocks of one task: ``schema`` has the columns, ``unknown`` counts fields without one."""

    def __init__(self, fields: tuple[FieldSpec, ...], schema: SchemaSpec, parts: Sequence[Part], where: str) -> None:
        """The rows have the columns ``fields``; ``where`` names the owner of the records in messages."""
        coerce = schema.coerce_conflicts_to_utf8
        self._decoder = Decoder(RecordRules(fields, schema.numbers, coerce, rescued=schema.rescued))
        self._parts = parts
        self._where = where
        self.schema: pa.Schema = self._decoder.schema
        self.unknown: Counter[str] = self._decoder.unknown

    def rows(self, block: LineBlock) -> pa.RecordBatch:
        """Decode the rows of a block that belong to its part; :class:`SourceError` names the first bad record."""
        decoded = self._decoder.decode(block.lines)
        if decoded.rejected:
            first = decoded.rejected[0]
            raise SourceError(
                f"{self._where}, page {block.page}, record {block.first + first.offset}: {first.reason}",
                "nothing of this read is kept; declare the column with a type that holds it, or see "
                "schema.coerce_conflicts_to_utf8 and schema.rescued",
            )
        return _keep_part(decoded.batch, self._parts[block.part])


def _keep_part(batch: pa.RecordBatch, part: Part) -> pa.RecordBatch:
    """Keep the rows whose value lies in the part's range."""
    if part.column is None or part.column not in batch.schema.names:
        return batch
    column = batch.column(part.column)
    try:
        wanted = pa.array([True] * len(batch))
        if part.after is not None:
            above = pc.greater(column, pa.scalar(part.after, column.type))
            wanted = pc.and_(wanted, pc.fill_null(above, False))
        if part.upto is not None:
            below = pc.less_equal(column, pa.scalar(part.upto, column.type))
            wanted = pc.and_(wanted, pc.fill_null(below, part.after is None))
        return batch.filter(wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise SourceError(
            f"the range of {part.column!r} was divided at {part.after or part.upto!r}, but the column is {column.type}",
            "declare the column in schema.fields with the type of its watermark",
        ) from error


class UnitColumnReport:
    """What the files of one work unit contribute, each thing once."""

    def __init__(self, read: FileRead) -> None:
        self._read = read
        self._shapes = Shapes()
        self._seen: set[tuple[str, str] | bytes] = set()

    def of(self, file: FetchedFile) -> list[bytes]:
        """Sample what ``file`` adds to those before; raises :class:`SourceError` for an unreadable one."""
        try:
            match self._read.format:
                case FileFormat.NDJSON | FileFormat.JSON | FileFormat.EXCEL:
                    samples = (self._shapes.sample(line) for line in _read_lines(self._read, file))
                    return [record for record in samples if record is not None]
                case FileFormat.CSV:
                    return list(self._rows(file))
                case FileFormat.PARQUET | FileFormat.AVRO:
                    return self._sample_once(_read_schema(self._read, file).serialize().to_pybytes())
        except (SourceError, LineTooLong) as error:
            raise name_file(error, file) from error

    def _sample_once(self, sample: bytes) -> list[bytes]:
        is_new = sample not in self._seen
        self._seen.add(sample)
        return [sample] if is_new else []

    def _rows(self, file: FetchedFile) -> Iterator[bytes]:
        """All names, and a cell of each kind that no other file had; bad records are reported when read."""
        names = _read_names(self._read, file)
        if not names:
            return
        format = file_format(self._read, SchemaSpec(), tuple(FieldSpec(name, "string") for name in names), file)
        good, reason = 0, ""
        with closing(open_fetched(file, seeks=False)) as raw:
            for decoded in format.read(raw, file.slice):
                good += decoded.batch.num_rows
                reason = reason or next((rejection.reason for rejection in decoded.rejected), "")
                if good:
                    yield from self._cells(dict.fromkeys(names))
                for name, column in zip(names, decoded.batch.columns, strict=True):
                    for cell in examples_of(column).values():
                        yield from self._cells({name: cell})
        if reason and not good:
            raise SourceError(f"{file.slice.path}: no record can be read ({reason})", "correct the file")

    def _cells(self, row: dict[str, str | None]) -> list[bytes]:
        kinds = {(name, "" if cell is None else cell_kind(cell)) for name, cell in row.items()}
        is_new = not kinds <= self._seen
        self._seen |= kinds
        return [json.dumps(row).encode()] if is_new else []


def infer_columns(format: FileFormat | None, schema: SchemaSpec, told: Sequence[Sequence[bytes]]) -> Inference:
    """Infer columns from the contributions of several work units; raises :class:`SourceError`.

    Contradictions of JSON records are in ``problems``.
    """
    match format:
        case FileFormat.CSV:
            return infer_cells([json.loads(row) for row in rows] for rows in told)
        case FileFormat.PARQUET | FileFormat.AVRO:
            schemas = (pa.ipc.read_schema(pa.py_buffer(sample)) for samples in told for sample in samples)
            return infer_types(("the files", file_schema, 1) for file_schema in schemas)
        case _:
            rescued = schema.rescued is not None
            return infer_json(told, coerce_conflicts_to_utf8=schema.coerce_conflicts_to_utf8, rescued=rescued)


def _read_names(read: FileRead, file: FetchedFile) -> tuple[str, ...]:
    """The columns of a CSV file; none if it has no record."""
    with closing(open_fetched(file, seeks=False)) as raw:
        records = sample_records(chunks(raw, file.slice.path, file.compression), read.csv, file.slice.path)
        names = next((sheet.names for sheet, _ in records), ())
    if problems := column_problems(list(names), ()):
        raise SourceError(f"{file.slice.path}: {'; '.join(problems)}", "declare schema.fields, or write the file again")
    return names


def _read_lines(read: FileRead, file: FetchedFile) -> Iterator[bytes]:
    is_workbook = read.format is FileFormat.EXCEL
    with closing(open_fetched(file, seeks=is_workbook)) as raw:
        if is_workbook:
            yield from filter(None, sheet_lines(raw, file.slice.path, read.sheet, read.timezone))
            return
        whole = line_blocks(raw, file.slice.path, file.compression, is_array=read.format is FileFormat.JSON)
        yield from (line for block in whole for line in block.splitlines() if line.strip())


def _read_schema(read: FileRead, file: FetchedFile) -> pa.Schema:
    if read.format is FileFormat.AVRO:
        with closing(open_fetched(file, seeks=False)) as raw:
            return AvroFile(raw, file.slice.path).schema
    try:
        return read_schema(open_parquet(open_fetched(file, seeks=True)))
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{file.where}: not a whole Parquet file ({error})", "write the file again") from error


Told = Mapping[int, tuple[bytes, ...]]
"""The contributions of each work unit to the columns, by index."""


def wave_columns(wave: UnitWave, fetched: Sequence[Fetched]) -> tuple[tuple[FieldSpec, ...] | None, Mapping[int, str]]:
    """The columns of everything fetched, None if unknown; and why some units contradict them, by index."""
    source, schema = wave.source, wave.pipeline.schema
    rescued = () if schema.rescued is None else (FieldSpec(schema.rescued, "string"),)
    if schema.fields:
        return (*schema.fields, *rescued), {}
    samples = {unit.index: unit.samples for unit in fetched if unit.samples}
    format = source.read.format if isinstance(source.read, FileRead) else None
    is_json = format in (None, FileFormat.NDJSON, FileFormat.JSON, FileFormat.EXCEL)
    inference, refused = _infer_from_records(schema, samples) if is_json else _infer_from_files(format, schema, samples)
    if inference is None:
        return None, refused
    fields = keep_types(inference.fields, wave.table) or _columns_of_table(wave)
    if not fields:
        return None, dict.fromkeys(samples, "no record has a value, so there are no columns")
    return (*fields, *rescued), refused


def _columns_of_table(wave: UnitWave) -> tuple[FieldSpec, ...]:
    """The columns of the table that records can have, for records without any value."""
    by = wave.pipeline.sink.partition_by
    levels = by.prefix_template.strip("/").split("/") if by is not None else []
    made = {
        wave.source.unit_column,
        wave.source.segment_column,
        *(level.partition("=")[0] for level in levels if "=" in level),
    }
    return tuple(spec for column in wave.table or () if column.name not in made for spec in _declare(column))


def _declare(column: pa.Field) -> tuple[FieldSpec, ...]:
    """Turn a column of the table into a declaration; nothing for a type that cannot be declared."""
    try:
        return field_specs(pa.schema([column]))
    except TableError:
        return ()


_NO_OBJECT = "there is no JSON object among the records"


def _infer_from_records(schema: SchemaSpec, samples: Told) -> tuple[Inference | None, dict[int, str]]:
    """The columns of all records or, if they contradict each other, of most work units.

    Work units with a field that then has no column are refused; a value that does not fit refuses its unit when read.
    """
    readable, refused = dict(samples), dict[int, str]()
    inference = _try_infer(schema, samples.values())
    if inference is None or inference.records < sum(map(len, samples.values())):  # some are no objects
        readable = {index: records for index, records in samples.items() if _try_infer(schema, [records])}
        others = {index: records for index, records in samples.items() if index not in readable}
        refused = {index: f"{_NO_OBJECT}{why_unreadable(records)}" for index, records in others.items()}
        inference = _try_infer(schema, readable.values())
    if inference is None or not inference.problems:
        return inference, refused
    # As if values could be rescued: what contradicts the majority is then left aside, instead of refusing the whole
    # wave.
    most = _try_infer(replace(schema, rescued=schema.rescued or "rescued"), readable.values())
    paths = {line.path for line in most.report} if most else set()
    for index, records in readable.items():
        own = _try_infer(schema, [records])
        missing = [line.path for line in own.report if line.path not in paths] if own else []
        if own and (missing or own.problems):
            reasons = dict.fromkeys((*own.problems, *inference.problems))
            refused[index] = f"the records do not agree with those of other work units: {'; '.join(reasons)}"
    return most, refused


def _try_infer(schema: SchemaSpec, samples: Iterable[Sequence[bytes]]) -> Inference | None:
    """The columns of records; None without a record."""
    try:
        return infer_columns(None, schema, list(samples))
    except SourceError:
        return None


def _infer_from_files(
    format: FileFormat | None, schema: SchemaSpec, samples: Told
) -> tuple[Inference | None, dict[int, str]]:
    """The columns of all files or, if they do not agree, of the largest group that does."""
    if not samples:
        return None, {}
    try:
        return infer_columns(format, schema, list(samples.values())), {}
    except SourceError:
        pass
    often = Counter(samples.values())
    agreeing: list[tuple[bytes, ...]] = []
    problems: dict[tuple[bytes, ...], str] = {}
    # The most frequent first, so that one odd file cannot exclude all others.
    for contribution, _ in often.most_common():
        try:
            infer_columns(format, schema, [*agreeing, contribution])
            agreeing.append(contribution)
        except SourceError as error:
            problems[contribution] = error.problem
    refused = {index: problems[own] for index, own in samples.items() if own in problems}
    return (infer_columns(format, schema, agreeing) if agreeing else None), refused


def keep_types(fields: tuple[FieldSpec, ...], table: pa.Schema | None) -> tuple[FieldSpec, ...]:
    """Give ``fields`` the types of ``table``; new fields of a struct stay."""
    types = {column.name: column.type for column in table or ()}
    return tuple(
        _keep_type(field, simplify_type(types[field.name])) if field.name in types else field for field in fields
    )


def _keep_type(inferred: FieldSpec, table: pa.DataType) -> FieldSpec:
    if arrow_type(inferred) == table:
        return inferred
    if inferred.type == "struct" and pa.types.is_struct(table):
        return replace(inferred, fields=keep_types(inferred.fields, pa.schema(list(table))))
    if inferred.items is not None and pa.types.is_list(table):
        return replace(inferred, items=_keep_type(inferred.items, simplify_type(table.value_type)))
    return next(iter(_declare(pa.field(inferred.name, table))), inferred)


def conflict_error(reason: str) -> SourceError:
    """Build the error for a work unit whose records contradict the others, or cannot be read."""
    if reason.startswith(_NO_OBJECT):
        return SourceError(reason)
    return SourceError(reason, "declare schema.fields, or set schema.coerce_conflicts_to_utf8 or schema.rescued")
