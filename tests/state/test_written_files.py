"""Data files that Spark named while it committed are kept with the document, read from the log."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from state.lake import SCHEMA, Lake
from support.changes import moved
from tidegate.protocol import documents
from tidegate.protocol.change import Change, NextState, SparkWrite
from tidegate.protocol.follow_ups import WorkRemover, new_work_area
from tidegate.protocol.table import CommitNote


class Rows:
    """Writes a log entry as Spark would, with one file."""

    offered = None

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def write(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        assert (table, new_columns) == (SCHEMA, False)
        version = len(list(self.lake.store.list("_delta_log")))
        ((app_id, position),) = note.transactions.items()
        add = {
            "path": "part%20one.parquet",
            "size": 7,
            "partitionValues": {},
            "modificationTime": 1,
            "dataChange": True,
        }
        actions = [
            {"commitInfo": {"operation": "WRITE", "userMetadata": note.user_metadata}},
            {"txn": {"appId": app_id, "version": position}},
            {"add": {**add, "stats": '{"numRecords": 3}'}},
        ]
        text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
        self.lake.store.put(f"_delta_log/{version:020d}.json", text.encode())


def test_files_of_a_commit_by_spark_are_known_afterwards(tmp_path: Path) -> None:
    lake = Lake.local(tmp_path / "t")
    plain = lake.positions()
    plain.commit(plain.open(), moved({"next": 1}, SCHEMA))
    positions = lake.positions(payers={"work": WorkRemover(lake.store).pay})
    area = new_work_area(positions.site.key, lake.location)
    lake.store.put(f"{area.directory}/a.parquet", b"x")
    change = Change(NextState.of({"next": 2}), SparkWrite(Rows(lake), SCHEMA, (), 0), debts=(area.debt(),))
    after = positions.commit(positions.open(), change)
    assert after.parent is not None
    stored = documents.read(lake.store, after.key, after.version, after.parent.attempt)
    assert stored is not None
    assert stored.document is not None
    assert [(file.path, file.size, file.record_count) for file in stored.document.data_files] == [
        ("part one.parquet", 7, 3)
    ]
    assert not list(lake.store.list(area.directory))
    assert positions.open().data_files == {"part one.parquet"}
