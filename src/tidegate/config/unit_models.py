"""Sources of work units: what they all have, and how APIs, databases, functions and downloads are read for them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from tidegate.config import column_values as c
from tidegate.config import unit_values as u
from tidegate.config import values as v
from tidegate.config.blocks import CsvModel, Model
from tidegate.config.database_models import JdbcReadModel
from tidegate.config.http_models import HttpRequestModel, RequestModel
from tidegate.specs.locations import Options
from tidegate.specs.project import Compression
from tidegate.specs.units import (
    NOW,
    SEGMENT_COLUMN,
    UNIT_COLUMN,
    Bounding,
    InputFormat,
    NotFound,
    PartialPartition,
    PartitionKind,
    WorkUnits,
)

_WORK = WorkUnits()


class RangeModel(Model):
    """The time that is covered: from, inclusive, to, exclusive."""

    from_: u.StartBound = Field(alias="from", description="Where it begins: a date or time, or PnD, PnDTmH before now.")
    to: u.EndBound = Field(default=NOW, description="Where it ends: the same, or - for now.")
    round: u.RoundingKind | None = Field(default=None, description="To what both bounds are rounded down.")
    from_round: u.RoundingKind | None = Field(default=None, description="The same for the beginning alone.")
    to_round: u.RoundingKind | None = Field(default=None, description="The same for the end alone.")
    allow_future: v.Flag = Field(default=False, description="Whether the end may lie in the future.")


class WatermarkModel(Model):
    """The time range or the units that a source is read for."""

    name: u.Variable = Field(description="Its name; that of units is also their variable.")
    type: u.WatermarkKind = Field(description="datetime: a time range; unit: values such as ids.")
    range: RangeModel | None = Field(default=None, description="The time range, for datetime.")
    units: u.UnitValues = Field(default=(), description="The values, for unit; unset: a secondary input has them.")


class WorkUnitModel(Model):
    """How work units are cut, chosen and carried out."""

    partition: u.Partition = Field(default=PartitionKind.NONE, description="Into which pieces the range is cut.")
    partial_partition: u.Partial = Field(
        default=PartialPartition.MULTI_DAY, description="Whether the last piece is read before it is full."
    )
    min_units: v.CountOrNone = Field(default=_WORK.min_units, description="Fewer units than this are an error.")
    min_records: v.CountOrNone = Field(
        default=_WORK.min_records, description="A work unit that reads fewer records than this has failed."
    )
    min_records_after: u.SpanText | None = Field(
        default=None, description="How long after its end a piece may have fewer; until then it is left for later."
    )
    parallelism_max: v.Count | None = Field(default=None, description="Most work units of one run.")
    pacing_seconds: u.Pause = Field(default=_WORK.pacing_seconds, description="Seconds between the starts of two.")
    not_found: u.NotFoundKind = Field(
        default=NotFound.FAIL, description="What 404 means: failed, done without rows, or never again."
    )
    breaker_failures: v.CountOrNone = Field(
        default=_WORK.breaker_failures, description="Failures in a row after which the rest is left; 0 = never."
    )
    group_units: v.Count = Field(default=_WORK.group_units, description="Work units of one commit.")
    group_seconds: c.Seconds = Field(default=_WORK.group_seconds, description="Seconds until a commit is due.")


class SecondaryInputModel(Model):
    """Rows that units are made of, or credentials for all of them."""

    path: v.Address | None = Field(default=None, description="Where the rows are: a path or an address.")
    pipeline: v.Name | None = Field(default=None, description="The pipeline of this file whose table it is.")
    format: u.InputKind = Field(default=InputFormat.DELTA, description="What it is.")
    fields: c.Columns = Field(description="The fields whose values make a unit; each is a variable.")
    as_: u.Variable | None = Field(
        default=None, alias="as", description="The variable of a single field; the unit watermark's name when unset."
    )
    filters: u.Filters = Field(
        default_factory=dict, description="Regular expressions that the whole text of fields has to fit."
    )
    auth_fields: c.Columns = Field(default=(), description="Fields that are secret variables of their unit.")
    category: u.InputCategory = Field(
        default="units", description="units; authentication: one row whose fields are secret variables of all units."
    )
    csv: CsvModel = Field(default_factory=CsvModel.model_construct, description="How CSV files are written.")
    storage_options: v.SecretOptions = Field(
        default_factory=Options, description="Settings and credentials of the object store; never shown."
    )


class ParamModel(Model):
    """A parameter of requests, or a variable: a text, or a bound of the range that is read."""

    step: ClassVar[str] = "<param>"
    value: v.Text | None = Field(default=None, description="The text itself.")
    watermark: u.Variable | None = Field(default=None, description="The name of the datetime watermark.")
    bound: u.BoundKind = Field(default=Bounding.LOW, description="Which end of the range.")
    format: c.ParamFormatText = Field(default="iso", description="How it is written.")
    timezone: c.Zone | None = Field(default=None, description="The zone it is written in; the source's when unset.")


Param = Annotated[ParamModel, BeforeValidator(u.as_param)]


class UnitSourceModel(Model):
    """What all sources have that are followed by time ranges and units."""

    step: ClassVar[str] = "<unit source>"
    watermark: tuple[WatermarkModel, ...] = Field(
        default=(), description="The time range and the units: at most one of each."
    )
    secondary_input: tuple[SecondaryInputModel, ...] = Field(default=(), description="Where the units come from.")
    work_unit: WorkUnitModel = Field(
        default_factory=WorkUnitModel.model_construct, description="How work units are cut, chosen and carried out."
    )
    params: dict[str, Param] = Field(default_factory=dict, description="Parameters of each request, and variables.")
    grace_period_days: v.CountOrNone | None = Field(
        default=None, description="Days before the high watermark that are read again; short for grace_period."
    )
    grace_period: u.SpanText | None = Field(default=None, description="The same as a length of time: P3DT6H.")
    abstinent_period_days: v.CountOrNone | None = Field(
        default=None, description="Days that a work unit rests after it ran; short for abstinent_period."
    )
    abstinent_period: u.SpanText | None = Field(default=None, description="The same as a length of time.")
    catch_up: v.Flag = Field(
        default=True, description="Whether pieces that ended while they were not finished are finished later."
    )
    timezone: c.Zone = Field(default="UTC", description="Where days and months begin.")
    time_column: v.Text | None = Field(
        default=None, description="The column by which rows outside the range are left out, and replaced."
    )
    replace: u.ReplaceKind | None = Field(
        default=None, description="What gives way when a work unit is read again: its segments, or all of it."
    )
    unit_column: u.Column = Field(default=UNIT_COLUMN, description="The column of the table that has the unit.")
    segment_column: u.Column = Field(
        default=SEGMENT_COLUMN, description="The column of the table that has the segment's beginning."
    )
    poll_interval_secs: v.Count = Field(default=60, description="Seconds between polls of a continuous run.")


class UnitHttpModel(UnitSourceModel, HttpRequestModel):
    """Records of an HTTP API, for each work unit."""

    step: ClassVar[str] = "<http-unit source>"
    type: c.HttpType = Field(default="http", description="The kind of source; known by the connection.")
    path: u.HttpTemplate | None = Field(default=None, description="What follows the connection's url, with variables.")


class UnitJdbcModel(UnitSourceModel, JdbcReadModel):
    """A table or a query of a database, for each work unit."""

    step: ClassVar[str] = "<jdbc-unit source>"
    type: c.JdbcType = Field(default="jdbc", description="The kind of source; known by the connection.")


class UnitPythonModel(UnitSourceModel):
    """A Python function that returns a DataFrame, called for each work unit."""

    step: ClassVar[str] = "<python-unit source>"
    type: c.PythonType = Field(description="The kind of source.")
    function: v.Function = Field(description="module:function, called with the session and a request.")
    options: v.SecretOptions = Field(default_factory=Options, description="Handed to the function; never shown.")


class DownloadModel(UnitSourceModel, RequestModel):
    """Files whose addresses are made from variables."""

    step: ClassVar[str] = "<download source>"
    type: u.DownloadType = Field(description="The kind of source.")
    source_uri: u.FileTemplate | None = Field(
        default=None, description="Where the files are: a path or an address with variables, * and ?."
    )
    connection: v.Name | None = Field(default=None, description="The connection of type http, instead of source_uri.")
    path: u.HttpTemplate | None = Field(default=None, description="What follows the connection's url, with variables.")
    format: u.DownloadFormat = Field(description="What the files hold.")
    compression: v.SourceCompression = Field(
        default=Compression.AUTO, description="How the files are compressed; auto goes by the ending of the name."
    )
    csv: CsvModel = Field(default_factory=CsvModel.model_construct, description="How CSV files are written.")
    follow_links: v.Flag = Field(
        default=False,
        description="Follow symbolic links below the fixed part of source_uri; else one is an error. Local only.",
    )
    storage_options: v.SecretOptions = Field(
        default_factory=Options, description="Settings and credentials of the object store; never shown."
    )
