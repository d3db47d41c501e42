"""``tidegate watermark``: what is recorded, how it came about, and a person who moves it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.reports.report import Sections, View
from tidegate.runs.files import state_tables
from unit.cli import standin
from unit.cli.standin import StandIn, document, invoke, text

START = ("t.yml", "-p", "events")
SET = ("watermark", "set", *START)
RESET = ("watermark", "reset", *START)
CONFIG = {"config": Path("t.yml")}
EVENTS = {**CONFIG, "pipeline": "events"}


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("watermark", "show", "t.yml", "-p", "e"), ("show_watermarks", {**CONFIG, "pipeline": "e"})),
        (
            ("watermark", "show", "t.yml", "-p", "e", "-s", "a"),
            ("show_watermarks", {**CONFIG, "pipeline": "e", "source": "a"}),
        ),
        (("watermark", "history", *START), ("watermark_history", EVENTS)),
        (
            ("watermark", "history", *START, "-s", "asia", "--limit", "3"),
            ("watermark_history", {**EVENTS, "source": "asia", "limit": 3}),
        ),
        (
            (*SET, "--value", "id=7", "--value", "at=a=b", "--inclusive", "--yes"),
            ("set_watermark", {**EVENTS, "values": {"id": "7", "at": "a=b"}, "inclusive": True}),
        ),
        ((*RESET, "--partition", "", "--yes"), ("reset_watermark", {**EVENTS, "partition": ""})),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[str, dict[str, Any]]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


def test_watermarks_are_json_when_asked() -> None:
    found = document(invoke("watermark", "show", *START, "--json"))
    assert set(found) == {"watermarks"}
    assert found["watermarks"][0]["value"] == standin.MARK


def test_watermarks_show_the_newest_partitions_first_and_count_the_rest() -> None:
    lines = text(standin.WATERMARKS[0].page()).splitlines()
    first = next(number for number, line in enumerate(lines) if line.split()[:1] == ["partition"])
    assert lines[first + 1].split() == ["date=2026-01-28", "28.ndjson"]
    assert "  … and 8 more partitions; --json lists all" in lines


def test_watermarks_show_what_is_wrong_before_what_is_well() -> None:
    shown = text(standin.WATERMARKS[0].page())
    failed, reading, finished = (shown.index(f"28/{name}.ndjson") for name in "acb")
    assert failed < reading < finished
    assert "failed: line 3: not JSON (2 attempts)" in shown
    assert "in progress: 4,000 records read" in shown


def test_files_at_the_top_level_have_a_name() -> None:
    view = replace(standin.WATERMARKS[0], tables=state_tables({"": "a.ndjson"}, {}, {}))
    assert "(top level)" in text(view.page())


def test_no_source_is_told_in_words() -> None:
    assert "no source was selected" in text(Sections("watermarks", ()).page())
    assert "no source was selected" in text(Sections("sources", ()).page())


def test_history_shows_each_position_and_what_is_not_known() -> None:
    lines = invoke("watermark", "history", *START).stdout.splitlines()
    assert lines[0] == "events/asia"
    assert lines[2].split() == ["12", "2026-01-28", "14:30:05Z", "run", "40", "250,000", "17", standin.MARK]
    assert lines[3].endswith("?  unknown: its document is missing")
    assert lines[4] == "  older commits omitted; --limit 0 shows all"
    assert lines[6:] == ["events/europe", "  no commit yet", "  note: the table cannot be opened"]


def test_history_is_json_when_asked() -> None:
    found = json.loads(invoke("watermark", "history", *START, "--json").stdout)
    assert found == {"sources": [each.to_json() for each in standin.HISTORY]}


COMPLETE = [(*SET, "--to", "d=1/a"), (*RESET, "--all")]


@pytest.mark.parametrize("arguments", COMPLETE, ids=["set", "reset"])
def test_without_a_terminal_or_an_answer_nothing_is_begun(arguments: tuple[str, ...]) -> None:
    api = StandIn()
    for given in (arguments, (*arguments, "--json")):
        result = invoke(*given, api=api)
        assert result.exit_code == 2
        assert "pass --yes, or --dry-run" in result.stderr
    assert api.calls == []


@pytest.mark.parametrize("arguments", COMPLETE, ids=["set", "reset"])
def test_a_dry_run_shows_what_it_would_mean_and_ends_well(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments, "--dry-run")
    assert result.exit_code == 0
    assert "nothing was changed" in result.stdout
    assert "read again" in result.stdout
    assert document(invoke(*arguments, "--dry-run", "--json"))["applied"] is False


@pytest.mark.parametrize("arguments", COMPLETE, ids=["set", "reset"])
def test_with_yes_it_is_done(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments, "--yes")
    assert result.exit_code == 0
    assert "committed as" in result.stdout
    assert document(invoke(*arguments, "--yes", "--json"))["applied"] is True


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (SET, "--to PATH"),
        ((*SET, "--to", "a", "--name", "b"), "--to PATH"),
        ((*SET, "--partition", "d=1"), "--to PATH"),
        (RESET, "--partition DIR or --all"),
        ((*RESET, "--all", "--partition", "d=1"), "--partition DIR or --all"),
        ((*SET, "--value", "id"), "give COLUMN=VALUE"),
    ],
)
def test_what_is_meant_must_be_said_once(arguments: tuple[str, ...], told: str) -> None:
    result = invoke(*arguments, "--yes")
    assert (result.exit_code, told in result.stderr) == (2, True)


@pytest.mark.parametrize(("partition", "path"), [("d=1/", "d=1/a"), ("", "a")])
def test_directory_and_name_are_a_path(partition: str, path: str) -> None:
    api = StandIn()
    invoke(*SET, "--partition", partition, "--name", "a", "--yes", api=api)
    assert api.calls == [("set_watermark", {**EVENTS, "to": path})]


def test_a_source_without_a_table_keeps_where_its_first_run_begins() -> None:
    move = replace(standin.MOVE, applied=True, table_version=-1)
    assert text(tuple(move.outcome(View()))) == "\n  saved: the first run begins there"
