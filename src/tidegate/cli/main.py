"""The entry point of the ``tidegate`` program: its commands, each loaded on first use."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from tidegate.cli.invocation import Command, Group, Invocation, print_json, report, with_json
from tidegate.reports.page import facts
from tidegate.schema.literals import describe_reader
from tidegate.signals import noticing_interrupts
from tidegate.spark.jars import read_spark_version
from tidegate.specs.credentials import credentials_in_address, is_credential
from tidegate.specs.masking import Mask, remember, remember_masks

MODULES = {
    "setup": "machine",
    "demo": "project",
    "ingest": "project",
    "init": "project",
    "plan": "run",
    "run": "run",
    "commit": "run",
    "status": "status",
    "report": "status",
    "serve": "status",
    "notify": "status",
    "watermark": "state",
    "units": "state",
    "dlq": "repair",
    "files": "status",
    "replay": "repair",
    "schema": "table",
    "table": "table",
    "config": "project",
    "doctor": "machine",
    "recover": "repair",
    "adopt": "repair",
    "reconcile": "repair",
    "chaos": "machine",
}
"""The commands in the order of the help, with the module that has a function of that name."""

LESS_OFTEN = (50_000, 20, 20)
"""Thresholds of the garbage collector: loading modules and checking a configuration produce no garbage."""


class Program(Group):
    """The top-level command: loads commands late, and turns every error into a message and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, loaded or not."""
        return [*MODULES, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, from its module."""
        if cmd_name not in MODULES:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(f"tidegate.cli.{MODULES[cmd_name]}"), cmd_name)
        return command

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        """Run the arguments and exit; never returns."""
        gc.set_threshold(*LESS_OFTEN)
        arguments = list(sys.argv[1:] if args is None else args)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A path that the terminal's encoding lacks must not end a command while it reports.
                stream.reconfigure(errors="backslashreplace")
        # click would print errors itself, past the mask, and choose its own exit codes.
        extra["standalone_mode"] = False
        extra.setdefault("obj", Invocation())
        invocation: Invocation = extra["obj"]
        # Before click parses: wrong arguments are to be reported in JSON, too.
        invocation.as_json = "--json" in arguments
        # Everything that a command shows, and every error, goes through the mask of what it has learnt by then.
        with remember_masks():
            remember(Mask.of(*_credentials(arguments)))
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
        """Run the command and report any error."""
        try:
            with noticing_interrupts():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        # Also what would end the process by itself: its text goes through the mask, too.
        except BaseException as error:
            return report(error, ctx.ensure_object(Invocation))


def _credentials(arguments: Sequence[str]) -> Iterator[str]:
    """Credentials among the arguments, so that an error about these does not repeat them."""
    for each in arguments:
        yield from credentials_in_address(each)
        name, _, value = each.partition("=")
        if is_credential(name, value):
            yield value


@click.group(
    cls=Program,
    envvar="TIDEGATE_LOG",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    examples=["tidegate setup", "tidegate demo", "tidegate plan pipelines.yml", "tidegate run pipelines.yml"],
)
@click.version_option(package_name="tidegate", message="%(prog)s %(version)s")
def cli() -> None:
    """Move only what is new into Delta Lake tables, exactly once.

    Results go to standard output, progress and log lines to standard error.
    """


@cli.command(cls=Command, examples=["tidegate version", "tidegate version --json"])
@with_json
def version(invocation: Invocation) -> None:
    """Show the versions of Tidegate and its libraries."""
    import platform
    from importlib.metadata import version as installed

    versions = {"tidegate": installed("tidegate"), "pyspark": read_spark_version() or "not installed"}
    versions |= {name: installed(name) for name in ("deltalake", "obstore", "pyarrow")}
    versions |= {"python": platform.python_version()}
    versions |= {"json_reader": describe_reader()}
    if invocation.as_json:
        return print_json(versions)
    return invocation.show(lambda view: [facts(*versions.items())])


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    cli.main(prog_name="tidegate")


if __name__ == "__main__":
    main()
