"""Whose columns count when files contradict each other: those of the majority, column by column.

A file votes for each of its columns once, with the spelling of the name and the kind of the values; numbers are one
kind. The variant of most files wins, and files with another one are set aside. A tie is no majority. A column that is
known already is decided: only files that agree with it count. The order of the files decides nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.observe.wording import count

Variant = tuple[str, str]
"""A column by its name, or its path inside another, and the kind of its values."""


@dataclass(frozen=True, slots=True)
class FileColumns:
    """What one file says about columns: their kinds; ``mixed`` are those of which its own records say several.

    ``problem`` is why the file cannot be used, whatever others have.
    """

    path: str
    kinds: Mapping[str, str]
    mixed: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Majority:
    """The files whose columns agree, and why each of the others does not; ``ties`` are columns without a majority."""

    kept: frozenset[str]
    odd: Mapping[str, str] = field(default_factory=dict)
    ties: tuple[str, ...] = ()


def find_majority(files: Sequence[FileColumns], known: Mapping[str, str] | None = None) -> Majority:
    """Divide files by the columns of most of them; ``known`` are columns that are decided, with their kinds.

    >>> found = find_majority([FileColumns("a", {"id": "number"}), FileColumns("b", {"ID": "number"})])
    >>> found.ties
    ("'ID' is number in 1 file and 'id' is number in 1 file",)
    """
    votes: dict[str, Counter[Variant]] = defaultdict(Counter)
    for file in files:
        if not file.problem:
            for variant in file.kinds.items():
                votes[variant[0].lower()][variant] += 1
    decided = {name.lower(): (name, kind) for name, kind in (known or {}).items()}
    ranked = {name: sorted(found.items(), key=lambda item: (-item[1], item[0])) for name, found in votes.items()}
    winners = {name: decided.get(name, variants[0][0]) for name, variants in ranked.items()}
    ties = tuple(
        " and ".join(f"{spelt!r} is {kind} in {count(files, 'file')}" for (spelt, kind), files in variants)
        for name, variants in sorted(ranked.items())
        if name not in decided and len(variants) > 1 and variants[0][1] == variants[1][1]
    )
    odd = {file.path: reason for file in files if (reason := file.problem or next(_against(file, winners, votes), ""))}
    return Majority(frozenset(file.path for file in files if file.path not in odd), odd, ties)


def _against(file: FileColumns, winners: Mapping[str, Variant], votes: Mapping[str, Counter[Variant]]) -> Iterator[str]:
    """Where a file contradicts the winners."""
    decided = {name: kind for name, kind in file.mixed.items() if name.lower() in winners}
    for name, kind in (*file.kinds.items(), *decided.items()):
        other, wanted = winners[name.lower()]
        if name != other:
            yield f"{name!r} differs from the column {other!r} of other files only in upper and lower case"
        elif kind != wanted:
            files = votes[name.lower()][other, wanted]
            others = f"in {count(files, 'file')}" if files else "as known"
            yield f"{name!r} is {kind} here, and {wanted} {others}"
