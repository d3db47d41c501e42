"""Names that files give to their columns, which of them a table cannot have, and which of them somebody means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tidegate.errors import SchemaMismatch
from tidegate.schema.names import fit_name, forbidden_name, name_problem

DECLARE_OTHERS = (
    "declare schema.fields with the columns you want: columns that are not declared are left out and counted"
)
"""What helps against names that a table cannot have."""


def table_names(names: Sequence[str], forbidden: Sequence[str] = ()) -> tuple[str, ...]:
    """The columns that a file's columns become: a name that a table cannot have is written with underscores.

    It stays as it is where another column of the file has, or would get, the same name, or where it is ``forbidden``:
    which column is meant must not depend on their order.

    >>> table_names(["Order Date", "total (EUR)", "a b", "a_b", "c d", "c(d"])
    ('Order_Date', 'total_EUR', 'a b', 'a_b', 'c d', 'c(d')
    """
    fitted = [fit_name(name) for name in names]
    taken = Counter(name.lower() for name in (*fitted, *forbidden))
    return tuple(
        better if better and taken[better.lower()] == 1 else name for name, better in zip(names, fitted, strict=True)
    )


def unusable(names: Sequence[str], forbidden: tuple[str, ...]) -> list[str]:
    """What is wrong with the names of a file's columns, a sentence each; ``forbidden`` ones come from the path.

    >>> unusable(["id", "ID", ""], ())
    ["'ID' differs from another column only in upper and lower case", "'' is empty; give it a name"]
    """
    first = {name.lower(): name for name in reversed(names)}
    problems = []
    for name in names:
        if first[name.lower()] != name:
            problems.append(f"{name!r} differs from another column only in upper and lower case")
        if name in forbidden:
            problems.append(forbidden_name(name))
        if wrong := name_problem(name, rescue=False):
            problems.append(f"{name!r} {wrong}")
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
