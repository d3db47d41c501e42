"""Commands that move no data load no Spark: looked at in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.lake import Lake

LOOK = """
import sys
from tidegate.cli.main import cli
try:
    cli.main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
heavy = {"pyspark", "py4j", "pandas"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.parametrize(
    "command",
    [
        ["plan"],
        ["status"],
        ["status", "--json"],
        ["watermark", "show", "-p", "events"],
        ["config", "check"],
        ["config", "show"],
        ["recover", "-p", "events"],
        ["adopt", "-p", "events", "--dry-run"],
    ],
    ids=" ".join,
)
def test_a_command_that_only_looks_loads_no_spark(tmp_path: Path, command: list[str]) -> None:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/1.ndjson")
    lake.run()
    done = subprocess.run([sys.executable, "-c", LOOK, *command, str(lake.config)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [["plan"], ["status"], ["watermark", "show", "-p", "events"]], ids=" ".join)
def test_a_look_at_files_loads_nothing_that_only_runs_and_corrections_need(tmp_path: Path, command: list[str]) -> None:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/1.ndjson")
    unneeded = {
        "tidegate.runs.pass_",
        "tidegate.spark.session",
        "tidegate.reports.reconcile",
    }
    look = LOOK.replace('{"pyspark", "py4j", "pandas"}', repr(unneeded))
    done = subprocess.run([sys.executable, "-c", look, *command, str(lake.config)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_idle_run_starts_no_spark(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/1.ndjson")
    lake.run()
    look = LOOK.replace('{"pyspark", "py4j", "pandas"}', '{"py4j"}')
    done = subprocess.run([sys.executable, "-c", look, "run", str(lake.config)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
