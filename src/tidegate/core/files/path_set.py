"""Tracking by a set of paths: every finished path is remembered, so names may be anything and arrive in any order.

The state holds references to the set, not the set: segments, each an immutable file with the sha256 that is
also its name, and beside them the files in progress or failed. Every commit adds one segment with the paths it
finished; as soon as eight segments are of about the same size they become one (``segments_to_merge``), so there
are few of them and each path is written again only a handful of times, however many there are.

``{"schema_version": 1, "tracking": "set", "watermark": {"state": "Active", "value": …}, "set": {"files": …,
"segments": [{"sha256": …, "count": …, "size": …}]}, "last_update_ts": …, "source_state": {"files": {path:
{"RecordsRead": …} | {"Failed": …}}, "last_committed_file": …}}``
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tidegate.core.files.codec import TRACKING, decoded_progress, decoded_watermark, encoded_progress, encoded_watermark
from tidegate.core.files.paths import SourceFile, sort_key
from tidegate.core.files.state import (
    Active,
    Covered,
    FileOutcome,
    Finished,
    Idle,
    Initial,
    Unfinished,
    WatermarkState,
    progress_after,
)
from tidegate.core.json_shape import SCHEMA_VERSION, Node, check_version
from tidegate.errors import StateError
from tidegate.specs.project import PathSource

ALIKE = 8
"""So many segments of about the same size are merged into one."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the set: ``count`` paths in a file of ``size`` bytes whose content has this ``sha256``."""

    sha256: str
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class SetState:
    """The position of one source that is tracked by a set. Mappings are never changed in place.

    ``watermark`` says whether files are still found; its value is the greatest path of the last commit that
    finished any. ``files`` are those in progress or failed: they are in no segment.
    """

    watermark: WatermarkState = field(default_factory=Initial)
    segments: tuple[Segment, ...] = ()
    files: Mapping[str, Unfinished] = field(default_factory=dict)
    last_update_ts: int = 0

    @property
    def value(self) -> str | None:
        """The path that was finished last, if there is one."""
        return None if isinstance(self.watermark, Initial) else self.watermark.value

    @property
    def last_committed_file(self) -> str | None:
        """The same: a set has no order in which everything below a path is finished."""
        return self.value

    @property
    def remembered(self) -> int:
        """How many paths are in the set."""
        return sum(segment.count for segment in self.segments)

    def unfinished(self) -> Iterator[tuple[str, Unfinished]]:
        """The files in progress or failed."""
        yield from self.files.items()


@dataclass(frozen=True, slots=True)
class SetAdvance:
    """A step of a set; without ``changed`` there is nothing to commit.

    ``finished`` are the files that the next segment has to hold, which ``state`` does not refer to yet.
    ``full`` means that as many files failed as may be: stop reading and plan again.
    """

    state: SetState
    finished: tuple[SourceFile, ...] = ()
    changed: bool = False
    full: bool = False
    advanced: tuple[tuple[str, str | None, str], ...] = ()
    sealed: tuple[str, ...] = ()


def advance_set(
    source: PathSource,
    state: SetState,
    listed: Sequence[SourceFile],
    outcomes: Sequence[FileOutcome],
    now: datetime,
    *,
    complete: bool,
) -> SetAdvance:
    """The state once the rows of ``outcomes`` are committed and their segment is written.

    ``listed`` are the files that the plan saw and that are in no segment, all of them if ``complete``.
    ``StateError`` if an outcome does not begin where the recorded progress ends.
    """
    files = dict(state.files)
    finished: dict[str, SourceFile] = {}
    for outcome in outcomes:
        if outcome.path in finished:
            continue
        after = progress_after(files.get(outcome.path), outcome)
        if isinstance(after, Finished) and isinstance(outcome, Covered):
            files.pop(outcome.path, None)
            finished[outcome.path] = SourceFile(outcome.path, outcome.size, outcome.etag)
        elif after is not None and not isinstance(after, Finished):
            files[outcome.path] = after
    if complete:
        files = _without_gone(files, {file.path for file in listed})
    if not finished and files == state.files:
        return SetAdvance(state, full=_is_full(source, state))
    last = max(finished, key=sort_key, default=None)
    after_step = replace(
        state,
        watermark=state.watermark if last is None else Active(last),
        files=files,
        last_update_ts=int(now.timestamp()),
    )
    return SetAdvance(after_step, tuple(finished.values()), changed=True, full=_is_full(source, after_step))


def idle_set(state: SetState, listed_any: bool) -> SetState:
    """The state after a poll that found nothing to read; files in progress or failed still wait."""
    if isinstance(state.watermark, Initial) or (state.files and listed_any):
        return state
    return replace(state, watermark=Idle(state.watermark.value))


def segments_to_merge(segments: Sequence[Segment], added: int) -> tuple[Segment, ...]:
    """The segments that go into the new one together with ``added`` paths.

    Those are the ones that are not larger, as soon as there are enough of them, and again what has then about
    the size of the result. So there are never more than seven of one size.

    >>> few = [Segment(str(n), 1, 0) for n in range(6)]
    >>> len(segments_to_merge(few, 1)), len(segments_to_merge([*few, Segment("6", 1, 0)], 1))
    (0, 7)
    """
    merged: list[Segment] = []
    rest, total = list(segments), added
    while True:
        alike = [segment for segment in rest if _rank(segment.count) <= _rank(total)]
        if len(alike) < ALIKE - 1:
            return tuple(merged)
        merged += alike
        rest = [segment for segment in rest if segment not in alike]
        total += sum(segment.count for segment in alike)


def with_segment(state: SetState, merged: Sequence[Segment], new: Segment) -> SetState:
    """The state that refers to ``new`` in place of what was merged into it."""
    return replace(state, segments=(*(each for each in state.segments if each not in merged), new))


def _rank(count: int) -> int:
    """Counts of one rank differ by less than a factor of ``ALIKE``."""
    return max(0, count.bit_length() - 1) // (ALIKE.bit_length() - 1)


def _is_full(source: PathSource, state: SetState) -> bool:
    return len(state.files) >= source.max_islands


def _without_gone(files: Mapping[str, Unfinished], listed: set[str]) -> dict[str, Unfinished]:
    """Without unfinished files that were removed at the source, unless some of their lines are committed."""
    return {path: progress for path, progress in files.items() if progress.records or path in listed}


_KEYS = ("schema_version", TRACKING, "watermark", "set", "last_update_ts", "source_state", "delta_version")


def encode_set(state: SetState) -> dict[str, object]:
    """The complete state; keys are sorted, so that equal states give equal text."""
    return {
        "schema_version": SCHEMA_VERSION,
        TRACKING: "set",
        "watermark": encoded_watermark(state.watermark),
        "set": {
            "files": state.remembered,
            "segments": [{"sha256": each.sha256, "count": each.count, "size": each.size} for each in state.segments],
        },
        "last_update_ts": state.last_update_ts,
        "source_state": {
            "files": {path: encoded_progress(each) for path, each in sorted(state.files.items())},
            "last_committed_file": state.last_committed_file,
        },
    }


def decode_set(data: Mapping[str, object]) -> SetState:
    """The state in ``data``; ``StateError`` names what is not understood, and nothing is guessed."""
    root = Node(data, "state")
    check_version(root)
    if TRACKING not in root:
        raise StateError(
            "the recorded state is one of watermarks, and the source is now tracked by a set",
            "set use_watermark: true again; or give the source another name and another table, to read everything anew",
        )
    root.only(_KEYS)
    if root.get(TRACKING).text() != "set":
        raise root.get(TRACKING).refusal('"set"')
    remembered = root.get("set").only(("files", "segments"))
    source_state = root.get("source_state").only(("files", "last_committed_file"))
    state = SetState(
        watermark=decoded_watermark(root.get("watermark")),
        segments=tuple(_segment(node) for node in remembered.get("segments").items()),
        files={path: _unfinished(node) for path, node in source_state.get("files").entries()},
        last_update_ts=root.get("last_update_ts").integer(),
    )
    if remembered.get("files").integer() != state.remembered:
        raise remembered.get("files").refusal(f"{state.remembered}, the sum of the segments")
    return state


def _segment(node: Node) -> Segment:
    node.only(("sha256", "count", "size"))
    return Segment(node.get("sha256").text(), node.get("count").integer(), node.get("size").integer())


def _unfinished(node: Node) -> Unfinished:
    progress = decoded_progress(node)
    if isinstance(progress, Finished):
        raise node.refusal("RecordsRead or Failed")
    return progress
