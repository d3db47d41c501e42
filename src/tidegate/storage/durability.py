"""Forcing files to disk, and one writer of a table's log at a time on a local disk.

A file is forced before it gets its name, and the directory after that: a name without content would be worse than
neither. A directory that was just made is forced into the one above it.

Spark replaces a log entry that appears between its look and its rename, on local disks only: it counts on the file
system to refuse, and that one does not. So commits by Spark take a lock that every process of Tidegate respects.
Other programs do not know it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.specs.locations import Location

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


LOCK = "_tidegate/commit.lock"
"""Relative to the table; it stays there, and only its being locked means something."""


def announce(location: Location) -> None:
    """Spark is going to write the table at ``location``: whoever commits from now on takes the lock."""
    descriptor = _opened(location, always=True)
    if descriptor is not None:
        os.close(descriptor)


@contextmanager
def alone(location: Location, *, always: bool) -> Iterator[None]:
    """While inside, no other process of Tidegate writes the log of the table at ``location``.

    Waits for those that do. Without ``always`` that holds only where Spark has announced itself: elsewhere every writer
    creates entries so that one of two is refused. Object stores need no lock: there Spark does so, too.
    """
    descriptor = _opened(location, always=always)
    if descriptor is None:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _opened(location: Location, *, always: bool) -> int | None:
    from tidegate.storage.options import split_uri

    scheme, _, path = split_uri(location.uri)
    if scheme != "file":
        return None
    lock = f"/{path}/{LOCK}"
    if always:
        os.makedirs(os.path.dirname(lock), exist_ok=True)
    try:
        return os.open(lock, os.O_RDWR | (os.O_CREAT if always else 0), 0o644)
    except FileNotFoundError:
        return None
