"""Proof that a block says exactly what was parsed from it, by counting punctuation.

The vectorised parser skips unknown fields, lets a repeated key win over the first, takes a quoted number for
a number and forgives commas. All of these leave a trace: every key brings a colon and two quotes, every value
but the last a comma, every text two quotes. What the parsed columns explain is subtracted from what stands in
the block, then what stands inside the parsed texts; if nothing is left, nothing was skipped, repeated, quoted
or forgiven. If something is left, the block is suspicious, and only a slower look can tell.

Explicit nulls look like absent keys in the columns, so they are counted in the block. A key that is repeated
after a null therefore passes: no value was lost. So does a comma too many beside a comma too few elsewhere.
Punctuation written as an escape (``\\u003a``) would upset the sums: such blocks must not come here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.sink.relaxed import Suspicious

Bytes = npt.NDArray[np.uint8]

_COLON, _COMMA, _QUOTE, _NEWLINE = 58, 44, 34, 10
_STEP = 512 * 1024
_NULL = np.uint32(int.from_bytes(b"null", "little"))
_EMPTY_OBJECT = int.from_bytes(b"{}", "little")
_OBJECTS_SIDE_BY_SIDE = tuple(int.from_bytes(pair, "little") for pair in (b"}{", b"} "))


@dataclass(slots=True)
class Parsed:
    """What the columns of a block hold, added up over all depths."""

    keys: int = 0
    objects: int = 0
    items: int = 0
    filled_lists: int = 0
    null_items: int = 0
    texts: int = 0
    text_arrays: list[pa.Array] = field(default_factory=list)

    def count(self, byte: int) -> int:
        """How often ``byte`` stands inside the texts."""
        return sum(_count(text_bytes(array), byte) for array in self.text_arrays)

    def count_text(self, wanted: str) -> int:
        """How often ``wanted`` stands inside the texts."""
        counts = (pc.sum(pc.count_substring(array, wanted)).as_py() for array in self.text_arrays)
        return sum(count or 0 for count in counts)


def verify(block: bytes, batch: pa.RecordBatch) -> None:
    """Raise :class:`Suspicious` unless ``block``, each line an object, holds ``batch`` and nothing else."""
    content = np.frombuffer(block, np.uint8)
    parsed = _parsed(batch)
    colons, commas, quotes = _counts(content, (_COLON, _COMMA, _QUOTE))
    keys = parsed.keys
    if colons != keys:
        keys += _explicit_nulls(content, parsed, colons - keys)
    _explain("quotes", quotes - 2 * (keys + parsed.texts), parsed, _QUOTE)
    between = keys - parsed.objects + parsed.items - parsed.filled_lists
    if commas != between:
        empty = _pairs(content, _EMPTY_OBJECT) - parsed.count_text("{}")
        _explain("commas", commas - between - empty, parsed, _COMMA)
    if parsed.count(_NEWLINE) and any(_pairs(content, pair) for pair in _OBJECTS_SIDE_BY_SIDE):
        raise Suspicious("several objects on a line")


def _explicit_nulls(content: Bytes, parsed: Parsed, left: int) -> int:
    left -= parsed.count(_COLON)
    if left == 0:
        return 0
    nulls = _quads(content, _NULL) - parsed.null_items - parsed.count_text("null")
    if left != nulls:
        raise Suspicious("unknown fields or repeated keys")
    return nulls


def _explain(what: str, left: int, parsed: Parsed, byte: int) -> None:
    if left and left != parsed.count(byte):
        raise Suspicious(what)


def _parsed(batch: pa.RecordBatch) -> Parsed:
    parsed = Parsed(objects=batch.num_rows)
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
        parsed.objects += len(array) - array.null_count
        for index in range(kind.num_fields):
            child = array.field(index)
            parsed.keys += len(child) - child.null_count
            _add(parsed, child)
    elif pa.types.is_map(kind):
        _add_map(parsed, array)
    elif pa.types.is_list(kind):
        parsed.items += len(array.values)
        parsed.null_items += array.values.null_count
        parsed.filled_lists += int(np.count_nonzero(np.diff(array.offsets.to_numpy())))
        _add(parsed, array.values)


def _add_map(parsed: Parsed, array: pa.Array) -> None:
    parsed.objects += len(array) - array.null_count
    parsed.keys += len(array.items) - array.items.null_count
    parsed.text_arrays.append(array.keys)
    _add(parsed, array.items)
    if has_repeated_keys(array):
        raise Suspicious("a repeated key in a map")


def has_repeated_keys(maps: pa.Array) -> bool:
    """Whether one of the maps has a key twice."""
    rows = np.repeat(np.arange(len(maps)), np.diff(maps.offsets.to_numpy()))
    codes = maps.keys.dictionary_encode()
    pairs = rows * (len(codes.dictionary) + 1) + codes.indices.to_numpy()
    return len(np.unique(pairs)) != len(pairs)


def text_bytes(array: pa.Array) -> Bytes:
    """The bytes of all texts of an array, one behind the other."""
    offsets, data = array.buffers()[1:]
    if data is None or offsets is None or not len(array):
        return np.empty(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]


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


def _count(content: Bytes, byte: int) -> int:
    return _counts(content, (byte,))[0]


def _pairs(content: Bytes, pair: int) -> int:
    """How often two bytes stand side by side."""
    even = np.count_nonzero(_view(content, 0, np.uint16) == pair)
    return int(even + np.count_nonzero(_view(content, 1, np.uint16) == pair))


def _quads(content: Bytes, quad: np.uint32) -> int:
    return sum(int(np.count_nonzero(_view(content, start, np.uint32) == quad)) for start in range(4))


def _view(content: Bytes, start: int, kind: type[np.uint16] | type[np.uint32]) -> npt.NDArray[np.unsignedinteger]:
    width = np.dtype(kind).itemsize
    usable = (len(content) - start) // width * width
    return content[start : start + max(usable, 0)].view(kind)
