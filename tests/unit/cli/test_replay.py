"""``tidegate replay``: what is passed on, what is shown, and how it ends."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tidegate.reports.replay import ChunkReport
from unit.cli import standin
from unit.cli.standin import StandIn, document, invoke

FILES = ("replay", "t.yml", "-p", "events", "--files", "*.gz")
RANGE = ("replay", "t.yml", "-p", "orders", "--start", "2026-01-01", "--end", "2026-04-01")
EVENTS = {"config": Path("t.yml"), "pipeline": "events"}
ORDERS = {"config": Path("t.yml"), "pipeline": "orders", "start": "2026-01-01", "end": "2026-04-01"}
REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "cli" / "replay.md"
FAILED = ChunkReport("2026-02-01", "2026-03-01", "failed", error="the database is away")


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (
            (*FILES, "-s", "asia", "--drop-missing", "--yes"),
            ("replay", {**EVENTS, "source": "asia", "files": "*.gz", "drop_missing": True}),
        ),
        ((*FILES[:-2], "--partition", "d=1", "--yes"), ("replay", {**EVENTS, "partition": "d=1"})),
        (
            (*RANGE, "--chunk", "months=1", "--chunk-column", "at", "--save-watermark", "--into", "lake/copy", "--yes"),
            (
                "replay_range",
                {
                    **ORDERS,
                    "chunk": {"months": 1},
                    "chunk_column": "at",
                    "save_watermark": True,
                    "into": "lake/copy",
                },
            ),
        ),
        (
            (*RANGE, "-s", "shop", "--workers", "4", "--fresh", "--again", "--skip-gap", "--allow-overlap", "--yes"),
            (
                "replay_range",
                {
                    **ORDERS,
                    "source": "shop",
                    "max_workers": 4,
                    "fresh": True,
                    "again": True,
                    "skip_gap": True,
                    "allow_overlap": True,
                },
            ),
        ),
    ],
)
def test_arguments_reach_the_function(arguments: tuple[str, ...], call: tuple[str, dict[str, Any]]) -> None:
    api = StandIn()
    result = invoke(*arguments, api=api)
    assert api.calls == [call]
    assert (result.exit_code, "error" in result.stderr) == (0, False)


@pytest.mark.parametrize(("text", "interval"), [("step=0.5", {"step": Decimal("0.5")}), ("hours=6", {"hours": 6})])
def test_a_chunk_is_a_unit_and_a_number(text: str, interval: dict[str, object]) -> None:
    api = StandIn()
    invoke(*RANGE, "--chunk", text, "--yes", api=api)
    assert api.calls[0][1]["chunk"] == interval


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (FILES[:-2], "--files PATTERN or --partition DIR"),
        ((*FILES, "--partition", "d=1"), "--files PATTERN or --partition DIR"),
        (RANGE[:-2], "give both --start and --end"),
        ((*RANGE, "--files", "*"), "give files or a range, not both"),
        ((*RANGE, "--chunk", "months"), "such as months=1"),
        ((*RANGE, "--workers", "0"), "--workers"),
    ],
)
def test_what_is_not_clear_is_refused_before_anything_is_done(given: tuple[str, ...], told: str) -> None:
    api = StandIn()
    result = invoke(*given, "--yes", api=api)
    assert (result.exit_code, told in result.stderr, api.calls) == (2, True, [])


@pytest.mark.parametrize("arguments", [FILES, RANGE], ids=["files", "range"])
def test_without_a_terminal_or_an_answer_nothing_is_begun(arguments: tuple[str, ...]) -> None:
    api = StandIn()
    for given in (arguments, (*arguments, "--json")):
        result = invoke(*given, api=api)
        assert result.exit_code == 2
        assert "pass --yes, or --dry-run" in result.stderr
    assert api.calls == []


def test_a_dry_run_shows_what_it_would_mean_and_ends_well() -> None:
    result = invoke(*FILES, "--dry-run")
    assert result.exit_code == 0
    assert "nothing was changed" in result.stdout
    assert "read again" in result.stdout
    assert document(invoke(*FILES, "--dry-run", "--json"))["applied"] is False


def test_with_yes_it_is_done() -> None:
    result = invoke(*FILES, "--yes")
    assert result.exit_code == 0
    assert "committed:" in result.stdout
    assert document(invoke(*FILES, "--yes", "--json"))["applied"] is True


def test_a_dry_run_shows_the_chunks_and_what_the_source_would_be_asked() -> None:
    planned = replace(standin.RANGE_REPLAY, chunks=(ChunkReport("2026-01-01", "2026-02-01", "planned"),), ok=False)
    result = invoke(*RANGE, "--dry-run", api=StandIn(replay_range=planned))
    assert result.exit_code == 0
    for text in (
        "orders/default: replay of updated_at",
        standin.RANGE_REPLAY.predicate,
        "planned",
        "nothing was changed",
    ):
        assert text in result.stdout


def test_a_replay_tells_what_it_committed_and_where_production_goes_on() -> None:
    result = invoke(
        *RANGE, "--yes", api=StandIn(replay_range=replace(standin.RANGE_REPLAY, saved="updated_at=2026-02-01"))
    )
    assert result.exit_code == 0
    assert "1 chunk committed, 7 rows" in result.stdout
    assert "runs continue at updated_at=2026-02-01" in result.stdout


def test_a_chunk_that_failed_is_named_and_the_command_ends_with_1() -> None:
    api = StandIn(replay_range=replace(standin.RANGE_REPLAY, chunks=(*standin.RANGE_REPLAY.chunks, FAILED), ok=False))
    result = invoke(*RANGE, "--yes", api=api)
    assert result.exit_code == 1
    assert "2026-02-01 to 2026-03-01: the database is away" in result.stdout
    assert "1 chunk left: run the same replay again" in result.stdout
    shown = invoke(*RANGE, "--yes", "--json", api=api)
    assert (shown.exit_code, document(shown)["chunks"][1]["error"]) == (1, "the database is away")


def test_every_key_of_the_json_is_in_the_reference() -> None:
    text = REFERENCE.read_text(encoding="utf-8").partition("Of a range of values:")[2].partition("\n## ")[0]
    told = set(re.findall(r"`(\w+)`", text))
    shown = document(invoke(*RANGE, "--yes", "--json"))
    assert {*shown, *shown["chunks"][0]} <= told
