"""What a tracker of work units says about a state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from tidegate.core.units.state import UnitEntry, UnitState
from tidegate.protocol.change import SourceKey
from tidegate.runs.units import UnitTracker
from tidegate.specs.columns import FunctionRead
from tidegate.specs.units import UnitSource

DAY = 86_400_000


class Ranges(tuple[tuple[int, int], ...]):
    """The coverage of a unit; counts how often it is gone through, as putting it into words does."""

    walked: ClassVar[int] = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        Ranges.walked += 1
        return super().__iter__()


def test_a_summary_puts_the_coverage_of_no_unit_into_words_until_it_is_asked_for() -> None:
    """Each pass makes one for its report, and a source may have very many units."""
    entries = {f"u{number}": UnitEntry(Ranges([(0, DAY), (2 * DAY, 3 * DAY)])) for number in range(500)}
    tracker = UnitTracker(SourceKey("p", "s"), UnitSource("s", FunctionRead("units:read")))
    Ranges.walked = 0
    summary = tracker.summary(UnitState(entries=entries))
    assert (summary.watermark, len(summary.partitions)) == ("1970-01-04 (500 units)", 500)
    assert Ranges.walked == 0
    assert summary.partitions["u7"] == "1970-01-01 to 1970-01-02, 1970-01-03 to 1970-01-04"
    assert Ranges.walked == 1
    assert dict(summary.partitions).keys() == entries.keys()
