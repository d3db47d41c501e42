"""Source and table on a real S3 server: the same walk, several processes at once, and no secret anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servers.s3 import Server
from support import scripts
from support.bucket import WORKER, Bucket
from tidegate import discard_letters, list_letters, load, plan, status
from tidegate.observe.events import Event
from tidegate.observe.logs import JsonLog, Level
from tidegate.reports.run import RunReport
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.storage.stores import open_store

pytestmark = pytest.mark.s3


@pytest.fixture
def bucket(s3: Server, tmp_path: Path) -> Bucket:
    bucket = Bucket(s3, tmp_path)
    for hour in (11, 12):
        for number in range(5):
            bucket.arrive(f"date=2026-01-28/hour={hour}/{number} ü+%41.ndjson")
    return bucket


def test_only_what_is_new_is_read_from_s3(bucket: Bucket) -> None:
    project = load(bucket.config)
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).ok
    bucket.arrive("date=2026-01-28/hour=12/9.ndjson")
    (planned,) = plan(bucket.config)
    assert planned.plan.files == 1
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).sources[0].files == 1
    bucket.assert_exactly_once()
    (now,) = status(bucket.config)
    assert (now.version, now.backlog_files) == (2, 0)


def test_the_mirror_is_plain_json_for_whoever_gets_the_object(bucket: Bucket, s3: Server) -> None:
    project = load(bucket.config)
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).ok
    key = bucket.table.uri.removeprefix("s3:/")
    shown = json.loads(s3.request("GET", f"{key}/_tidegate/events_default_checkpoint.json"))
    assert shown["watermark"] == {"state": "Active", "value": "date=2026-01-28/hour=12/4 ü+%41.ndjson"}
    assert shown["partition_watermarks"] == {f"date=2026-01-28/hour={hour}": "4 ü+%41.ndjson" for hour in (11, 12)}


def test_every_storage_option_may_come_from_the_environment(
    bucket: Bucket, s3: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = json.loads(bucket.config.read_text())
    for block in ("source", "sink"):
        del written["pipelines"]["events"][block]["storage_options"]
    bucket.config.write_text(json.dumps(written))
    for name, value in s3.options.items():
        monkeypatch.setenv(name, value)
    project = load(bucket.config)
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).ok
    bucket.assert_exactly_once()


def test_runs_started_together_on_s3_write_every_row_once(bucket: Bucket) -> None:
    runs = [scripts.start(WORKER, bucket.config) for _ in range(3)]
    assert [run.wait() for run in runs] == [0, 0, 0]
    bucket.assert_exactly_once()


def test_no_secret_is_in_logs_plans_state_or_the_table(bucket: Bucket) -> None:
    secret = bucket.source.options["AWS_SECRET_ACCESS_KEY"]
    told: list[str] = []
    log = JsonLog(told.append, Level.DEBUG)
    events: list[Event] = []
    project = load(bucket.config)
    bucket.store.put("date=2026-01-28/hour=12/bad.ndjson", b"no json\n")
    report = Loop(project, InProcessEngine(), 2, lambda event: (events.append(event), log(event))[0]).once(
        project.pipelines
    )
    (planned,) = plan(bucket.config)
    shown = [*told, *map(repr, events), repr(report), repr(project), json.dumps(planned.to_json()), repr(planned)]
    table = open_store(bucket.table)
    written = [
        table.get(each.path).decode(errors="replace") for each in table.list() if each.path.endswith(("json", "won"))
    ]
    assert len(told) > 5
    assert len(written) >= 4
    assert not [text for text in (*shown, *written) if secret in text]


def test_dead_letters_may_have_credentials_of_their_own(bucket: Bucket, s3: Server, tmp_path: Path) -> None:
    bucket.store.put("date=2026-01-28/hour=12/9.ndjson", b"not json\n")
    written = json.loads(bucket.config.read_text())
    pipeline = written["pipelines"]["events"]
    pipeline["sink"] = {"table_uri": str(tmp_path / "lake")}
    letters = s3.location("letters")
    handling = {"dlq_path": letters.uri, "dlq_storage_options": dict(s3.reader_options)}

    def run_with(handling: dict[str, object]) -> RunReport:
        pipeline["error_handling"] = handling
        bucket.config.write_text(json.dumps(written))
        project = load(bucket.config)
        return Loop(project, InProcessEngine(), 2).once(project.pipelines)

    (refused,) = run_with(handling).sources
    assert refused.error is not None
    assert letters.uri in refused.error
    assert "tidegate-reader-secret" not in refused.error
    assert run_with({**handling, "dlq_storage_options": dict(letters.options)}).ok
    assert [letter.text for letter in list_letters(bucket.config, "events")] == ["not json"]
    assert not list(tmp_path.glob("lake_dead_letters"))


def test_dead_letters_live_beside_the_table_on_s3(bucket: Bucket) -> None:
    bucket.store.put("date=2026-01-28/hour=12/9.ndjson", b'{"id": 5000}\nnot json\n')
    bucket.expected.append(5000)
    project = load(bucket.config)
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).ok
    bucket.assert_exactly_once()
    (letter,) = list_letters(bucket.config, "events")
    assert (letter.file, letter.line, letter.text) == ("date=2026-01-28/hour=12/9.ndjson", 2, "not json")
    assert [report.answered for report in discard_letters(bucket.config, "events")] == [1]
    assert list_letters(bucket.config, "events") == ()
