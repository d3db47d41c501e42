"""The input of a task that reads a group of files, its result, and the limits after which a commit is due.

Column sources that are files are scanned in full, with the same readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from tidegate.core.files.discovery import accepts
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Changed, Covered, FileOutcome, NotReached, Refused
from tidegate.errors import TidegateError
from tidegate.formats.avro import AvroFormat
from tidegate.formats.csv import CsvFormat
from tidegate.formats.json import Decoder, LineFormat
from tidegate.formats.parquet import ParquetFormat
from tidegate.formats.port import FormatReader, scan
from tidegate.formats.samples import Sampler, spread
from tidegate.formats.strict_lines import RecordRules
from tidegate.parquet.parquet_file import FinishedFile
from tidegate.parquet.partitions import METADATA_COLUMNS, Partitioning
from tidegate.parquet.writer import WriterSettings
from tidegate.schema.dead_letter import fingerprint
from tidegate.schema.evolution import write_schema
from tidegate.schema.inference import check_agreement
from tidegate.schema.literals import wants_native
from tidegate.schema.names import avro_library
from tidegate.schema.types import arrow_schema
from tidegate.sources.file_discovery import check_location, list_everything, refuse_left_out, scope_of
from tidegate.specs.columns import CsvOptions, TableFormat, TableRead
from tidegate.specs.files import Compression, Format, PathSource
from tidegate.specs.locations import Location
from tidegate.specs.project import OnBadRecord, PipelineSpec
from tidegate.specs.table import FieldSpec, Numbers, PartitionBy, SchemaSpec, SinkSpec
from tidegate.storage.port import Upload, UploadCounts
from tidegate.storage.stores import open_store
from tidegate.tasks.dead_letters import DeadLetterTarget

HELD_BYTES = 64 * 1024 * 1024
"""A file up to this many Arrow bytes is buffered until its end; a larger one is written as it is read."""

_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Everything a task needs besides its file group; picklable.

    ``file_schema`` is the Arrow schema of the files to write, in IPC form. ``seconds`` is the time limit of the task.
    ``letters`` is the target of bad lines; without it, the first bad line refuses its file, or with ``fail_run`` ends
    the task. Without ``whole_files`` a task may stop inside a large file, which is only right if a later bad line does
    not refuse the whole file. ``wants_native``: nobody switched the native JSON reader off. ``inferred``: nobody
    declared the fields.
    """

    source: Location
    table: Location
    fields: tuple[FieldSpec, ...]
    file_schema: bytes
    compression: Compression = Compression.AUTO
    format: Format = Format.NDJSON
    csv: CsvOptions = field(default_factory=CsvOptions)
    numbers: Numbers = Numbers.STRICT
    coerce_conflicts_to_utf8: bool = False
    rescued: str | None = None
    partition_by: PartitionBy | None = None
    metadata_columns: tuple[str, ...] = ()
    writer: WriterSettings = field(default_factory=WriterSettings)
    commit_batch_files: int = 10
    seconds: float | None = None
    held_bytes: int = HELD_BYTES
    whole_files: bool = True
    letters: DeadLetterTarget | None = None
    fail_run: bool = False
    wants_native: bool = False
    inferred: bool = False


def read_task(
    pipeline: PipelineSpec,
    source: PathSource,
    fields: tuple[FieldSpec, ...],
    table: pa.Schema | None = None,
    *,
    seconds: float | None = None,
    run: str = "",
) -> ReadTask:
    """Build the task for one source; it writes with the wider types of ``table``, the table's current schema."""
    # Fail here, with the extra to install, and not in the first task.
    if source.format is Format.AVRO:
        avro_library()
    sink, schema = pipeline.sink, pipeline.schema
    declared = arrow_schema(fields)
    metadata = [pa.field(name, METADATA_COLUMNS[name]) for name in sink.metadata_columns]
    keys = Partitioning(sink.partition_by, declared).columns
    files = write_schema(pa.schema([*declared, *metadata]), table, schema.evolution, keys)
    return ReadTask(
        source=source.location,
        table=sink.table,
        fields=fields,
        file_schema=files.serialize().to_pybytes(),
        compression=source.compression,
        format=source.format,
        csv=source.csv,
        numbers=schema.numbers,
        coerce_conflicts_to_utf8=schema.coerce_conflicts_to_utf8,
        rescued=schema.rescued,
        partition_by=sink.partition_by,
        metadata_columns=sink.metadata_columns,
        writer=writer_settings(sink),
        commit_batch_files=sink.commit_batch_files,
        seconds=seconds,
        whole_files=pipeline.error_handling.on_bad_record is OnBadRecord.FAIL_FILE,
        letters=letter_place(pipeline, source, fields, run),
        fail_run=pipeline.error_handling.on_bad_record is OnBadRecord.FAIL_RUN,
        # Workers may lack the package; the driver then says once why they are slow.
        wants_native=wants_native(),
        inferred=not schema.fields,
    )


def letter_place(
    pipeline: PipelineSpec, source: PathSource, fields: tuple[FieldSpec, ...], run: str
) -> DeadLetterTarget | None:
    """Return the dead-letter target of a source; None if a bad line refuses its file or ends the run."""
    handling = pipeline.error_handling
    if handling.on_bad_record is not OnBadRecord.DEAD_LETTER:
        return None
    names = (pipeline.name, source.name, run)
    return DeadLetterTarget(pipeline.dead_letters, *names, fingerprint(fields), handling.max_bad_records)


def writer_settings(sink: SinkSpec) -> WriterSettings:
    return WriterSettings(
        file_size=sink.file_size_mb * _MEGABYTE,
        row_group_size=sink.row_group_size_bytes,
        codec=sink.compression,
        rollover_secs=sink.rollover_timeout_secs,
        inactivity_secs=sink.inactivity_timeout_secs,
        uploads=sink.max_concurrent_uploads,
        upload=Upload(
            part_size=sink.part_size_mb * _MEGABYTE,
            multipart_from=sink.min_multipart_size_mb * _MEGABYTE,
            concurrent_parts=sink.max_concurrent_parts,
        ),
    )


@dataclass(frozen=True, slots=True)
class TaskActivity:
    """The activity of one task, or of all: files and parts being uploaded, and what was read of open groups."""

    files: int = 0
    parts: int = 0
    bytes: int = 0
    rows: int = 0

    def __add__(self, other: TaskActivity) -> TaskActivity:
        return TaskActivity(
            self.files + other.files, self.parts + other.parts, self.bytes + other.bytes, self.rows + other.rows
        )


Hear = Callable[[TaskActivity], None]
"""Gets every change of the tasks' activity; called from any thread."""


_OUTCOMES: dict[str, type[FileOutcome]] = {kind.__name__: kind for kind in (Covered, Refused, Changed, NotReached)}


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The result of one group: an outcome per file in order, and the data files with the covered rows.

    ``letter_files`` have its bad lines, in the dead-letter table.

    ``uploads`` counts the uploads of its files. With a ``failure`` nothing of the group is done.

    ``unknown_fields`` counts the values of every field that the schema lacks, by path. ``bad_kinds`` counts bad lines
    by kind. ``lacks_native``: JSON was read without the native reader, which nobody switched off.
    """

    number: int
    outcomes: tuple[FileOutcome, ...]
    data_files: tuple[FinishedFile, ...] = ()
    rows: int = 0
    letter_files: tuple[FinishedFile, ...] = ()
    unknown_fields: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    bad_kinds: Mapping[str, int] = field(default_factory=dict)
    uploads: UploadCounts = field(default_factory=UploadCounts)
    failure: TidegateError | None = None
    lacks_native: bool = False

    @classmethod
    def of_failure(cls, group: FileGroup, error: TidegateError) -> GroupResult:
        """Build the result of a group that could not be read or written: none of its files was reached."""
        return cls(group.number, tuple(NotReached(file.path) for file in group.slices), failure=error)


def outcome_to_json(outcome: FileOutcome) -> dict[str, Any]:
    """Encode an outcome with its kind."""
    return {"outcome": type(outcome).__name__, **asdict(outcome)}


def outcome_from_json(data: Mapping[str, Any]) -> FileOutcome:
    """Decode an outcome with its kind."""
    kind = _OUTCOMES[data["outcome"]]
    return kind(**{name: value for name, value in data.items() if name != "outcome"})


@dataclass(frozen=True, slots=True)
class FinishedGroup:
    """A group that a task has read; its results cover each of its files."""

    task: ReadTask
    group: FileGroup
    results: tuple[GroupResult, ...]


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """When a commit is due: after so many Parquet files or source files since the last one, or after so many seconds if
    anything is finished; None is no limit.
    """

    data_files: int | None = None
    source_files: int | None = None
    seconds: float | None = None

    def times(self, number: int) -> CommitLimits:
        """Multiply the limits by ``number``, without the time limit."""
        return CommitLimits(
            None if self.data_files is None else self.data_files * number,
            None if self.source_files is None else self.source_files * number,
        )

    def are_reached(self, finished: FinishedResults, seconds: float = 0.0) -> bool:
        """True if a commit of ``finished`` is due, so many seconds after the last one."""
        return bool(finished.results) and (
            (self.data_files is not None and finished.data_files >= self.data_files)
            or (self.source_files is not None and finished.source_files >= self.source_files)
            or (self.seconds is not None and seconds >= self.seconds)
        )


@dataclass(slots=True)
class FinishedResults:
    """Finished and uncommitted results. ``files`` were read at least in part, ``source_files`` to their end."""

    results: list[GroupResult] = field(default_factory=list)
    files: int = 0
    source_files: int = 0
    source_bytes: int = 0
    data_files: int = 0

    def add(self, result: GroupResult) -> None:
        """Count one result."""
        self.results.append(result)
        self.data_files += len(result.data_files)
        for outcome in result.outcomes:
            self.files += not isinstance(outcome, NotReached)
            match outcome:
                case Covered(eof=True, size=size) | Refused(size=size):
                    self.source_files += 1
                    self.source_bytes += size
                case _:
                    pass


def open_format(task: ReadTask, partitioning: Partitioning) -> FormatReader:
    """Open the reader of the task's format."""
    rules = RecordRules(
        task.fields,
        numbers=task.numbers,
        coerce=task.coerce_conflicts_to_utf8,
        forbidden=partitioning.from_path,
        filled=partitioning.required,
        rescued=task.rescued,
        inferred=task.inferred,
    )
    match task.format:
        case Format.CSV:
            return CsvFormat(rules, task.csv, task.compression)
        case Format.PARQUET:
            return ParquetFormat(rules)
        case Format.AVRO:
            return AvroFormat(rules)
        case _:
            return LineFormat(Decoder(rules), task.format, task.compression, keeps_text=bool(partitioning.texts))


def files_of(name: str, read: TableRead) -> PathSource:
    """Describe the files of a scan as a source of files."""
    lines = Format.NDJSON if read.lines else Format.JSON
    format_ = Format.CSV if read.format is TableFormat.CSV else lines
    return PathSource(
        name, read.location, pattern=read.pattern, format=format_, csv=read.csv, follow_links=read.follow_links
    )


def list_files(source: PathSource) -> list[FileSlice]:
    """List the current files, large ones first."""
    store = open_store(source.location)
    check_location(store, source)
    scope = scope_of(source)
    infos = [info for info in list_everything(store, scope) if accepts(source, info.path) is None]
    # A scan has no state that could find skipped files later.
    refuse_left_out(scope, source.location.uri, "set follow_links: true, or put the files themselves there")
    # Large ones first, so that no task is left with the largest file at the end.
    infos.sort(key=lambda info: (-info.size, info.path))
    return [FileSlice(info.path, info.size, info.etag) for info in infos]


def infer_files(source: PathSource, slices: Sequence[FileSlice], schema: SchemaSpec) -> tuple[FieldSpec, ...]:
    """Infer columns from the first records of some files."""
    sampler = Sampler(open_store(source.location), source)
    inference = sampler.infer(spread(slices), coerce_conflicts_to_utf8=schema.coerce_conflicts_to_utf8)
    return check_agreement(inference).fields


def scan_files(
    source: PathSource, fields: tuple[FieldSpec, ...], schema: SchemaSpec, slices: Sequence[FileSlice]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of these files; raises :class:`SourceError` at the first bad one.

    A column source has no place for single bad records.
    """
    task = ReadTask(
        source.location,
        source.location,
        fields,
        b"",
        compression=source.compression,
        format=source.format,
        csv=source.csv,
        numbers=schema.numbers,
        coerce_conflicts_to_utf8=schema.coerce_conflicts_to_utf8,
    )
    format = open_format(task, Partitioning(None, arrow_schema(fields)))
    remedy = "correct the file, or declare schema.fields that match it"
    yield from scan(format, open_store(source.location), slices, remedy)
