"""File sources: formats, and templates of partition directories."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.errors import check_names
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
