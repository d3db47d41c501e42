"""A block of tables: one pipeline of a configuration that stands for many tables of a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from tidegate.specs.columns import LoadType, WatermarkMode
from tidegate.specs.keys import Columns, Key, Range


class WithoutWatermark(StrEnum):
    """What becomes of a table that has none of the watermark columns.

    ``refuse`` fails that table by name; ``overwrite`` reads it whole in every run and replaces its table.
    """

    REFUSE = "refuse"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class TableRules:
    """What holds for one table of a block instead of what the block says; None and empty: as the block says."""

    watermark_columns: Annotated[
        Columns, Key("The watermark columns of this table: the first that it has; with watermark_mode, all of them.")
    ] = ()
    watermark_mode: Annotated[
        WatermarkMode | None, Key("How several watermark columns of this table work together.")
    ] = None
    without_watermark: Annotated[WithoutWatermark | None, Key("What becomes of this table if it has none of them.")] = (
        None
    )
    filter_expression: Annotated[str | None, Key("A condition in the SQL of the database, for this table.")] = None
    partition_column: Annotated[str | None, Key("The column that splits the read into parallel queries.")] = None
    parallelism: Annotated[int | None, Range(1, 10_000), Key("Connections at once for this table.")] = None
    merge_keys: Annotated[Columns, Key("The columns that identify a row of this table.")] = ()
    load_type: Annotated[LoadType | None, Key("How rows of this table are written.")] = None


@dataclass(frozen=True, slots=True)
class TableSelection:
    """The tables that a block stands for, by globs over ``schema.table``, and how each of them is followed.

    ``watermark_columns`` are candidates: a table is followed by the first that it has.
    """

    tables: Annotated[
        tuple[str, ...], Key("Globs over schema.table: the tables, views and partitioned tables to read.")
    ]
    exclude: Annotated[
        tuple[str, ...], Key("Globs over the table's name, or over schema.table: what is left out.")
    ] = ()
    watermark_columns: Annotated[
        Columns, Key("Candidates: each table is followed by the first of these columns that it has.")
    ] = ()
    without_watermark: Annotated[
        WithoutWatermark, Key("A table with none of them: refuse it by name, or overwrite: read it whole each time.")
    ] = WithoutWatermark.REFUSE
    per_table: Mapping[str, TableRules] = field(default_factory=dict)
    """By ``schema.table``."""


@dataclass(frozen=True, slots=True)
class TableRefusal:
    """Why a table of a block cannot be read, and the remedy."""

    problem: str
    remedy: str
