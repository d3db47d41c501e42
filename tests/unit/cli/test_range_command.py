"""``tidegate replay`` of a range: what is passed on, what is shown, and how it ends."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tidegate.reports.correction import ChunkReport, ColumnReplayReport
from unit.cli.standin import RANGE_REPLAY, StandIn
from unit.cli.test_commands import document, invoke

RANGE = ("replay", "t.yml", "-p", "orders", "--start", "2026-01-01", "--end", "2026-04-01")
REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
FAILED = ChunkReport("2026-02-01", "2026-03-01", "failed", error="the database is away")


class Replayed(StandIn):
    """Gives back what it is told to."""

    def __init__(self, report: ColumnReplayReport) -> None:
        super().__init__()
        self.report = report

    def replay_range(self, *given: Any, confirm: Any, **named: Any) -> ColumnReplayReport:
        return replace(self.report, applied=confirm(self.report))


def test_the_range_is_passed_on_as_it_was_given() -> None:
    api = StandIn()
    given = ("--chunk", "months=1", "--chunk-column", "at", "--save-watermark", "--into", "lake/copy", "-s", "shop")
    assert invoke(*RANGE, *given, "--yes", api=api).exit_code == 0
    ((name, _, *rest),) = api.calls
    wanted = ["orders", "shop", "2026-01-01", "2026-04-01", {"months": 1}, "at", True, "lake/copy"]
    assert (name, rest) == ("replay_range", wanted)


@pytest.mark.parametrize(("text", "interval"), [("step=0.5", {"step": Decimal("0.5")}), ("hours=6", {"hours": 6})])
def test_a_chunk_is_a_unit_and_a_number(text: str, interval: dict[str, object]) -> None:
    api = StandIn()
    invoke(*RANGE, "--chunk", text, "--yes", api=api)
    assert api.calls[0][6] == interval


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((*RANGE[:-2], "--yes"), "give both --start and --end"),
        ((*RANGE, "--files", "*", "--yes"), "give files or a range, not both"),
        ((*RANGE, "--chunk", "months", "--yes"), "such as months=1"),
        ((*RANGE, "--workers", "0", "--yes"), "--workers"),
        (RANGE, "give --yes, or --dry-run"),
    ],
)
def test_what_is_not_clear_is_refused_before_anything_is_done(given: tuple[str, ...], told: str) -> None:
    api = StandIn()
    result = invoke(*given, api=api)
    assert (result.exit_code, told in result.stderr, api.calls) == (2, True, [])


def test_a_dry_run_shows_the_chunks_and_what_the_source_would_be_asked() -> None:
    planned = replace(RANGE_REPLAY, chunks=(ChunkReport("2026-01-01", "2026-02-01", "planned"),), ok=False)
    result = invoke(*RANGE, "--dry-run", api=Replayed(planned))
    assert result.exit_code == 0
    for text in ("orders/default: replay of updated_at", RANGE_REPLAY.predicate, "planned", "nothing was changed"):
        assert text in result.stdout


def test_a_replay_tells_what_it_committed_and_where_production_goes_on() -> None:
    result = invoke(*RANGE, "--yes", api=Replayed(replace(RANGE_REPLAY, saved="updated_at=2026-02-01")))
    assert result.exit_code == 0
    assert "1 chunk committed, 7 rows" in result.stdout
    assert "production goes on at updated_at=2026-02-01" in result.stdout


def test_a_chunk_that_failed_is_named_and_the_command_ends_with_1() -> None:
    api = Replayed(replace(RANGE_REPLAY, chunks=(*RANGE_REPLAY.chunks, FAILED), ok=False))
    result = invoke(*RANGE, "--yes", api=api)
    assert result.exit_code == 1
    assert "2026-02-01 to 2026-03-01: the database is away" in result.stdout
    assert "1 chunk left: run the same replay again" in result.stdout
    shown = invoke(*RANGE, "--yes", "--json", api=api)
    assert (shown.exit_code, document(shown)["chunks"][1]["error"]) == (1, "the database is away")


def test_every_key_of_the_json_is_in_the_reference() -> None:
    text = REFERENCE.read_text(encoding="utf-8").partition("**A range of values**")[2].partition("\n## ")[0]
    told = set(re.findall(r"`(\w+)`", text.partition("With `--json`")[2]))
    shown = document(invoke(*RANGE, "--yes", "--json"))
    assert {*shown, *shown["chunks"][0]} <= told
