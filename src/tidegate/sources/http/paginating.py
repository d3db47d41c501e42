"""Page after page until the end, and never a silent end before it.

The end is an empty page, a total that is reached, or an answer without a next cursor or link. A short page is not: a
server may give fewer records than it was asked for. What looks like going in circles, or like a source that changes
under the read, is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tidegate.column_specs import Pagination, PaginationKind
from tidegate.errors import ConfigError, SourceError, TidegateError
from tidegate.sources.http.pages import Page
from tidegate.sources.http.requests import Request, shown

_STARTS = {PaginationKind.OFFSET: 0, PaginationKind.PAGE: 1}
_PARAMS = {PaginationKind.OFFSET: "offset", PaginationKind.PAGE: "page", PaginationKind.CURSOR: "cursor"}


@dataclass(slots=True)
class _Walk:
    """What was seen so far."""

    where: str
    told: Callable[[object, int], str]
    records: int = 0
    pages: int = 0
    total: int | None = None
    cursors: set[str] = field(default_factory=set)
    digests: set[bytes] = field(default_factory=set)

    def problem(self, what: str) -> SourceError:
        return SourceError(
            f"{self.where}, page {self.pages}: {what}", "nothing of this read is kept; see what the server does"
        )


def pages(
    first: Request,
    paging: Pagination,
    location: str,
    fetch: Callable[[Request], Page],
    told: Callable[[object, int], str],
) -> Iterator[Page]:
    """Every page of a read; ``fetch`` gives the page of one request, ``told`` the beginning of what a server sent.

    Raises :class:`SourceError` for a repeated page or cursor, a changed or missed total, and more pages than allowed.
    """
    walk = _Walk(shown(first.url), told)
    request: Request | None = _paged(first, paging, location, walk)
    while request is not None:
        if walk.pages == paging.max_pages:
            raise SourceError(
                f"{walk.where}: there are more than {paging.max_pages} pages",
                "nothing of this read is kept; ask for less, for larger pages, or raise pagination.max_pages",
            )
        page = fetch(request)
        try:
            _note(page, paging, walk)
            request = _next(request, page, paging, location, walk)
        except TidegateError:
            page.close()
            raise
        yield page
    if walk.total is not None and walk.records != walk.total:
        raise walk.problem(f"{walk.records} records came of the {walk.total} that the server tells")


def _note(page: Page, paging: Pagination, walk: _Walk) -> None:
    """Count a page in; raises where it does not go with the ones before."""
    walk.pages += 1
    walk.records += page.count
    _check_total(page, paging, walk)
    if page.count and page.digest in walk.digests:
        raise walk.problem("its records are those of an earlier page")
    walk.digests.add(page.digest)


def _paged(request: Request, paging: Pagination, location: str, walk: _Walk) -> Request:
    """The request with the parameters of its page; a cursor and a link have none before the first answer."""
    values: dict[str, str | int] = {}
    if paging.size_param is not None and paging.size is not None:
        values[paging.size_param] = paging.size
    if paging.kind is PaginationKind.OFFSET:
        values[_param(paging)] = _start(paging) + walk.records
    elif paging.kind is PaginationKind.PAGE:
        values[_param(paging)] = _start(paging) + walk.pages
    return request.with_values(values, location)


def _param(paging: Pagination) -> str:
    return paging.param or _PARAMS[paging.kind]


def _start(paging: Pagination) -> int:
    return _STARTS[paging.kind] if paging.start is None else paging.start


def _next(request: Request, page: Page, paging: Pagination, location: str, walk: _Walk) -> Request | None:
    match paging.kind:
        case PaginationKind.NONE:
            return None
        case PaginationKind.OFFSET | PaginationKind.PAGE:
            at_end = page.count == 0 or (walk.total is not None and walk.records >= walk.total)
            return None if at_end else _paged(request, paging, location, walk)
        case PaginationKind.CURSOR:
            if paging.next is None:
                raise ConfigError(("pagination: cursor needs `next`, the path of the cursor in the answer",))
            cursor = _once(page.value(paging.next), walk, "cursor")
            return None if cursor is None else request.with_values({_param(paging): cursor}, location)
        case PaginationKind.NEXT_LINK:
            link = page.link if paging.next is None else page.value(paging.next)
            target = _once(link, walk, "next link")
            return None if target is None else request.following(target)


def _once(value: Any, walk: _Walk, what: str) -> str | None:
    """The cursor or link to go on with, None at the end; one that was there before is an error."""
    if value is None or value is False or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise walk.problem(f"the {what} is no text but {walk.told(value, 80)!r}")
    text = str(value)
    if text in walk.cursors:
        seen = walk.told(shown(text) if what == "next link" else text, 80)
        raise walk.problem(f"the {what} {seen!r} came before")
    walk.cursors.add(text)
    return text


def _check_total(page: Page, paging: Pagination, walk: _Walk) -> None:
    if paging.total is None:
        return
    total = page.value(paging.total)
    if isinstance(total, bool) or not isinstance(total, int):
        raise walk.problem(f"no number of all records at {paging.total!r} but {walk.told(total, 80)!r}")
    if walk.total is not None and total != walk.total:
        raise walk.problem(f"the number of all records changed from {walk.total} to {total} during the read")
    walk.total = total
