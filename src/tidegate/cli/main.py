"""The entry point of the ``tidegate`` program."""

from __future__ import annotations

from typing import NoReturn

import click

from tidegate.cli import (
    adopt_command,
    chaos_command,
    commands,
    commit_command,
    files_command,
    groups,
    history_command,
    import_command,
    reconcile_command,
    replay_command,
    serve_command,
    table_command,
    watermark_commands,
    widen_command,
)
from tidegate.cli.dlq_command import dlq
from tidegate.cli.options import Group
from tidegate.cli.schema_command import schema
from tidegate.cli.units_command import units


@click.group(
    cls=Group,
    envvar="TIDEGATE_LOG",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    examples=["tidegate demo", "tidegate plan pipelines.yml", "tidegate run pipelines.yml"],
)
@click.version_option(package_name="tidegate", message="%(prog)s %(version)s")
def cli() -> None:
    """Move only what is new into Delta Lake tables, exactly once.

    Results go to standard output, progress and log lines to standard error.
    """


for _command in (
    commands.demo,
    commands.plan,
    commands.run,
    commit_command.commit,
    commands.status,
    serve_command.serve,
    groups.watermark,
    units,
    dlq,
    files_command.files,
    replay_command.replay,
    schema,
    groups.table,
    groups.config,
    commands.doctor,
    commands.recover,
    adopt_command.adopt,
    reconcile_command.reconcile,
    chaos_command.chaos,
    commands.version,
):
    cli.add_command(_command)
for _command in (history_command.history, watermark_commands.set_watermark, watermark_commands.reset_watermark):
    groups.watermark.add_command(_command)
groups.config.add_command(import_command.import_command)
for _command in (table_command.optimize, table_command.vacuum, table_command.checkpoint, widen_command.widen):
    groups.table.add_command(_command)


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    cli.main(prog_name="tidegate")


if __name__ == "__main__":
    main()
