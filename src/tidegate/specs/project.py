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
from typing import Annotated, Any, Protocol, TypeVar

from tidegate.specs.credentials import Interpolated, is_plain_setting, looks_random
from tidegate.specs.foreign import Foreign, ForeignMetric
from tidegate.specs.keys import Address, Checked, Count, CountOrNone, Fraction, Function, Key, Query, Range
from tidegate.specs.locations import Location, Options, Secret
from tidegate.specs.notify import NotifySpec
from tidegate.specs.table import SchemaSpec, SinkSpec
from tidegate.specs.table_block import TableRefusal, TableSelection

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
    def max_pass_secs(self) -> int | None:
        """Seconds after which a pass is stopped and counts as failed; None: never."""

    @property
    def expect_every(self) -> timedelta | None:
        """How often new data must come; None: nobody knows."""

    @property
    def read(self) -> Any | None:
        """What is asked of a database, a server, a table or a function; None for files, which tasks read."""

    @property
    def tables_read(self) -> tuple[str, ...]:
        """Addresses and names of Delta tables that it reads; another pipeline may write them."""

    @property
    def request(self) -> Any | None:
        """What is asked of a database or a server by a connection; None where there is none."""

    def name_connection(self, name: str) -> SourceSpec:
        """The source with that name for its connection, if it has one without a name."""

    @property
    def takes_turns(self) -> bool:
        """Whether runs of it wait for each other unless the configuration says otherwise."""


SourceT = TypeVar("SourceT", bound=SourceSpec)


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
    """What happens to files and records that cannot be read."""

    on_bad_record: Annotated[
        OnBadRecord, Key("dead_letter: keep the line and go on; fail_file: refuse its file; fail_run: stop.")
    ] = OnBadRecord.DEAD_LETTER
    max_failures: Annotated[CountOrNone, Key("Failed files per run before it stops; 0 = unlimited.")] = 0
    max_bad_records: Annotated[CountOrNone, Key("Bad records per run before it stops; 0 = unlimited.")] = 0
    max_bad_fraction: Annotated[
        Fraction, Key("Share of bad records per run, from 100 on, before it stops; 0 = unlimited.")
    ] = 0.0
    dlq_uri: Annotated[
        Address | None,
        Key("The path or address of the dead-letter table; unset: beside the table.", name="dlq_path"),
    ] = None
    dlq_options: Annotated[
        Options,
        Key(
            "Settings and credentials of the dead-letter table's object store, instead of the sink's; never shown.",
            name="dlq_storage_options",
        ),
    ] = field(default_factory=Options)

    def table_of_dead_letters(self, table: Location) -> Location:
        """Where ``dlq_uri`` says, or beside the table of the pipeline; with options of its own if it has any."""
        given = self.dlq_uri
        if given is None:
            scheme, _, rest = table.uri.partition("://")
            has_path = "/" in rest.strip("/") or scheme == "file"
            given = f"{table.uri}_dead_letters" if has_path else f"{table.uri}/_dead_letters"
        return Location(given, self.dlq_options or table.options, table.sync)


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
    """How `tidegate commit` commits what staged runs left."""

    archive: Annotated[bool, Key("Keeps committed files in _staging/archive/ instead of removing them.")] = False
    max_files_per_commit: Annotated[int, Range(1, 10_000), Key("The most Parquet files in one commit.")] = 1000
    poll_interval_secs: Annotated[Count, Key("Seconds between polls of `tidegate commit --continuous`.")] = 10


@dataclass(frozen=True, slots=True)
class TransformSpec:
    """Changes rows between reading and writing; give one of the two."""

    sql: Annotated[Query | None, Key("A query over the view 'source', which has the columns that were read.")] = None
    python: Annotated[Function | None, Key("module:function, called with a DataFrame; what it returns is written.")] = (
        None
    )

    def __str__(self) -> str:
        if self.python:
            return f"transform.python {self.python}"
        query = " ".join((self.sql or "").split())
        return f"transform.sql {query if len(query) <= SHOWN_QUERY else query[:SHOWN_QUERY] + '…'}"


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """Sources, schema and sink under one name. ``on_conflict`` is None where the kind of the sources decides it.

    ``block`` is the name of the block of tables that it came from, ``refused`` why its table cannot be read, and
    ``vanished`` tells that the database no longer has it: such a pipeline keeps its state and is not run.
    """

    name: str
    sources: tuple[SourceSpec, ...]
    schema: Annotated[SchemaSpec, Key("The columns.")]
    sink: Annotated[SinkSpec, Key("The table.")]
    max_concurrent_files: Annotated[Count | None, Key("The most tasks of this pipeline at once.")] = None
    error_handling: Annotated[ErrorHandling, Key("What happens to bad files and records.")] = field(
        default_factory=ErrorHandling
    )
    delivery: Annotated[
        Delivery, Key("direct: each run commits what it writes; staged: `tidegate commit` commits it.")
    ] = Delivery.DIRECT
    staging: Annotated[StagingSpec, Key("Settings of staged delivery.")] = field(default_factory=StagingSpec)
    transform: TransformSpec | None = None
    on_conflict: Annotated[
        OnConflict | None,
        Key(
            "While another run works on the same source: wait until it is done, skip the source, or race. "
            "Unset: wait for sources of work units, race for others."
        ),
    ] = None
    block: str | None = None
    refused: TableRefusal | None = None
    vanished: bool = False

    def is_named(self, name: str | None) -> bool:
        """Whether a command for ``name`` is for this pipeline: its own name, that of its block, or none."""
        # Of a database that cannot be asked there is only the block, which says why, whatever table is meant.
        stands_for_all = self.refused is not None and self.block == self.name
        return name in (None, self.name, self.block) or (stands_for_all and name.startswith(f"{self.name}."))

    @property
    def conflict(self) -> OnConflict:
        """What a run does beside another one: as configured, otherwise sources of work units wait and others race."""
        return self.on_conflict or (
            OnConflict.WAIT if any(each.takes_turns for each in self.sources) else OnConflict.RACE
        )

    @property
    def has_names(self) -> bool:
        """Whether a table that it writes or reads is given by its name in Spark's catalog."""
        return self.sink.name is not None or any(getattr(each.read, "name", None) for each in self.sources)

    @property
    def is_located(self) -> bool:
        """Whether it is known where all of its tables lie."""
        places = (self.sink.table, *(getattr(each.read, "location", None) for each in self.sources))
        return all(each is None or each.is_located for each in places)

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
    """Where tasks run.

    A ``remote`` address may hold a token, so it does not show in ``repr``.
    """

    master: Annotated[str | None, Checked("master"), Key("The Spark master; local[*] when unset.")] = None
    remote: Annotated[str | None, Checked("remote"), Key("A Spark Connect server, instead of a master.")] = field(
        default=None, repr=False
    )
    config: Annotated[Mapping[str, str], Checked("options"), Key("Settings of the Spark session.")] = field(
        default_factory=Options
    )
    managed: Annotated[
        bool, Key("A platform brings the session: none is started or stopped, no Java is looked for, nothing fetched.")
    ] = False

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
    """Prometheus metrics."""

    enabled: Annotated[bool, Key("Serve metrics.")] = False
    address: Annotated[str, Checked("listen_address"), Key("The address to listen on, host:port.")] = "127.0.0.1:9090"
    legacy_names: Annotated[bool, Key("Also exports metrics under the names of another system.")] = False
    textfile: Annotated[
        str | None, Checked("textfile"), Key("A file NAME.prom to which each single run writes its metrics.")
    ] = None
    push_url: Annotated[
        Secret | None, Checked("push_url"), Key("A Pushgateway to which each single run pushes its metrics.")
    ] = None

    @property
    def is_exported(self) -> bool:
        """Whether single runs leave their metrics somewhere."""
        return self.textfile is not None or self.push_url is not None


@dataclass(frozen=True, slots=True)
class ReconcileSpec:
    """Regular comparison of source and table in continuous runs."""

    every: Annotated[
        timedelta | None,
        Checked("every"),
        Key("How often a continuous run compares source and table; none: never."),
    ] = timedelta(days=1)
    ingest: Annotated[bool, Key("Reads the late files that it finds.")] = False


class ProviderKind(StrEnum):
    """Where states are copied to; the Delta log always keeps them."""

    DELTA = "delta"
    FILE = "file"
    SQL = "sql"


@dataclass(frozen=True, slots=True)
class StateSpec:
    """Where a copy of the watermarks goes.

    In Python the provider may also be an object that has the two methods of a provider, or is a
    :class:`~tidegate.WatermarkManager`. A ``url`` may hold a password.
    """

    provider: Annotated[
        ProviderKind | str | object,
        Checked("provider"),
        Key("delta: only the table's log; file, sql: a copy there, too; module:Class: a copy made by your own class."),
    ] = ProviderKind.DELTA
    url: Annotated[Secret | None, Key("The folder, or the SQLAlchemy address of the database; never shown.")] = None
    options: Annotated[
        Options,
        Key("Settings and credentials of the folder's object store; never shown.", name="storage_options"),
    ] = field(default_factory=Options)
    arguments: Annotated[Options, Key("Keyword arguments of your own class; never shown.", name="options")] = field(
        default_factory=Options
    )


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A pipeline of the file that stands for many tables of a database.

    ``template`` is that pipeline with ``{schema}.{table}`` in place of a table, ``tree`` its part of the file.
    """

    name: str
    template: PipelineSpec
    selection: TableSelection
    tree: Any = field(default=None, repr=False, compare=False)

    @property
    def read(self) -> Any:
        """The connection to its database."""
        return self.template.sources[0].read

    def is_named(self, name: str | None) -> bool:
        """Whether a command for ``name`` concerns one of its tables."""
        return name is None or name == self.name or name.startswith(f"{self.name}.")


@dataclass(frozen=True, slots=True)
class ProjectSpec:
    """One configuration file: its pipelines and the settings that all of them share.

    ``blocks`` are those pipelines that stand for many tables; the tables known so far are among ``pipelines``.
    """

    origin: str
    pipelines: tuple[PipelineSpec, ...]
    spark: Annotated[SparkSpec, Key("Where tasks run.")] = field(default_factory=SparkSpec)
    total_concurrency: Annotated[Count | None, Key("The most tasks at once over all pipelines.")] = None
    max_concurrent_sources: Annotated[Count, Key("The most sources that are read at the same time.")] = 8
    poll_jitter_secs: Annotated[
        CountOrNone | None,
        Key("Random seconds added to each poll interval; unset: a tenth of it, at most 30."),
    ] = None
    recovery_max_commits: Annotated[
        Count, Key("Commits searched backwards in the table's log.", name="max_commits")
    ] = 100
    commit_deadline_secs: Annotated[Count, Key("How long a run retries a commit before it gives up.")] = 120
    metrics: Annotated[MetricsSpec, Key("Prometheus metrics.")] = field(default_factory=MetricsSpec)
    reconcile: Annotated[ReconcileSpec, Key("Regular comparison in continuous runs.")] = field(
        default_factory=ReconcileSpec
    )
    notices: tuple[str, ...] = ()
    state: Annotated[StateSpec, Key("Where a copy of the watermarks goes.")] = field(default_factory=StateSpec)
    engine: Annotated[EngineKind, Key("spark: everything; local: rows appended by this process, without Java.")] = (
        EngineKind.SPARK
    )
    notify: Annotated[tuple[NotifySpec, ...], Key("Messages about sources that are not well, and who gets them.")] = ()
    blocks: tuple[TableBlock, ...] = ()
    interpolated: tuple[Interpolated, ...] = field(default=(), repr=False, compare=False)
    """The values of the file with environment variables in them: some are secrets, and ``config show`` names them."""
    foreign: Foreign = field(default_factory=Foreign, repr=False, compare=False)
    """What is recognised of other systems."""

    @property
    def second_names(self) -> Mapping[str, tuple[ForeignMetric, ...]]:
        """Names of other systems under which metrics are exported as well."""
        return self.foreign.metric_names if self.metrics.legacy_names else {}

    def shown_names(self) -> Iterator[str]:
        """Those of all pipelines, the configuration itself, and the tables and users of databases.

        None with a credential in it: some servers take a key for a user.
        """
        names = [self.origin, *(each.name for each in self.blocks)]
        for pipeline in self.pipelines:
            names += pipeline.shown_names()
            reads = (each.read for each in pipeline.sources)
            names += (name for read in reads for key in ("user", "table") if (name := getattr(read, key, None)))
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
