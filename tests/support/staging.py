"""What lies in the staging folder of a lake."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from support.lake import Lake
from tidegate.state.staging import META, PENDING, UNIT, Meta, StagedUnit


def pending(lake: Lake) -> Path:
    """The folder."""
    return lake.root / "lake/events" / PENDING


def units(lake: Lake) -> list[StagedUnit]:
    """The units of all sources, in the order of their numbers."""
    found = [StagedUnit.from_bytes(path.read_bytes()) for path in pending(lake).rglob(f"*{UNIT}")]
    return sorted(found, key=lambda unit: (str(unit.key), unit.seq))


def metas(lake: Lake) -> list[Meta]:
    """The metas."""
    return [Meta.from_bytes(path.read_bytes()) for path in sorted(pending(lake).glob(f"*{META}"))]


def staged_ids(lake: Lake) -> list[int]:
    """Every id in the data files that units name, sorted, repeats included."""
    files = [lake.root / "lake/events" / file.path for unit in units(lake) for file in unit.data_files]
    return sorted(each for file in files for each in pq.read_table(file, columns=["id"])["id"].to_pylist())
