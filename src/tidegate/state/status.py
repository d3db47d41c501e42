"""The newest known state of a source without opening the table: for ``tidegate status``, in milliseconds.

Reads the mirror and the documents that are noted as winners; loads no Delta library and no snapshot. What it
shows was true at some commit; only OPEN says whether it is the newest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.state import documents
from tidegate.state.files import State
from tidegate.state.identity import SourceKey
from tidegate.state.mirror import Mirror, read_mirror

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded position; ``shown_by`` is ``mirror`` or ``document``, ``table_version`` -1 where it is not
    noted.
    """

    version: int
    state: State
    table_version: int
    written_at: str
    polls: int
    shown_by: str
    letters: int = 0


def read_recorded(store: ObjectStore, key: SourceKey) -> Recorded | None:
    """The newest recorded position of ``key``, None when nothing was recorded yet."""
    mirror = read_mirror(store, key)
    known = 0 if mirror is None else mirror.version
    winners = [name for name in documents.names(store, key, known + 1) if name.ending == "won"]
    for name in sorted(winners, key=lambda name: name.version, reverse=True):
        found = documents.read(store, key, name.version, name.attempt)
        if found is not None and found.document is not None:
            note = documents.read_won(store, key, name.version, name.attempt)
            table_version = -1 if note is None else note.table_version
            document = found.document
            return Recorded(
                document.version,
                document.state,
                table_version,
                document.written_at,
                0,
                "document",
                document.letters,
            )
    return None if mirror is None else _mirrored(mirror)


def _mirrored(mirror: Mirror) -> Recorded:
    return Recorded(
        mirror.version,
        mirror.state,
        mirror.table_version,
        mirror.written_at,
        mirror.polls,
        "mirror",
        mirror.letters,
    )
