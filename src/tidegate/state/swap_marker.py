"""Markers of a Parquet destination: the log that a folder of plain files does not have.

``_tidegate/swaps/{number:020d}.json`` says which files come and go, and which watermark of which dataflow that makes
true; it is created only if nobody took the number, and from then on the change counts. ``….done`` beside it says that
the files are as it says. The newest marker knows the watermarks of all dataflows of the place, so older ones can go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.errors import ObjectMissing, StateError
from tidegate.state.documents import check_schema_version, encoded
from tidegate.state.identity import ROOT

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

DIRECTORY = f"{ROOT}/swaps"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Landing:
    """How far one dataflow is in this place: the marker that said so, its watermark and the one before.

    ``by_hand``: a person said so. ``written_at`` is when.
    """

    number: int
    attempt: str
    text: str
    previous: str | None
    by_hand: bool = False
    written_at: str = ""

    @property
    def run(self) -> str:
        """The marker's name without its ending, as the provider keeps it."""
        return f"{self.number:020d}-{self.attempt}"

    def to_json(self) -> dict[str, object]:
        """As it is stored."""
        return {
            "number": self.number,
            "attempt": self.attempt,
            "text": self.text,
            "previous": self.previous,
            "by_hand": self.by_hand,
            "written_at": self.written_at,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Landing:
        """The stored form read back."""
        previous = data["previous"]
        return cls(
            number=int(data["number"]),
            attempt=str(data["attempt"]),
            text=str(data["text"]),
            previous=None if previous is None else str(previous),
            by_hand=bool(data["by_hand"]),
            written_at=str(data.get("written_at", "")),
        )


@dataclass(frozen=True, slots=True)
class Move:
    """One file that becomes visible: a copy of ``source`` at ``target``, so many bytes."""

    source: str
    target: str
    size: int


@dataclass(frozen=True, slots=True)
class Marker:
    """One change of the place: ``moves`` come, ``removes`` go, then the work area ``work`` is not needed any more."""

    number: int
    attempt: str
    dataflow_id: str
    action: str
    written_at: str
    landings: Mapping[str, Landing]
    moves: tuple[Move, ...] = ()
    removes: tuple[str, ...] = ()
    work: str | None = None

    @property
    def path(self) -> str:
        """Where it lies."""
        return marker_path(self.number)

    @property
    def done_path(self) -> str:
        """What lies beside it once the files are as it says."""
        return f"{DIRECTORY}/{self.number:020d}.done"

    def to_bytes(self) -> bytes:
        """The object's content."""
        return encoded(
            {
                "schema_version": SCHEMA_VERSION,
                "number": self.number,
                "attempt": self.attempt,
                "dataflow_id": self.dataflow_id,
                "action": self.action,
                "written_at": self.written_at,
                "landings": {name: landing.to_json() for name, landing in self.landings.items()},
                "moves": [{"from": move.source, "to": move.target, "size": move.size} for move in self.moves],
                "removes": list(self.removes),
                "work": self.work,
            }
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> Marker:
        """The content read back; ``ValueError``, ``KeyError`` or ``TypeError`` when it is not a marker."""
        data = json.loads(content)
        check_schema_version(data, f"marker {data['number']}")
        work = data["work"]
        return cls(
            number=int(data["number"]),
            attempt=str(data["attempt"]),
            dataflow_id=str(data["dataflow_id"]),
            action=str(data["action"]),
            written_at=str(data["written_at"]),
            landings={str(name): Landing.from_json(each) for name, each in data["landings"].items()},
            moves=tuple(Move(str(each["from"]), str(each["to"]), int(each["size"])) for each in data["moves"]),
            removes=tuple(map(str, data["removes"])),
            work=None if work is None else str(work),
        )


def marker_path(number: int) -> str:
    """Where the marker of that number lies."""
    return f"{DIRECTORY}/{number:020d}.json"


@dataclass(frozen=True, slots=True)
class Markers:
    """The markers of a place as they were listed."""

    newest: int = 0
    done: bool = True
    paths: tuple[str, ...] = field(default=(), repr=False)

    @property
    def outdated(self) -> tuple[str, ...]:
        """What older changes left."""
        return tuple(path for path in self.paths if int(_stem(path)) < self.newest)


def listed(store: ObjectStore) -> Markers:
    """The numbers that are taken; the newest one is never removed."""
    paths = tuple(info.path for info in store.list(DIRECTORY) if _stem(info.path).isdigit())
    newest = max((int(_stem(path)) for path in paths if path.endswith(".json")), default=0)
    return Markers(newest, not newest or f"{DIRECTORY}/{newest:020d}.done" in paths, paths)


def read(store: ObjectStore, number: int) -> Marker | None:
    """The marker of that number; None when it is gone, since there are newer ones."""
    path = marker_path(number)
    try:
        content = store.get(path)
    except ObjectMissing:
        return None
    try:
        marker = Marker.from_bytes(content)
    except (ValueError, KeyError, TypeError, AttributeError):
        marker = None
    if marker is None or marker.number != number:
        raise StateError(
            f"{store.location.uri}/{path} is damaged: how far the destination is written cannot be told",
            "put it back from a backup; or write into a new place, to read everything anew",
        )
    return marker


def _stem(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0]
