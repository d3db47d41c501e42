"""What messages tell people to run exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from support.commands import walk
from tidegate.cli.main import cli

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"


def test_every_extra_that_a_message_or_a_page_names_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    files = [*SRC.rglob("*.py"), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = {name for file in files for name in re.findall(r"tidegate\[(\w+)\]", file.read_text())}
    assert named
    assert named <= set(extras)


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
