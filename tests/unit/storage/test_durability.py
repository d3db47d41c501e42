"""What is forced to disk, and in which order: content before the name, the name before anybody is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tidegate.errors import StorageError
from tidegate.specs.locations import Location
from tidegate.storage import local
from tidegate.storage.options import absolute
from tidegate.storage.stores import open_store


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Every fsync, rename and link below the temporary directory, in order; temporary names as ``*``."""
    seen: list[str] = []

    def named(path: object) -> str:
        relative = os.path.relpath(os.fspath(path), tmp_path)  # type: ignore[call-overload]
        folder, name = os.path.split(relative)
        return os.path.join(folder, "*" if name.startswith(".tidegate-") else name)

    def force(descriptor: int) -> None:
        os.fsync(descriptor)
        seen.append(f"sync {named(os.readlink(f'/proc/self/fd/{descriptor}'))}")

    def renamed(source: str, target: str, *, real: object = os.replace) -> None:
        real(source, target)  # type: ignore[operator]
        seen.append(f"name {named(target)}")

    def linked(source: str, target: str, *, real: object = os.link) -> None:
        real(source, target)  # type: ignore[operator]
        seen.append(f"name {named(target)}")

    monkeypatch.setattr(local, "force", force)
    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(os, "link", linked)
    return seen


def test_an_object_is_on_disk_before_it_has_its_name_and_its_name_before_put_returns(
    steps: list[str], tmp_path: Path
) -> None:
    store = open_store(Location(absolute("t", tmp_path)))
    store.put("a/b/doc", b"1")
    assert steps == ["sync .", "sync t", "sync t/a", "sync t/a/b/*", "name t/a/b/doc", "sync t/a/b"]
    steps.clear()
    store.put_if_absent("a/b/other", b"1")
    assert steps == ["sync t/a/b/*", "name t/a/b/other", "sync t/a/b"]
    steps.clear()
    (tmp_path / "local").write_bytes(b"2")
    store.put_file("a/b/file", str(tmp_path / "local"))
    assert steps[-3:] == ["sync t/a/b/*", "name t/a/b/file", "sync t/a/b"]


def test_a_file_written_piece_by_piece_is_on_disk_when_it_is_closed(steps: list[str], tmp_path: Path) -> None:
    store = open_store(Location(absolute("t", tmp_path)))
    with store.open_output("d/x.parquet") as output:
        output.write(b"1" * 10)
        before = list(steps)
    assert steps[len(before) :] == ["sync t/d/x.parquet", "sync t/d"]


def test_what_others_wrote_is_forced_with_its_names(steps: list[str], tmp_path: Path) -> None:
    store = open_store(Location(absolute("t", tmp_path)))
    for name in ("t/d/1", "t/d/2", "t/e/3"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"1")
    store.sync(["d/1", "d/2", "e/3", "gone"])
    assert steps == ["sync t/d/1", "sync t/d/2", "sync t/e/3", "sync t/d", "sync t/e"]


def test_nothing_is_forced_where_the_location_says_so(steps: list[str], tmp_path: Path) -> None:
    store = open_store(Location(absolute("t", tmp_path), sync=False))
    store.put("a/doc", b"1")
    with store.open_output("d/x") as output:
        output.write(b"1")
    store.sync(["a/doc"])
    assert [step for step in steps if step.startswith("sync")] == []


def test_a_disk_that_fails_is_an_error_and_leaves_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(local, "force", broken)
    (tmp_path / "t").mkdir()
    store = open_store(Location(absolute("t", tmp_path)))
    with pytest.raises(StorageError, match="EIO"):
        store.put("doc", b"1")
    output = store.open_output("x")
    output.write(b"1")
    with pytest.raises(StorageError, match="EIO"):
        output.close()
    assert os.listdir(tmp_path / "t") == []


def test_a_file_system_that_cannot_force_directories_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unable(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, "no")

    monkeypatch.setattr(local, "force", unable)
    store = open_store(Location(absolute("t", tmp_path)))
    store.put("d/doc", b"1")
    assert store.get("d/doc") == b"1"
