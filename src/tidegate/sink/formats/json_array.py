"""A file that is one JSON array, as lines: an element per line, split in bounded memory without parsing it.

Whole chunks are looked at at once. Brackets and commas outside texts decide where an element ends, whatever else is
wrong inside it, so a malformed element becomes a line that the decoder refuses and its neighbours stay whole. Line
ends inside an element become blanks; inside a text, where JSON does not allow them, they become carriage returns,
which it does not allow either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from tidegate.errors import SourceError

Bytes = npt.NDArray[np.uint8]

_QUOTE, _COMMA, _BACKSLASH, _NEWLINE, _RETURN, _BLANK = 34, 44, 92, 10, 13, 32
_STEPS = np.zeros(256, np.int32)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_WHITE = np.zeros(256, bool)
_WHITE[list(b" \t\r\n")] = True
_NOTHING = b","
"""The line that stands for an element that is not there, as behind a last comma."""


def element_lines(chunks: Iterable[bytes], path: str) -> Iterator[bytes]:
    """The elements of the array in ``chunks``, each followed by a newline but the last; raises :class:`SourceError`.

    A file with a single object is an array of one. One without anything holds no record.
    """
    splitter = _Splitter(path)
    for chunk in chunks:
        yield splitter.take(chunk)
    yield splitter.end()


class _Splitter:
    """Where in the array the chunks so far have led: how deep, inside a text or not, at which element."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._kind = ""
        self._ended = False
        self._depth = 0
        self._inside = False
        self._escaped = False
        self._elements = 0
        self._element_is_empty = True

    def take(self, chunk: bytes) -> bytes:
        """What the next chunk gives."""
        if not self._kind:
            chunk = self._begin(chunk.lstrip(b" \t\r\n"))
        if not self._kind or not chunk:
            return b""
        if self._ended:
            self._check_behind(chunk)
            return b""
        content = np.frombuffer(chunk, np.uint8).copy()
        inside = self._texts(content)
        depth = self._depth + np.cumsum(np.where(inside, 0, _STEPS[content]), dtype=np.int32)
        end = self._end_of(content, inside, depth)
        if end is not None:
            self._ended = True
            self._check_behind(chunk[end + 1 :])
            last = end if self._kind == "array" else end + 1
            content, inside, depth = content[:last], inside[:last], depth[:last]
        elif len(depth):
            self._depth = int(depth[-1])
        return self._with_gaps_told(_split(content, inside, depth))

    def end(self) -> bytes:
        """What is left when there is no more; raises where the array is not whole."""
        if self._kind and not self._ended:
            raise SourceError(f"{self._path}: the {self._kind} ends too early", "write the whole file again")
        return _NOTHING if self._elements and self._element_is_empty else b""

    def _begin(self, chunk: bytes) -> bytes:
        if not chunk:
            return chunk
        self._kind = {b"[": "array", b"{": "object"}.get(chunk[:1], "")
        if not self._kind:
            raise SourceError(
                f"{self._path}: begins with {chunk[:1]!r}, so it is neither a JSON array nor an object",
                "write one array of objects, or set `format` of the source to what its files are",
            )
        self._depth = 1
        return chunk[1:] if self._kind == "array" else chunk

    def _texts(self, content: Bytes) -> npt.NDArray[np.bool_]:
        """Which bytes lie inside texts, opening quotes included."""
        quotes = content == _QUOTE
        escaped, self._escaped = _escaped(content, self._escaped)
        quotes[escaped] = False
        inside = np.logical_xor.accumulate(quotes) ^ self._inside if len(quotes) else quotes
        if len(inside):
            self._inside = bool(inside[-1])
        return inside

    def _end_of(self, content: Bytes, inside: npt.NDArray[np.bool_], depth: npt.NDArray[np.int32]) -> int | None:
        """Where the bracket stands that closes everything."""
        outer = 0 if self._kind == "array" else 1
        found = np.flatnonzero((depth <= outer) & ~inside & (_STEPS[content] < 0))
        if not len(found):
            return None
        end = int(found[0])
        closing = b"]" if self._kind == "array" else b"}"
        if bytes(content[end : end + 1]) != closing:
            raise SourceError(
                f"{self._path}: the {self._kind} is closed by {chr(content[end])!r} behind element "
                f"{self._elements + 1 + int(_separators(content[:end], inside[:end], depth[:end]).sum())}",
                "write the file again",
            )
        return end

    def _check_behind(self, rest: bytes) -> None:
        if rest.strip(b" \t\r\n"):
            raise SourceError(
                f"{self._path}: something follows the {self._kind}",
                "write one array per file, or set `format: ndjson` for a file with an object per line",
            )

    def _with_gaps_told(self, lines: bytes) -> bytes:
        """The same with a line for every element that is not there; counts elements on the way."""
        if not lines:
            return lines
        if self._element_is_empty and lines.startswith(b"\n"):
            lines = _NOTHING + lines
        while b"\n\n" in lines:
            lines = lines.replace(b"\n\n", b"\n" + _NOTHING + b"\n")
        self._elements += lines.count(b"\n")
        self._element_is_empty = lines.endswith(b"\n")
        return lines


def _escaped(content: Bytes, first: bool) -> tuple[npt.NDArray[np.int64], bool]:
    """The places that an odd number of backslashes stands before, and whether the next chunk begins with one."""
    slashes = np.flatnonzero(content == _BACKSLASH)
    if first:
        slashes = np.concatenate((np.array([-1]), slashes))
    if not len(slashes):
        return slashes, False
    starts = np.flatnonzero(np.diff(slashes, prepend=-9) != 1)
    lengths = np.diff(starts, append=len(slashes))
    after = (slashes[starts] + lengths)[lengths % 2 == 1]
    return after[after < len(content)], bool(len(after)) and int(after[-1]) == len(content)


def _separators(content: Bytes, inside: npt.NDArray[np.bool_], depth: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (content == _COMMA) & (depth == 1) & ~inside
    return found


def _split(content: Bytes, inside: npt.NDArray[np.bool_], depth: npt.NDArray[np.int32]) -> bytes:
    """A part of the array with its commas as line ends, and without the blanks between elements."""
    separators = _separators(content, inside, depth)
    kept = ~(_WHITE[content] & ~inside & (depth <= 1))
    breaks = (content == _NEWLINE) | (content == _RETURN)
    content[breaks] = np.where(inside[breaks], _RETURN, _BLANK)
    content[separators] = _NEWLINE
    return content[kept].tobytes()
