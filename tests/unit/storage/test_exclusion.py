"""The lock around commits of tables that Spark writes."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tidegate.specs.locations import Location
from tidegate.storage.local import LOCK, alone, announce


def is_held(table: Path) -> bool:
    """Whether somebody has the lock."""
    with (table / LOCK).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_one_is_inside_at_a_time_and_an_error_gives_the_lock_back(tmp_path: Path) -> None:
    table = Location(f"file://{tmp_path}")
    with pytest.raises(ZeroDivisionError), alone(table, always=True):
        1 // (not is_held(tmp_path))
    assert not is_held(tmp_path)
    with alone(table, always=False):
        assert is_held(tmp_path)


def test_there_is_no_lock_where_spark_never_wrote(tmp_path: Path) -> None:
    with alone(Location(f"file://{tmp_path}"), always=False):
        assert not (tmp_path / LOCK).exists()


def test_whoever_commits_after_spark_announced_itself_takes_the_lock(tmp_path: Path) -> None:
    table = Location(f"file://{tmp_path}")
    announce(table)
    assert not is_held(tmp_path)
    with alone(table, always=False):
        assert is_held(tmp_path)
    announce(Location("s3://lake/t"))


def test_object_stores_have_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with alone(Location("s3://lake/t"), always=True):
        assert not list(tmp_path.iterdir())
