"""Problems of a configuration file: collected, never raised one by one, worded so that no secret shows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.config.tree import Block, Loc, Scalar, find, line_of, path_of
from tidegate.specs.jdbc_addresses import shown_address
from tidegate.specs.masking import MASK, looks_secret

_SECRET_BLOCKS = ("storage_options", "auth", "headers", "properties", "options", "config")
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


def problem(root: Block, loc: Loc, text: str) -> Problem:
    """The problem ``text`` of what stands at ``loc``."""
    return Problem(line_of(root, loc), path_of(root, loc), text)


def masked(text: str) -> str:
    """``text`` without the passwords and tokens inside addresses and assignments.

    >>> masked("sc://spark:15002/;token=abc;use_ssl=true")
    'sc://spark:15002/;token=***;use_ssl=true'
    """
    return _ASSIGNED.sub(rf"\1{MASK}", _IN_ADDRESS.sub(MASK, text))


def masked_address(url: str) -> str:
    """``url`` with all that may be secret masked: what is before the last ``@``, and parameters.

    >>> masked_address("postgresql://me:p@ss/w@host/state?sslmode=require")
    'postgresql://***@host/state?***'
    >>> masked_address("jdbc:oracle:thin:scott/tiger@//host/service")
    'jdbc:oracle:thin:***@//host/service'
    """
    plain = re.sub(r"^((?:[\w+.-]+:)+(?://)?).*@", rf"\1{MASK}@", url)
    return re.sub(r"([?;]).*", rf"\1{MASK}", plain)


def shown(root: Block, loc: Loc) -> str:
    """The value at ``loc`` as the file has it, quoted; empty for secrets and for what is not a scalar."""
    node = find(root, loc)
    if not isinstance(node, Scalar) or any(_hidden(part) for part in loc) or tuple(loc) == ("state", "url"):
        return ""
    if loc[-1] in ("url", "token_url"):
        text = shown_address(node.raw) if node.raw.lstrip().startswith("jdbc:") else masked_address(node.raw)
    else:
        text = masked(node.raw)
    return repr(text if len(text) <= 60 else text[:57] + "…")


def _hidden(part: str | int) -> bool:
    return isinstance(part, str) and (part in _SECRET_BLOCKS or looks_secret(part))


def nearest(word: str, allowed: Iterable[str]) -> str:
    """``did you mean 'x'?``, or nothing."""
    names = {name.lower(): name for name in allowed}
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.6)
    return f"did you mean {names[close[0]]!r}?" if close else ""


def sentence(*parts: str) -> str:
    """The parts that are not empty, joined by semicolons."""
    return "; ".join(part for part in parts if part)
