"""A provider's copy of a state: what a commit owes, how it is paid, and what is compared at the start.

The log stays the position. A provider gets its copy as a follow-up of the commit with the rows, right after the commit
or at the next start, so a run that wrote and could not save completes the save and writes no row again. If a provider
contradicts the log, neither is trusted or overwritten: somebody changed one of them, and only a person knows which is
right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from tidegate.core.columns.values import WatermarkSerializer, without_inclusive
from tidegate.errors import CommitLost, StateError, WatermarkError
from tidegate.failpoints import failpoint
from tidegate.protocol.change import State
from tidegate.protocol.providers import WatermarkManager
from tidegate.specs.user_code import name_of, named_errors

if TYPE_CHECKING:
    from tidegate.protocol.position import Payer, Position

KIND = "provider"
"""The kind of the debt that pays for the copy."""

_SHOWN = 300
_SET = "compare both with `tidegate watermark show`, then set both with `tidegate watermark set`"
_REMOVE = (
    "compare both; if the log is right, remove the provider's entry of this dataflow, and the next run copies it "
    "again; if "
    "not, see `tidegate watermark` and `tidegate units`"
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

    def owed(self, before: State | None, after: State) -> tuple[dict[str, Any], ...]:
        """The debt of a commit that moves the state; none if the copy stays the same."""
        if self.watermarks is None:
            return ()
        previous, text = None if before is None else self.text(before), self.text(after)
        if previous == text and not self.overwrite:
            return ()
        if self.in_debt:
            return (copy_debt(self.dataflow_id, text, previous, by_hand=self.overwrite),)
        before_that = {"previous_sha256": _digest(previous), "by_hand": self.overwrite}
        return ({"kind": KIND, "dataflow_id": self.dataflow_id, **before_that},)

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
    return {"kind": KIND, "dataflow_id": dataflow_id, "text": text, "previous": previous, "by_hand": by_hand}


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
                if self.position() > opened.version:
                    return None
                raise _differ(dataflow_id, kept.found, text, self.remedy)
            with suppress(CommitLost):
                return kept.save(text, _run_id(opened))

    def _text(self, opened: Position, owed: Mapping[str, Any]) -> str:
        if "text" in owed:
            return str(owed["text"])
        assert self.text is not None, "only sources with a state of their own owe such a copy"
        return self.text(opened.state or {})


class _SavedCopy:
    """What a provider has of one dataflow now."""

    def __init__(self, watermarks: WatermarkManager, dataflow_id: str) -> None:
        self._watermarks = watermarks
        self._dataflow_id = dataflow_id
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
        with self._named("save_watermark"):
            self._watermarks.after(self.found).save_watermark(self._dataflow_id, _parse(text) or {}, **by)
        failpoint("state.provider.after")

    def _values(self) -> dict[str, Any] | None:
        try:
            with self._named("get_watermark"):
                return self._watermarks.get_watermark(self._dataflow_id)
        except WatermarkError as error:
            raise StateError(f"the saved watermark cannot be read: {error.problem}", error.remedy) from error

    def _inclusive(self) -> frozenset[str]:
        """The columns that are read inclusively, if the text is one of ours."""
        with suppress(StateError):
            return without_inclusive(_parse(self.found) or {})[1]
        return frozenset()

    def _named(self, method: str) -> Any:
        said = f"{name_of(type(self._watermarks))}: {method}({self._dataflow_id!r})"
        remedy = f"correct {method} of that class; committed rows stay, and a later run makes the copy"
        return named_errors(said, remedy, StateError)


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
        if moved():
            raise CommitLost(f"{dataflow_id}: another run committed first", "plan again")
        raise _differ(dataflow_id, kept.found, text, remedy)
    if not read_only:
        kept.save(text, run)


def _differ(dataflow_id: str, found: str | None, text: str | None, remedy: str) -> StateError:
    """The error for a provider and a position that disagree."""
    return StateError(
        f"{dataflow_id}: the state provider has the watermark {_shorten(found)}, but the destination was written up "
        f"to {_shorten(text)}: somebody changed one of them; nothing was read or written",
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
