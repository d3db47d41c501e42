"""Everything a step of the protocol needs to know about where it acts: the ports and the settings, as one
value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tidegate.observe.events import Emit, ignore
from tidegate.specs import Evolution
from tidegate.state.identity import Identity, SourceKey
from tidegate.state.log import DeltaLog
from tidegate.state.pace import Pace
from tidegate.state.table import DeltaTablePort

if TYPE_CHECKING:
    from tidegate.state.opened import Opened
    from tidegate.storage.port import ObjectStore

Payer = Callable[["Opened", Mapping[str, Any]], None]
"""Pays one debt of a committed position; must be idempotent, since it is called again until it once returned.
"""


def new_attempt() -> str:
    """A name that no other attempt has."""
    return str(uuid4())


@dataclass(frozen=True, slots=True)
class Site:
    """One source at one table.

    ``checkpoint_every``: a Delta checkpoint after every so many commits of the source, 0 for never.
    ``search_commits``: how many log entries are searched backwards for a position whose document is gone.
    ``properties``: what the table's properties shall be.
    ``polls``: how often the source was polled, for the mirror.
    ``payers``: who pays debts of which ``kind``.
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
    emit: Emit = ignore
    attempts: Callable[[], str] = new_attempt

    @property
    def log(self) -> DeltaLog:
        """The table's log."""
        return DeltaLog(self.store)

    @property
    def uri(self) -> str:
        """Where the table is, for messages."""
        return self.store.location.uri
