"""Metrics in the text format of Prometheus: for a page, and after a single run for a file or a Pushgateway.

A single run is over before anybody could scrape it, so it leaves its numbers where they are found: in a file for the
textfile collector of node_exporter, or at a Pushgateway. Counters are those of all recorded runs, so that two runs of
equal size are not taken for one. A source that this run has not read keeps the series it has there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client import CollectorRegistry, generate_latest, push_to_gateway, pushadd_to_gateway, write_to_textfile
from prometheus_client import Metric as ExportedMetric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from tidegate.observe import events
from tidegate.observe.events import Emit, Event
from tidegate.observe.health_listener import HealthListener, with_health
from tidegate.observe.logs import fanout
from tidegate.observe.metrics import BUCKETS, PREFIX, Durations, Family, Labels, Metrics, Name, Series
from tidegate.specs.foreign import ForeignMetric
from tidegate.specs.project import PipelineSpec, ProjectSpec

__all__ = ["CONTENT_TYPE", "SecondNames", "export_run", "expose"]

JOB = "tidegate"
PUSH_SECS = 10.0
"""How long a run waits for a Pushgateway."""

LOCK_SECS = 10.0
"""How long a run waits for others that write to the same folder."""

_LIVE = ("active_uploads", "active_multipart_parts")
"""Gauges that say nothing once a run is over."""


class _Given(Collector):
    """A collector that returns given metrics."""

    def __init__(self, exported: Sequence[ExportedMetric]) -> None:
        self._exported = exported

    def collect(self) -> Iterator[ExportedMetric]:
        yield from self._exported


SecondNames = Mapping[str, tuple[ForeignMetric, ...]]


def expose(families: Iterable[Family], second_names: SecondNames) -> bytes:
    """The text of all series; metrics that have some also under their second names."""
    return generate_latest(_registry(_export_all(families, second_names)))


def _registry(exported: Sequence[ExportedMetric]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(exported))
    return registry


def _export_all(families: Iterable[Family], second_names: SecondNames) -> list[ExportedMetric]:
    exported: list[ExportedMetric] = []
    for family in families:
        if not family.values and not family.durations:
            continue
        exported.append(_export(PREFIX + family.metric.name, family))
        others = second_names.get(family.metric.name, ())
        exported += (_export(each.name, _translate(family, each)) for each in others)
    return exported


def _translate(family: Family, second: ForeignMetric) -> Family:
    """The family with the label and the label's values of another system."""
    if not second.values:
        return family
    values: dict[Labels, float] = {}
    for (*common, own), value in family.values.items():
        if own in second.values:
            labels = (*common, second.values[own])
            values[labels] = values.get(labels, 0.0) + value
    return replace(family, metric=replace(family.metric, label=second.label or family.metric.label), values=values)


def _export(name: str, family: Family) -> ExportedMetric:
    metric = family.metric
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(name, metric.help, labels=metric.labels)
        for labels, durations in sorted(family.durations.items()):
            histogram.add_metric(list(labels), _buckets(durations), durations.seconds)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    exported = kind(name, metric.help, labels=metric.labels)
    for labels, value in sorted(family.values.items()):
        exported.add_metric(list(labels), value)
    return exported


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    counted: list[tuple[str, float]] = [
        (str(bound), count) for bound, count in zip(BUCKETS, durations.counts, strict=True)
    ]
    return [*counted, ("+Inf", durations.total)]


@contextlib.contextmanager
def export_run(
    project: ProjectSpec, pipelines: Sequence[PipelineSpec], emit: Emit, *, is_whole: bool
) -> Iterator[Emit]:
    """Listen to a single run while inside, and export its metrics at the end; what fails of that is a notice.

    ``is_whole``: these are all pipelines of the configuration, so that the file keeps no others.
    """
    sources = {(pipeline.name, source.name): source for pipeline in pipelines for source in pipeline.sources}
    expected = {name: source.expect_every for name, source in sources.items() if source.expect_every is not None}
    ended = EndedRun(
        Metrics(sources, expected=expected),
        # Nobody waits for a sign of a single run.
        HealthListener(dict.fromkeys(sources, inf), expected=expected, config=project.origin),
    )
    try:
        yield fanout(emit, ended.metrics, ended.health, ended.note)
    finally:
        for problem in ended.export(project, sources if is_whole else None):
            emit(events.Notice("", "", f"{problem}; the run itself is as reported"))


@dataclass(slots=True)
class EndedRun:
    """What is exported of a single run: the sources whose pass has ended, with the totals of all their runs.

    A source without ``totals`` could not record its run, so that its counters and older moments are unknown.
    """

    metrics: Metrics
    health: HealthListener
    ended: set[Name] = field(default_factory=set)
    totals: dict[Name, Mapping[str, float]] = field(default_factory=dict)

    def note(self, event: Event) -> None:
        """Note the end of a pass; one that was left to another run is exported by that."""
        name = (event.pipeline, event.source)
        match event:
            case events.RunRecorded(totals=totals):
                self.totals[name] = totals
            case events.SourceFinished() if event.outcome:
                self.ended.add(name)
            case _:
                pass

    def export(self, project: ProjectSpec, known: Iterable[Name] | None) -> Iterator[str]:
        """Write and push what is asked for; yields what went wrong. ``known`` are all sources there are, if given."""
        if not self.ended:
            return
        spec = project.metrics
        if spec.textfile is not None:
            try:
                self._write(Path(spec.textfile), project.second_names, None if known is None else set(known))
            # Whatever goes wrong with metrics, the run has committed, and its result stays.
            except Exception as error:
                reason = getattr(error, "strerror", None) or type(error).__name__
                yield f"its metrics could not be written to {spec.textfile}: {reason}; see metrics.textfile"
        if spec.push_url is not None:
            gateway = "metrics.push_url"
            try:
                gateway, handler = _gateway(spec.push_url.value)
                for name in sorted(self.ended):
                    self._push(name, gateway, handler, project.second_names)
            # The first failure ends it: a gateway that does not answer would hold up the run for each source.
            except Exception as error:
                yield f"its metrics could not be pushed to {gateway}: {_why(error)}; see metrics.push_url"

    def families(self, names: set[Name]) -> Iterator[Family]:
        """What is known of these sources after the run."""
        series = Series()
        for name in names & self.totals.keys():
            series.put_counts(name, self.totals[name])
        for family in self.metrics.families():
            if family.metric.kind == "gauge" and family.metric.name not in _LIVE:
                mine = {labels: value for labels, value in family.values.items() if labels[:2] in names}
                series.values[family.metric.name] = mine
        judged = [each for each in self.health.sources() if (each.pipeline, each.source) in names]
        return with_health(series.families(), judged)

    def _write(self, path: Path, second_names: SecondNames, known: set[Name] | None) -> None:
        exported = _export_all(self.families(self.ended), second_names)
        with _lock_folder(path.parent):
            _keep(exported, _read(path), self.ended & self.totals.keys(), known)
            write_to_textfile(str(path), _registry(exported))

    def _push(self, name: Name, gateway: str, handler: Callable[..., Any], second_names: SecondNames) -> None:
        registry = _registry(_export_all(self.families({name}), second_names))
        # Replaces everything of the source, or, while its history is unknown, only what this run knows.
        push = push_to_gateway if name in self.totals else pushadd_to_gateway
        group = dict(zip(("pipeline", "source"), name, strict=True))
        push(gateway, JOB, registry, grouping_key=group, timeout=PUSH_SECS, handler=handler)


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """While inside, no other run writes a file of this folder: each keeps what others have written to the same one."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        until = time.monotonic() + LOCK_SECS
        while True:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.05)
        yield
    finally:
        os.close(opened)


def _read(path: Path) -> list[ExportedMetric]:
    try:
        return list(text_string_to_metric_families(path.read_text(encoding="utf-8")))
    # Nothing there, or nothing that Prometheus could read either: this run replaces it.
    except (FileNotFoundError, ValueError):
        return []


def _keep(
    exported: list[ExportedMetric], before: Iterable[ExportedMetric], replaced: set[Name], known: set[Name] | None
) -> None:
    """Add the series of ``before`` that this run does not replace, of sources that are still there."""
    by_name = {each.name: each for each in exported}
    fresh = {(each.name, *sorted(each.labels.items())) for family in exported for each in family.samples}
    for old in before:
        for sample in old.samples:
            name = (sample.labels.get("pipeline", ""), sample.labels.get("source", ""))
            gone = name in replaced or (known is not None and name not in known)
            if gone or (sample.name, *sorted(sample.labels.items())) in fresh:
                continue
            if old.name not in by_name:
                by_name[old.name] = ExportedMetric(old.name, old.documentation, old.type)
                exported.append(by_name[old.name])
            by_name[old.name].samples.append(sample)


class _NoRedirects(HTTPRedirectHandler):
    """Follows none: credentials stay with the host they are for."""

    def redirect_request(self, *given: Any) -> None:
        """Refuse it, which makes it an error."""


def _gateway(url: str) -> tuple[str, Callable[..., Any]]:
    """The address of a Pushgateway without credentials, and what sends a request there with them."""
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    login = [("Authorization", f"Basic {b64encode(unquote(user).encode()).decode()}")] if user else []

    def handler(url: str, method: str, timeout: float, headers: Sequence[tuple[str, str]], data: bytes) -> Any:
        request = Request(url, data, dict([*headers, *login]), method=method)

        def send() -> None:
            build_opener(_NoRedirects).open(request, timeout=timeout).close()

        return send

    return parts._replace(netloc=host).geturl().rstrip("/"), handler


def _why(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"it answers {error.code} {error.reason}"
    return str(getattr(error, "reason", None) or error) or type(error).__name__
