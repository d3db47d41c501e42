"""Problems of a configuration file: collected, never raised one by one, worded so that no secret shows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tidegate.specs.masking import MASK

_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*(?=@)")
_ASSIGNED = re.compile(r"(?i)((?:passw\w*|secret\w*|token|sig|\w*key)\s*=\s*)[^&;\s]+")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong, at one line."""

    line: int
    path: str
    text: str

    def at(self, origin: str) -> str:
        """``FILE:LINE: path.to.key: what``, on one line whatever the file holds."""
        where = f"{origin}:{self.line}: {self.path}" if self.path else f"{origin}:{self.line}"
        line = f"{where}: {self.text}"
        return "".join(letter if letter.isprintable() else "?" for letter in line)


@dataclass(slots=True)
class Notes:
    """Problems and notices found so far; ``settled`` places need no further problem."""

    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    settled: list[tuple[str | int, ...]] = field(default_factory=list)

    def add(self, found: Problem, settles: tuple[str | int, ...]) -> None:
        """Add a problem after which the place needs no other."""
        self.problems.append(found)
        self.settled.append(settles)

    def covers(self, loc: Sequence[str | int]) -> bool:
        """Whether ``loc`` is at or below a place that is reported already."""
        return any(tuple(loc[: len(done)]) == done for done in self.settled)


def mask(text: str) -> str:
    """``text`` without the passwords and tokens inside addresses and assignments.

    >>> mask("sc://spark:15002/;token=abc;use_ssl=true")
    'sc://spark:15002/;token=***;use_ssl=true'
    """
    return _ASSIGNED.sub(rf"\1{MASK}", _IN_ADDRESS.sub(MASK, text))


def mask_address(url: str) -> str:
    """``url`` with all that may be secret masked: what is before the last ``@``, and parameters.

    >>> mask_address("postgresql://me:p@ss/w@host/state?sslmode=require")
    'postgresql://***@host/state?***'
    >>> mask_address("jdbc:oracle:thin:scott/tiger@//host/service")
    'jdbc:oracle:thin:***@//host/service'
    """
    plain = re.sub(r"^((?:[\w+.-]+:)+(?://)?).*@", rf"\1{MASK}@", url)
    return re.sub(r"([?;]).*", rf"\1{MASK}", plain)


def nearest(word: str, allowed: Iterable[str]) -> str:
    """``did you mean 'x'?``, or nothing."""
    names = {name.lower(): name for name in allowed}
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.6)
    return f"did you mean {names[close[0]]!r}?" if close else ""


def sentence(*parts: str) -> str:
    """The parts that are not empty, joined by semicolons."""
    return "; ".join(part for part in parts if part)
