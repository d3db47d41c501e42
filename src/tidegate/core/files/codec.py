"""The state of a file source as JSON, and back; older formats are migrated, anything unknown is refused.

``{"schema_version": 1, "watermark": {"state": "Active", "value": …}, "partition_watermarks": {partition:
name}, "last_update_ts": …, "source_state": {"files": {path: "Finished" | {"RecordsRead": n, "size": …,
"etag": …} | {"Failed": {"attempts": …, "reason": …}, …}}, "last_committed_file": …}, "sealed": {prefix:
{"below": …, "directories": …}}, "sealed_below": …, "late_window": {partition: {"above": …, "names": […]}}}``
"""

from __future__ import annotations

from collections.abc import Mapping
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
        "watermark": encoded_watermark(state.watermark),
        "partition_watermarks": dict(sorted(state.partition_watermarks.items())),
        "last_update_ts": state.last_update_ts,
        "source_state": {
            "files": {path: encoded_progress(each) for path, each in sorted(state.files.items())},
            "last_committed_file": state.last_committed_file,
        },
        "sealed": {prefix: _encoded_seal(seal) for prefix, seal in sorted(state.sealed.items())},
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
    return _Decoding(root, source_uri.rstrip("/")).state()


class _Decoding:
    """Reads one document; ``base`` is the URI that older formats put before every path."""

    def __init__(self, root: Node, base: str) -> None:
        self._root = root
        self._base = f"{base}/" if base else ""

    def state(self) -> PathState:
        root = self._root
        source_state = root.get("source_state", {}).only(("files", "last_committed_file"))
        last = source_state.get("last_committed_file").optional_text()
        files = source_state.get("files", {}).entries()
        entries = root.get("partition_watermarks", {}).entries()
        window = root.get(_WINDOW, {}).entries()
        state = PathState(
            watermark=self._watermark(root.get("watermark"), last),
            partition_watermarks={key: node.text() for key, node in entries},
            files={self._relative(path): decoded_progress(node) for path, node in files},
            last_committed_file=None if last is None else self._relative(last),
            late_window={partition: _window(node) for partition, node in window},
            window_lost=_WINDOW not in root,
            sealed={prefix: _seal(node) for prefix, node in root.get("sealed", {}).entries()},
            sealed_below=root.get("sealed_below", "").text(),
            last_update_ts=root.get("last_update_ts", 0).integer(),
        )
        return state if "sealed" in root else _migrated(state)

    def _watermark(self, node: Node, last: str | None) -> WatermarkState:
        if node.is_null:
            return Initial() if last is None else Active(self._relative(last))
        if node.is_text:
            return Active(self._relative(node.text()))
        found = decoded_watermark(node)
        return found if isinstance(found, Initial) else replace(found, value=self._relative(found.value))

    def _relative(self, path: str) -> str:
        return path.removeprefix(self._base)


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


def decoded_watermark(node: Node) -> WatermarkState:
    """The state machine's state and its path."""
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


def encoded_watermark(watermark: WatermarkState) -> dict[str, object]:
    """The same as JSON."""
    match watermark:
        case Initial():
            return {"state": "Initial"}
        case Active(value):
            return {"state": "Active", "value": value}
        case Idle(value):
            return {"state": "Idle", "value": value}
        case _:
            assert_never(watermark)


def encoded_progress(progress: FileProgress) -> object:
    """What is recorded about one file, as JSON."""
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


def decoded_progress(node: Node) -> FileProgress:
    """The same read back."""
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


def _encoded_seal(seal: Seal) -> dict[str, object]:
    below = seal.below.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return {"below": below, "directories": seal.directories}


def _seal(node: Node) -> Seal:
    node.only(("below", "directories"))
    return Seal(node.get("below").moment(), node.get("directories").optional_integer())


def _window(node: Node) -> LateWindow:
    node.only(("above", "names"))
    names = tuple(each.text() for each in node.get("names").items())
    return LateWindow(names, node.get("above").optional_text())
