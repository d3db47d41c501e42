"""Setting up a machine: what is missing is installed after a question, and errors say what to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import tidegate
from tidegate.cli.main import cli
from tidegate.commands import setup
from tidegate.spark import jars

MAKE_ARCHIVE = setup.make_archive
JAVA = "#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n"


def made_archive() -> Path:
    """The archive, which the Java of these tests cannot make."""
    path = jars.archive_path(jars.find_java(), jars.spark_home())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    jars.size_note(path).write_text("0")
    return path


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java, whose jars are fetched; the folder in which programs are found."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(jars, "_FOLDERS", (str(tmp_path / "jvm" / "*"),))
    monkeypatch.setattr(jars, "pinned_digests", dict)
    monkeypatch.setattr(setup, "make_archive", made_archive)
    folder = jars._folder(jars.coordinate_of(jars.DELTA))
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / "delta.jar").touch()
    (folder / "complete").touch()
    return programs


def program(folder: Path, name: str, *lines: str) -> None:
    (folder / name).write_text("\n".join(("#!/bin/sh", *lines, "")))
    (folder / name).chmod(0o755)


@pytest.fixture
def apt(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system whose package manager unpacks a Java; the file in which its calls are kept."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "java").write_text(JAVA)
    target = tmp_path / "jvm" / "java-17" / "bin"
    program(
        bare,
        "apt-get",
        f'echo "$@" >> {tmp_path}/calls',
        '[ "$1" = install ] || exit 0',
        f"/bin/mkdir -p {target} && /bin/cp {tmp_path}/java {target}/java && /bin/chmod +x {target}/java",
    )
    return tmp_path / "calls"


def asked(answers: list[str], agree: bool = True) -> Callable[[str], bool]:
    def ask(question: str) -> bool:
        answers.append(question)
        return agree

    return ask


def test_java_is_installed_as_a_system_package_after_a_question(apt: Path, tmp_path: Path) -> None:
    questions: list[str] = []
    java, delta, classes = tidegate.set_up(ask=asked(questions))
    assert (java.verdict, java.detail) == ("ok", f"Java 17 at {tmp_path}/jvm/java-17")
    assert (delta.name, delta.verdict) == ("delta-spark_4.2_2.13", "ok")
    assert apt.read_text().splitlines() == ["update -qq", "install -y -qq openjdk-17-jre-headless"]
    assert (classes.name, classes.verdict) == ("classes", "ok")
    assert [each.partition(". ")[2] or each for each in questions] == [
        "Install Java 17 with apt-get (openjdk-17-jre-headless)?",
        "Make an archive of Spark's classes (140 MB), so that Spark starts faster?",
    ]


def test_a_machine_that_has_everything_is_asked_nothing(apt: Path) -> None:
    tidegate.set_up()
    questions: list[str] = []
    assert all(each.verdict == "ok" for each in tidegate.set_up(ask=asked(questions)))
    assert questions == []


@pytest.mark.slow
def test_a_java_that_makes_no_archive_of_classes_is_no_failure(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "make_archive", MAKE_ARCHIVE)
    classes = tidegate.set_up()[-1]
    assert (classes.name, classes.verdict) == ("classes", "warn")
    assert classes.detail.startswith("Java made no archive of Spark's classes")
    assert "Spark starts without it" in classes.remedy


def test_who_wants_no_archive_of_classes_gets_none(apt: Path, tmp_path: Path) -> None:
    classes = tidegate.set_up(ask=lambda question: "archive" not in question)[-1]
    assert (classes.name, classes.verdict) == ("classes", "warn")
    assert not list(tmp_path.rglob("*.jsa"))


def test_who_says_no_gets_nothing_installed(apt: Path) -> None:
    (java,) = tidegate.set_up(ask=asked([], agree=False))
    assert (java.verdict, apt.exists()) == ("fail", False)
    assert "JAVA_HOME" in java.remedy


def test_an_installer_that_fails_is_told_with_its_last_line(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    program(bare, "apt-get", "echo 'E: no network' >&2", "exit 100")
    (java,) = tidegate.set_up()
    assert java.detail == "Java could not be installed: `apt-get update -qq` failed: E: no network"
    assert "set JAVA_HOME" in java.remedy


def test_without_rights_java_goes_below_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "~/.jdk" in setup.java_installer().words


def test_where_nobody_can_answer_yes_must_be_given(apt: Path) -> None:
    result = CliRunner().invoke(cli, ["setup"])
    assert result.exit_code == 2
    assert "this cannot prompt; pass --yes" in result.stderr
    assert CliRunner().invoke(cli, ["setup", "--yes"]).exit_code == 0


def test_the_demo_without_java_says_so_once_and_makes_nothing(bare: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["demo", str(tmp_path / "demo")])
    assert result.exit_code == 3
    assert result.stderr.count("no Java 17 or 21") == 1
    assert "remedy: run `tidegate setup`" in result.stderr
    assert not (tmp_path / "demo").exists()
