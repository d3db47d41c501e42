"""A reader that skips files by our statistics finds every row: delta-rs over tables of arbitrary rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, Schema
from deltalake.transaction import AddAction, create_table_with_add_actions
from hypothesis import given, settings
from hypothesis import strategies as st

from support.long_runs import examples
from tidegate.parquet.partitions import Partition
from tidegate.parquet.writer import RollingWriter, WriterSettings
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("u", pa.struct([("v", pa.int32()), ("w", pa.struct([("x", pa.string())]))])),
    ]
)
TEXTS = st.text("abz\u00ff\U0001f600", max_size=2).flatmap(lambda end: st.sampled_from([end, "z" * 64 + end, "a" * 70]))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
            "f": st.none() | st.sampled_from([-1.5, -0.0, 0.0, 1.5, float("nan"), float("inf")]),
            "s": st.none() | TEXTS,
            "u": st.none()
            | st.fixed_dictionaries(
                {
                    "v": st.none() | st.integers(-2, 2),
                    "w": st.none() | st.fixed_dictionaries({"x": TEXTS}),
                }
            ),
        }
    ),
    min_size=1,
    max_size=4,
)


def table_of(groups: list[list[dict[str, Any]]], root: Path) -> Location:
    """A table with one file per group; ``n`` numbers the rows."""
    location = Location((root / "table").as_uri())
    writer = RollingWriter(open_store(location), WriterSettings())
    files = []
    number = 0
    for group in groups:
        rows = [{"n": number + position, **row} for position, row in enumerate(group)]
        number += len(group)
        writer.write(pa.RecordBatch.from_pylist(rows, SCHEMA), Partition(), "s")
        files.extend(writer.cut())
    writer.close()
    adds = [AddAction(file.path, file.size, {}, 0, True, file.stats) for file in files]
    create_table_with_add_actions(location.uri, Schema.from_arrow(SCHEMA), adds, mode="error", partition_by=[])
    return location


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(ROWS, min_size=2, max_size=4), st.integers(-3, 3), TEXTS)
def test_every_row_that_fulfils_a_condition_is_found(
    groups: list[list[dict[str, Any]]], number: int, text: str
) -> None:
    rows = [row for group in groups for row in group]
    inner = [(row["u"] or {}).get("v") for row in rows]
    deep = [((row["u"] or {}).get("w") or {}).get("x") for row in rows]
    low = text.encode()
    conditions = {
        f"i = {number}": [row["i"] == number for row in rows],
        f"i >= {number}": [row["i"] is not None and row["i"] >= number for row in rows],
        "f = 1.5": [row["f"] == 1.5 for row in rows],
        "f > 0.5": [row["f"] is not None and not row["f"] <= 0.5 for row in rows],
        "f <= 0.0": [row["f"] is not None and row["f"] <= 0.0 for row in rows],
        f"s = '{text}'": [row["s"] == text for row in rows],
        f"s > '{text}'": [row["s"] is not None and row["s"].encode() > low for row in rows],
        "s is null": [row["s"] is None for row in rows],
        f"u['v'] < {number}": [value is not None and value < number for value in inner],
        "u['v'] is null": [value is None for value in inner],
        f"u['w']['x'] = '{text}'": [value == text for value in deep],
        f"u['w']['x'] < '{text}'": [value is not None and value.encode() < low for value in deep],
    }
    with tempfile.TemporaryDirectory() as root:
        table = table_of(groups, Path(root))
        reader = QueryBuilder().register("t", DeltaTable(table.uri))
        for condition, wanted in conditions.items():
            batches = reader.execute(f"select n from t where {condition}")
            found = sorted(n for batch in batches for n in pa.record_batch(batch).column("n").to_pylist())
            assert found == [n for n, is_wanted in enumerate(wanted) if is_wanted], condition
