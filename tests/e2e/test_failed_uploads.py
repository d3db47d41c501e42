"""An upload that fails fails its unit: none of its source files is done, everything else is committed."""

from __future__ import annotations

from pathlib import Path

from support.lake import Lake
from tidegate.observe.events import Committed, SourceFailed, WaveFinished

DAYS = ("2026-01-27", "2026-01-28", "2026-01-29")


def test_the_other_units_are_committed_and_the_next_run_completes_the_failed_one(tmp_path: Path) -> None:
    lake = Lake(
        tmp_path,
        source_settings={"checkpoint": {"interval_files": 1}},
        sink_settings={"partition_by": {"prefix_template": "date"}},
    )
    for day in DAYS:
        lake.arrive(f"date={day}/1.ndjson", records=20_000)
    blocked = tmp_path / "lake" / "events" / f"date={DAYS[1]}"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("where a directory must be")

    report = lake.run(lake.seen.append)
    assert not report.ok
    assert f"date={DAYS[1]}" in str(report.sources[0].error)
    assert [event.rows for event in lake.seen if isinstance(event, Committed)] == [20_000, 20_000]
    waves = [event for event in lake.seen if isinstance(event, WaveFinished)]
    assert [(wave.units, wave.failed_units, wave.data_files, wave.uploads) for wave in waves] == [
        (1, 0, 1, 1),
        (2, 1, 1, 1),
    ]
    written = sum(path.stat().st_size for path in blocked.parent.glob("date=*/*.parquet"))
    assert sum(wave.bytes_written for wave in waves) == written
    assert all(len(wave.write_seconds) == 1 and wave.write_seconds[0] > 0 for wave in waves)
    assert any(isinstance(event, SourceFailed) for event in lake.seen)
    assert lake.ids() == [*range(20_000), *range(40_000, 60_000)]

    blocked.unlink()
    assert lake.run().ok
    lake.assert_exactly_once()
