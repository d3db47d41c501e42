"""The ranges of a data file hold exactly the records of its rows, from the first to the last of each source file."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidegate.parquet.parquet_file import Covering, RowOrigin
from tidegate.protocol.change import RecordRange


@st.composite
def origins(draw: st.DrawFn) -> tuple[RowOrigin, list[tuple[str, int]]]:
    """Rows of a block of some files, and file and record of each."""
    lengths = draw(st.lists(st.integers(0, 5), min_size=1, max_size=6))
    first_line = draw(st.integers(0, 100)) if len(lengths) == 1 else 0
    names = tuple(f"f{number}" for number in range(len(lengths)))
    starts = np.cumsum([0, *lengths[:-1]])
    every = [(name, line) for name, length in zip(names, lengths, strict=True) for line in range(length)]
    kept = sorted(draw(st.sets(st.integers(0, len(every) - 1)))) if every else []
    rows = [(every[number][0], every[number][1] + first_line) for number in kept]
    return RowOrigin(names, starts, np.array(kept, np.int64), first_line), rows


def expected(rows: list[tuple[str, int]]) -> list[RecordRange]:
    files = dict.fromkeys(name for name, _ in rows)
    own = {name: [line for found, line in rows if found == name] for name in files}
    return [RecordRange(name, min(lines), max(lines) + 1) for name, lines in own.items()]


@given(origins())
def test_ranges_go_from_the_first_row_of_each_file_to_the_last(drawn: tuple[RowOrigin, list[tuple[str, int]]]) -> None:
    origin, rows = drawn
    assert list(origin.ranges()) == expected(rows)


@given(origins(), st.integers(0, 30))
def test_parts_of_the_rows_add_up_to_the_whole(drawn: tuple[RowOrigin, list[tuple[str, int]]], at: int) -> None:
    origin, rows = drawn
    covering = Covering()
    for part in (slice(at, None), slice(0, at)):
        covering.add(origin.of(part).ranges())
    assert set(covering.ranges()) == set(expected(rows))
    assert list(origin.of(slice(0, at)).ranges()) == expected(rows[:at])
