"""The examples of work units: their configurations, their server, and lanes that run them without Spark."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from servers import postgres as postgres_server
from support.unit_lake import InProcessUnitEngine, day
from tidegate import SourceReport, load
from tidegate.cli.invocation import Invocation
from tidegate.cli.main import cli
from tidegate.observe.events import Event
from tidegate.protocol.delta import query
from tidegate.runs.engine import Engine
from tidegate.runs.loop import Loop
from tidegate.sources.units.work import UnitWave, WaveResult
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri

EXAMPLES = Path(__file__).parents[2] / "examples"


def script() -> ModuleType:
    """``examples/work_units/server.py``."""
    spec = importlib.util.spec_from_file_location("example_server", EXAMPLES / "work_units" / "server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SERVER = script()


@dataclass
class ExampleRuns:
    """One configuration, copied to a folder of its own, and what its server was asked."""

    config: Path
    example: Any = None
    lane: Engine | None = None
    seen: list[Event] = field(default_factory=list)

    def ran(self, pipeline: str, now: str) -> SourceReport:
        """One pass over a pipeline at this moment, without Spark unless the lane is one of it."""
        project = load(self.config)
        (wanted,) = [each for each in project.pipelines if each.name == pipeline]
        running = Loop(project, self.lane or InProcessUnitEngine(), 1, self.seen.append, clock=lambda: day(now))
        (source,) = running.once((wanted,)).sources
        assert source.error is None, source
        return source

    def said(self, arguments: str) -> str:
        """What a command prints, as the guide shows it: with the ports of the examples, in a folder of its own."""
        folder, name = self.config.parent, self.config.name
        words = [str(self.config) if each == name else each for each in arguments.split()]
        result = CliRunner().invoke(cli, words, prog_name="tidegate", obj=Invocation())
        assert result.exit_code == 0, result.output
        shown = result.stdout.replace(str(folder), "/home/me/examples").strip("\n")
        shown = re.sub(r"(jdbc:postgresql:.*127\.0\.0\.1):\d+", r"\1:5432", shown)
        return f"$ tidegate {arguments}\n" + re.sub(r"(http://127\.0\.0\.1):\d+", r"\1:8071", shown)

    def table(self, name: str) -> Path:
        """Where a table of the example is."""
        return self.config.parent / "lake" / name

    def save(self, name: str, rows: list[dict[str, Any]]) -> None:
        """A table as the pipeline before, which needs Spark, leaves it."""
        write_deltalake(str(self.table(name)), pa.Table.from_pylist(rows), mode="overwrite")

    def rows(self, name: str, question: str) -> list[tuple[Any, ...]]:
        """What SQL says about a table, which it calls ``t``."""
        found = query(Location(absolute_uri(str(self.table(name)), self.config.parent)), question)
        return [tuple(each.values()) for each in found]

    def asked(self) -> list[str]:
        """What the server was asked since the last look, sorted: files by name, responses as ``survey since until``."""
        found = set()
        for request in self.example.asked:
            address = urlsplit(request)
            kind, name = [*address.path.split("/"), ""][1:3]
            params = parse_qs(address.query)
            bounds = [f" {params[each][0][:10]}" for each in ("since", "until") if each in params]
            found.add((name or kind) + "".join(bounds))
        self.example.asked.clear()
        return sorted(found)


def copied(name: str, folder: Path) -> Path:
    """A configuration of the examples, where its tables may be made."""
    return Path(shutil.copy(EXAMPLES / name, folder))


@contextmanager
def serving(config: Path, monkeypatch: pytest.MonkeyPatch, **given: Any) -> Iterator[ExampleRuns]:
    """The example with its server, which ends with the block."""
    example = SERVER.Example(**given)
    server = SERVER.serving(example)
    monkeypatch.setenv("SURVEYS_PORT", str(server.server_port))
    monkeypatch.setenv("SURVEYS_TOKEN", SERVER.TOKEN)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield ExampleRuns(config, example)
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def warehouse(
    server: postgres_server.Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """The database of the example, with sales up to the 14th of January, and the environment that says where it is."""
    monkeypatch.setenv("WAREHOUSE_PORT", str(server.port))
    monkeypatch.setenv("WAREHOUSE_PASSWORD", "only-an-example")
    statements = (EXAMPLES / "work_units" / "warehouse.sql").read_text()
    with server.connect() as others:
        others.execute("create database warehouse")
        try:
            with server.connect("warehouse") as connection:
                connection.execute(statements.replace("now()", "timestamptz '2026-01-15Z'").encode())
                yield connection
        finally:
            others.execute("drop database warehouse with (force)")
            others.execute("drop role if exists reader")


class DatabaseLane(InProcessUnitEngine):
    """Notes the ranges that the database is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def carry_out(self, wave: UnitWave) -> WaveResult:
        for work in wave.works:
            for segment in work.segments:
                low, high = (f"{datetime.fromtimestamp(each / 1000, UTC):%Y-%m-%d}" for each in segment)
                self.asked.append(f"{work.unit} {low} {high}")
        return super().carry_out(wave)
