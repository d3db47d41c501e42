"""What lies in the staging folder of a lake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from support.lake import Lake
from tidegate.commands.commit import Committing
from tidegate.protocol.change import SourceKey
from tidegate.protocol.staging import META, PENDING, REJECTED, UNIT, Meta, StagedUnit, unit_path
from tidegate.reports.commit import TableCommit


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


def commit(lake: Lake, **more: Any) -> TableCommit:
    """One turn of the committer of the lake's table; events are kept in ``seen``."""
    (table,) = Committing(lake.project, lake.seen.append, **more).once(lake.project.pipelines).tables
    return table


def staged(lake: Lake, *names: str) -> None:
    """Each file arrives and becomes a unit of its own."""
    for name in names:
        lake.arrive(name)
        assert lake.run().ok


def unit_file(lake: Lake, seq: int, source: str = "default") -> Path:
    """The signal of one unit."""
    return lake.root / "lake/events" / unit_path(SourceKey("events", source), seq)


def rejected(lake: Lake) -> list[str]:
    """What lies in the folder of rejected things."""
    folder = lake.root / "lake/events" / REJECTED
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
