"""Replaying files whose rows do not name them: whole data files are replaced, or nothing is, with a way that works."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tidegate
from servers.s3 import Server
from support.errors import raises
from support.lake import FIELDS, Lake, assert_same
from support.replaying import replay
from tidegate import TidegateError, load, plan, reset_watermark, set_watermark
from tidegate.commands.replay import FileReplay, other_sources
from tidegate.core.files.edit import Selection
from tidegate.core.files.plan import FileGroup
from tidegate.errors import RowsRefused
from tidegate.protocol.delta import query
from tidegate.runs.bind import bind
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.storage.stores import open_store
from tidegate.tasks.read_task import GroupResult, Hear, ReadTask


class Meanwhile(InProcessEngine):
    """Something happens once, after files were read and before their rows are committed."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self._waiting = [happens]

    def read(self, task: ReadTask, group: FileGroup, hear: Hear) -> tuple[GroupResult, ...]:
        results = super().read(task, group, hear)
        if self._waiting:
            self._waiting.pop()()
        return results


@pytest.fixture(params=["watermark", "set"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Hours 11 and 12 of three files of ten rows each; an hour is a commit."""
    lake = Lake(tmp_path, source_settings={"use_watermark": request.param == "watermark"})
    for hour in (11, 12):
        for number in range(3):
            lake.arrive(f"h={hour}/{number}.ndjson")
        assert lake.run().ok
    return lake


def rewrite(lake: Lake, path: str, ids: Sequence[int]) -> None:
    lake.write(path, "".join(json.dumps({"id": number}) + "\n" for number in ids))


def table(lake: Lake) -> DeltaTable:
    return DeltaTable(str(lake.root / "lake/events"))


def test_files_that_were_a_commit_of_their_own_are_replaced_whole_in_one_commit(lake: Lake) -> None:
    rewrite(lake, "h=11/1.ndjson", [1000])
    before = table(lake).version()
    report = replay(lake, "h=11/*")
    assert (report.replayed.files, report.rows_removed, report.rows_written) == (3, 30, 21)
    assert (report.applied, report.version, report.table_version) == (True, 3, before + 1)
    assert_same(lake.ids(), [*range(10), *range(20, 60), 1000])
    (source,) = plan(lake.config)
    assert source.plan.files == 0
    assert tidegate.watermark_history(lake.config, "events")[0].positions[0].action == "replay of data files"
    # Once more: the ledger knows what became of the first data files.
    rewrite(lake, "h=11/1.ndjson", [2000])
    replay(lake, partition="h=11")
    assert_same(lake.ids(), [*range(10), *range(20, 60), 2000])


def test_a_file_that_shares_its_data_file_is_refused_by_name_and_replayed_with_the_others(lake: Lake) -> None:
    rewrite(lake, "h=11/1.ndjson", [1000])
    with raises(TidegateError, "1 data file", "30 rows", "2 other files: h=11/0.ndjson, h=11/2.ndjson", "--widen"):
        replay(lake, "h=11/1.ndjson")
    lake.assert_exactly_once()
    report = replay(lake, "h=11/1.ndjson", widen=True)
    assert (report.replayed.files, "1 data file" in report.notes[0], "2 more files" in report.notes[1]) == (
        3,
        True,
        True,
    )
    assert_same(lake.ids(), [*range(10), *range(20, 60), 1000])


def test_files_that_were_compacted_with_others_are_replayed_with_them(lake: Lake) -> None:
    table(lake).optimize.compact()
    with raises(TidegateError, "60 rows", "3 other files: h=12/0.ndjson", "--widen (6 files, 60 rows)"):
        replay(lake, "h=11/*")
    replay(lake, "h=11/*", widen=True)
    lake.assert_exactly_once()
    lake.arrive("h=13/0.ndjson")
    assert lake.run().ok
    replay(lake, "h=13/*")
    lake.assert_exactly_once()


def test_compaction_keeps_partitions_apart(tmp_path: Path) -> None:
    lake = Lake(tmp_path, sink_settings={"partition_by": {"prefix_template": "h"}})
    for hour in (11, 12):
        for number in range(2):
            lake.arrive(f"h={hour}/{number}.ndjson")
            assert lake.run().ok
    tidegate.optimize_table(lake.config, "events")
    assert len(table(lake).file_uris()) == 2
    report = replay(lake, "h=11/*")
    assert (report.rows_removed, report.rows_written) == (20, 20)
    lake.assert_exactly_once()


def test_the_rest_of_a_partly_deleted_data_file_is_taken_back(lake: Lake) -> None:
    table(lake).delete("id = 5")
    assert replay(lake, "h=11/*").rows_removed == 29
    lake.assert_exactly_once()


def test_a_data_file_that_was_deleted_whole_leaves_nothing_to_remove(lake: Lake) -> None:
    table(lake).delete("id < 30")
    assert replay(lake, "h=11/*").rows_removed == 0
    lake.assert_exactly_once()


def test_rows_that_another_writer_mixed_with_its_own_are_refused(lake: Lake) -> None:
    rows = pa.table({"id": [5]}, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    whole = pa.table({name: rows["id"] if name == "id" else pa.nulls(1, kind) for name, kind in columns(lake)})
    write_deltalake(table(lake), whole, mode="overwrite", predicate="id = 5")
    version = table(lake).version()
    with raises(TidegateError, "position 1 (3 files, e.g. h=11/0.ndjson)", f"table version {version}", "new table_uri"):
        replay(lake, "h=11/*")
    replay(lake, "h=12/*")
    assert_same(lake.ids(), range(60))


def columns(lake: Lake) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in pa.schema(table(lake).schema())]


def test_rows_that_the_log_no_longer_explains_are_refused(lake: Lake) -> None:
    table(lake).optimize.compact()
    lake.arrive("h=13/0.ndjson")
    assert lake.run().ok
    table(lake).create_checkpoint()
    for entry in sorted((lake.root / "lake/events/_delta_log").glob("*.json"))[:-1]:
        entry.unlink()
    with raises(TidegateError, "the log no longer says", "metadata_columns: [_source_file]", "new table_uri"):
        replay(lake, "h=11/*")
    replay(lake, "h=13/*")
    lake.assert_exactly_once()


def test_rows_that_were_read_twice_are_taken_back_together(lake: Lake) -> None:
    reset_watermark(lake.config, "events")
    assert lake.run().ok
    assert len(lake.ids()) == 120
    replay(lake, "**/*")
    lake.assert_exactly_once()


def test_rows_of_retried_letters_are_taken_back_with_their_file(tmp_path: Path) -> None:
    lake = Lake(tmp_path, schema={"fields": [{"name": "id", "type": "int64"}, {"name": "n", "type": "int64"}]})
    lake.write("a.ndjson", '{"id": 1, "n": 1}\n{"id": 2, "n": "x"}\n')
    assert lake.run().ok
    lake.write("b.ndjson", '{"id": 3, "n": 3}\n')
    assert lake.run().ok
    lake.schema = {"fields": [{"name": "id", "type": "int64"}]}
    (report,) = tidegate.retry_letters(lake.config, "events", engine="local")
    assert (report.answered, lake.ids()) == (1, [1, 2, 3])
    lake.write("a.ndjson", '{"id": 1}\n{"id": 20}\n')
    assert replay(lake, "a.ndjson").rows_removed == 2
    assert lake.ids() == [1, 3, 20]


def test_rows_of_files_that_are_gone_stay_or_go_with_the_others(lake: Lake) -> None:
    (lake.root / "data/h=11/2.ndjson").unlink()
    with raises(TidegateError, "h=11/2.ndjson", "--drop-missing", "2 files, 30 rows", "1 file that"):
        replay(lake, "h=11/*")
    with raises(TidegateError, "h=11/0.ndjson", "--widen --drop-missing"):
        replay(lake, "h=11/1.ndjson")
    assert replay(lake, "h=12/*").applied
    report = replay(lake, "h=11/*", drop_missing=True)
    assert (report.rows_removed, report.rows_written) == (30, 20)
    assert_same(lake.ids(), [*range(20), *range(30, 60)])


def test_a_file_that_waits_to_be_read_holds_up_those_beside_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number in range(3):
        lake.arrive(f"{number}.ndjson")
    assert lake.run().ok
    set_watermark(lake.config, "events", to="1.ndjson")
    with raises(TidegateError, "1 file is not finished", "2.ndjson", "run the pipeline"):
        replay(lake, "1.ndjson")
    assert lake.run().ok
    assert len(lake.ids()) == 40
    replay(lake, "1.ndjson", widen=True)
    lake.assert_exactly_once()


def test_files_that_a_person_skipped_are_read_by_a_replay(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("0.ndjson")
    assert lake.run().ok
    lake.arrive("1.ndjson")
    set_watermark(lake.config, "events", to="1.ndjson")
    report = replay(lake, "1.ndjson")
    assert (report.rows_removed, report.rows_written) == (0, 10)
    lake.assert_exactly_once()
    write_deltalake(table(lake), table(lake).to_pyarrow_table(), mode="append")
    lake.arrive("2.ndjson")
    set_watermark(lake.config, "events", to="2.ndjson")
    with raises(TidegateError, "the ledger knows nothing of 1 file (e.g. 2.ndjson)", "20 rows"):
        replay(lake, "2.ndjson")


def test_what_others_append_meanwhile_stays(lake: Lake) -> None:
    added = table(lake).to_pyarrow_table().slice(0, 1)
    append = Meanwhile(lambda: write_deltalake(table(lake), added, mode="append"))
    rewrite(lake, "h=11/1.ndjson", [1000])
    assert replay(lake, "h=11/*", lane=append).applied
    assert_same(lake.ids(), [*range(10), *range(20, 60), 1000, added["id"][0].as_py()])


def test_data_files_that_others_rewrite_meanwhile_are_not_removed(lake: Lake) -> None:
    compact = Meanwhile(lambda: table(lake).optimize.compact())
    with raises(RowsRefused, "1 data file", "left the table", "give the same command again"):
        replay(lake, "h=11/*", lane=compact)
    lake.assert_exactly_once()


def test_a_run_meanwhile_is_no_obstacle_and_the_files_are_read_again_on_top_of_it(lake: Lake) -> None:
    lake.arrive("h=13/0.ndjson")
    before = set((lake.root / "lake/events").glob("*.parquet"))
    assert replay(lake, "h=11/*", lane=Meanwhile(lake.run)).applied
    lake.assert_exactly_once()
    # The run wrote one, and each try one of its own: what a lost try wrote is never committed.
    assert len(set((lake.root / "lake/events").glob("*.parquet")) - before) == 3


def test_a_reset_and_a_run_meanwhile_leave_no_row_twice(lake: Lake) -> None:
    def read_again() -> None:
        reset_watermark(lake.config, "events")
        assert lake.run().ok

    # The run read all files at once, so that its data file is not that of these files alone.
    with raises(TidegateError, "give the same command again"):
        replay(lake, "h=11/*", lane=Meanwhile(read_again))
    assert_same(lake.ids(), [*range(60), *range(60)])
    replay(lake, "h=11/*", widen=True)
    lake.assert_exactly_once()


def test_rows_of_another_source_are_left_alone_until_they_are_mixed(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
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
    made = FileReplay(place, InProcessEngine(), Selection("**/*"), beside=other_sources(project, place))
    made.run()
    assert_same(lake.ids(), [*range(10, 20), 1000])
    table(lake).optimize.compact()
    with raises(TidegateError, "also has rows of source events/europe"):
        made.run()


def test_a_rewritten_file_of_a_set_is_remembered_as_it_is_now(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"use_watermark": False})
    for name in ("a", "b"):
        lake.arrive(f"{name}.ndjson")
        assert lake.run().ok
    rewrite(lake, "a.ndjson", [1000])
    assert {each.reason.value: each.count for each in plan(lake.config)[0].plan.skipped}["already read"] == 1
    replay(lake, "a.ndjson")
    assert {each.reason.value: each.count for each in plan(lake.config)[0].plan.skipped} == {"already read": 2}
    assert_same(lake.ids(), [*range(10, 20), 1000])


def test_a_set_that_was_emptied_is_rebuilt_from_what_was_read_since(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"use_watermark": False})
    lake.arrive("a.ndjson")
    assert lake.run().ok
    move = reset_watermark(lake.config, "events")
    assert (move.applied, move.read_again.files, "twice" in move.notes[0]) == (True, 1, True)
    (lake.root / "data/a.ndjson").unlink()
    lake.arrive("b.ndjson")
    assert lake.run().ok
    for segment in (lake.root / "lake/events/_tidegate/events_default_set").glob("*.parquet"):
        segment.unlink()
    tidegate.recover(lake.config, "events", accept=("set",))
    assert tidegate.show_watermarks(lake.config, "events")[0].remembered == 1
    assert lake.run().ok
    assert_same(lake.ids(), range(20))


@pytest.mark.s3
def test_on_object_storage_data_files_are_replaced_the_same(s3: Server, tmp_path: Path) -> None:
    source, target = s3.location(f"source-{uuid4()}"), s3.location(f"table-{uuid4()}")
    options, store = dict(source.options), open_store(source)
    pipeline = {
        "source": {"source_uri": source.uri, "use_watermark": True, "storage_options": options},
        "schema": {"fields": FIELDS},
        "sink": {
            "table_uri": target.uri,
            "storage_options": options,
            "partition_by": {"prefix_template": "p", "column": "event"},
        },
    }
    config = tmp_path / "s3.yml"
    config.write_text(json.dumps({"pipelines": {"events": pipeline}}))
    project = load(config)
    # Values that paths and log entries escape differently.
    for number, event in enumerate(("a b", "c/d%20", "ü=")):
        store.put(f"{number}.ndjson", json.dumps({"id": number, "event": event}).encode())
        assert Loop(project, InProcessEngine(), 2).once(project.pipelines).ok
    place = bind(project, project.pipelines[0], project.pipelines[0].sources[0], 2)
    for number in range(3):
        store.put(f"{number}.ndjson", json.dumps({"id": number + 10, "event": "again"}).encode())
        report = FileReplay(place, InProcessEngine(), Selection(f"{number}.ndjson")).run()
        assert (report.rows_removed, report.rows_written) == (1, 1)
    assert sorted(row["id"] for row in query(target, "select id from t")) == [10, 11, 12]
