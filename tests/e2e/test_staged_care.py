"""Table care of a staged table comes after the commits of its committer."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from support.lake import Lake
from support.staging import commit, staged
from tidegate.observe.events import TableCared


def test_the_committer_cares_for_the_table_every_so_many_commits(tmp_path: Path) -> None:
    lake = Lake(
        tmp_path,
        pipeline_settings={"delivery": "staged"},
        sink_settings={"maintenance": {"optimize_every_commits": 3}},
    )
    files = []
    for number in range(4):
        staged(lake, f"date=2026-01-28/{number}.ndjson")
        assert commit(lake).units == 1
        files.append(len(DeltaTable(lake.table.uri).file_uris()))
    assert files == [1, 2, 1, 2]
    assert [event.files for event in lake.seen if isinstance(event, TableCared)] == [3]
    lake.assert_exactly_once()
    assert commit(lake).commits == 0
    assert len(DeltaTable(lake.table.uri).file_uris()) == 2
