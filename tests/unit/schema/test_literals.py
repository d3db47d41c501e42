"""JSON read exactly: what is refused whatever it is for, with the reason."""

from __future__ import annotations

import doctest
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from support.errors import raises
from tidegate.commands.doctor import doctor
from tidegate.schema import literals
from tidegate.schema.literals import DEEPEST, NotJson, compact, depth, find_half_pair, parse

HALVES = [
    (rb'"\uDFAA"', r"\uDFAA"),
    (rb'"\ud800"', r"\ud800"),
    (rb'"\ud83d\u0041"', r"\ud83d"),
    (rb'"\ud83d x \ude00"', r"\ud83d"),
    (rb'"\ude00\ud83d"', r"\ude00"),
    (rb'"\ud83d\ud83d\ude00"', r"\ud83d"),
    (rb'{"x\uDFAA":3}', r"\uDFAA"),
    (rb'{"a":[{"b":"\\\udbff"}]}', r"\udbff"),
    (rb'"\ud83d\n\ude00"', r"\ud83d"),
]
WHOLE = [
    rb'"\ud83d\ude00"',
    rb'"\\ud800"',
    rb'"\\\\uDFAA"',
    rb'"\uD840\uDC00\u00e9"',
    rb'"\ue000\ud7ff"',
    b'"\xf0\x9f\x98\x80"',
]


@pytest.mark.parametrize(("text", "escape"), HALVES)
def test_half_a_surrogate_pair_is_refused_wherever_it_stands(text: bytes, escape: str) -> None:
    assert find_half_pair(text) == escape
    with raises(NotJson, "Unicode", "surrogate"):
        parse(text)


@pytest.mark.parametrize("text", WHOLE)
def test_whole_pairs_and_escaped_backslashes_are_text(text: bytes) -> None:
    assert find_half_pair(text) is None
    compact(parse(text)).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"[" * DEEPEST + b"]" * DEEPEST,
        b'{"a":' * (DEEPEST - 1) + b"{}" + b"}" * (DEEPEST - 1),
        b"[" + b"[[]]," * 500 + b"1]",
        b'["' + b"[" * 5000 + b'"]',
        b'["\\"' + b"{" * 5000 + b'"]',
    ],
)
def test_what_is_not_too_deep_is_read_and_written(text: bytes) -> None:
    assert compact(parse(text)).encode() == text
    assert depth(text) <= DEEPEST


@pytest.mark.slow
@pytest.mark.parametrize("levels", [DEEPEST + 1, 480, 120_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]"), (b"[", b"")])
def test_what_is_too_deep_is_refused_with_its_depth(opening: bytes, closing: bytes, levels: int) -> None:
    text = opening * levels + b"1" + closing * levels
    found = levels * (opening.count(b"[") + opening.count(b"{"))
    assert depth(text) == found
    with raises(NotJson, f"{found} levels", DEEPEST):
        parse(text)


def test_the_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(literals).failed == 0


def reader_in_doctor() -> tuple[str, str]:
    (found,) = [each for each in doctor() if each.name == "json reader"]
    return found.verdict, found.detail


def missing(name: str) -> NoReturn:
    raise ImportError(name)


@pytest.mark.parametrize(
    ("switch", "module", "status", "text"),
    [
        ("1", SimpleNamespace(__version__="0.3.0"), "ok", "native (tidegate-native 0.3.0)"),
        ("1", SimpleNamespace(__version__="0.3.7"), "ok", "native (tidegate-native 0.3.7)"),
        ("0", SimpleNamespace(__version__="0.3.0"), "warn", "the slower one: TIDEGATE_NATIVE=0"),
        ("1", None, "warn", "the slower one: tidegate-native is not installed"),
        ("1", SimpleNamespace(__version__="0.0.9"), "warn", "the slower one: tidegate-native is 0.0.9, not 0.3"),
    ],
)
def test_the_reader_in_use_is_told(
    switch: str, module: Any, status: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(literals.SWITCH, switch)
    monkeypatch.setattr(literals, "import_module", missing if module is None else lambda name: module)
    assert (literals.find_native() is not None) == (status == "ok")
    assert reader_in_doctor() == (status, text)
