"""What the wheel is made of, without building one; `make test-dist` installs a built one."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from pathlib import Path

from support.extras import EXTRAS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_file_that_is_no_module_is_package_data() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["tidegate"]
    package = ROOT / "src" / "tidegate"
    others = [path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    left_out = [
        path.name for path in others if not any(fnmatch(str(path.relative_to(package)), each) for each in patterns)
    ]
    assert left_out == []


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "src" / "tidegate").rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_extra_for_users_is_installed_alone_by_a_test() -> None:
    assert set(PROJECT["project"]["optional-dependencies"]) - {"test", "dev", "docs"} == set(EXTRAS)


def test_every_development_tool_is_pinned() -> None:
    pins = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {"build", "mypy", "ruff"} <= pins
