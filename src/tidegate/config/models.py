"""The keys of a configuration file, as models: types, defaults and one sentence about each key.

Documentation, the editor schema and the suggestions in errors read these models, so a key exists in all of
them or in none. What keys mean together is checked in ``checks``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Discriminator, Field, Tag

from tidegate.config import values as v
from tidegate.config.blocks import CsvModel, Model
from tidegate.config.column_models import LoadModel, PythonSourceModel, StateModel, TableSourceModel
from tidegate.config.database_models import JdbcConnectionModel, JdbcSourceModel
from tidegate.config.http_models import HttpConnectionModel, HttpSourceModel
from tidegate.config.source_kinds import tag_of_connection, tag_of_source
from tidegate.config.tree import Block, Scalar
from tidegate.config.unit_models import DownloadModel, UnitHttpModel, UnitJdbcModel, UnitPythonModel
from tidegate.specs.locations import Options
from tidegate.specs.project import (
    Compression,
    Delivery,
    Evolution,
    Format,
    LateFiles,
    Lateness,
    Numbers,
    OnBadRecord,
    ParquetCodec,
)


class PartitionFilterModel(Model):
    """Bounds the first run: only recent partitions are read, everything older is sealed."""

    prefix_template: v.Template = Field(
        description="strftime template (UTC) of the partition directories; its finest field is the period."
    )
    lookback: v.Whole = Field(
        ge=0, le=100_000, description="How many periods before the current one are read on the first run."
    )


class CheckpointModel(Model):
    """When a commit is due while a run goes on."""

    interval_files: v.Count = Field(default=100, description="A commit is due after this many source files.")
    interval_secs: v.Count = Field(default=60, description="A commit is due after this many seconds.")
    mirror_legacy: v.Flag = Field(
        default=False,
        description="Also write the readable checkpoint to the path of older systems (_blizzard/).",
    )


class SourceModel(Model):
    """A prefix of files, tracked by path watermarks or by the set of all paths."""

    step: ClassVar[str] = "<source>"
    type: v.FilesOnly = Field(default="files", description="The kind of source.")
    source_uri: v.Address = Field(description="Where the files are: a path or an object storage address.")
    use_watermark: v.Flag = Field(
        default=False,
        description="true: names sort in time, and only what lies above the watermark is listed; false: every path "
        "is remembered and everything is listed.",
    )
    pattern: v.Glob | None = Field(
        default=None,
        description="Only files that fit this glob are taken: by name, or by whole path if it has a slash.",
    )
    exclude: v.Globs = Field(default=(), description="Globs of files and directories that are left out.")
    follow_links: v.Flag = Field(
        default=False,
        description="Follow symbolic links below source_uri, also out of it; each file then counts once. Local only.",
    )
    compression: v.SourceCompression = Field(
        default=Compression.AUTO,
        description="How the files are compressed; auto goes by the ending of the name.",
    )
    format: v.FileFormat = Field(
        default=Format.NDJSON,
        description="What the files hold: a JSON object per line, CSV, Parquet, Avro, or one JSON array per file.",
    )
    csv: CsvModel = Field(default_factory=CsvModel.model_construct, description="How CSV files are written.")
    batch_size: v.Count = Field(default=8192, description="Rows per decoder batch.")
    poll_interval_secs: v.Count = Field(default=60, description="Seconds between polls of a continuous run.")
    max_attempts: v.Count = Field(
        default=5,
        description="How often a failing file is tried; then it becomes a dead letter.",
    )
    partition_filter: PartitionFilterModel | None = Field(default=None, description="Bounds the first run.")
    checkpoint: CheckpointModel = Field(
        default_factory=CheckpointModel.model_construct, description="When commits are due."
    )
    late_files: v.Late = Field(
        default=LateFiles.WINDOW,
        description="window: names that appear below a watermark are found; strict: they are not.",
    )
    late_window: v.Count = Field(
        default=1000, description="Greatest finished names remembered per open partition, to find late files."
    )
    late_window_total: v.Count = Field(
        default=50_000, description="Names remembered per source over all open partitions."
    )
    lateness: v.LatenessText = Field(
        default_factory=Lateness,
        description="How far below the newest partition others stay open: '48 periods', 'P1DT12H', 'none'.",
    )
    deep_listing_every: v.Count = Field(
        default=100,
        description="Every how many polls everything open is listed, to find unexpected directories.",
    )
    max_islands: v.Count = Field(
        default=10_000, description="Names finished above an unfinished file before the source waits for it."
    )
    storage_options: v.SecretOptions = Field(
        default_factory=Options, description="Settings and credentials of the object store; never shown."
    )


class ElementModel(Model):
    """The type of list items, map keys and map values; a type name alone is short for it."""

    type: v.TypeName = Field(description="A name of the type list.")
    nullable: v.Flag = Field(default=True, description="Whether null is allowed.")
    fields: tuple[FieldModel, ...] = Field(default=(), description="The fields of a struct.")
    items: Element | None = Field(default=None, description="The items of a list.")
    keys: Element | None = Field(default=None, description="The keys of a map: string.")
    values: Element | None = Field(default=None, description="The values of a map.")


class FieldModel(ElementModel):
    """One column, or one field of a struct."""

    name: v.Text = Field(description="The name of the column.")


def _element(value: object) -> object:
    if not isinstance(value, Scalar):
        return value
    block = Block(value.line)
    block.put("type", value, value.line, written="")
    return block


Element = Annotated[ElementModel, BeforeValidator(_element)]


class SchemaModel(Model):
    """The columns: declared, or found by looking at the first files."""

    fields: tuple[FieldModel, ...] = Field(default=(), description="The declared columns, in order.")
    infer: v.Flag = Field(
        default=False, description="Find the columns by sampling; the default where no fields are given."
    )
    coerce_conflicts_to_utf8: v.Flag = Field(
        default=False, description="Values that do not fit a string column are kept as JSON text."
    )
    numbers: v.NumbersMode = Field(
        default=Numbers.STRICT,
        description="strict: values that would lose digits are bad records; lenient: they are bent.",
    )
    rescued: v.RescuedColumn | None = Field(
        default=None,
        description="A text column for fields and values that fit no other, as JSON: its name, or true for _rescued.",
    )


class PartitionByModel(Model):
    """How the table is partitioned."""

    prefix_template: v.Directories = Field(
        description="The partition columns as directories, such as date=%Y-%m-%d/hour=%H."
    )
    column: v.Text | None = Field(
        default=None,
        description="The timestamp or date column that the template formats; else the source path is used.",
    )


class MaintenanceModel(Model):
    """What a run does for its table after commits."""

    optimize_every_commits: v.CountOrNone = Field(
        default=0, description="Small files are put together after this many commits of a source; 0 = never."
    )
    vacuum_every_commits: v.CountOrNone = Field(
        default=0, description="Files that left the table are removed after this many commits of a source; 0 = never."
    )
    vacuum_retention_hours: v.Whole = Field(
        default=168, ge=24, le=87_600, description="How long files that left the table are kept for readers."
    )


class SinkModel(LoadModel):
    """The table and how its files are written."""

    partition_by: PartitionByModel | None = Field(default=None, description="Partition columns of the table.")
    file_size_mb: v.Whole = Field(
        default=128,
        ge=1,
        le=65_536,
        description="A Parquet file is finished at this size (MB of 1,048,576 bytes).",
    )
    row_group_size_bytes: v.Whole = Field(
        default=134_217_728,
        ge=65_536,
        le=2**33,
        description="A row group is written at this many buffered bytes.",
    )
    compression: v.Codec = Field(default=ParquetCodec.SNAPPY, description="Parquet compression.")
    rollover_timeout_secs: v.Count | None = Field(
        default=None,
        description="A file is finished after being open this long; unset: off, 300 in continuous runs.",
    )
    inactivity_timeout_secs: v.Count | None = Field(
        default=None,
        description="A file is finished after this long without a write; unset: off, 60 in continuous runs.",
    )
    commit_batch_files: v.Whole = Field(
        default=10, ge=1, le=10_000, description="A commit is due after this many Parquet files."
    )
    delta_checkpoint_interval: v.CountOrNone = Field(
        default=10, description="A Delta checkpoint every this many commits; 0 = never."
    )
    sync: v.Flag = Field(
        default=True,
        description="On local disks: force files, documents and log entries to disk before a commit counts.",
    )
    metadata_columns: v.MetadataColumns = Field(
        default=(), description="Extra columns: _source_file, _source_record, _ingested_at."
    )
    max_concurrent_uploads: v.Count = Field(default=4, description="Files uploaded at once.")
    part_size_mb: v.Whole = Field(default=32, ge=5, le=5120, description="Part size of multipart uploads.")
    min_multipart_size_mb: v.Count = Field(default=5, description="Smaller files are uploaded by one request.")
    max_concurrent_parts: v.Count = Field(default=8, description="Parts uploaded at once.")
    maintenance: MaintenanceModel = Field(
        default_factory=MaintenanceModel.model_construct, description="Table care after commits."
    )
    table_properties: v.TableProperties = Field(
        default_factory=dict, description="Properties of the Delta table, set when it is created and when they change."
    )
    storage_options: v.SecretOptions = Field(
        default_factory=Options, description="Settings and credentials of the object store; never shown."
    )


class ErrorHandlingModel(Model):
    """What happens to files and records that cannot be read."""

    on_bad_record: v.BadRecordMode = Field(
        default=OnBadRecord.DEAD_LETTER,
        description="dead_letter: keep the line and go on; fail_file: refuse its file; fail_run: stop.",
    )
    max_failures: v.CountOrNone = Field(default=0, description="Failed files per run before it stops; 0 = unlimited.")
    max_bad_records: v.CountOrNone = Field(default=0, description="Bad records per run before it stops; 0 = unlimited.")
    max_bad_fraction: v.Fraction = Field(
        default=0.0, description="Share of bad records per run, from 100 on, before it stops; 0 = unlimited."
    )
    dlq_path: v.Address | None = Field(
        default=None, description="Where the dead-letter table lives; unset: beside the table."
    )


class StagingModel(Model):
    """How `tidegate commit` takes what staged runs left."""

    archive: v.Flag = Field(
        default=False, description="Keep what was committed in _staging/archive/ instead of removing it."
    )
    max_files_per_commit: v.Whole = Field(
        default=1000, ge=1, le=10_000, description="Most Parquet files of one commit."
    )
    poll_interval_secs: v.Count = Field(
        default=10, description="Seconds between two looks of `tidegate commit --continuous`."
    )


class TransformModel(Model):
    """What becomes of the rows between reading and writing; give one of the two."""

    sql: v.Query | None = Field(
        default=None, description="A query over the view 'source', which has the columns that were read."
    )
    python: v.Function | None = Field(
        default=None, description="module:function, called with a DataFrame; what it returns is written."
    )


Source = Annotated[
    Annotated[SourceModel, Tag("files")]
    | Annotated[TableSourceModel, Tag("table")]
    | Annotated[JdbcSourceModel, Tag("jdbc")]
    | Annotated[HttpSourceModel, Tag("http")]
    | Annotated[PythonSourceModel, Tag("python")]
    | Annotated[UnitHttpModel, Tag("http-unit")]
    | Annotated[UnitJdbcModel, Tag("jdbc-unit")]
    | Annotated[UnitPythonModel, Tag("python-unit")]
    | Annotated[DownloadModel, Tag("download")],
    Discriminator(tag_of_source),
]
Connection = Annotated[
    Annotated[JdbcConnectionModel, Tag("jdbc")] | Annotated[HttpConnectionModel, Tag("http")],
    Discriminator(tag_of_connection),
]


class PipelineModel(Model):
    """One or more sources into one table."""

    step: ClassVar[str] = "<pipeline>"
    sources: dict[v.Name, Source] = Field(min_length=1, description="The sources, by name.")
    schema_: SchemaModel = Field(
        default_factory=SchemaModel.model_construct, alias="schema", description="The columns."
    )
    schema_evolution: v.EvolutionMode = Field(
        default=Evolution.MERGE, description="What happens when files and table have different columns."
    )
    transform: TransformModel = Field(
        default_factory=TransformModel.model_construct,
        description="What becomes of the rows between reading and writing; then Spark writes the table.",
    )
    sink: SinkModel = Field(description="The table.")
    delivery: v.DeliveryMode = Field(
        default=Delivery.DIRECT,
        description="direct: the run that writes also commits; staged: `tidegate commit` commits what runs leave.",
    )
    staging: StagingModel = Field(
        default_factory=StagingModel.model_construct, description="How staged files are committed."
    )
    on_conflict: v.ConflictMode | None = Field(
        default=None,
        description="While another run of the same source is at work: wait until it is done, skip the source, or race. "
        "Unset: wait for sources of work units, race for others.",
    )
    max_concurrent_files: v.Count | None = Field(default=None, description="Most tasks of this pipeline at once.")
    error_handling: ErrorHandlingModel = Field(
        default_factory=ErrorHandlingModel.model_construct,
        description="What happens to bad files and records.",
    )


class GlobalModel(Model):
    """Settings that all pipelines of the file share."""

    total_concurrency: v.Count | None = Field(default=None, description="Most tasks at once over all pipelines.")
    poll_jitter_secs: v.CountOrNone = Field(default=30, description="Random seconds added to each poll interval.")
    commit_deadline_secs: v.Count = Field(default=120, description="How long a commit is retried before giving up.")


class RecoveryModel(Model):
    """How far back a lost position is looked for."""

    max_commits: v.Count = Field(default=100, description="Commits searched backwards in the table's log.")


class ReconcileModel(Model):
    """Comparing everything now and then in continuous runs."""

    every: v.EveryText = Field(
        default=Lateness(fixed=timedelta(days=1)),
        description="How often a continuous run compares everything; none: never.",
    )
    ingest: v.Flag = Field(default=False, description="Read the late files that are found.")


class MetricsModel(Model):
    """Prometheus metrics."""

    enabled: v.Flag = Field(default=False, description="Serve metrics.")
    address: v.Listening = Field(default="127.0.0.1:9090", description="Where they are served, host:port.")
    legacy_names: v.Flag = Field(default=False, description="Also export the metric names of older systems.")


class SparkModel(Model):
    """Where tasks run."""

    master: v.Master | None = Field(default=None, description="The Spark master; local[*] when unset.")
    remote: v.Remote | None = Field(default=None, description="A Spark Connect server, instead of a master.")
    config: v.SecretOptions = Field(default_factory=Options, description="Settings of the Spark session.")


class ProjectModel(Model):
    """One configuration file."""

    connections: dict[v.Name, Connection] = Field(default_factory=dict, description="Databases and APIs, by name.")
    pipelines: dict[v.Name, PipelineModel] = Field(min_length=1, description="The pipelines, by name.")
    spark: SparkModel = Field(default_factory=SparkModel.model_construct, description="Where tasks run.")
    global_: GlobalModel = Field(
        default_factory=GlobalModel.model_construct,
        alias="global",
        description="Settings shared by all pipelines.",
    )
    recovery: RecoveryModel = Field(
        default_factory=RecoveryModel.model_construct, description="How a lost position is looked for."
    )
    reconcile: ReconcileModel = Field(
        default_factory=ReconcileModel.model_construct, description="Comparing everything in continuous runs."
    )
    metrics: MetricsModel = Field(default_factory=MetricsModel.model_construct, description="Prometheus metrics.")
    state: StateModel = Field(
        default_factory=StateModel.model_construct, description="Who else is told the watermarks of columns."
    )
