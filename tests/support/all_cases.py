"""One test for many small cases, where a test for each would only be a longer list of dots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
Check = Callable[[T], None]


def for_all(cases: Iterable[T], name: Callable[[T], str] = str) -> Callable[[Check[T]], Callable[[], None]]:
    """Make a check of one case a test of all; it fails with the name and the reason of each case that fails."""

    def test_of_all(check: Check[T]) -> Callable[[], None]:
        def test() -> None:
            every = list(cases)
            assert every, "there is no case"
            failed = [f"{name(case)}: {reason}" for case in every if (reason := _failure(check, case))]
            assert not failed, "\n".join([f"{len(failed)} of {len(every)}:", *failed])

        test.__name__, test.__qualname__, test.__module__ = check.__name__, check.__qualname__, check.__module__
        test.__doc__ = check.__doc__
        return test

    return test_of_all


def _failure(check: Check[T], case: T) -> str:
    try:
        check(case)
    except Exception as error:  # whatever it is, the other cases are looked at, too
        return f"{type(error).__name__}: {error}".removeprefix("AssertionError: ")
    return ""
