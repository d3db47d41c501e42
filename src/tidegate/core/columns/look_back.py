"""Look-back: how far below the stored watermark a read begins, for sources that correct old rows."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal
from fractions import Fraction

from tidegate.core.calendar import check_zone, months_later
from tidegate.core.columns.state import NUMBERS, TEMPORAL, describe, kind_of
from tidegate.errors import WatermarkError
from tidegate.specs.columns import LookBack, Value

# The default context rounds to 28 digits: a rounded bound could lie above rows that were never read.
EXACT = Context(prec=1000)
"""Decimal arithmetic without rounding."""

_NESTED = "backward"
_COUNTS = ("days", "hours", "months", "years")
_KEYS = (*_COUNTS, "closing_day", "value")


def look_back_of(
    configure: Mapping[str, object], *, above: Mapping[str, object] | None = None, timezone: str = "UTC"
) -> LookBack:
    """Read the look-back in ``configure``; without one, that of the connection ``above``.

    ``backward: {days: 7}`` wins over ``backward_days: 3``, key by key. ``ValueError`` names what is wrong.
    """
    check_zone(timezone)
    settings = _read_settings(configure)
    if settings is None:
        settings = _read_settings(above or {}) or {}
    counts = {
        key: _check_whole(key, settings.get(key), 0, math.inf, "a whole number, 0 or more") or 0 for key in _COUNTS
    }
    return LookBack(
        **counts,
        closing_day=_check_whole("closing_day", settings.get("closing_day"), 1, 31, "a day of the month, 1 to 31"),
        value=_check_number(settings.get("value")),
        timezone=timezone,
    )


def lower(stored: Value, look_back: LookBack, now: datetime, source_timezone: str = "UTC") -> Value:
    """Return where the read begins: ``stored`` minus the look-back, as a value of the same type.

    ``now`` is aware. ``WatermarkError`` if the look-back does not fit the kind of value.
    """
    if look_back.is_off:
        return stored
    kind = kind_of(stored)
    has_times = any((look_back.days, look_back.hours, look_back.months, look_back.years, look_back.closing_day))
    if kind in NUMBERS and look_back.value and isinstance(stored, int | float | Decimal):
        return _subtract(stored, look_back.value)
    if kind in TEMPORAL and has_times and isinstance(stored, date):
        return (
            _first_open_day(stored, look_back, now, source_timezone)
            if look_back.closing_day
            else _go_back(stored, look_back)
        )
    wanted = "days, hours, months, years or closing_day" if kind in TEMPORAL else "value"
    remedy = f"use `backward: {{{wanted}: …}}`" if kind in NUMBERS | TEMPORAL else "look-back is for numbers and times"
    raise WatermarkError(f"the configured look-back does not fit the stored watermark {describe(stored)}", remedy)


def moment_like(value: Value, moment: datetime, source_timezone: str) -> Value | None:
    """Convert the moment to the kind of ``value``; None if that is not a time."""
    kind = kind_of(value)
    if kind not in TEMPORAL:
        return None
    if kind == "datetime":
        return moment
    local = moment.astimezone(check_zone(source_timezone)).replace(tzinfo=None)
    return local if kind == "datetime_naive" else local.date()


def as_moment(value: Value, like: Value, source_timezone: str) -> Value:
    """Convert a time without a zone to a moment if ``like`` is one; any other value is returned unchanged."""
    if kind_of(value) == "datetime_naive" and kind_of(like) == "datetime" and isinstance(value, datetime):
        return value.replace(tzinfo=check_zone(source_timezone))
    return value


def _read_settings(configure: Mapping[str, object]) -> dict[str, object] | None:
    """Collect the look-back settings in ``configure``, by key; None if there are none."""
    flat = {key.removeprefix("backward_"): value for key, value in configure.items() if key.startswith("backward_")}
    nested = {} if configure.get(_NESTED) is None else configure[_NESTED]
    if not isinstance(nested, Mapping):
        raise ValueError(f"backward must be a mapping such as {{days: 7}}, not {nested!r}")
    unknown = [f"backward_{key}" for key in flat if key not in _KEYS]
    unknown += [f"backward.{key}" for key in nested if key not in _KEYS]
    if unknown:
        raise ValueError(f"unknown look-back {', '.join(map(str, unknown))}; there are {', '.join(_KEYS)}")
    return {**flat, **nested} if flat or _NESTED in configure else None


def _check_whole(key: str, value: object, least: int, most: float, expected: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"backward {key} must be {expected}, not {value!r}")
    return value


def _check_number(value: object) -> int | Decimal:
    if value is None:
        return 0
    # By its text: 0.1 in YAML means a tenth, not the binary fraction next to it.
    number = Decimal(str(value)) if isinstance(value, float) and math.isfinite(value) else value
    if not isinstance(number, int | Decimal) or isinstance(number, bool) or not number >= 0:
        raise ValueError(f"backward value must be a number, 0 or more, not {value!r}")
    return number


def _subtract(stored: int | float | Decimal, value: int | Decimal) -> Value:
    """``stored`` minus the look-back, rounded down: reading a row twice is better than never."""
    if isinstance(stored, Decimal):
        return EXACT.subtract(stored, Decimal(value))
    exact = Fraction(stored) - Fraction(value)
    if isinstance(stored, int):
        return math.floor(exact)
    # Rounded to nearest, a float may lie above the exact difference, and rows between the two would be missed.
    lower = near if (near := float(exact)) <= exact else math.nextafter(near, -math.inf)
    return max(lower, -sys.float_info.max)


def _go_back(stored: date, look_back: LookBack) -> Value:
    """Subtract days and hours, then months and years; the day is at most the last of a shorter month."""
    moment = stored if isinstance(stored, datetime) else datetime.combine(stored, time())
    earliest = datetime.min.replace(tzinfo=moment.tzinfo)
    try:
        moment = moment - timedelta(days=look_back.days, hours=look_back.hours)
    except OverflowError:
        moment = earliest
    moment = months_later(moment, -look_back.months - 12 * look_back.years) or earliest
    return moment if isinstance(stored, datetime) else moment.date()


def _first_open_day(stored: date, look_back: LookBack, now: datetime, source_timezone: str) -> Value:
    """The first day of the oldest open month, or ``stored`` if that is earlier."""
    zone = check_zone(look_back.timezone)
    today = now.astimezone(zone)
    is_previous_open = today.day <= (look_back.closing_day or 0)
    first = datetime(today.year, today.month, 1)
    months = look_back.months + 12 * look_back.years + is_previous_open
    opened = months_later(first, -months) or datetime.min
    if not isinstance(stored, datetime):
        return min(stored, opened.date())
    # Converting the first moment of the calendar to another zone overflows.
    if opened == datetime.min:
        return opened.replace(tzinfo=stored.tzinfo)
    moment = opened.replace(tzinfo=zone)
    if stored.utcoffset() is None:
        return min(stored, moment.astimezone(check_zone(source_timezone)).replace(tzinfo=None))
    return min(stored, moment.astimezone(stored.tzinfo))


@dataclass(frozen=True, slots=True)
class Connection:
    """A named connection; ``configure`` is that block of the configuration.

    >>> Connection("shop", {"backward_days": 7, "backward": {"closing_day": 25}}).date_backward.closing_day
    25
    """

    name: str
    configure: Mapping[str, object] = field(default_factory=dict)

    @property
    def date_backward(self) -> LookBack:
        """How far below the stored watermark reads begin; ``ValueError`` if ``configure`` is wrong."""
        zone = self.configure.get("timezone") or "UTC"
        return look_back_of(self.configure, timezone=str(zone))
