"""An opened position of a source; the table, settings and time that every step works with; notes beside the table.

``cold_start.json`` is written once (put-if-absent) and read while the source has no position: the first plan that got
there decides for every later one.

Inferred columns are remembered once the first commit with them is durable, as one of its debts: what cannot be written
is never remembered, and a crash right after the commit loses nothing. The first commit decides for all: later ones add
fields, and a stored type changes only by ``tidegate schema infer --update``.

``{pipeline}/{source}.attempts.json`` says since when, how often and why runs failed, and what they know of single
failures. It never counts as a position: its readers have seen that there is none. Once there is one, it means nothing
and is removed.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tidegate.core.json_shape import load_json
from tidegate.errors import ObjectExists, ObjectMissing, StateError, StorageError
from tidegate.failpoints import failpoint
from tidegate.observe.events import Emit, ignore
from tidegate.protocol.change import Identity, RowChanges, SourceKey, State
from tidegate.protocol.documents import SCHEMA_VERSION, Parent, check_schema_version, encode, read_recorded
from tidegate.protocol.ledger import Ledger
from tidegate.protocol.ledger_blocks import Describe, describe_state
from tidegate.protocol.log import DeltaLog
from tidegate.protocol.table import DeltaTablePort, Snapshot, arrow_schema
from tidegate.schema.inference import Inference
from tidegate.schema.names import merge_fields
from tidegate.specs.foreign import ForeignWriter
from tidegate.specs.table import Evolution

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectStore


_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a commit spends time; tests replace the four callables."""

    deadline_secs: float = 120.0
    now: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random

    def start(self) -> Deadline:
        """A deadline that begins now."""
        return Deadline(self, self.monotonic())

    def now_ms(self) -> int:
        """Milliseconds since 1970, for Delta's ``txn.lastUpdated``."""
        return int(self.now().timestamp() * 1000)


class Deadline:
    """The time left for one commit, with growing, random pauses that keep processes out of step."""

    def __init__(self, pace: Pace, started: float) -> None:
        self._pace = pace
        self._started = started
        self._pauses = 0

    @property
    def passed(self) -> bool:
        """True when the time is over."""
        return self.seconds >= self._pace.deadline_secs

    @property
    def seconds(self) -> float:
        return self._pace.monotonic() - self._started

    def pause(self) -> None:
        """Wait a little, longer each time."""
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self._pauses)
        self._pauses += 1
        # Half of it random: processes that lost the same race would otherwise meet again at every try.
        self._pace.sleep(longest * (0.5 + self._pace.random() / 2))


@dataclass(frozen=True, slots=True)
class Position:
    """The position ``version`` of a source, and the table as it was then.

    ``state`` is None on a first run; with ``cold_start`` it is the one that a first filtered plan fixed. ``from_log``:
    the document is gone and the state comes from the log, without its late window. ``table_version`` is -1 and
    ``table_id`` and ``schema_json`` are None without a table. ``committed_at`` is the table version of the commit that
    made this position, -1 if there is none or it is unknown. ``unseen`` are log entries after it that were cleaned up
    before anyone looked for a RESTORE. ``unpaid`` are debts that could not be paid yet; the next commit pays them
    first. ``letters`` is the number of open dead letters. ``needs_frames`` says why the DataFrame lane writes the
    table; empty for the Arrow lane. ``rows`` is the number of rows that the commit made visible and ``changes``
    what it did to the rows of the table, if this run made it.
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
    changes: RowChanges = field(default_factory=RowChanges)

    @property
    def attempt(self) -> str:
        """The attempt that made this position; empty if there is none."""
        return "" if self.parent is None else self.parent.attempt

    @property
    def first_run(self) -> bool:
        """Whether nothing of this source was ever committed."""
        return self.version == 0

    def schema(self) -> pa.Schema | None:
        """The table's columns when it was opened; None without a table."""
        return None if self.schema_json is None else arrow_schema(self.schema_json)


Payer = Callable[["Position", Mapping[str, Any]], None]
"""Pays one debt of a committed position; must be idempotent, since it is called until it has returned once."""


Owed = Callable[[State | None, State], tuple[Mapping[str, Any], ...]]
"""The debts of a change of the state, whoever makes it."""


@dataclass(frozen=True, slots=True)
class TableContext:
    """One source at one table.

    ``checkpoint_every``: a Delta checkpoint after every so many commits of the source, 0 for never. ``search_commits``:
    how many log entries are searched backwards for a position whose document is gone. ``properties``: the desired
    properties of the table. ``polls``: the number of polls of the source, for the mirror. ``payers``: who pays debts of
    which ``kind``; ``owed``: the debts of every commit that moves the state. ``second_mirror``: where else to write the
    mirror. ``foreign``: whose traces stop a first run. ``describe``: the name and the watermark of a recorded state,
    for the ledger. ``turn``: entered while a commit is sent, so that the sources of one run that share the table do not
    contest its log between themselves; nothing of the protocol depends on it. ``run``: the id of the run at work, for
    people who compare commits with logs.
    """

    key: SourceKey
    identity: Identity
    store: ObjectStore
    delta: DeltaTablePort
    pace: Pace = field(default_factory=Pace)
    evolution: Evolution = Evolution.MERGE
    properties: Mapping[str, str] = field(default_factory=dict)
    checkpoint_every: int = 10
    search_commits: int = 100
    second_mirror: str | None = None
    foreign: ForeignWriter | None = None
    polls: int = 0
    payers: Mapping[str, Payer] = field(default_factory=dict)
    owed: Owed = lambda before, after: ()
    describe: Describe = describe_state
    emit: Emit = ignore
    attempts: Callable[[], str] = lambda: str(uuid4())
    turn: Callable[[], AbstractContextManager[object]] = nullcontext
    run: str = ""

    @property
    def log(self) -> DeltaLog:
        return DeltaLog(self.store)

    @property
    def ledger(self) -> Ledger:
        """What each commit of the source brought in."""
        return Ledger(self.store, self.key, self.describe)

    def position_in(self, snapshot: Snapshot | None) -> int:
        """The number of commits of this source, by that snapshot."""
        return 0 if snapshot is None else snapshot.transaction_version(self.key.app_id) or 0

    @property
    def uri(self) -> str:
        """The table's address, for messages."""
        return self.store.location.uri


def read_cold_start(site: TableContext) -> State | None:
    """The fixed state; None without one. Raises if it is damaged or of another source."""
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
    """Fix ``state`` unless one is fixed already; returns the fixed one."""
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
        # The bound depends on the clock: a second plan that computed its own would seal other files than the first one
        # read.
        site.store.put_if_absent(site.key.cold_start, content)
    except ObjectExists:
        holding = read_cold_start(site)
        return state if holding is None else holding
    failpoint("state.cold_start.after")
    return state


def _start_over(site: TableContext) -> str:
    return f"nothing of this source is in the table yet: remove {site.key.cold_start}, and plan again"


INFERRED_SCHEMA = "schema"
"""The kind of the debt that remembers inferred columns."""

ADD_ATTEMPTS = 5
"""How often to add fields again that another process has overwritten."""


def schema_path(pipeline: str) -> str:
    """The path of the remembered schema, relative to the table."""
    return f"_tidegate/{pipeline}/schema.json"


@dataclass(frozen=True, slots=True)
class InferredSchema:
    """The remembered columns of one pipeline; ``store`` is that of its table."""

    store: ObjectStore
    pipeline: str

    def read(self) -> Inference | None:
        """The remembered columns; None without any. Raises :class:`StateError` if they cannot be used."""
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
        """Store ``found`` unless something is stored; returns what is stored."""
        try:
            self.store.put_if_absent(schema_path(self.pipeline), _content(found))
        except ObjectExists:
            return self.read() or found
        return found

    def replace(self, found: Inference) -> None:
        """Replace whatever is stored by ``found``."""
        self.store.put(schema_path(self.pipeline), _content(found))

    def add(self, found: Inference) -> Inference:
        """Add the fields of ``found`` to the stored ones; returns what is stored.

        No store compares before it replaces, so another process may write in between: we look again until our fields
        are there.
        """
        stored = self.remember(found)
        for _ in range(ADD_ATTEMPTS):
            fields = merge_fields(stored.fields, found.fields)
            if fields == stored.fields:
                break
            self.replace(replace(stored, fields=fields))
            stored = self.read() or found
        return replace(stored, fields=merge_fields(stored.fields, found.fields))

    def pay(self, opened: Position, owed: Mapping[str, Any]) -> None:
        """Remember the columns of a commit."""
        self.add(Inference.from_json(owed["schema"]))


def schema_debt(found: Inference) -> dict[str, Any]:
    """The debt of the first commit with newly inferred columns: the columns, without the values they came from."""
    # Debts stand in the log for everybody to read; sampled values do not belong there.
    return {"kind": INFERRED_SCHEMA, "schema": replace(found, report=()).to_json()}


def _content(found: Inference) -> bytes:
    return json.dumps(found.to_json(), indent=2).encode()


@dataclass(frozen=True, slots=True)
class Attempts:
    """``runs`` failed in a row, the first at ``since`` and the last at ``last``, for the reason ``problem``.

    ``failures`` are those of single work units, as in a state; None without work units.
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
    """The recorded attempts of a source without a position; None without any, or if they concern another source."""
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
    """The same for callers that have not opened the position: None if one is recorded."""
    found = read_attempts(store, key, identity)
    return None if found is None or read_recorded(store, key) is not None else found


def note_attempt(
    store: ObjectStore, key: SourceKey, identity: Identity, now: datetime, problem: str, failures: State | None = None
) -> None:
    """Count one more failed run; a failure to note it is ignored."""
    # The run has failed already, often because of this very storage; its own error is the one to show.
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
    """Remove the recorded attempts; leftovers mean nothing."""
    with suppress(StorageError):
        store.delete(key.attempts)
