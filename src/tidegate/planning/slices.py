"""One listed file against its recorded progress: why it is not read now, and from where on it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.planning.discovery import PathListing, accepts, is_behind
from tidegate.planning.plan import FileSlice, GivenUp, Stage
from tidegate.planning.reasons import Reason
from tidegate.specs import PathSource
from tidegate.watermarks.path_state import Failed, FileProgress, Finished, RecordsRead, Unfinished
from tidegate.watermarks.paths import SourceFile, same_content, split


def reason_against(source: PathSource, progress: FileProgress | None, file: SourceFile) -> Reason | None:
    """Why an unfinished file is not read now."""
    if progress is None or isinstance(progress, Finished):
        return None
    if not same_content(progress.size, progress.etag, file):
        return Reason.CHANGED if progress.records else None
    given_up = isinstance(progress, Failed) and progress.attempts >= source.max_attempts
    return Reason.GIVEN_UP if given_up else None


def slice_of(file: SourceFile, progress: FileProgress | None) -> FileSlice:
    """The part of ``file`` that is not committed yet."""
    match progress:
        case RecordsRead(records=records, rounds=rounds):
            return FileSlice(file.path, file.size, file.etag, records, rounds=rounds)
        case Failed(attempts=attempts, size=size, etag=etag, records=records):
            tried = attempts if same_content(size, etag, file) else 0
            return FileSlice(file.path, file.size, file.etag, records, attempts=tried)
        case _:
            return FileSlice(file.path, file.size, file.etag)


def given_up(reason: Reason, file: SourceFile, progress: FileProgress | None) -> Iterator[GivenUp]:
    """The file, if for this reason it is not read on and becomes a dead letter."""
    match reason, progress:
        case Reason.GIVEN_UP, Failed():
            yield GivenUp(slice_of(file, progress), f"failed {progress.how_often}: {progress.reason}")
        case Reason.CHANGED, Failed() | RecordsRead():
            told = f"changed after {progress.records} of its lines were committed"
            yield GivenUp(slice_of(file, progress), told, Stage.CHANGED)
        case _:
            return


def given_up_as_gone(source: PathSource, path: str, progress: Unfinished) -> Iterator[GivenUp]:
    """An unfinished file that is not at the source any more, if some of its lines are committed.

    Without any there is nothing to tell about it: it is forgotten.
    """
    if progress.records:
        refused = accepts(source, path)
        what = "removed at the source" if refused is None else f"left out of the source ({refused.value})"
        told = f"{what} after {progress.records} of its lines were committed"
        as_it_was = SourceFile(path, progress.size or 0, progress.etag)
        yield GivenUp(slice_of(as_it_was, progress), told, Stage.REMOVED)


def out_of_sight(
    source: PathSource, listing: PathListing, unfinished: Iterable[tuple[str, Unfinished]]
) -> dict[str, SourceFile]:
    """The unfinished files that the listing would have shown, had it not left out a path at or above them.

    They are not gone: they count as listed, as they were when they were begun.
    """
    found = {
        path: SourceFile(path, progress.size or 0, progress.etag)
        for path, progress in unfinished
        if is_behind(path, listing.unseen) and accepts(source, path) is None
    }
    if not found:
        return {}
    last: dict[str, str] = {}
    for file in listing.files:
        found.pop(file.path, None)
        partition, name = split(file.path)
        last[partition] = max(name, last.get(partition, ""))
    if listing.complete:
        return found
    return {path: file for path, file in found.items() if split(path)[1] < last.get(split(path)[0], "")}
