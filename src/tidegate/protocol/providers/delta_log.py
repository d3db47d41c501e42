"""The Delta log as a metadata provider: the watermark is in the commit that holds its rows.

Saving one directly makes a commit without rows, by the same protocol as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from tidegate.core.columns.state import ColumnState, decode_columns, encode_columns
from tidegate.errors import StateError
from tidegate.protocol.change import Change
from tidegate.protocol.position import Position, utc_now
from tidegate.protocol.providers.base import BaseMetadataProvider, checked_text, insist, moved
from tidegate.protocol.store import PositionStore

ACTION = "watermark set"


class DeltaLogMetadataProvider(BaseMetadataProvider):
    """``positions`` gives the position of a dataflow in its table. The history is that of the table's positions."""

    def __init__(self, positions: Callable[[str], PositionStore], now: Callable[[], datetime] = utc_now) -> None:
        self._positions = positions
        self._now = now

    def get_watermark(self, dataflow_id: str) -> str | None:
        return _text(self._positions(dataflow_id).open(read_only=True))

    def update_watermark(
        self, dataflow_id: str, watermark_value: str, *, job_id: str | None, dataflow_run_id: str | None
    ) -> None:
        positions = self._positions(dataflow_id)
        insist(dataflow_id, lambda: self._commit(positions, positions.open(), watermark_value))

    def compare_and_set(
        self,
        dataflow_id: str,
        expected: str | None,
        watermark_value: str,
        *,
        job_id: str | None,
        dataflow_run_id: str | None,
    ) -> None:
        positions = self._positions(dataflow_id)
        opened = positions.open()
        if _text(opened) != expected:
            raise moved(dataflow_id)
        self._commit(positions, opened, watermark_value)

    def _commit(self, positions: PositionStore, opened: Position, text: str) -> None:
        if opened.table_version < 0:
            raise StateError(
                f"{opened.key}: there is no table yet, so its log cannot keep a watermark",
                "run the pipeline first, or create the table",
            )
        state = encode_columns(ColumnState.of_text(checked_text(text), self._now()))
        positions.commit(opened, Change(state=state, embedded=state, action=ACTION))


def _text(opened: Position) -> str | None:
    """The watermark of a position as providers keep it, None where nothing was ever committed."""
    return None if opened.first_run or opened.state is None else decode_columns(opened.state).text()
