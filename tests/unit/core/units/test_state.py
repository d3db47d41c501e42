"""The state of work units: what is forgotten on request, and its compact JSON."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from support.errors import raises
from tidegate.core.columns.state import decode_columns
from tidegate.core.units.state import (
    Coverage,
    Failure,
    UnitEntry,
    UnitState,
    add_range,
    clip,
    decode_units,
    encode_units,
    high_of,
    interval_at,
    remove_range,
)
from tidegate.errors import StateError

HOUR = 3_600_000
START = 438_288 * HOUR
STATE = UnitState(
    zone="Europe/Berlin",
    grid="system: daily at 00:00:00",
    runs=7,
    entries={
        "a": UnitEntry(((START, START + 24 * HOUR), (START + 48 * HOUR, START + 72 * HOUR))),
        "b": UnitEntry(((START, START + 24 * HOUR), (START + 48 * HOUR, START + 72 * HOUR))),
        "c": UnitEntry(((-5 * HOUR, START),), (-2 * HOUR, HOUR), ((START, START + HOUR),), START),
        "": UnitEntry(),
    },
    failures={("b", START): Failure(3, 6, "refused"), ("c", 0): Failure(1, 7, "")},
    retired={"d": "404"},
    input_version="12",
    updated=datetime(2026, 3, 8, 12, 0, 0, 123456, tzinfo=UTC),
)


def text_of(state: UnitState) -> str:
    return json.dumps(encode_units(state), separators=(",", ":"))


def test_a_state_survives_its_json() -> None:
    assert decode_units(json.loads(text_of(STATE))) == STATE
    assert decode_units({}) == UnitState()
    assert decode_units(json.loads(text_of(UnitState()))) == UnitState()


def test_units_that_were_read_alike_share_an_entry() -> None:
    assert encode_units(STATE)["tick"] == HOUR
    assert encode_units(STATE)["entries"] == [
        [[""]],
        [["a", "b"], [438_288, 24, 24, 24]],
        [["c"], [-5, 438_293], [-2, 3], [438_288, 1], 438_288],
    ]


def test_equal_states_give_equal_text() -> None:
    turned = UnitState(entries=dict(reversed(STATE.entries.items())))
    assert text_of(turned) == text_of(UnitState(entries=STATE.entries))


def test_units_of_equal_entries_are_one_object_again() -> None:
    entries = decode_units(encode_units(STATE)).entries
    assert entries["a"] is entries["b"]


def test_200_units_of_1000_hours_take_9_kb() -> None:
    entries = {f"survey-{each:04}": UnitEntry(((START, START + (1000 - each) * HOUR),)) for each in range(200)}
    assert len(text_of(UnitState(entries=entries))) < 9_000
    alike = dict.fromkeys(entries, UnitEntry(((START, START + 1000 * HOUR),)))
    assert len(text_of(UnitState(entries=alike))) < 4_000


@pytest.mark.slow
def test_200_000_units_take_a_few_hundred_kb_in_the_log() -> None:
    entries = {f"survey-{each:06}": UnitEntry(((START, START + (each % 50) * HOUR + HOUR),)) for each in range(200_000)}
    packed = base64.b64encode(zlib.compress(text_of(UnitState(entries=entries)).encode(), 6))
    assert len(packed) < 900_000


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda state: state.update(surprise=1), "surprise"),
        (lambda state: state.update(kind="column"), "work units"),
        (lambda state: state.pop("kind"), "work units"),
        (lambda state: state.update(schema_version=2), "schema_version 2"),
        (lambda state: state.update(zone=None), "state.zone … string … None"),
        (lambda state: state.pop("grid"), "state.grid … string"),
        (lambda state: state.update(runs=-1), "state.runs"),
        (lambda state: state.update(tick=0), "state.tick … milliseconds"),
        (lambda state: state.update(tick=1.5), "state.tick"),
        (lambda state: state.update(entries={}), "state.entries … list"),
        (lambda state: state.update(entries=[1]), "state.entries[0] … list"),
        (lambda state: state.update(entries=[[]]), "state.entries[0] … four"),
        (lambda state: state.update(entries=[[["a"], [], [], [], None, 1]]), "state.entries[0] … four"),
        (lambda state: state.update(entries=[[[], [1, 2]]]), "state.entries … once"),
        (lambda state: state.update(entries=[[["a", "a"]]]), "state.entries … once"),
        (lambda state: state.update(entries=[[["a"]], [["a"]]]), "state.entries … once"),
        (lambda state: state.update(entries=[[[1]]]), "state.entries[0][0][0] … string"),
        (lambda state: state.update(entries=[[["a"], [1]]]), "beginnings … ends"),
        (lambda state: state.update(entries=[[["a"], [1, 0]]]), "above 0"),
        (lambda state: state.update(entries=[[["a"], [1, -2]]]), "above 0"),
        (lambda state: state.update(entries=[[["a"], [1, True]]]), "state.entries[0][1] … whole number … True"),
        (lambda state: state.update(entries=[[["a"], [1, "2"]]]), "state.entries[0][1] … whole number … '2'"),
        (lambda state: state.update(entries=[[["a"], [], [3, 0]]]), "above 0"),
        (lambda state: state.update(entries=[[["a"], [], [], [3]]]), "beginnings … ends"),
        (lambda state: state.update(entries=[[["a"], [], [], [], "x"]]), "state.entries[0][4] … whole number … 'x'"),
        (lambda state: state.update(failures=[["a", 1]]), "state.failures[0] … unit, start, count, run"),
        (lambda state: state.update(failures=[["a", 1, -1, 1, ""]]), "state.failures[0] … 0 or more … -1"),
        (lambda state: state.update(failures=[["a", 1, 0, 1, ""]]), "state.failures[0] … 1 or more"),
        (lambda state: state.update(failures=[["a", 1, 1, 1, ""], ["a", 1, 2, 1, ""]]), "state.failures … once"),
        (lambda state: state.update(retired=[]), "state.retired … object"),
        (lambda state: state.update(retired={"a": 1}), "state.retired … string … 1"),
        (lambda state: state.update(input_version=12), "state.input_version"),
        (lambda state: state.update(updated="yesterday"), "state.updated"),
        (lambda state: state.update(updated="2026-03-08T12:00:00"), "state.updated … zone"),
    ],
)
def test_a_damaged_state_is_refused_with_the_place(damage: Callable[[dict[str, Any]], Any], problem: str) -> None:
    state = json.loads(text_of(STATE))
    damage(state)
    with raises(StateError, problem):
        decode_units(state)


def test_states_of_other_kinds_are_not_taken_for_each_other() -> None:
    with raises(StateError, "watermark columns"):
        decode_columns(encode_units(STATE))


def test_resetting_forgets_what_was_read_and_remembers_that_rows_may_be_there() -> None:
    state = UnitState(entries={"a": UnitEntry(((0, 100),), (50,)), "b": UnitEntry(((0, 100),))})
    assert state.without_units(["a"], 20, 40).entries == {
        "a": UnitEntry(((0, 20), (40, 100)), (50,), ((20, 40),)),
        "b": UnitEntry(((0, 100),)),
    }
    assert state.without_units(None, None, None).entries == {
        "a": UnitEntry((), (50,), ((0, 100),)),
        "b": UnitEntry((), (), ((0, 100),)),
    }
    twice = state.without_units(["a"], 20, 40).without_units(["a"], 30, None)
    assert twice.entries["a"] == UnitEntry(((0, 20),), (50,), ((20, 100),))


def test_retrying_forgets_failures_and_takes_units_back() -> None:
    state = STATE.forget_failures(["b", "d"])
    assert (dict(state.failures), dict(state.retired)) == ({("c", 0): Failure(1, 7, "")}, {})
    assert (STATE.forget_failures(None).failures, STATE.forget_failures(None).retired) == ({}, {})
    assert state.entries == STATE.entries


TWO: Coverage = ((10, 20), (30, 40))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 5, ((0, 5), (10, 20), (30, 40))),
        (0, 10, ((0, 20), (30, 40))),
        (20, 30, ((10, 40),)),
        (15, 35, ((10, 40),)),
        (12, 18, TWO),
        (22, 28, ((10, 20), (22, 28), (30, 40))),
        (5, 45, ((5, 45),)),
        (40, 50, ((10, 20), (30, 50))),
        (25, 25, TWO),
    ],
)
def test_joined(low: int, high: int, expected: Coverage) -> None:
    assert add_range(TWO, low, high) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, TWO),
        (10, 20, ((30, 40),)),
        (12, 18, ((10, 12), (18, 20), (30, 40))),
        (15, 35, ((10, 15), (35, 40))),
        (0, 100, ()),
        (20, 30, TWO),
        (15, 15, TWO),
    ],
)
def test_without(low: int, high: int, expected: Coverage) -> None:
    assert remove_range(TWO, low, high) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(15, 35, ((15, 20), (30, 35))), (15, None, ((15, 20), (30, 40))), (20, 30, ())]
)
def test_within(low: int, high: int | None, expected: Coverage) -> None:
    assert clip(TWO, low, high) == expected


@pytest.mark.parametrize(
    ("moment", "expected"),
    [(9, None), (10, (10, 20)), (19, (10, 20)), (20, None), (30, (30, 40)), (40, None)],
)
def test_interval_at(moment: int, expected: tuple[int, int] | None) -> None:
    assert interval_at(TWO, moment) == expected


@pytest.mark.parametrize(
    ("start", "nominal_end", "expected"),
    [
        (10, 15, 15),
        (10, 20, 20),
        (10, 25, 20),
        (10, None, 20),
        (12, 25, 20),
        (5, 25, None),
        (20, 30, None),
        (30, 100, 40),
        (50, 60, None),
    ],
)
def test_the_high_watermark_ends_where_reading_was_interrupted(
    start: int, nominal_end: int | None, expected: int | None
) -> None:
    assert high_of(TWO, start, nominal_end) == expected
