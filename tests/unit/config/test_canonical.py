"""``show`` prints every key with its value, and what it prints means the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tidegate.config import load, show
from tidegate.config.keys import KeyPath, every_key
from tidegate.config.models import fields
from tidegate.config.project import NOT_FOR_FILES
from tidegate.config.schema import ElementModel
from tidegate.specs.project import ProjectSpec

Load = Callable[..., ProjectSpec]
SMALL = "source: {path: in, use_watermark: true}\nsink: {path: lake}\n"
P, S = "pipelines.<pipeline>", "pipelines.<pipeline>.sources.<source>"
F = f"{P}.schema.fields[]"

OTHER_VALUES: dict[str, Any] = {
    "engine": "local",
    f"{S}.source_uri": "elsewhere",
    f"{S}.pattern": "*.json",
    f"{S}.exclude": ["tmp*", "*.bak"],
    f"{S}.follow_links": True,
    f"{S}.compression": "zstd",
    f"{S}.format": "json",
    f"{S}.csv": {"delimiter": "tab"},
    f"{S}.csv.delimiter": ";",
    f"{S}.csv.quote": "none",
    f"{S}.csv.escape": "\\",
    f"{S}.csv.header": True,
    f"{S}.csv.columns": ["id", "at"],
    f"{S}.csv.null_values": ["", "NA"],
    f"{S}.csv.skip_rows": 2,
    f"{S}.poll_interval_secs": 17,
    f"{S}.max_pass_secs": 900,
    f"{S}.expect_every": "PT2H",
    f"{S}.max_attempts": 17,
    f"{S}.partition_filter": {"prefix_template": "m=%Y-%m", "lookback": 1},
    f"{S}.partition_filter.prefix_template": "y=%Y",
    f"{S}.partition_filter.lookback": 17,
    f"{S}.checkpoint": {"interval_files": 5},
    f"{S}.checkpoint.interval_files": 17,
    f"{S}.checkpoint.interval_secs": 17,
    f"{S}.checkpoint.mirror_legacy": True,
    f"{S}.late_files": "strict",
    f"{S}.late_window": 17,
    f"{S}.late_window_total": 17,
    f"{S}.lateness": "P17D",
    f"{S}.deep_listing_every": 17,
    f"{S}.max_islands": 17,
    f"{S}.storage_options": {"AWS_REGION": "here"},
    f"{P}.sources": {"other": {"source_uri": "in", "use_watermark": True}},
    f"{P}.schema": {"fields": [{"name": "only", "type": "date"}]},
    f"{P}.schema.fields": [{"name": "other", "type": "string"}],
    f"{F}.name": "renamed",
    f"{F}.type": "binary",
    f"{F}.nullable": False,
    f"{P}.schema.coerce_conflicts_to_utf8": True,
    f"{P}.schema.numbers": "lenient",
    f"{P}.schema.rescued": "leftovers",
    f"{P}.schema_evolution": "strict",
    f"{P}.delivery": "staged",
    f"{P}.staging": {"archive": True},
    f"{P}.staging.archive": True,
    f"{P}.staging.max_files_per_commit": 17,
    f"{P}.staging.poll_interval_secs": 17,
    f"{P}.transform": {"sql": "select id from source"},
    f"{P}.transform.sql": "-- two lines\nselect id from source",
    f"{P}.transform.python": "package.module:function",
    f"{P}.sink": {"table_uri": "lake2"},
    f"{P}.sink.table": "shop.events",
    f"{P}.sink.table_uri": "lake3",
    f"{P}.sink.partition_by": {"prefix_template": "day=%Y-%m-%d"},
    f"{P}.sink.partition_by.prefix_template": "month=%Y-%m",
    f"{P}.sink.partition_by.column": "at",
    f"{P}.sink.file_size_mb": 17,
    f"{P}.sink.row_group_size_bytes": 1_000_000,
    f"{P}.sink.compression": "gzip",
    f"{P}.sink.rollover_timeout_secs": 17,
    f"{P}.sink.inactivity_timeout_secs": 17,
    f"{P}.sink.commit_batch_files": 17,
    f"{P}.sink.delta_checkpoint_interval": 0,
    f"{P}.sink.sync": False,
    f"{P}.sink.metadata_columns": ["_ingested_at", "_source_file"],
    f"{P}.sink.max_concurrent_uploads": 17,
    f"{P}.sink.part_size_mb": 17,
    f"{P}.sink.min_multipart_size_mb": 17,
    f"{P}.sink.max_concurrent_parts": 17,
    f"{P}.sink.maintenance": {"vacuum_every_commits": 2},
    f"{P}.sink.maintenance.optimize_every_commits": 17,
    f"{P}.sink.maintenance.vacuum_every_commits": 17,
    f"{P}.sink.maintenance.vacuum_retention_hours": 48,
    f"{P}.sink.table_properties": {"delta.appendOnly": "true"},
    f"{P}.sink.storage_options": {"AWS_REGION": "there"},
    f"{P}.on_conflict": "skip",
    f"{P}.max_concurrent_files": 17,
    f"{P}.error_handling": {"max_failures": 3},
    f"{P}.error_handling.on_bad_record": "fail_run",
    f"{P}.error_handling.max_bad_fraction": 0.25,
    f"{P}.error_handling.max_failures": 17,
    f"{P}.error_handling.max_bad_records": 17,
    f"{P}.error_handling.dlq_path": "dead",
    f"{P}.error_handling.dlq_storage_options": {"AWS_REGION": "there"},
    "pipelines": {"q": {"source": {"path": "in", "use_watermark": True}, "sink": {"path": "lake"}}},
    "reconcile": {"every": "P2D"},
    "reconcile.every": "PT6H",
    "reconcile.ingest": True,
    "spark": {"master": "local[2]"},
    "spark.master": "spark://host:7077",
    "spark.remote": "sc://host:15002",
    "spark.config": {"spark.executor.memory": "1g"},
    "spark.managed": True,
    "global": {"total_concurrency": 2},
    "global.total_concurrency": 17,
    "global.max_concurrent_sources": 3,
    "global.poll_jitter_secs": 0,
    "global.commit_deadline_secs": 17,
    "recovery": {"max_commits": 2},
    "recovery.max_commits": 17,
    "metrics": {"enabled": True},
    "metrics.enabled": True,
    "metrics.address": "0.0.0.0:1",
    "metrics.legacy_names": True,
    "metrics.textfile": "collected/tidegate.prom",
    "metrics.push_url": "https://push.example.org:9091/gateway",
}
"""A value for each key that differs from the base file below."""

ONE_VALUE_ONLY = {
    f"{S}.type",
    f"{S}.csv.encoding",
    f"{S}.use_watermark",
    f"{P}.sink.load_type",
    f"{P}.sink.format",
    f"{P}.schema.infer",
}
NESTED = {f"{F}.{key}" for key in ("fields", "items", "keys", "values")}


def is_of_columns(key: KeyPath) -> bool:
    """Whether a key belongs to sources that are followed by columns, their connections, tables, providers, messages."""
    of_kind = re.search(r"^(connections|notify|state)\b|<(?!pipeline>|source>)", key.path)
    return bool(of_kind) or (key.block == f"{P}.sink" and key.name in NOT_FOR_FILES["sink"])


def base() -> dict[str, Any]:
    source = {"source_uri": "in", "use_watermark": True, "format": "csv", "csv": {"header": False}}
    source["partition_filter"] = {"prefix_template": "d=%Y-%m-%d", "lookback": 2}
    partitioned = {"prefix_template": "date=%Y-%m-%d"}
    fields = [{"name": "id", "type": "int64"}, {"name": "at", "type": "timestamp"}]
    pipeline = {"sources": {"s": source}, "schema": {"fields": fields}, "sink": {"table_uri": "lake"}}
    pipeline["sink"]["partition_by"] = partitioned
    return {"pipelines": {"p": pipeline}}


def changed(path: str, value: object) -> dict[str, Any]:
    data = base()
    holder: Any = data
    *above, last = path.replace("<pipeline>", "p").replace("<source>", "s").split(".")
    for part in above:
        holder = holder.setdefault(part.removesuffix("[]"), {})
        holder = holder[0] if part.endswith("[]") else holder
    holder[last] = value
    if path == f"{S}.format":
        del holder["csv"]
    if path == f"{P}.schema.rescued":
        source = data["pipelines"]["p"]["sources"]["s"]
        del source["format"], source["csv"]
    return data


def test_every_key_has_a_value_to_try() -> None:
    keys = {key.path for key in every_key() if not is_of_columns(key)}
    assert keys == OTHER_VALUES.keys() | ONE_VALUE_ONLY | NESTED


@pytest.mark.slow
def test_every_key_reaches_the_specs_and_survives_show(loaded: Load) -> None:
    plain = loaded(yaml.safe_dump(base()))
    for path in OTHER_VALUES:
        other = loaded(yaml.safe_dump(changed(path, OTHER_VALUES[path])))
        assert (other.pipelines, other.spark) != (plain.pipelines, plain.spark) or other != plain
        assert _without_notices(other) != _without_notices(plain)
        again = loaded(show(other).replace("***", "here" if "sources" in path else "there"))
        assert _without_notices(again) == _without_notices(other)


def _without_notices(project: ProjectSpec) -> tuple[object, ...]:
    settings = (
        project.total_concurrency,
        project.max_concurrent_sources,
        project.poll_jitter_secs,
        project.commit_deadline_secs,
    )
    return (
        project.pipelines,
        project.engine,
        project.spark,
        settings,
        project.recovery_max_commits,
        project.metrics,
        project.reconcile,
    )


def test_show_prints_every_key(loaded: Load) -> None:
    data = yaml.safe_load(show(loaded(yaml.safe_dump(base()))))
    for key in every_key():
        if key.block == F or is_of_columns(key):
            continue
        found: Any = data
        for part in key.path.replace("<pipeline>", "p").replace("<source>", "s").split("."):
            assert part in found, key.path
            found = found[part]


def test_show_prints_the_same_keys_in_the_same_order_as_the_models(loaded: Load) -> None:
    data = yaml.safe_load(show(loaded(SMALL.replace("path: in", "path: in, format: csv"))))["pipelines"]["pipelines"]
    names = [key.name for key in every_key() if key.block == S]
    assert list(data["sources"]["default"]) == names
    assert list(data) == [key.name for key in every_key() if key.block == P]


def test_show_is_stable(loaded: Load) -> None:
    once = show(loaded(SMALL))
    assert show(load(once, env={})) == once


def test_a_source_without_a_watermark_survives_show_without_keys_of_watermarks(loaded: Load) -> None:
    project = loaded("source: {path: in, pattern: '*.json', max_islands: 7}\nsink: {path: lake}\n")
    again = load(show(project), env={})
    assert again.pipelines == project.pipelines
    assert not any("means nothing" in notice for notice in again.notices)
    (shown,) = yaml.safe_load(show(project))["pipelines"].values()
    assert shown["sources"]["default"]["use_watermark"] is False


def test_nested_columns_survive_show(loaded: Load) -> None:
    columns = """\
schema:
  fields:
    - {name: a, type: struct, fields: [{name: b, type: list, items: {type: map, keys: string, values: date}}]}
    - {name: on, type: list, items: {type: list, items: "decimal(4,1)", nullable: false}}
"""
    project = loaded(SMALL + columns)
    assert [field.name for field in project.pipelines[0].schema.fields] == ["a", "on"]
    assert load(show(project), env={}).pipelines == project.pipelines
    assert set(fields(ElementModel)) == {"type", "nullable", "fields", "items", "keys", "values"}
