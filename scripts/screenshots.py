"""Takes pictures of the HTML report with Chromium: ``python scripts/screenshots.py``.

A small project with three problems is made in a temporary folder and run inside this process over two weeks. Its report
is shown at two widths, light and dark, in ``build/screenshots``, to be looked at; one goes into the documentation. No
test needs a browser.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deltalake import DeltaTable

from tidegate import load
from tidegate.commands.report import report_of
from tidegate.protocol.position import Pace
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "screenshots"
PICTURE = ROOT / "docs" / "pictures" / "report.png"
SIZES = {"desk": (1100, 3200), "phone": (390, 5200), "docs": (900, 775)}
MOST_BYTES = 150_000
NAMES = ("events", "orders", "clicks", "sensors")
PIPELINE = """\
  {name}:
    source: {{source_uri: landing/{name}/, use_watermark: true{more}}}
    schema: {{fields: [{{name: id, type: int64, nullable: false}}, {{name: ts, type: timestamp}}]}}
    sink: {{table_uri: lake/{name}}}
"""


def make_project(root: Path, now: datetime) -> Path:
    """Two weeks of four sources: today a table was restored, a file is broken, and one source brings nothing."""
    chance = random.Random(4)
    settings = dict.fromkeys((*NAMES, "payments"), "") | {"sensors": ", expect_every: PT12H"}
    text = "".join(PIPELINE.format(name=name, more=more) for name, more in settings.items())
    (root / "shop.yml").write_text(f"pipelines:\n{text}", encoding="utf-8")
    (root / "landing" / "payments").mkdir(parents=True)
    for back in range(13, -1, -1):
        day = now - timedelta(days=back, hours=8, minutes=52)
        for name in NAMES if back else NAMES[:-1]:
            bad = "not json\n" if name == "events" and back in (2, 3) else ""
            for number in range(chance.randint(1, 4)):
                arrive(root, name, day, number, chance.randint(100, 1200), bad)
        if not back:
            DeltaTable(str(root / "lake" / "orders")).restore(9)
            broken = root / "landing" / "clicks" / f"date={day:%Y-%m-%d}" / "09-eu.ndjson.gz"
            broken.write_bytes(b"\x1f\x8b cut off")
        run(root, day)
    run(root, now - timedelta(hours=5, minutes=52))
    arrive(root, "events", now, 9, 700)
    return root / "shop.yml"


def arrive(root: Path, name: str, day: datetime, number: int, records: int, bad: str = "") -> None:
    """One more file."""
    folder = root / "landing" / name / f"date={day:%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"id": each, "ts": day.isoformat()}) + "\n" for each in range(records))
    (folder / f"{number:02d}-eu.ndjson").write_text("".join(lines) + bad, encoding="utf-8")


def run(root: Path, at: datetime) -> None:
    """One run at a time of the past."""
    project = load(root / "shop.yml")
    loop = Loop(project, InProcessEngine(), 2, clock=lambda: at, pace=Pace(now=lambda: at))
    loop.once([each for each in project.pipelines if each.name in NAMES])


def photograph(browser: str, page: Path, target: Path, size: tuple[int, int], *, dark: bool) -> None:
    """Take one picture."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    options += [f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--window-size={size[0]},{size[1]}"]
    subprocess.run(
        [browser, *options, f"--screenshot={target}", page.as_uri()], check=True, capture_output=True, timeout=120
    )
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size:,} bytes")


def main() -> None:
    """Make the project, its report and the pictures."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium found - install it, for example with `apt-get install chromium`")
    BUILD.mkdir(parents=True, exist_ok=True)
    page = BUILD / "report.html"
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as folder:
        config = make_project(Path(folder), now)
        # The report names the configuration as it was given.
        os.chdir(config.parent)
        html = report_of(load(config.name), None, now).to_html().replace(folder, "/srv/shop")
    os.chdir(ROOT)
    page.write_text(html, encoding="utf-8")
    for name in ("desk", "phone"):
        for dark in (False, True):
            target = BUILD / f"report-{name}-{'dark' if dark else 'light'}.png"
            photograph(browser, page, target, SIZES[name], dark=dark)
    photograph(browser, page, PICTURE, SIZES["docs"], dark=False)
    if PICTURE.stat().st_size > MOST_BYTES:
        sys.exit(f"{PICTURE.relative_to(ROOT)} is larger than {MOST_BYTES:,} bytes - make it smaller in SIZES")


if __name__ == "__main__":
    main()
