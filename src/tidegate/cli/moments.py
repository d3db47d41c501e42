"""Moments as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_AGO = {"m": "minutes", "h": "hours", "d": "days"}


class Moment(click.ParamType[datetime]):
    """A date, a time in UTC unless it says otherwise, or how long ago."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment, aware."""
        if isinstance(value, datetime):
            return value
        text = str(value)
        if ago := re.fullmatch(r"(\d{1,6})([mhd])", text):
            return datetime.now(UTC) - timedelta(**{_AGO[ago[2]]: int(ago[1])})
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is not a moment: write 2026-01-28, 2026-01-28T14:30:00Z, 90m, 12h or 7d", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
