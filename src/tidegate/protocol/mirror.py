"""The mirror: the newest state in one readable file per source, for people, dashboards and ``status``.

It holds the state's own fields on top (the checkpoint of the seed documents) and, under ``tidegate``, whose
position it shows. It follows the commit and may be older than the table; correctness reads only whether it
exists.

Reads the mirror and the documents that are noted as winners; loads no Delta library and no snapshot. What it
shows was true at some commit; only OPEN says whether it is the newest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.errors import ObjectMissing
from tidegate.failpoints import failpoint
from tidegate.protocol import documents
from tidegate.protocol.change import State
from tidegate.protocol.identity import SourceKey

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Mirror:
    """One source's newest mirrored state; ``delta_version`` is the table version its commit was based on."""

    key: SourceKey
    version: int
    attempt: str
    table_version: int
    delta_version: int
    state: State
    polls: int
    written_at: str
    letters: int = 0

    def to_bytes(self) -> bytes:
        """The file's content, indented for people."""
        about = {
            "pipeline": self.key.pipeline,
            "source": self.key.source,
            "version": self.version,
            "attempt": self.attempt,
            "table_version": self.table_version,
            "polls": self.polls,
            "written_at": self.written_at,
            "open_letters": self.letters,
        }
        import orjson

        content = {**self.state, "delta_version": self.delta_version, "tidegate": about}
        return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def from_bytes(cls, content: bytes) -> Mirror:
        """The content read back; ``ValueError``, ``KeyError`` or ``TypeError`` when it is not a mirror."""
        data: dict[str, Any] = json.loads(content)
        about = data.pop("tidegate")
        return cls(
            SourceKey(about["pipeline"], about["source"]),
            int(about["version"]),
            str(about["attempt"]),
            int(about["table_version"]),
            int(data.pop("delta_version")),
            data,
            int(about["polls"]),
            str(about["written_at"]),
            int(about.get("open_letters", 0)),
        )


def write_mirror(store: ObjectStore, mirror: Mirror, *, legacy: bool = False) -> None:
    """Replace the mirror, in one step; with ``legacy`` also at the place where Blizzard kept its own."""
    content = mirror.to_bytes()
    failpoint("state.mirror.before")
    store.put(mirror.key.mirror, content)
    if legacy:
        store.put(mirror.key.legacy_mirror, content)
    failpoint("state.mirror.after")


def read_mirror(store: ObjectStore, key: SourceKey) -> Mirror | None:
    """The mirror, None when it is missing, damaged or another source's."""
    try:
        mirror = Mirror.from_bytes(store.get(key.mirror))
    except (ObjectMissing, ValueError, KeyError, TypeError, AttributeError):
        return None
    return mirror if mirror.key == key else None


def is_ours(store: ObjectStore, path: str, key: SourceKey) -> bool:
    """Whether a mirror exists and is not plainly that of another source (``a_b``/``c`` and ``a``/``b_c``
    share a name).
    """
    try:
        content = store.get(path)
    except ObjectMissing:
        return False
    try:
        return Mirror.from_bytes(content).key == key
    except (ValueError, KeyError, TypeError, AttributeError):
        return True


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
