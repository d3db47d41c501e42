"""Names that files give to their columns, which of them a table cannot have, and which of them somebody means."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import SchemaMismatch

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


def spelled(name: str, names: Sequence[str]) -> str:
    """``name`` as the rows spell it: exactly, or the only one of ``names`` that differs in upper and lower case.

    ``name`` itself where there is none, ``SchemaMismatch`` where it may be one of several.

    >>> spelled("updated_at", ["ID", "Updated_At"])
    'Updated_At'
    """
    if name in names:
        return name
    alike = [each for each in names if each.lower() == name.lower()]
    if len(alike) > 1:
        raise SchemaMismatch(
            f"column {name!r} may be {' or '.join(map(repr, alike))}", "write it as one of them is spelled"
        )
    return alike[0] if alike else name
