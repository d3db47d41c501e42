"""Names in a configuration are those of the rows, whatever their case."""

from __future__ import annotations

import pytest

from tidegate.errors import SchemaMismatch
from tidegate.schema.names import spell


def test_a_column_is_found_in_any_spelling_and_its_own_goes_first() -> None:
    assert spell("updated_at", ["ID", "UPDATED_AT"]) == "UPDATED_AT"
    assert spell("a", ["A", "a"]) == "a"
    assert spell("nothing", ["a"]) == "nothing"


def test_a_name_that_may_be_two_columns_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="column 'aB' may be 'AB' or 'ab'"):
        spell("aB", ["AB", "ab"])
