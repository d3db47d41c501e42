"""The copy of a watermark that a provider gets: a follow-up of the commit that holds the rows.

The log stays the position. The copy follows it, right after the commit or with the next start, so a run that wrote and
could not save completes the save and writes no row again. A provider that says something else than the log is not
believed and not overwritten: somebody changed one of them, and only a person knows which is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.columns.values import WatermarkSerializer
from tidegate.errors import CommitLost, StateError, WatermarkError
from tidegate.failpoints import failpoint
from tidegate.protocol.position import Position
from tidegate.protocol.providers.base import BaseMetadataProvider

KIND = "provider"


def debt(dataflow_id: str, text: str, previous: str | None, *, by_hand: bool = False) -> dict[str, Any]:
    """What a commit owes that moved the watermark from ``previous`` to ``text``.

    ``by_hand``: a person said so, and whatever the provider has is replaced.
    """
    return {"kind": KIND, "dataflow_id": dataflow_id, "text": text, "previous": previous, "by_hand": by_hand}


@dataclass(frozen=True, slots=True)
class ProviderCopy:
    """Pays that debt; without a provider, since the configuration names none any more, there is nothing to pay.

    ``position`` is how far the source is by the log now: a run that was overtaken has nothing to pay either, since
    whoever overtook it paid first. With ``overwrite`` whatever the provider has is replaced: for the command by which a
    person decides what holds.
    """

    provider: BaseMetadataProvider | None
    position: Callable[[], int]
    overwrite: bool = False

    def pay(self, opened: Position, owed: Mapping[str, Any]) -> None:
        """Save the text of the commit unless it is saved; ``StateError`` where the provider has a third one."""
        if self.provider is None:
            return
        attempt = "" if opened.parent is None else opened.parent.attempt
        step = CopyStep(
            dataflow_id=str(owed["dataflow_id"]),
            text=str(owed["text"]),
            previous=owed["previous"],
            run=f"{opened.version:020d}-{attempt}",
            by_hand=self.overwrite or bool(owed.get("by_hand")),
        )
        follow(self.provider, step, lambda: self.position() > opened.version)


@dataclass(frozen=True, slots=True)
class CopyStep:
    """A watermark that moved from ``previous`` to ``text``; ``run`` names the document that says so."""

    dataflow_id: str
    text: str
    previous: str | None
    run: str
    by_hand: bool = False


def follow(provider: BaseMetadataProvider, step: CopyStep, overtaken: Callable[[], bool]) -> None:
    """Save the step unless it is saved; ``StateError`` where the provider has a third text and nobody has
    ``overtaken`` us.

    A step made by hand takes the place of whatever is there, also of what cannot be read as a watermark.
    """
    found = provider.get_watermark(step.dataflow_id)
    if found == step.text or (not step.by_hand and is_same(found, step.text)):
        return
    if found is not None and not step.by_hand and not is_same(found, step.previous):
        if overtaken():
            return
        raise differs(step.dataflow_id, found, step.text)
    try:
        _save(provider, step, found)
    except CommitLost:
        follow(provider, step, overtaken)


def check_copy(
    provider: BaseMetadataProvider | None,
    dataflow_id: str,
    text: str | None,
    *,
    moved: Callable[[], bool] = lambda: False,
    read_only: bool = False,
) -> None:
    """Compare what the provider has with ``text``, the log's; what it lacks it is given, unless ``read_only``.

    ``StateError`` where they differ; ``CommitLost`` where they do since the log has ``moved`` on meanwhile.
    """
    if provider is None:
        return
    found = provider.get_watermark(dataflow_id)
    if is_same(found, text):
        return
    if found is not None or text is None:
        if moved():
            raise CommitLost(f"{dataflow_id}: another run committed first", "plan again")
        raise differs(dataflow_id, found, text)
    if not read_only:
        _save(provider, CopyStep(dataflow_id, text, None, ""), None)


def is_same(one: str | None, other: str | None) -> bool:
    """Whether two texts are the same watermark; what is no watermark at all is a ``StateError``."""
    return one == other or _parsed(one) == _parsed(other)


def differs(dataflow_id: str, found: str | None, text: str | None) -> StateError:
    """Provider and position disagree, and neither is believed."""
    return StateError(
        f"{dataflow_id}: the state provider has the watermark {found or 'nothing'}, and the destination was written up "
        f"to {text or 'nothing'}: somebody changed one of them, and nothing was read or written",
        "look at both with `tidegate watermark show`, then put both where you want them with `tidegate watermark set`",
    )


def _save(provider: BaseMetadataProvider, step: CopyStep, found: str | None) -> None:
    failpoint("state.provider.before")
    job = f"tidegate/{step.dataflow_id}"
    provider.compare_and_set(step.dataflow_id, found, step.text, job_id=job, dataflow_run_id=step.run or None)
    failpoint("state.provider.after")


def _parsed(text: str | None) -> dict[str, Any] | None:
    try:
        return WatermarkSerializer.deserialize(text)
    except WatermarkError as error:
        raise StateError(f"the saved watermark cannot be read: {error.problem}", error.remedy) from error
