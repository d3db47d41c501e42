"""What a commit leaves to do once it is durable: the ``.won`` note, further follow-ups, the mirror.

Every debt is idempotent and is paid again until it once succeeded: right after the commit, or by the next
OPEN, and always before the next commit of the source. A debt that cannot be paid never makes the commit
undone.
"""

from __future__ import annotations

from tidegate.errors import StateError, TidegateError
from tidegate.failpoints import InjectedFailure, failpoint
from tidegate.observe.events import Notice
from tidegate.protocol.change import State
from tidegate.protocol.documents import Won, read_won
from tidegate.protocol.mirror import Mirror, read_mirror, write_mirror
from tidegate.protocol.position import Position, TableContext


def pay(site: TableContext, opened: Position) -> None:
    """Pay every debt of the position; raises at the first that cannot be paid."""
    write_won(site, opened)
    pay_others(site, opened)
    refresh_mirror(site, opened)


def pay_if_possible(site: TableContext, opened: Position) -> bool:
    """The same right after a commit: False, with a notice, when a debt is left."""
    try:
        write_won(site, opened)
        pay_others(site, opened)
        show(site, opened, opened.state or {})
    except (TidegateError, InjectedFailure) as error:
        text = f"position {opened.version} is committed; something is left to do after it: {error}"
        site.emit(Notice(site.key.pipeline, site.key.source, text))
        return False
    return True


def write_won(site: TableContext, opened: Position, *, paid: bool = False) -> None:
    """Note beside the document that its attempt won; needs to know where its commit is.

    The files of a commit whose document names none (a replay, rows that Spark wrote) are noted from its entry.
    """
    parent, table_id = opened.parent, opened.table_id
    if parent is None or table_id is None or opened.committed_at < 0:
        return
    checked = max(opened.committed_at, opened.table_version)
    attempt = (opened.version, parent.attempt, parent.sha256)
    added = () if opened.data_files else _added(site, opened, parent.attempt)
    note = Won(*attempt, opened.committed_at, table_id, checked, opened.unseen, paid or not opened.debts, added)
    failpoint("state.won.before")
    site.store.put(site.key.won(opened.version, parent.attempt), note.to_bytes())
    failpoint("state.won.after")


def _added(site: TableContext, opened: Position, attempt: str) -> tuple[str, ...]:
    """The data files of the entry; where the log was cleaned up, those that were noted before."""
    found = site.log.added(opened.committed_at, site.key)
    before = None if found else read_won(site.store, site.key, opened.version, attempt)
    return found if before is None else before.added


def pay_others(site: TableContext, opened: Position) -> None:
    """Pay what the document owes beyond note and mirror."""
    for debt in opened.debts:
        payer = site.payers.get(str(debt.get("kind")))
        if payer is None:
            raise StateError(
                f"{site.key}: position {opened.version} owes {debt.get('kind')!r}, which nobody here can pay",
                "upgrade Tidegate to the version that made that commit",
            )
        failpoint("state.debt.before")
        payer(opened, debt)
    if opened.debts:
        write_won(site, opened, paid=True)


def refresh_mirror(site: TableContext, opened: Position) -> None:
    """Write the mirror unless it shows this position, or a newer one, already."""
    shown = read_mirror(site.store, site.key)
    if shown is not None and (
        shown.version > opened.version or (shown.version, shown.attempt) == (opened.version, _attempt(opened))
    ):
        return
    show(site, opened, opened.state or {})


def show(site: TableContext, opened: Position, state: State) -> None:
    """Write the mirror of a position."""
    mirror = Mirror(
        key=site.key,
        version=opened.version,
        attempt=_attempt(opened),
        table_version=opened.table_version,
        delta_version=opened.delta_version,
        state=state,
        polls=site.polls,
        written_at=site.pace.now().isoformat(),
        letters=opened.letters,
    )
    write_mirror(site.store, mirror, legacy=site.mirror_legacy)


def _attempt(opened: Position) -> str:
    return "" if opened.parent is None else opened.parent.attempt
