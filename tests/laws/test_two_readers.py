"""The native reader and the strict line reader are one: same rows, same reasons, same counts, whatever a line is."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.json_lines import TABLE, lines
from support.long_runs import chosen, examples
from tidegate.errors import SourceError
from tidegate.formats.json import (
    ChunkSplitter,
    Decoder,
    LineFormat,
    LineTooLong,
    Splitter,
    blocks,
    element_lines,
    skip_lines,
    strip_byte_order_mark,
)
from tidegate.formats.strict_lines import RecordRules
from tidegate.schema.inference import infer_json
from tidegate.schema.literals import SWITCH, find_native
from tidegate.specs.files import Compression, Format
from tidegate.specs.table import FieldSpec, Numbers

pytestmark = pytest.mark.skipif(find_native() is None, reason="tidegate-native is not installed")

KEY = FieldSpec("key", "string", nullable=False)
INNER = (FieldSpec("a", "int64"), FieldSpec("s", "string"), FieldSpec("r", "int32", nullable=False))
FIELDS = (
    FieldSpec("i", "int64"),
    FieldSpec("j", "int32"),
    FieldSpec("f", "float64"),
    FieldSpec("g", "float32"),
    FieldSpec("n", "decimal(10,2)"),
    FieldSpec("w", "decimal(38,4)"),
    FieldSpec("s", "string"),
    FieldSpec("b", "boolean"),
    FieldSpec("t", "timestamp"),
    FieldSpec("d", "date"),
    FieldSpec("x", "binary"),
    FieldSpec("u", "struct", fields=INNER),
    FieldSpec("l", "list", items=FieldSpec("element", "float64")),
    FieldSpec("k", "list", items=FieldSpec("element", "struct", nullable=False, fields=INNER[:2])),
    FieldSpec("m", "map", keys=KEY, values=FieldSpec("value", "struct", fields=INNER)),
    FieldSpec("o", "map", keys=KEY, values=FieldSpec("value", "int64", nullable=False)),
    FieldSpec("q", "json"),
)
REQUIRED = (FieldSpec("i", "int64", nullable=False), FieldSpec("s", "string"), *FIELDS[11:14])
LEFT = FieldSpec("_left", "string")
WAYS: dict[str, dict[str, Any]] = {
    "strict": {"fields": FIELDS},
    "lenient": {"fields": FIELDS, "numbers": Numbers.LENIENT},
    "coerced": {"fields": FIELDS, "coerce": True},
    "rescued": {"fields": (FIELDS[0], LEFT, *FIELDS[1:]), "rescued": "_left"},
    "rescued and lenient": {"fields": (*FIELDS, LEFT), "rescued": "_left", "numbers": Numbers.LENIENT},
    "rescued and coerced": {"fields": (*FIELDS, LEFT), "rescued": "_left", "coerce": True},
    "inferred": {"fields": FIELDS, "inferred": True},
    "required": {"fields": REQUIRED, "forbidden": ("zz", "f"), "filled": ("s",)},
    "required and rescued": {"fields": (*REQUIRED, LEFT), "forbidden": ("zz",), "filled": ("s",), "rescued": "_left"},
}


def check_same(way: str, block: bytes) -> None:
    rules = RecordRules(**WAYS[way])
    quick, strict = Decoder(rules), Decoder(rules)
    strict._native = None
    expected = strict.decode(block)
    for turn in (1, 2):  # what was learned of one block must not change the next
        found = quick.decode(block)
        found.batch.validate(full=True)
        assert found.batch.equals(expected.batch)
        assert found.lines == expected.lines
        assert (found.offsets is None) == (expected.offsets is None)
        assert found.offsets is None or found.offsets.tolist() == expected.offsets.tolist()
        assert found.rejected == expected.rejected
        assert quick.unknown == {name: turn * count for name, count in strict.unknown.items()}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=examples(5000, 30), deadline=None)
@given(some=st.lists(lines(), min_size=1, max_size=6))
def test_lines_made_and_broken_at_random(way: str, some: list[bytes]) -> None:
    check_same(way, b"\n".join(some) + b"\n")


@pytest.mark.parametrize(
    "line",
    [
        b'{"I": 1}',
        b'{"I": null, "i": 1}',
        b'{"I": 1, "i": "no number"}',
        b'{"i": "no number", "I": 1}',
        b'{"\\u0049": 1}',
        b'{"u": {"A": 1, "r": 1}}',
        b'{"k": [{"a": 1}, {"A": 1}]}',
        b'{"m": {"A": {"R": 1, "r": 1}}}',
        b'{"o": {"I": 1, "i": 1}}',
        b'{"q": {"I": 1, "i": 1}}',
        b'{"u.a": 1, "U.A": 2}',
    ],
)
def test_names_that_differ_only_in_case(line: bytes) -> None:
    for way in ("strict", "rescued", "inferred"):
        check_same(way, b'{"i": 1}\n' + line + b'\n{"i": 2, "new": 3}\n')


TOKENS = [
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b'"a"',
        b'"i":1',
        b'{"i":',
        b'{"s":"',
        b"0",
        b"-",
        b"7",
        b".5",
        b"e+",
        b"E9",
    ),
    *(
        b"null",
        b"true",
        b"fals",
        b"NaN",
        b"Infinity",
        b" ",
        b"\t",
        b"\r",
        b"\x01",
        b"\\",
        b"\\n",
        b"\\x",
        b"\\u",
        b"\\u0061",
    ),
    *(b"\\ud83d", b"\\ude00", b"\\ud83d\\ude00", "é".encode(), "😀".encode(), b"\xff", b"//", b"x", b"\xef\xbb\xbf"),
]


@settings(max_examples=examples(20_000, 300), deadline=None)
@given(some=st.lists(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=12).map(b"".join), min_size=1, max_size=8))
def test_lines_that_are_no_json_have_the_same_reason(some: list[bytes]) -> None:
    check_same("strict", b"\n".join(some) + b"\n")


AROUND = ((b"", b""), (b"[1,", b"]"), (b"[", b"]"), (b'{"a":', b"}"), (b'{"r":1,"zz":', b',"a":2}'))


@pytest.mark.parametrize("way", WAYS)
def test_every_text_of_the_table_in_every_column(way: str) -> None:
    for before, after in chosen(AROUND, AROUND[len(way) % len(AROUND)]):
        for name in ("zz", *(each.name for each in FIELDS)):
            check_same(way, b"".join(b'{"%s":%s%s%s}\n' % (name.encode(), before, text, after) for _, text in TABLE))


NUMBERS = [
    *("0", "-0", "7", "-7", "12.0", "12.7", "-0.5", "1e3", "1E+3", "1e-3", "100e-2", "1.50", "0.1", "1e22", "1e23"),
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "-9223372036854775809", "999999999999999999", "1000000000000000000", "1e18", "1e19"),
    *("9007199254740992", "9007199254740993", "9007199254740993.0", "16777216", "16777217", "16777217.0", "1e39"),
    *("3.4028234663852886e38", "3.4028235677973366e38", "3.5e38", "1.7976931348623157e308", "1.8e308", "1e309"),
    *("5e-324", "2e-324", "1e-400", "0e-400", "0e999999999999", "1e999999999999", "1e-999999999999", "-1e401", "1e400"),
    *("99999999.99", "100000000", "99999999.999", "0.001", "0.00001", "9" * 34 + ".9999", "1" * 35, "1" * 39, "9" * 60),
    *("0." + "0" * 40 + "1", "1." + "5" * 40, "1." + "0" * 40, "123456789012345678", "1234567890123456789"),
    *("253402300799999999", "253402300800000000", "-62135596800000000", "-62135596800000001", "86400000000.9"),
    *("18014398509481985", "340282366920938463463374607431768211456", "179769313486231580793e288"),
    *(f"{digits}e{sign}{9 * 10**zeros}" for digits in ("1", "-2.5", "0") for sign in "+-" for zeros in (17, 18, 19)),
    *("1e-1999999999999999997", "1e-1999999999999999998", "1e999999999999999999", "1e1000000000000000000"),
    *("170141183460469231731687303715884105728", "-170141183460469231731687303715884105728", "17014118346046923173e19"),
]
TEXTS = [
    *("2026-01-28", "2026-02-29", "2024-02-29", "1900-02-29", "2000-02-29", "0001-01-01", "0000-12-31", "9999-12-31"),
    *("2026-13-01", "2026-00-10", "2026-1-1", "2026-01-28T", "2026-01-28Z", "2026-01-28T10", "2026-01-28T10:11"),
    *(
        "2026-01-28T10:11Z",
        "2026-01-28T10:11:12",
        "2026-01-28 10:11:12Z",
        "2026-01-28T10:11:12.5",
        "2026-01-28t10:11:12",
    ),
    *("2026-01-28T10:11:12.123456Z", "2026-01-28T10:11:12.1234567Z", "2026-01-28T10:11:12.1234560Z"),
    *(
        "2026-01-28T10:11:12.123456000+02:00",
        "2026-01-28T10:11:12.Z",
        "2026-01-28T10:11:12+0230",
        "2026-01-28T10:11:12+02",
    ),
    *("2026-01-28T10:11:12-24:00", "2026-01-28T10:11:12+02:60", "2026-01-28T24:00:00Z", "2026-01-28T10:60:00Z"),
    *("2026-01-28T10:11:60Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-00:01"),
    *(
        "0000-12-31T23:30:00-01:00",
        "2026-01-28T10:11.5Z",
        "2026-01-28T10:11:12z",
        "2026-01-28T10:11:12 Z",
        " 2026-01-28",
    ),
    *("12026-01-28T00:00:00Z", "20260128T101112Z", "2026-01-28T10:11:12.123456", "2026-01-28T10:11:12.0000000"),
    *(
        "",
        "=",
        "YQ==",
        "YWI=",
        "YWJj",
        "YQ",
        "YQ=",
        "YWJj=",
        "YR==",
        "Y Q=",
        "YQ==YQ==",
        "====",
        "_-8=",
        "+/8=",
        "aGk\\u003d",
    ),
    *(
        "1",
        "+1",
        ".5",
        "5.",
        "1.5",
        "-1.239",
        " 1",
        "1 ",
        "1_0",
        "0x1",
        "1e2",
        "+.5e-1",
        ".",
        "+",
        "e5",
        "NaN",
        "inf",
        "٣",
    ),
    *("a\\u0000b", "\\ud83d\\ude00", "\\ud83d", "\\u00e9\\/\\n", "\\\\", '\\"', "\\x", "\t", "é😀", "\\u0061"),
]


NESTED = (("", ""), ("[", "]"), ('{"a":', "}"), ('{"r":1,"a":', ',"s":"x"}'))
MOMENTS = [
    f"{date}{between}{time}{fraction}{zone}"
    for date in ("2026-01-28", "0001-01-01", "2026-02-30", "0000-01-01", "9999-12-31")
    for between in ("T", " ", "t", "\\u0020")
    for time in ("00:00:00", "23:59:60", "24:00:00", "10:11")
    for fraction in ("", ".5", ".123456", ".1234567", ".")
    for zone in ("", "Z", "z", "+02:00", "-02:00", "+0200", "+24:00", "+02", " ")
]


@pytest.mark.parametrize("way", WAYS)
def test_numbers_and_texts_at_the_edges_of_every_type(way: str) -> None:
    for name in (each.name for each in FIELDS):
        for before, after in chosen(NESTED, NESTED[0], NESTED[1 + list(WAYS).index(way) % 3]):
            written = [*NUMBERS, *(f'"{each}"' for each in (*TEXTS, *NUMBERS)), "true", "false", "null", "[]", "{}"]
            block = "".join(f'{{"{name}":{before}{each}{after}}}\n' for each in written)
            check_same(way, block.encode())


ODD_LINES = [
    rb'{"i":null,"i":1}',
    rb'{"i":1,"i":null}',
    rb'{"i":1,"i":2}',
    rb'{"\u0069":1,"i":2}',
    rb'{"i":"x","i":2}',
    rb'{"i":12.7,"zz":1,"zz":null,"zz":2}',
    rb'{"u":{"r":1,"a":1},"u":{"r":2}}',
    rb'{"u":{"r":1,"zz":1,"a":"x"},"i":1}',
    rb'{"u":{"zz":1,"a":"x"}}',
    rb'{"u":{"zz":1,"a":"x","a":1,"r":2}}',
    rb'{"u":{"a":"x","r":"y","zz":[1, {"b" : "\u00e9"}]}}',
    rb'{"u":null,"u":{"r":1}}',
    rb'{"k":[{"a":1,"zz":1},{"a":"x"},{"zz":null}]}',
    rb'{"k":[{"a":1},null]}',
    rb'{"k":[{"a":1,"a":2}]}',
    rb'{"k":[1,2]}',
    rb'{"m":{"p":{"r":1,"zz":1},"q":null,"p2":{"r":2,"a":"x"}}}',
    rb'{"m":{"p":{"r":1},"p":{"r":2}}}',
    rb'{"m":{"p":{"a":1},"q":{"r":1}}}',
    rb'{"m":{"\u0070":{"r":1},"p":{"r":2}}}',
    rb'{"o":{"a":1,"b":null}}',
    rb'{"o":{"a":1,"b":"x"}}',
    rb'{"o":{"a[1]":"x","[2][x]":1}}',
    rb'{"m":{"a[7]":{"r":1,"a":"x"}}}',
    rb'{"q":{"a" : [1.50, "\u00e9\/\u0001", null], "a": true}}',
    rb'{"s":{"a" : [1.50, "\"\\", null]},"x":1}',
    rb'{"_left":"mine","i":2.5}',
    rb'{"_left":null}',
    rb'{"":1,"u":{"":2,"r":1}}',
    rb'{"a.b":1,"q\"":3,"\u00fc":4,"zz":{"y":[]}}',
    rb'{"zz":null}',
    rb'{"s":""}',
    rb'{"i":1,"s":"","f":null}',
    rb'{"i":1,"f":2}',
    rb'{"i":"x","zz":1,"f":2}',
    rb'{"i":null,"u":{"a":"x"}}',
    rb'{"u":{"a":1,"r":null}}',
    rb'{"i":1,"u":{"a":1,"r":null,"s":2}}',
    rb'{"i":1,"k":[{"a":1},{"s":[1, {"b" : "\u00e9\/"}]}]}',
    rb'{"i":1,"m":{"p":{"r":1},"it\u0027s":{"r":"x"}}}',
    rb'{"i":1,"m":{"\u00e9":{"r":"x"}}}',
    rb'{"i":1,"m":{"a\\b":{"r":"x"}}}',
    rb'{"i":1,"o":{"say \"x\"":null}}',
    rb'{"i":1,"o":{"b":"x","a":1,"a":2,"b":2}}',
    rb'{"i":1,"s":"","u":{"r":"x"}}',
    b'{"i":"%s"}' % ("é😀x" * 30).encode(),
    b'{"i":{"a":"%s"}}' % (b"x" * 51),
    b'{"i":{"a":"%s"}}' % (b"x" * 52),
    b'{"i":"x","zz":[%s]}' % b",".join([b"[]"] * 300),
    b'{"i":"x","zz":[%s}' % b",".join([b"[]"] * 300),
    b'{"i":"x" "zz":%s}' % (b"[" * 201 + b"]" * 201),
    b'{"i":1}\r',
    b"\r",
    b" \t ",
    b"\x0b",
    b'\xef\xbb\xbf{"i":1}',
    b'{"s":"\xff"}',
    b'{"s":"a\x7fb"}',
    b'{"zz":"\xed\xa0\x80"}',
    b'{"zz":' + b"[" * 199 + b"]" * 199 + b"}",
    b'{"zz":' + b"[" * 200 + b"]" * 200 + b"}",
    b'{"u":' + b"[" * 1100 + b"]" * 1100 + b"}",
    b'{"q":' + b"[" * 1100,
    b'{"u":{"r":1,"zz":' + b'{"a":' * 198 + b"1" + b"}" * 198 + b"}}",
    b'{"u":{"r":1,"zz":' + b'{"a":' * 199 + b"1" + b"}" * 199 + b"}}",
]


@pytest.mark.parametrize("way", WAYS)
def test_keys_twice_lines_of_all_kinds_and_depths(way: str) -> None:
    for line in ODD_LINES:
        check_same(way, line + b"\n")
    check_same(way, b"\n".join(ODD_LINES) + b"\n")
    check_same(way, b"")


def test_levels_without_end_are_a_bad_record() -> None:
    decoder = Decoder(RecordRules(FIELDS))
    for name in ("u", "q", "zz"):
        found = decoder.decode(
            b'{"i":1}\n{"%s":%s}\n{"i":2}\n' % (name.encode(), b'[{"a":' * 55_000 + b"1" + b"}]" * 55_000)
        )
        assert [each.offset for each in found.rejected] == [1]
        assert found.rejected[0].reason == "nested too deeply: 110001 levels, at most 200 are read"


def _event(chance: random.Random, number: int) -> dict[str, Any]:
    """A record of the shape that real events have, with everything that records leave out now and then."""
    event: dict[str, Any] = {
        "i": number,
        "f": round(chance.uniform(-1e6, 1e6), chance.randrange(12)),
        "n": chance.choice([None, 1.25, "7.50", number]),
        "s": chance.choice(["plain", 'say "hi" \\ \n', "grün 😀", "", "\u2028"]),
        "t": chance.choice(["2026-01-28T10:11:12Z", "2026-01-28 10:11:12.123+02:00", None]),
        "u": chance.choice([None, {}, {"r": 1}, {"r": 2, "a": 3, "s": "x", "more": {"deep": [1, {}]}}]),
        "l": [chance.random() for _ in range(chance.randrange(4))],
        "k": [{"a": n, "s": None} for n in range(chance.randrange(3))],
        "m": {f"key{n}": {"r": n} for n in range(chance.randrange(3))},
        "q": chance.choice([None, {"any": [1, 2.50]}, "text"]),
        "zz": chance.choice([None, 1, [], {"a": {"b": None}}, "x"]),
    }
    return {name: value for name, value in event.items() if chance.random() < 0.8}


def _broken(chance: random.Random, text: str) -> bytes:
    """The text with a few characters changed, as often as not."""
    for _ in range(chance.choice([0, 0, 0, 1, 1, 2])):
        place = chance.randrange(len(text) + 1)
        piece = chance.choice(['"', "{", "}", "[", "]", ",", ":", "\\", "0", "1e5", ".", "-", "null", " ", "\x01", "é"])
        text = text[:place] + chance.choice(["", piece]) + text[place + chance.randrange(3) :]
    return text.encode()


@pytest.mark.parametrize("way", WAYS)
def test_events_of_a_real_shape_with_mutations(way: str) -> None:
    chance = random.Random(5)
    for _ in range(examples(40, 2)):
        records = [_event(chance, number) for number in range(100)]
        written = [json.dumps(record, ensure_ascii=chance.random() < 0.5) for record in records]
        block = b"\n".join(_broken(chance, text) for text in written) + b"\n"
        check_same(way, block)
        batch = Decoder(RecordRules(**WAYS[way])).decode(block).batch
        pq.write_table(pa.Table.from_batches([batch]), io.BytesIO())  # which refuses a null where none may be


@pytest.mark.parametrize("way", ["strict", "lenient", "coerced", "rescued"])
def test_the_native_reader_needs_no_help_with_ordinary_records(way: str) -> None:
    chance = random.Random(6)
    decoder = Decoder(RecordRules(**WAYS[way]))
    assert decoder._native is not None
    records = [_event(chance, number) for number in range(500)]
    if way != "rescued":
        records = [record | {"u": {"r": 1}} for record in records]
    found = decoder._native.read(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    assert found[1] == 500
    assert found[4] == []


MISFITS = [
    *('"i":"x"', '"i":1.5', '"i":99999999999999999999', '"i":true', '"j":2147483648', '"j":[]', '"f":"1"', '"f":1e400'),
    *('"f":9007199254740993', '"f":1e-400', '"g":1e39', '"g":{}', '"n":1.234', '"n":1234567890', '"n":"x"'),
    *('"s":7', '"b":0', '"t":"n/a"', '"t":7', '"d":"2026-02-30"', '"d":7', '"x":7', '"u":[]', '"u":{"a":1}', '"l":{}'),
    *('"u":{"r":null}', '"u":{"r":1,"a":"x"}', '"l":[1,"x"]', '"k":[null]', '"k":[{"a":1},{"a":"x"}]', '"m":7'),
    *('"m":{"p":{"a":1}}', '"m":{"p":{"r":"x"}}', '"o":{"p":null}', '"o":{"p":1,"p":2}', '"i":1,"i":2'),
]


def test_the_native_reader_says_itself_why_a_value_does_not_fit() -> None:
    decoder = Decoder(RecordRules(FIELDS))
    assert decoder._native is not None
    block = "".join(f"{{{each}}}\n" for each in MISFITS).encode()
    _, rows, _, _, odd, _ = decoder._native.read(block)
    assert rows == 0
    assert [MISFITS[number] for number, _, _, reason in odd if reason is None] == []
    check_same("strict", block)


def split(make: Callable[[int], Splitter], outer: int, chunks: list[bytes]) -> tuple[bytes, int | None, int, bool]:
    """Everything that a splitter says of some chunks."""
    splitter, lines, end = make(outer), b"", None
    for chunk in chunks:
        found, end = splitter.take(chunk)
        lines += found
        if end is not None:
            break
    return lines, end, splitter.elements, splitter.element_is_empty


PIECES = [
    *(b"{", b"}", b"[", b"]", b",", b'"', b"\\", b"\n", b"\r", b" ", b"ab", b'{"a":1}', b'{"b":"x', b'\\"', b'"},'),
    *(b"\\" * 63, b"\\" * 64, b"x" * 61, b'"' * 65, b'"abc",' * 11, b'{"text":"' + "é".encode() * 40),
]


@settings(max_examples=examples(20_000, 200), deadline=None)
@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=24),
    cuts=st.lists(st.integers(0, 600), max_size=3),
    outer=st.sampled_from([0, 1]),
)
@example(pieces=[b'[{"b":"x', b"\\", b"\n", b'{}"},{"a":2}]'], cuts=[], outer=1)
@example(pieces=[b'[{"b":"x', b"\\", b"\r", b'{}"},{"a":2}]'], cuts=[9], outer=1)
@example(pieces=[b'{"b":"', b"x" * 61, b"\n\\", b'"}', b"x" * 61, b'",\n"b":[1]}', b",", b"x" * 61], cuts=[], outer=0)
def test_arrays_are_split_alike(pieces: list[bytes], cuts: list[int], outer: int) -> None:
    native = find_native()
    assert native is not None
    chunks = in_chunks(b"".join(pieces), cuts)
    assert split(native.ArraySplitter, outer, chunks) == split(ChunkSplitter, outer, chunks)


def read_array(
    way: str, chunks: list[bytes], switch: str, *, start: int = 0, in_lines: bool = False, block_bytes: int = 1 << 22
) -> Any:
    """Everything that comes of an array in such chunks: rows and bad records by number, and unknown fields."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, switch)
        patch.setattr("tidegate.formats.json.gather_chunks", lambda chunks: chunks)
        decoder = Decoder(RecordRules(**WAYS[way]))
        assert decoder.reads_elements == (switch == "1")
        if switch == "1" and not in_lines:
            format = LineFormat(decoder, Format.JSON, Compression.NONE)
            found = format._read_elements(iter(chunks), "a.json")
        else:
            whole = blocks(element_lines(strip_byte_order_mark(chunks), "a.json"), block_bytes=block_bytes)
            found = map(decoder.decode, skip_lines(whole, start, "a.json"))
        rows: list[Any] = []
        bad: list[Any] = []
        count, is_too_long = start, False
        try:
            for each in found:
                each.batch.validate(full=True)
                places = range(each.lines) if each.offsets is None else each.offsets.tolist()
                rows += zip((count + place for place in places), each.batch.to_pylist(), strict=True)
                bad += [(count + one.offset, one.reason, one.text) for one in each.rejected]
                count += each.lines
        except SourceError as error:
            return str(error)
        except LineTooLong:
            is_too_long = True
        return rows, bad, count, is_too_long, {name: times for name, times in decoder.unknown.items() if times}


def in_chunks(whole: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    return [whole[start:end] for start, end in pairwise(places)]


ELEMENTS = [
    *(
        b'{"i":1}',
        b'{"i" : 2, "s":"a\\nb", "zz":[{}]}',
        b'{"i":"x"}',
        b'{"s":"}],{"}',
        b'\n{\r\n "u": {"r" : 3\n}}\t',
        b"{}",
    ),
    *(
        b'{"s":"a\nb"}',
        b'{"s":"\\',
        b'{"s":"\xff"}',
        '{"s":"é😀","k":[{"a":1},null]}'.encode(),
        b'{"i":1}{"i":2}',
        b"{ } x",
    ),
    *(
        b"",
        b" ",
        b"\n",
        b"1 2",
        b"null",
        b"[1]",
        b'"a',
        b'"b"',
        b"\\,",
        b'\\"',
        b'\\ "b" ',
        b'{"i":1',
        b"}",
        b"]",
        b"\xef\xbb\xbf",
        b"\xc3",
    ),
]


@pytest.mark.parametrize("way", ["strict", "rescued", "required"])
@settings(max_examples=examples(10_000, 150), deadline=None)
@given(
    elements=st.lists(st.sampled_from(ELEMENTS), max_size=8),
    frame=st.sampled_from(
        [(b"[", b"]"), (b"\xef\xbb\xbf \r\n[\n", b"\n]\n"), (b"[", b",]"), (b"", b""), (b"[", b""), (b"[", b"]x")]
    ),
    cuts=st.lists(st.integers(0, 160), max_size=4),
)
@example(elements=[b'{"i":1}', b'{"s":"x\\', b'"}', b'{"i":2}'], frame=(b"[", b"]"), cuts=[9, 17, 18])
def test_arrays_are_read_alike(way: str, elements: list[bytes], frame: tuple[bytes, bytes], cuts: list[int]) -> None:
    whole = frame[0] + b",".join(elements) + frame[1]
    expected = read_array(way, [whole], "0")
    assert read_array(way, [whole], "1") == expected
    assert read_array(way, in_chunks(whole, cuts), "1") == expected
    assert read_array(way, [whole[place : place + 1] for place in range(len(whole))], "1") == expected


@pytest.mark.slow
@settings(max_examples=examples(5000, 60), deadline=None)
@given(
    elements=st.lists(
        st.sampled_from([each for each in ELEMENTS if each.count(b"{") == each.count(b"}") and b"]" not in each])
        | st.integers(0, 40).map(lambda size: b'{"s":"%b"}' % (b"x" * size))
        | st.integers(0, 40).map(lambda size: b'{"i":1}' + b" \n" * size)
        | st.integers(0, 40).map(lambda size: b"1 " * size),
        max_size=6,
    ),
    longest=st.integers(7, 40),
    block_bytes=st.integers(1, 100),
    cuts=st.lists(st.integers(0, 160), max_size=4),
)
@example(elements=[b'{"i":1}', b'{"s":"%b"}' % (b"x" * 33), b'{"i":2}'], longest=40, block_bytes=50, cuts=[20])
@example(elements=[b'{"i":1}', b'{"s":"%b"}' % (b"x" * 32), b'{"i":2}'], longest=40, block_bytes=50, cuts=[20])
@example(
    elements=[b'{"i":1}', b" " * 50 + b'{"i":2}' + b"\n" * 50, b"1 " * 20], longest=20, block_bytes=1, cuts=[40, 80]
)
def test_the_longest_element_is_the_same_in_every_way(
    elements: list[bytes], longest: int, block_bytes: int, cuts: list[int]
) -> None:
    whole = b"[" + b",".join(elements) + b"]"
    try:
        lines = b"".join(element_lines([whole], "a.json")).split(b"\n")
    except SourceError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.formats.json.LONGEST_LINE", longest)
        expected = read_array("rescued", [whole], "1")
        rows, bad, count, is_too_long, _ = expected
        first = next((number for number, line in enumerate(lines) if len(line) > longest), None)
        assert is_too_long == (first is not None)
        assert count == (len(lines) if first is None else first) or lines == [b""]
        for chunks in ([whole], in_chunks(whole, cuts), [whole[at : at + 1] for at in range(len(whole))]):
            assert read_array("rescued", chunks, "1") == expected
            for switch in "01":
                assert read_array("rescued", chunks, switch, in_lines=True, block_bytes=block_bytes) == expected
                for start in range(1, count + 1):
                    *resumed, _ = read_array(
                        "rescued", chunks, switch, start=start, in_lines=True, block_bytes=block_bytes
                    )
                    tail = [[each for each in some if each[0] >= start] for some in (rows, bad)]
                    assert resumed == [*tail, count, is_too_long]


def test_a_large_array_is_read_alike() -> None:
    chance = random.Random(8)
    written = [json.dumps(_event(chance, number), indent=chance.choice([None, 1])) for number in range(400)]
    whole = b"[" + b" ,\n".join(_broken(chance, text) for text in written) + b"]"
    expected = read_array("rescued", [whole], "0")
    for size in (len(whole), 1000, 4096):
        assert read_array("rescued", [whole[at : at + size] for at in range(0, len(whole), size)], "1") == expected


def check_same_inference(some: list[bytes], **options: bool) -> None:
    found = []
    for switch in ("1", "0"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(SWITCH, switch)
            try:
                inference = infer_json([some], **options)
                found.append((inference.to_json(), json.dumps(inference.to_json()), inference.problems))
            except SourceError as error:
                found.append(str(error))
    assert found[0] == found[1]


@settings(max_examples=examples(5000, 40), deadline=None)
@given(
    chosen=st.lists(lines(), min_size=1, max_size=8),
    options=st.sampled_from(["coerce_conflicts_to_utf8", "rescued", "moments"]),
)
def test_columns_are_inferred_alike(chosen: list[bytes], options: str) -> None:
    check_same_inference(chosen, **{options: True})


@pytest.mark.slow
def test_columns_of_edges_and_of_real_shapes_are_inferred_alike() -> None:
    chance = random.Random(7)
    check_same_inference([json.dumps(_event(chance, number)).encode() for number in range(300)], rescued=True)
    check_same_inference(ODD_LINES, rescued=True)
    for each in TEXTS:
        check_same_inference([f'{{"a":"{each}","b":["{each}"]}}'.encode(), b'{"b":["x"]}'], moments=True)
    moments = ",".join(f'"m{number}":"{each}"' for number, each in enumerate(MOMENTS))
    check_same_inference([f"{{{moments}}}".encode()], moments=True)
    for written in [*NUMBERS, *(f'"{each}"' for each in TEXTS[-28:]), *(text.decode("latin-1") for _, text in TABLE)]:
        check_same_inference([f'{{"a":{written},"b":[{written}]}}'.encode(), b'{"a":1}'], coerce_conflicts_to_utf8=True)
    deep = [b'{"a":' * levels + b"1" + b"}" * levels for levels in (1, 31, 32, 33, 34, 35, 200, 201)]
    check_same_inference([b'\xef\xbb\xbf{"a":1}', b'\x0b{"b":2}\x0c', b'{"c":\n1}', b'{"c":"\n"}', *deep], rescued=True)
