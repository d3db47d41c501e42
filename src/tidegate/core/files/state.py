"""The states of file sources, a watermark per partition or the set of all paths, as values and as JSON.

**Watermarks.** A file may appear below its partition's watermark, even while it is being listed. Inside the late window
every finished name is known, so any other name is unread. Below the window nothing is known, and nothing is searched. A
partition without a window has an empty one that starts at its watermark. The state is small whatever the number of
files ever read: one name per open partition, the names that finished above a gap, the files in progress or failed, and
a bounded window of finished names per open partition.

**Sets.** Every finished path is remembered, so names may be anything and arrive in any order. The state refers to the
set: to segments, each an immutable file with the sha256 that is also its name. It also has the files in progress or
failed. Every commit adds one segment with the paths it finished. Eight segments of about the same size become one
(``segments_to_merge``), so there are few of them, and each path is rewritten only a handful of times, however many
there are.

**As JSON.** Anything unknown is refused. Watermarks: ``{"schema_version": 1, "watermark":
{"files": {path: "Finished" | {"RecordsRead": n, "size": …, "etag": …} | {"Failed": {"attempts": …, "reason": …}, …}},
"last_committed_file": …}, "sealed": {prefix: {"below": …, "directories": …}}, "sealed_below": …, "late_window":
{partition: {"above": …, "names": […]}}}``

Sets: ``{"schema_version": 1, "tracking": "set", "watermark": {"state": "Active", "value": …}, "set": {"files": …,
"segments": [{"sha256": …, "count": …, "size": …}]}, "last_update_ts": …, "source_state": {"files": {path:
{"RecordsRead": …} | {"Failed": …}}, "last_committed_file": …}}``
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from tidegate.core.files.paths import join, sort_key, split
from tidegate.core.json_shape import SCHEMA_VERSION, Node, check_version, utc_text
from tidegate.errors import StateError
from tidegate.specs.files import LateFiles, PathSource


@dataclass(frozen=True, slots=True)
class LateWindow:
    """All finished names above ``above``, ascending; ``None``: from the partition's start."""

    names: tuple[str, ...]
    above: str | None = None

    def reaches(self, name: str) -> bool:
        """True if ``name`` lies inside the window."""
        return self.above is None or name > self.above

    def with_names(self, names: Iterable[str]) -> LateWindow:
        """Add finished names, without those below the window."""
        return LateWindow(tuple(sorted({*self.names, *filter(self.reaches, names)})), self.above)

    def with_at_most(self, count: int) -> LateWindow:
        """Keep the ``count`` greatest names; the window then starts above the greatest one it lost."""
        excess = len(self.names) - count
        if excess <= 0:
            return self
        return LateWindow(self.names[excess:], self.names[excess - 1])


def shrink_windows(
    windows: Mapping[str, LateWindow], each: int, total: int, active: Collection[str]
) -> dict[str, LateWindow]:
    """Cut the windows to at most ``each`` names, and ``total`` over all.

    Partitions that are not ``active`` shrink first, the smallest partition first.
    """
    sized = {partition: window.with_at_most(each) for partition, window in windows.items()}
    excess = sum(len(window.names) for window in sized.values()) - total
    for partition in sorted(sized, key=lambda partition: (partition in active, partition)):
        if excess <= 0:
            break
        before = len(sized[partition].names)
        sized[partition] = sized[partition].with_at_most(max(0, before - excess))
        excess -= before - len(sized[partition].names)
    return sized


REASON_LIMIT = 500
"""Longest reason that is kept: the state goes into every commit, and one long message must not swell it."""


@dataclass(frozen=True, slots=True)
class Covered:
    """Lines ``start <= n < end`` are in the commit; with ``eof`` nothing of the file is left to read.

    Dead letters count: a given-up file is covered to its end. ``rows`` lines became rows of the table, ``bad`` ones are
    dead letters; a given-up file has a letter and no lines.
    """

    path: str
    size: int
    etag: str | None
    start: int
    end: int
    eof: bool
    rows: int = 0
    bad: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """The file, or the rest of it, could not be read; only attempts that ``counts`` lead to giving it up."""

    path: str
    size: int
    etag: str | None
    reason: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Changed:
    """The file was not the listed one; nothing of it was read."""

    path: str


@dataclass(frozen=True, slots=True)
class NotReached:
    """The task stopped before it reached this file."""

    path: str


FileOutcome = Covered | Refused | Changed | NotReached


def progress_after(before: Unfinished | None, outcome: FileOutcome) -> FileProgress | None:
    """Return the progress of an unfinished file after ``outcome``; ``None`` if there is nothing to remember."""
    match outcome:
        case Covered():
            return _after_covered(before, outcome)
        case Refused():
            return _after_refused(before, outcome)
        case Changed():
            return _after_changed(before)
        case NotReached():
            return before
        case _:
            assert_never(outcome)


def _after_covered(before: Unfinished | None, outcome: Covered) -> FileProgress:
    expected = before.records if before else 0
    # The last line of defence against doubled rows: a task that began elsewhere has read on top of another state.
    if outcome.start != expected:
        raise StateError(
            f"{outcome.path}: lines {outcome.start} to {outcome.end} were read, but {expected} lines are committed",
            "nothing was written; plan again",
        )
    if outcome.eof:
        return Finished()
    rounds = before.rounds if isinstance(before, RecordsRead) else 0
    return RecordsRead(outcome.end, outcome.size, outcome.etag, rounds + 1)


def _after_refused(before: Unfinished | None, outcome: Refused) -> Failed:
    reason = outcome.reason[:REASON_LIMIT]
    records = before.records if before else 0
    is_same = isinstance(before, Failed) and (before.size, before.etag) == (outcome.size, outcome.etag)
    # A repaired file gets all its attempts again.
    attempts = before.attempts if is_same and isinstance(before, Failed) else 0
    return Failed(attempts + outcome.counts, reason, outcome.size, outcome.etag, records)


def _after_changed(before: Unfinished | None) -> Unfinished | None:
    """Read changed content from the start if no line is committed; otherwise the file fails."""
    if before is None or before.records == 0:
        return before
    attempts = before.attempts + 1 if isinstance(before, Failed) else 1
    reason = f"changed after {before.records} of its lines were committed"
    return Failed(attempts, reason, before.size, before.etag, before.records)


@dataclass(frozen=True, slots=True)
class Initial:
    """Nothing has been finished yet."""


@dataclass(frozen=True, slots=True)
class Active:
    """Files are being read; ``value`` is the greatest watermark path."""

    value: str


@dataclass(frozen=True, slots=True)
class Idle:
    """The last poll found nothing above ``value``, and nothing waits."""

    value: str


WatermarkState = Initial | Active | Idle


@dataclass(frozen=True, slots=True)
class Finished:
    """Every record is committed; kept by name only above a gap."""


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """The first ``records`` lines of the file of this size and etag are committed, in ``rounds`` commits."""

    records: int
    size: int | None
    etag: str | None = None
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class Failed:
    """Reading stopped with ``reason``, ``attempts`` times; the first ``records`` lines are committed."""

    attempts: int
    reason: str
    size: int | None
    etag: str | None = None
    records: int = 0

    @property
    def how_often(self) -> str:
        """``attempts`` as words.

        >>> Failed(1, "bad", 7).how_often, Failed(3, "bad", 7).how_often
        ('once', '3 times')
        """
        return "once" if self.attempts == 1 else f"{self.attempts} times"


Unfinished = RecordsRead | Failed
FileProgress = Finished | RecordsRead | Failed


@dataclass(frozen=True, slots=True)
class Seal:
    """Partitions that end at or before ``below`` are no longer searched.

    ``directories`` is the number of directories below it when it was set: more of them later means that one came late.
    ``None`` if they were not counted.
    """

    below: datetime
    directories: int | None = None


class _FileState:
    """The part that both states share: a watermark, and files by path."""

    __slots__ = ()
    watermark: WatermarkState
    files: Mapping[str, FileProgress]

    @property
    def value(self) -> str | None:
        """The path of the watermark, if any; in a set, the path finished last."""
        return None if isinstance(self.watermark, Initial) else self.watermark.value

    def find_unfinished(self) -> Iterator[tuple[str, Unfinished]]:
        """Yield the files in progress or failed."""
        for path, progress in self.files.items():
            if not isinstance(progress, Finished):
                yield path, progress


@dataclass(frozen=True, slots=True)
class PathState(_FileState):
    """The position of one source with path watermarks. Mappings are never changed in place.

    ``partition_watermarks`` has the greatest contiguously finished name per open partition, ``files`` those finished
    above a gap, in progress or failed, by path. Partitions are sealed if they sort below ``sealed_below`` (from an
    older format) or are older than the ``Seal`` of their non-time prefix.
    """

    watermark: WatermarkState = field(default_factory=Initial)
    partition_watermarks: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, FileProgress] = field(default_factory=dict)
    last_committed_file: str | None = None
    late_window: Mapping[str, LateWindow] = field(default_factory=dict)
    window_lost: bool = False
    sealed: Mapping[str, Seal] = field(default_factory=dict)
    sealed_below: str = ""
    last_update_ts: int = 0
    first_unfinished: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """The smallest name in progress or failed of each partition that has one; derived from ``files``."""

    def __post_init__(self) -> None:
        first: dict[str, str] = {}
        for path, _ in self.find_unfinished():
            partition, name = split(path)
            first[partition] = min(name, first.get(partition, name))
        object.__setattr__(self, "first_unfinished", first)

    @property
    def is_fresh(self) -> bool:
        """True if nothing is recorded: the cold start is still to come."""
        recorded = self.partition_watermarks or self.files or self.sealed or self.sealed_below
        return isinstance(self.watermark, Initial) and not recorded


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the set: ``count`` paths in a file of ``size`` bytes whose content has this ``sha256``."""

    sha256: str
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class SetState(_FileState):
    """The position of one source with a path set. Mappings are never changed in place.

    ``watermark`` says whether files are still found; its value is the greatest path of the last commit that finished
    any. ``files`` are those in progress or failed: they are in no segment.
    """

    watermark: WatermarkState = field(default_factory=Initial)
    segments: tuple[Segment, ...] = ()
    files: Mapping[str, Unfinished] = field(default_factory=dict)
    last_update_ts: int = 0

    @property
    def last_committed_file(self) -> str | None:
        """The same as ``value``: a set has no order in which everything below a path is finished."""
        return self.value

    @property
    def remembered(self) -> int:
        """The number of paths in the set."""
        return sum(segment.count for segment in self.segments)


def greatest_path(partition_watermarks: Mapping[str, str]) -> str | None:
    """Return the greatest watermark over all partitions."""
    if not partition_watermarks:
        return None
    partition = max(partition_watermarks)
    return join(partition, partition_watermarks[partition])


def greater(one: str | None, other: str | None) -> str | None:
    """Return the greater of two paths; ``None`` is below everything."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other, key=sort_key)


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The status of the names of one partition; without ``window`` late files are not looked for."""

    watermark: str | None
    window: LateWindow | None
    progress: Mapping[str, FileProgress]
    remembered: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "remembered", frozenset(self.window.names if self.window else ()))

    @property
    def is_blank(self) -> bool:
        """True if nothing is known, so that every name is new."""
        return self.watermark is None and not self.progress

    def is_above(self, name: str) -> bool:
        """True if ``name`` is greater than the watermark."""
        return self.watermark is None or name > self.watermark

    def is_known(self, name: str) -> bool:
        """True if ``name`` itself is recorded as finished."""
        return name in self.remembered or isinstance(self.progress.get(name), Finished)

    def is_finished(self, name: str) -> bool:
        """True if there is nothing to read: finished, or below everything that is searched."""
        progress = self.progress.get(name)
        if progress is not None:
            return isinstance(progress, Finished)
        if self.is_above(name):
            return False
        if self.window is None or not self.window.reaches(name):
            return True
        return name in self.remembered


def file_statuses(source: PathSource, state: PathState) -> Callable[[str], FileStatus]:
    """Return a function that gives the status of a partition; groups the files of the state once."""
    progress = group_by_partition(state.files)
    looks_back = source.late_files is LateFiles.WINDOW

    def status_of(partition: str) -> FileStatus:
        window = state.late_window.get(partition) if looks_back else None
        return FileStatus(state.partition_watermarks.get(partition), window, progress.get(partition, {}))

    return status_of


def group_by_partition(files: Mapping[str, FileProgress]) -> dict[str, dict[str, FileProgress]]:
    """Group the same entries by partition and then by name."""
    grouped: dict[str, dict[str, FileProgress]] = {}
    for path, progress in files.items():
        partition, name = split(path)
        grouped.setdefault(partition, {})[name] = progress
    return grouped


TRACKING = "tracking"
"""The key of every state but that of path watermarks; its value names the tracking."""

_WINDOW = "late_window"
_KEYS = (
    "schema_version",
    "watermark",
    "partition_watermarks",
    "last_update_ts",
    "source_state",
    "sealed",
    "sealed_below",
    _WINDOW,
    "delta_version",
)


def encode_paths(state: PathState) -> dict[str, object]:
    """Encode the complete state with its late window; keys are sorted, so equal states give equal text."""
    windows: dict[str, object] = {
        partition: {"above": window.above, "names": list(window.names)}
        for partition, window in sorted(state.late_window.items())
    }
    complete: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "watermark": _encode_watermark(state.watermark),
        "partition_watermarks": dict(sorted(state.partition_watermarks.items())),
        "last_update_ts": state.last_update_ts,
        "source_state": _encode_files(state),
        "sealed": {
            prefix: {"below": utc_text(seal.below), "directories": seal.directories}
            for prefix, seal in sorted(state.sealed.items())
        },
        "sealed_below": state.sealed_below,
        _WINDOW: windows,
    }
    # Without the key a reader knows that the window was lost, and not merely empty.
    return drop_window(complete) if state.window_lost and not windows else complete


def drop_window(encoded: Mapping[str, object]) -> dict[str, object]:
    """Drop the late window from an encoded state: the rest is small enough for the table's log."""
    return {key: value for key, value in encoded.items() if key != _WINDOW}


def decode_paths(data: Mapping[str, object], *, source_uri: str = "") -> PathState:
    """Decode a state; ``StateError`` names what it cannot read, and nothing is guessed.

    Also reads the checkpoints that ``adopt`` takes over: ``{}`` is a source that never started, a watermark that is a
    plain string becomes an entry for its partition with everything before it sealed, and full URIs below ``source_uri``
    become relative. A state without a late window gets an empty one that starts at its watermarks.
    """
    if not data:
        return PathState()
    root = Node(data, "state")
    check_version(root)
    if TRACKING in root:
        raise StateError(
            f"the recorded state is one of tracking by a {root.get(TRACKING).text()}, not of watermarks",
            "this needs watermarks; if use_watermark was changed, set it to false again, or give the source another"
            " name and another table, to read everything anew",
        )
    root.only(_KEYS)
    base = source_uri.rstrip("/")

    def relative(path: str) -> str:
        return path.removeprefix(f"{base}/") if base else path

    source_state = root.get("source_state", {}).only(("files", "last_committed_file"))
    last = source_state.get("last_committed_file").optional_text()
    files = source_state.get("files", {}).entries()
    state = PathState(
        watermark=_decode_any_watermark(root.get("watermark"), last, relative),
        partition_watermarks={key: node.text() for key, node in root.get("partition_watermarks", {}).entries()},
        files={relative(path): _decode_progress(node) for path, node in files},
        last_committed_file=None if last is None else relative(last),
        late_window={partition: _decode_window(node) for partition, node in root.get(_WINDOW, {}).entries()},
        window_lost=_WINDOW not in root,
        sealed={prefix: _decode_seal(node) for prefix, node in root.get("sealed", {}).entries()},
        sealed_below=root.get("sealed_below", "").text(),
        last_update_ts=root.get("last_update_ts", 0).integer(),
    )
    return state if "sealed" in root else _migrate(state)


def _decode_any_watermark(node: Node, last: str | None, relative: Callable[[str], str]) -> WatermarkState:
    """Decode a watermark that may be a plain path, or missing beside a last committed file."""
    if node.is_null:
        return Initial() if last is None else Active(relative(last))
    if node.is_text:
        return Active(relative(node.text()))
    watermark = _decode_watermark(node)
    return watermark if isinstance(watermark, Initial) else replace(watermark, value=relative(watermark.value))


def _migrate(state: PathState) -> PathState:
    """Turn one watermark into one of its partition; partitions before that count as finished."""
    if state.value is None or state.partition_watermarks:
        return state
    partition, name = split(state.value)
    return PathState(
        watermark=state.watermark,
        partition_watermarks={partition: name},
        files=state.files,
        last_committed_file=state.last_committed_file,
        window_lost=True,
        # The old watermark was one path for everything: what sorts before it was read, partition by partition.
        sealed_below=partition,
        last_update_ts=state.last_update_ts,
    )


def _decode_watermark(node: Node) -> WatermarkState:
    node.only(("state", "value"))
    match node.get("state").text():
        case "Initial":
            return Initial()
        case "Active":
            return Active(node.get("value").text())
        case "Idle":
            return Idle(node.get("value").text())
        case _:
            raise node.get("state").refusal("Initial, Active or Idle")


def _encode_watermark(watermark: WatermarkState) -> dict[str, object]:
    value = {} if isinstance(watermark, Initial) else {"value": watermark.value}
    return {"state": type(watermark).__name__, **value}


def _encode_files(state: PathState | SetState) -> dict[str, object]:
    return {
        "files": {path: _encode_progress(progress) for path, progress in sorted(state.files.items())},
        "last_committed_file": state.last_committed_file,
    }


def _encode_progress(progress: FileProgress) -> object:
    match progress:
        case Finished():
            return "Finished"
        case RecordsRead(records, size, etag, rounds):
            return {"RecordsRead": records, "size": size, "etag": etag, "rounds": rounds}
        case Failed(attempts, reason, size, etag, records):
            failed = {"attempts": attempts, "reason": reason}
            return {"Failed": failed, "size": size, "etag": etag, "RecordsRead": records}
        case _:
            assert_never(progress)


def _decode_progress(node: Node) -> FileProgress:
    if node.is_text:
        if node.text() != "Finished":
            raise node.refusal('"Finished", RecordsRead or Failed')
        return Finished()
    node.only(("RecordsRead", "Failed", "size", "etag", "rounds"))
    size, etag = node.get("size").optional_integer(), node.get("etag").optional_text()
    failed = node.get("Failed")
    if failed.is_null:
        return RecordsRead(node.get("RecordsRead").integer(), size, etag, node.get("rounds", 1).integer())
    failed.only(("attempts", "reason"))
    records = node.get("RecordsRead", 0).integer()
    return Failed(failed.get("attempts").integer(), failed.get("reason").text(), size, etag, records)


def _decode_seal(node: Node) -> Seal:
    node.only(("below", "directories"))
    return Seal(node.get("below").moment(), node.get("directories").optional_integer())


def _decode_window(node: Node) -> LateWindow:
    node.only(("above", "names"))
    names = tuple(item.text() for item in node.get("names").items())
    return LateWindow(names, node.get("above").optional_text())


_SET_KEYS = ("schema_version", TRACKING, "watermark", "set", "last_update_ts", "source_state", "delta_version")


def encode_set(state: SetState) -> dict[str, object]:
    """Encode the complete state; keys are sorted, so equal states give equal text."""
    return {
        "schema_version": SCHEMA_VERSION,
        TRACKING: "set",
        "watermark": _encode_watermark(state.watermark),
        "set": {
            "files": state.remembered,
            "segments": [
                {"sha256": segment.sha256, "count": segment.count, "size": segment.size} for segment in state.segments
            ],
        },
        "last_update_ts": state.last_update_ts,
        "source_state": _encode_files(state),
    }


def decode_set(data: Mapping[str, object]) -> SetState:
    """Decode a state; ``StateError`` names what it cannot read, and nothing is guessed."""
    root = Node(data, "state")
    check_version(root)
    if TRACKING not in root:
        raise StateError(
            "the recorded state is one of watermarks, and the source is now tracked by a set",
            "set use_watermark: true again; or give the source another name and another table, to read everything anew",
        )
    root.only(_SET_KEYS)
    if root.get(TRACKING).text() != "set":
        raise root.get(TRACKING).refusal('"set"')
    remembered = root.get("set").only(("files", "segments"))
    source_state = root.get("source_state").only(("files", "last_committed_file"))
    state = SetState(
        watermark=_decode_watermark(root.get("watermark")),
        segments=tuple(
            Segment(node.get("sha256").text(), node.get("count").integer(), node.get("size").integer())
            for node in (item.only(("sha256", "count", "size")) for item in remembered.get("segments").items())
        ),
        files={path: _decode_unfinished(node) for path, node in source_state.get("files").entries()},
        last_update_ts=root.get("last_update_ts").integer(),
    )
    # A segment that was cut out of the list by hand would make its files new.
    if remembered.get("files").integer() != state.remembered:
        raise remembered.get("files").refusal(f"{state.remembered}, the sum of the segments")
    return state


def _decode_unfinished(node: Node) -> Unfinished:
    progress = _decode_progress(node)
    if isinstance(progress, Finished):
        raise node.refusal("RecordsRead or Failed")
    return progress
