"""State stays small whatever the number of files: after 100,000 it names the open partitions and little else."""

from __future__ import annotations

import json
import random

from laws.world import NOW, source
from tidegate.core.files.advance import advance
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.state import Covered, PathState, drop_window, encode_paths

FILES = 100_000
PARTITIONS = 100
PER_COMMIT = 10_000


def test_after_100_000_files_in_random_order_no_file_is_kept_by_name() -> None:
    of = source(max_islands=FILES, late_window_total=1000)
    paths = [
        f"date=2026-01-{day:02d}/hour={hour:02d}/{number:04d}.ndjson"
        for day in range(1, 6)
        for hour in range(20)
        for number in range(FILES // PARTITIONS)
    ]
    listed = tuple(SourceFile(path, 10, None) for path in paths)
    shuffled = random.Random(7).sample(paths, len(paths))
    state, waiting = PathState(), []
    for start in range(0, FILES, PER_COMMIT):
        outcomes = [Covered(path, 10, None, 0, 1, eof=True) for path in shuffled[start : start + PER_COMMIT]]
        state = advance(of, state, listed, outcomes, NOW, complete=True).state
        waiting.append(len(state.files))
    assert waiting[-1] == 0
    assert max(waiting) > 10, "nothing ever waited above a gap: the order was not random"
    assert len(state.partition_watermarks) <= PARTITIONS
    assert len(json.dumps(drop_window(encode_paths(state)))) < 10_000


def test_after_100_000_files_in_order_no_commit_keeps_more_than_ten_names() -> None:
    of = source()
    paths = [f"date=2026-01-28/{number:06d}.ndjson" for number in range(FILES)]
    state, most = PathState(), 0
    for start in range(0, FILES, PER_COMMIT):
        part = paths[start : start + PER_COMMIT]
        listed = tuple(SourceFile(path, 10, None) for path in part)
        outcomes = [Covered(path, 10, None, 0, 1, eof=True) for path in part]
        state = advance(of, state, listed, outcomes, NOW, complete=True).state
        most = max(most, len(state.files))
    assert most <= 10
    assert dict(state.partition_watermarks) == {"date=2026-01-28": "099999.ndjson"}
