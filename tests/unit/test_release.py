"""``make release``, on a repository of its own."""

from __future__ import annotations

import re
import subprocess
import tomllib
from datetime import date
from pathlib import Path

import pytest

from support.load_script import load_script

ROOT = Path(__file__).parents[2]
TODAY = date(2026, 12, 1)
pytestmark = pytest.mark.slow  # git


release = load_script(ROOT / "scripts" / "release.py")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that a release changes, committed; something is unreleased."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "a")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@b")
    for name in release.FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n\n## [0.1.0] - 2026-11-18\n\n- The first.\n"
    )
    (tmp_path / "native" / "src").mkdir()
    (tmp_path / "native" / "src" / "lib.rs").write_text("mod array;\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "begin")
    return tmp_path


def version_of(folder: Path, name: str = "pyproject.toml") -> str:
    found = tomllib.loads((folder / name).read_text())
    return str(found.get("project", found.get("package"))["version"])


def set_repository(folder: Path) -> None:
    path = folder / "pyproject.toml"
    path.write_text(
        path.read_text().replace("# repository = ", "repository = ").replace("https://…", "https://host/us")
    )
    git(folder, "commit", "-qam", "set the address")


def test_one_command_sets_the_version_dates_the_changelog_commits_and_tags(repository: Path) -> None:
    told = release.main(["9.8.7"], repository, TODAY)
    assert "tagged v9.8.7" in told
    assert version_of(repository) == "9.8.7"
    assert '\n__version__ = "9.8.7"\n' in (repository / "src/tidegate/__init__.py").read_text()
    assert (repository / "CHANGELOG.md").read_text() == (
        "# Changelog\n\n## [Unreleased]\n\n## [9.8.7] - 2026-12-01\n\n### Added\n\n- A thing.\n\n"
        "## [0.1.0] - 2026-11-18\n\n- The first.\n"
    )
    assert git(repository, "describe", "--exact-match") == "v9.8.7"
    assert git(repository, "log", "-1", "--format=%s") == "Release 9.8.7"
    assert git(repository, "status", "--porcelain") == ""


def test_a_dry_run_shows_the_changes_and_makes_none(repository: Path) -> None:
    told = release.main(["9.8.7", "--dry-run"], repository, TODAY)
    assert '+version = "9.8.7"' in told
    assert "+## [9.8.7] - 2026-12-01" in told
    assert told.endswith("would commit pyproject.toml, src/tidegate/__init__.py, CHANGELOG.md and set the tag v9.8.7")
    assert (git(repository, "status", "--porcelain"), git(repository, "tag")) == ("", "")


def test_the_native_reader_gets_a_version_of_its_own(repository: Path) -> None:
    release.main(["9.8.7", "--native", "0.7.1"], repository, TODAY)
    assert {version_of(repository, name) for name in ("native/pyproject.toml", "native/Cargo.toml")} == {"0.7.1"}
    extras = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["native"] == ["tidegate-native>=0.7,<0.8"]
    assert 'NATIVE_VERSION = "0.7"\n' in (repository / "src/tidegate/schema/literals.py").read_text()


def test_the_first_release_may_have_its_section_already(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [9.0.0] - 2026-11-18\n\n- All.\n")
    git(repository, "commit", "-qam", "write it")
    release.main(["9.0.0"], repository, TODAY)
    assert "- 2026-11-18\n" in (repository / "CHANGELOG.md").read_text()
    assert git(repository, "tag") == "v9.0.0"


@pytest.mark.parametrize(
    ("version", "changelog", "why"),
    [
        ("0.0.1", "", "0.0.1 is below 0.1.0"),
        ("1.2", "", "'1.2' is no version"),
        ("9.0.0", "## [Unreleased]\n\n## [0.1.0]\n", "nothing unreleased"),
        ("9.0.0", "# Changes\n", "no heading"),
        ("9.0.0", "## [Unreleased]\n\n- New.\n\n## [9.0.0]\n\n- Old.\n", "move them into it"),
    ],
)
def test_what_is_no_release_is_refused(repository: Path, version: str, changelog: str, why: str) -> None:
    if changelog:
        (repository / "CHANGELOG.md").write_text(changelog)
        git(repository, "commit", "-qam", "write it")
    with pytest.raises(release.Refused, match=re.escape(why)):
        release.main([version], repository, TODAY)
    assert git(repository, "tag") == ""


def test_a_tree_with_changes_and_a_tag_that_exists_are_refused(repository: Path) -> None:
    git(repository, "tag", "v9.0.0")
    with pytest.raises(release.Refused, match=r"the tag v9.0.0 exists"):
        release.main(["9.0.0"], repository, TODAY)
    (repository / "CHANGELOG.md").write_text("other")
    with pytest.raises(release.Refused, match="the tree has changes"):
        release.main(["9.0.1"], repository, TODAY)


def test_a_native_reader_that_changed_under_its_old_version_is_refused(repository: Path) -> None:
    git(repository, "tag", "v0.1.0")
    (repository / "native/src/lib.rs").write_text("mod avro;\n")
    git(repository, "commit", "-qam", "change it")
    with pytest.raises(release.Refused, match=r"native/ has changed since v0.1.0"):
        release.main(["9.0.0"], repository, TODAY)
    release.main(["9.0.0", "--native", "0.3.1"], repository, TODAY)


def test_one_setting_fills_the_addresses_of_both_packages(repository: Path) -> None:
    set_repository(repository)
    for version in ("9.0.0", "9.0.1"):
        release.main([version], repository, TODAY)
        for name in ("pyproject.toml", "native/pyproject.toml"):
            urls = tomllib.loads((repository / name).read_text())["project"]["urls"]
            assert urls["Repository"] == "https://host/us"
            assert urls["Changelog"] == "https://host/us/blob/main/CHANGELOG.md"
        (repository / "CHANGELOG.md").write_text("## [Unreleased]\n\n- More.\n")
        git(repository, "commit", "-qam", "more")
