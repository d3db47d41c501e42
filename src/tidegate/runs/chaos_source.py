"""The scratch source of an experiment: files arrive in a random, repeatable order, and every record is known.

Names grow inside hourly partitions; some come late, some partitions begin late, a few files are large and a few are
empty. Record ``n`` has ``id = n``; rows that others append to the table have negative ids.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidegate.errors import StorageUnavailable
from tidegate.specs import (
    FieldSpec,
    Location,
    PartitionFilter,
    PathSource,
    PipelineSpec,
    ProjectSpec,
    SchemaSpec,
    SinkSpec,
)

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

START = datetime(2026, 1, 28, tzinfo=UTC)
NOW = START + timedelta(hours=40)
HOURS = 36
BEFORE_EVERYTHING = "date=2026-01-01/hour=00/0000000000.ndjson"
_SMALL, _LARGE = (1, 6), (2000, 4000)
_BAD = 0.03
_TRIES = 4


def scratch_project(
    place: Location, *, columns: int = 0, filtered: bool = False, checkpoint_every: int = 3
) -> ProjectSpec:
    """A pipeline from ``source`` into ``table``, both below ``place``; ``columns`` more than the first ones.

    ``filtered`` bounds the first run to the last two days, so that a source with older files only begins by
    recording that bound.
    """
    bound = PartitionFilter("date=%Y-%m-%d", lookback=2) if filtered else None
    source = PathSource("default", _below(place, "source"), partition_filter=bound)
    more = tuple(FieldSpec(f"extra{number}", "string") for number in range(columns))
    fields = (FieldSpec("id", "int64", nullable=False), FieldSpec("text", "string"), *more)
    sink = SinkSpec(_below(place, "table"), delta_checkpoint_interval=checkpoint_every)
    return ProjectSpec("chaos", (PipelineSpec("chaos", (source,), SchemaSpec(fields), sink),))


def _below(place: Location, name: str) -> Location:
    return Location(f"{place.uri}/{name}", place.options)


@dataclass(slots=True)
class Arrivals:
    """Writes the files; ``expected`` holds the id of every record that must be in the table.

    ``bad`` are the lines that must be dead letters.
    """

    store: ObjectStore
    chance: random.Random
    files: int = 0
    expected: list[int] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    _origins: list[tuple[int, str]] = field(default_factory=list)
    _hour: int = 3
    _second: int = 0
    _foreign: int = 0

    def arrive(self, files: int) -> None:
        """The next files."""
        for _ in range(files):
            path = self._path()
            first = self.expected_records
            records = self._records()
            lines = [json.dumps({"id": first + n, "text": f"{path} {n}"}) + "\n" for n in range(records)]
            if self.chance.random() < _BAD:
                self.bad.append(f"line {len(self.bad)} that is no record, of {path}")
                lines.insert(self.chance.randint(0, records), f"{self.bad[-1]}\n")
            self._put(path, "".join(lines))
            self.expected.extend(range(first, first + records))
            self._origins.append((first, path))

    @property
    def expected_records(self) -> int:
        """How many records were written so far."""
        return len(self.expected) - self._foreign

    def arrive_too_old(self) -> None:
        """A file that a bounded first run must not read."""
        self._put(BEFORE_EVERYTHING, '{"id": -1000000, "text": "too old"}\n')

    def foreign(self, rows: int) -> list[int]:
        """Ids of rows that somebody else appends to the table."""
        first = -1 - self._foreign
        ids = list(range(first, first - rows, -1))
        self._foreign += rows
        self.expected.extend(ids)
        return ids

    def origin(self, number: int) -> str:
        """Where the record with that id came from."""
        if number < 0:
            return "a foreign append"
        return next(path for first, path in reversed(self._origins) if first <= number)

    def _put(self, path: str, text: str) -> None:
        content = text.encode()
        packed = gzip.compress(content, 1, mtime=0) if path.endswith(".gz") else content
        for _ in range(_TRIES):
            with suppress(StorageUnavailable):
                self.store.put(path, packed)
                break
        else:
            self.store.put(path, packed)
        self.files += 1

    def _records(self) -> int:
        kind = self.chance.random()
        if kind < 0.02:
            return 0
        return self.chance.randint(*(_LARGE if kind < 0.03 else _SMALL))

    def _path(self) -> str:
        """Mostly above everything in the newest partition; now and then late, or in another partition."""
        kind = self.chance.random()
        hour, second = self._hour, self._second
        if kind < 0.06 and self._hour < HOURS - 1:
            self._hour, self._second = self._hour + 1, 0
            hour, second = self._hour, 0
        elif kind < 0.18:
            second = self.chance.randint(0, self._second)
        elif kind < 0.26:
            hour, second = self.chance.randint(0, self._hour), self.chance.randint(0, 500)
        else:
            self._second += self.chance.randint(1, 9)
            second = self._second
        folder = (START + timedelta(hours=hour)).strftime("date=%Y-%m-%d/hour=%H")
        return f"{folder}/{second:06d}-{self.files:05d}.ndjson{self.chance.choice(('', '.gz'))}"


def difference(found: Counter[int], arrivals: Arrivals) -> tuple[list[int], list[int]]:
    """The ids that are missing in ``found``, and those that are there too often."""
    wanted = Counter(arrivals.expected)
    return sorted((wanted - found).elements()), sorted((found - wanted).elements())


def explained(what: str, ids: list[int], arrivals: Arrivals, versions: dict[int, list[int]]) -> Iterator[str]:
    """One line for each of the first ids of a difference."""
    for number in ids[:20]:
        where = ", ".join(map(str, versions.get(number, ()))) or "none"
        yield f"{what}: id {number} of {arrivals.origin(number)}; added by table versions: {where}"
    if len(ids) > 20:
        yield f"{what}: {len(ids) - 20} more"
