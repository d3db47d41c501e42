"""What messages tell people to run exists."""

from __future__ import annotations

import re
from pathlib import Path

from support.commands import walk
from tidegate.cli.main import cli

SRC = Path(__file__).parents[2] / "src"


def test_every_command_that_a_message_names_exists() -> None:
    known = {tuple(name.split()[1:]) for name, _ in walk(cli, "tidegate")}
    named = {
        (path.name, words)
        for path in SRC.rglob("*.py")
        for words in re.findall(r"`tidegate ([a-z]+(?: [a-z]+)?)", path.read_text())
    }
    assert named, "no message names a command any more: remove this test"
    unknown = {
        (name, words) for name, words in named if tuple(words.split()) not in known and (words.split()[0],) not in known
    }
    assert unknown == set()
