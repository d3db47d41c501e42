"""What keys of a pipeline mean together, and transforms."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.errors import check_names
from tidegate.specs.project import ProjectSpec, TransformSpec

Load = Callable[..., ProjectSpec]
Problems = Callable[..., tuple[str, ...]]
COLUMNS = {"id": "int64", "ts": "timestamp", "day": "date", "c": "string", "f": "float64"}
FIELDS = "[" + ", ".join(f"{{name: {name}, type: {kind}}}" for name, kind in COLUMNS.items()) + "]"


def one(schema: str = "{infer: true}", sink: str = "", extra: str = "") -> str:
    return f"source: {{path: in, use_watermark: true}}\nschema: {schema}\nsink:\n  path: lake\n{sink}{extra}"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (f"{{infer: true, fields: {FIELDS}}}", "schema.infer … 'fields'"),
        ("{infer: false}", "infer"),
        ("{infer: no, fields: []}", "infer"),
        (
            "{fields: [{name: a, type: string}, {name: A, type: string}]}",
            "fields[1].name … 'A' … 'a'",
        ),
        ("{fields: [{name: 'a b', type: string}]}", "fields[0].name … 'a b' … ' '"),
        ("{fields: [{name: s, type: struct}]}", "fields[0] … 'fields'"),
        ("{fields: [{name: s, type: struct, fields: []}]}", "fields[0] … struct"),
        (
            "{fields: [{name: s, type: map, values: string}]}",
            "'keys' … values",
        ),
        ("{fields: [{name: s, type: map, keys: int64, values: string}]}", "JSON … strings"),
        (
            "{fields: [{name: s, type: map, keys: {type: date}, values: string}]}",
            "JSON … strings",
        ),
        ("{fields: [{name: s, type: string, items: string}]}", "fields[0].items … 'items'"),
        ("{fields: [{name: s, type: list, items: list}]}", "fields[0].items … items"),
        (
            "{fields: [{name: s, type: list, items: {type: struct, fields: [{name: x, type: y}]}}]}",
            "fields[0].items.fields[0].type … 'y'",
        ),
        ("{fields: [{name: s, type: list, items: strin}]}", "fields[0].items … 'strin'"),
        ("{fields: [{name: s, type: list, items: string, nulable: true}]}", "'nullable'"),
        ("{fields: [{name: s, type: 'decimal(39,0)'}]}", "1 … 38 … 0"),
        ("{fields: [{name: s, type: 'decimal(5,6)'}]}", "1 … 38 … 0"),
        ("{fields: [{type: string}]}", "fields[0].name … missing"),
        ("{fields: [id]}", "fields[0] … mapping"),
        ("{fields: id}", "schema.fields … list"),
    ],
)
def test_a_schema_that_cannot_be_is_one_problem(problems: Problems, schema: str, words: str) -> None:
    (line,) = problems(one(schema))
    check_names(line, words)


def by(template: str, column: str = "") -> str:
    given = f", column: {column}" if column else ""
    return f'  partition_by: {{prefix_template: "{template}"{given}}}\n'


@pytest.mark.parametrize(
    ("template", "column", "words"),
    [
        ("date=%Y-%m-%d", "when", "'when' … declared"),
        ("date=%Y-%m-%d", "id", "'id' … int64 … timestamp"),
        ("h=%Y-%m-%d-%H", "day", "'day' … hours"),
        ("day=%Y", "ts", "'day' … declared"),
        ("c", "", "'c' … declared"),
        ("date=%Y-%M", "ts", "%M … template"),
        ("a=%Y/a=%m", "ts", "occurs"),
        ("%Y", "ts", "'key=…' … directory"),
        ("=%Y", "ts", "'key=…' … directory"),
        ("a=b", "ts", "'a=b' … field"),
        ("a=%Y//b=%m", "ts", "separated"),
        ("/", "ts", "separated"),
        ("date=%Y-%m-%d", "tss", "'ts'"),
        ("C", "c", "'C' … declared"),
        ("kind", "f", "'f' … float64"),
    ],
)
def test_a_partitioning_that_cannot_be_is_one_problem(
    problems: Problems, template: str, column: str, words: str
) -> None:
    (line,) = problems(one(f"{{fields: {FIELDS}}}", by(template, column)))
    assert line.startswith("pipelines.yml:5: sink.partition_by.")
    check_names(line, words)


@pytest.mark.parametrize(
    ("template", "column"),
    [
        ("date=%Y-%m-%d/hour=%H", "ts"),
        ("date=%F", "day"),
        ("c", "c"),
        ("id/c", "c"),
        ("letter", "c"),
        ("region", ""),
        ("date=%Y-%m-%d", ""),
        ("minute=%M/", ""),
    ],
)
def test_partitionings_that_can_be(loaded: Load, template: str, column: str) -> None:
    sink = loaded(one(f"{{fields: {FIELDS}}}", by(template, column))).pipelines[0].sink
    assert sink.partition_by is not None
    assert sink.partition_by.prefix_template == template.strip("/")


def test_partition_keys_must_leave_a_column_for_the_files(problems: Problems, loaded: Load) -> None:
    """Unless another column comes from elsewhere."""
    fields = "[{name: id, type: int64}, {name: k, type: string}]"
    (line,) = problems(one(f"{{fields: {fields}}}", by("k/id", "k")))
    assert line.startswith("pipelines.yml:5: sink.partition_by.prefix_template")
    check_names(line, "k, id")
    metadata = "  metadata_columns: [_ingested_at]\n"
    assert loaded(one(f"{{fields: {fields}}}", metadata + by("k/id", "k"))).pipelines
    assert loaded(one(f"{{fields: {fields}, rescued: rest}}", by("k/id", "k"))).pipelines


def test_metadata_columns_must_not_hide_partition_columns(problems: Problems) -> None:
    metadata = "  metadata_columns: [_source_file, _ingested_at]\n"
    (line,) = problems(one(f"{{fields: {FIELDS}}}", metadata + by("_source_file")))
    check_names(line, "'_source_file' … partition")


def pipelines(*each: tuple[str, str, str, str]) -> str:
    made = (
        f"  {name}: {{sources: {{{source}: {{path: {path}, use_watermark: true}}}}, sink: {{path: {table}}}}}\n"
        for name, source, path, table in each
    )
    return "pipelines:\n" + "".join(made)


def test_mirrors_of_one_table_that_would_share_a_name_are_refused(problems: Problems, loaded: Load) -> None:
    (line,) = problems(pipelines(("a_b", "c", "in/1", "lake"), ("a", "b_c", "in/2", "./lake/")))
    assert line.startswith("pipelines.yml:3: pipelines.a.sources.b_c: a/b_c and a_b/c write one table")
    check_names(line, "'a_b_c_checkpoint.json' … rename")
    assert loaded(pipelines(("a_b", "c", "in/1", "lake"), ("a", "b_c", "in/2", "lake2")))


def test_reading_the_same_files_twice_into_one_table_is_refused(problems: Problems, loaded: Load) -> None:
    (line,) = problems(pipelines(("a", "x", "in", "lake"), ("b", "x", "./in/", "lake")))
    check_names(line, "b/x … a/x")
    assert loaded(pipelines(("a", "x", "in", "lake"), ("b", "x", "in", "other")))
    patterns = "source%s: {path: in, use_watermark: true, pattern: '*.%s'}"
    both = f"sources:\n  {patterns % (1, 'a')}\n  {patterns % (2, 'b')}\nsink: {{path: l}}\n"
    assert len(loaded(both).pipelines[0].sources) == 2


@pytest.mark.parametrize("source", ["lake", "lake/", "lake/in", "./x/../lake/in"])
def test_a_source_inside_its_own_table_is_refused(problems: Problems, source: str) -> None:
    (line,) = problems(pipelines(("a", "x", source, "lake")))
    assert "source_uri" in line or "path" in line
    check_names(line, "directory")


def test_a_source_beside_its_table_is_fine(loaded: Load) -> None:
    assert loaded(pipelines(("a", "x", "lake-in", "lake")))


def test_pipelines_of_one_table_partition_it_alike(problems: Problems) -> None:
    text = pipelines(("a", "x", "in/1", "lake"), ("b", "x", "in/2", "lake"))
    text = text.replace("sink: {path: lake}", 'sink: {path: lake, partition_by: {prefix_template: "d=%Y"}}', 1)
    (line,) = problems(text)
    check_names(line, "pipelines.b.sink … 'a'")


def test_who_overwrites_the_schema_is_the_only_source_of_its_table(problems: Problems, loaded: Load) -> None:
    overwrite = ("lake}}", "lake}, schema_evolution: overwrite}")
    assert loaded(pipelines(("a", "x", "in/1", "lake")).replace(*overwrite))
    (line,) = problems(pipelines(("a", "x", "in/1", "lake"), ("b", "x", "in/2", "lake")).replace(*overwrite, 1))
    check_names(line, "pipelines.a.schema_evolution … single")
    check_names(line, "a/x … b/x")


def test_dead_letters_need_a_place_of_their_own(problems: Problems) -> None:
    (line,) = problems(one(extra="error_handling: {dlq_path: ./lake}\n"))
    check_names(line, "error_handling.dlq_path … itself")


def test_checks_and_wrong_values_are_reported_together(problems: Problems) -> None:
    text = one(f"{{infer: true, fields: {FIELDS}}}", by("date=%Y", "nothing") + "  file_size_mb: x\n")
    assert len(problems(text)) == 3


TEXT = """
pipelines:
  p:
    source: {{source_uri: in, use_watermark: true}}
    sink: {{table_uri: out}}
    transform: {0}
"""


def test_a_query_may_have_many_lines_and_comments(loaded: Callable[[str], ProjectSpec]) -> None:
    query = "\n      sql: |\n        -- what we keep\n        select id\n        from source"
    (pipeline,) = loaded(TEXT.format(query)).pipelines
    assert pipeline.transform == TransformSpec(sql="-- what we keep\nselect id\nfrom source")


def test_sql_and_python_reach_the_pipeline(loaded: Callable[[str], ProjectSpec]) -> None:
    (by_sql,) = loaded(TEXT.format("{sql: 'with a as (select 1) select * from source'}")).pipelines
    (by_function,) = loaded(TEXT.format("{python: 'shop.cleaning:clean'}")).pipelines
    (plain,) = loaded(TEXT.format("{}")).pipelines
    assert by_sql.transform == TransformSpec(sql="with a as (select 1) select * from source")
    assert by_function.transform == TransformSpec(python="shop.cleaning:clean")
    assert plain.transform is None


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("{sql: select 1, python: 'a:b'}", "given together with 'sql'; remove one of the two"),
        ("{sql: drop table source}", "is not a query; write select … from source"),
        ("{python: clean}", "is not module:function"),
        ("{python: 'clean.py:run me'}", "is not module:function"),
        ("{sq: select 1}", "did you mean 'sql'?"),
    ],
)
def test_what_is_wrong_is_said(problems: Callable[[str], tuple[str, ...]], given: str, named: str) -> None:
    (found,) = problems(TEXT.format(given))
    assert named in found
    assert "pipelines.p.transform" in found


def test_a_long_query_is_shown_short() -> None:
    assert str(TransformSpec(sql="select\n  " + "a, " * 100)).endswith("…")
    assert str(TransformSpec(python="a:b")) == "transform.python a:b"
