"""A folder of plain Parquet files as a destination, exactly once: a marker decides, then files come and go.

New files wait in a work area that no reader looks into. The marker is put first, and from then on the change counts;
then the new files become visible, the replaced ones go, and the provider gets the watermark. Whoever opens the place
completes what a killed run left. Of runs that write at the same time one gets the next number, and the others begin
anew. Readers may see a change half done: that is what a folder without a log can give.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import CommitLost, ObjectExists, ObjectMissing, StateError
from tidegate.failpoints import failpoint
from tidegate.specs import Location
from tidegate.state import swap_marker
from tidegate.state.identity import SourceKey
from tidegate.state.pace import utc_now
from tidegate.state.providers.base import BaseMetadataProvider
from tidegate.state.providers.copying import Step, check_copy, follow
from tidegate.state.site import new_attempt
from tidegate.state.swap_marker import Landing, Marker, Move
from tidegate.state.work_areas import WorkArea, clean_old, new_work_area, remove_work
from tidegate.storage.opening import open_store

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

SET = "watermark set"
MOST_TRIES = 1000
"""How often a change begins again because another dataflow of the same place took the number."""


@dataclass(frozen=True, slots=True)
class LandedPosition:
    """How far a dataflow is in a place; ``number`` is 0 and ``text`` None before its first change."""

    number: int = 0
    text: str | None = None
    written_at: str = field(default="", compare=False)

    @property
    def first_run(self) -> bool:
        """Whether nothing of this dataflow was ever written here."""
        return self.number == 0


class ParquetDestination:
    """One dataflow's way into a folder of Parquet files; several dataflows may share the folder."""

    def __init__(
        self,
        location: Location,
        provider: BaseMetadataProvider,
        key: SourceKey,
        now: Callable[[], datetime] = utc_now,
        store: ObjectStore | None = None,
    ) -> None:
        self.location = location
        self._store = store if store is not None else open_store(location)
        self._provider = provider
        self._key = key
        self._now = now

    def open(self, *, read_only: bool = False) -> LandedPosition:
        """The position, after what a killed run left is completed; ``StateError`` where the provider differs.

        With ``read_only`` nothing is written: a change that is decided counts, also if it is not completed.
        """
        landing = self._landing(self._newest(read_only=read_only))
        position = _standing(landing)
        if landing is not None and self._copied() != landing.run:
            if not read_only:
                self._pay(landing)
        else:
            moved = partial(self._has_moved, position.number)
            check_copy(self._provider, str(self._key), position.text, moved=moved, read_only=read_only)
        return position

    def open_for_setting(self) -> LandedPosition:
        """The position as ``open`` gives it, whatever the provider has: for ``set_watermark``."""
        return _standing(self._landing(self._newest()))

    def new_work_area(self) -> WorkArea:
        """A folder for the files of the next change; what was left in old ones is removed first."""
        clean_old(self._store, self._key, self._now())
        return new_work_area(self._key, self.location)

    def data_files(self) -> tuple[str, ...]:
        """The files that readers see, relative to the place."""
        return tuple(path for path, _ in _visible(self._store, ""))

    def append(
        self, opened: LandedPosition, work: WorkArea, text: str, files: Collection[str] | None = None
    ) -> LandedPosition:
        """The Parquet files of ``work`` come to those that are there, and ``text`` becomes the watermark.

        With ``files`` only these count, relative to ``work``: tasks that were repeated may have left others.
        ``CommitLost`` when another run of the dataflow was first: open and plan again. After any other error the next
        ``open`` tells what happened.
        """
        return self._swap(opened, work, (), text, "append", files)

    def overwrite(
        self, opened: LandedPosition, work: WorkArea, text: str, files: Collection[str] | None = None
    ) -> LandedPosition:
        """They take the place of everything that readers see."""
        return self._swap(opened, work, None, text, "overwrite", files)

    def replace(
        self,
        opened: LandedPosition,
        work: WorkArea,
        removed: Sequence[str],
        text: str,
        files: Collection[str] | None = None,
    ) -> LandedPosition:
        """They take the place of the files ``removed``, whose other rows they hold; raises as ``append`` does, and
        ``CommitLost`` where one of these files is gone.
        """
        return self._swap(opened, work, tuple(removed), text, "replace", files)

    def set_watermark(self, opened: LandedPosition, text: str) -> LandedPosition:
        """Move the watermark alone because a person says so; whatever the provider has is replaced."""
        return self._swap(opened, None, (), text, SET)

    def _newest(self, *, read_only: bool = False) -> Marker | None:
        """The newest marker, completed."""
        for _ in range(MOST_TRIES):
            markers = swap_marker.listed(self._store)
            if not markers.newest:
                return None
            marker = swap_marker.read(self._store, markers.newest)
            if marker is None:
                continue
            if not read_only and not markers.done:
                self._complete(marker)
            return marker
        raise _contested(self._key)

    def _swap(
        self,
        opened: LandedPosition,
        work: WorkArea | None,
        removed: Sequence[str] | None,
        text: str,
        action: str,
        files: Collection[str] | None = None,
    ) -> LandedPosition:
        attempt = new_attempt()
        moves = () if work is None else _moves(self._store, work.directory, attempt, files)
        failpoint("state.swap.before")
        for _ in range(MOST_TRIES):
            newest = self._newest()
            landing = self._landing(newest)
            if landing is None or landing.attempt != attempt:
                self._check_unmoved(opened, landing)
                number = 1 if newest is None else newest.number + 1
                now = self._now().isoformat()
                landing = Landing(number, attempt, text, opened.text, by_hand=action == SET, written_at=now)
                marker = Marker(
                    number=number,
                    attempt=attempt,
                    dataflow_id=str(self._key),
                    action=action,
                    written_at=now,
                    landings={**({} if newest is None else newest.landings), str(self._key): landing},
                    moves=moves,
                    removes=self._removes(removed),
                    work=None if work is None else work.directory,
                )
                self._store.sync(move.source for move in moves)
                if not self._put(marker):
                    continue
                failpoint("state.swap.marked")
                self._complete(marker)
            self._pay(landing)
            return _standing(landing)
        raise _contested(self._key)

    def _removes(self, removed: Sequence[str] | None) -> tuple[str, ...]:
        """The files that go, all of which must be there; None stands for all that are."""
        if removed is not None and not removed:
            return ()
        present = self.data_files()
        if removed is not None and not set(removed) <= set(present):
            raise CommitLost(f"{self._key}: files of {self.location.uri} that were read are gone", "plan again")
        return present if removed is None else tuple(removed)

    def _check_unmoved(self, opened: LandedPosition, landing: Landing | None) -> None:
        if opened.number != _standing(landing).number:
            raise _contested(self._key)

    def _landing(self, marker: Marker | None) -> Landing | None:
        return None if marker is None else marker.landings.get(str(self._key))

    def _has_moved(self, number: int) -> bool:
        """Whether another run of this dataflow was here since."""
        return _standing(self._landing(self._newest(read_only=True))).number > number

    def _put(self, marker: Marker) -> bool:
        """Whether the marker got its number, and nobody has a greater one: old numbers can be free again."""
        try:
            self._store.put_if_absent(marker.path, marker.to_bytes())
        except ObjectExists:
            there = swap_marker.read(self._store, marker.number)
            if there is None or there.attempt != marker.attempt:
                return False
        return swap_marker.listed(self._store).newest == marker.number

    def _complete(self, marker: Marker) -> None:
        """Make the files as the marker says. Every step can be done again, and by anybody."""
        for move in marker.moves:
            failpoint("state.swap.file")
            if not self._show(marker, move):
                return
        failpoint("state.swap.copied")
        for path in marker.removes:
            self._store.delete(path)
        failpoint("state.swap.removed")
        if marker.work is not None:
            remove_work(self._store, marker.work)
        self._store.put(marker.done_path, b"")
        failpoint("state.swap.done")
        for path in swap_marker.listed(self._store).outdated:
            self._store.delete(path)

    def _show(self, marker: Marker, move: Move) -> bool:
        """Make one file visible; False when somebody else completed the marker meanwhile."""
        if self._is_shown(move):
            return True
        try:
            self._store.copy(move.source, move.target)
        except ObjectMissing:
            if self._is_shown(move):
                return True
            markers = swap_marker.listed(self._store)
            if markers.newest > marker.number or markers.done:
                return False
            raise StateError(
                f"{self.location.uri}/{move.source} is gone: rows that were read are in no file any more, although "
                f"marker {marker.number} says that they count",
                "put the file back from a backup, or write into a new place, to read everything anew",
            ) from None
        return True

    def _is_shown(self, move: Move) -> bool:
        with suppress(ObjectMissing):
            return self._store.head(move.target).size == move.size
        return False

    def _pay(self, landing: Landing) -> None:
        """Give the provider its copy, and note that it has it."""
        step = Step(str(self._key), landing.text, landing.previous, landing.run, landing.by_hand)
        follow(self._provider, step, partial(self._has_moved, landing.number))
        self._store.put(self._copied_path, landing.run.encode())

    def _copied(self) -> str | None:
        """The landing that the provider was last given."""
        with suppress(ObjectMissing):
            return self._store.get(self._copied_path).decode(errors="replace")
        return None

    @property
    def _copied_path(self) -> str:
        return f"{self._key.directory}/provider.copied"


def _moves(store: ObjectStore, directory: str, attempt: str, files: Collection[str] | None) -> tuple[Move, ...]:
    """The Parquet files of a work area, and what they will be called; folders of partitions stay as they are."""
    found = sorted(each for each in _visible(store, directory) if files is None or each[0] in files)
    missing = set(files or ()) - {path for path, _ in found}
    if missing:
        raise StateError(
            f"{directory}/{min(missing)} is gone before its rows counted", "run again: nothing was changed"
        )
    return tuple(
        Move(f"{directory}/{path}", f"{path.rpartition('/')[0]}/part-{index:05d}-{attempt}.parquet".lstrip("/"), size)
        for index, (path, size) in enumerate(found)
    )


def _visible(store: ObjectStore, directory: str) -> list[tuple[str, int]]:
    """Path and size of every Parquet file in ``directory`` that readers take for data."""
    inside = f"{directory}/" if directory else ""
    found = ((info.path.removeprefix(inside), info.size) for info in store.list(directory))
    return [(path, size) for path, size in found if path.endswith(".parquet") and not _is_hidden(path)]


def _is_hidden(path: str) -> bool:
    """Whether a folder or file on the way has a name that readers pass over, as Spark does."""
    return any(name.startswith(".") or (name.startswith("_") and "=" not in name) for name in path.split("/"))


def _standing(landing: Landing | None) -> LandedPosition:
    """The position that a landing is; that of a first run where there is none."""
    return LandedPosition() if landing is None else LandedPosition(landing.number, landing.text, landing.written_at)


def _contested(key: SourceKey) -> CommitLost:
    return CommitLost(f"{key}: another run wrote to the destination first", "plan again")
