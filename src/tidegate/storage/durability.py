"""Forcing files and their names to disk, so that a power cut finds them where they were said to be.

A file is forced before it gets its name, and the directory after that: a name without content would be worse than
neither. A directory that was just made is forced into the one above it.
"""

from __future__ import annotations

import errno
import os
import stat

_CANNOT = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
"""What file systems answer that keep names by themselves and cannot force a directory."""


def force(descriptor: int) -> None:
    """Everything written to an open file or directory is on disk when this returns."""
    os.fsync(descriptor)


def force_path(path: str) -> None:
    """The same for the file or the directory at ``path``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        force(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise
    finally:
        os.close(descriptor)


def make_directories(path: str, *, sync: bool) -> None:
    """The directory and those above it, as far as they are missing; ``FileExistsError`` for a file in its place."""
    made: list[str] = []
    above = path
    while sync and above and not os.path.lexists(above):
        made.append(above)
        above = os.path.dirname(above)
    os.makedirs(path, exist_ok=True)
    for each in reversed(made):
        force_path(os.path.dirname(each))
