"""Memory that a task gives back is kept by its process for the next block; and how many files it may have open.

Every block is parsed into some tens of megabytes that live for a moment. The C library returns such pieces to the
kernel at once, which hands them out again page by page, each zeroed first: a tenth of a task's time. Kept pieces
cost nothing; the peak stays what it was.
"""

from __future__ import annotations

import ctypes
import resource
from functools import cache

_MEGABYTE = 1024 * 1024
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_SETTINGS = {_TRIM_THRESHOLD: 1024 * _MEGABYTE, _TOP_PAD: 64 * _MEGABYTE, _MMAP_THRESHOLD: 32 * _MEGABYTE}
_OTHER_FILES = 256
"""Files and connections that a process has open besides those that it writes."""


@cache
def keep_memory() -> bool:
    """Tell the C library, once per process; False where it is not glibc and cannot be told."""
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return all(list(map(tell, _SETTINGS.keys(), _SETTINGS.values())))


@cache
def files_at_once(wanted: int) -> int:
    """How many files this process may have open for writing, up to ``wanted``; its limit is raised where it can be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    needed = wanted + _OTHER_FILES
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(wanted, max(soft - _OTHER_FILES, soft // 2))
