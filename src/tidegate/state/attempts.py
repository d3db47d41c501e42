"""First attempts: what failed of a source that has no position yet, so that there is nothing to commit it to.

``{pipeline}/{source}.attempts.json`` tells since when, how often and why runs failed, and what they know of single
failures. It is never taken for a position: whoever reads it has seen that there is none. Once there is one, it means
nothing and is removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.errors import ObjectMissing, StorageError
from tidegate.state.documents import SCHEMA_VERSION, encoded
from tidegate.state.files import State
from tidegate.state.identity import Identity, SourceKey
from tidegate.state.status import read_recorded

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Attempts:
    """``runs`` failed in a row, the first at ``since`` and the last at ``last``, for the reason ``problem``.

    ``failures`` are those of single work units, as a state has them; None where there are no such.
    """

    runs: int
    since: str
    last: str
    problem: str
    failures: State | None = None

    def words(self) -> str:
        """One sentence for people."""
        tries = "a run failed" if self.runs == 1 else f"{self.runs:,} runs in a row failed since {self.since}"
        return f"nothing was ever committed: {tries}, the last at {self.last}: {self.problem}"


def read_attempts(store: ObjectStore, key: SourceKey, identity: Identity) -> Attempts | None:
    """What was noted for a source that has no position; None where nothing was, or about another source."""
    try:
        data = json.loads(store.get(key.attempts))
        if data["schema_version"] > SCHEMA_VERSION or identity.differences(Identity.from_json(data["identity"])):
            return None
        failures = data["failures"]
        if failures is not None and not isinstance(failures, Mapping):
            return None
        return Attempts(int(data["runs"]), str(data["since"]), str(data["last"]), str(data["problem"]), failures)
    except (ObjectMissing, ValueError, KeyError, TypeError, AttributeError):
        return None


def shown_attempts(store: ObjectStore, key: SourceKey, identity: Identity) -> Attempts | None:
    """The same for whoever has not opened the position: None where one is recorded."""
    found = read_attempts(store, key, identity)
    return None if found is None or read_recorded(store, key) is not None else found


def note_attempt(
    store: ObjectStore, key: SourceKey, identity: Identity, now: datetime, problem: str, failures: State | None = None
) -> None:
    """Count one more run that failed; what cannot be noted is not worth another error."""
    with suppress(StorageError):
        before = read_attempts(store, key, identity)
        moment = now.isoformat(timespec="seconds").replace("+00:00", "Z")
        content = {
            "schema_version": SCHEMA_VERSION,
            "identity": identity.to_json(),
            "runs": 1 if before is None else before.runs + 1,
            "since": moment if before is None else before.since,
            "last": moment,
            "problem": problem,
            "failures": failures if failures is not None or before is None else before.failures,
        }
        store.put(key.attempts, encoded(content))


def forget_attempts(store: ObjectStore, key: SourceKey) -> None:
    """Remove what was noted; left behind it means nothing."""
    with suppress(StorageError):
        store.delete(key.attempts)
