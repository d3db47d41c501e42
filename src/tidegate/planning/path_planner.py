"""Planning a path source: which listed files are new, late, resumed or tried again, and which are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from tidegate.planning.discovery import PathListing
from tidegate.planning.grouping import Sizing, grouped
from tidegate.planning.plan import FileSlice, GivenUp, Plan
from tidegate.planning.reasons import Reason, Tally
from tidegate.planning.slices import given_up, given_up_as_gone, out_of_sight, reason_against, slice_of
from tidegate.planning.troubles import Troubles, notes_of, remarks_of, tables_in
from tidegate.specs import PathSource
from tidegate.watermarks.advance import advance
from tidegate.watermarks.layout import Layout
from tidegate.watermarks.path_state import Failed, FileProgress, Finished, PathState, Unfinished
from tidegate.watermarks.paths import SourceFile, split
from tidegate.watermarks.sealing import is_sealed, opened
from tidegate.watermarks.standing import Standing, standings


def plan_paths(
    pipeline: str,
    source: PathSource,
    state: PathState,
    version: int,
    listing: PathListing,
    now: datetime,
    *,
    sizing: Sizing,
) -> Plan:
    """What to read next, oldest first: a pure function, equal arguments give equal plans."""
    choice = _Choice(source, opened(source, state, now), listing)
    for skipped in listing.skipped:
        choice.tally.include(skipped)
    for partition, files in _partitions((*listing.files, *choice.unseen.values())):
        choice.choose(partition, files)
    choice.miss(listing.complete)
    return Plan(
        pipeline=pipeline,
        source=source.name,
        version=version,
        now=now,
        units=grouped(choice.slices, sizing),
        skipped=choice.tally.result(),
        listed=tuple(choice.listed),
        late=tuple(choice.late),
        notes=(*notes_of(state, listing), *tables_in(source, listing), *choice.troubles.notes(source)),
        remarks=remarks_of(source, listing),
        complete=listing.complete,
        any_files=listing.any_files,
        directories=listing.directories,
        list_requests=listing.list_requests,
        listed_keys=listing.listed_keys,
        opens=None if choice.slices else _opens(source, state, choice.listed, listing, now),
        given_up=tuple(choice.given_up),
    )


def _partitions(files: Iterable[SourceFile]) -> Iterator[tuple[str, list[tuple[str, SourceFile]]]]:
    """The files by partition and name, in their order; a path that was listed twice counts once."""
    groups: dict[str, dict[str, SourceFile]] = {}
    for file in files:
        partition, _, name = file.path.rpartition("/")
        groups.setdefault(partition, {})[name] = file
    for partition in sorted(groups):
        yield partition, sorted(groups[partition].items())


def _opens(
    source: PathSource, state: PathState, listed: list[SourceFile], listing: PathListing, now: datetime
) -> PathState | None:
    """The state that is due although nothing is read: a sealed cold start, or a gap whose file is gone."""
    step = advance(source, state, listed, (), now, complete=listing.complete, directories=listing.directories)
    return step.state if step.changed else None


class _Choice:
    """Sorts listed files into what is read and what is skipped."""

    def __init__(self, source: PathSource, state: PathState, listing: PathListing) -> None:
        self.slices: list[FileSlice] = []
        self.listed: list[SourceFile] = []
        self.late: list[str] = []
        self.given_up: list[GivenUp] = []
        self.tally = Tally()
        self.troubles = Troubles()
        self._source = source
        self._state = state
        self._layout = Layout.of(source)
        self._standing_of = standings(source, state)
        self._room = source.max_islands - len(state.files)
        self._is_stuck = sum(isinstance(each, Failed) for each in state.files.values()) >= source.max_islands
        self._last: dict[str, str] = {}
        open_ones = (each for each in state.unfinished() if not is_sealed(self._layout, state, split(each[0])[0]))
        self.unseen = out_of_sight(source, listing, open_ones)

    def choose(self, partition: str, files: list[tuple[str, SourceFile]]) -> None:
        """Decide about the files of one partition, smallest name first."""
        self._last[partition] = files[-1][0]
        if is_sealed(self._layout, self._state, partition):
            for _, file in files:
                self.tally.add(Reason.SEALED, file.path)
            return
        standing = self._standing_of(partition)
        if standing.is_blank and self._is_stuck:
            self.listed.extend(file for _, file in files)
            for _, file in files:
                self._refuse(Reason.ISLANDS_FULL, file.path, None)
            return
        if standing.is_blank:
            self.listed.extend(file for _, file in files)
            self.slices.extend(FileSlice(file.path, file.size, file.etag) for _, file in files)
            return
        gap = Gap(standing)
        for name, file in files:
            if standing.is_finished(name):
                self._pass_over(standing, name, file)
            else:
                self.listed.append(file)
                self._take(standing, gap, name, file)

    def miss(self, complete: bool) -> None:
        """Report the unfinished files that the listing should have shown and did not.

        Those with committed lines become dead letters, and the watermark passes them, once a whole listing shows that
        they are gone.
        """
        seen = {file.path for file in self.listed if file.path in self._state.files}
        for path, progress in self._state.unfinished():
            partition, name = split(path)
            if path not in seen and (complete or name < self._last.get(partition, "")):
                self._refuse(Reason.GONE, path, progress)
                if complete and not is_sealed(self._layout, self._state, partition):
                    self._give_up_gone(path, progress)

    def _give_up_gone(self, path: str, progress: Unfinished) -> None:
        for each in given_up_as_gone(self._source, path, progress):
            self.given_up.append(each)
            self.listed.append(SourceFile(path, each.slice.size, each.slice.etag))

    def _pass_over(self, standing: Standing, name: str, file: SourceFile) -> None:
        if standing.is_above(name):
            self.listed.append(file)
        self.tally.add(Reason.READ if standing.is_known(name) else Reason.BELOW, file.path)

    def _take(self, standing: Standing, gap: Gap, name: str, file: SourceFile) -> None:
        progress = standing.progress.get(name)
        reason = Reason.UNSEEN if file.path in self.unseen else reason_against(self._source, progress, file)
        if not standing.is_above(name):
            if reason is None:
                self.late.append(file.path)
        elif gap.is_open_at(name) and progress is None:
            reason = Reason.ISLANDS_FULL if self._room <= 0 else None
            self._room -= 1
        gap.note(name, blocked=reason is not None or isinstance(progress, Failed))
        if reason is None:
            self.slices.append(slice_of(file, progress))
        else:
            self._refuse(reason, file.path, progress)
            self.given_up.extend(given_up(reason, file, progress))

    def _refuse(self, reason: Reason, path: str, progress: FileProgress | None) -> None:
        self.tally.add(reason, path)
        self.troubles.add(reason, path, progress)


class Gap:
    """Whether a name lies above an unfinished one that is likely to stay: then reading it makes an island.

    That is above a file that failed, and above the greatest island while something below it is unfinished.
    """

    __slots__ = ("_hole", "_open", "_top", "_watermark")

    def __init__(self, standing: Standing) -> None:
        islands = [name for name, each in standing.progress.items() if isinstance(each, Finished)]
        self._top = max(islands, default=None)
        self._watermark = standing.watermark
        self._hole = False
        self._open = False

    def is_open_at(self, name: str) -> bool:
        """Whether ``name``, which is above all that were noted, would be an island."""
        return self._open or (self._hole and self._top is not None and name > self._top)

    def note(self, name: str, *, blocked: bool) -> None:
        """Go on above an unfinished file."""
        if self._watermark is None or name > self._watermark:
            self._hole = True
            self._open = self._open or blocked
