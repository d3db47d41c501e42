"""Vectorised JSON parsing, in four steps: the grammar, the two parsers, the declared types, and the proof.

**The grammar.** The quick parser forgives: it takes ``01``, ``1.``, ``-.5`` and ``1e0+1`` for numbers and skips commas,
too many as well as too few. A regular expression, which RE2 runs in one pass without going back, has no such mercy:
every text, escape (surrogate pairs included), number, literal and comma is where and as the grammar has it. It cannot
tell whether brackets match and whether a key stands in an object; no parser forgives that. Nor does it look at UTF-8,
which all parsers check. So what the expression and a parser accept is JSON, whatever stands beside it. Depth is bounded
here, too: far above :data:`~tidegate.schema.literals.DEEPEST` levels a native parser ends the process.

**The parsers.** Both read a block whose lines are known to be objects, and both raise :class:`Suspicious` unless they
find exactly one record per line. The quick one is asked for wider types than declared, since it bends values without a
word: 12.7 becomes 12 in an integer, 1.239 becomes 1.23 in ``decimal(10,2)``, a number becomes a moment in 1970.

**The declared types.** The way back from the wider types either is exact or raises :class:`Suspicious`.

**The proof.** The quick parser skips unknown fields, lets a repeated key win over the first and takes a quoted number
for a number. All of these leave a trace: every key brings a colon and two quotes, every text two quotes. What the
parsed columns explain is subtracted from what stands in the block, then what stands inside the parsed texts. Nothing of
that can be negative, so if nothing is left, nothing was skipped, repeated or quoted, anywhere in the block. If
something is left, the block is suspicious, and only a slower look can tell.

Explicit nulls look like absent keys in the columns, so they are counted in the block, with the colon before them. A key
that is repeated after a null therefore passes: no value was lost. A key that itself reads like a null behind a colon
would be counted as one too many, so a block with such a key is suspicious. Punctuation written as an escape
(``\\u003a``) would upset the sums: blocks with :data:`MISHANDLED` escapes must not come here.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from arro3.io import read_json

from tidegate.formats.strict_lines import TEXTS, RecordRules, Suspicious, in_calendar
from tidegate.schema.literals import DEEPEST, depth
from tidegate.schema.names import decimal_of
from tidegate.schema.types import arrow_type
from tidegate.specs.project import FieldSpec

FRACTION_DIGITS = 18
"""Digits behind the point that the quick parser keeps at least, so that a fraction too many is noticed."""

MISHANDLED = re.compile(
    rb"\\u(?:0000|[dD](?:8[4-9a-fA-F]|[9abAB])|00(?:2[2cC]|3[aA]|6[cCeE]|7[5bBdD]))",
)
"""Escapes that are not for the quick parser: a zero character in its error message ends the process, characters
from U+20000 on come out as others; and escaped punctuation or ``null`` would upset the proof."""

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
class ObjectLines:
    """A block of so many lines, each an object.

    ``has_tiny`` unless no number has very many digits behind the point; ``is_repaired`` where lines were rewritten.
    """

    content: bytes
    lines: int
    has_tiny: bool = True
    is_repaired: bool = False

    @property
    def is_for_quick_parser(self) -> bool:
        """Whether the quick parser and the proof can take it."""
        return b"\\" not in self.content or MISHANDLED.search(self.content) is None

    def split(self) -> list[bytes]:
        """Its lines."""
        return self.content.split(b"\n")[:-1]


def object_lines(block: bytes) -> ObjectLines | None:
    """The block if each line is well-formed, an object, and not nested too deeply; else None."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
    if not len(ends) or _may_be_deep(block, ends):
        return None
    if matches(block, _USUAL_BLOCK):
        return ObjectLines(block, len(ends), has_tiny=False)
    return ObjectLines(block, len(ends)) if matches(block, _BLOCK) else None


def matches(block: bytes, expression: str) -> bool:
    """Whether an expression of RE2 is found in a block."""
    bounds = pa.py_buffer(np.array([0, len(block)], np.int64))
    whole = pa.Array.from_buffers(pa.large_binary(), 1, [None, bounds, pa.py_buffer(block)])
    return bool(pc.match_substring_regex(whole, expression)[0].as_py())


def are_objects(lines: Sequence[bytes]) -> npt.NDArray[np.bool_]:
    """Which of some lines are such objects."""
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


_EVERY_TEXT = frozenset(TEXTS)
INTEGER = pa.decimal128(38, FRACTION_DIGITS)
"""What whole numbers are read as, so that a fraction is noticed."""

_INTEGERS: dict[str, tuple[type[np.signedinteger[Any]], pa.DataType]] = {
    "int32": (np.int32, pa.int32()),
    "int64": (np.int64, pa.int64()),
}


@dataclass(frozen=True, slots=True)
class ParserSchemas:
    """The columns that the parsers are asked for; names that records must not have are columns of nulls.

    ``quick`` has wider types than declared, unless numbers are lenient. ``bending`` is what the quick parser may bend
    where numbers are lenient: numbers to moments, too. ``arrow`` is for Arrow's parser, which refuses every misfit, so
    only texts are left to us.
    """

    quick: pa.Schema
    bending: pa.Schema
    arrow: pj.ParseOptions

    @classmethod
    def of(cls, rules: RecordRules) -> ParserSchemas:
        """The columns for records that follow ``rules``."""
        barred = [pa.field(name, pa.null()) for name in rules.forbidden]

        def schema(texts: frozenset[str], *, is_wide: bool) -> pa.Schema:
            return pa.schema([*(_asked_field(each, texts, is_wide) for each in rules.fields), *barred])

        arrow = pj.ParseOptions(explicit_schema=schema(_EVERY_TEXT, is_wide=False), unexpected_field_behavior="ignore")
        bending = schema(_EVERY_TEXT - {"timestamp"}, is_wide=rules.is_strict)
        return cls(schema(_EVERY_TEXT, is_wide=rules.is_strict), bending, arrow)


def _asked_field(field: FieldSpec, texts: frozenset[str], is_wide: bool) -> pa.Field:
    return pa.field(field.name, _asked_type(field, texts, is_wide), field.nullable)


def _asked_type(field: FieldSpec, texts: frozenset[str], is_wide: bool) -> pa.DataType:
    """The type to ask a parser for: ``texts`` as they are written, numbers wide enough to show what is too much."""
    if field.type == "struct":
        return pa.struct([_asked_field(child, texts, is_wide) for child in field.fields])
    if field.type == "list" and field.items is not None:
        return pa.list_(_asked_field(field.items, texts, is_wide).with_name("element"))
    if field.type == "map" and field.values is not None:
        return pa.map_(pa.string(), _asked_field(field.values, texts, is_wide).with_name("value"))
    if field.type in texts:
        return pa.string()
    if is_wide and field.type in _INTEGERS:
        return INTEGER
    if is_wide and (decimal := decimal_of(field.type)):
        precision, scale = decimal
        spare = 38 - precision
        return pa.decimal128(38, scale + spare) if spare >= FRACTION_DIGITS else pa.decimal256(76, scale + 38)
    return arrow_type(field)


def parse_quickly(block: ObjectLines, schema: pa.Schema, rows_per_step: int) -> pa.RecordBatch:
    """What the quick parser makes of a block without :data:`MISHANDLED` escapes."""
    try:
        table = pa.table(read_json(io.BytesIO(block.content), schema, batch_size=rows_per_step))
    except Exception as error:
        raise Suspicious(str(error)) from error
    return one_batch(table, block.lines)


def parse_strictly(block: ObjectLines, options: pj.ParseOptions) -> pa.RecordBatch:
    """What Arrow's parser makes of a block: unknown fields ignored, repeated ones and misfits refused."""
    reading = pj.ReadOptions(use_threads=False, block_size=len(block.content) + 1)
    try:
        if not block.content.isascii():
            block.content.decode()
        table = pj.read_json(pa.BufferReader(block.content), reading, options)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise Suspicious(str(error)) from error
    return one_batch(table, block.lines)


def one_batch(table: pa.Table, rows: int) -> pa.RecordBatch:
    """A table as one batch; raises :class:`Suspicious` unless it has that many rows."""
    if table.num_rows != rows:
        raise Suspicious(f"{table.num_rows} records on {rows} lines")
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


WHOLE_BELOW = {"float32": 2.0**24, "float64": 2.0**53}
"""Every whole number below this one is a value of the type; this one may also be what its successor was rounded to."""

_NOWHERE = np.empty(0, np.int64)
_UNIT = np.uint64(10**FRACTION_DIGITS)
_EXACT = float(2**51)


def settle(array: pa.Array, field: FieldSpec) -> pa.Array:
    """``array`` with the declared type; raises :class:`Suspicious` where a value would not survive that."""
    if field.type in ("struct", "list", "map"):
        return convert_members(array, field, settle)
    try:
        return _settle_scalar(array, field.type, arrow_type(field))
    except pa.ArrowInvalid as error:
        raise Suspicious(f"{field.name}: {error}") from error


def convert_members(array: pa.Array, field: FieldSpec, convert: Callable[[pa.Array, FieldSpec], pa.Array]) -> pa.Array:
    """A struct, list or map of the declared type, its members converted; fields that ``array`` lacks are null.

    Raises :class:`Suspicious` for a null where none may be.
    """
    kind = arrow_type(field)
    mask = array.is_null() if array.null_count else None
    if field.items is not None:
        items = _filled(convert(array.values, field.items), field.items)
        return pa.ListArray.from_arrays(array.offsets, items, type=kind, mask=mask)
    if field.values is not None:
        values = _filled(convert(array.items, field.values), field.values)
        return pa.MapArray.from_arrays(array.offsets, array.keys, values, type=kind, mask=mask)
    places = {child.name: place for place, child in enumerate(array.type)}
    children = []
    for child in field.fields:
        if child.name in places:
            found = convert(array.field(places[child.name]), child)
        else:
            found = pa.nulls(len(array), arrow_type(child))
        if not child.nullable and pc.any(pc.and_(pc.is_null(found), pc.is_valid(array))).as_py():
            raise Suspicious(f"a null in {child.name}")
        children.append(found)
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _filled(array: pa.Array, field: FieldSpec) -> pa.Array:
    if array.null_count and not field.nullable:
        raise Suspicious(f"a null in {field.name}")
    return array


def _settle_scalar(array: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        if pa.types.is_temporal(kind):
            return in_calendar(array)
        if pa.types.is_decimal(kind):
            array.validate(full=True)  # Arrow's parser lets one digit too many pass
        return _finite(array) if pa.types.is_floating(kind) else array
    if name in _INTEGERS and pa.types.is_decimal(array.type):
        return _integers(array, *_INTEGERS[name])
    if name in TEXTS and pa.types.is_string(array.type):
        return TEXTS[name][0](array)
    return pc.cast(array, kind)


def doubtful_rows(array: pa.Array, field: FieldSpec, *, zeros: bool) -> npt.NDArray[np.int64]:
    """The rows with floats that need a look at what was written.

    Those are floats so large that a whole number may have been rounded, and with ``zeros`` those that are 0.
    """
    if field.type == "struct":
        found = [doubtful_rows(array.field(index), child, zeros=zeros) for index, child in enumerate(field.fields)]
        return np.unique(np.concatenate([_NOWHERE, *found]))
    if field.type == "list" and field.items is not None:
        return _places(array, doubtful_rows(array.values, field.items, zeros=zeros))
    if field.type == "map" and field.values is not None:
        return _places(array, doubtful_rows(array.items, field.values, zeros=zeros))
    if field.type not in WHOLE_BELOW:
        return _NOWHERE
    values = array.to_numpy(zero_copy_only=False)
    doubtful = np.abs(values) >= WHOLE_BELOW[field.type]
    if zeros:
        doubtful |= values == 0
    return np.flatnonzero(doubtful)


def _places(lists: pa.Array, items: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The lists that items belong to."""
    return np.unique(np.searchsorted(lists.offsets.to_numpy(), items, "right") - 1) if len(items) else _NOWHERE


def _finite(array: pa.Array) -> pa.Array:
    kind = np.float32 if pa.types.is_float32(array.type) else np.float64
    values = np.frombuffer(array.buffers()[1], kind, len(array))
    if not np.isfinite(values).all():
        raise Suspicious("a number without end")
    return array


def _integers(array: pa.Array, numpy_type: type[np.signedinteger[Any]], kind: pa.DataType) -> pa.Array:
    """Whole numbers out of decimals with 18 digits behind the point; five times as fast as Arrow's cast.

    The division is done in doubles and verified in integers modulo 2**64: with the guess within one of the
    quotient, the remainder is smaller than that, so it is zero exactly when its low 64 bits are.
    """
    words = np.frombuffer(array.buffers()[1], "<u8", 2 * len(array))
    low, high = words[0::2], words[1::2].view(np.int64)
    guess = np.rint((high * 2.0**64 + low) / 10.0**FRACTION_DIGITS)
    if len(guess) and np.abs(guess).max() >= _EXACT:
        return pc.cast(array, kind)
    values = guess.astype(np.int64)
    if (values.view(np.uint64) * _UNIT != low).any():
        raise Suspicious("a fraction in a whole number")
    narrow = values.astype(numpy_type)
    if numpy_type is not np.int64 and (narrow != values).any():
        raise Suspicious("a whole number out of range")
    return pa.Array.from_buffers(kind, len(array), [array.buffers()[0], pa.py_buffer(narrow)])


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
class _TokenCounts:
    """What the columns of a block explain, added up over all depths."""

    keys: int = 0
    texts: int = 0
    text_arrays: list[pa.Array] = field(default_factory=list)

    def add_fields(self, columns: Iterable[pa.Array]) -> None:
        """Take in the columns of a batch or the fields of a struct."""
        for column in columns:
            self.keys += len(column) - column.null_count
            self._add_values(column)

    def _add_values(self, array: pa.Array) -> None:
        kind = array.type
        if pa.types.is_string(kind):
            self.texts += len(array) - array.null_count
            self.text_arrays.append(array)
        elif pa.types.is_struct(kind):
            self.add_fields(array.field(index) for index in range(kind.num_fields))
        elif pa.types.is_map(kind):
            self.text_arrays.append(array.keys)
            self.add_fields([array.items])
            if has_repeated_keys(array):
                raise Suspicious("a repeated key in a map")
        elif pa.types.is_list(kind):
            self._add_values(array.values)

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
    counts = _TokenCounts()
    counts.add_fields(batch.columns)
    colons, quotes = _counts(content, (_COLON, _QUOTE))
    keys = counts.keys
    if colons != keys:
        keys += _explicit_nulls(block, content, counts, colons - keys)
    left = quotes - 2 * (keys + counts.texts)
    if left and left != counts.count(_QUOTE) and not quoted_numbers:
        raise Suspicious("values in quotes that are no texts")


def _explicit_nulls(block: bytes, content: Bytes, counts: _TokenCounts, left: int) -> int:
    left -= counts.count(_COLON)
    if left == 0:
        return 0
    found = _null_values(content)
    if left < 0 or left != len(found) - counts.null_values():
        raise Suspicious("unknown fields or repeated keys")
    ends = content[found - 1] == _QUOTE
    if (~ends | _MAY_OPEN[content[found - 2]]).any() and matches(block, _KEY_WITH_NULL):
        raise Suspicious("a key that holds what looks like a null")
    return left


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


def every_field(fields: Sequence[FieldSpec]) -> Iterator[FieldSpec]:
    """The fields and those inside them, at any depth; keys of maps are none."""
    for each in fields:
        yield each
        yield from every_field([*each.fields, *(child for child in (each.items, each.values) if child is not None)])
