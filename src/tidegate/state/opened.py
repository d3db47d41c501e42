"""A position that was opened: what is known about one source between reading its state and committing the
next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.state.documents import Parent
from tidegate.state.files import State
from tidegate.state.identity import Identity, SourceKey

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Opened:
    """The position ``version`` of a source, and the table as it was then.

    ``state`` is None on a first run; with ``cold_start`` it is the one that a first filtered plan fixed.
    ``from_log``: the document is gone and the state comes from the log, without its late window.
    ``table_version`` is -1 and ``table_id`` and ``schema_json`` are None without a table. ``committed_at`` is
    the table version of the commit that made this position, -1 where there is none or it cannot be told any
    more. ``unseen`` are log entries after it that were cleaned up before anyone looked for a RESTORE.
    ``unpaid`` are debts that could not be paid yet; the next commit pays them first. ``letters`` is how many dead
    letters are open. ``needs_frames`` says why the table is written by the DataFrame lane; nothing for the Arrow lane.
    ``rows`` is how many rows the commit made visible, where this run made it.
    """

    key: SourceKey
    identity: Identity
    version: int
    state: State | None
    table_version: int
    table_id: str | None
    schema_json: str | None
    partition_columns: tuple[str, ...] = ()
    committed_at: int = -1
    delta_version: int = -1
    parent: Parent | None = None
    from_log: bool = False
    cold_start: bool = False
    data_files: frozenset[str] = frozenset()
    debts: tuple[Mapping[str, Any], ...] = ()
    unseen: tuple[int, int] | None = None
    unpaid: bool = False
    letters: int = 0
    warnings: tuple[str, ...] = ()
    needs_frames: tuple[str, ...] = ()
    rows: int = 0

    @property
    def first_run(self) -> bool:
        """Whether nothing of this source was ever committed."""
        return self.version == 0

    def schema(self) -> pa.Schema | None:
        """The table's columns when it was opened, None without a table."""
        from tidegate.state.arrow import arrow_schema

        return None if self.schema_json is None else arrow_schema(self.schema_json)
