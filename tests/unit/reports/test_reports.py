"""Reports are plain values: they compare, they do not change, and their JSON has only JSON types."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tidegate.reports.report import Report
from unit.cli import standin

VALUES = (
    standin.REPORT,
    *standin.STATUS,
    *standin.WATERMARKS,
    *standin.CHECKS,
    *standin.STEPS,
    standin.FAILED,
)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_the_json_form_survives_json_and_names_every_field_that_is_not_for_people_alone(value: Report) -> None:
    data = value.to_json()
    assert json.loads(json.dumps(data)) == data
    assert dataclasses.is_dataclass(value)
    assert list(data) == [each.name for each in dataclasses.fields(value) if each.metadata.get("json", True)]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_report_does_not_change(value: Report) -> None:
    assert dataclasses.is_dataclass(value)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, None)


def test_times_are_told_in_utc() -> None:
    local = datetime(2026, 1, 28, 15, 30, tzinfo=timezone(timedelta(hours=1)))
    status = dataclasses.replace(standin.STATUS[0], updated=local)
    assert status.to_json()["updated"] == "2026-01-28T14:30:00Z"
    assert datetime.fromisoformat(status.to_json()["updated"]) == local.astimezone(UTC)
