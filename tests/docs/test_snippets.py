"""The Python that the pages show runs as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from support.column_lake import ColumnLake
from tidegate.cli.main import cli

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
def test_the_quickstart_prints_what_it_says_and_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    execute("quickstart.md")
    told = [line.partition("  # ")[2] for _, block in blocks("quickstart.md") for line in block.splitlines()]
    assert capsys.readouterr().out.splitlines() == [line for line in told if line]
    execute("quickstart.md")


def session(page: str) -> list[tuple[str, str]]:
    """The commands of the shell that a page shows, each with what it prints."""
    shown = re.findall(r"^```console\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    parts = [each for block in shown for each in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(command, printed.rstrip()) for command, _, printed in (each.partition("\n") for each in parts)]


def printed_by(command: str, folder: Path) -> str:
    """What a command prints, as somebody at home would see it."""
    if command.startswith("tidegate "):
        result = CliRunner().invoke(cli, shlex.split(command)[1:], prog_name="tidegate")
        assert result.exit_code == 0, result.output
        text = result.stdout
    else:
        text = subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True).stdout
    return "\n".join(line.rstrip() for line in text.replace(str(folder), "/home/me").rstrip().splitlines())


def without_times(text: str) -> list[str]:
    """Lines without what differs from run to run: times, durations, ids of letters, and the width of columns."""
    text = re.sub(r"\d{4}-\d\d-\d\d[ T][\d:.]+Z?|\b[0-9a-f]{16}\b|\b[\d.]+ m?s\b", "~", text)
    return [re.sub(r" {2,}", "  ", line).strip() for line in text.splitlines()]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_shell_session_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``TIDEGATE_WRITE=1`` writes what is printed today into the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    page = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    found = [(command, told, printed_by(command, tmp_path)) for command, told in session(page)]
    if os.environ.get("TIDEGATE_WRITE"):
        for command, told, printed in found:
            old, new = ("\n".join(filter(None, (f"$ {command}", text))) + "\n" for text in (told, printed))
            page = page.replace(old, new)
        (DOCS / "quickstart.md").write_text(page, encoding="utf-8")
        return
    for command, told, printed in found:
        assert without_times(printed) == without_times(told), command


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
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.parent.name != "decisions"}
    assert {page for page in pages if blocks(page)} == {
        "concepts/transforms.md",
        "guides/state-providers.md",
        "quickstart.md",
        "reference/python-api.md",
        "sources/python.md",
    }
