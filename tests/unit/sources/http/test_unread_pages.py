"""A read ends where its rule ends, and fails where the last response says that there is more."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from servers.api import Answer, Api, Asked, by_cursor, by_page, whole
from support.errors import raises
from support.http_reads import ROWS, fetched, read_of
from tidegate import errors
from tidegate.errors import SourceError, UnreadPages
from tidegate.specs.columns import Pagination, PaginationKind

NONE = Pagination()
PAGE = Pagination(PaginationKind.PAGE, "page", "limit", 10)
CURSOR = Pagination(PaginationKind.CURSOR, "after", next="paging.next")
LAST_ID = Pagination(PaginationKind.CURSOR, "starting_after", last_field="id")


def test_the_error_has_the_field_its_value_and_the_block_and_travels(api: Api) -> None:
    api.routes["/items"] = by_cursor(ROWS, 10)
    with pytest.raises(UnreadPages) as raised:
        fetched(read_of(api))
    error = raised.value
    assert (error.place, error.value) == ("paging.next", "MTA=")
    assert error.block == "pagination: {type: cursor, param: cursor, next: paging.next}"
    assert error.exit_code == SourceError.exit_code
    for back in (pickle.loads(pickle.dumps(error)), errors.from_json(errors.to_json(error))):
        assert (type(back), str(back), back.block) == (UnreadPages, str(error), error.block)


def test_a_link_is_shown_without_its_parameters(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": ROWS, "next": f"{api.url}/items?key=canary&page=2"})
    with pytest.raises(UnreadPages) as raised:
        fetched(read_of(api))
    assert raised.value.value == f"{api.url}/items?…"
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("more", [{"has_more": True}, {"next": "/items?page=9"}, {"next_cursor": "x"}])
def test_a_configured_rule_that_ends_too_early_fails(api: Api, more: dict[str, Any]) -> None:
    served = by_page(ROWS)
    api.routes["/items"] = lambda asked: Answer(served(asked).content | more)
    with pytest.raises(UnreadPages) as raised:
        fetched(read_of(api, pagination=PAGE))
    (place,) = more
    assert (raised.value.place, len(api.asked)) == (place, 4)
    kept = Pagination(PaginationKind.PAGE, "page", "limit", 10, ignore=(place,))
    assert fetched(read_of(api, pagination=kept)) == ROWS


def test_a_cursor_that_ends_beside_a_flag_that_does_not_fails(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": ROWS, "paging": {"next": None}, "has_more": True})
    with pytest.raises(UnreadPages) as raised:
        fetched(read_of(api, pagination=CURSOR))
    assert raised.value.place == "has_more"


def test_a_total_that_ignores_the_filter_counts_only_where_it_is_named(api: Api) -> None:
    served = by_page(ROWS)
    api.routes["/items"] = lambda asked: Answer(served(asked).content | {"total": 900, "total_pages": 90})
    assert fetched(read_of(api, pagination=PAGE)) == ROWS
    assert fetched(read_of(api, pagination=NONE)) == ROWS
    with raises(SourceError, "page 4", "25 records", "900"):
        fetched(read_of(api, pagination=Pagination(PaginationKind.PAGE, "page", "limit", 10, total="total")))
    with pytest.raises(UnreadPages) as raised:
        fetched(read_of(api))
    assert raised.value.place == "total_pages"


@pytest.mark.parametrize("total", [24, 25])
def test_a_total_that_was_reached_is_no_sign_of_more(api: Api, total: int) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": ROWS, "total": total, "count": 25, "next": ""})
    assert fetched(read_of(api)) == ROWS


def test_a_full_page_fails_where_a_limit_was_sent_and_nothing_says_that_it_is_all(api: Api) -> None:
    api.routes["/items"] = by_page(ROWS)
    with pytest.raises(UnreadPages) as raised:
        fetched(read_of(api, params={"limit": "10"}))
    assert (raised.value.place, raised.value.value) == ("the parameter limit", "10")
    assert raised.value.block == "pagination: {type: page, param: page}"
    assert fetched(read_of(api, params={"limit": "26"})) == ROWS
    assert fetched(read_of(api, params={"limit": "10"}, pagination=NONE)) == ROWS[:10]
    api.routes["/items"] = lambda asked: Answer({"data": ROWS, "has_more": False})
    assert fetched(read_of(api, params={"limit": "25"})) == ROWS


def test_a_limit_in_the_body_counts_like_one_in_the_query(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": ROWS[: asked.body["limit"]]})
    with pytest.raises(UnreadPages):
        fetched(read_of(api, method="POST", body={"limit": 5}))


def test_a_field_of_a_record_says_nothing(api: Api) -> None:
    records = [{"id": 1, "next": "/other", "has_more": True, "total": 99}]
    api.routes["/items"] = whole(records)
    assert fetched(read_of(api)) == records


def test_links_in_the_header_that_nobody_follows_fail(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer(ROWS, headers={"Link": '</items?page=2>; rel="next"'})
    with pytest.raises(UnreadPages) as raised:
        fetched(read_of(api, records=""))
    assert raised.value.block == "pagination: {type: next_link}"
    with pytest.raises(UnreadPages):
        fetched(read_of(api, records="", pagination=Pagination(PaginationKind.CURSOR, next="x")))
    ignored = Pagination(PaginationKind.CURSOR, next="x", ignore=("Link",))
    assert fetched(read_of(api, records="", pagination=ignored)) == ROWS


def by_last_id(asked: Asked, size: int = 10) -> list[Any]:
    after = int(asked.params.get("starting_after", -1))
    return [each for each in ROWS if int(str(each["id"])) > after][:size]


def test_the_last_record_may_be_the_cursor(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": by_last_id(asked)})
    assert fetched(read_of(api, pagination=LAST_ID)) == ROWS
    assert [each.params.get("starting_after") for each in api.asked] == [None, "9", "19", "24"]


def test_a_last_record_without_the_field_fails(api: Api) -> None:
    api.routes["/items"] = whole([{"name": "x"}])
    with raises(SourceError, "page 1", "'id'", "cursor"):
        fetched(read_of(api, pagination=LAST_ID))


@pytest.mark.parametrize("absent", [False, None, "false"])
def test_a_flag_that_is_named_decides(api: Api, absent: Any) -> None:
    def route(asked: Asked) -> Answer:
        found = by_last_id(asked)
        return Answer({"data": found, "has_more": True if found[-1] != ROWS[-1] else absent, "next": "/elsewhere"})

    api.routes["/items"] = route
    flagged = Pagination(PaginationKind.CURSOR, "starting_after", last_field="id", more="has_more")
    assert fetched(read_of(api, pagination=flagged)) == ROWS
    assert len(api.asked) == 3


def by_next_cursor(**more: Any) -> Any:
    """Ten records per page, with ``meta.next_cursor`` and ``meta.has_more``."""

    def route(asked: Asked) -> Answer:
        begin = int(asked.params.get("cursor", 0))
        is_more = begin + 10 < len(ROWS)
        meta = {"has_more": is_more, "next_cursor": str(begin + 10) if is_more else None}
        return Answer({"data": ROWS[begin : begin + 10], "meta": meta, **more})

    return route


def flagged(path: str, *ignore: str) -> Pagination:
    return Pagination(PaginationKind.CURSOR, "cursor", next="meta.next_cursor", more=path, ignore=ignore)


@pytest.mark.parametrize("path", ["meta.hasmore", "has_more", "meta.has_more.more"])
def test_a_flag_that_the_first_response_does_not_have_fails_and_names_what_it_has(api: Api, path: str) -> None:
    api.routes["/items"] = by_next_cursor()
    with pytest.raises(SourceError) as raised:
        fetched(read_of(api, pagination=flagged(path)))
    assert repr(path) in raised.value.problem
    assert "meta.has_more" in raised.value.problem.replace(repr(path), "")
    assert len(api.asked) == 1
    assert fetched(read_of(api, pagination=flagged("meta.has_more"))) == ROWS


@pytest.mark.parametrize("answer", [Answer({"data": []}), Answer(b"", 204)], ids=["empty", "no content"])
def test_a_first_response_without_records_needs_no_flag(api: Api, answer: Answer) -> None:
    api.routes["/items"] = lambda asked: answer
    assert fetched(read_of(api, pagination=flagged("meta.has_more"))) == []


def test_a_flag_that_servers_leave_out_where_it_is_false_may_be_missing(api: Api) -> None:
    paging = Pagination(PaginationKind.OFFSET, "resultOffset", more="exceededTransferLimit")
    api.routes["/items"] = lambda asked: Answer({"data": ROWS})
    assert fetched(read_of(api, pagination=paging)) == ROWS


@pytest.mark.parametrize("path", ["truncated", "is_open"])
@pytest.mark.parametrize("ignored", [(), ("meta.next_cursor",), ("meta.has_more",)])
def test_a_wrong_flag_does_not_hide_what_else_says_more(api: Api, path: str, ignored: tuple[str, ...]) -> None:
    api.routes["/items"] = by_next_cursor(**{path: False})
    with pytest.raises(UnreadPages) as raised:
        fetched(read_of(api, pagination=flagged(path, *ignored)))
    assert raised.value.place in {"meta.next_cursor", "meta.has_more"} - set(ignored)
    assert len(api.asked) == 1


def test_a_flag_that_was_true_once_is_believed_whatever_its_name(api: Api) -> None:
    def route(asked: Asked) -> Answer:
        begin = int(asked.params.get("cursor", 0))
        meta = {"weiter": begin + 10 < len(ROWS), "next_cursor": str(begin + 10)}
        return Answer({"data": ROWS[begin : begin + 10], "meta": meta})

    api.routes["/items"] = route
    assert fetched(read_of(api, pagination=flagged("meta.weiter"))) == ROWS


def test_a_flag_that_says_more_carries_on_over_an_empty_page(api: Api) -> None:
    pages: list[list[Any]] = [ROWS[:10], [], ROWS[10:]]

    def route(asked: Asked) -> Answer:
        number = int(asked.params["page"])
        return Answer({"data": pages[number - 1], "more": number < 3})

    api.routes["/items"] = route
    assert fetched(read_of(api, pagination=Pagination(PaginationKind.PAGE, "page", more="more"))) == ROWS


@pytest.mark.parametrize(
    "paging",
    [
        Pagination(PaginationKind.OFFSET, "offset", more="more"),
        Pagination(PaginationKind.CURSOR, "after", last_field="id", more="more"),
        Pagination(PaginationKind.CURSOR, "after", next="next", more="more"),
        Pagination(PaginationKind.NEXT_LINK, next="next", more="more"),
    ],
    ids=["offset", "last_field", "cursor", "link"],
)
def test_a_flag_that_says_more_where_nothing_comes_next_fails(api: Api, paging: Pagination) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": [], "more": True})
    with raises(SourceError, "page 1", "'more'"):
        fetched(read_of(api, pagination=paging))
    assert len(api.asked) == 1


def test_a_flag_that_is_no_flag_fails(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": ROWS, "more": 7})
    with raises(SourceError, "page 1", "'7'", "'more'"):
        fetched(read_of(api, pagination=Pagination(PaginationKind.PAGE, "page", more="more")))


@pytest.mark.parametrize("kind", ["same cursor", "same records", "new records"])
def test_an_endless_cursor_is_stopped(api: Api, kind: str) -> None:
    def route(asked: Asked) -> Answer:
        number = len(api.asked)
        data = [{"id": 1 if kind == "same records" else number}]
        return Answer({"data": data, "paging": {"next": "x" if kind == "same cursor" else f"x{number}"}})

    api.routes["/items"] = route
    paging = Pagination(PaginationKind.CURSOR, "after", next="paging.next", max_pages=7)
    with pytest.raises(SourceError):
        fetched(read_of(api, pagination=paging))
    assert len(api.asked) == (7 if kind == "new records" else 2)


def test_a_name_with_dots_is_a_name(api: Api) -> None:
    def route(asked: Asked) -> Answer:
        begin = int(asked.params.get("$skip", 0))
        link = {"@odata.nextLink": f"/items?$skip={begin + 10}"} if begin < 20 else {}
        return Answer({"data": ROWS[begin : begin + 10], **link})

    api.routes["/items"] = route
    assert fetched(read_of(api, pagination=Pagination(PaginationKind.NEXT_LINK, next="@odata.nextLink"))) == ROWS
