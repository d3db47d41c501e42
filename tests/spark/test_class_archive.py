"""An archive of Spark's classes is made once; sessions start with it, and with a damaged one as without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.long_runs import LONG
from tidegate.commands.setup import make_archive

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.skipif(not LONG, reason="starts Java four times")]

PROGRAM = """
from tidegate.spark.session import open_session
from tidegate.spark.tasks import run_tasks, slot_frame, slot_numbers
from tidegate.specs.project import SparkSpec
session = open_session(SparkSpec(master="local[1]"))
options = session.sparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
has_archive = any("SharedArchiveFile" in each for each in options)
print(has_archive, run_tasks(slot_frame(session, 2), slot_numbers))
session.stop()
"""


def start(home: Path) -> str:
    environment = {**os.environ, "TIDEGATE_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_sessions_start_with_an_archive_and_with_a_damaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    assert start(tmp_path) == "False [0, 1]"
    archive = make_archive()
    assert archive.stat().st_mode & 0o777 == 0o600
    assert make_archive() == archive
    assert start(tmp_path) == "True [0, 1]"
    whole = archive.read_bytes()
    archive.write_bytes(whole[:100_000])
    assert start(tmp_path) == "False [0, 1]"
    archive.write_bytes(bytes(4096) + whole[4096:])
    assert start(tmp_path).endswith("[0, 1]")
