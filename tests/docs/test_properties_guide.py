"""The guide for properties files names every property of the import, with what becomes of it."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.config.work_units import MS_KEYS
from tidegate.migrate.properties import CARRIED, LEFT, NOT_NEEDED

TEXT = (Path(__file__).parents[2] / "docs/guides/from-properties.md").read_text(encoding="utf-8")
TABLES = {"Carried over": CARRIED, "Not there": LEFT, "Not needed": NOT_NEEDED}


def rows(title: str) -> dict[str, str]:
    body = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", body, flags=re.MULTILINE))


def test_every_property_is_on_the_page_with_what_becomes_of_it() -> None:
    for title, table in TABLES.items():
        assert rows(title) == {f"{name}*" if name.endswith(".") else name: text for name, text in table.items()}


def test_every_name_that_yaml_takes_is_carried_over() -> None:
    assert set(MS_KEYS) <= set(CARRIED)
