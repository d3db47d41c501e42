"""Connections to databases, and their tables and queries as sources."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tidegate.config import column_values as c
from tidegate.config import values as v
from tidegate.config.blocks import Model
from tidegate.config.column_models import ColumnSourceModel, LookBackModel
from tidegate.specs.locations import Options


class JdbcConnectionModel(Model):
    """A database."""

    step: ClassVar[str] = "<jdbc connection>"
    type: c.JdbcType = Field(description="The kind of connection.")
    url: c.JdbcUrl = Field(description="The JDBC address, without credentials.")
    user: v.Text | None = Field(default=None, description="The user.")
    password: c.SecretText | None = Field(default=None, description="The user's password; never shown.")
    driver: v.Text | None = Field(
        default=None, description="The class of the driver; known by the address for the usual databases."
    )
    packages: c.Packages = Field(
        default=(), description="Maven coordinates of the driver; known for the usual databases."
    )
    jars: v.Texts = Field(default=(), description="Files of the driver, instead of packages.")
    properties: v.SecretOptions = Field(
        default_factory=Options, description="Further properties of the connection; never shown."
    )
    configure: LookBackModel = Field(
        default_factory=LookBackModel.model_construct, description="Look-back of sources that have none of their own."
    )


class JdbcReadModel(Model):
    """What is read of a database, and how."""

    step: ClassVar[str] = "<jdbc source>"
    connection: v.Name = Field(description="The name of a connection of type jdbc.")
    table: v.Text | None = Field(default=None, description="The table, with its schema: public.orders.")
    query: v.Query | None = Field(default=None, description="A query, instead of a table.")
    fetch_size: v.Count = Field(default=10_000, description="Rows per round trip.")


class JdbcSourceModel(ColumnSourceModel, JdbcReadModel):
    """A table or a query of a database."""

    step: ClassVar[str] = "<jdbc source>"
    type: c.JdbcType = Field(default="jdbc", description="The kind of source; known by the connection.")
    partition_column: v.Text | None = Field(
        default=None, description="The column that divides the read; the first watermark column when unset."
    )
    parallelism: v.Whole | None = Field(
        default=None, ge=1, le=10_000, description="Connections at once; as many as Spark has tasks when unset."
    )
