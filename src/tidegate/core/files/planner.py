"""Plans a file source: which listed files are new, late, resumed or retried, and in which file groups they are read.

Groups hold consecutive files, oldest first. A group continues into the next partition only if it can take all of it, so
small partitions share a group and large ones do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from tidegate.core.files.advance import advance, advance_set
from tidegate.core.files.discovery import (
    PathListing,
    Reason,
    ReasonCounts,
    accepts,
    is_behind,
    is_sealed,
    seal_cold_start,
    sealing_time,
)
from tidegate.core.files.paths import Layout, SourceFile, same_content, sort_key, split
from tidegate.core.files.plan import (
    FileGroup,
    FileSlice,
    GivenUp,
    Plan,
    Stage,
    describe_held_back,
    explain_no_files,
    note_tables,
    notes_of,
    remarks_of,
)
from tidegate.core.files.state import (
    Failed,
    FileProgress,
    FileStatus,
    Finished,
    PathState,
    RecordsRead,
    SetState,
    Unfinished,
    file_statuses,
)
from tidegate.specs.files import PathSource

OPENING = 64 * 1024
"""Opening a file costs about as much as reading this many bytes; keeps thousands of tiny files out of one task."""

SMALLEST = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sizing:
    """The size of groups: about ``target_bytes``, at most ``max_files``; smaller to keep all tasks busy."""

    target_bytes: int
    max_files: int
    parallelism: int

    def __post_init__(self) -> None:
        for name in ("target_bytes", "max_files", "parallelism"):
            if getattr(self, name) < 1:
                raise ValueError(f"Sizing.{name} is {getattr(self, name)}; give 1 or more")


def group_files(slices: Sequence[FileSlice], sizing: Sizing) -> tuple[FileGroup, ...]:
    """Put the slices, which are in order, into groups numbered from 1."""
    share = sum(map(_weight, slices)) // sizing.parallelism
    # A share per task keeps all of them busy; below a mebibyte, starting a task costs more than reading.
    target = min(sizing.target_bytes, max(share, SMALLEST))
    groups = _fill_groups(slices, target, sizing.max_files)
    return tuple(FileGroup(number, tuple(files)) for number, files in enumerate(groups, 1))


def _fill_groups(slices: Sequence[FileSlice], target: int, max_files: int) -> Iterator[list[FileSlice]]:
    group: list[FileSlice] = []
    weight = 0
    for _, members in groupby(slices, key=lambda file: split(file.path)[0]):
        partition = list(members)
        if group and (weight + sum(map(_weight, partition)) > target or len(group) + len(partition) > max_files):
            yield group
            group, weight = [], 0
        for file in partition:
            if group and (weight + _weight(file) > target or len(group) == max_files):
                yield group
                group, weight = [], 0
            group.append(file)
            weight += _weight(file)
    if group:
        yield group


def _weight(file: FileSlice) -> int:
    return file.size + OPENING


def slice_of(file: SourceFile, progress: FileProgress | None) -> FileSlice:
    """Return the part of ``file`` that is still to be read."""
    match progress:
        case RecordsRead(records=records, rounds=rounds):
            return FileSlice(file.path, file.size, file.etag, records, rounds=rounds)
        case Failed(attempts=attempts, size=size, etag=etag, records=records):
            # New content under the same name starts over: the old attempts say nothing about it.
            tried = attempts if same_content(size, etag, file) else 0
            return FileSlice(file.path, file.size, file.etag, records, attempts=tried)
        case _:
            return FileSlice(file.path, file.size, file.etag)


def give_up(reason: Reason, file: SourceFile, progress: FileProgress | None) -> Iterator[GivenUp]:
    """Yield the file if ``reason`` makes it a dead letter."""
    match reason, progress:
        case Reason.GIVEN_UP, Failed():
            yield GivenUp(slice_of(file, progress), f"failed {progress.how_often}: {progress.reason}")
        case Reason.CHANGED, Failed() | RecordsRead():
            reason_text = f"changed after {progress.records} of its lines were committed"
            yield GivenUp(slice_of(file, progress), reason_text, Stage.CHANGED)
        case _:
            return


def give_up_gone(source: PathSource, path: str, progress: Unfinished) -> Iterator[GivenUp]:
    """Yield an unfinished file that is gone from the source as a dead letter if some of its lines are committed.

    Without committed lines it is simply forgotten.
    """
    if progress.records:
        refused = accepts(source, path)
        what = "removed at the source" if refused is None else f"left out of the source ({refused.value})"
        reason = f"{what} after {progress.records} of its lines were committed"
        as_it_was = SourceFile(path, progress.size or 0, progress.etag)
        yield GivenUp(slice_of(as_it_was, progress), reason, Stage.REMOVED)


def unseen_files(
    source: PathSource, listing: PathListing, unfinished: Iterable[tuple[str, Unfinished]]
) -> dict[str, SourceFile]:
    """Return the unfinished files at or below a path that the listing left out.

    They may still exist, so they count as listed, with the size and etag they had when they were begun.
    """
    unseen = {
        path: SourceFile(path, progress.size or 0, progress.etag)
        for path, progress in unfinished
        if is_behind(path, listing.unseen) and accepts(source, path) is None
    }
    if not unseen:
        return {}
    last: dict[str, str] = {}
    for file in listing.files:
        unseen.pop(file.path, None)
        partition, name = split(file.path)
        last[partition] = max(name, last.get(partition, ""))
    # A truncated listing shows a partition up to its last listed name; beyond it nothing is known about any file.
    if listing.complete:
        return unseen
    return {path: file for path, file in unseen.items() if split(path)[1] < last.get(split(path)[0], "")}


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
    """Plan what to read next, oldest first. Pure: equal arguments give equal plans."""
    choice = _PathChoice(source, seal_cold_start(source, state, now), listing)
    for partition, files in _group_by_partition((*listing.files, *choice.unseen.values())):
        choice.decide_partition(partition, files)
    choice.report_missing()
    opens = None
    seals_by = _sealing_time_if_ahead(source, state, listing, now)
    # Nothing to read may still be something to commit: a sealed cold start, or a watermark that passes removed files.
    if not choice.slices:
        step = advance(
            source,
            state,
            choice.listed,
            (),
            now,
            complete=listing.complete,
            directories=listing.directories,
            seals_by=seals_by,
        )
        opens = step.state if step.changed else None
    any_read = bool(state.partition_watermarks or state.files or state.sealed)
    notes = (*explain_no_files(source, listing, any_read=any_read), *notes_of(state, listing))
    plan = choice.plan(pipeline, version, now, sizing, opens, notes)
    remarks = (*remarks_of(source, state, listing), *_explain_unsealed(seals_by))
    return replace(
        plan,
        late=tuple(choice.late),
        remarks=remarks,
        directories=listing.directories,
        left_out=listing.left_out,
        seals_by=seals_by,
    )


def _sealing_time_if_ahead(
    source: PathSource, state: PathState, listing: PathListing, now: datetime
) -> datetime | None:
    """Return the time by which folders seal if a folder is dated between it and ``now``; else None."""
    time = sealing_time(now, listing.newest)
    if time == now:
        return None
    layout = Layout.of(source)
    paths = (*state.files, *(file.path for file in listing.files))
    partitions = {*state.partition_watermarks, *(split(path)[0] for path in paths)}
    starts = (time_range.start for time_range in map(layout.time_of, partitions) if time_range is not None)
    return time if any(time < start <= now for start in starts) else None


def _explain_unsealed(seals_by: datetime | None) -> Iterator[str]:
    """Explain open folders: files that keep the times of their originals look as if the clock were ahead."""
    if seals_by is not None:
        yield (
            f"folders dated after {seals_by:%Y-%m-%d %H:%M} UTC are not sealed, and every poll lists them: the newest "
            "new file is older than that, so either this machine's clock is ahead or copies kept the times of their "
            "originals"
        )


def _group_by_partition(files: Iterable[SourceFile]) -> Iterator[tuple[str, list[tuple[str, SourceFile]]]]:
    """Group the files by partition and name, in order; a path listed twice counts once."""
    groups: dict[str, dict[str, SourceFile]] = {}
    for file in files:
        partition, _, name = file.path.rpartition("/")
        groups.setdefault(partition, {})[name] = file
    for partition in sorted(groups):
        yield partition, sorted(groups[partition].items())


class _Choice:
    """Sorts the files of a listing into those to read, those to skip and those to give up."""

    def __init__(
        self,
        source: PathSource,
        state: PathState | SetState,
        listing: PathListing,
        unfinished: Iterable[tuple[str, Unfinished]],
    ) -> None:
        self.slices: list[FileSlice] = []
        self.listed: list[SourceFile] = []
        self.given_up: list[GivenUp] = []
        self.tally = ReasonCounts()
        for skipped in listing.skipped:
            self.tally.include(skipped)
        self.unseen = unseen_files(source, listing, unfinished)
        self._source = source
        self._files = state.files
        self._listing = listing

    def reason_against(self, file: SourceFile, progress: FileProgress | None) -> Reason | None:
        """Return why an unfinished file is not read now; None to read it."""
        if file.path in self.unseen:
            return Reason.UNSEEN
        if progress is None or isinstance(progress, Finished):
            return None
        if not same_content(progress.size, progress.etag, file):
            # Committed lines of the old content cannot be told from lines of the new one, so reading on would mix both.
            return Reason.CHANGED if progress.records else None
        is_given_up = isinstance(progress, Failed) and progress.attempts >= self._source.max_attempts
        return Reason.GIVEN_UP if is_given_up else None

    def take(self, file: SourceFile, progress: FileProgress | None, reason: Reason | None) -> None:
        """Read the file, or skip it for ``reason``."""
        if reason is None:
            self.slices.append(slice_of(file, progress))
        else:
            self.tally.add(reason, file.path)
            self.given_up.extend(give_up(reason, file, progress))

    def plan(
        self,
        pipeline: str,
        version: int,
        now: datetime,
        sizing: Sizing,
        opens: PathState | SetState | None,
        notes: Iterable[str],
    ) -> Plan:
        """Build the plan, once every file is decided."""
        source, listing, skipped = self._source, self._listing, self.tally.result()
        return Plan(
            pipeline=pipeline,
            source=source.name,
            version=version,
            now=now,
            groups=group_files(self.slices, sizing),
            skipped=skipped,
            listed=tuple(self.listed),
            notes=(*notes, *note_tables(source, listing), *describe_held_back(source, skipped, self._files)),
            complete=listing.complete,
            any_files=listing.any_files,
            list_requests=listing.list_requests,
            listed_keys=listing.listed_keys,
            opens=opens,
            given_up=tuple(self.given_up),
        )


class _PathChoice(_Choice):
    """The choice for partitions with a watermark."""

    def __init__(self, source: PathSource, state: PathState, listing: PathListing) -> None:
        self._layout = Layout.of(source)
        unsealed = (
            (path, progress)
            for path, progress in state.find_unfinished()
            if not is_sealed(self._layout, state, split(path)[0])
        )
        super().__init__(source, state, listing, unsealed)
        self.late: list[str] = []
        self._state = state
        self._status_of = file_statuses(source, state)
        self._room = source.max_islands - len(state.files)
        self._is_stuck = sum(isinstance(file, Failed) for file in state.files.values()) >= source.max_islands
        self._last: dict[str, str] = {}

    def decide_partition(self, partition: str, files: list[tuple[str, SourceFile]]) -> None:
        """Decide about the files of one partition, smallest name first."""
        self._last[partition] = files[-1][0]
        if is_sealed(self._layout, self._state, partition):
            for _, file in files:
                self.tally.add(Reason.SEALED, file.path)
            return
        status = self._status_of(partition)
        # The usual case of a new partition, a hundred thousand files at once: none of the checks below can apply.
        if status.is_blank:
            self.listed.extend(file for _, file in files)
            for _, file in files:
                self.take(file, None, Reason.ISLANDS_FULL if self._is_stuck else None)
            return
        gap = WindowGap(status)
        for name, file in files:
            if status.is_finished(name):
                if status.is_above(name):
                    self.listed.append(file)
                self.tally.add(Reason.READ if status.is_known(name) else Reason.BELOW, file.path)
            else:
                self.listed.append(file)
                self._decide(status, gap, name, file)

    def report_missing(self) -> None:
        """Report the unfinished files that the listing should have shown.

        Once a complete listing shows that they are gone, those with committed lines become dead letters, and the
        watermark passes them.
        """
        complete = self._listing.complete
        seen = {file.path for file in self.listed if file.path in self._files}
        for path, progress in self._state.find_unfinished():
            partition, name = split(path)
            if path not in seen and (complete or name < self._last.get(partition, "")):
                self.tally.add(Reason.GONE, path)
                if complete and not is_sealed(self._layout, self._state, partition):
                    for letter in give_up_gone(self._source, path, progress):
                        self.given_up.append(letter)
                        self.listed.append(SourceFile(path, letter.slice.size, letter.slice.etag))

    def _decide(self, status: FileStatus, gap: WindowGap, name: str, file: SourceFile) -> None:
        progress = status.progress.get(name)
        reason = self.reason_against(file, progress)
        if not status.is_above(name):
            if reason is None:
                self.late.append(file.path)
        # Names that finish above a gap stay in the state until the gap closes, and the state goes into every commit.
        elif gap.is_open_at(name) and progress is None:
            reason = Reason.ISLANDS_FULL if self._room <= 0 else None
            self._room -= 1
        gap.note(name, blocked=reason is not None or isinstance(progress, Failed))
        self.take(file, progress, reason)


class WindowGap:
    """Tells whether a name lies above an unfinished one that is likely to stay, so that reading it makes an island.

    That is above a failed file, and above the greatest island while something below it is unfinished.
    """

    __slots__ = ("_hole", "_open", "_top", "_watermark")

    def __init__(self, status: FileStatus) -> None:
        islands = [name for name, progress in status.progress.items() if isinstance(progress, Finished)]
        self._top = max(islands, default=None)
        self._watermark = status.watermark
        self._hole = False
        self._open = False

    def is_open_at(self, name: str) -> bool:
        """Whether ``name``, which is above all noted ones, would be an island."""
        return self._open or (self._hole and self._top is not None and name > self._top)

    def note(self, name: str, *, blocked: bool) -> None:
        """Record an unfinished file; names must come in ascending order."""
        if self._watermark is None or name > self._watermark:
            self._hole = True
            self._open = self._open or blocked


def plan_set(
    pipeline: str,
    source: PathSource,
    state: SetState,
    version: int,
    listing: PathListing,
    now: datetime,
    *,
    sizing: Sizing,
) -> Plan:
    """Plan what to read next, by path. Pure: equal arguments give equal plans.

    ``listing.files`` are the accepted files outside the set; ``listing.skipped`` counts those in it.
    """
    choice = _Choice(source, state, listing, state.find_unfinished())
    files = {file.path: file for file in listing.files} | choice.unseen
    choice.listed = sorted(files.values(), key=lambda file: sort_key(file.path))
    is_stuck = len(state.files) >= source.max_islands
    for file in choice.listed:
        progress = state.files.get(file.path)
        is_waiting = progress is None and is_stuck
        choice.take(file, progress, Reason.TOO_MANY_FAILED if is_waiting else choice.reason_against(file, progress))
    for path, progress in state.find_unfinished() if listing.complete else ():
        if path not in files:
            choice.tally.add(Reason.GONE, path)
            choice.given_up.extend(give_up_gone(source, path, progress))
    step = advance_set(source, state, choice.listed, (), now, complete=listing.complete)
    opens = step.state if step.changed and not choice.slices else None
    any_read = bool(state.remembered or state.files)
    notes = (*explain_no_files(source, listing, any_read=any_read), *_note_rewritten(listing))
    plan = choice.plan(pipeline, version, now, sizing, opens, notes)
    return replace(plan, remarks=tuple(_remark_on_set(listing)), kind="path-set")


def _note_rewritten(listing: PathListing) -> Iterator[str]:
    for skip in listing.skipped:
        if skip.reason is Reason.REWRITTEN:
            one = skip.count == 1
            yield (
                f"{skip.count:,} {'file' if one else 'files'} changed after being read and {'is' if one else 'are'} not"
                f" read again, e.g. {skip.examples[0]}; deliver new content under a new name"
            )


def _remark_on_set(listing: PathListing) -> Iterator[str]:
    keys = "1 key" if listing.listed_keys == 1 else f"{listing.listed_keys:,} keys"
    yield (f"each poll lists the whole prefix ({keys} now) and remembers every path it has read (use_watermark: false)")
    if listing.sorts_in_time:
        yield "its names sort by time: with use_watermark: true a poll lists only what is new"
