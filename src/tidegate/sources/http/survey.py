"""Looks at an API before it is read: where the records are, how it pages, and whether it filters by a field that grows.

What a response says is only a guess until it was tried. A way of paging counts if the first page comes again by it and
the second has other records; a filter counts if it leaves out exactly the records below its value. What says that there
is more and was not understood is refused, with what was seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import httpx2
import orjson

from tidegate.errors import ConfigError, SourceError
from tidegate.reports.wording import count
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.client import Request, RequestPace, Sender, public_url, request_of
from tidegate.sources.http.envelope import (
    HEADERS,
    Envelope,
    PageSignal,
    SignalKind,
    cursor_params,
    format_pagination,
    keys_of,
    normalize,
    params_sent,
    show_value,
    value_at,
)
from tidegate.specs.columns import HttpRead, Pagination, PaginationKind, Retries

LARGEST = 64 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024
_NO_CONTENT = 204
_RETRIES = Retries(2, 0.25, 10.0)
"""Fewer than those of a read: somebody is waiting at the terminal."""
# Each try is a request to somebody else's server.
_MOST_TRIES = 16
_USUAL = (
    *("data", "items", "results", "records", "value", "values", "rows", "entries", "objects", "content", "hits"),
    *("list", "elements", "documents", "resources", "issues", "members", "result"),
)
"""Usual names of lists of records, the likeliest first."""
_NO_RECORDS = frozenset({"link", "links", "errors", "warnings", "messages", "included", "facets", "aggregations"})
"""Lists that describe a response, or belong to its records."""
_ROUND = frozenset({10, 15, 20, 25, 30, 40, 50, 60, 75, 80, 100, 150, 200, 250, 300, 400, 500, 1000, 2000, 5000, 10000})
"""Sizes of pages that servers choose; so many records may be a page of more."""
_PAGE_PARAMS = ("page", "pageNumber", "page_number", "page[number]", "p")
_OFFSET_PARAMS = ("offset", "skip", "start", "startAt", "$skip", "page[offset]")
_LAST_PARAMS = ("starting_after", "after", "after_id", "since_id")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:?00)")
_CHANGES = ("updated", "modified", "changed", "lastmodified", "lastupdated")
_TIMES = ("updated", "modified", "changed", "created", "timestamp", "occurred", "received", "time")
_NUMBERS = ("id", "seq", "sequence", "eventid")


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found out about an API: the keys of its source, and the findings in words.

    ``watermark`` is the column that grows; ``unsent`` are parameters of the address that the pagination sends instead.
    """

    keys: Mapping[str, Any]
    watermark: tuple[str, ...]
    unsent: frozenset[str]
    facts: tuple[tuple[str, str], ...]


def survey_api(read: HttpRead, records: str | None = None, watermark: tuple[str, ...] | None = ()) -> Survey:
    """Look at an API by a few requests; ``records`` and ``watermark`` are what the user says about it.

    Without a ``watermark`` one is looked for; None is for a table that follows none.

    :class:`SourceError` if it does not respond with JSON, :class:`ConfigError` if the response is not understood.
    """
    read = replace(read, retries=_RETRIES, pagination=None)
    sender = Sender(read, RequestPace(read.rate_limit, 1))
    try:
        with sender.mask_errors():
            result = _Look(read, sender, records).survey(watermark)
            return replace(result, facts=tuple((name, sender.excerpt(text, 400)) for name, text in result.facts))
    finally:
        sender.close()


@dataclass(frozen=True, slots=True)
class Response:
    """A response with JSON, and the request that it answers."""

    request: Request
    body: Any
    link: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    url: str = field(default="", repr=False)
    kind: str = ""

    def records(self, path: str) -> list[Any] | None:
        """Return the list at ``path``; None if there is none."""
        items = value_at(self.body, path)
        return items if isinstance(items, list) else None

    def envelope(self, path: str) -> Envelope:
        """Return what it says besides its records."""
        items = self.records(path) or []
        last = items[-1] if items and isinstance(items[-1], Mapping) else {}
        rest = {} if isinstance(self.body, list) else self.body
        return Envelope(rest, path, self.link, self.headers, self.url, params_sent(self.request), last)


def locate_records(body: Any, where: str) -> str:
    """Find the list of records in a response; raises :class:`ConfigError` where there is none, or several."""
    if isinstance(body, list):
        _check_objects(body, "the response", where)
        return ""
    lists = dict(_lists(body, "")) if isinstance(body, Mapping) else {}
    of_objects = {path: items for path, items in lists.items() if items and isinstance(items[0], Mapping)}
    usual = [path for path in lists if _rank(path) < len(_USUAL)]
    chosen = list(of_objects) or usual
    if len(chosen) > 1:
        ranked = sorted((path for path in chosen if path in usual), key=lambda path: (path.count("."), _rank(path)))
        # A list with a usual name beats any other, one nearer to the top beats one below it.
        chosen = ranked[:1] or chosen
    if len(chosen) == 1:
        _check_objects(lists[chosen[0]], repr(chosen[0]), where)
        return chosen[0]
    if chosen:
        seen = ", ".join(f"{path} ({len(lists[path])})" for path in chosen)
        raise ConfigError((f"{where}: the response has several lists of records: {seen}; name one with --records",))
    keys = ", ".join(map(str, body)) if isinstance(body, Mapping) else ""
    seen = f"an object with the keys {keys or '(none)'}" if isinstance(body, Mapping) else f"{json.dumps(body):.80}"
    hint = f"; lists without objects: {', '.join(lists)}" if lists else ""
    raise ConfigError((f"{where}: the response has no list of records; it is {seen:.300}{hint}; give another address",))


def _lists(node: Mapping[str, Any], place: str) -> Iterator[tuple[str, list[Any]]]:
    for key, value in node.items():
        here = f"{place}.{key}" if place else str(key)
        if isinstance(value, list) and normalize(str(key)) not in _NO_RECORDS:
            yield here, value
        elif isinstance(value, Mapping) and here.count(".") < 2:
            yield from _lists(value, here)


def _rank(path: str) -> int:
    name = normalize(path.rpartition(".")[2])
    return _USUAL.index(name) if name in _USUAL else len(_USUAL)


def _check_objects(records: Sequence[Any], what: str, where: str) -> None:
    for place, record in enumerate(records, 1):
        if not isinstance(record, Mapping):
            shown = "a list" if isinstance(record, list) else f"{json.dumps(record):.80}"
            seen = f"{what} is a list, but not of objects: record {place} is {shown}"
            raise ConfigError((f"{where}: {seen}; give an address whose records are objects",))


class _Look:
    """The requests of one survey; each try counts."""

    def __init__(self, read: HttpRead, sender: Sender, records: str | None) -> None:
        self._read = read
        self._sender = sender
        self._given = records
        self._where = public_url(request_of(read, Part()).url)
        self._left = _MOST_TRIES
        self._tried: list[str] = []

    def survey(self, watermark: tuple[str, ...] | None) -> Survey:
        """Ask once, then try what the response suggests."""
        self._first = self._ask(request_of(self._read, Part()))
        self._refuse_error(self._first.body)
        self._records = self._locate()
        self._page: list[Mapping[str, Any]] = self._first.records(self._records) or []
        self._seen = frozenset(map(_identity, self._page))
        keys: dict[str, Any] = {"records": self._records} if self._records else {}
        if self._first.kind:
            keys["response_types"] = [self._first.kind]
        paging = self._find_paging()
        facts = [("records", self._describe_records()), ("pages", self._describe_pages(paging))]
        unsent = frozenset[str]()
        if paging is not None:
            keys["pagination"] = keys_of(paging)
            sent = self._first.request.params
            unsent = frozenset({paging.param} & set(sent)) if paging.param else unsent
        self._is_paged = paging is not None
        column, param, words = (None, None, "") if watermark is None else self._find_growth(watermark)
        if words:
            facts.append(("grows", words))
        if column is not None and param is not None:
            watermark = watermark or (column,)
            keys["watermark_param_mapping"] = {column: param}
        return Survey(keys, watermark or (), unsent, tuple(facts))

    def _refuse_error(self, body: Any) -> None:
        """A status of 200 may still be an error."""
        for name in ("error", "errors"):
            if isinstance(body, Mapping) and body.get(name):
                problem = self._sender.excerpt(body[name], 200)
                raise SourceError(f"{self._where}: the response reports an error in {name!r}: {problem}", "act on it")

    def _locate(self) -> str:
        if self._given is None:
            return locate_records(self._first.body, self._where)
        if self._first.records(self._given) is None and self._first.body is not None:
            keys = ", ".join(map(str, self._first.body)) if isinstance(self._first.body, Mapping) else "none"
            raise ConfigError(
                (f"{self._where}: the response has no list at {self._given!r}; its keys are {keys:.300}",)
            )
        _check_objects(self._first.records(self._given) or [], repr(self._given), self._where)
        return self._given

    # How it pages

    def _find_paging(self) -> Pagination | None:
        """The pagination that was tried and works; None where nothing says that there is more."""
        if not self._page:
            return None
        signals = self._first.envelope(self._records).signals(len(self._page))
        tried: set[Pagination] = set()
        for candidate in self._candidates(signals):
            confirmed = None if candidate in tried else self._confirm(candidate)
            tried.add(candidate)
            if confirmed is not None:
                return confirmed
        if signals:
            raise ConfigError((self._refusal(signals[0]),))
        return None

    def _refusal(self, signal: PageSignal) -> str:
        block = format_pagination(signal.fits) if signal.fits is not None else "pagination: …"
        tried = f"tried without success: {', '.join(dict.fromkeys(self._tried))}" if self._tried else "nothing to try"
        return (
            f"{self._where}: {count(len(self._page), 'record')} came, and {signal.place} is {show_value(signal):.80}: "
            f"there is more, and how the API pages was not found ({tried}). Write a configuration (`tidegate init "
            f"--api`) with what the API's documentation says, such as `{block}`"
        )

    def _candidates(self, signals: Sequence[PageSignal]) -> Iterator[Pagination]:
        """Ways to page, the likeliest first; each is tried."""
        for signal in signals:
            match signal.fits:
                case Pagination(kind=PaginationKind.CURSOR, next=str(place)) as fits:
                    yield from (replace(fits, param=param) for param in cursor_params(place)[:4])
                case Pagination(kind=PaginationKind.NEXT_LINK) as fits:
                    yield fits
                case Pagination() as fits if signal.kind is SignalKind.FLAG:
                    yield from self._after_flag(fits)
                case _:
                    yield from self._guess_numbered()
        if not signals and len(self._page) in _ROUND:
            yield from islice(self._guess_numbered(), 2)

    def _after_flag(self, fits: Pagination) -> Iterator[Pagination]:
        by_last = [
            Pagination(PaginationKind.CURSOR, param, last_field="id", more=fits.more)
            for param in _LAST_PARAMS
            if "id" in self._page[-1]
        ]
        by_number = [replace(paging, more=fits.more) for paging in self._guess_numbered()]
        yield from by_last + by_number if fits.last_field else by_number + by_last

    def _guess_numbered(self) -> Iterator[Pagination]:
        """By page and by offset, what the response and the request have names for first."""
        guess = self._first.envelope(self._records).by_number()
        pages = [Pagination(PaginationKind.PAGE, param) for param in _PAGE_PARAMS]
        offsets = [Pagination(PaginationKind.OFFSET, param) for param in _OFFSET_PARAMS]
        mixed = [paging for pair in zip(pages, offsets, strict=False) for paging in pair]
        yield from dict.fromkeys([replace(guess, start=None), *mixed])

    def _confirm(self, candidate: Pagination) -> Pagination | None:
        """The candidate as it works, with where it starts; None if the requests show that it does not."""
        match candidate.kind:
            case PaginationKind.PAGE:
                return self._confirm_pages(candidate)
            case PaginationKind.OFFSET:
                return self._confirm_offsets(candidate)
            case PaginationKind.NEXT_LINK:
                link = self._first.link if candidate.next is None else value_at(self._first.body, candidate.next)
                self._tried.append("the link")
                # What a link leads to is not a guess, so its failure is told as it is.
                second = self._ask(self._first.request.follow(str(link)))
                # The page behind a link may be an empty last one.
                return candidate if self._is_other(second, may_be_empty=True) else None
            case _:
                if candidate.last_field is not None:
                    cursor = self._page[-1].get(candidate.last_field)
                else:
                    cursor = value_at(self._first.body, str(candidate.next))
                second_or_none = self._try(candidate.param, cursor)
                is_strong = candidate.last_field is None
                return candidate if self._is_other(second_or_none, may_be_empty=is_strong) else None

    def _confirm_pages(self, candidate: Pagination) -> Pagination | None:
        """Pages count from 1 or from 0: by which number the first page comes again decides."""
        param = str(candidate.param)
        given = _as_whole(self._first.request.params.get(param))
        if given is not None:
            start = None if given == 1 else given
            return replace(candidate, start=start) if self._is_other(self._try(param, given + 1)) else None
        second = self._try(param, 2)
        if self._is_other(second) and self._is_first(self._try(param, 1)):
            return candidate
        if second is None or self._is_first(second):
            return None
        if self._is_other(self._try(param, 1)) and self._is_first(self._try(param, 0)):
            return replace(candidate, start=0)
        return None

    def _confirm_offsets(self, candidate: Pagination) -> Pagination | None:
        param = str(candidate.param)
        given = _as_whole(self._first.request.params.get(param))
        start = given or 0
        second = self._try(param, start + len(self._page))
        if self._is_other(second):
            return replace(candidate, start=start or None)
        again = [_identity(record) for record in (second.records(self._records) or [])] if second is not None else []
        # An offset that counts from 1 gives the last record of the first page again.
        from_one = given is None and again[:1] == [_identity(self._page[-1])] and self._seen.isdisjoint(again[1:])
        if from_one and self._is_other(self._try(param, 1 + len(self._page))) and self._is_first(self._try(param, 1)):
            return replace(candidate, start=1)
        return None

    def _is_other(self, response: Response | None, *, may_be_empty: bool = False) -> bool:
        """True if these are records that the first page does not have."""
        records = None if response is None else response.records(self._records)
        if response is None or records is None:
            return False
        if not records:
            return may_be_empty and not response.envelope(self._records).signals(0)
        return self._seen.isdisjoint(map(_identity, records))

    def _is_first(self, response: Response | None) -> bool:
        records = None if response is None else response.records(self._records)
        return records is not None and frozenset(map(_identity, records)) == self._seen

    # Which field grows

    def _find_growth(self, watermark: tuple[str, ...]) -> tuple[str | None, str | None, str]:
        """The column and the parameter by which the API filters it, and how that was seen."""
        if len(watermark) > 1:
            return None, None, ""
        candidates = list(watermark) or list(growing_fields(self._page))
        self._left = min(self._left, 8)
        for column in candidates[:2]:
            bound = self._middle(column)
            for param in filter_params(column) if bound is not None else ():
                response = self._try(param, bound)
                if response is None or not self._is_filtered(response, column, bound):
                    continue
                if doubt := self._doubt(response, column, param, bound, is_named=bool(watermark)):
                    return None, None, doubt
                is_change = normalize(column).startswith(_CHANGES)
                later = "" if is_change else "; records that change later are not read again"
                return column, param, f"{column}; the API takes it as {param!r} (tried){later}"
        if candidates and not watermark:
            return None, None, f"{candidates[0]}, as it seems, but no parameter for it was found"
        return None, None, ""

    def _middle(self, column: str) -> Any:
        """A value with records below and above it; None where the values show too little."""
        values: list[Any] = [record.get(column) for record in self._page]
        if not all(isinstance(value, str) for value in values) and not all(map(_is_whole, values)):
            return None
        distinct = sorted(set(values))
        return distinct[len(distinct) // 2] if len(distinct) > 2 else None

    def _doubt(self, response: Response, column: str, param: str, bound: Any, *, is_named: bool) -> str:
        """Why a filter that works is not used, in words; empty if it is."""
        if blind := self._blind_total(response):
            why = f"{blind} counts all records: a filtered response would seem to be a part"
            return f"{param!r} filters by {column}, but is not used, since {why}"
        others = [other for other in growing_fields(self._page) if other != column]
        alike = [other for other in others if self._is_filtered(response, other, bound)]
        if alike and not is_named:
            return f"{param!r} filters by {column} or by {alike[0]}; name the column with --watermark"
        return ""

    def _blind_total(self, response: Response) -> str | None:
        """The place of a total that does not know the filter, where a read would take it for a sign of more."""
        count = len(response.records(self._records) or [])
        signal = None if self._is_paged else response.envelope(self._records).find_unread(count)
        return signal.place if signal is not None else None

    def _is_filtered(self, response: Response, column: str, bound: Any) -> bool:
        """True if the records from ``bound`` on came, and none below it."""
        records = [record for record in response.records(self._records) or [] if isinstance(record, Mapping)]
        values: list[Any] = [record.get(column) for record in records]
        if not records or any(type(value) is not type(bound) or value < bound for value in values):
            return False
        came = set(map(_identity, records))
        return all(
            _identity(record) in came
            for record in self._page
            if type(record.get(column)) is type(bound) and record[column] > bound
        )

    # Requests

    def _try(self, param: str | None, value: Any) -> Response | None:
        """The response with one more parameter; None if the server refuses it, or enough was tried."""
        if not self._left or param is None or isinstance(value, bool) or not isinstance(value, str | int):
            return None
        self._left -= 1
        self._tried.append(param)
        try:
            return self._ask(self._first.request.with_values({param: value}, "params"))
        except SourceError:
            return None

    def _ask(self, request: Request) -> Response:
        def receive(response: httpx2.Response) -> Response:
            where = public_url(str(response.url))
            kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
            if response.status_code == _NO_CONTENT:
                return Response(request, [], url=str(response.url))
            content = _read_content(response, where)
            try:
                body = orjson.loads(content.removeprefix(b"\xef\xbb\xbf"))
            except orjson.JSONDecodeError:
                begin = self._sender.excerpt(content[:400].decode("utf-8", "replace"), 120)
                raise SourceError(
                    f"{where}: the response ({kind or 'without a content type'}) is not JSON: {begin!r}",
                    "give the address of an API that answers with JSON; a web page often means that a login is needed",
                ) from None
            is_known = not kind or kind.endswith(("/json", "+json"))
            headers = {name: value for name, value in response.headers.items() if name.lower() in HEADERS}
            link = response.links.get("next", {}).get("url")
            return Response(request, body, link, headers, str(response.url), "" if is_known else kind)

        return self._sender.fetch(request, receive)

    # What was found, in words

    def _describe_records(self) -> str:
        where = f"in {self._records!r}" if self._records else "the response is the list of records"
        return f"{len(self._page)} {where}" if self._records else f"{where} ({len(self._page)})"

    def _describe_pages(self, paging: Pagination | None) -> str:
        if paging is None and not self._page:
            return "no record yet, so how it pages is not known; a response that says there is more fails the run"
        if paging is None:
            return "one response; nothing says that there is more"
        ways = {
            PaginationKind.PAGE: f"by number, as {paging.param!r} from {1 if paging.start is None else paging.start}",
            PaginationKind.OFFSET: f"by offset, as {paging.param!r}",
            PaginationKind.NEXT_LINK: f"by the link in {repr(paging.next) if paging.next else 'the Link header'}",
        }
        source = f"{paging.last_field!r} of the last record" if paging.last_field else repr(paging.next)
        way = ways.get(paging.kind, f"by the cursor {source}, as {paging.param!r}")
        total = self._first.envelope(self._records).announced_total()
        more = f"; {total[0]} says {total[1]:,} records" if total is not None and total[1] > len(self._page) else ""
        return f"{way} (tried){more}"


def growing_fields(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Fields that may grow, the likeliest first: times of one form, in UTC, and then numbers, in every record."""
    fields = [name for name in (records[0] if records else {}) if all(name in record for record in records)]
    for word in _TIMES:
        yield from (
            name for name in fields if word in normalize(name) and _is_moment([record[name] for record in records])
        )
    for word in _NUMBERS:
        yield from (
            name for name in fields if normalize(name) == word and _is_number([record[name] for record in records])
        )


def filter_params(column: str) -> tuple[str, ...]:
    """Names that a parameter for the lower bound of a column may have, the likeliest first.

    >>> filter_params("updated_at")[:3], filter_params("id")[:2]
    (('since', 'updated_since', 'updated_after'), ('since_id', 'after_id'))
    """
    if normalize(column) in _NUMBERS:
        return ("since_id", "after_id", "min_id", f"{column}_gt", "since")
    stem = re.sub(r"(?:[_-]?(?:at|on|time|date)|At|On|Time|Date)$", "", column) or column
    is_camel = any(letter.isupper() for letter in column)
    made = (f"{stem}Since", f"{stem}After") if is_camel else (f"{stem}_since", f"{stem}_after")
    return tuple(dict.fromkeys(("since", *made, f"{column}[gte]", f"{column}_min", f"{column}_gte", f"{column}__gte")))


def _is_moment(values: Sequence[Any]) -> bool:
    """Texts that sort in time, or whole numbers: moments in UTC, all written alike, with a time of day."""
    if all(map(_is_whole, values)):
        # Seconds since 1970 have had nine digits since 1973; smaller numbers are more likely counters.
        return all(value > 10**8 for value in values)
    texts = [value for value in values if isinstance(value, str) and _MOMENT.fullmatch(value)]
    # Texts of different lengths or zones do not sort in time.
    return len(texts) == len(values) and len({(len(text), text[-1]) for text in texts}) == 1


def _is_number(values: Sequence[Any]) -> bool:
    return all(map(_is_whole, values)) and len(set(values)) == len(values)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _identity(record: Any) -> bytes:
    """Identify a record by its content."""
    try:
        return orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        raise SourceError("a record is nested too deeply", "check what the server sends") from None


def _as_whole(value: object) -> int | None:
    return int(value) if isinstance(value, str | int) and str(value).isdecimal() else None


def _read_content(response: httpx2.Response, where: str) -> bytes:
    taken = bytearray()
    for chunk in response.iter_bytes(_CHUNK_BYTES):
        taken += chunk
        if len(taken) > LARGEST:
            raise SourceError(
                f"{where}: the response has more than {LARGEST // 1024**2} MB",
                "ask for smaller pages in the address, or write a configuration (`tidegate init --api`)",
            )
    return bytes(taken)
