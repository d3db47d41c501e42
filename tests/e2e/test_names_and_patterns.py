"""Names that do not exist end with 2 and a suggestion, whatever the command; patterns mean the same everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidegate
from support.errors import raises
from support.lake import Lake
from tidegate import ConfigError
from tidegate.commands.files import FilesQuery
from tidegate.reports.render import to_lines
from tidegate.reports.report import View
from tidegate.runs.file_edit import DeadLetterSelection

DAY = "date=2026-01-28"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    lake.arrive(f"{DAY}/1.ndjson")
    lake.run()
    return lake


BY_SOURCE: dict[str, Callable[..., Any]] = {
    "show_watermarks": tidegate.show_watermarks,
    "watermark_history": tidegate.watermark_history,
    "files": tidegate.files,
    "list_letters": tidegate.list_letters,
    "discard_letters": tidegate.discard_letters,
    "recover": tidegate.recover,
    "reconcile": tidegate.reconcile,
    "adopt": tidegate.adopt,
    "set_watermark": lambda *names: tidegate.set_watermark(*names, to="a/b"),
    "reset_watermark": tidegate.reset_watermark,
}


@pytest.mark.parametrize("function", BY_SOURCE)
def test_an_unknown_source_is_wrong_usage_with_a_suggestion(lake: Lake, function: str) -> None:
    with raises(ConfigError, "'defalt'", "'events'", "'default'") as caught:
        BY_SOURCE[function](lake.config, "events", "defalt")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("function", [*BY_SOURCE, "plan", "status"])
def test_an_unknown_pipeline_is_wrong_usage_with_a_suggestion(lake: Lake, function: str) -> None:
    with raises(ConfigError, "'evnts'", "events", "'events'"):
        (BY_SOURCE.get(function) or getattr(tidegate, function))(lake.config, "evnts")


def test_chaos_in_a_place_that_is_not_empty_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep me")
    with raises(ConfigError, "mine", "empty"):
        tidegate.chaos(str(tmp_path), failures=1, kills=0)


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("1.ndjson", True),
        ("*.ndjson", True),
        ("date=*/*.ndjson", True),
        ("*/1.gz", False),
        ("a/*", False),
        ("**/1.*", True),
    ],
)
def test_patterns_mean_the_same_for_letters_and_for_files(pattern: str, fits: bool) -> None:
    from tidegate.core.files.edit import Selection
    from tidegate.schema.dead_letter import Letter

    path = f"{DAY}/1.ndjson"
    letter = Letter("id", "record", "p", "s", None, "run", file=path)  # type: ignore[arg-type]
    assert [
        DeadLetterSelection(file=pattern).selects(letter),
        FilesQuery(pattern).matches(path),
        Selection(pattern).selects(path),
    ] == [fits] * 3


def test_fields_that_no_column_takes_are_in_the_report(lake: Lake) -> None:
    lake.arrive(f"{DAY}/2.ndjson", more=1, other="x")
    report = lake.run()
    assert report.sources[0].to_json()["unknown_fields"] == {"more": 10, "other": 10}
    assert "2 fields without a column, e.g. more, other" in "\n".join(to_lines(report.page()))


def test_times_of_letters_are_in_utc_with_a_z(lake: Lake) -> None:
    lake.write(f"{DAY}/3.ndjson", "bad\n")
    report = lake.run()
    (letter,) = tidegate.list_letters(lake.config, "events")
    assert str(json.loads(json.dumps(letter.to_json()))["at"]).endswith("Z")
    assert "tidegate dlq list here.yml -p events" in "\n".join(to_lines(report.page(View(config="here.yml"))))
