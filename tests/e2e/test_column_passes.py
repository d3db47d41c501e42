"""Column sources through whole passes, without Spark: what is new is appended once, with its watermark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.column_lake import ColumnLake
from support.errors import check_names, raises
from tidegate import (
    failpoints,
    metadata_provider,
    plan,
    recover,
    reset_watermark,
    set_watermark,
    show_watermarks,
    status,
    watermark_history,
)
from tidegate.errors import TidegateError, WatermarkError


@pytest.fixture
def lake(tmp_path: Path) -> ColumnLake:
    lake = ColumnLake(tmp_path)
    lake.arrive({"id": 1}, {"id": 2})
    return lake


def test_only_rows_above_the_watermark_are_appended(lake: ColumnLake) -> None:
    assert lake.run().sources[0].rows == 2
    lake.arrive({"id": 3}, {"id": 2})
    report = lake.run()
    assert (report.ok, report.sources[0].rows, report.sources[0].watermark) == (True, 1, "id=3")
    lake.assert_exactly_once([1, 2, 3])


@pytest.mark.parametrize("place", ["runs.read", "runs.commit.before"])
@pytest.mark.parametrize(
    "state", [{}, {"state": {"provider": "file", "url": "state"}}], ids=["the log", "with a copy in a file"]
)
def test_a_run_that_fails_saves_nothing_and_the_next_one_reads_the_same_rows(
    lake: ColumnLake, place: str, state: dict[str, object]
) -> None:
    lake.settings = state
    assert lake.run().ok
    lake.arrive({"id": 3})
    failpoints.arm(f"{place}=raise")
    try:
        with pytest.raises(failpoints.InjectedFailure):
            lake.run()
    finally:
        failpoints.arm("")
    assert (show_watermarks(lake.config, "orders")[0].value, lake.ids()) == ('{"id": 2}', [1, 2])
    assert lake.run().sources[0].rows == 1
    assert show_watermarks(lake.config, "orders")[0].value == '{"id": 3}'
    lake.assert_exactly_once()


def test_a_pass_that_finds_nothing_commits_nothing(lake: ColumnLake) -> None:
    lake.run()
    report = lake.run().sources[0]
    assert (report.commits, report.rows, report.state, report.table_version) == (0, 0, "Idle", 0)


def test_rows_without_a_watermark_are_left_out_and_told(lake: ColumnLake) -> None:
    lake.arrive({"id": None, "note": "?"})
    report = lake.run().sources[0]
    assert (report.rows, report.skipped) == (2, (("null_watermark", 1),))
    assert [event.count for event in lake.seen if event.name == "rows_left_out"] == [1]  # type: ignore[attr-defined]


def test_rows_without_a_watermark_stop_a_source_that_says_so(lake: ColumnLake) -> None:
    lake.source_settings = {"null_watermark": "error"}
    lake.arrive({"id": None})
    (source,) = lake.run().sources
    assert source.error is not None
    assert "1 row has null in every watermark column (id)" in source.error
    assert source.commits == 0


def test_a_plan_shows_the_condition_and_touches_nothing(lake: ColumnLake) -> None:
    lake.run()
    before = sorted(lake.root.rglob("*"))
    (planned,) = plan(lake.config)
    assert (planned.to_json()["predicate"], planned.to_json()["stored"]) == ("WHERE `id` > 2", {"id": "2"})
    assert sorted(lake.root.rglob("*")) == before


def test_status_and_watermark_tell_the_recorded_value(lake: ColumnLake) -> None:
    lake.run()
    (state,), (view,) = status(lake.config), show_watermarks(lake.config, "orders")
    assert (state.watermark, state.version, state.tracking) == ("id=2", 1, "columns")
    assert (view.value, view.partitions) == ('{"id": 2}', {"id": "2"})


def test_the_history_has_every_position_with_its_watermark(lake: ColumnLake) -> None:
    lake.run()
    lake.arrive({"id": 7})
    lake.run()
    (history,) = watermark_history(lake.config, "orders")
    assert [(each.position, each.rows, each.watermark) for each in history.positions] == [
        (2, 1, '{"id": 7}'),
        (1, 2, '{"id": 2}'),
    ]


def test_a_watermark_moved_up_passes_rows_over(lake: ColumnLake) -> None:
    lake.run()
    lake.arrive({"id": 3}, {"id": 4})
    move = set_watermark(lake.config, "orders", values={"id": "3"})
    assert (move.applied, move.before, move.after) == (True, "id=2", "id=3")
    lake.run()
    lake.assert_exactly_once([1, 2, 4])


def test_an_inclusive_watermark_reads_its_own_value_again(lake: ColumnLake) -> None:
    lake.run()
    lake.arrive({"id": 3}, {"id": 4})
    set_watermark(lake.config, "orders", values={"id": "3"}, inclusive=True)
    lake.run()
    lake.assert_exactly_once([1, 2, 3, 4])


def test_a_forgotten_watermark_reads_everything_again(lake: ColumnLake) -> None:
    lake.run()
    move = reset_watermark(lake.config, "orders")
    assert any("in the table twice" in note for note in move.notes)
    lake.run()
    lake.assert_exactly_once([1, 1, 2, 2])


@pytest.mark.parametrize(
    ("values", "told"),
    [({"id": "x"}, "column 'id' … 'x' … 2 (a whole number)"), ({"nr": "1"}, "orders/default … 'nr' … id")],
)
def test_a_value_that_does_not_fit_is_refused(lake: ColumnLake, values: dict[str, str], told: str) -> None:
    lake.run()
    with raises(TidegateError, told):
        set_watermark(lake.config, "orders", values=values)


def test_a_source_of_columns_has_no_path_as_its_watermark(lake: ColumnLake) -> None:
    lake.run()
    with raises(TidegateError, "'orders'", "watermark columns (values)"):
        set_watermark(lake.config, "orders", to="date=1/a")


def test_a_watermark_column_that_was_left_out_and_comes_back_doubles_nothing(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, {"watermark_columns": ["id", "at"]})
    lake.arrive({"id": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)})
    assert lake.run().ok
    lake.source_settings = {"watermark_columns": ["id"]}
    lake.arrive({"id": 2, "at": datetime(2026, 1, 2, tzinfo=UTC)})
    assert lake.run().ok
    lake.source_settings = {"watermark_columns": ["id", "at"]}
    report = lake.run()
    check_names(report.sources[0].error, "at", "watermark_columns", "tidegate watermark set")
    assert lake.ids() == [1, 2]


def test_a_provider_that_differs_takes_the_watermark_of_the_log_when_that_is_set_again(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, settings={"state": {"provider": "file", "url": "state"}})
    lake.arrive({"id": 1}, {"id": 2})
    assert lake.run().ok
    provider = metadata_provider(str(tmp_path / "state"))
    provider.update_watermark("orders/default", '{"id": 7}', job_id=None, dataflow_run_id=None)
    assert not lake.run().ok
    move = set_watermark(lake.config, "orders", values={"id": "2"})
    assert move.applied
    assert any("the state provider has another watermark" in note for note in move.notes)
    assert provider.get_watermark("orders/default") == '{"id": 2}'
    assert lake.run().ok
    assert lake.ids() == [1, 2]
    assert not set_watermark(lake.config, "orders", values={"id": "2"}).applied


def test_a_set_of_paths_cannot_be_accepted_for_columns(tmp_path: Path) -> None:
    """Nothing would be repaired by it: the position must not be recorded anew."""
    lake = ColumnLake(tmp_path, settings={"state": {"provider": "file", "url": "state"}})
    lake.arrive({"id": 1})
    assert lake.run().ok
    provider = metadata_provider(str(tmp_path / "state"))
    provider.update_watermark("orders/default", '{"id": 7}', job_id=None, dataflow_run_id=None)
    for _ in range(2):
        (check,) = recover(lake.config, "orders", accept=["set"])
        assert check.verdict == "fail"
    assert len(watermark_history(lake.config, "orders")[0].positions) == 1


def test_the_watermark_of_a_column_that_changed_its_type_is_set_by_way_of_null(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive({"id": 1})
    assert lake.run().ok
    with pytest.raises(WatermarkError) as caught:
        set_watermark(lake.config, "orders", values={"id": "2026-01-01"})
    assert "set it to null first" in caught.value.remedy
    set_watermark(lake.config, "orders", values={"id": "null"})
    move = set_watermark(lake.config, "orders", values={"id": "2026-01-01"})
    assert move.applied
    assert "2026-01-01" in str(move.after)
