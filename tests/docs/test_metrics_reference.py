"""Every metric is documented as it is, and alerts and panels name no metric that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tidegate.migrate.foreign import FOREIGN
from tidegate.observe.metrics import METRICS, PREFIX, Metric

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
GUIDE = (DOCS / "guides" / "monitoring.md").read_text(encoding="utf-8")
ROWS = {
    name: [cell.strip() for cell in cells.split("|")]
    for name, cells in re.findall(rf"^\| `({PREFIX}\w+)` \|(.*)\|$", PAGE, flags=re.MULTILINE)
}
EXPORTED = {
    PREFIX + metric.name + suffix
    for metric in METRICS
    for suffix in (("_bucket", "_count", "_sum") if metric.kind == "histogram" else ("",))
}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_is_documented_with_type_label_and_old_name(metric: Metric) -> None:
    kind, label, old, meaning = ROWS[PREFIX + metric.name]
    assert kind == metric.kind
    assert label == (f"`{metric.label}`: " + ", ".join(f"`{each}`" for each in metric.values) if metric.label else "")
    assert old == ", ".join(f"`{second.name}`" for second in FOREIGN.metric_names.get(metric.name, ()))
    assert meaning == metric.help


def test_no_metric_is_documented_that_does_not_exist() -> None:
    assert set(ROWS) == {PREFIX + metric.name for metric in METRICS}
    named = set(re.findall(rf"\b{PREFIX}\w+", PAGE))
    assert named <= {PREFIX + metric.name for metric in METRICS}


def test_the_page_has_every_metric_of_the_old_board() -> None:
    named = set(re.findall(r"\bblizzard_\w+", PAGE))
    not_on_the_board = {"blizzard_staging_file_written_total", "blizzard_source_state_files"}
    exported = {second.name for seconds in FOREIGN.metric_names.values() for second in seconds}
    assert exported < named
    assert (len(exported - not_on_the_board), len(named - not_on_the_board)) == (14, 30)


def test_alerts_and_panels_name_existing_metrics_only() -> None:
    named = set(re.findall(rf"\b{PREFIX}\w+", GUIDE))
    assert named
    assert named <= EXPORTED


def test_the_alert_rules_are_whole_and_use_existing_label_values() -> None:
    (rules,) = (
        yaml.safe_load(block)
        for block in re.findall(r"```yaml\n(.*?)```", GUIDE, flags=re.DOTALL)
        if block.startswith("groups")
    )
    found = rules["groups"][0]["rules"]
    assert len({rule["alert"] for rule in found}) == len(found)
    known = {(metric.label, value) for metric in METRICS for value in metric.values}
    for rule in found:
        for label, values in re.findall(r'(\w+)=~?"([^"]*)"', rule["expr"]):
            assert {(label, value) for value in values.split("|")} <= known


def test_the_metrics_of_the_contract_are_all_there() -> None:
    promised = [
        "bytes_written_total",
        "parquet_write_duration_seconds",
        "staging_file_written_total",
        "active_uploads",
        "active_multipart_parts",
        "multipart_uploads_total",
        "source_state_files",
        "files_discovered_total",
        "files_processed_total",
        "records_processed_total",
        "bad_records_total",
        "list_requests_total",
        "listed_keys_total",
        "late_files_total",
        "duplicates_refused_total",
        "watermark_state",
        "watermark_lag_seconds",
        "backlog_files",
        "backlog_bytes",
        "commit_duration_seconds",
        "commit_outcomes_total",
        "delta_table_version",
    ]
    assert set(promised) <= {metric.name for metric in METRICS}
