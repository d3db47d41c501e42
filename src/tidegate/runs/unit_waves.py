"""Waves of work units: what is read and committed together, what became of each, and how it gets into the table.

A wave is as large as can be read in the time that a group has, by how long the waves before took. Units of which rows
may be in the table and units of which none are do not share one: they are committed in different ways. Units that fail
come last, so that they hold up no other when the breaker opens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.core.calendar import milliseconds, shifted, zone_named
from tidegate.core.units.plan import UnitPlan, WorkUnit
from tidegate.errors import StorageError
from tidegate.protocol.change import Change, DataFile, State
from tidegate.protocol.follow_ups import new_work_area, remove_work
from tidegate.protocol.position import Position
from tidegate.runs.bound_source import UnitBound
from tidegate.runs.engine import Engine
from tidegate.sink.unit_task import ReplacedUnit
from tidegate.sources.units.work import UnitFailure, UnitWave, UnitWork, UnitWritten
from tidegate.specs.locations import Location
from tidegate.specs.masking import Mask
from tidegate.specs.project import Evolution
from tidegate.specs.units import NotFound, Replace, Span, UnitSource

if TYPE_CHECKING:
    import pyarrow as pa


FIRST = 8
GROWTH = 8


class Waves:
    """Gives the next wave; :meth:`took` tells it how long one took. ``failing`` are units, and more may be added."""

    def __init__(
        self,
        works: Iterable[WorkUnit],
        most: int,
        seconds: float,
        first: int = FIRST,
        failing: Collection[str] = (),
    ) -> None:
        self._works = _failing_last(works, failing)
        self._most = most
        self._seconds = seconds
        self._size = min(first, most)
        self._waiting: dict[bool, deque[WorkUnit]] = {False: deque(), True: deque()}

    def next(self, at_most: int | None = None) -> tuple[WorkUnit, ...]:
        """The next work units; none at the end."""
        size = max(1, min(self._size, at_most or self._size))
        fuller = self._fuller(size)
        return tuple(fuller.popleft() for _ in range(min(size, len(fuller))))

    def took(self, units: int, seconds: float) -> None:
        """The next wave is as large as fits into the time, and not much larger than this one."""
        fits = self._most if seconds <= 0 else int(units * self._seconds / seconds)
        self._size = max(1, min(self._most, fits, units * GROWTH))

    def left(self) -> int:
        """How many were not given; none can be given afterwards."""
        waiting = sum(map(len, self._waiting.values()))
        return waiting + sum(1 for _ in self._works)

    def _fuller(self, size: int) -> deque[WorkUnit]:
        for work in self._works:
            waiting = self._waiting[work.replaces]
            waiting.append(work)
            if len(waiting) >= size:
                return waiting
        return max(self._waiting.values(), key=len)


def _failing_last(works: Iterable[WorkUnit], failing: Collection[str]) -> Iterator[WorkUnit]:
    """Work units in their order, but those of failing units behind all others, who failed less first."""
    put_off = []
    for work in works:
        if work.unit in failing:
            put_off.append(work)
        else:
            yield work
    yield from sorted(put_off, key=lambda work: work.failures)


class Breaker:
    """Opens after so many failures in a row: then nothing more is asked of that server in this run."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._streak = 0

    @property
    def is_open(self) -> bool:
        """Whether the rest is left for the next run."""
        return bool(self._limit) and self._streak >= self._limit

    @property
    def left(self) -> int | None:
        """How many more may fail before it opens; None while nothing fails."""
        return self._limit - self._streak if self._limit and self._streak else None

    def begin(self) -> None:
        """Another source begins: where it is open, one more failure is enough, and a success closes it."""
        if self.is_open:
            self._streak = self._limit - 1

    def note(self, *, failed: bool) -> None:
        """Count one work unit."""
        self._streak = self._streak + 1 if failed else 0


@dataclass(slots=True)
class Outcomes:
    """``done`` with what was written, ``failed`` and ``thin`` with the reason, ``retired`` units with theirs."""

    done: list[tuple[WorkUnit, UnitWritten]] = field(default_factory=list)
    failed: list[tuple[WorkUnit, str]] = field(default_factory=list)
    thin: list[tuple[WorkUnit, str]] = field(default_factory=list)
    retired: dict[str, str] = field(default_factory=dict)
    retired_works: list[tuple[WorkUnit, str]] = field(default_factory=list)


def sorted_out(
    source: UnitSource, works: Sequence[WorkUnit], results: Sequence[UnitWritten | UnitFailure], now: datetime
) -> Outcomes:
    """Each work unit to where it belongs."""
    found = Outcomes()
    for work, result in zip(works, results, strict=True):
        if isinstance(result, UnitFailure):
            _refused(source, work, result, found)
        elif result.rows < source.work.min_records:
            _thin(source, work, result.rows, now, found)
        else:
            found.done.append((work, result))
    return found


def _refused(source: UnitSource, work: WorkUnit, result: UnitFailure, found: Outcomes) -> None:
    reason = f"{result.problem}; {result.remedy}" if result.remedy else result.problem
    if not result.not_found or source.work.not_found is NotFound.FAIL:
        found.failed.append((work, reason))
    elif source.work.not_found is NotFound.EMPTY:
        found.done.append((work, UnitWritten()))
    else:
        found.retired[work.unit] = reason
        found.retired_works.append((work, reason))


def _thin(source: UnitSource, work: WorkUnit, rows: int, now: datetime, found: Outcomes) -> None:
    """Fewer rows than there must be: a failure, unless the partition may still be incomplete."""
    reason = f"{rows:,} rows, and min_records is {source.work.min_records:,}"
    after = source.work.min_records_after
    if after is None:
        found.failed.append((work, reason))
    elif work.nominal_end is None or _deadline(work.nominal_end, after, source) > milliseconds(now):
        found.thin.append((work, f"{reason}; it may still be incomplete (min_records_after)"))
    else:
        found.failed.append((work, f"{reason}, and its time is over (min_records_after)"))


def _deadline(end: int, after: Span, source: UnitSource) -> int:
    return shifted(end, zone_named(source.timezone), later=after)


@dataclass(frozen=True, slots=True)
class UnitGroup:
    """What a wave brought, in its order; ``straight``: its files are in the table's folder already."""

    results: tuple[UnitWritten | UnitFailure, ...]
    columns: pa.Schema | None
    partition_columns: tuple[str, ...]
    straight: bool


class UnitChange:
    """One group on its way into the table; :meth:`clean` takes away what no commit refers to."""

    def __init__(self, source: UnitBound, engine: Engine, opened: Position, plan: UnitPlan) -> None:
        self._source = source
        self._engine = engine
        self._opened = opened
        self._plan = plan
        self._area = new_work_area(source.key, source.pipeline.sink.table)
        self._owed = False

    def read(self, wave: Sequence[WorkUnit], works: Sequence[UnitWork]) -> UnitGroup:
        """Read and write the work units; nothing of it is visible yet."""
        straight = self._is_straight(wave)
        done = self._engine.carry_out(
            UnitWave(
                pipeline=self._source.pipeline,
                source=self._source.source,
                works=tuple(works),
                scratch=self._below("fetched"),
                now=self._plan.now,
                place=None if straight else self._below("rows"),
                table=self._opened.schema() if self._source.pipeline.transform is None else None,
            )
        )
        mask = Mask.around(self._source.pipeline, [each.secrets for each in works])
        return UnitGroup(mask.deep(done.results), done.columns, done.partition_columns, straight)

    def prepared(self, group: UnitGroup, done: Sequence[tuple[WorkUnit, UnitWritten]], state: State) -> Change | None:
        """The change that makes ``done`` visible; None where there is no table and nothing says how to make one."""
        opened = self._opened
        files = tuple(file for _, written in done for file in written.data_files)
        rows = sum(written.rows for _, written in done)
        columns = group.columns or opened.schema() or self._bare()
        if columns is None:
            return None
        by_keys = self._source.source.replace is Replace.MERGE_KEYS
        replaced = [_replaced(work) for work, _ in done if work.replaces and not by_keys]
        if group.straight or not (files or replaced):
            return Change(
                state=state,
                embedded=state,
                data_files=files,
                rows=rows,
                schema=columns if files or opened.table_id is None else None,
                partition_columns=group.partition_columns,
            )
        return self._framed(group, files, rows, columns, replaced, state)

    def _bare(self) -> pa.Schema | None:
        """The columns of a table that has no rows yet and gets others with the first; None where it cannot get any."""
        import pyarrow as pa

        from tidegate.sink.unit_task import own_columns

        pipeline = self._source.pipeline
        grows = pipeline.schema.evolution is not Evolution.STRICT and pipeline.sink.partition_by is None
        own = own_columns(self._source.source, ()) if grows else []
        return pa.schema(own) if own else None

    def _framed(
        self,
        group: UnitGroup,
        files: Sequence[DataFile],
        rows: int,
        columns: pa.Schema,
        replaced: Sequence[ReplacedUnit],
        state: State,
    ) -> Change:
        from tidegate.sink.row_task import Batch

        opened, source = self._opened, self._source
        is_transformed = bool(files) and source.pipeline.transform is not None
        batch = Batch(
            source.pipeline if is_transformed else replace(source.pipeline, transform=None),
            source.source.rows,
            self._below("rows"),
            tuple(file.path for file in files),
            columns,
            rows,
            group.partition_columns,
            tuple(file.size for file in files),
        )
        frame = self._engine.replace_units(batch, source.source, replaced)
        self._owed = True
        return Change(
            state=state,
            embedded=state,
            rows=rows,
            rows_known=True,
            frame=frame,
            schema=frame.columns(opened.schema()),
            partition_columns=group.partition_columns if opened.table_id is None else opened.partition_columns,
            debts=(self._area.debt(),),
        )

    def clean(self) -> None:
        """Take the work area away, unless a commit owes that."""
        if not self._owed:
            with suppress(StorageError):
                remove_work(self._source.table_store, self._area.directory)

    def _is_straight(self, wave: Sequence[WorkUnit]) -> bool:
        """Whether files are written straight into the table's folder: nothing is replaced, the Arrow lane commits."""
        pipeline, source = self._source.pipeline, self._source.source
        plain = pipeline.transform is None and source.replace is not Replace.MERGE_KEYS
        return plain and not self._opened.needs_frames and not any(work.replaces for work in wave)

    def _below(self, name: str) -> Location:
        return replace(self._area.location, uri=f"{self._area.location.uri}/{name}")


def _replaced(work: WorkUnit) -> ReplacedUnit:
    return ReplacedUnit(work.unit, work.low, work.high)
