"""What keys of a pipeline mean together, and transforms."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
        (f"{{infer: true, fields: {FIELDS}}}", "schema.infer: given together with 'fields'"),
        ("{infer: false}", "declare fields, or set infer: true"),
        ("{infer: no, fields: []}", "declare fields, or set infer: true"),
        (
            "{fields: [{name: a, type: string}, {name: A, type: string}]}",
            "fields[1].name: 'A' is declared also as 'a'",
        ),
        ("{fields: [{name: 'a b', type: string}]}", "fields[0].name: 'a b' contains ' '"),
        ("{fields: [{name: s, type: struct}]}", "fields[0]: a struct needs fields; 'fields' is missing"),
        ("{fields: [{name: s, type: struct, fields: []}]}", "fields[0]: a struct needs fields"),
        (
            "{fields: [{name: s, type: map, values: string}]}",
            "a map needs keys and values; 'keys' is missing",
        ),
        ("{fields: [{name: s, type: map, keys: int64, values: string}]}", "keys of a JSON map are strings"),
        (
            "{fields: [{name: s, type: map, keys: {type: date}, values: string}]}",
            "keys of a JSON map are strings",
        ),
        ("{fields: [{name: s, type: string, items: string}]}", "fields[0].items: a string has no 'items'"),
        ("{fields: [{name: s, type: list, items: list}]}", "fields[0].items: a list needs items"),
        (
            "{fields: [{name: s, type: list, items: {type: struct, fields: [{name: x, type: y}]}}]}",
            "fields[0].items.fields[0].type: 'y' is not a type",
        ),
        ("{fields: [{name: s, type: list, items: strin}]}", "fields[0].items: 'strin' is not a type"),
        ("{fields: [{name: s, type: list, items: string, nulable: true}]}", "did you mean 'nullable'?"),
        ("{fields: [{name: s, type: 'decimal(39,0)'}]}", "p from 1 to 38 and s from 0 to p"),
        ("{fields: [{name: s, type: 'decimal(5,6)'}]}", "p from 1 to 38 and s from 0 to p"),
        ("{fields: [{type: string}]}", "fields[0].name: is missing"),
        ("{fields: [id]}", "fields[0]: must be a mapping"),
        ("{fields: id}", "schema.fields: must be a list"),
    ],
)
def test_a_schema_that_cannot_be_is_one_problem(problems: Problems, schema: str, words: str) -> None:
    (line,) = problems(one(schema))
    assert words in line


def by(template: str, column: str = "") -> str:
    given = f", column: {column}" if column else ""
    return f'  partition_by: {{prefix_template: "{template}"{given}}}\n'


@pytest.mark.parametrize(
    ("template", "column", "words"),
    [
        ("date=%Y-%m-%d", "when", "'when' is not a declared column; allowed: id, ts, day, c, f"),
        ("date=%Y-%m-%d", "id", "'id' is of type int64; allowed: a timestamp or date column"),
        ("h=%Y-%m-%d-%H", "day", "'day' is a date and has no hours"),
        ("day=%Y", "ts", "'day' is also a declared column"),
        ("c", "", "'c' is also a declared column"),
        ("date=%Y-%M", "ts", "the template has %M (minutes)"),
        ("a=%Y/a=%m", "ts", "a key occurs twice"),
        ("%Y", "ts", "each directory must be 'key=…' or only a key"),
        ("=%Y", "ts", "each directory must be 'key=…' or only a key"),
        ("a=b", "ts", "'a=b' has no field of time"),
        ("a=%Y//b=%m", "ts", "separated by single slashes"),
        ("/", "ts", "separated by single slashes"),
        ("date=%Y-%m-%d", "tss", "did you mean 'ts'?"),
        ("C", "c", "'C' is also a declared column"),
        ("kind", "f", "'f' is of type float64, which cannot name a directory"),
    ],
)
def test_a_partitioning_that_cannot_be_is_one_problem(
    problems: Problems, template: str, column: str, words: str
) -> None:
    (line,) = problems(one(f"{{fields: {FIELDS}}}", by(template, column)))
    assert line.startswith("pipelines.yml:5: sink.partition_by.")
    assert words in line


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
    assert "k, id" in line
    metadata = "  metadata_columns: [_ingested_at]\n"
    assert loaded(one(f"{{fields: {fields}}}", metadata + by("k/id", "k"))).pipelines
    assert loaded(one(f"{{fields: {fields}, rescued: rest}}", by("k/id", "k"))).pipelines


def test_metadata_columns_must_not_hide_partition_columns(problems: Problems) -> None:
    metadata = "  metadata_columns: [_source_file, _ingested_at]\n"
    (line,) = problems(one(f"{{fields: {FIELDS}}}", metadata + by("_source_file")))
    assert "'_source_file' is also a partition column" in line


def pipelines(*each: tuple[str, str, str, str]) -> str:
    made = (
        f"  {name}: {{sources: {{{source}: {{path: {path}, use_watermark: true}}}}, sink: {{path: {table}}}}}\n"
        for name, source, path, table in each
    )
    return "pipelines:\n" + "".join(made)


def test_mirrors_of_one_table_that_would_share_a_name_are_refused(problems: Problems, loaded: Load) -> None:
    (line,) = problems(pipelines(("a_b", "c", "in/1", "lake"), ("a", "b_c", "in/2", "./lake/")))
    assert line.startswith("pipelines.yml:3: pipelines.a.sources.b_c: a/b_c and a_b/c write one table")
    assert "'a_b_c_checkpoint.json'; rename one" in line
    assert loaded(pipelines(("a_b", "c", "in/1", "lake"), ("a", "b_c", "in/2", "lake2")))


def test_reading_the_same_files_twice_into_one_table_is_refused(problems: Problems, loaded: Load) -> None:
    (line,) = problems(pipelines(("a", "x", "in", "lake"), ("b", "x", "./in/", "lake")))
    assert "b/x and a/x read the same files into one table, which doubles rows; remove one" in line
    assert loaded(pipelines(("a", "x", "in", "lake"), ("b", "x", "in", "other")))
    patterns = "source%s: {path: in, use_watermark: true, pattern: '*.%s'}"
    both = f"sources:\n  {patterns % (1, 'a')}\n  {patterns % (2, 'b')}\nsink: {{path: l}}\n"
    assert len(loaded(both).pipelines[0].sources) == 2


@pytest.mark.parametrize("source", ["lake", "lake/", "lake/in", "./x/../lake/in"])
def test_a_source_inside_its_own_table_is_refused(problems: Problems, source: str) -> None:
    (line,) = problems(pipelines(("a", "x", source, "lake")))
    assert "source_uri" in line or "path" in line
    assert "lies in the directory of the pipeline's own table" in line


def test_a_source_beside_its_table_is_fine(loaded: Load) -> None:
    assert loaded(pipelines(("a", "x", "lake-in", "lake")))


def test_pipelines_of_one_table_partition_it_alike(problems: Problems) -> None:
    text = pipelines(("a", "x", "in/1", "lake"), ("b", "x", "in/2", "lake"))
    text = text.replace("sink: {path: lake}", 'sink: {path: lake, partition_by: {prefix_template: "d=%Y"}}', 1)
    (line,) = problems(text)
    assert "pipelines.b.sink: pipeline 'a' writes this table with other partition columns" in line


def test_who_overwrites_the_schema_is_the_only_source_of_its_table(problems: Problems, loaded: Load) -> None:
    overwrite = ("lake}}", "lake}, schema_evolution: overwrite}")
    assert loaded(pipelines(("a", "x", "in/1", "lake")).replace(*overwrite))
    (line,) = problems(pipelines(("a", "x", "in/1", "lake"), ("b", "x", "in/2", "lake")).replace(*overwrite, 1))
    assert "pipelines.a.schema_evolution: overwrite needs a table with a single source" in line
    assert "a/x, b/x" in line


def test_dead_letters_need_a_place_of_their_own(problems: Problems) -> None:
    (line,) = problems(one(extra="error_handling: {dlq_path: ./lake}\n"))
    assert "error_handling.dlq_path: is the table itself" in line


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
