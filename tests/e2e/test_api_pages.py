"""Every page of an API comes, once; a response that says there is more is never the end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import tidegate
from servers import api as api_server
from servers.api import Answer, Api
from servers.paging import SHAPES, SIZE
from support.canary import CANARY
from support.errors import raises
from tidegate import ConfigError, IngestOptions, ProjectSpec, RunReport, load
from tidegate.commands import ingest as command
from tidegate.core.columns.state import ColumnState, encode_columns
from tidegate.errors import SourceError
from tidegate.observe.events import Event, Notice
from tidegate.protocol.change import SourceKey
from tidegate.protocol.delta import query
from tidegate.protocol.documents import Mirror
from tidegate.reports.run import IngestReport
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs happen in this process, and everything in this folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "run", lambda project, **other: run(project))
    return tmp_path


@pytest.fixture
def api() -> Iterator[Api]:
    with api_server.running() as found:
        yield found


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"name {number}"} for number in range(1, count + 1)]


def run(project: ProjectSpec, told: list[Event] | None = None) -> RunReport:
    loop = Loop(project, InProcessEngine(), 1)
    if told is not None:
        loop.emit = told.append
    return loop.once(project.pipelines)


def configured(api: Api, path: str = "/rows", **keys: Any) -> ProjectSpec:
    """One pipeline that appends what lies above the greatest id."""
    source = {"connection": "api", "path": path, "watermark_columns": ["id"], **keys}
    body = {
        "connections": {"api": {"type": "http", "url": api.url}},
        "pipelines": {"p": {"source": source, "sink": {"table_uri": "lake/p"}}},
    }
    Path("p.yml").write_text(json.dumps(body))
    return load("p.yml")


def ids(table: str) -> list[int]:
    found = query(Location(Path(table).absolute().as_uri()), "select id from t")
    return sorted(row["id"] for row in found)


def ingested(address: str, options: IngestOptions | None = None) -> IngestReport:
    report = tidegate.ingest(address, "lake/t", options or IngestOptions(watermark=("id",)))
    assert report.run is not None
    assert report.run.ok, [each.error for each in report.run.sources]
    return report


def source_of(report: IngestReport) -> Mapping[str, Any]:
    (pipeline,) = yaml.safe_load(report.yaml)["pipelines"].values()
    found: Mapping[str, Any] = pipeline["source"]
    return found


@pytest.mark.parametrize("count", [25, 30], ids=["short last page", "full last page"])
@pytest.mark.parametrize("name", SHAPES)
def test_ingest_finds_out_how_an_api_pages_and_reads_every_page(api: Api, name: str, count: int) -> None:
    shape = SHAPES[name]
    api.routes["/rows"] = shape.make(rows(count), api.url)
    report = ingested(f"{api.url}/rows?{shape.query}")
    assert source_of(report).get("pagination") == shape.block
    assert source_of(report).get("records", "") == shape.records
    assert ids("lake/t") == list(range(1, count + 1))
    assert {"records", "pages"} <= set(dict(report.found))


@pytest.mark.parametrize("name", SHAPES)
def test_an_api_that_pages_fails_without_pagination_and_the_block_it_names_reads_it(api: Api, name: str) -> None:
    shape = SHAPES[name]
    api.routes["/rows"] = shape.make(rows(25), api.url)
    keys: dict[str, Any] = {"records": shape.records} if shape.records else {}
    if shape.query:
        parameter, _, value = shape.query.partition("=")
        keys["params"] = {parameter: value}
    (source,) = run(configured(api, **keys)).sources
    assert source.error is not None
    assert (source.commits, Path("lake/p/_delta_log").exists()) == (0, False)
    assert f"{shape.place} is " in source.error
    block = source.error.partition("write `")[2].partition("`")[0]
    assert yaml.safe_load(block)["pagination"] == shape.block
    assert run(configured(api, **keys, **yaml.safe_load(block))).ok
    assert ids("lake/p") == list(range(1, 26))


@pytest.mark.parametrize("name", SHAPES)
def test_one_response_that_is_everything_is_read_without_pagination(api: Api, name: str) -> None:
    shape = SHAPES[name]
    api.routes["/rows"] = shape.make(rows(SIZE - 1), api.url)
    keys: dict[str, Any] = {"records": shape.records} if shape.records else {}
    assert run(configured(api, **keys)).ok
    assert ids("lake/p") == list(range(1, SIZE))


@pytest.mark.parametrize("name", SHAPES)
def test_one_page_that_is_everything_is_ingested_without_pagination(api: Api, name: str) -> None:
    api.routes["/rows"] = SHAPES[name].make(rows(SIZE - 1), api.url)
    report = ingested(f"{api.url}/rows")
    assert "pagination" not in source_of(report)
    assert ids("lake/t") == list(range(1, SIZE))


def test_who_writes_none_reads_one_response_and_is_told_once(api: Api) -> None:
    api.routes["/rows"] = SHAPES["page and total"].make(rows(25), api.url)
    told: list[Event] = []
    project = configured(api, records="data", pagination={"type": "none"})
    assert run(project, told).ok
    assert ids("lake/p") == list(range(1, 11))
    notices = [each.text for each in told if isinstance(each, Notice)]
    assert [each for each in notices if "pagination: {type: none} is set" in each] == notices
    assert len(notices) == 1
    (plan,) = tidegate.plan(Path("p.yml"))
    assert notices[0] in plan.notes


def test_the_next_page_of_a_filtered_read_is_not_the_end_either(api: Api) -> None:
    api.routes["/rows"] = SHAPES["page and total"].make(rows(5), api.url)
    project = configured(api, records="data")
    assert run(project).ok
    api.routes["/rows"] = SHAPES["page and total"].make(rows(25), api.url)
    (source,) = run(project).sources
    assert "total is 25" in (source.error or "")
    assert ids("lake/p") == [1, 2, 3, 4, 5]


def growing(field: str, param: str, count: int = 25) -> Any:
    """Records that grow by ``field``, and a server that filters them by ``param``, ten per page."""
    found = [{"id": n, field: f"2026-01-{n:02d}T00:00:00Z"} for n in range(1, count + 1)]

    def route(asked: api_server.Asked) -> Answer:
        since = asked.params.get(param, "")
        kept = [each for each in found if str(each[field]) >= since]
        begin = (int(asked.params.get("page", 1)) - 1) * SIZE
        # The total knows nothing of the filter.
        return Answer({"data": kept[begin : begin + SIZE], "total": len(found)})

    return route, found


def test_a_field_that_grows_and_its_parameter_are_found_and_used(api: Api) -> None:
    api.routes["/rows"], found = growing("updated_at", "updated_since")
    report = tidegate.ingest(f"{api.url}/rows", "lake/t", save=Path("saved.yml"))
    assert report.run is not None
    assert report.run.ok
    source = source_of(report)
    assert source["watermark_columns"] == ["updated_at"]
    assert source["watermark_param_mapping"] == {"updated_at": "updated_since"}
    assert "updated_since" in dict(report.found)["grows"]
    found.append({"id": 26, "updated_at": "2026-01-26T00:00:00Z"})
    api.asked.clear()
    again = run(load("saved.yml"))
    assert (again.ok, again.sources[0].rows, ids("lake/t")) == (True, 1, list(range(1, 27)))
    assert {each.params["updated_since"] for each in api.asked} == {"2026-01-25T00:00:00Z"}


def test_a_parameter_that_the_server_ignores_is_not_written(api: Api) -> None:
    api.routes["/rows"], _ = growing("updated_at", "no_such_parameter")
    report = tidegate.ingest(f"{api.url}/rows", "lake/t", dry_run=True)
    assert {"watermark_columns", "watermark_param_mapping"}.isdisjoint(source_of(report))
    assert "load_type: overwrite" in report.yaml


def test_a_filter_that_the_total_of_one_response_does_not_know_is_not_written(api: Api) -> None:
    found = [{"id": n, "updated_at": f"2026-01-{n:02d}T00:00:00Z"} for n in range(1, 9)]

    def route(asked: api_server.Asked) -> Answer:
        kept = [each for each in found if str(each["updated_at"]) >= asked.params.get("since", "")]
        return Answer({"data": kept, "total": len(found)})

    api.routes["/rows"] = route
    report = ingested(f"{api.url}/rows", IngestOptions(watermark=("updated_at",)))
    assert "watermark_param_mapping" not in source_of(report)
    assert "total counts all records" in dict(report.found)["grows"]
    found.append({"id": 9, "updated_at": "2026-01-09T00:00:00Z"})
    ingested(f"{api.url}/rows", IngestOptions(watermark=("updated_at",)))
    assert ids("lake/t") == list(range(1, 10))


def test_a_number_that_grows_is_followed_like_a_time(api: Api) -> None:
    found = rows(8)

    def route(asked: api_server.Asked) -> Answer:
        return Answer({"items": [each for each in found if each["id"] > int(asked.params.get("since_id", 0))]})

    api.routes["/rows"] = route
    report = ingested(f"{api.url}/rows", IngestOptions())
    assert source_of(report)["watermark_param_mapping"] == {"id": "since_id"}
    assert "not read again" in dict(report.found)["grows"]
    found += [{"id": 9, "name": "nine"}]
    ingested(f"{api.url}/rows", IngestOptions())
    assert ids("lake/t") == list(range(1, 10))


def test_a_table_goes_on_by_the_column_it_began_with(api: Api) -> None:
    api.routes["/rows"], _ = growing("updated_at", "updated_since")
    ingested(f"{api.url}/rows", IngestOptions())
    api.routes["/rows"] = lambda asked: Answer({"data": [], "total": 0})
    report = ingested(f"{api.url}/rows", IngestOptions())
    assert source_of(report)["watermark_columns"] == ["updated_at"]
    assert ("load_type: append" in report.yaml, len(ids("lake/t"))) == (True, 25)


def test_a_table_that_follows_no_column_is_not_given_one(api: Api) -> None:
    api.routes["/rows"], _ = growing("updated_at", "since")
    address = f"{api.url}/rows"
    assert "watermark_columns" in source_of(tidegate.ingest(address, "lake/t", dry_run=True))
    key = SourceKey("t", "default")
    state = encode_columns(ColumnState({}, frozenset(), datetime(2026, 1, 1, tzinfo=UTC)))
    mirror = Mirror(key, 1, "one", 0, -1, state, 1, "2026-01-01T00:00:00+00:00")
    open_store(Location(Path("lake/t").absolute().as_uri())).put(key.mirror, mirror.to_bytes())
    report = tidegate.ingest(address, "lake/t", dry_run=True)
    assert "watermark_columns" not in source_of(report)
    assert "load_type: overwrite" in report.yaml


def test_a_filter_that_fits_two_fields_alike_is_left_to_the_user(api: Api) -> None:
    found = [{"id": n, "created_at": f"2026-01-{n:02d}T00:00:00Z"} for n in range(1, 9)]
    found = [{**each, "updated_at": each["created_at"]} for each in found]

    def route(asked: api_server.Asked) -> Answer:
        return Answer([each for each in found if str(each["created_at"]) >= asked.params.get("since", "")])

    api.routes["/rows"] = route
    report = tidegate.ingest(f"{api.url}/rows", "lake/t", dry_run=True)
    assert "watermark_param_mapping" not in source_of(report)
    assert "--watermark" in dict(report.found)["grows"]
    named = tidegate.ingest(f"{api.url}/rows", "lake/t", IngestOptions(watermark=("created_at",)), dry_run=True)
    assert source_of(named)["watermark_param_mapping"] == {"created_at": "since"}


def test_what_the_user_says_wins(api: Api) -> None:
    body = {"results": rows(3), "people": [{"id": 7}], "next": None}
    api.routes["/rows"] = lambda asked: Answer(body)
    report = ingested(f"{api.url}/rows", IngestOptions(records="people", watermark=("id",)))
    assert (source_of(report)["records"], source_of(report)["watermark_columns"], ids("lake/t")) == (
        "people",
        ["id"],
        [7],
    )


def test_a_page_in_the_address_is_where_the_read_begins(api: Api) -> None:
    api.routes["/rows"] = SHAPES["bare list"].make(rows(25), api.url)
    report = ingested(f"{api.url}/rows?page=2&per_page=10")
    assert source_of(report)["pagination"] == {"type": "page", "param": "page", "start": 2}
    assert source_of(report)["params"] == {"per_page": "10"}
    assert ids("lake/t") == list(range(11, 26))


def test_a_dry_run_looks_and_reads_nothing_else(api: Api) -> None:
    api.routes["/rows"] = SHAPES["Link header"].make(rows(25), api.url)
    report = tidegate.ingest(f"{api.url}/rows", "lake/t", dry_run=True)
    assert source_of(report)["pagination"] == {"type": "next_link"}
    assert (report.run, Path("lake").exists(), [each.params.get("page") for each in api.asked][:2]) == (
        None,
        False,
        [None, "2"],
    )
    assert "3" not in [each.params.get("page") for each in api.asked]


REFUSED: dict[str, tuple[Answer, type[Exception], str]] = {
    "status": (Answer({"message": "no entry"}, 403), SourceError, "403 … credentials"),
    "missing": (Answer({"message": "nothing here"}, 404), SourceError, "404 … url and path"),
    "error": (Answer({"error": "out of order", "data": []}), SourceError, "'error' … out of order"),
    "web page": (Answer(b"<html>log in</html>", kind="text/html"), SourceError, "text/html … JSON"),
    "no list": (Answer({"id": 1, "name": "one"}), ConfigError, "list of records … id, name"),
    "a word": (Answer("hello"), ConfigError, 'list of records … "hello"'),
    "several": (Answer({"men": [{"id": 1}], "women": [{"id": 2}]}), ConfigError, "men (1), women (1)"),
    "no objects": (Answer({"data": [1, 2, 3]}), ConfigError, "objects"),
    "unknown pages": (Answer({"data": rows(10), "total": 25}), ConfigError, "total is 25 … type: page"),
    "unknown cursor": (Answer({"data": rows(10), "next_cursor": "x"}), ConfigError, "next_cursor is x"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_understood_is_refused_with_what_was_seen(api: Api, case: str) -> None:
    answer, kind, told = REFUSED[case]
    api.routes["/rows"] = lambda asked: answer
    with raises(kind, "/rows", told):
        tidegate.ingest(f"{api.url}/rows", "lake/t", save=Path("p.yml"))
    assert (Path("p.yml").exists(), Path("lake").exists()) == (False, False)


SAYS_MORE: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "Cloudflare": ({"result_info": {"page": 1, "per_page": 4, "total_count": 9, "total_pages": 3}}, {}),
    "Zoho": ({"info": {"more_records": True}}, {}),
    "a job": ({"done": True, "next_token": "abc"}, {}),
    "DynamoDB": ({"LastEvaluatedKey": {"id": {"N": "4"}}}, {}),
    "BigQuery": ({"jobComplete": True, "pageToken": "abc"}, {}),
    "a flag in an object": ({"page_context": {"has_more_page": True}}, {}),
    "Cosmos DB": ({}, {"x-ms-continuation": "abc"}),
}


@pytest.mark.parametrize("name", SAYS_MORE)
def test_what_says_more_and_leads_nowhere_is_neither_ingested_nor_read(api: Api, name: str) -> None:
    rest, headers = SAYS_MORE[name]
    api.routes["/rows"] = lambda asked: Answer({"data": rows(4), **rest}, headers=headers)
    with raises(ConfigError, "/rows", "4 records"):
        tidegate.ingest(f"{api.url}/rows", "lake/t", save=Path("p.yml"))
    assert (Path("p.yml").exists(), Path("lake").exists()) == (False, False)
    (source,) = run(configured(api, records="data")).sources
    assert (source.error is not None, source.commits, Path("lake/p/_delta_log").exists()) == (True, 0, False)


def test_a_misspelt_flag_fails_the_run(api: Api) -> None:
    route = SHAPES["nested token"].make(rows(25), api.url)

    def flagged(asked: api_server.Asked) -> Answer:
        content = route(asked).content
        content["meta"]["has_more"] = content["meta"]["paging"]["next_page_token"] is not None
        return Answer(content)

    api.routes["/rows"] = flagged
    paging = {"type": "cursor", "param": "page_token", "next": "meta.paging.next_page_token"}
    (source,) = run(configured(api, records="data", pagination={**paging, "more": "meta.hasmore"})).sources
    assert "'meta.hasmore'" in (source.error or "")
    assert "meta.has_more" in (source.error or "")
    assert (source.commits, Path("lake/p/_delta_log").exists()) == (0, False)
    assert run(configured(api, records="data", pagination={**paging, "more": "meta.has_more"})).ok
    assert ids("lake/p") == list(range(1, 26))


@pytest.mark.parametrize("case", ["echo", "error", "pages"])
def test_a_key_of_the_address_is_never_shown(api: Api, case: str) -> None:
    def route(asked: api_server.Asked) -> Answer:
        key = asked.params["api_key"]
        if case == "error":
            return Answer({"message": f"{key} is not allowed"}, 403)
        more = {"total": 25, key: key} if case == "pages" else {"next": None, "key": key}
        return Answer({"data": rows(10), **more})

    api.routes["/rows"] = route
    try:
        report = tidegate.ingest(f"{api.url}/rows?api_key={CANARY}", "lake/t", dry_run=True)
        shown = f"{report.found}{report.yaml}"
    except tidegate.TidegateError as error:
        shown = str(error)
    assert (CANARY in shown, bool(shown)) == (False, True)


@pytest.mark.parametrize("more", [{}, {"total": 25}, {"next": True, "next_url": "here"}, {"error": "here"}], ids=str)
def test_a_key_in_the_path_is_never_shown(api: Api, more: dict[str, Any]) -> None:
    key = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
    path = f"/bot{key}/rows"
    api.routes[path] = lambda asked: Answer(
        {"data": rows(4)} | {name: path if value == "here" else value for name, value in more.items()}
    )
    try:
        report = tidegate.ingest(f"{api.url}{path}", "lake/t", dry_run=True)
        shown = f"{report.found}{report.yaml}"
        assert not more or "next" in more
    except tidegate.TidegateError as error:
        assert more
        shown = str(error)
    assert ("AAHdqTcv" in shown, bool(shown)) == (False, True)


def test_json_under_another_content_type_is_read(api: Api) -> None:
    api.routes["/rows"] = lambda asked: Answer(rows(3), kind="text/plain")
    assert source_of(ingested(f"{api.url}/rows"))["response_types"] == ["text/plain"]
    assert ids("lake/t") == [1, 2, 3]


def test_an_api_without_records_yet_is_not_refused(api: Api) -> None:
    api.routes["/rows"] = lambda asked: Answer({"data": [], "total": 0, "next": None})
    report = tidegate.ingest(f"{api.url}/rows", "lake/t", dry_run=True)
    assert source_of(report)["records"] == "data"
    assert "no record yet" in dict(report.found)["pages"]
