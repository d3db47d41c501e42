"""A run whose uploads are slow, and what its metrics page says meanwhile, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from servers.fault_proxy import Fault, FaultProxy, Rule
from servers.s3 import Server
from support.metrics import fetch
from support.s3_lake import S3Lake
from tidegate import ProjectSpec, RunReport, load
from tidegate.observe.events import Emit, Event, UploadsChanged
from tidegate.observe.metrics import METRICS, PREFIX
from tidegate.observe.pages import serve_metrics, serve_pages
from tidegate.specs.project import MetricsSpec
from tidegate.specs.table import FieldSpec

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
    project, address = _with_page(lake)
    shown, at_once = [], 0

    with serve_metrics(project, project.pipelines, lake.seen.append) as emit:

        def tell(event: Event) -> None:
            nonlocal at_once
            emit(event)
            if isinstance(event, UploadsChanged):
                at_once = proxy.faults.most_at_once
                if event.files >= MOST:
                    shown.append(_shown(address, "active_uploads"))

        assert run(project, tell).ok
        assert _shown(address, "active_uploads") == 0
    assert set(shown) == {MOST}, "the limit is reached, shown, and never exceeded"
    assert 1 <= at_once <= MOST, "the server has never seen more"
    lake.assert_exactly_once()
    proxy.faults.inject()


def assert_parts_show_while_they_last(
    s3: Server, proxy: FaultProxy, folder: Path, run: Callable[[ProjectSpec, Emit], RunReport]
) -> None:
    """A file of 24 MB in parts of 5, two at once, and one that is too small for parts."""
    sink = {"part_size_mb": 5, "max_concurrent_parts": MOST, "min_multipart_size_mb": 5, "compression": "uncompressed"}
    lake = S3Lake(s3, proxy, folder, {**sink, "partition_by": {"prefix_template": "event", "column": "event"}})
    lake.arrive("1.ndjson", 1, event="small")
    lines = (
        f'{{"id": {number}, "event": "large", "text": "{number:05}{"x" * 1195}"}}\n' for number in range(1, 20_001)
    )
    lake.files.put("date=2026-01-28/2.ndjson", "".join(lines).encode())
    lake.expected += range(1, 20_001)
    proxy.faults.inject(Rule(Fault.SLOW, "PUT", "partNumber="))
    proxy.faults.watch("partNumber=")
    project, address = _with_page(lake, {"name": "text", "type": "string"})
    shown = []

    with serve_metrics(project, project.pipelines, lake.seen.append) as emit:

        def tell(event: Event) -> None:
            emit(event)
            if isinstance(event, UploadsChanged) and event.parts:
                shown.append(_shown(address, "active_multipart_parts"))

        assert run(project, tell).ok
        assert _shown(address, "active_multipart_parts") == 0
        assert _shown(address, "multipart_uploads", "_total") == 1
        assert _shown(address, "staging_file_written", "_total") == 2
    assert 0 < max(shown) <= MOST
    assert proxy.faults.most_at_once == MOST, "the limit is reached and never exceeded"
    parts = {request.partition("partNumber=")[2].partition("&")[0] for request in proxy.faults.seen} - {""}
    (size,) = [each.size for each in lake.objects.list("event=large")]
    assert len(parts) == -(-size // (5 * 1024 * 1024)) > MOST
    lake.assert_exactly_once()
    proxy.faults.inject()


def _with_page(lake: S3Lake, *fields: dict[str, str]) -> tuple[ProjectSpec, str]:
    """The project with a metrics page at a free address, and that address."""
    with serve_pages("127.0.0.1:0", {}) as address:
        pass
    project = load(lake.config)
    if fields:
        (pipeline,) = project.pipelines
        more = tuple(FieldSpec(**each) for each in fields)
        schema = replace(pipeline.schema, fields=(*pipeline.schema.fields, *more))
        project = replace(project, pipelines=(replace(pipeline, schema=schema),))
    return replace(project, metrics=MetricsSpec(enabled=True, address=address)), address


def _shown(address: str, name: str, ending: str = "") -> float:
    """A number on the page, after the type of every metric on it was looked at."""
    _, _, body = fetch(address, "/metrics")
    families = {each.name: each for each in text_string_to_metric_families(body.decode())}
    for metric in (each for each in METRICS if each.known):
        assert families[f"{PREFIX}{metric.name}".removesuffix("_total")].type == metric.kind
    (sample,) = [each for each in families[f"{PREFIX}{name}"].samples if each.name == f"{PREFIX}{name}{ending}"]
    return float(sample.value)
