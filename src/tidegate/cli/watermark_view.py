"""How recorded watermarks are shown: the state of each source, its partitions, and the files it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table, cell
from tidegate.cli.status_view import moment, state_cell
from tidegate.observe.wording import count
from tidegate.reports.run import FailedUnit, WatermarkView

ROWS_SHOWN = 20


def render_watermarks(views: Sequence[WatermarkView]) -> Page:
    """All sources, one section each."""
    sections = [tuple(_section(each)) for each in views]
    if not sections:
        return (Line(Cell("nothing to show: no source was selected")),)
    return tuple(chain(sections[0], *((Gap(), *section) for section in sections[1:])))


def _section(view: WatermarkView) -> Iterator[Block]:
    yield Heading(f"{view.pipeline}/{view.source}")
    is_set = view.tracking == "set"
    if view.tracking in ("columns", "units"):
        yield from _columns(view)
        return
    up_to = Cell(count(view.remembered, "path")) if is_set else cell(view.last_committed_file)
    yield Facts(
        (
            ("state", state_cell(view.state)),
            ("last read" if is_set else "watermark", cell(view.value, Style.STRONG)),
            ("position", Cell(f"version {view.version}" if view.version else "none yet")),
            ("remembered" if is_set else "finished up to", up_to),
            ("updated", cell(moment(view.updated) if view.updated else None)),
        )
    )
    if view.partitions:
        newest_first = dict(sorted(view.partitions.items(), reverse=True))
        yield Gap()
        yield _table(("partition", "finished up to"), newest_first, "partition")
    if view.files:
        yield Gap()
        yield _table(("file", "progress"), _by_need(view.files), "file")
    if view.sealed:
        yield Gap()
        yield _table(("sealed prefix", "below"), view.sealed, "prefix", "prefixes")


def _columns(view: WatermarkView) -> Iterator[Block]:
    yield Facts(
        (
            ("state", state_cell(view.state)),
            ("position", Cell(f"version {view.version}" if view.version else "none yet")),
            ("updated", cell(moment(view.updated) if view.updated else None)),
        )
    )
    if view.partitions and view.tracking == "columns":
        yield Gap()
        yield _table(("column", "greatest value"), view.partitions, "column")
    elif view.partitions:
        yield Gap()
        yield _table(("unit", "read"), {unit or "(all)": text for unit, text in view.partitions.items()}, "unit")
    if view.failed_units:
        yield Gap()
        yield _table(("failed work unit", "why"), dict(map(_failed, view.failed_units)), "work unit")
    if view.retired:
        yield Gap()
        yield _table(("retired unit", "why"), view.retired, "unit")


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


def _table(titles: tuple[str, str], entries: Mapping[str, Any], noun: str, plural: str = "") -> Table:
    shown = list(entries.items())[:ROWS_SHOWN]
    left = len(entries) - len(shown)
    more = count(left, f"more {noun}", f"more {plural}" if plural else "")
    rows = tuple((cell(name or "(top level)"), _progress(entry)) for name, entry in shown)
    return Table(tuple(map(Column, titles)), rows, f"… and {more}; --json lists all" if left else "")


def _progress(entry: object) -> Cell:
    match entry:
        case {"Failed": {"attempts": attempts, "reason": reason}}:
            return Cell(f"failed: {reason} ({count(attempts, 'attempt')})", Style.BAD)
        case {"RecordsRead": records}:
            return Cell(f"in progress: {count(records, 'record')} read", Style.WARN)
        case "Finished":
            return Cell("finished, waits for one before it", Style.DIM)
        case {"below": below, "directories": int(directories)}:
            return Cell(f"{below} ({count(directories, 'directory', 'directories')})")
        case Mapping():
            return Cell(", ".join(f"{key}: {value}" for key, value in entry.items()))
        case _:
            return cell(entry)
