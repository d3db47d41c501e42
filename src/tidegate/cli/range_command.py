"""``replay`` of a range of values: its options, and how it is carried out after a look at the chunks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypeVar

import click

from tidegate.cli.confirming import Asking, after_asking
from tidegate.cli.invocation import Invocation, print_json

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--start", metavar="VALUE", help="Where the range begins, itself included."),
    click.option("--end", metavar="VALUE", help="Where it ends, itself not included."),
    click.option("--chunk", metavar="UNIT=N", help="Commit in chunks: months=1, days=7, hours=6, step=100000 ..."),
    click.option("--chunk-column", metavar="COLUMN", help="The column of the bounds, if not the watermark's."),
    click.option("--save-watermark", is_flag=True, help="Let production go on where the finished chunks end."),
    click.option("--skip-gap", is_flag=True, help="With it: also if rows below --start were never read."),
    click.option("--allow-overlap", is_flag=True, help="Also where the next run would append the rows again."),
    click.option("--into", metavar="TABLE_URI", help="Write into another table."),
    click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Chunks read at once."),
    click.option("--fresh", is_flag=True, help="Begin anew, also where an unfinished replay could go on."),
)


def range_options(command: Decorated) -> Decorated:
    """The options of a range."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def replay_range(
    invocation: Invocation,
    config: Path,
    pipeline: str,
    source: str | None,
    asking: Asking,
    span: dict[str, Any],
    as_json: bool,
) -> int:
    """Show the chunks, ask, carry them out with a bar, and show what became of them."""
    if span["start"] is None or span["end"] is None:
        raise click.UsageError("give both --start and --end")
    from tidegate.cli.replay_view import render_range, render_range_end

    ask = asking.about("Read these chunks again?", render_range)
    with after_asking(invocation, ask) as (agrees, emit):
        report = invocation.functions().replay_range(
            config,
            pipeline,
            source,
            start=span["start"],
            end=span["end"],
            chunk=_interval(span["chunk"]),
            chunk_column=span["chunk_column"],
            save_watermark=span["save_watermark"],
            skip_gap=span["skip_gap"],
            allow_overlap=span["allow_overlap"],
            into=span["into"],
            max_workers=span["workers"],
            fresh=span["fresh"],
            confirm=agrees,
            emit=emit,
            stop=threading.Event(),
        )
    if as_json:
        print_json(report.to_json())
    else:
        page = render_range_end(report)
        invocation.show(page if asking.asked else (*render_range(report), *page))
    return asking.exit_code or (1 if report.applied and not report.ok else 0)


def _interval(text: str | None) -> dict[str, int | Decimal] | None:
    if text is None:
        return None
    unit, _, number = text.partition("=")
    try:
        size = Decimal(number)
    except InvalidOperation:
        raise click.UsageError(f"--chunk {text}: give UNIT=N, such as months=1") from None
    return {unit: int(size) if size == size.to_integral_value() else size}
