"""JSON read exactly: numbers as they were written, objects as the pairs they hold; and compact text.

The grammar is RFC 8259, with the two bounds that it leaves to whoever reads: values are nested at most :data:`DEEPEST`
levels deep, and texts and keys are Unicode, so half a surrogate pair is refused wherever it stands.

``tidegate-native`` is a package of its own, compiled from ``native/``. It reads lines of JSON, looks at samples, splits
arrays and reads blocks of Avro by the same rules. Without it, or with ``TIDEGATE_NATIVE=0``, code in Python does the
same, far slower.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from importlib import import_module
from itertools import accumulate
from types import ModuleType
from typing import Any, NoReturn

# A line nested 110,000 levels deep ended the worker and blocked its source.
DEEPEST = 200
"""Levels of objects and arrays that a record may have, itself included; native parsers end the process far above."""

_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|[^u])")
_OPENING = ord("[")
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}[]")


class Literal(str):
    """A number, as the text it was written as."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """An object: its keys and values in order, repeated keys included."""

    __slots__ = ()


class NotJson(Exception):
    """The text is not one JSON value; the argument says why."""


def _constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON")


# As text: a float would change `12345678901234567890.1` before anybody could compare it with its column.
_DECODER = json.JSONDecoder(parse_int=Literal, parse_float=Literal, parse_constant=_constant, object_pairs_hook=Pairs)


def parse(line: bytes) -> Any:
    """The one JSON value that ``line`` holds; raises :class:`NotJson`.

    Everything that comes out can be written: no text in it holds half a surrogate pair, and it is at most
    :data:`DEEPEST` levels deep.
    """
    if (levels := depth(line)) > DEEPEST:
        raise NotJson(f"nested too deeply: {levels} levels, at most {DEEPEST} are read")
    try:
        value = _DECODER.decode(line.decode("utf-8"))
        # Python's decoder accepts half a pair, which can then not be written as UTF-8.
        if (half := find_half_pair(line)) is not None:
            raise NotJson(f"not Unicode: {half} is half a surrogate pair")
        return value
    except UnicodeDecodeError as error:
        raise NotJson(f"not UTF-8 at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise NotJson(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise NotJson("not readable: nested too deeply") from error


def depth(line: bytes) -> int:
    """How many levels of objects and arrays ``line`` opens inside each other; 0 where it has too few to matter.

    >>> depth(b"[" * 300 + b'"]]]"'), depth(b'{"a":[1,2]}')
    (300, 0)
    """
    # Two counts cost far less than taking the texts out, and nearly every line needs no more.
    if line.count(b"[") + line.count(b"{") <= DEEPEST:
        return 0
    left = _TEXT.sub(b"", line).translate(_ONE_KIND, _NO_BRACKETS)
    for level in range(DEEPEST + 1):
        if not left:
            return level
        left = left.replace(b"[]", b"")
    steps = (1 if byte == _OPENING else -1 for byte in _TEXT.sub(b"", line).translate(_ONE_KIND, _NO_BRACKETS))
    return max(accumulate(steps), default=0)


def find_half_pair(line: bytes) -> str | None:
    """The first escape in a JSON text that is half a surrogate pair, or None.

    >>> find_half_pair(rb'{"a": "\\uD83D\\uDE00 \\\\ud800"}'), find_half_pair(rb'["\\uDFAA"]')
    (None, '\\\\uDFAA')
    """
    if b"\\ud" not in line and b"\\uD" not in line:
        return None
    begun: re.Match[bytes] | None = None
    for found in _ESCAPE.finditer(line):
        code = int(found[1], 16) if found[1] else 0
        follows = begun is not None and begun.end() == found.start()
        if 0xDC00 <= code <= 0xDFFF and follows:
            begun = None
            continue
        if begun is not None:
            break
        if 0xDC00 <= code <= 0xDFFF:
            return found[0].decode()
        begun = found if 0xD800 <= code <= 0xDBFF else None
    return None if begun is None else begun[0].decode()


def kind_of(value: Any) -> str:
    """What a value is, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case Literal():
            return "a number"
        case str():
            return "a string"
        case Pairs():
            return "an object"
        case _:
            return "an array"


def compact(value: Any) -> str:
    """``value`` as JSON text without white space; numbers as they were written.

    >>> compact(parse(b'{"a": [1.50, "x", null], "a": true}'))
    '{"a":[1.50,"x",null],"a":true}'
    """
    match value:
        case Literal():
            return str(value)
        case Pairs():
            return "{" + ",".join(f"{_quote(key)}:{compact(item)}" for key, item in value) + "}"
        case list():
            return "[" + ",".join(map(compact, value)) + "]"
        case str():
            return _quote(value)
        case _:
            return json.dumps(value)


def join_rescued(values: Iterable[tuple[str, str]]) -> str:
    """Paths, and values that are JSON text already, as one JSON object.

    >>> join_rescued([("user.nick", '"ann"'), ("n", "1.50")])
    '{"user.nick":"ann","n":1.50}'
    """
    return escape_halves("{" + ",".join(f"{_quote(path)}:{text}" for path, text in values) + "}")


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def escape_halves(text: str) -> str:
    """``text`` with half surrogate pairs, which cannot be written anywhere, as escapes.

    >>> escape_halves("a" + chr(0xD800))
    'a\\\\ud800'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def excerpt(value: Any, limit: int = 60) -> str:
    """``value`` for a message, shortened; half a surrogate pair, which no file can hold, as its escape."""
    text = escape_halves(compact(value))
    return text if len(text) <= limit else text[: limit - 1] + "…"


NATIVE_VERSION = "0.3"
"""The versions of ``tidegate-native`` that this code knows: 0.3.0, 0.3.1 and so on."""

SWITCH = "TIDEGATE_NATIVE"


def wants_native() -> bool:
    """False where the native reader is switched off on purpose."""
    return os.environ.get(SWITCH) != "0"


def find_native() -> ModuleType | None:
    """The native module; None where it is switched off, not installed, or of another version."""
    found = _import_native() if wants_native() else None
    # It is built and installed apart, and another version may read by other rules.
    return found if found is not None and _is_known(found) else None


def describe_reader() -> str:
    """Which reader of JSON is in use here, in words."""
    if not wants_native():
        return f"the slower one: {SWITCH}=0"
    found = _import_native()
    if found is None:
        return "the slower one: tidegate-native is not installed"
    if not _is_known(found):
        return f"the slower one: tidegate-native is {found.__version__}, not {NATIVE_VERSION}"
    return f"native (tidegate-native {found.__version__})"


def _is_known(native: ModuleType) -> bool:
    return str(native.__version__).startswith(f"{NATIVE_VERSION}.")


def _import_native() -> ModuleType | None:
    try:
        return import_module("tidegate_native")
    except ImportError:
        return None
