"""Do names sort in time? Path watermarks need names that sort like the moments at which files arrive.

Two looks: the shape of the names (a Unix time, an ISO date, a UUID of version 7 or a random one), and whether
files with greater names are also the younger ones.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import groupby, islice, pairwise

from tidegate.core.files.discovery import NOT_IN_TIME
from tidegate.core.files.paths import split
from tidegate.storage.listing_scope import Scope
from tidegate.storage.port import ObjectInfo, ObjectStore

SAMPLE = 1000
DISORDER = 0.1
"""The share of pairs in the wrong order from which on names do not sort in time; random names give 0.5."""

_FEWEST_PAIRS = 10


class Shape(StrEnum):
    """What a name begins with, as far as it tells about time."""

    UNIX_TIME = "Unix time"
    ISO_TIME = "ISO 8601 time"
    UUID7 = "UUID version 7"
    RANDOM_UUID = "random UUID"
    OTHER = "other"


_UUID = r"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?[89ab][0-9a-f]{{3}}-?[0-9a-f]{{12}}"
_SHAPES: tuple[tuple[Shape, re.Pattern[str]], ...] = (
    (Shape.UUID7, re.compile(_UUID.format(version=7))),
    (Shape.RANDOM_UUID, re.compile(_UUID.format(version=4))),
    (Shape.ISO_TIME, re.compile(r"(19|20)\d\d-?[01]\d-?[0-3]\d(?!\d)")),
    (Shape.UNIX_TIME, re.compile(r"1\d{9}(\d{3}|\d{6}|\d{9})?(?!\d)")),
)


class Order(StrEnum):
    """Whether names sort in time."""

    IN_TIME = "in time"
    NOT_IN_TIME = "not in time"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NameOrder:
    """What a sample of ``files`` says; ``disorder`` is the share of pairs whose names and times disagree.

    ``example`` is such a pair, the greater name first although it is the older file.
    """

    order: Order
    shape: Shape
    files: int
    disorder: float | None = None
    example: tuple[str, str] | None = None

    def describe(self) -> str:
        """The verdict in one sentence."""
        if self.order is Order.UNKNOWN:
            return f"{self.files} files say too little about whether names sort in time"
        share = "" if self.disorder is None else f", {self.disorder:.0%} of pairs out of order"
        shown = f", e.g. {self.example[0]} is older than {self.example[1]}" if self.example else ""
        verdict = "names sort in time" if self.order is Order.IN_TIME else NOT_IN_TIME
        return f"{verdict} ({self.shape} names, {self.files} files{share}{shown})"


def sample(store: ObjectStore, count: int = SAMPLE, *, scope: Scope | None = None) -> list[ObjectInfo]:
    """The first ``count`` files that a listing shows, without internal ones."""
    visible = (info for info in store.list(scope=scope) if not any(part[0] in "_." for part in info.path.split("/")))
    return list(islice(visible, count))


def shape_of(name: str) -> Shape:
    """What ``name`` begins with.

    >>> shape_of("1706450400-abc.ndjson.gz"), shape_of("part-0.json")
    (<Shape.UNIX_TIME: 'Unix time'>, <Shape.OTHER: 'other'>)
    """
    return next((shape for shape, pattern in _SHAPES if pattern.match(name.lower())), Shape.OTHER)


def names_sort_in_time(infos: Iterable[ObjectInfo]) -> NameOrder:
    """Whether, inside each partition, greater names belong to younger files.

    Files of the same time say nothing about each other: many files that were copied at once leave it to the
    shape of the names.
    """
    files = sorted(infos, key=lambda info: split(info.path))
    shape = _commonest(files)
    wrong = pairs = 0
    for _, group in groupby(files, key=lambda info: split(info.path)[0]):
        times = [info.modified for info in group]
        more_wrong, more_pairs = _disordered(times)
        wrong, pairs = wrong + more_wrong, pairs + more_pairs
    if pairs < _FEWEST_PAIRS:
        return NameOrder(_by_shape(shape), shape, len(files))
    share = wrong / pairs
    if share < DISORDER:
        return NameOrder(Order.IN_TIME, shape, len(files), share)
    return NameOrder(Order.NOT_IN_TIME, shape, len(files), share, _example(files))


def _commonest(files: Sequence[ObjectInfo]) -> Shape:
    shapes = Counter(shape_of(split(info.path)[1]) for info in files)
    return shapes.most_common(1)[0][0] if shapes else Shape.OTHER


def _by_shape(shape: Shape) -> Order:
    if shape is Shape.OTHER:
        return Order.UNKNOWN
    return Order.NOT_IN_TIME if shape is Shape.RANDOM_UUID else Order.IN_TIME


def _disordered(times: Sequence[datetime]) -> tuple[int, int]:
    """Of all pairs with different times: how many have the younger one first, and how many there are."""
    earlier: list[datetime] = []
    wrong = pairs = 0
    for number, time in enumerate(times):
        older, not_younger = bisect_left(earlier, time), bisect_right(earlier, time)
        wrong += number - not_younger
        pairs += number - not_younger + older
        insort(earlier, time)
    return wrong, pairs


def _example(files: Sequence[ObjectInfo]) -> tuple[str, str] | None:
    for one, other in pairwise(files):
        if split(one.path)[0] == split(other.path)[0] and one.modified > other.modified:
            return other.path, one.path
    return None
