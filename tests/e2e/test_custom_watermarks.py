"""The filter, the operator and the window of a read can be a user's own, by configuration or by Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import custom_watermarks
from support.column_lake import ColumnLake, InProcessColumnEngine
from support.errors import raises
from tidegate import ConfigError, DataFlow, TidegateError, plan, show_watermarks
from tidegate.core.columns.predicates import RowFilter, predicate
from tidegate.core.dialects.dialect import SPARK
from tidegate.runs.loop import Loop

MINE = "support.custom_watermarks"
MERGE = {"load_type": "merge_upsert", "merge_keys": ["id"]}
REPLACE = {"load_type": "merge_overwrite", "merge_keys": ["id"], "replace_by_watermark": True}


class Windows(InProcessColumnEngine):
    """Tells which window of the table would be replaced, and loads nothing."""

    def __init__(self) -> None:
        self.seen: list[str | None] = []

    def load(self, batch: Any, window: RowFilter | None, *, chunk: bool) -> Any:
        self.seen.append(None if window is None else predicate(window, SPARK))
        raise TidegateError("only looked", "")


def lake_with(root: Path, **source: Any) -> ColumnLake:
    """Rows 1 to 4 in the source and, by one run, in the table; then ``source`` is configured and 5, 6 arrive."""
    lake = ColumnLake(root)
    lake.arrive(*({"id": number} for number in (1, 2, 3, 4)))
    assert lake.run().ok
    lake.source_settings = source
    lake.arrive({"id": 5}, {"id": 6})
    return lake


def error_of(lake: ColumnLake) -> str:
    (source,) = lake.run().sources
    assert source.error is not None
    return source.error


def position(lake: ColumnLake) -> str | None:
    return show_watermarks(lake.config, "orders")[0].value


def read_by(lake: ColumnLake) -> str:
    (found,) = plan(lake.config)
    return str(found.predicate)  # type: ignore[union-attr]


# --- the filter


def test_a_filter_of_the_users_own_chooses_the_rows(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, watermark_filter=f"{MINE}:even")
    custom_watermarks.ASKED.clear()
    assert lake.run().ok
    assert lake.ids() == [1, 2, 3, 4, 6]
    assert (position(lake), custom_watermarks.ASKED[0]) == ('{"id": 6}', ({"id": 4}, ">"))


def test_an_append_takes_no_row_twice_whatever_the_filter_chooses(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, watermark_filter=f"{MINE}:everything")
    assert lake.run().ok
    assert lake.run().ok
    lake.assert_exactly_once()


def test_a_replay_asks_the_filter_for_each_chunk_inclusively(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, watermark_filter=f"{MINE}:even")
    custom_watermarks.ASKED.clear()
    assert lake.replay(1, 5, 2).ok
    assert {each for each, _ in ((sign, wanted["id"]) for wanted, sign in custom_watermarks.ASKED)} == {">="}
    assert sorted({wanted["id"] for wanted, _ in custom_watermarks.ASKED}) == [1, 2, 4]
    assert lake.ids() == [2, 4]


class Starting(Windows):
    """Not ready yet: whether it is needed is asked without it."""

    is_ready = False


def test_a_filter_that_may_choose_old_rows_is_asked_even_where_none_is_new(tmp_path: Path) -> None:
    lake = lake_with(tmp_path)
    assert lake.run().ok
    lake.sink_settings = MERGE
    for settings, loads in (({}, 0), ({"watermark_filter": f"{MINE}:even"}, 1)):
        lake.source_settings, engine = settings, Starting()
        Loop(lake.project, engine, 1, lake.seen.append).once(lake.project.pipelines)
        assert len(engine.seen) == loads


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("failing", "watermark_filter support.custom_watermarks:failing failed: KeyError: 'no such thing'"),
        ("nothing", "watermark_filter returned NoneType"),
        ("nobody", "watermark_filter support.custom_watermarks:nobody cannot be loaded"),
    ],
)
def test_a_filter_that_fails_is_named_and_nothing_is_written(tmp_path: Path, name: str, told: str) -> None:
    lake = lake_with(tmp_path, watermark_filter=f"{MINE}:{name}")
    assert told in error_of(lake)
    assert (lake.ids(), position(lake)) == ([1, 2, 3, 4], '{"id": 4}')


# --- the operator


def test_the_operator_says_whether_rows_at_the_watermark_are_read_again(tmp_path: Path) -> None:
    lake = lake_with(tmp_path)
    lake.sink_settings = MERGE
    assert read_by(lake) == "WHERE `id` > 4"
    for operator in (">=", f"{MINE}:inclusive"):
        lake.source_settings = {"watermark_operator": operator}
        assert read_by(lake) == "WHERE `id` >= 4"


def test_an_append_refuses_to_read_rows_at_the_watermark_again(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, watermark_operator=f"{MINE}:inclusive")
    assert "watermark_operator is '>=', which reads rows at the watermark again, and append would" in error_of(lake)
    lake.source_settings = {"watermark_operator": ">="}
    with raises(ConfigError, "pipelines.orders.source.watermark_operator", ">=", "append", "load_type: merge_upsert"):
        lake.project  # noqa: B018  # read for its checks


def test_an_operator_that_would_lose_rows_of_a_replay_is_refused(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, watermark_operator=f"{MINE}:exclusive")
    with raises(TidegateError, "source default", "watermark_operator", "'>'", "'>='"):
        lake.replay(1, 5, 2)
    assert lake.run().ok
    lake.source_settings = {"watermark_operator": f"{MINE}:odd_sign"}
    assert "watermark_operator gave '<'" in error_of(lake)


# --- the window


def windows_of(lake: ColumnLake, flow: DataFlow | None = None) -> list[str | None]:
    engine, project = Windows(), lake.project if flow is None else flow.project
    Loop(project, engine, 1, lake.seen.append).once(project.pipelines)
    return engine.seen


def test_the_window_that_is_replaced_is_the_users_own(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, backward_value=3)
    lake.sink_settings = REPLACE
    assert windows_of(lake) == ["`id` >= 1 AND `id` <= 6"]
    custom_watermarks.RUNTIMES.clear()
    lake.source_settings = {"backward_value": 3, "watermark_window": f"{MINE}:last_two"}
    assert windows_of(lake) == ["`id` >= 4 AND `id` <= 6"]
    (runtime,) = custom_watermarks.RUNTIMES
    found = (runtime.watermark_before, runtime.watermark_effective, runtime.watermark_after)
    assert found == ({"id": 4}, {"id": 1}, {"id": 6})
    lake.source_settings = {"backward_value": 3, "watermark_window": f"{MINE}:no_window"}
    assert windows_of(lake) == [None]


def test_a_window_wider_than_the_read_is_refused(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, backward_value=3, watermark_window=f"{MINE}:too_wide")
    lake.sink_settings = REPLACE
    assert "watermark_window gave id from 0 to 6, and only a smaller part was read" in error_of(lake)


# --- by Python


class Mine(DataFlow):
    """A dataflow with parts of its own."""

    def watermark_operator(self, *, replay: bool = False) -> str:
        return ">="

    def apply_watermark_filter(self, frame: Any, watermark: Any, watermark_operator: str = ">") -> Any:
        return custom_watermarks.even(frame, watermark, watermark_operator)

    def apply_watermark_window(self, source_runtime: Any) -> Any:
        self.watermark_window = {"id": (5, 6)}
        return self.watermark_window


def test_what_a_dataflow_overrides_is_what_runs_use(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, backward_value=3)
    lake.sink_settings = REPLACE
    plain = DataFlow(lake.config, "orders")
    assert windows_of(lake, plain) == ["`id` >= 1 AND `id` <= 6"]
    assert plain.watermark_window == {"id": (1, 6)}
    flow = Mine(lake.config, "orders")
    custom_watermarks.ASKED.clear()
    assert windows_of(lake, flow) == ["`id` >= 5 AND `id` <= 6"]
    assert (flow.watermark_window, custom_watermarks.ASKED[0]) == ({"id": (5, 6)}, ({"id": 1}, ">="))


def test_a_manager_that_is_passed_in_keeps_the_copies_and_not_the_position(tmp_path: Path) -> None:
    from support.custom_providers import JsonFolder, Scaled

    lake = lake_with(tmp_path)
    flow = DataFlow(lake.config, "orders", watermarks=Scaled(JsonFolder(str(tmp_path))))
    Loop(flow.project, InProcessColumnEngine(), 1).once(flow.project.pipelines)
    assert JsonFolder(str(tmp_path)).get_watermark("orders/default") == '{"id": 60}'
    assert position(lake) == '{"id": 6}'
    lake.assert_exactly_once()
