"""One call of the command line: its options, where output goes, and how it asks before a change.

The click context holds an :class:`Invocation`. People see errors as a message and its remedy on standard error, an exit
code, and JSON with ``--json``. Options that several commands share, and examples in the help, are here too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TextIO, TypeVar, cast

import click

import tidegate
from tidegate.errors import ConfigError, TidegateError, safe_text
from tidegate.reports.page import UNBOUNDED, Block, names
from tidegate.reports.render import to_lines
from tidegate.reports.report import INTERRUPTED, Report, View
from tidegate.reports.wording import broken, count, visible
from tidegate.specs.masking import Mask, recall_mask
from tidegate.specs.project import EngineKind

if TYPE_CHECKING:
    from tidegate.observe.events import Emit, Event
    from tidegate.observe.logs import Level
    from tidegate.observe.progress import SilentProgress
    from tidegate.specs.project import ProjectSpec


AnyReport = TypeVar("AnyReport", bound=Report)


@dataclass(slots=True)
class Invocation:
    """The settings of this call; ``log_level`` is None unless the user chose one.

    ``as_json`` is set before the arguments are parsed, so that wrong arguments are reported in JSON too.
    ``config`` is the argument CONFIG, quoted for a shell, for hints that name a command.
    """

    as_json: bool = False
    log_level: str | None = None
    log_format: str = "text"
    debug: bool = False
    colour: bool = True
    verbose: bool = False
    quiet: bool = False
    wide: bool = False
    config: str = "CONFIG"
    _view: SilentProgress | None = None

    def give(
        self, report: Report, describe: Callable[[View], Iterable[Block]] | None = None, *, stopped: bool = False
    ) -> int:
        """Print a report, as JSON if ``--json`` was given, and return the exit code; ``describe`` shows part of it."""
        if self.as_json:
            print_json(report.to_json())
        else:
            self.show(describe or report.describe)
        return report.code(stopped=stopped)

    def perform(
        self, call: Callable[..., AnyReport], *, result_follows: bool = True, **given: Any
    ) -> tuple[AnyReport, bool]:
        """Call something that takes a while, with progress; return its report, and whether a signal stopped it."""
        stop = threading.Event()
        with self.emitter(result_follows=result_follows) as emit:
            report = call(emit=emit, stop=stop, **given)
        return report, stop.is_set()

    def change(self, call: Callable[..., AnyReport], question: str, *, dry_run: bool, yes: bool, **given: Any) -> int:
        """Call something that asks before it changes anything, print its report, and return the exit code."""
        confirm = Confirmation(self, question, dry_run, yes)
        return confirm.give(call(confirm=confirm, **given))

    def can_ask(self) -> bool:
        """Whether somebody can be asked: a script, or who wants JSON, cannot."""
        return not self.as_json and sys.stdin.isatty()

    def show(self, describe: Callable[[View], Iterable[Block]]) -> None:
        """Print a page on standard output: drawn on a terminal, as aligned lines elsewhere."""
        page = recall_mask().deep(tuple(describe(View(self.verbose, self.width(), self.config))))
        with self._view.aside() if self._view else nullcontext():
            if is_terminal(sys.stdout):
                from tidegate.cli.terminal import console_for, draw

                draw(page, console_for(sys.stdout, colour=self.uses_colour(), wide=self.wide))
            else:
                sys.stdout.writelines(f"{line}\n" for line in to_lines(page))
            sys.stdout.flush()

    def width(self) -> int:
        """Characters per line of the output; practically unlimited with ``--wide``."""
        return UNBOUNDED if self.wide else shutil.get_terminal_size((100, 24)).columns

    def uses_colour(self) -> bool:
        """Whether to use colours; ``NO_COLOR`` (any value) and ``--no-color`` switch them off."""
        return self.colour and not os.environ.get("NO_COLOR")

    @contextmanager
    def emitter(self, *, result_follows: bool = False) -> Iterator[Emit]:
        """An emitter that shows events as progress and log lines on standard error; with ``--debug`` also traces.

        If ``result_follows`` on the same terminal, errors that the result repeats are logged only if the command
        ends before it prints one. Elsewhere an error that stops several sources is logged once, with their names.
        """
        from tidegate.observe.logs import (
            DeferredErrors,
            ErrorsOnce,
            JsonLog,
            TerminalLog,
            TextLog,
            fanout,
            keep_records,
        )

        # Who chooses a level keeps the log, and needs the times.
        as_text = TerminalLog if self.log_level is None and is_terminal(sys.stderr) else TextLog
        log = JsonLog if self.log_format == "json" else as_text
        with keep_records(), _duplicate_stderr() as stream, self._progress(stream) as view:
            self._view = view
            lines: Emit = log(view.write, self.effective_level(), traces=self.debug)
            held = DeferredErrors if self._sees_both() else ErrorsOnce
            is_told_each = not result_follows or log is JsonLog
            try:
                with nullcontext(lines) if is_told_each else held(lines) as kept:
                    yield fanout(view, kept)
            finally:
                self._view = None

    def _sees_both(self) -> bool:
        """Whether log and result share one terminal, and the user did not ask for the log."""
        chosen = self.log_level is not None or self.log_format == "json" or self.as_json
        return not chosen and is_terminal(sys.stdout) and is_terminal(sys.stderr)

    def effective_level(self) -> Level:
        """The level that the user chose; else errors if quiet, ``info`` for JSON, warnings for text."""
        from tidegate.observe.logs import Level

        if self.log_level is not None:
            return Level.parse(self.log_level)
        if self.quiet:
            return Level.ERROR
        return Level.INFO if self.log_format == "json" else Level.WARNING

    def _progress(self, stream: TextIO) -> SilentProgress:
        from tidegate.observe.progress import BarProgress, PlainProgress, SilentProgress

        if self.quiet or self.log_format == "json":
            return SilentProgress(stream)
        if is_terminal(stream):
            from tidegate.cli.terminal import console_for

            return BarProgress(console_for(stream, colour=self.uses_colour()))
        # The log has the same milestones at these levels.
        in_the_log = self.log_level in ("debug", "info")
        return SilentProgress(stream) if in_the_log else PlainProgress(stream)


@contextmanager
def _duplicate_stderr() -> Iterator[TextIO]:
    """Standard error with its own descriptor: while Spark starts, the usual one leads into Spark's log."""
    try:
        number = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):  # not a file
        yield sys.stderr
        return
    stream = open(number, "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors)  # noqa: SIM115
    try:
        yield stream
    finally:
        with suppress(OSError):  # the reader is gone
            stream.close()


@dataclass(slots=True)
class Confirmation:
    """Asks before a change: shows its consequences, then takes yes or no. Pass it as ``confirm``.

    Scripts give ``--yes`` or ``--dry-run``; without a terminal, one of them is required.
    """

    invocation: Invocation
    question: str
    dry_run: bool
    yes: bool
    asked: bool = False
    declined: bool = False

    def __post_init__(self) -> None:
        # Before any work: a script must not find out after an hour that nobody can be asked.
        if not (self.dry_run or self.yes or self.invocation.can_ask()):
            raise click.UsageError("not a terminal, so this cannot ask; pass --yes, or --dry-run to only look")

    def __call__(self, planned: Report) -> bool:
        if self.dry_run or self.yes:
            return not self.dry_run
        self.asked = True
        self.invocation.show(planned.consequences)
        self.declined = not click.confirm(self.question, err=True)
        return not self.declined

    @contextmanager
    def progress(self) -> Iterator[tuple[Callable[[Report], bool], Emit]]:
        """This question, and an emitter that shows progress only after the answer, so as not to draw over it."""
        with ExitStack() as stack:
            listeners: list[Emit] = []

            def confirm(planned: Report) -> bool:
                agreed = self(planned)
                if agreed:
                    listeners.append(stack.enter_context(self.invocation.emitter()))
                return agreed

            def emit(event: Event) -> None:
                for listener in listeners:
                    listener(event)

            yield confirm, emit

    def give(self, report: Report) -> int:
        """Print the result, after the consequences unless they were shown; return the exit code, 1 for a no."""
        code = self.invocation.give(report, report.outcome if self.asked else report.describe)
        return int(self.declined) or code


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal that can draw."""
    # While it draws, rich puts a stream of its own in place, which before rich 15 says that it is no terminal.
    behind = getattr(stream, "rich_proxied_file", stream)
    return bool(behind.isatty()) and os.environ.get("TERM") != "dumb"


def print_json(value: Mapping[str, Any], mask: Mask | None = None) -> None:
    """One JSON object on standard output, without secrets: those of ``mask``, else all that are known."""
    shown = (recall_mask() if mask is None else mask).deep(value)
    sys.stdout.write(json.dumps(shown, indent=2, default=str) + "\n")
    sys.stdout.flush()


def print_text(text: str, *, to_stderr: bool = False) -> None:
    """A text line by line without secrets: remarks beside a result."""
    mask = recall_mask()
    stream = sys.stderr if to_stderr else sys.stdout
    stream.writelines(f"{mask(line)}\n" for line in text.splitlines())
    stream.flush()


def print_yaml(text: str) -> None:
    """YAML to be loaded again. It was made without secrets, so only generated keys are looked for: words stay."""
    mask = recall_mask().of_keys()
    sys.stdout.writelines(f"{mask(line)}\n" for line in text.splitlines())
    sys.stdout.flush()


# EX_SOFTWARE of sysexits.h; the smaller codes have meanings of their own.
UNEXPECTED = 70
PIPELINES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ShownProblem(Report):
    """An error as shown to a person at a prompt; its JSON is the object under ``error``."""

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
            what = f"unexpected {type(error).__name__}: {safe_text(error)}".splitlines()[0].rstrip(": ")
            return ShownProblem(type(error).__name__, (what,), "run again with --debug to see where", UNEXPECTED)


def _way_to_use(error: click.UsageError) -> str:
    """The right way to call the command: the nearest name, all names, or an example."""
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


def report(error: BaseException, invocation: Invocation) -> int:
    """Print an error without secrets, and return the exit code."""
    mask = recall_mask()
    problem = mask.deep(understand(error))
    if invocation.debug and not isinstance(error, click.ClickException):
        import traceback

        sys.stderr.write(mask("".join(traceback.format_exception(error))))
    for line in problem.lines():
        sys.stderr.write(f"{broken(line, invocation.width()) if is_terminal(sys.stderr) else line}\n")
    if invocation.as_json:
        print_json({"error": problem.to_json()})
    return problem.exit_code


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


if TYPE_CHECKING:
    _OfMoments = click.ParamType[datetime]
    _OfDurations = click.ParamType[timedelta]
else:
    # Generic from click 8.4 on; platforms bring older ones.
    _OfMoments = _OfDurations = click.ParamType


class Moment(_OfMoments):
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


class Age(_OfDurations):
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


def _keep_config(context: click.Context, parameter: click.Parameter, value: Path) -> Path:
    context.find_root().ensure_object(Invocation).config = quote(str(value))
    return value


config_argument = click.argument("config", type=click.Path(path_type=Path), metavar="CONFIG", callback=_keep_config)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would happen; change nothing.")
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
        shown = names(known, PIPELINES_SHOWN)
        raise ConfigError((f"{project.origin} has several pipelines; name one with -p: {shown}",))
    return known[0]


def with_json(command: Callable[Concatenate[Invocation, P], R]) -> Callable[P, R]:
    """Add ``--json``, and pass the invocation as first argument."""
    return _json_option(click.pass_obj(command))


def at_option(text: str) -> Callable[[Decorated], Decorated]:
    """Add ``--at MOMENT``, passed as ``now``."""
    return click.option("--at", "now", metavar="MOMENT", type=Moment(), help=text)


def engine_option(command: Decorated) -> Decorated:
    """Add ``--engine NAME``."""
    text = "The engine, instead of the configuration's: spark, or local (no Java; rows are only appended)."
    return click.option("--engine", metavar="NAME", type=click.Choice([each.value for each in EngineKind]), help=text)(
        command
    )


def limit_option(default: int) -> Callable[[Decorated], Decorated]:
    """Add ``--limit N``; 0 means all."""
    text = f"Show at most N; 0 for all (default: {default})."
    return click.option("--limit", metavar="N", type=click.IntRange(min=0), default=default, help=text)


def confirm_options(command: Decorated) -> Decorated:
    """Add ``--dry-run`` and ``--yes``."""
    yes = click.option("--yes", is_flag=True, help="Do not ask; for scripts.")
    return dry_run_option(yes(command))


def mode_of(once: bool, continuous: bool) -> Mode:
    """The mode of ``--once`` and ``--continuous``, which exclude each other."""
    if once and continuous:
        raise click.UsageError("--once and --continuous do not work together")
    return "continuous" if continuous else "once"
