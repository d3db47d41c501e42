"""Properties files become configurations that load; the report names what is lost, and no secret is copied."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from support.errors import raises
from support.long_runs import examples
from tidegate.config import load
from tidegate.errors import ConfigError
from tidegate.migrate.properties import CARRIED, LEFT, NOT_NEEDED, rule_of
from tidegate.migrate.property_import import import_file, import_text
from tidegate.migrate.property_sections import strftime
from tidegate.reports.project import PropertiesImport
from tidegate.specs.columns import AuthKind, HttpRead, JdbcRead, LoadType, Pagination, PaginationKind, RateLimit
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import FieldSpec
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
    Span,
    TimeRange,
    TimeWatermark,
    UnitSource,
    UnitWatermark,
)

RANGE = 'ms.watermark=[{"name": "system", "type": "datetime", "range": {"from": "2017-01-02", "to": "-"}}]'
LOW = '{"name": "since", "type": "watermark", "watermark": "system", "value": "low", "format": "datetime"}'
SURVEYS = """\
# responses of surveys
job.name=responses
source.class=org.example.HttpSource
ms.extractor.class=org.example.JsonExtractor
extract.namespace=org.surveys
extract.table.name=answers
ms.source.uri=https://api.example.org/v2/surveys/{{id}}/answers?since={{from}}&page={{no}}&limit={{size}}&lang={{lang}}
ms.http.request.headers={"Accept": "application/json", "X-Api-Token": "hunter2"}
ms.authentication={"method": "bearer", "encryption": "none", "header": "Authorization", "token": "ENC(hunter2)"}
ms.parameters=[{"name":"from","type":"watermark","watermark":"system","value":"low","format":"datetime",\\
    "pattern":"yyyy-MM-dd'T'HH:mm:ss'Z'"}, {"name":"until","type":"watermark","watermark":"system","value":"high"},\\
    {"name":"no","type":"pageno"}, {"name":"size","type":"pagesize"}, {"name": "lang", "value": "en"}]
ms.pagination={"fields": ["", "page_size", "page_number"], "initialvalues": [0, 100, 1]}
ms.total.count.field=paging.total
ms.data.field=result.elements
ms.watermark=[{"name": "system", "type": "datetime", "range": {"from": "2017-01-02", "to": "-"}}]
ms.secondary.input=[{"path": "/data/surveys", "fields": ["id"], "filters": {"status": "(OK|Success)"},\\
    "category": "activation"}]
ms.work.unit.partition=monthly
ms.work.unit.partial.partition=false
ms.work.unit.parallelism.max=7
ms.work.unit.min.units=1
ms.work.unit.min.records=2
ms.work.unit.pacing.seconds=3
ms.grace.period.days=3
ms.abstinent.period.days=1
ms.timezone=Europe/Berlin
ms.call.interval.millis=500
ms.http.response.type={"Content-Type": "text/plain"}
ms.http.statuses={"success": [200, 201], "warning": [404]}
ms.output.schema=[{"columnName":"id","isNullable":"false","dataType":{"type":"string"}},\\
    {"columnName":"n","dataType":{"type":"long"}}]
"""


def imported(*lines: str) -> PropertiesImport:
    return import_text("\n".join(lines), "job.pull")


def pipeline_of(report: PropertiesImport, **env: str) -> PipelineSpec:
    """The pipeline, loaded with a value for each variable."""
    project = load(report.yaml, env=dict.fromkeys(report.variables, "x") | env, base=Path("/srv"))
    (pipeline,) = project.pipelines
    return pipeline


def source_of(report: PropertiesImport, **env: str) -> UnitSource:
    (source,) = pipeline_of(report, **env).sources
    return source


def reasons(report: PropertiesImport) -> dict[str, str]:
    """Why properties are left, by name."""
    found: dict[str, str] = {}
    for note in report.left:
        found[note.name] = "; ".join(filter(None, (found.get(note.name), note.reason)))
    return found


def test_a_job_that_is_carried_over_as_a_whole() -> None:
    report = imported(SURVEYS)
    assert report.left == report.not_needed == ()
    assert report.variables == ("RESPONSES_TOKEN", "RESPONSES_X_API_TOKEN")
    assert set(report.carried) == {line.partition("=")[0] for line in SURVEYS.splitlines() if line[0] not in "# "}
    pipeline = pipeline_of(report)
    source = source_of(report)
    assert isinstance(source.read, HttpRead)
    assert (source.read.url, source.read.path) == ("https://api.example.org", "/v2/surveys/{{id}}/answers")
    assert source.read.params == {"lang": "en"}
    assert dict(source.read.headers) == {"X-Api-Token": "x", "Accept": "application/json"}
    assert source.read.auth.kind is AuthKind.BEARER
    assert source.read.records == "result.elements"
    assert source.read.response_types == ("text/plain",)
    assert source.read.rate_limit == RateLimit(1, 0.5)
    assert source.read.pagination == Pagination(PaginationKind.PAGE, "page", "limit", 100, 1, total="paging.total")
    assert source.params == (
        RangeParam("since", Bounding.LOW, "%Y-%m-%dT%H:%M:%SZ"),
        RangeParam("until", Bounding.HIGH, "timestamp_ms"),
    )
    assert source.time == TimeWatermark("system", TimeRange("2017-01-02", "-"))
    assert source.unit == UnitWatermark("id")
    (given,) = source.inputs
    assert (given.format, given.fields, given.filters) == (InputFormat.AVRO, ("id",), {"status": "(OK|Success)"})
    assert (source.grace, source.abstinent, source.timezone) == (Span(3), Span(1), "Europe/Berlin")
    work = source.work
    assert (work.partition, work.partial) == (PartitionKind.MONTHLY, PartialPartition.NEVER)
    assert (work.parallelism_max, work.min_units, work.min_records, work.pacing_seconds) == (7, 1, 2, 3.0)
    assert work.not_found is NotFound.EMPTY
    assert pipeline.schema.fields == (FieldSpec("id", "string", nullable=False), FieldSpec("n", "int64"))
    assert pipeline.sink.table.uri == "file:///srv/lake/org/surveys/answers"
    assert pipeline.sink.load.type is LoadType.APPEND


@pytest.mark.parametrize(
    "line",
    [
        "source.conn.password=hunter2",
        'ms.authentication={"method": "custom", "header": "X-Key", "token": "hunter2"}',
        'ms.authentication={"method": "oauth", "token": "hunter2"}',
        'ms.authentication={"method": "basic", "encryption": "base64", "token": "hunter2"}',
        'ms.http.request.headers={"Authorization": "hunter2"}',
        'ms.parameters=[{"name": "api_key", "value": "hunter2"}]',
        'ms.parameters=[{"name": "who", "value": "ENC(hunter2)"}]',
        "ms.source.uri=https://me:hunter2@h/x?access_token=hunter2&password=hunter2",
        "ms.source.uri=jdbc:mysql://me:hunter2@h/d?user=me&password=hunter2&useSSL=true",
        "encrypt.key.loc=hunter2",
        'ms.http.request.headers={"X-Custom": "hunter2", "Accept": "text/csv"}',
        'ms.parameters=[{"name": "key", "value": "hunter2hunter2"}]',
        'ms.parameters=[{"name": "filter", "type": "object", "value": {"deep": [{"token": "hunter2"}]}}]',
        "ms.source.uri=https://h/x?key=a1B2c3D4hunter2e5F6&sig=hunter2",
        'ms.authentication={"method":"bearer","encryption":"","header":"Authorization","token":"hunter2"}',
        'ms.parameters=[{"name":"api_key","value":"hunter2"}]',
        'ms.http.request.headers={"Authorization":"Bearer a1B2c3D4hunter2e5F6 {{x}}"}',
    ],
)
def test_no_secret_is_copied(line: str) -> None:
    report = imported("job.name=j", "ms.source.uri=https://h/x", RANGE, line)
    assert "hunter2" not in json.dumps(report.to_json())
    pipeline_of(report)


@pytest.mark.parametrize(
    "lines",
    [
        ["ms.source.uri=sftp://me:hunter2@h/x"],
        ["ms.source.uri=https://me:hunter2@<host>/x"],
        ["ms.source.uri=https://h/x", "ms.http.request.method=DELETE", "source.conn.password=hunter2"],
    ],
)
def test_an_error_repeats_no_secret(lines: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        imported("job.name=j", *lines)
    assert "hunter2" not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"


@pytest.mark.parametrize(
    "line",
    [
        "ms.source.uri=jdbc:oracle:thin:scott/hunter2@//h/s",
        "ms.jdbc.statement=select * from t where k = 'a1B2c3D4hunter2e5F6'",
    ],
)
def test_no_secret_of_a_database_is_copied(line: str) -> None:
    report = imported("job.name=j", "ms.source.uri=jdbc:mysql://h/d", RANGE, line)
    assert "hunter2" not in json.dumps(report.to_json())
    assert report.variables


def test_a_password_that_is_an_ordinary_word_changes_nothing_else() -> None:
    lines = ["job.name=orders", "ms.source.uri=https://h/bearer", "source.conn.password=orders", RANGE]
    auth = 'ms.authentication={"method":"bearer","header":"Authorization","token":"bearer"}'
    report = imported(*lines, auth)
    made = yaml.safe_load(report.yaml)
    assert list(made["pipelines"]) == ["orders"]
    assert made["connections"]["orders"]["auth"]["type"] == "bearer"
    assert made["pipelines"]["orders"]["source"]["path"] == "/bearer"


def test_a_second_secret_of_an_address_is_a_variable_too() -> None:
    report = imported("job.name=j", "ms.source.uri=https://h/x?access_token=hunter2&password=hunter3", RANGE)
    assert {"J_ACCESS_TOKEN", "J_PASSWORD"} <= set(report.variables)
    assert not report.left


def test_a_database_is_read_without_pages() -> None:
    report = imported(
        "job.name=sales",
        "source.entity=orders",
        "source.conn.username=reader",
        "source.conn.password=hunter2",
        "ms.source.uri=jdbc:mysql://h:3306/shop?useSSL=true",
        "ms.jdbc.statement=select * from ${source.entity} where at >= {{since}} limit {{limit}} offset {{offset}}",
        f'ms.parameters=[{LOW}, {{"name": "limit", "type": "pagesize"}}, {{"name": "offset", "type": "pagestart"}}]',
        'ms.pagination={"initialvalues": [0, 5000]}',
        "extract.table.type=SNAPSHOT_APPEND",
        "extract.primary.key.fields=id, shop",
        RANGE,
    )
    assert report.left == ()
    assert report.variables == ("SALES_PASSWORD",)
    source = source_of(report)
    assert isinstance(source.read, JdbcRead)
    assert (source.read.url, source.read.user) == ("jdbc:mysql://h:3306/shop?useSSL=true", "reader")
    assert source.read.query == "select * from orders where at >= {{since}}"
    assert source.params == (RangeParam("since", Bounding.LOW),)
    load_ = pipeline_of(report).sink.load
    assert (load_.type, load_.merge_keys) == (LoadType.MERGE_UPSERT, ("id", "shop"))


def test_a_database_that_is_not_named_is_for_a_person_to_say() -> None:
    report = imported("job.name=j", "ms.source.uri=jdbc://h/d", "ms.jdbc.statement=select 1")
    assert reasons(report) == {
        "ms.source.uri": "does not say which database it is; set J_URL, such as jdbc:mysql://host/database"
    }
    (source,) = pipeline_of(report, J_URL="jdbc:mysql://h/d").sources
    assert source.read == JdbcRead("jdbc:mysql://h/d", "j", query="select 1")
    assert pipeline_of(report, J_URL="jdbc:mysql://h/d").sink.load.type is LoadType.OVERWRITE


def test_files_of_a_server() -> None:
    report = imported(
        "job.name=ratings",
        "ms.source.uri=https://data.example.org/{{day}}/ratings.tsv.gz",
        "ms.extractor.class=org.example.CsvExtractor",
        "ms.extract.preprocessors=org.example.GunzipProcessor",
        'ms.csv={"columnHeaderIndex": 0, "fieldSeparator": "u0009"}',
        'ms.parameters=[{"name":"day","type":"watermark","watermark":"system","range":"from","format":"datetime",'
        '"pattern":"yyyyMMdd"}]',
        "ms.work.unit.partition=daily",
        "extract.table.type=SNAPSHOT_ONLY",
        'ms.http.response.type={"Content-Type": "application/x-gzip"}',
        RANGE,
    )
    assert report.left == ()
    source = source_of(report)
    assert isinstance(source.read, FileRead)
    assert source.read.http is not None
    assert (source.read.http.url, source.read.http.path) == ("https://data.example.org", "/{{day}}/ratings.tsv.gz")
    assert (source.read.format, source.read.csv.delimiter, source.read.csv.header) == (FileFormat.CSV, "\t", True)
    assert source.params == (RangeParam("day", Bounding.LOW, "%Y%m%d"),)
    assert source.replace is Replace.UNIT


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], Replace.UNIT),
        (["ms.abstinent.period.days=7"], Replace.UNIT),
        (["extract.table.type=SNAPSHOT_ONLY"], Replace.UNIT),
        (["ms.work.unit.partition=daily"], Replace.NONE),
        (["ms.work.unit.partition=daily", "extract.table.type=SNAPSHOT_ONLY"], Replace.NONE),
        ([f"ms.parameters=[{LOW}]"], Replace.SEGMENTS),
        (["extract.table.type=SNAPSHOT_APPEND", "extract.primary.key.fields=id"], Replace.MERGE_KEYS),
    ],
)
def test_a_job_whose_requests_lack_the_time_says_what_becomes_of_its_rows(lines: list[str], expected: Replace) -> None:
    units = RANGE[:-1] + ', {"name": "file", "type": "unit", "units": "a,b"}]'
    report = imported("ms.source.uri=https://h/{{file}}", "ms.extractor.class=x.CsvExtractor", units, *lines)
    assert source_of(report).replace is expected


def test_a_bucket_that_is_asked_as_a_server() -> None:
    report = imported(
        "ms.source.uri=https://reports.s3.eu-west-1.amazonaws.com/in/{{site}}",
        "source.class=org.example.S3SourceV2",
        "source.conn.username=key-id",
        "source.conn.password=hunter2",
        "ms.extractor.class=org.example.AvroExtractor",
        'ms.watermark=[{"name": "site", "type": "unit", "units": "a, b,a"}]',
        "ms.source.files.pattern=.*2020.*",
    )
    source = source_of(report)
    assert isinstance(source.read, FileRead)
    assert source.read.location is not None
    assert (source.read.location.uri, source.read.format) == ("s3://reports/in/{{site}}*", FileFormat.AVRO)
    assert dict(source.read.location.options) == {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    assert "hunter2" not in json.dumps(report.to_json())
    assert source.unit == UnitWatermark("site", ("a", "b"))
    assert set(reasons(report)) == {"ms.source.files.pattern", "ms.source.uri", "ms.watermark"}
    assert "at any depth" in reasons(report)["ms.source.uri"]
    assert not report.reads_the_same


@pytest.mark.parametrize("path", ["in/", "in", "in/day-"])
def test_a_prefix_of_a_bucket_loses_no_key_of_its_level(path: str) -> None:
    report = imported(f"ms.source.uri=https://reports.s3.amazonaws.com/{path}", "ms.extractor.class=x.CsvExtractor")
    assert yaml.safe_load(report.yaml)["pipelines"]["table"]["source"]["source_uri"] == f"s3://reports/{path}*"


@pytest.mark.parametrize("uri", ["hdfs://h/in", "in"])
def test_files_elsewhere_load_too(uri: str) -> None:
    report = imported(
        "job.name=j", f"ms.source.uri={uri}", "ms.extractor.class=x.CsvExtractor", "ms.csv.separator=u007C"
    )
    assert isinstance(source_of(report).read, FileRead)


def test_what_a_post_sends() -> None:
    report = imported(
        "ms.source.uri=https://h/search",
        "ms.http.request.method=POST",
        f'ms.parameters=[{LOW}, {{"name": "site", "type": "watermark", "watermark": "id"}}, '
        '{"name": "groups", "type": "jsonarray", "value": [{"a": 1}]}, {"name": "o", "type": "object", '
        '"value": [{"name": "k", "value": "v"}]}, {"name": "cursor", "type": "session"}]',
        'ms.session.key.field={"name": "records.cursor"}',
        RANGE[:-1] + ', {"name": "id", "type": "unit", "units": "a,b"}]',
    )
    assert report.left == ()
    source = source_of(report)
    assert isinstance(source.read, HttpRead)
    assert source.read.body == {"since": "{{since}}", "site": "{{id}}", "groups": [{"a": 1}], "o": {"k": "v"}}
    assert source.read.pagination == Pagination(PaginationKind.CURSOR, "cursor", next="records.cursor")


def test_credentials_that_are_read_from_an_input() -> None:
    report = imported(
        "ms.source.uri=https://h/x?key={{access_token}}",
        'ms.authentication={"method": "bearer", "header": "Authorization", "token": "{{access_token}}"}',
        'ms.secondary.input=[{"path": "/keys", "fields": ["access_token"], "category": "authentication"}]',
    )
    assert report.left == ()
    source = source_of(report)
    assert isinstance(source.read, HttpRead)
    assert dict(source.read.headers) == {"Authorization": "Bearer {{access_token}}"}
    assert source.inputs[0].for_all


def test_variables_of_the_older_system_are_for_a_person_to_set() -> None:
    report = imported(
        "job.name=j",
        "ms.source.uri=https://h/{{id}}/{{what}}",
        'ms.secondary.input=[{"path": "${job.dir}/${preceding.table.name}", "fields": ["id"]}]',
    )
    assert report.variables == ("JOB_DIR", "PRECEDING_TABLE_NAME", "WHAT")
    assert "write pipeline: NAME instead of path" in reasons(report)["ms.secondary.input"]
    assert "nothing defines {{what}}" in reasons(report)["ms.source.uri"]
    source = source_of(report, JOB_DIR="/jobs", PRECEDING_TABLE_NAME="ids")
    assert (source.inputs[0].location.uri, source.inputs[0].format) == ("file:///jobs/ids", InputFormat.AVRO)


@pytest.mark.parametrize(
    ("partition", "partial", "expected"),
    [
        ("daily", None, PartialPartition.ALWAYS),
        ("hourly", "true", PartialPartition.ALWAYS),
        ('{"monthly": ["2017-01-02", "2018-01-02"], "daily": ["2018-01-02", "-"]}', None, PartialPartition.ALWAYS),
        ("daily", "false", PartialPartition.NEVER),
        ("monthly", None, PartialPartition.MULTI_DAY),
        ("none", None, PartialPartition.MULTI_DAY),
    ],
)
def test_a_last_day_that_is_not_over_is_read_as_the_job_did(
    partition: str, partial: str | None, expected: PartialPartition
) -> None:
    lines = [f"ms.work.unit.partition={partition}"]
    lines += [] if partial is None else [f"ms.work.unit.partial.partition={partial}"]
    assert source_of(imported("job.name=j", "ms.source.uri=https://h/x", RANGE, *lines)).work.partial is expected


def test_a_status_that_means_no_data_is_an_error_without_work_units() -> None:
    report = imported("job.name=j", "ms.source.uri=https://h/x", 'ms.http.statuses={"warning": [404]}')
    assert reasons(report)["ms.http.statuses"] == "404: only work units of an API can be empty; here it is an error"


def test_a_job_that_encrypts_fields_is_refused() -> None:
    with raises(ConfigError, "ms.encryption.fields", "plain text", "remove the line"):
        imported("job.name=j", "ms.source.uri=https://h/x", 'ms.encryption.fields=["ssn"]')


@pytest.mark.parametrize(
    ("line", "name", "words"),
    [
        ('ms.http.statuses={"warning": [404, 500]}', "ms.http.statuses", "500: only 404"),
        ("ms.data.field=a.0.b", "ms.data.field", "one element of a list"),
        (
            'ms.session.key.field={"name": "s", "condition": {"regexp": "done"}}',
            "ms.session.key.field",
            "until the server reports",
        ),
        ('ms.output.schema=[{"columnName": "a", "dataType": {"type": "union"}}]', "ms.output.schema", "'union'"),
        ("ms.work.unit.partition=fortnightly", "ms.work.unit.partition", "neither one of none, hourly"),
        ("ms.grace.period.days=three", "ms.grace.period.days", "not a whole number"),
        ("ms.watermark=nonsense", "ms.watermark", "is not JSON"),
        ('ms.watermark=[{"name": "t", "type": "datetime", "range": {"from": "May"}}]', "ms.watermark", "set J_FROM"),
        (
            'ms.secondary.input=[{"path": "/p", "fields": ["x"], "category": "colour"}]',
            "ms.secondary.input",
            "'colour'",
        ),
        ('ms.parameters=[{"name": "c", "type": "session"}]', "ms.parameters", "'c' is a cursor"),
        ("ms.ssl={}", "ms.ssl", "certificates"),
        ("ms.something=1", "ms.something", "has no equivalent"),
        (
            "converter.classes=a.Normalizer,b.JsonIntermediateToAvroConverter",
            "converter.classes",
            "Normalizer: a second pipeline",
        ),
        ("colour=blue", "colour", "is unknown"),
        ("ms.csv.separator=;", "ms.csv.separator", "means nothing for this kind of source"),
    ],
)
def test_what_has_no_equal_is_told_with_its_line(line: str, name: str, words: str) -> None:
    report = imported("job.name=j", "ms.source.uri=https://h/x", line)
    (note,) = report.left
    assert (note.line, note.name) == (3, name)
    assert words in note.reason
    pipeline_of(report, J_FROM="2020-01-01")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["ms.source.uri=sftp://h/in"], "job.pull:2 … ms.source.uri … SFTP"),
        (
            ["source.class=org.example.SftpSource", "ms.source.uri=/in/sales.csv"],
            "job.pull:2 … source.class … SFTP",
        ),
        (["ms.source.uri=https://h/x", "ms.http.request.method=PUT"], "ms.http.request.method … PUT"),
        (
            [
                "ms.source.uri=https://h/x",
                'ms.secondary.input=[{"path": "/p", "fields": ["x"], "category": "payload"}]',
            ],
            "job.pull:3 … ms.secondary.input … rows",
        ),
        (
            ["org.gradle.jvmargs=-Xmx2g", "version=1.0"],
            "job.pull … ms.source.uri … missing",
        ),
        (["ms.source.uri=https://<bucket>.s3.amazonaws.com/in"], "ms.source.uri … <bucket>"),
    ],
)
def test_what_is_no_job_that_reads_is_refused(lines: list[str], words: str) -> None:
    with raises(ConfigError, words):
        imported("job.name=j", *lines)


def test_all_reasons_to_refuse_a_job_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        imported("ms.source.uri=sftp://<host>/in", "ms.http.request.method=DELETE")
    assert len(error.value.problems) == 3


def test_a_bound_counts_whatever_watermark_it_names() -> None:
    bounds = (
        '{"name": "low", "type": "watermark", "watermark": "dateRange", "value": "low", "format": "datetime"}',
        '{"name": "high", "type": "watermark", "watermark": "dateRange", "value": "high", "format": "datetime"}',
    )
    report = imported("ms.source.uri=https://h/x", f"ms.parameters=[{','.join(bounds)}]", RANGE)
    assert report.left == ()
    assert source_of(report).params == (RangeParam("low", Bounding.LOW), RangeParam("high", Bounding.HIGH))


WEEKS = (
    'ms.watermark=[{"name": "system", "type": "datetime", "range": {"from": "2020-01-06", "to": "P0D"}}]',
    "ms.work.unit.partition=weekly",
    "ms.http.request.method=GET",
)


def bound(name: str, end: str, pattern: str) -> str:
    return json.dumps(
        {
            "name": name,
            "type": "watermark",
            "watermark": "weeks",
            "value": end,
            "format": "datetime",
            "pattern": pattern,
        }
    )


@pytest.mark.parametrize(
    ("names", "query"),
    [
        (("since", "until"), ""),
        (("since", "until"), "?since={{since}}&until={{until}}"),
        (("begin", "end"), "?since={{begin}}&until={{end}}"),
    ],
)
def test_weeks_are_asked_for_alike_however_the_address_says_it(names: tuple[str, str], query: str) -> None:
    bounds = [bound(name, end, "yyyy-MM-dd") for name, end in zip(names, ("low", "high"), strict=True)]
    report = imported(f"ms.source.uri=https://h/visits{query}", f"ms.parameters=[{','.join(bounds)}]", *WEEKS)
    assert report.left == ()
    source = source_of(report)
    assert source.params == (
        RangeParam("since", Bounding.LOW, "%Y-%m-%d"),
        RangeParam("until", Bounding.HIGH, "%Y-%m-%d"),
    )
    assert (source.work.partition, source.time) == (
        PartitionKind.WEEKLY,
        TimeWatermark("system", TimeRange("2020-01-06", "P0D")),
    )


def test_bounds_inside_one_value_are_written_there_and_not_sent_beside_it() -> None:
    bounds = f"{bound('begin', 'low', 'yyyyMMdd')},{bound('end', 'high', 'yyyyMMdd')}"
    report = imported("ms.source.uri=https://h/x?q=day:{{begin}}..{{end}}", f"ms.parameters=[{bounds}]", *WEEKS)
    source = source_of(report)
    assert isinstance(source.read, HttpRead)
    assert source.read.params == {"q": "day:{{begin}}..{{end}}"}
    assert [each.name for each in source.params] == ["begin", "end"]


def test_a_bound_in_the_name_of_files_is_carried_over() -> None:
    report = imported(
        "ms.source.uri=/in/sales_*{{today}}*.csv", f"ms.parameters=[{bound('today', 'high', 'yyyyMMdd')}]", RANGE
    )
    assert (report.left, report.variables) == ((), ())
    assert source_of(report).params == (RangeParam("today", Bounding.HIGH, "%Y%m%d"),)


def test_files_of_another_file_system_are_for_a_person_to_place() -> None:
    report = imported("source.class=org.example.HdfsSource", "ms.source.uri=/data/in", "job.name=j")
    assert report.variables == ("J_SOURCE_URI",)
    assert "object storage, folders and HTTP servers" in reasons(report)["ms.source.uri"]


@pytest.mark.parametrize(("line", "zone"), [("", "America/Los_Angeles"), ("ms.timezone=UTC", "UTC")])
def test_partitions_are_cut_in_the_zone_of_the_original(line: str, zone: str) -> None:
    assert source_of(imported("ms.source.uri=https://h/x", RANGE, line)).timezone == zone


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("ms.data.field=a.0.b", False),
        ('ms.session.key.field={"name": "s", "condition": {"regexp": "done"}}', False),
        ("state.store.enabled=false", True),
        (f"{RANGE}\nstate.store.enabled=false", False),
        (f"{RANGE}\nstate.store.enabled=true", True),
        ("ms.ssl={}", True),
        ("job.schedule=daily", True),
        ("ms.source.uri=/in/sales.csv", True),
        ("ms.source.uri=/in/sales.csv.gpg", False),
        ("ms.extractor.class=org.example.FileDumpExtractor", False),
    ],
)
def test_a_report_tells_whether_other_data_would_be_read(line: str, same: bool) -> None:
    assert imported("job.name=j", "ms.source.uri=https://h/x", line).reads_the_same is same


def test_a_property_that_is_given_twice_is_told_and_the_last_counts() -> None:
    report = imported("job.name=a", "job.name=b", "ms.source.uri=https://h/x")
    assert [(note.line, note.reason) for note in report.left] == [(1, "line 2 sets it again and counts")]
    assert pipeline_of(report).name == "b"


@pytest.mark.parametrize("name", ["job.commit.policy", "state.store.dir", "writer.output.format", "gobblin.x", "mr.y"])
def test_what_is_not_needed_is_told_apart(name: str) -> None:
    report = imported("ms.source.uri=https://h/x", f"{name}=1")
    assert [note.name for note in report.not_needed] == [name]
    assert report.left == ()


def test_units_beside_a_secondary_input_give_way() -> None:
    report = imported(
        "ms.source.uri=https://h/{{id}}",
        'ms.watermark=[{"name": "id", "type": "unit", "units": "a"}]',
        'ms.secondary.input=[{"path": "/p", "fields": ["id"]}]',
    )
    assert "allowed: one of them" in reasons(report)["ms.watermark"]
    assert source_of(report).unit == UnitWatermark("id")


def test_dollars_mean_themselves() -> None:
    report = imported("ms.source.uri=https://h/x?$filter=a$$b&c=$", RANGE)
    assert isinstance(read := source_of(report).read, HttpRead)
    assert read.params == {"$filter": "a$$b", "c": "$"}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy-MM-dd", "%Y-%m-%d"),
        ("yyyyMMddHHmmss", "%Y%m%d%H%M%S"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSSSS''Z", "%Y-%m-%dT%H:%M:%S.%f'%z"),
        ("dd/MM/yy 'at 100%'", "%d/%m/%y at 100%%"),
        ("EEE", None),
        ("yyyy-MM-dd'T'HH:mm:ss.SSS", None),
        ("'now'", None),
    ],
)
def test_patterns_of_times(pattern: str, expected: str | None) -> None:
    assert strftime(pattern) == expected


NAMES = {**CARRIED, **LEFT, **NOT_NEEDED}
EXACT = [name for name in NAMES if not name.endswith(".")]


def test_every_name_has_one_fate_and_prefixes_are_for_the_others() -> None:
    assert len(NAMES) == len(CARRIED) + len(LEFT) + len(NOT_NEEDED)
    assert {name: rule_of(name) for name in NAMES} == {name: name for name in NAMES}
    assert rule_of("state.store.x") == "state.store." in NOT_NEEDED
    assert rule_of("ms.http.conn.max") == "ms.http.conn." in NOT_NEEDED
    assert rule_of("ms.unheard.of") == "ms." in LEFT
    assert rule_of("x.y") == ""


def test_a_file_is_read_whatever_its_encoding(tmp_path: Path) -> None:
    file = tmp_path / "job.pull"
    file.write_bytes("job.name=j\nms.source.uri=https://h/ü\n".encode("latin-1"))
    assert "ü" in import_file(file).yaml
    with raises(ConfigError, "nothing.pull", "No such file"):
        import_file(tmp_path / "nothing.pull")


@pytest.mark.parametrize("text", ["", "# only\n", "a=\n"])
def test_a_file_without_properties_is_refused(text: str) -> None:
    with raises(ConfigError, "job.pull", "name=value"):
        import_text(text, "job.pull")


WORDS = (
    *("name", "type", "value", "range", "from", "to", "units", "path", "fields", "filters", "category", "columnName"),
    *("dataType", "items", "values", "method", "token", "header", "initialvalues", "warning", "error", "condition"),
    *("columnHeaderIndex", "linesToSkip", "fieldSeparator", "watermark", "format", "pattern"),
)
VALUES: Any = st.recursive(
    st.sampled_from(
        ["x", "{{id}}", "", "low", "datetime", "unit", "${a}", 5, True, None, "watermark", "array", "record"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(WORDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*(name for name in NAMES if not name.endswith(".")), "x.y"]), VALUES, min_size=1, max_size=6
    )
)
def test_odd_values_are_told_or_refused_and_never_raise(values: dict[str, Any]) -> None:
    lines = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in values.items()]
    text = "job.name=j\nms.source.uri=https://h/x\n" + "\n".join(lines)
    with contextlib.suppress(ConfigError):
        assert yaml.safe_load(import_text(text, "job.pull").yaml)["pipelines"]
