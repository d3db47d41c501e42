"""Replays of column sources without Spark: chunks, resuming, the handover to production, other tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.column_lake import SCHEMA, ColumnLake, InProcessColumnEngine
from support.errors import check_names, raises
from tidegate import set_watermark, show_watermarks, watermark_history
from tidegate.core.columns.predicates import RowFilter
from tidegate.errors import ConfigError, SourceError, TidegateError, WatermarkError
from tidegate.reports.replay import ColumnReplayReport
from tidegate.runs.in_process import ArrowReader
from tidegate.specs.columns import ColumnSource
from tidegate.specs.table import SchemaSpec
from tidegate.tasks.row_task import RowsWritten, RowTask


class Broken(InProcessColumnEngine):
    """Fails to read the chunks that begin at one of ``lows``; ``reads`` has those that it was asked for."""

    def __init__(self, *lows: int) -> None:
        self.lows = lows
        self.reads: list[int] = []

    def reader(self, source: ColumnSource, schema: SchemaSpec, now: datetime) -> ArrowReader:
        found = super().reader(source, schema, now)
        return BrokenReader(found.source, found.rows, found.fixed_first, lane=self)


class BrokenReader(ArrowReader):
    def __init__(self, *given: Any, lane: Broken) -> None:
        super().__init__(*given)
        self.lane = lane

    def read(self, rows: RowFilter) -> Any:
        lower = rows.ranges[0].lower
        if lower is not None:
            assert isinstance(lower.value, int)
            self.lane.reads.append(lower.value)
            if lower.value in self.lane.lows:
                raise SourceError(f"the source is away at {lower.value}", "wait")
        return super().read(rows)


@pytest.fixture
def lake(tmp_path: Path) -> ColumnLake:
    """Rows 0 to 29 in the source and, by one run, in the table."""
    lake = ColumnLake(tmp_path)
    lake.arrive(*({"id": number} for number in range(30)))
    assert lake.run().ok
    return lake


def fates(report: ColumnReplayReport) -> list[tuple[str, int]]:
    return [(each.fate, each.rows) for each in report.chunks]


def watermark(lake: ColumnLake) -> str | None:
    return show_watermarks(lake.config, "orders")[0].value


def correct(lake: ColumnLake, *gone: int) -> None:
    """Some rows were never right."""
    lake.rows = [row for row in lake.rows if row["id"] not in gone]
    lake.save()


def notices(lake: ColumnLake) -> str:
    return " | ".join(event.text for event in lake.seen if event.name == "notice")  # type: ignore[attr-defined]


def test_the_rows_of_each_chunk_take_the_place_of_what_the_table_has_there(lake: ColumnLake) -> None:
    correct(lake, 3, 12, 25)
    report = lake.replay(0, 20, 10)
    assert (report.ok, report.applied, fates(report)) == (True, True, [("done", 9), ("done", 9)])
    lake.assert_exactly_once([number for number in range(30) if number not in (3, 12)])
    assert (watermark(lake), report.saved) == ('{"id": 29}', None)


def test_a_replay_twice_leaves_the_same_rows_and_begins_anew(lake: ColumnLake) -> None:
    lake.replay(5, 25, 10)
    report = lake.replay(5, 25, 10)
    assert (report.resumed, fates(report)) == (False, [("done", 5), ("done", 10), ("done", 5)])
    lake.assert_exactly_once()


def test_a_plan_lists_the_chunks_and_touches_nothing(lake: ColumnLake) -> None:
    before = sorted(lake.root.rglob("*"))
    lane = Broken()
    report = lake.replay(5, 25, 10, lane=lane, confirm=lambda planned: False, max_workers=3)
    assert [(each.low, each.high, each.fate) for each in report.chunks] == [
        ("5", "10", "planned"),
        ("10", "20", "planned"),
        ("20", "25", "planned"),
    ]
    assert (report.applied, report.predicate, lane.reads) == (False, "WHERE `id` >= 5 AND `id` < 25", [])
    assert sorted(lake.root.rglob("*")) == before


def test_a_chunk_that_fails_is_named_and_retried_alone(lake: ColumnLake) -> None:
    correct(lake, 15, 25)
    report = lake.replay(0, 30, 10, lane=Broken(10), max_workers=3)
    assert (report.ok, [each.fate for each in report.chunks]) == (False, ["done", "failed", "done"])
    assert "the source is away at 10" in str(report.chunks[1].error)
    again = Broken()
    report = lake.replay(0, 30, 10, lane=again)
    assert (report.ok, report.resumed, again.reads) == (True, True, [10])
    assert fates(report) == [("skipped", 0), ("done", 9), ("skipped", 0)]
    lake.assert_exactly_once()


def test_what_a_failed_chunk_left_is_removed(lake: ColumnLake) -> None:
    class Away(InProcessColumnEngine):
        def load(self, *given: Any, **named: Any) -> Any:
            raise TidegateError("no", "never")

    report = lake.replay(0, 10, lane=Away())
    assert report.chunks[0].fate == "failed"
    assert not [path for path in lake.root.rglob("*") if path.is_file() and "/work/" in str(path)]


def test_empty_chunks_are_finished_too(lake: ColumnLake) -> None:
    lane = Broken(40)
    report = lake.replay(20, 60, 10, lane=lane, allow_overlap=True)
    assert [each.fate for each in report.chunks] == ["done", "done", "failed", "done"]
    again = Broken()
    assert lake.replay(20, 60, 10, lane=again, allow_overlap=True).ok
    assert again.reads == [40]
    lake.assert_exactly_once()


def test_another_range_gives_the_unfinished_one_up_and_says_so(lake: ColumnLake) -> None:
    lake.replay(0, 30, 10, lane=Broken(10))
    report = lake.replay(0, 20, 10)
    assert [each.fate for each in report.chunks] == ["done", "done"]
    assert "an unfinished replay is abandoned: id from 0 up to 30" in notices(lake)
    assert any("abandoned" in note for note in report.notes)
    lake.assert_exactly_once()


def test_a_replay_can_be_begun_anew(lake: ColumnLake) -> None:
    lake.replay(0, 30, 10, lane=Broken(10))
    again = Broken(20)
    lake.replay(0, 30, 10, lane=again, fresh=True)
    assert again.reads == [0, 10, 20]
    last = Broken()
    lake.replay(0, 30, 10, lane=last)
    assert last.reads == [20]


def test_the_production_watermark_is_no_part_of_the_record(lake: ColumnLake) -> None:
    lake.replay(0, 30, 10, lane=Broken(10))
    lake.arrive({"id": 50})
    assert lake.run().sources[0].rows == 1
    again = Broken()
    lake.replay(0, 30, 10, lane=again)
    assert (again.reads, watermark(lake)) == ([10], '{"id": 50}')
    lake.assert_exactly_once()


def test_a_replay_into_another_table_creates_it_and_leaves_production_alone(lake: ColumnLake) -> None:
    report = lake.replay(0, 25, 10, into="lake/copy")
    assert (report.ok, report.table_uri.endswith("/lake/copy")) == (True, True)
    assert lake.ids("lake/copy") == list(range(25))
    lake.assert_exactly_once()
    assert lake.run().sources[0].rows == 0
    with raises(ConfigError, "orders/default", "another table"):
        lake.replay(0, 25, into="lake/copy", save=True)


def test_two_replays_into_two_tables_do_not_meet(lake: ColumnLake) -> None:
    lake.replay(0, 30, 10, lane=Broken(10))
    assert lake.replay(0, 20, 10, into="lake/copy").ok
    again = Broken()
    lake.replay(0, 30, 10, lane=again)
    assert again.reads == [10]


class Meddled(InProcessColumnEngine):
    """While the chunk from 10 on is read, somebody starts another replay."""

    def __init__(self, lake: ColumnLake, *other: int, **options: Any) -> None:
        self.meddle: Callable[[], object] | None = lambda: lake.replay(*other, **options)

    def write_rows(self, frame: pa.Table, task: RowTask) -> RowsWritten:
        meddle = self.meddle if frame.num_rows and frame["id"][0].as_py() == 10 else None
        if meddle is not None:
            self.meddle = None
            meddle()
        return super().write_rows(frame, task)


def test_a_replay_stops_for_another_one_that_was_started_meanwhile(lake: ColumnLake) -> None:
    report = lake.replay(0, 30, 10, lane=Meddled(lake, 5, 25, 5))
    assert [each.fate for each in report.chunks] == ["done", "failed", "failed"]
    check_names(report.chunks[1].error, "another replay", "id", 5, 25)
    lake.assert_exactly_once()


def test_two_starts_of_the_same_replay_share_what_they_finish(lake: ColumnLake) -> None:
    report = lake.replay(0, 30, 10, lane=Meddled(lake, 0, 30, 10))
    assert fates(report) == [("done", 10), ("done", 0), ("done", 0)]
    lake.assert_exactly_once()


def test_of_two_starts_the_one_that_began_anew_counts(lake: ColumnLake) -> None:
    report = lake.replay(0, 30, 10, lane=Meddled(lake, 0, 30, 10, fresh=True))
    assert report.ok
    assert lake.replay(0, 30, 10, confirm=lambda planned: False).resumed is False
    lake.assert_exactly_once()


# --- going on with production -----------------------------------------------------------------------------------------


def test_production_goes_on_at_the_end_with_rows_exactly_on_it(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive(*({"id": number} for number in range(31)))
    report = lake.replay(0, 30, 10, save=True)
    assert (report.ok, report.saved) == (True, "id=30")
    lake.assert_exactly_once(range(30))
    lake.arrive({"id": 30, "note": "on the boundary"}, {"id": 31})
    assert lake.run().sources[0].rows == 3
    lake.arrive({"id": 32})
    assert lake.run().sources[0].rows == 1
    lake.assert_exactly_once()


def test_only_chunks_without_a_gap_before_them_count(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive(*({"id": number} for number in range(30)))
    report = lake.replay(0, 30, 10, save=True, lane=Broken(10), max_workers=4)
    assert [each.fate for each in report.chunks] == ["done", "failed", "planned"]
    assert report.saved == "id=10"
    assert lake.run().sources[0].rows == 20
    lake.assert_exactly_once()


def test_production_may_run_between_two_starts_of_a_replay_that_saves(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive(*({"id": number} for number in range(30)))
    lake.replay(0, 30, 10, save=True, lane=Broken(10))
    lake.run()
    assert lake.replay(0, 30, 10, save=True).ok
    lake.assert_exactly_once()
    assert lake.run().sources[0].rows == 0
    lake.assert_exactly_once()


def test_rows_and_the_moved_watermark_are_one_commit(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive(*({"id": number} for number in range(20)))
    lake.replay(0, 20, 10, save=True)
    (history,) = watermark_history(lake.config, "orders")
    assert [(each.action, each.rows) for each in history.positions] == [("replay", 10), ("replay", 10)]


def test_a_replay_beyond_the_watermark_leaves_it_where_it_was_unless_it_saves(lake: ColumnLake) -> None:
    lake.arrive(*({"id": number} for number in range(30, 40)))
    report = lake.replay(20, 40, 10, allow_overlap=True)
    assert (fates(report), report.saved, watermark(lake)) == ([("done", 10), ("done", 10)], None, '{"id": 29}')


def test_a_replay_never_lowers_the_watermark(lake: ColumnLake) -> None:
    report = lake.replay(0, 20, 10, save=True)
    assert (report.saved, watermark(lake)) == (None, '{"id": 29}')
    assert lake.run().sources[0].rows == 0


def test_a_range_across_the_watermark_moves_it(lake: ColumnLake) -> None:
    lake.arrive({"id": 30}, {"id": 34}, {"id": 35})
    assert lake.replay(20, 35, 10, save=True).saved == "id=35"
    assert lake.run().sources[0].rows == 1
    lake.assert_exactly_once()


def test_a_replay_that_jumps_over_rows_is_refused(lake: ColumnLake) -> None:
    lake.arrive({"id": 30}, {"id": 50})
    with raises(WatermarkError, "orders/default", "40", "id (29)", "--skip-gap"):
        lake.replay(40, 51, save=True)
    assert lake.replay(40, 51, save=True, skip_gap=True).ok
    lake.assert_exactly_once([*range(30), 50])


def test_where_nothing_was_read_the_source_says_whether_rows_lie_below(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive({"id": 5}, {"id": 15})
    with raises(WatermarkError, "orders/default", "10", "id (nothing stored)", "--skip-gap"):
        lake.replay(10, 16, save=True)
    assert not (tmp_path / "lake").exists()
    assert lake.replay(5, 16, save=True).saved == "id=16"


def test_a_plan_does_not_ask_the_source(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive({"id": 5}, {"id": 15})
    report = lake.replay(10, 20, save=True, confirm=lambda planned: False)
    assert any("the run first asks the source" in note for note in report.notes)


def test_a_replay_goes_on_with_a_save_that_was_not_asked_for_before(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive(*({"id": number} for number in range(30)))
    lake.replay(0, 30, 10, lane=Broken(20), allow_overlap=True)
    again = Broken(20)
    report = lake.replay(0, 30, 10, save=True, lane=again)
    assert (again.reads, report.saved) == ([20], "id=20")
    lake.run()
    lake.assert_exactly_once()


def test_rows_that_the_next_run_would_append_again_are_refused_until_somebody_says_so(lake: ColumnLake) -> None:
    lake.arrive({"id": 30})
    with raises(WatermarkError, "orders/default", "40", "id", "--save-watermark", "--allow-overlap") as caught:
        lake.replay(20, 40)
    assert "--save-watermark" in caught.value.remedy
    assert "--allow-overlap" in caught.value.remedy
    lake.assert_exactly_once(range(30))
    assert lake.replay(20, 29).ok
    report = lake.replay(20, 40, allow_overlap=True)
    assert any("the next run appends those rows again" in note for note in report.notes)
    assert "appends those rows again" in notices(lake)


def test_the_first_fill_is_refused_where_the_first_run_would_append_it_again(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive({"id": 1}, {"id": 2})
    with raises(WatermarkError, "orders/default", "2", "nothing was read", "--allow-overlap"):
        lake.replay(0, 2)
    assert lake.replay(0, 2, into="lake/copy").ok
    assert lake.replay(0, 2, save=True).ok
    lake.run()
    lake.assert_exactly_once()


def test_a_chunk_by_another_column_with_rows_above_the_watermark_is_refused(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("size", pa.int64()))
    lake = ColumnLake(tmp_path, schema=schema)
    lake.arrive({"id": 1, "size": 5}, {"id": 2, "size": 15})
    assert lake.run().ok
    lake.arrive({"id": 3, "size": 5})
    report = lake.replay(0, 20, 10, column="size")
    assert [each.fate for each in report.chunks] == ["failed", "done"]
    check_names(report.chunks[0].error, "id=3", "watermark")
    lake.assert_exactly_once([1, 2])
    lake.run()
    assert lake.replay(0, 20, 10, column="size").ok
    lake.assert_exactly_once()


def test_a_range_of_another_column_is_told_and_cannot_be_saved(lake: ColumnLake) -> None:
    report = lake.replay(0, 1, column="note", confirm=lambda planned: False)
    assert any("new by the watermark" in note for note in report.notes)
    with raises(WatermarkError, "orders/default", "note", "watermark column"):
        lake.replay(0, 1, column="note", save=True)


def test_bounds_of_another_kind_are_refused(lake: ColumnLake) -> None:
    with raises(WatermarkError, "orders/default", "a (text)", "'id'", "chunk_column"):
        lake.replay("a", "b")  # type: ignore[arg-type]


def test_a_load_that_replaces_the_table_is_not_replayed(lake: ColumnLake) -> None:
    lake.sink_settings = {"load_type": "overwrite"}
    with raises(ConfigError, "orders/default", "load_type overwrite"):
        lake.replay(0, 10)


def test_watermarks_that_stand_apart_are_passed_together(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("size", pa.int64()))
    lake = ColumnLake(tmp_path, source_settings={"watermark_columns": ["id", "size"]}, schema=schema)
    lake.arrive({"id": 5, "size": 15}, {"id": 3, "size": None})
    lake.run()
    lake.arrive({"id": 29, "size": 29})
    with raises(WatermarkError, "orders/default", "10", "id, size"):
        lake.replay(0, 30, 10, save=True)
    assert lake.replay(0, 30, save=True).ok
    assert lake.run().sources[0].rows == 0


def test_the_end_of_a_replay_is_of_the_kind_of_the_column(tmp_path: Path) -> None:
    class Converting(InProcessColumnEngine):
        """Compares a text with a number, as a database may."""

        def reader(self, source: ColumnSource, schema: SchemaSpec, now: datetime) -> ArrowReader:
            found = super().reader(source, schema, now)
            found.read = lambda rows: found.rows()  # type: ignore[method-assign]
            return found

    lake = ColumnLake(tmp_path)
    lake.arrive({"id": 5})
    report = lake.replay("0", "9", save=True, skip_gap=True, lane=Converting())  # type: ignore[arg-type]
    assert "has values such as" in str(report.chunks[0].error)
    assert watermark(lake) is None


@pytest.mark.parametrize("kind", [{"provider": "file", "url": "state"}, {"provider": "sql", "url": "sqlite:///s.db"}])
def test_a_provider_gets_the_watermark_that_a_replay_saved(tmp_path: Path, kind: dict[str, str]) -> None:
    lake = ColumnLake(tmp_path, settings={"state": kind})
    lake.arrive(*({"id": number} for number in range(20)))
    assert lake.replay(0, 10, 5, save=True).ok
    assert lake.run().ok
    lake.assert_exactly_once()


def test_a_finished_replay_that_saved_skips_every_chunk_the_watermark_covers(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive(*({"id": number} for number in range(30)))
    assert fates(lake.replay(0, 30, 10, save=True)) == [("done", 10)] * 3
    correct(lake, 3, 25)
    before, lane = sorted(lake.root.rglob("*")), Broken()
    report = lake.replay(0, 30, 10, save=True, lane=lane)
    assert (report.ok, report.resumed, fates(report), lane.reads) == (True, True, [("skipped", 0)] * 3, [])
    assert "3 of 3 chunks end at or below the stored watermark (id=30) and are skipped; --again" in notices(lake)
    assert sorted(lake.root.rglob("*")) == before
    report = lake.replay(0, 30, 10, save=True, again=True)
    assert (report.resumed, fates(report)) == (False, [("done", 9), ("done", 10), ("done", 9)])
    lake.assert_exactly_once()


def test_what_lies_above_a_watermark_that_was_set_back_is_replayed(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive(*({"id": number} for number in range(30)))
    lake.replay(0, 30, 10, save=True)
    set_watermark(lake.config, "orders", values={"id": "15"}, inclusive=True)
    report = lake.replay(0, 30, 10, save=True)
    assert (fates(report), report.saved) == ([("skipped", 0), ("done", 10), ("done", 10)], "id=30")
    lake.assert_exactly_once()


def test_a_replay_below_the_watermark_that_was_never_made_skips_nothing(lake: ColumnLake) -> None:
    assert fates(lake.replay(0, 20, 10, save=True)) == [("done", 10), ("done", 10)]
    assert fates(lake.replay(0, 20, 5, save=True)) == [("done", 5)] * 4


def test_an_end_that_the_source_has_not_reached_is_not_saved(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive(*({"id": number} for number in range(10)))
    with raises(WatermarkError, "orders/default", "20", "id (9)", "end at 9"):
        lake.replay(0, 20, 10, save=True)
    assert lake.replay(0, 10, save=True).ok
    lake.arrive({"id": 10}, {"id": 15})
    assert lake.run().ok
    lake.assert_exactly_once()
