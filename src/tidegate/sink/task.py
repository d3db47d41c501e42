"""The whole walk of one unit: stream, decompress, decode, partition, roll, upload.

No Spark in here: a task is the same in a Spark worker, in a test and in a benchmark.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator

from tidegate.errors import StorageError
from tidegate.failpoints import failpoint
from tidegate.planning.plan import Unit
from tidegate.sink.allocation import keep_memory
from tidegate.sink.read_task import HELD_BYTES, ReadTask, read_task
from tidegate.sink.results import UnitResult
from tidegate.sink.walk import Walk
from tidegate.storage.opening import open_store
from tidegate.watermarks.outcomes import NotReached

__all__ = ["HELD_BYTES", "ReadTask", "UnitResult", "read_task", "read_unit", "read_units"]


def read_units(task: ReadTask, units: Iterable[Unit]) -> Iterator[UnitResult]:
    """Read units one after the other; past the deadline only the first is begun, the others are not reached.

    A unit that its storage fails is given as a failure, so that the others count.
    """
    for position, unit in enumerate(units):
        if position and task.deadline is not None and time.time() >= task.deadline:
            yield UnitResult(unit.number, tuple(NotReached(each.path) for each in unit.slices))
        else:
            yield _read_or_failed(task, unit)


def _read_or_failed(task: ReadTask, unit: Unit) -> UnitResult:
    try:
        return read_unit(task, unit)
    except StorageError as error:
        return UnitResult.of_failure(unit, error)


def read_unit(task: ReadTask, unit: Unit) -> UnitResult:
    """Read one unit. What it returns is complete and durable; an error means that nothing counts."""
    keep_memory()
    started = time.monotonic()
    table = open_store(task.table)
    walk = Walk(task, open_store(task.source), table)
    with contextlib.closing(walk):
        outcomes = walk.outcomes(unit)
        files, letters = walk.finish()
    failpoint("sink.unit.after")
    return UnitResult(
        number=unit.number,
        outcomes=outcomes,
        data_files=files,
        rows=sum(file.record_count for file in files),
        letter_files=letters,
        unknown_fields=walk.unknown_fields(),
        seconds=time.monotonic() - started,
        uploads=table.uploads.counts,
        bad_kinds=walk.bad_kinds(),
    )
