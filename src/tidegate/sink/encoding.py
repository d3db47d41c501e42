"""How each column of a Parquet file is encoded, decided once from the first rows.

A dictionary pays where values repeat; elsewhere it costs time and space. Whole numbers, dates and moments
that do not repeat are written as differences (``DELTA_BINARY_PACKED``), which halves them and takes less time
than plain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

SAMPLED_ROWS = 8192
_WORTHWHILE = 0.5


@dataclass(frozen=True, slots=True)
class Encodings:
    """Parquet column paths that get a dictionary, and those that are written as differences."""

    dictionaries: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        """As arguments of ``pq.ParquetWriter``."""
        return {
            "use_dictionary": list(self.dictionaries),
            "column_encoding": dict.fromkeys(self.differences, "DELTA_BINARY_PACKED") or None,
        }


def choose(batch: pa.RecordBatch) -> Encodings:
    """Encodings for a file that begins with ``batch``."""
    dictionaries = []
    differences = []
    found = list(leaves(batch.slice(0, SAMPLED_ROWS)))
    times = Counter(path for path, _ in found)
    for path, values in found:
        if times[path] > 1:  # ``a.b`` is a column, and a field of the struct ``a``: no telling them apart
            continue
        if _repeats(values):
            dictionaries.append(path)
        elif _is_whole(values.type):
            differences.append(path)
    return Encodings(tuple(dictionaries), tuple(differences))


def _repeats(values: pa.Array) -> bool:
    if pa.types.is_boolean(values.type):
        return False
    filled = len(values) - values.null_count
    if filled == 0:
        return not _is_whole(values.type)
    return bool(len(values.unique()) - bool(values.null_count) <= filled * _WORTHWHILE)


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind))


def leaves(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    """The Parquet columns of a batch by their paths."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        yield from _below(name, column)


def _below(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    kind = array.type
    if pa.types.is_struct(kind):
        for child, values in zip(kind, array.flatten(), strict=True):
            yield from _below(f"{path}.{child.name}", values)
    elif pa.types.is_map(kind):
        yield from _below(f"{path}.key_value.key", array.keys)
        yield from _below(f"{path}.key_value.value", array.items)
    elif pa.types.is_list(kind):
        yield from _below(f"{path}.list.element", array.flatten())
    else:
        yield path, array
