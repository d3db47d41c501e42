"""The page that ``make chaos`` writes: made from a report, with a command that repeats the run."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from support.commands import child
from tidegate.cli.main import cli
from unit.cli.standin import CHAOS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("chaos_report_script", ROOT / "scripts" / "chaos_report.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_numbers_and_how_to_repeat_them(script: ModuleType) -> None:
    page = script.page(CHAOS.to_json(), "--failures 400 --kills 10")
    assert "**0 rows lost, 0 rows doubled.**" in page
    assert "tidegate chaos build/chaos/tables --failures 400 --kills 10 --seed 4" in page
    assert "make chaos SEED=4" in page
    assert "| `state.commit.after` | 9 | 6 | 1 |" in page
    assert "| failures injected into passes | 400 |" in page


def test_make_chaos_gives_options_that_exist_and_bounds_its_time() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (given,) = re.findall(r"^CHAOS \?= (.*)$", makefile, re.MULTILINE)
    known = {name for option in child(cli, "chaos").params for name in option.opts}
    assert set(re.findall(r"--[a-z-]+", given)) <= known
    assert {"--failures", "--kills", "--spark-kills", "--minutes"} <= set(given.split())


def test_the_readme_promises_no_more_than_the_newest_run_showed() -> None:
    report = (ROOT / "docs" / "chaos-report.md").read_text(encoding="utf-8")
    promised = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "after 300 killed workers, 20 killed Spark applications and 10,000 failures" in promised
    assert report.splitlines()[2].startswith("**0 rows lost, 0 rows doubled.**")
    for row, least in (("worker processes killed", 300), ("process trees killed", 20), ("failures injected", 10_000)):
        (found,) = re.findall(rf"^\| {row}[^|]*\| ([\d,]+) \|$", report, flags=re.MULTILINE)
        assert int(found.replace(",", "")) >= least, row
