"""Finds the records in an answer while it arrives: never more than one record and the rest of the answer in memory.

The structure is read off the brackets and commas outside strings, many bytes at a time; what lies inside a record is
not looked at. The answer without its records stays, for what it tells besides them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

LONGEST_RECORD = 64 * 1024 * 1024
"""Bytes up to which one record, or all that is not records, is taken."""

_QUOTE, _BACKSLASH, _COMMA, _COLON = b'"\\,:'
_OPEN_LIST, _CLOSE_LIST, _OPEN, _CLOSE = b"[]{}"
_CHANGES = np.zeros(256, np.int64)
_CHANGES[[_OPEN, _OPEN_LIST]] = 1
_CHANGES[[_CLOSE, _CLOSE_LIST]] = -1
_IS_STRUCTURE = _CHANGES != 0
_IS_STRUCTURE[[_COMMA, _COLON]] = True
_FIRST_PRINTABLE = 32

Positions = npt.NDArray[np.int64]


class NotAnswer(Exception):
    """The bytes are no JSON that could hold records; the argument says why.

    ``found`` is what the server sent there, as a whole: it is to be masked before it is cut.
    """

    def __init__(self, why: str, found: str = "") -> None:
        super().__init__(why, found)
        self.why = why
        self.found = found

    def __str__(self) -> str:
        return f"{self.why}: {self.found!r}" if self.found else self.why


class CutOff(Exception):
    """The answer ends in the middle."""


class Scanner:
    """Takes an answer in pieces; gives each element of the list at ``path`` to ``found``, on one line.

    ``path`` are the names from the outside to the list, none for an answer that is itself the list.
    """

    def __init__(self, path: tuple[str, ...], found: Callable[[bytes], None]) -> None:
        self.is_found = False
        self.count = 0
        self._path = path
        self._found = found
        self._depth = 0
        self._in_string = False
        self._odd_backslash = False
        self._in_list = False
        self._rest = bytearray()
        self._element = bytearray()
        self._names: dict[int, bytes] = {}
        self._string_begin = 0
        self._open_string = False

    def feed(self, chunk: bytes) -> None:
        """The next piece; raises :class:`NotAnswer`."""
        content = np.frombuffer(chunk, np.uint8)
        quotes = self._quotes(content)
        structure = np.flatnonzero(_IS_STRUCTURE[content])
        structure = structure[~self._inside(quotes, structure)]
        if self._inside(quotes, np.flatnonzero(content < _FIRST_PRINTABLE)).any():
            raise NotAnswer("a control character inside a string")
        changes = _CHANGES[content[structure]]
        after = self._depth + np.cumsum(changes)
        levels = np.minimum(after, after - changes)
        deepest = len(self._path)
        outer = structure[levels <= deepest + 1]
        depths = np.concatenate(([self._depth], after))
        keys = quotes[depths[np.searchsorted(structure, quotes)] <= deepest] if deepest else quotes[:0]
        places = np.sort(np.concatenate((outer, keys)))
        level_of = dict(zip(outer.tolist(), levels[levels <= deepest + 1].tolist(), strict=True))
        self._walk(chunk, places.tolist(), level_of)
        self._depth = int(after[-1]) if len(after) else self._depth
        self._in_string ^= bool(len(quotes) & 1)

    def finish(self) -> Any:
        """What the answer holds besides the records, whose list is empty in it.

        Raises :class:`CutOff` when the answer is not at its end, :class:`NotAnswer` when it is no JSON.
        """
        if self._depth or self._in_string or not bytes(self._rest).strip():
            raise CutOff
        try:
            return orjson.loads(self._rest.removeprefix(b"\xef\xbb\xbf"))
        except orjson.JSONDecodeError as error:
            raise NotAnswer(f"not JSON ({error})") from error

    def _quotes(self, content: npt.NDArray[np.uint8]) -> Positions:
        """Where strings begin and end: quotes without an odd number of backslashes before them."""
        quotes = np.flatnonzero(content == _QUOTE)
        backslashes = content == _BACKSLASH
        if not (self._odd_backslash or backslashes.any()):
            return quotes
        places = np.arange(len(content))
        start = -2 if self._odd_backslash else -1
        last_other = np.maximum.accumulate(np.where(backslashes, start, places))
        run = places - last_other
        self._odd_backslash = bool(len(content)) and bool(run[-1] & 1)
        before = np.where(quotes > 0, run[quotes - 1], -1 - start)
        unescaped: Positions = quotes[before & 1 == 0]
        return unescaped

    def _inside(self, quotes: Positions, places: Positions) -> npt.NDArray[np.bool_]:
        """Which places lie inside strings."""
        inside: npt.NDArray[np.bool_] = (np.searchsorted(quotes, places) + self._in_string) & 1 == 1
        return inside

    def _walk(self, chunk: bytes, places: list[int], level_of: dict[int, int]) -> None:
        begin = 0
        for place in places:
            sign, level = chunk[place], level_of.get(place, 0)
            if self._in_list:
                if sign == _COMMA and level == len(self._path) + 1:
                    self._end_element(chunk[begin:place], last=False)
                    begin = place + 1
                elif level == len(self._path):
                    self._end_list(chunk[begin:place], sign)
                    begin = place
                continue
            self._rest += chunk[begin:place]
            begin = place
            if sign == _QUOTE:
                self._note_string()
            elif sign == _COLON and level <= len(self._path):
                self._names = {outer: name for outer, name in self._names.items() if outer < level}
                self._names[level] = bytes(self._rest[self._string_begin :])
            elif sign == _OPEN_LIST and level == len(self._path) and self._is_here():
                self._rest += b"["
                begin = place + 1
                self._in_list = self.is_found = True
        taken = self._element if self._in_list else self._rest
        taken += chunk[begin:]
        if len(taken) > LONGEST_RECORD:
            raise NotAnswer(f"a record, or what is not records, of more than {LONGEST_RECORD // 1024**2} MB")

    def _note_string(self) -> None:
        if not self._open_string:
            self._string_begin = len(self._rest)
        self._open_string = not self._open_string

    def _is_here(self) -> bool:
        """Whether a list that begins here is the one of the records."""
        try:
            here = tuple(orjson.loads(self._names.get(level, b"null")) for level in range(1, len(self._path) + 1))
        except orjson.JSONDecodeError as error:
            raise NotAnswer(f"not JSON ({error})") from error
        if here == self._path and self.is_found:
            raise NotAnswer(f"the list {'.'.join(self._path)!r} twice")
        return here == self._path

    def _end_element(self, text: bytes, *, last: bool) -> None:
        self._element += text
        whole = bytes(self._element).translate(_ON_ONE_LINE).strip()
        self._element.clear()
        if last and not whole and not self.count:
            return
        self.count += 1
        if not (whole.startswith(b"{") and whole.endswith(b"}")):
            raise NotAnswer(f"record {self.count} is no object", whole.decode("utf-8", "replace"))
        self._found(whole)

    def _end_list(self, text: bytes, sign: int) -> None:
        if sign != _CLOSE_LIST:
            raise NotAnswer("brackets that do not match")
        self._end_element(text, last=True)
        self._in_list = False


_ON_ONE_LINE = bytes.maketrans(b"\r\n\t", b"   ")
