"""What an error is about: tests look for the things and values it names, never for its sentences.

A fact is a name, a value, a key, a command, at most one telling word: whatever a better sentence would still contain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

E = TypeVar("E", bound=BaseException)


@contextmanager
def raises(kind: type[E], *facts: object) -> Iterator[pytest.ExceptionInfo[E]]:
    """Expect an error of this class that names all the facts, as :func:`check_names` has it."""
    with pytest.raises(kind) as caught:
        yield caught
    check_names(caught.value, *facts)


def check_names(said: object, *facts: object) -> None:
    """Check that an error or a line names each fact as a whole word, in any order; ``…`` separates facts."""
    __tracebackhide__ = True
    text = str(said)
    missing = [fact for given in facts for fact in split(str(given)) if not _is_named(fact, text)]
    assert not missing, f"{missing} not in: {text}"


def split(facts: str) -> list[str]:
    """The single facts of a text such as ``source.path … 'in/'``."""
    return [fact for part in facts.split("…") if (fact := part.strip())]


def _is_named(fact: str, text: str) -> bool:
    begin = r"(?<!\w)" if re.match(r"\w", fact) else ""
    end = r"(?!\w)" if re.search(r"\w$", fact) else ""
    return re.search(f"{begin}{re.escape(fact)}{end}", text) is not None
