"""Finding a Java that can run Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import EnvironmentProblem
from tidegate.spark import java


def install(home: Path, version: str) -> Path:
    """A stand-in that answers ``-version`` as Java does."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def no_usual_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "_FOLDERS", (str(tmp_path / "jvm" / "*"),))


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = install(tmp_path / "home", "17.0.1")
    install(tmp_path / "jvm" / "other", "21.0.2")
    assert java.find_java({"JAVA_HOME": str(home), "PATH": ""}) == home


def test_a_java_that_is_too_new_is_passed_over_for_one_in_the_usual_folders(tmp_path: Path) -> None:
    new = install(tmp_path / "home", "25")
    fitting = install(tmp_path / "jvm" / "java-21", "21.0.2")
    assert java.find_java({"JAVA_HOME": str(new), "PATH": ""}) == fitting


def test_the_one_on_the_path_is_found(tmp_path: Path) -> None:
    home = install(tmp_path / "home", "17.0.1")
    assert java.find_java({"PATH": str(home / "bin")}) == home


def test_without_one_the_error_says_what_was_seen_and_what_to_run(tmp_path: Path) -> None:
    old = install(tmp_path / "home", "1.8.0")
    with pytest.raises(EnvironmentProblem) as problem:
        java.find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert f"{old} (Java 1)" in problem.value.problem
    assert "apt-get install openjdk-17-jre-headless" in problem.value.remedy
    assert problem.value.exit_code == 3


def test_a_folder_without_java_is_none(tmp_path: Path) -> None:
    assert java.java_version(tmp_path) is None
