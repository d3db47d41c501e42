"""The ledger of real passes: which file came when, as a report, as a table for SQL, and after compaction."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

import tidegate
from support.errors import raises
from support.lake import Lake
from tidegate.errors import TidegateError
from tidegate.protocol.change import SourceKey
from tidegate.storage.stores import open_store

KEY = SourceKey("events", "default")


def hour(number: int) -> str:
    return f"date=2026-01-28/hour={number:02d}"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Five passes of two files each, of 1, 2, … 10 records."""
    lake = Lake(tmp_path)
    for number in range(5):
        lake.arrive(f"{hour(number)}/0.ndjson.gz", 2 * number + 1)
        lake.arrive(f"{hour(number)}/1.ndjson.gz", 2 * number + 2)
        assert lake.run().ok
    return lake


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two positions, due one position below the newest."""
    monkeypatch.setattr("tidegate.protocol.ledger_blocks.SIZE", 2)
    monkeypatch.setattr("tidegate.protocol.ledger.SIZE", 2)
    monkeypatch.setattr("tidegate.protocol.ledger.KEPT", 1)


def files(report: tidegate.FilesReport) -> list[tuple[str, int, int]]:
    return [(each.file, each.position, each.records) for each in report.files]


ALL = [
    (f"{hour(number)}/{file}.ndjson.gz", number + 1, 2 * number + 1 + file) for number in range(5) for file in (0, 1)
]


def test_every_file_is_told_with_its_commit_newest_first(lake: Lake) -> None:
    report = tidegate.files(lake.config, "events")
    assert files(report) == ALL[::-1]
    assert report.complete
    assert (report.totals.files, report.totals.records, report.totals.commits) == (10, 55, 5)
    assert report.files[0].table_version == 4
    assert report.files[0].finished
    assert report.files[0].action == "run"
    assert report.gaps == ()


@pytest.mark.usefixtures("small_blocks")
def test_compaction_changes_nothing_about_it(lake: Lake) -> None:
    before = tidegate.files(lake.config, "events"), tidegate.watermark_history(lake.config, "events")
    assert tidegate.compact_ledger(lake.config, "events") == (tidegate.LedgerCompaction("events", "default", 2, 8),)
    assert (tidegate.files(lake.config, "events"), tidegate.watermark_history(lake.config, "events")) == before
    assert tidegate.compact_ledger(lake.config, "events")[0].blocks == 0
    lake.arrive(f"{hour(5)}/0.ndjson.gz")
    assert lake.run().ok
    lake.assert_exactly_once()


def test_a_selection_is_what_was_asked_for(lake: Lake) -> None:
    assert files(tidegate.files(lake.config, "events", match="date=2026-01-28/hour=01/*")) == ALL[2:4][::-1]
    assert files(tidegate.files(lake.config, "events", position=2)) == ALL[2:4][::-1]
    assert files(tidegate.files(lake.config, "events", position=6)) == []
    limited = tidegate.files(lake.config, "events", limit=3)
    assert (files(limited), limited.complete) == (ALL[:6:-1], False)
    now = datetime.now(UTC)
    assert files(tidegate.files(lake.config, "events", since=now + timedelta(hours=1))) == []
    assert len(tidegate.files(lake.config, "events", since=now - timedelta(hours=1)).files) == 10
    third = tidegate.files(lake.config, "events", position=3).files[0].committed_at
    assert files(tidegate.files(lake.config, "events", since=third)) == ALL[:3:-1]


def test_the_history_tells_the_watermark_that_each_commit_left(lake: Lake) -> None:
    (history,) = tidegate.watermark_history(lake.config, "events", limit=2)
    assert not history.complete
    found = [(each.position, each.files, each.rows, each.state, each.watermark) for each in history.positions]
    assert found == [
        (5, 2, 19, "Active", f"{hour(4)}/1.ndjson.gz"),
        (4, 2, 15, "Active", f"{hour(3)}/1.ndjson.gz"),
    ]


def test_an_unknown_source_is_an_error_that_lists_the_known_ones(lake: Lake) -> None:
    with raises(TidegateError, "'asia'", "'events'", "default"):
        tidegate.files(lake.config, "events", "asia")


def test_before_the_first_run_the_ledger_is_empty(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert tidegate.files(lake.config, "events").files == ()
    assert tidegate.watermark_history(lake.config, "events")[0].positions == ()
    assert tidegate.compact_ledger(lake.config, "events")[0].blocks == 0
    assert tidegate.export_ledger(lake.config, "events", to=tmp_path / "x.parquet").rows == 0


def test_where_a_run_would_stop_the_ledger_can_still_be_read(lake: Lake) -> None:
    lake.source_settings = {"source_uri": "moved/"}
    report = tidegate.files(lake.config, "events")
    assert files(report) == ALL[::-1]
    assert "the source is not the one of its position" in report.notes[0]
    with raises(TidegateError, "events/default", "source_uri", "tidegate recover --accept identity"):
        tidegate.compact_ledger(lake.config, "events")


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("compacted", [False, True])
def test_a_damaged_document_is_told_as_a_gap(lake: Lake, compacted: bool) -> None:
    store = open_store(lake.table)
    for version in (1, 2):
        (path,) = [
            each.path for each in store.list(KEY.directory) if f"{version:020d}-" in each.path and ".json" in each.path
        ]
        store.put(path, b"{")
    if compacted:
        tidegate.compact_ledger(lake.config, "events")
    report = tidegate.files(lake.config, "events")
    assert files(report) == ALL[:3:-1]
    assert [(gap.first, gap.last) for gap in report.gaps] == [(2, 2), (1, 1)]
    assert all(gap.reason.endswith("is damaged") for gap in report.gaps)
    (history,) = tidegate.watermark_history(lake.config, "events")
    assert [each.gap is None for each in history.positions] == [True, True, True, False, False]
    tidegate.export_ledger(lake.config, "events", to=lake.root / "x.parquet")
    rows = duckdb.sql(f"select position, file, gap from '{lake.root}/x.parquet' where gap is not null").fetchall()
    assert [(position, file) for position, file, _ in rows] == [(1, None), (2, None)]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("compacted", [False, True])
def test_the_export_holds_blocks_and_documents_in_one_table(lake: Lake, compacted: bool) -> None:
    if compacted:
        tidegate.compact_ledger(lake.config, "events")
    target = lake.root / "ledger.parquet"
    export = tidegate.export_ledger(lake.config, "events", to=target)
    assert export == tidegate.LedgerExport(str(target), 1, 10)
    query = f"""select file, position, "to" - "from", pipeline, source, table_version, data_files is not null
                from '{target}' order by position, file"""
    assert duckdb.sql(query).fetchall() == [
        (*line, "events", "default", line[1] - 1, number % 2 == 0) for number, line in enumerate(ALL)
    ]
    assert [path.name for path in lake.root.iterdir() if path.name.endswith(".part")] == []


def test_an_export_that_cannot_be_written_says_so(lake: Lake) -> None:
    with raises(TidegateError, "nowhere/x.parquet", "No such file or directory"):
        tidegate.export_ledger(lake.config, "events", to=lake.root / "nowhere" / "x.parquet")


@pytest.mark.parametrize(
    "arguments", [["files"], ["files", "--export", "x.parquet"], ["files", "--compact"], ["watermark", "history"]]
)
def test_the_commands_start_no_spark(lake: Lake, arguments: list[str]) -> None:
    program = (
        "import sys; from tidegate.cli.main import cli\n"
        "try: cli.main(sys.argv[1:])\n"
        "except SystemExit as end: assert end.code == 0, end.code\n"
        "assert 'pyspark' not in sys.modules"
    )
    command = [sys.executable, "-c", program, *arguments, str(lake.config), "-p", "events"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=lake.root, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout
