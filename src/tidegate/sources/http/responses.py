"""Responses of a server: records found while the response arrives, the columns they show, and whole reads of pages.

Brackets and commas outside strings show the structure, many bytes at a time; the inside of a record is not parsed. The
response without its records is kept for its other fields.

A large page is buffered on disk until it is complete: half a page is never passed on.

Null, an empty list and an object without keys show no type: a column without a value is left out until it has one.

A read goes page after page in one process, and never ends silently before the end: that is an empty page, a reached
total, or a response without a next cursor or link. A short page is not: a server may return fewer records than
requested. A loop, a source that changes during the read, or a last response that says there is more, is an error.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any

import httpx2
import numpy as np
import orjson

from tidegate.errors import ConfigError, SourceError, TidegateError, UnreadPages
from tidegate.formats.json import JsonScanner
from tidegate.reports.wording import count
from tidegate.schema.inference import MOST_KEYS, number_kind
from tidegate.schema.literals import Literal, NotJson, Pairs, compact, parse
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.client import (
    Request,
    RequestPace,
    RetryableFailure,
    Sender,
    in_flight,
    public_url,
    request_of,
    slot_count,
)
from tidegate.sources.http.envelope import (
    HEADERS,
    Envelope,
    PageSignal,
    SignalKind,
    as_flag,
    format_pagination,
    is_clear_flag,
    may_be_left_out,
    params_sent,
    quote_scalar,
    show_value,
    value_at,
)
from tidegate.sources.http.survey import locate_records
from tidegate.specs.columns import HttpRead, Pagination, PaginationKind

LONGEST_RECORD = 64 * 1024 * 1024
"""The most bytes of one record, or of everything that is not records."""

_QUOTE, _COMMA, _COLON, _OPEN_LIST, _CLOSE_LIST = b'",:[]'
_FIRST_PRINTABLE = 32


class InvalidResponse(Exception):
    """The bytes are not JSON with records; the argument says why.

    ``found`` is what the server sent there, complete: mask it before cutting it.
    """

    def __init__(self, why: str, found: str = "") -> None:
        super().__init__(why, found)
        self.why = why
        self.found = found

    def __str__(self) -> str:
        return f"{self.why}: {self.found!r}" if self.found else self.why


class TruncatedResponse(Exception):
    """The response was truncated."""


class Scanner:
    """Takes a response in pieces; passes each element of the list at ``path`` to ``found``, on one line.

    ``path`` are the names from the outside to the list, none for a response that is itself the list.
    """

    def __init__(self, path: tuple[str, ...], found: Callable[[bytes], None]) -> None:
        self.is_found = False
        self.count = 0
        self._path = path
        self._found = found
        self._structure = JsonScanner()
        self._in_list = False
        self._rest = bytearray()
        self._element = bytearray()
        self._names: dict[int, bytes] = {}
        self._string_begin = 0
        self._open_string = False

    def feed(self, chunk: bytes) -> None:
        """Take the next piece; raises :class:`InvalidResponse`."""
        part = self._structure.take(chunk)
        content, quotes = part.content, part.quotes
        # Now, because line ends become blanks later: inside a string that would change a value.
        if part.are_inside(np.flatnonzero(content < _FIRST_PRINTABLE)).any():
            raise InvalidResponse("a control character inside a string")
        separators = np.flatnonzero((content == _COMMA) | (content == _COLON))
        separators = separators[~part.are_inside(separators)]
        structure = np.concatenate((part.brackets, separators))
        # The level of a bracket is that outside it, before an opening and after a closing one.
        outside = np.minimum(part.depths, part.depths_at(part.brackets))
        levels = np.concatenate((outside, part.depths_at(separators)))
        deepest = len(self._path)
        outer = structure[levels <= deepest + 1]
        keys = quotes[part.depths_at(quotes) <= deepest] if deepest else quotes[:0]
        places = np.sort(np.concatenate((outer, keys)))
        level_of = dict(zip(outer.tolist(), levels[levels <= deepest + 1].tolist(), strict=True))
        self._walk(chunk, places.tolist(), level_of)

    def finish(self) -> Any:
        """Return the response without the records, whose list is empty in it.

        Raises :class:`TruncatedResponse` if the response is incomplete, :class:`InvalidResponse` if it is not JSON.
        """
        if self._structure.depth or self._structure.inside or not bytes(self._rest).strip():
            raise TruncatedResponse
        try:
            return orjson.loads(self._rest.removeprefix(b"\xef\xbb\xbf"))
        except orjson.JSONDecodeError as error:
            raise InvalidResponse(f"not JSON ({error})") from error

    def _walk(self, chunk: bytes, places: list[int], level_of: dict[int, int]) -> None:
        begin = 0
        for place in places:
            sign, level = chunk[place], level_of.get(place, 0)
            if self._in_list:
                if sign == _COMMA and level == len(self._path) + 1:
                    self._end_element(chunk[begin:place], last=False)
                    begin = place + 1
                elif level == len(self._path):
                    self._end_list(chunk[begin:place], sign)
                    begin = place
                continue
            self._rest += chunk[begin:place]
            begin = place
            if sign == _QUOTE:
                self._note_string()
            elif sign == _COLON and level <= len(self._path):
                self._names = {outer: name for outer, name in self._names.items() if outer < level}
                self._names[level] = bytes(self._rest[self._string_begin :])
            elif sign == _OPEN_LIST and level == len(self._path) and self._is_here():
                self._rest += b"["
                begin = place + 1
                self._in_list = self.is_found = True
        taken = self._element if self._in_list else self._rest
        taken += chunk[begin:]
        self._check_size()

    def _check_size(self) -> None:
        if max(len(self._element), len(self._rest)) > LONGEST_RECORD:
            raise InvalidResponse(f"a record, or what is not records, of more than {LONGEST_RECORD // 1024**2} MB")

    def _note_string(self) -> None:
        if not self._open_string:
            self._string_begin = len(self._rest)
        self._open_string = not self._open_string

    def _is_here(self) -> bool:
        """True if a list that begins here is that of the records."""
        try:
            here = tuple(orjson.loads(self._names.get(level, b"null")) for level in range(1, len(self._path) + 1))
        except orjson.JSONDecodeError as error:
            raise InvalidResponse(f"not JSON ({error})") from error
        if here == self._path and self.is_found:
            raise InvalidResponse(f"the list {'.'.join(self._path)!r} twice")
        return here == self._path

    def _end_element(self, text: bytes, *, last: bool) -> None:
        self._element += text
        self._check_size()
        record = bytes(self._element).translate(_ON_ONE_LINE).strip()
        self._element.clear()
        if last and not record and not self.count:
            return
        self.count += 1
        if not (record.startswith(b"{") and record.endswith(b"}")):
            raise InvalidResponse(f"record {self.count} is not an object", record.decode("utf-8", "replace"))
        self._found(record)

    def _end_list(self, text: bytes, sign: int) -> None:
        if sign != _CLOSE_LIST:
            raise InvalidResponse("brackets that do not match")
        self._end_element(text, last=True)
        self._in_list = False


_ON_ONE_LINE = bytes.maketrans(b"\r\n\t", b"   ")


# Every request under way may hold a page of this size in memory (decision 0027).
_IN_MEMORY = 8 * 1024 * 1024
_BLOCK_BYTES = 1024 * 1024
_CHUNK_BYTES = 256 * 1024
_MEGABYTE = 1024 * 1024
_ERRORS = ("error", "errors")
_NO_CONTENT = 204


@dataclass(frozen=True, slots=True)
class Page:
    """The records of one response, one per line, and its other fields."""

    count: int
    rest: Any
    link: str | None
    digest: bytes
    size: int
    _lines: IO[bytes] = field(repr=False, compare=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    last: bytes = field(default=b"", repr=False)

    def blocks(self) -> Iterator[bytes]:
        """Yield the records in blocks of whole lines; the page is gone afterwards."""
        with self._lines as lines:
            lines.seek(0)
            while block := lines.read(_BLOCK_BYTES):
                yield block + lines.readline() if not block.endswith(b"\n") else block

    def close(self) -> None:
        """Forget the records."""
        self._lines.close()

    def value(self, path: str) -> Any:
        """Return the value at ``path``; None without one."""
        return value_at(self.rest, path)

    def last_record(self) -> Mapping[str, Any]:
        """Parse the last record; empty without any."""
        try:
            record = orjson.loads(self.last or b"{}")
        except orjson.JSONDecodeError:
            record = {}
        return record if isinstance(record, Mapping) else {}

    def envelope(self, request: Request, records: str) -> Envelope:
        """Return what the response to ``request`` says besides its records."""
        sent = params_sent(request)
        return Envelope(self.rest, records, self.link, self.headers, self.url, sent, self.last_record())


def page_of(response: httpx2.Response, read: HttpRead, excerpt: Callable[[object, int], str]) -> Page:
    """Read the page in a response with a good status; ``excerpt`` shortens what a server sent, for messages.

    Raises :class:`RetryableFailure` for a truncated response, :class:`SourceError` for an invalid one.
    """
    where = public_url(str(response.url))
    if response.status_code == _NO_CONTENT:
        return Page(0, {}, _next_link(response), b"", 0, io.BytesIO())
    _check_type(response, read, where, excerpt)
    lines = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  # the page closes it
    digest = hashlib.sha256()
    last = b""

    def keep(record: bytes) -> None:
        nonlocal last
        lines.write(record + b"\n")
        digest.update(record)
        last = record

    scanner = Scanner(tuple(read.records.split(".")) if read.records else (), keep)
    try:
        size = _scan(response, scanner, read, where)
        rest = scanner.finish()
    # Whatever ends the read, a stop included: the temporary file must not stay.
    except BaseException as error:
        lines.close()
        if isinstance(error, TruncatedResponse):
            raise RetryableFailure("the response was truncated") from error
        if isinstance(error, InvalidResponse):
            found_there = f": {excerpt(error.found, 60)!r}" if error.found else ""
            raise SourceError(f"{where}: {error.why}{found_there}", "check what the server sends") from None
        raise
    headers = {name: value for name, value in response.headers.items() if name.lower() in HEADERS}
    page = Page(
        scanner.count, rest, _next_link(response), digest.digest(), size, lines, str(response.url), headers, last
    )
    try:
        _check_content(page, scanner, read, where, excerpt)
    except SourceError:
        page.close()
        raise
    return page


def _scan(response: httpx2.Response, scanner: Scanner, read: HttpRead, where: str) -> int:
    size = 0
    for chunk in response.iter_bytes(_CHUNK_BYTES):
        size += len(chunk)
        if size > read.max_response_mb * _MEGABYTE:
            raise SourceError(
                f"{where}: a response of more than {read.max_response_mb} MB",
                "ask for smaller pages (pagination.size), or allow more with max_response_mb",
            )
        scanner.feed(chunk)
    return size


def _check_type(response: httpx2.Response, read: HttpRead, where: str, excerpt: Callable[[object, int], str]) -> None:
    kind = response.headers.get("content-type", "").split(";")[0].strip()
    if not kind or kind.lower().endswith(("/json", "+json")) or kind.lower() in read.response_types:
        return
    raise SourceError(
        f"{where}: the response is {excerpt(kind, 100)}, not JSON",
        "check url and path; a web page often means that a login is needed; where it is JSON all the same, name its "
        "content "
        "type in `response_types`",
    )


def _check_content(
    page: Page, scanner: Scanner, read: HttpRead, where: str, excerpt: Callable[[object, int], str]
) -> None:
    """Refuse a response that reports an error or has no list of records, whatever its status."""
    for path in (read.error,) if read.error else _ERRORS:
        problem = value_at(page.rest, path)
        if problem:
            raise SourceError(
                f"{where}: the response reports an error in {path!r}: {excerpt(problem, 200)}", "act on what it says"
            )
    if scanner.is_found:
        return
    name = f"at {read.records!r}" if read.records else "at the top"
    value = value_at(page.rest, read.records)
    total = read.pagination.total if read.pagination is not None else None
    # Where nothing matches, some servers leave the list out.
    if value is None and total and page.value(total) == 0:
        return
    keys = f"; its keys are {excerpt(', '.join(map(str, page.rest)), 300)}" if isinstance(page.rest, Mapping) else ""
    what = "an object" if isinstance(value, Mapping) else f"the value {excerpt(value, 200)}"
    raise SourceError(
        f"{where}: the response has no list of records {name} but {'nothing' if value is None else what}{keys}",
        f"name the path of the list in `records`{_hint_at_records(page.rest)}",
    )


def _hint_at_records(rest: Any) -> str:
    """Where the list of records seems to be; empty if that is not clear."""
    try:
        found = locate_records(rest, "")
    except ConfigError:
        return ""
    return f", as it seems {found!r}" if found else "; the response itself is the list: leave `records` out"


def _next_link(response: httpx2.Response) -> str | None:
    """Return the next page by the ``Link`` header."""
    return response.links.get("next", {}).get("url")


class Shapes:
    """The values seen at each path; takes records one after the other."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()
        self._members: dict[str, int] = {}

    def sample(self, record: bytes) -> bytes | None:
        """Return the record without empty values if it shows new columns; of records that are not JSON, the first."""
        try:
            value = _drop_empty(parse(record))
        except NotJson:
            return record if self._is_new("", "unreadable") else None
        return compact(value).encode() if self._adds(value, "") else None

    def _adds(self, value: Any, path: str) -> bool:
        new = self._is_new(path, _kind(value))
        if isinstance(value, Pairs):
            for key, item in value:
                members = self._members.get(path, 0)
                if members <= MOST_KEYS and self._adds(item, f"{path}\0{key}"):
                    new = True
        elif isinstance(value, list):
            for item in value:
                new = self._adds(item, f"{path}\0\0") or new
        return new

    def _is_new(self, path: str, kind: str) -> bool:
        if (path, kind) in self._seen:
            return False
        self._seen.add((path, kind))
        parent = path.rpartition("\0")[0]
        self._members[parent] = self._members.get(parent, 0) + 1
        return True


def _kind(value: Any) -> str:
    if isinstance(value, Literal):
        return number_kind(value)
    return type(value).__name__


def _drop_empty(value: Any) -> Any:
    """Drop null or empty members and items."""
    if isinstance(value, Pairs):
        return Pairs((key, kept) for key, item in value if not _is_empty(kept := _drop_empty(item)))
    if isinstance(value, list):
        return [kept for item in value if not _is_empty(kept := _drop_empty(item))]
    return value


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, list) and not value)


_MEANINGS = {
    SignalKind.LINK: "there is a next page",
    SignalKind.CURSOR: "there is a next page",
    SignalKind.FLAG: "there are more records",
    SignalKind.PAGES: "there are more pages",
    SignalKind.TOTAL: "there are more records",
    SignalKind.FULL: "the page is full, so there may be more records",
}


_MISSING = object()
_LOOKED_AT = 100
"""Records whose fields are collected: fields without a value may be left out of some."""
_STARTS = {PaginationKind.OFFSET: 0, PaginationKind.PAGE: 1}
_PARAMS = {PaginationKind.OFFSET: "offset", PaginationKind.PAGE: "page", PaginationKind.CURSOR: "cursor"}


@dataclass(frozen=True, slots=True)
class Fetch:
    """Everything that the tasks of one read need; picklable. Part ``n`` belongs to slot ``n`` modulo ``slots``."""

    read: HttpRead
    parts: tuple[Part, ...]

    @property
    def slots(self) -> int:
        """Number of tasks that work at once."""
        return slot_count(self.read.rate_limit, in_flight(self.read, len(self.parts)))


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Records of one part, one JSON object per line; ``first`` is the number of the first on its page, from 1."""

    part: int
    page: int
    first: int
    lines: bytes


@dataclass(slots=True)
class Counts:
    """The counts of a slot; ``largest`` is the longest response in bytes."""

    requests: int = 0
    repeated: int = 0
    pages: int = 0
    records: int = 0
    largest: int = 0


def blocks(
    fetch: Fetch, slot: int, counts: Counts, *, sleep: Callable[[float], None] = time.sleep
) -> Iterator[LineBlock]:
    """Yield all records of one slot; ``counts`` is complete at the end. Raises :class:`SourceError`."""
    sender = Sender(fetch.read, RequestPace(fetch.read.rate_limit, fetch.slots, sleep=sleep), sleep=sleep)
    try:
        for number in range(slot, len(fetch.parts), fetch.slots):
            yield from part_blocks(fetch.read, fetch.parts[number], sender, counts, number)
    finally:
        counts.requests, counts.repeated = sender.requests, sender.repeated
        sender.close()


@dataclass(frozen=True, slots=True)
class FirstPage:
    """What the first page of a read shows: how many records, their fields, and whether another page follows."""

    records: int
    fields: tuple[str, ...]
    has_next: bool


def read_first_page(read: HttpRead, part: Part, sender: Sender) -> FirstPage:
    """Send the first request of a read and check the response as the read would; raises :class:`SourceError`."""
    with sender.mask_errors():
        walk = _PageWalk(read, part, sender)
        page = next(walk.pages())
        fields: dict[str, None] = {}
        for line in next(page.blocks(), b"").splitlines()[:_LOOKED_AT]:
            fields |= dict.fromkeys(map(str, orjson.loads(line)))
        page.close()
        return FirstPage(page.count, tuple(fields), walk.has_next)


def part_blocks(read: HttpRead, part: Part, sender: Sender, counts: Counts, number: int = 0) -> Iterator[LineBlock]:
    """Yield all records of one part, page after page; counts pages and records."""
    with sender.mask_errors():
        for place, page in enumerate(_PageWalk(read, part, sender).pages(), 1):
            counts.pages += 1
            counts.records += page.count
            counts.largest = max(counts.largest, page.size)
            first = 1
            for lines in page.blocks():
                yield LineBlock(number, place, first, lines)
                first += lines.count(b"\n")


class _PageWalk:
    """The pages of one part, one after the other; remembers what it has seen.

    Raises :class:`SourceError` for a repeated page or cursor, a changed or missed total, and more pages than allowed,
    :class:`UnreadPages` where the last page says that there is more.
    """

    def __init__(self, read: HttpRead, part: Part, sender: Sender) -> None:
        self._read = read
        self._paging = read.pagination or Pagination()
        self._sender = sender
        self._first = request_of(read, part)
        self.has_next = False
        self._pages = 0
        self._records = 0
        self._total: int | None = None
        self._was_more = False
        self._cursors: set[str] = set()
        self._digests: set[bytes] = set()

    def pages(self) -> Iterator[Page]:
        request: Request | None = self._add_page(self._first)
        while request is not None:
            if self._pages == self._paging.max_pages:
                raise SourceError(
                    f"{public_url(self._first.url)}: there are more than {self._paging.max_pages} pages",
                    "this read was discarded; ask for less or for larger pages, or raise pagination.max_pages",
                )
            page = self._sender.fetch(request, partial(page_of, read=self._read, excerpt=self._sender.excerpt))
            try:
                self._count_page(page)
                self._check_flag(request, page)
                following = self._next_request(request, page)
                if following is None:
                    self._check_end(request, page)
                request = following
                self.has_next = following is not None
            except TidegateError:
                page.close()
                raise
            yield page
        if self._total is not None and self._records != self._total:
            raise self._problem(f"{count(self._records, 'record')} came, but the server announced {self._total}")

    def _check_end(self, request: Request, page: Page) -> None:
        """Raise if the last page says that there is more, unless somebody wrote that one response is enough."""
        written = self._read.pagination
        if written is not None and written.kind is PaginationKind.NONE:
            return
        if written is not None and written.more is not None and self._read_flag(page, written.more):
            raise self._problem(f"{written.more!r} says that there is more, and nothing comes next")
        envelope = page.envelope(request, self._read.records)
        signal = envelope.find_unread(page.count) if written is None else self._find_left_over(envelope, written)
        if signal is None:
            return
        other = "pagination: {type: none}" if written is None else f"ignore: [{quote_scalar(signal.path)}]"
        raise UnreadPages(
            f"{public_url(self._first.url)}, page {self._pages}",
            signal.place,
            self._sender.excerpt(show_value(signal), 80),
            f"{_MEANINGS[signal.kind]}, but {self._records} {'was' if self._records == 1 else 'were'} read",
            format_pagination(signal.fits) if signal.fits is not None and signal.fits != written else "",
            f"`{other}` if these are all records",
        )

    def _find_left_over(self, envelope: Envelope, written: Pagination) -> PageSignal | None:
        if written.more is None:
            return envelope.find_left_over(written.ignore)
        # A flag that was never true may be another than the one that was meant.
        is_end = self._was_more or is_clear_flag(written.more)
        return envelope.find_left_over((*written.ignore, written.more), is_end=is_end)

    def _problem(self, what: str) -> SourceError:
        return SourceError(
            f"{public_url(self._first.url)}, page {self._pages}: {what}",
            "this read was discarded; check what the server does",
        )

    def _count_page(self, page: Page) -> None:
        """Count a page; raises if it contradicts those before."""
        self._pages += 1
        self._records += page.count
        if self._paging.total is not None:
            self._check_total(page.value(self._paging.total))
        # A server that ignores the parameters sends its first page for ever.
        if page.count and page.digest in self._digests:
            raise self._problem("its records are those of an earlier page")
        self._digests.add(page.digest)

    def _check_total(self, total: Any) -> None:
        if isinstance(total, bool) or not isinstance(total, int):
            shown = self._sender.excerpt(total, 80)
            raise self._problem(
                f"the response has {shown!r} at {self._paging.total!r}, not the total number of records"
            )
        # Records came or went, so that pages have shifted: some would be missed, or come twice.
        if self._total is not None and total != self._total:
            raise self._problem(f"the total number of records changed from {self._total} to {total} during the read")
        self._total = total

    def _add_page(self, request: Request) -> Request:
        """Add the parameters of its page to a request; cursors and links have none before the first response."""
        paging = self._paging
        values: dict[str, str | int] = {}
        if paging.size_param is not None and paging.size is not None:
            values[paging.size_param] = paging.size
        if paging.kind in _STARTS:
            start = _STARTS[paging.kind] if paging.start is None else paging.start
            done = self._records if paging.kind is PaginationKind.OFFSET else self._pages
            values[paging.param or _PARAMS[paging.kind]] = start + done
        return request.with_values(values, self._read.watermark.location)

    def _next_request(self, request: Request, page: Page) -> Request | None:
        paging = self._paging
        match paging.kind:
            case PaginationKind.NONE:
                return None
            case _ if paging.more is not None and not self._read_flag(page, paging.more):
                return None
            case PaginationKind.OFFSET | PaginationKind.PAGE:
                return None if self._is_last(page) else self._add_page(request)
            case PaginationKind.CURSOR:
                cursor = self._refuse_repeated(self._cursor(page), "cursor")
                given = {paging.param or _PARAMS[paging.kind]: cursor or ""}
                return None if cursor is None else request.with_values(given, self._read.watermark.location)
            case PaginationKind.NEXT_LINK:
                target = self._refuse_repeated(
                    page.link if paging.next is None else page.value(paging.next), "next link"
                )
                return None if target is None else request.follow(target)

    def _is_last(self, page: Page) -> bool:
        """True if a page by number or offset is the last; a flag that is named, and says there is more, decides."""
        if self._paging.more is not None:
            # The next offset would be the same, whatever the flag says.
            return page.count == 0 and self._paging.kind is PaginationKind.OFFSET
        return page.count == 0 or (self._total is not None and self._records >= self._total)

    def _read_flag(self, page: Page, path: str) -> bool:
        """Read the flag that says whether there is more; one that is missing after the first page is false."""
        value = page.value(path)
        if value is None:
            return False
        flag = as_flag(value)
        if flag is None:
            raise self._problem(f"the response has {self._sender.excerpt(value, 80)!r} at {path!r}, not true or false")
        return flag

    def _check_flag(self, request: Request, page: Page) -> None:
        """Raise if the first page with records has no such flag: it may be misspelt, and would end every read."""
        path = self._paging.more
        if path is None:
            return
        is_there = value_at(page.rest, path, _MISSING) is not _MISSING
        if is_there or self._was_more or not page.count or self._pages > 1 or may_be_left_out(path):
            self._was_more = self._was_more or self._read_flag(page, path)
            return
        flags = page.envelope(request, self._read.records).flags()
        keys = list(map(str, page.rest)) if isinstance(page.rest, Mapping) else []
        has = f"its flags are {', '.join(flags)}" if flags else f"it has no flag; its keys are {', '.join(keys)}"
        raise SourceError(
            f"{public_url(self._first.url)}: the first response has no {path!r}, the flag of `pagination.more`; "
            f"{self._sender.excerpt(has, 300)}",
            "this read was discarded; write the path of the flag as the response has it, or leave `more` out",
        )

    def _cursor(self, page: Page) -> Any:
        """Return the next cursor: from the response, or from its last record."""
        paging = self._paging
        if paging.next is not None:
            return page.value(paging.next)
        if paging.last_field is None:
            raise ConfigError(("pagination: cursor needs `next`, the path of the cursor in the response",))
        if not page.count:
            return None
        value = value_at(page.last_record(), paging.last_field)
        if value in (None, "", False):
            raise self._problem(f"the last record has nothing in {paging.last_field!r}, the next cursor")
        return value

    def _refuse_repeated(self, value: Any, what: str) -> str | None:
        """Return the next cursor or link, None at the end; a repeated one is an error."""
        if value is None or value is False or value == "":
            return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self._problem(f"the {what} is not text but {self._sender.excerpt(value, 80)!r}")
        text = str(value)
        if text in self._cursors:
            seen = self._sender.excerpt(public_url(text) if what == "next link" else text, 80)
            raise self._problem(f"the {what} {seen!r} came before")
        self._cursors.add(text)
        return text
