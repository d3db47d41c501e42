"""What a plan tells a person: the files that are held back and why, and what is not looked for."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.planning.discovery import PathListing
from tidegate.planning.reasons import EXAMPLES, Reason
from tidegate.specs import LateFiles, PathSource
from tidegate.watermarks.path_state import Failed, FileProgress, Finished, PathState


class Troubles:
    """The files that need someone, by reason, with as many by name as there are examples."""

    __slots__ = ("_counts", "_named")

    def __init__(self) -> None:
        self._counts: dict[Reason, int] = {}
        self._named: dict[Reason, list[tuple[str, FileProgress | None]]] = {}

    def add(self, reason: Reason, path: str, progress: FileProgress | None) -> None:
        """One more."""
        self._counts[reason] = self._counts.get(reason, 0) + 1
        named = self._named.setdefault(reason, [])
        if len(named) < EXAMPLES:
            named.append((path, progress))

    def notes(self, source: PathSource) -> Iterator[str]:
        """A line for each file that is named, and one for the rest."""
        full = self._counts.get(Reason.ISLANDS_FULL, 0)
        if full:
            yield (
                f"{full:,} files are not planned: {source.max_islands:,} names (max_islands) wait for"
                " unfinished files below them; repair or remove those"
            )
        waiting = self._counts.get(Reason.TOO_MANY_FAILED, 0)
        if waiting:
            yield (
                f"{waiting:,} files are not planned: {source.max_islands:,} others (max_islands) failed or are in"
                " progress; repair or remove those"
            )
        unseen = self._counts.get(Reason.UNSEEN, 0)
        if unseen:
            yield (
                f"{unseen:,} unfinished {'file is' if unseen == 1 else 'files are'} kept and not read on, e.g."
                f" {self._named[Reason.UNSEEN][0][0]}: behind a symbolic link that is not followed or leads nowhere, or"
                " a name that cannot be used; set follow_links: true, mount what the link leads to, or exclude what is"
                " to be given up"
            )
        for reason in (Reason.GIVEN_UP, Reason.CHANGED, Reason.GONE):
            named = self._named.get(reason, [])
            yield from (_sentence(reason, path, progress) for path, progress in named)
            more = self._counts.get(reason, 0) - len(named)
            if more:
                yield f"{more:,} more: {reason.value}"


def _sentence(reason: Reason, path: str, progress: FileProgress | None) -> str:
    lines = 0 if progress is None or isinstance(progress, Finished) else progress.records
    match reason:
        case Reason.GIVEN_UP if isinstance(progress, Failed):
            return (
                f"{path} failed {progress.how_often} and goes to the dead letters:"
                f" {progress.reason}; `tidegate dlq retry` reads it again"
            )
        case Reason.CHANGED:
            return (
                f"{path} changed after {lines:,} of its lines were committed, is not read on and goes to the dead"
                " letters; `tidegate replay` replaces its rows, or deliver the rest under a new name"
            )
        case _:
            kept = (
                f" after {lines:,} of its lines were committed, and goes to the dead letters; if it comes back,"
                " `tidegate dlq retry` reads the rest"
            )
            return f"{path} was removed from the source before it was finished{kept if lines else ''}"


def notes_of(state: PathState, listing: PathListing) -> Iterator[str]:
    """What the state and the listing say that a person should look at."""
    if state.window_lost and state.partition_watermarks:
        yield (
            "the late window is empty and starts at the watermarks: files that came late before"
            " are found only by comparing everything (reconcile)"
        )
    for prefix, count in sorted(listing.directories.sealed.items()):
        seal = state.sealed.get(prefix)
        known = seal.directories if seal else None
        if seal is not None and known is not None and count > known:
            late = count - known
            yield (
                f"{late:,} {'directory' if late == 1 else 'directories'} came late below {prefix or 'the top level'}:"
                f" older than {seal.below:%Y-%m-%dT%H:%MZ}, where partitions are sealed, and not read"
            )


def tables_in(source: PathSource, listing: PathListing) -> Iterator[str]:
    """Delta tables among the files: what is read there are the files, not the table."""
    for directory in listing.tables:
        yield (
            f"{directory or source.location.uri} is a Delta table, and its data files are read as source files, also"
            " those that left the table: read it as a table (type: delta), or exclude it"
        )


def remarks_of(source: PathSource, listing: PathListing) -> tuple[str, ...]:
    """What is not looked for with these settings."""
    remarks = []
    if source.late_files is LateFiles.STRICT:
        remarks.append("late files are not looked for (late_files: strict)")
    if not listing.deep:
        remarks.append(
            "directories inside a partition that sort below its watermark are looked for in every"
            f" {source.deep_listing_every}th poll (deep_listing_every)"
        )
    return tuple(remarks)
