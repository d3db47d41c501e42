"""Where units are read: the port, its in-process twin, and how a plan's units are dealt to tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from tidegate.errors import EnvironmentProblem
from tidegate.planning.plan import Unit
from tidegate.sink.task import ReadTask, UnitResult, read_units
from tidegate.sink.work_rows import WorkRows
from tidegate.state.frames import Frame


class WaitingFrame(Frame, Protocol):
    """Rows that Spark is to write, and their columns."""

    def columns(self, table: pa.Schema | None) -> pa.Schema:
        """The columns as they will be written into ``table``."""
        ...


class Lane(Protocol):
    """Reads units somewhere. What ``execute`` returns is complete and durable; nothing else counts.

    A unit may have failed by itself: its result says so, and covers nothing.
    """

    def prepare(self) -> None:
        """Get ready to execute; a deadline is better set after this."""
        ...

    def execute(
        self, task: ReadTask, slots: Sequence[Sequence[Unit]], progress: Callable[[int], None]
    ) -> tuple[UnitResult, ...]:
        """Read every unit; one task per slot. ``progress`` hears how many slots are done."""
        ...

    def frame(self, rows: WorkRows) -> WaitingFrame:
        """Decoded rows for the DataFrame lane; raises where this lane cannot write them."""
        ...

    def close(self) -> None:
        """Give back what the lane holds."""
        ...


class InProcessLane:
    """Reads units one after the other in this process: for tests, and for faults without Spark."""

    def prepare(self) -> None:
        """Nothing to get ready."""

    def execute(
        self, task: ReadTask, slots: Sequence[Sequence[Unit]], progress: Callable[[int], None]
    ) -> tuple[UnitResult, ...]:
        """Read every unit here."""
        results: list[UnitResult] = []
        for number, slot in enumerate(slots):
            results.extend(read_units(task, slot))
            progress(number + 1)
        return tuple(results)

    def frame(self, rows: WorkRows) -> WaitingFrame:
        """Not without Spark."""
        raise EnvironmentProblem(f"{rows.pipeline.name}: only Spark can write this table", "use `tidegate run`")

    def close(self) -> None:
        """Nothing is held."""


def raise_failures(results: Iterable[UnitResult]) -> None:
    """Raise what the first failed unit met; to be called when the others need nothing more."""
    for result in results:
        if result.failure is not None:
            raise result.failure


def deal(units: Sequence[Unit], slots: int) -> tuple[tuple[Unit, ...], ...]:
    """Units dealt to at most ``slots`` tasks of about the same size; inside a task they keep the plan's order.

    A task costs some tens of milliseconds however little it reads, so there are few of them; the largest units
    are dealt first, each to the emptiest slot.
    """
    loads = [0] * min(slots, len(units))
    dealt: list[list[Unit]] = [[] for _ in loads]
    for unit in sorted(units, key=lambda unit: (-unit.bytes, unit.number)):
        emptiest = loads.index(min(loads))
        loads[emptiest] += unit.bytes + 1
        dealt[emptiest].append(unit)
    return tuple(tuple(sorted(slot, key=lambda unit: unit.number)) for slot in dealt)


def deadline_in(seconds: float) -> float:
    """A wall-clock moment that tasks on other machines can compare with, too."""
    return time.time() + seconds
