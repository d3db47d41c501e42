"""The numbers of a run follow from its events and never claim more than was planned."""

from __future__ import annotations

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.progress import RunProgress, SourceProgress


def planned(files: int, size: int) -> Event:
    return events.PlanMade("p", "s", units=1, files=files, bytes=size)


def wave(size: int) -> Event:
    return events.WaveStarted("p", "s", units=4, files=1, bytes=size)


def progressed(done: int) -> Event:
    return events.WaveProgressed("p", "s", done=done, units=4, bytes=done * 100)


def committed(files: int, size: int) -> Event:
    return events.Committed(
        "p",
        "s",
        position=1,
        table_version=1,
        source_files=files,
        source_bytes=size,
        data_files=1,
        rows=10,
        seconds=1,
    )


POLL = events.PollStarted("p", "s", version=1)
FINISHED = events.SourceFinished(
    "p", "s", state="Idle", watermark=None, source_files=1, rows=1, failed_files=0, commits=1, seconds=1
)


def after(*happened: Event) -> SourceProgress:
    return reduce(SourceProgress.after, happened, SourceProgress())


def test_what_is_read_and_waits_for_its_commit_counts() -> None:
    tally = after(planned(4, 1000), wave(400), progressed(1))
    assert (tally.bytes_so_far, tally.planned_bytes, tally.files) == (100, 1000, 0)


def test_a_commit_replaces_the_estimate_of_its_wave() -> None:
    tally = after(planned(4, 1000), wave(400), progressed(4), committed(2, 400))
    assert (tally.bytes_so_far, tally.files, tally.rows, tally.commits) == (400, 2, 10, 1)


def test_a_second_plan_of_the_same_pass_adds_to_what_is_done() -> None:
    tally = after(POLL, planned(2, 200), committed(2, 200), POLL, planned(3, 300))
    assert (tally.planned_files, tally.planned_bytes, tally.files) == (5, 500, 2)


def test_the_pass_after_a_finished_one_starts_at_nothing() -> None:
    tally = after(planned(2, 200), committed(2, 200), FINISHED, POLL)
    assert tally == SourceProgress(stage="listing")


def test_a_contested_commit_gives_the_estimate_back() -> None:
    lost = events.CommitContested("p", "s", detail="version 3")
    assert after(planned(4, 1000), wave(400), progressed(4), lost).bytes_so_far == 0


def test_failed_files_show_in_both_wordings() -> None:
    refused = events.FileRefused("p", "s", path="a", reason="bad", attempts=1, will_retry=True)
    tally = after(planned(2, 2048), refused)
    assert tally.words() == "0 of 2 files, 0 B of 2.0 KiB, 0 rows, 0 commits, 1 file failed"
    assert tally.short_words() == "0/2 files, 0.0/2.0 KiB, 0 rows, 1 failed"


def test_sources_are_tallied_apart() -> None:
    tallies = RunProgress()
    tallies.count(planned(2, 200))
    other = tallies.count(events.PlanMade("p", "other", units=1, files=7, bytes=70))
    assert (tallies.count(wave(1)).planned_files, other.planned_files) == (2, 7)


EVENTS = st.one_of(
    st.just(POLL),
    st.just(FINISHED),
    st.builds(planned, st.integers(0, 9), st.integers(0, 999)),
    st.builds(wave, st.integers(0, 2000)),
    st.builds(progressed, st.integers(0, 4)),
    st.builds(committed, st.integers(0, 9), st.integers(0, 999)),
)


@given(st.lists(EVENTS, max_size=30))
def test_no_order_of_events_shows_more_than_all(happened: list[Event]) -> None:
    tally = after(*happened)
    assert 0 <= tally.bytes_so_far <= tally.planned_bytes
    assert tally.words()
    assert tally.short_words()
