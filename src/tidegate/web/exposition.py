"""The numbers of a process in the text format of Prometheus; alone in importing its library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from tidegate.observe.metric_names import BUCKETS, LEGACY_PREFIX, PREFIX
from tidegate.observe.metrics import Durations, Family
from tidegate.web.server import Answer

Exported = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class _Given(Collector):
    """Hands on what was made."""

    def __init__(self, exported: list[Exported]) -> None:
        self._exported = exported

    def collect(self) -> Iterator[Exported]:
        yield from self._exported


def exposition(families: Iterable[Family], *, legacy_names: bool) -> Answer:
    """The page ``/metrics``; with ``legacy_names`` the old names stand beside the new ones."""
    exported: list[Exported] = []
    for family in families:
        if not family.values and not family.durations:
            continue
        exported.append(_exported(PREFIX + family.metric.name, family))
        if legacy_names and family.metric.legacy:
            exported.append(_exported(LEGACY_PREFIX + family.metric.name, family))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(exported))
    return Answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))


def _exported(name: str, family: Family) -> Exported:
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
