"""Grouping planned files into units: what one task reads, one file after the other.

Units hold consecutive files, oldest first. A unit goes on into the next partition only if it takes it whole,
so small partitions share a unit and large ones do not. Opening a file costs about as much as reading
``OPENING`` bytes, which keeps thousands of tiny files from being one task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from tidegate.planning.plan import FileSlice, Unit
from tidegate.watermarks.paths import split

OPENING = 64 * 1024
SMALLEST = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sizing:
    """How large units become: about ``target_bytes``, at most ``max_files``; less, to keep all tasks busy."""

    target_bytes: int
    max_files: int
    parallelism: int

    def __post_init__(self) -> None:
        for name in ("target_bytes", "max_files", "parallelism"):
            if getattr(self, name) < 1:
                raise ValueError(f"Sizing.{name} is {getattr(self, name)}; give 1 or more")


def grouped(slices: Sequence[FileSlice], sizing: Sizing) -> tuple[Unit, ...]:
    """The slices, which are in order, as units numbered from 1."""
    share = sum(map(_weight, slices)) // sizing.parallelism
    target = min(sizing.target_bytes, max(share, SMALLEST))
    units = _filled(slices, target, sizing.max_files)
    return tuple(Unit(number, tuple(taken)) for number, taken in enumerate(units, 1))


def _filled(slices: Sequence[FileSlice], target: int, max_files: int) -> Iterator[list[FileSlice]]:
    unit: list[FileSlice] = []
    weight = 0
    for _, members in groupby(slices, key=lambda each: split(each.path)[0]):
        partition = list(members)
        whole = sum(map(_weight, partition))
        if unit and (weight + whole > target or len(unit) + len(partition) > max_files):
            yield unit
            unit, weight = [], 0
        for each in partition:
            if unit and (weight + _weight(each) > target or len(unit) == max_files):
                yield unit
                unit, weight = [], 0
            unit.append(each)
            weight += _weight(each)
    if unit:
        yield unit


def _weight(each: FileSlice) -> int:
    return each.size + OPENING
