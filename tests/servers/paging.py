"""Shapes of paging that public APIs have, each as a route of the server, with what a configuration for it has.

Routes refuse parameters that they do not know where the public API does (``strict``); all others ignore them, as most
servers do.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from servers.api import Answer, Asked, Route

Records = Sequence[Mapping[str, Any]]
SIZE = 10


@dataclass(frozen=True, slots=True)
class Shape:
    """``make`` gives the route for records; ``block`` is the pagination that ingest writes.

    ``place`` is the field that says there is more, ``records`` where they are, ``query`` what the address has.
    """

    make: Callable[[Records, str], Route]
    block: Mapping[str, Any]
    place: str
    records: str = "data"
    query: str = ""


def _int(asked: Asked, name: str, default: int) -> int:
    return int(asked.params.get(name, default))


def _cut(records: Records, begin: int, size: int = SIZE) -> tuple[list[Any], bool]:
    return list(records[begin : begin + size]), begin + size < len(records)


def _opaque(begin: int) -> str:
    return base64.urlsafe_b64encode(f"at:{begin}".encode()).decode()


def _begin(cursor: str | None) -> int:
    return int(base64.urlsafe_b64decode(cursor).decode().removeprefix("at:")) if cursor else 0


def after_in_data(records: Records, base: str) -> Route:
    """Reddit: ``after`` and ``before`` beside the records, null at the ends."""

    def route(asked: Asked) -> Answer:
        begin = _begin(asked.params.get("after"))
        found, more = _cut(records, begin)
        after, before = _opaque(begin + SIZE) if more else None, _opaque(begin) if begin else None
        return Answer(
            {"kind": "Listing", "data": {"after": after, "dist": len(found), "children": found, "before": before}}
        )

    return route


def continued(records: Records, base: str) -> Route:
    """Kubernetes: ``metadata.continue``, empty at the end."""

    def route(asked: Asked) -> Answer:
        begin = _begin(asked.params.get("continue"))
        found, more = _cut(records, begin)
        rest = {"continue": _opaque(begin + SIZE), "remainingItemCount": len(records) - begin - SIZE}
        metadata = {"resourceVersion": "7", **(rest if more else {"continue": ""})}
        return Answer({"kind": "List", "metadata": metadata, "items": found})

    return route


def continued_by_object(records: Records, base: str) -> Route:
    """MediaWiki: ``continue``, an object with the parameter by its name."""

    def route(asked: Asked) -> Answer:
        begin = _begin(asked.params.get("apcontinue"))
        found, more = _cut(records, begin)
        rest = {"continue": {"apcontinue": _opaque(begin + SIZE), "continue": "-||"}} if more else {"batchcomplete": ""}
        return Answer({**rest, "query": {"allpages": found}})

    return route


def numbers_in_object(records: Records, base: str) -> Route:
    """openFDA: ``skip``, ``limit`` and ``total`` in an object of ``meta``."""

    def route(asked: Asked) -> Answer:
        begin = _int(asked, "skip", 0)
        found, _ = _cut(records, begin)
        numbers = {"skip": begin, "limit": SIZE, "total": len(records)}
        return Answer({"meta": {"terms": "…", "results": numbers}, "results": found})

    return route


def page_and_total(records: Records, base: str) -> Route:
    """``page`` from 1, and a total: the API of the finding."""

    def route(asked: Asked) -> Answer:
        found, _ = _cut(records, (_int(asked, "page", 1) - 1) * SIZE)
        return Answer({"data": found, "total": len(records)})

    return route


def page_from_zero(records: Records, base: str) -> Route:
    """Spring: ``page`` from 0, totals in ``page``, a flag ``last`` and ``content``."""

    def route(asked: Asked) -> Answer:
        number = _int(asked, "page", 0)
        found, more = _cut(records, number * SIZE)
        pages = -(-len(records) // SIZE)
        return Answer({"content": found, "number": number, "totalPages": pages, "last": not more})

    return route


def offset_and_limit(records: Records, base: str) -> Route:
    """``offset`` and ``limit``, both repeated in the response."""

    def route(asked: Asked) -> Answer:
        begin, size = _int(asked, "offset", 0), min(_int(asked, "limit", SIZE), SIZE)
        found, _ = _cut(records, begin, size)
        return Answer({"items": found, "offset": begin, "limit": size, "total": len(records)})

    return route


def cursor_in_body(records: Records, base: str) -> Route:
    """``next_cursor``, sent as ``cursor``; empty at the end."""

    def route(asked: Asked) -> Answer:
        begin = _begin(asked.params.get("cursor"))
        found, more = _cut(records, begin)
        return Answer({"results": found, "next_cursor": _opaque(begin + SIZE) if more else ""})

    return route


def absolute_link(records: Records, base: str) -> Route:
    """Django: ``count``, ``next`` and ``previous`` beside ``results``."""

    def route(asked: Asked) -> Answer:
        page = _int(asked, "page", 1)
        found, more = _cut(records, (page - 1) * SIZE)
        link = f"{base}{asked.path}?{urlencode({**asked.params, 'page': page + 1})}" if more else None
        return Answer({"count": len(records), "next": link, "previous": None, "results": found})

    return route


def relative_link(records: Records, base: str) -> Route:
    """Salesforce: ``nextRecordsUrl`` without the server, a flag ``done``."""

    def route(asked: Asked) -> Answer:
        begin = _int(asked, "from", 0)
        found, more = _cut(records, begin)
        answer = {"totalSize": len(records), "done": not more, "records": found}
        return Answer(answer | ({"nextRecordsUrl": f"{asked.path}?from={begin + SIZE}"} if more else {}))

    return route


def link_header(records: Records, base: str) -> Route:
    """GitHub: a list, and the ``Link`` header."""

    def route(asked: Asked) -> Answer:
        page = _int(asked, "page", 1)
        found, more = _cut(records, (page - 1) * SIZE)
        links = [f'<{base}{asked.path}?page=1>; rel="first"']
        links += [f'<{base}{asked.path}?page={page + 1}>; rel="next"'] if more else []
        return Answer(found, headers={"Link": ", ".join(links)})

    return route


def nested_token(records: Records, base: str) -> Route:
    """A token in ``meta.paging``, sent as ``page_token``; null at the end."""

    def route(asked: Asked) -> Answer:
        begin = _begin(asked.params.get("page_token"))
        found, more = _cut(records, begin)
        token = _opaque(begin + SIZE) if more else None
        return Answer({"meta": {"count": len(found), "paging": {"next_page_token": token}}, "data": found})

    return route


def after_last_id(records: Records, base: str) -> Route:
    """Stripe: ``has_more``, and ``starting_after`` with the id of the last record; refuses other parameters."""

    def route(asked: Asked) -> Answer:
        unknown = set(asked.params) - {"starting_after", "limit"}
        if unknown:
            return Answer({"error": {"message": f"Received unknown parameter: {min(unknown)}"}}, 400)
        after = asked.params.get("starting_after")
        places = {str(each["id"]): place for place, each in enumerate(records)}
        found, more = _cut(records, places[after] + 1 if after else 0)
        return Answer({"object": "list", "data": found, "has_more": more, "url": asked.path})

    return route


def odata(records: Records, base: str) -> Route:
    """OData: ``value`` and ``@odata.nextLink``."""

    def route(asked: Asked) -> Answer:
        begin = _int(asked, "$skiptoken", 0)
        found, more = _cut(records, begin)
        link = {"@odata.nextLink": f"{base}{asked.path}?$skiptoken={begin + SIZE}"} if more else {}
        return Answer({"@odata.context": f"{base}/$metadata", "value": found, **link})

    return route


def bare_list(records: Records, base: str) -> Route:
    """A list and nothing else; ``page`` and ``per_page``."""

    def route(asked: Asked) -> Answer:
        size = _int(asked, "per_page", SIZE)
        return Answer(_cut(records, (_int(asked, "page", 1) - 1) * size, size)[0])

    return route


def page_envelope(records: Records, base: str) -> Route:
    """``page``, ``per_page`` and ``total_pages`` beside ``data``."""

    def route(asked: Asked) -> Answer:
        page = _int(asked, "page", 1)
        found, _ = _cut(records, (page - 1) * SIZE)
        return Answer({"page": page, "per_page": SIZE, "total_pages": -(-len(records) // SIZE), "data": found})

    return route


def edge_cursor(records: Records, base: str) -> Route:
    """Relay: ``pageInfo`` with a cursor that is there at the end too, and ``hasNextPage``."""

    def route(asked: Asked) -> Answer:
        begin = _begin(asked.params.get("after"))
        found, more = _cut(records, begin)
        return Answer({"nodes": found, "pageInfo": {"endCursor": _opaque(begin + SIZE), "hasNextPage": more}})

    return route


def link_list(records: Records, base: str) -> Route:
    """FHIR: links in a list, by their relation."""

    def route(asked: Asked) -> Answer:
        begin = _int(asked, "from", 0)
        found, more = _cut(records, begin)
        links = [{"relation": "self", "url": f"{base}{asked.path}?from={begin}"}]
        links += [{"relation": "next", "url": f"{base}{asked.path}?from={begin + SIZE}"}] if more else []
        return Answer({"link": links, "entry": found})

    return route


def number_in_header(records: Records, base: str) -> Route:
    """GitLab: a list, and the next page in a header that is empty at the end."""

    def route(asked: Asked) -> Answer:
        page = _int(asked, "page", 1)
        found, more = _cut(records, (page - 1) * SIZE)
        return Answer(found, headers={"X-Next-Page": str(page + 1) if more else "", "X-Total": str(len(records))})

    return route


PAGE: Mapping[str, Any] = {"type": "page", "param": "page"}
SHAPES: dict[str, Shape] = {
    "after in data": Shape(
        after_in_data, {"type": "cursor", "param": "after", "next": "data.after"}, "data.after", "data.children"
    ),
    "continue": Shape(
        continued, {"type": "cursor", "param": "continue", "next": "metadata.continue"}, "metadata.continue", "items"
    ),
    "object to continue": Shape(
        continued_by_object,
        {"type": "cursor", "param": "apcontinue", "next": "continue.apcontinue"},
        "continue.apcontinue",
        "query.allpages",
    ),
    "numbers in an object": Shape(
        numbers_in_object, {"type": "offset", "param": "skip"}, "meta.results.total", "results"
    ),
    "page and total": Shape(page_and_total, PAGE, "total"),
    "page from zero": Shape(page_from_zero, {**PAGE, "start": 0}, "last", "content"),
    "offset and limit": Shape(offset_and_limit, {"type": "offset", "param": "offset"}, "total", "items", "limit=10"),
    "cursor": Shape(
        cursor_in_body, {"type": "cursor", "param": "cursor", "next": "next_cursor"}, "next_cursor", "results"
    ),
    "absolute link": Shape(absolute_link, {"type": "next_link", "next": "next"}, "next", "results"),
    "relative link": Shape(relative_link, {"type": "next_link", "next": "nextRecordsUrl"}, "nextRecordsUrl", "records"),
    "Link header": Shape(link_header, {"type": "next_link"}, "the header Link", ""),
    "nested token": Shape(
        nested_token,
        {"type": "cursor", "param": "page_token", "next": "meta.paging.next_page_token"},
        "meta.paging.next_page_token",
    ),
    "last id": Shape(
        after_last_id,
        {"type": "cursor", "param": "starting_after", "last_field": "id", "more": "has_more"},
        "has_more",
    ),
    "OData": Shape(odata, {"type": "next_link", "next": "@odata.nextLink"}, "@odata.nextLink", "value"),
    "bare list": Shape(bare_list, PAGE, "the parameter per_page", "", "per_page=10"),
    "page envelope": Shape(page_envelope, PAGE, "total_pages"),
    "edge cursor": Shape(
        edge_cursor,
        {"type": "cursor", "param": "after", "next": "pageInfo.endCursor", "more": "pageInfo.hasNextPage"},
        "pageInfo.hasNextPage",
        "nodes",
    ),
    "list of links": Shape(link_list, {"type": "next_link", "next": "link.next.url"}, "link.next.url", "entry"),
    "number in a header": Shape(number_in_header, PAGE, "the header x-next-page", ""),
}
