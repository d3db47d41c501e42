"""The shape of every command: common options, examples in the help, and errors that end in an exit code."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from tidegate.cli.invocation import Invocation
from tidegate.cli.problems import report
from tidegate.specs.masking import remembering

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
LEVELS = ("debug", "info", "warning", "error")


def _remember(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """A callback that keeps a common option's value in the invocation, if it was given."""

    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        invocation = context.find_root().ensure_object(Invocation)
        if value not in (None, False):
            setattr(invocation, name, value)

    return callback


def _no_colour(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    invocation = context.find_root().ensure_object(Invocation)
    invocation.colour = invocation.colour and not value


def _common_options(envvar: str | None) -> list[click.Option]:
    """Fresh instances of the options that every command takes."""
    return [
        click.Option(
            ["--log-level"],
            type=click.Choice(LEVELS, case_sensitive=False),
            envvar=envvar,
            show_envvar=envvar is not None,
            metavar="LEVEL",
            expose_value=False,
            callback=_remember("log_level"),
            help="Log from this level on: debug, info, warning (default), error. TIDEGATE_LOG sets it too.",
        ),
        click.Option(
            ["--log-format"],
            type=click.Choice(["text", "json"], case_sensitive=False),
            metavar="FORMAT",
            expose_value=False,
            callback=_remember("log_format"),
            help="Log as text (default) or json, one object per line.",
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            callback=_remember("debug"),
            help="Show tracebacks of errors.",
        ),
        click.Option(
            ["--no-color"],
            is_flag=True,
            expose_value=False,
            callback=_no_colour,
            help="No colours (NO_COLOR does the same).",
        ),
        click.Option(
            ["-q", "--quiet"],
            is_flag=True,
            expose_value=False,
            callback=_remember("quiet"),
            help="No progress, only errors and the result.",
        ),
    ]


class _Helpful(click.Command):
    """A command with examples and common options."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), envvar: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.common = _common_options(envvar)
        self.params.extend(self.common)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        common: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                (common if parameter in self.common else own).append(record)
        for title, records in (("Options", own), ("Common options", common)):
            with formatter.section(title):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{' ' * formatter.current_indent}{example}\n")


class Command(_Helpful):
    """A command that does something."""


class Group(_Helpful, click.Group):
    """A command of commands; as the outermost one it turns every error into a message and an exit code."""

    command_class = Command
    group_class = type

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they are used, not of the alphabet."""
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        _Helpful.format_options(self, ctx, formatter)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        """Run the arguments and exit; never returns."""
        arguments = list(sys.argv[1:] if args is None else args)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        extra["standalone_mode"] = False
        extra.setdefault("obj", Invocation())
        invocation: Invocation = extra["obj"]
        invocation.as_json = "--json" in arguments
        try:
            code = super().main(arguments, *rest, **extra)
        except click.Abort:
            code = report(KeyboardInterrupt(), invocation)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            code = error.exit_code
        except click.ClickException as error:
            code = report(error, invocation)
        sys.exit(code or 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors below the outermost group are reported there."""
        if ctx.parent is not None:
            return super().invoke(ctx)
        with remembering() as mask:
            try:
                return super().invoke(ctx)
            except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
                raise
            except (Exception, KeyboardInterrupt) as error:
                return report(error, ctx.ensure_object(Invocation), mask())


config_argument = click.argument("config", type=click.Path(path_type=Path), metavar="CONFIG")
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def pipeline_option(*, required: bool = False) -> Callable[[Decorated], Decorated]:
    """``-p NAME``; without it, all pipelines."""
    text = "The pipeline." if required else "Only this pipeline (default: all)."
    return click.option("-p", "--pipeline", metavar="NAME", required=required, help=text)
