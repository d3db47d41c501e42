"""A wave of work units in three steps: fetch each, see what the columns are, write each.

Each step is a function of picklable values, so that any of them may run elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace

import pyarrow as pa

from tidegate.errors import StorageError
from tidegate.sink.unit_rows import WriteTask, plan_write, write
from tidegate.sink.unit_telling import Telling
from tidegate.sources.units.fetched import Fetched, FetchTask, failure_of
from tidegate.sources.units.fetching import fetch_unit
from tidegate.sources.units.senders import Senders
from tidegate.sources.units.work import UnitFailure, UnitWave, UnitWork, UnitWritten, WaveResult
from tidegate.storage.opening import open_store
from tidegate.unit_specs import FileRead

__all__ = ["carry_out_here", "fetch", "fetch_task", "forget", "plan_write", "same_columns", "write", "write_kept"]

Done = UnitWritten | UnitFailure
WriteAll = Callable[[WriteTask, Mapping[int, Fetched]], Mapping[int, Done]]
"""Writes work units by one plan, each to its outcome."""


def fetch_task(wave: UnitWave, slots: int = 1) -> FetchTask:
    """What fetching needs to know of a wave, of which ``slots`` work units are fetched beside each other."""
    return FetchTask(wave.source, wave.scratch, slots, infers=not wave.pipeline.schema.fields)


def fetch(task: FetchTask, work: UnitWork, index: int, senders: Senders | None = None) -> Fetched | UnitFailure:
    """Fetch one work unit as a whole. ``senders`` keep connections for further units of the same task."""
    fetched = fetch_unit(task, work, index, senders)
    read = task.source.read
    if not (task.infers and isinstance(read, FileRead) and isinstance(fetched, Fetched)):
        return fetched
    telling = Telling(read)
    try:
        told = [each for file in fetched.files for each in telling.of(file)]
    except Exception as error:
        return failure_of(error)
    return replace(fetched, telling=tuple(told))


def forget(fetched: Iterable[Fetched]) -> None:
    """Remove what was kept of work units that are written; what cannot be removed goes with its folder."""
    for each in fetched:
        for file in each.files:
            if file.is_scratch:
                with suppress(StorageError):
                    open_store(file.location).delete(file.slice.path)


def write_kept(
    wave: UnitWave, fetched: Mapping[int, Fetched], write_all: WriteAll
) -> tuple[WriteTask, dict[int, Done]]:
    """What became of the work units that were fetched, and the plan by which those that are kept were written.

    Columns come from them alone. Where one falls out that had columns of its own, the others are written again without
    these: the files of the first time are left, and nobody refers to them.
    """
    done: dict[int, Done] = {}
    left, plan = dict(fetched), plan_write(wave, list(fetched.values()))
    while True:
        done |= write_all(plan, left)
        kept = {number: each for number, each in left.items() if wave.keeps(done[number])}
        if len(kept) == len(left):
            return plan, done
        left, planned = kept, plan
        plan = plan_write(wave, list(left.values()))
        if same_columns(plan.columns, planned.columns):
            return planned, done


def same_columns(one: pa.Schema | None, other: pa.Schema | None) -> bool:
    """Whether both have the same columns, in whatever order."""
    return (None if one is None else set(one)) == (None if other is None else set(other))


def carry_out_here(wave: UnitWave) -> WaveResult:
    """Read and write the work units of a wave in this process, one after the other."""
    task = fetch_task(wave)
    with closing(Senders()) as senders:
        outcomes = [fetch(task, work, index, senders) for index, work in enumerate(wave.works)]
    fetched = {number: each for number, each in enumerate(outcomes) if isinstance(each, Fetched)}
    try:
        plan, written = write_kept(
            wave, fetched, lambda plan, left: {number: write(plan, each) for number, each in left.items()}
        )
    finally:
        forget(fetched.values())
    results = tuple(written[number] if isinstance(each, Fetched) else each for number, each in enumerate(outcomes))
    return WaveResult(results, plan.columns, plan.partition_columns)
