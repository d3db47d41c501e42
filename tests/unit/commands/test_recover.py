"""Which commits after a usable state are known to follow it, whatever their steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.commands.recover import _since
from tidegate.protocol.change import Coverage, Identity, SourceKey
from tidegate.protocol.documents import Document, Parent
from tidegate.protocol.open import Winner
from tidegate.protocol.recovery import Rung

KEY = SourceKey("p", "s")
IDENTITY = Identity("path", "file:///x")


def rung(version: int, follows: int, action: str = "run") -> Rung:
    parent = Parent(follows, "a", "h") if follows else None
    coverage = (Coverage(f"file-{version}", 1, None, 0, 1, True),)
    document = Document(KEY, IDENTITY, version, "a", parent, None, 0, {}, coverage, (), 1, "", action=action)
    return Rung(version, Winner(Parent(version, "a", "h"), {}, IDENTITY, document, None, 0, 0, 0, True), False, "")


def lost(version: int) -> Rung:
    return replace(rung(version, 1), winner=None)


@pytest.mark.parametrize(
    ("rungs", "known"),
    [
        ([rung(4, 3), rung(3, 2), rung(2, 1)], [2, 3, 4]),
        ([rung(9, 4), lost(6), rung(4, 1), lost(2)], [4, 9]),
        ([rung(9, 5), lost(5), rung(4, 1)], [4]),
        ([lost(3), lost(2)], []),
        ([rung(3, 2), rung(2, 1, action="watermark set")], []),
    ],
    ids=["step by step", "leaps", "a link is missing", "nothing", "a move is not told by what it covers"],
)
def test_commits_follow_each_other_as_their_documents_say(rungs: list[Rung], known: list[int]) -> None:
    assert [version for version, _ in _since(rungs, 1)] == known
