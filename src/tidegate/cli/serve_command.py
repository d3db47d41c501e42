"""``tidegate serve``: metrics and health over HTTP, for pipelines that run elsewhere."""

from __future__ import annotations

import threading
from pathlib import Path

import click

from tidegate.cli.invocation import Invocation
from tidegate.cli.options import Command, config_argument, pipeline_option


@click.command(
    cls=Command,
    examples=["tidegate serve pipelines.yml", "tidegate serve pipelines.yml --address 0.0.0.0:9191 --every 60"],
)
@config_argument
@pipeline_option()
@click.option("--address", metavar="HOST:PORT", help="Where to listen (default: metrics.address of the file).")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=15.0,
    help="Look at the sources at most this often (default: 15).",
)
@click.pass_obj
def serve(invocation: Invocation, config: Path, pipeline: str | None, address: str | None, every: float) -> None:
    """Serve metrics and health without running anything.

    Shows what status knows at /metrics, /health and /ready, until stopped (Ctrl-C or SIGTERM). Runs that are
    continuous serve their own.
    """

    def started(where: str) -> None:
        if not invocation.quiet:
            click.echo(f"serving http://{where}/metrics, /health and /ready", err=True)

    invocation.functions().serve(
        config, pipeline, address=address, every=every, started=started, stop=threading.Event()
    )
