"""Sealing: old partitions leave the state, by the time in their path and never past unfinished files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from laws.world import NOW, World, advanced, files, listing, paths_of, planned, read, source
from tidegate.core.files.advance import Advance, advance
from tidegate.core.files.comparison import reopen_partitions
from tidegate.core.files.discovery import (
    AHEAD,
    Directories,
    FutureSeal,
    future_seals,
    is_directory_sealed,
    is_due,
    is_sealed,
    lower_future_seals,
    seal_cold_start,
    sealing_time,
    starts_cold,
    survey_directories,
)
from tidegate.core.files.paths import Layout, SourceFile
from tidegate.core.files.state import Active, Failed, LateWindow, PathState, RecordsRead, Refused, Seal
from tidegate.specs.files import Lateness, PartitionFilter, PathSource

OF = source(pattern="*")
WEEK = source(pattern="*", lateness=Lateness(fixed=timedelta(days=7)))


def day(number: int, month: int = 2) -> str:
    return f"date=2024-{month:02d}-{number:02d}"


def moment(number: int, hour: int = 0, month: int = 2) -> datetime:
    return datetime(2024, month, number, hour, tzinfo=UTC)


def finished(of: PathSource, *partitions: str) -> Advance:
    paths = [f"{partition}/a" for partition in partitions]
    return advanced(of, PathState(), paths, read(*paths))


def test_by_default_the_newest_partition_and_48_before_it_stay_open() -> None:
    hours = [f"date=2024-02-{10 + hour // 24:02d}/hour={hour % 24:02d}" for hour in range(60)]
    step = finished(OF, *hours)
    assert step.sealed == tuple(hours[:11])
    assert set(step.state.partition_watermarks) == set(hours[11:])
    assert set(step.state.late_window) == set(hours[11:])
    assert step.state.sealed == {"": Seal(moment(10, 11))}


def test_a_duration_counts_from_the_start_of_the_newest_partition() -> None:
    step = finished(WEEK, *(day(number) for number in range(1, 21)))
    assert step.state.sealed[""].below == moment(13)
    assert min(step.state.partition_watermarks) == day(13)


def test_none_never_seals() -> None:
    never = source(pattern="*", lateness=Lateness(never=True))
    assert finished(never, day(1, 1), day(29)).sealed == ()


def test_old_data_is_not_sealed_by_the_clock() -> None:
    step = finished(WEEK, "date=2001-01-01", "date=2001-01-02")
    assert step.sealed == ()


def test_a_partition_in_the_future_does_not_seal_the_present() -> None:
    step = finished(WEEK, day(20), day(28), "date=9999-12-31")
    assert set(step.state.partition_watermarks) == {day(28), "date=9999-12-31"}
    assert step.state.sealed[""].below == moment(21)


def test_prefixes_seal_apart() -> None:
    step = finished(WEEK, "region=asia/date=2024-01-01", "region=us/date=2024-02-20", "region=us/date=2024-02-01")
    assert step.sealed == ("region=us/date=2024-02-01",)
    assert "region=asia/date=2024-01-01" in step.state.partition_watermarks


@pytest.mark.parametrize("partitions", [("x", "y"), ("d=1", "d=2"), ("2024-01-01", "2024-02-28")])
def test_without_a_recognised_time_nothing_is_sealed(partitions: Sequence[str]) -> None:
    assert finished(WEEK, *partitions).state.sealed == {}


def test_files_at_the_top_level_are_never_sealed() -> None:
    state = PathState(sealed={"": Seal(NOW)}, sealed_below="zz")
    assert not is_sealed(Layout(), state, "")
    assert not is_directory_sealed(Layout(), state, "")


def test_a_partition_with_an_unfinished_file_holds_the_seal() -> None:
    paths = [f"{day(number)}/a" for number in (1, 5, 28)]
    outcomes = [*read(paths[0], paths[2]), Refused(paths[1], 100, None, "bad")]
    step = advanced(WEEK, PathState(), paths, outcomes)
    assert step.sealed == (day(1),)
    assert step.state.sealed[""].below == moment(5)


def test_nothing_is_sealed_past_what_is_listed_and_not_reached() -> None:
    paths = [f"{day(number)}/a" for number in (1, 28)]
    assert advanced(WEEK, PathState(), paths, read(paths[1])).sealed == ()


def test_a_cut_listing_seals_nothing() -> None:
    paths = [f"{day(number)}/a" for number in (1, 28)]
    assert advance(WEEK, PathState(), files(*paths), read(*paths), NOW, complete=False).sealed == ()


def test_a_seal_never_moves_back() -> None:
    state = PathState(sealed={"": Seal(moment(20), 3)})
    step = advanced(WEEK, state, [f"{day(21)}/a"], read(f"{day(21)}/a"))
    assert step.state.sealed == {"": Seal(moment(20), 3)}


def test_progress_in_a_sealed_partition_leaves_with_it() -> None:
    state = PathState(
        Active(f"{day(1)}/b"),
        {day(1): "b"},
        {f"{day(1)}/a": RecordsRead(5, 100), f"{day(20)}/a": Failed(1, "bad", 1)},
    )
    step = advanced(WEEK, state, [f"{day(20)}/a", f"{day(28)}/a"], read(f"{day(28)}/a"))
    assert set(step.state.files) == {f"{day(20)}/a"}
    assert step.state.partition_watermarks == {day(28): "a"}


def test_the_greatest_path_stays_when_its_partition_was_sealed() -> None:
    state = PathState(Active("region=z/date=2024-01-01/x"), sealed={"region=z": Seal(moment(1))})
    step = advanced(WEEK, state, ["region=a/date=2024-02-20/a"], read("region=a/date=2024-02-20/a"))
    assert step.state.watermark == Active("region=z/date=2024-01-01/x")


@pytest.mark.parametrize(
    ("directory", "sealed"),
    [
        ("date=2024-02-19", True),
        ("date=2024-02-20", False),
        ("date=2024-02-20/hour=11", True),
        ("date=2024-02-20/hour=12", False),
        ("year=2023", True),
        ("year=2024", False),
        ("year=2024/month=01", True),
        ("year=2024/month=02", False),
        ("date=2024-02-19-x", False),
        ("region=eu", False),
        ("region=eu/date=2024-02-01", False),
    ],
)
def test_a_directory_is_sealed_when_its_whole_time_is(directory: str, sealed: bool) -> None:
    state = PathState(sealed={"": Seal(moment(20, 12))})
    assert is_directory_sealed(Layout(), state, directory) is sealed


@pytest.mark.parametrize(
    ("directory", "sealed"),
    [("a", True), ("b", False), ("b-x", True), ("b/c", True), ("b/d", False), ("b/d/e", False), ("c", False)],
)
def test_an_older_format_seals_by_name(directory: str, sealed: bool) -> None:
    state = PathState(sealed_below="b/d")
    assert is_directory_sealed(Layout(), state, directory) is sealed


def test_a_directory_that_came_late_is_noticed_until_the_seal_moves_on() -> None:
    world = World(WEEK)
    for number in (1, 2, 27):
        world.arrive(f"{day(number)}/a")
    world.drain()
    assert world.state.sealed == {"": Seal(moment(20), 2)}
    assert world.plan().notes == ()
    world.arrive(f"{day(3)}/a")
    note = (
        "1 directory came late below the top level: older than 2024-02-20T00:00Z,"
        " where partitions are sealed, and not read"
    )
    assert world.plan().notes == (note,)
    world.arrive(f"{day(27)}/b")
    world.drain()
    assert world.plan().notes == (note,)
    world.arrive(f"{day(28)}/a")
    world.drain()
    assert world.state.sealed == {"": Seal(moment(21), 3)}
    assert world.plan().notes == ()


def test_directories_that_were_removed_lower_the_count() -> None:
    state = PathState(Active(f"{day(27)}/a"), {day(27): "a"}, sealed={"": Seal(moment(20), 5)})
    seen = Directories({"": 3}, (day(27),))
    step = advance(WEEK, state, files(f"{day(27)}/b"), read(f"{day(27)}/b"), NOW, complete=True, directories=seen)
    assert step.state.sealed == {"": Seal(moment(20), 3)}


def test_a_day_whose_hours_left_one_by_one_is_counted_when_its_last_hour_has_passed() -> None:
    world = World(source(pattern="*", lateness=Lateness(periods=2)))
    for path in ("date=2024-02-01/hour=01/a", "date=2024-02-01/hour=23/a", "date=2024-02-02/hour=05/a"):
        world.arrive(path)
        world.drain()
    assert world.state.sealed[""] == Seal(moment(2, 3), 1)
    assert world.plan().notes == ()


def test_only_directories_below_a_prefix_are_counted() -> None:
    state = PathState(sealed={"": Seal(moment(20)), "r=eu": Seal(moment(20))})
    seen = survey_directories(
        OF,
        state,
        [day(1), day(21), f"{day(1)}/hour=01", "r=eu", f"r=eu/{day(2)}", f"r=eu/{day(3)}", "misc"],
        NOW,
    )
    assert seen == Directories({"": 1, "r=eu": 2}, (day(21),))


class TestColdStart:
    """The first filtered plan seals what is older than its oldest prefix."""

    of = source(pattern="*", partition_filter=PartitionFilter("date=%Y-%m-%d", 2))

    def test_also_when_nothing_was_found(self) -> None:
        plan = planned(self.of, PathState(), f"{day(1)}/a")
        assert plan.groups == ()
        assert plan.opens is not None
        assert plan.opens.sealed == {"": Seal(moment(28))}
        assert paths_of(planned(self.of, plan.opens, f"{day(1)}/a", f"{day(28)}/b")) == [f"{day(28)}/b"]

    def test_with_the_commit_of_what_was_found(self) -> None:
        plan = planned(self.of, PathState(), f"{day(1)}/a", f"{day(29)}/a")
        assert plan.opens is None
        step = advance(self.of, PathState(), plan.listed, read(f"{day(29)}/a"), plan.now, complete=True)
        assert step.state.sealed == {"": Seal(moment(28))}
        assert step.state.partition_watermarks == {day(29): "a"}

    def test_also_when_everything_failed(self) -> None:
        step = advanced(self.of, PathState(), [f"{day(29)}/a"], [Refused(f"{day(29)}/a", 1, None, "bad")])
        assert step.state.sealed == {"": Seal(moment(28))}

    def test_never_seals_what_was_listed_although_time_has_passed(self) -> None:
        later = NOW + timedelta(days=2)
        step = advanced(self.of, PathState(), [f"{day(28)}/a", f"{day(28)}/b"], read(f"{day(28)}/a"), later)
        assert step.state.sealed == {"": Seal(moment(28))}

    def test_happens_once(self) -> None:
        state = seal_cold_start(self.of, PathState(), NOW)
        assert seal_cold_start(self.of, state, NOW + timedelta(days=9)) is state

    def test_leaves_a_source_without_filter_alone(self) -> None:
        state = PathState()
        assert seal_cold_start(OF, state, NOW) is state
        assert planned(OF, state).opens is None

    def test_leaves_other_prefixes_open(self) -> None:
        of = source(pattern="*", partition_filter=PartitionFilter("r=a/date=%Y-%m-%d", 0))
        state = seal_cold_start(of, PathState(), NOW)
        there = [f"r=a/{day(1)}/x", f"r=b/{day(1)}/x", "zz"]
        assert paths_of(planned(of, state, *there)) == ["zz", f"r=b/{day(1)}/x"]

    def test_counts_directories_with_the_first_listing_that_shows_them(self) -> None:
        world = World(self.of)
        for number in (1, 2, 29):
            world.arrive(f"{day(number)}/a")
        world.drain()
        assert world.state.sealed == {"": Seal(moment(28))}
        world.arrive(f"{day(29)}/b")
        world.drain()
        assert world.state.sealed == {"": Seal(moment(28), 2)}


def test_a_listing_of_sealed_partitions_counts_them() -> None:
    state = PathState(sealed={"": Seal(moment(20))})
    shown = listing(OF, state, files(f"{day(1)}/a", f"{day(21)}/a"))
    assert [file.path for file in shown.files] == [f"{day(21)}/a"]
    assert [(each.reason.name, each.count) for each in shown.skipped] == [("SEALED", 1)]


# --- a clock that was ahead


def sealed(below: datetime, *partitions: str) -> PathState:
    """A state with this seal and these open partitions."""
    last = max(partitions, default="x")
    return PathState(Active(f"{last}/a"), dict.fromkeys(partitions, "a"), sealed={"": Seal(below)})


def test_a_seal_above_the_clock_is_one_of_a_wrong_clock() -> None:
    state = sealed(moment(20), day(28))
    assert future_seals(WEEK, state, moment(19)) == (FutureSeal("", moment(20), day(28)),)
    assert future_seals(WEEK, state, moment(20)) == ()


def test_so_is_one_that_a_folder_far_ahead_gives() -> None:
    state = sealed(moment(21), day(28))
    assert future_seals(WEEK, state, moment(28) - AHEAD) == ()
    now = moment(28) - AHEAD - timedelta(seconds=1)
    assert future_seals(WEEK, state, now) == (FutureSeal("", moment(21), day(28)),)


def test_a_folder_far_ahead_that_gave_another_seal_is_none() -> None:
    assert future_seals(WEEK, sealed(moment(15), day(22), day(28)), moment(22)) == ()


def test_a_raised_lateness_is_no_wrong_clock() -> None:
    assert future_seals(OF, sealed(moment(20), day(27), "date=2024-12-31"), moment(27)) == ()


def test_folders_seal_by_the_clock_or_by_files_that_are_far_behind_it() -> None:
    now = moment(28)
    assert sealing_time(now, None) == now
    assert sealing_time(now, moment(27)) == now
    assert sealing_time(now, moment(29)) == now
    assert sealing_time(now, moment(10)) == moment(10) + AHEAD
    assert sealing_time(now, datetime(1970, 1, 1, tzinfo=UTC)) == now


def test_a_folder_ahead_of_what_was_written_seals_nothing() -> None:
    paths = [f"{day(number)}/a" for number in (1, 5, 28)]
    by_files = advance(WEEK, PathState(), files(*paths), read(*paths), NOW, complete=True, seals_by=moment(9))
    assert by_files.state.sealed == {"": Seal(moment(29, month=1))}
    assert by_files.sealed == ()


def test_seals_of_prefixes_are_told_apart() -> None:
    seals = {"region=asia": Seal(moment(20)), "region=us": Seal(moment(10))}
    state = PathState(Active("x"), {"region=us/date=2024-02-17": "a"}, sealed=seals)
    assert future_seals(WEEK, state, moment(18)) == (FutureSeal("region=asia", moment(20)),)


def test_a_start_that_was_fixed_ahead_is_made_again_as_long_as_nothing_was_read() -> None:
    bounded = source(pattern="*", partition_filter=PartitionFilter("date=%Y-%m-%d", 2))
    ahead = seal_cold_start(bounded, PathState(), moment(28))
    assert starts_cold(ahead, moment(10))
    assert seal_cold_start(bounded, ahead, moment(10)).sealed == {"": Seal(moment(8))}
    assert future_seals(bounded, ahead, moment(10)) == ()
    assert not starts_cold(ahead, moment(26))
    assert not starts_cold(PathState(Active("a"), {"": "a"}, sealed=ahead.sealed), moment(10))


def test_a_seal_is_taken_back_to_what_the_finished_folders_give() -> None:
    state = sealed(moment(22), day(29))
    finished_ones = (day(3), day(10), day(29))
    assert lower_future_seals(WEEK, state, None, finished_ones, (), moment(12)) == {"": Seal(moment(3))}
    assert lower_future_seals(WEEK, state, None, finished_ones, (day(2),), moment(12)) == {"": Seal(moment(2))}
    begun = PathState(sealed={"": Seal(moment(5))})
    assert lower_future_seals(WEEK, state, begun, finished_ones, (), moment(12)) == {"": Seal(moment(5))}
    assert lower_future_seals(WEEK, state, None, (day(29),), (), moment(12)) == {}


def test_other_seals_are_not_taken_back() -> None:
    state = PathState(Active("x"), sealed={"region=a": Seal(moment(20)), "region=b": Seal(moment(1), 3)})
    assert lower_future_seals(WEEK, state, None, (), (), moment(12)) == {"region=b": Seal(moment(1), 3)}


def test_folders_are_opened_with_what_is_known_of_them() -> None:
    state = sealed(moment(22), day(29))
    known = [f"{day(1)}/a", f"{day(10)}/a", f"{day(10)}/c", f"{day(29)}/a"]
    left = [(SourceFile(f"{day(10)}/b", 9), 4), (SourceFile(f"{day(1)}/b", 9), 0)]
    after = reopen_partitions(WEEK, state, {"": Seal(moment(3))}, known, left)
    assert after.sealed == {"": Seal(moment(3))}
    assert after.partition_watermarks == {day(10): "c", day(29): "a"}
    assert after.late_window == {day(10): LateWindow(("a", "c"))}
    assert after.files == {f"{day(10)}/b": RecordsRead(4, 9, None, rounds=0)}
    assert after.watermark == state.watermark
    reads = is_due(WEEK, after)
    assert [name for name in "abcd" if reads(f"{day(10)}/{name}")] == ["b", "d"]


def test_the_window_of_an_opened_folder_has_its_size() -> None:
    small = source(pattern="*", late_window=2, lateness=WEEK.lateness)
    known = [f"{day(10)}/{name}" for name in "abcd"]
    after = reopen_partitions(small, sealed(moment(22), day(29)), {}, known, ())
    assert after.late_window == {day(10): LateWindow(("c", "d"), "b")}
    assert after.sealed == {}
