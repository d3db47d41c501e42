"""One folder for everything that Spark leaves on this machine's disk while a process runs, gone when that ends.

Java gets it as its folder for temporary files: blocks, spilled rows, artifacts and unpacked libraries lie in there, and
the log of Spark's start. A process holds a lock on its folder. One that was killed could not remove it: whoever starts
next removes the folders that nobody holds.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from tidegate.spark.silence import silence_py4j

PREFIX = "tidegate-spark-"
_LOCK = "lock"
_held: dict[Path, int] = {}
"""The folders of this process, each with its lock."""

_owner = os.getpid()


def claim() -> Path:
    """The folder of this process, which is removed when the process ends; those of dead ones are removed now."""
    global _owner
    if _held and os.getpid() == _owner:
        return next(iter(_held))
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if os.getpid() != _owner or not _held:
        _held.clear()
        _owner = os.getpid()
        atexit.register(_release)
    _held[folder] = lock
    return folder


def sweep() -> None:
    """Remove the folders of processes that are gone; only those of this user, and none that is a link."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.lstat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _release() -> None:
    """The JVM ends first: it would go on writing. A process that was forked from ours has nothing to release."""
    if os.getpid() != _owner:
        return
    _end_jvm()
    for folder, lock in _held.items():
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
    _held.clear()


def _end_jvm(seconds: float = 10.0) -> None:
    """End the JVM that PySpark started in this process, if it did, as the end of the process would; and wait for it."""
    with contextlib.suppress(Exception):
        from pyspark import SparkContext

        process = getattr(SparkContext._gateway, "proc", None)
        if process is not None:
            silence_py4j()
            process.stdin.close()
            process.wait(seconds)
