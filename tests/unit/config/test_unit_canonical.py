"""``show`` of sources of work units: every key reaches the specs, and what is printed means the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tidegate.config import load, show
from tidegate.config.keys import every_key
from tidegate.specs.project import ProjectSpec

Loaded = Callable[..., ProjectSpec]
S = "pipelines.<pipeline>.sources"
UNIT, HTTP, JDBC, PYTHON, DOWNLOAD = (
    f"{S}.<{kind} source>" for kind in ("unit", "http-unit", "jdbc-unit", "python-unit", "download")
)
CSV: dict[str, Any] = {
    "delimiter": ";",
    "quote": "none",
    "escape": "\\",
    "header": False,
    "columns": ["a"],
    "null_values": ["x"],
    "skip_rows": 3,
}
OTHER: dict[str, dict[str, Any]] = {
    UNIT: {
        "watermark": [{"name": "t", "type": "datetime", "range": {"from": "2021-01-01"}}],
        "secondary_input": [{"path": "elsewhere", "fields": ["id"]}],
        "work_unit": {"partition": "yearly"},
        "params": {"low": {"watermark": "t"}, "limit": "5"},
        "grace_period_days": 3,
        "grace_period": "P3DT6H30M",
        "abstinent_period_days": 3,
        "abstinent_period": "P0DT6H",
        "catch_up": False,
        "timezone": "Asia/Tokyo",
        "time_column": "at",
        "replace": "unit",
        "unit_column": "u",
        "segment_column": "s",
        "poll_interval_secs": 3,
        "max_pass_secs": 90,
        "expect_every": "PT2H",
    },
    f"{UNIT}.watermark[]": {"name": "other", "range": {"from": "P3D"}},
    f"{UNIT}.watermark[].range": {
        "from": "P3D",
        "to": "P1D",
        "round": "hour",
        "from_round": "hour",
        "to_round": "minute",
        "allow_future": True,
    },
    f"{UNIT}.work_unit": {
        "partition": [{"partition": "daily", "from": "2020-01-01", "to": "-"}],
        "partial_partition": "all",
        "min_units": 3,
        "min_records": 3,
        "min_records_after": "P2DT3H",
        "parallelism_max": 3,
        "pacing_seconds": 0.5,
        "not_found": "retire",
        "breaker_failures": 0,
        "group_units": 3,
        "group_seconds": 3,
    },
    f"{UNIT}.secondary_input[]": {
        "path": "s3://b/other",
        "format": "json",
        "fields": ["id", "more"],
        "as": "other",
        "filters": {"a": "(b|c)"},
        "auth_fields": ["key"],
        "category": "authentication",
        "storage_options": {"a": "***"},
    },
    f"{UNIT}.secondary_input[].csv": CSV,
    f"{UNIT}.params.<param>": {"bound": "high", "format": "%Y", "timezone": "Asia/Tokyo"},
    HTTP: {"path": "/other"},
    PYTHON: {"function": "a:c", "options": {"a": "***"}},
    DOWNLOAD: {
        "follow_links": True,
        "source_uri": "s3://b/{{low}}/*",
        "format": "ndjson",
        "compression": "gzip",
        "storage_options": {"a": "***"},
    },
    f"{DOWNLOAD}.csv": CSV,
}
"""A value for each key that differs from the base below."""

BY_ITSELF = {
    f"{HTTP}.type": "one value only",
    f"{JDBC}.type": "one value only",
    f"{PYTHON}.type": "one value only",
    f"{DOWNLOAD}.type": "one value only",
    f"{DOWNLOAD}.csv": "needs its format",
    f"{DOWNLOAD}.sheet": "needs its format",
    f"{DOWNLOAD}.connection": "instead of source_uri",
    f"{DOWNLOAD}.path": "with a connection",
    f"{UNIT}.watermark[].type": "another watermark",
    f"{UNIT}.watermark[].units": "for units",
    f"{UNIT}.secondary_input[].pipeline": "instead of path",
    f"{UNIT}.secondary_input[].csv": "needs its format",
    f"{UNIT}.params.<param>.watermark": "the only one there is",
    f"{UNIT}.params.<param>.value": "instead of a watermark",
    f"{UNIT}.secondary_input[].csv.encoding": "one value only",
    f"{DOWNLOAD}.csv.encoding": "one value only",
}


UNCHANGED = object()


def base() -> dict[str, Any]:
    """One pipeline of each type."""
    followed = {
        "watermark": [{"name": "t", "type": "datetime", "range": {"from": "2020-01-01"}}],
        "params": {"low": {"watermark": "t"}},
    }
    sources: dict[str, dict[str, Any]] = {
        "http": {"connection": "api", "path": "/s"},
        "jdbc": {"connection": "db", "query": "select {{low}}"},
        "python": {"type": "python", "function": "a:b"},
        "download": {"type": "download", "source_uri": "in/{{low}}", "format": "json"},
    }
    return {
        "connections": {
            "db": {"type": "jdbc", "url": "jdbc:postgresql://h/d"},
            "api": {"type": "http", "url": "http://h"},
        },
        "pipelines": {
            name: {
                "sources": {"s": yaml.safe_load(yaml.dump({**source, **followed}))},
                "sink": {"table_uri": f"lake/{name}"},
            }
            for name, source in sources.items()
        },
    }


def changed(block: str, key: str, value: object) -> dict[str, Any]:
    """The base with another value at a key, and with what that key needs beside it."""
    data = base()
    kind = next(kind for kind in ("python", "download", "jdbc", "http") if kind in block or kind == "http")
    source = data["pipelines"][kind]["sources"]["s"]
    if "secondary_input[]" in block or key == "secondary_input":
        given = {"path": "in", "fields": ["id"], "format": "csv" if block.endswith(".csv") else "delta"}
        source |= {
            "path": "/{{id}}",
            "secondary_input": [given],
            "watermark": [*source["watermark"], {"name": "id", "type": "unit"}],
        }
    if block.endswith("download source>.csv"):
        source["format"] = "csv"
    holder: Any = source
    for part in block.split(">", 2)[-1].replace("[]", ".0").replace("<param>", "low").strip(".").split("."):
        if part and isinstance(holder, dict):
            holder = holder.setdefault(part, {})
        elif part:
            holder = holder[int(part)]
    if value is not UNCHANGED:
        holder[key] = value
    if block.endswith(".csv"):
        holder.setdefault("header", key != "columns")
    if key == "min_records_after":
        holder["min_records"] = 3
    if block.endswith("watermark[]") and key == "name" and value is not UNCHANGED:
        source["params"] = {"low": {"watermark": "other"}}
    if key == "category":
        source |= {"path": "/s", "watermark": source["watermark"][:1]}
    return data


TRIED = [(block, key) for block, keys in OTHER.items() for key in keys]


def reloaded(project: ProjectSpec) -> ProjectSpec:
    """What is printed, loaded again; it gives no notice."""
    again = load(show(project), env={})
    assert again.notices == ()
    return again


@pytest.mark.slow
def test_a_key_reaches_the_specs_and_comes_back(loaded: Loaded) -> None:
    for block, key in TRIED:
        project = loaded(json.dumps(changed(block, key, OTHER[block][key])))
        assert project.pipelines != loaded(json.dumps(changed(block, key, UNCHANGED))).pipelines
        assert reloaded(project).pipelines == project.pipelines


def test_every_key_is_tried() -> None:
    kinds = ("unit", "http-unit", "jdbc-unit", "python-unit", "download")
    keys = {key.path for key in every_key() if any(f"<{kind} source>" in key.path for kind in kinds)}
    assert {f"{block}.{key}" for block, key in TRIED} | set(BY_ITSELF) == keys


@pytest.mark.parametrize(
    "source",
    [
        {"watermark": [{"name": "id", "type": "unit", "units": ["a", "b,c"]}], "path": "/{{id}}", "params": None},
        {"secondary_input": [{"pipeline": "python", "fields": ["id"]}], "path": "/{{id}}"},
        {"secondary_input": [{"path": "x.csv", "format": "csv", "fields": ["id"], "csv": CSV}], "path": "/{{id}}"},
        {"secondary_input": [{"path": "lake/python", "fields": ["a", "b"], "auth_fields": ["c"]}], "path": "/{{b}}"},
        {"params": {"low": {"watermark": "t"}, "a": {"value": "5"}}},
        {"method": "POST", "body": {"a": ["{{low}}", 5, True]}, "headers": {"X": "***"}, "idempotent": True},
        {"type": "download", "format": "csv", "csv": CSV, "method": "POST", "body": {}, "parallelism": 3},
        {"type": "download", "format": "excel", "sheet": "Sales", "timezone": "Europe/Berlin"},
        {"type": "download", "format": "parquet", "work_unit": {"not_found": "empty"}},
        {"time_column": "at", "replace": "segments"},
        {"time_column": "at", "replace": "unit"},
        {"watermark": None, "params": None, "work_unit": {"partition": "none"}},
    ],
)
def test_other_forms_come_back_as_well(loaded: Loaded, source: dict[str, Any]) -> None:
    data = base()
    data["pipelines"]["http"]["sources"]["s"] |= source
    project = loaded(yaml.safe_dump(data))
    assert project.pipelines != loaded(yaml.safe_dump(base())).pipelines
    assert reloaded(project).pipelines == project.pipelines


def test_rows_that_are_merged_come_back_as_well(loaded: Loaded) -> None:
    data = base()
    merge = {"load_type": "merge_upsert", "merge_keys": ["k"], "tie_break": ["at"], "skip_unchanged": False}
    data["pipelines"]["http"]["sink"] |= merge
    data["pipelines"]["http"]["sources"]["s"]["time_column"] = "at"
    project = loaded(yaml.safe_dump(data))
    assert not project.pipeline("http").sink.load.skip_unchanged
    assert reloaded(project).pipelines == project.pipelines


def test_secrets_are_masked(loaded: Loaded) -> None:
    data = base()
    data["pipelines"]["http"]["sources"]["s"] |= {
        "headers": {"X": "hunter2"},
        "path": "/{{id}}",
        "secondary_input": [{"path": "in", "fields": ["id"], "storage_options": {"key": "hunter2"}}],
    }
    data["pipelines"]["python"]["sources"]["s"]["options"] = {"k": "hunter2"}
    data["pipelines"]["download"]["sources"]["s"]["storage_options"] = {"k": "hunter2"}
    assert "hunter2" not in show(loaded(yaml.safe_dump(data)))
