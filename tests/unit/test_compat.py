"""The contract in Python: its signatures, how dataflows are called, and the window of a read."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from support.errors import raises
from tidegate import BaseMetadataProvider, DataFlow, ReplayConfig, SourceRuntime, WatermarkManager
from tidegate.errors import ConfigError

BEFORE = {"day": date(2026, 3, 8)}
EFFECTIVE = {"day": date(2026, 3, 1)}
AFTER = {"day": date(2026, 3, 9)}


def flow(*, replaces: bool = True) -> DataFlow:
    source = {"type": "delta", "source_uri": "orders", "watermark_columns": ["day"], "backward_days": 7}
    sink = {"load_type": "merge_overwrite", "merge_keys": ["id"], "replace_by_watermark": replaces}
    text = json.dumps({"pipelines": {"sales": {"sources": {"north": source}, "sink": {"table_uri": "sales", **sink}}}})
    return DataFlow(f"{text}\n", "sales")


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (BaseMetadataProvider.get_watermark, "(self, dataflow_id)"),
        (BaseMetadataProvider.update_watermark, "(self, dataflow_id, watermark_value, *, job_id, dataflow_run_id)"),
        (WatermarkManager.get_watermark, "(self, dataflow_id)"),
        (WatermarkManager.save_watermark, "(self, dataflow_id, watermark, *, job_id=None, dataflow_run_id=None)"),
    ],
)
def test_the_contract_has_these_signatures(method: Callable[..., Any], parameters: str) -> None:
    found = inspect.signature(method).parameters.values()
    assert str(inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in found])) == parameters


def test_a_replay_does_not_move_the_watermark_unless_it_is_told_to() -> None:
    assert ReplayConfig(0, 10).save_watermark is False


def test_a_dataflow_is_called_by_its_pipeline_and_its_source() -> None:
    assert flow().dataflow_id == "sales/north"
    with raises(ConfigError, "north"):
        DataFlow(flow().project, "sales", "south")


def test_the_window_goes_from_the_look_back_to_the_new_watermark_and_is_kept() -> None:
    sales = flow()
    assert sales.watermark_window is None
    window = sales.apply_watermark_window(SourceRuntime(BEFORE, EFFECTIVE, AFTER))
    assert window == {"day": (date(2026, 3, 1), date(2026, 3, 9))}
    assert sales.watermark_window == window


@pytest.mark.parametrize(
    "runtime",
    [SourceRuntime(None, None, AFTER), SourceRuntime(BEFORE, EFFECTIVE, None), SourceRuntime({}, {}, {"day": None})],
)
def test_with_a_bound_missing_there_is_no_window(runtime: SourceRuntime) -> None:
    sales = flow()
    sales.apply_watermark_window(SourceRuntime(BEFORE, EFFECTIVE, AFTER))
    assert sales.apply_watermark_window(runtime) is None
    assert sales.watermark_window is None


def test_without_replacement_there_is_no_window() -> None:
    assert flow(replaces=False).apply_watermark_window(SourceRuntime(BEFORE, EFFECTIVE, AFTER)) is None
