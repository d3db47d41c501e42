"""Replaying files: exactly their rows are replaced, in one commit, or nothing is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from deltalake import DeltaTable

import tidegate
from servers.s3 import Server
from support.errors import raises
from support.lake import FIELDS, Lake, assert_same
from support.replaying import replay
from tidegate import ReplayReport, TidegateError, load, plan, set_watermark, show_watermarks
from tidegate.commands.replay import FileReplay, other_locations
from tidegate.core.files.edit import Selection
from tidegate.core.files.plan import FileGroup
from tidegate.errors import SourceError
from tidegate.protocol.delta import query
from tidegate.runs.bind import bind
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.storage.stores import open_store
from tidegate.tasks.read_task import GroupResult, Hear, ReadTask

FILE = {"metadata_columns": ["_source_file"]}
BY_HOUR = {**FILE, "partition_by": {"prefix_template": "date=%Y-%m-%d/hour=%H"}}
DAY = "date=2026-01-28"


class Meanwhile(InProcessEngine):
    """Something happens after the files were read, and before their rows are committed."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self._happens = happens

    def read(self, task: ReadTask, group: FileGroup, hear: Hear) -> tuple[GroupResult, ...]:
        results = super().read(task, group, hear)
        self._happens()
        return results


@pytest.fixture(params=[FILE, BY_HOUR], ids=["one directory", "partitioned"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Hours 11 and 12 with files 0 to 2 of ten rows each, ingested."""
    return ingested(tmp_path, request.param)


def ingested(root: Path, sink: dict[str, Any], **more: Any) -> Lake:
    lake = Lake(root, sink_settings=sink, **more)
    for hour in (11, 12):
        for number in range(3):
            lake.arrive(f"{DAY}/hour={hour}/{number}.ndjson.gz")
    assert lake.run().ok
    lake.assert_exactly_once()
    return lake


def rewrite(lake: Lake, path: str, ids: Sequence[int], **extra: object) -> None:
    lake.write(path, "".join(json.dumps({"id": number, "event": "again", **extra}) + "\n" for number in ids))


def ids_of(lake: Lake, path: str) -> list[int]:
    uri = f"{lake.project.pipelines[0].sources[0].location.uri}/{path}"
    return sorted(row["id"] for row in lake.rows("select id, _source_file as f from t") if row["f"] == uri)


def entries(lake: Lake) -> int:
    return len(list((lake.root / "lake/events/_delta_log").glob("*.json")))


def left_in_work_area(lake: Lake) -> list[Path]:
    return list((lake.root / "lake/events/_tidegate/events/default/work").iterdir())


def test_exactly_the_rows_of_the_matched_files_are_replaced_in_one_commit(lake: Lake) -> None:
    before = entries(lake)
    rewrite(lake, f"{DAY}/hour=11/1.ndjson.gz", [1000, 1001, 1002])
    report = replay(lake, f"{DAY}/hour=11/1.*")
    assert (report.replayed.files, report.rows_removed, report.rows_written) == (1, 10, 3)
    assert (report.applied, report.version, entries(lake)) == (True, 2, before + 1)
    assert_same(lake.ids(), [*range(10), *range(20, 60), 1000, 1001, 1002])
    assert ids_of(lake, f"{DAY}/hour=11/1.ndjson.gz") == [1000, 1001, 1002]
    assert left_in_work_area(lake) == []


def test_the_next_run_reads_nothing_again_and_goes_on(lake: Lake) -> None:
    replay(lake, "**/*.ndjson.gz")
    lake.assert_exactly_once()
    (source,) = plan(lake.config)
    assert source.plan.files == 0
    lake.arrive(f"{DAY}/hour=12/3.ndjson.gz")
    lake.arrive(f"{DAY}/hour=11/00-late.ndjson.gz")
    assert lake.run().ok
    lake.assert_exactly_once()


def test_the_document_says_that_it_was_a_replay_and_what_was_read(lake: Lake) -> None:
    replay(lake, partition=f"{DAY}/hour=12")
    documents = sorted((lake.root / "lake/events/_tidegate/events/default").glob("*.json"))
    document = json.loads(documents[-1].read_text())
    assert (document["action"], document["version"], document["rows"]) == (
        "replay",
        2,
        {"written": 30, "open_letters": 0},
    )
    assert [each["file"] for each in document["coverage"]] == [f"{DAY}/hour=12/{n}.ndjson.gz" for n in range(3)]


@pytest.mark.parametrize("partition", [f"{DAY}/hour=11", DAY])
def test_a_partition_is_everything_below_that_directory(lake: Lake, partition: str) -> None:
    for hour in (11, 12):
        rewrite(lake, f"{DAY}/hour={hour}/0.ndjson.gz", [1000 + hour])
    replay(lake, partition=partition)
    hour_12 = [1012] if partition == DAY else range(30, 40)
    assert_same(lake.ids(), [1011, *range(10, 30), *hour_12, *range(40, 60)])


def test_a_file_that_cannot_be_read_refuses_the_replay_and_changes_nothing(lake: Lake) -> None:
    before = entries(lake)
    rewrite(lake, f"{DAY}/hour=11/0.ndjson.gz", [1000])
    (lake.root / "data" / DAY / "hour=11" / "1.ndjson.gz").write_bytes(b"no gzip")
    with raises(SourceError, "hour=11/1.ndjson.gz", "gzip"):
        replay(lake, partition=f"{DAY}/hour=11")
    assert entries(lake) == before
    lake.assert_exactly_once()
    assert left_in_work_area(lake) == []


def test_bad_lines_become_letters_and_those_from_before_are_answered(lake: Lake) -> None:
    path = f"{DAY}/hour=11/1.ndjson.gz"
    lake.write(path, '{"id": 1}\n{"id": "x"}\n')
    replay(lake, partition=f"{DAY}/hour=11")
    (letter,) = tidegate.list_letters(lake.config, "events")
    assert (letter.file, letter.line) == (path, 2)
    lake.write(path, '{"id": 1}\n{"id": 2}\n{"id": "y"}\n')
    replay(lake, partition=f"{DAY}/hour=11")
    (letter,) = tidegate.list_letters(lake.config, "events")
    assert letter.line == 3
    assert_same(lake.ids(), [*range(10), 1, 2, *range(20, 60)])
    (status,) = tidegate.status(lake.config)
    assert status.open_letters == 1


def test_files_that_are_not_finished_are_named_and_left_to_the_next_run(lake: Lake) -> None:
    lake.arrive(f"{DAY}/hour=12/3.ndjson.gz")
    whole = (lake.root / "data" / DAY / "hour=12" / "3.ndjson.gz").read_bytes()
    (lake.root / "data" / DAY / "hour=12" / "3.ndjson.gz").write_bytes(whole[:-4])
    lake.run()
    lake.arrive(f"{DAY}/hour=12/4.ndjson.gz")
    report = replay(lake, "**/[234].ndjson.gz")
    assert report.left_to_run.examples == (f"{DAY}/hour=12/3.ndjson.gz", f"{DAY}/hour=12/4.ndjson.gz")
    assert report.replayed.files == 2
    assert_same(lake.ids(), range(60))
    (lake.root / "data" / DAY / "hour=12" / "3.ndjson.gz").write_bytes(whole)
    lake.run()
    lake.assert_exactly_once()


def test_rows_of_files_that_are_gone_stay_unless_they_are_to_go(lake: Lake) -> None:
    (lake.root / "data" / DAY / "hour=11" / "1.ndjson.gz").unlink()
    kept = replay(lake, partition=f"{DAY}/hour=11")
    assert kept.missing.examples == (f"{DAY}/hour=11/1.ndjson.gz",)
    lake.assert_exactly_once()
    dropped = replay(lake, partition=f"{DAY}/hour=11", drop_missing=True)
    assert (dropped.rows_removed, dropped.rows_written) == (30, 20)
    assert_same(lake.ids(), [*range(10), *range(20, 60)])


def test_rows_of_files_behind_a_link_stay_even_where_those_of_gone_files_go(lake: Lake) -> None:
    (lake.root / "data" / DAY / "hour=11").rename(lake.root / "disk")
    (lake.root / "data" / DAY / "hour=11").symlink_to(lake.root / "disk")
    before = entries(lake)
    report = replay(lake, partition=f"{DAY}/hour=11", drop_missing=True)
    assert (report.missing.files, report.rows_removed) == (0, 0)
    assert any("behind what is left out: 3 files" in note for note in report.notes)
    assert entries(lake) == before
    lake.assert_exactly_once()


def test_rows_of_gone_files_can_go_without_anything_to_read(lake: Lake) -> None:
    (lake.root / "data" / DAY / "hour=11" / "1.ndjson.gz").unlink()
    report = replay(lake, f"{DAY}/hour=11/1.*", drop_missing=True)
    assert (report.applied, report.replayed.files, report.rows_removed, report.rows_written) == (True, 0, 10, 0)
    assert_same(lake.ids(), [*range(10), *range(20, 60)])
    documents = sorted((lake.root / "lake/events/_tidegate/events/default").glob("*.json"))
    (covered,) = json.loads(documents[-1].read_text())["coverage"]
    assert (covered["file"], covered["to"], covered["rows"]) == (f"{DAY}/hour=11/1.ndjson.gz", 0, 0)


def test_nothing_happens_without_agreement_or_without_files(lake: Lake) -> None:
    before = entries(lake)
    assert not replay(lake, "**/*.gz", confirm=lambda report: False).applied
    with raises(TidegateError, "events/default", "no-such-file", "source_uri"):
        replay(lake, "no-such-file")
    assert entries(lake) == before


def test_files_that_are_all_unfinished_leave_nothing_to_ask(lake: Lake) -> None:
    lake.arrive(f"{DAY}/hour=12/3.ndjson.gz")
    report = replay(lake, "3.*", confirm=lambda planned: pytest.fail("there is nothing to ask"))
    assert (report.applied, report.left_to_run.files) == (False, 1)


def test_what_a_killed_replay_left_is_removed_after_a_day(tmp_path: Path) -> None:
    lake = ingested(tmp_path, FILE)
    left = lake.root / "lake/events/_tidegate/events/default/work/killed/x.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"rows")
    replay(lake, "0.*")
    assert left.exists()
    replay(lake, "0.*", clock=lambda: datetime.now(UTC) + timedelta(hours=25))
    assert not left.exists()
    lake.assert_exactly_once()


def test_a_deleted_row_comes_back(lake: Lake) -> None:
    DeltaTable(str(lake.root / "lake/events")).delete("id >= 10 AND id < 20")
    report = replay(lake, f"{DAY}/hour=11/1.*")
    assert any("without a row in the table" in note for note in report.notes)
    lake.assert_exactly_once()


def test_a_table_that_was_optimized_is_replayed_the_same(lake: Lake) -> None:
    DeltaTable(str(lake.root / "lake/events")).optimize.compact()
    rewrite(lake, f"{DAY}/hour=12/2.ndjson.gz", [1000])
    replay(lake, f"{DAY}/hour=12/2.*")
    assert_same(lake.ids(), [*range(50), 1000])


def test_a_run_that_commits_meanwhile_is_kept_and_the_replay_goes_on_top(lake: Lake) -> None:
    lake.arrive(f"{DAY}/hour=12/3.ndjson.gz")
    rewrite(lake, f"{DAY}/hour=12/2.ndjson.gz", [1000])
    report = replay(lake, f"{DAY}/hour=12/2.*", lane=Meanwhile(lake.run))
    assert report.version == 3
    assert_same(lake.ids(), [*range(50), *range(60, 70), 1000])
    assert show_watermarks(lake.config, "events")[0].value == f"{DAY}/hour=12/3.ndjson.gz"


def test_a_watermark_that_is_moved_down_meanwhile_stops_the_replay(lake: Lake) -> None:
    def moved() -> None:
        set_watermark(lake.config, "events", to=f"{DAY}/hour=12/0.ndjson.gz")

    with raises(TidegateError, "events/default", "date=2026-01-28/hour=12/2.ndjson.gz", "watermark"):
        replay(lake, f"{DAY}/hour=12/2.*", lane=Meanwhile(moved))
    lake.assert_exactly_once()


def test_a_file_that_changes_while_it_is_read_again_stops_the_replay(lake: Lake) -> None:
    def rewritten(report: ReplayReport) -> bool:
        rewrite(lake, f"{DAY}/hour=12/2.ndjson.gz", range(1000, 1100))
        return True

    with raises(TidegateError, "date=2026-01-28/hour=12/2.ndjson.gz", "changed"):
        replay(lake, f"{DAY}/hour=12/2.*", confirm=rewritten)
    lake.assert_exactly_once()


@pytest.mark.parametrize(
    "name", ["it's.ndjson", "50%.ndjson", "a b.ndjson", "\\'; drop.ndjson", "über-文.ndjson", 'q".ndjson', "%27.ndjson"]
)
def test_any_file_name_finds_its_rows(tmp_path: Path, name: str) -> None:
    lake = Lake(tmp_path, sink_settings=FILE)
    lake.arrive(f"d=1/{name}")
    lake.arrive("d=1/its.ndjson")
    assert lake.run().ok
    rewrite(lake, f"d=1/{name}", [1000])
    assert replay(lake, partition="d=1").rows_removed == 20
    assert_same(lake.ids(), [*range(10, 20), 1000])


@pytest.mark.parametrize("template", ["event/ts", "day=%Y-%m-%d"])
def test_rows_that_change_their_partition_are_replaced_too(tmp_path: Path, template: str) -> None:
    lake = Lake(tmp_path, sink_settings={**FILE, "partition_by": {"prefix_template": template, "column": "ts"}})
    lake.arrive("d=1/a.ndjson")
    lake.arrive("d=1/b.ndjson", event="click")
    assert lake.run().ok
    rewrite(lake, "d=1/a.ndjson", [1000, 1001], ts="2026-02-01T00:00:00.25Z")
    rewrite(lake, "d=1/b.ndjson", [1002])
    assert replay(lake, "d=1/*").rows_removed == 20
    found = {row["id"]: row["moment"] for row in lake.rows("select id, cast(ts as varchar) as moment from t")}
    assert found == {1000: "2026-02-01T00:00:00.250Z", 1001: "2026-02-01T00:00:00.250Z", 1002: None}


def test_old_rows_are_found_where_statistics_say_nothing_about_the_file(tmp_path: Path) -> None:
    many = [{"name": f"column_{number}", "type": "string"} for number in range(40)]
    lake = Lake(tmp_path, sink_settings=FILE, schema={"fields": [*FIELDS, *many]})
    long = "/".join(f"level={number}-{'x' * 120}" for number in range(6))
    for name in ("a", "b"):
        lake.arrive(f"{long}/{name}.ndjson")
    assert lake.run().ok
    rewrite(lake, f"{long}/a.ndjson", [1000])
    report = replay(lake, "a.ndjson")
    assert (report.rows_removed, report.rows_written) == (10, 1)
    assert_same(lake.ids(), [*range(10, 20), 1000])


def test_old_rows_are_found_by_names_longer_than_the_statistics(tmp_path: Path) -> None:
    lake = Lake(tmp_path, sink_settings=FILE)
    long = "/".join(f"level={number}-{'x' * 120}" for number in range(6))
    for name in ("a", "b", "\U0010ffff"):
        lake.arrive(f"{long}/{name * 3}.ndjson")
        assert lake.run().ok
    for number, name in enumerate(("a", "\U0010ffff")):
        rewrite(lake, f"{long}/{name * 3}.ndjson", [1000 + number])
        replay(lake, f"{name * 3}.ndjson")
    assert_same(lake.ids(), [*range(10, 20), 1000, 1001])


def test_rows_from_before_the_column_was_recorded_are_not_doubled(tmp_path: Path) -> None:
    lake = ingested(tmp_path, {})
    lake.sink_settings = FILE
    lake.arrive(f"{DAY}/hour=13/0.ndjson.gz")
    assert lake.run().ok
    replay(lake, partition=f"{DAY}/hour=13")
    lake.assert_exactly_once()
    report = replay(lake, partition=DAY)
    assert (report.rows_removed, report.rows_written) == (70, 70)
    lake.assert_exactly_once()
    assert ids_of(lake, f"{DAY}/hour=11/0.ndjson.gz") == list(range(10))


def test_rows_under_the_former_location_of_the_source_are_not_doubled(tmp_path: Path) -> None:
    from tidegate import recover

    lake = ingested(tmp_path, FILE)
    (lake.root / "data").rename(lake.root / "moved")
    lake.source_settings = {"source_uri": "moved/"}
    assert recover(lake.config, "events", accept=("identity",))[0].verdict == "ok"
    with raises(TidegateError, "events/default", "_source_file", "double"):
        replay(lake, "**/*.gz")
    lake.assert_exactly_once()


def test_a_source_that_never_ran_has_nothing_to_replay(tmp_path: Path) -> None:
    lake = Lake(tmp_path, sink_settings=FILE)
    lake.arrive(f"{DAY}/0.ndjson")
    with raises(TidegateError, "events/default", "run the pipeline"):
        replay(lake, "*.ndjson")


def test_columns_that_were_declared_since_are_added_and_filled(tmp_path: Path) -> None:
    lake = ingested(tmp_path, FILE)
    lake.schema = {
        "fields": [
            *FIELDS,
            {"name": "extra", "type": "struct", "fields": [{"name": "a", "type": "int64"}]},
        ]
    }
    rewrite(lake, f"{DAY}/hour=11/0.ndjson.gz", [1000], extra={"a": 7})
    replay(lake, f"{DAY}/hour=11/0.*")
    assert [row["extra"] for row in lake.rows("select extra from t where id = 1000")] == [{"a": 7}]
    lake.schema = {
        "fields": [
            *FIELDS,
            {"name": "extra", "type": "struct", "fields": [{"name": "b", "type": "int64"}]},
        ]
    }
    rewrite(lake, f"{DAY}/hour=11/1.ndjson.gz", [1001], extra={"b": 8})
    replay(lake, f"{DAY}/hour=11/1.*")
    assert [row["extra"] for row in lake.rows("select extra from t where id = 1001")] == [{"a": None, "b": 8}]
    assert_same(lake.ids(), [*range(20, 60), 1000, 1001])


def test_rows_of_another_source_with_the_same_names_are_left_alone(tmp_path: Path) -> None:
    lake = Lake(tmp_path, sink_settings=FILE)
    config = json.loads(lake.config.read_text())
    pipeline = config["pipelines"]["events"]
    pipeline["sources"] = {name: {"source_uri": f"data/{name}/", "use_watermark": True} for name in ("asia", "europe")}
    del pipeline["source"]
    for name in ("asia", "europe"):
        lake.arrive(f"{name}/d=1/a.ndjson")
    path = tmp_path / "two.yml"
    path.write_text(json.dumps(config))
    project = load(path)
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).ok
    rewrite(lake, "asia/d=1/a.ndjson", [1000])
    place = bind(project, project.pipelines[0], project.pipelines[0].sources[0], 2)
    others = other_locations(project, place)
    FileReplay(place, InProcessEngine(), Selection("d=1/a.ndjson"), others=others).run()
    assert_same(lake.ids(), [*range(10, 20), 1000])


@pytest.mark.s3
def test_on_object_storage_rows_are_replaced_the_same(s3: Server, tmp_path: Path) -> None:
    source, table = s3.location(f"source-{uuid4()}"), s3.location(f"table-{uuid4()}")
    options, store = dict(source.options), open_store(source)
    pipeline = {
        "source": {"source_uri": source.uri, "use_watermark": True, "storage_options": options},
        "schema": {"fields": FIELDS},
        "sink": {"table_uri": table.uri, "storage_options": options, **BY_HOUR},
    }
    config = tmp_path / "s3.yml"
    config.write_text(json.dumps({"pipelines": {"events": pipeline}}))
    for number in range(3):
        store.put(f"{DAY}/hour=11/{number}.ndjson", b'{"id": %d}\n' % number)
    project = load(config)
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).ok
    store.put(f"{DAY}/hour=11/1.ndjson", b'{"id": 10}\n{"id": 11}\n')
    place = bind(project, project.pipelines[0], project.pipelines[0].sources[0], 2)
    report = FileReplay(place, InProcessEngine(), Selection("**/1.ndjson")).run()
    assert (report.rows_removed, report.rows_written) == (1, 2)
    assert sorted(row["id"] for row in query(table, "select id from t")) == [0, 2, 10, 11]
    assert [each.path for each in open_store(table).list("_tidegate/events/default/work")] == []


def test_a_source_that_is_tracked_by_a_set_can_be_replayed_too(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"use_watermark": False})
    lake.sink_settings = {"metadata_columns": ["_source_file"]}
    for name in ("zebra", "apple", "mango"):
        lake.arrive(f"{name}.ndjson")
    assert lake.run().ok
    rewrite(lake, "apple.ndjson", [1000, 1001])
    lake.arrive("new.ndjson")
    report = replay(lake, "*.ndjson")
    assert (report.replayed.files, report.left_to_run.examples) == (3, ("new.ndjson",))
    assert_same(lake.ids(), [*range(10), 1000, 1001, *range(20, 30)])
    assert lake.run().ok
    assert_same(lake.ids(), [*range(10), 1000, 1001, *range(20, 40)])
