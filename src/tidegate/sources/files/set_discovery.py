"""Discovery where every path is remembered: the whole source is listed, and what the set does not hold is new.

The listing is a stream that is compared batch by batch, so neither it nor the set is ever in memory as a whole.
Any error of the store ends the poll: a listing is whole, or cut off on purpose after ``limit`` new files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

from tidegate.planning.discovery import PathListing, accepts, table_of
from tidegate.planning.reasons import EXAMPLES, Reason, Skipped, Tally, tallied
from tidegate.sources.files.discovery import check_location, scope_of
from tidegate.sources.files.everything import list_everything
from tidegate.sources.files.naming import SAMPLE, Order, names_sort_in_time
from tidegate.specs import PathSource
from tidegate.state.remembered import Known
from tidegate.storage.port import ObjectInfo, ObjectStore
from tidegate.watermarks.path_set import SetState
from tidegate.watermarks.paths import SourceFile, sort_key

BATCH = 16_384

LookUp = Callable[[Sequence[SourceFile]], Sequence[Known]]


def discover_all(
    store: ObjectStore, source: PathSource, state: SetState, look_up: LookUp, *, limit: int | None = None
) -> PathListing:
    """Every accepted file that the set does not hold; ``look_up`` asks the set.

    After ``limit`` files that the state does not know at all, the listing stops. ``SourceError`` if the location
    is not there, ``StorageError`` if any of it cannot be listed.
    """
    check_location(store, source)
    before = store.requests.list, store.requests.keys
    poll = _Poll(source, state, look_up, limit)
    scope = scope_of(source)
    with closing(list_everything(store, scope)) as listed:
        while not poll.is_cut and (batch := list(islice(listed, BATCH))):
            poll.take(batch)
    return PathListing(
        files=tuple(sorted(poll.files, key=lambda file: sort_key(file.path))),
        skipped=tallied((*poll.tally.result(), *scope.left_out)),
        list_requests=store.requests.list - before[0],
        listed_keys=store.requests.keys - before[1],
        complete=not poll.is_cut,
        any_files=poll.any_files or bool(scope.left_out),
        tables=tuple(sorted(poll.tables)),
        unseen=frozenset(scope.unseen),
        sorts_in_time=names_sort_in_time(poll.sample).order is Order.IN_TIME,
    )


@dataclass(slots=True)
class _Poll:
    """One poll: what was accepted, looked up and found new so far."""

    source: PathSource
    state: SetState
    look_up: LookUp
    limit: int | None
    tally: Tally = field(default_factory=Tally)
    files: list[SourceFile] = field(default_factory=list)
    sample: list[ObjectInfo] = field(default_factory=list)
    new_files: int = 0
    is_cut: bool = False
    any_files: bool = False
    tables: set[str] = field(default_factory=set)

    def take(self, batch: Sequence[ObjectInfo]) -> None:
        """Take the new files of ``batch``, until there are as many as were asked for."""
        self.any_files = True
        accepted = list(self._accepted(batch))
        self.sample += accepted[: SAMPLE - len(self.sample)]
        files = [SourceFile(info.path, info.size, info.etag) for info in accepted]
        read: list[str] = []
        for file, known in zip(files, self.look_up(files), strict=True):
            match known:
                case Known.READ:
                    read.append(file.path)
                case Known.REWRITTEN:
                    self.tally.add(Reason.REWRITTEN, file.path)
                case Known.PENDING:
                    self.tally.add(Reason.PENDING, file.path)
                case Known.NEW:
                    self._take_new(file)
            if self.is_cut:
                break
        self.tally.include(Skipped(Reason.READ, len(read), tuple(read[:EXAMPLES])))

    def _accepted(self, batch: Sequence[ObjectInfo]) -> Iterator[ObjectInfo]:
        for info in batch:
            reason = accepts(self.source, info.path)
            if reason is None:
                yield info
            else:
                self.tally.add(reason, info.path)
                table = table_of(self.source, info.path) if reason is Reason.INTERNAL else None
                if table is not None:
                    self.tables.add(table)

    def _take_new(self, file: SourceFile) -> None:
        is_unknown = file.path not in self.state.files
        if is_unknown and self.new_files == self.limit:
            self.is_cut = True
            return
        self.new_files += is_unknown
        self.files.append(file)
