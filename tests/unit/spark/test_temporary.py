"""The folder of a process for what Spark leaves on disk: one, and none afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidegate.spark import session

pytestmark = pytest.mark.slow

CLAIM = """
import sys
from tidegate.spark.session import claim
folder = claim()
(folder / "blockmgr-1").mkdir()
(folder / "blockmgr-1" / "rows").write_text("x")
print(folder, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@contextmanager
def another_process() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """One that has a folder and waits to be told to end."""
    started = subprocess.Popen([sys.executable, "-c", CLAIM], stdin=-1, stdout=-1, text=True)
    try:
        assert started.stdout is not None
        yield started, Path(started.stdout.readline().strip())
    finally:
        started.kill()
        started.communicate()


def test_a_process_that_ends_leaves_nothing(place: Path) -> None:
    with another_process() as (process, folder):
        assert folder.parent == place
        process.communicate("\n")
        assert process.returncode == 0
        assert list(place.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next_and_nothing_else(place: Path) -> None:
    with another_process() as (killed, left), another_process() as (_, lives):
        killed.kill()
        killed.wait()
        assert left.exists()
        (place / "elsewhere").mkdir()
        (place / f"{session.PREFIX}link").symlink_to(place / "elsewhere")
        (place / f"{session.PREFIX}of-somebody-else").mkdir()
        session.sweep()
        assert {each.name for each in place.iterdir()} == {
            lives.name,
            "elsewhere",
            f"{session.PREFIX}link",
            f"{session.PREFIX}of-somebody-else",
        }
