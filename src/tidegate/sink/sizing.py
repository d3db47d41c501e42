"""How large held rows will be in a file, learned from row groups that have been written.

A row group has parts that do not grow with its rows (dictionaries, headers), so a small one takes more bytes per row
than a large one of the same rows. What was seen is therefore kept by size.
"""

from __future__ import annotations

_OTHER_ROWS = 1.25
"""How much more or less than a row group of its size one must take to be of another kind."""


class SizeModel:
    """Arrow bytes to file bytes. Row groups of each order of size are remembered by the last one seen."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, int]] = {}

    @property
    def knows_nothing(self) -> bool:
        """Whether no row group has been seen."""
        return not self._seen

    def learn(self, held: int, written: int) -> None:
        """A row group of ``held`` Arrow bytes took ``written`` bytes; what contradicts it is forgotten."""
        before = self._seen.get(held.bit_length())
        if before is not None:
            expected = before[1] * held / before[0]
            if not expected / _OTHER_ROWS <= written <= expected * _OTHER_ROWS:
                self._seen.clear()
        self._seen[held.bit_length()] = (held, written)

    def estimate(self, held: int) -> float:
        """Bytes that ``held`` Arrow bytes would take now: between the sizes seen, or at the ratio of the nearest."""
        below, at_most = 0, 0
        for seen, written in sorted(self._seen.values()):
            if held <= seen:
                return at_most + (written - at_most) * (held - below) / (seen - below)
            below, at_most = seen, written
        return held * at_most / below if below else float(held)
