"""Which data files the log names, and which sources have a position there: what nobody may take away.

Every path that any entry or the newest checkpoint adds *or removes* counts: removed files belong to older versions of
the table and to VACUUM. Entries are read one after the other, so that a long log needs little memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidegate.errors import ObjectMissing, StateError
from tidegate.state.identity import ROOT, SourceKey
from tidegate.state.log import DIRECTORY, DeltaLog, entry_path
from tidegate.state.traces import application_ids, newest_checkpoint
from tidegate.storage.seekable import SeekableInput

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

_APP = "tidegate/"
_ACTIONS = ("add", "remove", "cdc")


@dataclass(slots=True)
class References:
    """The data files that the log of ``store`` names; ``newest`` is the last table version that was looked at."""

    store: ObjectStore
    newest: int = -1

    def paths(self) -> Iterator[str]:
        """Relative to the table: all of them the first time, then those of entries that have come since.

        ``StateError`` when a part of the log that should be there is not.
        """
        checkpoint, files = newest_checkpoint(self.store) if self.newest < 0 else (self.newest, [])
        if files:
            files += [info.path for info in self.store.list(f"{DIRECTORY}/_sidecars")]
        for path in files:
            yield from self._of_checkpoint(path)
        versions = DeltaLog(self.store).versions(self.newest + 1)
        self._check(versions, checkpoint)
        for version in versions:
            yield from self._of_entry(version, needed=version > checkpoint)
        self.newest = max([self.newest, checkpoint, *versions[-1:]])

    def _check(self, versions: list[int], checkpoint: int) -> None:
        after = [version for version in versions if version > checkpoint]
        if after != list(range(checkpoint + 1, checkpoint + 1 + len(after))):
            raise self._incomplete(f"entries after version {checkpoint} are missing")

    def _of_entry(self, version: int, *, needed: bool) -> Iterator[str]:
        path = entry_path(version)
        try:
            content = self.store.get(path)
        except ObjectMissing:
            if needed:
                raise
            return
        yield from self._of_lines(path, content)

    def _of_lines(self, path: str, content: bytes) -> Iterator[str]:
        for line in content.splitlines():
            try:
                action = json.loads(line) if line.strip() else {}
                named = [action[kind]["path"] for kind in _ACTIONS if kind in action]
            except (ValueError, KeyError, TypeError) as error:
                raise self._incomplete(f"{path} is not readable ({error!r})") from error
            yield from map(self._relative, named)

    def _of_checkpoint(self, path: str) -> Iterator[str]:
        if path.endswith(".json"):
            yield from self._of_lines(path, self.store.get(path))
            return
        import pyarrow
        import pyarrow.parquet

        try:
            file = pyarrow.parquet.ParquetFile(SeekableInput(self.store, path))
            for batch in file.iter_batches(columns=[f"{kind}.path" for kind in _ACTIONS]):
                for column in batch.columns:
                    named = column.field("path").to_pylist()
                    yield from (self._relative(each) for each in named if each is not None)
        except (pyarrow.ArrowException, OSError) as error:
            raise self._incomplete(f"checkpoint {path} cannot be read ({error})") from error

    def _relative(self, path: str) -> str:
        return unquote(path).removeprefix(f"{self.store.location.uri}/")

    def _incomplete(self, what: str) -> StateError:
        return StateError(
            f"{self.store.location.uri}: which files the table needs cannot be told: {what}",
            "nothing was removed; try again, and if it stays, put the log back from a copy",
        )


def sources_of(store: ObjectStore) -> frozenset[SourceKey]:
    """Every source that has, or tried to make, a position in the table: by its log and by its documents."""
    found = {_key(*app_id.removeprefix(_APP).partition("/")[::2]) for app_id in _app_ids(store)}
    for pipeline in store.list_directory(ROOT).directories:
        for directory in store.list_directory(pipeline).directories:
            found.add(_key(pipeline.rpartition("/")[2], directory.rpartition("/")[2]))
    return frozenset(key for key in found if key is not None)


def _app_ids(store: ObjectStore) -> Iterator[str]:
    return (app_id for app_id in application_ids(store) if app_id.startswith(_APP))


def _key(pipeline: str, source: str) -> SourceKey | None:
    try:
        return SourceKey(pipeline, source)
    except ValueError:
        return None
