"""One writer of a table's log at a time, on a local disk.

Spark replaces a log entry that appears between its look and its rename, on local disks only: it counts on the file
system to refuse, and that one does not. So commits by Spark take a lock that every process of Tidegate respects.
Other programs do not know it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.specs import Location

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
