"""What is told of sources of work units, though nothing is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidegate.config import load


def notices(folder: Path, sink: dict[str, Any], source: dict[str, Any], **more: Any) -> tuple[str, ...]:
    path = folder / "tidegate.yml"
    read = {
        "type": "python",
        "function": "demo:rows",
        "watermark": [{"name": "day", "type": "datetime", "range": {"from": "2020-01-01"}}],
    }
    pipeline = {"source": read | source, "sink": {"table_uri": "lake/p"} | sink}
    path.write_text(json.dumps({"pipelines": {"p": pipeline}} | more))
    return load(path, env={}).notices


MERGE = {"load_type": "merge_upsert", "merge_keys": ["id"]}


@pytest.mark.parametrize(
    ("sink", "source", "told"),
    [
        (MERGE, {}, 1),
        (MERGE, {"time_column": "at"}, 0),
        (MERGE | {"tie_break": ["revision"]}, {}, 0),
        ({}, {}, 0),
    ],
)
def test_equal_keys_without_anything_that_tells_the_newer_row(
    tmp_path: Path, sink: dict[str, Any], source: dict[str, Any], told: int
) -> None:
    found = notices(tmp_path, sink, source)
    assert len(found) == told
    assert all("give 'time_column', or sink.tie_break" in each for each in found)


def test_a_state_provider_gets_no_positions_of_work_units(tmp_path: Path) -> None:
    (told,) = notices(tmp_path, {}, {}, state={"provider": "file", "url": "state"})
    assert "the state provider file gets no copy" in told
