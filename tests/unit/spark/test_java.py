"""Finding a Java that can run Spark, and the Spark that it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.errors import raises
from tidegate.errors import EnvironmentProblem
from tidegate.spark import jars


def install(home: Path, version: str) -> Path:
    """A stand-in that answers ``-version`` as Java does."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def no_usual_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jars, "_FOLDERS", (str(tmp_path / "jvm" / "*"),))


def test_a_java_that_says_its_version_in_a_file_is_not_started(tmp_path: Path) -> None:
    home = install(tmp_path / "home", "11")
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n')
    assert jars.java_version(home) == 17
    (home / "bin" / "java").unlink()
    assert jars.java_version(home) is None


class TestArchive:
    """An archive of classes is taken if it is for this Java and this Spark, and nobody else can write it."""

    @pytest.fixture
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "cache"))
        return install(tmp_path / "home", "17.0.1")

    def made(self, home: Path) -> Path:
        path = jars.archive_path(home, jars.spark_home({}))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        jars.size_note(path).write_text("0")
        return path

    def test_it_is_named_in_the_options(self, home: Path) -> None:
        assert jars.archive_options(home, jars.spark_home({}), "") == ()
        path = self.made(home)
        assert jars.archive_options(home, jars.spark_home({}), "-Xmx1g")[0] == f"-XX:SharedArchiveFile={path}"

    def test_another_java_or_spark_has_another(self, home: Path, tmp_path: Path) -> None:
        own = self.made(home)
        (home / "release").write_text('JAVA_VERSION="17.0.2"')
        assert jars.archive_path(home, jars.spark_home({})) != own
        assert jars.archive_path(home, spark(tmp_path / "old", "3.5.1")) != jars.archive_path(home, jars.spark_home({}))

    def test_one_that_others_can_write_is_not_taken(self, home: Path) -> None:
        self.made(home).chmod(0o666)
        assert jars.archive_options(home, jars.spark_home({}), "") == ()

    def test_one_that_was_cut_off_or_has_no_known_size_is_not_taken(self, home: Path) -> None:
        path = self.made(home)
        path.write_bytes(b"more")
        assert jars.archive_options(home, jars.spark_home({}), "") == ()
        jars.size_note(path).unlink()
        assert jars.archive_options(home, jars.spark_home({}), "") == ()

    def test_a_link_is_not_followed(self, home: Path, tmp_path: Path) -> None:
        path = self.made(home)
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
        assert jars.archive_options(home, jars.spark_home({}), "") == ()

    def test_options_of_the_user_about_archives_go_before(self, home: Path) -> None:
        self.made(home)
        for theirs in ("-Xshare:off", "-XX:SharedArchiveFile=/x.jsa", "-XX:ArchiveClassesAtExit=/x.jsa"):
            assert jars.archive_options(home, jars.spark_home({}), theirs) == ()


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = install(tmp_path / "home", "17.0.1")
    install(tmp_path / "jvm" / "other", "21.0.2")
    assert jars.find_java({"JAVA_HOME": str(home), "PATH": ""}) == home


def test_a_java_that_is_too_new_is_passed_over_for_one_in_the_usual_folders(tmp_path: Path) -> None:
    new = install(tmp_path / "home", "25")
    fitting = install(tmp_path / "jvm" / "java-21", "21.0.2")
    assert jars.find_java({"JAVA_HOME": str(new), "PATH": ""}) == fitting


def test_the_one_on_the_path_is_found(tmp_path: Path) -> None:
    home = install(tmp_path / "home", "17.0.1")
    assert jars.find_java({"PATH": str(home / "bin")}) == home


def test_without_one_the_error_says_what_was_seen_and_what_to_run(tmp_path: Path) -> None:
    old = install(tmp_path / "home", "1.8.0")
    with raises(EnvironmentProblem, f"{old} (Java 1)", "`tidegate setup`") as problem:
        jars.find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert problem.value.exit_code == 3


def test_a_folder_without_java_is_none(tmp_path: Path) -> None:
    assert jars.java_version(tmp_path) is None


def test_a_java_home_that_is_wrong_is_named(tmp_path: Path) -> None:
    with raises(EnvironmentProblem, "JAVA_HOME", "nowhere", "tidegate setup"):
        jars.find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": ""})


def spark(home: Path, version: str) -> Path:
    """A folder that looks like a Spark."""
    for each in (home / "bin" / "spark-submit", home / "jars" / f"spark-core_2.13-{version}.jar"):
        each.parent.mkdir(parents=True, exist_ok=True)
        each.touch()
    return home


def test_spark_is_that_of_pyspark_wherever_the_interpreter_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/usr/bin/python3")
    assert (jars.spark_home({}) / "bin" / "spark-submit").is_file()


def test_another_spark_is_not_run_by_accident(tmp_path: Path) -> None:
    own = jars.spark_home({})
    same = spark(tmp_path / "same", pyspark_version())
    assert jars.spark_home({"SPARK_HOME": str(same)}) == same
    assert jars.spark_home({"SPARK_HOME": str(own)}) == own
    for other, said in ((tmp_path / "nowhere", "spark-submit"), (spark(tmp_path / "old", "3.5.1"), "Spark 3.5.1")):
        with raises(EnvironmentProblem, "SPARK_HOME", other, said, "unset SPARK_HOME"):
            jars.spark_home({"SPARK_HOME": str(other)})


def pyspark_version() -> str:
    """Of the installed one."""
    from importlib.metadata import version

    return version("pyspark")
