"""``MergeOverwriteStrategy``: the strategy ``merge_overwrite`` for Python code that has a DataFrame of its own.

Pipelines write by the same statement, with their position in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.column_specs import Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.loading.strategies import KeyOverwrite

_OWNER = "MergeOverwriteStrategy"


@dataclass(frozen=True)
class MergeOverwriteStrategy:
    """Replaces all rows of a table whose key occurs in the rows to write.

    With ``replace_by_watermark`` and a ``watermark_window`` (``dataflow.watermark_window``: column → lower and upper
    bound, both inside) it also replaces all rows that lie in the window.
    """

    merge_keys: Sequence[str]
    watermark_window: Mapping[str, tuple[Value, Value]] | None = None
    replace_by_watermark: bool = False
    max_delete_fraction: float = 0.5
    allow_empty_window: bool = False

    def write(self, frame: DataFrame, path: str) -> None:
        """Write ``frame`` into the Delta table at ``path`` in one commit; the table must be there.

        ``RowsRefused`` where more of the window would be deleted than is allowed.
        """
        from tidegate.spark.frames import columns_of, fitted
        from tidegate.spark.loading.target import Target

        kept = frame.localCheckpoint()
        table = columns_of(kept.sparkSession.read.format("delta").load(path), f"table {path}")
        new = not set(kept.columns) <= set(table.names)
        strategy = self._strategy()
        strategy.check(kept)
        strategy.save(fitted(kept, table), Target(path, table, new))

    def _strategy(self) -> KeyOverwrite:
        from tidegate.spark.loading.keys import Keys
        from tidegate.spark.loading.strategies import KeyOverwrite
        from tidegate.spark.loading.windows import Guard, TableWindow

        replaces = self.replace_by_watermark and self.watermark_window
        window = TableWindow.of_bounds(self.watermark_window or {}, _OWNER) if replaces else None
        guard = Guard(_OWNER, self.max_delete_fraction, self.allow_empty_window)
        return KeyOverwrite(Keys(tuple(self.merge_keys), _OWNER), window, guard)
