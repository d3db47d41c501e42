"""The page of common issues: each has a command that exists, and the log that it shows is what runs write."""

from __future__ import annotations

import re
from pathlib import Path

from support.all_cases import for_all
from support.lake import Lake
from tidegate.cli.main import MODULES
from tidegate.observe.logs import Level, TextLog

PAGE = Path(__file__).parents[2] / "docs/failures/common-issues.md"
TEXT = PAGE.read_text(encoding="utf-8")
ISSUES = [row.strip("| ").split(" | ") for row in re.findall(r"^\| (?!symptom).*$", TEXT, flags=re.MULTILINE)]
DAY = "date=2026-01-28"


@for_all(ISSUES, lambda row: " ".join(row[:2]))
def test_an_issue_has_a_cause_and_a_command_that_shows_it(row: list[str]) -> None:
    _, cause, look, *_ = row
    assert cause
    commands = re.findall(r"`tidegate (\w+)", look)
    assert commands
    assert set(commands) <= set(MODULES), look


def test_what_people_ask_about_most_is_there() -> None:
    asked = {"files are never discovered", "the same files are read again", "an older folder is ignored"}
    assert asked | {"always `Idle`", "`Empty`", "always `Initial`"} <= {row[0] for row in ISSUES}


def test_the_log_on_the_page_is_what_two_runs_write(tmp_path: Path) -> None:
    lake, written = Lake(tmp_path), list[str]()
    for name in ("1769600100", "1769600300"):
        lake.arrive(f"{DAY}/{name}.ndjson", records=2)
    lake.write(f"{DAY}/notes.txt", "x")
    for _ in range(2):
        assert lake.run(TextLog(written.append, Level.DEBUG)).ok
    shown = re.findall(r"^(?:debug|info) .*$", TEXT, flags=re.MULTILINE)
    assert bare(shown) == bare([line.partition("Z ")[2] for line in written])


def bare(lines: list[str]) -> list[str]:
    """Lines of a log without sizes and times; what is being uploaded is told at any time, and left out."""
    told = (line.strip() for line in lines if "uploads_changed" not in line)
    return [re.sub(r"[\d.]+ (B|KiB|s)\b|bytes=\d+", "…", line) for line in told]
