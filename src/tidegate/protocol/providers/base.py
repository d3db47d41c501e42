"""The contract of metadata providers: they keep watermarks as text and never look inside.

What cannot be read is an error. Only a store that answers, and knows nothing of a dataflow, says that it has no
watermark: taking trouble for a first run would read everything again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate.core.columns.values import WatermarkSerializer, without_inclusive
from tidegate.errors import CommitLost, StateError

MOST_TRIES = 1000
"""How often an unconditional save begins again because somebody else saved meanwhile."""


@dataclass(frozen=True, slots=True)
class Saved:
    """One watermark as it was saved: its text, the text before it, by whom and when; ``number`` counts from 1."""

    watermark: str
    previous: str | None = None
    job_id: str | None = None
    dataflow_run_id: str | None = None
    updated_at: datetime | None = None
    number: int = 0

    def facts(self, dataflow_id: str) -> dict[str, Any]:
        """Everything that is kept of it, by the names under which it is kept."""
        return {
            "dataflow_id": dataflow_id,
            "number": self.number,
            "watermark": self.watermark,
            "previous": self.previous,
            "job_id": self.job_id,
            "dataflow_run_id": self.dataflow_run_id,
            "updated_at": self.updated_at,
        }


class BaseMetadataProvider(ABC):
    """Keeps one text per dataflow, whose id is ``{pipeline}/{source}``."""

    @abstractmethod
    def get_watermark(self, dataflow_id: str) -> str | None:
        """The text that was saved last, None where nothing was ever saved; trouble with the store is raised."""

    @abstractmethod
    def update_watermark(
        self, dataflow_id: str, watermark_value: str, *, job_id: str | None, dataflow_run_id: str | None
    ) -> None:
        """Save the text, whatever was there; it is durable on return."""

    def compare_and_set(
        self,
        dataflow_id: str,
        expected: str | None,
        watermark_value: str,
        *,
        job_id: str | None,
        dataflow_run_id: str | None,
    ) -> None:
        """Save the text if ``expected`` is what is there, else raise ``CommitLost``.

        Done in two steps here; providers that can look and save in one do so.
        """
        if self.get_watermark(dataflow_id) != expected:
            raise moved(dataflow_id)
        self.update_watermark(dataflow_id, watermark_value, job_id=job_id, dataflow_run_id=dataflow_run_id)

    def history(self, dataflow_id: str) -> tuple[Saved, ...]:
        """Everything that was saved, oldest first; nothing where the provider keeps no history."""
        return ()


class NumberedMetadataProvider(BaseMetadataProvider):
    """A provider whose saves are numbered: of all who reach for a number, one gets it."""

    @abstractmethod
    def last(self, dataflow_id: str) -> Saved | None:
        """What was saved last, None where nothing was ever saved."""

    @abstractmethod
    def save(self, dataflow_id: str, saved: Saved) -> None:
        """Make ``saved`` the last one; raises ``CommitLost`` when its number is taken."""

    def get_watermark(self, dataflow_id: str) -> str | None:
        last = self.last(dataflow_id)
        return None if last is None else last.watermark

    def update_watermark(
        self, dataflow_id: str, watermark_value: str, *, job_id: str | None, dataflow_run_id: str | None
    ) -> None:
        def once() -> None:
            self.save(dataflow_id, _following(self.last(dataflow_id), watermark_value, job_id, dataflow_run_id))

        insist(dataflow_id, once)

    def compare_and_set(
        self,
        dataflow_id: str,
        expected: str | None,
        watermark_value: str,
        *,
        job_id: str | None,
        dataflow_run_id: str | None,
    ) -> None:
        following = _following(self.last(dataflow_id), watermark_value, job_id, dataflow_run_id)
        if following.previous != expected:
            raise moved(dataflow_id)
        self.save(dataflow_id, following)


def _following(last: Saved | None, text: str, job_id: str | None, run_id: str | None) -> Saved:
    previous, number = (None, 0) if last is None else (last.watermark, last.number)
    return Saved(checked_text(text), previous, job_id, run_id, datetime.now(UTC), number + 1)


def insist(dataflow_id: str, save: Callable[[], None]) -> None:
    """Save, again and again while somebody else is first."""
    for _ in range(MOST_TRIES):
        try:
            return save()
        except CommitLost:
            continue
    raise moved(dataflow_id)


def moved(dataflow_id: str) -> CommitLost:
    """Somebody else saved another watermark first."""
    return CommitLost(
        f"the saved watermark of {dataflow_id!r} is not the one that was read: another run saved first", "plan again"
    )


def checked_text(text: object) -> str:
    """A watermark as providers take it."""
    if not isinstance(text, str):
        raise TypeError(f"a provider keeps watermarks as text, not as {type(text).__name__}; see WatermarkManager")
    return text


def checked_id(dataflow_id: str) -> str:
    """A dataflow id that every store can keep."""
    if not dataflow_id.isprintable() or not all(dataflow_id.split("/")):
        raise StateError(
            f"{dataflow_id!r} cannot be a dataflow id",
            "use {pipeline}/{source}, with printable names that are not empty",
        )
    return dataflow_id


class WatermarkManager:
    """Reads and saves watermarks through ``provider``."""

    def __init__(self, provider: BaseMetadataProvider) -> None:
        self._provider = provider

    def get_watermark(self, dataflow_id: str) -> dict[str, Any] | None:
        """The greatest value seen per column, None before the first save; ``WatermarkError`` for damaged text."""
        found = WatermarkSerializer.deserialize(self._provider.get_watermark(dataflow_id))
        return None if found is None else without_inclusive(found)[0]

    def save_watermark(
        self,
        dataflow_id: str,
        watermark: Mapping[str, Any],
        *,
        job_id: str | None = None,
        dataflow_run_id: str | None = None,
    ) -> None:
        """Save a watermark, whatever was there; ``WatermarkError`` for a value that has no text."""
        text = WatermarkSerializer.serialize(watermark)
        self._provider.update_watermark(dataflow_id, text, job_id=job_id, dataflow_run_id=dataflow_run_id)
