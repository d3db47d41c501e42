"""Draws what ``tidegate plan`` and ``tidegate status`` print, as SVG for the README: ``python scripts/pictures.py``.

The pictures are real output: a small project is made in a temporary folder, run inside this process, given a late file
and new ones, and looked at, all at a fixed time. A test draws them again and compares.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console

from tidegate import load
from tidegate.cli.plan import render_plan
from tidegate.cli.status import render_status
from tidegate.cli.terminal import draw
from tidegate.commands.setup import sources_of
from tidegate.commands.status import plan_of, status_of
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
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
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / "pipelines.yml").write_text(CONFIG, encoding="utf-8")
        for hour in (12, 13):
            for number in range(3):
                arrive(root, hour, f"17696{hour}{number}0")
        project = load(root / "pipelines.yml")
        Loop(project, InProcessEngine(), 2, clock=lambda: NOON).once(project.pipelines)
        arrive(root, 12, "1769612005")
        for number in range(2):
            arrive(root, 14, f"1769614{number}00", records=900)
        sources = sources_of(project, "events")
        later = NOON + timedelta(minutes=4)
        plan = render_plan([plan_of(each, later) for each in sources], width=80)
        status = render_status([status_of(each, later) for each in sources], "pipelines.yml")
        shown = {"plan": ("tidegate plan pipelines.yml", plan), "status": ("tidegate status pipelines.yml", status)}
        return {name: _draw(command, page, str(root)) for name, (command, page) in shown.items()}


def _draw(command: str, page: object, root: str) -> str:
    console = Console(record=True, width=82, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(f"[bold]$ {command}[/bold]", highlight=False)
    draw(page, console)  # type: ignore[arg-type]  # both are pages
    svg = console.export_svg(title="tidegate", unique_id="tidegate")
    plain = re.sub(r"@font-face \{.*?\}\s*| textLength=\"[^\"]*\"", "", svg, flags=re.DOTALL)
    return plain.replace(root, "/srv")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures().items():
        (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")
        print(f"docs/pictures/{name}.svg")
