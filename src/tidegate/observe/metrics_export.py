"""Metrics in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from tidegate.observe.metrics import BUCKETS, PREFIX, Durations, Family, Labels
from tidegate.specs.foreign import ForeignMetric

__all__ = ["CONTENT_TYPE", "SecondNames", "expose"]

Exported = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class _Given(Collector):
    """A collector that returns given metrics."""

    def __init__(self, exported: list[Exported]) -> None:
        self._exported = exported

    def collect(self) -> Iterator[Exported]:
        yield from self._exported


SecondNames = Mapping[str, tuple[ForeignMetric, ...]]


def expose(families: Iterable[Family], second_names: SecondNames) -> bytes:
    """The text of all series; metrics that have some also under their second names."""
    exported: list[Exported] = []
    for family in families:
        if not family.values and not family.durations:
            continue
        exported.append(_export(PREFIX + family.metric.name, family))
        others = second_names.get(family.metric.name, ())
        exported += (_export(each.name, _translate(family, each)) for each in others)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(exported))
    return generate_latest(registry)


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


def _export(name: str, family: Family) -> Exported:
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
