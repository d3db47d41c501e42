"""Options that several commands share, and examples in the help."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, cast

import click

import tidegate
from tidegate.cli.invocation import Invocation
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.specs.project import ProjectSpec

P = ParamSpec("P")
R = TypeVar("R")
Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Mode = Literal["once", "continuous"]
LEVELS = ("debug", "info", "warning", "error")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """A callback that stores a common option in the invocation, if it was given."""

    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        invocation = context.find_root().ensure_object(Invocation)
        if value not in (None, False):
            setattr(invocation, name, value)

    return callback


def _no_colour(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    invocation = context.find_root().ensure_object(Invocation)
    invocation.colour = invocation.colour and not value


def _as_json(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.find_root().ensure_object(Invocation).as_json = value


def _common_options(envvar: str | None) -> list[click.Option]:
    """New instances of the options of every command."""

    def option(*names: str, **settings: Any) -> click.Option:
        return click.Option(names, expose_value=False, **settings)

    return [
        option(
            "--log-level",
            type=click.Choice(LEVELS, case_sensitive=False),
            envvar=envvar,
            show_envvar=envvar is not None,
            metavar="LEVEL",
            callback=_keep("log_level"),
            help="Lowest level to log: debug, info, warning (default) or error."
            + ("" if envvar else " TIDEGATE_LOG sets it too."),
        ),
        option(
            "--log-format",
            type=click.Choice(["text", "json"], case_sensitive=False),
            metavar="FORMAT",
            callback=_keep("log_format"),
            help="Log as text (default) or json, one object per line.",
        ),
        option("--debug", is_flag=True, callback=_keep("debug"), help="Show where errors came from, and Spark's log."),
        option(
            "-v",
            "--verbose",
            is_flag=True,
            callback=_keep("verbose"),
            help="Show more details, also how things are done.",
        ),
        option("--wide", is_flag=True, callback=_keep("wide"), help="Show tables whole, wider than the terminal."),
        option("--no-color", is_flag=True, callback=_no_colour, help="Use no colours (so does NO_COLOR)."),
        option(
            "-q",
            "--quiet",
            is_flag=True,
            callback=_keep("quiet"),
            help="Show no progress, only errors and the result.",
        ),
    ]


class _ExampleCommand(click.Command):
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


class Command(_ExampleCommand):
    """A command without subcommands."""


class Group(_ExampleCommand, click.Group):
    """A command with subcommands."""

    command_class = Command
    group_class = type

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of use, not by name."""
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        _ExampleCommand.format_options(self, ctx, formatter)


class Moment(click.ParamType[datetime]):
    """A date, a time (UTC by default), or a duration before now."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment, aware."""
        if isinstance(value, datetime):
            return value
        text = str(value)
        if ago := re.fullmatch(r"(\d{1,6})([mhd])", text):
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is not a moment: write 2026-01-28, 2026-01-28T14:30:00Z, 90m, 12h or 7d", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class Age(click.ParamType[timedelta]):
    """A duration such as ``24h`` or ``7d``."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """The duration."""
        if isinstance(value, timedelta):
            return value
        found = re.fullmatch(r"(\d{1,6})\s*([smhd])", str(value).strip().lower(), re.ASCII)
        if found is None:
            self.fail(f"{value!r} is not a duration: write a number with s, m, h or d, such as 24h or 7d", param, ctx)
        return timedelta(**{_UNITS[found[2]]: int(found[1])})


config_argument = click.argument("config", type=click.Path(path_type=Path), metavar="CONFIG")
_json_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=_as_json, help="Print the result as JSON."
)
_PIPELINES = {
    "all": click.option("-p", "--pipeline", metavar="NAME", help="Only this pipeline (default: all)."),
    "one": click.option("-p", "--pipeline", metavar="NAME", help="The pipeline; needed if CONFIG has several."),
}
_SOURCES = {
    "all": click.option("-s", "--source", metavar="SOURCE", help="Only this source (default: all)."),
    "one": click.option("-s", "--source", metavar="SOURCE", help="The source; needed if the pipeline has several."),
}


def target(
    *, pipeline: Literal["all", "one"] = "one", source: Literal["none", "all", "one"] = "none"
) -> Callable[[Decorated], Decorated]:
    """Add CONFIG, ``-p`` (one pipeline, or all by default) and ``-s`` likewise."""

    def decorate(command: Decorated) -> Decorated:
        command = command if source == "none" else _SOURCES[source](command)
        command = _with_only_pipeline(command) if pipeline == "one" else command
        return config_argument(_PIPELINES[pipeline](command))

    return decorate


def _with_only_pipeline(command: Decorated) -> Decorated:
    """Wrap a command: without ``-p`` it gets the name of the only pipeline."""

    @wraps(command)
    def call(*args: Any, pipeline: str | None, config: Path, **given: Any) -> Any:
        name = pipeline or only_pipeline(tidegate.load(config))
        return command(*args, pipeline=name, config=config, **given)

    return cast(Decorated, call)


def only_pipeline(project: ProjectSpec) -> str:
    """The name of the only pipeline; :class:`ConfigError` lists them if there are several."""
    known = [each.name for each in project.pipelines]
    if len(known) > 1:
        raise ConfigError((f"{project.origin} has several pipelines; name one with -p: {', '.join(known)}",))
    return known[0]


def with_json(command: Callable[Concatenate[Invocation, P], R]) -> Callable[P, R]:
    """Add ``--json``, and pass the invocation as first argument."""
    return _json_option(click.pass_obj(command))


def at_option(text: str) -> Callable[[Decorated], Decorated]:
    """Add ``--at MOMENT``, passed as ``now``."""
    return click.option("--at", "now", metavar="MOMENT", type=Moment(), help=text)


def limit_option(default: int) -> Callable[[Decorated], Decorated]:
    """Add ``--limit N``; 0 means all."""
    text = f"Show at most N; 0 for all (default: {default})."
    return click.option("--limit", metavar="N", type=click.IntRange(min=0), default=default, help=text)


def confirm_options(command: Decorated) -> Decorated:
    """Add ``--dry-run`` and ``--yes``."""
    dry_run = click.option("--dry-run", is_flag=True, help="Show what would happen; change nothing.")
    yes = click.option("--yes", is_flag=True, help="Do not ask; for scripts.")
    return dry_run(yes(command))


def mode_of(once: bool, continuous: bool) -> Mode:
    """The mode of ``--once`` and ``--continuous``, which exclude each other."""
    if once and continuous:
        raise click.UsageError("--once and --continuous do not work together")
    return "continuous" if continuous else "once"
