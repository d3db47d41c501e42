"""JSON files as records: an object per line, or one array of objects; numbers keep the text they were written with."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from tidegate.errors import SourceError

_CHUNK = 1024 * 1024
_LARGEST = 64 * 1024 * 1024
"""Bytes of one object, from which on the file is given up."""

_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
_BLANK = " \t\r\n"


def json_records(raw: BinaryIO, path: str) -> Iterator[dict[str, Any]]:
    """The objects of one file; raises :class:`SourceError` at the first that is none."""
    text = _Text(raw, path)
    text.skip()
    return _elements(text) if text.peek() == "[" else _lines(text)


def _lines(text: _Text) -> Iterator[dict[str, Any]]:
    number = 0
    while line := text.line():
        number += 1
        if stripped := line.strip(_BLANK):
            try:
                found, end = _DECODER.raw_decode(stripped)
                if end < len(stripped):
                    raise ValueError("something follows the object")
                yield _object(found)
            except ValueError as error:
                raise text.wrong(f"line {number}: {_said(error)}") from error


def _elements(text: _Text) -> Iterator[dict[str, Any]]:
    text.take()
    number = 0
    while (following := text.skip()) != "]":
        if number:
            if following != ",":
                raise text.wrong(f"element {number} is not followed by a comma")
            text.take()
            text.skip()
        number += 1
        try:
            yield _object(text.value())
        except ValueError as error:
            raise text.wrong(f"element {number}: {_said(error)}") from error
    text.take()
    if text.skip():
        raise text.wrong("something follows the array")


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _said(error: ValueError) -> str:
    return f"not JSON: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)


class _Text:
    """A file of which a window is in memory."""

    def __init__(self, raw: BinaryIO, path: str) -> None:
        self._raw = raw
        self._path = path
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._window = ""
        self._place = 0
        self._ended = False

    def wrong(self, problem: str) -> SourceError:
        """The error that names the file."""
        return SourceError(f"{self._path}: {problem}", "write the file again, or correct `format`")

    def peek(self) -> str:
        """The next letter; nothing at the end."""
        while self._place >= len(self._window) and self._more():
            pass
        return self._window[self._place : self._place + 1]

    def take(self) -> None:
        """Go on by one letter."""
        self._place += 1

    def skip(self) -> str:
        """Go on behind blanks; the next letter."""
        while (letter := self.peek()) and letter in _BLANK:
            self.take()
        return letter

    def line(self) -> str:
        """The next line with its end; nothing at the end."""
        while (end := self._window.find("\n", self._place)) < 0 and self._more():
            pass
        start, self._place = self._place, end + 1 if end >= 0 else len(self._window)
        return self._window[start : self._place]

    def value(self) -> object:
        """The next JSON value; raises ``ValueError``."""
        while True:
            try:
                found, self._place = _DECODER.raw_decode(self._window, self._place)
            except json.JSONDecodeError:
                if not self._more():
                    raise
            else:
                return found

    def _more(self) -> bool:
        """Read on; false at the end of the file."""
        if self._ended:
            return False
        if len(self._window) - self._place > _LARGEST:
            raise self.wrong(f"a record is larger than {_LARGEST // 1024 // 1024} MiB, or not closed")
        chunk = self._raw.read(_CHUNK)
        self._ended = not chunk
        try:
            added = self._decoder.decode(chunk, final=self._ended)
        except UnicodeDecodeError as error:
            raise self.wrong("not UTF-8") from error
        self._window = self._window[self._place :] + added
        self._place = 0
        return True
