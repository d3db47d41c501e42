"""JSON lines for tests of readers: made and broken at random, and the table of texts that are JSON or not."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from hypothesis import strategies as st

TABLE = [
    (line[:1] == "+", ast.literal_eval(line[2:]))
    for line in Path(__file__).with_name("json_texts.txt").read_text().splitlines()
    if line[:1] in "+-"
]
"""Whether each text is JSON, and the text."""

NAMES = st.sampled_from([*"ifnstulmjakoqrwxgbd", "zz", "null", "é", 'q"'])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from(["2026-01-28T00:00:00Z", ":null", "\\", '"', "\x00", "😀"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
STYLES = st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")])
TOKENS = st.sampled_from(
    [
        *'{}[]:,"\\0123456789.eE+-',
        "null",
        "true",
        "01",
        "1.",
        "\\u0041",
        "\\ud800",
        "\\ud83d\\ude00",
        " ",
        "\t",
        "NaN",
        "[" * 250,
        "é",
    ]
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    record = draw(st.dictionaries(NAMES, VALUES, max_size=5))
    text = json.dumps(record, separators=draw(STYLES), ensure_ascii=draw(st.booleans()))
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(text)))
        end = min(start + draw(st.integers(0, 3)), len(text))
        text = text[:start] + draw(TOKENS | st.just("")) + text[end:]
    content = text.encode("utf-8", "replace").replace(b"\n", b"")
    if draw(st.integers(0, 9)) == 0:
        place = draw(st.integers(0, len(content)))
        content = content[:place] + draw(st.binary(min_size=1, max_size=2)).replace(b"\n", b"") + content[place:]
    return content
