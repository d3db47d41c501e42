"""What the rows of every kind of source have in common: a session of their own, and the columns they are given."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidegate.errors import EnvironmentProblem, SourceError, TidegateError
from tidegate.schema.types import arrow_schema
from tidegate.spark.filters import column_named, named
from tidegate.spark.session import own_session
from tidegate.spark.tasks import telling_line
from tidegate.specs.masking import Mask
from tidegate.specs.project import SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def load_function(name: str, said: str) -> Callable[..., Any]:
    """The function; ``said`` is how the configuration speaks of it, for errors."""
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise EnvironmentProblem(
            f"{said} cannot be loaded ({error})",
            "install the module in this environment, or name its folder in PYTHONPATH",
        ) from error
    if not callable(found):
        raise EnvironmentProblem(f"{said} is not a function", "name a function")
    return found  # type: ignore[no-any-return]  # what it returns is looked at where it is called


DEFAULT_PARALLELISM = 4


def utc_session(session: SparkSession) -> SparkSession:
    """A session that shares everything but settings: its zone is UTC, and a value that does not fit is an error."""
    return own_session(session, {"spark.sql.ansi.enabled": "true"})


def parallelism(session: Any) -> int:
    """How many tasks the session runs at once; a Spark Connect server does not say."""
    return int(session.sparkContext.defaultParallelism) if hasattr(session, "newSession") else DEFAULT_PARALLELISM


def declared(schema: SchemaSpec) -> StructType | None:
    """The declared columns as Spark's; None where the source's own are taken."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(arrow_schema(schema.fields)) if schema.fields else None


def given(frame: DataFrame, schema: SchemaSpec, timezone: str, source: str) -> DataFrame:
    """``frame`` with the declared columns and types, or with its own; times without a zone become instants."""
    timed = with_instants(frame, timezone)
    wanted = declared(schema)
    if wanted is None:
        return timed
    columns = []
    for field in wanted:
        name = column_named(field.name, timed.columns, source)
        columns.append(named(name).cast(field.dataType).alias(field.name))
    return timed.select(*columns)


def with_instants(frame: DataFrame, timezone: str) -> DataFrame:
    """``frame`` with its times without a zone as the instants they are in ``timezone``."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampNTZType

    columns = [
        f.convert_timezone(f.lit(timezone), f.lit("UTC"), named(field.name)).cast("timestamp").alias(field.name)
        if isinstance(field.dataType, TimestampNTZType)
        else named(field.name)
        for field in frame.schema
    ]
    has_local = any(isinstance(field.dataType, TimestampNTZType) for field in frame.schema)
    return frame.select(*columns) if has_local else frame


def unreadable(source: str, error: Exception, remedy: str, mask: Mask | None = None) -> TidegateError:
    """What Spark, or a function, told about a source, as an error of ours, with nothing in it that ``mask`` hides."""
    mask = mask or Mask()
    if isinstance(error, TidegateError):
        masked: TidegateError = mask.error(error)
        return masked
    return SourceError(f"{source}: {telling_line(error, mask)}", remedy)
