"""Follow-ups: what a commit leaves to do once it is durable.

The ``.won`` note, then the debts that its document names, then the mirror. Each is idempotent and is retried until it
succeeded once: right after the commit, or by the next OPEN, and always before the next commit of the source. One that
cannot be paid never undoes the commit. Now and then a Delta checkpoint and a block of the ledger follow; nothing
depends on them.

Work areas are folders below a table for rows that no commit refers to yet. A replay and the DataFrame lane decode
source files into one, and rows go from there into the table. Its creator removes it: a replay at its end, the DataFrame
lane as a debt of its commit. Leftovers of a killed process are removed a day later.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from tidegate.errors import ObjectMissing, StateError, TidegateError
from tidegate.failpoints import InjectedFailure, failpoint
from tidegate.observe.events import Notice, TableCared, TableCareFailed
from tidegate.protocol.change import SourceKey, State
from tidegate.protocol.documents import WORK, Mirror, Won, read_mirror, read_won, save_files, write_mirror
from tidegate.protocol.ledger_blocks import SIZE
from tidegate.protocol.log import entry_path
from tidegate.protocol.maintenance import clean_log
from tidegate.protocol.position import Position, TableContext
from tidegate.specs.locations import Location
from tidegate.storage.stores import remove_empty_directories

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

CLEAN_LOG = "clean_log"
KEPT = timedelta(hours=24)
"""How long a work area stays, since a process may still be using it."""


def pay(site: TableContext, opened: Position, *, note: bool = True) -> None:
    """Pay every follow-up of the position, with or without its ``note``; raises at the first that cannot be paid."""
    if note:
        # First of all: once the log is cleaned up, only the note says which attempt won.
        write_won(site, opened)
    _pay_debts(site, opened)
    shown = read_mirror(site.store, site.key)
    newer = shown is not None and shown.version > opened.version
    same = shown is not None and (shown.version, shown.attempt) == (opened.version, opened.attempt)
    # A process that slept must not put an older state over a newer one; the same attempt may show later polls.
    if not (newer or same):
        show(site, opened, opened.state or {})


def pay_if_possible(site: TableContext, opened: Position) -> bool:
    """Pay right after a commit: False, with a notice, if something is left."""
    try:
        write_won(site, opened)
        _pay_debts(site, opened)
        show(site, opened, opened.state or {})
    # The commit is durable: an error here would make callers repeat what has happened.
    except (TidegateError, InjectedFailure) as error:
        _notify(site, f"position {opened.version} is committed, but a step after it failed: {error}")
        return False
    return True


def _notify(site: TableContext, text: str) -> None:
    site.emit(Notice(site.key.pipeline, site.key.source, text))


def write_won(site: TableContext, opened: Position, *, paid: bool = False) -> None:
    """Note beside the document that its attempt won; needs the place of its commit.

    The files of a commit whose document names none (a replay, rows of Spark) are noted from its entry.
    """
    parent, table_id = opened.parent, opened.table_id
    if parent is None or table_id is None or opened.committed_at < 0:
        return
    checked = max(opened.committed_at, opened.table_version)
    attempt = (opened.version, parent.attempt, parent.sha256)
    # Now, while the entry is there: when the log is cleaned up, nothing else names these files.
    added = () if opened.data_files else _find_added_files(site, opened)
    note = Won(*attempt, opened.committed_at, table_id, checked, opened.unseen, paid or not opened.debts, added)
    failpoint("state.won.before")
    site.store.put(site.key.won(opened.version, parent.attempt), note.to_bytes())
    failpoint("state.won.after")


def _find_added_files(site: TableContext, opened: Position) -> tuple[str, ...]:
    """The data files of the entry; if the log was cleaned up, those noted before."""
    found = site.log.read_added_paths(opened.committed_at, site.key)
    before = None if found else read_won(site.store, site.key, opened.version, opened.attempt)
    return found if before is None else before.added


def _pay_debts(site: TableContext, opened: Position) -> None:
    """Pay what the document owes beyond note and mirror."""
    for debt in opened.debts:
        payer = site.payers.get(str(debt.get("kind")))
        if payer is None:
            raise StateError(
                f"{site.key}: position {opened.version} left the step {debt.get('kind')!r}, which this version does "
                "not know",
                "upgrade Tidegate to the version that made that commit",
            )
        failpoint("state.debt.before")
        payer(opened, debt)
    if opened.debts:
        write_won(site, opened, paid=True)


def show(site: TableContext, opened: Position, state: State) -> None:
    """Write the mirror of a position."""
    mirror = Mirror(
        key=site.key,
        version=opened.version,
        attempt=opened.attempt,
        table_version=opened.table_version,
        delta_version=opened.delta_version,
        state=state,
        polls=site.polls,
        written_at=site.pace.now().isoformat(),
        letters=opened.letters,
    )
    write_mirror(site.store, mirror, site.second_mirror)


def checkpoint(site: TableContext, now: Position, before: int) -> None:
    """Write a Delta checkpoint every so many commits, which keeps loading the table fast; then clean the log."""
    if not _passes_multiple(before, now.version, site.checkpoint_every):
        return
    try:
        failpoint("state.checkpoint.before")
        site.delta.checkpoint()
    except Exception as error:
        _notify(
            site,
            f"Tidegate could not write a Delta checkpoint at table version {now.table_version} ({error}); it "
            "retries later",
        )
        return
    started = time.monotonic()
    names = site.key.pipeline, site.key.source
    try:
        # Only after the checkpoint: what lies below the newest one may go.
        cleaned = clean_log(site.store, datetime.fromtimestamp(site.pace.now_ms() / 1000, UTC))
    except Exception as error:
        site.emit(TableCareFailed(*names, CLEAN_LOG, str(error)))
        return
    if cleaned.files:
        site.emit(TableCared(*names, CLEAN_LOG, cleaned.files, cleaned.bytes, time.monotonic() - started))


# A block is due every 256 positions; looking eight times as often costs one listing each and catches up after a
# failure.
LOOK_EVERY = 32
"""Commits between two looks of a run for a block of the ledger that is due."""


def compact_ledger(site: TableContext, now: Position, before: int) -> None:
    """Now and then gather a block of old documents, or as many as the commit moved past."""
    if now.parent is None or not _passes_multiple(before, now.version, LOOK_EVERY):
        return
    try:
        site.ledger.compact(now.parent, most=1 + (now.version - before) // SIZE)
    except Exception as error:
        _notify(
            site,
            f"Tidegate could not gather old documents below position {now.version} ({error}); it retries later",
        )


def _passes_multiple(before: int, now: int, every: int) -> bool:
    """Whether a multiple of ``every`` was reached on the way from ``before`` to ``now``."""
    return every > 0 and now // every > before // every


@dataclass(frozen=True, slots=True)
class WorkArea:
    """A folder of its own; ``directory`` is relative to the table."""

    directory: str
    location: Location

    @property
    def name(self) -> str:
        """Its name among the work areas of its source."""
        return self.directory.rpartition("/")[2]

    def debt(self, others: Sequence[WorkArea] = ()) -> dict[str, Any]:
        """The debt of a commit that took its rows from here, and from ``others``."""
        more = {"others": [each.directory for each in others]} if others else {}
        return {"kind": WORK, "directory": self.directory, **more}


def new_work_area(key: SourceKey, table: Location) -> WorkArea:
    """A new work area; nothing is written yet."""
    # Never shared: of two processes at work on one source, the first to finish must not remove the other's rows.
    directory = f"{key.work}/{uuid4()}"
    return WorkArea(directory, _locate(table, directory))


def work_areas(key: SourceKey, table: Location) -> Location:
    return _locate(table, key.work)


def _locate(table: Location, directory: str) -> Location:
    # Not forced to disk: a power cut loses the area together with the commit that would have needed it.
    return Location(f"{table.uri}/{quote(directory)}", table.options, sync=False)


def remove_work(store: ObjectStore, directory: str, modified_by: datetime | None = None) -> int:
    """Remove a work area, or what is as old as ``modified_by``, and return the number of files."""
    found = [info for info in store.list(directory) if modified_by is None or info.modified <= modified_by]
    for info in found:
        store.delete(info.path)
    if found or modified_by is None:
        remove_empty_directories(Location(f"{store.location.uri}/{quote(directory)}", store.location.options))
    return len(found)


def remove_old_work(store: ObjectStore, key: SourceKey, now: datetime) -> int:
    """Remove what has been left in work areas of ``key`` for a day or longer, and return the number of files."""
    return remove_work(store, key.work, now - KEPT)


@dataclass(frozen=True, slots=True)
class WorkRemover:
    """Pays the debt of a commit that took its rows from work areas: notes its data files, removes the areas."""

    store: ObjectStore

    def pay(self, opened: Position, owed: Mapping[str, Any]) -> None:
        """Note the files that the commit added, unless its entry is gone, and remove the areas."""
        if opened.parent is not None and opened.committed_at >= 0:
            # The entry may have been cleaned up since; the debt has to be paid all the same.
            with suppress(ObjectMissing):
                entry = self.store.get(entry_path(opened.committed_at))
                save_files(self.store, opened.key, opened.version, opened.parent.attempt, entry)
        for directory in (owed["directory"], *owed.get("others", ())):
            remove_work(self.store, str(directory))
