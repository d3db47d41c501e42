"""A table with a source of numbered records: what the tests of the commit protocol act on.

Record ``n`` of a source is the row ``id = n``; the state ``{"next": n}`` says that the records below ``n`` are in.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import CommitLost
from tidegate.observe.events import Event
from tidegate.protocol.change import Change, Coverage, DataFile, Identity, NextState, SourceKey, Written, write_files
from tidegate.protocol.dead_letters import KIND, DeadLetterTable, debt
from tidegate.protocol.delta import DeltaLakeTable
from tidegate.protocol.position import Pace, Position, TableContext
from tidegate.protocol.store import PositionStore, open_delta
from tidegate.schema.dead_letter import Letter, letter_rows
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri, split_uri
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store

SCHEMA = pa.schema([("id", pa.int64()), ("source", pa.string())])
IDENTITY = Identity("path", "file:///landing/events", None)


@dataclass
class Lake:
    """One table's place; every call to ``positions`` is like a new process."""

    location: Location
    events: list[Event] = field(default_factory=list)

    @classmethod
    def local(cls, path: Path) -> Lake:
        return cls(Location(absolute_uri(str(path), Path("/"))))

    @property
    def store(self) -> ObjectStore:
        return open_store(self.location)

    @property
    def path(self) -> Path:
        return Path("/" + split_uri(self.location.uri)[2])

    def table(self) -> Any:
        """The table as the Delta library sees it."""
        from deltalake import DeltaTable

        return DeltaTable(self.location.uri, storage_options=dict(self.location.options))

    def positions(self, source: str = "s", **settings: Any) -> PositionStore:
        store = self.store
        defaults: dict[str, Any] = {
            "identity": IDENTITY,
            "delta": open_delta(self.location, store),
            "checkpoint_every": 0,
            "emit": self.events.append,
        }
        given = defaults | settings
        pace = Pace(deadline_secs=given.pop("deadline_secs", 20.0))
        return PositionStore(TableContext(SourceKey("p", source), store=store, **{"pace": pace} | given))

    def letters(self) -> DeadLetterTable:
        """The dead-letter table beside it."""
        location = replace(self.location, uri=f"{self.location.uri}_dead_letters")
        store = open_store(location)
        return DeadLetterTable(store, open_delta(location, store))

    def letter_payers(self) -> dict[str, Any]:
        return {KIND: self.letters().pay}

    def letter_debt(self, text: str) -> dict[str, Any]:
        """One letter, written and owed."""
        letter = Letter("id", "record", "p", "s", datetime(2026, 1, 28, tzinfo=UTC), "run", file="f", line=1, text=text)
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_batches([letter_rows([letter])]), sink)
        path = f"{uuid4()}.parquet"
        table = self.letters()
        open_store(replace(self.location, uri=table.uri)).put(path, sink.getvalue())
        return debt(table.uri, [DataFile(path, len(sink.getvalue()), 1, {})])

    def change(self, start: int, end: int, source: str = "s", **more: Any) -> Change:
        """Records ``start <= n < end`` in a data file of their own."""
        values = {"id": list(range(start, end)), "source": [source] * (end - start)}
        extra = more.pop("columns", {})
        schema = more.pop("schema", None) or SCHEMA
        keys = more.pop("partition_columns", ())
        table = pa.table({**values, **extra}, schema=schema)
        state = {"next": end}
        files = (self.data_file(table),) if end > start else ()
        coverage = tuple(Coverage(f"file-{number}", 10, None, 0, 1, True) for number in range(start, end))
        return Change(NextState.of(state), write_files([Written(schema, keys, files)]), coverage, **more)

    def data_file(self, table: pa.Table, prefix: str = "", **values: str | None) -> DataFile:
        sink = io.BytesIO()
        pq.write_table(table, sink)
        path = f"{prefix}{uuid4()}.parquet"
        self.store.put(path, sink.getvalue())
        return DataFile(path, len(sink.getvalue()), table.num_rows, values)

    def ids(self, source: str = "s") -> list[int]:
        """The rows of one source, as they are in the table."""
        reader = self.table().scan(columns=["id", "source"])
        table = pa.table(reader)
        return sorted(row["id"] for row in table.to_pylist() if row["source"] == source)

    def log(self, version: int) -> list[dict[str, Any]]:
        """The actions of one log entry."""
        content = self.store.get(f"_delta_log/{version:020d}.json")
        return [json.loads(line) for line in content.splitlines()]


def following(opened: Position) -> int:
    """The first record that is not in the table yet."""
    return 0 if opened.state is None else int(opened.state["next"])


def ingest(lake: Lake, positions: PositionStore, records: int, batch: int = 1, source: str = "s") -> int:
    """Run the source until all its records are in; gives the number of lost commits."""
    lost = 0
    opened = positions.open()
    while (start := following(opened)) < records:
        change = lake.change(start, min(start + batch, records), source)
        try:
            opened = positions.commit(opened, change)
        except CommitLost:
            lost += 1
            opened = positions.open()
    return lost


class Unlucky(DeltaLakeTable):
    """The real table behind a bad line: each of ``troubles`` befalls one commit, in order.

    ``lost``: the commit is durable and the call raises; ``refused``: it raises and nothing happened.
    """

    def __init__(self, location: Location, store: ObjectStore, troubles: list[str]) -> None:
        super().__init__(location, store)
        self.troubles = troubles
        self.sent = 0

    def create(self, *args: Any) -> None:
        self._suffer(super().create, *args)

    def append(self, *args: Any) -> None:
        self._suffer(super().append, *args)

    def _suffer(self, act: Any, *args: Any) -> None:
        self.sent += 1
        trouble = self.troubles.pop(0) if self.troubles else ""
        if trouble != "refused":
            act(*args)
        if trouble:
            raise OSError("connection reset by peer")
