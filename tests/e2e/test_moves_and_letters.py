"""A watermark that goes down answers the open letters of the files that are read again: each bad line is one letter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tidegate
from support.lake import Lake
from tidegate.failpoints import arm
from tidegate.protocol.delta import query
from tidegate.reports.watermark import WatermarkMove
from tidegate.schema.dead_letter import Letter
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri

DAY = "date=2026-01-28"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three files, each with a good line and a bad one, read."""
    lake = Lake(tmp_path)
    for number in range(3):
        lake.write(f"{DAY}/{number}.ndjson", f'{{"id": {number}}}\nbad {number}\n')
    assert lake.run().ok
    return lake


def letters(lake: Lake) -> list[tuple[str | None, str | None]]:
    return [(letter.file, letter.text) for letter in found(lake)]


def found(lake: Lake) -> tuple[Letter, ...]:
    return tidegate.list_letters(lake.config, "events")


def down(lake: Lake, confirm: Callable[[WatermarkMove], bool] = lambda move: True) -> WatermarkMove:
    return tidegate.set_watermark(lake.config, "events", to=f"{DAY}/0.ndjson", confirm=confirm)


ALL = [(f"{DAY}/{number}.ndjson", f"bad {number}") for number in range(3)]


def test_the_move_answers_them_and_the_run_finds_the_lines_anew_once(lake: Lake) -> None:
    before = {letter.id for letter in found(lake)}
    move = down(lake)
    assert (move.applied, move.letters) == (True, 2)
    assert "2 dead letters of these files are resolved: the run reads the files again" in move.notes
    assert letters(lake) == ALL[:1]
    assert tidegate.status(lake.config)[0].open_letters == 1
    assert lake.run().ok
    assert letters(lake) == ALL
    assert len(before & {letter.id for letter in found(lake)}) == 1
    assert tidegate.status(lake.config)[0].open_letters == 3
    answers = query(
        Location(absolute_uri("lake/events_dead_letters", lake.root)), "select reason from t where kind = 'resolution'"
    )
    assert [row["reason"] for row in answers] == ["read again"] * 2


def test_what_is_only_shown_answers_nothing(lake: Lake) -> None:
    move = down(lake, lambda move: False)
    assert (move.applied, move.letters) == (False, 2)
    assert letters(lake) == ALL


def test_a_reset_answers_all_of_them(lake: Lake) -> None:
    assert tidegate.reset_watermark(lake.config, "events", confirm=lambda move: True).letters == 3
    assert lake.run().ok
    assert letters(lake) == ALL


def test_the_letter_of_a_file_that_is_gone_stays_open(lake: Lake) -> None:
    (lake.root / "data" / DAY / "2.ndjson").unlink()
    assert down(lake).letters == 1
    assert letters(lake) == [ALL[0], ALL[2]]


def test_a_watermark_that_goes_up_answers_nothing(lake: Lake) -> None:
    lake.arrive(f"{DAY}/3.ndjson")
    assert tidegate.set_watermark(lake.config, "events", to=f"{DAY}/3.ndjson", confirm=lambda move: True).letters == 0
    assert letters(lake) == ALL


def test_a_move_that_died_before_its_answers_were_visible_pays_them_first(lake: Lake) -> None:
    arm("state.debt.before=raise")
    try:
        down(lake)
    finally:
        arm("")
    assert letters(lake) == ALL
    assert lake.run().ok
    assert letters(lake) == ALL
