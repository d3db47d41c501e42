"""The guide for users of DIL: every worked example on it is planned, every bound resolved, as the page says."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from support.all_cases import for_all
from support.errors import raises
from support.work_units import after, cutoff, planned, read, time_source
from tidegate.core.calendar import iso, zone_named
from tidegate.core.units.time_range import resolve
from tidegate.errors import WatermarkError
from tidegate.specs.units import PartitionKind, Span, TimeRange

TEXT = (Path(__file__).parents[2] / "docs/guides/from-dil.md").read_text(encoding="utf-8")
NOW = datetime(2020, 2, 21, 10, 37, 42, 123456, tzinfo=UTC)


def table(title: str) -> list[list[str]]:
    """The rows of the table in a section, without its head."""
    body = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in re.findall(r"^\| .*\|$", body, re.M)]
    return rows[1:]


@for_all(table("The worked examples"), " ".join)
def test_an_example_is_planned_as_the_page_says(row: list[str]) -> None:
    start, end, kind, grace, abstinent, done, now, cut_off, reads = row
    source = time_source(start, end, kind, grace=Span(int(grace)), abstinent=Span(int(abstinent)))
    plan = planned(source, now, None if done == "-" else after(source, done))
    assert (cutoff(plan) or "-", " ".join(read(plan)) or "nothing") == (cut_off, reads)


@for_all(table("What a bound becomes"), " ".join)
def test_a_bound_becomes_what_the_page_says(row: list[str]) -> None:
    text, kind, abstinent, expected = row
    span = TimeRange("2019-01-01", text)
    if expected.startswith("refused"):
        with raises(WatermarkError, expected.removeprefix("refused").removeprefix(": ")):
            resolve(span, PartitionKind(kind), "UTC", NOW, abstinent=False)
        return
    _, moment = resolve(span, PartitionKind(kind), "UTC", NOW, abstinent=abstinent != "0")
    assert iso(moment, zone_named("UTC")) == expected
