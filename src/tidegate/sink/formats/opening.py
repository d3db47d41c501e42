"""The format of a task's files, ready to read."""

from __future__ import annotations

from tidegate.sink.decoder import Decoder
from tidegate.sink.formats.avro import AvroFormat
from tidegate.sink.formats.csv import CsvFormat
from tidegate.sink.formats.kinds import Fitting
from tidegate.sink.formats.lines import LineFormat
from tidegate.sink.formats.parquet import ParquetFormat
from tidegate.sink.formats.port import FileFormat
from tidegate.sink.formats.rows import RowDecoder
from tidegate.sink.partitions import Partitioning
from tidegate.sink.read_task import ReadTask
from tidegate.specs import Format, Numbers


def open_format(task: ReadTask, partitioning: Partitioning) -> FileFormat:
    """The format that reads files into the columns of ``task``."""
    coerce, forbidden = task.coerce_conflicts_to_utf8, partitioning.from_path
    lines = Decoder(
        task.fields,
        numbers=task.numbers,
        coerce=coerce,
        forbidden=forbidden,
        filled=partitioning.required,
        rows_per_step=task.batch_size,
        rescued=task.rescued,
    )
    if task.format in (Format.NDJSON, Format.JSON):
        return LineFormat(lines, task.format, task.compression)
    rows = RowDecoder(
        task.fields, numbers=task.numbers, coerce=coerce, forbidden=forbidden, filled=partitioning.required
    )
    lenient = task.numbers is Numbers.LENIENT
    fitting = Fitting(task.fields, coerce=coerce, lenient=lenient, forbidden=forbidden)
    if task.format is Format.CSV:
        return CsvFormat(task.fields, task.csv, task.compression, rows, fitting)
    columnar = ParquetFormat if task.format is Format.PARQUET else AvroFormat
    return columnar(task.fields, rows, lines, fitting)
