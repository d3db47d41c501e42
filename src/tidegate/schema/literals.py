"""JSON read exactly: numbers as they were written, objects as the pairs they hold; and compact text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NoReturn


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


_DECODER = json.JSONDecoder(parse_int=Literal, parse_float=Literal, parse_constant=_constant, object_pairs_hook=Pairs)


def parse(line: bytes) -> Any:
    """The one JSON value that ``line`` holds; raises :class:`NotJson`."""
    try:
        return _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise NotJson(f"not UTF-8 at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise NotJson(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise NotJson("not readable: nested too deeply") from error


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
            return "{" + ",".join(f"{_quoted(key)}:{compact(item)}" for key, item in value) + "}"
        case list():
            return "[" + ",".join(map(compact, value)) + "]"
        case str():
            return _quoted(value)
        case _:
            return json.dumps(value)


def rescued_text(values: Iterable[tuple[str, str]]) -> str:
    """Paths, and values that are JSON text already, as one JSON object.

    >>> rescued_text([("user.nick", '"ann"'), ("n", "1.50")])
    '{"user.nick":"ann","n":1.50}'
    """
    return written("{" + ",".join(f"{_quoted(path)}:{text}" for path, text in values) + "}")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def written(text: str) -> str:
    """``text`` with half surrogate pairs, which cannot be written anywhere, as escapes.

    >>> written("a" + chr(0xD800))
    'a\\\\ud800'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def is_unicode(value: Any) -> bool:
    """Whether every text in ``value``, keys included, can be written; half a surrogate pair cannot.

    >>> is_unicode(parse(b'{"a":"\\\\udc00"}'))
    False
    """
    try:
        compact(value).encode()
    except UnicodeEncodeError:
        return False
    return True


def shortened(value: Any, limit: int = 60) -> str:
    """``value`` as it is shown in a message; half a surrogate pair, which no file can hold, as its escape."""
    text = written(compact(value))
    return text if len(text) <= limit else text[: limit - 1] + "…"
