"""The state of a set as JSON, and back; anything that is not one is refused.

``{"schema_version": 1, "tracking": "set", "watermark": {"state": "Active", "value": …}, "set": {"files": …,
"segments": [{"sha256": …, "count": …, "size": …}]}, "last_update_ts": …, "source_state": {"files": {path:
{"RecordsRead": …} | {"Failed": …}}, "last_committed_file": …}}``
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.errors import StateError
from tidegate.watermarks.codec import TRACKING, decoded_progress, decoded_watermark, encoded_progress, encoded_watermark
from tidegate.watermarks.json_shape import SCHEMA_VERSION, Node, check_version
from tidegate.watermarks.path_set import Segment, SetState
from tidegate.watermarks.path_state import Finished, Unfinished

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
