"""Vectorised JSON parsers behind one strict grammar, and the proof by counting tokens that nothing was bent.

The quick parser forgives: it takes ``01``, ``1.``, ``-.5`` and ``1e0+1`` for numbers and skips commas, too many as well
as too few. A regular expression, which RE2 runs in one pass without going back, has no such mercy: every text, escape
(surrogate pairs included), number, literal and comma is where and as the grammar has it. What it cannot tell is whether
brackets match and whether a key stands in an object; that no parser forgives. Nor does it look at UTF-8, which all of
them check. So what the expression and a parser accept is JSON, whatever stands beside it.

Depth is bounded here, too: far above :data:`~tidegate.schema.literals.DEEPEST` levels a native parser ends the process.

Both read a block whose lines are known to be objects (:func:`~tidegate.sink.grammar.objects`), and both raise
:class:`Suspicious` unless they find exactly one record per line.

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

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from arro3.io import read_json

from tidegate.formats.line_repair import FRACTION_DIGITS, Suspicious
from tidegate.schema.literals import DEEPEST, depth
from tidegate.schema.types import arrow_type
from tidegate.specs.project import FieldSpec

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


MISHANDLED = re.compile(
    rb"\\u(?:0000|[dD](?:8[4-9a-fA-F]|[9abAB])|00(?:2[2cC]|3[aA]|6[cCeE]|7[5bBdD]))",
)
"""Escapes that are not for the quick parser: a zero character in its error message ends the process, characters
from U+20000 on come out as others; and escaped punctuation or ``null`` would upset the counting."""


def parse_quickly(block: bytes, lines: int, schema: pa.Schema, rows_per_step: int) -> pa.RecordBatch:
    """What the quick parser makes of a block without :data:`MISHANDLED` escapes."""
    try:
        table = pa.table(read_json(io.BytesIO(block), schema, batch_size=rows_per_step))
    except Exception as error:
        raise Suspicious(str(error)) from error
    return one_batch(table, lines)


def parse_strictly(block: bytes, lines: int, options: pj.ParseOptions) -> pa.RecordBatch:
    """What Arrow's parser makes of a block: unknown fields ignored, repeated ones and misfits refused."""
    reading = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
    try:
        if not block.isascii():
            block.decode()
        table = pj.read_json(pa.BufferReader(block), reading, options)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise Suspicious(str(error)) from error
    return one_batch(table, lines)


def one_batch(table: pa.Table, rows: int) -> pa.RecordBatch:
    """A table as one batch; raises :class:`Suspicious` unless it has that many rows."""
    if table.num_rows != rows:
        raise Suspicious(f"{table.num_rows} records on {rows} lines")
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def strict_options(fields: tuple[FieldSpec, ...], barred: list[pa.Field]) -> pj.ParseOptions:
    """Arrow's parser refuses what does not fit; only texts are left to us."""
    schema = pa.schema([*(_strict_field(field) for field in fields), *barred])
    return pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")


def _strict_field(field: FieldSpec) -> pa.Field:
    return pa.field(field.name, _strict_type(field), field.nullable)


def _strict_type(field: FieldSpec) -> pa.DataType:
    if field.type == "struct":
        return pa.struct([_strict_field(child) for child in field.fields])
    if field.type == "list" and field.items is not None:
        return pa.list_(pa.field("element", _strict_type(field.items), field.items.nullable))
    if field.type in ("timestamp", "date", "binary"):
        return pa.string()
    return arrow_type(field)


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
