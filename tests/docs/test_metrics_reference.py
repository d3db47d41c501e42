"""Every metric is documented as it is, and alerts and panels name no metric, label or value that does not exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidegate.migrate.foreign import FOREIGN
from tidegate.observe.metrics import COMMON_LABELS, METRICS, PREFIX, Metric

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
GUIDE = (DOCS / "guides" / "monitoring.md").read_text(encoding="utf-8")
ROWS = {
    name: [cell.strip() for cell in cells.split("|")]
    for name, cells in re.findall(rf"^\| `({PREFIX}\w+)` \|(.*)\|$", PAGE, flags=re.MULTILINE)
}
EXPORTED = {
    PREFIX + metric.name + suffix: metric
    for metric in METRICS
    for suffix in (("_bucket", "_count", "_sum") if metric.kind == "histogram" else ("",))
}

MONITORING = DOCS.parent / "monitoring"
RULES = yaml.safe_load((MONITORING / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
ALERT_TESTS = yaml.safe_load((MONITORING / "alerts_test.yml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))


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


def test_guide_alerts_and_dashboard_name_existing_metrics_only() -> None:
    texts = (GUIDE, *(path.read_text(encoding="utf-8") for path in MONITORING.iterdir()))
    assert {name for text in texts for name in re.findall(rf"\b{PREFIX}\w+", text)} <= EXPORTED.keys()


def check_query(query: str) -> None:
    """Every metric, label and value of a query exists."""
    series = re.findall(rf"\b({PREFIX}\w+)(?:\{{([^}}]*)\}})?", query)
    assert series, query
    for name, selector in series:
        assert name in EXPORTED, name
        metric = EXPORTED[name]
        for label, values in re.findall(r'(\w+)\s*=~?\s*"([^"]*)"', selector):
            assert label in metric.labels, f"{name} has no label {label}"
            if label == metric.label:
                assert set(values.split("|")) <= set(metric.values), query
    own = {label for name, _ in series for label in EXPORTED[name].labels} | {"le"}
    for labels in re.findall(r"\bby \(([^)]*)\)", query):
        assert {each.strip() for each in labels.split(",")} <= own, query


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_what_exists_and_says_what_it_is_about(rule: dict[str, Any]) -> None:
    check_query(rule["expr"])
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    # The source, unless it is about all of them.
    assert ("$labels.source" in rule["annotations"]["summary"]) == (not rule["expr"].startswith("absent"))
    known = {"$labels.pipeline", "$labels.source", "$value"}
    assert set(re.findall(r"\$[\w.]+", str(rule["annotations"]))) <= known


def test_every_alert_is_in_the_guide_and_has_a_test_in_which_it_is_silent_and_fires() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    assert re.findall(r"^\| `(Tidegate\w+)` \|", GUIDE, re.M) == names
    tests = {test["name"]: test["alert_rule_test"] for test in ALERT_TESTS["tests"]}
    assert list(tests) == names
    for name, cases in tests.items():
        assert {case["alertname"] for case in cases} == {name}
        assert sorted(len(case["exp_alerts"]) for case in cases) == [0, 1], name
    for test in ALERT_TESTS["tests"]:
        for each in test["input_series"]:
            check_query(each["series"])


def test_the_dashboard_has_titles_units_and_a_data_source_to_choose() -> None:
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert len({panel["title"] for panel in panels}) == len(panels) > 10
    for panel in panels:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        for target in (panel, *panel["targets"]):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            check_query(target["expr"])
            used = set(re.findall(r"\$(\w+)", target["expr"]))
            assert used <= {*variables, "__rate_interval"}
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert named <= {*COMMON_LABELS, *(metric.label for metric in METRICS)}
    for name in ("pipeline", "source"):
        check_query(variables[name]["definition"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed; make test-integrations has it")
def test_the_alerts_pass_their_tests() -> None:
    subprocess.run(["promtool", "test", "rules", "alerts_test.yml"], cwd=MONITORING, check=True, timeout=60)


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
