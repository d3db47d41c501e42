"""Loading a configuration must not cost the start-up time of things it does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HEAVY = ("pyarrow", "pyspark", "deltalake", "obstore", "sqlalchemy", "pandas", "numpy", "duckdb")


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_the_configuration_does_not_build_its_models() -> None:
    found = modules_after("import tidegate.config")
    assert "yaml" in found
    assert not found & {"pydantic", *HEAVY}


def test_loading_a_configuration_needs_no_heavy_library(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text("source: {path: in, use_watermark: true}\nsink: {path: lake}\n")
    found = modules_after(f"from tidegate.config import load\nload({str(path)!r}, env={{}})")
    assert "pydantic" in found
    assert not found & set(HEAVY)


def test_the_models_of_kinds_that_a_file_does_not_have_are_not_built(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text("source: {path: in, use_watermark: true}\nsink: {path: lake}\n")
    script = f"""
from tidegate.config import load
load({str(path)!r}, env={{}})
from tidegate.config.file_source import SourceModel
from tidegate.config.pipeline import COLUMN_SOURCES, UNIT_SOURCES
assert SourceModel.__pydantic_complete__
built = [each.__name__ for each in (*COLUMN_SOURCES, *UNIT_SOURCES) if each.__pydantic_complete__]
assert not built, built
"""
    subprocess.run([sys.executable, "-c", script], check=True)
