"""Metrics and health of real passes over a real table, asked over HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import tidegate
from support.errors import raises
from support.lake import Lake
from support.metrics import fetch, free_address
from tidegate.errors import EnvironmentProblem
from tidegate.migrate.foreign import FOREIGN
from tidegate.observe.events import CommitterLooked, Event, SourceFinished
from tidegate.observe.metrics import METRICS, Family
from tidegate.observe.metrics_export import expose
from tidegate.observe.pages import serve_metrics, serve_pages
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop


class Watched:
    """A run of a lake whose passes are made one by one, and what its pages say meanwhile."""

    def __init__(self, lake: Lake, address: str) -> None:
        self._lake = lake
        self.address = address
        self.emit: Any = None

    def run(self) -> None:
        """One pass, without Spark."""
        Loop(self._lake.project, InProcessEngine(), 2, self.emit).once(self._lake.project.pipelines)

    def health(self) -> tuple[int, dict[str, Any]]:
        code, _, body = fetch(self.address, "/health")
        return code, json.loads(body)

    def metrics(self) -> dict[str, float]:
        """The samples of the pipeline's source, by name and own label."""
        code, kind, body = fetch(self.address, "/metrics")
        assert (code, kind.partition(";")[0]) == (200, "text/plain")
        found = re.findall(
            r'^(\w+)\{([^}]*)pipeline="events",([^}]*)source="default"([^}]*)\} (\S+)$', body.decode(), re.M
        )
        return {name + "".join(labels).strip(","): float(number) for name, *labels, number in found}


@contextlib.contextmanager
def watching(lake: Lake, **settings: Any) -> Iterator[Watched]:
    address = free_address()
    lake.settings = {"metrics": {"enabled": True, "address": address, **settings}}
    found = Watched(lake, address)
    with serve_metrics(lake.project, lake.project.pipelines, lake.seen.append) as found.emit:
        yield found


def test_a_pass_shows_in_the_metrics(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/1.ndjson")
    lake.write("date=2026-01-28/2.ndjson", '{"id": 900}\n{"id": "x"}\n{"id": 1.5}\n{}\nno\n')
    with watching(lake) as run:
        run.run()
        found = run.metrics()
    size = sum(path.stat().st_size for path in (tmp_path / "lake" / "events").glob("*.parquet"))
    assert found["tidegate_bytes_written_total"] == size > 0
    assert found["tidegate_staging_file_written_total"] == 1
    assert found["tidegate_parquet_write_duration_seconds_count"] == 1
    assert found["tidegate_files_discovered_total"] == 2
    assert found['tidegate_files_processed_totalstatus="finished"'] == 2
    assert found["tidegate_records_processed_total"] == 11
    for kind in ("wrong_type", "lossy", "missing", "not_json"):
        assert found[f'tidegate_bad_records_totalreason="{kind}"'] == 1
    assert found["tidegate_list_requests_total"] > 0
    assert found["tidegate_listed_keys_total"] >= 2
    assert found['tidegate_watermark_statestate="Active"'] == 1
    assert found["tidegate_backlog_files"] == found["tidegate_watermark_lag_seconds"] == 0
    assert found['tidegate_commit_outcomes_totaloutcome="committed"'] == 1
    assert found["tidegate_commit_duration_seconds_count"] == 1
    assert found["tidegate_delta_table_version"] == 0
    assert not [name for name in found if name.startswith("blizzard_")]


def test_no_new_data_and_no_data_at_all_are_two_things(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    states = ("Initial", "Active", "Idle", "Empty")

    def shown(run: Watched) -> tuple[list[str], float, bool]:
        found, (code, health) = run.metrics(), run.health()
        assert code == 200
        now = [state for state in states if found[f'tidegate_watermark_statestate="{state}"']]
        return now, found["tidegate_source_empty"], health["sources"][0]["empty"]

    with watching(lake) as run:
        run.run()
        assert shown(run) == (["Initial"], 1, True)
        path = lake.arrive("date=2026-01-28/1.ndjson")
        run.run()
        assert shown(run) == (["Active"], 0, False)
        run.run()
        assert shown(run) == (["Idle"], 0, False)
        path.unlink()
        run.run()
        assert shown(run) == (["Empty"], 1, True)


def test_late_files_and_files_in_the_state_are_counted(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/5.ndjson")
    lake.write("date=2026-01-28/7.ndjson.gz", "").write_bytes(b"not gzip at all")
    lake.arrive("date=2026-01-28/9.ndjson")
    with watching(lake) as run:
        run.run()
        assert run.metrics()["tidegate_source_state_files"] == 2
        assert run.metrics()['tidegate_files_processed_totalstatus="refused"'] == 1
        lake.arrive("date=2026-01-28/3.ndjson")
        run.run()
        assert run.metrics()["tidegate_late_files_total"] == 1


def test_the_old_names_stand_beside_the_new_ones_on_request(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/1.ndjson")
    with watching(lake, legacy_names=True) as run:
        run.run()
        found = run.metrics()
    old = {name: value for name, value in found.items() if name.startswith("blizzard_")}
    seconds = [second for names in FOREIGN.metric_names.values() for second in names]
    bare = {re.sub(r"(_bucket|_count|_sum)?((le|status|stage)=.*)?$", "", name) for name in old}
    assert bare == {second.name for second in seconds}
    assert FOREIGN.metric_names.keys() <= {metric.name for metric in METRICS}
    assert old["blizzard_records_processed_total"] == found["tidegate_records_processed_total"] > 0
    assert old["blizzard_parquet_bytes_written_total"] == found["tidegate_bytes_written_total"] > 0
    assert old["blizzard_bytes_read_total"] == sum(path.stat().st_size for path in tmp_path.rglob("1.ndjson"))
    assert old['blizzard_files_processed_totalstatus="success"'] == 1
    assert old['blizzard_files_failed_totalstage="read"'] == 0


def test_values_of_a_label_have_the_words_of_the_old_board() -> None:
    (processed,) = (metric for metric in METRICS if metric.name == "files_processed_total")
    values = {("p", "s", status): float(number) for number, status in enumerate(processed.values, start=1)}
    page = expose([Family(processed, values)], FOREIGN.metric_names).decode()
    told = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("blizzard_"))
    assert told == {
        'blizzard_files_processed_total{pipeline="p",source="s",status="success"}': "1.0",
        'blizzard_files_processed_total{pipeline="p",source="s",status="failed"}': "2.0",
        'blizzard_files_processed_total{pipeline="p",source="s",status="skipped"}': "3.0",
        'blizzard_files_failed_total{pipeline="p",source="s",stage="read"}': "2.0",
    }


def test_the_promised_metrics_have_their_types_under_both_names(tmp_path: Path) -> None:
    promised = {
        "bytes_written": "counter",
        "parquet_write_duration_seconds": "histogram",
        "staging_file_written": "counter",
        "active_uploads": "gauge",
        "active_multipart_parts": "gauge",
        "multipart_uploads": "counter",
        "source_state_files": "gauge",
    }
    with watching(Lake(tmp_path), legacy_names=True) as run:
        run.run()
        body = fetch(run.address, "/metrics")[2].decode()
    types = {family.name: family.type for family in text_string_to_metric_families(body)}
    for prefix in ("tidegate_", "blizzard_"):
        assert {name: types[prefix + name] for name in promised} == promised


def test_health_tells_which_source_fails_and_why_and_recovers(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/1.ndjson")
    with watching(lake) as run:
        assert fetch(run.address, "/ready")[0] == 503
        assert run.health()[0] == 200
        (tmp_path / "data").rename(tmp_path / "elsewhere")
        lake_config = lake.project
        (tmp_path / "data").rmdir()
        Loop(lake_config, InProcessEngine(), 2, run.emit).once(lake_config.pipelines)
        assert fetch(run.address, "/ready")[0] == 200
        code, said = run.health()
        assert (code, said["healthy"]) == (503, False)
        (source,) = said["sources"]
        assert (source["pipeline"], source["source"], source["healthy"]) == ("events", "default", False)
        assert str(tmp_path / "data") in source["reason"]
        assert run.metrics()["tidegate_source_healthy"] == 0
        (tmp_path / "elsewhere").rename(tmp_path / "data")
        run.run()
        assert run.health()[0] == 200
        assert run.metrics()["tidegate_source_healthy"] == 1


def test_no_page_shows_a_secret(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"storage_options": {"AWS_SECRET_ACCESS_KEY": "canary-7f3a"}})
    lake.arrive("date=2026-01-28/1.ndjson")
    with watching(lake) as run:
        run.run()
        for page in ("/metrics", "/health", "/ready", "/canary"):
            assert b"canary-7f3a" not in fetch(run.address, page)[2]


def test_a_continuous_run_serves_until_it_is_stopped(tmp_path: Path) -> None:
    address = free_address()
    lake = Lake(tmp_path, settings={"metrics": {"enabled": True, "address": address}})
    stop = threading.Event()
    answers: list[int] = []

    def ask(event: Event) -> None:
        if isinstance(event, SourceFinished):
            answers.extend(fetch(address, page)[0] for page in ("/metrics", "/health", "/ready"))
            stop.set()

    report = tidegate.run(lake.config, mode="continuous", emit=ask, stop=stop)
    assert report.ok
    assert answers == [200, 200, 503]
    with serve_pages(address, {}):
        pass


def test_a_taken_address_stops_a_run_before_it_begins(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with serve_pages("127.0.0.1:0", {}) as address:
        lake.settings = {"metrics": {"enabled": True, "address": address}}
        with raises(EnvironmentProblem, "Address already in use", "metrics.address"):
            tidegate.run(lake.config, mode="continuous", emit=lake.seen.append)
        assert lake.seen == []
        assert tidegate.run(lake.config).ok


def test_serve_shows_what_runs_elsewhere_left_and_ends_on_a_signal(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/1.ndjson")
    lake.run()
    lake.arrive("date=2026-01-28/2.ndjson")
    command = [sys.executable, "-m", "tidegate", "serve", str(lake.config), "--address", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            assert process.stderr is not None
            address = re.search(r"http://([^/]+)/metrics", process.stderr.readline())
            assert address is not None
            assert b'backlog_files{pipeline="events",source="default"} 1.0' in fetch(address[1], "/metrics")[2]
            assert b'source_empty{pipeline="events",source="default"} 0.0' in fetch(address[1], "/metrics")[2]
            assert json.loads(fetch(address[1], "/health")[2])["sources"][0]["empty"] is False
            assert [fetch(address[1], page)[0] for page in ("/health", "/ready")] == [200, 200]
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_serve_counts_what_runs_elsewhere_committed(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/1.ndjson")
    lake.write("date=2026-01-28/2.ndjson", '{"id": 900}\n{"id": "x"}\n')
    lake.run()
    stop, address = threading.Event(), list[str]()
    answers = threading.Event()

    def note(where: str) -> None:
        address.append(where)
        answers.set()

    serving = threading.Thread(
        target=tidegate.serve,
        args=(lake.config,),
        kwargs={"address": "127.0.0.1:0", "every": 0.0, "started": note, "stop": stop},
    )
    serving.start()
    try:
        assert answers.wait(30)
        run = Watched(lake, address[0])
        before = run.metrics()
        assert before["tidegate_records_processed_total"] == 11
        assert before['tidegate_files_processed_totalstatus="finished"'] == 2
        assert before['tidegate_bad_records_totalreason="wrong_type"'] == 1
        assert before['tidegate_runs_totaloutcome="succeeded"'] == 1
        assert before["tidegate_dead_letters_open"] == 1
        lake.arrive("date=2026-01-28/3.ndjson")
        lake.run()
        after = run.metrics()
    finally:
        stop.set()
        serving.join()
    assert after["tidegate_records_processed_total"] == 21
    assert after['tidegate_commit_outcomes_totaloutcome="committed"'] == 2
    assert after['tidegate_runs_totaloutcome="succeeded"'] == 2
    assert after["tidegate_last_success_timestamp_seconds"] > before["tidegate_last_success_timestamp_seconds"]
    assert after["tidegate_bytes_read_total"] == sum(path.stat().st_size for path in lake.root.glob("data/*/*"))


LOOK = """
import sys
from tidegate.cli.main import cli
try:
    cli.main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
assert not {name.partition(".")[0] for name in sys.modules} & {"prometheus_client"}
"""


@pytest.mark.parametrize("command", ["plan", "status", "run"])
def test_who_serves_no_metrics_does_not_load_their_library(tmp_path: Path, command: str) -> None:
    lake = Lake(tmp_path, settings={"metrics": {"enabled": True}})
    done = subprocess.run([sys.executable, "-c", LOOK, command, str(lake.config)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_continuous_committer_shows_how_its_sources_are(tmp_path: Path) -> None:
    lake = Lake(tmp_path, pipeline_settings={"delivery": "staged"})
    address = free_address()
    lake.settings = {"metrics": {"enabled": True, "address": address}}
    lake.arrive("date=2026-01-28/1.ndjson")
    assert lake.run().ok
    stop = threading.Event()
    said: dict[str, Any] = {}

    def ask() -> None:
        while not said.get("sources", [{}])[0].get("last_pass"):
            said.update(json.loads(fetch(address, "/health")[2]))
        stop.set()

    asking = threading.Thread(target=ask)

    def listen(event: Event) -> None:
        if isinstance(event, CommitterLooked):
            asking.start()

    tidegate.commit(lake.config, mode="continuous", emit=listen, stop=stop)
    asking.join()
    lake.assert_exactly_once()
    assert said["healthy"]
