"""Everything that reading a unit needs, as one value that travels to executors."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from tidegate.schema.avro_library import reading_library
from tidegate.schema.evolution import write_schema
from tidegate.schema.letter import fingerprint
from tidegate.schema.types import arrow_schema
from tidegate.sink.letters import LetterPlace
from tidegate.sink.partitions import METADATA_COLUMNS, Partitioning
from tidegate.sink.writer import WriterSettings
from tidegate.specs import (
    Compression,
    CsvOptions,
    FieldSpec,
    Format,
    Location,
    Numbers,
    OnBadRecord,
    PartitionBy,
    PathSource,
    PipelineSpec,
    SinkSpec,
)
from tidegate.storage.port import Upload

HELD_BYTES = 64 * 1024 * 1024
"""Arrow bytes of a file up to which it is held until its end; a larger one is written as it is read."""

_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Everything a task needs besides its unit; picklable.

    ``file_schema`` is the Arrow schema of the files to write, in IPC form. ``deadline`` is a moment in Unix
    seconds. ``letters`` says where bad lines go; without it, the first refuses its file, or with ``fail_run`` ends the
    task. Without ``whole_files`` a large file may be left in the middle, which is only right where a bad line further
    down does not refuse the whole file.
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
    batch_size: int = 8192
    commit_batch_files: int = 10
    deadline: float | None = None
    held_bytes: int = HELD_BYTES
    whole_files: bool = True
    letters: LetterPlace | None = None
    fail_run: bool = False


def read_task(
    pipeline: PipelineSpec,
    source: PathSource,
    fields: tuple[FieldSpec, ...],
    table: pa.Schema | None = None,
    *,
    deadline: float | None = None,
    run: str = "",
) -> ReadTask:
    """The task for one source; ``table`` is the table's schema now, whose wider types are written."""
    if source.format is Format.AVRO:
        reading_library()
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
        batch_size=source.batch_size,
        commit_batch_files=sink.commit_batch_files,
        deadline=deadline,
        whole_files=pipeline.error_handling.on_bad_record is OnBadRecord.FAIL_FILE,
        letters=letter_place(pipeline, source, fields, run),
        fail_run=pipeline.error_handling.on_bad_record is OnBadRecord.FAIL_RUN,
    )


def letter_place(
    pipeline: PipelineSpec, source: PathSource, fields: tuple[FieldSpec, ...], run: str
) -> LetterPlace | None:
    """Where the bad lines of a source go; None where they refuse their file or end the run."""
    handling = pipeline.error_handling
    if handling.on_bad_record is not OnBadRecord.DEAD_LETTER:
        return None
    names = (pipeline.name, source.name, run)
    return LetterPlace(pipeline.dead_letters, *names, fingerprint(fields), handling.max_bad_records)


def writer_settings(sink: SinkSpec) -> WriterSettings:
    """How a sink wants its files written."""
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
