"""A pipeline whose source and table lie on an S3 server behind a bad line; what tests write and read goes around it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servers.fault_proxy import FaultProxy, Faults
from servers.s3 import Server
from support.lake import FIELDS, assert_same, write_config
from tidegate import RunReport, load
from tidegate.observe.events import Event
from tidegate.protocol.change import SourceKey
from tidegate.protocol.delta import query
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store

KEY = SourceKey("events", "default")
PATIENCE = {"max_retries": "1", "retry_timeout": "5s", "timeout": "3s", "connect_timeout": "2s"}
"""Clients give up soon, so that tests see failures that users meet after minutes."""


@dataclass
class S3Lake:
    """One pipeline ``events``. Runs reach ``source`` and ``table`` by the proxy, ``files`` and ``objects`` directly."""

    server: Server
    proxy: FaultProxy
    folder: Path
    sink_settings: Mapping[str, Any] = field(default_factory=dict)
    deadline_secs: int = 1
    patience: Mapping[str, str] = field(default_factory=lambda: PATIENCE)
    expected: list[int] = field(default_factory=list)
    seen: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = self.server.location("lake")
        self.source = Location(f"{self.root.uri}/source", self.server.options)
        self.table = Location(f"{self.root.uri}/table", self.server.options)
        self.files, self.objects = open_store(self.source), open_store(self.table)

    @property
    def faults(self) -> Faults:
        return self.proxy.faults

    @property
    def config(self) -> Path:
        options = dict(self.proxy.options(**self.patience))
        pipeline = {
            "source": {"source_uri": self.source.uri, "use_watermark": True, "storage_options": options},
            "schema": {"fields": FIELDS},
            "sink": {"table_uri": self.table.uri, "storage_options": options, **self.sink_settings},
        }
        path = self.folder / "s3.yml"
        body = {"pipelines": {"events": pipeline}, "global": {"commit_deadline_secs": self.deadline_secs}}
        return write_config(path, body)

    def arrive(self, path: str, records: int = 5, **extra: object) -> None:
        """A file of ``records`` records; ids are counted up over all files."""
        ids = range(len(self.expected), len(self.expected) + records)
        text = "".join(json.dumps({"id": number, **extra}) + "\n" for number in ids)
        self.files.put(f"date=2026-01-28/{path}", text.encode())
        self.expected += ids

    def running(self) -> Loop:
        """A process of its own, as far as what it knows is concerned."""
        return Loop(load(self.config), InProcessEngine(), 2, self.seen.append)

    def run(self, running: Loop | None = None) -> RunReport:
        """One pass in this process, without Spark."""
        running = running or self.running()
        return running.once(running.project.pipelines)

    def ids(self) -> list[int]:
        if not any(True for _ in self.objects.list("_delta_log")):
            return []
        return [row["id"] for row in query(self.table, "select id from t")]

    def assert_nothing_doubled(self) -> None:
        """Every row is one that arrived, and there once; some may still be missing."""
        found = self.ids()
        assert len(found) == len(set(found)), f"doubled: {sorted(found)[:20]}"
        assert set(found) <= set(self.expected)

    def assert_exactly_once(self) -> None:
        assert_same(self.ids(), self.expected)
