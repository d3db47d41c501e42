"""The DataFrame lane: rows through the transform into the table, and rows of a DataFrame as finished files.

Only what the driver received counts: a retried or speculative attempt leaves files nobody refers to, never rows.

One statement in its own session commits the rows together with the position. Delta silently ignores a position that it
has already seen, and an error may come after the commit: so not Spark's result but the log decides.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import reduce
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from tidegate.errors import (
    EnvironmentProblem,
    ObjectMissing,
    RowsRefused,
    SchemaMismatch,
    SourceError,
    TableError,
    TidegateError,
)
from tidegate.protocol.table import CommitNote
from tidegate.schema.evolution import evolve, require_as
from tidegate.schema.names import MOST_LEVELS, spell
from tidegate.schema.types import levels
from tidegate.sources.adbc import AdbcShare, share_rows
from tidegate.sources.jdbc import is_of_database
from tidegate.spark.arrow_types import to_arrow_columns, to_spark_columns
from tidegate.spark.filters import exact_column
from tidegate.spark.readers.jdbc import AdbcRows, database_refusal
from tidegate.spark.s3a import check_writing, reach
from tidegate.spark.session import COLUMNAR_INPUT, VARIABLE, derive_session, find_replaced_name, put, quote
from tidegate.spark.tasks import machine_problem, run_tasks, slot_frame, slot_numbers, task_failure, telling_line
from tidegate.specs.masking import Mask
from tidegate.specs.project import TransformSpec
from tidegate.specs.table import Evolution, ParquetCodec
from tidegate.specs.user_code import contain_errors, load_function, show
from tidegate.storage.stores import open_store
from tidegate.tasks.row_task import RowsWritten, RowTask, WorkRows, join_results, write_batches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def write_rows(rows: DataFrame | AdbcRows, task: RowTask) -> RowsWritten:
    """Write every row, each partition or share by its own task; they have the columns of the task.

    Raises :class:`TidegateError` if Spark gave up; then nothing counts.
    """
    if isinstance(rows, AdbcRows):
        slots = slot_frame(rows.frame.sparkSession, len(rows.shares))
        return join_results(task, _collect_results(slots, task, _write_shares, rows.shares))
    numbered = rows.select(*(exact_column(name).alias(f"c{n}") for n, name in enumerate(task.names)))
    put(rows.sparkSession, {COLUMNAR_INPUT: "false"})
    return join_results(task, _collect_results(numbered, task, _write_partition))


def _collect_results(frame: DataFrame, task: RowTask, work: Callable[..., Iterator[Any]], *needs: object) -> list[Any]:
    """The results of the tasks; raises an error among them."""
    try:
        received = run_tasks(frame, work, task, *needs)
    except Exception as error:
        if is_of_database(str(error)):
            refused = database_refusal(error, task.mask)
            raise SourceError(refused.problem, refused.remedy) from task.mask.cause(error)
        remedy = "nothing was committed; the same rows are read again next time"
        raise task_failure(error, remedy, task.mask) from task.mask.cause(error)
    for each in received:
        if isinstance(each, TidegateError):
            raise task.mask.error(each)
    return received


def _write_shares(
    batches: Iterator[pa.RecordBatch], task: RowTask, shares: Sequence[AdbcShare]
) -> Iterator[RowsWritten | TidegateError]:
    """Run in a task: write the rows of its shares."""
    for number in slot_numbers(batches):
        try:
            yield write_batches(task, share_rows(shares[number]))
        except TidegateError as error:
            yield error


def _write_partition(batches: Iterator[pa.RecordBatch], task: RowTask) -> Iterator[RowsWritten | TidegateError]:
    """Run in a task: write its partition. Columns are named by numbers: Spark splits a name with a dot in two."""
    try:
        yield write_batches(task, (batch.rename_columns(task.names) for batch in batches))
    except TidegateError as error:
        yield error


VIEW = "source"
_HEADS = 16

_CONTESTED = re.compile(
    r"DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|Concurrent\w*Exception|ConditionalRequestConflict"
)
_TOO_LONG = re.compile(r"File name too long|KeyTooLong|Mkdirs failed to create \S*/[^/\s]{200,}")
_EXTENSION = "DeltaSparkSessionExtension"


class SparkFrame:
    """The rows of one commit as a DataFrame; reads and computes nothing until it is written."""

    def __init__(self, session: SparkSession, rows: WorkRows) -> None:
        self._pipeline = rows.pipeline
        self._partitioned_by = rows.partitioned_by
        self._mask = Mask.around(rows.pipeline)
        self._work = rows
        check_session(session)
        own = derive_session(session)
        check_writing(own, rows.pipeline.sink.table)
        self._table = reach(own, rows.pipeline.sink.table)
        read = read_rows(own, rows)
        transform = rows.pipeline.transform
        self._frame = read if transform is None else apply_transform(read, transform, rows.pipeline.name, self._mask)
        self._columns = rows.columns if transform is None else self._check_computed_columns()

    def columns(self, table: pa.Schema | None) -> pa.Schema:
        """The columns to write; what ``table`` requires counts as present, since Delta checks."""
        return self._columns if self._pipeline.transform is None else require_as(self._columns, table)

    @property
    def offered(self) -> int | None:
        """Not counted: every row is written."""
        return None

    def changes_nothing(self, table: pa.Schema) -> bool:
        """Whether a table with these columns has all that the rows would make of it; asks Spark."""
        try:
            # As the commit checks it: a value of a wider type is cast before it is compared, and would seem equal.
            if evolve(table, self.columns(table), Evolution.MERGE, file_name="the new rows"):
                return False
        except SchemaMismatch:
            return False
        with self._explain_failure():
            return self._find_nothing(table)

    def write(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        """Write the rows; see :class:`~tidegate.protocol.change.Frame`."""
        with self._explain_failure():
            self._save(note, table, new_columns=new_columns)

    @contextmanager
    def _explain_failure(self) -> Iterator[None]:
        check_there(self._work)
        try:
            yield
        except TidegateError:
            raise
        except Exception as error:
            raise self._failure(error) from self._mask.cause(error)

    def _find_nothing(self, table: pa.Schema) -> bool:
        return False

    def _save(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        # Delta's writer options hold one transaction.
        ((app_id, version),) = note.transactions.items()
        frame = self._frame if table is None else fit_types(self._frame, table)
        writer = (
            frame.write.format("delta")
            .mode("append")
            .option("txnAppId", app_id)
            .option("txnVersion", version)
            # As an option: Spark replaces `${…}` in settings, and leaves options as they are.
            .option("userMetadata", note.user_metadata)
            .option("compression", codec_of(self._pipeline.sink.compression))
        )
        if new_columns:
            writer = writer.option("mergeSchema", "true")
        if table is None and self._partitioned_by:
            writer = writer.partitionBy(*self._partitioned_by)
        writer.save(self._table)

    def _longest_values(self) -> str:
        """How long the values of the partition columns are; evaluates the rows again, for the message alone."""
        from pyspark.sql import functions as f

        lengths = [f.max(f.octet_length(exact_column(name).cast("string"))) for name in self._partitioned_by]
        try:
            (found,) = self._frame.select(*lengths).collect()
        except Exception:
            return f"a value of a partition column is too long: {', '.join(self._partitioned_by)}"
        lengths_found = (
            f"{name!r} has values of up to {length} bytes"
            for name, length in zip(self._partitioned_by, found, strict=True)
        )
        return f"a value of a partition column is too long for a folder: {', '.join(lengths_found)}"

    def _check_computed_columns(self) -> pa.Schema:
        """The columns of the transform's result, which must include the partition columns."""
        columns = columns_of(self._frame, f"{self._pipeline.name}: {self._pipeline.transform}")
        self._partitioned_by = tuple(spell(name, columns.names) for name in self._partitioned_by)
        missing = [name for name in self._partitioned_by if name not in columns.names]
        if missing:
            raise SchemaMismatch(
                f"{self._pipeline.name}: {self._pipeline.transform} does not return the partition column "
                f"{missing[0]!r}",
                "select it, or change sink.partition_by",
            )
        return columns

    def _failure(self, error: Exception) -> TidegateError:
        transform = self._pipeline.transform
        through = "" if transform is None else f" ({transform})"
        line = telling_line(error, self._mask)
        problem = f"{self._pipeline.name}: Spark did not write table {self._table}{through}: {line}"
        if is_contested(error):
            return TableError(problem, "run again")
        if self._partitioned_by and _TOO_LONG.search(str(error)):
            return RowsRefused(
                f"{problem}; {self._longest_values()}",
                "nothing was committed; shorten the value in the transform, or partition by another column",
            )
        remedy = "nothing was committed and the position is unchanged; correct that and run again"
        return machine_problem(error, self._mask) or RowsRefused(problem, remedy)


def columns_of(frame: DataFrame, made_by: str) -> pa.Schema:
    """The columns of ``frame``; each must have a unique name and a type that tables have.

    ``made_by`` is for the message of :class:`SchemaMismatch`.
    """
    from pyspark.sql.types import NullType, VariantType

    twice = [name for name, count in Counter(field.name.lower() for field in frame.schema).items() if count > 1]
    if twice:
        raise SchemaMismatch(f"{made_by} gives the column {twice[0]!r} twice", "give each column a name of its own")
    for field in frame.schema:
        if isinstance(field.dataType, NullType):
            raise SchemaMismatch(
                f"{made_by} gives the column {field.name!r} no type", "cast it, such as: cast(null as string)"
            )
        if isinstance(field.dataType, VariantType):
            raise SchemaMismatch(
                f"{made_by} gives {field.name!r}, a variant, which Tidegate cannot write", "cast it, or keep the text"
            )
    unread = find_replaced_name(frame.schema)
    if unread is not None:
        raise SchemaMismatch(
            f"{made_by} gives a column {unread!r}, and where Hadoop looks for columns in a file it replaces "
            f"'{VARIABLE}…}}' by a variable",
            "rename it at the source",
        )
    try:
        columns = to_arrow_columns(frame.schema)
    except TypeError as error:
        raise SchemaMismatch(f"{made_by} gives a type that no table can hold: {error}", "cast it") from error
    # Spark writes a deeper table, and then not every reader opens it again.
    if deep := [(column.name, found) for column in columns if (found := levels(column.type)) > MOST_LEVELS]:
        raise SchemaMismatch(
            f"{made_by} gives the column {deep[0][0]!r} with {deep[0][1]} nested levels; a table has at most "
            f"{MOST_LEVELS}",
            "keep an inner part as text, such as: to_json(...)",
        )
    return columns


def apply_transform(read: DataFrame, transform: TransformSpec, pipeline: str, mask: Mask | None = None) -> DataFrame:
    """The result of the transform; an error names pipeline and transform, masked by ``mask``."""
    from pyspark.sql import DataFrame

    mask = mask or Mask()

    try:
        if transform.python is not None:
            function = load_function(transform.python, f"{pipeline}: transform.python {transform.python}")
            with contain_errors():
                result = function(read)
        else:
            read.createOrReplaceTempView(VIEW)
            result = read.sparkSession.sql(transform.sql or "")
    except TidegateError as error:
        raise mask.error(error) from mask.cause(error.__cause__)
    except Exception as error:
        raise RowsRefused(
            f"{pipeline}: {transform} failed: {telling_line(error, mask)}",
            "nothing was committed; correct the transform and run again",
        ) from mask.cause(error)
    if not isinstance(result, DataFrame):
        raise RowsRefused(f"{pipeline}: {transform} returned {show(result, mask)}", "return a DataFrame")
    return result


def check_session(session: SparkSession) -> None:
    """Raise :class:`EnvironmentProblem` unless it is a classic session with Delta."""
    if not hasattr(session, "newSession"):
        raise EnvironmentProblem(
            "transforms, and tables with features that only Spark honours, need a classic Spark session; spark.remote "
            "is a Spark Connect server",
            "set spark.master instead",
        )
    # Databricks has Delta built in, and does not list it among the extensions.
    has_delta = "DATABRICKS_RUNTIME_VERSION" in os.environ
    if not has_delta and _EXTENSION not in (session.conf.get("spark.sql.extensions", "") or ""):
        raise EnvironmentProblem(
            "the Spark session was started without Delta, but this table needs it",
            "start again; in a session of your own, set spark.sql.extensions, spark.sql.catalog.spark_catalog and "
            "spark.jars as the documentation of delta-spark says",
        )


def read_rows(session: SparkSession, rows: WorkRows) -> DataFrame:
    """The decoded rows, with their types; values of partition directories are parsed to theirs."""

    schema = to_spark_columns(rows.columns)
    if not rows.files:
        return session.createDataFrame([], schema)
    work = reach(session, rows.work)
    bases: dict[str, list[str]] = {}
    for path in rows.files:
        above = takewhile(lambda part: "=" not in part, path.split("/")[:-1])
        bases.setdefault("/".join([work, *above]), []).append(f"{work}/{path}")
    read = session.read.schema(schema)
    frames = [read.option("basePath", base).parquet(*paths) for base, paths in bases.items()]
    return reduce(type(frames[0]).unionAll, frames).select(*map(quote, schema.names))


def check_there(rows: WorkRows) -> None:
    """``RowsRefused`` if a file of the work area is not as written: its rows would not be read."""
    store = open_store(rows.work)

    def size_of(path: str) -> int | None:
        try:
            return store.head(path).size
        except ObjectMissing:
            return None

    with ThreadPoolExecutor(_HEADS, "head") as pool:
        sizes = list(pool.map(size_of, rows.files[: len(rows.sizes)]))
    for path, wanted, size in zip(rows.files, rows.sizes, sizes, strict=False):
        if size != wanted:
            problem = "is missing" if size is None else f"has {size} bytes and was written with {wanted}"
            raise RowsRefused(
                f"{rows.pipeline.name}: work file {rows.work.uri}/{path} {problem}",
                "nothing was committed, and the next run reads its rows again; find out who changes files below "
                "_tidegate",
            )


def fit_types(frame: DataFrame, table: pa.Schema) -> DataFrame:
    """``frame`` with the table's wider types; nested columns are left to Delta."""
    from pyspark.sql.types import AtomicType

    wanted = {field.name: field.dataType for field in to_spark_columns(table)}
    columns = []
    for field in frame.schema:
        kind = wanted.get(field.name, field.dataType)
        column = exact_column(field.name)
        differs = kind != field.dataType and isinstance(kind, AtomicType)
        columns.append(column.cast(kind).alias(field.name) if differs else column)
    return frame.select(*columns)


def codec_of(codec: ParquetCodec) -> str:
    # Spark's `lz4` is the deprecated codec with Hadoop's framing; `LZ4_RAW` is what our own writer writes.
    return "lz4_raw" if codec is ParquetCodec.LZ4 else codec.value


def is_contested(error: Exception) -> bool:
    """Whether Delta reports that somebody else wrote the table meanwhile, so that a retry may succeed."""
    return _CONTESTED.search(str(error)) is not None
