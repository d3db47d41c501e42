"""``tidegate status``, ``report``, ``serve``, ``notify`` and ``files``: where sources stand, which file came when."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import click

import tidegate
from tidegate.cli.invocation import Command, Invocation, Moment, limit_option, print_text, target, with_json
from tidegate.errors import TidegateError
from tidegate.reports.page import line
from tidegate.reports.report import Sections
from tidegate.reports.status import Statuses
from tidegate.specs.masking import recall_mask


@click.command(
    cls=Command,
    examples=[
        "tidegate status pipelines.yml",
        "tidegate status pipelines.yml -p events",
        "tidegate status pipelines.yml --json | jq '.sources[] | {source, lag_seconds}'",
    ],
)
@target(pipeline="all")
@with_json
def status(invocation: Invocation, config: Path, pipeline: str | None) -> int:
    """Show state, watermark, lag and backlog of every source.

    Reads the recorded state of the pipelines in the YAML file CONFIG and lists what is new. Does not start Spark.
    """
    return invocation.give(Statuses(tidegate.status(config, pipeline)))


@click.command(
    cls=Command,
    examples=[
        "tidegate report pipelines.yml",
        "tidegate report pipelines.yml --html report.html",
        "tidegate report pipelines.yml --html - | mail -a 'Content-Type: text/html' me",
        "tidegate report pipelines.yml --json | jq '.sources[].status.health'",
    ],
)
@target(pipeline="all")
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Write the report as one HTML file; - for standard output.",
)
@with_json
def report(invocation: Invocation, config: Path, pipeline: str | None, html: Path | None) -> int:
    """Show what is broken first, then every source with its last days.

    Says since when, what is lost and which command to run; and what the next run would do. The HTML file needs
    nothing else: send it to somebody, or keep it. Does not start Spark.
    """
    if html is not None and invocation.as_json:
        raise click.UsageError("--html and --json do not work together")
    found = tidegate.report(config, pipeline)
    if html is None:
        return invocation.give(found)
    document = recall_mask().deep(found).to_html()
    if str(html) == "-":
        sys.stdout.write(document)
        sys.stdout.flush()
    else:
        _write_whole(html, document)
        invocation.show(lambda view: [found.sum_up(), line(str(html), label="report")])
    return found.code()


def _write_whole(path: Path, text: str) -> None:
    """Write a file that nobody finds half written, not even while a browser loads it again and again."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8", errors="backslashreplace")
        part.replace(path)
    except OSError as error:
        raise TidegateError(f"{path} cannot be written ({error})", "name a file in a folder that exists") from error
    finally:
        part.unlink(missing_ok=True)


@click.command(
    cls=Command,
    examples=["tidegate serve pipelines.yml", "tidegate serve pipelines.yml --address 0.0.0.0:9191 --every 60"],
)
@target(pipeline="all")
@click.option("--address", metavar="HOST:PORT", help="Where to listen (default: metrics.address in CONFIG).")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=15.0,
    help="Look at the sources at most this often (default: 15).",
)
@click.pass_obj
def serve(invocation: Invocation, config: Path, pipeline: str | None, address: str | None, every: float) -> None:
    """Serve metrics and health over HTTP, without running anything.

    Serves what `tidegate status` knows at /metrics, /health and /ready, until Ctrl-C or SIGTERM. Continuous runs serve
    their own.
    """

    def announce(where: str) -> None:
        if not invocation.quiet:
            print_text(f"serving http://{where}/metrics, /health and /ready", to_stderr=True)

    tidegate.serve(config, pipeline, address=address, every=every, started=announce, stop=threading.Event())


@click.command(
    cls=Command,
    examples=[
        "tidegate notify pipelines.yml --test",
        "tidegate notify pipelines.yml",
        "tidegate notify pipelines.yml -p events --json",
    ],
)
@target(pipeline="all")
@click.option("--test", is_flag=True, help="Send a test message to every destination instead.")
@with_json
def notify(invocation: Invocation, config: Path, pipeline: str | None, test: bool) -> int:
    """Send the messages that are due.

    Looks at the sources as `tidegate status` does, and tells the destinations that the YAML file CONFIG names below
    `notify`. Runs send messages themselves; this is for sources that nobody runs.
    """
    return invocation.give(tidegate.notify(config, pipeline, test=test))


@click.command(
    cls=Command,
    examples=[
        "tidegate files pipelines.yml -p events",
        "tidegate files pipelines.yml -p events --match 'date=2026-01-28/*'",
        "tidegate files pipelines.yml -p events --since 24h --limit 0 --json",
        "tidegate files pipelines.yml -p events --export ledger.parquet",
    ],
)
@target(source="all")
@click.option("--match", metavar="GLOB", help="Only files that match (*, ?, [..], **).")
@click.option("--since", metavar="MOMENT", type=Moment(), help="Committed since: a date, a time, 90m, 12h, 7d.")
@click.option("--position", metavar="N", type=click.IntRange(min=1), help="Only files of this commit.")
@limit_option(50)
@click.option("--ranges", is_flag=True, help="Show each range of a file on a row of its own.")
@click.option(
    "--export",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the whole ledger to a Parquet file.",
)
@click.option("--compact", is_flag=True, help="Gather old documents of the ledger into blocks now.")
@with_json
def files(invocation: Invocation, /, ranges: bool, export: Path | None, compact: bool, **query: Any) -> int:
    """Show which file was ingested when, and by which commit.

    Newest first, with the number of records, rows and dead letters. Does not start Spark or list the source.
    """
    where = {name: query[name] for name in ("config", "pipeline", "source")}
    if export or compact:
        narrows = ranges or any(query[name] is not None for name in ("match", "since", "position"))
        if narrows or (export and compact):
            raise click.UsageError("--export and --compact work on the whole ledger: give them alone")
        if export:
            return invocation.give(tidegate.export_ledger(**where, to=export))
        return invocation.give(Sections("sources", tidegate.compact_ledger(**where), apart=False))
    report = tidegate.files(**query)
    return invocation.give(report, report.describe_ranges if ranges else None)
