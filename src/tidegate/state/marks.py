"""Marks: what a commit says about itself inside the log, in ``commitInfo.userMetadata``.

``{"tidegate": [{pipeline, source, version, attempt, sha256, identity, state}]}`` - one mark per source that
the commit moves. The state is the one without its late window; above 4 KB it is zlib-compressed and
base64-encoded. Debts of the commit and the number of open dead letters stand beside it, where there are any.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.errors import StateError
from tidegate.state.documents import SCHEMA_VERSION, check_schema_version, encoded
from tidegate.state.files import State
from tidegate.state.identity import Identity, SourceKey

FIELD = "tidegate"
COMPRESS_ABOVE = 4096

_BACKUP = "put the document of that position back from a backup, or write into a new table_uri"


class DamagedMark(StateError):
    """The state inside a log entry cannot be read."""


@dataclass(frozen=True, slots=True)
class Mark:
    """That this commit is the attempt that moved ``key`` to ``version``."""

    key: SourceKey
    version: int
    attempt: str
    sha256: str
    identity: Identity | None
    packed: Mapping[str, Any]

    @property
    def debts(self) -> tuple[Mapping[str, Any], ...]:
        """What the commit left to do, beyond note and mirror."""
        return tuple(self.packed.get("debts", ()))

    @property
    def letters(self) -> int:
        """How many dead letters were open after the commit."""
        return int(self.packed.get("letters", 0))

    def state(self) -> State:
        """The embedded state; ``StateError`` when it is damaged or newer than this program."""
        what = f"the log's mark of {self.key} at position {self.version}"
        check_schema_version(self.packed, what)
        try:
            text = self.packed.get("state_zlib")
            state = self.packed["state"] if text is None else json.loads(zlib.decompress(base64.b64decode(text)))
        except (KeyError, ValueError, TypeError, zlib.error) as error:
            raise DamagedMark(f"{what} holds no readable state", _BACKUP) from error
        if not isinstance(state, dict):
            raise DamagedMark(f"{what} holds no readable state", _BACKUP)
        return state


def mark(
    key: SourceKey,
    identity: Identity,
    version: int,
    attempt: str,
    sha256: str,
    state: State,
    *,
    debts: Sequence[Mapping[str, Any]] = (),
    letters: int = 0,
) -> Mark:
    """The mark of one attempt, its state packed."""
    text = encoded(state)
    packed: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
    if len(text) > COMPRESS_ABOVE:
        packed["state_zlib"] = base64.b64encode(zlib.compress(text, 6)).decode()
    else:
        packed["state"] = dict(state)
    if debts:
        packed["debts"] = [dict(debt) for debt in debts]
    if letters:
        packed["letters"] = letters
    return Mark(key, version, attempt, sha256, identity, packed)


def user_metadata(marks: Sequence[Mark]) -> str:
    """The ``userMetadata`` of a commit that holds these marks.

    A dollar sign is written as JSON's ``\\u0024``, the same text to every reader: Spark gets the note as a setting, and
    in settings it replaces ``${…}`` by variables of its own and of the environment.
    """
    return encoded({FIELD: [_to_json(item) for item in marks]}).decode().replace("$", "\\u0024")


def parse(text: object) -> tuple[Mark, ...]:
    """The marks in a commit's ``userMetadata``; none when somebody else wrote it."""
    if not isinstance(text, str) or f'"{FIELD}"' not in text:
        return ()
    try:
        items = json.loads(text)[FIELD]
        return tuple(_from_json(item) for item in items)
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


def _to_json(item: Mark) -> dict[str, object]:
    identity = None if item.identity is None else item.identity.to_json()
    return {
        "pipeline": item.key.pipeline,
        "source": item.key.source,
        "version": item.version,
        "attempt": item.attempt,
        "sha256": item.sha256,
        "identity": identity,
        **item.packed,
    }


def _from_json(data: Mapping[str, Any]) -> Mark:
    known = {"pipeline", "source", "version", "attempt", "sha256", "identity"}
    identity = data.get("identity")
    return Mark(
        SourceKey(data["pipeline"], data["source"]),
        int(data["version"]),
        str(data["attempt"]),
        str(data["sha256"]),
        None if identity is None else Identity.from_json(identity),
        {name: value for name, value in data.items() if name not in known},
    )
