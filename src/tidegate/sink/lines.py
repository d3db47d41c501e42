"""Chunks of bytes as blocks of whole lines, with the physical line each block begins at.

A record is a line; lines are counted as they lie in the file, blank ones included, because that count is what
a commit remembers of a half-read file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.errors import SourceError

BLOCK_BYTES = 4 * 1024 * 1024
LONGEST_LINE = 64 * 1024 * 1024

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineTooLong(Exception):
    """The line behind the last block is longer than :data:`LONGEST_LINE`."""


def blocks(chunks: Iterable[bytes], *, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Blocks of about ``block_bytes`` that end with a newline; a missing one at the end is added.

    A byte order mark at the beginning is dropped. Raises :class:`LineTooLong`, so that memory stays bounded.
    """
    held: list[bytes] = []
    size = 0
    for chunk in without_mark(chunks):
        held.append(chunk)
        size += len(chunk)
        if size < block_bytes:
            continue
        end = chunk.rfind(b"\n") + 1
        if end:
            held[-1] = chunk[:end]
            yield b"".join(held)
            held, size = [chunk[end:]], len(chunk) - end
        elif size > LONGEST_LINE:
            raise LineTooLong
    last = b"".join(held)
    if last:
        yield last if last.endswith(b"\n") else last + b"\n"


def without_mark(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same chunks without a byte order mark at the beginning."""
    beginning = b""
    rest = iter(chunks)
    for chunk in rest:
        beginning += chunk
        if len(beginning) >= len(_BYTE_ORDER_MARK):
            break
    yield beginning.removeprefix(_BYTE_ORDER_MARK)
    yield from rest


def skip(blocks: Iterable[bytes], count: int, path: str) -> Iterator[bytes]:
    """The same blocks without their first ``count`` lines."""
    left = count
    for block in blocks:
        lines = block.count(b"\n") if left else 0
        if lines > left or not left:
            yield _without_lines(block, left)
            left = 0
        else:
            left -= lines
    if left:
        raise SourceError(
            f"{path}: has {count - left} lines, but {count} of its lines are committed",
            "the file was cut after it was read; restore it",
        )


def _without_lines(block: bytes, count: int) -> bytes:
    start = 0
    for _ in range(count):
        start = block.index(b"\n", start) + 1
    return block[start:]
