"""Table care changes no row and no position, whatever happens beside it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

import tidegate
from support.errors import raises
from support.lake import Lake
from tidegate import checkpoint_table, optimize_table, reconcile, recover, vacuum_table
from tidegate.errors import StorageUnavailable, TableError, UnsupportedTable
from tidegate.failpoints import InjectedFailure, arm
from tidegate.observe.events import TableCared, TableCareFailed
from tidegate.protocol.maintenance import MaintainedTable, Rewrite, RewriteOvertaken, commit_rewrite
from tidegate.protocol.table import ActiveFile
from tidegate.runs import maintenance
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.runs.maintenance import bins, merge_files
from tidegate.storage.stores import open_store

FIELDS = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "x", "type": "float64"},
    {"name": "tags", "type": "list", "items": "string"},
]


def filled(lake: Lake, files: int = 4, start: int = 0, **extra: object) -> Lake:
    """A table with one small data file per source file."""
    for number in range(start, start + files):
        lake.arrive(f"date=2026-01-28/{number:04d}.ndjson", **extra)
        lake.run()
    return lake


def parquet(lake: Lake) -> set[Path]:
    return set((lake.root / "lake" / "events").rglob("*.parquet"))


def active(lake: Lake) -> list[str]:
    return [str(uri) for uri in DeltaTable(lake.table.uri).file_uris()]


def entries(lake: Lake) -> list[list[dict[str, Any]]]:
    log = sorted((lake.root / "lake" / "events" / "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in log]


def test_small_files_become_one_and_no_row_changes(tmp_path: Path) -> None:
    lake = filled(Lake(tmp_path))
    before = lake.rows("select * from t order by id")
    report = optimize_table(lake.config, "events")
    assert (report.files_before, report.files_after, report.table_version) == (4, 1, 4)
    assert len(active(lake)) == 1
    assert lake.rows("select * from t order by id") == before
    lake.assert_exactly_once()
    assert optimize_table(lake.config, "events").files_before == 0
    assert len(entries(lake)) == 5


def test_the_commit_says_that_no_data_changed(tmp_path: Path) -> None:
    lake = filled(Lake(tmp_path))
    optimize_table(lake.config, "events")
    kinds = Counter(next(iter(action)) for action in entries(lake)[-1])
    assert kinds == {"commitInfo": 1, "remove": 4, "add": 1}
    assert not any(each.get("add", each.get("remove", {})).get("dataChange") for each in entries(lake)[-1])


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    lake = filled(Lake(tmp_path))
    before = parquet(lake)
    report = optimize_table(lake.config, "events", dry_run=True)
    assert (report.files_before, report.files_after) == (4, 1)
    assert vacuum_table(lake.config, "events", retention_hours=0, force=True, dry_run=True).files_before == 0
    assert checkpoint_table(lake.config, "events", dry_run=True).table_version == 3
    assert (parquet(lake), len(entries(lake))) == (before, 4)
    assert not list((tmp_path / "lake" / "events" / "_delta_log").glob("*.checkpoint.parquet"))


def test_a_table_that_was_optimized_and_vacuumed_is_read_on_recovered_and_reconciled(tmp_path: Path) -> None:
    lake = filled(Lake(tmp_path, sink_settings={"metadata_columns": ["_source_file"]}))
    optimize_table(lake.config, "events")
    report = vacuum_table(lake.config, "events", retention_hours=0, force=True)
    assert report.files_before == 4
    assert len(parquet(lake)) == 1
    filled(lake, 2, start=10)
    lake.assert_exactly_once()
    assert [check.verdict for check in recover(lake.config, "events")] == ["ok"]
    found = reconcile(lake.config)
    assert found.ok
    assert not [table for table in found.tables if table.orphans.files]
    vacuum_table(lake.config, "events", retention_hours=0, force=True)
    checkpoint_table(lake.config, "events")
    filled(lake, 1, start=20)
    lake.assert_exactly_once()


def test_vacuum_keeps_what_is_not_committed_and_what_tidegate_keeps(tmp_path: Path) -> None:
    lake = filled(Lake(tmp_path))
    optimize_table(lake.config, "events")
    table = tmp_path / "lake" / "events"
    written = table / "0190e6b8-7c1a-7d4e-9a55-2f1f0c6b1a11.parquet"
    written.write_bytes(b"a running task wrote this")
    staged = table / "_staging" / "pending" / "unit.json"
    staged.parent.mkdir(parents=True)
    staged.write_text("{}")
    kept = {path for path in (table / "_tidegate").rglob("*") if path.is_file()}
    vacuum_table(lake.config, "events", retention_hours=0, force=True)
    assert written.exists()
    assert staged.exists()
    assert kept == {path for path in (table / "_tidegate").rglob("*") if path.is_file()}


def test_a_short_retention_must_be_forced(tmp_path: Path) -> None:
    lake = filled(Lake(tmp_path), 1)
    with raises(TableError, "23 h", "24 h", "--force"):
        vacuum_table(lake.config, "events", retention_hours=23)
    assert vacuum_table(lake.config, "events").retention_hours == 168


def test_partitions_stay_apart(tmp_path: Path) -> None:
    lake = Lake(tmp_path, sink_settings={"partition_by": {"prefix_template": "event", "column": "event"}})
    for number, event in enumerate(["a b", "a b", "c:d/é", "c:d/é", "lonely"]):
        lake.arrive(f"date=2026-01-28/{number}.ndjson", event=event)
        lake.run()
    lake.arrive("date=2026-01-28/7.ndjson", event=None)
    lake.run()
    lake.arrive("date=2026-01-28/8.ndjson", event=None)
    lake.run()
    before = lake.rows("select id, event from t order by id")
    report = optimize_table(lake.config, "events")
    assert (report.files_before, report.files_after) == (6, 3)
    assert lake.rows("select id, event from t order by id") == before
    assert vacuum_table(lake.config, "events", retention_hours=0, force=True).files_before == 6
    assert lake.rows("select id, event from t order by id") == before


def test_older_files_get_the_columns_that_came_later(tmp_path: Path) -> None:
    lake = filled(Lake(tmp_path), 2)
    lake.schema = {"fields": [*lake.schema["fields"], {"name": "more", "type": "int32"}]}
    filled(lake, 1, start=5, more=7)
    optimize_table(lake.config, "events")
    assert len(active(lake)) == 1
    assert Counter(row["more"] for row in lake.rows("select more from t")) == {None: 20, 7: 10}


def test_statistics_are_left_out_for_floats_that_are_not_numbers(tmp_path: Path) -> None:
    import pyarrow as pa

    lake = Lake(tmp_path, schema={"fields": FIELDS})
    lake.arrive("d=1/1.ndjson", x=1.5, tags=["a", "b"])
    lake.run()
    nan = pa.table(
        {"id": pa.array([900], pa.int64()), "x": [float("nan")], "tags": pa.array([None], pa.list_(pa.string()))}
    )
    write_deltalake(lake.table.uri, nan, mode="append")
    lake.expected.append(900)
    optimize_table(lake.config, "events")
    (stats,) = [json.loads(each["add"]["stats"]) for each in entries(lake)[-1] if "add" in each]
    assert stats["numRecords"] == 11
    assert "x" not in stats["maxValues"]
    assert (stats["minValues"]["id"], stats["maxValues"]["id"]) == (0, 900)
    lake.assert_exactly_once()


def rewrite_of(lake: Lake) -> tuple[int, Rewrite]:
    """All of the table's files, put together and not committed."""
    store = open_store(lake.table)
    table = MaintainedTable(lake.table, store)
    snapshot = table.snapshot("OPTIMIZE")
    files = snapshot.active_files()
    return snapshot.facts.version, merge_files(store, snapshot.facts, [files], lake.project.pipelines[0].sink)


def test_two_at_once_double_nothing(tmp_path: Path) -> None:
    lake = filled(Lake(tmp_path))
    store = open_store(lake.table)
    first, second = rewrite_of(lake), rewrite_of(lake)
    commit_rewrite(store, *first)
    with raises(RewriteOvertaken, "replaced", "version 4"):
        commit_rewrite(store, *second)
    lake.assert_exactly_once()


@pytest.mark.parametrize("other", ["append", "delete", "optimize", "property"])
def test_what_others_commit_meanwhile_is_respected(tmp_path: Path, other: str) -> None:
    lake = filled(Lake(tmp_path))
    base, rewrite = rewrite_of(lake)
    table = DeltaTable(lake.table.uri)
    match other:
        case "append":
            filled(lake, 2, start=10)
        case "delete":
            table.delete("id = 3")
            lake.expected.remove(3)
        case "optimize":
            table.optimize.compact(commit_properties=CommitProperties())
        case _:
            table.alter.set_table_properties({"delta.checkpointInterval": "7"})
    if other == "append":
        assert commit_rewrite(open_store(lake.table), base, rewrite) == base + 3
    else:
        with pytest.raises(RewriteOvertaken):
            commit_rewrite(open_store(lake.table), base, rewrite)
    lake.assert_exactly_once()
    filled(lake, 1, start=30)
    lake.assert_exactly_once()


def test_a_run_and_table_care_beside_each_other_lose_and_double_nothing(tmp_path: Path) -> None:
    lake = filled(Lake(tmp_path))
    over = threading.Event()
    done: list[int] = []

    def care() -> None:
        while not over.is_set():
            done.append(optimize_table(project, "events").files_before)
            vacuum_table(project, "events", retention_hours=0, force=True)

    project = lake.project
    thread = threading.Thread(target=care)
    thread.start()
    try:
        running = Loop(project, InProcessEngine(), 2)
        for number in range(300):
            lake.arrive(f"date=2026-01-29/{number:04d}.ndjson")
            assert running.once(project.pipelines).ok
            if number >= 10 and len(done) >= 4:
                break
    finally:
        over.set()
        thread.join()
    assert sum(files > 0 for files in done) > 1
    lake.assert_exactly_once()
    assert reconcile(lake.config).ok


@pytest.mark.parametrize(
    ("armed", "replaced"),
    [
        ("state.rewrite.before=raise", False),
        ("state.rewrite.after=raise", True),
        ("state.rewrite.before=lose", True),
        ("state.rewrite.after=lose", True),
    ],
)
def test_care_that_is_cut_short_or_gets_no_answer_loses_nothing(tmp_path: Path, armed: str, replaced: bool) -> None:
    lake = filled(Lake(tmp_path))
    arm(armed)
    try:
        if armed.endswith("raise"):
            with pytest.raises(InjectedFailure):
                optimize_table(lake.config, "events")
        else:
            assert optimize_table(lake.config, "events").files_after == 1
    finally:
        arm("")
    assert (len(active(lake)) == 1) == replaced
    assert len(entries(lake)) == 4 + replaced
    lake.assert_exactly_once()
    filled(lake, 1, start=30)
    lake.assert_exactly_once()


def test_a_table_that_the_library_cannot_honour_is_left_to_spark(tmp_path: Path) -> None:
    lake = filled(Lake(tmp_path), 1)
    DeltaTable(lake.table.uri).alter.add_constraint({"positive": "id >= 0"})
    with pytest.raises(UnsupportedTable) as caught:
        optimize_table(lake.config, "events")
    assert caught.value.remedy == f"use Spark instead: OPTIMIZE delta.`{lake.table.uri}`"
    with raises(UnsupportedTable, "VACUUM delta", "RETAIN 48 HOURS"):
        vacuum_table(lake.config, "events", retention_hours=48)


def test_there_must_be_a_table(tmp_path: Path) -> None:
    with raises(TableError, "no table", "lake/events"):
        checkpoint_table(Lake(tmp_path).config, "events")


def test_a_run_cares_for_its_table_after_so_many_commits(tmp_path: Path) -> None:
    lake = Lake(tmp_path, sink_settings={"maintenance": {"optimize_every_commits": 3, "vacuum_every_commits": 4}})
    filled(lake, 4)
    cared = [event for event in lake.seen if isinstance(event, TableCared)]
    assert [(event.operation, event.files) for event in cared] == [("optimize", 3), ("vacuum", 0)]
    assert len(active(lake)) == 2
    lake.assert_exactly_once()


def test_care_that_fails_never_fails_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path, sink_settings={"maintenance": {"optimize_every_commits": 1}})

    def fails(*arguments: object) -> Rewrite:
        raise StorageUnavailable("no answer", "try again")

    monkeypatch.setattr(maintenance, "merge_files", fails)
    filled(lake, 1)
    lake.arrive("date=2026-01-28/9999.ndjson")
    assert lake.run().ok
    (failed,) = [event for event in lake.seen if isinstance(event, TableCareFailed)]
    assert (failed.operation, failed.error) == ("optimize", "no answer - try again")
    lake.assert_exactly_once()


def test_without_settings_a_run_leaves_the_table_alone(tmp_path: Path) -> None:
    lake = filled(Lake(tmp_path), 3)
    assert len(active(lake)) == 3
    assert tidegate.load(lake.config).pipelines[0].sink.maintenance == tidegate.Maintenance()


def file(name: str, size: int, value: str = "a") -> ActiveFile:
    return ActiveFile(name, name, size, 1, (("event", value),))


def test_bins_hold_small_files_of_one_partition_up_to_the_wanted_size() -> None:
    files = [file("1", 40), file("2", 40), file("3", 40), file("4", 90), file("5", 10, "b"), file("6", 10, "b")]
    found = bins([*files, file("7", 10, "c")], 100)
    assert [[each.path for each in one] for one in found] == [["1", "2"], ["5", "6"]]
