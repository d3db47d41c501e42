"""Every command that a text of the program names, as in a remedy, exists with these options."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

import tidegate
from support.commands import child
from tidegate.cli.main import cli

SOURCES = Path(tidegate.__file__).parent
NAMED = re.compile(r"`tidegate ([^`]+)`|'tidegate ([^']+)'")
HOLE = "HOLE"
"""Stands for what the program fills in."""


def texts(tree: ast.AST) -> Iterator[str]:
    """Every text in the code, whatever it is made of."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def find_commands() -> dict[str, str]:
    """The commands that texts name, each with a place."""
    found: dict[str, str] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        for text in texts(ast.parse(path.read_text())):
            named = [(match[1] or match[2]).strip() for match in NAMED.finditer(text)]
            # A command that the program fills in, or that stands for any, has no name here.
            found |= {each: str(path.relative_to(SOURCES)) for each in named if not each.split()[0].isupper()}
    return found


def problem_of(words: list[str]) -> str | None:
    """Why the program does not know the command; None if it does."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words and words[0] in command.list_commands(click.Context(command)):
        command = child(command, words.pop(0))
    if isinstance(command, click.Group) and command is cli:
        return "there is no such command"
    if isinstance(command, click.Group) and words:
        return f"{command.name} has no command {words[0]}"
    options = {option for parameter in command.params for option in parameter.opts}
    unknown = [word for word in words if word.startswith("-") and word not in options]
    return f"{command.name} has no option {', '.join(unknown)}" if unknown else None


def test_every_command_that_a_text_names_exists_with_its_options() -> None:
    found = find_commands()
    assert {"replay", "watermark set", "recover --accept restore", "units list"} <= set(found)
    problems = {name: (place, problem_of(shlex.split(name))) for name, place in found.items()}
    assert {name: problem for name, problem in problems.items() if problem[1]} == {}


def test_a_command_that_does_not_exist_is_noticed() -> None:
    assert problem_of(["watermark", "rest"]) == "watermark has no command rest"
    assert problem_of(["replay", "--file", "x"]) == "replay has no option --file"
    assert problem_of(["rewind"]) == "there is no such command"
