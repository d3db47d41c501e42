"""How files are grouped into units."""

from __future__ import annotations

import pytest

from tidegate.core.files.plan import FileSlice
from tidegate.core.files.planner import OPENING, SMALLEST, Sizing, group_files

MIB = 1024 * 1024
SIZING = Sizing(target_bytes=64 * MIB, max_files=100, parallelism=1)


def units(sizing: Sizing, *files: tuple[str, float]) -> list[str]:
    """The names in each unit; sizes are given in MiB."""
    slices = [FileSlice(path, int(size * MIB)) for path, size in files]
    return [" ".join(each.path for each in unit.slices) for unit in group_files(slices, sizing)]


def test_no_files_make_no_units() -> None:
    assert group_files([], SIZING) == ()


def test_small_files_of_one_partition_share_a_unit() -> None:
    assert units(SIZING, ("d/a", 1), ("d/b", 2), ("d/c", 3)) == ["d/a d/b d/c"]


def test_a_large_file_is_alone_and_order_is_kept() -> None:
    assert units(SIZING, ("d/a", 1), ("d/b", 500), ("d/c", 1)) == ["d/a", "d/b", "d/c"]


def test_a_unit_stops_before_it_exceeds_the_target() -> None:
    assert units(SIZING, ("d/a", 30), ("d/b", 30), ("d/c", 30)) == ["d/a d/b", "d/c"]


def test_a_unit_has_at_most_max_files() -> None:
    assert units(Sizing(64 * MIB, 2, 1), ("d/a", 0), ("d/b", 0), ("d/c", 0)) == ["d/a d/b", "d/c"]


def test_small_partitions_share_a_unit() -> None:
    assert units(SIZING, ("1/a", 10), ("2/a", 10), ("3/a", 10)) == ["1/a 2/a 3/a"]


def test_a_partition_that_does_not_fit_whole_begins_a_unit() -> None:
    assert units(SIZING, ("1/a", 10), ("2/a", 30), ("2/b", 30), ("3/a", 1)) == ["1/a", "2/a 2/b 3/a"]


def test_work_is_spread_over_the_tasks_that_can_run() -> None:
    files = [(f"d/{number}", 4.0) for number in range(8)]
    assert len(units(Sizing(1024 * MIB, 100, 4), *files)) == 4
    assert len(units(Sizing(1024 * MIB, 100, 1), *files)) == 1


def test_tiny_files_are_not_spread_thinner_than_is_worth_a_task() -> None:
    files = [(f"d/{number:02d}", 0.0) for number in range(16)]
    assert len(units(Sizing(64 * MIB, 100, 16), *files)) == 16 * OPENING // SMALLEST


def test_many_tiny_files_are_spread_because_opening_costs() -> None:
    files = [(f"d/{number:04d}", 0.0) for number in range(1000)]
    assert len(units(Sizing(64 * MIB, 10_000, 4), *files)) == 4


@pytest.mark.parametrize("name", ["target_bytes", "max_files", "parallelism"])
def test_a_sizing_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"Sizing.{name} is 0"):
        Sizing(**{"target_bytes": 1, "max_files": 1, "parallelism": 1, name: 0})
