"""Filters of secondary inputs are regular expressions, whatever brackets they hold."""

from __future__ import annotations

import re

import pytest

from tidegate.specs.units import filter_expression


@pytest.mark.parametrize(("pattern", "text"), [("[[]x", "[x"), ("(open|closed)", "open"), ("[a||b]", "|")])
def test_a_bracket_in_a_set_means_itself_and_nobody_is_warned(pattern: str, text: str) -> None:
    assert filter_expression(pattern).fullmatch(text)


def test_what_is_no_expression_is_refused() -> None:
    with pytest.raises(re.error):
        filter_expression("[[")
