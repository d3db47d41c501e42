"""Asking before something is changed: a page of consequences, then yes or no; scripts say ``--yes`` instead."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from tidegate.cli.invocation import Invocation
from tidegate.cli.options import Decorated
from tidegate.cli.pages import Page

if TYPE_CHECKING:
    from tidegate.observe.events import Emit, Event

Planned = TypeVar("Planned")


def confirm_options(command: Decorated) -> Decorated:
    """``--dry-run`` and ``--yes``."""
    dry_run = click.option("--dry-run", is_flag=True, help="Show what it would mean; change nothing.")
    yes = click.option("--yes", is_flag=True, help="Do not ask; for scripts.")
    return dry_run(yes(command))


@dataclass(slots=True)
class Asking:
    """How one command asks; ``asked`` and ``declined`` tell afterwards what came of it."""

    invocation: Invocation
    dry_run: bool
    yes: bool
    asked: bool = False
    declined: bool = False

    def __post_init__(self) -> None:
        if self.dry_run or self.yes:
            return
        if self.invocation.as_json or not sys.stdin.isatty():
            raise click.UsageError(
                "this wants to be confirmed, and there is nobody to ask: give --yes, or --dry-run to only look"
            )

    def about(self, question: str, render: Callable[[Planned], Page]) -> Callable[[Planned], bool]:
        """A function that shows what is planned, and says whether to go on."""

        def agrees(planned: Planned) -> bool:
            if self.dry_run:
                return False
            if self.yes:
                return True
            self.asked = True
            self.invocation.show(render(planned))
            self.declined = not click.confirm(question, err=True)
            return not self.declined

        return agrees

    @property
    def exit_code(self) -> int:
        """1 if somebody declined."""
        return int(self.declined)


@contextmanager
def after_asking(
    invocation: Invocation, ask: Callable[[Planned], bool]
) -> Iterator[tuple[Callable[[Planned], bool], Emit]]:
    """The question and who shows progress: that begins after the question, or it would be drawn over it."""
    with ExitStack() as progress:
        listeners: list[Emit] = []

        def agrees(planned: Planned) -> bool:
            agreed = ask(planned)
            if agreed:
                listeners.append(progress.enter_context(invocation.listening()))
            return agreed

        def emit(event: Event) -> None:
            for listener in listeners:
                listener(event)

        yield agrees, emit
