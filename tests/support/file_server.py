"""A server with one more file each day, and a pipeline whose address names the file but not the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servers.api import Answer, Api
from support.lake import write_config
from support.unit_lake import InProcessUnitEngine, day
from tidegate import RunReport, load, plan
from tidegate.observe import events
from tidegate.protocol.delta import query
from tidegate.reports.plan import UnitSourcePlan
from tidegate.runs.engine import Engine
from tidegate.runs.loop import Loop
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri


@dataclass
class FileServer:
    """Pipeline ``visits`` of the files that the server has: from the 15th on one more each day, of two rows each."""

    root: Path
    api: Api
    keys: Mapping[str, Any] = field(default_factory=dict)
    begin: str = "2020-01-01"
    engine: Callable[[], Engine] = InProcessUnitEngine
    files: list[str] = field(default_factory=list)

    def config(self, **keys: Any) -> Path:
        """The configuration of today, with other keys of the source."""
        source = {
            "type": "download",
            "connection": "server",
            "path": "/files/{{file}}",
            "format": "csv",
            "watermark": [
                {"name": "system", "type": "datetime", "range": {"from": self.begin, "to": "P0D"}},
                {"name": "file", "type": "unit", "units": self.files or ["none"]},
            ],
            **self.keys,
            **keys,
        }
        source = {key: value for key, value in source.items() if value is not None}
        pipeline = {
            "source": source,
            "schema": {"fields": [{"name": "hour", "type": "int32"}, {"name": "visits", "type": "int64"}]},
            "sink": {"table_uri": "lake/visits"},
        }
        connections = {"server": {"type": "http", "url": self.api.url, "retries": {"attempts": 0}}}
        body = {"connections": connections, "pipelines": {"visits": pipeline}}
        return write_config(self.root / "tidegate.yml", body)

    def add(self, name: str, rows: int = 2) -> None:
        """A file at the server; one of that name is overwritten."""
        content = "hour,visits\n" + "".join(f"{hour},{hour + 1}\n" for hour in range(rows))
        self.api.routes[f"/files/{name}"] = lambda _: Answer(content.encode(), kind="text/csv")
        self.files = sorted({*self.files, name})

    def run(
        self,
        date: str,
        *,
        tell: Callable[[str], object] = len,
        accept_new_partitions: bool = False,
        **keys: Any,
    ) -> RunReport:
        """One pass on a day of January 2020, or on any date; ``tell`` gets its notices."""
        project = load(self.config(**keys))
        now = day(f"01-{date}" if len(date) == 2 else date)

        def emit(event: events.Event) -> None:
            if isinstance(event, events.Notice):
                tell(event.text)

        loop = Loop(project, self.engine(), 1, emit, clock=lambda: now, accept_new_partitions=accept_new_partitions)
        return loop.once(project.pipelines)

    def live(self, *dates: str) -> list[int]:
        """On each day one more file and a run; how many rows each run read."""
        read = []
        for date in dates:
            self.add(f"f{date}.csv")
            report = self.run(date)
            assert report.ok, report
            read.append(report.sources[0].rows)
        return read

    def planned(self, date: str, **keys: Any) -> UnitSourcePlan:
        (found,) = plan(self.config(**keys), now=day(f"01-{date}"))
        assert isinstance(found, UnitSourcePlan)
        return found

    def rows(self) -> dict[str, int]:
        """How many rows the table has of each file."""
        found = query(Location(absolute_uri("lake/visits", self.root)), "select _tidegate_unit from t")
        return dict(Counter(row["_tidegate_unit"] for row in found))
