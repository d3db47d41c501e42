"""Jars that Tidegate names itself are those that it was tested with."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from support.errors import raises
from tidegate.core.dialects.registry import DIALECTS
from tidegate.errors import EnvironmentProblem
from tidegate.spark import jars
from tidegate.spark.jars import DELTA, RELEASES, pinned_digests, resolve_jars, runtime

OTHER = "a.b:c:1"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a package that was fetched, of two jars, both pinned."""
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    folder = tmp_path / "jars" / OTHER.replace(":", "_")
    (folder / "jars").mkdir(parents=True)
    (folder / "complete").touch()
    contents = {"one.jar": b"1", "two.jar": b"2"}
    for name, content in contents.items():
        (folder / "jars" / name).write_bytes(content)
    wanted = {name: sha256(content).hexdigest() for name, content in contents.items()}
    monkeypatch.setattr(jars, "pinned_digests", lambda: {OTHER: wanted})
    return folder / "jars"


def test_what_tidegate_names_is_pinned() -> None:
    drivers = {each.driver.package for each in DIALECTS.values() if each.driver is not None}
    assert drivers | {each.delta for each in RELEASES} | {each.s3 for each in RELEASES} == set(pinned_digests())
    for coordinate, found in pinned_digests().items():
        group, artifact, version = coordinate.split(":")
        assert f"{group}_{artifact}-{version}.jar" in found
        assert all(len(digest) == 64 for digest in found.values())


def test_the_jars_of_delta_are_those() -> None:
    assert {jar.name for jar in resolve_jars(DELTA)} == set(pinned_digests()[runtime().delta])


def test_jars_as_they_were_are_taken(there: Path) -> None:
    assert resolve_jars(OTHER) == (there / "one.jar", there / "two.jar")


@pytest.mark.parametrize("name", ["one.jar", "more.jar"])
def test_a_jar_that_differs_or_is_too_many_is_refused(there: Path, name: str) -> None:
    (there / name).write_bytes(b"other")
    with raises(EnvironmentProblem, name, OTHER, sha256(b"other").hexdigest()) as problem:
        resolve_jars(OTHER)
    assert str(there.parent) in problem.value.remedy


def test_a_jar_that_is_missing_is_refused(there: Path) -> None:
    (there / "two.jar").unlink()
    with raises(EnvironmentProblem, "two.jar", "a.b:c:1", "sha256 is missing"):
        resolve_jars(OTHER)


def test_what_a_configuration_names_is_taken_as_it_is(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "pinned_digests", dict)
    (there / "one.jar").write_bytes(b"other")
    assert len(resolve_jars(OTHER)) == 2
