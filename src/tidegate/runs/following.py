"""A streaming reader of one table, without Spark: it follows the log entry by entry and keeps every row's id.

It sees what a stream over the table sees: the rows of every file that a commit adds with ``dataChange``. Rewrites
such as OPTIMIZE add none. A commit that takes rows away would break a stream, so it is an error here.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidegate.errors import ObjectMissing, TableError
from tidegate.state.log import entry_path

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore


class Follower:
    """Follows the table that ``store`` is rooted at; ``seen`` counts the values of ``column`` so far.

    ``doubled`` are the values that came more than once, ``versions`` where each value came from, ``positions`` how
    many entries moved the position of a source.
    """

    def __init__(self, store: ObjectStore, column: str = "id") -> None:
        self.version = 0
        self.positions = 0
        self.seen: Counter[int] = Counter()
        self.doubled: set[int] = set()
        self.versions: dict[int, list[int]] = {}
        self._store = store
        self._column = column

    def catch_up(self) -> int:
        """Read every log entry that is there and was not read yet; gives how many."""
        before = self.version
        while (content := self._entry(self.version)) is not None:
            self._take(content)
            self.version += 1
        return self.version - before

    def _entry(self, version: int) -> bytes | None:
        try:
            return self._store.get(entry_path(version))
        except ObjectMissing:
            return None

    def _take(self, content: bytes) -> None:
        for action in map(json.loads, content.splitlines()):
            match action:
                case {"add": {"dataChange": True, "path": path}}:
                    self._take_file(unquote(path))
                case {"txn": _}:
                    self.positions += 1
                case {"remove": {"dataChange": True, "path": path}}:
                    raise TableError(
                        f"{self._store.location.uri}: version {self.version} removes the rows of {path}",
                        "a stream over this table would stop here",
                    )
                case _:
                    pass

    def _take_file(self, path: str) -> None:
        for value in _values(self._store.get(path), self._column):
            self.seen[value] += 1
            self.versions.setdefault(value, []).append(self.version)
            if self.seen[value] > 1:
                self.doubled.add(value)


def _values(parquet: bytes, column: str) -> list[Any]:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(io.BytesIO(parquet)) as file:
        values: list[Any] = file.read(columns=[column], use_threads=False).column(0).to_pylist()
    return values
