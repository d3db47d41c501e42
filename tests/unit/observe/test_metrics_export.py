"""A single run leaves its metrics in a file or at a Pushgateway: cumulative, and never at the cost of the run."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidegate import ProjectSpec, load
from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.metrics_export import export_run
from tidegate.specs.locations import Secret

A, B = ("a", "default"), ("b", "default")
NOW = datetime.now(UTC)
TEXT = """
pipelines:
  a: {source: {source_uri: in/a, use_watermark: true, expect_every: PT2H}, sink: {table_uri: lake/a}}
  b: {source: {source_uri: in/b, use_watermark: true}, sink: {table_uri: lake/b}}
"""


def project(**metrics: Any) -> ProjectSpec:
    found = load(TEXT)
    return replace(found, metrics=replace(found.metrics, **metrics))


def ended(name: tuple[str, str], outcome: str = "succeeded", **more: Any) -> Event:
    more = {"last_success_at": NOW, "last_data_at": NOW, **more}
    return events.SourceFinished(*name, "Active", "a", 1, 10, 0, 1, 0.5, outcome=outcome, **more)


def recorded(name: tuple[str, str], rows: int) -> Event:
    return events.RunRecorded(*name, {"records_processed_total": rows, "runs_total.succeeded": rows // 10})


def export(found: ProjectSpec, *happened: Event, only: str | None = None) -> list[str]:
    """The notices of a run in which this happened."""
    seen: list[Event] = []
    pipelines = [each for each in found.pipelines if only in (None, each.name)]
    with export_run(found, pipelines, seen.append, is_whole=only is None) as emit:
        for event in happened:
            emit(event)
    return [event.text for event in seen if isinstance(event, events.Notice)]


def read(path: Path) -> dict[str, float]:
    """The samples of a file by name, pipeline and own label."""
    found = {}
    for family in text_string_to_metric_families(path.read_text()):
        for sample in family.samples:
            own = [value for label, value in sorted(sample.labels.items()) if label not in ("pipeline", "source")]
            found[" ".join([sample.name.removeprefix("tidegate_"), sample.labels["pipeline"], *own])] = sample.value
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tidegate.prom"


def test_the_file_has_the_totals_of_all_runs_and_the_gauges_of_this_one(path: Path) -> None:
    wave = events.UploadsChanged(*A, files=2, parts=8)
    assert export(project(textfile=str(path)), wave, recorded(A, 20), ended(A, open_letters=3)) == []
    found = read(path)
    assert (found["records_processed_total a"], found["runs_total a succeeded"]) == (20, 2)
    assert (found["late_files_total a"], found["dead_letters_open a"]) == (0, 3)
    assert (found["source_health a healthy"], found["source_health a failing"]) == (1, 0)
    assert found["last_success_timestamp_seconds a"] == NOW.timestamp()
    assert found["expect_every_seconds a"] == 7200
    assert not [each for each in found if re.search("active|duration", each)]
    # Not read in this run.
    assert not [each for each in found if " b" in each]


def test_the_file_is_replaced_whole_and_nothing_else_is_left_beside_it(path: Path) -> None:
    for rows in (20, 30):
        export(project(textfile=str(path)), recorded(A, rows), ended(A))
    assert read(path)["records_processed_total a"] == 30
    assert [each.name for each in path.parent.iterdir()] == ["tidegate.prom"]
    assert path.read_text().count("# TYPE tidegate_records_processed_total") == 1


def test_a_failed_run_is_written_too_and_what_it_does_not_know_stays(path: Path) -> None:
    export(project(textfile=str(path)), recorded(A, 20), ended(A))
    # It could not even record its end, so that nobody knows when one last succeeded.
    failed = ended(A, "failed", failed=True, last_success_at=None, last_data_at=None)
    export(project(textfile=str(path)), events.SourceFailed(*A, "no answer"), failed)
    found = read(path)
    assert found["source_health a failing"] == 1
    assert found["records_processed_total a"] == 20
    assert found["last_success_timestamp_seconds a"] == NOW.timestamp()


def test_a_run_of_one_pipeline_keeps_the_others_and_a_whole_run_forgets_what_is_gone(path: Path) -> None:
    both = project(textfile=str(path))
    export(both, recorded(A, 20), ended(A), recorded(B, 50), ended(B))
    export(both, recorded(A, 30), ended(A), only="a")
    found = read(path)
    assert (found["records_processed_total a"], found["records_processed_total b"]) == (30, 50)
    assert path.read_text().count("# TYPE tidegate_records_processed_total") == 1
    alone = replace(both, pipelines=both.pipelines[:1])
    export(alone, recorded(A, 40), ended(A))
    assert not [each for each in read(path) if " b" in each]


def test_a_source_that_this_run_did_not_reach_keeps_its_series(path: Path) -> None:
    both = project(textfile=str(path))
    export(both, recorded(A, 20), ended(A), recorded(B, 50), ended(B))
    left_to_another = ended(B, "")
    export(both, recorded(A, 30), ended(A), left_to_another)
    assert read(path)["records_processed_total b"] == 50


def test_an_expectation_that_is_taken_back_is_gone(path: Path) -> None:
    found = project(textfile=str(path))
    export(found, recorded(A, 20), ended(A))
    (one, other) = found.pipelines
    calm = replace(one, sources=tuple(replace(each, expect_every=None) for each in one.sources))
    export(replace(found, pipelines=(calm, other)), recorded(A, 20), ended(A))
    assert "expect_every_seconds a" not in read(path)


def test_a_file_that_is_damaged_is_replaced(path: Path) -> None:
    path.write_text("}{ not metrics\n")
    assert export(project(textfile=str(path)), recorded(A, 20), ended(A), only="a") == []
    assert read(path)["records_processed_total a"] == 20


def test_runs_that_end_together_do_not_lose_each_others_series(path: Path) -> None:
    found = project(textfile=str(path))
    for _ in range(20):
        path.unlink(missing_ok=True)
        runs = [
            threading.Thread(target=export, args=(found, recorded(each, 10), ended(each)), kwargs={"only": each[0]})
            for each in (A, B)
        ]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
        assert {"records_processed_total a", "records_processed_total b"} <= read(path).keys()


def test_a_file_that_cannot_be_written_is_a_notice(tmp_path: Path) -> None:
    found = project(textfile=str(tmp_path / "gone" / "tidegate.prom"))
    (notice,) = export(found, recorded(A, 20), ended(A))
    assert re.search(r"gone/tidegate.prom: No such file or directory; see metrics.textfile; the run itself is", notice)


def test_a_run_that_raises_is_exported_and_raises(path: Path) -> None:
    def run() -> None:
        found = project(textfile=str(path))
        with export_run(found, found.pipelines, lambda event: None, is_whole=True) as emit:
            emit(ended(A, "failed"))
            raise KeyError("of the run")

    with pytest.raises(KeyError):
        run()
    assert read(path)["last_run_timestamp_seconds a"] > 0


def test_a_run_that_never_began_writes_nothing(path: Path) -> None:
    assert export(project(textfile=str(path)), events.Notice("", "", "hello")) == ["hello"]
    assert not path.exists()


@dataclass
class Gateway:
    """A server that keeps what it was sent."""

    answer: int = 200
    location: str = ""
    requests: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    address: str = ""


@contextmanager
def listening(gateway: Gateway) -> Iterator[Gateway]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            gateway.requests.append((self.command, self.path, body, self.headers["Authorization"]))
            self.send_response(gateway.answer)
            if gateway.location:
                self.send_header("Location", gateway.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET = do_PUT  # noqa: N815  # names of the base class

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        gateway.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield gateway
        finally:
            server.shutdown()
            thread.join()


def test_each_source_is_pushed_as_a_group_of_its_own() -> None:
    with listening(Gateway()) as gateway:
        found = project(push_url=Secret(f"http://{gateway.address}/push/"))
        unknown = ended(B, "failed", failed=True, last_success_at=None)
        assert export(found, recorded(A, 20), ended(A), unknown) == []
    (known, other) = gateway.requests
    assert known[:2] == ("PUT", "/push/metrics/job/tidegate/pipeline/a/source/default")
    assert 'tidegate_records_processed_total{pipeline="a",source="default"} 20.0' in known[2]
    assert 'pipeline="b"' not in known[2]
    # Adds to what is there, since its history is unknown.
    assert other[:2] == ("POST", "/push/metrics/job/tidegate/pipeline/b/source/default")
    assert "records_processed_total" not in other[2]
    assert known[3] is None


def test_credentials_of_the_address_are_sent_and_never_told() -> None:
    with listening(Gateway(answer=403)) as gateway:
        found = project(push_url=Secret(f"http://me:top%2Fsecret@{gateway.address}"))
        (notice,) = export(found, recorded(A, 20), ended(A))
    assert [request[3] for request in gateway.requests] == ["Basic bWU6dG9wL3NlY3JldA=="]
    assert f"could not be pushed to http://{gateway.address}: it answers 403 Forbidden" in notice
    assert not re.search("secret|me:", notice)


@pytest.mark.parametrize("known", [True, False])
def test_no_redirect_is_followed(known: bool) -> None:
    with listening(Gateway()) as other, listening(Gateway(302, f"http://{other.address}/")) as gateway:
        found = project(push_url=Secret(f"http://me:secret@{gateway.address}"))
        (notice,) = export(found, *([recorded(A, 20)] if known else []), ended(A))
    assert "it answers 302" in notice
    assert (len(gateway.requests), other.requests) == (1, [])


def test_a_gateway_that_is_not_there_is_told_once_and_costs_one_try() -> None:
    with listening(Gateway()) as gateway:
        pass
    found = project(push_url=Secret(f"http://{gateway.address}"))
    (notice,) = export(found, recorded(A, 20), ended(A), recorded(B, 10), ended(B))
    assert re.search("Connection refused; see metrics.push_url; the run itself is as reported", notice)
