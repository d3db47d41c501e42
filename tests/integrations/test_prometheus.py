"""A real Prometheus, Pushgateway and node_exporter take what Tidegate gives them (``make test-integrations``)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import tidegate
from support.lake import Lake
from support.metrics import fetch, free_address
from tidegate.observe import events

PROGRAMS = os.environ.get("TIDEGATE_PROMETHEUS")
MONITORING = Path(__file__).parents[2] / "monitoring"
PATIENCE_SECS = 60.0

pytestmark = pytest.mark.skipif(PROGRAMS is None, reason="make test-integrations")


@contextmanager
def started(log: Path, program: str, *options: str) -> Iterator[None]:
    """While inside, a program of Prometheus runs; its output is in ``log``."""
    with (
        log.open("wb") as output,
        subprocess.Popen([f"{PROGRAMS}/{program}", *options], stdout=output, stderr=output) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def wait_for(ask: Callable[[], Any], log: Path) -> Any:
    """What ``ask`` returns once that is something; fails with the end of ``log`` if it takes too long."""
    until = time.monotonic() + PATIENCE_SECS
    while time.monotonic() < until:
        try:
            found = ask()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"nothing came in {PATIENCE_SECS:.0f} s:\n{log.read_text()[-3000:]}")


def ask_prometheus(address: str, query: str) -> list[dict[str, Any]]:
    """The result of an instant query; raises if Prometheus refuses it."""
    code, _, body = fetch(address, f"/api/v1/query?{urllib.parse.urlencode({'query': query})}")
    assert code == 200, f"{query}: {body.decode()}"
    found: list[dict[str, Any]] = json.loads(body)["data"]["result"]
    return found


@pytest.mark.parametrize("command", [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]])
def test_the_alert_rules_are_valid_and_pass_their_tests(command: list[str]) -> None:
    done = subprocess.run(
        [f"{PROGRAMS}/promtool", *command], cwd=MONITORING, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_scrapes_serve_and_answers_every_query_of_the_dashboard(tmp_path: Path) -> None:
    lake = Lake(tmp_path, settings={"engine": "local"})
    lake.arrive("date=2026-01-28/1.ndjson")
    assert tidegate.run(lake.config).ok
    address, log = free_address(), tmp_path / "prometheus.log"
    command = [sys.executable, "-m", "tidegate", "serve", str(lake.config), "--address", "127.0.0.1:0", "--every", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stderr is not None
            where = re.search(r"http://([^/]+)/metrics", serving.stderr.readline())
            assert where is not None
            configuration = {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(MONITORING / "alerts.yml")],
                "scrape_configs": [{"job_name": "tidegate", "static_configs": [{"targets": [where[1]]}]}],
            }
            (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(configuration))
            options = (
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                f"--web.listen-address={address}",
            )
            with started(log, "prometheus", *options):
                wait_for(lambda: fetch(address, "/-/ready")[0] == 200, log)
                rows = 'tidegate_records_processed_total{pipeline="events"}'
                (found,) = wait_for(lambda: ask_prometheus(address, rows), log)
                assert found["value"][1] == "10"
                lake.arrive("date=2026-01-28/2.ndjson")
                assert tidegate.run(lake.config).ok
                wait_for(lambda: ask_prometheus(address, f"increase({rows}[5m]) > 0"), log)
                wait_for(lambda: ask_prometheus(address, "time() - tidegate_last_success_timestamp_seconds < 60"), log)
                (well,) = ask_prometheus(address, 'tidegate_source_health{health="healthy"} == 1')
                assert well["metric"]["source"] == "default"
                check_dashboard(address)
                check_rules(address)
        finally:
            serving.terminate()
            serving.wait(30)


def check_dashboard(address: str) -> None:
    """Prometheus understands every query, and those that ask for what ``serve`` has find it."""
    dashboard = json.loads((MONITORING / "grafana.json").read_text())
    empty = []
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            query = re.sub(r"\$(pipeline|source)", ".*", target["expr"]).replace("$__rate_interval", "1m")
            if not ask_prometheus(address, query):
                empty.append(panel["title"])
    # Nothing is wrong, nothing is expected, and only continuous runs time their steps.
    assert empty == [
        "Not healthy",
        "Open dead letters",
        "Since the last new data",
        "Steps, 95th percentile",
        "Commits, 95th percentile",
    ]


def check_rules(address: str) -> None:
    """Prometheus has loaded every rule, and none fails or fires."""
    _, _, body = fetch(address, "/api/v1/rules")
    (group,) = json.loads(body)["data"]["groups"]
    assert len(group["rules"]) > 10
    assert {(rule["health"], rule["state"]) for rule in group["rules"]} == {("ok", "inactive")}


def test_a_pushgateway_keeps_the_last_run_of_each_source(tmp_path: Path) -> None:
    address, log = free_address(), tmp_path / "gateway.log"
    lake = Lake(tmp_path, settings={"engine": "local", "metrics": {"push_url": f"http://{address}"}})
    with started(log, "prometheus-pushgateway", f"--web.listen-address={address}"):
        wait_for(lambda: fetch(address, "/-/ready")[0] == 200, log)
        for number in (1, 2):
            lake.arrive(f"date=2026-01-28/{number}.ndjson")
            assert tidegate.run(lake.config, emit=lake.seen.append).ok
        body = fetch(address, "/metrics")[2].decode()
    assert not [event for event in lake.seen if isinstance(event, events.Notice) and "push" in event.text]
    labels = 'instance="",job="tidegate",pipeline="events",source="default"'
    assert f"tidegate_records_processed_total{{{labels}}} 20" in body
    assert re.search(rf"^tidegate_last_success_timestamp_seconds{{{labels}}} \S+$", body, re.M)


def test_node_exporter_takes_the_file(tmp_path: Path) -> None:
    address, log = free_address(), tmp_path / "exporter.log"
    (tmp_path / "collected").mkdir()
    lake = Lake(tmp_path, settings={"engine": "local", "metrics": {"textfile": "collected/tidegate.prom"}})
    lake.arrive("date=2026-01-28/1.ndjson")
    options = (
        f"--web.listen-address={address}",
        "--collector.disable-defaults",
        "--collector.textfile",
        f"--collector.textfile.directory={tmp_path / 'collected'}",
    )
    with started(log, "prometheus-node-exporter", *options):
        for _ in range(2):
            assert tidegate.run(lake.config).ok
        wait_for(lambda: fetch(address, "/metrics")[0] == 200, log)
        body = fetch(address, "/metrics")[2].decode()
    assert "node_textfile_scrape_error 0" in body
    assert 'tidegate_records_processed_total{pipeline="events",source="default"} 10' in body
    assert 'tidegate_runs_total{outcome="succeeded",pipeline="events",source="default"} 2' in body
