"""A run whose uploads are slow, and what its metrics page says meanwhile, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from servers.fault_proxy import Fault, FaultProxy, Rule
from servers.s3 import Server
from support.s3_lake import S3Lake
from tidegate import ProjectSpec, RunReport, load
from tidegate.observe.events import Emit, Event, UploadsChanged
from tidegate.observe.metrics import METRICS, PREFIX
from tidegate.specs.project import MetricsSpec
from tidegate.web.pages import watched
from tidegate.web.server import serving
from unit.web.test_server import fetch

MOST = 2
FILES = 6


def assert_uploads_show_while_they_last(
    s3: Server, proxy: FaultProxy, folder: Path, run: Callable[[ProjectSpec, Emit], RunReport]
) -> None:
    """Six Parquet files of which two may be uploaded at once, slowly: the page is read while they are."""
    sink = {"max_concurrent_uploads": MOST, "partition_by": {"prefix_template": "event", "column": "event"}}
    lake = S3Lake(s3, proxy, folder, sink)
    for number in range(FILES):
        lake.arrive(f"{number}.ndjson", event=f"kind-{number}")
    proxy.faults.inject(Rule(Fault.SLOW, "PUT", r"\.parquet"))
    proxy.faults.watch(r"\.parquet")
    with serving("127.0.0.1:0", {}) as free:
        address = free
    project = replace(load(lake.config), metrics=MetricsSpec(enabled=True, address=address))
    shown, at_once = [], 0

    with watched(project, project.pipelines, lake.seen.append) as emit:

        def tell(event: Event) -> None:
            nonlocal at_once
            emit(event)
            if isinstance(event, UploadsChanged):
                at_once = proxy.faults.most_at_once
                if event.files >= MOST:
                    shown.append(_active(address))

        assert run(project, tell).ok
        assert _active(address) == 0
    assert set(shown) == {MOST}, "the limit is reached, shown, and never exceeded"
    assert 1 <= at_once <= MOST, "the server has never seen more"
    lake.assert_exactly_once()
    proxy.faults.inject()


def _active(address: str) -> float:
    """The number of uploads on the page, after the type of every metric on it was looked at."""
    _, _, body = fetch(address, "/metrics")
    families = {each.name: each for each in text_string_to_metric_families(body.decode())}
    for metric in METRICS:
        assert families[f"{PREFIX}{metric.name}".removesuffix("_total")].type == metric.kind
    (sample,) = families[f"{PREFIX}active_uploads"].samples
    return float(sample.value)
