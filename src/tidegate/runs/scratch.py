"""A database on disk for what does not fit into memory: made for one comparison, removed after it."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice

from tidegate.errors import EnvironmentProblem, RunStopped
from tidegate.observe.events import ComparisonProgressed, Emit

BATCH = 10_000

_SETTINGS = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-32768;"


@contextmanager
def scratch() -> Iterator[sqlite3.Connection]:
    """An empty database below the folder for temporary files; nothing of it survives the block."""
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-reconcile-") as folder,
        _mapped(folder),
        closing(sqlite3.connect(os.path.join(folder, "files.db"), isolation_level=None)) as database,
    ):
        database.executescript(_SETTINGS)
        yield database


def fill(
    database: sqlite3.Connection, statement: str, rows: Iterable[tuple[object, ...]], told: Callable[[int], None]
) -> int:
    """Run ``statement`` for every row, some thousands at a time; ``told`` hears how many there were so far."""
    total = 0
    left = iter(rows)
    while batch := list(islice(left, BATCH)):
        database.executemany(statement, batch)
        total += len(batch)
        told(total)
    return total


def teller(emit: Emit, stop: threading.Event | None, about: tuple[str, str], stage: str) -> Callable[[int], None]:
    """What ``fill`` tells: shows how far a stage is, and ends it where a person wants to stop."""

    def told(total: int) -> None:
        emit(ComparisonProgressed(*about, stage, total))
        if stop is not None and stop.is_set():
            raise RunStopped(f"stopped after {total:,} ({stage})", "nothing is lost: start it again")

    return told


@contextmanager
def _mapped(folder: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise EnvironmentProblem(
            f"the temporary database in {folder} failed: {error}",
            "free some space there, or set TMPDIR to a larger disk (about 200 bytes per file of the source)",
        ) from error
