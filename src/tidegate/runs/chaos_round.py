"""One round of an experiment inside this process: two runners share a scratch table, and everything goes wrong.

Every pass meets failures at failpoints: ``raise`` ends its runner, which starts again with nothing in memory;
``lose`` leaves it alive with an answer missing. In the middle of passes the other runner makes a whole pass, somebody
appends rows or compacts files, and new files arrive. One runner's clock is an hour ahead. A streaming reader follows
the table; now and then its rows and the table's are compared with what arrived.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

from tidegate.errors import OutcomeUnknown, StorageError
from tidegate.failpoints import InjectedFailure
from tidegate.reports import RunReport
from tidegate.runs.chaos_faults import (
    COLD_START,
    COLUMNS,
    EVENT_PLACES,
    IN_PROCESS,
    Faults,
    Happening,
    Tally,
    some_ways,
)
from tidegate.runs.chaos_source import NOW, Arrivals, difference, explained, scratch_project
from tidegate.runs.following import Follower
from tidegate.runs.lanes import InProcessLane
from tidegate.runs.place import utc_now
from tidegate.runs.running import Running
from tidegate.specs import Location, ProjectSpec
from tidegate.state.pace import Pace
from tidegate.state.reading import query
from tidegate.storage.opening import open_store

PASSES_PER_COMPARISON = 25
MOST_COLUMNS = 8
TRIES = 5
RUN_AGAIN = (StorageError.exit_code, OutcomeUnknown.exit_code)
"""How a pass may end when storage does not answer, on purpose or by itself: the next one finds out."""


class NotExactlyOnce(Exception):
    """The table does not hold what arrived, or a pass ended in a way no failure explains; one line per finding."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems[:3]))
        self.problems = problems


class Runner:
    """What one process would keep in memory; ``restart`` forgets it."""

    def __init__(self, project: ProjectSpec, tally: Tally, ahead: timedelta) -> None:
        self._tally = tally
        self._pace = Pace(deadline_secs=60.0, now=lambda: utc_now() + ahead, sleep=lambda seconds: time.sleep(0.0005))
        self.restart(project)

    def restart(self, project: ProjectSpec) -> None:
        """As a new process with that configuration."""
        self._project = project
        lane = InProcessLane()
        self._running = Running(project, lane, 2, self._tally.listen, clock=lambda: NOW, pace=self._pace)

    def run(self) -> RunReport | None:
        """One pass; None if the runner died in it."""
        self._tally.passes += 1
        try:
            return self._running.once(self._project.pipelines)
        except InjectedFailure:
            self.restart(self._project)
            return None

    def bring_everything(self) -> None:
        """A pass that must succeed; again if the storage itself did not answer."""
        for _ in range(TRIES):
            report = self.run()
            if report is not None and report.ok:
                return
            if report is None or any(source.exit_code not in RUN_AGAIN for source in report.sources):
                break
        raise NotExactlyOnce([f"a pass to which nothing happened did not succeed: {report}"])


class Evidence:
    """What must be in a table, and the two ways to look at what is."""

    def __init__(self, place: Location, chance: random.Random, tally: Tally) -> None:
        self.table = Location(f"{place.uri}/table", place.options)
        self.arrivals = Arrivals(open_store(Location(f"{place.uri}/source", place.options)), chance)
        self._follower = Follower(open_store(self.table))
        self._tally = tally

    @property
    def table_exists(self) -> bool:
        """Whether anything was committed."""
        self.look()
        return self._follower.version > 0

    def look(self) -> None:
        """Let the streaming reader catch up; no row may come twice, at no moment."""
        before = self._follower.positions
        self._follower.catch_up()
        self._tally.commits += self._follower.positions - before
        if self._follower.doubled:
            self._tell([], sorted(self._follower.doubled))

    def compare(self) -> None:
        """Both readers have exactly what arrived."""
        self.look()
        self._tally.comparisons += 1
        rows = query(self.table, "select id from t") if self._follower.version else []
        for found in (Counter(row["id"] for row in rows), self._follower.seen):
            missing, surplus = difference(found, self.arrivals)
            if missing or surplus:
                self._tell(missing, surplus)
        self._compare_letters()

    def _compare_letters(self) -> None:
        """Every line that is no record is one dead letter."""
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

    def close(self) -> None:
        """Count what was in the table."""
        self._tally.files += self.arrivals.files
        self._tally.rows += len(self.arrivals.expected)
        self._tally.letters += len(self.arrivals.bad)

    def _tell(self, missing: list[int], surplus: list[int]) -> None:
        self._tally.lost, self._tally.doubled = len(missing), len(surplus)
        versions = self._follower.versions
        raise NotExactlyOnce(
            [
                *explained("missing", missing, self.arrivals, versions),
                *explained("doubled", surplus, self.arrivals, versions),
                f"the table is kept at {self.table.uri}",
            ]
        )


class Round:
    """A scratch table below ``place`` and what happens to it; ``seed`` decides everything."""

    def __init__(self, place: Location, seed: str, faults: Faults, tally: Tally) -> None:
        self._chance = random.Random(seed)
        self._place, self._faults, self._tally = place, faults, tally
        self._evidence = Evidence(place, self._chance, tally)
        self._filtered = self._chance.random() < 0.5
        self._checkpoint_every = self._chance.choice((1, 2, 5))
        self._columns = 0
        project = self._project()
        self._runners = [Runner(project, tally, timedelta(0)), Runner(project, tally, timedelta(hours=1))]

    def play(self, failures: int, over: Callable[[], bool]) -> None:
        """Go on until so many failures were injected, or it is over; raises :class:`NotExactlyOnce`."""
        self._tally.rounds += 1
        wanted = self._tally.injected + failures
        if self._filtered:
            self._start_cold()
        self._evidence.arrivals.arrive(1)
        passes = 0
        while self._tally.injected < wanted and not over():
            self._unlucky_pass()
            self._evidence.look()
            passes += 1
            if passes % PASSES_PER_COMPARISON == 0:
                self._settle()
        self._settle()
        self._evidence.close()

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

    def _unlucky_pass(self) -> None:
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
        """What happens in the middle of a pass: often nothing, at most two things."""
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
        """The other runner makes a pass, which may fail as well."""
        self._tally.happened["rival"] += 1
        ways = some_ways(self._chance) if self._chance.random() < 0.5 else {}
        with self._faults.turn(ways):
            self._pass(other)

    def _append(self) -> None:
        if self._evidence.table_exists:
            import pyarrow as pa

            from tidegate.state.strangers import append_rows

            ids = self._evidence.arrivals.foreign(self._chance.randint(1, 3))
            with self._faults.turn({}):
                append_rows(self._evidence.table, pa.table({"id": ids, "text": ["foreign"] * len(ids)}))
            self._tally.happened["append"] += 1

    def _compact(self) -> None:
        if self._evidence.table_exists:
            from tidegate.state.strangers import compact

            with self._faults.turn({}):
                compact(self._evidence.table)
            self._tally.happened["optimize"] += 1

    def _pass(self, runner: Runner) -> None:
        """One pass; whatever ends it must be one of our failures."""
        report = runner.run()
        for source in () if report is None else report.sources:
            if source.failed or (source.error and source.exit_code not in RUN_AGAIN):
                raise NotExactlyOnce([f"a pass failed without a reason: {source.error or source.failed}"])

    def _settle(self) -> None:
        """A pass to which nothing happens brings everything; then both readers compare."""
        self._runners[0].bring_everything()
        self._evidence.compare()
