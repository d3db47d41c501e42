"""Sources of files: where they are, how they are written, and how their names are tracked."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from tidegate.specs.columns import CsvOptions
from tidegate.specs.keys import Checked, Count, Glob, Key, Range
from tidegate.specs.locations import Location


class LateFiles(StrEnum):
    """Whether a run looks for names below a partition's watermark."""

    WINDOW = "window"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """Limits the first run: it reads only recent partitions and seals everything older."""

    prefix_template: Annotated[
        str,
        Checked("template"),
        Key("strftime template (UTC) of the partition directories; its finest field is the period."),
    ]
    lookback: Annotated[
        int,
        Range(0, 100_000),
        Key("Periods before the current one that the first run reads.", required=True),
    ] = 0


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
    location: Annotated[Location, Key("The path or object storage address of the files.", name="source_uri")]
    pattern: Annotated[
        Glob | None, Key("Reads only files that match this glob: by name, or by whole path if it has a slash.")
    ] = None
    exclude: Annotated[tuple[str, ...], Checked("globs"), Key("Globs of files and directories to leave out.")] = ()
    compression: Annotated[Compression, Key("The compression of the files; auto: by file extension.")] = (
        Compression.AUTO
    )
    partition_filter: Annotated[PartitionFilter | None, Key("Limits the first run.")] = None
    late_files: Annotated[
        LateFiles, Key("window: finds files whose names appear below a watermark; strict: does not.")
    ] = LateFiles.WINDOW
    late_window: Annotated[
        Count, Key("Greatest finished names to remember per open partition, to find late files.")
    ] = 1000
    late_window_total: Annotated[Count, Key("Names to remember per source, over all open partitions.")] = 50_000
    lateness: Annotated[
        Lateness, Key("How far below the newest partition others stay open: '48 periods', 'P1DT12H', 'none'.")
    ] = field(default_factory=Lateness)
    deep_listing_every: Annotated[
        Count, Key("Lists everything open once in this many polls, to find unexpected directories.")
    ] = 100
    max_attempts: Annotated[Count, Key("How often a failing file is tried before it becomes a dead letter.")] = 5
    max_islands: Annotated[
        Count, Key("How many names may be finished above an unfinished file before the source waits for it.")
    ] = 10_000
    interval_files: Annotated[
        Count, Key("A commit is due once this many source files are finished since the last one.")
    ] = 100
    interval_secs: Annotated[Count, Key("A commit of finished files is due this many seconds after the last one.")] = 60
    mirror_legacy: Annotated[
        bool, Key("Also write the readable checkpoint where the tools of another system look for it.")
    ] = False
    poll_interval_secs: Annotated[Count, Key("Seconds between polls of a continuous run.")] = 60
    max_pass_secs: Annotated[
        Count | None, Key("Stops a pass that takes longer than so many seconds, as a failure; what it committed stays.")
    ] = None
    expect_every: Annotated[
        timedelta | None, Key("How often new data must come, such as PT2H; without any for longer, the source is late.")
    ] = None
    tracking: Tracking = Tracking.WATERMARK
    format: Annotated[
        Format,
        Key("The format of the files: a JSON object per line, CSV, Parquet, Avro, or one JSON array per file."),
    ] = Format.NDJSON
    csv: Annotated[CsvOptions, Key("The dialect of CSV files.")] = field(default_factory=CsvOptions)
    follow_links: Annotated[
        bool,
        Key("Follows symbolic links below source_uri, also out of it; each file counts once. Local disks only."),
    ] = False
    apart: tuple[str, ...] = ()

    @property
    def tables_read(self) -> tuple[str, ...]:
        """None: files of tables are not read."""
        return ()

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
