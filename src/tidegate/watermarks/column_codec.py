"""The state of a column source as JSON, and back; anything that is not one is refused.

``{"schema_version": 1, "kind": "column", "watermark": text, "update_ts": seconds}``. The text is the serializer's, the
same that providers keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from tidegate.errors import StateError, WatermarkError
from tidegate.watermarks.column_state import ColumnState
from tidegate.watermarks.json_shape import SCHEMA_VERSION, Node, check_version
from tidegate.watermarks.json_shape import is_newer as is_newer

KIND = "column"
_KEYS = ("schema_version", "kind", "watermark", "update_ts", "delta_version")


def encode(state: ColumnState) -> dict[str, object]:
    """The complete state, small enough for the log of the table."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "watermark": state.text(),
        "update_ts": 0 if state.updated is None else int(state.updated.timestamp()),
    }


def decode(data: Mapping[str, object]) -> ColumnState:
    """The state in ``data``; ``StateError`` names what is not understood, and nothing is guessed."""
    if not data:
        return ColumnState()
    root = Node(data, "state")
    check_version(root)
    if "kind" not in root or root.get("kind").text() != KIND:
        raise StateError(
            "the recorded state is not one of watermark columns, and the source is now followed by columns",
            "give the source its former type again; or another name and another table, to read everything anew",
        )
    root.only(_KEYS)
    seconds = root.get("update_ts").integer()
    try:
        updated = datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (OverflowError, ValueError, OSError):
        raise root.get("update_ts").refusal("seconds since 1970") from None
    try:
        return ColumnState.of_text(root.get("watermark").text(), updated)
    except WatermarkError as error:
        raise StateError(f"state.watermark: {error.problem}", error.remedy) from error
