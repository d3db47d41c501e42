"""What ``make dist`` built: tags that an index takes, what is inside, sources that build, descriptions that render."""

from __future__ import annotations

import re
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.environments import DIST, Environment, only

pytestmark = [pytest.mark.skipif(DIST is None, reason="make test-dist"), pytest.mark.timeout(1800)]
needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="make dist builds the native reader with cargo")


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    found = Environment(tmp_path_factory.mktemp("tools"))
    found.install("auditwheel", "twine")
    return found


def inside(archive: Path) -> Iterator[str]:
    with tarfile.open(archive) as opened:
        yield from (name.partition("/")[2] for name in opened.getnames())


def test_the_wheel_and_the_source_distribution_hold_what_they_need() -> None:
    names = zipfile.ZipFile(only("tidegate-*.whl")).namelist()
    files = (
        "py.typed",
        "spark/jars.sha256",
        "spark/ConditionalLogStore.java",
        "spark/hadoop341/ConditionalLogStore.java",
    )
    assert {f"tidegate/{name}" for name in files} <= {*names}
    assert [name for name in names if not name.startswith(("tidegate/", "tidegate-"))] == []
    assert {"README.md", "LICENSE", "pyproject.toml", "setup.py", "src/tidegate/py.typed"} <= {
        *inside(only("tidegate-*.tar.gz"))
    }


@needs_cargo
def test_the_source_of_the_native_reader_has_no_lock_file() -> None:
    found = {*inside(only("tidegate_native-*.tar.gz"))}
    assert {"README.md", "LICENSE", "Cargo.toml", "pyproject.toml", "src/lib.rs"} <= found
    assert "Cargo.lock" not in found


def test_descriptions_render_and_metadata_is_complete(tools: Environment) -> None:
    told = tools.run("twine", "check", "--strict", *(str(path) for path in sorted(Path(str(DIST)).iterdir())))
    assert "PASSED" in told
    (name,) = (each for each in zipfile.ZipFile(only("tidegate-*.whl")).namelist() if each.endswith("/METADATA"))
    metadata = zipfile.ZipFile(only("tidegate-*.whl")).read(name).decode()
    needed = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", metadata, re.MULTILINE)
    assert needed
    assert {"pyspark", "pandas", "tidegate-native"} & set(needed) == set()


@needs_cargo
def test_an_index_takes_the_wheel_of_the_native_reader(tools: Environment) -> None:
    wheels = sorted(Path(str(DIST)).glob("tidegate_native-*.whl"))
    assert wheels
    for wheel in wheels:
        assert re.search(r"-cp311-abi3-.*(manylinux_2_17|musllinux_1_2|macosx_1\d_\d+)_", wheel.name), wheel.name
        if "manylinux" in wheel.name:
            told = tools.run("auditwheel", "show", str(wheel))
            assert re.search(r"consistent with the following platform tag:\s+\"manylinux_2_17_", told), told


@needs_cargo
def test_the_sources_build_in_an_empty_environment(tmp_path: Path) -> None:
    found = Environment(tmp_path)
    cargo = {
        "PATH": f"{tmp_path}/env/bin:{Path(str(shutil.which('cargo'))).parent}:/usr/bin:/bin",
        "HOME": str(Path.home()),
    }
    pip = (str(found.python), "-m", "pip", "install", "-q", "--no-deps")
    found.run(*pip, str(only("tidegate-*.tar.gz")), str(only("tidegate_native-*.tar.gz")), env=cargo)
    found.run(str(found.python), "-c", "import tidegate, tidegate_native")
