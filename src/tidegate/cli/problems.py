"""How errors reach people: a message and its remedy on standard error, an exit code, and JSON if asked for."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import click

from tidegate.cli.invocation import Invocation, is_terminal, print_json
from tidegate.errors import ConfigError, TidegateError
from tidegate.observe.wording import broken, count, visible
from tidegate.specs.masking import Mask

UNEXPECTED = 70
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class ShownProblem:
    """What an error means to a person at a prompt."""

    kind: str
    problems: tuple[str, ...]
    remedy: str
    exit_code: int
    retryable: bool = False

    def lines(self) -> list[str]:
        """The message for standard error."""
        first, *rest = self.problems
        if self.kind == "ConfigError" and rest:
            first, rest = f"{count(len(self.problems), 'problem')} in the configuration", list(self.problems)
        shown = [f"error: {visible(first)}", *(f"  {visible(line)}" for line in rest)]
        return [*shown, f"remedy: {visible(self.remedy)}"] if self.remedy else shown

    def to_json(self) -> dict[str, Any]:
        """The object under ``error`` in JSON output."""
        return {
            "kind": self.kind,
            "problems": list(self.problems),
            "remedy": self.remedy,
            "exit_code": self.exit_code,
            "retryable": self.retryable,
        }


def understand(error: BaseException) -> ShownProblem:
    """The problem behind any exception."""
    match error:
        case ConfigError():
            return ShownProblem("ConfigError", error.problems, error.remedy, error.exit_code)
        case TidegateError():
            lines = tuple(error.problem.splitlines()) or (type(error).__name__,)
            return ShownProblem(type(error).__name__, lines, error.remedy, error.exit_code, error.retryable)
        case click.UsageError():
            lines = tuple(error.format_message().splitlines())
            return ShownProblem("UsageError", lines, _way_to_use(error), error.exit_code)
        case click.ClickException():
            return ShownProblem("UsageError", tuple(error.format_message().splitlines()), "", error.exit_code)
        case KeyboardInterrupt():
            return ShownProblem("Interrupted", ("interrupted",), "", INTERRUPTED)
        case _:
            what = f"unexpected {type(error).__name__}: {error}".splitlines()[0].rstrip(": ")
            return ShownProblem(type(error).__name__, (what,), "run again with --debug to see where", UNEXPECTED)


def _way_to_use(error: click.UsageError) -> str:
    """How the command is called instead: the nearest name, all names, or an example."""
    context = error.ctx
    if context is None:
        return ""
    unknown = re.match(r"No such command '(.*?)'", error.message)
    if unknown is not None and isinstance(context.command, click.Group):
        names = context.command.list_commands(context)
        close = get_close_matches(unknown[1], names, n=1)
        return f"did you mean {close[0]!r}?" if close else f"the commands are {', '.join(names)}"
    examples = getattr(context.command, "examples", ())
    return f"for example: {examples[0]}" if examples else ""


def exit_code(*, ok: bool, codes: set[int], stopped: bool) -> int:
    """0 if all went well; the code that all errors share, else 1; 130 if there is no error but a stop."""
    if ok:
        return 0
    if stopped and not codes:
        return INTERRUPTED
    return codes.pop() if len(codes) == 1 else 1


def report(error: BaseException, invocation: Invocation, mask: Mask | None = None) -> int:
    """Print what went wrong, without what ``mask`` hides, and return the exit code."""
    mask = mask or Mask()
    problem = mask.deep(understand(error))
    if invocation.debug and not isinstance(error, click.ClickException):
        import traceback

        sys.stderr.write(mask("".join(traceback.format_exception(error))))
    for line in problem.lines():
        sys.stderr.write(f"{broken(line, invocation.width()) if is_terminal(sys.stderr) else line}\n")
    if invocation.as_json:
        print_json({"error": problem.to_json()})
    return problem.exit_code
