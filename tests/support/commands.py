"""The commands of the program, all of them loaded."""

from __future__ import annotations

from collections.abc import Iterator

import click


def child(group: click.Group, name: str) -> click.Command:
    """The command of that name."""
    command = group.get_command(click.Context(group), name)
    assert command is not None, name
    return command


def walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """The command and all below it, each with its full name."""
    yield name, command
    if isinstance(command, click.Group):
        for each in command.list_commands(click.Context(command)):
            yield from walk(child(command, each), f"{name} {each}")
