"""Work units of files: downloaded by address, or found in a folder or in object storage."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from servers.api import Answer, Api, running
from servers.s3 import Server
from servers.surveys import keep_files, keep_surveys
from support.avro_files import avro_file, record_of
from support.errors import check_names
from support.format_files import ENDINGS as OF_FILES
from support.format_files import written
from support.unit_waves import carried_out, failure, inferred, rows, source, surveys, wave, work
from tidegate.errors import SourceMissing
from tidegate.sources.units.fetch import address_of, list_files
from tidegate.sources.units.work import Fetched, UnitFailure, UnitWork, UnitWritten, Variables
from tidegate.specs.columns import AuthKind, CsvOptions, HttpAuth, HttpRead, Retries
from tidegate.specs.locations import Location, Secret
from tidegate.specs.table import FieldSpec, SchemaSpec
from tidegate.specs.units import (
    Bounding,
    FileFormat,
    FileRead,
    PartitionKind,
    RangeParam,
    Replace,
    UnitSource,
    WorkUnits,
)
from tidegate.storage.stores import open_store
from tidegate.tasks.unit_share import carry_out_here
from tidegate.tasks.unit_task import fetch, fetch_task, plan_write, write

FIELDS = (FieldSpec("id", "int64"), FieldSpec("k", "string"))
SCHEMA = SchemaSpec(FIELDS)
DAY = (RangeParam("day", Bounding.LOW, "date"),)
RECORDS = [{"id": 1, "k": "a"}, {"id": 2, "k": "b,\n"}]
ENDINGS = {**OF_FILES, "excel": ".xlsx"}
FORMATS = sorted(ENDINGS)
AVRO_UUID = {"type": "string", "logicalType": "uuid"}


def from_server(api: Api, format: str, path: str = "/files/{{day}}.x", **given: Any) -> UnitSource:
    http = HttpRead(api.url, path, retries=Retries(2, 0.0, 1.0), auth=given.pop("auth", HttpAuth()))
    return source(FileRead(FileFormat(format), http=http, **given), unit=None, params=DAY)


def from_folder(uri: str, format: str = "ndjson", **given: Any) -> UnitSource:
    settings = {"params": DAY, "time_column": given.pop("time_column", None)}
    return source(FileRead(FileFormat(format), location=Location(uri), **given), **settings)


def ids(folder: Path, result: UnitWritten | UnitFailure | None, of: UnitWork | None = None) -> list[int]:
    return [row["id"] for row in rows(folder, result, of)]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("schema", [SCHEMA, inferred()], ids=["declared", "inferred"])
def test_each_format_is_downloaded_and_found(api: Api, tmp_path: Path, format: str, schema: SchemaSpec) -> None:
    content = written(format, RECORDS)
    keep_files(api, {f"/files/2026-02-01{ENDINGS[format]}": content})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"2026-02-01{ENDINGS[format]}").write_bytes(content)
    by_http = from_server(api, format, f"/files/{{{{day}}}}{ENDINGS[format]}")
    in_place = from_folder(f"{(tmp_path / 'in').as_uri()}/{{{{ day }}}}.*", format)
    for of in (by_http, in_place):
        (result,) = carried_out(wave(tmp_path, of, [work("", 1, 2)], schema))
        found = [(row["id"], row["k"]) for row in rows(tmp_path, result)]
        assert found == [(1, "a"), (2, "b,\n")]
    assert (tmp_path / "in" / f"2026-02-01{ENDINGS[format]}").exists(), "what is read in place stays"


@pytest.mark.parametrize("schema", [SCHEMA, inferred()], ids=["declared", "inferred"])
def test_a_workbook_that_does_not_fit_fails_its_work_unit_alone(api: Api, tmp_path: Path, schema: SchemaSpec) -> None:
    bad = [*RECORDS, {"id": "three", "k": "c"}]
    contents = [written("excel", each, sheet="prices") for each in (RECORDS, RECORDS, bad)]
    keep_files(api, {f"/files/2026-02-0{day}.x": content for day, content in enumerate((*contents, b"no zip"), 1)})
    days = [work("", day, day + 1) for day in range(1, 5)]
    good, other, third, fourth = carried_out(wave(tmp_path, from_server(api, "excel", sheet="prices"), days, schema))
    assert [ids(tmp_path, *each) for each in ((good, days[0]), (other, days[1]))] == [[1, 2], [1, 2]]
    check_names(failure(third).problem, "2026-02-03.x … row 4" if schema.fields else "agree … other work units")
    check_names(failure(fourth).problem, f"{api.url}/files/2026-02-04.x", "Excel workbook")
    (missing,) = carried_out(wave(tmp_path, from_server(api, "excel", sheet="sales"), days[:1], schema))
    check_names(failure(missing).problem, "2026-02-01.x", "sheet 'sales'")


def test_times_of_a_workbook_belong_to_the_zone_of_the_source(tmp_path: Path) -> None:
    content = written("excel", [{"id": 1, "k": "a", "at": datetime(2026, 2, 1, 12)}])
    (tmp_path / "2026-02-01.xlsx").write_bytes(content)
    of = from_folder(f"{tmp_path.as_uri()}/{{{{day}}}}.xlsx", "excel", timezone="Europe/Berlin")
    schema = SchemaSpec((*FIELDS, FieldSpec("at", "timestamp")))
    (result,) = carried_out(wave(tmp_path, of, [work("", 1, 2)], schema))
    assert [row["at"] for row in rows(tmp_path, result)] == [datetime(2026, 2, 1, 11, tzinfo=UTC)]


def test_a_server_that_keeps_seven_days(api: Api, tmp_path: Path) -> None:
    files = {f"/files/2026-02-{day:02d}.csv.gz": gzip.compress(f"id,k\n{day},x\n".encode()) for day in range(8, 15)}
    keep_files(api, files)
    days = [work("", day, day + 1) for day in range(7, 16)]
    results = carried_out(wave(tmp_path, from_server(api, "csv", "/files/{{day}}.csv.gz"), days, SCHEMA))
    assert [failure(results[number]).not_found for number in (0, -1)] == [True, True]
    found = [ids(tmp_path, *each) for each in zip(results[1:-1], days[1:-1], strict=True)]
    assert found == [[day] for day in range(8, 15)]


def test_what_a_file_is_compressed_with_shows_in_it(api: Api, tmp_path: Path) -> None:
    content = written("ndjson", RECORDS)
    api.routes["/files/2026-02-01.x"] = lambda asked: Answer(content, kind="application/x-ndjson", is_zipped=True)
    api.routes["/files/2026-02-02.x"] = lambda asked: Answer(gzip.compress(content), kind=None)
    of, days = from_server(api, "ndjson"), [work("", 1, 2), work("", 2, 3)]
    results = carried_out(wave(tmp_path, of, days, SCHEMA))
    assert [ids(tmp_path, *each) for each in zip(results, days, strict=True)] == [[1, 2], [1, 2]]
    assert api.asked[0].headers["accept"] == "*/*"
    strict = from_server(api, "ndjson", compression="gzip")
    results = carried_out(wave(tmp_path, strict, [work("", 1, 2), work("", 2, 3)], SCHEMA))
    check_names(failure(results[0]).problem, "2026-02-01.x", "gzip")
    assert ids(tmp_path, results[1]) == [1, 2]


def test_a_download_does_not_follow_a_redirect_elsewhere(api: Api, tmp_path: Path) -> None:
    with running() as other:
        other.routes["/x.ndjson"] = lambda asked: Answer(b'{"id": 1}')
        api.routes["/x.ndjson"] = lambda asked: Answer(b"", 302, {"Location": f"{other.url}/x.ndjson"})
        of = from_server(api, "ndjson", "/x.ndjson", auth=HttpAuth(AuthKind.BEARER, token=Secret("canary")))
        (refused,) = carried_out(wave(tmp_path, of, [work("", 1, 2)], SCHEMA))
        check_names(failure(refused).problem, other.url, api.url)
        assert other.asked == []
        assert isinstance(of.read, FileRead)
        assert of.read.http is not None
        allowed = replace(of, read=replace(of.read, http=replace(of.read.http, allowed_origins=(other.url,))))
        (result,) = carried_out(wave(tmp_path, allowed, [work("", 1, 2)], SCHEMA))
        assert ids(tmp_path, result) == [1]
        assert "canary" not in str(other.asked)


def test_a_download_is_tried_again_and_never_taken_by_half(api: Api, tmp_path: Path) -> None:
    content = written("ndjson", RECORDS)
    keep_files(api, {"/files/2026-02-01.x": content})
    api.faults["/files/2026-02-01.x"].extend([Answer(content, cut=9, kind=None), Answer("busy", 503)])
    auth = HttpAuth(AuthKind.BEARER, token=Secret("canary-token"))
    given = wave(tmp_path, from_server(api, "ndjson", auth=auth), [work("", 1, 2)], SCHEMA)
    (result,) = carried_out(given)
    assert ids(tmp_path, result) == [1, 2]
    assert isinstance(result, UnitWritten)
    assert (result.requests, api.asked[-1].headers["authorization"]) == (3, "Bearer canary-token")
    api.faults["/files/2026-02-01.x"].extend([Answer(content, cut=9, kind=None)] * 3)
    (result,) = carried_out(given)
    check_names(failure(result).problem, "3 times")
    assert "canary" not in repr(result)


def test_pages_for_people_and_empty_answers(api: Api, tmp_path: Path) -> None:
    api.routes["/files/2026-02-01.x"] = lambda asked: Answer(b"<html>log in</html>", kind="text/html; charset=utf-8")
    api.routes["/files/2026-02-02.x"] = lambda asked: Answer(b"", 204)
    given = wave(tmp_path, from_server(api, "csv"), [work("", 1, 2), work("", 2, 3)], SCHEMA)
    results = carried_out(given)
    assert "a web page" in failure(results[0]).problem
    assert results[1] == UnitWritten(requests=1)


@pytest.mark.parametrize(
    ("format", "content", "problem"),
    [
        ("ndjson", b'{"id": 1}\n{"id": "x"}\n', "line 2"),
        ("ndjson", b'{"id": 1}\n{"id": ', "line 2"),
        ("json", b'[{"id": 1}, {"id": 1.5}]', "record 2"),
        ("csv", b"id,k\n1,a\nx,b\n", "record 2"),
        ("csv", b"other\n1\n", "declared columns"),
        ("parquet", b"PAR1 and nothing", "Parquet file"),
        ("avro", b"Obj", "Avro file"),
        ("avro", avro_file(record_of({"id": "long", "k": AVRO_UUID}), [{"id": 1, "k": "x"}]), "record 1 … 'k'"),
    ],
)
def test_what_does_not_fit_is_named_by_file_and_line(
    api: Api, tmp_path: Path, format: str, content: bytes, problem: str
) -> None:
    keep_files(api, {"/files/2026-02-01.x": content, "/files/2026-02-02.x": written(format, RECORDS)})
    given = wave(tmp_path, from_server(api, format), [work("", 1, 2), work("", 2, 3)], SCHEMA)
    results = carried_out(given)
    told = failure(results[0]).problem
    check_names(told, f"{api.url}/files/2026-02-01.x", problem)
    assert ids(tmp_path, results[1]) == [1, 2]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "2026-02-01.x").write_bytes(content)
    (result,) = carried_out(
        wave(tmp_path, from_folder(f"{(tmp_path / 'in').as_uri()}/{{{{day}}}}.x", format), [work("", 1, 2)], SCHEMA)
    )
    assert failure(result).problem.startswith(f"{(tmp_path / 'in').as_uri()}/2026-02-01.x")


def test_avro_files_of_units_infer_each_use_of_a_named_type(api: Api, tmp_path: Path) -> None:
    uid = UUID(int=7)
    fixed = {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}
    stray = {"type": "bytes", "logicalType": "uuid"}
    data = avro_file(
        record_of({"id": fixed, "k": ["null", "Id"], "b": stray}), [{"id": uid.bytes, "k": uid.bytes, "b": b"\xff"}]
    )
    keep_files(api, {"/files/2026-02-01.x": data})
    (result,) = carried_out(wave(tmp_path, from_server(api, "avro"), [work("", 1, 2)], inferred()))
    (row,) = rows(tmp_path, result)
    assert [row[name] for name in ("id", "k", "b")] == [str(uid), str(uid), b"\xff"]


@pytest.mark.parametrize(
    ("format", "first", "other", "problem"),
    [
        ("csv", b"id,k\n1,a\n", b"id,ID\n1,2\n", "ID"),
        (
            "csv",
            b"id,k\n1,a\n",
            b"K,id\nx,1\n",
            "'K' … upper and lower case",
        ),
        ("csv", b"id,k\n1,a\n", b"id,id\n1,1\n", "id"),
        ("parquet", written("parquet", RECORDS), written("parquet", [{"id": "x", "k": "a"}]), "'id'"),
    ],
)
def test_files_that_do_not_agree_with_the_most_are_told(
    api: Api, tmp_path: Path, format: str, first: bytes, other: bytes, problem: str
) -> None:
    keep_files(api, {f"/files/2026-02-0{day}.x": other if day == 1 else first for day in (1, 2, 3)})
    works = [work("", day, day + 1) for day in (1, 2, 3)]
    results = carried_out(wave(tmp_path, from_server(api, format), works, inferred()))
    check_names(failure(results[0]).problem, problem)
    assert [each.rows for each in results[1:] if isinstance(each, UnitWritten)] == [
        len(rows(tmp_path, results[1], works[1]))
    ] * 2


def test_a_csv_file_may_be_written_in_any_way(api: Api, tmp_path: Path) -> None:
    keep_files(api, {"/files/2026-02-01.tsv": b"# made today\n1\ta\n", "/files/2026-02-02.tsv": b"# x\n2\t-\n"})
    csv = CsvOptions(header=False, columns=("id", "k"), skip_rows=1, null_values=("-",))
    given = wave(tmp_path, from_server(api, "csv", "/files/{{day}}.tsv", csv=csv), [work("", 1, 2), work("", 2, 3)])
    results = carried_out(wave(tmp_path, given.source, given.works, SCHEMA))
    found = [row for each in zip(results, given.works, strict=True) for row in rows(tmp_path, *each)]
    assert [(row["id"], row["k"]) for row in found] == [(1, "a"), (2, None)]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["ndjson", "csv"])
def test_files_that_tell_nothing_tell_little_and_fail(tmp_path: Path, format: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"a,b\n" + b"no record\n" * 5000)
    (tmp_path / "in" / "b").write_bytes(written(format, RECORDS))
    of = from_folder(f"{(tmp_path / 'in').as_uri()}/{{{{surveyId}}}}", format)
    given = wave(tmp_path, of, [work("a", 1, 2), work("b", 1, 2)], inferred())
    told = fetch(fetch_task(given), given.works[0], 0)
    assert isinstance(told, UnitFailure) or len(told.samples) == 1
    results = carried_out(given)
    assert failure(results[0]).problem
    assert ids(tmp_path, results[1]) == [1, 2]


def test_a_record_without_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.formats.json.LONGEST_LINE", 1024 * 1024)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b'{"id": 1, "k": "' + b"x" * 9 * 1024 * 1024)
    of = from_folder(f"{(tmp_path / 'in').as_uri()}/a")
    for schema in (SCHEMA, inferred()):
        (result,) = carried_out(wave(tmp_path, of, [work("a", 1, 2)], schema))
        check_names(failure(result).problem, "/in/a", "record", "longer")


def test_wildcards_find_files_by_name_and_in_order(tmp_path: Path) -> None:
    for name in (
        "2026-02-01/eu/b-2.ndjson",
        "2026-02-01/us/b-1.ndjson",
        "2026-02-01/us/c.ndjson",
        "2026-02-02/eu/b-3.ndjson",
    ):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"id": int(name[-8]) if name[-8].isdigit() else 0}) + "\n")
    uri = (tmp_path / "in").as_uri()
    of = from_folder(f"{uri}/{{{{day}}}}/*/{{{{surveyId}}}}-?.ndjson")
    works = [work("b", 1, 2), work("b", 2, 3), work("x", 1, 2)]
    results = carried_out(wave(tmp_path, of, works, SCHEMA))
    assert [ids(tmp_path, *each) for each in zip(results[:2], works, strict=False)] == [[2, 1], [3]]
    assert failure(results[2]).not_found
    check_names(failure(results[2]).problem, f"{uri}/2026-02-01/*/x-?.ndjson", "no such file")


def test_a_folder_that_is_not_mounted_says_nothing_about_a_unit(tmp_path: Path) -> None:
    of = from_folder(f"{tmp_path.as_uri()}/mount/in/{{{{surveyId}}}}/*.ndjson")
    given = wave(tmp_path, of, [work("a", 1, 2)], SCHEMA)
    (result,) = carried_out(given)
    check_names(failure(result).problem, f"{tmp_path.as_uri()}/mount/in")
    assert not failure(result).not_found
    (tmp_path / "mount" / "in").mkdir(parents=True)
    (result,) = carried_out(given)
    assert failure(result).not_found


def test_signs_in_values_stand_for_themselves(tmp_path: Path) -> None:
    folder = tmp_path / "in [1]"
    folder.mkdir()
    for name in ("a*.x", "ab.x", "[q].x"):
        (folder / name).write_text('{"id": 1}\n')
    template = Location(f"{folder.as_uri()}/{{{{u}}}}.?")

    def found(value: str) -> list[str]:
        return [each.slice.path for each in list_files(address_of(template, Variables({"u": value})), 0, "auto")]

    assert (found("a*"), found("[q]"), found("ab")) == (["a*.x"], ["[q].x"], ["ab.x"])
    with pytest.raises(SourceMissing):
        found("*")
    literal = Location(f"{folder.as_uri()}/%7B%7Bu%7D%7D.x")
    assert [each.slice.path for each in list_files(address_of(literal, Variables({"u": "a*"})), 0, "auto")] == ["a*.x"]


@pytest.mark.parametrize("value", ["..", "../../etc", "a/../b", "", "/etc"])
def test_a_value_never_leads_out_of_the_folder(tmp_path: Path, value: str) -> None:
    of = from_folder(f"{tmp_path.as_uri()}/in/{{{{surveyId}}}}/a.ndjson")
    (result,) = carried_out(wave(tmp_path, of, [work(value, 1, 2)], SCHEMA))
    check_names(failure(result).problem, "empty", "'.'", "'..'")


def test_a_file_that_changed_since_it_was_listed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.ndjson").write_text('{"id": 1}\n')
    given = wave(tmp_path, from_folder(f"{(tmp_path / 'in').as_uri()}/a.ndjson"), [work("a", 1, 2)], SCHEMA)
    fetched = fetch(fetch_task(given), given.works[0], 0)
    assert isinstance(fetched, Fetched)
    (tmp_path / "in" / "a.ndjson").write_text('{"id": 1}\n{"id": 2}\n')
    check_names(failure(write(plan_write(given, [fetched]), fetched)).problem, 10)


def test_segments_that_would_get_the_same_rows_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.ndjson").write_text('{"id": 1, "at": "2026-02-01T00:00:00Z"}\n')
    uri = f"{(tmp_path / 'in').as_uri()}/{{{{surveyId}}}}.ndjson"
    (result,) = carried_out(wave(tmp_path, from_folder(uri), [work("a", 1, 2, 3)], SCHEMA))
    check_names(failure(result).problem, "2 segments", "same rows")
    timed = from_folder(uri, time_column="at")
    (result,) = carried_out(
        wave(tmp_path, timed, [work("a", 1, 2, 3)], SchemaSpec((*FIELDS, FieldSpec("at", "timestamp"))))
    )
    assert isinstance(result, UnitWritten)
    assert (result.rows, result.left_out) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "format", "is_fine"),
    [("daily", "%Y-%m", False), ("monthly", "%Y-%m", True), ("hourly", "date", False), ("daily", "date", True)],
)
def test_partitions_that_would_get_the_same_file_are_refused(
    tmp_path: Path, kind: str, format: str, is_fine: bool
) -> None:
    (tmp_path / "in").mkdir()
    for name in ("2026-02", "2026-02-01"):
        (tmp_path / "in" / name).write_text('{"id": 1}\n')
    of = from_folder(f"{(tmp_path / 'in').as_uri()}/{{{{day}}}}")
    pieces = WorkUnits(PartitionKind(kind))
    of = replace(of, work=pieces, params=(RangeParam("day", Bounding.LOW, format),))
    (result,) = carried_out(wave(tmp_path, of, [work("", 1, 2)], SCHEMA))
    assert isinstance(result, UnitWritten) == is_fine
    if not is_fine:
        check_names(failure(result).problem, f"{kind} partitions", "same rows")
        snapshot = FileRead(FileFormat.NDJSON, location=Location(f"{(tmp_path / 'in').as_uri()}/2026-02"))
        fine: list[dict[str, Any]] = [
            {"time_column": "id"},
            {"replace": Replace.MERGE_KEYS},
            {"read": snapshot, "params": ()},
        ]
        for given in fine:
            one = fetch(fetch_task(wave(tmp_path, replace(of, **given), [])), work("", 1, 2), 0)
            assert isinstance(one, Fetched)


def test_a_missing_later_segment_is_a_failure_and_no_unknown_unit(api: Api, tmp_path: Path) -> None:
    keep_files(api, {"/files/2026-02-01.x": written("ndjson", RECORDS)})
    (result,) = carried_out(wave(tmp_path, from_server(api, "ndjson"), [work("", 1, 2, 3)], SCHEMA))
    check_names(failure(result).problem, "2026-02-02.x", 404)
    assert not failure(result).not_found


@pytest.mark.s3
def test_objects_are_read_where_they_lie(s3: Server, tmp_path: Path) -> None:
    place = s3.location("units/in")
    store = open_store(place)
    for name in ("2026-02-01/a.parquet", "2026-02-01/b.parquet", "2026-02-02/c.parquet"):
        store.put(name, written("parquet", [{"id": ord(name[-9]), "k": name}]))
    read = FileRead(FileFormat.PARQUET, location=Location(f"{place.uri}/{{{{day}}}}/*.parquet", place.options))
    of = source(read, unit=None, params=DAY)
    given = wave(tmp_path, of, [work("", 1, 2), work("", 3, 4)], SCHEMA)
    results = carry_out_here(given).results
    assert ids(tmp_path, results[0]) == [97, 98]
    assert failure(results[1]).not_found


@pytest.mark.s3
def test_what_is_fetched_may_be_kept_in_object_storage(s3: Server, api: Api, tmp_path: Path) -> None:
    keep_files(api, {"/files/2026-02-01.x": written("parquet", RECORDS), "/files/2026-02-02.x": b""})
    api.faults["/files/2026-02-01.x"].append(Answer(written("parquet", RECORDS), cut=9, kind=None))
    given = wave(tmp_path, from_server(api, "parquet"), [work("", 1, 2), work("", 2, 3)], SCHEMA)
    scratch, place = s3.location("scratch"), s3.location("rows")
    aside = replace(given, scratch=scratch, place=place)
    first, second = carry_out_here(aside).results
    assert isinstance(first, UnitWritten)
    (file,) = first.data_files
    assert pq.read_table(io.BytesIO(open_store(place).get(file.path)))["id"].to_pylist() == [1, 2]
    check_names(failure(second).problem, "2026-02-02.x", "Parquet file")
    assert not list(open_store(scratch).list())
    pages = replace(wave(tmp_path, source(surveys(api)), [work("a"), work("b")]), scratch=scratch)
    keep_surveys(api, {"a": [{"id": 7, "at": "2026-02-03T00:00:00+00:00"}], "b": []})
    found, nothing = carry_out_here(pages).results
    assert ids(tmp_path, found) == [7]
    assert nothing == UnitWritten(requests=1)
    assert not list(open_store(scratch).list())
