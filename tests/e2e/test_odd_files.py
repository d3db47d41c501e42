"""Files whose columns do not fit those of the others: they are set aside with a reason, and the rest is read."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import tidegate
from support.lake import Lake
from tidegate.formats import samples
from tidegate.observe.events import Notice
from tidegate.reports.run import SourceReport
from tidegate.schema import inference


def lake_of(root: Path, format_: str, **settings: Any) -> Lake:
    return Lake(root, source_settings={"format": format_}, schema={"infer": True, **settings})


def parquet(lake: Lake, name: str, kind: pa.DataType, value: object, column: str = "id") -> None:
    target = lake.root / "data/d" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({column: pa.array([value], kind)}), target)


def run(lake: Lake) -> SourceReport:
    (source,) = lake.run().sources
    return source


def notices(lake: Lake) -> list[str]:
    return [event.text for event in lake.seen if isinstance(event, Notice)]


def ids(lake: Lake) -> list[Any]:
    return sorted(row["id"] for row in lake.rows("select id from t"))


@pytest.mark.parametrize("odd", ["0.parquet", "5.parquet", "9.parquet"])
def test_a_parquet_file_of_another_type_is_refused_and_the_rest_is_read(tmp_path: Path, odd: str) -> None:
    """Whichever file comes first."""
    lake = lake_of(tmp_path, "parquet")
    for name, kind in {"1.parquet": pa.int32(), "3.parquet": pa.int64(), "7.parquet": pa.int32()}.items():
        parquet(lake, name, kind, int(name[0]))
    parquet(lake, odd, pa.string(), "x")
    source = run(lake)
    assert source.error is None
    assert ids(lake) == [1, 3, 7]
    (failed,) = source.failed
    assert failed.path == f"d/{odd}"
    assert "'id'" in failed.reason
    assert any(odd in text and "string" in text for text in notices(lake))


def test_an_odd_file_of_a_later_run_is_refused_alike(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    parquet(lake, "1.parquet", pa.int64(), 1)
    assert run(lake).error is None
    parquet(lake, "2.parquet", pa.string(), "x")
    table = pa.table({"id": pa.array([3], pa.int64()), "more": ["new"]})
    pq.write_table(table, lake.root / "data/d/3.parquet")
    source = run(lake)
    assert (source.error, [each.path for each in source.failed]) == (None, ["d/2.parquet"])
    assert sorted((row["id"], row["more"]) for row in lake.rows("select id, more from t")) == [(1, None), (3, "new")]


def test_without_a_majority_the_error_has_columns_to_paste(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    for number in range(4):
        kind, value = ((pa.int64(), number), (pa.string(), "x"))[number % 2]
        parquet(lake, f"{number}.parquet", kind, value)
    source = run(lake)
    assert source.error is not None
    assert "'id' is number in 2 files and 'id' is string in 2 files" in source.error
    assert (source.rows, source.failed) == (0, ())
    lake.schema = yaml.safe_load(source.error.split("`")[1])["schema"]
    source = run(lake)
    assert source.error is None
    assert (ids(lake), len(source.failed)) == ([0, 2], 2)


def test_a_column_of_nothing_fits_any_type(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    for number in range(3):
        parquet(lake, f"{number}.parquet", pa.null(), None)
    parquet(lake, "4.parquet", pa.int64(), 4)
    source = run(lake)
    assert (source.error, source.failed, source.rows) == (None, (), 4)


@pytest.mark.parametrize("odd", ["0.csv", "9.csv"])
def test_a_csv_file_whose_headings_collide_is_refused_and_the_rest_is_read(tmp_path: Path, odd: str) -> None:
    lake = lake_of(tmp_path, "csv")
    for number in range(1, 8):
        lake.write(f"d/{number}.csv", f"id,name\n{number},x\n")
    lake.write(f"d/{odd}", "id,name,Name\n0,x,y\n")
    source = run(lake)
    assert source.error is None
    assert ids(lake) == list(range(1, 8))
    (failed,) = source.failed
    assert failed.path == f"d/{odd}"
    assert "'Name'" in failed.reason
    assert any(odd in text for text in notices(lake))


def test_headings_that_most_files_spell_in_one_way(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "csv")
    for number in range(3):
        lake.write(f"d/{number}.csv", f"id,name\n{number},x\n")
    lake.write("d/3.csv", "ID,name\n3,x\n")
    source = run(lake)
    assert (source.error, [each.path for each in source.failed]) == (None, ["d/3.csv"])
    assert ids(lake) == [0, 1, 2]
    lake.write("d/4.csv", "id,NAME\n4,x\n")
    assert {each.path for each in run(lake).failed} == {"d/3.csv", "d/4.csv"}


def test_headings_that_collide_half_and_half_have_no_majority(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "csv")
    lake.write("d/1.csv", "id\n1\n")
    lake.write("d/2.csv", "ID\n2\n")
    source = run(lake)
    assert source.error is not None
    assert "schema: {fields: [{name: ID, type: int64}]}" in source.error


def test_json_records_that_contradict_those_of_most_files_are_bad_records(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "ndjson")
    for number in range(3):
        lake.write(f"d/{number}.ndjson", f'{{"id": {number}}}\n')
    lake.write("d/3.ndjson", '{"id": {"nested": true}}\n{"id": 3}\n')
    source = run(lake)
    assert source.error is None
    assert ids(lake)[:3] == [0, 1, 2]
    assert source.bad_records + len(source.failed) == 1
    assert any("d/3.ndjson" in text for text in notices(lake))


def test_schema_infer_shows_the_columns_of_the_majority(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    for number, kind in enumerate((pa.int64(), pa.int64(), pa.string())):
        parquet(lake, f"{number}.parquet", kind, "x" if kind == pa.string() else number)
    found = tidegate.infer_schema(lake.config, "events")
    assert "{name: id, type: int64}" in found.yaml


WIDE = 150_000


def wide_csv() -> str:
    return ",".join(f"c{number}" for number in range(WIDE)) + "\n" + "1," * (WIDE - 1) + "1\n"


@pytest.mark.parametrize("infer", [True, False], ids=["inferred", "declared"])
@pytest.mark.parametrize("header", [True, False], ids=["header", "no header"])
def test_a_csv_file_of_absurd_width_is_refused_at_once(tmp_path: Path, infer: bool, header: bool) -> None:
    schema: dict[str, Any] = {"infer": True} if infer else {"fields": [{"name": "id", "type": "int64"}]}
    lake = Lake(tmp_path, source_settings={"format": "csv", "csv": {"header": header}}, schema=schema)
    for number in range(2):
        lake.write(f"d/{number}.csv", ("id\n" if header else "") + f"{number}\n")
    text = wide_csv()
    lake.write("d/3.csv", text if header else text.partition("\n")[2])
    started = time.monotonic()
    source = run(lake)
    assert time.monotonic() - started < 3
    assert source.error is None
    assert source.rows == 2
    if header:
        (failed,) = source.failed
        assert "100,000" in failed.reason
    else:
        assert source.bad_records + len(source.failed) == 1


def test_a_csv_file_of_absurd_width_alone_says_why_no_columns_are_inferred(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "csv")
    lake.write("d/1.csv", wide_csv())
    started = time.monotonic()
    source = run(lake)
    assert time.monotonic() - started < 3
    assert source.error is not None
    assert "100,000" in source.error


def test_json_with_absurdly_many_fields_gives_no_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "MOST_COLUMNS", 50)
    lake = lake_of(tmp_path, "ndjson")
    lake.write("d/1.ndjson", '{"id": 1}\n')
    lake.write("d/2.ndjson", '{"id": 2, ' + ", ".join(f'"c{number}": 1' for number in range(50)) + "}\n")
    source = run(lake)
    assert (source.error, ids(lake)) == (None, [1, 2])
    assert any("51 fields" in text for text in notices(lake))


def test_parquet_with_absurdly_many_columns_gives_no_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MOST_COLUMNS", 50)
    lake = lake_of(tmp_path, "parquet")
    parquet(lake, "1.parquet", pa.int64(), 1)
    names = ["id", *(f"c{number}" for number in range(50))]
    pq.write_table(pa.table({name: [2] for name in names}), lake.root / "data/d/2.parquet")
    source = run(lake)
    assert (source.error, ids(lake)) == (None, [1, 2])
    assert any("51 columns" in text for text in notices(lake))
    assert source.unknown_fields["c7"] == 1


def test_parquet_with_absurdly_many_columns_alone_says_what_to_declare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "MOST_COLUMNS", 1)
    lake = lake_of(tmp_path, "parquet")
    (lake.root / "data/d").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1], "name": ["x"]}), lake.root / "data/d/1.parquet")
    source = run(lake)
    assert source.error is not None
    assert "d/1.parquet: it has 2 columns" in source.error


def json_lines(*records: object) -> str:
    return "".join(json.dumps(each) + "\n" for each in records)


@pytest.mark.usefixtures("each_reader")
@pytest.mark.parametrize("format_", ["ndjson", "json"])
@pytest.mark.parametrize(
    ("good", "twin"),
    [({"v": "x"}, {"V": "y"}), ({"v": {"a": 1}}, {"v": {"A": 2}}), ({"v": [{"a": 1}]}, {"v": [{"A": 2}]})],
    ids=["column", "nested", "in a list"],
)
def test_a_json_field_that_differs_from_a_column_only_in_case_is_a_bad_record(
    tmp_path: Path, format_: str, good: dict[str, Any], twin: dict[str, Any]
) -> None:
    """Its value has no column, and a row without it would be a guess."""
    lake = lake_of(tmp_path, format_)

    def write(name: str, *records: dict[str, Any]) -> None:
        lake.write(f"d/{name}.{format_}", json_lines(*records) if format_ == "ndjson" else json.dumps(records))

    for number in range(3):
        write(str(number), {"id": number, **good})
    write("3", {"id": 3, **twin}, {"id": 4, **good})
    source = run(lake)
    assert source.error is None
    assert (ids(lake), source.bad_records) == ([0, 1, 2, 4], 1)
    assert source.unknown_fields == {}
    write("5", {"id": 5, **twin}, {"id": 6, **good, "new": 1})
    source = run(lake)
    assert (ids(lake), source.bad_records) == ([0, 1, 2, 4, 6], 1)
    assert [row["new"] for row in lake.rows("select new from t where id = 6")] == [1]


def test_a_rescued_column_takes_fields_that_differ_only_in_case(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "ndjson", rescued="rest")
    for number in range(3):
        lake.write(f"d/{number}.ndjson", json_lines({"id": number, "v": 1}))
    lake.write("d/3.ndjson", json_lines({"id": 3, "V": 2}))
    assert run(lake).bad_records == 0
    assert [json.loads(row["rest"]) for row in lake.rows("select rest from t where id = 3")] == [{"V": 2}]


def table(lake: Lake, name: str, **columns: pa.Array) -> None:
    target = lake.root / "data/d" / f"{name}.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), target)


def test_a_file_that_is_odd_already_makes_no_tie(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    for number in range(6):
        table(lake, str(number), id=pa.array([number]))
    table(lake, "6", id=pa.array([6]), note=pa.array(["x"]))
    table(lake, "7", id=pa.array(["seven"]), note=pa.array([1]))
    source = run(lake)
    assert (source.error, [each.path for each in source.failed]) == (None, ["d/7.parquet"])
    assert ids(lake) == list(range(7))
    assert [row["note"] for row in lake.rows("select note from t where id = 6")] == ["x"]


def test_the_draft_for_a_tie_has_the_columns_of_all_files(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    table(lake, "0", id=pa.array([0]), left=pa.array([1]))
    table(lake, "1", id=pa.array(["x"]), right=pa.array([1]))
    error = run(lake).error
    assert error is not None
    fields = yaml.safe_load(error.split("`")[1])["schema"]["fields"]
    assert {each["name"] for each in fields} == {"id", "left", "right"}


@pytest.mark.parametrize("newest", ["0", "9"])
def test_fields_inside_a_column_join_as_columns_do(tmp_path: Path, newest: str) -> None:
    lake = lake_of(tmp_path, "parquet")
    for number in range(1, 4):
        table(lake, str(number), id=pa.array([number]), s=pa.array([{"a": 1, "l": [{"x": 1}]}]))
    table(lake, newest, id=pa.array([9]), s=pa.array([{"a": 2, "b": 3, "l": [{"x": 1, "y": 4}]}]))
    source = run(lake)
    assert (source.error, source.failed, source.unknown_fields) == (None, (), {})
    values = {row["id"]: row["s"] for row in lake.rows("select id, s from t")}
    assert values[1] == {"a": 1, "b": None, "l": [{"x": 1, "y": None}]}
    assert values[9] == {"a": 2, "b": 3, "l": [{"x": 1, "y": 4}]}


@pytest.mark.parametrize("odd", [{"a": "text"}, {"A": 1}], ids=["type", "case"])
def test_a_field_inside_a_column_that_does_not_join_makes_its_file_odd(tmp_path: Path, odd: dict[str, Any]) -> None:
    lake = lake_of(tmp_path, "parquet")
    for number in range(3):
        table(lake, str(number), id=pa.array([number]), s=pa.array([{"a": 1}]))
    table(lake, "9", id=pa.array([9]), s=pa.array([odd]))
    source = run(lake)
    assert (source.error, [each.path for each in source.failed]) == (None, ["d/9.parquet"])
    assert "s.a" in source.failed[0].reason
    assert ids(lake) == [0, 1, 2]


def test_parquet_files_without_rows_do_not_vote(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    for number in range(3):
        table(lake, str(number), id=pa.array([], pa.string()))
    table(lake, "8", id=pa.array([8]))
    table(lake, "9", id=pa.array([9]))
    source = run(lake)
    assert (source.error, ids(lake)) == (None, [8, 9])
