"""The pictures of the README are what the commands print today, and its chart has the numbers of the benchmarks."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "scripts" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_picture_is_drawn_from_what_is_printed() -> None:
    drawn = script().pictures()
    for name, svg in drawn.items():
        kept = (ROOT / "docs" / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
        assert kept == svg, f"{name}.svg is not what is printed or measured today; run python scripts/pictures.py"
    assert "3 files, 90 KiB" in drawn["plan"].replace("&#160;", " ")


def test_the_chart_has_the_numbers_that_the_benchmarks_tell() -> None:
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    module = script()
    assert [name for name, _ in module.idle_poll(page)] == ["Tidegate", "Structured Streaming"]
    assert [name for name, _ in module.throughput(page)] == ["Tidegate", "DuckDB", "Spark"]
    drawn = module.chart(page)
    for _, value in (*module.idle_poll(page), *module.throughput(page)):
        assert f">{value:,.0f} m" in drawn.lower()
        assert re.search(rf"\b{value:,.0f}\b", page)
