"""The SQL that the page about the ledger shows runs as it stands there, over a real ledger."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

import tidegate
from support.lake import Lake
from tidegate.protocol import ledger_blocks

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "ledger.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"^```sql\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_every_query_for_duckdb_gives_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.protocol.ledger_blocks.SIZE", 2)
    monkeypatch.setattr("tidegate.protocol.ledger.SIZE", 2)
    monkeypatch.setattr("tidegate.protocol.ledger.KEPT", 1)
    lake = Lake(tmp_path)
    for hour in range(3):
        lake.arrive(f"date=2026-01-28/hour={hour:02d}/0.ndjson.gz", 10)
        assert lake.run().ok
    tidegate.compact_ledger(lake.config, "events")
    tidegate.export_ledger(lake.config, "events", to=tmp_path / "ledger.parquet")
    monkeypatch.chdir(tmp_path)
    one, days, data_files, twice, old = [duckdb.sql(query).fetchall() for query in QUERIES]
    assert [(row[1], row[2], row[3], row[4]) for row in one] == [(1, 0, 0, 10)]
    assert sum(row[1] for row in days) == 3
    assert [row[0] for row in data_files] == [1, 2, 3]
    assert twice == []
    assert old == [(1, 2, 2)]


def test_every_column_is_documented() -> None:
    rows = [row.split("|")[1] for row in PAGE.splitlines() if row.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(ledger_blocks.schema().names)
