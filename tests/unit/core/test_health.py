"""The one health of a source: the worst of its last run, its freshness and its table."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.health import EMPTIED, Evidence, Health, HealthLevel, Outcome, judge, worst

NOW = datetime(2026, 1, 28, 12, tzinfo=UTC)
WELL = Evidence("orders", "shop.yml", outcome=Outcome.SUCCEEDED, position=3, last_data_at=NOW - timedelta(hours=1))


def test_a_source_whose_last_run_succeeded_is_healthy_also_without_new_data() -> None:
    assert judge(replace(WELL, last_data_at=NOW - timedelta(days=300)), NOW) == Health(HealthLevel.HEALTHY)


def test_a_source_that_never_ran_waits_and_one_of_an_earlier_release_does_not() -> None:
    waiting = judge(Evidence("orders", "shop.yml"), NOW)
    assert (waiting.level, waiting.command) == (HealthLevel.WAITING, "tidegate run shop.yml -p orders")
    assert judge(Evidence("orders", "shop.yml", position=7), NOW).level is HealthLevel.HEALTHY


@pytest.mark.parametrize(
    ("error", "code", "command"),
    [
        ("password refused", 4, "tidegate doctor shop.yml -p orders"),
        ("go on with `tidegate recover --accept restore`", 5, "tidegate recover shop.yml -p orders --accept restore"),
        ("run `tidegate commit CONFIG --once`, which decides", 5, "tidegate commit shop.yml -p orders --once"),
        ("set it with `tidegate watermark set`", 5, "tidegate watermark set shop.yml -p orders"),
        ("no column", 5, "tidegate plan shop.yml -p orders"),
        ("too many bad records", 1, "tidegate run shop.yml -p orders"),
    ],
)
def test_a_failed_run_names_the_command_that_its_remedy_names_or_one_for_its_kind(
    error: str, code: int, command: str
) -> None:
    since = NOW - timedelta(hours=3)
    known = replace(WELL, outcome=Outcome.FAILED, error=error, exit_code=code, outcome_since=since)
    assert judge(known, NOW) == Health(HealthLevel.FAILING, error, since, command)


def test_names_with_blanks_are_quoted_for_a_shell() -> None:
    known = Evidence("my orders", "a b.yml", problem="gone")
    assert judge(known, NOW).command == "tidegate doctor 'a b.yml' -p 'my orders'"


def test_failed_files_units_and_many_dead_letters_degrade() -> None:
    found = judge(replace(WELL, failed_files=1, failed_units=2, open_letters=101), NOW)
    assert found.level is HealthLevel.DEGRADED
    assert found.reason == "2 work units failed and 1 file cannot be read and 101 dead letters open"
    assert found.command == "tidegate units list shop.yml -p orders --failed"
    assert judge(replace(WELL, open_letters=100), NOW).level is HealthLevel.HEALTHY


def test_a_source_is_late_after_expect_every_and_fails_after_three_times_that() -> None:
    known = replace(WELL, expect_every=timedelta(hours=2))
    assert judge(known, NOW).level is HealthLevel.HEALTHY
    late = judge(known, NOW + timedelta(hours=2))
    assert (late.level, late.since) == (HealthLevel.DEGRADED, NOW + timedelta(hours=1))
    assert "PT2H" in late.reason
    assert judge(known, NOW + timedelta(hours=6)).level is HealthLevel.FAILING


def test_a_source_that_never_brought_anything_is_late_from_its_first_run_on() -> None:
    known = replace(WELL, expect_every=timedelta(hours=2), last_data_at=None, first_seen_at=NOW)
    assert judge(known, NOW + timedelta(hours=1)).level is HealthLevel.HEALTHY
    assert judge(known, NOW + timedelta(hours=3)).level is HealthLevel.DEGRADED


def test_a_state_that_cannot_be_read_is_unknown_and_an_emptied_location_degraded() -> None:
    assert judge(replace(WELL, problem="cannot reach it"), NOW).level is HealthLevel.UNKNOWN
    assert judge(replace(WELL, empty=True), NOW).reason == EMPTIED
    assert judge(replace(WELL, empty=True, position=0), NOW).level is HealthLevel.HEALTHY
    assert judge(replace(WELL, sealed_ahead=True), NOW).level is HealthLevel.DEGRADED


LEVELS = st.sampled_from(HealthLevel)


@given(st.lists(LEVELS))
def test_the_worst_of_several_is_as_bad_as_any_of_them(levels: list[HealthLevel]) -> None:
    found = worst(map(Health, levels)).level
    assert found.badness == max((each.badness for each in levels), default=0)


@given(
    st.builds(
        Evidence,
        pipeline=st.just("p"),
        config=st.just("c.yml"),
        problem=st.none() | st.text(min_size=1),
        outcome=st.none() | st.sampled_from(Outcome),
        error=st.none() | st.text(),
        exit_code=st.integers(0, 130),
        position=st.integers(0, 2),
        failed_files=st.integers(0, 3),
        failed_units=st.integers(0, 3),
        open_letters=st.integers(0, 300),
        empty=st.booleans(),
        sealed_ahead=st.booleans(),
        expect_every=st.none() | st.timedeltas(timedelta(seconds=1), timedelta(days=9)),
        last_data_at=st.none() | st.just(NOW - timedelta(days=1)),
        first_seen_at=st.none() | st.just(NOW - timedelta(days=2)),
    )
)
def test_whatever_is_not_fine_says_why_and_what_to_do(known: Evidence) -> None:
    found = judge(known, NOW)
    assert found.level is HealthLevel.HEALTHY or (found.reason and found.command.startswith("tidegate "))
    assert not (known.outcome in (Outcome.FAILED, Outcome.REFUSED) and found.level is not HealthLevel.FAILING)
