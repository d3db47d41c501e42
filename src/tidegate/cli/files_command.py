"""``tidegate files``: the ledger of ingested files, its export and its compaction."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from tidegate.cli.invocation import Invocation, print_json
from tidegate.cli.moments import Moment
from tidegate.cli.options import Command, config_argument, json_option, pipeline_option

source_option = click.option("-s", "--source", metavar="SOURCE", help="Only this source (default: all).")


@click.command(
    cls=Command,
    examples=[
        "tidegate files pipelines.yml -p events",
        "tidegate files pipelines.yml -p events --match 'date=2026-01-28/*'",
        "tidegate files pipelines.yml -p events --since 24h --limit 0 --json",
        "tidegate files pipelines.yml -p events --export ledger.parquet",
    ],
)
@config_argument
@pipeline_option(required=True)
@source_option
@click.option("--match", metavar="GLOB", help="Only files that match (*, ?, [..], **).")
@click.option("--since", metavar="MOMENT", type=Moment(), help="Committed since: a date, a time, 90m, 12h, 7d.")
@click.option("--position", metavar="N", type=click.IntRange(min=1), help="Only what this commit brought.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=0), default=50, help="At most so many; 0: all (default: 50)."
)
@click.option("--ranges", is_flag=True, help="Show each range of a file by itself.")
@click.option(
    "--export",
    "target",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write all of it as Parquet.",
)
@click.option("--compact", is_flag=True, help="Gather old documents into blocks now.")
@json_option
@click.pass_obj
def files(
    invocation: Invocation,
    config: Path,
    pipeline: str,
    source: str | None,
    match: str | None,
    since: datetime | None,
    position: int | None,
    limit: int,
    ranges: bool,
    target: Path | None,
    compact: bool,
    as_json: bool,
) -> None:
    """Show which file was ingested when, by which commit.

    Newest first, with the number of records, rows and dead letters. Starts no Spark and lists no source.
    """
    if target is not None or compact:
        if match is not None or since is not None or position is not None or ranges or (target and compact):
            raise click.UsageError("--export and --compact are about the whole ledger: give neither with the others")
        return _whole(invocation, config, pipeline, source, target, as_json=as_json)
    report = invocation.functions().files(
        config, pipeline, source, match=match, since=since, position=position, limit=limit
    )
    if as_json:
        return print_json(report.to_json())
    from tidegate.cli.files_view import render_files

    return invocation.show(render_files(report, ranges=ranges))


def _whole(
    invocation: Invocation, config: Path, pipeline: str, source: str | None, target: Path | None, *, as_json: bool
) -> None:
    from tidegate.cli.files_view import render_compaction, render_export

    functions = invocation.functions()
    if target is not None:
        export = functions.export_ledger(config, pipeline, source, to=target)
        return print_json(export.to_json()) if as_json else invocation.show(render_export(export))
    done = functions.compact_ledger(config, pipeline, source)
    if as_json:
        return print_json({"sources": [each.to_json() for each in done]})
    return invocation.show(render_compaction(done))
