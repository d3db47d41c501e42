"""The kinds of cells of a whole column are those of its cells one by one."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.schema.inference import cell_kind
from tidegate.schema.types import examples_of

CELLS = st.sampled_from(
    ["0", "-7", "007", "1.5", "1e9", "TRUE", "false", "true\n", "5\n", "", "9" * 18, "9" * 19, "ä", "-", "."]
)


@given(st.lists(st.none() | CELLS | st.text("0123456789-.eE\n", max_size=5)))
def test_a_column_has_the_kinds_of_its_cells(cells: list[str | None]) -> None:
    found = examples_of(pa.array(cells, pa.string()))
    assert set(found) == {cell_kind(cell) for cell in cells if cell is not None}
    assert all(cell_kind(cell) == kind and cell in cells for kind, cell in found.items())
