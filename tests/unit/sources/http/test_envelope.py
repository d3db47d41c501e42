"""What a response says about further pages is heard; what only looks like it is not."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.sources.http.envelope import Envelope, SignalKind, format_pagination, value_at
from tidegate.specs.columns import Pagination, PaginationKind

HERE = "https://api.example.org/v1/items"
COUNT = 10
"""Records of the response."""


def envelope(rest: Any = None, **more: Any) -> Envelope:
    return Envelope({} if rest is None else rest, **{"records": "data", "url": HERE, **more})


SAYS_MORE: list[tuple[dict[str, Any], SignalKind, str]] = [
    ({"next": "https://api.example.org/v1/items?page=2"}, SignalKind.LINK, "next"),
    ({"next": "/v1/items?page=2"}, SignalKind.LINK, "next"),
    ({"next": "?page=2"}, SignalKind.LINK, "next"),
    ({"next_url": "/b"}, SignalKind.LINK, "next_url"),
    ({"links": {"self": "/a", "next": "/b"}}, SignalKind.LINK, "links.next"),
    ({"links": {"next": {"href": "/b", "meta": {}}}}, SignalKind.LINK, "links.next.href"),
    ({"_links": {"next": {"href": "/b"}}}, SignalKind.LINK, "_links.next.href"),
    ({"links": [{"rel": "self", "href": "/a"}, {"rel": "next", "href": "/b"}]}, SignalKind.LINK, "links.next.href"),
    ({"paging": {"cursors": {"after": "x"}, "next": "/b"}}, SignalKind.LINK, "paging.next"),
    ({"@odata.nextLink": "/b"}, SignalKind.LINK, "@odata.nextLink"),
    ({"meta": {"pagination": {"links": {"next": "/b"}}}}, SignalKind.LINK, "meta.pagination.links.next"),
    ({"paging": {"next": {"after": "x1", "link": "/b"}}}, SignalKind.LINK, "paging.next.link"),
    ({"paging": {"next": {"after": "x1"}}}, SignalKind.CURSOR, "paging.next.after"),
    ({"pages": {"type": "pages", "next": {"page": 2, "starting_after": "w"}}}, SignalKind.CURSOR, "pages.next.page"),
    ({"next_cursor": "x"}, SignalKind.CURSOR, "next_cursor"),
    ({"response_metadata": {"next_cursor": "x"}}, SignalKind.CURSOR, "response_metadata.next_cursor"),
    ({"nextPageToken": "x"}, SignalKind.CURSOR, "nextPageToken"),
    ({"NextToken": "x"}, SignalKind.CURSOR, "NextToken"),
    ({"continuation": "x"}, SignalKind.CURSOR, "continuation"),
    ({"cursor": "x"}, SignalKind.CURSOR, "cursor"),
    ({"offset": "itrX/recY"}, SignalKind.CURSOR, "offset"),
    ({"page": 1, "next_page": 2}, SignalKind.CURSOR, "next_page"),
    ({"limit": 10, "next_offset": 10}, SignalKind.CURSOR, "next_offset"),
    ({"has_more": True}, SignalKind.FLAG, "has_more"),
    ({"hasMore": "true"}, SignalKind.FLAG, "hasMore"),
    ({"meta": {"has_more": True, "after_cursor": "x"}}, SignalKind.FLAG, "meta.has_more"),
    ({"isLast": False}, SignalKind.FLAG, "isLast"),
    ({"done": False}, SignalKind.FLAG, "done"),
    ({"additional_data": {"pagination": {"more_items_in_collection": True}}}, SignalKind.FLAG, ""),
    ({"page": 1, "total_pages": 2}, SignalKind.PAGES, "total_pages"),
    ({"info": {"pages": 42, "count": 10}}, SignalKind.PAGES, "info.pages"),
    ({"total": 11}, SignalKind.TOTAL, "total"),
    ({"total": "11"}, SignalKind.TOTAL, "total"),
    ({"meta": {"totalCount": 11}}, SignalKind.TOTAL, "meta.totalCount"),
    ({"@odata.count": 11}, SignalKind.TOTAL, "@odata.count"),
    ({"count": 11}, SignalKind.TOTAL, "count"),
]


@pytest.mark.parametrize(("rest", "kind", "place"), SAYS_MORE, ids=lambda value: str(value)[:60])
def test_what_says_that_there_is_more(rest: dict[str, Any], kind: SignalKind, place: str) -> None:
    found = envelope(rest).find_unread(COUNT)
    assert found is not None
    assert (found.kind, found.place) == (kind, place or found.place)
    assert found.fits is not None
    if found.fits.next is not None:
        assert value_at(rest, found.fits.next) not in (None, "")
    counts_for_nobody_else = kind in (SignalKind.PAGES, SignalKind.TOTAL) or found.place in ("cursor", "offset")
    assert (envelope(rest).find_left_over() is None) is counts_for_nobody_else


SAYS_NOTHING: list[dict[str, Any]] = [
    {},
    {"next": None},
    {"next": ""},
    {"next": False},
    {"next": {}},
    {"links": {"next": None, "self": "/v1/items"}},
    {"links": {"next": {"href": None}}},
    {"links": [{"rel": "self", "href": "/a"}]},
    {"next_cursor": ""},
    {"next_offset": 0},
    {"has_more": False},
    {"has_more": None},
    {"isLast": True},
    {"done": True, "totalSize": 10},
    {"total": 10},
    {"total": 9},
    {"total": 1234.5},
    {"total": None},
    {"count": 10},
    {"count": 3},
    {"page": 1, "total_pages": 1},
    {"page": 3, "total_pages": 3},
    {"page": 3, "next_page": 3},
    {"next": HERE},
    {"next": "/v1/items"},
    {"prev": "/a", "first": "/a", "last": "/z"},
    {"paging": {"cursors": {"before": "a", "after": "b"}}},
    {"pageInfo": {"endCursor": "x", "hasNextPage": False}},
    {"cursor": "x", "has_more": False},
    {"meta": {"has_more": False, "after_cursor": "x"}, "links": {"next": "/b"}},
    {"after_url": "/b", "end_of_stream": True},
    {"account": {"next": "/b", "total": 99}},
    {"included": [{"next": "/b", "has_more": True}]},
]


@pytest.mark.parametrize("rest", SAYS_NOTHING, ids=str)
def test_what_does_not_say_that_there_is_more(rest: dict[str, Any]) -> None:
    assert envelope(rest).find_unread(COUNT) is None
    assert envelope(rest).find_left_over() is None


DEEP = {"a": {"b": {"c": {"d": {"e": {"nodes": [], "pageInfo": {"hasNextPage": True, "endCursor": "x"}}}}}}}
BY_API: dict[str, tuple[str, dict[str, Any], SignalKind, str]] = {
    "Reddit": ("data.children", {"data": {"after": "t3_x", "before": None}}, SignalKind.CURSOR, "data.after"),
    "MediaWiki": (
        "query.allpages",
        {"continue": {"apcontinue": "B", "continue": "-||"}, "query": {"allpages": []}},
        SignalKind.CURSOR,
        "continue.apcontinue",
    ),
    "Kubernetes": (
        "items",
        {"metadata": {"resourceVersion": "7", "continue": "abc", "remainingItemCount": 5}},
        SignalKind.CURSOR,
        "metadata.continue",
    ),
    "openFDA": (
        "results",
        {"meta": {"results": {"skip": 0, "limit": 10, "total": 11}}},
        SignalKind.TOTAL,
        "meta.results.total",
    ),
    "Cloudflare": (
        "result",
        {"result_info": {"page": 1, "per_page": 10, "count": 10, "total_count": 11, "total_pages": 2}},
        SignalKind.PAGES,
        "result_info.total_pages",
    ),
    "Zoho": ("data", {"info": {"more_records": True, "page": 1}}, SignalKind.FLAG, "info.more_records"),
    "GraphQL": ("a.b.c.d.e.nodes", DEEP, SignalKind.FLAG, "a.b.c.d.e.pageInfo.hasNextPage"),
    "job": ("data", {"done": True, "next_token": "abc"}, SignalKind.CURSOR, "next_token"),
    "job with link": ("data", {"truncated": False, "next": "/b"}, SignalKind.LINK, "next"),
    "job with cursor": ("data", {"done": True, "cursor": "abc"}, SignalKind.CURSOR, "cursor"),
    "DynamoDB": ("Items", {"LastEvaluatedKey": {"id": {"S": "x"}}}, SignalKind.CURSOR, "LastEvaluatedKey"),
    "Discourse": (
        "topic_list.topics",
        {"topic_list": {"more_topics_url": "/latest?page=1"}},
        SignalKind.LINK,
        "topic_list.more_topics_url",
    ),
    "page_metadata": ("data", {"page_metadata": {"hasNext": True}}, SignalKind.FLAG, "page_metadata.hasNext"),
    "page_context": ("data", {"page_context": {"has_more_page": True}}, SignalKind.FLAG, "page_context.has_more_page"),
    "moreResult": ("data", {"moreResult": True}, SignalKind.FLAG, "moreResult"),
    "BigQuery": ("rows", {"jobComplete": True, "pageToken": "abc"}, SignalKind.CURSOR, "pageToken"),
    "Elasticsearch": (
        "hits.hits",
        {"_scroll_id": "abc", "hits": {"total": {"value": 11, "relation": "eq"}, "hits": []}},
        SignalKind.TOTAL,
        "hits.total.value",
    ),
    "any object": ("data", {"search": {"terms": ["a"], "next_cursor": "x"}}, SignalKind.CURSOR, "search.next_cursor"),
    "any object with a flag": ("data", {"search": {"has_more": True}}, SignalKind.FLAG, "search.has_more"),
    "a flag elsewhere": (
        "data",
        {"account": {"has_more": False}, "next_cursor": "x"},
        SignalKind.CURSOR,
        "next_cursor",
    ),
    "after of a page": ("data", {"cursors": {"after": "x"}}, SignalKind.CURSOR, "cursors.after"),
}


@pytest.mark.parametrize("name", BY_API)
def test_what_well_known_apis_say(name: str) -> None:
    records, rest, kind, place = BY_API[name]
    found = envelope(rest, records=records).find_unread(COUNT)
    assert found is not None
    assert (found.kind, found.place) == (kind, place)


ENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "Reddit": ("data.children", {"data": {"after": None, "before": "t3_x"}}),
    "MediaWiki": ("query.allpages", {"batchcomplete": "", "query": {"allpages": []}}),
    "Kubernetes": ("items", {"metadata": {"resourceVersion": "7", "continue": ""}}),
    "openFDA": ("results", {"meta": {"results": {"skip": 0, "limit": 100, "total": 10}}}),
    "Cloudflare": (
        "result",
        {"result_info": {"page": 1, "per_page": 20, "count": 10, "total_count": 10, "total_pages": 1}},
    ),
    "Zoho": ("data", {"info": {"more_records": False, "page": 1, "count": 10}}),
    "DynamoDB": ("Items", {"Count": 10, "ScannedCount": 10}),
    "DynamoDB with an empty key": ("Items", {"LastEvaluatedKey": {}}),
    "Salesforce": ("records", {"done": True, "totalSize": 10}),
    "S3": ("Contents", {"IsTruncated": False, "KeyCount": 10}),
    "Elasticsearch": ("hits.hits", {"_scroll_id": "abc", "hits": {"total": {"value": 10}, "hits": []}}),
    "Google Calendar": ("items", {"nextSyncToken": "abc"}),
    "Microsoft Graph": ("value", {"@odata.deltaLink": "https://graph.example/delta?token=1"}),
    "Spring": ("content", {"last": True, "totalPages": 1, "totalElements": 10, "number": 0, "first": True}),
    "a range of dates": ("data", {"after": "2026-01-01", "before": "2026-02-01"}),
    "another list": (
        "data.issues.nodes",
        {
            "data": {
                "issues": {"nodes": [], "pageInfo": {"hasNextPage": False, "endCursor": "x"}},
                "labels": {"nodes": [{"id": 1}], "pageInfo": {"hasNextPage": True, "endCursor": "y"}},
            }
        },
    ),
    "a quota": ("data", {"quota": {"limit": 5000, "remaining": 4000, "total": 5000}}),
    "many objects": ("data", {"users": {f"u{n}": {"has_more": True} for n in range(100)}}),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_well_known_apis_is_the_end(name: str) -> None:
    records, rest = ENDS[name]
    found = envelope(rest, records=records)
    assert (found.find_unread(COUNT), found.find_left_over()) == (None, None)


def test_fields_of_records_do_not_count() -> None:
    assert envelope({"data": [], "items": {"next": "/b"}}).find_unread(COUNT) is None
    assert envelope({"result": {"items": [], "next": "/b"}}, records="result.items").find_unread(COUNT) is not None
    assert envelope({"result": {"next": "/b"}}, records="items").find_unread(COUNT) is None
    assert Envelope([], "", url=HERE).find_unread(COUNT) is None


@pytest.mark.parametrize(
    ("headers", "link", "place"),
    [
        ({}, f"{HERE}?page=2", "the header Link"),
        ({"x-next-page": "2"}, None, "the header x-next-page"),
        ({"x-ms-continuation": "abc"}, None, "the header x-ms-continuation"),
        ({"x-ms-continuation": ""}, None, None),
        ({"x-total-count": "11"}, None, "the header x-total-count"),
        ({"x-wp-totalpages": "2"}, None, "the header x-wp-totalpages"),
        ({"content-range": "0-9/11"}, None, "the header content-range"),
        ({"x-next-page": "", "x-total-count": "10", "content-range": "0-9/*"}, None, None),
        ({}, HERE, None),
    ],
)
def test_headers_count_too(headers: dict[str, str], link: str | None, place: str | None) -> None:
    found = Envelope([], "", link, headers, HERE).find_unread(COUNT)
    assert (None if found is None else found.place) == place


@pytest.mark.parametrize(
    ("sent", "rest", "is_full"),
    [
        ({"limit": "10"}, {}, True),
        ({"per_page": "10"}, {}, True),
        ({"page[size]": "10"}, {}, True),
        ({"$top": 10}, {}, True),
        ({"limit": "11"}, {}, False),
        ({"limit": "all"}, {}, False),
        ({"status": "10"}, {}, False),
        ({"limit": "10"}, {"has_more": False}, False),
        ({"limit": "10"}, {"next": None}, False),
        ({"limit": "10"}, {"after": None, "before": "x"}, False),
        ({"limit": "10"}, {"metadata": {"continue": ""}}, False),
        ({"limit": "10"}, {"total": 10}, False),
        ({"limit": "10"}, {"count": 10}, True),
    ],
)
def test_a_full_page_says_so_where_nothing_else_does(sent: dict[str, Any], rest: Any, is_full: bool) -> None:
    found = envelope(rest, sent=sent).find_unread(COUNT)
    assert (found is not None and found.kind is SignalKind.FULL) is is_full


def test_a_count_that_repeats_the_limit_is_no_total() -> None:
    assert envelope({"count": 50}, sent={"limit": "50"}).find_unread(COUNT) is None


def test_a_cursor_that_was_sent_is_not_the_next() -> None:
    for name in ("cursor", "after", "pageToken"):
        assert envelope({name: "abc"}, sent={name: "abc"}).find_unread(COUNT) is None


def test_a_link_without_the_key_of_the_request_still_leads_to_the_same_page() -> None:
    url = f"{HERE}?api_key=abc&page=2"
    assert envelope({"next": f"{HERE}?page=2"}, url=url).find_unread(COUNT) is None
    assert envelope({"next": f"{HERE}?page=3"}, url=url).find_unread(COUNT) is not None
    assert envelope({"next": HERE}, url=url).find_unread(COUNT) is not None


def test_what_is_to_be_ignored_is_ignored() -> None:
    rest = {"next": "/b", "has_more": True}
    assert envelope(rest).find_left_over(["next", "has_more"]) is None
    found = envelope(rest).find_left_over(["next"])
    assert found is not None
    assert found.place == "has_more"


def test_a_block_is_ready_to_paste() -> None:
    block = Pagination(PaginationKind.CURSOR, "page[after]", next="meta.next", more="meta.more")
    assert (
        format_pagination(block) == 'pagination: {type: cursor, param: "page[after]", next: meta.next, more: meta.more}'
    )
