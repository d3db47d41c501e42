"""Whose columns count when files contradict each other: those of the majority, column by column.

A file votes for each of its columns once, with the spelling of the name and the kind of the values; numbers are one
kind. The variant of most files wins, and files with another one are set aside. They have no vote on other columns: the
clearest majority is settled first, and the rest vote again. A tie is no majority. A column that is known already is
decided: only files that agree with it count. The order of the files decides nothing.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.reports.wording import count

Variant = tuple[str, str]
"""A column by its name, or its path inside another, and the kind of its values."""


@dataclass(frozen=True, slots=True)
class FileColumns:
    """What one file says about columns: their kinds; ``mixed`` are those of which its own records say several.

    ``problem`` is why the file cannot be used, whatever others have. One without records has no vote.
    """

    path: str
    kinds: Mapping[str, str]
    mixed: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    votes: bool = True


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
    decided = {name.lower(): (name, kind) for name, kind in (known or {}).items()}
    odd = {file.path: file.problem for file in files if file.problem}
    while True:
        left = [file for file in files if file.path not in odd]
        counted = _Votes.of(left, decided)
        against = {file.path: found for file in left if (found := dict(counted.against(file)))}
        clearest = counted.clearest({name for found in against.values() for name in found})
        if clearest is None:
            break
        # One column at a time: a file that is set aside has no vote on the others, and so cannot make a tie there.
        odd |= {path: found[clearest] for path, found in against.items() if clearest in found}
    odd |= {path: next(iter(found.values())) for path, found in against.items()}
    return Majority(frozenset(file.path for file in files if file.path not in odd), odd, tuple(counted.ties()))


@dataclass(frozen=True, slots=True)
class _Votes:
    """The votes of some files: the variants of each column by its name in lower case, those of most files first."""

    ranked: Mapping[str, Sequence[tuple[Variant, int]]]
    decided: Mapping[str, Variant]

    @classmethod
    def of(cls, files: Sequence[FileColumns], decided: Mapping[str, Variant]) -> _Votes:
        votes: dict[str, Counter[Variant]] = defaultdict(Counter)
        for file in files:
            for variant in file.kinds.items() if file.votes else ():
                votes[variant[0].lower()][variant] += 1
        # By votes, then by name: the order in which a store lists files must not decide.
        ranked = {name: sorted(found.items(), key=lambda item: (-item[1], item[0])) for name, found in votes.items()}
        return cls(ranked, decided)

    def lead(self, name: str) -> float:
        """How many votes the winner of a column is ahead; 0 is a tie."""
        if name in self.decided:
            return math.inf
        votes = [found for _, found in self.ranked[name]]
        return votes[0] - sum(votes[1:2])

    def clearest(self, contested: Iterable[str]) -> str | None:
        """The column whose winner is furthest ahead; None if all are ties."""
        return min(
            (name for name in contested if self.lead(name)), key=lambda name: (-self.lead(name), name), default=None
        )

    def ties(self) -> Iterator[str]:
        """The columns without a winner."""
        for name, variants in sorted(self.ranked.items()):
            if not self.lead(name):
                yield " and ".join(
                    f"{spelt!r} is {kind} in {count(votes, 'file')}" for (spelt, kind), votes in variants
                )

    def against(self, file: FileColumns) -> Iterator[tuple[str, str]]:
        """The columns in which a file contradicts the winners, and how."""
        for name, kind in (*file.kinds.items(), *file.mixed.items()):
            column = name.lower()
            votes = dict(self.ranked.get(column, ()))
            winner = self.decided.get(column) or next(iter(votes), None)
            if winner is None or (name, kind) == winner:
                continue
            other, wanted = winner
            if name != other:
                yield column, f"{name!r} differs from the column {other!r} of other files only in upper and lower case"
            else:
                others = f"in {count(votes[winner], 'file')}" if winner in votes else "as known"
                yield column, f"{name!r} is {kind} here, and {wanted} {others}"
