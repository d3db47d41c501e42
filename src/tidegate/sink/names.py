"""Names of new files: UUIDv7, unique without coordination and ascending in time."""

from __future__ import annotations

import secrets
import time
import uuid


def uuid7() -> str:
    """A version 7 UUID: milliseconds, then the microseconds within them, then 62 random bits."""
    nanoseconds = time.time_ns()
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    fraction = rest * 4096 // 1_000_000
    value = (milliseconds & (2**48 - 1)) << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=value))
