"""However a file is mangled, loading it gives specs or one ConfigError with readable lines; nothing else."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.long_runs import examples
from tidegate.config import load, show
from tidegate.config.keys import every_key
from tidegate.config.work_units import MS_KEYS
from tidegate.errors import ConfigError
from tidegate.migrate.foreign import FOREIGN
from tidegate.specs.project import ProjectSpec

GOOD = """\
pipelines:
  events:
    sources:
      a: &a
        source_uri: s3://bucket/in
        use_watermark: true
        partition_filter: {prefix_template: "date=%Y-%m-%d/hour=%H", lookback: 3}
        checkpoint: {interval_files: 5}
        lateness: P2D
        storage_options: {AWS_REGION: "${REGION:-here}"}
      b: {<<: *a, source_uri: "in/${DIR}", late_files: strict}
    schema:
      fields:
        - {name: id, type: int64, nullable: false}
        - {name: ts, type: timestamp}
        - {name: user, type: struct, fields: [{name: name, type: string}]}
        - {name: tags, type: map, keys: string, values: {type: list, items: "decimal(5,2)"}}
    sink:
      table_uri: lake
      partition_by: {prefix_template: "day=%Y-%m-%d", column: ts}
      metadata_columns: [_source_file]
  more:
    source: {path: other, use_watermark: true}
    destination: {path: lake2}
    schema_evolution: strict
global: {poll_jitter_secs: 3, connection_pooling: true}
spark: {master: "local[2]", config: {spark.executor.memory: 1g}}
"""
COLUMNS = """\
connections:
  shop: {type: jdbc, url: "jdbc:postgresql://h/d", password: "${DIR}", configure: {backward_days: 7}}
  api: {type: http, url: "https://h/v1", auth: {type: bearer, token: t}, rate_limit: {requests: 5}}
pipelines:
  orders:
    source: {connection: shop, table: t, watermark_columns: [a, b], configure: {backward: {closing_day: 10}}}
    sink: {table_uri: lake/a, load_type: merge_upsert, merge_keys: [id], tie_break: [b]}
  answers:
    source:
      connection: api
      path: /answers
      pagination: {type: cursor, next: n}
      watermark_columns: [at]
      watermark_param_mapping: {at: since}
      watermark_to_param: until
    sink: {table_uri: lake/b}
  days:
    source: {type: delta, path: lake/a, watermark_columns: [day], backward: {days: 7}, safety_lag: PT5M}
    transform: {sql: select 1}
    sink:
      {table_uri: lake/c, load_type: merge_overwrite, merge_keys: [day], replace_by_watermark: true,
       window_columns: {day: d}}
state: {provider: sql, url: "sqlite:///state.db"}
"""
UNITS = """\
connections:
  api: {type: http, url: "https://h/v1", headers: {X: "{{token}}"}}
  db: {type: jdbc, url: "jdbc:postgresql://h/d"}
pipelines:
  ids:
    source: {connection: api, path: /ids, watermark_columns: [at]}
    sink: {table_uri: lake/ids}
  answers:
    source:
      connection: api
      path: "/s/{{id}}"
      params: {since: {watermark: t, bound: low}, limit: 5}
      watermark: [{name: t, type: datetime, range: {from: "2020-01-01", to: "-"}}, {name: id, type: unit}]
      secondary_input:
        - {path: lake/ids, fields: [id], filters: {a: "(b|c)"}}
        - {path: keys, format: json, fields: [token], category: authentication}
      work_unit: {partition: {monthly: ["2020-01-01", "2021-01-01"], daily: ["2021-01-01", "-"]}, min_records: 2}
      grace_period: P3DT6H
    sink: {table_uri: lake/a}
  sales:
    source:
      connection: db
      query: "select {{shop}} from t"
      time_column: at
      ms.watermark: '[{"name": "t", "type": "datetime", "range": {"from": "P3D"}},
        {"name": "shop", "type": "unit", "units": "a"}]'
    sink: {table_uri: lake/b, load_type: merge_upsert, merge_keys: [k]}
  files:
    source: {type: download, source_uri: "s3://b/{{day}}/*", format: csv, csv: {quote: none}, replace: unit,
      params: {day: {watermark: t, format: date}}, watermark: [{name: t, type: datetime, range: {from: P7D}}]}
    sink: {table_uri: lake/c}
"""
ENV = {"DIR": "x"}
pytestmark = pytest.mark.timeout(3600)
WORDS = sorted({key.name for key in every_key()} | {"path", "<<", ""} | set(MS_KEYS))
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True),
    st.text(max_size=12),
    st.sampled_from(
        [
            "${X}",
            "${",
            "$$",
            "%",
            "%Y/%d",
            "s3://",
            "s3://a:b@c/",
            "file:",
            "decimal(",
            "{{id}}",
            "{{",
            "[{",
            "P",
            "-1",
            "9" * 400,
            "\x00",
            "..",
            "/",
        ]
    ),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(st.sampled_from(WORDS), st.text(max_size=3), max_size=2),
)


def outcome(text: str) -> ProjectSpec | ConfigError:
    try:
        return load(text if "\n" in text else text + "\n", env=ENV, base=Path("/srv"), foreign=FOREIGN)
    except ConfigError as error:
        return error


def attempt(text: str) -> None:
    found = outcome(text)
    if isinstance(found, ConfigError):
        assert found.problems
        for line in found.problems:
            assert re.fullmatch(r"<text>:\d+: \S.*", line), line
    else:
        load(show(found), env=ENV)


def places(node: Any) -> list[tuple[Any, Any]]:
    keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    return [place for key in keys for place in [(node, key), *places(node[key])]]


TREES = [yaml.safe_load(text) for text in (GOOD, COLUMNS, UNITS)]


@settings(max_examples=examples(10_000, 100), deadline=None)
@given(st.data())
def test_mangled_values_and_keys(data: st.DataObject) -> None:
    tree = copy.deepcopy(data.draw(st.sampled_from(TREES)))
    for _ in range(data.draw(st.integers(1, 4))):
        found = places(tree)
        if not found:
            break
        holder, key = data.draw(st.sampled_from(found))
        match data.draw(st.sampled_from(["replace", "remove", "rename", "add"])):
            case "replace":
                holder[key] = data.draw(ODD)
            case "remove":
                del holder[key]
            case "rename" if isinstance(holder, dict):
                holder[data.draw(st.sampled_from(WORDS))] = holder.pop(key)
            case _ if isinstance(holder, dict):
                holder[data.draw(st.sampled_from(WORDS))] = data.draw(ODD)
            case _:
                holder.append(data.draw(ODD))
    attempt(yaml.dump(tree, Dumper=yaml.CSafeDumper))


@settings(max_examples=examples(10_000, 100), deadline=None)
@given(st.data())
def test_mangled_text(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([GOOD, COLUMNS, UNITS]))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(text)))
        upto = min(len(text), at + data.draw(st.integers(0, 12)))
        put = data.draw(
            st.one_of(
                st.text(max_size=6),
                st.sampled_from(
                    [
                        "{",
                        "}",
                        "[",
                        "]",
                        ": ",
                        "- ",
                        "&a ",
                        "*a",
                        "!",
                        "'",
                        '"',
                        "\n",
                        "\t",
                        "#",
                        "${",
                        "<<: ",
                    ]
                ),
            )
        )
        text = text[:at] + put + text[upto:]
    attempt(text)


@settings(max_examples=examples(200), deadline=None)
@given(st.text())
@example("\ud800\n")
@example("a: \ud800\n")
@example("\x85\n")
@example("? {a: b}\n: c\n")
@example("%YAML 9.9\n---\na: b\n")
@example("%TAG ! !x\n--- a\n")
def test_any_text_at_all(text: str) -> None:
    attempt(text)


def test_the_file_that_is_mangled_is_good() -> None:
    project = load(GOOD, env=ENV, base=Path("/srv"), foreign=FOREIGN)
    assert [len(pipeline.sources) for pipeline in project.pipelines] == [2, 1]
    others = load(COLUMNS, env=ENV, base=Path("/srv"), foreign=FOREIGN)
    assert [len(pipeline.sources) for pipeline in others.pipelines] == [1, 1, 1]
    units = load(UNITS, env=ENV, base=Path("/srv"), foreign=FOREIGN)
    assert [len(pipeline.sources) for pipeline in units.pipelines] == [1, 1, 1, 1]
    assert units.notices == ()
