"""How often sources were polled, over all processes: their mirrors count on."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.state.identity import SourceKey
from tidegate.state.mirror import read_mirror
from tidegate.storage.port import ObjectStore


@dataclass(slots=True)
class Polls:
    """The polls of the sources of one run."""

    _counted: dict[SourceKey, int] = field(default_factory=dict)

    def next(self, store: ObjectStore, key: SourceKey) -> int:
        """The number of the poll that begins now; ``store`` is that of the table."""
        if key not in self._counted:
            shown = read_mirror(store, key)
            self._counted[key] = 0 if shown is None else shown.polls
        self._counted[key] += 1
        return self._counted[key]
