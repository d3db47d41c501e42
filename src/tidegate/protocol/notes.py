"""Notes beside the table: the cold start, the inferred schema, and attempts before the first position.

``cold_start.json`` is written once (put-if-absent) and read while the source has no position: the first
plan that got there decides for every later one.

They are remembered once the first commit with them is durable, as one of its debts: what cannot be written is never
remembered, and a crash right after the commit loses nothing. The first commit decides for all: later ones add fields,
and no type that is stored changes, except by a person with ``tidegate schema infer --update``.

``{pipeline}/{source}.attempts.json`` tells since when, how often and why runs failed, and what they know of single
failures. It is never taken for a position: whoever reads it has seen that there is none. Once there is one, it means
nothing and is removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.core.json_shape import load_json
from tidegate.errors import ObjectExists, ObjectMissing, StateError, StorageError
from tidegate.failpoints import failpoint
from tidegate.protocol.change import State
from tidegate.protocol.documents import SCHEMA_VERSION, check_schema_version, encode, read_recorded
from tidegate.protocol.identity import Identity, SourceKey
from tidegate.protocol.position import Position, TableContext
from tidegate.schema.inference import Inference
from tidegate.schema.names import merged_fields

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore


def read_cold_start(site: TableContext) -> State | None:
    """The state that was fixed, None when there is none; damaged or of another source stops."""
    try:
        content = site.store.get(site.key.cold_start)
    except ObjectMissing:
        return None
    try:
        data = load_json(content)
        check_schema_version(data, site.key.cold_start)
        identity, state = Identity.from_json(data["identity"]), dict(data["state"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{site.uri}/{site.key.cold_start} is damaged ({error!r})", _start_over(site)) from error
    changes = site.identity.differences(identity)
    if changes:
        raise StateError(
            f"{site.key}: {site.key.cold_start} belongs to another source: {'; '.join(changes)}",
            _start_over(site),
        )
    return state


def put_cold_start(site: TableContext, state: State) -> State:
    """Fix ``state`` unless one is fixed already; returns the one that holds."""
    content = encode(
        {
            "schema_version": SCHEMA_VERSION,
            "identity": site.identity.to_json(),
            "state": dict(state),
            "written_at": site.pace.now().isoformat(),
        }
    )
    failpoint("state.cold_start.before")
    try:
        site.store.put_if_absent(site.key.cold_start, content)
    except ObjectExists:
        holding = read_cold_start(site)
        return state if holding is None else holding
    failpoint("state.cold_start.after")
    return state


def _start_over(site: TableContext) -> str:
    return f"nothing of this source is in the table yet: remove {site.key.cold_start}, and plan again"


KIND = "schema"
"""The kind of the debt."""


ADD_ATTEMPTS = 5
"""How often fields are added again that another process has overwritten meanwhile."""


def schema_path(pipeline: str) -> str:
    """Where an inferred schema is remembered, relative to the table."""
    return f"_tidegate/{pipeline}/schema.json"


@dataclass(frozen=True, slots=True)
class InferredSchema:
    """The remembered columns of one pipeline; ``store`` is that of its table."""

    store: ObjectStore
    pipeline: str

    def read(self) -> Inference | None:
        """What is remembered, None where nothing is; raises :class:`StateError` for what cannot be used."""
        path = schema_path(self.pipeline)
        try:
            content = self.store.get(path)
        except ObjectMissing:
            return None
        try:
            return Inference.from_json(load_json(content))
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"{self.store.location.uri}/{path} is damaged ({error!r})",
                "rewrite it with `tidegate schema infer --update`, or declare schema.fields",
            ) from error

    def remember(self, found: Inference) -> Inference:
        """Store ``found`` unless something is stored; what holds from now on."""
        try:
            self.store.put_if_absent(schema_path(self.pipeline), _content(found))
        except ObjectExists:
            return self.read() or found
        return found

    def replace(self, found: Inference) -> None:
        """Store ``found`` instead of whatever is stored."""
        self.store.put(schema_path(self.pipeline), _content(found))

    def add(self, found: Inference) -> Inference:
        """Remember the fields of ``found`` beside those that are stored; what holds from now on.

        No store compares before it replaces, so another process may write in between: we look again until our fields
        are there.
        """
        stored = self.remember(found)
        for _ in range(ADD_ATTEMPTS):
            fields = merged_fields(stored.fields, found.fields)
            if fields == stored.fields:
                break
            self.replace(replace(stored, fields=fields))
            stored = self.read() or found
        return replace(stored, fields=merged_fields(stored.fields, found.fields))

    def pay(self, opened: Position, owed: Mapping[str, Any]) -> None:
        """Remember what a commit was written with."""
        self.add(Inference.from_json(owed["schema"]))


def debt(found: Inference) -> dict[str, Any]:
    """What the first commit with newly inferred columns owes: the columns, without the values that spoke for them."""
    return {"kind": KIND, "schema": replace(found, report=()).to_json()}


def _content(found: Inference) -> bytes:
    return json.dumps(found.to_json(), indent=2).encode()


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
        data = load_json(store.get(key.attempts))
        if data["schema_version"] > SCHEMA_VERSION or identity.differences(Identity.from_json(data["identity"])):
            return None
        failures = data["failures"]
        if failures is not None and not isinstance(failures, Mapping):
            return None
        return Attempts(int(data["runs"]), str(data["since"]), str(data["last"]), str(data["problem"]), failures)
    except (ObjectMissing, ValueError, KeyError, TypeError, AttributeError):
        return None


def shown_attempts(store: ObjectStore, key: SourceKey, identity: Identity) -> Attempts | None:
    """The same for callers that have not opened the position: None where one is recorded."""
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
        store.put(key.attempts, encode(content))


def forget_attempts(store: ObjectStore, key: SourceKey) -> None:
    """Remove what was noted; left behind it means nothing."""
    with suppress(StorageError):
        store.delete(key.attempts)
