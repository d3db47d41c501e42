"""Glob patterns over paths: ``*`` and ``?`` stay inside one level, ``**`` crosses levels."""

from __future__ import annotations

import re
from functools import lru_cache

_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """The glob as a regular expression for whole paths.

    >>> bool(compiled("**/*.json").fullmatch("a/b/c.json")), bool(compiled("*.json").fullmatch("a/b.json"))
    (True, False)
    """
    return re.compile("".join(_translated(token) for token in _TOKEN.findall(pattern)), re.DOTALL)


def _translated(token: str) -> str:
    if token in _WILD:
        return _WILD[token]
    if token.startswith("[") and len(token) > 1:
        inside = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?!/)[^{inside[1:]}]" if inside.startswith("!") else f"(?!/)[{inside}]"
    return re.escape(token)


def matches_path(pattern: str, path: str) -> bool:
    """Whether a file fits: by its name, or by its whole path if the pattern has a ``/``."""
    return compiled(pattern).fullmatch(path if "/" in pattern else path.rpartition("/")[2]) is not None


def matches_any_level(pattern: str, path: str) -> bool:
    """Whether a path fits as a whole or, for a pattern without ``/``, in any of its levels."""
    if "/" in pattern:
        return compiled(pattern).fullmatch(path) is not None
    return any(compiled(pattern).fullmatch(level) for level in path.split("/"))
