"""The guide names exactly the properties that a configuration may set."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.specs.table import ALLOWED_PROPERTIES, why_not

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "table-care.md").read_text(encoding="utf-8")


def test_every_property_that_may_be_set_is_named_and_no_other() -> None:
    values = ("true", "4", "interval 40 days", "Serializable")
    settable = {name for name in ALLOWED_PROPERTIES if any(why_not(name, value) is None for value in values)}
    (sentence,) = re.findall(r"Only properties that appends honour may be set: (.*?)\. Any other", GUIDE, re.DOTALL)
    assert set(re.findall(r"`(delta\.[\w.]+)`", sentence)) == settable
