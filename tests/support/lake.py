"""A source folder, a configuration and a table in a temporary place, with what tests ask of them."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate import ProjectSpec, RunReport, load
from tidegate.observe.events import Emit, Event
from tidegate.protocol.delta import query
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri

FIELDS = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "ts", "type": "timestamp"},
    {"name": "event", "type": "string"},
]


def write_config(path: Path, body: Mapping[str, Any]) -> Path:
    """Write a configuration file whole: processes that were started together read it while others write it."""
    written = path.with_name(f"{path.name}.{os.getpid()}")
    written.write_text(json.dumps(body))
    return written.replace(path)


@dataclass
class Lake:
    """One pipeline ``events`` with one source ``default`` in ``root``; ids are counted up over all files."""

    root: Path
    source_settings: Mapping[str, Any] = field(default_factory=dict)
    sink_settings: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    pipeline_settings: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] = field(default_factory=lambda: {"fields": FIELDS})
    next_id: int = 0
    expected: list[int] = field(default_factory=list)
    seen: list[Event] = field(default_factory=list)

    @property
    def config(self) -> Path:
        """The configuration file, written anew each time."""
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "data").mkdir(exist_ok=True)
        path = self.root / "tidegate.yml"
        pipeline = {
            "source": {"source_uri": "data/", "use_watermark": True, **self.source_settings},
            "schema": dict(self.schema),
            "sink": {"table_uri": "lake/events", **self.sink_settings},
            **self.pipeline_settings,
        }
        return write_config(path, {"pipelines": {"events": pipeline}, **self.settings})

    @property
    def project(self) -> ProjectSpec:
        """The checked configuration."""
        return load(self.config)

    def arrive(self, path: str, records: int = 10, **extra: object) -> Path:
        """A file of ``records`` good records at ``path`` below the source."""
        lines = []
        for number in range(self.next_id, self.next_id + records):
            lines.append(json.dumps({"id": number, "ts": "2026-01-28T12:00:00Z", "event": "view", **extra}))
            self.expected.append(number)
        self.next_id += records
        return self.write(path, "".join(f"{line}\n" for line in lines))

    def write(self, path: str, text: str) -> Path:
        """Any text at ``path``, compressed if the name says so; visible at once."""
        target = self.root / "data" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        part.write_bytes(gzip.compress(text.encode(), mtime=0) if path.endswith(".gz") else text.encode())
        part.rename(target)
        return target

    def run(self, emit: Emit | None = None) -> RunReport:
        """One pass in this process, without Spark; events are kept in ``seen``."""
        running = Loop(self.project, InProcessEngine(), 2, emit or self.seen.append)
        return running.once(self.project.pipelines)

    @property
    def table(self) -> Location:
        """The table."""
        return Location(absolute_uri("lake/events", self.root))

    def ids(self) -> list[int]:
        """Every id in the table, sorted, repeats included."""
        if not (self.root / "lake" / "events" / "_delta_log").exists():
            return []
        return sorted(row["id"] for row in query(self.table, "select id from t"))

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Rows of the table, called ``t`` in ``sql``."""
        return query(self.table, sql)

    def assert_exactly_once(self) -> None:
        """Every record that arrived is in the table once."""
        assert_same(self.ids(), self.expected)


def assert_same(found: Iterable[int], expected: Iterable[int]) -> None:
    """Two multisets are equal; says which ids are missing or doubled."""
    have, want = Counter(found), Counter(expected)
    missing, surplus = sorted((want - have).elements()), sorted((have - want).elements())
    assert (missing, surplus) == ([], []), f"missing {missing[:10]}, surplus {surplus[:10]}"
