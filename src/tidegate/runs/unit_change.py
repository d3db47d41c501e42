"""How a group of work units gets into the table: appended, or by one statement that replaces what was there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.core.units.plan import UnitPlan, WorkUnit
from tidegate.errors import StorageError
from tidegate.protocol.change import Change, DataFile, State
from tidegate.protocol.position import Position
from tidegate.protocol.work_areas import new_work_area, remove_work
from tidegate.runs.engine import Engine
from tidegate.runs.unit_source import UnitBound
from tidegate.sink.unit_task import ReplacedUnit
from tidegate.sources.units.work import UnitFailure, UnitWave, UnitWork, UnitWritten
from tidegate.specs.locations import Location
from tidegate.specs.masking import Mask
from tidegate.specs.project import Evolution
from tidegate.specs.units import Replace

if TYPE_CHECKING:
    import pyarrow as pa


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
