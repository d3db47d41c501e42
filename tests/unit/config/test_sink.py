"""The sink: load strategies and what each needs, properties of the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.errors import check_names
from tidegate import load
from tidegate.specs.columns import Load, LoadType
from tidegate.specs.project import ProjectSpec

Loaded = Callable[..., ProjectSpec]
Problems = Callable[..., tuple[str, ...]]
FIELDS = "[{name: id, type: int64}, {name: at, type: timestamp}]"


def file(sink: str, source: str = "watermark_columns: [at]", more: str = "") -> str:
    """One pipeline: the source in line 3, the sink in line 4."""
    return (
        f"pipelines:\n  p:\n    source: {{type: delta, path: in, {source}}}\n    sink: {{path: lake, {sink}}}\n{more}"
    )


def loads(loaded: Loaded, text: str) -> Load:
    return loaded(text).pipelines[0].sink.load


MERGE = "merge_keys: [id]"
WINDOW = f"load_type: merge_overwrite, {MERGE}, replace_by_watermark: true"
BACK = "watermark_columns: [at], backward: {days: 7}"


@pytest.mark.parametrize(
    ("sink", "source", "found"),
    [
        ("load_type: append", "watermark_columns: [at]", Load()),
        ("load_type: append", "watermark_columns: [at], backward: {days: 0}", Load()),
        ("load_type: append, deduplicate: [id]", BACK, Load(deduplicate=("id",))),
        ("load_type: overwrite", "poll_interval_secs: 5", Load(LoadType.OVERWRITE)),
        ("load_type: full_load", "watermark_columns: [at]", Load(LoadType.FULL_LOAD)),
        (f"load_type: merge_upsert, {MERGE}", BACK, Load(LoadType.MERGE_UPSERT, ("id",))),
        (f"load_type: merge_upsert, {MERGE}", "poll_interval_secs: 5", Load(LoadType.MERGE_UPSERT, ("id",))),
        (
            "load_type: merge_upsert, merge_keys: [a, b], tie_break: rank",
            BACK,
            Load(LoadType.MERGE_UPSERT, ("a", "b"), ("rank",)),
        ),
        (
            f"load_type: merge_upsert, {MERGE}, skip_unchanged: false",
            BACK,
            Load(LoadType.MERGE_UPSERT, ("id",), skip_unchanged=False),
        ),
        (f"load_type: merge_overwrite, {MERGE}", BACK, Load(LoadType.MERGE_OVERWRITE, ("id",))),
        (WINDOW, BACK, Load(LoadType.MERGE_OVERWRITE, ("id",), replace_by_watermark=True)),
        (
            f"{WINDOW}, max_delete_fraction: 0.1, allow_empty_window: true",
            BACK,
            Load(
                LoadType.MERGE_OVERWRITE,
                ("id",),
                replace_by_watermark=True,
                max_delete_fraction=0.1,
                allow_empty_window=True,
            ),
        ),
        (f"load_type: scd2, {MERGE}", "watermark_columns: [at]", Load(LoadType.SCD2, ("id",))),
        (
            f"load_type: scd2, {MERGE}, scd2_effective_column: since, scd2_attributes: [name]",
            "poll_interval_secs: 5",
            Load(LoadType.SCD2, ("id",), scd2_effective_column="since", scd2_attributes=("name",)),
        ),
        (
            f"load_type: merge_upsert, {MERGE}",
            "watermark_columns: [at], null_watermark: include",
            Load(LoadType.MERGE_UPSERT, ("id",)),
        ),
    ],
)
def test_a_strategy_that_has_what_it_needs_loads(loaded: Loaded, sink: str, source: str, found: Load) -> None:
    assert loads(loaded, file(sink, source)) == found


@pytest.mark.parametrize(
    ("sink", "source", "words"),
    [
        ("load_type: merge", BACK, "sink.load_type … 'merge' … full_load … merge_upsert"),
        ("load_type: merge_upsert", BACK, "sink.merge_keys … merge_upsert"),
        ("load_type: merge_overwrite", BACK, "sink.merge_keys … merge_overwrite"),
        ("load_type: scd2", BACK, "sink.merge_keys … missing"),
        ("load_type: merge_upsert, merge_keys: []", BACK, "sink.merge_keys … merge_upsert"),
        ("load_type: merge_upsert, merge_keys: [id, ID]", BACK, "sink.merge_keys … twice"),
        (
            f"load_type: append, {MERGE}",
            "watermark_columns: [at]",
            "sink.merge_keys … load_type … append",
        ),
        (
            f"load_type: overwrite, {MERGE}",
            "watermark_columns: [at]",
            "merge_keys … load_type … overwrite",
        ),
        (
            f"load_type: scd2, {MERGE}, skip_unchanged: false",
            BACK,
            "sink.skip_unchanged … load_type … scd2",
        ),
        (
            "load_type: overwrite, tie_break: [id]",
            BACK,
            "sink.tie_break … load_type … overwrite",
        ),
        (
            f"load_type: merge_upsert, {MERGE}, deduplicate: [id]",
            BACK,
            "deduplicate … load_type … merge_upsert",
        ),
        (
            f"load_type: merge_upsert, {MERGE}, scd2_attributes: [id]",
            BACK,
            "sink.scd2_attributes … load_type … merge_upsert",
        ),
        (
            f"load_type: merge_upsert, {MERGE}, scd2_effective_column: id",
            BACK,
            "sink.scd2_effective_column … load_type … merge_upsert",
        ),
        (
            f"load_type: merge_upsert, {MERGE}, replace_by_watermark: true",
            BACK,
            "sink.replace_by_watermark … load_type … merge_upsert … merge_overwrite",
        ),
        (
            f"load_type: merge_upsert, {MERGE}, max_delete_fraction: 0.1",
            BACK,
            "sink.max_delete_fraction … merge_overwrite",
        ),
        (
            f"load_type: merge_upsert, {MERGE}, allow_empty_window: true",
            BACK,
            "sink.allow_empty_window",
        ),
        (f"{WINDOW}, max_delete_fraction: 1.5", BACK, "sink.max_delete_fraction … '1.5'"),
        (
            WINDOW,
            "watermark_columns: [at]",
            "source.backward … replace_by_watermark",
        ),
        (WINDOW, "watermark_columns: [at], backward: {days: 0}", "source.backward … replace_by_watermark"),
        (WINDOW, "poll_interval_secs: 5", "source.watermark_columns … replace_by_watermark"),
        (WINDOW, f"{BACK}, watermark_mode: tuple", "source.watermark_mode … tuple"),
        (
            "load_type: append",
            "poll_interval_secs: 5",
            "watermark_columns … everything",
        ),
        (
            "deduplicate: [id]",
            "poll_interval_secs: 5",
            "watermark_columns … everything",
        ),
        (
            "load_type: append",
            BACK,
            "source.backward.days … append … deduplicate",
        ),
        (
            "load_type: append",
            "watermark_columns: [at], backward_days: 1",
            "source.backward_days … append … deduplicate",
        ),
        (
            "load_type: append",
            "watermark_columns: [at], configure: {backward: {value: 0.5}}",
            "source.configure.backward.value … append … deduplicate",
        ),
        (
            "load_type: append",
            "watermark_columns: [at], backward_days: 0, configure: {backward: {months: 1}}",
            "reads",
        ),
        (
            "load_type: append",
            "watermark_columns: [at], null_watermark: include",
            "source.null_watermark … include",
        ),
        (
            f"load_type: scd2, {MERGE}",
            "poll_interval_secs: 5",
            "sink.scd2_effective_column … watermark_columns",
        ),
        (
            f"load_type: merge_upsert, {MERGE}, window_columns: {{ta: x}}",
            BACK,
            "'ta' … watermark",
        ),
        (
            f"load_type: merge_upsert, {MERGE}, window_columns: {{at: x}}",
            BACK,
            "sink.window_columns.at … keep",
        ),
    ],
)
def test_a_strategy_that_lacks_something_is_one_problem(problems: Problems, sink: str, source: str, words: str) -> None:
    (line,) = problems(file(sink, source))
    assert line.startswith("pipelines.yml:3: " if "source." in line else "pipelines.yml:4: ")
    check_names(line, words)


def test_an_append_with_the_look_back_of_its_connection_names_the_connection(problems: Problems) -> None:
    text = """\
connections:
  shop: {type: jdbc, url: "jdbc:postgresql://db/shop", configure: {backward_days: 7}}
pipelines:
  p:
    source: {connection: shop, table: t, watermark_columns: [at]}
    sink: {path: lake}
"""
    (line,) = problems(text)
    check_names(line, "pipelines.yml:5: pipelines.p.source.connection … append … deduplicate")


def test_a_window_after_a_transform_may_have_another_name(loaded: Loaded) -> None:
    text = file(f"{WINDOW}, window_columns: {{at: day}}", BACK, "    transform: {sql: select day from source}\n")
    assert loads(loaded, text).window_columns == {"at": "day"}


def test_look_back_that_has_no_effect_is_told(loaded: Loaded) -> None:
    project = loaded(file("load_type: overwrite", BACK))
    assert project.notices == (
        "pipelines.p.source.backward.days: look-back has no effect where every run reads everything",
    )
    project = loaded(file("load_type: overwrite", "watermark_columns: [at], safety_lag: PT5M"))
    assert project.notices == ("pipelines.p.source.safety_lag has no effect where every run reads everything",)


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        (
            "load_type: overwrite",
            "sink.load_type … p/a … p/b",
        ),
        ("load_type: full_load", "sink.load_type … full_load"),
        (WINDOW, "sink.replace_by_watermark … p/a … p/b"),
    ],
)
def test_who_replaces_rows_of_a_table_is_its_only_source(
    problems: Problems, loaded: Loaded, sink: str, words: str
) -> None:
    text = f"""\
pipelines:
  p:
    sources:
      a: {{type: delta, path: in/a, {BACK}}}
      b: {{type: delta, path: in/b, {BACK}}}
    sink: {{path: lake, {sink}}}
"""
    (line,) = problems(text)
    check_names(line, words)
    assert len(loaded(text.replace(sink, f"load_type: merge_upsert, {MERGE}")).pipelines[0].sources) == 2


def test_pipelines_of_one_table_count_together(problems: Problems) -> None:
    text = f"""\
pipelines:
  p: {{source: {{type: delta, path: in/a}}, sink: {{path: lake, load_type: overwrite}}}}
  q: {{source: {{path: in/b}}, sink: {{path: lake}}}}
  r: {{source: {{type: delta, path: in/c, {BACK}}}, sink: {{path: lake, {WINDOW}}}}}
"""
    found = problems(text)
    assert [line.split(": ")[1] for line in found] == [
        "pipelines.p.sink.load_type",
        "pipelines.r.sink.replace_by_watermark",
    ]


@pytest.mark.parametrize("key", ["merge_keys", "tie_break", "scd2_attributes"])
def test_columns_of_a_strategy_are_declared_ones(problems: Problems, loaded: Loaded, key: str) -> None:
    schema = f"    schema: {{fields: {FIELDS}}}\n"
    keys = {"merge_keys": "[id]", "tie_break": "[id]", "scd2_attributes": "[id]"}
    good = "load_type: scd2, " + ", ".join(f"{name}: {value}" for name, value in keys.items())
    assert loads(loaded, file(good, more=schema)).type is LoadType.SCD2
    bad = good.replace(f"{key}: [id]", f"{key}: [idd]")
    (line,) = problems(file(bad, more=schema))
    check_names(line, f"sink.{key}", "'idd'", "'id'")
    assert loads(loaded, file(bad, more=f"{schema}    transform: {{python: 'a:b'}}\n")).type is LoadType.SCD2


def test_columns_that_versions_have_are_not_declared(problems: Problems) -> None:
    schema = "    schema: {fields: [{name: id, type: int64}, {name: __valid_to, type: timestamp}]}\n"
    (line,) = problems(file(f"load_type: scd2, {MERGE}", more=schema))
    check_names(line, "schema.fields … '__valid_to'")


STATE = "state: {provider: file, url: state}\n"


@pytest.mark.parametrize(
    "text",
    [
        file("format: parquet, load_type: overwrite", more=STATE),
        "source: {path: in}\nsink: {path: lake, format: parquet}\n",
    ],
    ids=["columns", "files"],
)
def test_a_folder_of_parquet_files_is_no_destination(problems: Problems, text: str) -> None:
    (line,) = problems(text)
    check_names(line, "sink.format … 'parquet'")


def test_it_is_refused_beside_the_other_problems(problems: Problems) -> None:
    found = problems(file(f"format: parquet, load_type: append, {MERGE}", more=STATE))
    assert [line.split(": ")[1].rpartition(".")[2] for line in found] == ["format", "merge_keys"]


@pytest.mark.parametrize(
    "sink",
    [
        "allow_empty_window: true",
        f"load_type: merge_overwrite, {MERGE}, allow_empty_window: true, max_delete_fraction: 1",
    ],
)
def test_the_guards_of_a_replay_can_be_set_without_replace_by_watermark(tmp_path: Path, sink: str) -> None:
    path = tmp_path / "pipelines.yml"
    path.write_text(file(sink, "watermark_columns: [at]"), encoding="utf-8")
    assert load(path).pipelines[0].sink.load.allow_empty_window


FILE = """\
source: {path: in, use_watermark: true}
sink:
  path: lake
  table_properties:
    delta.appendOnly: maybe
    delta.checkpointInterval: 20
    delta.columnMapping.mode: name
    owner: me
"""


def test_every_property_that_cannot_be_set_is_named(problems: Problems) -> None:
    assert problems(FILE) == (
        "pipelines.yml:5: sink.table_properties.delta.appendOnly: cannot be set here; 'maybe' is not "
        "one of its values; allowed: 'true' or 'false'",
        "pipelines.yml:7: sink.table_properties.delta.columnMapping.mode: cannot be set here; appends do not honour it",
        "pipelines.yml:8: sink.table_properties.owner: cannot be set here; it is not a "
        "Delta property; use names that begin with 'delta.'",
    )


def test_a_property_whose_variable_is_missing_is_not_refused_for_its_value(problems: Problems) -> None:
    (missing,) = problems(FILE.replace("maybe", "${APPEND_ONLY}").partition("    delta.columnMapping")[0])
    assert "APPEND_ONLY" in missing
