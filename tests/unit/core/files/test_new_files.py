"""Which files are new: the table of the path watermark specification, row by row, and the rules around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from laws.world import SIZING, World, listing, paths_of, planned, source
from tidegate.core.files.discovery import Reason
from tidegate.core.files.paths import SourceFile, cold_start_prefixes
from tidegate.core.files.planner import plan_paths
from tidegate.core.files.state import Active, LateWindow, PathState, decode_paths
from tidegate.specs.files import PartitionFilter, PathSource

ANY = source(pattern="*")


def days(first: int, last: int, month: int = 1) -> list[str]:
    return [f"date=2024-{month:02d}-{day:02d}/a" for day in range(first, last + 1)]


@dataclass(frozen=True)
class Row:
    """Files that are there, what was recorded, and what is new."""

    there: list[str]
    new: list[str]
    of: PathSource = ANY
    entries: dict[str, str] = field(default_factory=dict)
    older: str | None = None

    @property
    def state(self) -> PathState:
        if self.older is not None:
            return decode_paths({"watermark": {"state": "Active", "value": self.older}})
        return PathState(Active("x/y"), self.entries) if self.entries else PathState()


TABLE = {
    "28/{100,200,300}, watermark 28/200": Row(["28/100", "28/200", "28/300"], ["28/300"], entries={"28": "200"}),
    "27/f1 28/f2 28/f3 29/f4, older format: global 28/f2, no entries": Row(
        ["27/f1", "28/f2", "28/f3", "29/f4"], ["28/f3", "29/f4"], older="28/f2"
    ),
    "{28: f2}; 28/f1..f3, 29/f1, 29/f2": Row(
        ["28/f1", "28/f2", "28/f3", "29/f1", "29/f2"], ["28/f3", "29/f1", "29/f2"], entries={"28": "f2"}
    ),
    "hour=13/{f1,f2,f3} at f2, hour=14/{f1,f2} at f1": Row(
        ["hour=13/f1", "hour=13/f2", "hour=13/f3", "hour=14/f1", "hour=14/f2"],
        ["hour=13/f3", "hour=14/f2"],
        entries={"hour=13": "f2", "hour=14": "f1"},
    ),
    "day template, hour directories, every hour partition at its end": Row(
        [f"date=2024-01-28/hour={hour:02d}/f{number}" for hour in (12, 13) for number in (1, 2)],
        [],
        of=source(pattern="*", partition_filter=PartitionFilter("date=%Y-%m-%d", 1)),
        entries={"date=2024-01-28/hour=12": "f2", "date=2024-01-28/hour=13": "f2"},
    ),
    "m=%Y-%m template with look-back 2 in one month": Row(
        ["m=2024-03/a", "m=2024-03/b", "m=2024-02/a", "m=2023-12/a"],
        ["m=2024-02/a", "m=2024-03/a", "m=2024-03/b"],
        of=source(pattern="*", partition_filter=PartitionFilter("m=%Y-%m", 2)),
    ),
    "d=1/a and d=1/h=2/a": Row(["d=1/a", "d=1/h=2/a"], ["d=1/a", "d=1/h=2/a"]),
    "root file zz beside partitions with entries": Row(["zz", "d=1/a"], ["zz"], entries={"d=1": "a"}),
    "date=2024-01-28/… and date=2024-01-28-x/…": Row(
        ["date=2024-01-28/a", "date=2024-01-28/b", "date=2024-01-28-x/a", "date=2024-01-28-x/b"],
        ["date=2024-01-28/b", "date=2024-01-28-x/a", "date=2024-01-28-x/b"],
        entries={"date=2024-01-28": "a"},
    ),
}


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_new_files(row: Row) -> None:
    assert paths_of(planned(row.of, row.state, *row.there)) == row.new


def test_cold_start_with_look_back_2_over_28_days_second_poll_has_nothing_more_than_what_is_new() -> None:
    world = World(source(pattern="*", partition_filter=PartitionFilter("date=%Y-%m-%d", 2)))
    world.now = datetime(2024, 1, 28, 14, 30, tzinfo=UTC)
    for path in days(1, 28):
        world.arrive(path)
    assert paths_of(world.plan()) == days(26, 28)
    world.drain()
    assert paths_of(world.plan()) == []
    world.arrive("date=2024-01-28/b")
    assert paths_of(world.plan()) == ["date=2024-01-28/b"]


def test_watermark_01_09_look_back_1_day_restarted_on_01_28_with_data_in_01_10_reads_01_10() -> None:
    world = World(source(pattern="*", partition_filter=PartitionFilter("date=%Y-%m-%d", 1)))
    world.now = datetime(2024, 1, 9, 12, tzinfo=UTC)
    for path in days(8, 9):
        world.arrive(path)
    world.drain()
    world.now = datetime(2024, 1, 28, 12, tzinfo=UTC)
    world.arrive("date=2024-01-10/a")
    assert paths_of(world.plan()) == ["date=2024-01-10/a"]


@pytest.mark.parametrize(
    ("now", "template", "prefixes"),
    [
        pytest.param(
            datetime(2026, 1, 28, 14, 30, tzinfo=UTC),
            "date=%Y-%m-%d",
            ("date=2026-01-26", "date=2026-01-27", "date=2026-01-28"),
            id="2026-01-28T14:30Z, date=%Y-%m-%d, look-back 2",
        ),
        pytest.param(
            datetime(2026, 1, 28, 0, 30, tzinfo=UTC),
            "date=%Y-%m-%d/hour=%H",
            ("date=2026-01-27/hour=22", "date=2026-01-27/hour=23", "date=2026-01-28/hour=00"),
            id="2026-01-28T00:30Z, date=%Y-%m-%d/hour=%H, look-back 2",
        ),
    ],
)
def test_prefixes_of_the_cold_start(now: datetime, template: str, prefixes: tuple[str, ...]) -> None:
    assert cold_start_prefixes(PartitionFilter(template, 2), now) == prefixes


@pytest.mark.parametrize("window", [False, True], ids=["without a late window", "within the late window"])
def test_the_worked_listing_has_two_below_one_equal_and_two_above(window: bool) -> None:
    there = [
        "date=2024-01-28/1706450100-01926ab0.json",
        "date=2024-01-28/1706450200-01926ab5.json",
        "date=2024-01-28/1706450400-01926abc.json",
        "date=2024-01-28/1706450500-01926abd.json",
        "date=2024-01-29/1706536800-01926b00.json",
    ]
    day, names = "date=2024-01-28", tuple(path.rpartition("/")[2] for path in there[:3])
    windows = {day: LateWindow(names)} if window else {}
    state = PathState(Active(there[2]), {day: names[-1]}, late_window=windows)
    assert paths_of(planned(source(), state, *there)) == there[3:]


def test_fifty_files_of_an_earlier_hour_are_found_although_the_greatest_watermark_is_in_a_later_one() -> None:
    there = [f"hour=13/file{number:04d}" for number in range(1, 1001)]
    state = PathState(Active("hour=14/file0500"), {"hour=13": "file0950", "hour=14": "file0500"})
    assert paths_of(planned(ANY, state, *there)) == there[950:]


def test_a_recorded_position_in_the_middle_is_resumed_and_the_rest_read_whole() -> None:
    document = {
        "schema_version": 1,
        "source_state": {
            "files": {"s3://b/d/file2": {"RecordsRead": 5000}},
            "last_committed_file": "s3://b/d/file1",
        },
        "delta_version": 42,
    }
    state = decode_paths(document, source_uri="s3://b/d/")
    plan = planned(ANY, state, "file1", "file2", "file3", "file4")
    starts = {each.path: each.start_record for group in plan.groups for each in group.slices}
    assert starts == {"file2": 5000, "file3": 0, "file4": 0}


def test_a_file_that_is_listed_twice_is_planned_once() -> None:
    shown = listing(ANY, PathState(), [SourceFile("d=1/a", 1)] * 2)
    plan = plan_paths("p", ANY, PathState(), 0, shown, World(ANY).now, sizing=SIZING)
    assert paths_of(plan) == ["d=1/a"]
    assert len(plan.listed) == 1


def test_files_of_a_sealed_partition_are_counted_with_their_reason() -> None:
    plan = planned(ANY, decode_paths({"watermark": "28/f2"}), "27/f1", "28/f3")
    assert paths_of(plan) == ["28/f3"]
    assert [(each.reason, each.count, each.examples) for each in plan.skipped] == [(Reason.SEALED, 1, ("27/f1",))]
