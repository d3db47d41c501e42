"""What a response says about further pages: next links, cursors, flags and totals outside its records.

Nothing here sends a request. A read uses it to notice that a response is not the end; the survey of an API uses it to
find out how the API pages. Names are compared without case and punctuation: ``next_page_token``, ``nextPageToken``.

Only fields that belong to the response count, never those of records: at the top, beside the list of records and on
the way to it, and in objects that describe pages by their name, such as ``meta`` or ``paging``, or by their fields. In
other objects only names count that mean nothing else, such as ``next_cursor``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

from tidegate.sources.http.client import Request, public_url
from tidegate.specs.columns import Pagination, PaginationKind

_HEADER = "the header "
LINK_HEADER = f"{_HEADER}Link"


def _split_names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_CONTAINERS = _split_names(
    "meta metadata paging pagination pager page pages pageinfo links link cursor cursors responsemetadata info nav "
    "navigation additionaldata listmetadata resultset searchinfo next pagemeta pagemetadata pagecontext pagedata "
    "pagedetails paginationinfo paginationmeta paginationmetadata pagingmeta pagingmetadata paginginfo resultinfo "
    "resultsinfo resultmeta resultmetadata resultsmetadata searchmetadata"
)
_NEXT = _split_names(
    "next nexturl nextlink nextpageurl nextpagelink nexthref nexturi nextpageuri odatanextlink nextrecordsurl nextpage "
    "nextresults nextcursor nextpagetoken nexttoken nextpagecursor continuation continuationtoken nextcontinuation "
    "nextcontinuationtoken nextmarker nextpagekey nextkey nextoffset nextstart nextid nextpagenumber afterurl "
    "continue lastevaluatedkey moreurl loadmoreurl moretopicsurl moreresultsurl moreitemsurl morerecordsurl"
)
"""Names of what comes next, a link or a cursor by its value."""
_CURSOR_OBJECTS = _split_names("lastevaluatedkey")
"""Cursors that are an object as a whole, which no parameter can carry."""
_WEAK_CURSORS = _split_names("cursor after pagetoken")
"""A cursor unless the response says otherwise: some servers repeat the one of the request."""
_COMPANIONS = _split_names("cursor after aftercursor endcursor")
"""Cursors that are there at the end too, so that only the flag beside them says whether there is more."""
_MORE = _split_names(
    "hasmore hasnext hasnextpage more morepages moreresults hasmoreitems moreitemsincollection istruncated truncated "
    "hasmoreresults hasmorerecords hasmorepages moredata exceededtransferlimit "
    "moreresult morerecords moreitems moreavailable moreresultsavailable continue"
)
_MORE_BEGINS = ("hasmore", "hasnext")
_LEFT_OUT = _split_names("exceededtransferlimit")
"""Flags that servers leave out where they are false."""
_OF_JOBS = _split_names("done truncated istruncated")
"""Flags that may be about the work of the server, so that a cursor or a link beside them still counts."""
_SURE = _split_names(
    "nextcursor nextpagetoken nexttoken nextpagecursor nextpageurl nextpagelink nextrecordsurl odatanextlink "
    "nextmarker continuationtoken nextcontinuationtoken moreitemsincollection morerecords hasmore hasmoreitems "
    "hasmorerecords hasmoreresults hasmorepage hasmorepages hasnext hasnextpage"
)
"""Names that mean further pages wherever they are."""
_END = _split_names("islast last islastpage lastpage done endofrecords endofstream")
_TOTALS = _split_names(
    "total totalcount totalresults totalrecords totalitems totalelements totalhits totalsize totalrows totalentries "
    "numfound odatacount inlinecount nbhits recordstotal recordcount"
)
_COUNTS = frozenset({"count"})
"""A total where it is above the number of records: that of a page never is."""
_PAGE_COUNTS = _split_names("totalpages pagecount pagescount numpages nbpages lastpage pagetotal totalpagecount pages")
_PAGE_NUMBERS = _split_names("page currentpage pagenumber pageindex pageno number")
_OFFSETS = _split_names("offset skip start startat startindex from resultoffset")
_LIMITS = _split_names(
    "limit perpage pagesize size count maxresults top rows pagelimit maxitems resultsperpage itemsperpage maxrecords "
    "resultrecordcount take first numresults batchsize"
)
_HREFS = ("href", "url", "link", "uri")
_TOTAL_HEADERS = ("x-total-count", "x-total", "x-wp-total", "total-count")
_PAGES_HEADERS = ("x-total-pages", "x-wp-totalpages", "x-pages")
_NEXT_PAGE_HEADER = "x-next-page"
_CURSOR_HEADERS = ("x-ms-continuation", "x-ms-continuationtoken", "x-next-cursor", "x-next-token", "opc-next-page")
_CONTENT_RANGE = "content-range"
HEADERS = frozenset({*_TOTAL_HEADERS, *_PAGES_HEADERS, *_CURSOR_HEADERS, _NEXT_PAGE_HEADER, _CONTENT_RANGE})
"""Headers that may say something about further pages, besides ``Link``."""
_DEEPEST = 4
"""Objects inside each other that are looked into, beside the way to the records."""
_MOST_FIELDS = 40
"""An object with more is data, not a description of pages."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


class SignalKind(StrEnum):
    """What says that there is more."""

    LINK = "link"
    CURSOR = "cursor"
    FLAG = "flag"
    PAGES = "pages"
    TOTAL = "total"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class PageSignal:
    """A field that says there is more, its value, and the pagination that fits, as far as one response shows it."""

    kind: SignalKind
    place: str
    value: Any
    fits: Pagination | None = None

    @property
    def path(self) -> str:
        """The place as a configuration names it: a header by its name alone."""
        return self.place.removeprefix(_HEADER)


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of the envelope: its path, its name in normal form, its value, and whether it is in any other object."""

    place: str
    name: str
    value: Any
    is_aside: bool = False

    @property
    def parent(self) -> str:
        """The name of the object that has the field, in normal form."""
        return normalize(self.place.rpartition(".")[0].rpartition(".")[2])


@dataclass(frozen=True)
class Envelope:
    """A response without its records: its other fields, the headers that concern pages, and its ``Link`` to the next.

    ``records`` is the path of the list that was taken out. ``url`` is the address of the response, ``sent`` the
    parameters of the request; ``last`` is the last record.
    """

    rest: Any
    records: str = ""
    link: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    url: str = field(default="", repr=False)
    sent: Mapping[str, object] = field(default_factory=dict, repr=False)
    last: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def find_left_over(self, ignore: Sequence[str] = (), *, is_end: bool = False) -> PageSignal | None:
        """Find what says, at the end of a read by a configured rule, that there is more. Totals do not count.

        With ``is_end`` a flag that can be trusted says that this is the end: only another flag contradicts it.
        """
        kinds = (SignalKind.FLAG,) if is_end else (SignalKind.LINK, SignalKind.CURSOR, SignalKind.FLAG)
        return next(
            (signal for signal in self._strong_signals() if signal.kind in kinds and signal.path not in ignore), None
        )

    def find_unread(self, count: int) -> PageSignal | None:
        """Find what says that there is more than this one response, which has ``count`` records."""
        return next(iter(self.signals(count)), None)

    def signals(self, count: int) -> list[PageSignal]:
        """Find everything that says there is more than ``count`` records, what tells most first."""
        return [
            *self._strong_signals(),
            *self._weak_signals(),
            *self._page_counts(),
            *self._totals(count),
            *self._full_page(count),
        ]

    @cached_property
    def says_end(self) -> bool:
        """True if a flag says that this is the end."""
        return any(self._flag(field) is False for field in self._fields)

    def by_number(self) -> Pagination:
        """Pages by number or offset, whichever the response or the request has a field for; by number if neither."""
        named = [
            (field.name, _field_name(field.place)) for field in self._fields if _as_number(field.value) is not None
        ]
        named += [(normalize(name), name) for name, value in self.sent.items() if _as_number(value) is not None]
        offset = next((spelled for name, spelled in named if name in _OFFSETS), None)
        page = next((spelled for name, spelled in named if name in _PAGE_NUMBERS - {"number"}), None)
        if offset is not None and page is None:
            return Pagination(PaginationKind.OFFSET, offset)
        given = next((name for name in self.sent if normalize(name) in _PAGE_NUMBERS), None)
        start = 0 if self._page_number == 0 else None
        return Pagination(PaginationKind.PAGE, given or _page_param(page), start=start)

    def announced_total(self) -> tuple[str, int] | None:
        """Return the total that the response names, if any, with its place."""
        return next(iter(self._named_totals()), None)

    def flags(self) -> list[str]:
        """The places of everything that is true or false."""
        return [entry.place for entry in self._everything if as_flag(entry.value) is not None]

    @cached_property
    def _everything(self) -> tuple[_Field, ...]:
        return tuple(self._walk(self.rest, "", self.records.split(".") if self.records else [], 0))

    @cached_property
    def _fields(self) -> tuple[_Field, ...]:
        """The fields of the response itself."""
        return tuple(entry for entry in self._everything if not entry.is_aside)

    @cached_property
    def _paging_fields(self) -> tuple[_Field, ...]:
        """The fields that may say there is more: of other objects, only those whose names mean nothing else."""
        return tuple(entry for entry in self._everything if not entry.is_aside or entry.name in _SURE)

    def _walk(self, node: Any, place: str, way: list[str], depth: int, *, is_aside: bool = False) -> Iterator[_Field]:
        if not isinstance(node, Mapping) or depth > _DEEPEST:
            return
        for key, value in node.items():
            here = f"{place}.{key}" if place else str(key)
            name = normalize(str(key))
            if here == self.records:
                continue
            yield _Field(here, name, value, is_aside)
            if isinstance(value, Mapping) and way and way[0] == key:
                # The way to the records may be long, and all of it is of the response.
                yield from self._walk(value, here, way[1:], 0)
            elif isinstance(value, Mapping):
                describes_pages = name in _CONTAINERS or _describes_pages(value)
                if describes_pages or (name not in _NEXT and _is_small(value)):
                    is_other = is_aside or not describes_pages
                    yield from self._walk(value, here, [], depth + 1, is_aside=is_other)
            elif isinstance(value, list) and name in ("link", "links"):
                relations = {name: link for name in ("next", "prev") if (link := link_with_relation(value, name))}
                yield from self._walk(relations, here, [], depth + 1, is_aside=is_aside)

    def _strong_signals(self) -> Iterator[PageSignal]:
        if not self._is_ended:
            if self.link and not self._is_here(self.link):
                yield PageSignal(SignalKind.LINK, LINK_HEADER, self.link, Pagination(PaginationKind.NEXT_LINK))
            signals = [signal for entry in self._paging_fields if entry.name in _NEXT for signal in self._next(entry)]
            # A link is followed as it is; the parameter of a cursor is a guess.
            yield from sorted(signals, key=lambda signal: signal.kind is not SignalKind.LINK)
            yield from self._cursor_headers()
        for entry in self._paging_fields:
            if self._flag(entry):
                yield PageSignal(SignalKind.FLAG, entry.place, entry.value, self._after_flag(entry))

    @cached_property
    def _is_ended(self) -> bool:
        """Whether a flag says the end so clearly that cursors and links beside it are not looked at."""
        return any(self._flag(field) is False for field in self._fields if field.name not in _OF_JOBS)

    def _cursor_headers(self) -> Iterator[PageSignal]:
        if number := self.headers.get(_NEXT_PAGE_HEADER, "").strip():
            yield PageSignal(SignalKind.CURSOR, f"{_HEADER}{_NEXT_PAGE_HEADER}", number, self.by_number())
        for name in _CURSOR_HEADERS:
            if cursor := self.headers.get(name, "").strip():
                yield PageSignal(SignalKind.CURSOR, f"{_HEADER}{name}", cursor)

    def _weak_signals(self) -> Iterator[PageSignal]:
        """A field called ``cursor``, ``after`` or ``pageToken``, and Airtable's ``offset`` that is text."""
        if self._is_ended:
            return
        for entry in self._fields:
            opaque = entry.name in _OFFSETS and isinstance(entry.value, str) and _as_number(entry.value) is None
            is_sent = entry.value in self.sent.values()
            if (entry.name in _WEAK_CURSORS or opaque) and not is_sent and not self._is_half_of_range(entry):
                if self._is_cursor(entry.value):
                    yield self._cursor(entry.place, entry.value)
                elif entry.name == "after" and isinstance(entry.value, Mapping):
                    yield from self._next(entry)

    def _is_half_of_range(self, entry: _Field) -> bool:
        """Whether an ``after`` has its ``before``: the two ends of a page, or of a range of dates."""
        place = f"{entry.place.rpartition('.')[0]}.before".removeprefix(".")
        before = value_at(self.rest, place)
        if entry.name != "after" or not self._is_cursor(before):
            return False
        is_range = all(_DATE.match(str(value)) for value in (entry.value, before))
        return is_range or entry.parent.startswith("cursor")

    def _next(self, entry: _Field) -> Iterator[PageSignal]:
        """A link or a cursor, by its value; an object has it inside."""
        value = entry.value
        if entry.name in _CURSOR_OBJECTS and isinstance(value, Mapping):
            if value:
                yield PageSignal(SignalKind.CURSOR, entry.place, value)
        elif isinstance(value, Mapping):
            # Fields with names of their own, such as `next.next_url`, are looked at where they are.
            inside = {key: item for key, item in value.items() if self._is_cursor(item) and normalize(key) not in _NEXT}
            key = next((name for name in _HREFS if name in inside), next(iter(inside), None))
            if key is not None:
                yield from self._next(_Field(f"{entry.place}.{key}", normalize(key), inside[key]))
        elif isinstance(value, str) and re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://|[/?]", value.strip()):
            if not self._is_here(value):
                fits = Pagination(PaginationKind.NEXT_LINK, next=entry.place)
                yield PageSignal(SignalKind.LINK, entry.place, value, fits)
        elif self._is_cursor(value) and not (normalize(entry.name) == "nextpage" and value == self._page_number):
            yield self._cursor(entry.place, value)

    def _is_cursor(self, value: Any) -> bool:
        """A text or number; servers write null, an empty text, false or 0 where nothing comes next."""
        return isinstance(value, str | int) and not isinstance(value, bool) and value not in ("", 0)

    def _cursor(self, place: str, value: Any) -> PageSignal:
        fits = Pagination(PaginationKind.CURSOR, cursor_params(place)[0], next=place)
        return PageSignal(SignalKind.CURSOR, place, value, fits)

    def _is_here(self, link: str) -> bool:
        """Whether a link leads to the response itself."""
        if not self.url:
            return False
        try:
            here, there = urlsplit(self.url), urlsplit(urljoin(self.url, link))
            same = (here.scheme, here.hostname, here.port, here.path) == (
                there.scheme,
                there.hostname,
                there.port,
                there.path,
            )
        except ValueError:
            return False
        # A server may leave parameters out of its links, credentials above all, and never those of the page.
        mine, its = dict(parse_qsl(here.query)), dict(parse_qsl(there.query))
        return (
            same
            and all(mine.get(name) == value for name, value in its.items())
            and not ({name for name in mine if _is_of_page(name)} - set(its))
        )

    def _flag(self, entry: _Field) -> bool | None:
        """True: there is more. False: this is the end. None: the field is no flag."""
        value = as_flag(entry.value)
        if value is None or not (says_more(entry.name) or entry.name in _END):
            return None
        return value if says_more(entry.name) else not value

    def _after_flag(self, flag: _Field) -> Pagination:
        """The pagination of a response whose flag says that there is more, by what else it has."""
        more = flag.place if says_more(flag.name) else None
        for entry in self._fields:
            if entry.name in _COMPANIONS and self._is_cursor(entry.value):
                return Pagination(PaginationKind.CURSOR, cursor_params(entry.place)[0], next=entry.place, more=more)
        by_number = self.by_number()
        has_field = any(field.name in _OFFSETS | _PAGE_NUMBERS | _PAGE_COUNTS for field in self._fields)
        # Nothing names a page: such APIs continue after the id of the last record.
        if not has_field and "id" in self.last and not any(_is_of_page(name) for name in self.sent):
            return Pagination(PaginationKind.CURSOR, "starting_after", last_field="id", more=more)
        return replace(by_number, more=more)

    def _page_counts(self) -> Iterator[PageSignal]:
        current = self._page_number or 1
        named = [(field.place, field.value) for field in self._fields if field.name in _PAGE_COUNTS]
        named += [(f"{_HEADER}{name}", self.headers[name]) for name in _PAGES_HEADERS if name in self.headers]
        for place, value in named:
            number = _as_number(value)
            if number is not None and number > current:
                yield PageSignal(SignalKind.PAGES, place, value, self.by_number())

    @cached_property
    def _page_number(self) -> int | None:
        """The number of this page, where the response has it."""
        numbers = (_as_number(field.value) for field in self._fields if field.name in _PAGE_NUMBERS)
        return next((number for number in numbers if number is not None), None)

    def _totals(self, count: int) -> Iterator[PageSignal]:
        for place, number in self._named_totals():
            if number > count:
                yield PageSignal(SignalKind.TOTAL, place, number, self.by_number())

    def _named_totals(self) -> Iterator[tuple[str, int]]:
        for entry in self._fields:
            place, value = entry.place, entry.value
            if isinstance(value, Mapping) and "value" in value:
                place, value = f"{place}.value", value["value"]
            number = _as_number(value)
            # A `count` that repeats the limit of the request says nothing about a total.
            if number is None or (entry.name in _COUNTS and (self.says_end or number in self._limits().values())):
                continue
            # `pages.total` is a number of pages.
            if entry.name in _TOTALS | _COUNTS and not (entry.name == "total" and entry.parent == "pages"):
                yield place, number
        for name in _TOTAL_HEADERS:
            if (number := _as_number(self.headers.get(name))) is not None:
                yield f"{_HEADER}{name}", number
        if total := re.search(r"/(\d+)$", self.headers.get(_CONTENT_RANGE, "")):
            yield f"{_HEADER}{_CONTENT_RANGE}", int(total[1])

    def _limits(self) -> dict[str, int]:
        """The parameters of the request that limit the number of records."""
        numbers = {name: _as_number(value) for name, value in self.sent.items() if normalize(name) in _LIMITS}
        return {name: number for name, number in numbers.items() if number}

    def _full_page(self, count: int) -> Iterator[PageSignal]:
        """As many records as were asked for, where nothing in the response says that these are all."""
        is_known = self.says_end or any(number <= count for _, number in self._named_totals())
        has_next = self.link is not None or any(
            field.name in _NEXT or (field.name in _WEAK_CURSORS and field.value in (None, "")) for field in self._fields
        )
        for name, number in self._limits().items() if not is_known and not has_next else ():
            if count >= number:
                yield PageSignal(SignalKind.FULL, f"the parameter {name}", number, self.by_number())


def normalize(name: str) -> str:
    """Drop case and punctuation from a name.

    >>> normalize("@odata.nextLink"), normalize("page[size]")
    ('odatanextlink', 'pagesize')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def says_more(name: str) -> bool:
    """Whether a name in normal form is that of a flag which is true where there is more."""
    return name in _MORE or name.startswith(_MORE_BEGINS)


def is_clear_flag(path: str) -> bool:
    """Whether a flag is about pages by its name, and not perhaps about the work of the server."""
    name = normalize(path.rpartition(".")[2])
    return says_more(name) and name not in _OF_JOBS


def may_be_left_out(path: str) -> bool:
    """Whether servers leave out this flag where it is false."""
    return normalize(path.rpartition(".")[2]) in _LEFT_OUT


def value_at(data: Any, path: str, default: Any = None) -> Any:
    """Return the value at a path of names with dots; ``default`` without one. A name may itself have dots.

    In a list of links a name chooses the one of that relation.

    >>> value_at({"paging": {"next": "abc"}}, "paging.next")
    'abc'
    >>> value_at({"@odata.nextLink": "/b"}, "@odata.nextLink")
    '/b'
    >>> value_at({"link": [{"relation": "self"}, {"relation": "next", "url": "/b"}]}, "link.next.url")
    '/b'
    """
    if not path:
        return data
    names = path.split(".")
    for length in range(len(names), 0, -1):
        name, rest = ".".join(names[:length]), ".".join(names[length:])
        if isinstance(data, Mapping) and name in data:
            return value_at(data[name], rest, default)
        if isinstance(data, list) and (found := link_with_relation(data, name)):
            return value_at(found, rest, default)
    return default


def link_with_relation(links: Sequence[Any], relation: str) -> Mapping[str, Any] | None:
    """Find the link of a list that has this ``rel``."""
    for link in links:
        if isinstance(link, Mapping) and relation in (link.get("rel"), link.get("relation")):
            return link
    return None


def as_flag(value: Any) -> bool | None:
    """Read a flag, also as text; None for anything else."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def cursor_params(place: str) -> tuple[str, ...]:
    """Names that a parameter for the cursor at ``place`` may have, the likeliest first.

    >>> [cursor_params(place)[0] for place in ("meta.next_page_token", "nextPageToken", "paging.next.after")]
    ['page_token', 'pageToken', 'after']
    """
    name = place.rpartition(".")[2]
    bare = re.sub(r"^next[_-]?", "", name)
    bare = bare[:1].lower() + bare[1:]
    known = {"page": ("page",), "start": ("start",), "id": ("since_id", "after_id")}
    first = known.get(bare, (bare,) if bare else ("cursor",))
    if normalize(name) in ("endcursor", "aftercursor"):
        first = ("after", "cursor")
    if normalize(name) == "next" and (outer := place.rpartition(".")[0]):
        first = ("after", "cursor") if normalize(outer).startswith("cursor") else first
    return tuple(dict.fromkeys((*first, name, "cursor", "after", "page_token", "pageToken", "token", "next")))


def keys_of(paging: Pagination) -> dict[str, Any]:
    """The keys of a pagination that are set, as a configuration has them."""
    named = ("param", "size_param", "size", "start", "next", "last_field", "more", "total")
    values = {name: getattr(paging, name) for name in named}
    return {"type": paging.kind.value, **{name: value for name, value in values.items() if value is not None}}


def format_pagination(paging: Pagination) -> str:
    """Format a pagination as one line of a configuration.

    >>> format_pagination(Pagination(PaginationKind.NEXT_LINK, next="@odata.nextLink"))
    'pagination: {type: next_link, next: "@odata.nextLink"}'
    """
    pairs = ", ".join(f"{name}: {quote_scalar(value)}" for name, value in keys_of(paging).items())
    return f"pagination: {{{pairs}}}"


def show_value(signal: PageSignal) -> str:
    """Format the value of a signal for messages; a link without its parameters, which may contain keys."""
    text = str(signal.value)
    if signal.kind is not SignalKind.LINK:
        return json.dumps(signal.value) if isinstance(signal.value, bool) else text
    path, has_query, _ = text.partition("?")
    try:
        return f"{public_url(path) if '://' in path else path}{'?…' if has_query else ''}"
    except ValueError:
        return "an address that cannot be read"


def params_sent(request: Request) -> dict[str, object]:
    """The parameters of a request, in its address, its query and the top of its body."""
    return {**dict(parse_qsl(urlsplit(request.url).query)), **(request.body or {}), **request.params}


def quote_scalar(value: object) -> str:
    """Format a scalar of YAML, in quotes where it needs them."""
    text = str(value)
    plain = isinstance(value, int) or re.fullmatch(r"[A-Za-z_][\w.-]*", text)
    return text if plain else json.dumps(text, ensure_ascii=False)


def _as_number(value: Any) -> int | None:
    # Python does not convert thousands of digits, and a server may send them.
    if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value.strip(), re.ASCII):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _field_name(place: str) -> str:
    return place.rpartition(".")[2]


def _page_param(field_name: str | None) -> str:
    """The parameter for a page number, by the name that it has in the response."""
    return "page" if field_name is None or normalize(field_name) in ("page", "currentpage") else field_name


def _is_of_page(name: str) -> bool:
    return normalize(name) in _PAGE_NUMBERS | _OFFSETS | _WEAK_CURSORS | _COMPANIONS


def _is_small(node: Mapping[str, Any]) -> bool:
    """Whether an object may describe the response: few fields, and no list of objects with pages of its own."""
    lists = (value for value in node.values() if isinstance(value, list))
    return len(node) <= _MOST_FIELDS and not any(isinstance(items[0], Mapping) for items in lists if items)


def _describes_pages(node: Mapping[str, Any]) -> bool:
    """Whether an object has where its page begins, how long it is, and of how much."""
    names = {normalize(str(key)) for key, value in node.items() if _as_number(value) is not None}
    roles = (_OFFSETS | _PAGE_NUMBERS, _LIMITS, _TOTALS | _PAGE_COUNTS)
    return _is_small(node) and all(names & role for role in roles)
