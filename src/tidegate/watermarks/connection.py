"""A connection as its sources see it: the look-back that they have unless they say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.column_specs import LookBack
from tidegate.watermarks.look_back import look_back_of


@dataclass(frozen=True, slots=True)
class Connection:
    """A named connection; ``configure`` is its block of that name in a configuration file.

    >>> Connection("shop", {"backward_days": 7, "backward": {"closing_day": 25}}).date_backward.closing_day
    25
    """

    name: str
    configure: Mapping[str, object] = field(default_factory=dict)

    @property
    def date_backward(self) -> LookBack:
        """How far below the stored watermark reads begin; ``ValueError`` where ``configure`` cannot be understood."""
        zone = self.configure.get("timezone") or "UTC"
        return look_back_of(self.configure, timezone=str(zone))
