"""Everything that is remembered about one path source, as one value.

The state is small whatever the number of files ever read: one name per open partition, the names that
finished above a gap, the files in progress or failed, and a bounded window of finished names per open
partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.watermarks.late_window import LateWindow
from tidegate.watermarks.paths import join, sort_key, split


@dataclass(frozen=True, slots=True)
class Initial:
    """Nothing has been finished yet."""


@dataclass(frozen=True, slots=True)
class Active:
    """Files are being read; ``value`` is the greatest watermark path."""

    value: str


@dataclass(frozen=True, slots=True)
class Idle:
    """The last poll found nothing above ``value``, and nothing waits."""

    value: str


WatermarkState = Initial | Active | Idle


@dataclass(frozen=True, slots=True)
class Finished:
    """Every record is committed; kept by name only above a gap."""


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """The first ``records`` lines of the file of this size and etag are committed, in ``rounds`` commits."""

    records: int
    size: int | None
    etag: str | None = None
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class Failed:
    """Reading stopped with ``reason``, ``attempts`` times; the first ``records`` lines are committed."""

    attempts: int
    reason: str
    size: int | None
    etag: str | None = None
    records: int = 0

    @property
    def how_often(self) -> str:
        """``attempts`` in words.

        >>> Failed(1, "bad", 7).how_often, Failed(3, "bad", 7).how_often
        ('once', '3 times')
        """
        return "once" if self.attempts == 1 else f"{self.attempts} times"


Unfinished = RecordsRead | Failed
FileProgress = Finished | RecordsRead | Failed


@dataclass(frozen=True, slots=True)
class Seal:
    """Partitions that end at or before ``below`` are no longer looked at.

    ``directories`` is how many directories lay below it when it was set: more of them later means that one
    came late. ``None`` where they were not counted.
    """

    below: datetime
    directories: int | None = None


@dataclass(frozen=True, slots=True)
class PathState:
    """The position of one path source. Mappings are never changed in place.

    ``partition_watermarks`` has the greatest contiguously finished name per open partition, ``files`` what is
    finished above a gap, in progress or failed, by path. Sealed are partitions that sort below
    ``sealed_below`` (from an older format) and, per non-time prefix, those older than its ``Seal``.
    """

    watermark: WatermarkState = field(default_factory=Initial)
    partition_watermarks: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, FileProgress] = field(default_factory=dict)
    last_committed_file: str | None = None
    late_window: Mapping[str, LateWindow] = field(default_factory=dict)
    window_lost: bool = False
    sealed: Mapping[str, Seal] = field(default_factory=dict)
    sealed_below: str = ""
    last_update_ts: int = 0
    first_unfinished: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """The smallest name in progress or failed, per partition that has one; derived from ``files``."""

    def __post_init__(self) -> None:
        first: dict[str, str] = {}
        for path, _ in self.unfinished():
            partition, name = split(path)
            first[partition] = min(name, first.get(partition, name))
        object.__setattr__(self, "first_unfinished", first)

    @property
    def is_fresh(self) -> bool:
        """Whether nothing at all is recorded: the cold start is still to come."""
        recorded = self.partition_watermarks or self.files or self.sealed or self.sealed_below
        return isinstance(self.watermark, Initial) and not recorded

    @property
    def value(self) -> str | None:
        """The path of the watermark, if there is one."""
        return None if isinstance(self.watermark, Initial) else self.watermark.value

    @property
    def islands(self) -> int:
        """How many files finished above a gap."""
        return len(self.files) - sum(1 for _ in self.unfinished())

    def unfinished(self) -> Iterator[tuple[str, Unfinished]]:
        """The files in progress or failed."""
        for path, progress in self.files.items():
            if not isinstance(progress, Finished):
                yield path, progress


def greatest_path(partition_watermarks: Mapping[str, str]) -> str | None:
    """The greatest watermark over all partitions."""
    if not partition_watermarks:
        return None
    partition = max(partition_watermarks)
    return join(partition, partition_watermarks[partition])


def greater(one: str | None, other: str | None) -> str | None:
    """The greater of two paths; ``None`` is below everything."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other, key=sort_key)
