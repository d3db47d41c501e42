"""Messages of real runs without Spark: told once, taken back, remembered between processes, and never in the way."""

from __future__ import annotations

import json
import logging
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tidegate
from support.errors import raises
from support.lake import Lake
from support.webhook import Webhook, serve_webhook
from tidegate.errors import ConfigError
from tidegate.observe.events import Event, Notice

EVERYTHING = ["failed", "recovered", "late", "no_data", "new_column", "dead_letters", "unit_given_up"]


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with serve_webhook() as served:
        yield served


def make_lake(root: Path, hook: Webhook, **rule: Any) -> Lake:
    entry = {"to": {"webhook": hook.url}, "on": EVERYTHING, **rule}
    return Lake(root, settings={"engine": "local", "notify": [entry]})


@pytest.fixture
def lake(tmp_path: Path, hook: Webhook) -> Lake:
    lake = make_lake(tmp_path, hook)
    lake.arrive("d/1.ndjson")
    return lake


def break_source(lake: Lake) -> None:
    shutil.move(lake.root / "data", lake.root / "away")


def repair_source(lake: Lake) -> None:
    shutil.rmtree(lake.root / "data", ignore_errors=True)
    shutil.move(lake.root / "away", lake.root / "data")


def run(lake: Lake) -> tidegate.RunReport:
    config = lake.config
    if (lake.root / "away").exists():
        (lake.root / "data").rmdir()
    return tidegate.run(config, emit=lake.seen.append)


def test_a_failure_is_told_once_and_its_end_once(lake: Lake, hook: Webhook) -> None:
    assert run(lake).ok
    assert hook.messages == []
    break_source(lake)
    report = run(lake)
    assert not report.ok
    assert hook.reasons == [["events: failed"]]
    (message,) = hook.messages
    assert message["run"] == report.run
    (source,) = message["sources"]
    assert source["health"] == "failing"
    assert "does not exist" in source["reasons"][0]["text"]
    assert source["reasons"][0]["command"].startswith("tidegate doctor ")
    # Another process, as a scheduler starts it, knows what the first one sent.
    assert not run(lake).ok
    assert len(hook.messages) == 1
    repair_source(lake)
    assert run(lake).ok
    assert hook.reasons[1:] == [["events: recovered"]]
    assert run(lake).ok
    assert len(hook.messages) == 2


def test_a_new_column_is_told(lake: Lake, hook: Webhook) -> None:
    lake.schema = {"infer": True}
    run(lake)
    lake.arrive("d/2.ndjson", more=7)
    run(lake)
    assert hook.reasons == [["events: new_column"]]
    assert hook.messages[0]["sources"][0]["reasons"][0]["text"] == "the table has new columns: more"
    assert hook.messages[0]["sources"][0]["rows"] == 10


def test_dead_letters_and_files_given_up_are_told(tmp_path: Path, hook: Webhook) -> None:
    lake = make_lake(tmp_path, hook, dead_letters_above=2)
    lake.source_settings = {"max_attempts": 1}
    lake.arrive("d/1.ndjson")
    lake.write("d/2.ndjson", "not json\n" * 2)
    run(lake)
    assert hook.messages == []
    lake.write("d/3.ndjson", "not json\n")
    run(lake)
    assert hook.reasons == [["events: dead_letters"]]
    (status,) = tidegate.status(lake.config)
    assert (status.health.level.value, status.health.reason) == ("degraded", "3 dead letters open")


def test_a_location_that_was_emptied_is_told(lake: Lake, hook: Webhook) -> None:
    run(lake)
    shutil.rmtree(lake.root / "data/d")
    run(lake)
    assert hook.reasons == [["events: no_data"]]


def test_a_webhook_that_is_away_changes_no_result_and_is_noticed(tmp_path: Path) -> None:
    with serve_webhook() as gone:
        pass
    lake = make_lake(tmp_path, gone, on=["new_column", "no_data"])
    report = run(lake)
    assert report.ok
    (notice,) = [each.text for each in lake.seen if isinstance(each, Notice)]
    assert notice.startswith("a message about 1 source could not be delivered to webhook 127.0.0.1: cannot be reached")
    assert "sEcReT" not in json.dumps([repr(each) for each in lake.seen])


def test_a_continuous_run_sends_while_it_goes_on(lake: Lake, hook: Webhook) -> None:
    lake.source_settings = {"poll_interval_secs": 1}
    run(lake)
    shutil.rmtree(lake.root / "data/d")
    stop = threading.Event()

    def watch(event: Event) -> None:
        if hook.messages:
            stop.set()

    guard = threading.Timer(60, stop.set)
    guard.start()
    tidegate.run(lake.config, mode="continuous", emit=watch, stop=stop)
    guard.cancel()
    assert hook.reasons == [["events: no_data"]]


def test_late_data_is_told_although_nothing_runs(tmp_path: Path, hook: Webhook) -> None:
    lake = make_lake(tmp_path, hook, late_after="PT2H")
    lake.arrive("d/1.ndjson")
    run(lake)
    (quiet,) = tidegate.notify(lake.config).deliveries
    assert (quiet.sent, quiet.error) == (False, None)
    (record,) = lake.root.rglob("default.runs.json")
    long_ago = (datetime.now(UTC) - timedelta(hours=3)).isoformat()
    known = json.loads(record.read_text())
    record.write_text(json.dumps(known | {"last_data_at": long_ago}))
    (told,) = tidegate.notify(lake.config).deliveries
    assert (told.destination, told.sources, told.sent) == ("webhook 127.0.0.1", 1, True)
    assert hook.reasons == [["events: late"]]
    assert hook.messages[0]["run"] is None
    # Neither another look nor a run that finds nothing repeats it; new data takes it back.
    tidegate.notify(lake.config)
    run(lake)
    assert len(hook.messages) == 1
    lake.arrive("d/2.ndjson")
    run(lake)
    assert hook.reasons[1:] == [["events: recovered"]]


def test_a_failed_run_of_another_process_is_told_by_notify(tmp_path: Path, hook: Webhook) -> None:
    lake = make_lake(tmp_path, hook)
    silent = Lake(tmp_path, settings={"engine": "local"})
    silent.arrive("d/1.ndjson")
    run(silent)
    break_source(silent)
    run(silent)
    repair_source(silent)
    tidegate.notify(lake.config)
    assert hook.reasons == [["events: failed"]]
    assert "does not exist" in hook.messages[0]["sources"][0]["reasons"][0]["text"]


def test_a_test_tries_every_destination(tmp_path: Path, hook: Webhook) -> None:
    lake = make_lake(tmp_path, hook)
    entries = [*lake.settings["notify"], {"to": {"command": ["sh", "-c", "exit 3"]}}]
    lake.settings = {"engine": "local", "notify": entries}
    report = tidegate.notify(lake.config, test=True)
    assert [(each.destination, each.sent, each.error) for each in report.deliveries] == [
        ("webhook 127.0.0.1", True, None),
        ("command sh", False, "ended with code 3"),
    ]
    assert report.code() == 1
    assert [each["kind"] for each in hook.messages] == ["test"]


def test_notify_without_a_destination_is_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with raises(ConfigError, "notify:", str(lake.config)):
        tidegate.notify(lake.config)


def test_events_of_a_run_are_records_of_the_standard_logging(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tidegate"):
        report = run(lake)
    records = [each for each in caplog.records if each.name == "tidegate"]
    assert {getattr(each, "event", None) for each in records} >= {"plan_made", "committed", "source_finished"}
    assert {getattr(each, "run", None) for each in records} == {report.run}
