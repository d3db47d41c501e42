"""``make release VERSION=x.y.z``: version, changelog, commit and tag in one command; pushing the tag publishes.

Refuses a tree with changes, a tag that exists, a version below the current one, a changelog with nothing to release,
and a native reader that has changed under its old version.
"""

from __future__ import annotations

import argparse
import difflib
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

PROJECT = "pyproject.toml"
PACKAGE = "src/tidegate/__init__.py"
CHANGELOG = "CHANGELOG.md"
NATIVE_PROJECT = "native/pyproject.toml"
NATIVE_CRATE = "native/Cargo.toml"
NATIVE_USER = "src/tidegate/schema/literals.py"
FILES = (PROJECT, PACKAGE, CHANGELOG, NATIVE_PROJECT, NATIVE_CRATE, NATIVE_USER)
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?")
UNRELEASED = "## [Unreleased]"


class Refused(Exception):
    """Why there is no release, in one sentence."""


def order(version: str) -> tuple[int, int, int, str, int]:
    """A key that sorts versions; :class:`Refused` if ``version`` is none.

    >>> order("0.2.0rc1") < order("0.2.0") < order("0.10.0")
    True
    """
    match = VERSION.fullmatch(version)
    if match is None:
        raise Refused(f"{version!r} is no version: write x.y.z, or x.y.zrc1 for a candidate")
    major, minor, patch, stage, number = match.groups()
    return int(major), int(minor), int(patch), stage or "z", int(number or 0)


def dated(changelog: str, version: str, day: date) -> str:
    """The changelog with what is unreleased moved below the heading of ``version``, and an empty Unreleased on top.

    A section of ``version`` that is there already stays as it is, if nothing is unreleased beside it.
    """
    before, heading, rest = changelog.partition(f"{UNRELEASED}\n")
    if not heading:
        raise Refused(f"{CHANGELOG} has no heading '{UNRELEASED}'")
    entries, mark, older = rest.partition("\n## [")
    has_section = f"\n## [{version}]" in changelog
    if entries.strip() and has_section:
        raise Refused(f"{CHANGELOG} has a section {version} and unreleased entries: move them into it")
    if has_section:
        return changelog
    if not entries.strip():
        raise Refused(f"{CHANGELOG} has nothing unreleased")
    return f"{before}{heading}\n## [{version}] - {day.isoformat()}\n\n{entries.strip()}\n{mark}{older}"


def with_urls(project: str, repository: str | None) -> str:
    """A pyproject.toml whose ``[project.urls]`` lead into ``repository``; unchanged if that is not set."""
    if repository is None:
        return project
    base = repository.rstrip("/")
    urls = {
        "Repository": base,
        "Documentation": f"{base}/blob/main/docs/index.md",
        "Changelog": f"{base}/blob/main/CHANGELOG.md",
        "Issues": f"{base}/issues",
    }
    table = "[project.urls]\n" + "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    without = re.sub(r"\[project\.urls\]\n(?:[^\[\n].*\n)*\n?", "", project)
    # Before the first table of a tool: what belongs to the project stays together.
    head, mark, tools = without.partition("\n[tool.")
    return f"{head}\n{table}{mark}{tools}"


def release(files: Mapping[str, str], version: str, native: str | None, day: date) -> dict[str, str]:
    """``files`` (their texts by name) as they are in the release of ``version``, with ``native`` as the reader's."""
    settings = tomllib.loads(files[PROJECT])
    current = settings["project"]["version"]
    if order(version) < order(current):
        raise Refused(f"{version} is below {current}, the version in {PROJECT}")
    repository = settings["tool"]["tidegate"].get("repository")
    changed = dict(files)
    changed[CHANGELOG] = dated(files[CHANGELOG], version, day)
    changed[PROJECT] = with_urls(_replaced(files[PROJECT], r'^version = "(.*)"', version), repository)
    changed[PACKAGE] = _replaced(files[PACKAGE], r'^__version__ = "(.*)"', version)
    changed[NATIVE_PROJECT] = with_urls(files[NATIVE_PROJECT], repository)
    if native is not None:
        major, minor, *_ = order(native)
        allowed = f"tidegate-native>={major}.{minor},<{major}.{minor + 1}"
        changed[PROJECT] = _replaced(changed[PROJECT], r'^native = \["(.*)"\]', allowed)
        changed[NATIVE_PROJECT] = _replaced(changed[NATIVE_PROJECT], r'^version = "(.*)"', native)
        changed[NATIVE_CRATE] = _replaced(files[NATIVE_CRATE], r'^version = "(.*)"', native)
        changed[NATIVE_USER] = _replaced(files[NATIVE_USER], r'^NATIVE_VERSION = "(.*)"', f"{major}.{minor}")
    return changed


def _replaced(text: str, pattern: str, value: str) -> str:
    """``text`` with the first group of the only match of ``pattern`` replaced."""
    (match,) = re.finditer(pattern, text, re.MULTILINE)
    return text[: match.start(1)] + value + text[match.end(1) :]


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def check(root: Path, version: str, native: str | None) -> None:
    """:class:`Refused` if the repository is not ready for this release."""
    if git(root, "status", "--porcelain", "--untracked-files=no"):
        raise Refused("the tree has changes: commit or stash them")
    if git(root, "tag", "--list", f"v{version}"):
        raise Refused(f"the tag v{version} exists")
    tags = git(root, "tag", "--list", "v*", "--merged", "HEAD", "--sort=-creatordate").splitlines()
    if tags and native is None:
        changed = git(root, "diff", "--name-only", tags[0], "--", "native/src", NATIVE_CRATE)
        if changed:
            raise Refused(f"native/ has changed since {tags[0]}: give its new version too (NATIVE=x.y.z)")


def main(arguments: list[str], root: Path, today: date) -> str:
    """Make the release; what was done, in words."""
    parser = argparse.ArgumentParser(prog="release.py", description="Version, changelog, commit and tag.")
    parser.add_argument("version", help="x.y.z, or x.y.zrc1 for a candidate")
    parser.add_argument("--native", metavar="VERSION", help="the new version of the native reader, if it has changed")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    given = parser.parse_args(arguments)
    check(root, given.version, given.native)
    before = {name: (root / name).read_text() for name in FILES}
    after = release(before, given.version, given.native, today)
    changed = [name for name in FILES if before[name] != after[name]]
    if given.dry_run:
        shown = [_difference(name, before[name], after[name]) for name in changed]
        return "".join(shown) + f"would commit {', '.join(changed) or 'nothing'} and set the tag v{given.version}"
    for name in changed:
        (root / name).write_text(after[name])
    if changed:
        git(root, "commit", "--quiet", "--message", f"Release {given.version}", "--", *changed)
    git(root, "tag", "--annotate", f"v{given.version}", "--message", f"Tidegate {given.version}")
    return f"tagged v{given.version}; `git push origin HEAD v{given.version}` publishes it"


def _difference(name: str, before: str, after: str) -> str:
    return "".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), name, name, n=1))


if __name__ == "__main__":
    try:
        print(main(sys.argv[1:], Path(__file__).resolve().parents[1], datetime.now(UTC).date()))
    except Refused as refused:
        sys.exit(f"release: {refused}")
