"""One line of the ledger: what one position of a source brought into the table."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.errors import StateError
from tidegate.state.documents import Document, Parent, Won
from tidegate.state.files import Coverage
from tidegate.watermarks import unit_codec
from tidegate.watermarks.unit_state import watermark_text

PASS_OVER_NOTHING = frozenset(
    {
        "run",
        "commit",
        "reconcile",
        "replay",
        "dlq retry",
        "dlq discard",
        "recover",
        "watermark reset",
        "units reset",
        "units retry",
        "schema replace",
    }
)
"""What makes commits that finish nothing but what they, or commits before them, cover."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The winner of one position.

    ``written_at`` is ISO 8601 in UTC, just before the commit. ``table_version`` is None where it was not noted.
    ``data_files`` are paths relative to the table. ``watermark_state`` and ``watermark`` are what the commit left.
    ``gap`` is None, or says why nothing but the position is known: then what it covered is unknown, not empty.
    """

    version: int
    attempt: str
    action: str
    written_at: str
    table_version: int | None
    rows: int
    coverage: tuple[Coverage, ...]
    data_files: tuple[str, ...]
    gap: str | None = None
    sha256: str | None = None
    parent: Parent | None = None
    watermark_state: str | None = None
    watermark: str | None = None
    dead_letter_files: tuple[str, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether a command moved the position over files that nothing covers: only its document says over which."""
        return self.gap is None and self.action not in PASS_OVER_NOTHING


def from_document(document: Document, sha256: str, note: Won | None) -> LedgerEntry:
    """The entry of a winner's document and the note beside it; ``ValueError`` when its time cannot be read."""
    state, value = _watermark(document.state)
    return LedgerEntry(
        version=document.version,
        attempt=document.attempt,
        action=document.action,
        written_at=datetime.fromisoformat(document.written_at).astimezone(UTC).isoformat(),
        table_version=None if note is None else note.table_version,
        rows=document.rows,
        coverage=document.coverage,
        data_files=tuple(file.path for file in document.data_files) or (() if note is None else note.added),
        sha256=sha256,
        parent=document.parent,
        watermark_state=state,
        watermark=value,
        dead_letter_files=tuple(file.path for file in document.dead_letter_files),
    )


def _watermark(state: Mapping[str, object]) -> tuple[str | None, str | None]:
    """The state's name and its path, as far as that kind of state has them."""
    if state.get("kind") == unit_codec.KIND:
        with suppress(StateError):
            return "Active", watermark_text(unit_codec.decode(state))
    match state.get("watermark"):
        case {"state": str(name), "value": str(value)}:
            return name, value
        case {"state": str(name)}:
            return name, None
        case str(text):
            return "Active", text
        case _:
            return None, None


def gap(version: int, reason: str, attempt: str = "", sha256: str | None = None) -> LedgerEntry:
    """The entry of a position that is known to be committed, and nothing else of it is known."""
    return LedgerEntry(version, attempt, "unknown", "", None, 0, (), (), gap=reason, sha256=sha256)
