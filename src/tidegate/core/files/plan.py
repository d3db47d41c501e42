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
    utc_text,
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
from tidegate.core.json_shape import Node
from tidegate.specs.project import LateFiles, PathSource

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
        """Their size at the source."""
        return sum(file.size for file in self.slices)

    @property
    def files(self) -> int:
        """How many there are."""
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
    the planned files below their partition's watermark. ``notes`` need a person's attention, ``remarks`` always hold
    with these settings. ``opens`` is a state to commit although nothing is read, for instance the sealing of a cold
    start that found nothing. ``given_up`` are files that become dead letters. ``future_seals`` is what a wrong clock
    has sealed. ``left_out`` is what a filtered first run leaves out. ``seals_by`` is the time by which folders are
    sealed, if the files show that ``now`` may be ahead of it.
    """

    pipeline: str
    source: str
    version: int
    now: datetime
    units: tuple[FileGroup, ...] = ()
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
        """The number of files to read."""
        return sum(unit.files for unit in self.units)

    @property
    def bytes(self) -> int:
        """Their size at the source."""
        return sum(unit.bytes for unit in self.units)

    @property
    def waits(self) -> bool:
        """Whether unfinished files are held back: an empty plan then does not mean an idle source."""
        waiting = {Reason.GIVEN_UP, Reason.CHANGED, Reason.UNSEEN, Reason.ISLANDS_FULL, Reason.TOO_MANY_FAILED}
        return any(skip.reason in waiting for skip in self.skipped)

    @property
    def findings(self) -> tuple[str, ...]:
        """What is never read although it is not old or not known, in sentences."""
        return (*map(str, self.future_seals), *(() if self.left_out is None else (str(self.left_out),)))

    def to_json(self) -> dict[str, object]:
        """The plan in JSON types; ``from_json`` restores it."""
        return {
            "kind": self.kind,
            "pipeline": self.pipeline,
            "source": self.source,
            "version": self.version,
            "now": utc_text(self.now),
            "files": self.files,
            "bytes": self.bytes,
            "units": [
                {"number": unit.number, "slices": [_slice_json(file) for file in unit.slices]} for unit in self.units
            ],
            "skipped": [_skipped_json(skip) for skip in self.skipped],
            "listed": [[file.path, file.size, file.etag] for file in self.listed],
            "late": list(self.late),
            "notes": list(self.notes),
            "remarks": list(self.remarks),
            "complete": self.complete,
            "any_files": self.any_files,
            "directories": {"sealed": dict(self.directories.sealed), "open": list(self.directories.open)},
            "list_requests": self.list_requests,
            "listed_keys": self.listed_keys,
            "opens": _opens_json(self.opens),
            "given_up": [
                {**_slice_json(each.slice), "reason": each.reason, "stage": each.stage.value} for each in self.given_up
            ],
            **self._findings_json(),
        }

    def _findings_json(self) -> dict[str, object]:
        """What is there only if it was found."""
        ahead = [future_seal.to_json() for future_seal in self.future_seals]
        left_out = {} if self.left_out is None else {"left_out": self.left_out.to_json()}
        seals_by = {} if self.seals_by is None else {"seals_by": utc_text(self.seals_by)}
        return {**({"future_seals": ahead} if ahead else {}), **left_out, **seals_by}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Plan:
        """The plan that ``to_json`` wrote; ``StateError`` names what it cannot read."""
        root = Node(data, "plan")
        kind = root.get("kind").text()
        return cls(
            kind=kind,
            pipeline=root.get("pipeline").text(),
            source=root.get("source").text(),
            version=root.get("version").integer(),
            now=root.get("now").moment(),
            units=tuple(_unit(node) for node in root.get("units").items()),
            skipped=tuple(_skipped(node) for node in root.get("skipped").items()),
            listed=tuple(_listed(node) for node in root.get("listed").items()),
            late=_texts(root.get("late")),
            notes=_texts(root.get("notes")),
            remarks=_texts(root.get("remarks")),
            complete=root.get("complete").boolean(),
            any_files=root.get("any_files").boolean(),
            directories=_directories(root.get("directories")),
            list_requests=root.get("list_requests").integer(),
            listed_keys=root.get("listed_keys").integer(),
            opens=_opens(root.get("opens"), kind),
            given_up=tuple(_given_up(node) for node in root.get("given_up").items()),
            future_seals=tuple(_future_seals(node) for node in root.get("future_seals", []).items()),
            left_out=_left_out(root.get("left_out", None)),
            seals_by=None if root.get("seals_by", None).is_null else root.get("seals_by").moment(),
        )


def _opens_json(opens: PathState | SetState | None) -> dict[str, object] | None:
    if opens is None:
        return None
    return encode_set(opens) if isinstance(opens, SetState) else encode_paths(opens)


def _opens(node: Node, kind: str) -> PathState | SetState | None:
    if node.is_null:
        return None
    return decode_set(node.mapping()) if kind == "path-set" else decode_paths(node.mapping())


def _slice_json(each: FileSlice) -> dict[str, object]:
    return {name: getattr(each, name) for name in FileSlice.__slots__}


def _skipped_json(each: Skipped) -> dict[str, object]:
    return {"reason": each.reason.value, "count": each.count, "examples": list(each.examples)}


def _slice(node: Node) -> FileSlice:
    return FileSlice(
        node.get("path").text(),
        node.get("size").integer(),
        node.get("etag").optional_text(),
        node.get("start_record").integer(),
        node.get("attempts").integer(),
        node.get("rounds").integer(),
    )


def _unit(node: Node) -> FileGroup:
    return FileGroup(node.get("number").integer(), tuple(_slice(item) for item in node.get("slices").items()))


def _skipped(node: Node) -> Skipped:
    reason = _known(Reason, node.get("reason"))
    return Skipped(reason, node.get("count").integer(), _texts(node.get("examples")))


def _given_up(node: Node) -> GivenUp:
    return GivenUp(_slice(node), node.get("reason").text(), _known(Stage, node.get("stage")))


def _future_seals(node: Node) -> FutureSeal:
    return FutureSeal(node.get("prefix").text(), node.get("below").moment(), node.get("folder").optional_text())


def _left_out(node: Node) -> LeftOut | None:
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


def _known(words: type[Word], node: Node) -> Word:
    try:
        return words(node.text())
    except ValueError:
        raise node.refusal(f"a known {words.__name__.lower()}") from None


def _listed(node: Node) -> SourceFile:
    path, size, etag = node.items()
    return SourceFile(path.text(), size.integer(), etag.optional_text())


def _directories(node: Node) -> Directories:
    sealed = {prefix: count.integer() for prefix, count in node.get("sealed").entries()}
    return Directories(sealed, _texts(node.get("open")))


def _texts(node: Node) -> tuple[str, ...]:
    return tuple(item.text() for item in node.items())


def held_back(source: PathSource, skipped: Iterable[Skipped], files: Mapping[str, FileProgress]) -> Iterator[str]:
    """Notes on files that need a person: one line per example, and one for the rest; ``files`` is by path."""
    by_reason = {each.reason: each for each in skipped}
    if full := by_reason.get(Reason.ISLANDS_FULL):
        yield (
            f"{full.count:,} files are not planned: {source.max_islands:,} names (max_islands) wait for"
            " unfinished files below them; repair or remove those"
        )
    if waiting := by_reason.get(Reason.TOO_MANY_FAILED):
        yield (
            f"{waiting.count:,} files are not planned: {source.max_islands:,} others (max_islands) failed or are in"
            " progress; repair or remove those"
        )
    if unseen := by_reason.get(Reason.UNSEEN):
        yield (
            f"{unseen.count:,} unfinished {'file is' if unseen.count == 1 else 'files are'} kept and not read on, e.g."
            f" {unseen.examples[0]}: behind a symbolic link that is not followed or leads nowhere, or a name that"
            " cannot be used; set follow_links: true, mount what the link leads to, or exclude what is to be given up"
        )
    for reason in (Reason.GIVEN_UP, Reason.CHANGED, Reason.GONE):
        if found := by_reason.get(reason):
            yield from (_sentence(reason, path, files.get(path)) for path in found.examples)
            if found.count > len(found.examples):
                yield f"{found.count - len(found.examples):,} more: {reason.value}"


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
    """Notes from the state and the listing for a person."""
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
        known = seal.directories if seal else None
        if seal is not None and known is not None and count > known:
            late = count - known
            yield (
                f"{late:,} {'directory' if late == 1 else 'directories'} came late below {prefix or 'the top level'}:"
                f" older than {seal.below:%Y-%m-%dT%H:%MZ}, where partitions are sealed, and not read"
            )


def tables_in(source: PathSource, listing: PathListing) -> Iterator[str]:
    """A note on Delta tables among the files: their files are read, not the table."""
    for directory in listing.tables:
        yield (
            f"{directory or source.location.uri} is a Delta table, and its data files are read as source files, also"
            " those that left the table: read it as a table (type: delta), or exclude it"
        )


def nothing_fits(source: PathSource, listing: PathListing, *, any_read: bool) -> Iterator[str]:
    """Why nothing was ever read from a place with files: their names fit neither the format nor the pattern."""
    if any_read or listing.files:
        return
    for skip in listing.skipped:
        if skip.reason is Reason.PATTERN:
            what = "the only file does not fit" if skip.count == 1 else f"none of {skip.count:,} files fits"
            yield f"{what} pattern: {source.pattern!r}, e.g. {skip.examples[0]}; correct the pattern"
    if listing.endings:
        known = dict.fromkeys(filter(None, map(format_of, listing.endings)))
        remedy = " or ".join(f"format: {each}" for each in known) or f"pattern: '*{next(iter(listing.endings))}'"
        yield f"no file is read: {_count_endings(listing.endings)}; this source reads {source.format}: set {remedy}"


def _count_endings(endings: Mapping[str, int]) -> str:
    """The number of files by ending, most frequent first.

    >>> _count_endings({".csv": 2, "": 1})
    '2 files end in .csv, 1 in nothing'
    """
    told = [f"{number:,} in {end or 'nothing'}" for end, number in islice(endings.items(), ENDINGS_SHOWN)]
    number, _, first = told[0].partition(" ")
    told[0] = f"{number} {'file ends' if number == '1' else 'files end'} {first}"
    return ", ".join(told) + (", …" if len(endings) > ENDINGS_SHOWN else "")


def not_looked_for(source: PathSource, state: PathState, directories: Directories) -> tuple[str, ...]:
    """A sentence on places at the source that polls do not search, if there are any."""
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
    """What polls do not search with these settings."""
    remarks = [*not_looked_for(source, state, listing.directories)]
    if not listing.deep:
        remarks.append(
            "directories inside a partition that sort below its watermark are looked for in every"
            f" {source.deep_listing_every}th poll (deep_listing_every)"
        )
    return tuple(remarks)
