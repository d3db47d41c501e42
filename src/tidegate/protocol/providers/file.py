"""Watermarks as files in a folder, on a local disk or in a bucket.

Below ``{pipeline}/{source}/`` every save is a file of its own, ``history/{number:020d}.json``, created only if nobody
took that number: so of two runs one is refused. ``current.json`` is replaced after each save and is for people; reads
begin there and look for later numbers, so that they cost the same however long the history is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from tidegate.errors import ObjectExists, ObjectMissing, StateError
from tidegate.protocol.documents import check_schema_version
from tidegate.protocol.providers.base import NumberedMetadataProvider, Saved, checked_id, moved
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store

SCHEMA_VERSION = 1
_ENTRY = re.compile(r"history/(\d{20})\.json")


class FileMetadataProvider(NumberedMetadataProvider):
    """Keeps watermarks below ``location``; the folder need not exist, the first save makes it."""

    def __init__(self, location: Location) -> None:
        self._store = open_store(location)

    def last(self, dataflow_id: str) -> Saved | None:
        shown = self._shown(dataflow_id)
        for path in self._entries(dataflow_id, 0 if shown is None else shown.number):
            shown = self._read(dataflow_id, path)
        return shown

    def save(self, dataflow_id: str, saved: Saved) -> None:
        content = _content(dataflow_id, saved, str(uuid4()))
        entry = f"{_folder(dataflow_id)}/history/{saved.number:020d}.json"
        try:
            self._store.put_if_absent(entry, content)
        except ObjectExists:
            if self._store.get(entry) != content:
                raise moved(dataflow_id) from None
        self._store.put(_current(dataflow_id), content)

    def history(self, dataflow_id: str) -> tuple[Saved, ...]:
        return tuple(self._read(dataflow_id, path) for path in self._entries(dataflow_id, 0))

    def _shown(self, dataflow_id: str) -> Saved | None:
        try:
            return self._read(dataflow_id, _current(dataflow_id))
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
            return _saved(dataflow_id, data)
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
    names = (quote(name, safe=" =:+,@~()").replace(".", "%2E") for name in checked_id(dataflow_id).split("/"))
    return "/".join(names)


def _current(dataflow_id: str) -> str:
    return f"{_folder(dataflow_id)}/current.json"


def _content(dataflow_id: str, saved: Saved, token: str) -> bytes:
    """The bytes of one save; ``token`` tells our own save from somebody else's when an answer was lost."""
    about = {"schema_version": SCHEMA_VERSION, **saved.facts(dataflow_id), "token": token}
    return (json.dumps(about, indent=2, ensure_ascii=False, default=datetime.isoformat) + "\n").encode()


def _saved(dataflow_id: str, data: Mapping[str, Any]) -> Saved:
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
