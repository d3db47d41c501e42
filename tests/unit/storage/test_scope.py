"""How far a listing goes: links are left alone unless asked for, and then every file has one name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.errors import ObjectChanged
from tidegate.planning.reasons import Reason
from tidegate.specs import Location
from tidegate.storage.opening import absolute, open_store
from tidegate.storage.port import ObjectStore
from tidegate.storage.scope import Scope


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def store(root: Path) -> ObjectStore:
    return open_store(Location(absolute("in", root.parent)))


def fill(directory: Path, *paths: str) -> None:
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text("{}")


def link(path: Path, target: Path | str, made: int) -> None:
    """A symbolic link that was made at that second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    os.utime(path, (made, made), follow_symlinks=False)


def found(store: ObjectStore, scope: Scope) -> list[str]:
    return sorted(info.path for info in store.list(scope=scope))


def told(scope: Scope) -> dict[Reason, tuple[str, ...]]:
    return {each.reason: each.examples for each in scope.left_out}


def by_level(store: ObjectStore, scope: Scope, prefix: str = "") -> list[str]:
    level = store.list_directory(prefix, scope=scope)
    below = [path for each in level.directories for path in by_level(store, scope, each)]
    return sorted([*(info.path for info in level.objects), *below])


def test_no_link_is_followed_and_each_is_told(store: ObjectStore, root: Path, tmp_path: Path) -> None:
    fill(root, "date=1/a.json")
    fill(tmp_path / "outside", "secret.json")
    link(root / "latest", "date=1", 1)
    link(root / "x.json", tmp_path / "outside/secret.json", 1)
    link(root / "date=1/loop", root, 1)
    link(root / "date=1/self", "self", 1)
    for listed in (found, by_level):
        scope = Scope()
        assert listed(store, scope) == ["date=1/a.json"]
        assert set(told(scope)) == {Reason.LINK}
        assert sum(each.count for each in scope.left_out) == 4


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    fill(root, "a.json")
    link(tmp_path / "door", root, 1)
    scope = Scope()
    assert found(open_store(Location(absolute("door", tmp_path))), scope) == ["a.json"]
    assert scope.left_out == ()


@pytest.mark.parametrize("prefix", ["latest", "latest/hour=1"])
def test_a_prefix_that_lies_behind_a_link_holds_nothing(store: ObjectStore, root: Path, prefix: str) -> None:
    fill(root, "date=1/hour=1/a.json")
    link(root / "latest", "date=1", 1)
    scope = Scope()
    assert list(store.list(prefix, scope=scope)) == []
    assert store.list_directory(prefix, scope=scope).objects == ()
    assert told(scope) == {Reason.LINK: ("latest", "latest")}


def test_a_followed_link_gives_a_name_only_to_files_that_have_none(
    store: ObjectStore, root: Path, tmp_path: Path
) -> None:
    fill(root, "date=1/a.json", ".v1/hidden.json", ".one.json")
    fill(tmp_path / "outside", "o.json", "deep/p.json")
    link(root / "latest", "date=1", 1)
    link(root / "again.json", "date=1/a.json", 1)
    link(root / "current", ".v1", 1)
    link(root / "one.json", ".one.json", 1)
    link(root / "out", tmp_path / "outside", 2)
    link(root / "date=1/up", root, 1)
    link(root / "gone.json", "nowhere", 1)
    for listed in (found, by_level):
        scope = Scope(follow_links=True)
        names = [".one.json", ".v1/hidden.json", "current/hidden.json", "date=1/a.json", "one.json"]
        assert listed(store, scope) == sorted([*names, "out/deep/p.json", "out/o.json"])
        left_out = {reason: set(paths) for reason, paths in told(scope).items()}
        assert left_out == {
            Reason.LINK_AGAIN: {"again.json", "date=1/up", "latest"},
            Reason.LINK_BROKEN: {"gone.json"},
        }


def test_of_links_to_the_same_place_the_oldest_gives_the_name(store: ObjectStore, root: Path, tmp_path: Path) -> None:
    fill(tmp_path / "outside", "o.json", "deep/p.json")
    link(root / "b", tmp_path / "outside/deep", 1)
    link(root / "a", tmp_path / "outside", 2)
    link(root / "c", tmp_path / "outside", 3)
    link(root / "p.json", tmp_path / "outside/deep/p.json", 4)
    scope = Scope(follow_links=True)
    assert found(store, scope) == ["a/o.json", "b/p.json"]
    assert set(told(scope)[Reason.LINK_AGAIN]) == {"a/deep", "c", "p.json"}


def test_a_younger_link_to_a_folder_does_not_rename_a_file_that_an_older_one_named(
    store: ObjectStore, root: Path, tmp_path: Path
) -> None:
    fill(tmp_path / "outside", "o.json", "p.json")
    link(root / "z.json", tmp_path / "outside/o.json", 1)
    assert found(store, Scope(follow_links=True)) == ["z.json"]
    link(root / "a", tmp_path / "outside", 2)
    assert found(store, Scope(follow_links=True)) == ["a/p.json", "z.json"]


def test_a_link_to_an_ancestor_shows_what_lies_beside_the_root_once(
    store: ObjectStore, root: Path, tmp_path: Path
) -> None:
    fill(root, "a.json")
    fill(tmp_path, "beside/b.json")
    link(root / "up", tmp_path, 1)
    scope = Scope(follow_links=True)
    assert found(store, scope) == ["a.json", "up/beside/b.json"]
    assert told(scope) == {Reason.LINK_AGAIN: ("up/in",)}


def test_no_link_leads_into_a_table(store: ObjectStore, root: Path, tmp_path: Path) -> None:
    fill(tmp_path, "lake/table/x.parquet", "lake/other/y.parquet")
    link(root / "t", tmp_path / "lake/table", 1)
    link(root / "x.parquet", tmp_path / "lake/table/x.parquet", 1)
    link(root / "lake", tmp_path / "lake", 2)
    scope = Scope(follow_links=True, apart=(str(tmp_path / "lake/table"),))
    assert found(store, scope) == ["lake/other/y.parquet"]
    assert set(told(scope)[Reason.TABLE]) == {"lake/table", "t", "x.parquet"}


def test_a_file_replaced_by_a_link_after_it_was_listed_is_not_read(store: ObjectStore, root: Path) -> None:
    fill(root, "a.json", ".b.json")
    info = next(each for each in store.list(scope=Scope()) if each.path == "a.json")
    (root / "a.json").unlink()
    (root / "a.json").symlink_to(".b.json")
    with pytest.raises(ObjectChanged, match="not the object that was listed"):
        store.open_input("a.json", etag=info.etag, size=info.size)
