"""The states of file sources as JSON, and back; older formats are migrated, anything unknown is refused.

Watermarks: ``{"schema_version": 1, "watermark": {"state": "Active", "value": …}, "partition_watermarks": {partition:
name}, "last_update_ts": …, "source_state": {"files": {path: "Finished" | {"RecordsRead": n, "size": …,
"etag": …} | {"Failed": {"attempts": …, "reason": …}, …}}, "last_committed_file": …}, "sealed": {prefix:
{"below": …, "directories": …}}, "sealed_below": …, "late_window": {partition: {"above": …, "names": […]}}}``

Sets: ``{"schema_version": 1, "tracking": "set", "watermark": {"state": "Active", "value": …}, "set": {"files": …,
"segments": [{"sha256": …, "count": …, "size": …}]}, "last_update_ts": …, "source_state": {"files": {path:
{"RecordsRead": …} | {"Failed": …}}, "last_committed_file": …}}``
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC
from typing import assert_never

from tidegate.core.files.paths import split
from tidegate.core.files.state import (
    Active,
    Failed,
    FileProgress,
    Finished,
    Idle,
    Initial,
    LateWindow,
    PathState,
    RecordsRead,
    Seal,
    Segment,
    SetState,
    Unfinished,
    WatermarkState,
)
from tidegate.core.json_shape import SCHEMA_VERSION, Node, check_version
from tidegate.errors import StateError

TRACKING = "tracking"
"""Marks a state that is not one of path watermarks, and says of what it is."""

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


def encode(state: PathState) -> dict[str, object]:
    """The complete state, late window included; keys are sorted, so that equal states give equal text."""
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
        "sealed": {prefix: _encode_seal(seal) for prefix, seal in sorted(state.sealed.items())},
        "sealed_below": state.sealed_below,
        _WINDOW: windows,
    }
    return embedded(complete) if state.window_lost and not windows else complete


def embedded(encoded: Mapping[str, object]) -> dict[str, object]:
    """The encoded state without its late window: small enough for the log of the table."""
    return {key: value for key, value in encoded.items() if key != _WINDOW}


def decode(data: Mapping[str, object], *, source_uri: str = "") -> PathState:
    """The state in ``data``; ``StateError`` names what is not understood, and nothing is guessed.

    Older formats: ``{}`` is a source that never started; a watermark that is a plain string, or that stands
    without partitions, becomes an entry for its partition with everything before sealed; full URIs below
    ``source_uri`` are made relative. A state without a late window gets an empty one that starts at its
    watermarks.
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
        watermark=_old_watermark(root.get("watermark"), last, relative),
        partition_watermarks={key: node.text() for key, node in root.get("partition_watermarks", {}).entries()},
        files={relative(path): _decode_progress(node) for path, node in files},
        last_committed_file=None if last is None else relative(last),
        late_window={partition: _decode_window(node) for partition, node in root.get(_WINDOW, {}).entries()},
        window_lost=_WINDOW not in root,
        sealed={prefix: _decode_seal(node) for prefix, node in root.get("sealed", {}).entries()},
        sealed_below=root.get("sealed_below", "").text(),
        last_update_ts=root.get("last_update_ts", 0).integer(),
    )
    return state if "sealed" in root else _migrated(state)


def _old_watermark(node: Node, last: str | None, relative: Callable[[str], str]) -> WatermarkState:
    """The watermark of any format: once it was a plain path, or missing beside the last committed file."""
    if node.is_null:
        return Initial() if last is None else Active(relative(last))
    if node.is_text:
        return Active(relative(node.text()))
    found = _decode_watermark(node)
    return found if isinstance(found, Initial) else replace(found, value=relative(found.value))


def _migrated(state: PathState) -> PathState:
    """An older format: with one watermark for everything, what lies before its partition is done with."""
    if state.value is None or state.partition_watermarks:
        return state
    partition, name = split(state.value)
    return PathState(
        watermark=state.watermark,
        partition_watermarks={partition: name},
        files=state.files,
        last_committed_file=state.last_committed_file,
        window_lost=True,
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
        "files": {path: _encode_progress(each) for path, each in sorted(state.files.items())},
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


def _encode_seal(seal: Seal) -> dict[str, object]:
    below = seal.below.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return {"below": below, "directories": seal.directories}


def _decode_seal(node: Node) -> Seal:
    node.only(("below", "directories"))
    return Seal(node.get("below").moment(), node.get("directories").optional_integer())


def _decode_window(node: Node) -> LateWindow:
    node.only(("above", "names"))
    names = tuple(each.text() for each in node.get("names").items())
    return LateWindow(names, node.get("above").optional_text())


_SET_KEYS = ("schema_version", TRACKING, "watermark", "set", "last_update_ts", "source_state", "delta_version")


def encode_set(state: SetState) -> dict[str, object]:
    """The complete state; keys are sorted, so that equal states give equal text."""
    return {
        "schema_version": SCHEMA_VERSION,
        TRACKING: "set",
        "watermark": _encode_watermark(state.watermark),
        "set": {
            "files": state.remembered,
            "segments": [{"sha256": each.sha256, "count": each.count, "size": each.size} for each in state.segments],
        },
        "last_update_ts": state.last_update_ts,
        "source_state": _encode_files(state),
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
    root.only(_SET_KEYS)
    if root.get(TRACKING).text() != "set":
        raise root.get(TRACKING).refusal('"set"')
    remembered = root.get("set").only(("files", "segments"))
    source_state = root.get("source_state").only(("files", "last_committed_file"))
    state = SetState(
        watermark=_decode_watermark(root.get("watermark")),
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
    progress = _decode_progress(node)
    if isinstance(progress, Finished):
        raise node.refusal("RecordsRead or Failed")
    return progress
