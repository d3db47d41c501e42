"""One table of a real PostgreSQL database, and a pipeline that follows it; runs and replays of it on Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servers import postgres as postgres_server
from tidegate import ColumnReplayReport, SourceReport, replay_range, run
from tidegate.observe.events import Event, Notice
from tidegate.protocol.delta import query
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri


def from_parquet(session: Any, request: Any) -> Any:
    """A source that is a function: the rows of a folder that the environment names."""
    return session.read.parquet(os.environ["TIDEGATE_TEST_ROWS"])


@dataclass
class Shop:
    """A database with the table ``orders``, which has these columns, and the pipeline ``orders`` in ``folder``."""

    server: postgres_server.Server
    folder: Path
    columns: str
    source: Mapping[str, Any] = field(default_factory=dict)
    sink: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    seen: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.database = self.server.new_database()
        self.execute(f"create table orders ({self.columns})")

    @property
    def config(self) -> Path:
        """The configuration file, written anew each time."""
        connection = {
            "type": "jdbc",
            "url": self.server.jdbc_url(self.database),
            "user": postgres_server.USER,
            "password": postgres_server.PASSWORD,
        }
        pipeline = {
            "source": {"connection": "shop", "table": "orders", **self.source},
            "sink": {"table_uri": "lake/orders", **self.sink},
            **self.more,
        }
        path = self.folder / "tidegate.yml"
        path.write_text(json.dumps({"connections": {"shop": connection}, "pipelines": {"orders": pipeline}}) + "\n")
        return path

    def execute(self, statement: str) -> None:
        """Carry out statements in the database."""
        with self.server.connect(self.database) as connection:
            connection.execute(statement.encode())

    def run(self) -> SourceReport:
        """One run; what was told is in ``seen``."""
        self.seen.clear()
        (source,) = run(self.config, emit=self.seen.append).sources
        return source

    def go(self) -> int:
        """One run that must go well; how many rows."""
        report = self.run()
        assert report.error is None, report.error
        return report.rows

    def refused(self) -> str:
        """Why a run stops, which commits nothing."""
        report = self.run()
        assert report.error is not None
        assert report.commits == 0
        return report.error

    def replay(self, start: str, end: str, **options: Any) -> ColumnReplayReport:
        """A replay of a range."""
        return replay_range(self.config, "orders", start=start, end=end, **options)

    def notices(self) -> str:
        """What the last run told, on one line."""
        return " | ".join(event.text for event in self.seen if isinstance(event, Notice))

    def rows(self, columns: str = "*") -> list[dict[str, Any]]:
        """What the table holds, by ``id``."""
        return query(Location(absolute_uri("lake/orders", self.folder)), f"select {columns} from t order by id")

    def ids(self) -> list[int]:
        """The numbers of the rows that the table holds."""
        return [each["id"] for each in self.rows("id")]
