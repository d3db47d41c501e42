"""A pipeline whose destination is a folder of plain Parquet files, without Spark where rows are only added."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from support.column_lake import ColumnLake


@dataclass
class ParquetLake(ColumnLake):
    """The same rows and source; ``provider`` keeps the watermarks."""

    provider: str = "file"

    def __post_init__(self) -> None:
        url = str(self.root / "state") if self.provider == "file" else f"sqlite:///{self.root}/state.db"
        self.settings = {"state": {"provider": self.provider, "url": url}, **self.settings}
        self.sink_settings = {"format": "parquet", **self.sink_settings}

    @property
    def folder(self) -> Path:
        return self.root / "lake" / "orders"

    def table(self) -> list[dict[str, Any]]:
        """What readers see."""
        if not any(path.name.startswith("part-") for path in self.folder.rglob("*.parquet")):
            return []
        return pq.read_table(self.folder).to_pylist()

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.table())

    def left_over(self) -> list[str]:
        """Files of work areas that nobody needs."""
        return [str(path) for path in self.folder.rglob("work/**/*.parquet")]
