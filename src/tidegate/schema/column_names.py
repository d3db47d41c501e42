"""Names that files give to their columns, and which of them a table cannot have."""

from __future__ import annotations

from collections.abc import Sequence

_UNFIT = frozenset(" ,;{}()\n\t=")


def unusable(names: Sequence[str], forbidden: tuple[str, ...]) -> list[str]:
    """What is wrong with the names of a file's columns, a sentence each; ``forbidden`` ones come from the path.

    >>> unusable(["id", "ID", "a b"], ())
    ["'ID' differs from another column only in upper and lower case", "'a b' cannot be the name of a column"]
    """
    first = {name.lower(): name for name in reversed(names)}
    problems = []
    for name in names:
        if first[name.lower()] != name:
            problems.append(f"{name!r} differs from another column only in upper and lower case")
        if name in forbidden:
            problems.append(f"{name!r} is also a partition column that comes from the path")
        if not name or _UNFIT & set(name):
            problems.append(f"{name!r} cannot be the name of a column")
    return problems
