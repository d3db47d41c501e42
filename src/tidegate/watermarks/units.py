"""The units of a source: which values there are, and what each brings along."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.errors import WatermarkError
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


def unit_values(given: str | Sequence[str]) -> tuple[str, ...]:
    """The units of ``"id1, id2 , id3"`` or of a list, without spaces around them.

    ``WatermarkError`` where there are none, and where one is empty or there twice.
    """
    shown = repr(given) if isinstance(given, str) else repr(list(given))
    values = tuple(each.strip() for each in (given.split(",") if isinstance(given, str) else given))
    if not any(values):
        raise WatermarkError(
            f"units: {shown} has no unit", "name at least one; or leave units out for a secondary input"
        )
    if not all(values):
        raise WatermarkError(f"units: {shown} has an empty unit", "remove the comma too many")
    repeated = [value for value, count in Counter(values).items() if count > 1]
    if repeated:
        raise WatermarkError(
            f"units: {', '.join(repr(each) for each in repeated)} is there more than once", "name each unit once"
        )
    return values
