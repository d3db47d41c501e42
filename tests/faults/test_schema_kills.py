"""Columns replaced from the command line and killed on the way: the table is the old or the new one."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from support import scripts
from support.lake import FIELDS, Lake

TEXT = [{"name": "id", "type": "string", "nullable": False}, *FIELDS[1:]]


@pytest.mark.parametrize(
    ("place", "replaced"),
    [
        ("state.document.after", False),
        ("state.commit.before", False),
        ("state.commit.after", True),
        ("state.done.before", True),
    ],
)
def test_a_killed_replacement_happened_or_did_not(tmp_path: Path, place: str, replaced: bool) -> None:
    lake = Lake(tmp_path)
    lake.arrive("d/1.ndjson")
    assert lake.run().ok
    lake.schema, lake.pipeline_settings = {"fields": TEXT}, {"schema_evolution": "overwrite"}
    command = ["-m", "tidegate", "schema", "replace", lake.config, "-p", "events", "--yes"]
    assert scripts.run(*command, failpoints=f"{place}=kill") == -signal.SIGKILL
    assert rows(lake) == (0 if replaced else 10)
    assert scripts.run(*command) == 0
    assert rows(lake) == 0
    lake.write("d/2.ndjson", '{"id": "a"}\n')
    assert lake.run().ok
    assert rows(lake) == 1
    position = DeltaTable(tmp_path / "lake/events").transaction_version("tidegate/events/default")
    assert position == 3, "one position each: the first rows, the replacement, the new rows"


def rows(lake: Lake) -> int:
    return pa.table(DeltaTable(lake.root / "lake/events").scan(columns=["id"])).num_rows
