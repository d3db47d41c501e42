"""Sources that are followed by columns: what they all have, and tables and functions; how rows are loaded."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from pydantic import Field

from tidegate.config import column_values as c
from tidegate.config import values as v
from tidegate.config.blocks import CsvModel, Model
from tidegate.specs.columns import LoadType, NullWatermark, ProviderKind, WatermarkMode
from tidegate.specs.locations import Options


class BackwardModel(Model):
    """How far below the stored watermark a read begins again."""

    days: v.CountOrNone | None = Field(default=None, description="Days below it.")
    hours: v.CountOrNone | None = Field(default=None, description="Hours below it.")
    months: v.CountOrNone | None = Field(default=None, description="Months below it.")
    years: v.CountOrNone | None = Field(default=None, description="Years below it.")
    closing_day: v.Whole | None = Field(
        default=None, ge=1, le=31, description="The previous month stays open up to and including this day."
    )
    value: c.Number | None = Field(default=None, description="So much below it, for numbers.")


class LookBackModel(Model):
    """The keys of look-back; those of `backward` win, key by key."""

    backward: BackwardModel | None = Field(default=None, description="How far below the watermark a read begins.")
    backward_days: v.CountOrNone | None = Field(default=None, description="Short for backward.days.")
    backward_hours: v.CountOrNone | None = Field(default=None, description="Short for backward.hours.")
    backward_months: v.CountOrNone | None = Field(default=None, description="Short for backward.months.")
    backward_years: v.CountOrNone | None = Field(default=None, description="Short for backward.years.")
    backward_closing_day: v.Whole | None = Field(
        default=None, ge=1, le=31, description="Short for backward.closing_day."
    )
    backward_value: c.Number | None = Field(default=None, description="Short for backward.value.")
    timezone: c.Zone | None = Field(default=None, description="Where months begin, for closing_day; UTC when unset.")


class WatermarkParamModel(Model):
    """Where the bounds of a read go in the requests to an API."""

    watermark_param_mapping: c.Names = Field(
        default_factory=dict, description="Watermark column to the parameter that takes its lower bound."
    )
    watermark_to_param: v.Text | None = Field(default=None, description="The parameter that takes the upper bound.")
    watermark_param_location: c.ParamLocation = Field(
        default="params", description="Whether the bounds go into the address or into the body."
    )
    watermark_param_format: c.ParamFormatText = Field(
        default="iso",
        description="How bounds are written: iso, date, timestamp, timestamp_ms, datetime, datetime_ms, or strftime.",
    )
    watermark_split: v.Whole = Field(
        default=1, ge=1, le=10_000, description="Requests beside each other that share the range between the bounds."
    )


class ConfigureModel(LookBackModel, WatermarkParamModel):
    """Another place for the keys of look-back and of bounds in requests."""


class ColumnSourceModel(LookBackModel):
    """What all sources have that are followed by the values of columns."""

    step: ClassVar[str] = "<column source>"
    watermark_columns: c.Columns = Field(
        default=(),
        description="The columns whose greatest values tell what is new; none: everything is read each time.",
    )
    watermark_mode: c.Mode = Field(
        default=WatermarkMode.ANY,
        description="any: a row is new if one column is; tuple: the columns are one cursor, the first counts most.",
    )
    filter_expression: v.Text | None = Field(
        default=None, description="A condition in the language of the source; other rows are not read."
    )
    safety_lag: c.Lag = Field(default=None, description="Times younger than this are left for a later run: PT5M.")
    future_tolerance: c.Lag = Field(
        default=timedelta(days=1),
        description="Times further ahead than this wait until they have come; none: every time is taken as it is.",
    )
    null_watermark: c.Nulls = Field(
        default=NullWatermark.EXCLUDE,
        description="Rows with null in every watermark column: left out and counted, read, or an error.",
    )
    source_timezone: c.Zone = Field(default="UTC", description="Where times without a zone belong.")
    poll_interval_secs: v.Count = Field(default=60, description="Seconds between polls of a continuous run.")
    configure: ConfigureModel = Field(
        default_factory=ConfigureModel.model_construct,
        description="Another place for the keys of look-back and of bounds in requests.",
    )


class TableSourceModel(ColumnSourceModel):
    """A Delta or Iceberg table, or files that are scanned as one table."""

    step: ClassVar[str] = "<table source>"
    type: c.TableType = Field(description="What the table or the files are.")
    source_uri: v.Address = Field(description="Where the table or the files are.")
    csv: CsvModel = Field(default_factory=CsvModel.model_construct, description="How CSV files are written.")
    sheet: v.Text | None = Field(default=None, description="The sheet of Excel files; the first one when unset.")
    lines: v.Flag = Field(default=True, description="Whether JSON files have one object per line.")
    pattern: v.Glob | None = Field(default=None, description="Only files whose names fit this glob are read.")
    follow_links: v.Flag = Field(
        default=False, description="Follow symbolic links below source_uri; without it, one is an error. Local only."
    )
    storage_options: v.SecretOptions = Field(
        default_factory=Options, description="Settings and credentials of the object store; never shown."
    )


class PythonSourceModel(ColumnSourceModel):
    """A Python function that returns a DataFrame."""

    step: ClassVar[str] = "<python source>"
    type: c.PythonType = Field(description="The kind of source.")
    function: v.Function = Field(description="module:function, called with the session and a request.")
    options: v.SecretOptions = Field(default_factory=Options, description="Handed to the function; never shown.")


class LoadModel(Model):
    """The table, and what becomes of the rows that were read."""

    table_uri: v.Address = Field(description="The table: a path or an object storage address.")
    load_type: c.LoadKind = Field(default=LoadType.APPEND, description="How rows are written.")
    merge_keys: c.Columns = Field(default=(), description="The columns that tell rows apart, for merging.")
    tie_break: c.Columns = Field(
        default=(), description="Columns that decide between rows with equal keys and watermarks: the greatest wins."
    )
    replace_by_watermark: v.Flag = Field(
        default=False, description="Replace everything in the window that was read again, also what the source deleted."
    )
    max_delete_fraction: v.Fraction = Field(
        default=0.5, description="Share of the window's rows that may disappear by one replacement."
    )
    allow_empty_window: v.Flag = Field(default=False, description="Whether an empty read may empty its window.")
    deduplicate: c.Columns = Field(
        default=(), description="Keys by which an append with look-back leaves out what the table has."
    )
    window_columns: c.Names = Field(
        default_factory=dict, description="Watermark column to its name after the transform."
    )
    scd2_effective_column: v.Text | None = Field(
        default=None, description="The column that tells when a version began."
    )
    scd2_attributes: c.Columns = Field(
        default=(), description="The columns whose change makes a version; all but keys and watermarks when unset."
    )
    format: c.SinkFormat = Field(default="delta", description="A Delta table; nothing else is written.")


class StateModel(Model):
    """Who else is told the watermarks of columns."""

    provider: c.Provider = Field(
        default=ProviderKind.DELTA, description="delta: the table's log alone; file, sql: a copy there, too."
    )
    url: c.SecretText | None = Field(
        default=None, description="The folder, or the SQLAlchemy address of the database; never shown."
    )
    storage_options: v.SecretOptions = Field(
        default_factory=Options, description="Settings and credentials of the folder's object store; never shown."
    )
