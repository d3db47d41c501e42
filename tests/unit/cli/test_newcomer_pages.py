"""What somebody sees who meets something for the first time: whole lines, and no empty tables."""

from __future__ import annotations

from dataclasses import replace

from click.testing import CliRunner

from tidegate.cli.commit_view import render_adoption
from tidegate.cli.dlq_view import render_letter
from tidegate.cli.main import cli
from tidegate.cli.pages import plain
from tidegate.cli.schema_view import render_diff
from tidegate.observe.events import UnitRejected
from tidegate.observe.logs import sentence
from tidegate.reports.schema import SchemaDiff
from unit.cli import standin


def test_a_letter_of_two_lines_is_shown_on_two_lines() -> None:
    letter = replace(standin.LETTERS[0], text="id,price\n2,abc")
    assert [line.strip() for line in plain(render_letter("1f", [letter]))][-2:] == ["id,price", "2,abc"]


def test_a_prefix_without_files_to_adopt_is_told_in_one_line() -> None:
    (told,) = plain(render_adoption(replace(standin.FILE_ADOPTION, files=())))
    assert told.strip() == "no Parquet file below 'imported' of file:///lake/events to add; 3 files there in its log"


def test_examples_are_never_broken_across_lines() -> None:
    shown = CliRunner().invoke(cli, ["table", "widen", "--help"], terminal_width=40).stdout
    assert "  tidegate table widen pipelines.yml -p events --column id --type int64\n" in shown


def test_a_rejected_unit_is_told_in_words() -> None:
    event = UnitRejected("events", "asia", "_staging/pending/x.meta.json", "there is no Parquet file x.parquet")
    assert sentence(event) == "rejected _staging/pending/x.meta.json: there is no Parquet file x.parquet"


def test_where_columns_cannot_be_compared_nothing_is_called_equal() -> None:
    diff = SchemaDiff("events", "file:///lake/events", "merge", (), ok=True, notes=("only a run knows",))
    shown = [line.strip() for line in plain(render_diff(diff))]
    assert "note: only a run knows" in shown
    assert shown[-1] == "nothing to compare"
    assert list(plain(render_diff(replace(diff, notes=()))))[-1].strip() == "nothing differs"
