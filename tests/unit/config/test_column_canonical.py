"""``show`` of sources that are followed by columns: every key reaches the specs, and what is printed means the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import yaml

from tidegate.config import load, show
from tidegate.config.keys import every_key
from tidegate.config.project import NOT_FOR_FILES
from tidegate.config.values import duration
from tidegate.specs.columns import ColumnSource, FunctionRead, HttpRead, JdbcRead, LoadType
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, ProjectSpec
from tidegate.specs.table import SchemaSpec, SinkSpec

Loaded = Callable[..., ProjectSpec]
S, K = "pipelines.<pipeline>.sources", "pipelines.<pipeline>.sink"
DB, API = "connections.<jdbc connection>", "connections.<http connection>"
COLUMN, TABLE, JDBC, HTTP, PYTHON = (f"{S}.<{kind} source>" for kind in ("column", "table", "jdbc", "http", "python"))
TABLES = f"{S}.<tables source>"
LOOK_BACK: dict[str, Any] = {
    "backward": {"days": 3},
    "backward_days": 3,
    "backward_hours": 3,
    "backward_months": 3,
    "backward_years": 3,
    "backward_closing_day": 3,
    "backward_value": 3,
    "timezone": "Asia/Tokyo",
    "backward.days": 3,
    "backward.hours": 3,
    "backward.months": 3,
    "backward.years": 3,
    "backward.closing_day": 3,
    "backward.value": 1.5,
}
BOUNDS: dict[str, Any] = {
    "watermark_param_mapping": {"at": "from"},
    "watermark_to_param": "till",
    "watermark_param_location": "body",
    "watermark_param_format": "%Y",
    "watermark_split": 3,
}
OTHER: dict[str, dict[str, Any]] = {
    DB: {
        "url": "jdbc:mysql://h/d",
        "user": "other",
        "password": "***",
        "driver": "a.B",
        "packages": ["a:b:1"],
        "jars": ["x.jar"],
        "properties": {"a": "***"},
        "max_connections": 3,
        "configure": {"backward_days": 3},
    },
    f"{DB}.configure": LOOK_BACK,
    API: {
        "url": "http://other",
        "headers": {"a": "***"},
        "auth": {"type": "bearer", "token": "***"},
        "rate_limit": {"requests": 3},
        "retries": {"attempts": 3},
        "timeout_secs": 0.5,
        "max_in_flight": 3,
        "allowed_origins": ["https://files.example.org"],
        "configure": {"backward_days": 3},
    },
    f"{API}.configure": LOOK_BACK,
    f"{API}.rate_limit": {"requests": 4, "per_seconds": 0.5},
    f"{API}.retries": {"attempts": 4, "base_secs": 0.25, "max_wait_secs": 3},
    COLUMN: {
        **LOOK_BACK,
        "watermark_columns": ["at", "id"],
        "watermark_mode": "tuple",
        "filter_expression": "a > 'b'",
        "safety_lag": "P1DT2H3M4S",
        "future_tolerance": "P2DT3H",
        "null_watermark": "include",
        "watermark_operator": ">=",
        "watermark_filter": "a:filter",
        "watermark_window": "a:window",
        "source_timezone": "Asia/Tokyo",
        "poll_interval_secs": 3,
        "max_pass_secs": 90,
        "expect_every": "PT2H",
        "configure": {"backward_days": 3},
    },
    f"{COLUMN}.configure": LOOK_BACK,
    TABLE: {
        "type": "iceberg",
        "source_uri": "elsewhere",
        "storage_options": {"a": "***"},
    },
    JDBC: {
        "table": "s.other",
        "partition_column": "id",
        "parallelism": 3,
        "reader": "jdbc",
        "fetch_size": 3,
    },
    HTTP: {
        **BOUNDS,
        "path": "/other",
        "method": "GET",
        "params": {"a": "5"},
        "headers": {"a": "***"},
        "body": {"a": 5, "b": "5"},
        "idempotent": True,
        "records": "data",
        "error": "error",
        "response_types": ["text/plain"],
        "pagination": {"type": "offset"},
        "parallelism": 3,
        "max_response_mb": 3,
    },
    f"{HTTP}.configure": BOUNDS,
    f"{HTTP}.pagination": {
        "type": "page",
        "param": "p",
        "size_param": "q",
        "size": 3,
        "next": "a.b",
        "last_field": "id",
        "more": "m",
        "total": "t",
        "ignore": ["a", "b.c"],
        "max_pages": 3,
    },
    PYTHON: {"function": "a:c", "options": {"a": "***"}},
    TABLES: {
        "tables": ["s.*", "t.u"],
        "exclude": ["*_tmp"],
        "without_watermark": "overwrite",
        "per_table": {"s.a": {"watermark_columns": ["b"]}},
    },
    f"{TABLES}.per_table.<table>": {
        "watermark_columns": ["a", "b"],
        "watermark_mode": "tuple",
        "without_watermark": "overwrite",
        "filter_expression": "a > 'b'",
        "partition_column": "id",
        "parallelism": 3,
        "merge_keys": ["id"],
        "load_type": "append",
    },
    K: {
        "load_type": "merge_overwrite",
        "merge_keys": ["id", "at"],
        "tie_break": ["rank"],
        "format": "delta",
    },
    "state": {"provider": "sql", "url": "sqlite:///other.db", "storage_options": {"a": "***"}, "options": {"a": "***"}},
}
"""A value for each key that differs from the base below."""

BY_ITSELF = {
    f"{DB}.type": "one value only",
    f"{API}.type": "one value only",
    f"{JDBC}.type": "one value only",
    f"{HTTP}.type": "one value only",
    f"{PYTHON}.type": "one value only",
    f"{JDBC}.connection": "a name that the canonical form keeps",
    f"{HTTP}.connection": "a name that the canonical form keeps",
    f"{JDBC}.query": "given instead of a table",
    f"{HTTP}.pagination.start": "of other kinds of pages",
}
UNIT_KINDS = ("unit", "http-unit", "jdbc-unit", "python-unit", "download")
CSV_AND_SO_ON = ("csv", "sheet", "lines", "pattern", "follow_links", "table")


def base() -> dict[str, Any]:
    places = {"tables": "/{schema}/{table}"}
    merge = {"load_type": "merge_upsert", "merge_keys": ["id"]}
    sources: dict[str, dict[str, Any]] = {
        "table": {"type": "delta", "source_uri": "in"},
        "jdbc": {"connection": "db", "table": "t"},
        "http": {
            "connection": "api",
            "method": "POST",
            "pagination": {"type": "cursor", "next": "n", "size_param": "x"},
        },
        "python": {"type": "python", "function": "a:b"},
        "tables": {"connection": "db", "tables": ["s.*"]},
    }
    sources["http"] |= {"watermark_param_mapping": {"at": "since"}, "watermark_to_param": "until"}
    for source in sources.values():
        source["watermark_columns"] = ["at"]
    return {
        "connections": {
            "db": {"type": "jdbc", "url": "jdbc:postgresql://h/d"},
            "api": {"type": "http", "url": "http://h"},
        },
        "pipelines": {
            name: {"sources": {"s": source}, "sink": {"table_uri": f"lake/{name}{places.get(name, '')}", **merge}}
            for name, source in sources.items()
        },
        "state": {"provider": "file", "url": "state"},
    }


PLACES = {
    DB: ("connections", "db"),
    API: ("connections", "api"),
    TABLE: ("pipelines", "table", "sources", "s"),
    JDBC: ("pipelines", "jdbc", "sources", "s"),
    HTTP: ("pipelines", "http", "sources", "s"),
    PYTHON: ("pipelines", "python", "sources", "s"),
    COLUMN: ("pipelines", "table", "sources", "s"),
    TABLES: ("pipelines", "tables", "sources", "s"),
    K: ("pipelines", "jdbc", "sink"),
    "state": ("state",),
}


def changed(block: str, key: str, value: object) -> dict[str, Any]:
    data = base()
    place = next(place for place in PLACES if block == place or block.startswith(f"{place}."))
    path = [*PLACES[place], *block.removeprefix(place).strip(".").split("."), *key.split(".")]
    holder: Any = data
    path = [part for part in path if part]
    for part in path[:-1]:
        holder = holder.setdefault(part, {})
    holder[path[-1]] = value
    http = data["pipelines"]["http"]["sources"]["s"]
    if "configure" in block and key in BOUNDS:
        http.pop(key, None)
    if block == f"{API}.rate_limit" and key != "requests":
        holder["requests"] = 9
    if block == f"{HTTP}.pagination" and key in ("type", "last_field"):
        del holder["next"]
    if block == "state" and key == "provider":
        holder["url"] = "sqlite:///state.db"
    if block == "state" and key == "url":
        holder["provider"] = "sql"
    if block == COLUMN and key == "watermark_window":
        data["pipelines"]["table"]["sink"] |= {"load_type": "merge_overwrite", "replace_by_watermark": True}
        holder["backward_days"] = 1
    if block == "state" and key == "options":
        holder["provider"] = "a:B"
        del holder["url"]
    if block == K and key == "load_type":
        holder.pop("tie_break", None)
    return data


TRIED = [(block, key) for block, keys in OTHER.items() for key in keys]


def test_every_key_is_tried() -> None:
    tried = {f"{block}.{key}" for block, key in TRIED} | set(BY_ITSELF)
    keys = {key.path for key in every_key() if "<" in key.path.replace("<pipeline>", "").replace("<source>", "")}
    keys |= {key.path for key in every_key() if key.block == "state"}
    keys |= {f"{K}.{key}" for key in ("load_type", "format", "merge_keys", "tie_break")}
    shared = {path for path in keys if any(f".<table source>.{name}" in path for name in CSV_AND_SO_ON)}
    auth = {path for path in keys if path.startswith(f"{API}.auth.")}
    bounds = {f"{COLUMN}.configure.{key}" for key in BOUNDS}
    units = {path for path in keys if any(f"<{kind} source>" in path for kind in UNIT_KINDS)}
    assert tried - {f"{HTTP}.configure.{key}" for key in BOUNDS} == keys - shared - auth - bounds - units
    strategy = {"replace_by_watermark", "max_delete_fraction", "allow_empty_window", "deduplicate", "window_columns"}
    assert set(NOT_FOR_FILES["sink"]) == strategy | {
        "merge_keys",
        "tie_break",
        "skip_unchanged",
        "scd2_effective_column",
        "scd2_attributes",
    }


def specs(project: ProjectSpec) -> tuple[object, ...]:
    return project.pipelines, project.state, project.blocks


@pytest.mark.slow
def test_every_key_reaches_the_specs_and_survives_show(loaded: Loaded) -> None:
    plain = loaded(json.dumps(base()))
    for block, key in TRIED:
        value = OTHER[block][key]
        other = loaded(json.dumps(changed(block, key, value)))
        if (block, key) != (K, "format"):
            assert specs(other) != specs(plain)
        shown = show(other)
        again = load(shown, env={})
        assert specs(again) == specs(other)
        assert not again.notices
        assert show(again) == shown


STRATEGIES = [
    ("{load_type: append, deduplicate: [id], tie_break: [rank]}", ""),
    ("{load_type: overwrite}", ""),
    ("{load_type: full_load}", ""),
    ("{load_type: merge_upsert, merge_keys: [id], skip_unchanged: false}", ""),
    (
        "{load_type: merge_overwrite, merge_keys: [id], replace_by_watermark: true, max_delete_fraction: 0.25, "
        "allow_empty_window: true, window_columns: {at: day}}",
        "transform: {sql: select 1}",
    ),
    ("{load_type: scd2, merge_keys: [id], scd2_effective_column: at, scd2_attributes: [a, b], tie_break: [c]}", ""),
]


@pytest.mark.parametrize(("sink", "more"), STRATEGIES)
def test_every_strategy_survives_show(loaded: Loaded, sink: str, more: str) -> None:
    text = (
        "source: {type: delta, path: in, watermark_columns: [at], backward: {days: 1}}\n"
        f"sink: {sink.replace('{', '{path: lake, ', 1)}\nstate: {{provider: file, url: s}}\n{more}\n"
    )
    project = loaded(text)
    again = load(show(project), env={})
    assert specs(again) == specs(project)


@pytest.mark.parametrize(
    "auth",
    [
        "{type: basic, user: u, password: '***'}",
        "{type: api_key, token: '***', name: n, place: params}",
        "{type: oauth2, token_url: 'https://x/t', client_id: c, client_secret: '***', scope: s}",
    ],
)
def test_every_kind_of_credentials_survives_show(loaded: Loaded, auth: str) -> None:
    data = base()
    data["connections"]["api"]["auth"] = yaml.safe_load(auth)
    project = loaded(yaml.safe_dump(data))
    assert specs(load(show(project), env={})) == specs(project)


@pytest.mark.parametrize(
    "source",
    [
        "{type: csv, path: in, csv: {delimiter: ;, header: false, columns: [a]}, pattern: '*.txt'}",
        "{type: excel, path: in, sheet: March, pattern: '*.xlsx', follow_links: true}",
        "{type: json, path: in, lines: false}",
        "{type: parquet, path: in}",
    ],
)
def test_every_format_survives_show(loaded: Loaded, source: str) -> None:
    project = loaded(f"source: {source}\nsink: {{path: lake, load_type: overwrite}}\n")
    assert specs(load(show(project), env={})) == specs(project)


def test_two_pipelines_share_a_connection_in_what_is_shown(loaded: Loaded) -> None:
    data = base()
    data["pipelines"]["more"] = data["pipelines"]["jdbc"] | {"sink": {"path": "more", "load_type": "overwrite"}}
    shown = yaml.safe_load(show(loaded(yaml.safe_dump(data))))
    assert sorted(shown["connections"]) == ["api", "db"]
    assert shown["pipelines"]["more"]["sources"]["s"]["connection"] == "db"


def test_sources_that_were_made_in_python_get_a_connection(loaded: Loaded) -> None:
    reads = {"a": JdbcRead("jdbc:x:y", table="t"), "b": HttpRead("http://h"), "c": FunctionRead("a:b")}
    sources = tuple(ColumnSource(name, read) for name, read in reads.items())
    sink = SinkSpec(Location("file:///lake"))
    project = ProjectSpec("code", (PipelineSpec("p", sources, SchemaSpec(infer=True), sink),))
    shown = yaml.safe_load(show(project))
    assert sorted(shown["connections"]) == ["p.a", "p.b"]
    assert shown["pipelines"]["p"]["sources"]["a"]["connection"] == "p.a"


def test_a_project_of_files_shows_no_connections(loaded: Loaded) -> None:
    shown = yaml.safe_load(show(loaded("source: {path: in}\nsink: {path: lake}\n")))
    assert "connections" not in shown
    assert shown["pipelines"]["pipelines"]["sink"]["load_type"] == LoadType.APPEND
    assert "merge_keys" not in shown["pipelines"]["pipelines"]["sink"]


@pytest.mark.parametrize(
    ("lag", "text"),
    [
        (None, "none"),
        (timedelta(minutes=5), "PT5M"),
        (timedelta(seconds=90), "PT1M30S"),
        (timedelta(days=2), "P2D"),
        (timedelta(days=1, hours=12), "P1DT12H"),
    ],
)
def test_durations(lag: timedelta | None, text: str) -> None:
    assert duration(lag) == text
