"""Wrong sources of work units are one readable problem each; what has no effect is a notice."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.errors import check_names
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
            "source.watermark[1] … datetime",
        ),
        ({"watermark": f"[{TIME}, {UNITS}, {UNITS}]"}, "source.watermark[2] … unit"),
        (
            {"watermark": "[{name: t, type: datetime, range: {from: '2020-02-01', to: '2020-01-01'}}, " + UNITS + "]"},
            "watermark[0].range.to … 'from'",
        ),
        (
            {"watermark": "[{name: t, type: datetime, range: {from: '2020-02-01', to: '2020-02-01'}}, " + UNITS + "]"},
            "watermark[0].range.to … 'from'",
        ),
        (
            {"watermark": "[{name: t, type: datetime, range: {from: P1D, to: P7D}}, " + UNITS + "]"},
            "watermark[0].range.to … 'from'",
        ),
        (
            {"watermark_columns": "[at]"},
            "source.watermark … watermark_columns",
        ),
        (
            INPUT | {"watermark": GOOD["watermark"]},
            "watermark[1].units … 'secondary_input'",
        ),
        (
            {"watermark": f"[{TIME}, {{name: id, type: unit}}]"},
            "watermark[1].units … 'secondary_input'",
        ),
        (
            {"watermark": f"[{{name: t, type: datetime}}, {UNITS}]"},
            "watermark[0].range … datetime",
        ),
        (
            {"watermark": f"[{TIME}, {{name: id, type: unit, units: a, range: {{from: P1D}}}}]"},
            "watermark[1].range … unit",
        ),
        (
            {"watermark": f"[{TIME.replace('to:', 'too:')}, {UNITS}]"},
            "watermark[0].range.too … 'to'",
        ),
        (
            {"watermark": "[{name: t, type: datetime, range: {from: P1D}, units: [a]}, " + UNITS + "]"},
            "watermark[0].units … datetime",
        ),
        (
            {"watermark": f"[{TIME}, {{name: id, type: units, units: a}}]"},
            "'units' … datetime",
        ),
        (
            {"watermark": f"[{TIME}, {{name: t, type: unit, units: a}}]", "path": "/s"},
            "source.watermark … 't'",
        ),
        ({"watermark": f"[{TIME}, {{name: id, type: unit, units: 'a,b, a'}}]"}, "'a' … twice"),
        ({"watermark": f"[{TIME}, {{name: id, type: unit, units: 'a,,b'}}]"}, "empty"),
        ({"watermark": f"[{TIME}, {{name: id, type: unit, units: []}}]"}, "empty"),
        (
            {"watermark": f"[{TIME}, {{name: 'i d', type: unit, units: a}}]", "path": "/s"},
            "variable",
        ),
        ({"watermark": "'[{\"name\": ]'"}, "source.watermark … JSON … 11"),
        ({"ms.watermark": "[]"}, "source.ms.watermark … 'ms.watermark' … 'watermark'"),
        ({"ms.watermarks": "[]"}, "source.ms.watermarks … 'ms.watermark'"),
        (
            {"work_unit": "{partition: month}"},
            "work_unit.partition … 'month'",
        ),
        ({"work_unit": "{partition: {month: [a, b]}}"}, "work_unit.partition"),
        (
            {"work_unit": "{partition: {monthly: [P1D]}}"},
            "lacks",
        ),
        ({"work_unit": "{partition: [{partition: daily, form: P1D, to: P1D}]}"}, "'form' … unknown"),
        ({"work_unit": "{partition: []}"}, "work_unit.partition … parts"),
        ({"work_unit": "{partial_partition: some}"}, "'some' … true"),
        ({"work_unit": "{min_units: -1}"}, "work_unit.min_units … '-1' … 0"),
        ({"work_unit": "{min_records: -1}"}, "work_unit.min_records … '-1' … 0"),
        ({"work_unit": "{pacing_seconds: -1}"}, "work_unit.pacing_seconds … '-1' … 0"),
        ({"work_unit": "{pacing_seconds: 86401}"}, "work_unit.pacing_seconds … '86401'"),
        ({"work_unit": "{parallelism_max: 0}"}, "work_unit.parallelism_max … '0' … 1"),
        (
            {"work_unit": "{parralelism_max: 1}"},
            "work_unit.parralelism_max … 'parallelism_max'",
        ),
        ({"work_unit": "{not_found: ignore}"}, "work_unit.not_found … 'ignore'"),
        ({"grace_period_days": "-3"}, "source.grace_period_days … '-3' … 0"),
        (
            {"grace_period": "3 days"},
            "source.grace_period … '3 days' … P3D … P3DT6H … P3DT6H30M",
        ),
        (
            {"grace_period": "P3D", "grace_period_days": "3"},
            "source.grace_period … 'grace_period_days'",
        ),
        (
            {"abstinent_period": "P3D", "abstinent_period_days": "3"},
            "source.abstinent_period … 'abstinent_period_days'",
        ),
        (
            {"timezone": "Europe/Berln"},
            "source.timezone … 'Europe/Berln' … 'Europe/Berlin'",
        ),
        ({"path": "'/s/{{ids}}'"}, "source.path … {{ids}} … 'id'"),
        ({"path": "'/s/{{id}}/{{zzz}}'"}, "source.path … {{zzz}}"),
        ({"path": "'/s/{{id}'"}, "source.path … {{name}}"),
        ({"path": "'/s/{{}}'"}, "source.path … {{name}}"),
        (
            {"path": "'/s?x={{id}}'"},
            "/surveys/{{surveyId}} … params",
        ),
        ({"headers": "{X: '{{oid}}'}"}, "source.headers.X … {{oid}}"),
        (
            {"method": "POST", "body": "{a: [{b: '{{sinc}}'}]}"},
            "source.body.a[0].b … {{sinc}}",
        ),
        ({"params": f"{{{SINCE}, q: '{{{{x}}}}'}}"}, "source.params.q … {{x}}"),
        (
            {"params": "{since: {watermark: tt}}"},
            "params.since.watermark … 'tt' … 't'",
        ),
        ({"params": "{since: {watermark: id}}"}, "params.since.watermark … 'id'"),
        ({"params": f"{{{SINCE}, until: {{bound: high}}}}"}, "params.until … 'watermark' … 'value'"),
        ({"params": "{since: {watermark: t, value: x}}"}, "params.since … 'watermark' … 'value'"),
        (
            {"params": "{since: {watermark: t, bound: lo}}"},
            "params.since.bound … 'lo'",
        ),
        (
            {"params": "{since: {watermark: t, format: is}}"},
            "params.since.format … 'is' … timestamp",
        ),
        ({"params": f"{{{SINCE}, id: {{watermark: t}}}}"}, "params.id … {{id}}"),
        (
            {"params": f"{{{SINCE}, api_key: hush}}"},
            "params.api_key … secret",
        ),
        ({"replace": "rows"}, "source.replace … 'rows'"),
        ({"segment_column": "_tidegate_unit"}, "source.segment_column … unit_column"),
        (
            {"type": "delta", "connection": None},
            "source.watermark … APIs",
        ),
        (
            {"connection": None},
            "source.watermark … APIs … type is files",
        ),
        ({"backward": "{days: 1}"}, "source.backward … belongs"),
        (INPUT | {"secondary_input": "[{fields: [id]}]"}, "secondary_input[0] … 'path' … 'pipeline'"),
        (
            INPUT | {"secondary_input": "[{path: in, pipeline: q, fields: [id]}]"},
            "secondary_input[0].pipeline … 'path'",
        ),
        (
            INPUT | {"secondary_input": "[{path: in, fields: [a, b], as: id}]", "path": "'/{{a}}'"},
            "[0].as … field",
        ),
        (
            INPUT | {"secondary_input": "[{path: in, fields: [id], auth_fields: [id]}]"},
            "secondary_input[0].auth_fields … 'id' … 'fields'",
        ),
        (
            INPUT | {"secondary_input": "[{path: in, fields: [id]}, {path: too, fields: [nr]}]"},
            "secondary_input[1] … 'fields' … [0]",
        ),
        (
            {"watermark": f"[{TIME.replace('2020-01-01', '1 May')}, {UNITS}]"},
            "watermark[0].range.from … '1 May' … 2020-01-31",
        ),
        (
            {"watermark": f"[{TIME.replace('2020-01-01', '-')}, {UNITS}]"},
            "watermark[0].range.from … '-' … P30D",
        ),
        (
            {"watermark": f"[{TIME.replace(chr(39) + '-', chr(39) + 'P0DT24H')}, {UNITS}]"},
            "watermark[0].range.to … 'P0DT24H'",
        ),
        (
            {"work_unit": "{partition: {daily: [2020-01-01, tomorrow]}}"},
            "partition … 'tomorrow' … 2020-01-31",
        ),
        (
            INPUT | {"secondary_input": "[{path: in, fields: [id], csv: {quote: none}}]"},
            "[0].csv … CSV",
        ),
        (
            INPUT | {"secondary_input": "[{path: in, fields: [id], filters: {s: '('}}]"},
            "'s' … regular",
        ),
        (
            INPUT | {"secondary_input": "[{path: in, fields: [id], format: json5}]"},
            "json",
        ),
        (
            INPUT | {"secondary_input": "[{path: in}]"},
            "secondary_input[0].fields … missing",
        ),
        (DATABASE | {"table": "t"}, "source.query … 'table'"),
        (DATABASE | {"query": None}, "source … 'table' … 'query'"),
        (
            DATABASE | {"params": f"{{{SINCE}, q: x}}"},
            "source.params.q … {watermark:",
        ),
        (DATABASE | {"query": "'select {{id}}, {{untill}}'"}, "source.query … {{untill}}"),
        (DATABASE | {"parallelism": "3"}, "source.parallelism … belongs"),
        (FILES | {"source_uri": None}, "source.source_uri … 'connection'"),
        (FILES | {"connection": "api"}, "source.source_uri … 'connection'"),
        (
            FILES | {"connection": "db", "source_uri": None},
            "source.connection … 'db' … jdbc",
        ),
        (
            FILES | {"connection": "api", "source_uri": None},
            "source.path … missing",
        ),
        (
            FILES | {"method": "GET"},
            "source.method … 'connection'",
        ),
        (FILES | {"format": None}, "source.format … missing"),
        (
            FILES | {"format": "jsonl"},
            "source.format … 'jsonl'",
        ),
        (
            FILES | {"csv": "{header: false}"},
            "source.csv … format: csv",
        ),
        (
            FILES | {"source_uri": "'s3:///{{id}}/{{since}}'"},
            "source.source_uri … 's3:///{{id}}/{{since}}'",
        ),
        (FILES | {"source_uri": "'in/{{id}}/{{day}}'"}, "source.source_uri … {{day}}"),
        (
            FILES | {"source_uri": None, "connection": "api", "path": "'{{id}}'", "storage_options": "{a: b}"},
            "source.storage_options … http",
        ),
        (
            FILES | {"source_uri": None, "connection": "api", "path": "'{{id}}'", "max_response_mb": "5"},
            "source.max_response_mb … pages",
        ),
    ],
)
def test_a_wrong_source_is_one_problem(problems: Problems, source: dict[str, str | None], expected: str) -> None:
    (line,) = problems(file(source))
    check_names(line, expected)
    number = int(line.split(":")[1])
    assert 4 <= number <= 4 + len(GOOD | source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"work_unit": "{partition: daily}"},
            "work_unit.partition … time",
        ),
        ({"time_column": "at"}, "source.time_column … compared"),
        (
            {"replace": "segments"},
            "source.replace … segments",
        ),
        ({"params": "{since: {watermark: t}}"}, "'t' … datetime"),
    ],
)
def test_what_is_wrong_without_a_time_range(problems: Problems, source: dict[str, str | None], expected: str) -> None:
    (line,) = problems(file({"watermark": f"[{UNITS}]", "params": None} | source))
    check_names(line, expected)


@pytest.mark.parametrize(
    ("sink", "pipeline", "expected"),
    [
        *(
            (
                f", load_type: {kind}",
                "",
                f"sink.load_type … '{kind}' … work units",
            )
            for kind in ("overwrite", "full_load", "merge_overwrite", "scd2")
        ),
        (
            ", load_type: merge_upsert",
            "",
            "sink.merge_keys … merge_upsert",
        ),
        (", merge_keys: [k]", "", "sink.merge_keys … load_type … append … merge_upsert"),
        (", deduplicate: [k]", "", "sink.deduplicate … units"),
        (", window_columns: {a: b}", "", "sink.window_columns … units"),
        (", format: parquet", "", "sink.format … 'parquet'"),
        ("", "delivery: staged", "p.delivery"),
        (
            "",
            "schema_evolution: overwrite",
            "schema_evolution … units",
        ),
        (
            "",
            "schema: {rescued: true}",
            "schema.rescued … file",
        ),
        (
            "",
            "schema: {fields: [{name: _tidegate_unit, type: string}]}",
            "source.unit_column … '_tidegate_unit'",
        ),
    ],
)
def test_what_a_pipeline_of_work_units_cannot_have(problems: Problems, sink: str, pipeline: str, expected: str) -> None:
    (line,) = problems(file({}, sink, pipeline))
    check_names(line, expected)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("att", "source.time_column … 'att' … 'at'"),
        ("n", "source.time_column … 'n' … int64 … timestamp"),
    ],
)
def test_a_time_column_is_a_declared_one(problems: Problems, loaded: Load, column: str, expected: str) -> None:
    declared = "schema: {fields: [{name: at, type: timestamp}, {name: n, type: int64}]}"
    (line,) = problems(file({"time_column": column}, pipeline=declared))
    check_names(line, expected)
    assert loaded(file({"time_column": "at"}, pipeline=declared)).notices == ()


@pytest.mark.parametrize("key", ["replace: unit", "unit_column: u", "segment_column: s"])
def test_merging_needs_no_columns_that_tell_work_units_apart(problems: Problems, key: str) -> None:
    name, _, value = key.partition(": ")
    (line,) = problems(file({name: value}, ", load_type: merge_upsert, merge_keys: [k]"))
    check_names(line, f"source.{name}", "load_type merge_upsert")


@pytest.mark.parametrize("other", ["{path: in}", "{connection: db, table: t, watermark_columns: [a]}"])
def test_a_pipeline_has_sources_of_one_kind(problems: Problems, other: str) -> None:
    units = "{connection: api, path: '/{{id}}', watermark: [" + UNITS + "]}"
    text = (
        f"{CONNECTIONS}pipelines:\n  p:\n    sources:\n      a: {units}\n      b: {other}\n    sink: {{path: lake}}\n"
    )
    (line,) = problems(text)
    check_names(line, "sources.b … 'a'")


def reading(name: str, given: str) -> str:
    source = f"{{connection: api, path: '/{{{{id}}}}', secondary_input: [{{{given}, fields: [id]}}]}}"
    return f"  {name}:\n    source: {source}\n    sink: {{table_uri: lake/{name}}}\n"


def test_a_pipeline_that_is_not_there_is_named_with_the_nearest(problems: Problems) -> None:
    (line,) = problems(f"{CONNECTIONS}pipelines:\n{reading('ids', 'path: in')}{reading('q', 'pipeline: idz')}")
    check_names(line, "q.source.secondary_input[0].pipeline … 'idz' … 'ids'")


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
    check_names(line, f"pipelines.{where}", expected)


def test_the_format_of_a_pipelines_table_is_known(problems: Problems) -> None:
    text = reading("a", "path: in") + reading("b", "pipeline: a, format: json")
    (line,) = problems(f"{CONNECTIONS}pipelines:\n{text}")
    check_names(line, "b.source.secondary_input[0].format … 'a'")


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
        ({"path": "/s"}, "source … {{id}}"),
        (INPUT | {"path": "/s"}, "source … {{id}}"),
        ({"path": "/s", "watermark": f"[{TIME}, {{name: id, type: unit, units: 'a, b'}}]"}, "{{id}}"),
        (
            {"params": None, "abstinent_period_days": "7"},
            "source … time",
        ),
        (
            DATABASE | {"query": "'select {{id}}'", "time_column": "at"},
            "{{since}}",
        ),
        (
            {"watermark": f"[{UNITS}]", "params": None, "catch_up": "true"},
            "catch_up … datetime",
        ),
        (
            {"watermark": f"[{UNITS}]", "params": None, "grace_period_days": "3"},
            "grace_period_days … datetime",
        ),
        ({"work_unit": "{min_records_after: P1D}"}, "work_unit … min_records_after … min_records"),
        (FILES | {"work_unit": "{not_found: empty}"}, "work_unit … not_found … HTTP"),
    ],
)
def test_what_has_no_effect_is_noticed(loaded: Load, source: dict[str, str | None], notice: str) -> None:
    (line,) = loaded(file(source)).notices
    check_names(line, notice)


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
        (NO_TIME, "replace", "moves"),
        (ONE_FILE, "replace", "`replace: unit` … appended"),
        (ONE_FILE | {"abstinent_period_days": "0"}, "replace", "appended"),
        (ONE_FILE | {"abstinent_period": "P0D"}, "replace", "appended"),
        (ONE_FILE | {"replace": "segments"}, "replace", "appended"),
        (ONE_FILE | ABSTAINS | {"grace_period_days": "7"}, "replace", "appended"),
        (NO_TIME | {"path": "/s", "watermark": f"[{TIME}]"}, "replace", "replaces"),
        (ONE_TABLE, "replace", "same"),
        (DATABASE | {"query": "'select {{id}}'"}, "replace", "same"),
        (FILES | {"source_uri": "'in/{{id}}'"}, "replace", "same"),
        (NO_TIME | {"work_unit": "{partition: daily}"}, "work_unit.partition", "`replace: none`"),
        (NO_TIME | {"work_unit": "{partition: daily}", "replace": "unit"}, "work_unit.partition", "remove the"),
        (ONE_FILE | ABSTAINS | {"work_unit": "{partition: daily}"}, "work_unit.partition", "partition"),
        (
            NO_TIME | {"work_unit": "{partition: {monthly: ['2020-01-01', '-']}}", "replace": "unit"},
            "work_unit.partition",
            "partition",
        ),
    ],
)
def test_requests_without_the_time_must_say_what_becomes_of_the_rows(
    problems: Problems, source: dict[str, str | None], key: str, words: str
) -> None:
    (line,) = problems(file(source))
    check_names(line, f"pipelines.p.source.{key}", "time")
    check_names(line, words)


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
    check_names(notice, "unit")


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
