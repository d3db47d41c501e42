"""What somebody at a terminal reads of a run that fails: each error once."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate

pytestmark = pytest.mark.slow

FILE = """\
source: {path: nowhere, use_watermark: true}
schema: {fields: [{name: id, type: int64}]}
sink: {path: lake}
"""
SRC = Path(tidegate.__file__).parents[1]
MESSAGE = "nowhere does not exist"


def command(folder: Path, *more: str) -> tuple[list[str], dict[str, str]]:
    (folder / "t.yml").write_text(FILE)
    environment = {**os.environ, "PYTHONPATH": str(SRC), "COLUMNS": "200", "TERM": "xterm"}
    return [sys.executable, "-m", "tidegate", "run", "t.yml", *more], environment


def on_terminal(folder: Path, *more: str) -> str:
    """What the program writes, output and errors, to one terminal."""
    arguments, environment = command(folder, *more)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        arguments, cwd=folder, env=environment, stdout=slave, stderr=slave, stdin=subprocess.DEVNULL
    )
    os.close(slave)
    pieces = []
    try:
        while piece := os.read(master, 65_536):
            pieces.append(piece)
    except OSError:
        pass  # the other end of a terminal that closed
    os.close(master)
    assert process.wait(60) == 4
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(pieces).decode())


def test_on_a_terminal_an_error_is_told_once_and_the_bar_says_that_it_failed(tmp_path: Path) -> None:
    shown = on_terminal(tmp_path)
    assert shown.count(MESSAGE) == 1
    assert re.search(r"t/default ━+ failed", shown)


def test_somebody_who_asks_for_the_log_has_it_there_too(tmp_path: Path) -> None:
    assert on_terminal(tmp_path, "--log-level", "warning").count(MESSAGE) == 2


def test_where_log_and_result_go_to_different_places_both_tell(tmp_path: Path) -> None:
    arguments, environment = command(tmp_path)
    done = subprocess.run(arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout.count(MESSAGE), done.stderr.count(MESSAGE)) == (1, 1)
    assert "t/default: failed: 0 files" in done.stderr
