"""Metrics and health of passes over column sources, into a table and into a folder, as Prometheus would fetch them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from support.column_lake import ColumnLake
from support.metrics import fetch, free_address
from tidegate import status
from tidegate.observe.pages import serve_metrics


def shown(address: str) -> dict[str, float]:
    body = fetch(address, "/metrics")[2].decode()
    found = re.findall(r"^tidegate_(\w+)\{([^}]*)\} (\S+)$", body, re.M)
    return {f"{name} {_own(labels)}".rstrip(): float(number) for name, labels, number in found}


def _own(labels: str) -> str:
    """The value of the label that not every metric has."""
    values = dict(re.findall(r'(\w+)="([^"]*)"', labels))
    return "".join(value for name, value in values.items() if name not in ("pipeline", "source"))


def test_rows_commits_and_rows_left_out_are_counted(tmp_path: Path) -> None:
    address = free_address()
    lake = ColumnLake(tmp_path, settings={"metrics": {"enabled": True, "address": address}})
    lake.arrive({"id": 1}, {"id": 2}, {"id": None})
    with serve_metrics(lake.project, lake.project.pipelines, lake.seen.append) as emit:
        assert fetch(address, "/ready")[0] == 503
        lake.run(emit)
        lake.arrive({"id": 3})
        lake.run(emit)
        found = shown(address)
        assert found["records_processed_total"] == 3
        assert found["commit_outcomes_total committed"] == 2
        assert found["rows_left_out_total null_watermark"] == 2
        assert found["watermark_state Active"] == 1
        assert found["delta_table_version"] == status(lake.config)[0].table_version
        assert (found["watermark_lag_seconds"], found["source_healthy"]) == (0, 1)
        assert fetch(address, "/ready")[0] == 200


def test_a_source_that_fails_is_not_healthy(tmp_path: Path) -> None:
    address = free_address()
    lake = ColumnLake(tmp_path, settings={"metrics": {"enabled": True, "address": address}})
    lake.source_settings = {"null_watermark": "error"}
    lake.arrive({"id": None})
    with serve_metrics(lake.project, lake.project.pipelines, lake.seen.append) as emit:
        lake.run(emit)
        code, _, body = fetch(address, "/health")
        assert (code, "null in every watermark column" in json.loads(body)["sources"][0]["reason"]) == (503, True)
        assert shown(address)["source_healthy"] == 0
