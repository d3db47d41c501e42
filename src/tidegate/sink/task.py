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
from tidegate.schema.literals import written
from tidegate.sink.allocation import keep_memory
from tidegate.sink.read_task import HELD_BYTES, ReadTask, read_task
from tidegate.sink.results import UnitResult
from tidegate.sink.walk import Walk
from tidegate.storage.opening import open_store
from tidegate.watermarks.outcomes import NotReached, Refused

__all__ = ["HELD_BYTES", "ReadTask", "UnitResult", "read_task", "read_unit", "read_units"]


def read_units(task: ReadTask, units: Iterable[Unit]) -> Iterator[UnitResult]:
    """Read units one after the other; past the deadline only the first is begun, the others are not reached.

    A unit that its storage fails is given as a failure, so that the others count. Where memory runs out, the files of
    the unit are read one by one, and only those are refused for which it runs out again.
    """
    for position, unit in enumerate(units):
        if position and task.deadline is not None and time.time() >= task.deadline:
            yield UnitResult(unit.number, tuple(NotReached(each.path) for each in unit.slices))
        else:
            yield from _results(task, unit)


def _results(task: ReadTask, unit: Unit) -> Iterator[UnitResult]:
    problem = ""
    try:
        result = read_unit(task, unit)
    except StorageError as error:
        result = UnitResult.of_failure(unit, error)
    except BaseException as error:
        problem = _breakdown(error)
        if not problem or not unit.files:
            raise
    if not problem:
        yield result
    elif unit.files > 1:
        yield from read_units(task, [Unit(unit.number, (each,)) for each in unit.slices])
    else:
        (each,) = unit.slices
        yield UnitResult(unit.number, (Refused(each.path, each.size, each.etag, written(problem)),))


def _breakdown(error: BaseException) -> str:
    """What went wrong below Python, where an error says that; else nothing."""
    if isinstance(error, MemoryError):
        return f"memory ran out while it was read ({error or 'no more is said'})"
    if type(error).__name__ == "PanicException":
        return f"native code panicked while it was read ({error})"
    return ""


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
