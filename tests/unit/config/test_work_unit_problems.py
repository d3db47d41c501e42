"""Wrong sources of work units are one readable problem each; what has no effect is a notice."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tidegate.config import load, show
from tidegate.specs.project import ProjectSpec

Load = Callable[..., ProjectSpec]
Problems = Callable[..., tuple[str, ...]]
CONNECTIONS = """\
connections: {api: {type: http, url: "http://h"}, db: {type: jdbc, url: "jdbc:postgresql://h/d"}}
"""
TIME = "{name: t, type: datetime, range: {from: '2020-01-01', to: '-'}}"
UNITS = "{name: id, type: unit, units: [a, b]}"
SINCE = "since: {watermark: t}"
GOOD = {
    "connection": "api",
    "path": "'/s/{{id}}'",
    "params": f"{{{SINCE}}}",
    "watermark": f"[{TIME}, {UNITS}]",
}
INPUT = {"watermark": f"[{TIME}, {{name: id, type: unit}}]", "secondary_input": "[{path: in, fields: [id]}]"}
DATABASE = {"connection": "db", "path": None, "query": "'select {{id}}, {{since}}'"}
FILES = {"connection": None, "path": None, "type": "download", "format": "json", "source_uri": "'in/{{id}}/{{since}}'"}


def file(source: Mapping[str, str | None], sink: str = "", pipeline: str = "", more: str = "") -> str:
    """A pipeline whose source is ``GOOD`` with other keys; None takes one away. The source begins in line 4."""
    given = {key: value for key, value in {**GOOD, **source}.items() if value is not None}
    lines = "".join(f"      {key}: {value}\n" for key, value in given.items())
    rest = f"    {pipeline}\n" if pipeline else ""
    return f"{CONNECTIONS}pipelines:\n  p:\n    source:\n{lines}    sink: {{table_uri: lake/p{sink}}}\n{rest}{more}"


def test_the_source_that_is_changed_below_is_good(loaded: Load) -> None:
    for source in ({}, INPUT, DATABASE, FILES):
        assert loaded(file(source)).notices == ()


def test_a_parameter_with_a_secret_variable_in_it_is_no_secret_in_the_file(loaded: Load) -> None:
    given = "[{path: in, fields: [id], auth_fields: [token]}]"
    params = f"{{{SINCE}, api_key: '{{{{token}}}}', access_token: 'Key {{{{ token }}}}'}}"
    assert loaded(file(INPUT | {"secondary_input": given, "params": params})).notices == ()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"watermark": f"[{TIME}, {TIME}, {UNITS}]"},
            "source.watermark[1]: is a second watermark of type datetime;",
        ),
        ({"watermark": f"[{TIME}, {UNITS}, {UNITS}]"}, "source.watermark[2]: is a second watermark of type unit;"),
        (
            {"watermark": "[{name: t, type: datetime, range: {from: '2020-02-01', to: '2020-01-01'}}, " + UNITS + "]"},
            "watermark[0].range.to: does not lie after 'from'",
        ),
        (
            {"watermark": "[{name: t, type: datetime, range: {from: '2020-02-01', to: '2020-02-01'}}, " + UNITS + "]"},
            "watermark[0].range.to: does not lie after 'from'",
        ),
        (
            {"watermark": "[{name: t, type: datetime, range: {from: P1D, to: P7D}}, " + UNITS + "]"},
            "watermark[0].range.to: does not lie after 'from'",
        ),
        (
            {"watermark_columns": "[at]"},
            "source.watermark: two kinds of watermark at once (watermark_columns, watermark); give a source one",
        ),
        (
            INPUT | {"watermark": GOOD["watermark"]},
            "watermark[1].units: given together with 'secondary_input', which also has units",
        ),
        (
            {"watermark": f"[{TIME}, {{name: id, type: unit}}]"},
            "watermark[1].units: is missing, and no 'secondary_input' has units; give one of the two",
        ),
        (
            {"watermark": f"[{{name: t, type: datetime}}, {UNITS}]"},
            "watermark[0].range: is missing; a datetime watermark",
        ),
        (
            {"watermark": f"[{TIME}, {{name: id, type: unit, units: a, range: {{from: P1D}}}}]"},
            "watermark[1].range: has no effect on a unit watermark",
        ),
        (
            {"watermark": f"[{TIME.replace('to:', 'too:')}, {UNITS}]"},
            "watermark[0].range.too: unknown key; did you mean 'to'?",
        ),
        (
            {"watermark": "[{name: t, type: datetime, range: {from: P1D}, units: [a]}, " + UNITS + "]"},
            "watermark[0].units: has no effect on a datetime watermark",
        ),
        (
            {"watermark": f"[{TIME}, {{name: id, type: units, units: a}}]"},
            "'units' is not one of datetime, unit; did you",
        ),
        (
            {"watermark": f"[{TIME}, {{name: t, type: unit, units: a}}]", "path": "/s"},
            "source.watermark: two watermarks are called 't'",
        ),
        ({"watermark": f"[{TIME}, {{name: id, type: unit, units: 'a,b, a'}}]"}, "has 'a' twice; allowed: each once"),
        ({"watermark": f"[{TIME}, {{name: id, type: unit, units: 'a,,b'}}]"}, "contains an empty value"),
        ({"watermark": f"[{TIME}, {{name: id, type: unit, units: []}}]"}, "contains an empty value"),
        (
            {"watermark": f"[{TIME}, {{name: 'i d', type: unit, units: a}}]", "path": "/s"},
            "is not the name of a variable",
        ),
        ({"watermark": "'[{\"name\": ]'"}, "source.watermark: is not JSON at character 11; write JSON text, or the"),
        ({"ms.watermark": "[]"}, "source.ms.watermark: 'ms.watermark' means 'watermark', which is also given"),
        ({"ms.watermarks": "[]"}, "source.ms.watermarks: unknown key; did you mean 'ms.watermark'?"),
        (
            {"work_unit": "{partition: month}"},
            "work_unit.partition: 'month' is not one of none, hourly, daily, weekly,",
        ),
        ({"work_unit": "{partition: {month: [a, b]}}"}, "work_unit.partition: the value has a part that is not one of"),
        (
            {"work_unit": "{partition: {monthly: [P1D]}}"},
            "has a part that lacks a bound: monthly; allowed: monthly: [",
        ),
        ({"work_unit": "{partition: [{partition: daily, form: P1D, to: P1D}]}"}, "has the unknown key 'form'"),
        ({"work_unit": "{partition: []}"}, "work_unit.partition: the value must be a kind, or parts of the range"),
        ({"work_unit": "{partial_partition: some}"}, "'some' is not a yes or no; allowed: true, false, all"),
        ({"work_unit": "{min_units: -1}"}, "work_unit.min_units: '-1' is too small; allowed: 0 or more"),
        ({"work_unit": "{min_records: -1}"}, "work_unit.min_records: '-1' is too small; allowed: 0 or more"),
        ({"work_unit": "{pacing_seconds: -1}"}, "work_unit.pacing_seconds: '-1' is not a number of 0 or more"),
        ({"work_unit": "{pacing_seconds: 86401}"}, "work_unit.pacing_seconds: '86401' is too long"),
        ({"work_unit": "{parallelism_max: 0}"}, "work_unit.parallelism_max: '0' is too small; allowed: 1 or more"),
        (
            {"work_unit": "{parralelism_max: 1}"},
            "work_unit.parralelism_max: unknown key; did you mean 'parallelism_max'?",
        ),
        ({"work_unit": "{not_found: ignore}"}, "work_unit.not_found: 'ignore' is not one of fail, empty, retire"),
        ({"grace_period_days": "-3"}, "source.grace_period_days: '-3' is too small; allowed: 0 or more"),
        (
            {"grace_period": "3 days"},
            "source.grace_period: '3 days' is not a length of time; write P3D, P3DT6H or P3DT6H30M",
        ),
        (
            {"grace_period": "P3D", "grace_period_days": "3"},
            "source.grace_period: given together with 'grace_period_days'",
        ),
        (
            {"abstinent_period": "P3D", "abstinent_period_days": "3"},
            "source.abstinent_period: given together with 'abstinent_period_days'; remove one of the two",
        ),
        (
            {"timezone": "Europe/Berln"},
            "source.timezone: 'Europe/Berln' is not a time zone; did you mean 'Europe/Berlin'?",
        ),
        ({"path": "'/s/{{ids}}'"}, "source.path: nothing defines {{ids}}; did you mean 'id'?"),
        ({"path": "'/s/{{id}}/{{zzz}}'"}, "source.path: nothing defines {{zzz}}; allowed: id, since"),
        ({"path": "'/s/{{id}'"}, "source.path: has braces without a name; write {{name}}"),
        ({"path": "'/s/{{}}'"}, "source.path: has braces without a name; write {{name}}"),
        (
            {"path": "'/s?x={{id}}'"},
            "is not a path; write it like /surveys/{{surveyId}}; put parameters into params",
        ),
        ({"headers": "{X: '{{oid}}'}"}, "source.headers.X: nothing defines {{oid}}"),
        (
            {"method": "POST", "body": "{a: [{b: '{{sinc}}'}]}"},
            "source.body.a[0].b: nothing defines {{sinc}}; did you mean",
        ),
        ({"params": f"{{{SINCE}, q: '{{{{x}}}}'}}"}, "source.params.q: nothing defines {{x}}"),
        (
            {"params": "{since: {watermark: tt}}"},
            "params.since.watermark: 'tt' is no datetime watermark; did you mean 't'?",
        ),
        ({"params": "{since: {watermark: id}}"}, "params.since.watermark: 'id' is no datetime watermark"),
        ({"params": f"{{{SINCE}, until: {{bound: high}}}}"}, "params.until: needs one of 'watermark' and 'value'"),
        ({"params": "{since: {watermark: t, value: x}}"}, "params.since: needs one of 'watermark' and 'value'"),
        (
            {"params": "{since: {watermark: t, bound: lo}}"},
            "params.since.bound: 'lo' is not one of low, high; did you mean",
        ),
        (
            {"params": "{since: {watermark: t, format: is}}"},
            "params.since.format: 'is' is not one of iso, date, timestamp,",
        ),
        ({"params": f"{{{SINCE}, id: {{watermark: t}}}}"}, "params.id: {{id}} is also a variable of the units"),
        (
            {"params": f"{{{SINCE}, api_key: hush}}"},
            "params.api_key: looks like a secret; put it into the connection's auth",
        ),
        ({"replace": "rows"}, "source.replace: 'rows' is not one of segments, unit"),
        ({"segment_column": "_tidegate_unit"}, "source.segment_column: is also the unit_column; use another name"),
        (
            {"type": "delta", "connection": None},
            "source.watermark: works only with APIs, databases, functions and downloads, and the",
        ),
        (
            {"connection": None},
            "source.watermark: works only with APIs, databases, functions and downloads, and the type is files",
        ),
        ({"backward": "{days: 1}"}, "source.backward: unknown key here; it belongs to"),
        (INPUT | {"secondary_input": "[{fields: [id]}]"}, "secondary_input[0]: needs 'path' or 'pipeline'"),
        (
            INPUT | {"secondary_input": "[{path: in, pipeline: q, fields: [id]}]"},
            "secondary_input[0].pipeline: given together with 'path'; remove one of the two",
        ),
        (
            INPUT | {"secondary_input": "[{path: in, fields: [a, b], as: id}]", "path": "'/{{a}}'"},
            "[0].as: names the variable of a single field",
        ),
        (
            INPUT | {"secondary_input": "[{path: in, fields: [id], auth_fields: [id]}]"},
            "secondary_input[0].auth_fields: 'id' is also in 'fields', whose values are shown",
        ),
        (
            INPUT | {"secondary_input": "[{path: in, fields: [id]}, {path: too, fields: [nr]}]"},
            "secondary_input[1]: other 'fields' than input [0], which also makes units; make them equal",
        ),
        (
            {"watermark": f"[{TIME.replace('2020-01-01', '1 May')}, {UNITS}]"},
            "watermark[0].range.from: '1 May' is no time; write 2020-01-31, 2020-01-31T10:00:00Z,",
        ),
        (
            {"watermark": f"[{TIME.replace('2020-01-01', '-')}, {UNITS}]"},
            "watermark[0].range.from: '-' is no beginning of a time range; give a date, or P30D",
        ),
        (
            {"watermark": f"[{TIME.replace(chr(39) + '-', chr(39) + 'P0DT24H')}, {UNITS}]"},
            "watermark[0].range.to: 'P0DT24H' has more hours or minutes than there are",
        ),
        (
            {"work_unit": "{partition: {daily: [2020-01-01, tomorrow]}}"},
            "partition: the value has an impossible bound: 'tomorrow' is no time; write 2020-01-31",
        ),
        (
            INPUT | {"secondary_input": "[{path: in, fields: [id], csv: {quote: none}}]"},
            "[0].csv: works only with CSV files; set",
        ),
        (
            INPUT | {"secondary_input": "[{path: in, fields: [id], filters: {s: '('}}]"},
            "has no regular expression for 's'",
        ),
        (
            INPUT | {"secondary_input": "[{path: in, fields: [id], format: json5}]"},
            "is not one of delta, parquet, json, csv,",
        ),
        (
            INPUT | {"secondary_input": "[{path: in}]"},
            "secondary_input[0].fields: is missing; the fields whose values make a",
        ),
        (DATABASE | {"table": "t"}, "source.query: given together with 'table'; remove one of the two"),
        (DATABASE | {"query": None}, "source: needs 'table' or 'query'"),
        (
            DATABASE | {"params": f"{{{SINCE}, q: x}}"},
            "source.params.q: goes to no server; allowed: {watermark: …, bound:",
        ),
        (DATABASE | {"query": "'select {{id}}, {{untill}}'"}, "source.query: nothing defines {{untill}}"),
        (DATABASE | {"parallelism": "3"}, "source.parallelism: unknown key here; it belongs to"),
        (FILES | {"source_uri": None}, "source.source_uri: is missing; give it, or 'connection'"),
        (FILES | {"connection": "api"}, "source.source_uri: given together with 'connection'; remove one of the two"),
        (
            FILES | {"connection": "db", "source_uri": None},
            "source.connection: 'db' is of type jdbc; downloads need",
        ),
        (
            FILES | {"connection": "api", "source_uri": None},
            "source.path: is missing; the server of the connection has more than",
        ),
        (
            FILES | {"method": "GET"},
            "source.method: works only with requests to a server; give 'connection', or remove it",
        ),
        (FILES | {"format": None}, "source.format: is missing; the format of the files"),
        (
            FILES | {"format": "jsonl"},
            "source.format: 'jsonl' is not one of ndjson, csv, parquet, avro, json, excel; did you mean",
        ),
        (
            FILES | {"csv": "{header: false}"},
            "source.csv: the format of this source is json; set format: csv, or remove it",
        ),
        (
            FILES | {"source_uri": "'s3:///{{id}}/{{since}}'"},
            "source.source_uri: 's3:///{{id}}/{{since}}' names no bucket",
        ),
        (FILES | {"source_uri": "'in/{{id}}/{{day}}'"}, "source.source_uri: nothing defines {{day}}"),
        (
            FILES | {"source_uri": None, "connection": "api", "path": "'{{id}}'", "storage_options": "{a: b}"},
            "source.storage_options: works only with object storage, and the connection is of type http; remove it",
        ),
        (
            FILES | {"source_uri": None, "connection": "api", "path": "'{{id}}'", "max_response_mb": "5"},
            "source.max_response_mb: limits pages of records, and this source downloads files of any size; remove it",
        ),
    ],
)
def test_a_wrong_source_is_one_problem(problems: Problems, source: dict[str, str | None], expected: str) -> None:
    (line,) = problems(file(source))
    assert expected in line
    number = int(line.split(":")[1])
    assert 4 <= number <= 4 + len(GOOD | source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"work_unit": "{partition: daily}"},
            "work_unit.partition: splits a time range, and there is none; give a watermark",
        ),
        ({"time_column": "at"}, "source.time_column: is compared with a time range, and there is none; remove it"),
        (
            {"replace": "segments"},
            "source.replace: segments are parts of a time range, and there is none; allowed: unit, none",
        ),
        ({"params": "{since: {watermark: t}}"}, "'t' is no datetime watermark; give a watermark of type datetime"),
    ],
)
def test_what_is_wrong_without_a_time_range(problems: Problems, source: dict[str, str | None], expected: str) -> None:
    (line,) = problems(file({"watermark": f"[{UNITS}]", "params": None} | source))
    assert expected in line


@pytest.mark.parametrize(
    ("sink", "pipeline", "expected"),
    [
        *(
            (
                f", load_type: {kind}",
                "",
                f"sink.load_type: '{kind}' does not work with work units; allowed: append, merge",
            )
            for kind in ("overwrite", "full_load", "merge_overwrite", "scd2")
        ),
        (
            ", load_type: merge_upsert",
            "",
            "sink.merge_keys: is missing; merge_upsert needs the columns that identify a row",
        ),
        (", merge_keys: [k]", "", "sink.merge_keys: has no effect with load_type append; allowed: with merge_upsert"),
        (", deduplicate: [k]", "", "sink.deduplicate: has no effect with work units; remove it"),
        (", window_columns: {a: b}", "", "sink.window_columns: has no effect with work units; remove it"),
        (", format: parquet", "", "sink.format: 'parquet' is not one of delta"),
        ("", "delivery: staged", "p.delivery: staged works only with file sources; set delivery: direct"),
        (
            "",
            "schema_evolution: overwrite",
            "schema_evolution: overwrite would remove the rows of other work units; allowed: merge",
        ),
        (
            "",
            "schema: {rescued: true}",
            "schema.rescued: works only with file sources; remove it",
        ),
        (
            "",
            "schema: {fields: [{name: _tidegate_unit, type: string}]}",
            "source.unit_column: '_tidegate_unit' is also a declared column; use another name",
        ),
    ],
)
def test_what_a_pipeline_of_work_units_cannot_have(problems: Problems, sink: str, pipeline: str, expected: str) -> None:
    (line,) = problems(file({}, sink, pipeline))
    assert expected in line


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("att", "source.time_column: 'att' is not a declared column; did you mean 'at'?"),
        ("n", "source.time_column: 'n' is of type int64; allowed: a timestamp or date column"),
    ],
)
def test_a_time_column_is_a_declared_one(problems: Problems, loaded: Load, column: str, expected: str) -> None:
    declared = "schema: {fields: [{name: at, type: timestamp}, {name: n, type: int64}]}"
    (line,) = problems(file({"time_column": column}, pipeline=declared))
    assert expected in line
    assert loaded(file({"time_column": "at"}, pipeline=declared)).notices == ()


@pytest.mark.parametrize("key", ["replace: unit", "unit_column: u", "segment_column: s"])
def test_merging_needs_no_columns_that_tell_work_units_apart(problems: Problems, key: str) -> None:
    name, _, value = key.partition(": ")
    (line,) = problems(file({name: value}, ", load_type: merge_upsert, merge_keys: [k]"))
    assert f"source.{name}: has no effect with load_type merge_upsert" in line


@pytest.mark.parametrize("other", ["{path: in}", "{connection: db, table: t, watermark_columns: [a]}"])
def test_a_pipeline_has_sources_of_one_kind(problems: Problems, other: str) -> None:
    units = "{connection: api, path: '/{{id}}', watermark: [" + UNITS + "]}"
    text = (
        f"{CONNECTIONS}pipelines:\n  p:\n    sources:\n      a: {units}\n      b: {other}\n    sink: {{path: lake}}\n"
    )
    (line,) = problems(text)
    assert "sources.b: is not a source of work units, and 'a' is; give each kind a pipeline of its own" in line


def reading(name: str, given: str) -> str:
    source = f"{{connection: api, path: '/{{{{id}}}}', secondary_input: [{{{given}, fields: [id]}}]}}"
    return f"  {name}:\n    source: {source}\n    sink: {{table_uri: lake/{name}}}\n"


def test_a_pipeline_that_is_not_there_is_named_with_the_nearest(problems: Problems) -> None:
    (line,) = problems(f"{CONNECTIONS}pipelines:\n{reading('ids', 'path: in')}{reading('q', 'pipeline: idz')}")
    assert "q.source.secondary_input[0].pipeline: there is no pipeline 'idz'; did you mean 'ids'?" in line


@pytest.mark.parametrize(
    ("text", "where", "expected"),
    [
        (reading("a", "pipeline: a"), "a.source.secondary_input[0].pipeline", "is this pipeline's own table"),
        (reading("a", "path: lake/a"), "a.source.secondary_input[0].path", "is this pipeline's own table"),
        (
            reading("a", "pipeline: b") + reading("b", "path: ./lake/c") + reading("c", "pipeline: a"),
            "a.source.secondary_input[0].pipeline",
            "makes pipelines wait for each other: a → b → c → a",
        ),
    ],
)
def test_pipelines_that_wait_for_each_other(problems: Problems, text: str, where: str, expected: str) -> None:
    (line,) = problems(f"{CONNECTIONS}pipelines:\n{text}")
    assert f"pipelines.{where}: {expected}; use the table of a pipeline that does not depend on this one" in line


def test_the_format_of_a_pipelines_table_is_known(problems: Problems) -> None:
    text = reading("a", "path: in") + reading("b", "pipeline: a, format: json")
    (line,) = problems(f"{CONNECTIONS}pipelines:\n{text}")
    assert "b.source.secondary_input[0].format: the table of 'a' is delta; remove it" in line


def test_variables_of_properties_files_are_named_with_the_new_form(problems: Problems) -> None:
    given = '[{"path": "${job.dir}/${preceding.table.name}", "fields": ["id"]}]'
    found = problems(file(INPUT | {"secondary_input": f"'{given}'"}))
    assert [line.split(": ", 1)[1] for line in found] == [
        "pipelines.p.source.secondary_input: ${job.dir} is a variable of properties files; paths are relative to "
        "the file; write the path of the table",
        "pipelines.p.source.secondary_input: ${preceding.table.name} is a variable of properties files; write "
        "secondary_input: [{pipeline: NAME, fields: [id]}], or the path of the table",
    ]


def test_all_problems_of_a_file_are_told_at_once(problems: Problems) -> None:
    source = {
        "path": "'/s/{{ids}}'",
        "grace_period_days": "-1",
        "work_unit": "{partition: month, min_unit: 3}",
        "time_columm": "at",
    }
    found = problems(file(source, ", load_type: scd2", "delivery: staged"))
    assert [line.split(": ")[1].removeprefix("pipelines.p.") for line in found] == [
        "source.path",
        "source.grace_period_days",
        "source.work_unit.min_unit",
        "source.work_unit.partition",
        "source.time_columm",
        "sink.load_type",
        "delivery",
    ]


@pytest.mark.parametrize(
    ("source", "notice"),
    [
        ({"path": "/s"}, "source: {{id}} is used nowhere, so every unit reads the same"),
        (INPUT | {"path": "/s"}, "source: {{id}} is used nowhere, so every unit reads the same"),
        ({"path": "/s", "watermark": f"[{TIME}, {{name: id, type: unit, units: 'a, b'}}]"}, "{{id}} is used nowhere"),
        (
            {"params": None, "abstinent_period_days": "7"},
            "source: the request does not contain the time, so each unit is read once",
        ),
        (
            DATABASE | {"query": "'select {{id}}'", "time_column": "at"},
            "params.since has no effect where {{since}} is used",
        ),
        (
            {"watermark": f"[{UNITS}]", "params": None, "catch_up": "true"},
            "source.catch_up has no effect without a datetime",
        ),
        (
            {"watermark": f"[{UNITS}]", "params": None, "grace_period_days": "3"},
            "source.grace_period_days has no effect without a datetime watermark",
        ),
        ({"work_unit": "{min_records_after: P1D}"}, "work_unit.min_records_after has no effect without min_records"),
        (FILES | {"work_unit": "{not_found: empty}"}, "work_unit.not_found has no effect without an HTTP server"),
    ],
)
def test_what_has_no_effect_is_noticed(loaded: Load, source: dict[str, str | None], notice: str) -> None:
    (line,) = loaded(file(source)).notices
    assert notice in line


@pytest.mark.parametrize(
    "source",
    [
        {"path": "/s", "watermark": f"[{TIME}, {{name: id, type: unit, units: a}}]"},
        {"params": None, "time_column": "at"},
        {"params": None, "work_unit": "{partition: none}", "replace": "unit"},
        {"params": None, "path": None, "connection": None, "type": "python", "function": "a:b"},
    ],
)
def test_one_unit_a_time_column_and_a_function_need_no_variables(loaded: Load, source: dict[str, str | None]) -> None:
    assert loaded(file(source)).notices == ()


MERGING = ", load_type: merge_upsert, merge_keys: [k]"
NO_TIME = {"params": None}
ABSTAINS = {"abstinent_period_days": "7"}
FIXED = "{name: t, type: datetime, range: {from: '2020-01-01', to: '2020-02-01'}}"
ONE_FILE = FILES | NO_TIME | {"source_uri": "'in/{{id}}'"}
ONE_TABLE = {"connection": "db", "path": None, "table": "t", "params": None, "watermark": f"[{TIME}]"}


@pytest.mark.parametrize(
    ("source", "key", "words"),
    [
        (NO_TIME, "replace", "each day the range moves on, the same rows are read again and appended once more"),
        (ONE_FILE, "replace", "the same file is read again and its rows are appended once more; write `replace: unit`"),
        (ONE_FILE | {"abstinent_period_days": "0"}, "replace", "appended once more"),
        (ONE_FILE | {"abstinent_period": "P0D"}, "replace", "appended once more"),
        (ONE_FILE | {"replace": "segments"}, "replace", "appended once more"),
        (ONE_FILE | ABSTAINS | {"grace_period_days": "7"}, "replace", "appended once more"),
        (NO_TIME | {"path": "/s", "watermark": f"[{TIME}]"}, "replace", "replaces all rows of its source"),
        (ONE_TABLE, "replace", "the same rows are read again"),
        (DATABASE | {"query": "'select {{id}}'"}, "replace", "the same rows are read again"),
        (FILES | {"source_uri": "'in/{{id}}'"}, "replace", "the same file is read again"),
        (NO_TIME | {"work_unit": "{partition: daily}"}, "work_unit.partition", "`replace: none`"),
        (NO_TIME | {"work_unit": "{partition: daily}", "replace": "unit"}, "work_unit.partition", "remove the"),
        (ONE_FILE | ABSTAINS | {"work_unit": "{partition: daily}"}, "work_unit.partition", "for each time partition"),
        (
            NO_TIME | {"work_unit": "{partition: {monthly: ['2020-01-01', '-']}}", "replace": "unit"},
            "work_unit.partition",
            "for each time partition the same rows are read again",
        ),
    ],
)
def test_requests_without_the_time_must_say_what_becomes_of_the_rows(
    problems: Problems, source: dict[str, str | None], key: str, words: str
) -> None:
    (line,) = problems(file(source))
    assert f": pipelines.p.source.{key}: the request does not contain the time: " in line
    assert words in line


@pytest.mark.parametrize(
    ("source", "sink", "replace"),
    [
        (ONE_FILE | {"replace": "unit"}, "", "unit"),
        (ONE_FILE | {"replace": "none"}, "", "none"),
        (ONE_FILE | {"replace": "none", "work_unit": "{partition: daily}", "grace_period_days": "3"}, "", "none"),
        (ONE_FILE | {"time_column": "at"}, "", "time_column"),
        (ONE_FILE | {"time_column": "at", "work_unit": "{partition: daily}"}, "", "time_column"),
        (ONE_TABLE | {"time_column": "at"}, "", "time_column"),
        (ONE_FILE | {"time_column": "at"}, MERGING, "merge_keys"),
        (ONE_FILE | {"watermark": f"[{UNITS}]"}, "", "unit"),
        (ONE_FILE | {"watermark": f"[{UNITS}]", "replace": "none"}, "", "none"),
        ({"body": "{q: '{{since}}'}", "method": "POST"}, "", "segments"),
    ],
)
def test_requests_without_the_time_that_say_it_are_good(
    loaded: Load, source: dict[str, str | None], sink: str, replace: str
) -> None:
    project = loaded(file(source, sink))
    assert project.notices == ()
    assert project.pipelines[0].sources[0].replace == replace  # type: ignore[union-attr]
    assert loaded(show(project)).pipelines[0].sources == project.pipelines[0].sources


@pytest.mark.parametrize(
    "source",
    [
        ONE_FILE | ABSTAINS,
        ONE_FILE | {"abstinent_period": "P7D", "replace": "segments"},
        ONE_FILE | {"watermark": f"[{FIXED}, {UNITS}]"},
        ONE_TABLE | {"watermark": f"[{FIXED}]"},
    ],
)
def test_units_that_are_meant_to_be_read_once_are_good_with_a_notice(
    loaded: Load, source: dict[str, str | None]
) -> None:
    (notice,) = loaded(file(source)).notices
    assert "each unit is read once, and a run that would read one again stops" in notice


def test_a_merge_that_ignores_the_range_is_noticed(loaded: Load) -> None:
    found = loaded(file(NO_TIME, f"{MERGING}, tie_break: [n]")).notices
    assert [line.partition(": ")[2] for line in found] == [
        "the range is used nowhere, so every range reads the same; give 'time_column', or params with 'watermark'"
    ]


def test_a_secret_never_shows_in_a_problem(problems: Problems) -> None:
    found = problems(file({"headers": "{Authorization: 'hunter2 {{oid}}'}"}))
    assert "hunter2" not in "".join(found)


def test_a_parameter_that_is_a_secret_variable_holds_no_secret(loaded: Load) -> None:
    source = {
        "params": f"{{{SINCE}, access_token: '{{{{token}}}}'}}",
        "secondary_input": "[{path: keys, format: json, fields: [token], category: authentication}]",
    }
    (found,) = loaded(file(source)).pipelines[0].sources
    assert found.read.params == {"access_token": "{{token}}"}  # type: ignore[union-attr]


def notices(folder: Path, sink: dict[str, Any], source: dict[str, Any], **more: Any) -> tuple[str, ...]:
    path = folder / "tidegate.yml"
    read = {
        "type": "python",
        "function": "demo:rows",
        "watermark": [{"name": "day", "type": "datetime", "range": {"from": "2020-01-01"}}],
    }
    pipeline = {"source": read | source, "sink": {"table_uri": "lake/p"} | sink}
    path.write_text(json.dumps({"pipelines": {"p": pipeline}} | more))
    return load(path, env={}).notices


MERGE = {"load_type": "merge_upsert", "merge_keys": ["id"]}


@pytest.mark.parametrize(
    ("sink", "source", "told"),
    [
        (MERGE, {}, 1),
        (MERGE, {"time_column": "at"}, 0),
        (MERGE | {"tie_break": ["revision"]}, {}, 0),
        ({}, {}, 0),
    ],
)
def test_equal_keys_without_anything_that_tells_the_newer_row(
    tmp_path: Path, sink: dict[str, Any], source: dict[str, Any], told: int
) -> None:
    found = notices(tmp_path, sink, source)
    assert len(found) == told
    assert all("give 'time_column', or sink.tie_break" in each for each in found)


def test_a_state_provider_of_work_units_needs_no_notice(tmp_path: Path) -> None:
    assert notices(tmp_path, {}, {}, state={"provider": "file", "url": "state"}) == ()
