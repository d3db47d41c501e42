"""Sources of work units: from a file to specs, in every form that a file may have."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tidegate.config import load, show
from tidegate.config.work_units import MS_KEYS
from tidegate.specs.columns import (
    AuthKind,
    ColumnSource,
    CsvOptions,
    FunctionRead,
    HttpAuth,
    HttpRead,
    JdbcRead,
    LoadType,
    Pagination,
    PaginationKind,
    RateLimit,
)
from tidegate.specs.locations import Location, Options, Secret
from tidegate.specs.project import ProjectSpec
from tidegate.specs.units import (
    Bounding,
    FileFormat,
    FileRead,
    InputFormat,
    NotFound,
    PartialPartition,
    PartitionKind,
    RangeParam,
    Replace,
    Rounding,
    SecondaryInput,
    Span,
    SubRange,
    TimeRange,
    TimeWatermark,
    UnitSource,
    UnitWatermark,
    WorkUnits,
)

Load = Callable[..., ProjectSpec]
Problems = Callable[..., tuple[str, ...]]
EXAMPLES = Path(__file__).parents[3] / "examples"
CONNECTIONS = """\
connections:
  api: {type: http, url: "http://h"}
  db: {type: jdbc, url: "jdbc:postgresql://h/d"}
"""
API = """\
      connection: api
      path: "/s/{{id}}"
      params: {since: {watermark: t, bound: low}}
"""
BOTH = """\
      watermark:
        - {name: t, type: datetime, range: {from: "2020-01-01", to: "-"}}
        - {name: id, type: unit, units: "a, b ,c"}
"""


def file(source: str, sink: str = "", more: str = "") -> str:
    """A pipeline with one source, whose keys are lines with six spaces before them."""
    return f"{CONNECTIONS}pipelines:\n  p:\n    source:\n{source}    sink: {{table_uri: lake/p{sink}}}\n{more}"


def only(project: ProjectSpec) -> UnitSource:
    """The source of the pipeline ``p``."""
    pipeline = project.pipeline("p")
    (source,) = pipeline.sources
    return source


def keys(*lines: str) -> str:
    return "".join(f"      {line}\n" for line in lines)


def test_the_example_of_an_api_loads_word_for_word() -> None:
    project = load(EXAMPLES / "api.yml", env={"SURVEYS_PORT": "8080", "SURVEYS_TOKEN": "hunter2"})
    surveys, responses = project.pipelines
    server = HttpRead(
        "http://127.0.0.1:8080",
        "/surveys",
        "surveys",
        records="data",
        auth=HttpAuth(AuthKind.BEARER, Secret("hunter2")),
        pagination=Pagination(PaginationKind.CURSOR, "after", next="paging.next"),
        rate_limit=RateLimit(20, 1.0),
    )
    assert surveys.sources == (ColumnSource("default", server),)
    assert surveys.sink.load.type is LoadType.OVERWRITE
    (source,) = responses.sources
    assert source == UnitSource(
        "default",
        HttpRead(
            "http://127.0.0.1:8080",
            "/surveys/{{surveyId}}/responses",
            "surveys",
            records="data",
            auth=server.auth,
            pagination=Pagination(PaginationKind.PAGE, "page", "limit", 100),
            rate_limit=RateLimit(20, 1.0),
        ),
        time=TimeWatermark("system", TimeRange("2020-01-01", "-")),
        unit=UnitWatermark("surveyId"),
        inputs=(
            SecondaryInput(
                ("id",),
                Location(f"file://{EXAMPLES}/lake/surveys"),
                InputFormat.DELTA,
                "survey_list",
                {"status": "(open|closed)"},
                "surveyId",
            ),
        ),
        work=WorkUnits(PartitionKind.MONTHLY, partial=PartialPartition.MULTI_DAY, parallelism_max=100),
        grace=Span(3),
        params=(RangeParam("since", Bounding.LOW), RangeParam("until", Bounding.HIGH)),
        replace=Replace.SEGMENTS,
    )
    assert responses.sink.table == Location(f"file://{EXAMPLES}/lake/responses")
    assert project.notices == ()
    again = load(show(project), env={"SURVEYS_PORT": "8080", "SURVEYS_TOKEN": "***"})
    assert [pipeline.of(UnitSource) for pipeline in again.pipelines] == [
        (),
        (load(EXAMPLES / "api.yml", env={"SURVEYS_PORT": "8080", "SURVEYS_TOKEN": "***"}).pipelines[1].sources[0],),
    ]


def test_units_are_a_list_or_text_with_commas(loaded: Load) -> None:
    text = file(API + BOTH)
    assert only(loaded(text)).unit == UnitWatermark("id", ("a", "b", "c"))
    assert loaded(text.replace('"a, b ,c"', "[a, b, c]")) == loaded(text)


def test_everything_of_a_source_of_an_api(loaded: Load) -> None:
    source = keys(
        "connection: api",
        'path: "/s/{{id}}"',
        "method: POST",
        'headers: {X: "{{id}}"}',
        'body: {q: ["{{since}}", 5]}',
        "idempotent: true",
        "records: data",
        "params:",
        "  since: {watermark: t, bound: low, format: '%Y', timezone: Asia/Tokyo}",
        "  until: {watermark: t, bound: high, format: timestamp_ms}",
        "  limit: 5",
        "watermark:",
        "  - {name: id, type: unit, units: [a]}",
        "  - {name: t, type: datetime,",
        "     range: {from: P30D, to: P1DT2H, round: hour, to_round: none, allow_future: true}}",
        "work_unit:",
        "  {partition: {monthly: ['2020-01-01', '2021-01-01'], daily: ['2021-01-01', '-']}, partial_partition: all,",
        "   min_units: 1, min_records: 2, min_records_after: P2D, parallelism_max: 3, pacing_seconds: 0.5,",
        "   not_found: retire, breaker_failures: 0, group_units: 4, group_seconds: 5}",
        "grace_period: P3DT6H",
        "abstinent_period_days: 7",
        "catch_up: false",
        "timezone: Europe/Berlin",
        "time_column: at",
        "replace: segments",
        "unit_column: u",
        "segment_column: s",
        "poll_interval_secs: 9",
    )
    project = loaded(file(source))
    assert only(project) == UnitSource(
        "default",
        HttpRead(
            "http://h",
            "/s/{{id}}",
            "api",
            "POST",
            {"limit": "5"},
            Options({"X": "{{id}}"}),
            {"q": ["{{since}}", 5]},
            "data",
            idempotent=True,
        ),
        TimeWatermark("t", TimeRange("P30D", "P1DT2H", Rounding.HOUR, Rounding.NONE, True)),
        UnitWatermark("id", ("a",)),
        work=WorkUnits(
            sub_ranges=(
                SubRange("2020-01-01", "2021-01-01", PartitionKind.MONTHLY),
                SubRange("2021-01-01", "-", PartitionKind.DAILY),
            ),
            partial=PartialPartition.ALWAYS,
            min_units=1,
            min_records=2,
            min_records_after=Span(2),
            parallelism_max=3,
            pacing_seconds=0.5,
            not_found=NotFound.RETIRE,
            breaker_failures=0,
            group_units=4,
            group_seconds=5.0,
        ),
        grace=Span(3, timedelta(hours=6)),
        abstinent=Span(7),
        catch_up=False,
        timezone="Europe/Berlin",
        params=(
            RangeParam("since", Bounding.LOW, "%Y", "Asia/Tokyo"),
            RangeParam("until", Bounding.HIGH, "timestamp_ms"),
        ),
        replace=Replace.SEGMENTS,
        time_column="at",
        unit_column="u",
        segment_column="s",
        poll_interval_secs=9,
    )
    assert project.notices == ()


def test_sub_ranges_may_be_a_list(loaded: Load) -> None:
    block = keys("work_unit: {partition: {monthly: ['2020-01-01', '2021-01-01'], daily: ['2021-01-01', '-']}}")
    listed = keys(
        "work_unit:",
        "  partition:",
        "    - {partition: monthly, from: '2020-01-01', to: '2021-01-01'}",
        "    - {partition: daily, from: '2021-01-01', to: '-'}",
    )
    assert loaded(file(API + BOTH + block)) == loaded(file(API + BOTH + listed))


@pytest.mark.parametrize(
    ("word", "partial"),
    [("true", PartialPartition.MULTI_DAY), ("false", PartialPartition.NEVER), ("all", PartialPartition.ALWAYS)],
)
def test_partial_partitions(loaded: Load, word: str, partial: PartialPartition) -> None:
    source = API + BOTH + keys(f"work_unit: {{partition: daily, partial_partition: {word}}}")
    assert only(loaded(file(source))).work.partial is partial


@pytest.mark.parametrize(
    ("source", "sink", "expected"),
    [
        (BOTH, "", Replace.SEGMENTS),
        (BOTH + keys("time_column: at"), "", Replace.TIME_COLUMN),
        (BOTH + keys("time_column: at", "replace: segments"), "", Replace.SEGMENTS),
        (BOTH + keys("time_column: at", "replace: unit"), "", Replace.UNIT),
        (BOTH + keys("time_column: at"), ", load_type: merge_upsert, merge_keys: [k]", Replace.MERGE_KEYS),
    ],
)
def test_what_gives_way_follows_from_the_source_and_the_load_type(
    loaded: Load, source: str, sink: str, expected: Replace
) -> None:
    assert only(loaded(file(API + source, sink))).replace is expected


@pytest.mark.parametrize(
    ("sink", "expected"), [("", Replace.UNIT), (", load_type: merge_upsert, merge_keys: [k]", "merge_keys")]
)
def test_a_source_without_a_time_range_replaces_whole_units(loaded: Load, sink: str, expected: str) -> None:
    source = keys("connection: api", 'path: "/s/{{id}}"', "watermark: [{name: id, type: unit, units: [a, b]}]")
    found = only(loaded(file(source, sink)))
    assert (found.time, found.replace) == (None, expected)


def test_a_table_and_a_query_of_a_database(loaded: Load) -> None:
    query = keys(
        "connection: db",
        'query: "select * from t where shop = {{id}} and at >= {{since}}"',
        "params: {since: {watermark: t, bound: low}}",
        "fetch_size: 7",
    )
    found = only(loaded(file(query + BOTH)))
    text = "select * from t where shop = {{id}} and at >= {{since}}"
    assert found.read == JdbcRead("jdbc:postgresql://h/d", "db", query=text, fetch_size=7)
    assert found.params == (RangeParam("since", Bounding.LOW),)
    table = keys(
        "connection: db",
        "table: public.t",
        "time_column: at",
        "watermark: [{name: t, type: datetime, range: {from: '2020-01-01'}}]",
    )
    found = only(loaded(file(table)))
    assert found.read == JdbcRead("jdbc:postgresql://h/d", "db", table="public.t")
    assert (found.time, found.unit) == (TimeWatermark("t", TimeRange("2020-01-01")), None)


def test_a_function(loaded: Load) -> None:
    source = keys("type: python", "function: a:b", "options: {k: v}") + BOTH
    project = loaded(file(source))
    assert only(project).read == FunctionRead("a:b", Options({"k": "v"}))
    assert project.notices == ()


def test_downloads_from_a_server(loaded: Load) -> None:
    source = (
        keys(
            "type: download",
            "connection: api",
            'path: "/files/{{id}}/{{day}}.csv.gz"',
            "format: csv",
            "compression: gzip",
            "csv: {delimiter: ';'}",
            "params: {day: {watermark: t, format: date}, version: 2}",
        )
        + BOTH
    )
    project = loaded(file(source))
    server = HttpRead("http://h", "/files/{{id}}/{{day}}.csv.gz", "api", params={"version": "2"})
    assert only(project).read == FileRead(FileFormat.CSV, None, server, "gzip", CsvOptions(";"))
    assert only(project).params == (RangeParam("day", Bounding.LOW, "date"),)
    assert project.notices == ()


def test_downloads_of_workbooks(loaded: Load, problems: Problems) -> None:
    given = (
        "type: download",
        "connection: api",
        "path: /{{id}}.xlsx",
        "sheet: Sales",
        "timezone: Europe/Berlin",
        "replace: unit",
    )
    server = HttpRead("http://h", "/{{id}}.xlsx", "api")
    project = loaded(file(keys(*given, "format: excel") + BOTH))
    assert only(project).read == FileRead(FileFormat.EXCEL, http=server, sheet="Sales", timezone="Europe/Berlin")
    (told,) = problems(file(keys(*given, "format: csv") + BOTH))
    assert told.endswith("sheet: works only with workbooks; set format: excel, or remove it")


@pytest.mark.parametrize("key", ["source_uri", "path"])
def test_files_whose_addresses_are_made_of_variables(loaded: Load, tmp_path: Path, key: str) -> None:
    source = keys("type: download", f'{key}: "new files/{{{{id}}}}/d?-*.json"', "format: ndjson", "time_column: at")
    found = only(loaded(file(source + BOTH)))
    location = Location(f"file://{tmp_path}/new%20files/{{{{id}}}}/d?-*.json")
    assert found.read == FileRead(FileFormat.NDJSON, location)
    source = keys(
        "type: download",
        f'{key}: "s3://bucket/{{{{id}}}}/d?-*.json"',
        "format: json",
        "storage_options: {a: b}",
        "replace: none",
    )
    found = only(loaded(file(source + BOTH)))
    assert found.read == FileRead(FileFormat.JSON, Location("s3://bucket/{{id}}/d?-*.json", Options({"a": "b"})))


def test_a_download_needs_no_watermark(loaded: Load) -> None:
    found = only(loaded(file(keys("type: download", "path: in.json", "format: json"))))
    assert (found.time, found.unit, found.replace) == (None, None, Replace.UNIT)


def test_credentials_come_from_fields_and_from_inputs_of_their_own(loaded: Load, tmp_path: Path) -> None:
    source = keys(
        "connection: api",
        'path: "/s/{{site}}/{{id}}"',
        'headers: {A: "{{key}}", B: "{{token}}"}',
        "secondary_input:",
        "  - {path: in.csv, format: csv, fields: [site, id], auth_fields: [key], csv: {delimiter: ';'},",
        "     storage_options: {o: p}}",
        "  - {path: keys, format: json, fields: token, category: authentication}",
    )
    found = only(loaded(file(source)))
    units, shared = found.inputs
    assert units == SecondaryInput(
        ("site", "id"),
        Location(f"file://{tmp_path}/in.csv", Options({"o": "p"})),
        InputFormat.CSV,
        auth_fields=("key",),
        csv=CsvOptions(";"),
    )
    assert shared == SecondaryInput(("token",), Location(f"file://{tmp_path}/keys"), InputFormat.JSON, for_all=True)
    assert found.unit == UnitWatermark("site.id")


def test_a_pipeline_runs_after_the_one_whose_table_it_reads(loaded: Load) -> None:
    source = keys("connection: api", 'path: "/s/{{id}}"', "secondary_input: [{pipeline: ids, fields: [id]}]")
    more = (
        "  last:\n    source: {path: in}\n    sink: {path: lake/last}\n"
        "  ids:\n    source: {connection: api, path: /s, watermark_columns: [at]}\n"
        "    sink: {path: lake/ids, storage_options: {a: b}}\n"
    )
    project = loaded(file(source, more=more))
    assert [pipeline.name for pipeline in project.pipelines] == ["ids", "p", "last"]
    (given,) = only(project).inputs
    assert (given.pipeline, given.location) == ("ids", project.pipeline("ids").sink.table)
    assert only(project).unit == UnitWatermark("id")
    by_path = loaded(file(source.replace("pipeline: ids", "path: lake/ids"), more=more))
    assert by_path.pipelines == project.pipelines


MS = {
    "ms.watermark": (
        '[{"name": "t", "type": "datetime", "range": {"from": "2017-01-02", "to": "-"}}, '
        '{"name": "id", "type": "unit", "units": "id1,id2"}]'
    ),
    "ms.secondary.input": '[{"path": "in.json", "format": "json", "fields": ["id"]}]',
    "ms.work.unit.partition": '{"monthly": ["2017-01-02", "2020-01-02"], "daily": ["2020-01-02", "-"]}',
    "ms.work.unit.partial.partition": "false",
    "ms.work.unit.min.units": "2",
    "ms.work.unit.min.records": "3",
    "ms.work.unit.parallelism.max": "4",
    "ms.work.unit.pacing.seconds": "5",
    "ms.grace.period.days": "6",
    "ms.abstinent.period.days": "7",
    "ms.timezone": "Asia/Tokyo",
}


def test_watermarks_of_a_properties_file_are_taken_as_they_stand_there(loaded: Load) -> None:
    system = '{"name": "system","type": "datetime", "range": {"from": "2017-01-02", "to": "-"}}'
    surveys = '{"name": "surveyId", "type": "unit", "units": "id1,id2,id3"}'
    since = "params: {since: {watermark: system, bound: low}}"
    source = keys("connection: api", 'path: "/s/{{surveyId}}"', since, f"ms.watermark: '[{system}, {surveys}]'")
    found = only(loaded(file(source)))
    assert found.time == TimeWatermark("system", TimeRange("2017-01-02", "-"))
    assert found.unit == UnitWatermark("surveyId", ("id1", "id2", "id3"))
    assert (found.grace, found.abstinent, found.timezone) == (Span(), Span(), "UTC")


@pytest.mark.parametrize("old", list(MS_KEYS))
@pytest.mark.parametrize("form", ["text", "yaml"])
def test_a_name_of_properties_files_stands_for_the_key_of_today(loaded: Load, old: str, form: str) -> None:
    *above, last = MS_KEYS[old]
    value = f"'{MS[old]}'" if form == "text" else MS[old]
    today = f"{above[0]}: {{{last}: {MS[old]}}}" if above else f"{last}: {MS[old]}"
    units = BOTH.replace(', units: "a, b ,c"', "") if old == "ms.secondary.input" else BOTH
    rest = API + ("" if old == "ms.watermark" else units)
    found, expected = loaded(file(rest + keys(f"{old}: {value}"))), loaded(file(rest + keys(today)))
    assert found == expected
    if old != "ms.watermark":
        assert found != loaded(file(API + BOTH))


def test_several_names_of_properties_files_share_a_block(loaded: Load) -> None:
    block = keys("ms.work.unit.min.units: 2", "ms.work.unit.partition: daily", "work_unit: {min_records: 3}")
    work = only(loaded(file(API + BOTH + block))).work
    assert work == WorkUnits(PartitionKind.DAILY, min_units=2, min_records=3)
