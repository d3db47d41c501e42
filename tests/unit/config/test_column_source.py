"""Sources that are followed by columns: from a file to specs, and what is wrong with one that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from support.errors import check_names, raises
from support.long_runs import examples
from tidegate.config import load, show
from tidegate.errors import ConfigError
from tidegate.specs.columns import (
    ColumnSource,
    CsvOptions,
    FunctionRead,
    JdbcRead,
    Load,
    LoadType,
    LookBack,
    NullWatermark,
    RowReader,
    TableFormat,
    TableRead,
    WatermarkMode,
)
from tidegate.specs.files import PathSource
from tidegate.specs.locations import Location, Options, Secret
from tidegate.specs.project import ProjectSpec, ProviderKind, StateSpec, TransformSpec

Load_ = Callable[..., ProjectSpec]
Problems = Callable[..., tuple[str, ...]]
EXAMPLES = Path(__file__).parents[3] / "examples"
SHOP = """\
connections:
  shop: {type: jdbc, url: "jdbc:postgresql://db/shop", user: reader, password: s3cret%s}
"""


def table(source: str = "", sink: str = "", extra: str = "") -> str:
    """A pipeline that merges a Delta table; the source begins in line 2, the sink in line 3."""
    return (
        f"pipelines: {{p: {{\n  source: {{type: delta, path: in, watermark_columns: [at]{source}}},\n"
        f"  sink: {{path: lake, load_type: merge_upsert, merge_keys: [id]{sink}}}}}}}\n{extra}"
    )


def database(source: str = "table: t", *, connection: str = "") -> str:
    return (
        SHOP % connection
        + f"pipelines:\n  p:\n    source: {{connection: shop, watermark_columns: [at], {source}}}\n"
        + "    sink: {path: lake, load_type: merge_upsert, merge_keys: [id]}\n"
    )


def only(project: ProjectSpec) -> ColumnSource:
    """The only source of the only pipeline."""
    (pipeline,) = project.pipelines
    (source,) = pipeline.sources
    return source


def test_the_example_of_a_database_loads_word_for_word() -> None:
    project = load(EXAMPLES / "database.yml", env={"SHOP_PASSWORD": "hunter2", "SHOP_PORT": "5433"})
    orders, lines = project.pipelines
    shop = JdbcRead(
        "jdbc:postgresql://127.0.0.1:5433/shop",
        "shop",
        user="reader",
        password=Secret("hunter2"),
        table="public.orders",
    )
    assert orders.sources == (
        ColumnSource("default", shop, ("created_at", "modified_at"), look_back=LookBack(closing_day=10)),
    )
    assert orders.sink.load == Load(LoadType.MERGE_UPSERT, merge_keys=("order_id",))
    query = "select * from order_lines where deleted = false"
    assert lines.sources == (
        ColumnSource("default", replace(shop, table=None, query=query), ("line_id",), look_back=LookBack()),
    )
    assert lines.sources[0].look_back.is_off
    assert lines.sink.load == Load()
    assert orders.sink.table == Location(f"file://{EXAMPLES}/lake/orders")
    assert project.notices == ()


def test_the_example_of_a_window_loads_word_for_word() -> None:
    project = load(EXAMPLES / "window.yml", env={})
    (pipeline,) = project.pipelines
    read = TableRead(TableFormat.DELTA, Location(f"file://{EXAMPLES}/lake/orders"))
    assert pipeline.sources == (
        ColumnSource(
            "default",
            read,
            ("order_day",),
            filter_expression="status <> 'draft'",
            look_back=LookBack(days=7),
        ),
    )
    assert pipeline.sink.load == Load(
        LoadType.MERGE_OVERWRITE, merge_keys=("order_day", "shop"), replace_by_watermark=True
    )
    assert pipeline.transform == TransformSpec(
        "select order_day, shop, sum(amount) as amount from source group by order_day, shop"
    )
    assert project.state == StateSpec(ProviderKind.SQL, Secret(f"sqlite:///{EXAMPLES}/state.db"))
    assert project.notices == ()


@pytest.mark.parametrize("name", ["database.yml", "window.yml"])
def test_what_show_prints_of_an_example_loads_to_the_same(name: str) -> None:
    project = load(EXAMPLES / name, env={"SHOP_PASSWORD": "***"})
    again = load(show(project), env={"SHOP_PASSWORD": "***"})
    assert (again.pipelines, again.state, again.notices) == (project.pipelines, project.state, ())


def test_a_source_without_type_and_connection_is_one_of_files(loaded: Load_) -> None:
    (pipeline,) = loaded("source: {path: in}\nsink: {path: lake}\n").pipelines
    assert [type(each) for each in pipeline.sources] == [PathSource]
    same = loaded("source: {type: files, path: in}\nsink: {path: lake}\n")
    assert same.pipelines == (pipeline,)


def test_a_table_with_everything(loaded: Load_, tmp_path: Path) -> None:
    source = """, watermark_mode: tuple, filter_expression: "a > 1", safety_lag: PT5M, null_watermark: include,
      source_timezone: Europe/Berlin, poll_interval_secs: 5, backward: {days: 3, months: 1}, timezone: Asia/Tokyo,
      storage_options: {AWS_REGION: here}"""
    assert only(loaded(table(source).replace("[at]", "[at, id]"))) == ColumnSource(
        "default",
        TableRead(TableFormat.DELTA, Location(f"file://{tmp_path}/in", Options({"AWS_REGION": "here"}))),
        ("at", "id"),
        mode=WatermarkMode.TUPLE,
        filter_expression="a > 1",
        look_back=LookBack(days=3, months=1, timezone="Asia/Tokyo"),
        safety_lag=timedelta(minutes=5),
        null_watermark=NullWatermark.INCLUDE,
        source_timezone="Europe/Berlin",
        poll_interval_secs=5,
    )


@pytest.mark.parametrize("kind", list(TableFormat))
def test_every_kind_of_table(loaded: Load_, kind: TableFormat) -> None:
    read = only(loaded(table().replace("type: delta", f"type: {kind}"))).read
    assert isinstance(read, TableRead)
    assert read.format is kind


def test_keys_of_single_formats(loaded: Load_) -> None:
    csv = only(loaded(table(", csv: {delimiter: ';', header: false}, pattern: '*.txt'").replace("delta", "csv"))).read
    assert isinstance(csv, TableRead)
    assert (csv.csv, csv.pattern) == (CsvOptions(delimiter=";", header=False), "*.txt")
    excel = only(loaded(table(", sheet: March").replace("delta", "excel"))).read
    json = only(loaded(table(", lines: false").replace("delta", "json"))).read
    assert isinstance(excel, TableRead)
    assert isinstance(json, TableRead)
    assert (excel.sheet, json.lines) == ("March", False)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("delta", "csv: {header: false}"),
        ("parquet", "csv: {header: false}"),
        ("csv", "sheet: x"),
        ("csv", "lines: false"),
        ("delta", "pattern: '*.x'"),
        ("iceberg", "pattern: '*.x'"),
    ],
)
def test_a_key_of_another_format_is_refused(problems: Problems, kind: str, key: str) -> None:
    (line,) = problems(table(f", {key}").replace("type: delta", f"type: {kind}"))
    assert line.startswith(f"pipelines.yml:2: pipelines.p.source.{key.split(':')[0]}: ")
    check_names(line, f"type {kind}")


def test_a_database_with_everything(loaded: Load_, tmp_path: Path) -> None:
    more = ", driver: org.Driver, packages: 'a.b:c:1.0', jars: [x.jar], properties: {ssl: 'true'}"
    keys = "query: 'select 1', partition_column: id, parallelism: 7, fetch_size: 5, reader: adbc"
    text = database(keys, connection=more)
    assert only(loaded(text)).read == JdbcRead(
        url="jdbc:postgresql://db/shop",
        connection="shop",
        user="reader",
        password=Secret("s3cret"),
        query="select 1",
        driver="org.Driver",
        packages=("a.b:c:1.0",),
        jars=(f"file://{tmp_path}/x.jar",),
        partition_column="id",
        parallelism=7,
        reader=RowReader.ADBC,
        fetch_size=5,
        properties=Options({"ssl": "true"}),
    )


def test_a_function(loaded: Load_) -> None:
    text = table().replace("type: delta, path: in", "type: python, function: 'a.b:c', options: {n: 5}")
    assert only(loaded(text)).read == FunctionRead("a.b:c", Options({"n": "5"}))


def test_a_database_file_is_relative_to_the_configuration(loaded: Load_, tmp_path: Path) -> None:
    def url(written: str) -> str:
        read = only(loaded(database().replace("jdbc:postgresql://db/shop", written))).read
        assert isinstance(read, JdbcRead)
        return read.url

    assert url("jdbc:sqlite:data/shop.db") == f"jdbc:sqlite:{tmp_path}/data/shop.db"
    assert url("jdbc:sqlite:/data/shop.db") == "jdbc:sqlite:/data/shop.db"
    assert url("jdbc:h2:mem:x") == "jdbc:h2:mem:x"


def test_several_problems_of_several_places_come_at_once(problems: Problems) -> None:
    text = """\
connections:
  shop: {type: jdbc, url: "postgresql://db/shop", pasword: x}
pipelines:
  a:
    source: {connection: shp, table: t}
    sink: {path: lake/a, load_type: merge_upsert, merge_keys: [id]}
  b:
    source: {connection: shop, tabel: t, watermark_columns: [at], safety_lag: 5 minutes}
    sink: {path: lake/b, load_type: merge_upsert}
state: {provider: sqll}
"""
    assert problems(text) == (
        "pipelines.yml:2: connections.shop.pasword: unknown key; did you mean 'password'?",
        "pipelines.yml:2: connections.shop.url: 'postgresql://db/shop' is not a JDBC address; "
        "write it like jdbc:postgresql://host:5432/database",
        "pipelines.yml:5: pipelines.a.source.connection: there is no connection 'shp'; did you mean 'shop'?",
        "pipelines.yml:8: pipelines.b.source: needs 'table' or 'query'",
        "pipelines.yml:8: pipelines.b.source.safety_lag: '5 minutes' is not a duration; "
        "allowed: 'PT5M', 'PT90S', 'PT2H', 'P1D', 'none'; above zero",
        "pipelines.yml:8: pipelines.b.source.tabel: unknown key; did you mean 'table'?",
        "pipelines.yml:9: pipelines.b.sink.merge_keys: is missing; merge_upsert needs the columns that identify a row",
        "pipelines.yml:10: state.provider: 'sqll' is not one of delta, file, sql; did you mean 'sql'?",
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("type: delta", "type: dleta", "source.type … 'dleta'"),
        ("type: delta", "type: dleta", "'delta'"),
        ("type: delta", "type: delta, connection: x", "source.connection … 'x'"),
        ("[at]", "[at, AT]", "source.watermark_columns … twice"),
        ("[at]", "{a: b}", "source.watermark_columns … list"),
        ("[at]", "[at], watermark_mode: all", "source.watermark_mode … 'all'"),
        ("[at]", "[at], null_watermark: skip", "source.null_watermark … 'skip'"),
        (
            "[at]",
            "[at], source_timezone: Europe/Berln",
            "'Europe/Berln' … Europe/Berlin",
        ),
        (
            "[at]",
            "[at], timezone: nowhere",
            "source.timezone … 'nowhere' … UTC … Europe/Berlin",
        ),
        ("[at]", "[at], safety_lag: PT0S", "source.safety_lag … 'PT0S'"),
        ("[at]", "[at], backward: {dais: 7}", "source.backward.dais … 'days'"),
        ("[at]", "[at], backward: {days: -7}", "source.backward.days … '-7' … 0"),
        ("[at]", "[at], backward: {closing_day: 32}", "source.backward.closing_day … '32' … 31"),
        (
            "[at]",
            "[at], backward: {closing_day: 0}",
            "source.backward.closing_day … '0' … 1",
        ),
        ("[at]", "[at], backward: {value: -1}", "source.backward.value … '-1' … 0"),
        ("[at]", "[at], backward: 7", "source.backward … mapping"),
        ("[at]", "[at], configure: {backward_dayz: 7}", "source.configure.backward_dayz … unknown"),
        ("[at]", "[at], use_watermark: true", "use_watermark … watermark_columns"),
        (
            "[at]",
            "[at], use_watermark: false",
            "source.use_watermark … files … type: files",
        ),
        (
            "[at]",
            "[at], records: x",
            "source.records … http",
        ),
        (
            "[at]",
            "[at], late_window: 5",
            "source.late_window … belongs",
        ),
        ("[at]", "[at], watermark_operator: '='", "source.watermark_operator … '='"),
        ("[at]", "[at], watermark_operator: a", "source.watermark_operator … 'a'"),
        ("[at]", "[at], watermark_filter: a", "source.watermark_filter … 'a'"),
        ("[at]", "[at], watermark_window: 'a:b'", "source.watermark_window … window"),
        (
            "[at]",
            "[at], work_unit: {}",
            "source.work_unit … watermark_columns",
        ),
        ("path: in, ", "", "source.source_uri … missing"),
        ("path: in", "path: lake/in", "source.path … directory"),
        ("type: delta, path: in", "type: python", "source.function … missing"),
        ("type: delta, path: in", "type: python, function: f", "source.function … 'f'"),
        ("type: delta, path: in", "type: jdbc, table: t", "source.connection … missing"),
    ],
)
def test_a_wrong_value_of_a_source_is_one_problem_in_its_line(
    problems: Problems, old: str, new: str, words: str
) -> None:
    (line,) = problems(table().replace(old, new, 1))
    assert line.startswith("pipelines.yml:2: pipelines.p.")
    check_names(line, words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("type: jdbc, ", "", "connections.shop.type: is missing; allowed: jdbc, http"),
        ("type: jdbc", "type: jbdc", "connections.shop.type: 'jbdc' is not one of jdbc, http; did you mean 'jdbc'?"),
        ('url: "jdbc:postgresql://db/shop", ', "", "connections.shop.url: is missing; the JDBC address"),
        ("//db/", "//me:hunter2@db/", "connections.shop.url: '"),
        (
            "db/shop",
            "db/shop?user=me&password=hunter2",
            "contains credentials; put them into user, password and properties",
        ),
        ("db/shop", "db/shop?sslPassword=hunter2", "contains credentials"),
        ("postgresql://db/shop", "oracle:thin:scott/hunter2@//h/s", "contains credentials"),
        ("postgresql://db/shop", "sqlserver://db;user=sa;encrypt=true", "contains credentials"),
        (
            "s3cret",
            "s3cret, packages: [org.postgresql]",
            "connections.shop.packages: the value contains something that is not a Maven",
        ),
        ("s3cret", "s3cret, properties: [a]", "connections.shop.properties: the value must be a mapping of names to"),
        (
            "s3cret",
            "s3cret, headers: {a: b}",
            "connections.shop.headers: unknown key here; it belongs to 'connections.<http",
        ),
        ("s3cret", "''", "connections.shop.password: the value is empty"),
        ("s3cret", "[a]", "connections.shop.password: the value must be a single value"),
        (
            "s3cret",
            "s3cret, configure: {backward: {day: 7}}",
            "configure.backward.day: unknown key; did you mean 'days'?",
        ),
        ("s3cret", "s3cret, configure: {timezone: x}", "connections.shop.configure.timezone: 'x' is not a time zone"),
        (
            "s3cret",
            "s3cret, configure: {watermark_to_param: x}",
            "connections.shop.configure.watermark_to_param: unknown",
        ),
        ("  shop:", "  'sh op':", "connections.sh op: 'sh op' is not a name"),
        ("  shop: {", "  shop: x #{", "connections.shop: must be a mapping"),
    ],
)
def test_a_wrong_value_of_a_connection_is_told_in_its_line(problems: Problems, old: str, new: str, words: str) -> None:
    found = problems(database().replace(old, new, 1))
    assert found[0].startswith("pipelines.yml:2: connections.sh")
    assert words in found[0]
    assert "hunter2" not in "".join(found)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("table: t, query: select 1", "source.query … 'table'"),
        ("parallelism: 3", "source … 'table' … 'query'"),
        ("query: delete from t", "source.query … 'delete from t'"),
        (
            "table: t, path: /x",
            "source.path … <download source> … <http source>",
        ),
        ("table: t, reader: odbc", "source.reader … 'odbc' … 'jdbc'"),
        ("table: t, parallelism: 0", "source.parallelism … '0' … 1"),
        ("type: http, path: /x", "source.type … 'http' … 'shop' … jdbc … type: jdbc"),
        (
            "type: delta, path: x",
            "source.connection … 'delta' … type: jdbc",
        ),
        (
            "table: t, configure: {watermark_to_param: x}",
            "source.configure.watermark_to_param … http",
        ),
        ("table: t, watermark_to_param: x", "source.watermark_to_param … belongs"),
    ],
)
def test_a_wrong_source_of_a_database_is_one_problem(problems: Problems, source: str, words: str) -> None:
    (line,) = problems(database(source))
    assert line.startswith("pipelines.yml:5: pipelines.p.source")
    check_names(line, words)


def test_without_connections_the_problem_says_where_they_belong(problems: Problems) -> None:
    text = database().partition("pipelines:")[2]
    (line,) = problems(f"pipelines:{text}")
    check_names(line, "'shop' … 'connections:'")


def test_a_pipeline_has_sources_of_one_kind(problems: Problems) -> None:
    text = table().replace("source: {", "sources: {a: {path: files}, b: {").replace("},\n  sink", "}},\n  sink")
    (line,) = problems(text)
    check_names(line, "sources.a … 'b'")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", LookBack()),
        ("backward: {days: 7}", LookBack(days=7)),
        ("backward_days: 7", LookBack(days=7)),
        ("configure: {backward_days: 7}", LookBack(days=7)),
        ("configure: {backward: {days: 7, hours: 2}}", LookBack(days=7, hours=2)),
        ("configure: {backward_days: 3, backward_months: 1, backward: {days: 7}}", LookBack(days=7, months=1)),
        ("backward_years: 1, backward_hours: 2", LookBack(years=1, hours=2)),
        ("backward_closing_day: 10", LookBack(closing_day=10)),
        (
            "backward: {closing_day: 10, months: 2}, timezone: Asia/Tokyo",
            LookBack(closing_day=10, months=2, timezone="Asia/Tokyo"),
        ),
        ("configure: {backward_days: 1, timezone: Asia/Tokyo}", LookBack(days=1, timezone="Asia/Tokyo")),
        ("backward: {value: 1000}", LookBack(value=1000)),
        ("backward: {value: 0.25}", LookBack(value=Decimal("0.25"))),
        ("backward_value: 12", LookBack(value=12)),
        ("backward: {days: 0, hours: 0}", LookBack()),
        ("backward: {}", LookBack()),
    ],
)
def test_look_back_in_all_its_forms(loaded: Load_, given: str, found: LookBack) -> None:
    project = loaded(table(f", {given}" if given else ""))
    assert only(project).look_back == found
    assert only(load(show(project), env={})).look_back == found


@pytest.mark.parametrize(
    ("connection", "source", "found"),
    [
        ("{backward_days: 7}", "", LookBack(days=7)),
        ("{backward_days: 7}", "configure: {backward: {closing_day: 10}}", LookBack(closing_day=10)),
        ("{backward: {days: 7, months: 1}}", "backward: {days: 1}", LookBack(days=1)),
        ("{backward: {days: 7}}", "backward: {value: 0}", LookBack()),
        ("{backward: {days: 7}}", "backward_days: 0", LookBack()),
        ("{backward: {days: 7}, timezone: Asia/Tokyo}", "", LookBack(days=7, timezone="Asia/Tokyo")),
        ("{backward: {days: 7}, timezone: Asia/Tokyo}", "timezone: UTC", LookBack(days=7)),
    ],
)
def test_look_back_of_the_source_replaces_that_of_the_connection(
    loaded: Load_, connection: str, source: str, found: LookBack
) -> None:
    text = database(f"table: t, {source}" if source else "table: t", connection=f", configure: {connection}")
    project = loaded(text)
    assert only(project).look_back == found
    assert only(load(show(project), env={})).look_back == found


def test_a_key_in_configure_and_beside_it_is_refused(problems: Problems) -> None:
    (line,) = problems(table(", backward_days: 1, configure: {backward_days: 2}"))
    check_names(line, "source.configure.backward_days")


def test_short_forms_that_lose_are_told(loaded: Load_) -> None:
    source = "table: t, configure: {backward_days: 1, backward: {days: 2}}"
    text = database(source, connection=", configure: {backward_hours: 1, backward: {hours: 2}}")
    assert loaded(text).notices == (
        "connections.shop.configure.backward_hours has no effect beside backward.hours",
        "pipelines.p.source.configure.backward_days has no effect beside backward.days",
    )


@pytest.mark.parametrize(
    "given", ["watermark_mode: tuple", "safety_lag: PT5M", "null_watermark: error", "backward: {days: 1}"]
)
def test_keys_that_mean_nothing_without_watermark_columns_are_told(loaded: Load_, given: str) -> None:
    text = table(f", {given}")
    assert loaded(text).notices == ()
    without = text.replace(", watermark_columns: [at]", "")
    assert loaded(without).notices == (
        f"pipelines.p.source.{given.split(':')[0]} has no effect without watermark_columns",
    )


@pytest.mark.parametrize(
    ("kind", "mode", "is_refused"),
    [
        ("int64", "any", True),
        ("'decimal(10,2)'", "any", True),
        ("string", "tuple", True),
        ("timestamp", "any", False),
        ("date", "tuple", False),
    ],
)
def test_a_safety_lag_on_a_declared_type_that_is_no_time_is_refused(
    problems: Problems, loaded: Load_, kind: str, mode: str, is_refused: bool
) -> None:
    schema = f"schema: {{fields: [{{name: id, type: int64}}, {{name: at, type: {kind}}}]}},\n  sink:"
    text = table(f", safety_lag: PT5M, watermark_mode: {mode}").replace("sink:", schema)
    if not is_refused:
        assert loaded(text)
        return
    (line,) = problems(text)
    assert line.startswith("pipelines.yml:2: pipelines.p.source.safety_lag: has no effect on 'at', which is of type")
    check_names(line, "backward: {value")
    assert loaded(text.replace("PT5M", "none"))


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        ("int64", "days: 7", "'at' … int64"),
        ("int32", "closing_day: 7", "closing_day … 'at' … int32"),
        ("'decimal(10,2)'", "months: 7", "'at' … decimal … 10,2"),
        (
            "timestamp",
            "value: 7",
            "'at' … timestamp",
        ),
        ("date", "value: 7", "'at' … date"),
        (
            "string",
            "days: 7",
            "'at' … string",
        ),
    ],
)
def test_a_look_back_that_does_not_fit_a_declared_type_is_refused(
    problems: Problems, loaded: Load_, kind: str, given: str, words: str
) -> None:
    schema = f"schema: {{fields: [{{name: id, type: int64}}, {{name: at, type: {kind}}}]}},\n  sink:"
    text = table(f", backward: {{{given}}}").replace("sink:", schema)
    (line,) = problems(text)
    assert line.startswith(f"pipelines.yml:2: pipelines.p.source.backward.{given.split(':')[0]}: ")
    check_names(line, words)
    assert loaded(text.replace(given, "days: 0"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "}}}\n",
            "},\n  delivery: staged}}\n",
            "p.delivery … delivery: direct",
        ),
        ("}}}\n", "},\n  schema: {rescued: true}}}\n", "p.schema.rescued … file"),
        ("[id]", "[id], metadata_columns: [_source_file]", "sink.metadata_columns … '_source_file'"),
        (
            "[id]",
            "[id], partition_by: {prefix_template: 'd=%Y'}",
            "prefix_template … paths",
        ),
    ],
)
def test_parts_of_a_pipeline_that_belong_to_files_are_refused(
    problems: Problems, old: str, new: str, words: str
) -> None:
    (line,) = problems(table().replace(old, new))
    check_names(line, words)


def test_an_error_in_a_file_that_cannot_be_is_a_configuration_error() -> None:
    with raises(ConfigError, "pipelines.p.sources.a", "pipelines.p.sources.b", "connections"):
        load("pipelines: {p: {sources: {a: [], b: 7}, sink: {path: x}}}\nconnections: []\n", env={})


KEYS = ["days", "hours", "months", "years", "closing_day", "value"]
PLACE = st.fixed_dictionaries(
    {},
    optional={
        "backward": st.dictionaries(st.sampled_from(KEYS), st.integers(0, 2), max_size=2),
        **{f"backward_{key}": st.integers(0, 2) for key in KEYS},
    },
)


@settings(max_examples=examples(100), deadline=None)
@given(PLACE, PLACE, PLACE)
def test_append_is_refused_exactly_where_the_specs_look_back(
    own: dict[str, Any], configure: dict[str, Any], above: dict[str, Any]
) -> None:
    places = (own, own.get("backward", {}), configure, configure.get("backward", {}), above, above.get("backward", {}))
    for place in places:
        for key in ("closing_day", "backward_closing_day"):
            if place.get(key) == 0:
                del place[key]
    configure = {key: value for key, value in configure.items() if key not in own}
    source = {"connection": "db", "table": "t", "watermark_columns": ["at"], "configure": configure, **own}
    sink: dict[str, Any] = {"table_uri": "lake", "load_type": "merge_upsert", "merge_keys": ["id"]}
    connection = {"type": "jdbc", "url": "jdbc:x:y", "configure": above}
    data = {"connections": {"db": connection}, "pipelines": {"p": {"source": source, "sink": sink}}}
    found = only(load(yaml.safe_dump(data), env={})).look_back
    sink.update(load_type="append", merge_keys=[])
    if found.is_off:
        assert only(load(yaml.safe_dump(data), env={})).look_back == found
    else:
        with raises(ConfigError, "look-back", "load_type: merge_upsert"):
            load(yaml.safe_dump(data), env={})


def test_adbc_for_another_database_than_postgresql_is_refused(problems: Problems) -> None:
    text = database("table: t, reader: adbc")
    found = [problems(text.replace("jdbc:postgresql:", f"jdbc:{each}:", 1)) for each in ("mariadb", "redshift")]
    for (line,) in found:
        check_names(line, "source.reader … PostgreSQL")
        assert line.endswith("; set reader: jdbc")
