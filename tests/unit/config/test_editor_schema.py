"""The JSON Schema says what the loader says, as far as a schema can."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidegate.config import json_schema, load
from tidegate.config.keys import every_key
from tidegate.config.normal_form import ALIASES
from tidegate.errors import ConfigError
from tidegate.migrate.foreign import FOREIGN

SCHEMA = json_schema(FOREIGN)
TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether ``value`` is valid, for the words that our schema uses."""
    if "$ref" in schema and not fits(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]):
        return False
    if "anyOf" in schema and not any(fits(value, each) for each in schema["anyOf"]):
        return False
    if not all(fits(value, each) for each in schema.get("allOf", ())):
        return False
    return _right_kind(value, schema) and _right_content(value, schema)


def _right_kind(value: Any, schema: dict[str, Any]) -> bool:
    kinds = schema.get("type", list(TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(value, bool):
        return "boolean" in kinds and schema.get("const", value) == value
    within = not isinstance(value, int) or schema.get("minimum", value) <= value <= schema.get("maximum", value)
    named = value in schema.get("enum", [value]) and schema.get("const", value) == value
    return any(isinstance(value, TYPES[kind]) for kind in kinds) and within and named


def _right_content(value: Any, schema: dict[str, Any]) -> bool:
    if isinstance(value, str):
        return bool(re.search(schema.get("pattern", ""), value))
    if isinstance(value, list):
        return all(fits(item, schema.get("items", {})) for item in value)
    if isinstance(value, dict):
        known, other = schema.get("properties", {}), schema.get("additionalProperties", {})
        names = re.compile(schema.get("propertyNames", {}).get("pattern", ""))
        below = all(other is not False or key in known for key in value) and all(
            fits(each, known.get(key, other or {})) for key, each in value.items()
        )
        complete = len(value) >= schema.get("minProperties", 0) and all(
            key in value for key in schema.get("required", ())
        )
        return below and complete and all(names.search(key) for key in value)
    return True


def accepts(text: str) -> bool:
    return fits(yaml.safe_load(text), SCHEMA)


def loads(text: str, tmp_path: Path) -> bool:
    try:
        load(text, env={"N": "5"}, base=tmp_path, foreign=FOREIGN)
    except ConfigError:
        return False
    return True


GOOD = "source: {path: in, use_watermark: true}\nsink: {path: lake}\n"


DATABASE = """\
connections: {db: {type: jdbc, url: "jdbc:x:y", password: "${N}", configure: {backward_days: 7}}}
pipelines:
  p:
    source: {connection: db, table: t, watermark_columns: [a, b], configure: {backward: {closing_day: 10}}}
    sink: {path: lake, load_type: merge_upsert, merge_keys: id}
state: {provider: sql, url: "sqlite:///state.db"}
"""
API = """\
connections: {api: {type: http, url: "http://h", auth: {type: bearer, token: t}, rate_limit: {requests: 5}}}
source: {connection: api, path: /x, watermark_columns: a, body: {n: [1]}, method: POST, params: {n: 5}}
sink: {path: lake, load_type: overwrite}
"""
TABLE = "source: {type: delta, path: in, watermark_columns: [a], backward: {days: 0}}\nsink: {path: lake}\n"
FUNCTION = TABLE.replace("type: delta, path: in", "type: python, function: 'a:b', options: {n: 5}")
COLUMNS = (DATABASE, API, TABLE, FUNCTION, TABLE.replace("delta, path", "parquet, source_uri"))


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        *COLUMNS,
        GOOD.replace("true", "false"),
        GOOD.replace(", use_watermark: true", ""),
        GOOD.replace("source:", "sources: {a:").replace("true}", "true}}"),
        GOOD.replace("sink", "destination"),
        GOOD + "schema: {fields: [{name: a, type: list, items: string}]}\n",
        GOOD + "schema: {evolution: strict}\nglobal: {connection_pooling: true}\n",
        GOOD + "metrics:\nspark: {config: {spark.executor.cores: 4}}\n",
        GOOD.replace("true}", "true, lateness: 5, checkpoint: , exclude: x}"),
        GOOD.replace("true}", "true, max_attempts: '${N}', late_files: strict}"),
        "pipelines:\n  a:\n    source: {source_uri: in, use_watermark: true}\n    sink: {table_uri: lake}\n",
    ],
)
def test_what_loads_is_valid_in_an_editor(text: str, tmp_path: Path) -> None:
    assert loads(text, tmp_path)
    assert accepts(text)


@pytest.mark.parametrize(
    "text",
    [
        "spark: {master: yarn}\n",
        DATABASE.replace("type: jdbc", "type: jbdc"),
        DATABASE.replace("table: t", "tabel: t"),
        DATABASE.replace("merge_upsert", "merge"),
        DATABASE.replace("provider: sql", "provider: mysql"),
        DATABASE.replace("closing_day: 10", "closing_day: 32"),
        API.replace("method: POST", "method: PATCH"),
        API.replace('url: "http://h", ', ""),
        TABLE.replace("path: in, ", ""),
        TABLE.replace("delta", "dleta"),
        FUNCTION.replace("function: 'a:b', ", ""),
        GOOD.replace("sink", "sinc"),
        GOOD.replace("path: in, ", ""),
        GOOD.replace("true", "sometimes"),
        GOOD.replace("true}", "true, max_attempts: 0}"),
        GOOD.replace("true}", "true, max_attempts: many}"),
        GOOD.replace("true}", "true, late_files: never}"),
        GOOD.replace("true}", "true, exclude: {a: b}}"),
        GOOD + "delivery: later\n",
        GOOD + "schema: {fields: [{name: a}]}\n",
        "pipelines: {}\n",
        "pipelines:\n  'a b':\n    source: {path: in, use_watermark: true}\n    sink: {path: lake}\n",
    ],
)
def test_what_an_editor_underlines_does_not_load(text: str, tmp_path: Path) -> None:
    assert not accepts(text)
    assert not loads(text, tmp_path)


def test_the_schema_is_json() -> None:
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


def described(schema: dict[str, Any]) -> list[str]:
    blocks = {"": schema, **schema["$defs"]}
    return [
        f"{name}.{key}"
        for name, block in blocks.items()
        for key, value in block.get("properties", {}).items()
        if not value.get("description")
    ]


def test_every_key_and_alias_has_a_description() -> None:
    assert described(SCHEMA) == []
    assert all(key.field.key.about for key in every_key())


def test_every_alias_is_in_the_schema() -> None:
    text = json.dumps(SCHEMA)
    for alias in ALIASES:
        assert f"For {alias.new.replace('*', '<source>')}: {alias.why}." in text


UNITS = """\
connections: {api: {type: http, url: "http://h"}}
pipelines:
  p:
    source:
      connection: api
      path: "/{{id}}"
      params: {since: {watermark: t, bound: low}, limit: 5}
      watermark: [{name: t, type: datetime, range: {from: P3D}}, {name: id, type: unit, units: "a,b"}]
      work_unit: {partition: monthly, partial_partition: all}
    sink: {table_uri: lake}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("partition: monthly", "partition: {daily: [P3D, '-']}"),
        ("partial_partition: all", "partial_partition: true"),
        ("partial_partition: all", "partial_partition: 5"),
        ("bound: low", "bound: lo"),
        ("limit: 5", "limit: [5]"),
        ('units: "a,b"', "units: [a, b]"),
        ('units: "a,b"', "units: {a: b}"),
        ("work_unit: {partition: monthly, partial_partition: all}", "ms.work.unit.partition: monthly"),
        ("work_unit: {partition: monthly, partial_partition: all}", "ms.work.unit.min.units: {}"),
        ("work_unit:", "work_unitt:"),
        ("watermark: [", "ms.watermark: ["),
        ("      watermark: [", "      type: download\n      format: csv\n      watermark: ["),
        ("      watermark: [", "      type: download\n      watermark: ["),
    ],
)
def test_work_units_are_said_alike(tmp_path: Path, old: str, new: str) -> None:
    text = UNITS.replace(old, new, 1)
    assert accepts(text) == loads(text, tmp_path)


def test_the_example_of_an_api_fits() -> None:
    assert accepts((Path(__file__).parents[3] / "examples" / "api.yml").read_text(encoding="utf-8"))
