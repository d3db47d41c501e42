"""The position of a source once it was opened, and the table, settings and time that every step works with."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tidegate.observe.events import Emit, ignore
from tidegate.protocol.change import State
from tidegate.protocol.documents import Parent
from tidegate.protocol.identity import Identity, SourceKey
from tidegate.protocol.log import DeltaLog
from tidegate.protocol.table import DeltaTablePort, Snapshot, arrow_schema
from tidegate.specs.project import Evolution

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectStore

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0


def utc_now() -> datetime:
    """The time of day, aware."""
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
        """Milliseconds since 1970, as Delta's ``txn.lastUpdated`` wants them."""
        return int(self.now().timestamp() * 1000)


class Deadline:
    """Time left for one commit, with pauses that grow and never march in step with another process."""

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
        """Seconds since the start."""
        return self._pace.monotonic() - self._started

    def pause(self) -> None:
        """Wait a little, longer each time."""
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self._pauses)
        self._pauses += 1
        self._pace.sleep(longest * (0.5 + self._pace.random() / 2))


@dataclass(frozen=True, slots=True)
class Position:
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
    def attempt(self) -> str:
        """The attempt that made this position; the empty text where there is none."""
        return "" if self.parent is None else self.parent.attempt

    @property
    def first_run(self) -> bool:
        """Whether nothing of this source was ever committed."""
        return self.version == 0

    def schema(self) -> pa.Schema | None:
        """The table's columns when it was opened, None without a table."""
        return None if self.schema_json is None else arrow_schema(self.schema_json)


Payer = Callable[["Position", Mapping[str, Any]], None]
"""Pays one debt of a committed position; must be idempotent, since it is called again until it once returned.
"""


Owed = Callable[[State | None, State], tuple[Mapping[str, Any], ...]]
"""The debts that a change of the state brings with it, whoever makes it."""


def _owe_nothing(before: State | None, after: State) -> tuple[Mapping[str, Any], ...]:
    return ()


def new_attempt() -> str:
    """A name that no other attempt has."""
    return str(uuid4())


@dataclass(frozen=True, slots=True)
class TableContext:
    """One source at one table.

    ``checkpoint_every``: a Delta checkpoint after every so many commits of the source, 0 for never.
    ``search_commits``: how many log entries are searched backwards for a position whose document is gone.
    ``properties``: what the table's properties shall be.
    ``polls``: how often the source was polled, for the mirror.
    ``payers``: who pays debts of which ``kind``; ``owed``: those that every commit has which moves the state.
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
    mirror_legacy: bool = False
    polls: int = 0
    payers: Mapping[str, Payer] = field(default_factory=dict)
    owed: Owed = _owe_nothing
    emit: Emit = ignore
    attempts: Callable[[], str] = new_attempt

    @property
    def log(self) -> DeltaLog:
        """The table's log."""
        return DeltaLog(self.store)

    def position_in(self, snapshot: Snapshot | None) -> int:
        """How often this source has committed, by that snapshot."""
        return 0 if snapshot is None else snapshot.transaction_version(self.key.app_id) or 0

    @property
    def uri(self) -> str:
        """Where the table is, for messages."""
        return self.store.location.uri
