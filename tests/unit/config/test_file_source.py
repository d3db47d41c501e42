"""File sources: formats, and templates of partition directories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.errors import check_names
from tidegate.config import show
from tidegate.config.file_source import period_problem
from tidegate.core.files.paths import parse_template
from tidegate.errors import ConfigError
from tidegate.specs.columns import CsvOptions
from tidegate.specs.files import Format
from tidegate.specs.project import ProjectSpec

Load = Callable[..., ProjectSpec]
Problems = Callable[..., tuple[str, ...]]


def with_source(settings: str) -> str:
    return f"source: {{path: in, use_watermark: true, {settings}}}\nsink: {{path: lake}}\n"


def test_csv_settings_reach_the_source(loaded: Load) -> None:
    project = loaded(
        with_source(
            "format: csv, csv: {delimiter: tab, quote: none, escape: '\\', header: no, columns: [a, b c], "
            "null_values: ['', 'NULL'], skip_rows: 3, encoding: utf-8}"
        )
    )
    (source,) = project.pipelines[0].sources
    assert source.format is Format.CSV
    assert source.csv == CsvOptions("\t", None, "\\", False, ("a", "b c"), ("", "NULL"), 3)


def test_a_single_null_value_stands_for_itself(loaded: Load) -> None:
    (source,) = loaded(with_source("format: csv, csv: {null_values: 'NA', delimiter: ';'}")).pipelines[0].sources
    assert (source.csv.null_values, source.csv.delimiter) == (("NA",), ";")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("format: cvs", "format … 'cvs' … 'csv'"),
        ("format: parquet, compression: gzip", "compression … parquet"),
        ("csv: {delimiter: ';'}", "csv … format: csv"),
        ("format: csv, csv: {columns: [a]}", "csv.columns … header"),
        ("format: csv, csv: {delimiter: ';;'}", "csv.delimiter … ';;'"),
        ("format: csv, csv: {delimiter: é}", "csv.delimiter … 'é'"),
        ("format: csv, csv: {quote: ''}", "csv.quote … ''"),
        ("format: csv, csv: {delimiter: '|', quote: '|'}", "csv … different"),
        ("format: csv, csv: {encoding: latin-1}", "csv.encoding … 'latin-1'"),
        ("format: csv, csv: {delimeter: ';'}", "'delimiter'"),
        ("format: csv, csv: {null_values: {a: b}}", "csv.null_values … list"),
        ("format: csv, csv: {null_values: [NULL]}", "NULL … quotes"),
    ],
)
def test_what_cannot_be_is_one_problem(problems: Problems, settings: str, words: str) -> None:
    (line,) = problems(with_source(settings))
    check_names(line, words)


def test_sources_of_different_formats_may_share_a_place(loaded: Load, problems: Problems) -> None:
    both = "sources: {{a: {{path: in, format: {0}}}, b: {{path: in, format: {1}}}}}\nsink: {{path: lake}}\n"
    assert len(loaded(both.format("csv", "parquet")).pipelines[0].sources) == 2
    (line,) = problems(both.format("json", "ndjson"))
    check_names(line, "same files")


PARTS = st.sampled_from(
    ["%Y", "%m", "%d", "%H", "%F", "%%", "%M", "%y", "%j", "%U", "%Q", "%", "/", "-", "date=", "x", "Y"]
)


def usable(template: str) -> bool:
    try:
        parse_template(template)
    except ConfigError:
        return False
    return True


@given(st.lists(PARTS, min_size=1, max_size=8).map("".join))
def test_a_template_is_accepted_exactly_when_it_can_be_used(template: str) -> None:
    plain = template.strip("/")
    assert (period_problem(plain) == "") == usable(plain)


@pytest.mark.parametrize(
    ("address", "uri", "pattern"),
    [
        ("s3://b/x/*.csv", "s3://b/x", "/*.csv"),
        ("s3://b/*.ndjson.gz", "s3://b", "/*.ndjson.gz"),
        ("gs://b/x/part-?.json", "gs://b/x", "/part-?.json"),
        ("az://c/a%20b/date=*/x%2A*.csv", "az://c/a%20b", "date=*/x[*]*.csv"),
        ("s3://b/x/date=2026-*", "s3://b/x", "date=2026-*/**"),
        ("data/**/*.json", "data", "**/*.json"),
        ("data/2026-*/", "data", "2026-*/**"),
        ("data/**", "data", "**"),
        ("*.json", "", "/*.json"),
    ],
)
def test_a_glob_in_an_address_becomes_a_folder_and_a_pattern(
    loaded: Load, tmp_path: Path, address: str, uri: str, pattern: str
) -> None:
    project = loaded(f"source: {{source_uri: '{address}'}}\nsink: {{table_uri: /elsewhere/t}}\n")
    (source,) = project.pipelines[0].sources
    assert source.location.uri == (uri if "://" in uri else f"file://{tmp_path}/{uri}".rstrip("/"))
    assert source.pattern == pattern
    assert any("has a glob and is read as source_uri: " in each and repr(pattern) in each for each in project.notices)


def test_a_file_of_that_very_name_is_no_glob(loaded: Load, tmp_path: Path) -> None:
    (tmp_path / "in[1]*").mkdir()
    project = loaded("source: {source_uri: 'in[1]*'}\nsink: {table_uri: lake}\n")
    (source,) = project.pipelines[0].sources
    assert (source.location.uri, source.pattern) == (f"file://{tmp_path}/in%5B1%5D%2A", None)
    assert not project.notices


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("path: 'in/*.csv', pattern: 'x*'", "write source_uri: in/ and pattern: '/*.csv'"),
        (
            "path: 's3://b/in/*.csv', use_watermark: true, partition_filter: {prefix_template: 'd=%Y', lookback: 1}",
            "write source_uri: s3://b/in/ and pattern: '*.csv'",
        ),
        ("path: 's3://b/in/*'", "for files write source_uri: s3://b/in/ and pattern: '/*'"),
        ("path: 's3://b/{2025,2026}/'", "give each alternative a source"),
        ("path: 's3://b-*/in'", "give each bucket a source of its own"),
        ("type: delta, path: 's3://b/*/t.d', watermark_columns: [a]", "a Delta table is one folder"),
        ("type: parquet, path: 's3://b/*.parquet', watermark_columns: [a]", "the names as 'pattern'"),
    ],
)
def test_a_glob_that_cannot_be_taken_apart_is_one_problem(problems: Problems, settings: str, words: str) -> None:
    (found,) = problems(f"source: {{{settings}}}\nsink: {{path: lake}}\n")
    assert words in found, found


def test_a_glob_from_a_variable_is_shown_so_that_it_loads_again(loaded: Load) -> None:
    env = {"INPUT": "s3://b/in/*.gz"}
    first = loaded("source: {path: '${INPUT}'}\nsink: {path: lake}\n", env=env)
    shown = show(first)
    assert "source_uri: ${INPUT}" in shown
    again = loaded(shown, env=env)
    assert again.pipelines[0].sources == first.pipelines[0].sources


@pytest.mark.parametrize(
    ("address", "right"),
    [
        ("s3:/lake/x", "write s3://lake/x"),
        ("S3A:/lake/x", "write S3A://lake/x"),
        ("gs:/lake/x", "write gs://lake/x"),
        ("abfss:/box@account/x", "write abfss://box@account/x"),
        ("s3:lake/x", "write s3://lake/x"),
        ("dbfs:/mnt/x", "write /dbfs/mnt/x"),
        ("dbfs:///mnt/x", "write /dbfs/mnt/x"),
        ("hdfs:/x", "'hdfs:' is no store"),
    ],
)
def test_an_address_without_both_slashes_is_no_folder(problems: Problems, address: str, right: str) -> None:
    assert all(right in each for each in problems(f"source: {{path: '{address}'}}\nsink: {{path: lake}}\n"))
    assert all(right in each for each in problems(f"source: {{path: in}}\nsink: {{path: '{address}'}}\n"))


def test_files_may_be_addressed_as_hadoop_does(loaded: Load) -> None:
    (source,) = loaded("source: {path: 'file:/srv/in'}\nsink: {path: lake}\n").pipelines[0].sources
    assert source.location.uri == "file:///srv/in"
