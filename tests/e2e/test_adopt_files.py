"""``commit --adopt``: foreign Parquet files become part of a table once, by a list that somebody has seen."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.errors import check_names, raises
from support.lake import Lake
from support.staging import commit, staged
from tidegate import FileAdoption, adopt_files
from tidegate.errors import ObjectChanged, TableError
from tidegate.parquet.parquet_file import uuid7

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("event", pa.string())])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, pipeline_settings={"delivery": "staged"})
    staged(lake, "0.ndjson")
    commit(lake)
    return lake


def put(lake: Lake, name: str, first: int = 100, columns: pa.Schema = COLUMNS) -> Path:
    target = lake.root / "lake/events" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"id": number, "event": "old"} for number in range(first, first + 3)]
    pq.write_table(pa.Table.from_pylist(rows, schema=columns), target)
    return target


def no(planned: FileAdoption) -> bool:
    return False


def test_the_list_comes_first_and_nothing_happens_without_agreement(lake: Lake) -> None:
    file = put(lake, "imported/one.parquet")
    report = adopt_files(lake.config, prefix="imported", confirm=no)
    (found,) = report.files
    assert (found.path, found.size, found.rows, found.refused) == ("imported/one.parquet", file.stat().st_size, 3, None)
    assert found.etag
    assert (report.adopted, report.table_version) == (0, None)
    lake.assert_exactly_once()


def test_files_are_added_once(lake: Lake) -> None:
    put(lake, "imported/one.parquet")
    put(lake, "imported/deep/two.parquet", 200)
    put(lake, "elsewhere/three.parquet", 300)
    report = adopt_files(lake.config, prefix="imported/")
    assert (report.adopted, report.rows, report.table_version) == (2, 6, 1)
    assert lake.ids() == [*range(10), 100, 101, 102, 200, 201, 202]
    again = adopt_files(lake.config, prefix="imported")
    assert (again.adopted, again.known, again.files) == (0, 2, ())
    assert lake.rows("select count(*) as n from t where event = 'old' and id > 101") == [{"n": 4}]


def test_removed_and_pending_files_and_our_own_are_never_adopted(lake: Lake) -> None:
    from deltalake import DeltaTable

    put(lake, "one.parquet")
    adopt_files(lake.config, prefix="")
    DeltaTable(lake.table.uri).delete("id = 100 or id = 101 or id = 102")
    staged(lake, "1.ndjson")
    orphan = put(lake, f"{uuid7()}.parquet")
    report = adopt_files(lake.config, prefix="")
    (refused,) = report.files
    assert (refused.path, report.adopted) == (orphan.name, 0)
    check_names(refused.refused, "records")
    commit(lake)
    lake.assert_exactly_once()


def test_files_that_do_not_fit_are_refused_and_the_others_added(lake: Lake) -> None:
    put(lake, "imported/good.parquet")
    put(lake, "imported/narrow.parquet", columns=pa.schema([pa.field("id", pa.int32(), nullable=False)]))
    (lake.root / "lake/events/imported/broken.parquet").write_bytes(b"PAR1 nothing")
    report = adopt_files(lake.config, prefix="imported")
    assert {file.path: file.refused is None for file in report.files} == {
        "imported/good.parquet": True,
        "imported/narrow.parquet": False,
        "imported/broken.parquet": False,
    }
    assert lake.ids() == [*range(10), 100, 101, 102]


def test_a_file_that_changed_since_it_was_shown_stops_it(lake: Lake) -> None:
    put(lake, "imported/one.parquet")

    def meanwhile(planned: FileAdoption) -> bool:
        put(lake, "imported/one.parquet", 500)
        return True

    with raises(ObjectChanged, "'imported'", "changed"):
        adopt_files(lake.config, prefix="imported", confirm=meanwhile)
    lake.assert_exactly_once()


def test_a_commit_in_between_is_no_obstacle(lake: Lake) -> None:
    put(lake, "imported/one.parquet")

    def meanwhile(planned: FileAdoption) -> bool:
        staged(lake, "1.ndjson")
        commit(lake)
        return True

    assert adopt_files(lake.config, prefix="imported", confirm=meanwhile).adopted == 1
    assert lake.ids() == [*range(20), 100, 101, 102]


def test_partition_values_come_from_the_path(tmp_path: Path) -> None:
    by = {"partition_by": {"prefix_template": "event", "column": "event"}}
    lake = Lake(tmp_path, sink_settings=by, pipeline_settings={"delivery": "staged"})
    staged(lake, "0.ndjson")
    commit(lake)
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    put(lake, "event=a%3Ab/one.parquet", columns=columns)
    put(lake, "nowhere/two.parquet", columns=columns)
    report = adopt_files(lake.config, prefix="")
    assert report.adopted == 1
    assert lake.rows("select distinct event from t order by event") == [{"event": "a:b"}, {"event": "view"}]


def test_another_table_below_the_prefix_stops_it(lake: Lake) -> None:
    put(lake, "imported/one.parquet")
    (lake.root / "lake/events/imported/_delta_log").mkdir()
    (lake.root / "lake/events/imported/_delta_log/00000000000000000000.json").write_text("{}")
    with raises(TableError, "imported/_delta_log/00000000000000000000.json", "another table"):
        adopt_files(lake.config, prefix="imported")
