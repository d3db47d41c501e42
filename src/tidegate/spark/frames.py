"""The DataFrame lane: decoded rows through the pipeline's transform into the table, by Spark's own Delta writer.

One statement in a session of its own commits the rows together with the position. Delta passes silently over a
position that it has already seen, and an error may come after the commit: so nothing that Spark returns or raises
decides, the log does.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import takewhile
from typing import TYPE_CHECKING

from tidegate.errors import EnvironmentProblem, RowsRefused, SchemaMismatch, TableError, TidegateError
from tidegate.sink.work_rows import WorkRows
from tidegate.spark.arrow_lane import cause
from tidegate.spark.functions import load_function
from tidegate.specs import ParquetCodec, TransformSpec
from tidegate.state.table import CommitNote
from tidegate.storage.opening import split_uri

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

VIEW = "source"

_CONTESTED = re.compile(r"DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|Concurrent\w*Exception")
_NOISE = re.compile(r"^\s*(at |\.\.\. \d+ more|Caused by: org\.apache\.spark\.SparkException: Job aborted)")
_EXTENSION = "DeltaSparkSessionExtension"
_COLUMNAR_INPUT = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"
"""With Spark 4.2.0 a Python function over columns of a Parquet file never ends while this is on."""


class SparkFrame:
    """The rows of one commit as a DataFrame; reads and computes nothing until it is written."""

    def __init__(self, session: SparkSession, rows: WorkRows) -> None:
        self._pipeline = rows.pipeline
        self._table = _path(rows.pipeline.sink.table.uri)
        self._partitioned_by = rows.partitioned_by
        read = _read(_own(session), rows)
        transform = rows.pipeline.transform
        self._frame = read if transform is None else transformed(read, transform, rows.pipeline.name)
        self._columns = rows.columns if transform is None else self._computed()

    def columns(self, table: pa.Schema | None) -> pa.Schema:
        """The columns that will be written; what ``table`` requires is taken to be there, since Delta looks."""
        import pyarrow

        if self._pipeline.transform is None or table is None:
            return self._columns
        required = {field.name for field in table if not field.nullable}
        return pyarrow.schema([each.with_nullable(each.name not in required) for each in self._columns])

    def write(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        """Append the rows; see :class:`~tidegate.state.frames.Frame`."""
        ((app_id, version),) = note.transactions.items()
        frame = self._frame if table is None else _fitted(self._frame, table)
        writer = (
            frame.write.format("delta")
            .mode("append")
            .option("txnAppId", app_id)
            .option("txnVersion", version)
            .option("userMetadata", note.user_metadata)
            .option("compression", _codec(self._pipeline.sink.compression))
        )
        if new_columns:
            writer = writer.option("mergeSchema", "true")
        if table is None and self._partitioned_by:
            writer = writer.partitionBy(*self._partitioned_by)
        try:
            writer.save(self._table)
        except Exception as error:
            raise self._failure(error) from error

    def _computed(self) -> pa.Schema:
        """The columns of the transform's result; each must have a name of its own and a type."""
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import NullType, VariantType

        schema = self._frame.schema
        twice = [name for name, count in Counter(each.name.lower() for each in schema).items() if count > 1]
        if twice:
            raise self._mismatch(f"gives the column {twice[0]!r} twice", "give each column a name of its own")
        untyped = [each.name for each in schema if isinstance(each.dataType, NullType)]
        if untyped:
            raise self._mismatch(f"gives the column {untyped[0]!r} no type", "cast it, such as: cast(null as string)")
        variants = [each.name for each in schema if isinstance(each.dataType, VariantType)]
        if variants:
            raise self._mismatch(f"gives {variants[0]!r}, a variant, which no lane writes", "cast it, or keep the text")
        missing = [name for name in self._partitioned_by if name not in schema.names]
        if missing:
            raise self._mismatch(
                f"does not give the partition column {missing[0]!r}", "select it, or change sink.partition_by"
            )
        try:
            return to_arrow_schema(schema, timezone="UTC")
        except Exception as error:
            raise self._mismatch(f"gives a type that no table can hold ({telling_line(error)})", "cast it") from error

    def _mismatch(self, problem: str, remedy: str) -> SchemaMismatch:
        return SchemaMismatch(f"{self._pipeline.name}: {self._pipeline.transform} {problem}", remedy)

    def _failure(self, error: Exception) -> TableError:
        transform = self._pipeline.transform
        through = "" if transform is None else f" ({transform})"
        problem = f"{self._pipeline.name}: Spark did not write table {self._table}{through}: {telling_line(error)}"
        if is_contested(error):
            return TableError(problem, "try again")
        return RowsRefused(problem, "nothing was committed and the position is unchanged; correct that and run again")


def transformed(read: DataFrame, transform: TransformSpec, pipeline: str) -> DataFrame:
    """What the transform makes of ``read``; an error names pipeline and transform."""
    from pyspark.sql import DataFrame

    try:
        if transform.python is not None:
            result = load_function(transform.python, f"{pipeline}: transform.python {transform.python}")(read)
        else:
            read.createOrReplaceTempView(VIEW)
            result = read.sparkSession.sql(transform.sql or "")
    except TidegateError:
        raise
    except Exception as error:
        raise RowsRefused(
            f"{pipeline}: {transform} failed: {telling_line(error)}",
            "nothing was committed; correct the transform and run again",
        ) from error
    if not isinstance(result, DataFrame):
        raise RowsRefused(f"{pipeline}: {transform} returned {result!r:.80}", "return a DataFrame")
    return result


def _own(session: SparkSession) -> SparkSession:
    """A session that shares everything but views and settings."""
    if not hasattr(session, "newSession"):
        raise EnvironmentProblem(
            "transforms, and tables with features that only Spark honours, need a classic Spark session; spark.remote "
            "is a Spark Connect server",
            "set spark.master instead",
        )
    if _EXTENSION not in (session.conf.get("spark.sql.extensions", "") or ""):
        raise EnvironmentProblem(
            "the Spark session was started without Delta, and this table is written by Spark",
            "start again; in a session of your own, set spark.sql.extensions, spark.sql.catalog.spark_catalog and "
            "spark.jars as the documentation of delta-spark says",
        )
    own = session.newSession()
    own.conf.set("spark.sql.session.timeZone", "UTC")
    own.conf.set(_COLUMNAR_INPUT, "false")
    return own


def _read(session: SparkSession, rows: WorkRows) -> DataFrame:
    """The decoded rows, with their types; values of partition directories are parsed to theirs."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(rows.columns)
    if not rows.files:
        return session.createDataFrame([], schema)
    work = _path(rows.work.uri)
    paths = [f"{work}/{each}" for each in rows.files]
    return session.read.schema(schema).option("basePath", work).parquet(*paths).select(*map(_quoted, schema.names))


def _fitted(frame: DataFrame, table: pa.Schema) -> DataFrame:
    """``frame`` with the table's types where those are wider; nested columns are Delta's own business."""
    from pyspark.sql.functions import col
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import AtomicType

    wanted = {field.name: field.dataType for field in from_arrow_schema(table)}
    columns = []
    for field in frame.schema:
        kind = wanted.get(field.name, field.dataType)
        column = col(_quoted(field.name))
        differs = kind != field.dataType and isinstance(kind, AtomicType)
        columns.append(column.cast(kind).alias(field.name) if differs else column)
    return frame.select(*columns)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _codec(codec: ParquetCodec) -> str:
    return "lz4_raw" if codec is ParquetCodec.LZ4 else codec.value


def _path(uri: str) -> str:
    return f"/{split_uri(uri)[2]}"


def is_contested(error: Exception) -> bool:
    """Whether Delta tells that somebody else wrote the table meanwhile, so that another try may succeed."""
    return _CONTESTED.search(str(error)) is not None


def telling_line(error: Exception) -> str:
    """The telling part of Spark's long message; of a Python function that failed, its exception."""
    if "Traceback (most recent call last)" in str(error):
        return cause(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not _NOISE.match(line)]
    caused = [line for line in lines if line.startswith("Caused by:")]
    told = next((line for line in lines if re.match(r":?\s*[\w.$]+(Exception|Error): ", line)), "")
    chosen = caused[-1] if caused else told or (lines or [type(error).__name__])[0]
    return f"{chosen.lstrip(': ')}{_listed_after(chosen, lines)}"[:500]


def _listed_after(chosen: str, lines: list[str]) -> str:
    """The values that a line announces, such as those of the row that breaks a constraint."""
    if not chosen.endswith(":"):
        return ""
    listed = takewhile(lambda line: line.startswith("- "), lines[lines.index(chosen) + 1 :])
    return " " + ", ".join(line[2:].replace(" : ", " = ") for line in listed)
