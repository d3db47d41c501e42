"""Memory that a task gives back is kept by its process for the next block.

Every block is parsed into some tens of megabytes that live for a moment. The C library returns such pieces to the
kernel at once, which hands them out again page by page, each zeroed first: a tenth of a task's time. Kept pieces
cost nothing; the peak stays what it was.
"""

from __future__ import annotations

import ctypes
from functools import cache

_MEGABYTE = 1024 * 1024
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_SETTINGS = {_TRIM_THRESHOLD: 1024 * _MEGABYTE, _TOP_PAD: 64 * _MEGABYTE, _MMAP_THRESHOLD: 32 * _MEGABYTE}


@cache
def keep_memory() -> bool:
    """Tell the C library, once per process; False where it is not glibc and cannot be told."""
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return all(list(map(tell, _SETTINGS.keys(), _SETTINGS.values())))
