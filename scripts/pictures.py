"""Draws the pictures of the README as SVG: ``python scripts/pictures.py``.

``plan`` and ``status`` are real output: a small project is made in a temporary folder, run inside this process, given a
late file and new ones, and looked at, all at a fixed time. ``speed`` is a chart of numbers in ``benchmarks/README.md``.
A test draws them again and compares.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console

from tidegate import load
from tidegate.cli.terminal import draw
from tidegate.commands.project import sources_of
from tidegate.commands.status import plan_of, status_of
from tidegate.protocol.position import Pace
from tidegate.reports.report import Sections, View
from tidegate.reports.status import Statuses
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
NOON = datetime(2026, 1, 28, 15, 0, tzinfo=UTC)
CONFIG = """\
pipelines:
  events:
    source: {source_uri: landing/events/, use_watermark: true}
    schema: {fields: [{name: id, type: int64, nullable: false}, {name: ts, type: timestamp}]}
    sink: {table_uri: lake/events, partition_by: {prefix_template: "date=%Y-%m-%d", column: ts}}
"""


def arrive(root: Path, hour: int, name: str, records: int = 400) -> None:
    """One more file; the same bytes each time."""
    folder = root / "landing" / "events" / "date=2026-01-28" / f"hour={hour}"
    folder.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"id": number, "ts": f"2026-01-28T{hour}:00:00Z"}) + "\n" for number in range(records))
    (folder / f"{name}.ndjson").write_text("".join(lines), encoding="utf-8")


def pictures() -> dict[str, str]:
    """The pictures by their names."""
    return {**screens(), "speed": chart((ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8"))}


def screens() -> dict[str, str]:
    """What commands print."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / "pipelines.yml").write_text(CONFIG, encoding="utf-8")
        for hour in (12, 13):
            for number in range(3):
                arrive(root, hour, f"17696{hour}{number}0")
        project = load(root / "pipelines.yml")
        Loop(project, InProcessEngine(), 2, clock=lambda: NOON, pace=Pace(now=lambda: NOON)).once(project.pipelines)
        arrive(root, 12, "1769612005")
        for number in range(2):
            arrive(root, 14, f"1769614{number}00", records=900)
        sources = sources_of(project, "events")
        later = NOON + timedelta(minutes=4)
        plan = Sections("plans", [plan_of(each, later) for each in sources]).page(View(width=80))
        status = Statuses(tuple(status_of(each, later) for each in sources)).page(View(config="pipelines.yml"))
        shown = {"plan": ("tidegate plan pipelines.yml", plan), "status": ("tidegate status pipelines.yml", status)}
        return {name: _draw(command, page, str(root)) for name, (command, page) in shown.items()}


def _draw(command: str, page: object, root: str) -> str:
    console = Console(record=True, width=82, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(f"[bold]$ {command}[/bold]", highlight=False)
    draw(page, console)  # type: ignore[arg-type]  # both are pages
    console.print()  # without it the lower parts of letters are cut off
    svg = console.export_svg(title="tidegate", unique_id="tidegate")
    plain = re.sub(r"@font-face \{.*?\}\s*| textLength=\"[^\"]*\"", "", svg, flags=re.DOTALL)
    return plain.replace(root, "/srv")


Bars = list[tuple[str, float]]
WIDTH, LEFT, ROW = 820, 200, 26
OURS, OTHERS, INK, PALE = "#0f766e", "#94a3b8", "#1f2937", "#6b7280"


def idle_poll(text: str) -> Bars:
    """Milliseconds of a poll over 200,000 files that finds nothing, as the benchmarks tell them."""
    section = text.partition("\n## A poll that finds nothing\n")[2].partition("\n## ")[0]
    (row,) = re.findall(r"^\| local, hourly \|.*$", section, flags=re.MULTILINE)
    ours = row.rstrip("| ").rpartition("/")[2]
    (theirs,) = re.findall(r"structured streaming over the 200,000\s+hourly local files took ([\d,]+) ms", section)
    return [("Tidegate", float(ours)), ("Structured Streaming", float(theirs.replace(",", "")))]


def throughput(text: str) -> Bars:
    """MB of NDJSON per second into a table, as the benchmarks tell them."""
    section = text.partition("\n## NDJSON into a table\n")[2].partition("\n\n5,000 files")[0]
    rows = re.findall(r"^\| (Tidegate|DuckDB|Spark) \| [\d.]+ \| [\d.]+ \| (\d+) \|", section, flags=re.MULTILINE)
    return [(name, float(value)) for name, value in rows]


def chart(text: str) -> str:
    """Bars of both, each beside its peers on the same machine."""
    polls, rates = idle_poll(text), throughput(text)
    below = 64 + ROW * len(polls) + 30
    parts = [
        *_panel(30, "A poll that finds nothing: 200,000 files of history", "milliseconds, less is better", polls, "ms"),
        *_panel(
            below, "2.4 GB of gzip NDJSON into a table, 2 cores", "MB of JSON per second, more is better", rates, "MB/s"
        ),
    ]
    height = below + 34 + ROW * len(rates) + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif">\n'
        "<title>Idle poll and throughput beside other tools</title>\n"
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#f8fafc"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(top: int, title: str, unit: str, bars: Bars, short: str) -> Iterator[str]:
    yield f'<text x="20" y="{top}" font-size="16" font-weight="bold" fill="{INK}">{title}</text>'
    yield f'<text x="20" y="{top + 18}" font-size="12" fill="{PALE}">{unit}</text>'
    most = max(value for _, value in bars)
    for number, (name, value) in enumerate(bars):
        y = top + 34 + number * ROW
        width = max(2, round((WIDTH - LEFT - 120) * value / most))
        colour = OURS if name == "Tidegate" else OTHERS
        yield f'<text x="{LEFT - 10}" y="{y + 13}" font-size="13" text-anchor="end" fill="{INK}">{name}</text>'
        yield f'<rect x="{LEFT}" y="{y}" width="{width}" height="18" rx="2" fill="{colour}"/>'
        yield f'<text x="{LEFT + width + 8}" y="{y + 13}" font-size="13" fill="{INK}">{value:,.0f} {short}</text>'


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures().items():
        (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")
        print(f"docs/pictures/{name}.svg")
