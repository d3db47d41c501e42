"""HealthListener says which source is not well, and why, and takes it back."""

from __future__ import annotations

from dataclasses import replace

from support.metrics import NAME, Clock
from tidegate.core.health import HealthLevel
from tidegate.observe import events
from tidegate.observe.health_listener import MISSED_INTERVALS, PATIENCE_SECS, HealthListener

OTHER = ("events", "europe")


def finished(name: tuple[str, str] = NAME, failed_files: int = 0) -> events.SourceFinished:
    return events.SourceFinished(*name, "Active", "a", 1, 10, failed_files, 1, 0.5)


def health(clock: Clock, interval: float = 60.0) -> HealthListener:
    return HealthListener({NAME: interval, OTHER: interval}, clock)


def reasons(found: HealthListener) -> list[str]:
    return [each.reason for each in found.sources()]


def test_a_source_whose_pass_failed_is_not_well_until_one_goes_well() -> None:
    found = health(Clock())
    found(events.SourceFailed(*NAME, "bucket is gone - make it again"))
    assert reasons(found) == ["bucket is gone - make it again", ""]
    found(finished())
    assert reasons(found) == ["bucket is gone - make it again", ""]
    found(finished())
    assert reasons(found) == ["", ""]


def test_files_that_cannot_be_read_make_a_source_unwell() -> None:
    found = health(Clock())
    found(finished(failed_files=2))
    assert reasons(found) == ["2 files cannot be read", ""]
    found(finished())
    assert reasons(found) == ["", ""]


def test_many_open_dead_letters_make_a_source_unwell_as_they_do_for_status() -> None:
    found = health(Clock())
    found(replace(finished(), open_letters=101))
    assert reasons(found) == ["101 dead letters open", ""]
    # A pass that failed does not know how many there are.
    found(finished())
    assert reasons(found) == ["101 dead letters open", ""]
    found(replace(finished(), open_letters=100))
    assert reasons(found) == ["", ""]


def test_a_silent_source_is_not_well() -> None:
    clock = Clock()
    found = health(clock, interval=600.0)
    clock.now += MISSED_INTERVALS * 600.0
    assert reasons(found) == ["", ""]
    clock.now += 1
    found(finished(OTHER))
    assert reasons(found) == ["no sign of it for 30 min 1 s", ""]


def test_short_intervals_leave_time_for_a_long_read() -> None:
    clock = Clock()
    found = health(clock, interval=1.0)
    clock.now += PATIENCE_SECS
    assert reasons(found) == ["", ""]


def test_any_sign_of_life_counts() -> None:
    clock = Clock()
    found = health(clock)
    for _ in range(10):
        clock.now += PATIENCE_SECS - 1
        found(events.WaveProgressed(*NAME, 1, 2))
        found(events.WaveProgressed(*OTHER, 1, 2))
    assert reasons(found) == ["", ""]


def test_rows_of_a_column_source_may_take_their_time() -> None:
    clock = Clock()
    found = health(clock)
    found(events.ReadFixed(*NAME, "WHERE id > 2", "append"))
    found(events.RowsLeftOut(*NAME, "null_watermark", 1, "id"))
    clock.now += 10 * PATIENCE_SECS
    found(finished(OTHER))
    assert reasons(found) == ["", ""]
    found(finished())
    clock.now += PATIENCE_SECS + 1
    found(finished(OTHER))
    assert reasons(found) == ["no sign of it for 5 min 1 s", ""]


def test_it_is_ready_once_something_is_read_or_a_pass_is_over() -> None:
    for first in (events.WaveStarted(*NAME, 1, 1, 1), events.ReadFixed(*NAME, "all", "append"), finished()):
        found = health(Clock())
        found(events.PollStarted(*NAME, 0))
        assert not found.ready
        found(first)
        assert found.ready


def test_the_end_of_the_last_pass_is_told() -> None:
    found = health(Clock())
    found(finished())
    assert [each.to_json()["last_pass"] for each in found.sources()] == ["1970-01-01T00:16:40Z", None]


def test_more_open_dead_letters_than_are_tolerated_make_a_source_degraded() -> None:
    listener = HealthListener({NAME: 60}, tolerated=3)
    for letters, level in ((3, HealthLevel.HEALTHY), (4, HealthLevel.DEGRADED)):
        listener(replace(finished(), open_letters=letters))
        assert listener.sources()[0].health.level is level
