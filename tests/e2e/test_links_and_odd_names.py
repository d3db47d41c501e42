"""Links below a source and names that no path can have: left out and told, or followed once; the rest is read."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from laws.world import SIZING
from servers.s3 import BUCKET, Server
from support.errors import raises
from support.lake import FIELDS, Lake
from tidegate import load, plan, reconcile
from tidegate.cli.main import cli
from tidegate.core.files.discovery import Known, Reason
from tidegate.core.files.planner import plan_paths, plan_set
from tidegate.core.files.state import Active, PathState, RecordsRead, SetState
from tidegate.errors import SourceError
from tidegate.observe.events import FileFiltered
from tidegate.protocol.delta import query
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.sources.file_discovery import discover, discover_all
from tidegate.sources.units.fetch import address_of, list_files
from tidegate.sources.units.input_files import input_files
from tidegate.sources.units.work import Variables
from tidegate.spark.readers.tables import TableReader
from tidegate.specs.columns import TableFormat, TableRead
from tidegate.specs.files import Format, PartitionFilter, PathSource, Tracking
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, ProjectSpec
from tidegate.specs.table import FieldSpec, SchemaSpec, SinkSpec
from tidegate.storage.options import absolute_uri
from tidegate.storage.stores import open_store

NOW = datetime(2026, 1, 28, 12, tzinfo=UTC)


def skipped(report: object) -> dict[str, int]:
    return dict(report.sources[0].skipped)  # type: ignore[attr-defined]


@pytest.mark.parametrize("use_watermark", [True, False])
def test_rows_behind_links_are_not_doubled_and_links_are_told(tmp_path: Path, use_watermark: bool) -> None:
    lake = Lake(tmp_path, source_settings={"use_watermark": use_watermark})
    lake.arrive("date=1/a.ndjson")
    (tmp_path / "data/latest").symlink_to("date=1")
    (tmp_path / "outside.ndjson").write_text('{"id": 99}\n')
    (tmp_path / "data/date=1/x.ndjson").symlink_to(tmp_path / "outside.ndjson")
    (tmp_path / "data/loop").symlink_to("loop")
    for _ in range(2):
        report = lake.run()
        assert report.sources[0].error is None
        assert skipped(report)[Reason.LINK] == 3
        lake.assert_exactly_once()
    assert any(isinstance(event, FileFiltered) and event.reason == Reason.LINK for event in lake.seen)
    shown = CliRunner().invoke(cli, ["plan", str(lake.config)])
    assert "symbolic link" in shown.output
    assert any("symbolic link" in note for source in reconcile(lake.config).sources for note in source.notes)


@pytest.mark.parametrize("use_watermark", [True, False])
def test_followed_links_give_each_file_once(tmp_path: Path, use_watermark: bool) -> None:
    lake = Lake(tmp_path, source_settings={"use_watermark": use_watermark, "follow_links": True})
    lake.arrive("date=1/a.ndjson")
    lake.arrive("../outside/b.ndjson")
    (tmp_path / "data/latest").symlink_to("date=1")
    (tmp_path / "data/out").symlink_to(tmp_path / "outside")
    (tmp_path / "data/out2").symlink_to(tmp_path / "outside")
    (tmp_path / "data/date=1/up").symlink_to("..")
    lake.run()
    lake.arrive("date=1/c.ndjson")
    lake.arrive("../outside/d.ndjson")
    report = lake.run()
    lake.assert_exactly_once()
    assert skipped(report)[Reason.LINK_AGAIN] == 3


@pytest.mark.parametrize("use_watermark", [True, False])
def test_a_name_that_is_no_text_is_skipped_and_shown_wherever_names_are_shown(
    tmp_path: Path, use_watermark: bool
) -> None:
    lake = Lake(tmp_path, source_settings={"use_watermark": use_watermark})
    lake.arrive("d/1.ndjson")
    lake.arrive("d/new\nline\x1b[31m.ndjson")
    for name in (b"caf\xe9.ndjson", b"d/\xff\n.ndjson"):
        (tmp_path / "data" / os.fsdecode(name)).write_bytes(b'{"id": 99}\n')
    report = lake.run()
    assert skipped(report)[Reason.NAME] == 2
    lake.assert_exactly_once()
    json.dumps(report.to_json()).encode()
    config = str(lake.config)
    for command in (
        ["plan"],
        ["plan", "--json"],
        ["status"],
        ["files"],
        ["reconcile"],
        ["reconcile", "--json"],
        ["doctor"],
    ):
        shown = CliRunner().invoke(cli, [command[0], config, *command[1:]])
        assert shown.exception is None or isinstance(shown.exception, SystemExit), shown.output
        assert "\x1b[31m" not in shown.output
        shown.output.encode()
    assert "caf\\udce9" in CliRunner().invoke(cli, ["plan", config]).output


@pytest.mark.s3
@pytest.mark.parametrize("use_watermark", [True, False])
def test_a_key_that_the_client_cannot_represent_costs_that_object_only(
    s3: Server, tmp_path: Path, use_watermark: bool
) -> None:
    source, table = s3.location("in"), s3.location("table")
    root = "/" + source.uri.removeprefix("s3://")
    assert root.startswith(f"/{BUCKET}/")
    files = open_store(source)
    keys = ["d=1/a.ndjson", "d=1/z.ndjson", "d=2/b.ndjson", "top.ndjson"]
    for number, key in enumerate(keys):
        files.put(key, b'{"id": %d}\n' % number)
    for key in ("d=1/n\nb.ndjson", "d=1/e\x1b[31m.ndjson", "d=3\n/c.ndjson"):
        s3.request("PUT", f"{root}/{key}", b'{"id": 99}\n')
    options = dict(s3.options)
    pipeline = {
        "source": {"source_uri": source.uri, "use_watermark": use_watermark, "storage_options": options},
        "schema": {"fields": FIELDS},
        "sink": {"table_uri": table.uri, "storage_options": options},
    }
    config = tmp_path / "s3.yml"
    config.write_text(json.dumps({"pipelines": {"events": pipeline}}))
    project = load(config)
    seen: list[object] = []
    for _ in range(2):
        report = Loop(project, InProcessEngine(), 2, seen.append).once(project.pipelines)
        assert report.sources[0].error is None
        assert skipped(report)[Reason.NAME] >= 2
        assert sorted(row["id"] for row in query(table, "select id from t")) == [0, 1, 2, 3]
    examples = {event.example for event in seen if isinstance(event, FileFiltered)}
    assert any("\\x1b" in path or "\\x0a" in path for path in examples)


@pytest.mark.parametrize("follow_links", [True, False])
def test_a_half_read_file_behind_a_link_waits_until_it_can_be_seen_again(tmp_path: Path, follow_links: bool) -> None:
    """Links are no longer followed, or the disk is not mounted: neither removes a file at the source."""
    (tmp_path / "in").mkdir()
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/d.ndjson").write_text("{}\n" * 5)
    (tmp_path / "in/part").symlink_to(tmp_path / "disk")
    place = Location(absolute_uri("in", tmp_path))
    store = open_store(place)
    info = store.head("part/d.ndjson")
    half = {"part/d.ndjson": RecordsRead(2, info.size, info.etag)}
    paths = PathState(Active("part/a.ndjson"), {"part": "a.ndjson"}, half)
    seen, unseen = (PathSource("src", place, follow_links=follow) for follow in (True, follow_links))
    if follow_links:
        (tmp_path / "disk").rename(tmp_path / "unmounted")
    listing = discover(store, unseen, paths, NOW)
    made = plan_paths("p", unseen, paths, 1, listing, NOW, sizing=SIZING)
    as_set = SetState(Active("part/a.ndjson"), files=half)
    everything = discover_all(store, unseen, as_set, lambda files: [Known.NEW for _ in files])
    made_of_set = plan_set("p", unseen, as_set, 1, everything, NOW, sizing=SIZING)
    for each in (made, made_of_set):
        assert (each.complete, each.groups, each.given_up, each.opens, each.waits) == (True, (), (), None, True)
        assert len([note for note in each.notes if "part/d.ndjson" in note]) == 1
    if follow_links:
        (tmp_path / "unmounted").rename(tmp_path / "disk")
    made = plan_paths("p", seen, paths, 1, discover(store, seen, paths, NOW), NOW, sizing=SIZING)
    assert [(each.path, each.start_record) for group in made.groups for each in group.slices] == [("part/d.ndjson", 2)]


def test_discovery_of_a_filtered_cold_start_does_not_enter_a_link(tmp_path: Path) -> None:
    (tmp_path / "in/real").mkdir(parents=True)
    (tmp_path / "in/real/a.ndjson").write_text("{}")
    (tmp_path / "in/date=2026-01-28").symlink_to("real")
    place = Location(absolute_uri("in", tmp_path))
    source = PathSource("src", place, partition_filter=PartitionFilter("date=%Y-%m-%d"))
    found = discover(open_store(place), source, PathState(), NOW)
    assert found.files == ()
    assert [each.reason for each in found.skipped] == [Reason.LINK]


@pytest.mark.parametrize("template", ["in/{{u}}/*.csv", "in/*/a.csv", "in/{{u}}/a.csv", "in/one/{{u}}.csv"])
def test_a_work_unit_with_a_link_is_an_error_unless_links_are_followed(tmp_path: Path, template: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.csv").write_text("x\n1\n")
    (tmp_path / "in/one").mkdir(parents=True)
    (tmp_path / "in/u1").symlink_to(tmp_path / "real")
    (tmp_path / "in/one/u1.csv").symlink_to(tmp_path / "real/a.csv")
    address = address_of(Location(f"file://{tmp_path}/{template}"), Variables({"u": "u1"}))
    with raises(SourceError, "symbolic link", "follow_links: true"):
        list_files(address, 0, "auto")
    assert len(list_files(address, 0, "auto", follow_links=True)) == 1


def test_a_secondary_input_takes_each_file_once_and_refuses_a_broken_link(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("x\n1\n")
    (tmp_path / "in/.hidden").symlink_to("a.csv")
    (tmp_path / "in/b.csv").symlink_to("a.csv")
    assert [each.path for each in input_files(Location(absolute_uri("in", tmp_path))).files] == ["a.csv"]
    (tmp_path / "in/c.csv").symlink_to("nowhere")
    with raises(SourceError, "symbolic link", "nowhere", "c.csv"):
        input_files(Location(absolute_uri("in", tmp_path)))


def test_a_secondary_input_may_be_a_mounted_config_map(tmp_path: Path) -> None:
    (tmp_path / "in/..2026_01_28").mkdir(parents=True)
    (tmp_path / "in/..2026_01_28/units.csv").write_text("x\n1\n")
    (tmp_path / "in/..data").symlink_to("..2026_01_28")
    (tmp_path / "in/units.csv").symlink_to("..data/units.csv")
    assert [each.path for each in input_files(Location(absolute_uri("in", tmp_path))).files] == ["units.csv"]


def test_a_table_inside_its_own_source_is_never_read_back(tmp_path: Path) -> None:
    """The configuration refuses it; a project made in Python reaches the listings, which leave the table alone."""
    rows = pa.table({"id": [1, 2, 3]})
    for name in ("pin/a.parquet", "pin/d=1/b.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, tmp_path / name)
    table = Location(absolute_uri("pin/table", tmp_path))
    for tracking in Tracking:
        source = PathSource(
            tracking.value, Location(absolute_uri("pin", tmp_path)), format=Format.PARQUET, tracking=tracking
        )
        schema = SchemaSpec(fields=(FieldSpec("id", "int64"),))
        sink = SinkSpec(table=Location(f"{table.uri}/{tracking.value}"))
        other = PipelineSpec("other", (), schema, SinkSpec(table=table))
        project = ProjectSpec("x", (PipelineSpec("p", (source,), schema, sink), other))
        for _ in range(3):
            report = Loop(project, InProcessEngine(), 2, lambda _: None).once(project.pipelines[:1])
            assert report.sources[0].error is None
            assert len(query(sink.table, "select id from t")) == 6
        assert skipped(report)[Reason.TABLE] >= 1


@pytest.mark.parametrize("tracking", list(Tracking))
def test_a_delta_table_among_the_files_is_told(tmp_path: Path, tracking: Tracking) -> None:
    write_deltalake(str(tmp_path / "in/d/foreign"), pa.table({"id": [1]}))
    place = Location(absolute_uri("in", tmp_path))
    schema, sink = SchemaSpec(fields=(FieldSpec("id", "int64"),)), SinkSpec(Location(absolute_uri("lake", tmp_path)))
    source = PathSource("s", place, format=Format.PARQUET, tracking=tracking)
    project = ProjectSpec("x", (PipelineSpec("p", (source,), schema, sink),))
    (planned,) = plan(project)
    assert any("d/foreign is a Delta table" in note for note in planned.plan.notes)
    lines = ProjectSpec("x", (PipelineSpec("p", (replace(source, format=Format.NDJSON),), schema, sink),))
    assert not any("Delta table" in note for each in plan(lines) for note in each.plan.notes)


def test_a_folder_that_spark_reads_by_itself_is_looked_at_for_links_first(tmp_path: Path) -> None:
    (tmp_path / "in/d=1").mkdir(parents=True)
    (tmp_path / "in/d=1/a.parquet").write_bytes(b"")

    def check(path: str, *, follow_links: bool) -> None:
        read = TableRead(TableFormat.PARQUET, Location(absolute_uri(path, tmp_path)), follow_links=follow_links)
        TableReader._check_layout(SimpleNamespace(_read=read))  # type: ignore[arg-type]  # without a session

    check("in", follow_links=False)
    check("in/d=1/a.parquet", follow_links=False)
    (tmp_path / "outside").mkdir()
    (tmp_path / "in/d=2").symlink_to(tmp_path / "outside")
    with raises(SourceError, "symbolic link", "d=2", "follow_links: true"):
        check("in", follow_links=False)
    check("in", follow_links=True)
    (tmp_path / "in/latest").symlink_to("d=1")
    with raises(SourceError, "latest", "Spark", "twice"):
        check("in", follow_links=True)
