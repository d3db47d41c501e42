"""The units of a source: which values there are, and what each brings along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.locations import Secret

ANONYMOUS = ""
"""The unit of a source without a unit watermark."""


@dataclass(frozen=True, slots=True)
class Units:
    """All units of one plan, each value once, in their order.

    ``variables`` has, by value, what requests may be filled with; ``secrets`` the same for what must never show;
    ``shared`` are secrets of all units. ``version`` says which state of the inputs they were read from. ``repeated``
    rows gave a unit that was there already, ``filtered`` ones did not pass the filters.
    """

    values: tuple[str, ...] = (ANONYMOUS,)
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, Secret]] = field(default_factory=dict, repr=False)
    shared: Mapping[str, Secret] = field(default_factory=dict, repr=False)
    version: str | None = None
    repeated: int = 0
    filtered: int = 0
