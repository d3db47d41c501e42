"""``tidegate demo``, ``ingest``, ``init`` and ``config``: from no configuration to one that is checked."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

import tidegate
from tidegate.cli.invocation import (
    Command,
    Group,
    Invocation,
    config_argument,
    engine_option,
    print_json,
    print_text,
    print_yaml,
    with_json,
)
from tidegate.errors import ConfigError
from tidegate.migrate.foreign import FOREIGN
from tidegate.reports.project import DemoStep, ProjectCheck
from tidegate.specs.files import Format
from tidegate.specs.masking import recall_mask

if TYPE_CHECKING:
    from tidegate.commands.init import Kind
    from tidegate.reports.run import IngestReport


@click.command(
    cls=Command,
    short_help="Try Tidegate on generated files. No set-up, no server.",
    examples=["tidegate demo", "tidegate demo my-demo --engine local", "tidegate demo --json -q"],
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="[FOLDER]", required=False)
@engine_option
@with_json
def demo(invocation: Invocation, folder: Path | None, engine: str | None) -> int:
    """Try Tidegate on generated files. No set-up, no server.

    Generates files, ingests them, and shows the table and the status. Puts everything into FOLDER (default:
    tidegate-demo).
    """
    numbers = count(1)

    def show(step: DemoStep) -> None:
        if not invocation.as_json:
            invocation.show(replace(step, title=f"{next(numbers)}. {step.title}").describe)

    with invocation.emitter() as emit:
        report = tidegate.demo(folder, emit, show, engine=engine)
    return invocation.give(report)


@click.command(
    cls=Command,
    short_help="Read a source into a table, without a configuration.",
    examples=[
        "tidegate ingest landing/orders lake/orders",
        "tidegate ingest landing/orders lake/orders --engine local",
        "tidegate ingest s3://landing/events s3://lake/events --save pipelines.yml",
        "tidegate ingest postgresql://me@db/shop lake/t --table orders --watermark id",
        "tidegate ingest mysql://me@db/shop lake/ --tables 'shop.*' --watermark id",
        "tidegate ingest https://api.example.org/v1/orders lake/api",
    ],
)
@click.argument("source", metavar="SOURCE")
@click.argument("table", metavar="TABLE")
@click.option("--table", "from_table", metavar="NAME", help="The table of the database, such as public.orders.")
@click.option(
    "--tables",
    metavar="GLOB",
    multiple=True,
    help="Many tables of the database, such as 'public.*', each into a table below TABLE. May be repeated.",
)
@click.option("--exclude", metavar="GLOB", multiple=True, help="Leave out these of --tables. May be repeated.")
@click.option("--records", metavar="PATH", help="Where the response of an API has its list of records, if not found.")
@click.option(
    "--watermark", metavar="COLUMN", multiple=True, help="A column that grows: read only what is new. May be repeated."
)
@click.option(
    "--merge-key",
    "merge_keys",
    metavar="COLUMN",
    multiple=True,
    help="A column that identifies a row: merge. May be repeated.",
)
@click.option(
    "--partition-by", metavar="COLUMN", help="Partition the table: COLUMN, or COLUMN:date=%Y-%m-%d for times."
)
@click.option(
    "--format",
    metavar="FORMAT",
    type=click.Choice([*(each.value for each in Format), "delta", "iceberg"]),
    help="The format of the files, if not recognised.",
)
@click.option(
    "--storage-option",
    metavar="NAME=VALUE",
    multiple=True,
    help="A setting of buckets, such as AWS_REGION=…; NAME alone is the value of that variable. May be repeated.",
)
@click.option("--name", metavar="NAME", help="The pipeline's name (default: the last part of TABLE).")
@click.option("--save", metavar="FILE", type=click.Path(path_type=Path), help="Write the configuration to a new file.")
@click.option("--dry-run", is_flag=True, help="Show what would be read, and the configuration; run nothing.")
@engine_option
@with_json
def ingest(
    invocation: Invocation,
    /,
    source: str,
    table: str,
    from_table: str | None,
    storage_option: tuple[str, ...],
    save: Path | None,
    dry_run: bool,
    engine: str | None,
    **known: Any,
) -> int:
    """Read SOURCE into the Delta table TABLE, without a configuration.

    SOURCE is a folder, a bucket, the address of a database (postgresql://, jdbc:), a Delta or Iceberg table, or an API
    (https://). Finds out what it is (of an API also how it pages), reads what is new, and ends with the configuration
    that this amounts to. Called again, it goes on where it stopped.
    """
    settings = {setting.partition("=")[0]: _value(setting) for setting in storage_option}
    options = tidegate.IngestOptions(table=from_table, storage_options=settings, **known)

    def show(report: IngestReport) -> None:
        if not invocation.as_json:
            invocation.show(report.findings)

    report, stopped = invocation.perform(
        tidegate.ingest,
        source=source,
        table=table,
        options=options,
        save=save,
        dry_run=dry_run,
        show=show,
        engine=engine,
    )
    return invocation.give(report, stopped=stopped)


def _value(setting: str) -> str:
    """The value of NAME=VALUE; for NAME alone, that of the environment variable."""
    name, given, value = setting.partition("=")
    if not given and name not in os.environ:
        raise click.UsageError(f"--storage-option {name}: there is no such variable; give {name}=VALUE, or set it")
    return value if given else os.environ[name]


@click.command(
    cls=Command,
    examples=["tidegate init", "tidegate init shop --database", "tidegate init surveys --api"],
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="[DIR]", required=False)
@click.option(
    "--files", "kind", flag_value="files", default=True, help="For files in a folder or bucket (the default)."
)
@click.option("--database", "kind", flag_value="database", help="For a table of a database.")
@click.option("--api", "kind", flag_value="api", help="For an HTTP API.")
@with_json
def init(invocation: Invocation, folder: Path | None, kind: str) -> int:
    """Write a small project to begin with.

    Writes pipelines.yml with comments, its schema for editors, .env.example and a test into DIR (default: the current
    folder). Overwrites nothing.
    """
    return invocation.give(tidegate.init(folder, cast("Kind", kind)))


@click.group(
    cls=Group,
    examples=["tidegate config check pipelines.yml", "tidegate config schema > tidegate.schema.json"],
)
def config() -> None:
    """Check, show and import configuration files."""


@config.command(examples=["tidegate config check pipelines.yml", "tidegate config check pipelines.yml --json"])
@config_argument
@with_json
def check(invocation: Invocation, config: Path) -> int:
    """Check a file and report all its problems."""
    from tidegate.commands.project import on_engine

    return invocation.give(ProjectCheck(on_engine(tidegate.load(config))))


@config.command("show", examples=["tidegate config show pipelines.yml", "tidegate config show pipelines.yml --json"])
@config_argument
@with_json
def show_config(invocation: Invocation, config: Path) -> None:
    """Print a file in its canonical form.

    With all defaults, and without secrets.
    """
    import yaml

    from tidegate.config import show as canonical

    text = canonical(tidegate.load(config))
    if invocation.as_json:
        # Made without secrets; masking ordinary words would make a file that cannot be loaded again.
        return print_json(yaml.safe_load(text), recall_mask().of_keys())
    return print_yaml(text)


@config.command(examples=["tidegate config schema > tidegate.schema.json"])
@with_json
def schema(invocation: Invocation) -> None:
    """Print the JSON Schema of configuration files.

    Editors use it to complete and check keys.
    """
    from tidegate.config import json_schema

    print_json(json_schema(FOREIGN))


@config.command(
    "import",
    examples=[
        "tidegate config import surveys.pull",
        "tidegate config import surveys.pull --out surveys.yml",
        "tidegate config import surveys.pull --strict --json",
    ],
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the configuration to a new file.")
@click.option("--strict", is_flag=True, help="Exit with 1 if any property could not be converted.")
@with_json
def import_properties(invocation: Invocation, file: Path, out: Path | None, strict: bool) -> int:
    """Convert a properties file into a configuration.

    Prints the configuration. Reports on standard error what was not converted, line by line. Does not copy secrets:
    they become environment variables. Exits with 1 where the pipeline would read other data than the job, and refuses
    jobs that it cannot convert, such as those that send data or read SFTP servers.
    """
    report = tidegate.import_properties(file)
    if out is not None:
        _write(out, report.yaml)
    if invocation.as_json:
        print_json(report.to_json(), recall_mask().of_keys())
    else:
        if out is None:
            print_yaml(report.yaml)
        for text in report.remarks():
            print_text(text, to_stderr=True)
    return report.code() or int(strict and bool(report.left))


def _write(out: Path, text: str) -> None:
    """Write a new file; refuse an existing one."""
    try:
        # "x" also refuses a file that somebody creates at this very moment.
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError((f"{out}: already exists; give another file, or remove it",)) from None
    except OSError as exc:
        raise ConfigError((f"{out}: cannot be written: {exc.strerror}",)) from None
