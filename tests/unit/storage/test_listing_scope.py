"""How far a listing goes: links are left alone unless asked for, and then every file has one name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.core.files.discovery import Reason
from tidegate.errors import ObjectChanged, SourceError
from tidegate.sources.file_discovery import refuse_left_out
from tidegate.specs.locations import Location
from tidegate.storage.listing_scope import Scope
from tidegate.storage.options import absolute
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store


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


def test_of_links_to_the_same_place_the_first_by_path_gives_the_name(
    store: ObjectStore, root: Path, tmp_path: Path
) -> None:
    fill(tmp_path / "outside", "o.json", "deep/p.json")
    link(root / "b", tmp_path / "outside", 1)
    link(root / "a", tmp_path / "outside/deep", 4)
    link(root / "c", tmp_path / "outside", 3)
    link(root / "p.json", tmp_path / "outside/deep/p.json", 2)
    scope = Scope(follow_links=True)
    assert found(store, scope) == ["a/p.json", "b/o.json"]
    assert set(told(scope)[Reason.LINK_AGAIN]) == {"b/deep", "c", "p.json"}


@pytest.mark.parametrize("target", ["outside", "outside/o.json"])
def test_making_a_link_again_does_not_rename_its_files(
    store: ObjectStore, root: Path, tmp_path: Path, target: str
) -> None:
    fill(tmp_path / "outside", "o.json")
    link(root / "a.json", tmp_path / target, 1)
    link(root / "b.json", tmp_path / target, 2)
    before = found(store, Scope(follow_links=True))
    assert [path.partition("/")[0] for path in before] == ["a.json"]
    (root / "a.json").unlink()
    link(root / "a.json", tmp_path / target, 3)
    assert found(store, Scope(follow_links=True)) == before


def test_a_link_with_an_internal_name_gives_no_name(store: ObjectStore, root: Path) -> None:
    fill(root, "..v1/a.json")
    link(root / "..data", "..v1", 1)
    link(root / "a.json", "..data/a.json", 1)
    scope = Scope(follow_links=True)
    assert found(store, scope) == ["..v1/a.json", "a.json"]
    assert told(scope) == {Reason.INTERNAL: ("..data",)}


def test_every_path_that_may_hide_files_is_known_not_only_the_examples(store: ObjectStore, root: Path) -> None:
    fill(root, "d/a.json")
    for number in range(5):
        link(root / f"l{number}", "d", 1)
    (root / os.fsdecode(b"caf\xe9.json")).write_text("{}")
    scope = Scope()
    assert found(store, scope) == ["d/a.json"]
    assert scope.unseen == {**{f"l{number}": Reason.LINK for number in range(5)}, "caf\udce9.json": Reason.NAME}


def test_hidden_links_are_no_reason_to_refuse_however_many(store: ObjectStore, root: Path) -> None:
    fill(root, "a.json", "d/b.json")
    for number in range(5):
        link(root / f"d/.lock{number}", "../a.json", 1)
    scope = Scope()
    assert found(store, scope) == ["a.json", "d/b.json"]
    refuse_left_out(scope, "the folder", "a remedy")
    for number in range(4):
        link(root / f"l{number}", "a.json", 1)
    found(store, scope)
    with pytest.raises(SourceError, match=r"the folder: 4 left out, symbolic link.*: l\d, l\d, l\d, …"):
        refuse_left_out(scope, "the folder", "a remedy")


@pytest.mark.parametrize("follow_links", [True, False])
def test_what_lies_below_the_bound_is_told_only_where_it_may_hide_files(
    store: ObjectStore, root: Path, follow_links: bool
) -> None:
    fill(root, "a.json", "b/1.json", "m.json", "z.json")
    link(root / "c", "nowhere", 1)
    scope = Scope(follow_links=follow_links)
    level = store.list_directory(after="m.json", scope=scope)
    assert (level.directories, [each.path for each in level.objects]) == (("b",), ["z.json"])
    assert list(scope.unseen) == ["c"]


def test_a_directory_asks_for_the_links_once_however_many_names_it_has(
    store: ObjectStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    links = Scope.links
    monkeypatch.setattr(Scope, "links", lambda scope, place: asked.append(place) or links(scope, place))
    fill(root, *(f"{number}.json" for number in range(20)), "d/a.json")
    assert len(found(store, Scope())) == 21
    assert len(asked) == 2


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
