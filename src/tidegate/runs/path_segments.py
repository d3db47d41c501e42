"""A path set as immutable Parquet segments: searched in bounded memory, and extended.

A segment has the columns ``path``, ``size`` and ``etag``, sorted by path. Its name is the sha256 of its content, which
has a unique mark, so that a name is never written twice. It is written before the document that refers to it, never
changed, and removed only by ``reconcile --clean``, once nothing refers to it. Reading one checks its hash: a missing or
damaged segment stops, because without it everything would be read again.

Listed files come in batches. Segments are sorted and a listing is nearly so, hence a batch meets only a few parts of
each segment, and each part is read about once per poll. Paths are compared in full; the memory needed is a batch and
the parts used last, whatever the number of paths.
"""

from __future__ import annotations

import hashlib
import heapq
import tempfile
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import IO, TYPE_CHECKING
from uuid import uuid4

from tidegate.core.files.advance import segments_to_merge, with_segment
from tidegate.core.files.discovery import Known
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.state import Segment, SetState
from tidegate.errors import ObjectMissing, StateError
from tidegate.failpoints import failpoint
from tidegate.protocol.change import SourceKey
from tidegate.reports.wording import count

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectStore

ROWS_PER_GROUP = 32_768
LAST = "\U0010ffff" * 1024
"""A path that sorts after every other."""

_ROWS_AT_ONCE = 1024
_CHUNK = 1024 * 1024


def write_segment(store: ObjectStore, key: SourceKey, files: Iterable[SourceFile]) -> Segment:
    """Write a new segment with ``files``, a stream sorted by path; a path counts once."""
    with tempfile.NamedTemporaryFile(prefix="tidegate-set-", suffix=".parquet") as local:
        count = _write(local, files)
        local.flush()
        size = local.tell()
        local.seek(0)
        sha256 = hashlib.file_digest(local, "sha256").hexdigest()
        failpoint("state.set.before")
        store.put_file(key.segment(sha256), local.name)
        failpoint("state.set.after")
    return Segment(sha256, count, size)


def merge_sorted(parts: Iterable[Iterable[SourceFile]]) -> Iterator[SourceFile]:
    """Several sorted streams as one."""
    return heapq.merge(*parts, key=attrgetter("path"))


class OpenSegment:
    """A fetched and verified segment; its parts are read on demand.

    ``bounds`` has the first and last path of each part.
    """

    def __init__(self, store: ObjectStore, key: SourceKey, segment: Segment) -> None:
        import pyarrow.parquet as pq

        self.segment = segment
        self._local = _fetch(store, key, segment)
        self._parquet = pq.ParquetFile(self._local)
        self.bounds = [_bounds(self._parquet, number) for number in range(self._parquet.num_row_groups)]

    def close(self) -> None:
        """Release the local copy."""
        self._parquet.close()
        self._local.close()

    def part(self, number: int) -> pa.Table:
        """The rows whose paths lie between ``bounds[number]``."""
        return self._parquet.read_row_group(number, use_threads=False)

    def files(self) -> Iterator[SourceFile]:
        """Everything, by path, in bounded memory."""
        for batch in self._parquet.iter_batches(_ROWS_AT_ONCE, use_threads=False):
            columns = (column.to_pylist() for column in batch.columns)
            for path, size, etag in zip(*columns, strict=True):
                yield SourceFile(path, size, etag)


def _write(local: IO[bytes], files: Iterable[SourceFile]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # The mark gives equal content another name: a clean-up can then never remove a segment that just came back
    # (decision 0009).
    schema = pa.schema([("path", pa.string()), ("size", pa.int64()), ("etag", pa.string())], {"mark": uuid4().hex})
    rows = _drop_repeats(files)
    count = 0
    # Every path is different, so a dictionary would gain nothing.
    with pq.ParquetWriter(local, schema, compression="zstd", use_dictionary=False) as writer:
        while group := list(islice(rows, ROWS_PER_GROUP)):
            writer.write_table(_table(group).cast(schema), row_group_size=ROWS_PER_GROUP)
            count += len(group)
    return count


def _drop_repeats(files: Iterable[SourceFile]) -> Iterator[SourceFile]:
    before: str | None = None
    for file in files:
        if file.path != before:
            yield file
        before = file.path


def _bounds(parquet: pa.parquet.ParquetFile, number: int) -> tuple[str, str]:
    """The first and last path of a part; all possible paths if the file does not say."""
    statistics = parquet.metadata.row_group(number).column(0).statistics
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else ("", LAST)


def _fetch(store: ObjectStore, key: SourceKey, segment: Segment) -> pa.NativeFile:
    """A local copy with the recorded hash; it has no name any more and vanishes when closed."""
    import pyarrow as pa

    found = hashlib.sha256()
    with tempfile.NamedTemporaryFile(prefix="tidegate-set-") as local:
        try:
            with closing(store.open_input(key.segment(segment.sha256), etag=None, size=None)) as remote:
                while chunk := remote.read(_CHUNK):
                    found.update(chunk)
                    local.write(chunk)
        except ObjectMissing as error:
            raise _lost(store, key, segment, "is missing") from error
        # A path that is missing from the set is read a second time, so a damaged segment must stop the run.
        if found.hexdigest() != segment.sha256:
            raise _lost(store, key, segment, "is damaged: its content is not what was written")
        local.flush()
        # Opened before the name goes: the copy lives as long as it is open and leaves nothing behind after a kill.
        return pa.OSFile(local.name, "rb")


def _lost(store: ObjectStore, key: SourceKey, segment: Segment, how: str) -> StateError:
    return StateError(
        f"{key}: {store.location.uri}/{key.segment(segment.sha256)} {how}; it names "
        f"{count(segment.count, 'file')} that were read, and without it they would be read again; nothing was written",
        "put it back from a backup, or rebuild it from the documents with `tidegate recover --accept set`",
    )


ROWS_KEPT = 500_000
"""Rows of segments that stay in memory, some 60 MB."""


class RememberedPaths:
    """The path set of one source; fetched segments stay open from poll to poll, while they are used.

    Not thread-safe.
    """

    def __init__(self, store: ObjectStore, key: SourceKey) -> None:
        self._store = store
        self._key = key
        self._open: dict[str, OpenSegment] = {}
        self._parts = _Parts()

    def look_up(self, segments: Sequence[Segment], files: Sequence[SourceFile]) -> list[Known]:
        """The set's knowledge of each of ``files``; ``StateError`` if a segment is missing or damaged."""
        known = [Known.NEW] * len(files)
        opened = self._open_all(segments)
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

    def extend(self, state: SetState, files: Iterable[SourceFile]) -> SetState:
        """``state`` with one more segment for ``files`` and the segments merged with them."""
        new = sorted(files, key=lambda file: file.path)
        if not new:
            return state
        old = segments_to_merge(state.segments, len(new))
        parts = [segment.files() for segment in self._open_all(state.segments) if segment.segment in old]
        return with_segment(state, old, write_segment(self._store, self._key, merge_sorted([new, *parts])))

    def renew(self, state: SetState, files: Sequence[SourceFile]) -> SetState:
        """``state`` with these sizes and etags for paths that it has, in segments written anew."""
        paths = {file.path for file in files}
        kept: list[Segment] = []
        for segment in self._open_all(state.segments):
            if paths.isdisjoint(file.path for file in segment.files()):
                kept.append(segment.segment)
                continue
            rest = (file for file in segment.files() if file.path not in paths)
            written = write_segment(self._store, self._key, rest)
            kept.extend([written] if written.count else ())
        return self.extend(replace(state, segments=tuple(kept)), files)

    def check(self, segments: Sequence[Segment]) -> None:
        """``StateError`` unless every segment exists and is the written one."""
        self._open_all(segments)

    def _open_all(self, segments: Sequence[Segment]) -> list[OpenSegment]:
        wanted = {segment.sha256 for segment in segments}
        for sha256 in [each for each in self._open if each not in wanted]:
            self._parts.forget(sha256)
            self._open.pop(sha256).close()
        for segment in segments:
            if segment.sha256 not in self._open:
                self._open[segment.sha256] = OpenSegment(self._store, self._key, segment)
        return [self._open[segment.sha256] for segment in segments]


class _Parts:
    """The parts of segments used last, up to a number of rows."""

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
        """Drop the parts of a segment that is no longer used."""
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
    """The listed files in ``part``, by number, and whether size and etag are the recorded ones."""
    import pyarrow.compute as pc

    # Whole paths, no hashes: a collision would one day skip a file without a word (decision 0009).
    where = pc.index_in(listed["path"], value_set=part["path"].combine_chunks())
    found = pc.is_valid(where)
    numbers = pc.indices_nonzero(found)
    if not len(numbers):
        return
    recorded, seen = part.take(where.filter(found)), listed.take(numbers)
    # Null where the store has no etags: then the size alone decides.
    same_etag = pc.fill_null(pc.equal(recorded["etag"], seen["etag"]), True)
    same = pc.and_(pc.equal(recorded["size"], seen["size"]), same_etag)
    yield from zip(numbers.to_pylist(), same.to_pylist(), strict=True)
