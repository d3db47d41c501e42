"""``replay``: the rows of chosen files are read again and replaced, after a look at what that means."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import click

from tidegate.cli.confirming import Asking, after_asking, confirm_options
from tidegate.cli.invocation import Invocation, print_json
from tidegate.cli.options import Command, config_argument, json_option, pipeline_option
from tidegate.cli.range_command import range_options, replay_range


@click.command(
    cls=Command,
    examples=[
        "tidegate replay t.yml -p events --files 'date=2026-01-28/**/*.gz' --dry-run",
        "tidegate replay t.yml -p events --files date=2026-01-28/0007.ndjson.gz",
        "tidegate replay t.yml -p events -s asia --partition date=2026-01-28 --yes",
        "tidegate replay t.yml -p orders --start 2026-01-01 --end 2026-04-01",
    ],
)
@config_argument
@pipeline_option(required=True)
@click.option("-s", "--source", metavar="SOURCE", help="The source; may be left out if the pipeline has one.")
@click.option("--files", metavar="PATTERN", help="The files that this pattern matches (*, ?, [..], **).")
@click.option("--partition", metavar="DIR", help="Instead: all files below this directory of the source.")
@click.option("--drop-missing", is_flag=True, help="Remove the rows of files that are gone, too.")
@range_options
@confirm_options
@json_option
@click.pass_obj
def replay(
    invocation: Invocation,
    /,
    config: Path,
    pipeline: str,
    source: str | None,
    files: str | None,
    partition: str | None,
    drop_missing: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **span: Any,
) -> int:
    """Read files or a range again and replace their rows.

    Files: in one commit the old rows of these files leave the table and the new ones come in. Rows are found by the
    column _source_file (sink.metadata_columns). A file that cannot be read stops it; nothing changes then.

    A range, of a source that is followed by columns: from --start up to and not including --end, in chunks of which
    each is one commit. Asked for again, an unfinished replay goes on, a finished one begins anew.
    """
    if span["start"] is not None or span["end"] is not None:
        if files is not None or partition is not None:
            raise click.UsageError("give files or a range, not both")
        return replay_range(invocation, config, pipeline, source, Asking(invocation, dry_run, yes), span, as_json)
    if (files is None) == (partition is None):
        raise click.UsageError("give --files PATTERN or --partition DIR, or --start and --end")
    asking = Asking(invocation, dry_run, yes)
    from tidegate.cli.correction_view import render_replay, render_replay_end

    ask = asking.about("Replace these rows?", render_replay)
    with after_asking(invocation, ask) as (agrees, emit):
        report = invocation.functions().replay(
            config,
            pipeline,
            source,
            files=files,
            partition=partition,
            drop_missing=drop_missing,
            confirm=agrees,
            emit=emit,
            stop=threading.Event(),
        )
    if as_json:
        print_json(report.to_json())
    else:
        page = render_replay_end(report)
        invocation.show(page if asking.asked else (*render_replay(report), *page))
    return asking.exit_code
