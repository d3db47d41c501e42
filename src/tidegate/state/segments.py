"""Segments: the parts of a set of paths, as immutable Parquet files below the table.

A segment has the columns ``path``, ``size`` and ``etag``, sorted by path, and is named by the sha256 of its
content, in which no other has the same mark, so that a name is never written twice. It is written before the document
that refers to it, never changed, and removed by ``reconcile --clean`` alone, once nothing refers to it. Reading one
checks its hash: a segment that is missing or damaged stops, because without it everything would be read again.
"""

from __future__ import annotations

import hashlib
import heapq
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from operator import attrgetter
from typing import IO, TYPE_CHECKING
from uuid import uuid4

from tidegate.errors import ObjectMissing, StateError
from tidegate.failpoints import failpoint
from tidegate.state.identity import SourceKey
from tidegate.watermarks.path_set import Segment
from tidegate.watermarks.paths import SourceFile

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectStore

ROWS_PER_GROUP = 32_768
LAST = "\U0010ffff" * 1024
"""A path that no other sorts behind."""

_ROWS_AT_ONCE = 1024
_CHUNK = 1024 * 1024


def write_segment(store: ObjectStore, key: SourceKey, files: Iterable[SourceFile]) -> Segment:
    """A new segment with ``files``, which are sorted by path and come in a stream; a path counts once."""
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


def merged(parts: Iterable[Iterable[SourceFile]]) -> Iterator[SourceFile]:
    """Several sorted streams as one."""
    return heapq.merge(*parts, key=attrgetter("path"))


class OpenSegment:
    """A segment that was fetched and found to be the one that was written; its parts are read when asked for.

    ``bounds`` has the first and last path of each part.
    """

    def __init__(self, store: ObjectStore, key: SourceKey, segment: Segment) -> None:
        import pyarrow.parquet as pq

        self.segment = segment
        self._local = _fetched(store, key, segment)
        self._parquet = pq.ParquetFile(self._local)
        self.bounds = [_bounds(self._parquet, number) for number in range(self._parquet.num_row_groups)]

    def close(self) -> None:
        """Give the local copy back."""
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

    schema = pa.schema([("path", pa.string()), ("size", pa.int64()), ("etag", pa.string())], {"mark": uuid4().hex})
    rows = _once_each(files)
    count = 0
    with pq.ParquetWriter(local, schema, compression="zstd", use_dictionary=False) as writer:
        while group := list(islice(rows, ROWS_PER_GROUP)):
            columns = [[file.path for file in group], [file.size for file in group], [file.etag for file in group]]
            arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
            writer.write_table(pa.table(arrays, schema=schema), row_group_size=ROWS_PER_GROUP)
            count += len(group)
    return count


def _once_each(files: Iterable[SourceFile]) -> Iterator[SourceFile]:
    before: str | None = None
    for file in files:
        if file.path != before:
            yield file
        before = file.path


def _bounds(parquet: pa.parquet.ParquetFile, number: int) -> tuple[str, str]:
    """The first and last path of a part; all paths there can be where the file does not say."""
    statistics = parquet.metadata.row_group(number).column(0).statistics
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else ("", LAST)


def _fetched(store: ObjectStore, key: SourceKey, segment: Segment) -> pa.NativeFile:
    """A local copy whose content has the recorded hash; it has no name any more and goes when it is closed."""
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
        if found.hexdigest() != segment.sha256:
            raise _lost(store, key, segment, "is damaged: its content is not what was written")
        local.flush()
        return pa.OSFile(local.name, "rb")


def _lost(store: ObjectStore, key: SourceKey, segment: Segment, how: str) -> StateError:
    return StateError(
        f"{key}: {store.location.uri}/{key.segment(segment.sha256)} {how}; it names {segment.count:,} files that were"
        " read, and without it they would be read again; nothing was written",
        "put it back from a backup, or rebuild it from the documents with `tidegate recover --accept set`",
    )
