"""A Parquet destination with a source of numbered records, and a process that writes into it.

Record ``n`` is the row ``id = n``; the watermark ``{"id": n}`` says that the records up to ``n`` are in.
"""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.providers import Settings, opened
from tidegate.errors import CommitLost
from tidegate.locations import Location, Options
from tidegate.state.identity import SourceKey
from tidegate.state.parquet_place import LandedPosition, ParquetDestination
from tidegate.state.providers.base import BaseMetadataProvider
from tidegate.state.work_areas import WorkArea
from tidegate.storage.opening import open_store
from tidegate.storage.options import absolute

ROWS_PER_FILE = 2


@dataclass(frozen=True)
class Landing:
    """One place; every call to ``destination`` is like a new process."""

    location: Location
    settings: Settings

    @classmethod
    def local(cls, folder: Path) -> Landing:
        place = Location(absolute(str(folder / "a place"), Path("/")))
        return cls(place, {"provider": "sql", "url": f"sqlite:///{folder / 'state.db'}"})

    @property
    def provider(self) -> BaseMetadataProvider:
        return opened(self.settings)

    def destination(self, source: str = "s") -> ParquetDestination:
        return ParquetDestination(self.location, self.provider, SourceKey("p", source))

    def put(self, work: WorkArea, ids: list[int], name: str = "part") -> None:
        """Files in a work area as Spark leaves them, with what readers pass over."""
        store = open_store(self.location)
        for start in range(0, len(ids), ROWS_PER_FILE):
            sink = io.BytesIO()
            pq.write_table(pa.table({"id": ids[start : start + ROWS_PER_FILE]}), sink)
            store.put(f"{work.directory}/{name}-{start:05d}.parquet", sink.getvalue())
        store.put(f"{work.directory}/_SUCCESS", b"")
        store.put(f"{work.directory}/_temporary/0/part-00000.parquet", b"half a file")

    def ids(self) -> list[int]:
        """Every row that a reader sees."""
        store, found = open_store(self.location), []
        for path in self.destination().data_files():
            found += pq.read_table(io.BytesIO(store.get(path))).column("id").to_pylist()
        return sorted(found)

    def left_over(self) -> list[str]:
        """Files of work areas that nobody removed."""
        return [info.path for info in open_store(self.location).list("_tidegate") if "/work/" in info.path]

    def argument(self, **more: Any) -> str:
        """What ``main`` takes in another process."""
        place = {"uri": self.location.uri, "options": dict(self.location.options)}
        return json.dumps({**place, "settings": dict(self.settings), **more})


def text(number: int) -> str:
    return json.dumps({"id": number})


def following(position: LandedPosition) -> int:
    """The first record that is not in yet."""
    return 0 if position.text is None else json.loads(position.text)["id"] + 1


def step(landing: Landing, action: str, batch: int = 3, source: str = "s") -> LandedPosition:
    """One run: the next records come in, in the way of ``action``; raises ``CommitLost`` as a run would."""
    place = landing.destination(source)
    position = place.open()
    start = following(position)
    new, work = list(range(start, start + batch)), place.new_work_area()
    match action:
        case "append":
            landing.put(work, new)
            return place.append(position, work, text(new[-1]))
        case "overwrite":
            landing.put(work, list(range(new[-1] + 1)))
            return place.overwrite(position, work, text(new[-1]))
        case _:
            removed = list(place.data_files()[-1:])
            landing.put(work, sorted([*_rows(landing, removed), *new]))
            return place.replace(position, work, removed, text(new[-1]))


def _rows(landing: Landing, paths: list[str]) -> list[int]:
    store = open_store(landing.location)
    return [row for path in paths for row in pq.read_table(io.BytesIO(store.get(path))).column("id").to_pylist()]


def main(given: dict[str, Any]) -> None:
    """Make so many steps, beginning when the input ends; tells how often another process was first."""
    landing = Landing(Location(given["uri"], Options(given["options"])), given["settings"])
    print("ready", flush=True)
    sys.stdin.read()
    lost = done = 0
    while done < given["steps"]:
        try:
            step(landing, given["action"], source=given.get("source", "s"))
            done += 1
        except CommitLost:
            lost += 1
    print(json.dumps({"lost": lost}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
