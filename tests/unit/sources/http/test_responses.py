"""Records are found in answers in pieces of any size; few tell the columns of all; a read goes on to its end."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.api import Answer, Api, Asked, by_cursor, by_link, by_offset, by_page, whole
from support.errors import raises
from support.http_reads import ROWS, fetched, read_of
from support.long_runs import examples
from tidegate.errors import ConfigError, SourceError
from tidegate.schema.inference import infer_json
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.responses import Counts, Fetch, InvalidResponse, Scanner, Shapes, TruncatedResponse, blocks
from tidegate.specs.columns import Pagination, PaginationKind, WatermarkParams

TEXTS = st.text(alphabet=st.sampled_from('ab"\\{}[],: \n\t\u00e9\u4e2d'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
SIZES = st.sampled_from([1, 2, 7, 60])
FEW = settings(deadline=None, max_examples=examples(30))
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)


def scanned(content: bytes, path: str, size: int) -> tuple[list[Any], Any, Scanner]:
    found: list[bytes] = []
    scanner = Scanner(tuple(path.split(".")) if path else (), found.append)
    for begin in range(0, len(content), size):
        scanner.feed(content[begin : begin + size])
    rest = scanner.finish()
    assert not any(b"\n" in line for line in found)
    return [json.loads(line) for line in found], rest, scanner


@FEW
@given(st.lists(OBJECTS, max_size=5), OBJECTS, OBJECTS, SIZES, st.sampled_from([None, 1]))
def test_whatever_the_answer_and_its_pieces(
    records: list[Any], before: dict[str, Any], after: dict[str, Any], size: int, indent: int | None
) -> None:
    inner = {**before, "items": records, "more": after}
    answer = {**after, "data": inner, "x": before}
    content = json.dumps(answer, ensure_ascii=False, indent=indent).encode()
    found, rest, scanner = scanned(content, "data.items", size)
    assert (found, scanner.count, scanner.is_found) == (records, len(records), True)
    assert rest == {**answer, "data": {**inner, "items": []}}


@FEW
@given(st.lists(OBJECTS, max_size=5), SIZES)
def test_an_answer_that_is_the_list(records: list[Any], size: int) -> None:
    assert scanned(json.dumps(records).encode(), "", size)[:2] == (records, [])


@FEW
@given(st.lists(OBJECTS, min_size=1, max_size=3), st.data())
def test_an_answer_that_ends_anywhere_is_cut_off(records: list[Any], data: st.DataObject) -> None:
    content = json.dumps({"data": records}).encode()
    with pytest.raises(TruncatedResponse):
        scanned(content[: data.draw(st.integers(0, len(content) - 1))], "data", 7)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"data": [1, 2]}', "record 1 … '1'"),
        (b'{"data": [{}, null]}', "record 2 … 'null'"),
        (b'{"data": [{}, ]}', "record 2 … object"),
        (b'{"data": [{"a": "x\ny"}]}', "control character"),
        (b'{"data": [{}], "data": [{}]}', "'data' … twice"),
        (b'{"data": [{}}, {}]', "brackets"),
        (b'{"data": [{}]} x', "JSON"),
        (b'{"data": [{}] "x"}', "JSON"),
        (b"<p>hello", "JSON"),
    ],
)
def test_what_is_no_answer(content: bytes, reason: str) -> None:
    with raises(InvalidResponse, reason):
        scanned(content, "data", 5)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("is_rest", [False, True])
def test_a_record_is_too_long_by_its_own_length_in_pieces_of_any_size(
    is_rest: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sources.http.responses.LONGEST_RECORD", 60)

    def answer(length: int) -> bytes:
        record = {"a": "x" * (length - 8)}
        other = {"data": [{}], "b": "x" * (length - 18)}
        return json.dumps(other if is_rest else {"data": [{}, record, {}]}, separators=(",", ":")).encode()

    scanned(answer(60), "data", size)
    with raises(InvalidResponse, "more than 0 MB"):
        scanned(answer(61), "data", size)


@pytest.mark.parametrize(
    "content", [b'{"a": [[{"data": [{}]}]]}', b'{"data": {"data": [{}]}}', b'[{"data": [{}]}]', b"7"]
)
def test_a_list_of_that_name_elsewhere_is_not_it(content: bytes) -> None:
    found, rest, scanner = scanned(content, "data", 3)
    assert scanned(b'[{"a": 1, "b": [{}]}]', "a.b", 3)[2].is_found is False
    assert (found, scanner.is_found, rest) == ([], False, json.loads(content))


TYPED = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-5, 5) | st.sampled_from(["a", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
RECORDS = st.lists(st.dictionaries(st.sampled_from("abc"), TYPED, max_size=3), min_size=1, max_size=12)


def telling(records: list[Any]) -> list[bytes]:
    shapes = Shapes()
    found = [shapes.sample(json.dumps(record).encode()) for record in records]
    return [each for each in found if each is not None]


def without_nothing(value: Any) -> Any:
    """What is left where nothing is learnt from null and emptiness."""
    if isinstance(value, dict):
        kept = {key: without_nothing(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, [], {})}
    if isinstance(value, list):
        return [item for each in value if (item := without_nothing(each)) not in (None, [], {})]
    return value


@settings(deadline=None, max_examples=examples(60))
@given(RECORDS)
def test_the_telling_records_give_the_columns_of_all(records: list[Any]) -> None:
    everything = infer_json([[json.dumps(without_nothing(record)).encode() for record in records]], rescued=False)
    few = infer_json([telling(records)], rescued=False)
    assert sorted(few.fields, key=str) == sorted(everything.fields, key=str)
    assert {each.split(" is ")[0] for each in few.problems} == {each.split(" is ")[0] for each in everything.problems}


def test_only_what_is_new_is_kept() -> None:
    records = [{"id": number, "tags": ["x"], "gone": None, "none": {}} for number in range(1000)]
    records[500] = {"id": 1.5}
    records[501] = {"id": 7, "more": [None, {"deep": True}]}
    assert [json.loads(line) for line in telling(records)] == [
        {"id": 0, "tags": ["x"]},
        {"id": 1.5},
        {"id": 7, "more": [{"deep": True}]},
    ]


def test_an_object_with_keys_without_end_does_not_fill_the_memory() -> None:
    shapes = Shapes()
    kept = [shapes.sample(json.dumps({"map": {f"key {number}": number}}).encode()) for number in range(5000)]
    lines = [each for each in kept if each is not None]
    assert 1000 < len(lines) < 1100
    assert infer_json([lines]).fields[0].type == "json"


def test_what_is_no_record_is_left_for_who_reads_it() -> None:
    assert Shapes().sample(b"{oops") == b"{oops"


OFFSET = Pagination(PaginationKind.OFFSET, "offset", "limit", 10)
PAGE = Pagination(PaginationKind.PAGE, "page", "limit", 10)
CURSOR = Pagination(PaginationKind.CURSOR, "after", next="paging.next")
LINK = Pagination(PaginationKind.NEXT_LINK, next="next")


def test_one_answer_without_pages(api: Api) -> None:
    api.routes["/items"] = whole(ROWS)
    assert fetched(read_of(api)) == ROWS


def test_offsets_go_on_until_an_empty_page(api: Api) -> None:
    api.routes["/items"] = by_offset(ROWS)
    assert fetched(read_of(api, pagination=OFFSET)) == ROWS
    assert [(each.params["offset"], each.params["limit"]) for each in api.asked] == [
        (offset, "10") for offset in ("0", "10", "20", "25")
    ]


def test_a_total_saves_the_request_for_the_empty_page(api: Api) -> None:
    api.routes["/items"] = by_offset(ROWS)
    told = Pagination(PaginationKind.OFFSET, "offset", "limit", 10, total="total")
    assert fetched(read_of(api, pagination=told)) == ROWS
    assert len(api.asked) == 3


@pytest.mark.parametrize("route", [by_offset, by_page])
def test_a_server_that_gives_fewer_than_asked_for_does_not_cut_the_read(api: Api, route: Any) -> None:
    api.routes["/items"] = route(ROWS, most=7)
    kind = OFFSET if route is by_offset else PAGE
    assert fetched(read_of(api, pagination=kind)) == ROWS


def test_pages_are_counted_from_where_the_server_begins(api: Api) -> None:
    api.routes["/items"] = by_page(ROWS)
    assert fetched(read_of(api, pagination=PAGE)) == ROWS
    assert [each.params["page"] for each in api.asked] == ["1", "2", "3", "4"]
    second = Pagination(PaginationKind.PAGE, "page", "limit", 10, start=2)
    assert fetched(read_of(api, pagination=second)) == ROWS[10:]


def test_cursors_are_followed_to_the_last(api: Api) -> None:
    api.routes["/items"] = by_cursor(ROWS, 10)
    assert fetched(read_of(api, pagination=CURSOR)) == ROWS
    assert "after" not in api.asked[0].params
    assert len(api.asked) == 3


def test_an_empty_page_with_a_cursor_is_not_the_end(api: Api) -> None:
    answers = {None: ([], "a"), "a": (ROWS[:1], "b"), "b": ([], "c"), "c": (ROWS[1:], "")}

    def route(asked: Asked) -> Answer:
        data, following = answers[asked.params.get("after")]
        return Answer({"data": data, "paging": {"next": following}})

    api.routes["/items"] = route
    assert fetched(read_of(api, pagination=CURSOR)) == ROWS


@pytest.mark.parametrize("is_absolute", [True, False])
def test_links_are_followed_to_the_last(api: Api, is_absolute: bool) -> None:
    api.routes["/items"] = by_link(ROWS, 10, api.url if is_absolute else "")
    assert fetched(read_of(api, pagination=LINK, params={"since": "5"})) == ROWS
    assert [dict(each.params) for each in api.asked] == [{"since": "5"}, {"from": "10"}, {"from": "20"}]


def test_links_in_the_header_are_followed(api: Api) -> None:
    api.routes["/items"] = by_link(ROWS, 10, in_header=True)
    read = read_of(api, pagination=Pagination(PaginationKind.NEXT_LINK), records="")
    assert fetched(read) == ROWS


def test_pages_in_the_body(api: Api) -> None:
    def route(asked: Asked) -> Answer:
        begin = asked.body["page"]["offset"]
        return Answer({"data": ROWS[begin : begin + asked.body["page"]["limit"]]})

    api.routes["/items"] = route
    paging = Pagination(PaginationKind.OFFSET, "page.offset", "page.limit", 10)
    body = {"page": {"sort": "id"}, "q": "all"}
    read = read_of(
        api, method="post", idempotent=True, body=body, pagination=paging, watermark=WatermarkParams(location="body")
    )
    assert fetched(read) == ROWS
    assert api.asked[1].body == {"page": {"sort": "id", "offset": 10, "limit": 10}, "q": "all"}
    assert body == {"page": {"sort": "id"}, "q": "all"}


def test_more_pages_than_allowed_are_an_error_and_not_an_end(api: Api) -> None:
    api.routes["/items"] = by_offset(ROWS)
    two = Pagination(PaginationKind.OFFSET, "offset", "limit", 10, max_pages=2)
    with raises(SourceError, "2 pages", "max_pages"):
        fetched(read_of(api, pagination=two))


def test_as_many_pages_as_allowed_are_enough(api: Api) -> None:
    api.routes["/items"] = by_cursor(ROWS, 10)
    three = Pagination(PaginationKind.CURSOR, "after", next="paging.next", max_pages=3)
    assert fetched(read_of(api, pagination=three)) == ROWS


def test_endless_pages_end_at_the_limit(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": [{"id": asked.params["page"]}]})
    endless = Pagination(PaginationKind.PAGE, "page", max_pages=5)
    with raises(SourceError, "5 pages", "max_pages"):
        fetched(read_of(api, pagination=endless))
    assert len(api.asked) == 5


def test_a_server_that_ignores_the_page_is_noticed(api: Api) -> None:
    api.routes["/items"] = whole(ROWS[:10])
    with raises(SourceError, "page 2", "earlier page"):
        fetched(read_of(api, pagination=OFFSET))


def test_a_page_that_comes_again_later_is_noticed(api: Api) -> None:
    def route(asked: Asked) -> Answer:
        number = int(asked.params["page"]) % 3
        return Answer({"data": ROWS[number * 5 : number * 5 + 5]})

    api.routes["/items"] = route
    with raises(SourceError, "page 4", "earlier page"):
        fetched(read_of(api, pagination=PAGE))


def test_a_repeated_cursor_is_noticed(api: Api) -> None:
    cursors = iter(["a", "b", "a"])
    numbers = iter(range(9))
    api.routes["/items"] = lambda asked: Answer({"data": [{"id": next(numbers)}], "paging": {"next": next(cursors)}})
    with raises(SourceError, "page 3", "cursor 'a'"):
        fetched(read_of(api, pagination=CURSOR))


def test_a_link_to_itself_is_noticed_without_showing_its_parameters(api: Api) -> None:
    numbers = iter(range(9))
    api.routes["/items"] = lambda asked: Answer({"data": [{"id": next(numbers)}], "next": "/items?key=canary"})
    with raises(SourceError, "page 2", "next link '/items'") as raised:
        fetched(read_of(api, pagination=LINK))
    assert "canary" not in str(raised.value)


def test_a_total_that_changes_fails_the_read(api: Api) -> None:
    totals = iter([25, 26])
    served = by_offset(ROWS)
    api.routes["/items"] = lambda asked: Answer(served(asked).content | {"total": next(totals)})
    told = Pagination(PaginationKind.OFFSET, "offset", "limit", 10, total="total")
    with raises(SourceError, "page 2", "25", "26"):
        fetched(read_of(api, pagination=told))


@pytest.mark.parametrize("total", [24, 30])
def test_another_number_of_records_than_the_total_fails_the_read(api: Api, total: int) -> None:
    served = by_offset(ROWS)
    api.routes["/items"] = lambda asked: Answer(served(asked).content | {"total": total})
    told = Pagination(PaginationKind.OFFSET, "offset", "limit", 5, total="total")
    with raises(SourceError, "25 records", total):
        fetched(read_of(api, pagination=told))


def test_a_total_that_is_not_there_fails_the_read(api: Api) -> None:
    api.routes["/items"] = whole(ROWS)
    told = Pagination(PaginationKind.OFFSET, "offset", "limit", 5, total="meta.total")
    with raises(SourceError, "'None'", "'meta.total'", "total"):
        fetched(read_of(api, pagination=told))


def test_a_cursor_that_is_no_text_fails_the_read(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": ROWS, "paging": {"next": {"a": 1}}})
    with raises(SourceError, "page 1", "cursor", "\"{'a': 1}\""):
        fetched(read_of(api, pagination=CURSOR))


def test_a_cursor_needs_to_know_where_it_is(api: Api) -> None:
    api.routes["/items"] = whole(ROWS)
    with raises(ConfigError, "cursor", "next"):
        fetched(read_of(api, pagination=Pagination(PaginationKind.CURSOR, "after")))


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "text/plain", "application/xml"])
def test_another_content_type_is_refused(api: Api, kind: str) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": ROWS}, kind=kind)
    with raises(SourceError, kind.split(";")[0], "JSON", "response_types"):
        fetched(read_of(api))
    assert len(api.asked) == 1


def test_json_under_another_content_type_is_read_where_the_type_is_named(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": ROWS}, kind="Text/Plain; charset=utf-8")
    assert fetched(read_of(api, response_types=("text/csv", "text/plain"))) == ROWS
    with raises(SourceError, "Text/Plain", "JSON", "response_types"):
        fetched(read_of(api, response_types=("text/csv",)))


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "application/vnd.api+json", None])
def test_json_has_several_names(api: Api, kind: str | None) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": ROWS}, kind=kind)
    assert fetched(read_of(api)) == ROWS


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"error": "quota exceeded"}, "'error' … quota exceeded"),
        ({"data": ROWS, "errors": [{"message": "partial"}]}, "'errors' … partial"),
        (
            {"status": "fail", "message": "quota"},
            "list … 'data' … nothing … status, message … `records`",
        ),
        ({"data": None}, "list … 'data' … nothing"),
        ({"data": {"id": 1}}, "list … 'data' … object"),
        ({"data": "none"}, "list … 'data' … none"),
        ({"data": [1, 2]}, "record 1 … object"),
        ("quota exceeded", "list … 'data' … nothing"),
        (b"oops", "JSON"),
    ],
)
def test_an_error_with_a_good_status_fails_the_read(api: Api, content: object, problem: str) -> None:
    api.routes["/items"] = lambda asked: Answer(content)
    with raises(SourceError, problem):
        fetched(read_of(api))
    assert len(api.asked) == 1


def test_the_place_of_errors_can_be_named(api: Api) -> None:
    content = {"error": "not this one", "status": {"problem": "broken"}, "data": ROWS}
    api.routes["/items"] = lambda asked: Answer(content)
    with raises(SourceError, "'status.problem'", "broken"):
        fetched(read_of(api, error="status.problem"))
    assert fetched(read_of(api, error="status.fault")) == ROWS


def test_an_object_is_not_taken_for_a_record(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"message": "maintenance"})
    with raises(SourceError, "top", "message", "records"):
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
    with raises(SourceError, "2 MB", "max_response_mb"):
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
