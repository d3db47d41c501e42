"""DONE: what follows once a commit is in the log: the new position, its debts, the event, now and then a checkpoint.

Nothing here can make the commit undone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.errors import TableError
from tidegate.failpoints import failpoint
from tidegate.observe.events import CommitFailed, Committed, Notice, TableCared, TableCareFailed
from tidegate.state import compacting, debts
from tidegate.state.arrow import schema_json
from tidegate.state.blocks import SIZE
from tidegate.state.documents import Parent
from tidegate.state.files import Change
from tidegate.state.log import LogEntry, sync_entries
from tidegate.state.log_cleaning import clean_log
from tidegate.state.opened import Opened
from tidegate.state.site import Site

if TYPE_CHECKING:
    from tidegate.state.committing import Attempt, WrittenMember


CLEAN_LOG = "clean_log"


def done(member: WrittenMember, attempt: Attempt, entry: LogEntry) -> Opened:
    """DONE: the new position, its debts paid as far as possible; every so often a Delta checkpoint and a block."""
    site, opened, document, change = member.site, member.opened, member.document, member.change
    created = next(iter(attempt.written), None)
    now = Opened(
        key=site.key,
        identity=site.identity,
        version=document.version,
        state=change.state,
        table_version=entry.version,
        table_id=attempt.table_id or entry.table_id,
        schema_json=_replaced_columns(change)
        or attempt.schema_json
        or schema_json(attempt.new_columns()[0] if created else None),
        partition_columns=opened.partition_columns if opened.table_id else created.partition_columns if created else (),
        committed_at=entry.version,
        delta_version=document.delta_version,
        parent=Parent(document.version, document.attempt, member.sha256),
        data_files=frozenset(file.path for file in change.data_files),
        debts=document.debts,
        letters=document.letters,
        warnings=attempt.warnings,
        needs_frames=attempt.needs_frames,
        rows=change.rows if change.frame is None or change.rows_known or entry.rows is None else entry.rows,
    )
    now = replace(now, unpaid=not debts.pay_if_possible(site, now))
    _check_rows(site, change, entry)
    site.emit(_event(member, now, attempt, entry))
    if not attempt.by_spark:
        _checkpoint(site, now, opened.version)
    _compact(site, now, opened.version)
    return now


def make_durable(members: Sequence[WrittenMember], entry: LogEntry) -> None:
    """Force the commit to disk: the data files that a library or Spark wrote for it, then the log up to it.

    What tasks wrote, and the documents, were forced when they were closed. The log is forced from the version on that
    the commit was planned with, since whoever wrote the entries between may have died before doing so.
    """
    site = members[0].site
    if not site.store.location.is_forced:
        return
    change = members[0].change
    if change.frame is not None or change.replacement is not None:
        site.store.sync(site.log.added(entry.version, site.key))
    sync_entries(site.store, max(min(each.opened.table_version for each in members), 0))


def _check_rows(site: Site, change: Change, entry: LogEntry) -> None:
    """``TableError`` where Spark wrote other rows than were gathered for it; that the commit is durable stays true.

    It is the last of three looks: files of a work area are asked for before the statement, and Spark is told not to
    pass over any that it misses. What gets by both must not be counted as good. The outcome of a commit is decided by
    the log alone, as ever: this only says what it is worth.
    """
    wanted, found = change.written_rows, entry.rows
    if change.frame is None or wanted is None or found is None or found == wanted:
        return
    problem = TableError(
        f"{site.key}: {wanted} rows were gathered, and Spark wrote {found} of them into {site.uri} (table version "
        f"{entry.version}); the position has moved with that commit",
        "look who changes files below _tidegate there; then go back with 'tidegate watermark set', or read that part "
        "again with 'tidegate replay'",
    )
    site.emit(CommitFailed(site.key.pipeline, site.key.source, "failed", str(problem)))
    raise problem


def _replaced_columns(change: Change) -> str | None:
    """The columns that the commit gave the table; None where they are what they were."""
    columns = None if change.replacement is None else change.replacement.columns
    return None if columns is None else schema_json(columns)


def _event(member: WrittenMember, now: Opened, attempt: Attempt, entry: LogEntry) -> Committed:
    site, change = member.site, member.change
    files = {item.file: item.size for item in change.coverage}
    finished = {item.file: item.size for item in change.coverage if item.eof}
    given_up = max(change.letters - sum(item.bad for item in change.coverage), 0)
    return Committed(
        site.key.pipeline,
        site.key.source,
        position=now.version,
        table_version=now.table_version,
        source_files=len(files),
        source_bytes=sum(files.values()),
        data_files=len(change.data_files) if change.frame is None else entry.adds,
        rows=now.rows,
        seconds=attempt.deadline.seconds,
        finished_files=max(len(finished) - given_up, 0),
        finished_bytes=sum(finished.values()),
    )


def _passed(before: int, now: int, every: int) -> bool:
    """Whether a multiple of ``every`` was reached on the way from ``before`` to ``now``."""
    return every > 0 and now // every > before // every


def _checkpoint(site: Site, now: Opened, before: int) -> None:
    """A Delta checkpoint keeps loading the table fast; without it everything is still right."""
    if not _passed(before, now.version, site.checkpoint_every):
        return
    try:
        failpoint("state.checkpoint.before")
        site.delta.checkpoint()
    except Exception as error:
        text = f"no Delta checkpoint at table version {now.table_version} ({error}); tried again later"
        site.emit(Notice(site.key.pipeline, site.key.source, text))
        return
    _clean_log(site)


def _clean_log(site: Site) -> None:
    """Entries that a checkpoint sums up, that are old enough and that nobody needs; they do no harm while they stay."""
    started = time.monotonic()
    names = site.key.pipeline, site.key.source
    try:
        cleaned = clean_log(site.store, datetime.fromtimestamp(site.pace.now_ms() / 1000, UTC))
    except Exception as error:
        site.emit(TableCareFailed(*names, CLEAN_LOG, str(error)))
        return
    if cleaned.files:
        site.emit(TableCared(*names, CLEAN_LOG, cleaned.files, cleaned.bytes, time.monotonic() - started))


def _compact(site: Site, now: Opened, before: int) -> None:
    """Every so often a block of old documents is gathered, or as many as the commit moved over; without it there are
    only more objects.
    """
    if now.parent is None or not _passed(before, now.version, compacting.LOOK_EVERY):
        return
    try:
        compacting.compact(site.store, site.key, now.parent, most=1 + (now.version - before) // SIZE)
    except Exception as error:
        text = f"old documents below position {now.version} are not gathered yet ({error}); tried again later"
        site.emit(Notice(site.key.pipeline, site.key.source, text))
