"""``MergeOverwriteStrategy``: the strategy ``merge_overwrite`` for Python code that has a DataFrame of its own.

Pipelines write by the same statement, with their position in it. Nothing heavy is loaded before it writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.column_specs import Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.loading.strategies import KeyOverwrite

_OWNER = "MergeOverwriteStrategy"


class MergeOverwriteStrategy:
    """Replaces all rows of a table whose key occurs in the rows to write.

    With ``replace_by_watermark`` and a ``watermark_window`` (``dataflow.watermark_window``: column → lower and upper
    bound, both inside) it also replaces all rows that lie in the window.
    """

    def __init__(
        self,
        merge_keys: Sequence[str],
        watermark_window: Mapping[str, tuple[Value, Value]] | None = None,
        *,
        replace_by_watermark: bool = False,
        max_delete_fraction: float = 0.5,
        allow_empty_window: bool = False,
    ) -> None:
        self._keys = tuple(merge_keys)
        self._window = watermark_window if replace_by_watermark else None
        self._max_delete_fraction = max_delete_fraction
        self._allow_empty_window = allow_empty_window

    def write(self, frame: DataFrame, path: str) -> None:
        """Write ``frame`` into the Delta table at ``path`` in one commit; the table must be there.

        ``RowsRefused`` where more of the window would be deleted than is allowed.
        """
        from tidegate.spark.frames import columns_of, fitted
        from tidegate.spark.loading.target import Target

        kept = frame.localCheckpoint()
        table = columns_of(kept.sparkSession.read.format("delta").load(path), f"table {path}")
        strategy = self._strategy(kept.columns)
        strategy.check(kept)
        strategy.save(fitted(kept, table), Target(path, table))

    def _strategy(self, columns: Sequence[str]) -> KeyOverwrite:
        from tidegate.schema.column_names import spelled
        from tidegate.spark.loading.keys import Keys
        from tidegate.spark.loading.strategies import KeyOverwrite
        from tidegate.spark.loading.windows import Guard, TableWindow

        bounds = {spelled(name, columns): each for name, each in (self._window or {}).items()}
        window = TableWindow.of_bounds(bounds, _OWNER) if bounds else None
        guard = Guard(_OWNER, self._max_delete_fraction, self._allow_empty_window)
        return KeyOverwrite(Keys(tuple(spelled(name, columns) for name in self._keys), _OWNER), window, guard)
