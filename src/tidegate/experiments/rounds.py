"""One round of an experiment inside this process: two runners share a scratch table, and everything goes wrong.

A *turn* is one pass of one runner with its failures and events. Turns nest: an event at a failpoint of one runner may
be a whole pass of another, with failures of its own. All happens in one thread, so that a seed repeats the experiment.

Names grow inside hourly partitions; some come late, some partitions begin late, a few files are large and a few are
empty. Record ``n`` has ``id = n``; rows that others append to the table have negative ids.

A follower sees what a stream over the table sees: the rows of every file that a commit adds with ``dataChange``.
Rewrites such as OPTIMIZE add none. A commit that removes rows would break a stream, so it is an error here.

Every pass meets failures at failpoints: ``raise`` ends its runner, which starts again with nothing in memory; ``lose``
leaves it alive with an answer missing. In the middle of passes the other runner makes a whole pass, somebody appends
rows or compacts files, and new files arrive. One runner's clock is an hour ahead. The follower reads the table; now and
then its rows and the table's are compared with what arrived.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

import pyarrow as pa
from pyarrow.parquet import ParquetFile

from tidegate import failpoints
from tidegate.errors import ObjectMissing, OutcomeUnknown, StorageError, StorageUnavailable, TableError
from tidegate.failpoints import PLACES, InjectedFailure
from tidegate.observe import events
from tidegate.protocol.delta import query
from tidegate.protocol.log import entry_path
from tidegate.protocol.maintenance import append_foreign_rows, compact_as_stranger
from tidegate.protocol.position import Pace, utc_now
from tidegate.reports.chaos import PlaceFailures
from tidegate.reports.run import RunReport
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.specs.files import PartitionFilter, PathSource
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, ProjectSpec
from tidegate.specs.table import FieldSpec, SchemaSpec, SinkSpec
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

IN_PROCESS = ("raise", "lose")
COLD_START = ("state.cold_start.before", "state.cold_start.after")
COLUMNS = ("state.columns.before", "state.columns.after")
ANYWHERE = tuple(
    place for place in PLACES if place not in (*COLD_START, "state.debt.before") and not place.startswith("staging.")
)
"""Failpoints of an ordinary pass. An experiment stages nothing and owes no further debt; only first runs start cold."""

EVENT_PLACES = tuple(place for place in ANYWHERE if place.startswith(("runs.", "state.")))

Happening = Callable[[], None]


@dataclass(slots=True)
class FaultCounts:
    """Everything an experiment counts."""

    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    spark_kills: int = 0
    rounds: int = 0
    passes: int = 0
    commits: int = 0
    contested: int = 0
    files: int = 0
    rows: int = 0
    letters: int = 0
    comparisons: int = 0
    lost: int = 0
    doubled: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def injected(self) -> int:
        """The number of failures inside this process."""
        return sum(number for (_, way), number in self.failures.items() if way in IN_PROCESS)

    def listen(self, event: events.Event) -> None:
        """Count the events of runs."""
        self.contested += isinstance(event, events.CommitContested)

    def places(self) -> tuple[PlaceFailures, ...]:
        """The failures by place, in the order of a pass."""
        return tuple(
            PlaceFailures(place, *(self.failures[place, way] for way in ("raise", "lose", "kill"))) for place in PLACES
        )


class Faults:
    """The rule of every failpoint while an experiment runs (see :func:`tidegate.failpoints.arm_by`)."""

    def __init__(self, tally: FaultCounts) -> None:
        self._tally = tally
        self._turns: list[tuple[dict[str, str], dict[str, Happening]]] = []

    def __call__(self, place: str) -> str | None:
        if not self._turns:
            return None
        ways, happenings = self._turns[-1]
        happening = happenings.pop(place, None)
        # Before the failure at the same place, so that a rival can commit just before this runner dies.
        if happening is not None:
            happening()
        way = ways.pop(place, None)
        if way is not None:
            self._tally.failures[place, way] += 1
        return way

    @contextmanager
    def turn(self, ways: dict[str, str], happenings: dict[str, Happening] | None = None) -> Iterator[None]:
        """While inside, each of ``ways`` and ``happenings`` hits the pass once, if it gets there."""
        self._turns.append((ways, happenings or {}))
        try:
            yield
        finally:
            self._turns.pop()


def some_ways(chance: random.Random) -> dict[str, str]:
    """The failures of one pass: one or two."""
    return {place: chance.choice(IN_PROCESS) for place in chance.sample(ANYWHERE, chance.choice((1, 1, 2)))}


START = datetime(2026, 1, 28, tzinfo=UTC)
NOW = START + timedelta(hours=40)
HOURS = 36
BEFORE_EVERYTHING = "date=2026-01-01/hour=00/0000000000.ndjson"
_SMALL, _LARGE = (1, 6), (2000, 4000)
_BAD = 0.03
# The storage under test may fail; files have to arrive all the same, or there is nothing to compare.
_TRIES = 5


SHARES = {"default": "*[0-3].ndjson*", "second": "*[4-6].ndjson*", "third": "*[7-9].ndjson*"}
"""Sources that share the files between them, by the last digit of their names, and read them side by side."""


def scratch_project(
    place: Location,
    *,
    columns: int = 0,
    filtered: bool = False,
    checkpoint_every: int = 3,
    shares: Mapping[str, str | None] | None = None,
) -> ProjectSpec:
    """A pipeline from ``source`` into ``table``, both below ``place``, with ``columns`` extra columns.

    ``filtered`` limits the first run to the last two days, so that a source with only older files begins by recording
    that bound. ``shares``: several sources, each with the files of a pattern.
    """
    bound = PartitionFilter("date=%Y-%m-%d", lookback=2) if filtered else None
    files = _location_below(place, "source")
    named = shares or {"default": None}
    sources = tuple(PathSource(name, files, glob, partition_filter=bound) for name, glob in named.items())
    more = tuple(FieldSpec(f"extra{number}", "string") for number in range(columns))
    fields = (FieldSpec("id", "int64", nullable=False), FieldSpec("text", "string"), *more)
    sink = SinkSpec(_location_below(place, "table"), delta_checkpoint_interval=checkpoint_every)
    return ProjectSpec("chaos", (PipelineSpec("chaos", sources, SchemaSpec(fields), sink),))


def _location_below(place: Location, name: str) -> Location:
    return Location(f"{place.uri}/{name}", place.options)


@dataclass(slots=True)
class Arrivals:
    """Writes the files; ``expected`` has the id of every record that must be in the table.

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
        """Write the next files."""
        for _ in range(files):
            path = self._path()
            first = len(self.expected) - self._foreign
            records = self._records()
            lines = [json.dumps({"id": first + n, "text": f"{path} {n}"}) + "\n" for n in range(records)]
            if self.chance.random() < _BAD:
                self.bad.append(f"line {len(self.bad)} that is no record, of {path}")
                lines.insert(self.chance.randint(0, records), f"{self.bad[-1]}\n")
            self._put(path, "".join(lines))
            self.expected.extend(range(first, first + records))
            self._origins.append((first, path))

    def arrive_too_old(self) -> None:
        """Write a file that a bounded first run must not read."""
        self._put(BEFORE_EVERYTHING, '{"id": -1000000, "text": "too old"}\n')

    def foreign(self, rows: int) -> list[int]:
        """Ids for rows that somebody else appends to the table."""
        first = -1 - self._foreign
        ids = list(range(first, first - rows, -1))
        self._foreign += rows
        self.expected.extend(ids)
        return ids

    def origin(self, number: int) -> str:
        """The origin of the record with that id."""
        if number < 0:
            return "a foreign append"
        return next(path for first, path in reversed(self._origins) if first <= number)

    def _put(self, path: str, text: str) -> None:
        content = text.encode()
        # gzip would store the time, and one seed would give different bytes each time.
        packed = gzip.compress(content, 1, mtime=0) if path.endswith(".gz") else content
        for left in reversed(range(_TRIES)):
            try:
                self.store.put(path, packed)
                break
            except StorageUnavailable:
                if not left:
                    raise
        self.files += 1

    def _records(self) -> int:
        kind = self.chance.random()
        if kind < 0.02:
            return 0
        return self.chance.randint(*(_LARGE if kind < 0.03 else _SMALL))

    def _path(self) -> str:
        """A path, mostly above everything in the newest partition; now and then late, or in another partition."""
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


class Follower:
    """Follows the table that ``store`` is rooted at; ``seen`` counts the values of ``column`` so far.

    ``doubled`` are values that came more than once, ``versions`` the origin of each value, ``positions`` the number of
    entries that moved the position of a source.
    """

    def __init__(self, store: ObjectStore, column: str = "id") -> None:
        self.version = 0
        self.positions = 0
        self.seen: Counter[int] = Counter()
        self.doubled: set[int] = set()
        self.versions: dict[int, list[int]] = {}
        self._store = store
        self._column = column

    def catch_up(self) -> int:
        """Read every new log entry, and return their number."""
        before = self.version
        while True:
            try:
                content = self._store.get(entry_path(self.version))
            except ObjectMissing:
                return self.version - before
            self._take(content)
            self.version += 1

    def _take(self, content: bytes) -> None:
        # Read by hand: a bug in the Delta library must not hide a row from both readers.
        for action in map(json.loads, content.splitlines()):
            match action:
                case {"add": {"dataChange": True, "path": path}}:
                    self._take_file(unquote(path))
                case {"txn": _}:
                    self.positions += 1
                case {"remove": {"dataChange": True, "path": path}}:
                    raise TableError(
                        f"{self._store.location.uri}: version {self.version} removes the rows of {path}",
                        "a stream over this table would stop here",
                    )
                case _:
                    pass

    def _take_file(self, path: str) -> None:
        with ParquetFile(io.BytesIO(self._store.get(path))) as file:
            values: list[Any] = file.read(columns=[self._column], use_threads=False).column(0).to_pylist()
        for value in values:
            self.seen[value] += 1
            self.versions.setdefault(value, []).append(self.version)
            if self.seen[value] > 1:
                self.doubled.add(value)


MOST_COLUMNS = 8
TRIES = 5
RUN_AGAIN = (StorageError.exit_code, OutcomeUnknown.exit_code)
"""Exit codes of a pass if storage does not answer, on purpose or not: the next pass finds out."""


class NotExactlyOnce(Exception):
    """The table does not have what arrived, or no failure explains the end of a pass; one line per finding."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems[:3]))
        self.problems = problems


class Runner:
    """The memory of one process; ``restart`` forgets it."""

    def __init__(self, project: ProjectSpec, tally: FaultCounts, ahead: timedelta) -> None:
        self._tally = tally
        # All runners share one thread (decision 0011), so waiting lets nobody else finish.
        self._pace = Pace(deadline_secs=60.0, now=lambda: utc_now() + ahead, sleep=lambda seconds: time.sleep(0.0005))
        self.restart(project)

    def restart(self, project: ProjectSpec) -> None:
        """Start over, as a new process with that configuration."""
        self._project = project
        lane = InProcessEngine()
        self._running = Loop(project, lane, 2, self._tally.listen, clock=lambda: NOW, pace=self._pace)

    def run(self) -> RunReport | None:
        """Make one pass; None if the runner died in it."""
        self._tally.passes += 1
        try:
            return self._running.once(self._project.pipelines)
        # As after a kill: nothing in memory may help the next pass.
        except InjectedFailure:
            self.restart(self._project)
            return None

    def bring_everything(self) -> None:
        """Make a pass that must succeed; again if the storage itself did not answer."""
        for _ in range(TRIES):
            report = self.run()
            if report is not None and report.ok:
                return
            if report is None or any(source.exit_code not in RUN_AGAIN for source in report.sources):
                break
        raise NotExactlyOnce([f"a pass to which nothing happened did not succeed: {report}"])


class RoundEvidence:
    """What a table must have, and two ways to read it."""

    def __init__(self, place: Location, chance: random.Random, tally: FaultCounts) -> None:
        self.table = _location_below(place, "table")
        self.arrivals = Arrivals(open_store(_location_below(place, "source")), chance)
        self._follower = Follower(open_store(self.table))
        self._tally = tally

    @property
    def table_exists(self) -> bool:
        """Whether anything was committed."""
        self.look()
        return self._follower.version > 0

    def look(self) -> None:
        """Let the follower catch up; a row must never come twice."""
        before = self._follower.positions
        self._follower.catch_up()
        self._tally.commits += self._follower.positions - before
        if self._follower.doubled:
            self._tell([], sorted(self._follower.doubled))

    def compare(self) -> None:
        """Check that both readers have exactly what arrived."""
        self.look()
        self._tally.comparisons += 1
        rows = query(self.table, "select id from t") if self._follower.version else []
        expected = Counter(self.arrivals.expected)
        # The library shows the table as it is now; the follower has every row that was ever added.
        for found in (Counter(row["id"] for row in rows), self._follower.seen):
            if found != expected:
                self._tell(sorted((expected - found).elements()), sorted((found - expected).elements()))
        self._compare_letters()

    def _compare_letters(self) -> None:
        """Check that every line that is not a record is one dead letter."""
        found = Counter[str]()
        if self.arrivals.bad:
            place = Location(f"{self.table.uri}_dead_letters", self.table.options)
            found.update(str(row["text"]) for row in query(place, "select text from t"))
        wanted = Counter(self.arrivals.bad)
        problems = [f"dead letter missing: {text}" for text in (wanted - found).elements()]
        problems += [f"dead letter doubled: {text}" for text in (found - wanted).elements()]
        if problems:
            self._tally.lost = sum((wanted - found).values())
            self._tally.doubled = sum((found - wanted).values())
            raise NotExactlyOnce([*problems[:20], f"the tables are kept at {self.table.uri}"])

    def append(self, rows: int) -> None:
        """Let somebody else append rows."""
        ids = self.arrivals.foreign(rows)
        append_foreign_rows(self.table, pa.table({"id": ids, "text": ["foreign"] * len(ids)}))
        self._tally.happened["append"] += 1

    def compact(self) -> None:
        """Let somebody else combine small files."""
        compact_as_stranger(self.table)
        self._tally.happened["optimize"] += 1

    def close(self) -> None:
        """Count the rows of the table."""
        self._tally.files += self.arrivals.files
        self._tally.rows += len(self.arrivals.expected)
        self._tally.letters += len(self.arrivals.bad)

    def _tell(self, missing: list[int], surplus: list[int]) -> None:
        self._tally.lost, self._tally.doubled = len(missing), len(surplus)
        lines = [*self._explain("missing", missing), *self._explain("doubled", surplus)]
        raise NotExactlyOnce([*lines, f"the table is kept at {self.table.uri}"])

    def _explain(self, what: str, ids: list[int]) -> Iterator[str]:
        """One line for each of the first ids of a difference."""
        for number in ids[:20]:
            where = ", ".join(map(str, self._follower.versions.get(number, ()))) or "none"
            yield f"{what}: id {number} of {self.arrivals.origin(number)}; added by table versions: {where}"
        if len(ids) > 20:
            yield f"{what}: {len(ids) - 20} more"


class ScratchRound(ABC):
    """A scratch table below ``place`` and its failures; ``seed`` decides as much as possible."""

    title: ClassVar[str]
    counter: ClassVar[str]
    """The count that the round increases, a name of :class:`FaultCounts`."""
    most: ClassVar[int]
    """The most failures for one table."""
    steps_per_comparison: ClassVar[int]

    def __init__(self, place: Location, seed: str, tally: FaultCounts) -> None:
        self._place, self._tally = place, tally
        self._chance = random.Random(seed)
        self._evidence = RoundEvidence(place, self._chance, tally)

    def play(self, number: int, over: Callable[[], bool]) -> None:
        """Continue until ``number`` more are counted, or it is over; raises :class:`NotExactlyOnce`."""
        self._tally.rounds += 1
        goal, steps = getattr(self._tally, self.counter) + number, 0
        with self._stage():
            while (left := goal - getattr(self._tally, self.counter)) > 0 and not over():
                self._step(left)
                self._evidence.look()
                steps += 1
                if steps % self.steps_per_comparison == 0:
                    self._settle()
            self._settle()
        self._evidence.close()

    @abstractmethod
    def _stage(self) -> AbstractContextManager[None]:
        """The set-up of the round."""

    @abstractmethod
    def _step(self, left: int) -> None:
        """Let something go wrong, at most ``left`` times."""

    @abstractmethod
    def _settle(self) -> None:
        """Complete a pass without failures, then let both readers compare."""


class Round(ScratchRound):
    """A round inside this process, with failures at failpoints."""

    title = "failures"
    counter = "injected"
    most = 150
    steps_per_comparison = 25

    def __init__(self, place: Location, seed: str, tally: FaultCounts) -> None:
        super().__init__(place, seed, tally)
        self._faults = Faults(tally)
        self._filtered = self._chance.random() < 0.5
        self._checkpoint_every = self._chance.choice((1, 2, 5))
        self._columns = 0
        project = self._project()
        # The clocks of two machines differ, and no outcome may depend on them.
        self._runners = [Runner(project, tally, timedelta(0)), Runner(project, tally, timedelta(hours=1))]

    @contextmanager
    def _stage(self) -> Iterator[None]:
        failpoints.arm_by(self._faults)
        try:
            if self._filtered:
                self._start_cold()
            self._evidence.arrivals.arrive(1)
            yield
        finally:
            failpoints.arm("")

    def _project(self) -> ProjectSpec:
        return scratch_project(
            self._place,
            columns=self._columns,
            filtered=self._filtered,
            checkpoint_every=self._checkpoint_every,
        )

    def _start_cold(self) -> None:
        """The first run finds nothing that it may read, and fails around recording that."""
        self._evidence.arrivals.arrive_too_old()
        for place in COLD_START:
            with self._faults.turn({place: self._chance.choice(IN_PROCESS)}):
                self._pass(self._chance.choice(self._runners))

    def _step(self, left: int) -> None:
        """One unlucky pass."""
        self._evidence.arrivals.arrive(self._chance.randint(0, 3))
        ways = some_ways(self._chance)
        if any(place in ways for place in COLUMNS) and self._columns < MOST_COLUMNS and self._evidence.table_exists:
            self._columns += 1
            for each in self._runners:
                each.restart(self._project())
        runner, other = self._chance.sample(self._runners, 2)
        with self._faults.turn(ways, self._meanwhile(other)):
            self._pass(runner)

    def _meanwhile(self, other: Runner) -> dict[str, Happening]:
        """Events in the middle of a pass: often none, at most two."""
        choices: tuple[Happening, ...] = (
            lambda: self._rival(other),
            lambda: self._rival(other),
            lambda: self._evidence.arrivals.arrive(1),
            self._append,
            self._compact,
        )
        places = self._chance.sample(EVENT_PLACES, self._chance.randint(0, 2))
        return {place: self._chance.choice(choices) for place in places}

    def _rival(self, other: Runner) -> None:
        """Let the other runner make a pass, which may fail as well."""
        self._tally.happened["rival"] += 1
        ways = some_ways(self._chance) if self._chance.random() < 0.5 else {}
        with self._faults.turn(ways):
            self._pass(other)

    def _append(self) -> None:
        if self._evidence.table_exists:
            # An empty turn on top: what a stranger does meets none of the failures of this pass.
            with self._faults.turn({}):
                self._evidence.append(self._chance.randint(1, 3))

    def _compact(self) -> None:
        if self._evidence.table_exists:
            with self._faults.turn({}):
                self._evidence.compact()

    def _pass(self, runner: Runner) -> None:
        """Make one pass; only an injected failure may end it."""
        report = runner.run()
        for source in () if report is None else report.sources:
            if source.failed or (source.error and source.exit_code not in RUN_AGAIN):
                raise NotExactlyOnce([f"a pass failed without a reason: {source.error or source.failed}"])

    def _settle(self) -> None:
        self._runners[0].bring_everything()
        self._evidence.compare()
