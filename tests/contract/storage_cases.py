"""What the storage contract is tried with: every kind of store, and names that are hard to carry."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from servers.azure import CLOUDS

REMOTE = [pytest.param("s3", marks=pytest.mark.s3)]
if CLOUDS:
    REMOTE += [pytest.param("azure", marks=pytest.mark.clouds)]
"""The servers that tests run, by the names of their fixtures; emulated clouds only in ``make test-clouds``."""

HARD_NAMES = (
    "with space/a b.json",
    "percent%20/100%/a%2Fb.json",
    "hash#/a#1.json",
    "plus+/a+b.json",
    "date=2024-01-28/hour=14/x=1.json",
    "2024-01-28T14:00:00/a:b.json",
    "question?/why?.json",
    "amp&semi;/a&b;c.json",
    "quotes'\"/a'b\".json",
    "<angle>/a>b.json",
    "tilde~/[a]{b}|^`$!*(),@.json",
    "ünïcödé/żółć-日本語.json",
    "emoji😀/a😀.json",
    "-dash/-a.json",
)


def race(contestants: list[Callable[[], None]]) -> list[BaseException | None]:
    """Run all at once; what each raised."""
    barrier = threading.Barrier(len(contestants))
    outcomes: list[BaseException | None] = [None] * len(contestants)

    def run(index: int) -> None:
        barrier.wait()
        try:
            contestants[index]()
        except BaseException as error:
            outcomes[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(contestants))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
