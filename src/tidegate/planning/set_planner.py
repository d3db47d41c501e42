"""Planning a source that is tracked by a set: what is not remembered is read, in whatever order it came."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tidegate.planning.discovery import PathListing
from tidegate.planning.grouping import Sizing, grouped
from tidegate.planning.plan import FileSlice, GivenUp, Plan
from tidegate.planning.reasons import Reason, Tally
from tidegate.planning.slices import given_up, given_up_as_gone, out_of_sight, reason_against, slice_of
from tidegate.planning.troubles import Troubles, tables_in
from tidegate.specs import PathSource
from tidegate.watermarks.path_set import SetState, advance_set
from tidegate.watermarks.path_state import FileProgress
from tidegate.watermarks.paths import SourceFile, sort_key


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
    """What to read next, by path: a pure function, equal arguments give equal plans.

    ``listing.files`` are the accepted files that the set does not hold; those it holds are counted in
    ``listing.skipped``.
    """
    choice = _Choice(source, state, listing)
    for skipped in listing.skipped:
        choice.tally.include(skipped)
    seen = {file.path: file for file in listing.files}
    listed = sorted({**seen, **choice.unseen}.values(), key=lambda file: sort_key(file.path))
    for file in listed:
        choice.choose(file)
    if listing.complete:
        choice.miss({file.path for file in listed})
    step = advance_set(source, state, listed, (), now, complete=listing.complete)
    return Plan(
        pipeline=pipeline,
        source=source.name,
        version=version,
        now=now,
        units=grouped(choice.slices, sizing),
        skipped=choice.tally.result(),
        listed=tuple(listed),
        notes=(*_rewritten(listing), *tables_in(source, listing), *choice.troubles.notes(source)),
        remarks=tuple(_remarks(listing)),
        complete=listing.complete,
        any_files=listing.any_files,
        list_requests=listing.list_requests,
        listed_keys=listing.listed_keys,
        opens=step.state if step.changed and not choice.slices else None,
        given_up=tuple(choice.given_up),
        kind="path-set",
    )


class _Choice:
    """Sorts files that are not in the set into what is read and what is held back."""

    def __init__(self, source: PathSource, state: SetState, listing: PathListing) -> None:
        self.slices: list[FileSlice] = []
        self.tally = Tally()
        self.troubles = Troubles()
        self.given_up: list[GivenUp] = []
        self._source = source
        self._state = state
        self._is_stuck = len(state.files) >= source.max_islands
        self.unseen = out_of_sight(source, listing, state.unfinished())

    def choose(self, file: SourceFile) -> None:
        """Read it, or say why not."""
        progress = self._state.files.get(file.path)
        reason = Reason.UNSEEN if file.path in self.unseen else reason_against(self._source, progress, file)
        if progress is None and self._is_stuck:
            reason = Reason.TOO_MANY_FAILED
        if reason is None:
            self.slices.append(slice_of(file, progress))
        else:
            self._refuse(reason, file.path, progress)
            self.given_up.extend(given_up(reason, file, progress))

    def miss(self, listed: set[str]) -> None:
        """Report the unfinished files that are not there any more; those with committed lines become dead letters."""
        for path, progress in self._state.unfinished():
            if path not in listed:
                self._refuse(Reason.GONE, path, progress)
                self.given_up.extend(given_up_as_gone(self._source, path, progress))

    def _refuse(self, reason: Reason, path: str, progress: FileProgress | None) -> None:
        self.tally.add(reason, path)
        self.troubles.add(reason, path, progress)


def _rewritten(listing: PathListing) -> Iterator[str]:
    for each in listing.skipped:
        if each.reason is Reason.REWRITTEN:
            files = "file" if each.count == 1 else "files"
            yield (
                f"{each.count:,} {files} changed after being read and {'is' if each.count == 1 else 'are'} not read"
                f" again, e.g. {each.examples[0]}; deliver new content under a new name"
            )


def _remarks(listing: PathListing) -> Iterator[str]:
    yield (
        f"every poll lists the whole source, {listing.listed_keys:,} keys this time, and every path that was read is"
        " remembered (use_watermark: false)"
    )
    if listing.sorts_in_time:
        yield "its names sort in time: with use_watermark: true a poll lists only what is new"
