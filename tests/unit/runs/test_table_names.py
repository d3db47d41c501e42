"""Tables by name: found, created and registered, and refused when the name means something else than before."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tidegate
from support.errors import raises
from tidegate.commands.project import load
from tidegate.config import show
from tidegate.config.known_tables import KnownTables
from tidegate.errors import ConfigError, TableError
from tidegate.observe.events import Event
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.runs.table_names import TableNames
from tidegate.spark.catalog import CatalogEntry
from tidegate.specs.locations import Location


@dataclass
class MemoryCatalog:
    """A catalog that remembers what it is told; ``broken`` fails at registering."""

    root: Path
    tables: dict[str, CatalogEntry] = field(default_factory=dict)
    forgets: bool = False
    broken: bool = False

    def find(self, name: str) -> CatalogEntry | None:
        return self.tables.get(name)

    def place_of_new(self, name: str) -> str:
        return str(self.root / "warehouse" / name)

    def register(self, name: str, location: Location) -> None:
        if self.broken:
            raise TableError("the metastore does not respond", "run again")
        self.tables.setdefault(name, CatalogEntry(location.uri, "delta"))


@dataclass
class SlowCatalog(MemoryCatalog):
    """Does not respond about ``slow`` before it may."""

    slow: str = "shop.slow"
    asked: threading.Event = field(default_factory=threading.Event)
    may_respond: threading.Event = field(default_factory=threading.Event)

    def find(self, name: str) -> CatalogEntry | None:
        self._wait_for(name)
        return super().find(name)

    def register(self, name: str, location: Location) -> None:
        self._wait_for(name)
        super().register(name, location)

    def _wait_for(self, name: str) -> None:
        if name == self.slow:
            self.asked.set()
            assert self.may_respond.wait(30)


@dataclass
class World:
    """A folder of files, a configuration and a catalog."""

    root: Path
    catalog: MemoryCatalog
    sinks: dict[str, dict[str, str]] = field(default_factory=lambda: {"events": {"table": "shop.events"}})
    events: list[Event] = field(default_factory=list)

    @property
    def config(self) -> Path:
        schema = {"fields": [{"name": "id", "type": "int64"}]}
        pipelines = {
            name: {"source": {"source_uri": "data"}, "schema": schema, "sink": sink}
            for name, sink in self.sinks.items()
        }
        path = self.root / "shop.yml"
        path.write_text(json.dumps({"pipelines": pipelines}))
        return path

    def arrive(self, number: int) -> None:
        (self.root / "data").mkdir(exist_ok=True)
        (self.root / "data" / f"{number}.ndjson").write_text(json.dumps({"id": number}) + "\n")

    def run(self) -> tuple[int, str | None]:
        """The rows of a run over all pipelines, and the first error."""
        project = load(self.config)
        names = TableNames(project, lambda: self.catalog, self.events.append)
        report = Loop(project, InProcessEngine(), 1, self.events.append, names=names).once(project.pipelines)
        return sum(each.rows for each in report.sources), next(
            (each.error for each in report.sources if each.error), None
        )

    @property
    def known(self) -> KnownTables:
        return KnownTables(str(self.config))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, MemoryCatalog(tmp_path))
    made.arrive(1)
    return made


def test_a_new_table_is_created_where_its_schema_says_and_registered(world: World) -> None:
    assert world.run() == (1, None)
    place = world.root / "warehouse" / "shop.events"
    assert world.catalog.tables["shop.events"].location == place.as_uri()
    known = world.known.read()["shop.events"]
    assert (known.location, known.table_id, known.registered) == (
        place.as_uri(),
        str(DeltaTable(place).metadata().id),
        True,
    )
    world.arrive(2)
    assert world.run() == (1, None)
    [status] = tidegate.status(world.config)
    assert (status.table, status.version, status.error) == ("shop.events", 2, None)
    [plan] = tidegate.plan(world.config)
    assert "shop.events" in str(plan.to_json()["table"])


def test_before_the_first_run_status_says_how_the_place_becomes_known(world: World) -> None:
    [status] = tidegate.status(world.config)
    assert (status.state, status.table) == ("Unknown", "shop.events")
    assert "run the pipeline once" in str(status.error)


def test_a_run_that_was_killed_before_it_registered_the_table_is_followed_by_one_that_does(world: World) -> None:
    world.catalog.broken = True
    rows, error = world.run()
    assert rows == 1
    assert "metastore" in str(error)
    assert world.catalog.tables == {}
    world.catalog.broken = False
    assert world.run() == (0, None)
    assert "shop.events" in world.catalog.tables


def test_a_table_that_was_renamed_is_found_again_under_its_new_name(world: World) -> None:
    world.run()
    world.catalog.tables["shop.renamed"] = world.catalog.tables.pop("shop.events")
    world.arrive(2)
    rows, error = world.run()
    assert rows == 0
    assert "has no table shop.events any more" in str(error)
    world.sinks["events"] = {"table": "shop.renamed"}
    assert world.run() == (1, None)
    assert list(world.known.read()) == ["shop.renamed"]


def test_another_table_under_the_name_gets_no_row(world: World) -> None:
    world.run()
    place = world.root / "warehouse" / "shop.events"
    place.rename(world.root / "old")
    write_deltalake(place, pa.table({"id": [7]}))
    world.arrive(2)
    rows, error = world.run()
    assert rows == 0
    assert "another table" in str(error)
    assert DeltaTable(place).version() == 0


def test_a_place_that_moved_gets_no_row(world: World) -> None:
    world.run()
    entry = world.catalog.tables["shop.events"]
    world.catalog.tables["shop.events"] = replace(entry, location=str(world.root / "elsewhere"))
    world.arrive(2)
    rows, error = world.run()
    assert rows == 0
    assert "moved from" in str(error)
    assert not (world.root / "elsewhere").exists()


def test_a_table_of_another_format_gets_no_row(world: World) -> None:
    world.catalog.tables["shop.events"] = CatalogEntry(str(world.root / "parquet"), "parquet")
    rows, error = world.run()
    assert rows == 0
    assert "format parquet" in str(error)


def test_a_location_that_the_catalog_contradicts_is_refused(world: World) -> None:
    write_deltalake(world.root / "there", pa.table({"id": [7]}))
    world.catalog.tables["shop.events"] = CatalogEntry(str(world.root / "there"), "delta")
    world.sinks["events"]["location"] = "here"
    rows, error = world.run()
    assert rows == 0
    assert "correct 'location'" in str(error)
    world.sinks["events"]["location"] = "there"
    assert world.run() == (1, None)


def test_two_names_of_one_table_are_refused(world: World) -> None:
    write_deltalake(world.root / "there", pa.table({"id": [7]}))
    for name in ("shop.one", "shop.two"):
        world.catalog.tables[name] = CatalogEntry(str(world.root / "there"), "delta")
        world.sinks[name.partition(".")[2]] = {"table": name}
    del world.sinks["events"]
    rows, error = world.run()
    assert rows == 1
    assert "are one table" in str(error)


def test_names_in_a_catalog_that_forgets_are_registered_again(world: World) -> None:
    world.catalog.forgets = True
    world.run()
    world.catalog.tables.clear()
    world.arrive(2)
    assert world.run() == (1, None)
    assert "shop.events" in world.catalog.tables


def test_without_a_catalog_the_place_must_be_given(world: World) -> None:
    with raises(ConfigError, "sink.table", "sink.location"):
        tidegate.run(world.config, engine="local")
    world.sinks["events"]["location"] = "lake/events"
    report = tidegate.run(world.config, engine="local")
    assert (report.ok, report.sources[0].rows) == (True, 1)
    assert not world.known.read()["shop.events"].registered


def test_what_is_remembered_is_not_needed(world: World) -> None:
    world.run()
    path = world.known.path
    assert path is not None
    path.write_text("{ damaged")
    world.arrive(2)
    assert world.run() == (1, None)


@pytest.mark.parametrize("name", ["a.b.c.d", "a b", "", "a..b", "a;b"])
def test_what_is_no_name_is_refused(world: World, name: str) -> None:
    world.sinks["events"]["table"] = name
    with raises(ConfigError, "table"):
        load(world.config)


def test_a_shown_configuration_loads_to_the_same_tables(world: World) -> None:
    world.sinks["events"]["location"] = "lake/events"
    world.sinks["others"] = {"table": "shop.`odd name`"}
    project = load(world.config)
    shown = world.root / "shown.yml"
    shown.write_text(show(project))
    assert [each.sink for each in load(shown).pipelines] == [each.sink for each in project.pipelines]
    assert [each.sink.table.is_located for each in project.pipelines] == [True, False]


def test_doctor_says_what_it_could_not_try(world: World) -> None:
    checks = {check.name: check for check in tidegate.doctor(world.config)}
    assert (checks["table of events"].verdict, checks["table of events"].remedy) == (
        "warn",
        "run the pipeline once, or give its location",
    )
    world.run()
    assert "table of events" not in {check.name for check in tidegate.doctor(world.config)}


@pytest.mark.parametrize("step", ["locate", "settle"])
def test_a_catalog_that_is_slow_about_one_table_keeps_no_other_waiting(world: World, step: str) -> None:
    catalog = world.catalog = SlowCatalog(world.root, slow="shop.slow")
    world.sinks = {"slow": {"table": "shop.slow"}, "events": {"table": "shop.events"}}
    project = load(world.config)
    names = TableNames(project, lambda: catalog, world.events.append)
    pipelines = {each.name: each for each in project.pipelines}
    if step == "settle":
        catalog.may_respond.set()
        pipelines = {name: names.locate(each) for name, each in pipelines.items()}
        catalog.may_respond.clear()
        catalog.asked.clear()
        for name in pipelines:
            write_deltalake(world.root / "warehouse" / f"shop.{name}", pa.table({"id": [1]}))
    waiting = threading.Thread(target=getattr(names, step), args=(pipelines["slow"],))
    waiting.start()
    try:
        assert catalog.asked.wait(30)
        other = threading.Thread(target=getattr(names, step), args=(pipelines["events"],), daemon=True)
        other.start()
        other.join(30)
        assert not other.is_alive()
        assert "shop.events" in world.known.read()
        assert waiting.is_alive()
    finally:
        catalog.may_respond.set()
        waiting.join(30)
    assert {"shop.events", "shop.slow"} <= set(world.known.read())
