"""Surveys on a real server, a pipeline that reads their responses by work units, and a lane without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from servers import api as servers
from servers.api import Answer, Api, Asked
from support.column_lake import InProcessColumnEngine
from support.lake import write_config
from tidegate import ProjectSpec, RunReport, SourceReport, load
from tidegate.observe.events import Event
from tidegate.protocol.delta import DeltaLakeTable, query
from tidegate.protocol.table import CommitNote
from tidegate.runs.engine import WaitingFrame
from tidegate.runs.loop import Loop
from tidegate.specs.locations import Location
from tidegate.specs.units import UnitSource
from tidegate.storage.options import absolute_uri
from tidegate.storage.stores import open_store
from tidegate.tasks.row_task import Batch
from tidegate.tasks.unit_task import ReplacedUnit

FIELDS = [{"name": "id", "type": "int64"}, {"name": "at", "type": "timestamp"}]


def day(text: str) -> datetime:
    """A day of 2020, or any ISO time, in UTC."""
    return datetime.fromisoformat(text if text.count("-") == 2 else f"2020-{text}").replace(tzinfo=UTC)


class InProcessUnitEngine(InProcessColumnEngine):
    """Work units read in this process, and replaced by the Delta library."""

    def replace_units(self, batch: Batch, source: UnitSource, replaced: Sequence[ReplacedUnit]) -> WaitingFrame:
        return ReplacedUnits(batch, source, tuple(replaced))


@dataclass
class ReplacedUnits:
    """Rows that take the place of segments of their units."""

    batch: Batch
    source: UnitSource
    replaced: tuple[ReplacedUnit, ...]

    def columns(self, table: pa.Schema | None) -> pa.Schema:
        return self.batch.columns

    offered: ClassVar[int | None] = None

    def changes_nothing(self, table: pa.Schema) -> bool:
        return False

    def write(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        location = self.batch.pipeline.sink.table
        delta = DeltaLakeTable(location, open_store(location))
        base = delta.snapshot()
        assert base is not None, "what is not there is not replaced"
        for app, version in note.transactions.items():
            if (base.transaction_version(app) or 0) != version - 1:
                raise RuntimeError(f"{app} is not at {version - 1}")
        folder = Path(self.batch.work.uri.removeprefix("file://"))
        parts = [pq.read_table(folder / name, schema=self.batch.columns) for name in self.batch.files]
        rows = pa.concat_tables([self.batch.columns.empty_table(), *parts])
        for column in table or ():
            if column.name not in rows.column_names:
                rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
        if table is not None:
            rows = rows.select(table.names)
        delta.replace(base, " OR ".join(map(self._condition, self.replaced)), rows.to_reader(), note)

    def _condition(self, each: ReplacedUnit) -> str:
        segment, unit = self.source.segment_column, each.unit.replace("'", "''")
        low, high = (datetime.fromtimestamp(value / 1000, UTC).isoformat() for value in (each.low, each.high))
        return f"({self.source.unit_column} = '{unit}' AND {segment} >= {_moment(low)} AND {segment} < {_moment(high)})"


def _moment(text: str) -> str:
    return f"arrow_cast('{text}', 'Timestamp(Microsecond, Some(\"UTC\"))')"


@dataclass
class SurveyLake:
    """One pipeline ``responses`` in ``root``; ``records`` are what the server has, by survey.

    ``pipeline`` are further keys of it, ``wait`` seconds pass before each answer.
    """

    root: Path
    api: Api
    source_settings: Mapping[str, Any] = field(default_factory=dict)
    work_unit: Mapping[str, Any] = field(default_factory=dict)
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    seen: list[Event] = field(default_factory=list)
    units: str = "a,b,c"
    begin: str = "2020-01-01"
    transform: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] = field(default_factory=lambda: {"fields": FIELDS})
    lane: Callable[[], InProcessUnitEngine] = InProcessUnitEngine
    pipeline: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    wait: float = 0.0

    def __post_init__(self) -> None:
        for unit in self.units.split(","):
            self.records[unit] = []
            self.api.routes[f"/surveys/{unit}/responses"] = self._answer

    def _answer(self, asked: Asked) -> Answer:
        unit = asked.path.split("/")[2]
        if unit in self.broken or f"{unit}@{asked.params['since'][:10]}" in self.broken:
            return Answer({"error": "no"}, status=400)
        since, until = asked.params["since"], asked.params["until"]
        return Answer({"data": [each for each in self.records[unit] if since <= each["at"] < until]}, wait=self.wait)

    @property
    def config(self) -> Path:
        """The configuration file, written anew each time."""
        path = self.root / "tidegate.yml"
        source = {
            "connection": "surveys",
            "path": "/surveys/{{surveyId}}/responses",
            "records": "data",
            "params": {
                "since": {"watermark": "system", "bound": "low", "format": "%Y-%m-%dT%H:%M:%SZ"},
                "until": {"watermark": "system", "bound": "high", "format": "%Y-%m-%dT%H:%M:%SZ"},
            },
            "watermark": [
                {"name": "system", "type": "datetime", "range": {"from": self.begin, "to": "-"}},
                {"name": "surveyId", "type": "unit", "units": self.units},
            ],
            "work_unit": {"partition": "monthly", **self.work_unit},
            **self.source_settings,
        }
        retries = {"attempts": 0, "base_secs": 0.01}
        body = {
            "global": {"commit_deadline_secs": 20},
            "connections": {"surveys": {"type": "http", "url": self.api.url, "retries": retries}},
            "pipelines": {
                "responses": {
                    "source": source,
                    **({"schema": self.schema} if self.schema else {}),
                    **({"transform": self.transform} if self.transform else {}),
                    "sink": {"table_uri": "lake/responses"},
                    **self.pipeline,
                }
            },
            **self.settings,
        }
        return write_config(path, body)

    @property
    def project(self) -> ProjectSpec:
        """The checked configuration."""
        return load(self.config)

    def arrive(self, unit: str, *moments: str) -> None:
        """More responses at the server, each at one of these moments of 2020."""
        number = sum(map(len, self.records.values()))
        for place, moment in enumerate(moments):
            at = day(moment).strftime("%Y-%m-%dT%H:%M:%SZ")
            self.records[unit].append({"id": number + place, "at": at})

    def run(self, now: str, *, accept: bool = False) -> RunReport:
        """One pass without Spark at this moment."""
        project = self.project
        running = Loop(project, self.lane(), 1, self.seen.append, clock=lambda: day(now), accept_new_partitions=accept)
        return running.once(project.pipelines)

    def ran(self, now: str, **given: Any) -> SourceReport:
        """The same, its only source; it must be well."""
        report = self.run(now, **given)
        assert report.ok, report
        return report.sources[0]

    def asked(self) -> list[str]:
        """What the server was asked since the last look: ``unit since until``, in order of time and unit."""
        found = [
            f"{each.path.split('/')[2]} {each.params['since'][:10]} {each.params['until'][:10]}"
            for each in self.api.asked
        ]
        self.api.asked.clear()
        return sorted(found, key=lambda text: (text.split()[1], text))

    def ids(self) -> list[int]:
        """What the table holds, in order."""
        found = query(Location(absolute_uri("lake/responses", self.root)), "select id from t")
        return sorted(row["id"] for row in found)

    def assert_exactly_once(self, until: str = "9999-01-01") -> None:
        """Every response of the server before that moment is in the table once, and nothing else."""
        limit = day(until).isoformat()
        wanted = [row["id"] for rows in self.records.values() for row in rows if row["at"] < limit]
        assert Counter(self.ids()) == Counter(wanted)


@contextmanager
def survey_lake(root: Path, **given: Any) -> Iterator[SurveyLake]:
    """A lake with its server, which ends with the block."""
    with servers.running() as api:
        yield SurveyLake(root, api, **given)
