"""Answers that are none: wrong type, wrong content, too large; and large ones in little memory."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from servers.api import Answer, Api, whole
from support.http_reads import ROWS, fetched, read_of
from tidegate.errors import SourceError
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.read import Counts, Fetch, blocks
from tidegate.specs.columns import Pagination, PaginationKind


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "text/plain", "application/xml"])
def test_another_content_type_is_refused(api: Api, kind: str) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": ROWS}, kind=kind)
    with pytest.raises(SourceError, match=f"the answer is {kind.split(';')[0]}, not JSON"):
        fetched(read_of(api))
    assert len(api.asked) == 1


def test_json_under_another_content_type_is_read_where_the_type_is_named(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": ROWS}, kind="Text/Plain; charset=utf-8")
    assert fetched(read_of(api, response_types=("text/csv", "text/plain"))) == ROWS
    with pytest.raises(SourceError, match="name its content type in `response_types`"):
        fetched(read_of(api, response_types=("text/csv",)))


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "application/vnd.api+json", None])
def test_json_has_several_names(api: Api, kind: str | None) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": ROWS}, kind=kind)
    assert fetched(read_of(api)) == ROWS


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"error": "quota exceeded"}, "tells an error in 'error': quota exceeded"),
        ({"data": ROWS, "errors": [{"message": "partial"}]}, "tells an error in 'errors': .*partial"),
        (
            {"status": "fail", "message": "quota"},
            "no list of records at 'data' but nothing; its keys are status, message",
        ),
        ({"data": None}, "no list of records at 'data' but nothing"),
        ({"data": {"id": 1}}, "no list of records at 'data' but an object"),
        ({"data": "none"}, "no list of records at 'data' but the value none"),
        ({"data": [1, 2]}, "record 1 is no object"),
        ("quota exceeded", "no list of records at 'data' but nothing"),
        (b"oops", "not JSON"),
    ],
)
def test_an_error_with_a_good_status_fails_the_read(api: Api, content: object, problem: str) -> None:
    api.routes["/items"] = lambda asked: Answer(content)
    with pytest.raises(SourceError, match=problem):
        fetched(read_of(api))
    assert len(api.asked) == 1


def test_the_place_of_errors_can_be_named(api: Api) -> None:
    content = {"error": "not this one", "status": {"problem": "broken"}, "data": ROWS}
    api.routes["/items"] = lambda asked: Answer(content)
    with pytest.raises(SourceError, match=r"tells an error in 'status.problem': broken"):
        fetched(read_of(api, error="status.problem"))
    assert fetched(read_of(api, error="status.fault")) == ROWS


def test_an_object_is_not_taken_for_a_record(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"message": "maintenance"})
    with pytest.raises(SourceError, match="no list of records at the top but an object; its keys are message"):
        fetched(read_of(api, records=""))


def test_nothing_is_an_empty_list_where_the_total_says_so(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": None, "total": 0})
    paging = Pagination(PaginationKind.OFFSET, "offset", total="total")
    assert fetched(read_of(api, pagination=paging)) == []


def test_no_content_is_an_empty_page_and_a_byte_order_mark_no_content(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer(b"", 204, kind=None)
    assert fetched(read_of(api)) == []
    api.routes["/items"] = lambda asked: Answer(b"\xef\xbb\xbf" + json.dumps({"data": ROWS}).encode())
    assert fetched(read_of(api)) == ROWS


def test_records_lie_deep_and_over_many_lines(api: Api) -> None:
    text = json.dumps({"a": {"b": {"c": ROWS}}}, indent=2).encode()
    api.routes["/items"] = lambda asked: Answer(text, is_zipped=True)
    assert fetched(read_of(api, records="a.b.c")) == ROWS


def test_an_answer_over_the_limit_is_an_error(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer(b'{"data": [' + b" " * 3 * 1024**2 + b"]}", is_zipped=True)
    with pytest.raises(SourceError, match=r"an answer of more than 2 MB - .*max_response_mb"):
        fetched(read_of(api, max_response_mb=2))
    assert fetched(read_of(api, max_response_mb=4)) == []


def test_a_large_answer_is_never_held_as_a_whole(api: Api) -> None:
    record = json.dumps({"id": 1, "text": "x" * 10_000, "list": [1, 2, {"a": "}"}]}).encode()
    count = 3_000
    text = b'{"data": [' + b",".join([record] * count) + b"]}"
    api.routes["/items"] = lambda asked: Answer(text)
    counts, records = Counts(), 0
    tracemalloc.start()
    for block in blocks(Fetch(read_of(api), (Part(),)), 0, counts):
        records += block.lines.count(b"\n")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (records, counts.records, counts.largest) == (count, count, len(text))
    assert peak < len(text) / 2, f"{peak} of {len(text)}"


def test_everything_in_one_answer_is_one_page(api: Api) -> None:
    api.routes["/items"] = whole([])
    counts = Counts()
    assert (fetched(read_of(api), counts=counts), counts.pages) == ([], 1)
