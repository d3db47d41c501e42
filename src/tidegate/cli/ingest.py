"""``tidegate ingest``: read a source without a configuration, and show the configuration that does the same."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import click

import tidegate
from tidegate.cli.invocation import Command, Invocation, with_json
from tidegate.cli.run import code_of, render_run
from tidegate.reports.page import Block, Gap, Heading, Style, facts, line, page
from tidegate.reports.run import IngestReport
from tidegate.specs.project import Format

NOT_SAVED = "pipelines.yml"


@click.command(
    cls=Command,
    short_help="Read a source into a table, without a configuration.",
    examples=[
        "tidegate ingest landing/orders lake/orders",
        "tidegate ingest s3://landing/events s3://lake/events --save pipelines.yml",
        "tidegate ingest postgresql://me@db/shop lake/t --table orders --watermark id",
        "tidegate ingest https://api.example.org/v1/orders lake/api",
    ],
)
@click.argument("source", metavar="SOURCE")
@click.argument("table", metavar="TABLE")
@click.option("--table", "from_table", metavar="NAME", help="The table of the database, such as public.orders.")
@click.option("--records", metavar="PATH", help="Where the response of an API has its list of records, if not found.")
@click.option(
    "--watermark", metavar="COLUMN", multiple=True, help="A column that grows: read only what is new. May be repeated."
)
@click.option(
    "--merge-key", metavar="COLUMN", multiple=True, help="A column that identifies a row: merge. May be repeated."
)
@click.option(
    "--partition-by", metavar="COLUMN", help="Partition the table: COLUMN, or COLUMN:date=%Y-%m-%d for times."
)
@click.option(
    "--format",
    metavar="FORMAT",
    type=click.Choice([*Format, "delta", "iceberg"]),
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
@with_json
def ingest(
    invocation: Invocation,
    source: str,
    table: str,
    from_table: str | None,
    records: str | None,
    watermark: tuple[str, ...],
    merge_key: tuple[str, ...],
    partition_by: str | None,
    format: str | None,
    storage_option: tuple[str, ...],
    name: str | None,
    save: Path | None,
    dry_run: bool,
) -> int:
    """Read SOURCE into the Delta table TABLE, without a configuration.

    SOURCE is a folder, a bucket, the address of a database (postgresql://, jdbc:), a Delta or Iceberg table, or an API
    (https://). Finds out what it is (of an API also how it pages), reads what is new, and ends with the configuration
    that this amounts to. Called again, it goes on where it stopped.
    """
    stop = threading.Event()
    settings = {each.partition("=")[0]: _value(each) for each in storage_option}
    options = tidegate.IngestOptions(name, format, from_table, records, watermark, merge_key, partition_by, settings)

    def show(report: IngestReport) -> None:
        if not invocation.as_json:
            invocation.show(render_found(report))

    with invocation.emitter(result_follows=True) as emit:
        report = tidegate.ingest(source, table, options, save=save, dry_run=dry_run, emit=emit, stop=stop, show=show)
    invocation.give(report, render_ingest)
    return 0 if report.run is None else code_of(report.run, stop)


def _value(setting: str) -> str:
    """The value of NAME=VALUE; for NAME alone, that of the environment variable."""
    name, given, value = setting.partition("=")
    if not given and name not in os.environ:
        raise click.UsageError(f"--storage-option {name}: there is no such variable; give {name}=VALUE, or set it")
    return value if given else os.environ[name]


@page
def render_found(report: IngestReport) -> Iterator[Block]:
    """What Tidegate found out, before the run begins."""
    yield facts(*report.found)
    yield Gap()


@page
def render_ingest(report: IngestReport) -> Iterator[Block]:
    """The result of the run, and the configuration."""
    if report.run is not None:
        yield from render_run(report.run, quote(report.saved or NOT_SAVED))
        yield Gap()
    yield Heading(f"As a configuration ({report.saved or f'not saved: add --save {NOT_SAVED}'})")
    yield Gap()
    yield from map(line, report.yaml.splitlines())
    if report.variables:
        yield Gap()
        yield line(f"set before use: {', '.join(report.variables)}", Style.WARN)
    if report.saved:
        yield Gap()
        yield line(f"$ tidegate run {quote(report.saved)}", Style.STRONG)
