"""What the packages are made of, without building them, and the workflows that publish them.

`make test-dist` builds and installs them.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import yaml

import tidegate
from support.all_cases import for_all
from support.extras import EXTRAS
from support.load_script import load_script
from tidegate.schema.literals import NATIVE_VERSION

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def version_of(name: str = "pyproject.toml") -> str:
    found = tomllib.loads((ROOT / name).read_text())
    return str(found.get("project", found.get("package"))["version"])


def test_every_file_that_is_no_module_is_package_data() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["tidegate"]
    package = ROOT / "src" / "tidegate"
    taken = {path for each in patterns for path in package.glob(each)}
    others = [path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert [path.name for path in others if path not in taken] == []


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "src" / "tidegate").rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def imported(module: Path) -> set[str]:
    """The packages that ``module`` imports when it is loaded."""
    nodes = ast.parse(module.read_text()).body
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"tidegate"}


def required(*lists: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", each)[0].lower() for asked in lists for each in asked}


def test_what_a_module_imports_is_a_dependency_or_its_extra() -> None:
    project = PROJECT["project"]
    extras = {"spark/daemon.py": "spark", "sources/iceberg.py": "iceberg", "protocol/sqlalchemy_provider.py": "sql"}
    distributions = packages_distributions()
    missing = {}
    for module in (ROOT / "src" / "tidegate").rglob("*.py"):
        name = str(module.relative_to(ROOT / "src" / "tidegate"))
        extra = project["optional-dependencies"][extras[name]] if name in extras else []
        allowed = required(project["dependencies"], extra)
        missing[name] = {
            each for each in imported(module) if distributions[each][0].lower().replace("_", "-") not in allowed
        }
    assert {name: found for name, found in missing.items() if found} == {}


def test_every_extra_for_users_is_installed_alone_by_a_test() -> None:
    assert set(PROJECT["project"]["optional-dependencies"]) - {"test", "dev", "docs"} == set(EXTRAS)


def test_every_development_tool_is_pinned() -> None:
    pins = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {"build", "mypy", "ruff"} <= pins


def test_without_the_setting_there_are_no_addresses() -> None:
    for name in ("pyproject.toml", "native/pyproject.toml"):
        found = tomllib.loads((ROOT / name).read_text())
        assert ("urls" in found["project"]) == ("repository" in found.get("tool", {}).get("tidegate", {}))


def test_links_of_the_readme_lead_to_the_tag() -> None:
    linked = load_script(ROOT / "setup.py").linked
    text = "[a](docs/a.md) ![b](docs/b.svg) [c](https://c) [d](#d) [![e](e.svg)](f.md)"
    assert linked(text, None, "1.0.0") == text
    assert linked(text, "https://host/us/", "1.0.0") == (
        "[a](https://host/us/blob/v1.0.0/docs/a.md) ![b](https://host/us/raw/v1.0.0/docs/b.svg) [c](https://c) [d](#d) "
        "[![e](https://host/us/raw/v1.0.0/e.svg)](https://host/us/blob/v1.0.0/f.md)"
    )


def test_the_versions_agree() -> None:
    assert version_of() == tidegate.__version__
    native = version_of("native/pyproject.toml")
    assert native == version_of("native/Cargo.toml")
    assert native.startswith(f"{NATIVE_VERSION}.")
    major, minor = NATIVE_VERSION.split(".")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["native"] == [f"tidegate-native>={NATIVE_VERSION},<{major}.{int(minor) + 1}"]


def test_crates_are_named_by_exact_versions() -> None:
    crates = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text())["dependencies"]
    asked = {name: each if isinstance(each, str) else each["version"] for name, each in crates.items()}
    assert asked
    assert [name for name, version in asked.items() if not re.fullmatch(r"=\d+\.\d+\.\d+", version)] == []
    assert "/native/Cargo.lock" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_changelog_has_a_section_of_the_current_version_below_unreleased() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(version_of())}\] - \d{{4}}-\d\d-\d\d", headings[1])


def steps() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for job, given in yaml.safe_load(path.read_text())["jobs"].items():
            yield from ((path.name, job, step) for step in given["steps"])


def test_every_job_of_a_workflow_has_a_runner_steps_and_jobs_to_wait_for() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]
    for path in WORKFLOWS:
        found = yaml.safe_load(path.read_text())
        assert found["permissions"] == {"contents": "read"}
        for job in found["jobs"].values():
            assert job["runs-on"]
            assert job["steps"]
            assert set(job.get("needs", ())) <= set(found["jobs"])


@for_all(steps())
def test_every_step_runs_a_command_or_an_action_of_a_named_version(case: tuple[str, str, dict[str, Any]]) -> None:
    step = case[2]
    assert ("run" in step) != ("uses" in step)
    assert re.fullmatch(r"[\w-]+/[\w-]+@(release/)?v\d+", step.get("uses", "a/b@v1"))


def test_ci_runs_what_the_repository_calls_ci() -> None:
    asked = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make ")]
    assert asked
    for path in WORKFLOWS:
        job = yaml.safe_load(path.read_text())["jobs"]["test"]
        assert [step["run"] for step in job["steps"] if step.get("run", "").startswith("make ")] == asked


def test_a_tag_publishes_wheels_of_every_target_without_a_token() -> None:
    found = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    # YAML reads the key `on` as true.
    (pattern,) = found[True]["push"]["tags"]
    matches = re.compile(pattern.replace(".", r"\.").replace("*", ".*")).fullmatch
    assert all(matches(f"v{each}") for each in (version_of(), "10.20.30", "1.0.0rc1"))
    assert not any(matches(each) for each in ("1.0.0", "v1", "vnext"))
    rows = found["jobs"]["wheels"]["strategy"]["matrix"]["include"]
    targets = sorted(target for row in rows for target in row["targets"].split())
    assert targets == sorted(load_script(ROOT / "scripts/native_wheels.py").TARGETS)
    assert found["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert set(found["jobs"]["publish"]["needs"]) == {"test", "try", "try-musl"}
    assert not any("secrets." in str(step) for _, _, step in steps())
