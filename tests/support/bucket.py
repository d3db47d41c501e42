"""A pipeline whose source and table lie on one server of objects, whichever that is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from support.lake import FIELDS, assert_same
from tidegate.protocol.delta import query
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store

WORKER = Path(__file__).parents[1] / "faults" / "worker.py"


class Server(Protocol):
    """What test servers of objects have in common."""

    def location(self, path: str = "") -> Location:
        """A place that nobody has used."""


class Bucket:
    """A pipeline whose source and table lie in one bucket."""

    def __init__(self, server: Server, folder: Path, **source: object) -> None:
        self.source = server.location(f"source-{uuid4()}")
        self.table = server.location(f"table-{uuid4()}")
        self.store = open_store(self.source)
        self.expected: list[int] = []
        self.config = folder / "bucket.yml"
        options = dict(self.source.options)
        pipeline = {
            "source": {"source_uri": self.source.uri, "use_watermark": True, "storage_options": options} | source,
            "schema": {"fields": FIELDS},
            "sink": {"table_uri": self.table.uri, "storage_options": options},
        }
        self.config.write_text(json.dumps({"pipelines": {"events": pipeline}}))

    def arrive(self, path: str, records: int = 10) -> None:
        ids = range(len(self.expected), len(self.expected) + records)
        self.store.put(path, "".join(json.dumps({"id": number}) + "\n" for number in ids).encode())
        self.expected += ids

    def assert_exactly_once(self) -> None:
        found = query(Location(self.table.uri, self.table.options), "select id from t")
        assert_same((row["id"] for row in found), self.expected)
