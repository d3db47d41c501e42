"""Metadata providers: other keepers of watermarks, as text that they never look inside.

The log stays the position; :mod:`tidegate.protocol.store` gives providers their copies of it.

What cannot be read is an error. Only a store that responds, and does not know a dataflow, has no watermark:
mistaking a failure for a first run would read everything again.

A provider of the user's own is any object with ``get_watermark`` and ``update_watermark``. Whatever it raises, and any
result that is no text, becomes an error that names class, method and remedy.
"""

from __future__ import annotations

import copy
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self
from urllib.parse import quote
from uuid import uuid4

from tidegate.core.json_shape import load_json
from tidegate.core.watermark_text import WatermarkSerializer, without_inclusive
from tidegate.errors import CommitLost, EnvironmentProblem, ObjectExists, ObjectMissing, StateError
from tidegate.protocol.documents import SCHEMA_VERSION, check_schema_version
from tidegate.specs.locations import Location
from tidegate.specs.masking import Mask
from tidegate.specs.user_code import load_function, name_errors, name_of
from tidegate.storage.stores import open_store

# Each loss means that another process has saved, so this ends; the bound is for a store that always says so.
MOST_TRIES = 1000
"""How often an unconditional save starts over because another process saved meanwhile."""

_ENTRY = re.compile(r"history/(\d{20})\.json")


@dataclass(frozen=True, slots=True)
class Saved:
    """One saved watermark: its text, the text before it, by whom and when; ``number`` counts from 1."""

    watermark: str
    previous: str | None = None
    job_id: str | None = None
    dataflow_run_id: str | None = None
    updated_at: datetime | None = None
    number: int = 0

    def facts(self, dataflow_id: str) -> dict[str, Any]:
        """All its fields, by their stored names."""
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
        """The text saved last; None if nothing was ever saved. A failing store raises."""

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
        """Save the text if ``expected`` is there, else raise ``CommitLost``.

        Takes two steps here; providers that can compare and save in one step do so.
        """
        if self.get_watermark(dataflow_id) != expected:
            raise another_saved_first(dataflow_id)
        self.update_watermark(dataflow_id, watermark_value, job_id=job_id, dataflow_run_id=dataflow_run_id)

    def history(self, dataflow_id: str) -> tuple[Saved, ...]:
        """Everything that was saved, oldest first; nothing if the provider keeps no history."""
        return ()


class NumberedMetadataProvider(BaseMetadataProvider):
    """A provider with numbered saves: of all who try a number, one gets it."""

    @abstractmethod
    def last(self, dataflow_id: str) -> Saved | None:
        """The last save; None if nothing was ever saved."""

    @abstractmethod
    def save(self, dataflow_id: str, saved: Saved) -> None:
        """Make ``saved`` the last one; raises ``CommitLost`` if its number is taken."""

    def get_watermark(self, dataflow_id: str) -> str | None:
        last = self.last(dataflow_id)
        return None if last is None else last.watermark

    def update_watermark(self, dataflow_id: str, watermark_value: str, **by: str | None) -> None:
        for _ in range(MOST_TRIES):
            with suppress(CommitLost):
                return self.save(dataflow_id, _number_next(self.last(dataflow_id), watermark_value, **by))
        raise another_saved_first(dataflow_id)

    def compare_and_set(self, dataflow_id: str, expected: str | None, watermark_value: str, **by: str | None) -> None:
        following = _number_next(self.last(dataflow_id), watermark_value, **by)
        if following.previous != expected:
            raise another_saved_first(dataflow_id)
        self.save(dataflow_id, following)


def _number_next(last: Saved | None, text: str, job_id: str | None, dataflow_run_id: str | None) -> Saved:
    previous, number = (None, 0) if last is None else (last.watermark, last.number)
    return Saved(check_text(text), previous, job_id, dataflow_run_id, datetime.now(UTC), number + 1)


def another_saved_first(dataflow_id: str) -> CommitLost:
    """The error of a save that another run preceded."""
    return CommitLost(
        f"the saved watermark of {dataflow_id!r} changed since it was read: another run saved first", "plan again"
    )


def check_text(text: object) -> str:
    """Check a watermark text for a provider."""
    if not isinstance(text, str):
        raise TypeError(f"a provider keeps watermarks as text, not as {type(text).__name__}; see WatermarkManager")
    return text


def check_id(dataflow_id: str) -> str:
    """Check that every store can keep a dataflow id."""
    if not dataflow_id.isprintable() or not all(dataflow_id.split("/")):
        raise StateError(
            f"{dataflow_id!r} cannot be a dataflow id",
            "use {pipeline}/{source}, with printable names that are not empty",
        )
    return dataflow_id


class WatermarkManager:
    """Reads and saves watermarks through ``provider``; runs keep their copies by these two methods.

    Runs use what a subclass overrides. The position in the log does not depend on it.
    """

    def __init__(self, provider: BaseMetadataProvider) -> None:
        self.provider = provider

    def get_watermark(self, dataflow_id: str) -> dict[str, Any] | None:
        """The saved watermark; None before the first save. ``WatermarkError`` for damaged text."""
        found = WatermarkSerializer.deserialize(self.provider.get_watermark(dataflow_id))
        return None if found is None else without_inclusive(found)[0]

    def save_watermark(
        self,
        dataflow_id: str,
        watermark: Mapping[str, Any],
        *,
        job_id: str | None = None,
        dataflow_run_id: str | None = None,
    ) -> None:
        """Save a watermark, whatever was there; ``WatermarkError`` for a value without a text form."""
        text = WatermarkSerializer.serialize(watermark)
        self.provider.update_watermark(dataflow_id, text, job_id=job_id, dataflow_run_id=dataflow_run_id)

    def after(self, expected: str | None) -> Self:
        """The same manager, which saves only if ``expected`` is the current text; else ``CommitLost``."""
        other = copy.copy(self)
        other.provider = _ConditionalProvider(self.provider, expected)
        return other


@dataclass(frozen=True, slots=True)
class _ConditionalProvider(BaseMetadataProvider):
    """A provider that saves only in place of one text."""

    provider: BaseMetadataProvider
    expected: str | None

    def get_watermark(self, dataflow_id: str) -> str | None:
        return self.provider.get_watermark(dataflow_id)

    def update_watermark(
        self, dataflow_id: str, watermark_value: str, *, job_id: str | None, dataflow_run_id: str | None
    ) -> None:
        by = {"job_id": job_id, "dataflow_run_id": dataflow_run_id}
        self.provider.compare_and_set(dataflow_id, self.expected, watermark_value, **by)


class FileMetadataProvider(NumberedMetadataProvider):
    """Watermarks as files below ``location``, on a local disk or in a bucket; the first save creates the folder.

    Below ``{pipeline}/{source}/`` every save is a file, ``history/{number:020d}.json``, created only if nobody took
    that number: so of two runs one is refused. ``current.json`` is replaced after each save and is for people; reads
    begin there and look for later numbers, so that they cost the same however long the history is.
    """

    def __init__(self, location: Location) -> None:
        self._store = open_store(location)

    @property
    def location(self) -> Location:
        """Where the files lie."""
        return self._store.location

    def last(self, dataflow_id: str) -> Saved | None:
        shown: Saved | None = None
        with suppress(ObjectMissing):
            shown = self._read(dataflow_id, _current_path(dataflow_id))
        for path in self._entries(dataflow_id, 0 if shown is None else shown.number):
            shown = self._read(dataflow_id, path)
        return shown

    def save(self, dataflow_id: str, saved: Saved) -> None:
        content = _encode(dataflow_id, saved, str(uuid4()))
        entry = f"{_folder(dataflow_id)}/history/{saved.number:020d}.json"
        try:
            self._store.put_if_absent(entry, content)
        except ObjectExists:
            # The client may have repeated a write whose response was lost; the token inside tells ours from another's.
            if self._store.get(entry) != content:
                raise another_saved_first(dataflow_id) from None
        # After the numbered file, which decides; a kill in between leaves current.json one behind, and reads look
        # further.
        self._store.put(_current_path(dataflow_id), content)

    def history(self, dataflow_id: str) -> tuple[Saved, ...]:
        return tuple(self._read(dataflow_id, path) for path in self._entries(dataflow_id, 0))

    def _entries(self, dataflow_id: str, after: int) -> Iterator[str]:
        """The files of saves with greater numbers than ``after``, ascending."""
        folder = _folder(dataflow_id)
        for info in self._store.list(f"{folder}/history", f"{folder}/history/{after:020d}.json"):
            if not _ENTRY.fullmatch(info.path.removeprefix(f"{folder}/")):
                return
            yield info.path

    def _read(self, dataflow_id: str, path: str) -> Saved:
        content = self._store.get(path)
        where = f"{self._store.location.uri}/{path}"
        try:
            data = load_json(content)
            check_schema_version(data, where)
            return _decode(dataflow_id, data)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StateError(
                f"{where} is not a saved watermark of {dataflow_id!r}: it is damaged, or was changed outside Tidegate",
                "restore it from a backup; without current.json the newest file of history/ counts",
            ) from None


def _folder(dataflow_id: str) -> str:
    """The folder of a dataflow; special characters are percent-encoded, so that no name clashes with our files.

    >>> _folder("orders/db"), _folder("../50%")
    ('orders/db', '%2E%2E/50%25')
    """
    names = (quote(name, safe=" =:+,@~()").replace(".", "%2E") for name in check_id(dataflow_id).split("/"))
    return "/".join(names)


def _current_path(dataflow_id: str) -> str:
    return f"{_folder(dataflow_id)}/current.json"


def _encode(dataflow_id: str, saved: Saved, token: str) -> bytes:
    """The bytes of one save; ``token`` identifies our own save if its response was lost."""
    about = {"schema_version": SCHEMA_VERSION, **saved.facts(dataflow_id), "token": token}
    return (json.dumps(about, indent=2, ensure_ascii=False, default=datetime.isoformat) + "\n").encode()


def _decode(dataflow_id: str, data: Mapping[str, Any]) -> Saved:
    """Decode a save; ``ValueError``, ``KeyError`` or ``TypeError`` if it is something else."""
    if data["dataflow_id"] != dataflow_id or data["schema_version"] != SCHEMA_VERSION:
        raise ValueError(dataflow_id)
    previous, job_id, run_id = (data[name] for name in ("previous", "job_id", "dataflow_run_id"))
    if not isinstance(data["watermark"], str) or not all(
        text is None or isinstance(text, str) for text in (previous, job_id, run_id)
    ):
        raise TypeError("a text is something else")
    when = datetime.fromisoformat(data["updated_at"])
    return Saved(data["watermark"], previous, job_id, run_id, when, int(data["number"]))


METHODS = ("get_watermark", "update_watermark")


class CustomMetadataProvider(BaseMetadataProvider):
    """Calls ``provider`` and names its errors; ``mask`` hides its arguments."""

    def __init__(self, provider: Any, mask: Mask | None = None) -> None:
        self.name = name_of(type(provider))
        self._provider = provider
        self._mask = mask or Mask()
        with name_errors(f"state.provider {self.name}", "correct that class", EnvironmentProblem, self._mask):
            missing = [each for each in METHODS if not callable(getattr(provider, each, None))]
        if missing:
            raise EnvironmentProblem(
                f"state.provider {self.name} has no method {missing[0]}",
                "derive it from tidegate.BaseMetadataProvider, or give it get_watermark and update_watermark",
            )

    def get_watermark(self, dataflow_id: str) -> str | None:
        with self._name_errors("get_watermark", dataflow_id):
            found = self._provider.get_watermark(dataflow_id)
        if found is None or isinstance(found, str):
            return found
        raise StateError(
            f"state.provider {self.name}: get_watermark({dataflow_id!r}) returned {type(found).__name__}",
            "return the saved text, or None if nothing was saved",
        )

    def update_watermark(self, dataflow_id: str, watermark_value: str, **by: str | None) -> None:
        with self._name_errors("update_watermark", dataflow_id):
            self._provider.update_watermark(dataflow_id, watermark_value, **by)

    def compare_and_set(self, dataflow_id: str, expected: str | None, watermark_value: str, **by: Any) -> None:
        inherited = BaseMetadataProvider.compare_and_set
        # Its two steps go through this class, so that errors of each are named.
        if getattr(type(self._provider), "compare_and_set", inherited) is inherited:
            super().compare_and_set(dataflow_id, expected, watermark_value, **by)
            return
        with self._name_errors("compare_and_set", dataflow_id):
            self._provider.compare_and_set(dataflow_id, expected, watermark_value, **by)

    def history(self, dataflow_id: str) -> tuple[Saved, ...]:
        with self._name_errors("history", dataflow_id):
            return tuple(self._provider.history(dataflow_id)) if hasattr(self._provider, "history") else ()

    @contextmanager
    def _name_errors(self, method: str, dataflow_id: str) -> Iterator[None]:
        said = f"state.provider {self.name}: {method}({dataflow_id!r})"
        remedy = (
            f"correct {method} of that class, or the system behind it; committed rows stay, and a later run makes the "
            "copy"
        )
        with name_errors(said, remedy, StateError, self._mask):
            yield


def make_provider(name: str, arguments: Mapping[str, str]) -> CustomMetadataProvider:
    """The provider ``module:Class``, created with ``arguments``, whose values no message shows."""
    said = f"state.provider {name}"
    made = load_function(name, said)
    if not isinstance(made, type):
        raise EnvironmentProblem(f"{said} is not a class", "name a class with get_watermark and update_watermark")
    given = ", ".join(sorted(arguments)) or "none"
    mask = Mask.of(*arguments.values())
    with name_errors(
        f"{said}({given})", "correct state.options, or the constructor of that class", EnvironmentProblem, mask
    ):
        return CustomMetadataProvider(made(**arguments), mask)
