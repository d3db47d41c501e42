"""The Python that the pages show runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str) -> list[tuple[int, str]]:
    """The Python blocks of a page, each with the line it starts at."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, each.start(1)), each[1]) for each in found]


def execute(page: str) -> None:
    """Run all blocks of a page in their order, in one namespace; errors show the page's own lines."""
    found = blocks(page)
    assert found, f"{page} shows no Python"
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, block in found:
        exec(compile("\n" * line + block, str(DOCS / page), "exec"), namespace)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_quickstart_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    execute("quickstart.md")


def test_the_api_reference_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    execute("reference/python-api.md")


def test_the_function_of_the_page_about_transforms_is_one() -> None:
    execute("concepts/transforms.md")


def test_the_function_of_the_page_about_python_sources_is_one() -> None:
    execute("sources/python.md")


def test_every_page_with_python_is_run_here() -> None:
    shown = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if blocks(str(page.relative_to(DOCS)))}
    assert shown == {"concepts/transforms.md", "quickstart.md", "reference/python-api.md", "sources/python.md"}
