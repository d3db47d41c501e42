"""``tidegate files``: what is asked of the ledger, and what is shown of its answers."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tidegate.reports.ledger import FilesReport, FileTotals
from tidegate.reports.render import to_lines
from unit.cli import standin
from unit.cli.standin import StandIn, invoke

START = ("t.yml", "-p", "events")
EVENTS = {"config": Path("t.yml"), "pipeline": "events"}


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("files", *START), ("files", EVENTS)),
        (
            ("files", *START, "-s", "asia", "--match", "*.gz", "--position", "7", "--limit", "0"),
            ("files", {**EVENTS, "source": "asia", "match": "*.gz", "position": 7, "limit": 0}),
        ),
        (("files", *START, "--export", "x.parquet"), ("export_ledger", {**EVENTS, "to": Path("x.parquet")})),
        (("files", *START, "-s", "asia", "--compact"), ("compact_ledger", {**EVENTS, "source": "asia"})),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[str, dict[str, Any]]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-28", datetime(2026, 1, 28, tzinfo=UTC)),
        ("2026-01-28T14:30:00Z", datetime(2026, 1, 28, 14, 30, tzinfo=UTC)),
        ("2026-01-28T14:30:00+02:00", datetime(2026, 1, 28, 12, 30, tzinfo=UTC)),
    ],
)
def test_since_takes_dates_and_times_in_utc(text: str, moment: datetime) -> None:
    api = StandIn()
    invoke("files", *START, "--since", text, api=api)
    assert api.calls[0][1]["since"] == moment


@pytest.mark.parametrize(("text", "ago"), [("90m", timedelta(minutes=90)), ("12h", timedelta(hours=12))])
def test_since_takes_how_long_ago(text: str, ago: timedelta) -> None:
    api = StandIn()
    before = datetime.now(UTC)
    invoke("files", *START, "--since", text, api=api)
    assert before <= api.calls[0][1]["since"] + ago <= datetime.now(UTC)


@pytest.mark.parametrize("text", ["yesterday", "7w", "2026-13-01"])
def test_any_other_moment_is_refused_with_examples(text: str) -> None:
    result = invoke("files", *START, "--since", text)
    assert result.exit_code == 2
    assert "2026-01-28T14:30:00Z, 90m" in result.stderr


@pytest.mark.parametrize(
    "more", [("--match", "x"), ("--since", "1h"), ("--position", "1"), ("--ranges",), ("--export", "x.parquet")]
)
def test_the_whole_ledger_takes_no_selection(more: tuple[str, ...]) -> None:
    api = StandIn()
    assert invoke("files", *START, "--compact", *more, api=api).exit_code == 2
    assert api.calls == []


def test_files_are_shown_with_their_commit_their_progress_and_totals() -> None:
    lines = invoke("files", *START).stdout.splitlines()
    assert lines[0].split() == [
        *("file", "committed", "commit", "table", "version", "action", "read", "records", "rows", "bad")
    ]
    cells = [re.split(r"\s{2,}", line.strip()) for line in lines[1:4]]
    moment = "2026-01-28 14:30:05Z"
    assert cells == [
        [f"asia: {standin.MARK}", moment, "12", "17", "replay", "whole in 2 rounds", "10,000", "9,990", "10"],
        ["europe: b.ndjson", moment, "11", "-", "run", "up to record 4,000", "4,000", "3,990", "10"],
        ["europe: c.ndjson", moment, "12", "17", "run", "from record 4,000", "6,000", "6,000", "0"],
    ]
    assert lines[5] == "  3 files (1.0 MiB) in 2 commits: 20,000 records, 19,980 rows, 20 bad"
    assert "older files omitted; --limit 0 shows all" in lines[6]
    assert "files of commit 3 unknown: document x.json is damaged" in lines[7]
    assert "files of commits 5 to 9 unknown: its document is missing" in lines[8]
    assert "the newest position may be missing" in lines[9]


def test_each_range_is_shown_when_asked_newest_first() -> None:
    lines = invoke("files", *START, "--ranges").stdout.splitlines()
    assert lines[1].endswith("replay  4,000   10,000    6,000  6,000    0")
    assert lines[2].endswith("run         0  4,000 …    4,000  3,990   10")


def test_an_empty_ledger_is_no_empty_table() -> None:
    assert list(to_lines(FilesReport((), FileTotals(), complete=True).page())) == ["  no files"]


def test_files_are_json_when_asked() -> None:
    found = json.loads(invoke("files", *START, "--json").stdout)
    assert found == standin.FILES.to_json()
    assert found["files"][0]["ranges"][0]["committed_at"] == "2026-01-28T14:30:05Z"


def test_export_and_compaction_tell_what_they_did() -> None:
    assert invoke("files", *START, "--export", "x.parquet").stdout == (
        "  x.parquet: 1,200 rows, the ledger of 2 sources\n"
    )
    assert json.loads(invoke("files", *START, "--export", "x.parquet", "--json").stdout) == {
        "path": "x.parquet",
        "sources": 2,
        "rows": 1200,
    }
    assert invoke("files", *START, "--compact").stdout.splitlines() == [
        "  events/asia: 3 blocks written, 1,540 objects removed, now in blocks",
        "  events/europe: nothing to do",
    ]
    (asia, _) = json.loads(invoke("files", *START, "--compact", "--json").stdout)["sources"]
    assert asia == {"pipeline": "events", "source": "asia", "blocks": 3, "removed": 1540}
