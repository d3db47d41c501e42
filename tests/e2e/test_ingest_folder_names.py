"""``ingest`` keeps the values of ``key=value`` folder names as columns, or says which it does not keep, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from support.lake import Lake
from tidegate import IngestOptions, load
from tidegate.commands import ingest as command
from tidegate.protocol.delta import pin_table, query
from tidegate.reports.run import IngestReport, RunReport
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.specs.locations import Location


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs happen in this process, and everything in this folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "run", lambda project, **other: in_process(project))
    return tmp_path


def in_process(project: Any) -> RunReport:
    return Loop(project, InProcessEngine(), 2).once(project.pipelines)


def write(path: str, text: str = '{"id": 1}\n') -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def place(table: str) -> Location:
    return Location(Path(table).absolute().as_uri())


def rows(table: str, columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in query(place(table), f"select {columns} from t"))


def partitions(table: str) -> tuple[str, ...]:
    snapshot = pin_table(place(table))
    assert snapshot is not None
    return snapshot.facts.partition_columns


def ingested(table: str = "lake/t", **options: Any) -> IngestReport:
    report = tidegate.ingest("in", table, IngestOptions(**options))
    assert report.run is not None
    assert report.run.ok, [each.error for each in report.run.sources]
    return report


def said(report: IngestReport, label: str) -> list[str]:
    return [text for name, text in report.found if name == label]


def test_folder_names_become_columns_and_are_named() -> None:
    write("in/date=2026-01-01/region=eu/a.ndjson", '{"id": 1}\n')
    write("in/date=2026-01-02/region=us/a.ndjson", '{"id": 2}\n')
    report = ingested()
    assert rows("lake/t", "id, date, region") == [(1, "2026-01-01", "eu"), (2, "2026-01-02", "us")]
    assert partitions("lake/t") == ("date", "region")
    (told,) = said(report, "columns")
    assert "date, region" in told
    assert said(report, "not kept") == []


def test_the_saved_configuration_goes_on_and_so_does_a_second_call() -> None:
    write("in/date=2026-01-01/a.csv", "id\n1\n")
    tidegate.ingest("in", "lake/t", save=Path("p.yml"))
    write("in/date=2026-01-02/a.csv", "id\n2\n")
    assert in_process(load(Path("p.yml"))).sources[0].rows == 1
    write("in/date=2026-01-03/a.csv", "id\n3\n")
    assert ingested().run is not None
    assert rows("lake/t", "id, date") == [(1, "2026-01-01"), (2, "2026-01-02"), (3, "2026-01-03")]


def test_parquet_folders_keep_them_too() -> None:
    for day in ("01", "02"):
        Path(f"in/dt=2026-01-{day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [int(day)]}), f"in/dt=2026-01-{day}/a.parquet")
    ingested()
    assert rows("lake/t", "id, dt") == [(1, "2026-01-01"), (2, "2026-01-02")]


def test_a_key_that_the_records_have_stays_theirs() -> None:
    write("in/date=2026-01-01/region=eu/a.ndjson", '{"id": 1, "Region": "EU-1"}\n')
    report = ingested()
    assert rows("lake/t", '"Region", date') == [("EU-1", "2026-01-01")]
    assert ["region=…/" in text and "column of that name" in text for text in said(report, "not kept")] == [True]


def test_a_table_from_before_goes_on_without_them_and_it_is_told() -> None:
    write("in/a.ndjson", '{"id": 1}\n')
    ingested()
    write("in/date=2026-01-02/a.ndjson", '{"id": 2}\n')
    Path("in/a.ndjson").unlink()
    report = ingested()
    assert rows("lake/t", "id") == [(1,), (2,)]
    (told,) = said(report, "not kept")
    assert "date=…/" in told
    assert "not partitioned" in told
    assert partitions("lake/t") == ()


def test_too_many_values_make_no_partitions_and_the_named_option_keeps_them() -> None:
    for number in range(101):
        write(f"in/user={number}/a.ndjson", f'{{"id": {number}}}\n')
    report = ingested()
    assert partitions("lake/t") == ()
    (told,) = said(report, "not kept")
    assert "--partition-by 'user=*'" in told
    ingested("lake/kept", partition_by="user=*")
    assert partitions("lake/kept") == ("user",)
    assert (7, "7") in rows("lake/kept", "id, user")


def test_many_days_are_no_obstacle() -> None:
    for number in range(101):
        write(f"in/date=2026-{1 + number // 28:02d}-{1 + number % 28:02d}/a.ndjson")
    ingested()
    assert partitions("lake/t") == ("date",)


@pytest.mark.parametrize(
    ("other", "reason"),
    [("in/b.ndjson", "not all files"), ("in/a b=1/b.ndjson", "not a name"), ("in/DATE=1/b.ndjson", "only in case")],
)
def test_keys_that_are_not_kept_are_named_with_the_reason(other: str, reason: str) -> None:
    write("in/date=2026-01-01/a.ndjson")
    write(other)
    assert any(reason in text for text in said(ingested(), "not kept"))


def test_keys_beside_those_that_were_asked_for_are_named() -> None:
    write("in/date=2026-01-01/region=eu/a.ndjson")
    report = ingested(partition_by="date=%Y-%m-%d")
    assert partitions("lake/t") == ("date",)
    (told,) = said(report, "not kept")
    assert "region=…/" in told


def test_folders_without_keys_are_not_mentioned() -> None:
    write("in/2026/01/a.ndjson")
    report = ingested()
    assert not said(report, "columns") + said(report, "not kept")


def test_a_dry_run_makes_nothing_and_shows_the_configuration() -> None:
    write("in/date=2026-01-01/a.ndjson")
    report = tidegate.ingest("in", "lake/t", dry_run=True)
    assert not Path("lake").exists()
    assert "prefix_template: date" in report.yaml


def test_columns_from_the_path_need_no_remembered_schema(tmp_path: Path) -> None:
    """Without the remembered columns the table's own are taken, and those from the path are not among the records'."""
    settings = {"partition_by": {"prefix_template": "date/region"}}
    lake = Lake(tmp_path, sink_settings=settings, schema={"infer": True})
    lake.arrive("date=2026-01-01/region=eu/1.ndjson")
    assert lake.run().ok
    (tmp_path / "lake/events/_tidegate/events/schema.json").unlink()
    lake.arrive("date=2026-01-01/region=eu/2.ndjson")
    report = lake.run()
    assert report.ok, report.sources[0].error
    lake.assert_exactly_once()
