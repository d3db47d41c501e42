"""Metadata providers: who else keeps watermarks, as text that they never look inside.

The log stays the position. A provider gets a copy of every watermark as a follow-up of the commit that holds the rows,
right after the commit or with the next start, so a run that wrote and could not save completes the save and writes no
row again. A provider that says something else than the log is not believed and not overwritten: somebody changed one of
them, and only a person knows which is right.

What cannot be read is an error. Only a store that answers, and knows nothing of a dataflow, says that it has no
watermark: taking trouble for a first run would read everything again.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote
from uuid import uuid4

from tidegate.core.columns.state import ColumnState, decode_columns, encode_columns
from tidegate.core.columns.values import WatermarkSerializer, without_inclusive
from tidegate.errors import (
    CommitLost,
    ObjectExists,
    ObjectMissing,
    StateError,
    WatermarkError,
)
from tidegate.failpoints import failpoint
from tidegate.protocol.change import Change
from tidegate.protocol.documents import SCHEMA_VERSION, check_schema_version
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    from tidegate.protocol.position import Position

MOST_TRIES = 1000
"""How often an unconditional save begins again because another process saved meanwhile."""

KIND = "provider"
"""The kind of the debt that pays for the copy."""

_ACTION = "watermark set"
_ENTRY = re.compile(r"history/(\d{20})\.json")


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
            raise saved_by_another(dataflow_id)
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

    def update_watermark(self, dataflow_id: str, watermark_value: str, **by: str | None) -> None:
        def once() -> None:
            self.save(dataflow_id, _following(self.last(dataflow_id), watermark_value, **by))

        _insist(dataflow_id, once)

    def compare_and_set(self, dataflow_id: str, expected: str | None, watermark_value: str, **by: str | None) -> None:
        following = _following(self.last(dataflow_id), watermark_value, **by)
        if following.previous != expected:
            raise saved_by_another(dataflow_id)
        self.save(dataflow_id, following)


def _following(last: Saved | None, text: str, job_id: str | None, dataflow_run_id: str | None) -> Saved:
    previous, number = (None, 0) if last is None else (last.watermark, last.number)
    return Saved(check_text(text), previous, job_id, dataflow_run_id, datetime.now(UTC), number + 1)


def _insist(dataflow_id: str, save: Callable[[], None]) -> None:
    """Save, again and again while another process is first."""
    for _ in range(MOST_TRIES):
        try:
            return save()
        except CommitLost:
            continue
    raise saved_by_another(dataflow_id)


def saved_by_another(dataflow_id: str) -> CommitLost:
    """Somebody else saved another watermark first."""
    return CommitLost(
        f"the saved watermark of {dataflow_id!r} is not the one that was read: another run saved first", "plan again"
    )


def check_text(text: object) -> str:
    """A watermark as providers take it."""
    if not isinstance(text, str):
        raise TypeError(f"a provider keeps watermarks as text, not as {type(text).__name__}; see WatermarkManager")
    return text


def check_id(dataflow_id: str) -> str:
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


def copy_debt(dataflow_id: str, text: str, previous: str | None, *, by_hand: bool = False) -> dict[str, Any]:
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
        """Save the text of the commit unless it is saved; ``StateError`` where the provider has a third one.

        A watermark set by hand takes the place of whatever is there, also of what cannot be read as a watermark.
        """
        if self.provider is None:
            return None
        dataflow_id, text, previous = str(owed["dataflow_id"]), str(owed["text"]), owed["previous"]
        by_hand = self.overwrite or bool(owed.get("by_hand"))
        while True:
            found = self.provider.get_watermark(dataflow_id)
            if found == text or (not by_hand and is_same(found, text)):
                return None
            if found is not None and not by_hand and not is_same(found, previous):
                if self.position() > opened.version:
                    return None
                raise _differ(dataflow_id, found, text)
            with suppress(CommitLost):
                return _save(self.provider, dataflow_id, found, text, f"{opened.version:020d}-{opened.attempt}")


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
        raise _differ(dataflow_id, found, text)
    if not read_only:
        _save(provider, dataflow_id, None, text, None)


def is_same(one: str | None, other: str | None) -> bool:
    """Whether two texts are the same watermark; what is no watermark at all is a ``StateError``."""
    return one == other or _parse(one) == _parse(other)


def _differ(dataflow_id: str, found: str | None, text: str | None) -> StateError:
    """Provider and position disagree, and neither is believed."""
    return StateError(
        f"{dataflow_id}: the state provider has the watermark {found or 'nothing'}, and the destination was written up "
        f"to {text or 'nothing'}: somebody changed one of them, and nothing was read or written",
        "look at both with `tidegate watermark show`, then put both where you want them with `tidegate watermark set`",
    )


def _save(provider: BaseMetadataProvider, dataflow_id: str, found: str | None, text: str, run: str | None) -> None:
    """Save ``text`` in the place of ``found``; ``run`` names the document that says so."""
    failpoint("state.provider.before")
    provider.compare_and_set(dataflow_id, found, text, job_id=f"tidegate/{dataflow_id}", dataflow_run_id=run)
    failpoint("state.provider.after")


def _parse(text: str | None) -> dict[str, Any] | None:
    try:
        return WatermarkSerializer.deserialize(text)
    except WatermarkError as error:
        raise StateError(f"the saved watermark cannot be read: {error.problem}", error.remedy) from error


class FileMetadataProvider(NumberedMetadataProvider):
    """Watermarks as files below ``location``, on a local disk or in a bucket; the first save makes the folder.

    Below ``{pipeline}/{source}/`` every save is a file of its own, ``history/{number:020d}.json``, created only if
    nobody took that number: so of two runs one is refused. ``current.json`` is replaced after each save and is for
    people; reads begin there and look for later numbers, so that they cost the same however long the history is.
    """

    def __init__(self, location: Location) -> None:
        self._store = open_store(location)

    def last(self, dataflow_id: str) -> Saved | None:
        shown = self._read_current(dataflow_id)
        for path in self._entries(dataflow_id, 0 if shown is None else shown.number):
            shown = self._read(dataflow_id, path)
        return shown

    def save(self, dataflow_id: str, saved: Saved) -> None:
        content = _encode(dataflow_id, saved, str(uuid4()))
        entry = f"{_folder(dataflow_id)}/history/{saved.number:020d}.json"
        try:
            self._store.put_if_absent(entry, content)
        except ObjectExists:
            if self._store.get(entry) != content:
                raise saved_by_another(dataflow_id) from None
        self._store.put(_current_path(dataflow_id), content)

    def history(self, dataflow_id: str) -> tuple[Saved, ...]:
        return tuple(self._read(dataflow_id, path) for path in self._entries(dataflow_id, 0))

    def _read_current(self, dataflow_id: str) -> Saved | None:
        try:
            return self._read(dataflow_id, _current_path(dataflow_id))
        except ObjectMissing:
            return None

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
            data = json.loads(content)
            check_schema_version(data, where)
            return _decode(dataflow_id, data)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StateError(
                f"{where} is not a saved watermark of {dataflow_id!r}: it is damaged, or somebody changed it",
                "put it back from a backup; without current.json the newest file of history/ counts",
            ) from None


def _folder(dataflow_id: str) -> str:
    """Where a dataflow's files lie; what is not plain in a name is percent-encoded, so that none is a file of ours.

    >>> _folder("orders/db"), _folder("../50%")
    ('orders/db', '%2E%2E/50%25')
    """
    names = (quote(name, safe=" =:+,@~()").replace(".", "%2E") for name in check_id(dataflow_id).split("/"))
    return "/".join(names)


def _current_path(dataflow_id: str) -> str:
    return f"{_folder(dataflow_id)}/current.json"


def _encode(dataflow_id: str, saved: Saved, token: str) -> bytes:
    """The bytes of one save; ``token`` shows whether a save is our own when its answer was lost."""
    about = {"schema_version": SCHEMA_VERSION, **saved.facts(dataflow_id), "token": token}
    return (json.dumps(about, indent=2, ensure_ascii=False, default=datetime.isoformat) + "\n").encode()


def _decode(dataflow_id: str, data: Mapping[str, Any]) -> Saved:
    """What :func:`_content` wrote; ``ValueError``, ``KeyError`` or ``TypeError`` when it is something else."""
    if data["dataflow_id"] != dataflow_id or data["schema_version"] != SCHEMA_VERSION:
        raise ValueError(dataflow_id)
    previous, job_id, run_id = (data[name] for name in ("previous", "job_id", "dataflow_run_id"))
    if not isinstance(data["watermark"], str) or not all(
        text is None or isinstance(text, str) for text in (previous, job_id, run_id)
    ):
        raise TypeError("a text is something else")
    when = datetime.fromisoformat(data["updated_at"])
    return Saved(data["watermark"], previous, job_id, run_id, when, int(data["number"]))


class Positions(Protocol):
    """The positions of one source: what the Delta log needs of them to be a provider."""

    def open(self, *, read_only: bool = False) -> Position:
        """The position now."""
        ...

    def commit(self, opened: Position, change: Change) -> Position:
        """The position after a commit on top of ``opened``."""
        ...


class DeltaLogMetadataProvider(BaseMetadataProvider):
    """The Delta log as a provider: the watermark is in the commit that holds its rows.

    Saving one directly makes a commit without rows, by the same protocol as any other. ``positions`` gives the position
    of a dataflow in its table. The history is that of the table's positions.
    """

    def __init__(self, positions: Callable[[str], Positions], now: Callable[[], datetime] | None = None) -> None:
        self._positions = positions
        self._now = now or (lambda: datetime.now(UTC))

    def get_watermark(self, dataflow_id: str) -> str | None:
        return _text(self._positions(dataflow_id).open(read_only=True))

    def update_watermark(self, dataflow_id: str, watermark_value: str, **_: str | None) -> None:
        positions = self._positions(dataflow_id)
        _insist(dataflow_id, lambda: self._commit(positions, positions.open(), watermark_value))

    def compare_and_set(self, dataflow_id: str, expected: str | None, watermark_value: str, **_: str | None) -> None:
        positions = self._positions(dataflow_id)
        opened = positions.open()
        if _text(opened) != expected:
            raise saved_by_another(dataflow_id)
        self._commit(positions, opened, watermark_value)

    def _commit(self, positions: Positions, opened: Position, text: str) -> None:
        if opened.table_version < 0:
            raise StateError(
                f"{opened.key}: there is no table yet, so its log cannot keep a watermark",
                "run the pipeline first, or create the table",
            )
        state = encode_columns(ColumnState.of_text(check_text(text), self._now()))
        positions.commit(opened, Change(state=state, embedded=state, action=_ACTION))


def _text(opened: Position) -> str | None:
    """The watermark of a position as providers keep it, None where nothing was ever committed."""
    return None if opened.first_run or opened.state is None else decode_columns(opened.state).text()
