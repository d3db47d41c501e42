"""Blocks of whole lines: nothing lost at their seams, lines counted as they lie in the file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import SourceError
from tidegate.formats import json as lines_module
from tidegate.formats.json import LineTooLong, blocks, skip_lines

CHUNKS = st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\xef", b"x")), max_size=12)


@given(CHUNKS, st.integers(1, 20))
def test_blocks_are_whole_lines_and_together_the_content(chunks: list[bytes], size: int) -> None:
    content = b"".join(chunks)
    found = list(blocks(chunks, block_bytes=size))
    assert all(block.endswith(b"\n") for block in found)
    assert b"".join(found) == (content if content.endswith(b"\n") or not content else content + b"\n")


@given(CHUNKS, st.integers(1, 20), st.integers(0, 10))
def test_skipping_leaves_exactly_the_later_lines(chunks: list[bytes], size: int, count: int) -> None:
    whole = b"".join(blocks(chunks, block_bytes=size))
    expected = whole.split(b"\n")[:-1]
    parts = skip_lines(blocks(chunks, block_bytes=size), count, "f")
    if count > len(expected):
        with pytest.raises(SourceError, match=f"f: has {len(expected)} lines, but {count}"):
            list(parts)
    else:
        assert b"".join(parts).split(b"\n")[:-1] == expected[count:]


@pytest.mark.parametrize("chunks", [[b"\xef\xbb\xbf{}\n"], [b"\xef", b"\xbb", b"\xbf", b"{}"], [b"\xef\xbb\xbf"]])
def test_a_byte_order_mark_is_dropped(chunks: list[bytes]) -> None:
    assert b"".join(blocks(chunks)) in (b"{}\n", b"")


def test_a_line_that_never_ends_is_an_error_before_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 1000)
    with pytest.raises(LineTooLong):
        list(blocks((b"x" * 100 for _ in range(1_000_000)), block_bytes=200))
