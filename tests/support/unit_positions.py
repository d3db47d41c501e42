"""A source of work units with a real table, whose runs are carried out without reading anything: no Spark."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from support.changes import moved
from tidegate.core.units.plan import UnitPlan, WorkUnit
from tidegate.core.units.planner import advance_units, plan_units
from tidegate.runs.bind import bind
from tidegate.runs.tracker import UnitBound
from tidegate.sources.units.inputs import read_units
from tidegate.specs.columns import FunctionRead
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, ProjectSpec
from tidegate.specs.table import SchemaSpec, SinkSpec
from tidegate.specs.units import PartitionKind, Span, TimeRange, TimeWatermark, UnitSource, UnitWatermark, WorkUnits

COLUMNS = pa.schema(
    [("_tidegate_unit", pa.string()), ("_tidegate_segment", pa.timestamp("us", "UTC")), ("n", pa.int64())]
)


def day(text: str) -> datetime:
    """A moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def monthly(*units: str, grace_days: int = 3, **work: object) -> UnitSource:
    """Answers to surveys by month from 2020 on, with a grace period."""
    return UnitSource(
        "surveys",
        FunctionRead("answers:read"),
        time=TimeWatermark("system", TimeRange("2020-01-01")),
        unit=UnitWatermark("surveyId", units) if units else None,
        work=WorkUnits(partition=PartitionKind.MONTHLY, **work),  # type: ignore[arg-type]
        grace=Span(grace_days),
    )


def project_of(folder: Path, source: UnitSource) -> ProjectSpec:
    """A project with this one source."""
    sink = SinkSpec(Location((folder / "lake" / "answers").as_uri()))
    return ProjectSpec("units.yml", (PipelineSpec("answers", (source,), SchemaSpec(), sink),))


@dataclass(slots=True)
class UnitLake:
    """The source of a project; ``run`` does as if everything that is planned were read."""

    project: ProjectSpec

    @property
    def place(self) -> UnitBound:
        """The source with its table."""
        pipeline = self.project.pipelines[0]
        return bind(self.project, pipeline, pipeline.sources[0])

    def planned(self, now: datetime) -> UnitPlan:
        """What would run."""
        place = self.place
        opened = place.open()
        return plan_units(
            place.pipeline.name, place.source, place.state_of(opened), read_units(place.source), opened.version, now
        )

    def run(
        self, now: datetime, *, failing: Collection[str] = (), retiring: Collection[str] = ()
    ) -> tuple[WorkUnit, ...]:
        """Carry out the plan; work units of ``failing`` fail, units of ``retiring`` are not known any more."""
        place = self.place
        opened, plan = place.open(), self.planned(now)
        works = tuple(plan.works())
        done = [work for work in works if work.unit not in (*failing, *retiring)]
        failed = [(work, "the server answered 500") for work in works if work.unit in failing]
        retired = {work.unit: "the server answered 404" for work in works if work.unit in retiring}
        state = place.tracker.encode(advance_units(place.state_of(opened), plan, done, failed, retired))
        schema = COLUMNS if opened.table_version < 0 else None
        place.positions.commit(opened, moved(state, schema))
        return works
