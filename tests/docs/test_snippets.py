"""The Python that the pages show runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from support.column_lake import ColumnLake

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


def test_the_guide_to_state_providers_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    execute("guides/state-providers.md")


def test_the_provider_of_the_guide_is_short_and_keeps_the_copies_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = "guides/state-providers.md"
    (provider,) = [text for _, text in blocks(page) if "class TextFolder" in text]
    assert len(provider.strip().splitlines()) - provider.count("\n\n") <= 20
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package/state.py").write_text(provider)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = (DOCS / page).read_text(encoding="utf-8")
    settings = re.findall(r"^```yaml\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    (own,) = [each.replace("/var/lib/state", str(tmp_path / "kept")) for each in settings if "TextFolder" in each]
    lake = ColumnLake(tmp_path, settings=yaml.safe_load(own))
    for number in (7, 8):
        lake.arrive({"id": number})
        assert lake.run().ok
        assert (tmp_path / "kept/orders.default").read_text() == f'{{"id": {number}}}'
    assert f'orders/default is at {{"id": 8}}, by {2:020d}-' in capsys.readouterr().out
    lake.assert_exactly_once()


def test_the_function_of_the_page_about_transforms_is_one() -> None:
    execute("concepts/transforms.md")


def test_the_function_of_the_page_about_python_sources_is_one() -> None:
    execute("sources/python.md")


def test_every_page_with_python_is_run_here() -> None:
    shown = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if blocks(str(page.relative_to(DOCS)))}
    assert shown == {
        "concepts/transforms.md",
        "guides/state-providers.md",
        "quickstart.md",
        "reference/python-api.md",
        "sources/python.md",
    }
