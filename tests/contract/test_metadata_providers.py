"""The promises of metadata providers, kept by every one: files, a bucket, SQLite and PostgreSQL."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.errors import raises
from support.providers import EVERY, Settings, opened, settings_of, text
from support.racing import raced
from tidegate.errors import CommitLost
from tidegate.protocol.providers import BaseMetadataProvider, NumberedMetadataProvider, WatermarkManager

RACER = Path(__file__).with_name("provider_racer.py")
IDS = {"job_id": "job-1", "dataflow_run_id": "run-1"}
PROCESSES, STEPS = 3, 5


@pytest.fixture(params=EVERY)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    return settings_of(request.param, request, tmp_path)


@pytest.fixture
def provider(settings: Settings) -> BaseMetadataProvider:
    return opened(settings)


@pytest.fixture(params=EVERY)
def numbered(request: pytest.FixtureRequest, tmp_path: Path) -> NumberedMetadataProvider:
    found = opened(settings_of(request.param, request, tmp_path))
    assert isinstance(found, NumberedMetadataProvider)
    return found


def test_nothing_was_saved_at_first(provider: BaseMetadataProvider) -> None:
    assert provider.get_watermark("p/s") is None


def test_what_was_saved_comes_back_to_everybody(settings: Settings, provider: BaseMetadataProvider) -> None:
    provider.update_watermark("p/s", text(1), **IDS)
    assert provider.get_watermark("p/s") == text(1)
    assert opened(settings).get_watermark("p/s") == text(1)


def test_the_last_save_counts(provider: BaseMetadataProvider) -> None:
    for number in (1, 2, 2, 1):
        provider.update_watermark("p/s", text(number), job_id=None, dataflow_run_id=None)
        assert provider.get_watermark("p/s") == text(number)


def test_dataflows_do_not_mix(provider: BaseMetadataProvider) -> None:
    provider.update_watermark("p/s", text(1), **IDS)
    provider.update_watermark("p/s2", text(2), **IDS)
    assert provider.get_watermark("p/s") == text(1)
    assert provider.get_watermark("p/s2") == text(2)
    assert provider.get_watermark("p2/s") is None


def test_a_save_that_expects_what_is_there_is_made(provider: BaseMetadataProvider) -> None:
    provider.compare_and_set("p/s", None, text(1), **IDS)
    provider.compare_and_set("p/s", text(1), text(2), **IDS)
    assert provider.get_watermark("p/s") == text(2)


@pytest.mark.parametrize("expected", [None, text(9)])
def test_a_save_that_expects_something_else_changes_nothing(
    provider: BaseMetadataProvider, expected: str | None
) -> None:
    provider.update_watermark("p/s", text(1), **IDS)
    with raises(CommitLost, "'p/s'", "plan again"):
        provider.compare_and_set("p/s", expected, text(2), **IDS)
    assert provider.get_watermark("p/s") == text(1)


def test_a_save_that_expects_something_where_nothing_is_changes_nothing(provider: BaseMetadataProvider) -> None:
    with pytest.raises(CommitLost):
        provider.compare_and_set("p/s", text(1), text(2), **IDS)
    assert provider.get_watermark("p/s") is None


def test_only_text_is_kept(provider: BaseMetadataProvider) -> None:
    with raises(TypeError, "text", "dict"):
        provider.update_watermark("p/s", {"id": 1}, **IDS)  # type: ignore[arg-type]  # the mistake is the test
    assert provider.get_watermark("p/s") is None


def test_values_go_through_the_manager_without_loss(settings: Settings) -> None:
    watermark = {"updated_at": datetime(2026, 4, 3, 9, 15, tzinfo=UTC) + timedelta(microseconds=1), "id": 7}
    assert WatermarkManager(opened(settings)).get_watermark("p/s") is None
    WatermarkManager(opened(settings)).save_watermark("p/s", watermark)
    assert WatermarkManager(opened(settings)).get_watermark("p/s") == watermark


def test_inclusive_columns_are_hidden_from_whoever_asks_for_values(provider: BaseMetadataProvider) -> None:
    provider.update_watermark("p/s", '{"__inclusive__": ["id"], "id": 7}', **IDS)
    assert WatermarkManager(provider).get_watermark("p/s") == {"id": 7}


# --- several processes


def counted(settings: Settings, *, conditional: bool) -> list[dict[str, Any]]:
    """What so many processes tell that save at the same time."""
    given = json.dumps({"settings": settings, "steps": STEPS, "conditional": conditional})
    return raced(RACER, [given] * PROCESSES)


@pytest.mark.slow
def test_of_processes_that_save_at_once_every_save_is_refused_or_counts(settings: Settings) -> None:
    counted(settings, conditional=True)
    assert opened(settings).get_watermark("p/s") == json.dumps({"count": PROCESSES * STEPS})


@pytest.mark.slow
@pytest.mark.parametrize("settings", ["file", "sqlite", "postgres"], indirect=True)
def test_unconditional_saves_follow_each_other_without_a_gap(settings: Settings) -> None:
    names = {outcome["name"] for outcome in counted(settings, conditional=False)}
    history = opened(settings).history("p/s")
    assert [saved.number for saved in history] == list(range(1, PROCESSES * STEPS + 1))
    assert [saved.previous for saved in history] == [None, *(saved.watermark for saved in history[:-1])]
    assert {(saved.job_id, saved.dataflow_run_id) for saved in history} == {
        (name, str(step)) for name in names for step in range(STEPS)
    }


# --- what files and databases keep beside the text


def test_a_save_keeps_the_one_before_and_who_made_it_and_when(numbered: NumberedMetadataProvider) -> None:
    before = datetime.now(UTC)
    numbered.update_watermark("p/s", text(1), job_id="job-1", dataflow_run_id="run-1")
    numbered.update_watermark("p/s", text(2), job_id=None, dataflow_run_id="run-2")
    first, second = numbered.history("p/s")
    assert (first.number, first.watermark, first.previous) == (1, text(1), None)
    assert (second.number, second.watermark, second.previous) == (2, text(2), text(1))
    assert (first.job_id, first.dataflow_run_id) == ("job-1", "run-1")
    assert (second.job_id, second.dataflow_run_id) == (None, "run-2")
    assert first.updated_at is not None
    assert second.updated_at is not None
    assert before <= first.updated_at <= second.updated_at <= datetime.now(UTC)
    assert numbered.last("p/s") == second


def test_there_is_no_history_at_first(numbered: NumberedMetadataProvider) -> None:
    assert numbered.history("p/s") == ()


@pytest.mark.parametrize(
    "kept", ["", "null", "{oops", "  spaces\n", "ünïcödé 日本語 😀 \\ \" ' % $1 :x", json.dumps({"a": "x" * 100_000})]
)
def test_any_text_comes_back_as_it_was(numbered: NumberedMetadataProvider, kept: str) -> None:
    numbered.update_watermark("p/s", kept, **IDS)
    assert numbered.get_watermark("p/s") == kept


def test_ids_that_look_like_paths_or_statements_are_only_names(numbered: NumberedMetadataProvider) -> None:
    ids = ("a", "a/history", "a/history/x", "a/current.json", "../a", "./a", "a%2Fb", "a b/ü", "x'; DROP TABLE y; --")
    for number, dataflow_id in enumerate(ids):
        numbered.update_watermark(dataflow_id, text(number), **IDS)
        numbered.update_watermark(dataflow_id, text(number + 20), **IDS)
    assert [numbered.get_watermark(each) for each in ids] == [text(number + 20) for number in range(len(ids))]
    assert [len(numbered.history(each)) for each in ids] == [2] * len(ids)
