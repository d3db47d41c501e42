"""Sessions of our own: each statement and each reader has one, whose settings nobody else's are mixed with.

Spark replaces ``${…}`` - settings, variables of the environment, properties of Java - in SQL text, where
``spark.sql.variable.substitute`` turns that off, and in the values of settings, where nothing does. Options of readers
and writers and values in frames it leaves alone. Hadoop does the same to what it is configured with, the names of the
columns of a Parquet file among it. Data may say ``${env:PASSWORD}``: so SQL is read as it stands in these sessions,
:func:`put` is the one way to a setting, and names that Hadoop would change are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tidegate.errors import RowsRefused, TableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

VARIABLE = "${"

COLUMNAR_INPUT = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"
"""With Spark 4.2.0 a Python function over columns of a Parquet file never ends while this is on."""

_SUBSTITUTE = "spark.sql.variable.substitute"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    _SUBSTITUTE: "false",
    COLUMNAR_INPUT: "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreInvalidPartitionPaths": "false",
}
"""A file that is gone or damaged is an error, never no rows: what was not read would count as committed."""


def own_session(session: SparkSession, more: Mapping[str, str] | None = None) -> SparkSession:
    """A session that shares everything but views and settings; of a Spark Connect server, the session itself."""
    own = session.newSession() if hasattr(session, "newSession") else session
    put(own, {**_SETTINGS, **(more or {})})
    return own


def put(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Set these; ``RowsRefused`` where Spark would read something else than is written."""
    for name, value in settings.items():
        if VARIABLE in value:
            raise RowsRefused(
                f"{name} would be {value!r:.200}, in which Spark replaces '{VARIABLE}…}}' by a variable",
                f"nothing was committed; leave '{VARIABLE}' out of the names of pipelines and sources",
            )
        session.conf.set(name, value)


def check_text(session: SparkSession, text: str) -> str:
    """SQL ``text``, for a session that may be somebody else's; ``TableError`` where Spark would change it there."""
    if VARIABLE in text and session.conf.get(_SUBSTITUTE, "true") != "false":
        raise TableError(
            f"Spark would replace '{VARIABLE}…}}' by a variable in: {text[:200]}",
            f"set {_SUBSTITUTE} to false in that session",
        )
    return text


def replaced_name(kind: DataType) -> str | None:
    """A name in columns of this type that Hadoop would replace a variable in, so that no file seems to have it."""
    return next((name for name in _names(kind) if VARIABLE in name), None)


def _names(kind: DataType) -> Iterator[str]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case StructType():
            for each in kind.fields:
                yield each.name
                yield from _names(each.dataType)
        case ArrayType():
            yield from _names(kind.elementType)
        case MapType():
            yield from _names(kind.keyType)
            yield from _names(kind.valueType)
        case _:
            return


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
