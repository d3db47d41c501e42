"""The plan of a file source: which files a run reads, in which groups, and why it skips the others.

A plan is a value. It can be printed, compared, stored as JSON and carried out later, as long as the source's position
is still ``version``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import TypeVar

from tidegate.core.files.discovery import (
    Directories,
    FutureSeal,
    LeftOut,
    PathListing,
    Reason,
    Skipped,
    format_of,
)
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.state import (
    Failed,
    FileProgress,
    Finished,
    PathState,
    SetState,
    decode_paths,
    decode_set,
    encode_paths,
    encode_set,
)
from tidegate.core.json_shape import Node, utc_text
from tidegate.specs.files import LateFiles, PathSource

Word = TypeVar("Word", bound=StrEnum)
ENDINGS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A listed file to read from line ``start_record`` to its end.

    ``attempts`` have failed so far; ``rounds`` commits have its first lines.
    """

    path: str
    size: int
    etag: str | None = None
    start_record: int = 0
    attempts: int = 0
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that one task reads in this order; its result may cover a prefix of them."""

    number: int
    slices: tuple[FileSlice, ...]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.slices)

    @property
    def files(self) -> int:
        return len(self.slices)


class Stage(StrEnum):
    """Why a file was given up: it could not be read, or it changed or was removed after part of it was read."""

    READ = "read"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A file whose lines from ``slice.start_record`` on are not read, and why."""

    slice: FileSlice
    reason: str
    stage: Stage = Stage.READ


@dataclass(frozen=True, slots=True)
class Plan:
    """The work for one file source at position ``version``; ``kind`` is its tracking.

    ``listed`` is every file that is new, unfinished, or finished above a gap: what ``advance`` walks over. ``late`` are
    the planned files below their partition's watermark. ``notes`` need a person's attention; ``remarks`` hold as long
    as the settings do. ``opens`` is a state to commit although nothing is read, such as the seal of a cold start that
    found nothing. ``given_up`` files become dead letters. ``future_seals`` were set by a wrong clock. ``left_out`` is
    what a filtered first run never reads. ``seals_by`` is the time by which folders are sealed, where the files show
    that ``now`` may be ahead.
    """

    pipeline: str
    source: str
    version: int
    now: datetime
    groups: tuple[FileGroup, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    listed: tuple[SourceFile, ...] = ()
    late: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    complete: bool = True
    any_files: bool = True
    directories: Directories = field(default_factory=Directories)
    list_requests: int = 0
    listed_keys: int = 0
    opens: PathState | SetState | None = None
    given_up: tuple[GivenUp, ...] = ()
    kind: str = "path"
    future_seals: tuple[FutureSeal, ...] = ()
    left_out: LeftOut | None = None
    seals_by: datetime | None = None

    @property
    def files(self) -> int:
        """Number of files to read."""
        return sum(group.files for group in self.groups)

    @property
    def bytes(self) -> int:
        """Their total size at the source."""
        return sum(group.bytes for group in self.groups)

    @property
    def waits(self) -> bool:
        """True if unfinished files are held back: an empty plan then does not mean an idle source."""
        waiting = {Reason.GIVEN_UP, Reason.CHANGED, Reason.UNSEEN, Reason.ISLANDS_FULL, Reason.TOO_MANY_FAILED}
        return any(skip.reason in waiting for skip in self.skipped)

    @property
    def findings(self) -> tuple[str, ...]:
        """Sentences about files that are never read although they are neither old nor known."""
        return (*map(str, self.future_seals), *(() if self.left_out is None else (str(self.left_out),)))

    def to_json(self) -> dict[str, object]:
        """Encode the plan in JSON types; ``from_json`` restores it."""
        return {
            "kind": self.kind,
            "pipeline": self.pipeline,
            "source": self.source,
            "version": self.version,
            "now": utc_text(self.now),
            "files": self.files,
            "bytes": self.bytes,
            # Stored plans and `plan --json` call file groups units.
            "units": [
                {"number": group.number, "slices": [_encode_slice(file) for file in group.slices]}
                for group in self.groups
            ],
            "skipped": [
                {"reason": skip.reason.value, "count": skip.count, "examples": list(skip.examples)}
                for skip in self.skipped
            ],
            "listed": [[file.path, file.size, file.etag] for file in self.listed],
            "late": list(self.late),
            "notes": list(self.notes),
            "remarks": list(self.remarks),
            "complete": self.complete,
            "any_files": self.any_files,
            "directories": {"sealed": dict(self.directories.sealed), "open": list(self.directories.open)},
            "list_requests": self.list_requests,
            "listed_keys": self.listed_keys,
            "opens": _encode_opens(self.opens),
            "given_up": [
                {**_encode_slice(file.slice), "reason": file.reason, "stage": file.stage.value}
                for file in self.given_up
            ],
            # These keys are left out where there is nothing to say.
            **({"future_seals": [seal.to_json() for seal in self.future_seals]} if self.future_seals else {}),
            **({} if self.left_out is None else {"left_out": self.left_out.to_json()}),
            **({} if self.seals_by is None else {"seals_by": utc_text(self.seals_by)}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Plan:
        """Decode what ``to_json`` wrote; ``StateError`` names what it cannot read."""
        root = Node(data, "plan")
        kind, directories = root.get("kind").text(), root.get("directories")
        return cls(
            kind=kind,
            pipeline=root.get("pipeline").text(),
            source=root.get("source").text(),
            version=root.get("version").integer(),
            now=root.get("now").moment(),
            groups=tuple(
                FileGroup(node.get("number").integer(), tuple(map(_decode_slice, node.get("slices").items())))
                for node in root.get("units").items()
            ),
            skipped=tuple(
                Skipped(
                    _decode_word(Reason, node.get("reason")),
                    node.get("count").integer(),
                    _decode_texts(node.get("examples")),
                )
                for node in root.get("skipped").items()
            ),
            listed=tuple(_decode_file(node) for node in root.get("listed").items()),
            late=_decode_texts(root.get("late")),
            notes=_decode_texts(root.get("notes")),
            remarks=_decode_texts(root.get("remarks")),
            complete=root.get("complete").boolean(),
            any_files=root.get("any_files").boolean(),
            directories=Directories(
                {prefix: count.integer() for prefix, count in directories.get("sealed").entries()},
                _decode_texts(directories.get("open")),
            ),
            list_requests=root.get("list_requests").integer(),
            listed_keys=root.get("listed_keys").integer(),
            opens=_decode_opens(root.get("opens"), kind),
            given_up=tuple(
                GivenUp(_decode_slice(node), node.get("reason").text(), _decode_word(Stage, node.get("stage")))
                for node in root.get("given_up").items()
            ),
            # Plans of earlier versions lack this key and the two below.
            future_seals=tuple(
                FutureSeal(node.get("prefix").text(), node.get("below").moment(), node.get("folder").optional_text())
                for node in root.get("future_seals", []).items()
            ),
            left_out=_decode_left_out(root.get("left_out", None)),
            seals_by=None if root.get("seals_by", None).is_null else root.get("seals_by").moment(),
        )


def _encode_opens(opens: PathState | SetState | None) -> dict[str, object] | None:
    if opens is None:
        return None
    return encode_set(opens) if isinstance(opens, SetState) else encode_paths(opens)


def _decode_opens(node: Node, kind: str) -> PathState | SetState | None:
    if node.is_null:
        return None
    return decode_set(node.as_mapping()) if kind == "path-set" else decode_paths(node.as_mapping())


def _encode_slice(file: FileSlice) -> dict[str, object]:
    return {name: getattr(file, name) for name in FileSlice.__slots__}


def _decode_slice(node: Node) -> FileSlice:
    return FileSlice(
        node.get("path").text(),
        node.get("size").integer(),
        node.get("etag").optional_text(),
        node.get("start_record").integer(),
        node.get("attempts").integer(),
        node.get("rounds").integer(),
    )


def _decode_left_out(node: Node) -> LeftOut | None:
    if node.is_null:
        return None
    by_folder = ((item.get("folder").text(), item.get("files").integer()) for item in node.get("by_folder").items())
    return LeftOut(
        node.get("before").moment(),
        node.get("folders").integer(),
        node.get("files").integer(),
        tuple(by_folder),
        node.get("complete").boolean(),
    )


def _decode_word(words: type[Word], node: Node) -> Word:
    try:
        return words(node.text())
    except ValueError:
        raise node.refusal(f"a known {words.__name__.lower()}") from None


def _decode_file(node: Node) -> SourceFile:
    path, size, etag = node.items()
    return SourceFile(path.text(), size.integer(), etag.optional_text())


def _decode_texts(node: Node) -> tuple[str, ...]:
    return tuple(item.text() for item in node.items())


def _count_files(number: int) -> str:
    return "1 file" if number == 1 else f"{number:,} files"


def describe_held_back(
    source: PathSource, skipped: Iterable[Skipped], files: Mapping[str, FileProgress]
) -> Iterator[str]:
    """Yield notes on files that need a person: one per example, and one for the rest; ``files`` is by path."""
    by_reason = {skip.reason: skip for skip in skipped}
    if full := by_reason.get(Reason.ISLANDS_FULL):
        yield (
            f"{_count_files(full.count)} not planned: {source.max_islands:,} names (max_islands) wait for"
            " unfinished files below them; repair or remove those"
        )
    if waiting := by_reason.get(Reason.TOO_MANY_FAILED):
        yield (
            f"{_count_files(waiting.count)} not planned: {source.max_islands:,} others (max_islands) failed or are in"
            " progress; repair or remove those"
        )
    if unseen := by_reason.get(Reason.UNSEEN):
        yield (
            f"{unseen.count:,} unfinished {'file is' if unseen.count == 1 else 'files are'} kept and not read on, e.g."
            f" {unseen.examples[0]}: behind a symbolic link that is not followed or leads nowhere, or a name that"
            " cannot be used; set follow_links: true, mount what the link leads to, or exclude what is to be given up"
        )
    for reason in (Reason.GIVEN_UP, Reason.CHANGED, Reason.GONE):
        if skip_of_reason := by_reason.get(reason):
            yield from (_describe_file(reason, path, files.get(path)) for path in skip_of_reason.examples)
            if skip_of_reason.count > len(skip_of_reason.examples):
                yield f"{skip_of_reason.count - len(skip_of_reason.examples):,} more: {reason.value}"


def _describe_file(reason: Reason, path: str, progress: FileProgress | None) -> str:
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
    """Yield notes from the state and the listing for a person."""
    if listing.disorder:
        yield (
            f"{listing.disorder}: a file that sorts below the watermark is found only inside the late window; set"
            " use_watermark: false, or name files by time"
        )
    if state.window_lost and state.partition_watermarks:
        yield (
            "the late window is empty and starts at the watermarks: files that came late before"
            " are found only by comparing everything (reconcile)"
        )
    for prefix, count in sorted(listing.directories.sealed.items()):
        seal = state.sealed.get(prefix)
        counted = seal.directories if seal else None
        if seal is not None and counted is not None and count > counted:
            late = count - counted
            yield (
                f"{late:,} {'directory' if late == 1 else 'directories'} came late below {prefix or 'the top level'}:"
                f" older than {seal.below:%Y-%m-%dT%H:%MZ}, where partitions are sealed, and not read"
            )


def note_tables(source: PathSource, listing: PathListing) -> Iterator[str]:
    """Warn about Delta tables among the files: their data files are read one by one, not as a table."""
    for directory in listing.tables:
        yield (
            f"{directory or source.location.uri} is a Delta table, and its data files are read as source files, also"
            " those that left the table: read it as a table (type: delta), or exclude it"
        )


def explain_no_files(source: PathSource, listing: PathListing, *, any_read: bool) -> Iterator[str]:
    """Explain why nothing was ever read although there are files: their names fit neither format nor pattern."""
    if any_read or listing.files:
        return
    for skip in listing.skipped:
        if skip.reason is Reason.PATTERN:
            what = "the only file does not fit" if skip.count == 1 else f"none of {skip.count:,} files fits"
            yield f"{what} pattern: {source.pattern!r}, e.g. {skip.examples[0]}; correct the pattern"
    if listing.endings:
        formats = dict.fromkeys(filter(None, map(format_of, listing.endings)))
        remedy = " or ".join(f"format: {name}" for name in formats) or f"pattern: '*{next(iter(listing.endings))}'"
        yield f"no file is read: {_describe_endings(listing.endings)}; this source reads {source.format}: set {remedy}"


def _describe_endings(endings: Mapping[str, int]) -> str:
    """Count files by ending, most frequent first.

    >>> _describe_endings({".csv": 2, "": 1})
    '2 files end in .csv, 1 in nothing'
    """
    parts = [f"{number:,} in {end or 'nothing'}" for end, number in islice(endings.items(), ENDINGS_SHOWN)]
    number, _, first = parts[0].partition(" ")
    parts[0] = f"{number} {'file ends' if number == '1' else 'files end'} {first}"
    return ", ".join(parts) + (", …" if len(endings) > ENDINGS_SHOWN else "")


def describe_unsearched(source: PathSource, state: PathState, directories: Directories) -> tuple[str, ...]:
    """Say in one sentence which places at the source polls do not search; empty if there are none."""
    if source.late_files is LateFiles.STRICT:
        return ("late files are not looked for (late_files: strict)",)
    places = []
    if any(window.above for window in state.late_window.values()):
        places.append(f"below the late window of a folder ({source.late_window:,} names)")
    if state.sealed:
        number = sum(directories.sealed.values())
        folders = f"{number:,} folders" if number > 1 else "1 folder" if number else "folders"
        why = "lateness" if source.partition_filter is None else "lateness, partition_filter"
        places.append(
            f"in {folders} before {min(seal.below for seal in state.sealed.values()):%Y-%m-%d %H:%M}Z ({why})"
        )
    where = " and ".join(places)
    return (f"not looked for: late files {where}; `tidegate reconcile` finds them",) if where else ()


def remarks_of(source: PathSource, state: PathState, listing: PathListing) -> tuple[str, ...]:
    """Say what polls do not search with these settings."""
    remarks = [*describe_unsearched(source, state, listing.directories)]
    if not listing.deep:
        remarks.append(
            "directories inside a partition that sort below its watermark are looked for in every"
            f" {source.deep_listing_every}th poll (deep_listing_every)"
        )
    return tuple(remarks)
