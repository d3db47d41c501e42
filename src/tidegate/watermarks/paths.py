"""Paths of source files: split into partition and name, and compared as that pair.

A path is relative to the source's location. Comparing whole paths would be wrong: ``d=1-x/a`` sorts before
``d=1/a`` because ``-`` sorts before ``/``. Order is that of the UTF-8 bytes, which is also the order of
Python's own strings (code points), so names may be compared as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

ROOT = ""
"""The partition of the files that lie directly at the location."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as a listing showed it; ``etag`` where the store has one."""

    path: str
    size: int
    etag: str | None = None


def split(path: str) -> tuple[str, str]:
    """Partition and file name, split at the last ``/``.

    >>> split("date=2024-01-28/hour=14/a.json"), split("a.json")
    (('date=2024-01-28/hour=14', 'a.json'), ('', 'a.json'))
    """
    partition, _, name = path.rpartition("/")
    return partition, name


def join(partition: str, name: str) -> str:
    """The path of ``name`` in ``partition``."""
    return f"{partition}/{name}" if partition else name


def sort_key(path: str) -> tuple[bytes, bytes]:
    """The order of paths: by partition, then by name, in UTF-8 byte order."""
    partition, name = split(path)
    return partition.encode(), name.encode()


def just_below(name: str) -> str | None:
    """A string that sorts below ``name`` and close to it, to list from it on; ``None`` if there is none.

    >>> just_below("1706450400-a.json")
    '1706450400-a.jso'
    """
    return name[:-1] or None


def same_content(size: int | None, etag: str | None, file: SourceFile) -> bool:
    """Whether a recorded size and etag are those of ``file``; what was not recorded is not compared."""
    if size is not None and size != file.size:
        return False
    return etag is None or file.etag is None or etag == file.etag
