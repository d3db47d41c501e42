"""The set of paths that were read: looked up in bounded memory, and written on as it grows.

Listed files come in batches. Segments are sorted and a listing is nearly so, hence a batch meets only a few
parts of each segment, and each part is read about once per poll. Paths are compared in full; the memory needed
is a batch and the parts that were used last, whatever the number of paths.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from tidegate.state.identity import SourceKey
from tidegate.state.segments import OpenSegment, merged, write_segment
from tidegate.watermarks.path_set import Segment, SetState, segments_to_merge, with_segment
from tidegate.watermarks.paths import SourceFile

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectStore


ROWS_KEPT = 500_000
"""Rows of segments that stay in memory, some 60 MB of them."""


class Known(Enum):
    """What the set says about a listed file."""

    NEW = "not in the set"
    READ = "in the set"
    REWRITTEN = "in the set with another size or etag"
    PENDING = "read, and not in the set before its commit"


class RememberedPaths:
    """The set of one source; segments that were fetched stay open from poll to poll, as long as they are used.

    Not thread-safe.
    """

    def __init__(self, store: ObjectStore, key: SourceKey) -> None:
        self._store = store
        self._key = key
        self._open: dict[str, OpenSegment] = {}
        self._parts = _Parts()

    def look_up(self, segments: Sequence[Segment], files: Sequence[SourceFile]) -> list[Known]:
        """What the set says about each of ``files``; ``StateError`` when a segment is missing or damaged."""
        known = [Known.NEW] * len(files)
        opened = self._opened(segments)
        if not files or not opened:
            return known
        order = sorted(range(len(files)), key=lambda number: files[number].path)
        paths = [files[number].path for number in order]
        listed = _table([files[number] for number in order])
        for segment in opened:
            for number, (first, last) in enumerate(segment.bounds):
                start, stop = bisect_left(paths, first), bisect_right(paths, last)
                if start == stop:
                    continue
                part = self._parts.of(segment, number)
                for at, same in _matches(listed.slice(start, stop - start), part):
                    known[order[start + at]] = Known.READ if same else Known.REWRITTEN
        return known

    def including(self, state: SetState, files: Iterable[SourceFile]) -> SetState:
        """``state`` with one more segment that holds ``files``, and what is to be merged with them."""
        new = sorted(files, key=lambda file: file.path)
        if not new:
            return state
        old = segments_to_merge(state.segments, len(new))
        parts = [segment.files() for segment in self._opened(state.segments) if segment.segment in old]
        return with_segment(state, old, write_segment(self._store, self._key, merged([new, *parts])))

    def check(self, segments: Sequence[Segment]) -> None:
        """``StateError`` unless every segment is there and is the one that was written."""
        self._opened(segments)

    def _opened(self, segments: Sequence[Segment]) -> list[OpenSegment]:
        wanted = {segment.sha256 for segment in segments}
        for sha256 in [each for each in self._open if each not in wanted]:
            self._parts.forget(sha256)
            self._open.pop(sha256).close()
        for segment in segments:
            if segment.sha256 not in self._open:
                self._open[segment.sha256] = OpenSegment(self._store, self._key, segment)
        return [self._open[segment.sha256] for segment in segments]


class _Parts:
    """The parts of segments that were used last, up to so many rows."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()
        self._rows = 0

    def of(self, segment: OpenSegment, number: int) -> pa.Table:
        """One part, read or kept."""
        key = (segment.segment.sha256, number)
        part = self._kept.get(key)
        if part is None:
            part = self._kept[key] = segment.part(number)
            self._rows += part.num_rows
        self._kept.move_to_end(key)
        while self._rows > ROWS_KEPT and len(self._kept) > 1:
            self._rows -= self._kept.popitem(last=False)[1].num_rows
        return part

    def forget(self, sha256: str) -> None:
        """Without the parts of a segment that is not used any more."""
        for key in [each for each in self._kept if each[0] == sha256]:
            self._rows -= self._kept.pop(key).num_rows


def _table(files: Sequence[SourceFile]) -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {
            "path": pa.array([file.path for file in files], pa.string()),
            "size": pa.array([file.size for file in files], pa.int64()),
            "etag": pa.array([file.etag for file in files], pa.string()),
        }
    )


def _matches(listed: pa.Table, part: pa.Table) -> Iterator[tuple[int, bool]]:
    """The listed files that ``part`` holds, by number, and whether size and etag are as recorded there."""
    import pyarrow.compute as pc

    where = pc.index_in(listed["path"], value_set=part["path"].combine_chunks())
    found = pc.is_valid(where)
    numbers = pc.indices_nonzero(found)
    if not len(numbers):
        return
    recorded, seen = part.take(where.filter(found)), listed.take(numbers)
    same_etag = pc.fill_null(pc.equal(recorded["etag"], seen["etag"]), True)
    same = pc.and_(pc.equal(recorded["size"], seen["size"]), same_etag)
    yield from zip(numbers.to_pylist(), same.to_pylist(), strict=True)
