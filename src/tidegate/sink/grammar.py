"""Whether lines are JSON objects: the grammar of RFC 8259 over whole blocks, before any parser sees them.

The quick parser forgives: it takes ``01``, ``1.``, ``-.5`` and ``1e0+1`` for numbers and skips commas, too many as well
as too few. A regular expression, which RE2 runs in one pass without going back, has no such mercy: every text, escape
(surrogate pairs included), number, literal and comma is where and as the grammar has it. What it cannot tell is whether
brackets match and whether a key stands in an object; that no parser forgives. Nor does it look at UTF-8, which all of
them check. So what the expression and a parser accept is JSON, whatever stands beside it.

Depth is bounded here, too: far above :data:`~tidegate.schema.literals.DEEPEST` levels a native parser ends the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.schema.literals import DEEPEST, depth
from tidegate.sink.relaxed import FRACTION_DIGITS

_NEWLINE = 10
_BLANK = r"[ \t\r]*"
_HEX = "[0-9a-fA-F]"
_PAIR = rf"[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
_SINGLE = rf"(?:[0-9a-ceA-CEfF]{_HEX}|[dD][0-7]){_HEX}{{2}}"
_TEXT = rf'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u(?:{_SINGLE}|{_PAIR})))*"'
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_USUAL_NUMBER = rf"-?(?:0|[1-9][0-9]*)(?:\.[0-9]{{1,{FRACTION_DIGITS}}})?(?:[eE]\+?[0-9]+)?"
_KEY = rf"{_TEXT}{_BLANK}:{_BLANK}"
_EMPTY = rf"\{{{_BLANK}\}}|\[{_BLANK}\]"


def _object(number: str) -> str:
    """The expression for a line; a value is read up to its first end: what it opens, and what is whole inside first."""
    value = rf"(?:\{{{_BLANK}{_KEY}|\[{_BLANK})*(?:{_TEXT}|{number}|true|false|null|{_EMPTY})"
    rest = rf"(?:{_BLANK}(?:[}}\]]|,{_BLANK}(?:{_KEY})?{value}))*"
    return rf"{_BLANK}\{{{_BLANK}(?:{_KEY}{value}{rest}{_BLANK})?\}}{_BLANK}"


_USUAL_BLOCK = rf"^(?:{_object(_USUAL_NUMBER)}\n)*$"
_BLOCK = rf"^(?:{_object(_NUMBER)}\n)*$"
_LINE = rf"^{_object(_NUMBER)}$"


@dataclass(frozen=True, slots=True)
class Objects:
    """A block of so many lines, each an object; ``has_tiny`` where a number has very many digits behind the point."""

    lines: int
    has_tiny: bool


def objects(block: bytes) -> Objects | None:
    """What a block is if each line is well-formed, an object, and not nested too deeply; else None."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
    if not len(ends) or _may_be_deep(block, ends):
        return None
    if matches(block, _USUAL_BLOCK):
        return Objects(len(ends), has_tiny=False)
    return Objects(len(ends), has_tiny=True) if matches(block, _BLOCK) else None


def matches(block: bytes, expression: str) -> bool:
    """Whether an expression of RE2 is found in a block."""
    bounds = pa.py_buffer(np.array([0, len(block)], np.int64))
    whole = pa.Array.from_buffers(pa.large_binary(), 1, [None, bounds, pa.py_buffer(block)])
    return bool(pc.match_substring_regex(whole, expression)[0].as_py())


def are_objects(lines: Sequence[bytes]) -> npt.NDArray[np.bool_]:
    """The same for each of some lines."""
    shallow = np.fromiter((depth(line) <= DEEPEST for line in lines), bool, len(lines))
    matched = pc.match_substring_regex(pa.array(lines, pa.large_binary()), _LINE)
    found: npt.NDArray[np.bool_] = shallow & matched.to_numpy(zero_copy_only=False).astype(bool)
    return found


def _may_be_deep(block: bytes, ends: npt.NDArray[np.int64]) -> bool:
    """Whether a line is nested too deeply; looks closely only at lines with so many brackets."""
    starts = np.concatenate(([0], ends[:-1] + 1))
    if int((ends - starts).max()) <= 2 * DEEPEST:
        return False
    content = np.frombuffer(block, np.uint8)
    opening = np.flatnonzero((content | 32) == ord("{"))
    counts = np.searchsorted(opening, ends) - np.searchsorted(opening, starts)
    many = np.flatnonzero(counts > DEEPEST)
    return any(depth(block[starts[line] : ends[line]]) > DEEPEST for line in many)
