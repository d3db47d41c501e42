"""What a committer leaves to do after its commit: take away, or keep, what it has dealt with.

It is a debt of the committer's own position: paid right after the commit, or by whoever opens that position next and
before anything new is listed. Of each unit the metas go first and the signal last, so that a kill in between leaves
a signal that still names them; paying twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tidegate.errors import ObjectMissing, StateError
from tidegate.failpoints import failpoint
from tidegate.runs.staged_fold import Rejection
from tidegate.state.documents import encoded
from tidegate.state.identity import SourceKey
from tidegate.state.opened import Opened
from tidegate.state.pending import signals_of
from tidegate.state.staging import ARCHIVE, PENDING, REJECTED, StagedUnit, meta_path
from tidegate.storage.port import ObjectStore

KIND = "staging"
REASON = ".reason.json"

Settle = Callable[[SourceKey], None]
"""Pays what a source owes of its own, if it is known here."""


def debt(
    units: Mapping[SourceKey, tuple[int, int]],
    metas: Iterable[str],
    rejected: Iterable[Rejection],
    *,
    archive: bool,
) -> dict[str, Any]:
    """What a commit owes: per source, every unit up to the second number is done with, and taken from the first on."""
    return {
        "kind": KIND,
        "archive": archive,
        "units": [
            {"pipeline": key.pipeline, "source": key.source, "first": first, "upto": upto}
            for key, (first, upto) in units.items()
        ],
        "metas": sorted(metas),
        "rejected": [each.to_json() for each in rejected],
    }


class Clearing:
    """Pays these debts of one table; ``metas_of`` remembers the metas of units that were read in this process."""

    def __init__(self, store: ObjectStore, settle: Settle) -> None:
        self._store, self._settle = store, settle
        self.metas_of: dict[str, tuple[str, ...]] = {}

    def pay(self, opened: Opened, owed: Mapping[str, Any]) -> None:
        """Everything of one commit; idempotent."""
        failpoint("staging.clear.before")
        for each in owed["units"]:
            self._settle(SourceKey(str(each["pipeline"]), str(each["source"])))
        rejected = {str(each["path"]): str(each["reason"]) for each in owed["rejected"]}
        self._each(lambda path: self._reject(path, rejected[path], opened), rejected)
        archive = bool(owed["archive"])
        for each in owed["units"]:
            key = SourceKey(str(each["pipeline"]), str(each["source"]))
            done = [signal for signal in signals_of(self._store, key) if signal.seq <= int(each["upto"])]
            taken = [signal.path for signal in done if signal.seq >= int(each["first"])]
            self._clear(taken, keep=archive)
            self._clear([signal.path for signal in done if signal.path not in taken], keep=False)
        self._each(lambda path: self._put_away(path, ARCHIVE if archive else None), [str(m) for m in owed["metas"]])
        failpoint("staging.clear.after")

    def _clear(self, units: Sequence[str], *, keep: bool) -> None:
        """Take units and their metas away, the signals last."""
        target = ARCHIVE if keep else None
        metas = [meta for path in units for meta in self._metas(path)]
        self._each(lambda path: self._put_away(path, target), metas)
        if units:
            failpoint("staging.clear.metas")
        self._each(lambda path: self._put_away(path, target), units)

    def _reject(self, path: str, reason: str, opened: Opened) -> None:
        """Keep what was rejected where it is out of the way, with the reason beside it."""
        metas = self._metas(path) if not path.endswith(".meta.json") else ()
        at = {"position": opened.version, "table_version": opened.committed_at}
        target = f"{REJECTED}{path.removeprefix(PENDING)}"
        self._store.put(f"{target.removesuffix('.json')}{REASON}", encoded({"reason": reason, "path": path, **at}))
        for meta in metas:
            self._put_away(meta, REJECTED)
        failpoint("staging.clear.rejected")
        self._put_away(path, REJECTED)

    def _metas(self, unit: str) -> tuple[str, ...]:
        """The metas of a unit; none where the unit is gone or says nothing."""
        if unit in self.metas_of:
            return self.metas_of.pop(unit)
        try:
            found = StagedUnit.from_bytes(self._store.get(unit))
        except (ObjectMissing, StateError, ValueError, KeyError, TypeError, AttributeError):
            return ()
        return metas_of(found)

    def _put_away(self, path: str, target: str | None) -> None:
        """Remove an object of the pending folder; with ``target`` it is kept there."""
        if target is not None:
            try:
                self._store.put(f"{target}{path.removeprefix(PENDING)}", self._store.get(path))
            except ObjectMissing:
                return
        self._store.delete(path)

    def _each(self, act: Callable[[str], None], paths: Iterable[str]) -> None:
        with ThreadPoolExecutor(max(1, self._store.concurrency), "clear") as pool:
            list(pool.map(act, paths))


def metas_of(unit: StagedUnit) -> tuple[str, ...]:
    """The metas that a unit comes with."""
    return tuple(meta_path(file.path) for file in unit.data_files)
