"""Connections to databases, and their tables and queries as sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import unquote

from pydantic import BeforeValidator

from tidegate.config import values as v
from tidegate.config.column_source import ColumnSourceModel, LookBackModel
from tidegate.config.document import Absolute, Spot
from tidegate.config.models import Context, Model, dump, entry, fields, section, values_for
from tidegate.config.problems import Problem
from tidegate.config.values import refusal, text, texts
from tidegate.specs.columns import JdbcRead
from tidegate.specs.locations import Options, holds_credentials, shown_address

_COORDINATE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+", re.ASCII)


def jdbc_url(value: object) -> str:
    """The address of a database, without credentials in it."""
    where = text(value).strip()
    if not re.match(r"jdbc:[a-z0-9]+(?:[+_.-][a-z0-9]+)*:.", where) or not where.isprintable():
        raise refusal("is not a JDBC address", "allowed: such as jdbc:postgresql://host:5432/database")
    if "${" in where:
        raise refusal(
            "holds '${'", "allowed: an address; variables of the environment are filled in unless '$' is doubled"
        )
    if holds_credentials(where):
        raise refusal("holds credentials", "put them into user, password and properties")
    return where


def packages(value: object) -> tuple[str, ...]:
    """Maven coordinates."""
    found = texts(value)
    if not all(_COORDINATE.fullmatch(each) for each in found):
        raise refusal("holds what is not a Maven coordinate", "allowed: group:artifact:version")
    return found


JdbcUrl = Annotated[str, BeforeValidator(jdbc_url)]
Packages = Annotated[tuple[str, ...], BeforeValidator(packages), v.LIST]


class JdbcConnectionModel(Model):
    """A database."""

    step: ClassVar[str] = "<jdbc connection>"
    type: Literal["jdbc"] = entry("The kind of connection.")
    url: JdbcUrl = entry("The JDBC address, without credentials.")
    user: v.Text | None = entry("The user.", None)
    password: v.SecretText | None = entry("The user's password; never shown.", None)
    driver: v.Text | None = entry("The class of the driver; known by the address for the usual databases.", None)
    packages: Packages = entry("Maven coordinates of the driver; known for the usual databases.", ())
    jars: v.Texts = entry("Files of the driver, instead of packages.", ())
    properties: v.SecretOptions = entry("Further properties of the connection; never shown.", Options)
    configure: LookBackModel = section(LookBackModel, "Look-back of sources that have none of their own.")

    @classmethod
    def shown(cls, spec: JdbcRead) -> dict[str, Any]:
        """The connection of a read; its look-back is shown with the sources."""
        keys = [key for key in fields(cls) if key != "configure"]
        return dump(cls, spec, keys, {"url": shown_address(spec.url)})


class JdbcReadModel(Model):
    """What is read of a database, and how."""

    step: ClassVar[str] = "<jdbc source>"
    connection: v.Name = entry("The name of a connection of type jdbc.")
    table: v.Text | None = entry("The table, with its schema: public.orders.", None)
    query: v.Query | None = entry("A query, instead of a table.", None)
    fetch_size: v.Count = entry("Rows per round trip.", 10_000)

    def read(self, context: Context) -> JdbcRead:
        connection = context.connections[self.connection]
        assert isinstance(connection, JdbcConnectionModel)
        given = values_for(JdbcRead, connection) | values_for(JdbcRead, self)
        given["url"] = with_path(connection.url, r"(jdbc:sqlite:)(?!:|/|file:)(.+)", context.absolute)
        given["jars"] = tuple(context.absolute(jar) for jar in connection.jars)
        return JdbcRead(**given)


class JdbcSourceModel(ColumnSourceModel, JdbcReadModel):
    """A table or a query of a database."""

    reads: ClassVar = JdbcRead
    step: ClassVar[str] = "<jdbc source>"
    type: Literal["jdbc"] = entry("The kind of source; known by the connection.", "jdbc")
    partition_column: v.Text | None = entry(
        "The column that divides the read; the first watermark column when unset.", None
    )
    parallelism: v.Whole | None = entry(
        "Connections at once; as many as Spark has tasks when unset.", None, ge=1, le=10_000
    )

    def read(self, context: Context) -> JdbcRead:
        return JdbcReadModel.read(self, context)

    @classmethod
    def shown_read(cls, read: JdbcRead) -> dict[str, Any]:
        return dump(
            cls, read, ("type", "connection", "table", "query", "partition_column", "parallelism", "fetch_size")
        )


def with_path(url: str, form: str, absolute: Absolute) -> str:
    """``url`` with the relative path of a file in it made absolute; ``form`` has what is before it and the path."""
    found = re.fullmatch(form, url)
    return found[1] + _path(found[2], absolute) if found else url


def _path(written: str, absolute: Absolute) -> str:
    return unquote(absolute(written).removeprefix("file://"))


def table_or_query_problems(source: Spot) -> Iterator[Problem]:
    """Both or none of the two ways to say what is read of a database."""
    if source.has("table") and source.has("query"):
        yield source.problem("given beside 'table'; allowed: one of them", "query")
    elif not source.has("table") and not source.has("query"):
        yield source.problem("neither 'table' nor 'query' is given")
