"""The form of Java properties: names and values, continued lines, escapes, comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.)|$)", re.DOTALL)
_NAME = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Property:
    """One property, with the line in which it begins."""

    line: int
    name: str
    value: str


def properties(text: str) -> Iterator[Property]:
    """The properties of ``text``, in their order; one that is given twice comes twice.

    >>> [each.value for each in properties("a = 1,\\\\\\n    2\\n# b=3\\n")]
    ['1,2']
    """
    for line, written in _logical_lines(text):
        found = _NAME.fullmatch(written)
        assert found is not None
        yield Property(line, _plain(found[1]), _plain(found[2]).strip())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank ones; those that end with a backslash go on in the next."""
    begun: tuple[int, str] | None = None
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        content = line.lstrip(" \t\f")
        if begun is None and (not content or content[0] in "#!"):
            continue
        first, before = begun or (number, "")
        if _goes_on(content):
            begun = (first, before + content[:-1])
        else:
            begun = None
            yield first, before + content
    if begun is not None:
        yield begun


def _goes_on(line: str) -> bool:
    """Whether a line ends with a backslash that escapes nothing else."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _plain(text: str) -> str:
    def letter(found: re.Match[str]) -> str:
        code, escaped = found.groups()
        return chr(int(code, 16)) if code else _ESCAPES.get(escaped or "", escaped or "")

    return _ESCAPED.sub(letter, text)
