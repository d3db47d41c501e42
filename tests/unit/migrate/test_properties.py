"""The form of Java properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.migrate.properties import Property, properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [(1, "a", "b")]),
        ("a = b c ", [(1, "a", "b c")]),
        ("a:b", [(1, "a", "b")]),
        ("a b", [(1, "a", "b")]),
        ("  a=b", [(1, "a", "b")]),
        ("a=b=c:d", [(1, "a", "b=c:d")]),
        ("a=", [(1, "a", "")]),
        ("a", [(1, "a", "")]),
        ("# a=b\n! c=d\n\n   \ne=f", [(5, "e", "f")]),
        ("a=1,\\\n   2,\\\r\n\t3\nb=4", [(1, "a", "1,2,3"), (4, "b", "4")]),
        ("a=1\\\\\nb=2", [(1, "a", "1\\"), (2, "b", "2")]),
        ("a=1\\", [(1, "a", "1")]),
        ("a=\\\n# no comment", [(1, "a", "# no comment")]),
        ("a\\=b\\:c\\ d=e", [(1, "a=b:c d", "e")]),
        ("a=\\u0041\\t\\n\\z", [(1, "a", "A\t\nz")]),
        ('a={"b": "c#d"}', [(1, "a", '{"b": "c#d"}')]),
        ("a=1\na=2", [(1, "a", "1"), (2, "a", "2")]),
        ("a=1\rb=2", [(1, "a", "1"), (2, "b", "2")]),
    ],
)
def test_properties(text: str, expected: list[tuple[int, str, str]]) -> None:
    assert list(properties(text)) == [Property(*each) for each in expected]


@given(st.text())
def test_any_text_has_properties_or_none(text: str) -> None:
    lines = [each.line for each in properties(text)]
    assert lines == sorted(set(lines))
