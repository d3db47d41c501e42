"""Tables by name, in the catalog of a Spark session.

A catalog only points at a table: its name, its kind and where it lies. What the table holds, and how far a source is
ingested, stands in the Delta log at that place. All statements are SQL, so they work the same in classic sessions,
through Spark Connect and on platforms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import TableError
from tidegate.spark.s3a import spark_path
from tidegate.spark.session import check_text
from tidegate.spark.tasks import telling_line
from tidegate.specs.locations import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """What a catalog knows of a table: where it lies, as Spark writes it, and its format."""

    location: str
    provider: str


class Catalog:
    """The catalog of one session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    @property
    def forgets(self) -> bool:
        """Whether the session's own catalog lives in memory: what is registered there ends with the session."""
        return self._session.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory"

    def find(self, name: str) -> CatalogEntry | None:
        """The table of that name; None if there is none. :class:`TableError` for a view."""
        if not self._session.catalog.tableExists(name):
            return None
        kind = self._session.catalog.getTable(name).tableType
        if kind in ("VIEW", "TEMPORARY", "TEMPORARY_VIEW"):
            raise TableError(
                f"{name} is a view in Spark's catalog, and rows are written to tables only",
                "set 'table' to the table behind it",
            )
        told = self._describe(f"DESCRIBE TABLE EXTENDED {name}")
        return CatalogEntry(told.get("location", ""), told.get("provider", "").lower())

    def place_of_new(self, name: str) -> str:
        """Where the schema of ``name`` puts a new table. :class:`TableError` if there is no such schema."""
        schema, _, table = name.rpartition(".")
        schema = schema or self._session.catalog.currentDatabase()
        if not self._session.catalog.databaseExists(schema):
            raise TableError(
                f"Spark's catalog has no schema {schema} for the table {name}",
                f"create it: CREATE SCHEMA {schema}; or correct 'table'",
            )
        told = self._describe(f"DESCRIBE SCHEMA EXTENDED {schema}").get("location", "")
        if not told:
            raise TableError(f"the schema {schema} has no place of its own for {name}", "give sink.location")
        return f"{told.rstrip('/')}/{table.strip('`')}"

    def register(self, name: str, location: Location) -> None:
        """Let ``name`` point at the table that lies at ``location``; nothing happens if it exists already."""
        path = spark_path(self._session, location, name)
        literal = path.replace("\\", "\\\\").replace("'", "\\'")
        statement = f"CREATE TABLE IF NOT EXISTS {name} USING DELTA LOCATION '{literal}'"
        try:
            self._session.sql(check_text(self._session, statement))
        except Exception as error:
            raise TableError(
                f"the rows are in {location.uri}, but Spark could not register it as {name}: {telling_line(error)}",
                "correct that and run again, which registers it without reading anything twice",
            ) from error

    def _describe(self, statement: str) -> dict[str, str]:
        """The facts of a DESCRIBE statement, by their lower-case names; the last of a name counts."""
        rows = self._session.sql(check_text(self._session, statement)).collect()
        # Columns of the table come first and may be called like a fact.
        return {str(row[0]).strip().lower(): str(row[1] or "").strip() for row in rows}
