"""The position store: the commit protocol as runs, plans and status use it; and a provider's copy of a state.

The log stays the position. A provider gets its copy as a follow-up of the commit with the rows, right after the commit
or at the next start, so a run that wrote and could not save completes the save and writes no row again. If a provider
contradicts the log, neither is trusted or overwritten: somebody changed one of them, and only a person knows which is
right.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.core.watermark_text import WatermarkSerializer, without_inclusive
from tidegate.errors import CommitLost, ConfigError, EnvironmentProblem, ObjectMissing, StateError, WatermarkError
from tidegate.failpoints import failpoint
from tidegate.protocol import commit as commit_module
from tidegate.protocol import follow_ups
from tidegate.protocol import open as open_module
from tidegate.protocol.change import Change, State
from tidegate.protocol.delta import DeltaLakeTable
from tidegate.protocol.log import entry_path
from tidegate.protocol.memory import MemoryDelta
from tidegate.protocol.open import Accept, Winner
from tidegate.protocol.position import Payer, Position, TableContext, put_cold_start, read_cold_start
from tidegate.protocol.providers import (
    BaseMetadataProvider,
    CustomMetadataProvider,
    FileMetadataProvider,
    WatermarkManager,
    make_provider,
)
from tidegate.protocol.recovery import Ladder, Usable, climb, open_rebuilt
from tidegate.protocol.sql_provider import SqliteMetadataProvider, sqlite_path
from tidegate.protocol.table import DeltaTablePort, Snapshot, arrow_schema
from tidegate.specs.locations import Location, Options, Secret
from tidegate.specs.project import ProviderKind, StateSpec
from tidegate.specs.user_code import name_errors, name_of
from tidegate.storage.options import ALIASES, SCHEMES, absolute_uri

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectStore


def open_delta(table: Location, store: ObjectStore) -> DeltaTablePort:
    """The table port for a location: the Delta library, or the twin for ``memory://``."""
    if table.uri.startswith("memory:"):
        return MemoryDelta(store)
    return DeltaLakeTable(table, store)


class PositionStore:
    """The position of one source in one table.

    Not thread-safe; several processes may use the same position, and one of them wins each commit.
    """

    staged = False
    """Whether changes are left to a committer."""
    copy: StateCopy | None = None
    """A provider's copy of the state."""

    def __init__(self, site: TableContext) -> None:
        self.site = site

    def open(self, accept: Collection[Accept] = (), *, read_only: bool = False) -> Position:
        """OPEN: the position, or ``StateError``/``UnsupportedTable`` with a remedy; ``read_only`` writes nothing."""
        return open_module.open_position(self.site, accept, read_only=read_only)

    def open_at(self, snapshot: Snapshot | None, accept: Collection[Accept] = ()) -> Position:
        """OPEN by a snapshot whose version ``is_newest``, for callers that open several positions of one table."""
        return open_module.open_position(self.site, accept, snapshot=snapshot)

    def ladder(self, usable: Usable) -> Ladder:
        """What is left of a position that ``open`` cannot read; reads only."""
        return climb(self.site, usable)

    def open_rebuilt(self, ladder: Ladder, winner: Winner, accept: Collection[Accept] = ()) -> Position:
        """The newest position with an earlier or mirrored state, to be recorded anew by a commit."""
        return open_rebuilt(self.site, ladder, winner, accept)

    def position(self) -> int:
        """The number of commits of the source, by a fresh snapshot."""
        return self.site.position_in(self.site.delta.snapshot())

    def at_poll(self, polls: int) -> PositionStore:
        """The same store with ``polls`` as the number of polls in its mirror."""
        other = copy.copy(self)
        other.site = replace(self.site, polls=polls)
        return other

    def with_payers(self, payers: Mapping[str, Payer]) -> PositionStore:
        """The same store with more payers of debts."""
        other = copy.copy(self)
        other.site = replace(self.site, payers={**self.site.payers, **payers})
        return other

    def with_copy(self, kept: StateCopy) -> PositionStore:
        """The same store, whose commits owe a copy of the state."""
        other = self.with_payers({COPY_KIND: kept.payer(self.position)})
        other.site = replace(other.site, owed=kept.find_debts)
        other.copy = kept
        return other

    def with_copy_overwritten(self) -> PositionStore:
        """The same store for a person who decides: whatever the provider has is replaced."""
        return self if self.copy is None else self.with_copy(replace(self.copy, overwrite=True))

    def check_copy(self, opened: Position, *, read_only: bool) -> None:
        """Stop if the copy contradicts the position; a staged copy is ahead of it until the committer is done."""
        if self.copy is not None and not self.staged:
            self.copy.check(opened, self.position, read_only=read_only)

    def is_current(self, opened: Position) -> bool:
        """Whether nothing was committed to the table since ``opened``: one small request instead of an OPEN.

        Planning from an outdated position costs work, never rows: COMMIT looks again.
        """
        return opened.table_version >= 0 and not opened.unpaid and self.is_newest(opened.table_version)

    def is_newest(self, table_version: int) -> bool:
        """Whether the table has no version after this one."""
        try:
            self.site.store.head(entry_path(table_version + 1))
        except ObjectMissing:
            return True
        return False

    def commit(self, opened: Position, change: Change) -> Position:
        """COMMIT: the position after ``change``, to continue from. After ``CommitLost``, open and plan again."""
        return commit_module.commit(self.site, opened, change)

    def idle(self, opened: Position, state: State) -> Position:
        """Show in the mirror that a poll found nothing. Commits nothing, and before the first commit writes nothing."""
        if opened.first_run:
            return opened
        follow_ups.show(self.site, opened, state)
        return replace(opened, state=state)

    def cold_start(self) -> State | None:
        """The state fixed by the first filtered plan; None without one."""
        return read_cold_start(self.site)

    def put_cold_start(self, state: State) -> State:
        """Fix the state of the first filtered plan unless one is fixed; returns the fixed one."""
        return put_cold_start(self.site, state)

    def has_rows(self) -> bool:
        """Whether the table has any file now."""
        snapshot = self.site.delta.snapshot()
        return snapshot is not None and bool(snapshot.active_paths())

    def table_schema(self) -> pa.Schema | None:
        """The current columns of the table; None without a table."""
        snapshot = self.site.delta.snapshot()
        return None if snapshot is None else arrow_schema(snapshot.facts.schema_json)


def provider_of(spec: StateSpec) -> BaseMetadataProvider | None:
    """The provider that gets a copy of every state; None if only the Delta log keeps them. Sends nothing yet."""
    match spec.provider:
        case ProviderKind.DELTA:
            return None
        case ProviderKind.FILE:
            return FileMetadataProvider(Location(absolute_uri(_address(spec).value, Path.cwd()), spec.options))
        case ProviderKind.SQL:
            return _sql(_address(spec))
        case str(name):
            return make_provider(name, spec.arguments)
        case own:
            # Ours name their errors themselves; anybody else's get the wrapper that does.
            is_ours = isinstance(own, BaseMetadataProvider) and type(own).__module__.startswith("tidegate.")
            return own if is_ours else CustomMetadataProvider(own)  # type: ignore[return-value]  # checked just before


def manager_of(spec: StateSpec) -> WatermarkManager | None:
    """The manager for the copies of runs; None if nobody keeps any."""
    if isinstance(spec.provider, WatermarkManager):
        return spec.provider
    provider = provider_of(spec)
    return None if provider is None else WatermarkManager(provider)


def metadata_provider(url: str, options: Mapping[str, str] | None = None) -> BaseMetadataProvider:
    """The provider at an address: a database, anything else is a folder or a bucket.

    ``options`` are the storage options of a bucket. Sends nothing yet.
    """
    scheme = url.partition("://")[0].lower() if "://" in url else "file"
    kind = ProviderKind.FILE if scheme in (*SCHEMES, *ALIASES) else ProviderKind.SQL
    provider = provider_of(StateSpec(kind, Secret(url), Options(options)))
    assert provider is not None
    return provider


def _address(spec: StateSpec) -> Secret:
    if spec.url is None:
        raise ConfigError((f"state.url is missing: provider {str(spec.provider)!r} needs it",))
    return spec.url


def _sql(url: Secret) -> BaseMetadataProvider:
    if path := sqlite_path(url.value):
        return SqliteMetadataProvider(path, url.value)
    try:
        from tidegate.protocol.sqlalchemy_provider import SqlAlchemyMetadataProvider
    except ModuleNotFoundError as error:
        # A broken installation of something else must not be reported as a missing SQLAlchemy.
        if error.name is None or not error.name.startswith("sqlalchemy"):
            raise
        raise EnvironmentProblem(
            "a state provider in another database than SQLite needs SQLAlchemy, which is not installed",
            "pip install 'tidegate[sql]'",
        ) from None
    return SqlAlchemyMetadataProvider(url)


COPY_KIND = "provider"
"""The kind of the debt that pays for the copy."""

_SHOWN = 300
_SET = "compare both with `tidegate watermark show`, then set both with `tidegate watermark set`"
_REMOVE = (
    "compare both; if the log is right, remove the provider's entry of this dataflow, and the next run copies it "
    "again; if not, see `tidegate watermark` and `tidegate units`"
)

Text = Callable[[State], str]
"""The text of a recorded state that a provider keeps: a JSON object."""


@dataclass(frozen=True, slots=True)
class StateCopy:
    """The copy of one source's state; without ``watermarks`` nobody keeps one.

    ``in_debt``: the debt has the texts; otherwise, for states that may be large, a digest of the one before.
    ``overwrite``: a person decides, and whatever the provider has is replaced.
    """

    watermarks: WatermarkManager | None
    dataflow_id: str
    text: Text
    in_debt: bool = False
    overwrite: bool = False

    def find_debts(self, before: State | None, after: State) -> tuple[dict[str, Any], ...]:
        """The debt of a commit that moves the state; none if the copy stays the same."""
        if self.watermarks is None:
            return ()
        previous, text = None if before is None else self.text(before), self.text(after)
        if previous == text and not self.overwrite:
            return ()
        if self.in_debt:
            return (copy_debt(self.dataflow_id, text, previous, by_hand=self.overwrite),)
        before_that = {"previous_sha256": _digest(previous), "by_hand": self.overwrite}
        return ({"kind": COPY_KIND, "dataflow_id": self.dataflow_id, **before_that},)

    def payer(self, position: Callable[[], int]) -> Payer:
        """The payer of that debt."""
        return ProviderCopy(self.watermarks, position, self.overwrite, self.text, self._remedy).pay

    @property
    def _remedy(self) -> str:
        return _SET if self.in_debt else _REMOVE

    def check(self, opened: Position, position: Callable[[], int], *, read_only: bool) -> None:
        """Stop if the provider contradicts the opened position; give it what it lacks."""
        text = None if opened.first_run or opened.state is None else self.text(opened.state)
        check_copy(
            self.watermarks,
            self.dataflow_id,
            text,
            run=_run_id(opened),
            moved=lambda: position() > opened.version,
            read_only=read_only,
            remedy=self._remedy,
        )

    def has(self, state: State | None) -> bool:
        """Whether the provider, if any, has this state; its text may be no watermark at all."""
        if self.watermarks is None:
            return True
        try:
            return _SavedCopy(self.watermarks, self.dataflow_id).is_same(None if state is None else self.text(state))
        except StateError:
            return False


def copy_debt(dataflow_id: str, text: str, previous: str | None, *, by_hand: bool = False) -> dict[str, Any]:
    """The debt of a commit that moved the watermark from ``previous`` to ``text``.

    ``by_hand``: a person set it, and whatever the provider has is replaced.
    """
    return {"kind": COPY_KIND, "dataflow_id": dataflow_id, "text": text, "previous": previous, "by_hand": by_hand}


def _digest(text: str | None) -> str | None:
    return None if text is None else sha256(text.encode()).hexdigest()


def _run_id(opened: Position) -> str | None:
    """The name of the position's document."""
    return None if opened.parent is None else f"{opened.version:020d}-{opened.attempt}"


@dataclass(frozen=True, slots=True)
class ProviderCopy:
    """Pays that debt; without ``watermarks``, if the configuration no longer names a provider, there is nothing to pay.

    ``position`` is the source's current position in the log: a run that was overtaken has nothing to pay either, since
    the other one paid first. With ``overwrite`` whatever the provider has is replaced: for the command by which a
    person decides. ``text`` is for debts without it.
    """

    watermarks: WatermarkManager | None
    position: Callable[[], int]
    overwrite: bool = False
    text: Text | None = None
    remedy: str = _SET

    def pay(self, opened: Position, owed: Mapping[str, Any]) -> None:
        """Save the text of the commit unless it is saved; ``StateError`` if the provider has a third one.

        A watermark set by hand replaces whatever is there, even if it cannot be read as a watermark.
        """
        if self.watermarks is None:
            return None
        dataflow_id, text = str(owed["dataflow_id"]), self._text(opened, owed)
        by_hand = self.overwrite or bool(owed.get("by_hand"))
        while True:
            kept = _SavedCopy(self.watermarks, dataflow_id)
            if kept.found == text or (not by_hand and kept.is_same(text)):
                return None
            if kept.found is not None and not by_hand and not kept.is_previous(owed):
                # Whoever committed after us has paid our debt first, so a newer text is no contradiction.
                if self.position() > opened.version:
                    return None
                raise _differ(dataflow_id, kept.found, text, self.remedy)
            # Another run saved between our look and our save: look again, since it may have saved the same.
            with suppress(CommitLost):
                return kept.save(text, _run_id(opened))

    def _text(self, opened: Position, owed: Mapping[str, Any]) -> str:
        if "text" in owed:
            return str(owed["text"])
        assert self.text is not None, "only sources with a state of their own owe such a copy"
        return self.text(opened.state or {})


class _SavedCopy:
    def __init__(self, watermarks: WatermarkManager, dataflow_id: str) -> None:
        self._watermarks = watermarks
        self._dataflow_id = dataflow_id
        with self._name_errors("get_watermark"):
            self.found = watermarks.provider.get_watermark(dataflow_id)

    def is_same(self, text: str | None) -> bool:
        """Whether it is the same watermark, however written; ``StateError`` if it is none."""
        if self.found == text:
            return True
        wanted, inclusive = without_inclusive(_parse(text) or {})
        return (self._values() or {}) == wanted and self._inclusive() == inclusive

    def is_previous(self, owed: Mapping[str, Any]) -> bool:
        """Whether it is the watermark that the debt names as the previous one."""
        if "previous" in owed:
            return self.is_same(owed["previous"])
        before = owed.get("previous_sha256")
        return before in (_digest(self.found), _digest(WatermarkSerializer.serialize(self._values() or {})))

    def save(self, text: str, run: str | None) -> None:
        """Save ``text`` in place of what was found; ``run`` names the document."""
        by = {"job_id": f"tidegate/{self._dataflow_id}", "dataflow_run_id": run}
        failpoint("state.provider.before")
        with self._name_errors("save_watermark"):
            self._watermarks.after(self.found).save_watermark(self._dataflow_id, _parse(text) or {}, **by)
        failpoint("state.provider.after")

    def _values(self) -> dict[str, Any] | None:
        try:
            with self._name_errors("get_watermark"):
                return self._watermarks.get_watermark(self._dataflow_id)
        except WatermarkError as error:
            raise StateError(f"the saved watermark cannot be read: {error.problem}", error.remedy) from error

    def _inclusive(self) -> frozenset[str]:
        """The columns that are read inclusively, if the text is one of ours."""
        with suppress(StateError):
            return without_inclusive(_parse(self.found) or {})[1]
        return frozenset()

    def _name_errors(self, method: str) -> Any:
        said = f"{name_of(type(self._watermarks))}: {method}({self._dataflow_id!r})"
        remedy = f"correct {method} of that class; committed rows stay, and a later run makes the copy"
        return name_errors(said, remedy, StateError)


def check_copy(
    watermarks: WatermarkManager | None,
    dataflow_id: str,
    text: str | None,
    *,
    run: str | None = None,
    moved: Callable[[], bool] = lambda: False,
    read_only: bool = False,
    remedy: str = _SET,
) -> None:
    """Compare the provider's text with ``text``, the log's; give it what it lacks, unless ``read_only``.

    ``StateError`` if they differ; ``CommitLost`` if they do because the log has ``moved`` on meanwhile.
    """
    if watermarks is None:
        return
    kept = _SavedCopy(watermarks, dataflow_id)
    if kept.is_same(text):
        return
    if kept.found is not None or text is None:
        # The provider was read after the log; a run that committed in between explains the difference.
        if moved():
            raise CommitLost(f"{dataflow_id}: another run committed first", "plan again")
        raise _differ(dataflow_id, kept.found, text, remedy)
    if not read_only:
        kept.save(text, run)


def _differ(dataflow_id: str, found: str | None, text: str | None, remedy: str) -> StateError:
    return StateError(
        f"{dataflow_id}: the state provider has the watermark {_shorten(found)}, but the destination was written up "
        f"to {_shorten(text)}: one of them was changed outside Tidegate; nothing was read or written",
        remedy,
    )


def _shorten(text: str | None) -> str:
    shown = text or "nothing"
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _parse(text: str | None) -> dict[str, Any] | None:
    try:
        return WatermarkSerializer.deserialize(text)
    except WatermarkError as error:
        raise StateError(f"the saved watermark cannot be read: {error.problem}", error.remedy) from error
