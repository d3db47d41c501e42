"""The guide for properties files names every property of the import, with what becomes of it."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.config.normal_form import MS_KEYS
from tidegate.migrate.properties import NAMES, PREFIXES, PropertyOutcome

TEXT = (Path(__file__).parents[2] / "docs/guides/from-properties.md").read_text(encoding="utf-8")
TITLES = {
    PropertyOutcome.CARRIED: "Carried over",
    PropertyOutcome.LEFT: "Not there",
    PropertyOutcome.NOT_NEEDED: "Not needed",
}


def rows(title: str) -> dict[str, str]:
    body = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", body, flags=re.MULTILINE))


def test_every_property_is_on_the_page_with_what_becomes_of_it() -> None:
    for fate, title in TITLES.items():
        expected = {name: what.text for name, what in NAMES.items() if what.fate is fate}
        expected |= {f"{prefix}*": what.text for prefix, what in PREFIXES.items() if what.fate is fate}
        assert rows(title) == expected


def test_every_name_that_yaml_takes_is_carried_over() -> None:
    assert {name for name in MS_KEYS if NAMES[name].fate is not PropertyOutcome.CARRIED} == set()
