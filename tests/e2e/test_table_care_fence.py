"""OPTIMIZE in a process that slept: what was cleaned up meanwhile is never committed."""

from __future__ import annotations

import os
import time
from pathlib import Path

from support.errors import raises
from support.lake import Lake
from tidegate import optimize_table, reconcile
from tidegate.protocol.maintenance import MaintainedTable, RewriteOvertaken, commit_rewrite
from tidegate.runs.maintenance import bins, merge_files
from tidegate.storage.stores import open_store


def test_files_that_were_cleaned_up_before_their_commit_are_not_committed(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number in range(3):
        lake.arrive(f"date=2026-01-28/{number:04d}.ndjson")
        lake.run()
    (pipeline,) = lake.project.pipelines
    store = open_store(lake.table)
    table = MaintainedTable(lake.table, store)
    snapshot = table.snapshot("")
    rewrite = merge_files(store, snapshot.facts, bins(snapshot.active_files(), 1 << 27), pipeline.sink)
    written = tmp_path / "lake/events" / rewrite.added[0].path
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(written, (two_days_ago, two_days_ago))
    reconcile(lake.config, "events", clean=True)
    assert not written.exists()
    with raises(RewriteOvertaken, "version 3", "fence"):
        commit_rewrite(store, snapshot.facts.version, rewrite)
    lake.assert_exactly_once()
    assert optimize_table(lake.config, "events").files_after == 1
    lake.assert_exactly_once()
