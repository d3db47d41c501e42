"""Loading a configuration must not cost the start-up time of things it does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HEAVY = ("pyarrow", "pyspark", "deltalake", "obstore", "sqlalchemy", "pandas", "numpy", "duckdb", "pydantic")


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_loading_a_configuration_needs_no_heavy_library(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text("source: {path: in, use_watermark: true}\nsink: {path: lake}\n")
    found = modules_after(f"from tidegate.config import load\nload({str(path)!r}, env={{}})")
    assert not found & set(HEAVY)


def test_the_keys_of_kinds_that_a_file_does_not_have_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text("source: {path: in, use_watermark: true}\nsink: {path: lake}\n")
    script = f"""
from tidegate.config import load
load({str(path)!r}, env={{}})
from tidegate.config.models import _KEYS
from tidegate.specs.columns import HttpRead, JdbcRead
from tidegate.specs.files import PathSource
assert PathSource in _KEYS
assert not {{HttpRead, JdbcRead}} & _KEYS.keys()
"""
    subprocess.run([sys.executable, "-c", script], check=True)
