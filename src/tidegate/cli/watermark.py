"""``tidegate watermark``: show the recorded state of sources and its history, and change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tidegate
from tidegate.cli.files import action_cell
from tidegate.cli.invocation import Confirmation, Group, Invocation, confirm_options, limit_option, target, with_json
from tidegate.cli.status import state_cell
from tidegate.reports.page import (
    Block,
    Cell,
    Fact,
    Gap,
    Heading,
    Page,
    Row,
    Style,
    Table,
    cell,
    facts,
    line,
    more,
    notes,
    page,
    sections,
    source_name,
    tabulate,
)
from tidegate.reports.wording import count, size

if TYPE_CHECKING:
    from tidegate.reports.status import FailedUnit
    from tidegate.reports.units import UnitsMove
    from tidegate.reports.watermark import FileSet, PositionView, WatermarkHistory, WatermarkMove, WatermarkView

ROWS_SHOWN = 20


@click.group(
    cls=Group,
    examples=[
        "tidegate watermark show pipelines.yml -p events",
        "tidegate watermark reset pipelines.yml -p events --all --dry-run",
    ],
)
def watermark() -> None:
    """Show the recorded watermarks, and move them."""


@watermark.command(
    examples=[
        "tidegate watermark show pipelines.yml -p events",
        "tidegate watermark show pipelines.yml -p events -s asia --json",
    ],
)
@target(source="all")
@with_json
def show(invocation: Invocation, config: Path, pipeline: str, source: str | None) -> None:
    """Show the recorded state of a pipeline's sources.

    The watermark, the open partitions, and the files that are not finished.
    """
    invocation.give_each("watermarks", tidegate.show_watermarks(config, pipeline, source), render_watermarks)


@watermark.command(
    examples=[
        "tidegate watermark history pipelines.yml -p events",
        "tidegate watermark history pipelines.yml -p events -s asia --limit 0 --json",
    ],
)
@target(source="all")
@limit_option(20)
@with_json
def history(invocation: Invocation, config: Path, pipeline: str, source: str | None, limit: int) -> None:
    """Show the commits of a source and the watermark after each.

    Newest first, with what made the commit, its files and its rows.
    """
    invocation.give_each("sources", tidegate.watermark_history(config, pipeline, source, limit=limit), render_history)


@watermark.command(
    "set",
    examples=[
        "tidegate watermark set t.yml -p events --to date=2026-01-28/0007.json",
        "tidegate watermark set t.yml -p events --partition 2026-01-28 --name 0007.json",
        "tidegate watermark set t.yml -p orders --value updated_at=2026-01-28T00:00:00Z",
    ],
)
@target(source="one")
@click.option("--to", metavar="PATH", help="The last file of its partition that counts as read.")
@click.option(
    "--value",
    "values",
    metavar="COLUMN=VALUE",
    multiple=True,
    help="For column sources: the greatest value that counts as read. May be repeated.",
)
@click.option("--inclusive", is_flag=True, help="With --value: read rows with that value again.")
@click.option("--partition", metavar="DIR", help="Instead of --to: the directory of the file ...")
@click.option("--name", metavar="NAME", help="... and its name.")
@confirm_options
@with_json
def set_watermark(
    invocation: Invocation,
    /,
    to: str | None,
    partition: str | None,
    name: str | None,
    values: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    **given: Any,
) -> int:
    """Set the watermark of a partition or of columns.

    Moved up, it skips files or rows: no run ever reads them. Moved down, the next run reads those above it again, and
    their rows are in the table twice. Shows which files, asks, and commits the new watermark. No row changes.
    """
    path = None if values else _path(to, partition, name)
    confirm = Confirmation(invocation, "Move the watermark?", render_move, dry_run, yes)
    move = tidegate.set_watermark(to=path, values=_values(values), confirm=confirm, **given)
    return confirm.give(move, render_move_end)


def _values(given: tuple[str, ...]) -> dict[str, str] | None:
    """Values by column; None without values."""
    wrong = [each for each in given if "=" not in each.strip("=")]
    if wrong:
        raise click.UsageError(f"--value {wrong[0]}: give COLUMN=VALUE")
    return {name: value for name, _, value in (each.partition("=") for each in given)} or None


def _path(to: str | None, partition: str | None, name: str | None) -> str:
    if to is not None and partition is None and name is None:
        return to
    if to is None and partition is not None and name is not None:
        directory = partition.strip("/")
        return f"{directory}/{name}" if directory else name
    raise click.UsageError("give --to PATH, or --partition DIR and --name NAME, or --value COLUMN=VALUE")


@watermark.command(
    "reset",
    examples=[
        "tidegate watermark reset pipelines.yml -p events --partition date=2026-01-28",
        "tidegate watermark reset pipelines.yml -p events -s asia --all --dry-run",
    ],
)
@target(source="one")
@click.option("--partition", metavar="DIR", help="Forget this partition ('' for the top level).")
@click.option("--all", "everything", is_flag=True, help="Forget the whole source.")
@confirm_options
@with_json
def reset_watermark(
    invocation: Invocation, /, partition: str | None, everything: bool, dry_run: bool, yes: bool, **given: Any
) -> int:
    """Forget what was read of a partition or a source.

    The next run reads all its files again. Rows that are in the table already are then in it twice. Shows which files,
    asks, and commits the new watermark. No row changes.
    """
    if everything == (partition is not None):
        raise click.UsageError("give --partition DIR or --all")
    confirm = Confirmation(invocation, "Move the watermark?", render_move, dry_run, yes)
    move = tidegate.reset_watermark(partition=partition, confirm=confirm, **given)
    return confirm.give(move, render_move_end)


# The recorded state


def render_watermarks(views: Sequence[WatermarkView]) -> Page:
    """One section per source."""
    return sections(map(_state, views))


def _state(view: WatermarkView) -> Iterator[Block]:
    yield Heading(source_name(view))
    yield facts(*_state_facts(view))
    for table in _state_tables(view):
        yield Gap()
        yield table


def _state_facts(view: WatermarkView) -> Iterator[Fact]:
    yield "state", state_cell(view.state)
    if view.tracking in ("columns", "units"):
        yield "commits", view.version or "none yet"
    else:
        is_set = view.tracking == "set"
        yield "last read" if is_set else "watermark", cell(view.value, Style.STRONG)
        yield "commits", view.version or "none yet"
        if is_set:
            yield "remembered", count(view.remembered, "path")
        else:
            yield "finished up to", view.last_committed_file
    yield "last commit", view.last_commit_at or view.updated


def _state_tables(view: WatermarkView) -> Iterator[Table]:
    match view.tracking:
        case "columns":
            yield from _entries("column", "greatest value", view.partitions, "column")
        case "units":
            read = {unit or "(all)": text for unit, text in view.partitions.items()}
            yield from _entries("unit", "read", read, "unit")
        case _:
            newest_first = dict(sorted(view.partitions.items(), reverse=True))
            yield from _entries("partition", "finished up to", newest_first, "partition")
            yield from _entries("file", "progress", _by_need(view.files), "file")
            yield from _entries("sealed prefix", "below", view.sealed, "prefix", "prefixes")
            return
    yield from _entries("failed work unit", "why", dict(map(_failed, view.failed_units)), "work unit")
    yield from _entries("retired unit", "why", view.retired, "unit")


def _failed(each: FailedUnit) -> tuple[str, dict[str, object]]:
    name = f"{each.unit or '(all)'} from {each.start}"
    return name, {"Failed": {"attempts": each.failures, "reason": each.reason}}


def _by_need(files: Mapping[str, Any]) -> dict[str, Any]:
    """Failed files first, then those in progress, then those finished above a gap."""
    return dict(sorted(files.items(), key=lambda item: (_rank(item[1]), item[0])))


def _rank(progress: object) -> int:
    if isinstance(progress, Mapping):
        return 0 if "Failed" in progress else 1
    return 2


def _entries(first: str, second: str, entries: Mapping[str, Any], noun: str, plural: str = "") -> Iterator[Table]:
    if entries:
        shown = list(entries.items())[:ROWS_SHOWN]
        rows = tuple((name or "(top level)", _progress(entry)) for name, entry in shown)
        yield tabulate((f"~{first}", f"={second}"), rows, more(len(entries) - len(shown), noun, plural))


def _progress(entry: object) -> Cell:
    match entry:
        case {"Failed": {"attempts": attempts, "reason": reason}}:
            return Cell(f"failed: {reason} ({count(attempts, 'attempt')})", Style.BAD)
        case {"RecordsRead": records}:
            return Cell(f"in progress: {count(records, 'record')} read", Style.WARN)
        case "Finished":
            return Cell("finished, waits for a file before it", Style.DIM)
        case {"below": below, "directories": int(directories)}:
            return Cell(f"{below} ({count(directories, 'directory', 'directories')})")
        case Mapping():
            return Cell(", ".join(f"{key}: {value}" for key, value in entry.items()))
        case _:
            return cell(entry)


# The history


def render_history(histories: Sequence[WatermarkHistory]) -> Page:
    """One section per source."""
    return sections(map(_positions, histories))


def _positions(history: WatermarkHistory) -> Iterator[Block]:
    yield Heading(source_name(history))
    if history.positions:
        titles = (">commit", "committed", "?action", "?>files", ">rows", "?>table version", "~watermark")
        footnote = "" if history.complete else "older commits omitted; --limit 0 shows all"
        yield tabulate(titles, map(_position_row, history.positions), footnote)
    else:
        yield line("no commit yet")
    yield from (line(note, Style.WARN, "note") for note in history.notes)


def _position_row(view: PositionView) -> Row:
    if view.gap is not None:
        unknown = Cell("?", Style.WARN)
        return (view.position, *[unknown] * 5, Cell(f"unknown: {view.gap}", Style.WARN))
    return (
        view.position,
        view.committed_at,
        action_cell(view.action),
        view.files,
        view.rows,
        None if view.table_version is None else str(view.table_version),
        view.watermark,
    )


# A move


@page
def render_move(move: WatermarkMove) -> Iterator[Block]:
    """The consequences of moving a watermark."""
    yield Heading(f"{source_name(move)}: {move.action}")
    where = "the whole source" if move.partition is None else move.partition or "(top level)"
    yield facts(
        ("partition", Cell(where, Style.STRONG)),
        ("watermark", move.before),
        ("becomes", cell(move.after, Style.STRONG)),
    )
    if move.tracking != "columns":
        yield Gap()
        yield fates(
            ("read again: rows in the table are doubled", move.read_again, Style.BAD),
            ("skipped: never read", move.never_read, Style.BAD),
        )
    yield from notes(move.notes)


def render_move_end(move: WatermarkMove | UnitsMove) -> Page:
    """The result of a move."""
    if move.applied:
        text = f"committed as table version {move.table_version}; no row changed"
        if move.table_version < 0:
            text = "saved: the first run begins there"
        return (Gap(), line(text, Style.GOOD))
    return (Gap(), line("nothing was changed", Style.DIM))


def fates(*found: tuple[str, FileSet, Style]) -> Table:
    """The fate of each set of files, with examples."""
    rows = tuple((label, *_amounts(files, style)) for label, files, style in found)
    return tabulate(("=effect", ">files", ">size", "~for example"), rows)


def _amounts(found: FileSet, style: Style) -> Row:
    if not found.files:
        return None, None, None
    rest = ", …" if found.files > len(found.examples) else ""
    return (
        cell(found.files, style),
        (found.bytes and size(found.bytes)) or None,
        ", ".join(found.examples) + rest,
    )
