"""Pipelines as plain values: the configuration after checking, and the input of everything else.

Standard library only; frozen; picklable (specs travel to Spark tasks). ``config/`` makes them from YAML,
Python code may make them directly.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from tidegate.specs.columns import CsvOptions, Load
from tidegate.specs.credentials import Interpolated, is_plain_setting, looks_random
from tidegate.specs.foreign import Foreign
from tidegate.specs.locations import Location, Options, Secret

CONTINUOUS_ROLLOVER_SECS = 300
CONTINUOUS_INACTIVITY_SECS = 60
SHOWN_QUERY = 80


class SourceSpec(Protocol):
    """What every source has, whatever its kind."""

    @property
    def name(self) -> str:
        """Its name in the pipeline."""

    @property
    def uri(self) -> str:
        """What it is, without anything secret: for identities and messages."""

    @property
    def poll_interval_secs(self) -> int:
        """Seconds between two polls of a continuous run."""

    @property
    def read(self) -> Any | None:
        """What is asked of a database, a server, a table or a function; None for files, which tasks read."""

    @property
    def request(self) -> Any | None:
        """What is asked of a database or a server by a connection; None where there is none."""

    def name_connection(self, name: str) -> SourceSpec:
        """The source with that name for its connection, if it has one without a name."""

    @property
    def takes_turns(self) -> bool:
        """Whether runs of it wait for each other unless the configuration says otherwise."""


SourceT = TypeVar("SourceT", bound=SourceSpec)


class LateFiles(StrEnum):
    """Whether a run looks for names below a partition's watermark."""

    WINDOW = "window"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """Bounds the cold start: the current period of ``prefix_template`` (strftime, UTC) and ``lookback`` before it."""

    prefix_template: str
    lookback: int = 0


@dataclass(frozen=True, slots=True)
class Lateness:
    """How far below the newest finished partition a partition stays open.

    ``periods`` of the layout's finest field, or a ``fixed`` duration; ``never=True`` seals nothing.
    """

    periods: int = 48
    fixed: timedelta | None = None
    never: bool = False


class Compression(StrEnum):
    """How source files are compressed; ``auto`` goes by the file name's ending."""

    AUTO = "auto"
    GZIP = "gzip"
    ZSTD = "zstd"
    NONE = "none"


class Format(StrEnum):
    """What source files hold."""

    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"
    AVRO = "avro"
    JSON = "json"

    @property
    def is_compressible(self) -> bool:
        """Whether files may be compressed as a whole; the others compress what is inside them."""
        return self not in (Format.PARQUET, Format.AVRO)


class Tracking(StrEnum):
    """How a source remembers what was read: a watermark per partition, or the set of all paths."""

    WATERMARK = "watermark"
    SET = "set"


@dataclass(frozen=True, slots=True)
class PathSource:
    """A prefix of files, tracked by path watermarks or by the set of all paths.

    ``apart`` are the places of tables, from which nothing is read: paths below the location or, with a leading slash,
    directories of this machine that a link could lead to.
    """

    name: str
    location: Location
    pattern: str | None = None
    exclude: tuple[str, ...] = ()
    compression: Compression = Compression.AUTO
    partition_filter: PartitionFilter | None = None
    late_files: LateFiles = LateFiles.WINDOW
    late_window: int = 1000
    late_window_total: int = 50_000
    lateness: Lateness = field(default_factory=Lateness)
    deep_listing_every: int = 100
    max_attempts: int = 5
    max_islands: int = 10_000
    interval_files: int = 100
    interval_secs: int = 60
    mirror_legacy: bool = False
    poll_interval_secs: int = 60
    tracking: Tracking = Tracking.WATERMARK
    format: Format = Format.NDJSON
    csv: CsvOptions = field(default_factory=CsvOptions)
    follow_links: bool = False
    apart: tuple[str, ...] = ()

    @property
    def uri(self) -> str:
        """The prefix that holds the files."""
        return self.location.uri

    @property
    def read(self) -> None:
        """Nothing is asked: tasks read the files."""

    @property
    def request(self) -> None:
        """There is no connection."""

    def name_connection(self, name: str) -> PathSource:
        """The source as it is."""
        return self

    @property
    def takes_turns(self) -> bool:
        """Runs race: whoever loses a commit has only read files twice."""
        return False


class ParquetCodec(StrEnum):
    """Parquet compression."""

    SNAPPY = "snappy"
    GZIP = "gzip"
    ZSTD = "zstd"
    LZ4 = "lz4"
    UNCOMPRESSED = "uncompressed"


class Evolution(StrEnum):
    """What happens when files and table have different columns."""

    STRICT = "strict"
    MERGE = "merge"
    OVERWRITE = "overwrite"


class Numbers(StrEnum):
    """Whether values that would lose something are bad records (``strict``) or are cut (``lenient``)."""

    STRICT = "strict"
    LENIENT = "lenient"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One declared column: ``type`` is a name of the type list, e.g. ``int64`` or ``decimal(10,2)``.

    ``fields`` for a struct, ``items`` for a list, ``keys`` and ``values`` for a map.
    """

    name: str
    type: str
    nullable: bool = True
    fields: tuple[FieldSpec, ...] = ()
    items: FieldSpec | None = None
    keys: FieldSpec | None = None
    values: FieldSpec | None = None


@dataclass(frozen=True, slots=True)
class SchemaSpec:
    """Declared columns, or ``infer`` (then ``fields`` is empty); ``rescued`` is the column for what fits no other."""

    fields: tuple[FieldSpec, ...] = ()
    infer: bool = False
    coerce_conflicts_to_utf8: bool = False
    evolution: Evolution = Evolution.MERGE
    numbers: Numbers = Numbers.STRICT
    rescued: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """Partition columns of the table, e.g. ``date=%Y-%m-%d/hour=%H``.

    With ``column``, the template is strftime over that timestamp or date column, or ``key={column}``-free keys
    (``country``) taken from the column itself; without it, each key's value comes from the same ``key=`` of the
    source path.
    """

    prefix_template: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What a run does for its table after every so many commits of a source; 0 is never."""

    optimize_every_commits: int = 0
    vacuum_every_commits: int = 0
    vacuum_retention_hours: int = 168


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """The table and how its files are written."""

    table: Location
    partition_by: PartitionBy | None = None
    file_size_mb: int = 128
    row_group_size_bytes: int = 134_217_728
    compression: ParquetCodec = ParquetCodec.SNAPPY
    rollover_timeout_secs: int | None = None
    inactivity_timeout_secs: int | None = None
    commit_batch_files: int = 10
    delta_checkpoint_interval: int = 10
    metadata_columns: tuple[str, ...] = ()
    max_concurrent_uploads: int = 4
    part_size_mb: int = 32
    min_multipart_size_mb: int = 5
    max_concurrent_parts: int = 8
    maintenance: Maintenance = field(default_factory=Maintenance)
    table_properties: Mapping[str, str] = field(default_factory=dict)
    load: Load = field(default_factory=Load)


class OnBadRecord(StrEnum):
    """What becomes of a line that is not a record of the schema.

    ``dead_letter`` keeps it in the dead-letter table, ``fail_file`` refuses its file as a whole, ``fail_run`` stops
    the run.
    """

    DEAD_LETTER = "dead_letter"
    FAIL_FILE = "fail_file"
    FAIL_RUN = "fail_run"


@dataclass(frozen=True, slots=True)
class ErrorHandling:
    """What happens to bad records, limits per run (0 = unlimited), and the address of the dead-letter table."""

    on_bad_record: OnBadRecord = OnBadRecord.DEAD_LETTER
    max_failures: int = 0
    max_bad_records: int = 0
    max_bad_fraction: float = 0.0
    dlq_uri: str | None = None

    def table_of_dead_letters(self, table: Location) -> Location:
        """Where ``dlq_uri`` says, or beside the table of the pipeline."""
        given = self.dlq_uri
        if given is None:
            scheme, _, rest = table.uri.partition("://")
            has_path = "/" in rest.strip("/") or scheme == "file"
            given = f"{table.uri}_dead_letters" if has_path else f"{table.uri}/_dead_letters"
        return Location(given, table.options, table.sync)


class Delivery(StrEnum):
    """Who commits what a run writes: the run itself, or the committer of the table (``tidegate commit``)."""

    DIRECT = "direct"
    STAGED = "staged"


class OnConflict(StrEnum):
    """What a run does while another run of the same source is at work.

    ``wait`` until it is done, ``skip`` the source this time, or ``race``: both work, and whoever commits first wins.
    """

    WAIT = "wait"
    SKIP = "skip"
    RACE = "race"


@dataclass(frozen=True, slots=True)
class StagingSpec:
    """How the committer of a staged table works: archive, size of a commit, poll interval."""

    archive: bool = False
    max_files_per_commit: int = 1000
    poll_interval_secs: int = 10


@dataclass(frozen=True, slots=True)
class TransformSpec:
    """What becomes of the rows between reading and writing: a query over ``source``, or ``module:function``.

    Exactly one of them is given.
    """

    sql: str | None = None
    python: str | None = None

    def __str__(self) -> str:
        if self.python:
            return f"transform.python {self.python}"
        query = " ".join((self.sql or "").split())
        return f"transform.sql {query if len(query) <= SHOWN_QUERY else query[:SHOWN_QUERY] + '…'}"


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """Sources, schema and sink under one name. ``on_conflict`` is None where the kind of the sources decides it."""

    name: str
    sources: tuple[SourceSpec, ...]
    schema: SchemaSpec
    sink: SinkSpec
    max_concurrent_files: int | None = None
    error_handling: ErrorHandling = field(default_factory=ErrorHandling)
    delivery: Delivery = Delivery.DIRECT
    staging: StagingSpec = field(default_factory=StagingSpec)
    transform: TransformSpec | None = None
    on_conflict: OnConflict | None = None

    @property
    def conflict(self) -> OnConflict:
        """What a run does beside another one: as configured, otherwise sources of work units wait and others race."""
        return self.on_conflict or (
            OnConflict.WAIT if any(each.takes_turns for each in self.sources) else OnConflict.RACE
        )

    def of(self, kind: type[SourceT]) -> tuple[SourceT, ...]:
        """The sources of one kind."""
        return tuple(each for each in self.sources if isinstance(each, kind))

    @property
    def dead_letters(self) -> Location:
        """The dead-letter table."""
        return self.error_handling.table_of_dead_letters(self.sink.table)

    def shown_names(self) -> Iterator[str]:
        """The names and addresses by which reports tell pipelines, sources and tables apart."""
        yield from (self.name, self.sink.table.uri, self.dead_letters.uri)
        for each in self.sources:
            yield from (each.name, f"{self.name}/{each.name}", each.uri)

    def continuous(self) -> PipelineSpec:
        """The pipeline for a continuous run, which closes idle Parquet files after a while."""
        rollover = self.sink.rollover_timeout_secs or CONTINUOUS_ROLLOVER_SECS
        inactivity = self.sink.inactivity_timeout_secs or CONTINUOUS_INACTIVITY_SECS
        sink = replace(self.sink, rollover_timeout_secs=rollover, inactivity_timeout_secs=inactivity)
        return replace(self, sink=sink)


class EngineKind(StrEnum):
    """What reads and writes: Spark, or this process alone."""

    SPARK = "spark"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class SparkSpec:
    """Where tasks run: ``master`` (default ``local[*]``) or ``remote`` (Spark Connect), plus session settings.

    A ``remote`` address may hold a token, so it does not show in ``repr``.
    """

    master: str | None = None
    remote: str | None = field(default=None, repr=False)
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def parallelism(self) -> int:
        """How many tasks run at once, read off the configuration without starting Spark.

        >>> SparkSpec(master="local-cluster[2,3,1024]").parallelism
        6
        """
        master = self.master or ("" if self.remote else "local[*]")
        cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master)
        if cluster:
            return int(cluster.group(1)) * int(cluster.group(2))
        local = re.fullmatch(r"local(?:\[\s*(\*|\d+).*\])?", master)
        if local:
            threads = local.group(1) or "1"
            return os.cpu_count() or 1 if threads == "*" else int(threads)
        if self.remote and self.remote.startswith("local"):
            return os.cpu_count() or 1
        if "spark.default.parallelism" in self.config:
            return int(self.config["spark.default.parallelism"])
        return int(self.config.get("spark.executor.instances", "4")) * int(self.config.get("spark.executor.cores", "2"))


@dataclass(frozen=True, slots=True)
class MetricsSpec:
    """Whether and where Prometheus metrics are served."""

    enabled: bool = False
    address: str = "127.0.0.1:9090"
    legacy_names: bool = False


@dataclass(frozen=True, slots=True)
class ReconcileSpec:
    """How often a continuous run compares everything (``None``: never), and whether it then reads late files."""

    every: timedelta | None = timedelta(days=1)
    ingest: bool = False


class ProviderKind(StrEnum):
    """Where states are copied to; the Delta log always keeps them."""

    DELTA = "delta"
    FILE = "file"
    SQL = "sql"


@dataclass(frozen=True, slots=True)
class StateSpec:
    """Who gets a copy of every state: one of ours, ``module:Class`` made with ``arguments``, or an object.

    An object has the two methods of a provider, or is a :class:`~tidegate.WatermarkManager`. ``url`` is the folder of a
    file provider or the SQLAlchemy address of a database; it may hold a password.
    """

    provider: ProviderKind | str | object = ProviderKind.DELTA
    url: Secret | None = None
    options: Options = field(default_factory=Options)
    arguments: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True)
class ProjectSpec:
    """One configuration file: its pipelines and the settings that all of them share."""

    origin: str
    pipelines: tuple[PipelineSpec, ...]
    spark: SparkSpec = field(default_factory=SparkSpec)
    total_concurrency: int | None = None
    poll_jitter_secs: int | None = None
    recovery_max_commits: int = 100
    commit_deadline_secs: int = 120
    metrics: MetricsSpec = field(default_factory=MetricsSpec)
    reconcile: ReconcileSpec = field(default_factory=ReconcileSpec)
    notices: tuple[str, ...] = ()
    state: StateSpec = field(default_factory=StateSpec)
    engine: EngineKind = EngineKind.SPARK
    interpolated: tuple[Interpolated, ...] = field(default=(), repr=False, compare=False)
    """The values of the file with environment variables in them: some are secrets, and ``config show`` names them."""
    foreign: Foreign = field(default_factory=Foreign, repr=False, compare=False)
    """What is recognised of other systems."""

    @property
    def second_names(self) -> Mapping[str, str]:
        """Names of metrics under which they are exported as well."""
        return self.foreign.metric_names if self.metrics.legacy_names else {}

    def shown_names(self) -> Iterator[str]:
        """Those of all pipelines, the configuration itself, and the tables and users of databases.

        None with a credential in it: some servers take a key for a user.
        """
        names = [self.origin]
        for pipeline in self.pipelines:
            names += pipeline.shown_names()
            names += (name for each in pipeline.sources for name in _names_asked(each))
        held = (value for each in self.interpolated for _, value in each.credentials)
        secrets = [each for each in held if not is_plain_setting("", each)]
        yield from (name for name in names if not looks_random(name) and not any(each in name for each in secrets))

    @property
    def parallelism(self) -> int:
        """How many tasks run at once: those of Spark, or the cores of this machine."""
        return self.spark.parallelism if self.engine is EngineKind.SPARK else os.cpu_count() or 1

    def pipeline(self, name: str) -> PipelineSpec:
        """The pipeline of that name."""
        return next(found for found in self.pipelines if found.name == name)

    def jitter_of(self, interval_secs: float) -> float:
        """The most random seconds that are added to an interval."""
        return min(30.0, interval_secs / 10) if self.poll_jitter_secs is None else float(self.poll_jitter_secs)


def _names_asked(source: SourceSpec) -> Iterator[str]:
    """What a database is asked for, and by whom."""
    yield from (name for key in ("user", "table") if (name := getattr(source.read, key, None)))


ALLOWED_PROPERTIES = frozenset(
    {
        "delta.appendOnly",
        "delta.checkpointInterval",
        "delta.checkpointPolicy",
        "delta.checkpointRetentionDuration",
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.columnMapping.maxColumnId",
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStatsColumns",
        "delta.deletedFileRetentionDuration",
        "delta.enableChangeDataFeed",
        "delta.enableDeletionVectors",
        "delta.enableExpiredLogCleanup",
        "delta.enableFullRetentionRollback",
        "delta.isolationLevel",
        "delta.logRetentionDuration",
        "delta.minReaderVersion",
        "delta.minWriterVersion",
        "delta.parquet.compression.codec",
        "delta.randomPrefixLength",
        "delta.randomizeFilePrefixes",
        "delta.targetFileSize",
        "delta.tuneFileSizesForRewrites",
    }
)
"""``delta.`` properties that ask nothing of an append; switched off (``false``, ``none``) any may be there."""

ALLOWED_PREFIXES = ("delta.autoOptimize.", "delta.feature.")

RETENTION = "delta.setTransactionRetentionDuration"

_NOT_BY_US = {
    RETENTION: "the table would forget positions, and a run would read a quiet source again from its start",
    "delta.checkpointPolicy": "the Delta library cannot write such checkpoints",
    "delta.checkpointRetentionDuration": "the Delta library does not know it; set it with Spark",
    "delta.enableFullRetentionRollback": "the Delta library does not know it; set it with Spark",
    "delta.columnMapping.maxColumnId": "it belongs to column mapping, which appends do not honour",
    "delta.enableDeletionVectors": "the Delta library would add other features along with it; set it with Spark",
    "delta.minReaderVersion": "the protocol follows from the other properties",
    "delta.minWriterVersion": "the protocol follows from the other properties",
    "delta.parquet.compression.codec": "set sink.compression",
    "delta.targetFileSize": "set sink.file_size_mb",
}


_FORMS = (
    (r"delta\..*Duration", r"(?i)interval \d+ (week|day|hour|minute|second)s?", "'interval 30 days'"),
    (r"delta\.(checkpointInterval|dataSkippingNumIndexedCols|randomPrefixLength)", r"-?\d{1,9}", "a number"),
    (r"delta\.isolationLevel", r"Serializable|WriteSerializable|SnapshotIsolation", "'Serializable'"),
    (r"delta\.dataSkippingStatsColumns|delta\.autoOptimize\..*", r".+", "a text"),
    (r"delta\..*", r"true|false", "'true' or 'false'"),
)
"""By the form of the name: the form of the value, and an example of it. The first that fits counts."""


def is_unknown(name: str) -> bool:
    """Whether a property may demand something of appends that we do not know."""
    if not name.startswith("delta.") or name in ALLOWED_PROPERTIES:
        return False
    return not name.startswith(ALLOWED_PREFIXES)


def why_not(name: str, value: str) -> str | None:
    """Why a configuration may not set a property to a value; None where it may.

    >>> why_not("delta.appendOnly", "true")
    >>> why_not("delta.appendOnly", "maybe")
    "'maybe' is not one of its values; allowed: 'true' or 'false'"
    """
    if name in _NOT_BY_US:
        return _NOT_BY_US[name]
    if not name.startswith("delta."):
        return "it is not a Delta property; use names that begin with 'delta.'"
    if is_unknown(name) or name.startswith("delta.feature."):
        return "appends do not honour it"
    form, example = next((form, example) for names, form, example in _FORMS if re.fullmatch(names, name))
    return None if re.fullmatch(form, value) else f"{value!r} is not one of its values; allowed: {example}"
