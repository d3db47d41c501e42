"""Proof that a block says exactly what was parsed from it, by counting punctuation.

The vectorised parser skips unknown fields, lets a repeated key win over the first and takes a quoted number for a
number. All of these leave a trace: every key brings a colon and two quotes, every text two quotes. What the parsed
columns explain is subtracted from what stands in the block, then what stands inside the parsed texts. Nothing of that
can be negative, so if nothing is left, nothing was skipped, repeated or quoted, anywhere in the block. If something is
left, the block is suspicious, and only a slower look can tell.

Explicit nulls look like absent keys in the columns, so they are counted in the block, with the colon before them. A key
that is repeated after a null therefore passes: no value was lost. A key that itself reads like a null behind a colon
would be counted as one too many, so a block with such a key is suspicious. Lines are known to be well-formed
(:mod:`~tidegate.sink.grammar`). Punctuation written as an escape (``\\u003a``) would upset the sums: such blocks must
not come here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.sink.grammar import matches
from tidegate.sink.relaxed import Suspicious

Bytes = npt.NDArray[np.uint8]

_COLON, _QUOTE = 58, 34
_STEP = 512 * 1024
_NULL = np.uint32(int.from_bytes(b"null", "little"))
_IS_BLANK = np.zeros(256, bool)
_IS_BLANK[list(b" \t\r")] = True
_MAY_OPEN = np.zeros(256, bool)
_MAY_OPEN[list(b" \t\r{,\\")] = True
"""What stands before a quote that opens a key, or that is a character of it."""

_KEY_WITH_NULL = r'"(?:[^"\\]|\\.)*:[ \t\r]*null(?:[^"\\]|\\.)*"[ \t\r]*:'


@dataclass(slots=True)
class Parsed:
    """What the columns of a block hold, added up over all depths."""

    keys: int = 0
    texts: int = 0
    text_arrays: list[pa.Array] = field(default_factory=list)

    def count(self, byte: int) -> int:
        """How often ``byte`` stands inside the texts."""
        return sum(_counts(text_bytes(array), (byte,))[0] for array in self.text_arrays)

    def null_values(self) -> int:
        """How often what looks like a null behind a colon stands inside the texts."""
        return sum(len(_null_values(text_bytes(array), _text_starts(array))) for array in self.text_arrays)


def verify(block: bytes, batch: pa.RecordBatch, *, quoted_numbers: bool = False) -> None:
    """Raise :class:`Suspicious` unless ``block``, each line an object, holds ``batch`` and nothing else.

    With ``quoted_numbers`` a number may stand in quotes.
    """
    content = np.frombuffer(block, np.uint8)
    parsed = _parsed(batch)
    colons, quotes = _counts(content, (_COLON, _QUOTE))
    keys = parsed.keys
    if colons != keys:
        keys += _explicit_nulls(block, content, parsed, colons - keys)
    left = quotes - 2 * (keys + parsed.texts)
    if left and left != parsed.count(_QUOTE) and not quoted_numbers:
        raise Suspicious("values in quotes that are no texts")


def _explicit_nulls(block: bytes, content: Bytes, parsed: Parsed, left: int) -> int:
    left -= parsed.count(_COLON)
    if left == 0:
        return 0
    found = _null_values(content)
    if left < 0 or left != len(found) - parsed.null_values():
        raise Suspicious("unknown fields or repeated keys")
    ends = content[found - 1] == _QUOTE
    if (~ends | _MAY_OPEN[content[found - 2]]).any() and matches(block, _KEY_WITH_NULL):
        raise Suspicious("a key that holds what looks like a null")
    return left


def _parsed(batch: pa.RecordBatch) -> Parsed:
    parsed = Parsed()
    for column in batch.columns:
        parsed.keys += len(column) - column.null_count
        _add(parsed, column)
    return parsed


def _add(parsed: Parsed, array: pa.Array) -> None:
    kind = array.type
    if pa.types.is_string(kind):
        parsed.texts += len(array) - array.null_count
        parsed.text_arrays.append(array)
    elif pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            child = array.field(index)
            parsed.keys += len(child) - child.null_count
            _add(parsed, child)
    elif pa.types.is_map(kind):
        parsed.keys += len(array.items) - array.items.null_count
        parsed.text_arrays.append(array.keys)
        _add(parsed, array.items)
        if has_repeated_keys(array):
            raise Suspicious("a repeated key in a map")
    elif pa.types.is_list(kind):
        _add(parsed, array.values)


def has_repeated_keys(maps: pa.Array) -> bool:
    """Whether one of the maps has a key twice."""
    rows = np.repeat(np.arange(len(maps)), np.diff(maps.offsets.to_numpy()))
    codes = maps.keys.dictionary_encode()
    pairs = rows * (len(codes.dictionary) + 1) + codes.indices.to_numpy()
    return len(np.unique(pairs)) != len(pairs)


def text_bytes(array: pa.Array) -> Bytes:
    """The bytes of all texts of an array, one behind the other."""
    data = array.buffers()[2]
    if data is None or not len(array):
        return np.empty(0, np.uint8)
    bounds = _bounds(array)
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]


def _text_starts(array: pa.Array) -> npt.NDArray[np.int32]:
    """Where in these bytes each text begins."""
    bounds = _bounds(array)
    return bounds - bounds[0] if len(bounds) else bounds


def _bounds(array: pa.Array) -> npt.NDArray[np.int32]:
    offsets = array.buffers()[1]
    if offsets is None or not len(array):
        return np.empty(0, np.int32)
    return np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]


def _counts(content: Bytes, wanted: tuple[int, ...]) -> list[int]:
    """Each of ``wanted``, in steps that stay in the processor's cache."""
    totals = [0] * len(wanted)
    mask = np.empty(min(_STEP, len(content)), bool)
    for start in range(0, len(content), _STEP):
        piece = content[start : start + _STEP]
        found = mask[: len(piece)]
        for index, byte in enumerate(wanted):
            np.equal(piece, byte, out=found)
            totals[index] += int(np.count_nonzero(found))
    return totals


def _null_values(content: Bytes, starts: npt.NDArray[np.int32] | None = None) -> npt.NDArray[np.int64]:
    """The colons with a ``null`` behind them, blanks between them or not; with ``starts``, within one text."""
    return np.concatenate([_nulls_behind_colons(content, shift, starts) for shift in range(4)])


def _nulls_behind_colons(content: Bytes, shift: int, starts: npt.NDArray[np.int32] | None) -> npt.NDArray[np.int64]:
    usable = max(len(content) - shift, 0) // 4 * 4
    ends = np.flatnonzero(content[shift : shift + usable].view(np.uint32) == _NULL) * 4 + shift + 3
    ends = ends[ends > 3]
    colons = ends - 4
    while len(blank := np.flatnonzero(_IS_BLANK[content[colons]] & (colons > 0))):
        colons[blank] -= 1
    found = content[colons] == _COLON
    if starts is not None:
        found &= np.searchsorted(starts, colons, "right") == np.searchsorted(starts, ends, "right")
    behind: npt.NDArray[np.int64] = colons[found]
    return behind
