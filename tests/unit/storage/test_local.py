"""What only a local directory can do, or do wrong.

What is forced to disk, and in which order: content before the name, the name before anybody is told.

The lock around commits of tables that Spark writes.

Links are left alone unless asked for, and then every file has one name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.errors import raises
from tidegate.core.files.discovery import Reason, Skipped
from tidegate.errors import ObjectChanged, ObjectMissing, SourceError, StorageError
from tidegate.sources.file_discovery import refuse_left_out
from tidegate.specs.locations import Location
from tidegate.storage import local
from tidegate.storage.local import LOCK, announce, lock_log
from tidegate.storage.options import absolute_uri
from tidegate.storage.port import ObjectStore, Scope
from tidegate.storage.stores import open_store


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(Location(absolute_uri("in", tmp_path)))


def test_a_missing_directory_is_empty_and_does_not_exist(store: ObjectStore, tmp_path: Path) -> None:
    assert not store.exists()
    assert list(store.list()) == []
    store.put("a", b"1")
    assert store.exists()
    assert not (tmp_path / "a").exists()


def test_a_file_rewritten_in_place_while_it_is_read_is_noticed(store: ObjectStore, tmp_path: Path) -> None:
    store.put("a", b"1" * 5_000_000)
    info = store.head("a")
    with store.open_input("a", etag=info.etag, size=info.size) as stream:
        assert stream.read(10) == b"1" * 10
        (tmp_path / "in/a").write_bytes(b"2" * 5_000_000)
        with raises(ObjectChanged, "in/a"):
            stream.read()


def test_a_file_that_grows_while_it_is_read_is_noticed(store: ObjectStore, tmp_path: Path) -> None:
    store.put("a", b"1" * 3_000_000)
    info = store.head("a")
    with store.open_input("a", etag=info.etag, size=info.size) as stream:
        stream.read(10)
        with (tmp_path / "in/a").open("ab") as file:
            file.write(b"more")
        with pytest.raises(ObjectChanged):
            stream.read()


def test_a_file_replaced_with_the_same_size_and_time_is_another_one(store: ObjectStore, tmp_path: Path) -> None:
    store.put("a", b"first")
    info = store.head("a")
    kept = os.stat(tmp_path / "in/a")
    store.put("a", b"other")
    os.utime(tmp_path / "in/a", ns=(kept.st_atime_ns, kept.st_mtime_ns))
    with pytest.raises(ObjectChanged):
        store.open_input("a", etag=info.etag, size=info.size)


def test_left_over_temporary_files_are_not_listed(store: ObjectStore, tmp_path: Path) -> None:
    store.put("d/a", b"1")
    (tmp_path / "in/d/.tidegate-0123.tmp").write_bytes(b"half")
    assert [info.path for info in store.list()] == ["d/a"]
    assert [info.path for info in store.list_directory("d").objects] == ["d/a"]


def test_writing_leaves_no_temporary_files(store: ObjectStore, tmp_path: Path) -> None:
    store.put("d/a", b"1")
    store.put_if_absent("d/b", b"1")
    with pytest.raises(StorageError):
        store.put_if_absent("d/b", b"2")
    store.put_file("d/c", str(tmp_path / "in/d/a"))
    assert sorted(os.listdir(tmp_path / "in/d")) == ["a", "b", "c"]


def test_new_files_have_the_permissions_that_the_user_asks_for(store: ObjectStore, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        store.put("a", b"1")
        store.put_if_absent("b", b"1")
    finally:
        os.umask(before)
    assert [(tmp_path / "in" / name).stat().st_mode & 0o777 for name in "ab"] == [0o640, 0o640]


def test_links_are_followed_and_broken_ones_are_not_files(store: ObjectStore, tmp_path: Path) -> None:
    store.put("real/a.json", b"12")
    (tmp_path / "in/dir").symlink_to(tmp_path / "in/real")
    (tmp_path / "in/file.json").symlink_to(tmp_path / "in/real/a.json")
    (tmp_path / "in/broken.json").symlink_to(tmp_path / "nowhere")
    assert [(info.path, info.size) for info in store.list()] == [
        ("dir/a.json", 2),
        ("file.json", 2),
        ("real/a.json", 2),
    ]
    assert store.list_directory().directories == ("dir", "real")


def test_a_directory_that_contains_itself_is_an_error_and_no_endless_walk(store: ObjectStore, tmp_path: Path) -> None:
    store.put("d/a", b"1")
    (tmp_path / "in/d/loop").symlink_to(tmp_path / "in/d")
    with raises(StorageError, "ELOOP"):
        list(store.list())


def test_pipes_are_not_files(store: ObjectStore, tmp_path: Path) -> None:
    store.put("a", b"1")
    os.mkfifo(tmp_path / "in/pipe")
    assert [info.path for info in store.list()] == ["a"]
    with pytest.raises(ObjectMissing):
        store.head("pipe")


def test_a_name_that_is_no_text_is_left_out_and_told_by_its_escape(store: ObjectStore, tmp_path: Path) -> None:
    store.put("d/a", b"1")
    (tmp_path / os.fsdecode(b"in/d/caf\xe9.json")).write_bytes(b"1")
    (tmp_path / os.fsdecode(b"in/\xff")).mkdir()
    (tmp_path / os.fsdecode(b"in/\xff/b")).write_bytes(b"1")
    scope = Scope()
    assert [info.path for info in store.list(scope=scope)] == ["d/a"]
    assert scope.left_out == (Skipped(Reason.NAME, 2, ("\\udcff", "d/caf\\udce9.json")),)
    assert store.list_directory().directories == ("d",)
    with raises(StorageError, "'d/caf\\udce9.json'"):
        store.get(os.fsdecode(b"d/caf\xe9.json"))


def test_a_file_in_place_of_a_directory_is_not_taken_for_an_existing_object(store: ObjectStore) -> None:
    store.put("a", b"1")
    for action in (store.put, store.put_if_absent):
        with raises(StorageError, "in/a/b", "ENOTDIR") as caught:
            action("a/b", b"2")
        assert type(caught.value) is StorageError
    with raises(StorageError, "in/a/b", "ENOTDIR"):
        store.open_output("a/b")


def test_a_name_that_is_too_long_is_refused_by_name(store: ObjectStore) -> None:
    with raises(StorageError, "ENAMETOOLONG"):
        store.put("x" * 300, b"1")


def test_no_space_left_names_the_file_and_leaves_nothing(store: ObjectStore, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        with raises(StorageError, "in/big", "EFBIG", "space") as caught:
            store.put("big", b"x" * 3_000_000)
        assert "in/big" in str(caught.value)
        output = store.open_output("out")
        with raises(StorageError, "in/out"):
            output.write(b"x" * 3_000_000)
        output.abort()
        late = store.open_output("late")
        late.write(b"x" * 1_000_001)
        with raises(StorageError, "in/late"):
            late.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path / "in") == []


AS_NOBODY = """
import os, sys
from tidegate.errors import AccessDenied
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store
store = open_store(Location(sys.argv[1]))
os.setuid(65534)
for action in (lambda: list(store.list()), lambda: store.get("closed/a"), lambda: store.put("new", b"x"),
               lambda: store.put_if_absent("new", b"x"), lambda: store.open_output("new")):
    try:
        action()
    except AccessDenied as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="switches to a user without permissions")
def test_a_directory_without_permission_is_denied_by_name() -> None:
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        store = open_store(Location(absolute_uri("in", Path(place))))
        store.put("closed/a", b"1")
        os.chmod(f"{place}/in/closed", 0o700)
        command = [sys.executable, "-c", AS_NOBODY, store.location.uri]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = result.stdout.splitlines()
    assert [line.partition("/in/")[2].partition(" ")[0] for line in lines] == [
        "closed",
        "closed/a",
        "new",
        "new",
        "new",
    ]
    assert all("permission" in line for line in lines)


def test_only_wanted_names_are_asked_for_their_size(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        store.put(f"d/{number:02d}", b"1")
    asked: list[object] = []
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **more: asked.append(path) or real(path, **more))
    found = list(store.list("d", after="d/45", known={"d/47"}.__contains__))
    assert [info.path for info in found] == ["d/46", "d/48", "d/49"]
    assert len(asked) == 3


def test_an_output_that_is_dropped_warns_nobody(store: ObjectStore) -> None:
    output = store.open_output("out")
    output.write(b"x")
    output.abort()
    del output


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
    store = open_store(Location(absolute_uri("t", tmp_path)))
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
    store = open_store(Location(absolute_uri("t", tmp_path)))
    with store.open_output("d/x.parquet") as output:
        output.write(b"1" * 10)
        before = list(steps)
    assert steps[len(before) :] == ["sync t/d/x.parquet", "sync t/d"]


def test_what_others_wrote_is_forced_with_its_names(steps: list[str], tmp_path: Path) -> None:
    store = open_store(Location(absolute_uri("t", tmp_path)))
    for name in ("t/d/1", "t/d/2", "t/e/3"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"1")
    store.sync(["d/1", "d/2", "e/3", "gone"])
    assert steps == ["sync t/d/1", "sync t/d/2", "sync t/e/3", "sync t/d", "sync t/e"]


def test_nothing_is_forced_where_the_location_says_so(steps: list[str], tmp_path: Path) -> None:
    store = open_store(Location(absolute_uri("t", tmp_path), sync=False))
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
    store = open_store(Location(absolute_uri("t", tmp_path)))
    with raises(StorageError, "t/doc", "EIO"):
        store.put("doc", b"1")
    output = store.open_output("x")
    output.write(b"1")
    with raises(StorageError, "t/x", "EIO"):
        output.close()
    assert os.listdir(tmp_path / "t") == []


def test_a_file_system_that_cannot_force_directories_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unable(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, "no")

    monkeypatch.setattr(local, "force", unable)
    store = open_store(Location(absolute_uri("t", tmp_path)))
    store.put("d/doc", b"1")
    assert store.get("d/doc") == b"1"


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
    with pytest.raises(ZeroDivisionError), lock_log(table, always=True):
        1 // (not is_held(tmp_path))
    assert not is_held(tmp_path)
    with lock_log(table, always=False):
        assert is_held(tmp_path)


def test_there_is_no_lock_where_spark_never_wrote(tmp_path: Path) -> None:
    with lock_log(Location(f"file://{tmp_path}"), always=False):
        assert not (tmp_path / LOCK).exists()


def test_whoever_commits_after_spark_announced_itself_takes_the_lock(tmp_path: Path) -> None:
    table = Location(f"file://{tmp_path}")
    announce(table)
    assert not is_held(tmp_path)
    with lock_log(table, always=False):
        assert is_held(tmp_path)
    announce(Location("s3://lake/t"))


def test_object_stores_have_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with lock_log(Location("s3://lake/t"), always=True):
        assert not list(tmp_path.iterdir())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


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
    assert found(open_store(Location(absolute_uri("door", tmp_path))), scope) == ["a.json"]
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
    with raises(SourceError, "4 left out", "follow_links", "a remedy"):
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
    links_in = local.links_in
    monkeypatch.setattr(local, "links_in", lambda scope, place: asked.append(place) or links_in(scope, place))
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
    with raises(ObjectChanged, "in/a.json"):
        store.open_input("a.json", etag=info.etag, size=info.size)
