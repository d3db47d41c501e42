"""How much of a matrix is run: with ``TIDEGATE_LONG=1`` (``make test-long``) all of it, else what tells the most.

With ``TIDEGATE_QUICK=1`` (``make unit``) laws are tried with a third of the examples.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

LONG = bool(os.environ.get("TIDEGATE_LONG"))
QUICK = bool(os.environ.get("TIDEGATE_QUICK"))


def chosen(every: Sequence[T], *some: T) -> list[T]:
    """All cases in a long run, else ``some`` of them, which must be among them."""
    assert set(some) <= set(every)
    return list(every if LONG else some)


def examples(long: int, short: int | None = None) -> int:
    """How many examples Hypothesis makes: ``long`` in a long run, else ``short``, or a quarter of ``long``."""
    usual = long if LONG else short or max(15, long // 4)
    return min(usual, max(10, usual // 3)) if QUICK else usual
