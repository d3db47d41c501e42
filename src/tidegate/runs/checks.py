"""What the checks of ``doctor`` have in common: how errors become checks, room on disks, and places to write to.

A place that is written to gets a small object, which is deleted at once. Nothing else is changed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

from tidegate.errors import StorageError, TidegateError
from tidegate.reports.checks import Check
from tidegate.specs.columns import JdbcRead
from tidegate.specs.locations import Location
from tidegate.specs.project import EngineKind
from tidegate.storage.options import split_uri
from tidegate.storage.port import from_os
from tidegate.storage.stores import open_store

FREE_BYTES = 2 * 1024**3
OWN = "_tidegate"
_FOLDERS = ("", "_delta_log", OWN)
"""What a run writes to in the folder of a local table, as far as it exists."""

DescribeQuery = Callable[[JdbcRead, str, str | None], Sequence[str]]
"""Asks a database through Spark for the columns of a read: gets its name in errors, and a condition to try, if any."""


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """How sources are examined: for which engine, and with Spark, if databases without a driver of Python are asked."""

    engine: EngineKind = EngineKind.SPARK
    by_spark: DescribeQuery | None = None


def collect_checks(name: str, look: Callable[[], Iterable[Check]]) -> list[Check]:
    """The checks of a look; an error becomes a failed check, after those that were made before it."""
    found: list[Check] = []
    # One broken source must not hide what is wrong with the others.
    try:
        found.extend(look())
    except TidegateError as error:
        found.append(Check(name, "fail", error.problem, error.remedy))
    return found


def check_writable(name: str, place: Location) -> Iterator[Check]:
    """Whether objects can be written at ``place`` and deleted there; leaves nothing behind."""
    scheme, _, path = split_uri(place.uri)
    if scheme == "file":
        yield from _check_folders(name, f"/{path}")
        return
    store, probe = open_store(place), f"{OWN}/doctor-{uuid4()}"
    # Like a commit, which a store without conditional writes refuses.
    store.put_if_absent(probe, b"")
    try:
        store.delete(probe)
    except StorageError as error:
        left = f"{place.uri}/{probe} was written and cannot be deleted: {error.problem}"
        yield Check(name, "warn", left, f"delete it, and allow deletes there; {error.remedy}")
    else:
        yield Check(name, "ok", f"{place.uri} can be written: {probe} was, and is deleted")


def _check_folders(name: str, folder: str) -> Iterator[Check]:
    """Write a nameless file into each folder of a local table, or into the nearest one above that exists."""
    for each in dict.fromkeys(nearest_folder(os.path.join(folder, below)) for below in _FOLDERS):
        try:
            tempfile.TemporaryFile(dir=each).close()
        except OSError as error:
            refused = from_os(error, each, "write into")
            yield Check(name, "fail", refused.problem, f"{refused.remedy}; or correct table_uri")
            return
    yield Check(name, "ok", f"{each} can be written")


def nearest_folder(folder: str) -> str:
    """The folder, or the nearest one above it that exists."""
    folder = folder.rstrip("/") or "/"
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return folder


def check_spaces(places: Iterable[Location]) -> Iterator[Check]:
    """The room for local tables, once per disk."""
    folders = (
        nearest_folder(f"/{path}") for scheme, _, path in (split_uri(each.uri) for each in places) if scheme == "file"
    )
    for folder in {os.stat(each).st_dev: each for each in folders}.values():
        yield check_space(folder, "tables")


def check_space(folder: str, what: str) -> Check:
    """Whether the disk of ``folder`` has room."""
    free = shutil.disk_usage(folder).free
    told = f"{free / 1024**3:.1f} GiB free for {what} in {folder}"
    if free < FREE_BYTES:
        return Check("disk space", "warn", told, "free some space, or set TMPDIR to a larger disk")
    return Check("disk space", "ok", told)
