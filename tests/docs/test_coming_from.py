"""The pages for people who come from other tools show configurations that load, and name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import click

from support.all_cases import for_all
from tidegate.cli.main import cli
from tidegate.config import load
from tidegate.config.keys import every_key

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
PAGES = sorted(GUIDES / f"from-{name}.md" for name in ("auto-loader", "dlt", "structured-streaming"))
COMMANDS = set(cli.list_commands(click.Context(cli)))
KEYS = {key.name for key in every_key()}


@for_all(PAGES, str)
def test_the_configuration_loads_without_a_notice(page: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert load(example, env={}, base=GUIDES).notices == ()


@for_all(PAGES, str)
def test_what_the_right_column_names_exists(page: Path) -> None:
    rows = re.findall(r"^\|[^|]*\|(.*)\|$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = [code for row in rows for code in re.findall(r"`([^`]+)`", row)]
    assert named
    for code in named:
        if command := re.match(r"tidegate (\w+)", code):
            assert command[1] in COMMANDS, code
        elif key := re.match(r"(?:\w+\.)*(\w+):", code):
            assert key[1] in KEYS, code
