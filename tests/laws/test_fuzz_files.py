"""Whatever bytes a file has, reading it gives rows, dead letters, a refusal or an error of ours, and nothing else.

Valid files of every format are damaged at random, or are random from the beginning, and go through the task that reads
them in a Spark worker. ``TIDEGATE_LONG=1`` tries 10,000 files instead of 60.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from support.format_files import ENDINGS, written
from support.long_runs import examples
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Covered, Refused
from tidegate.errors import TidegateError
from tidegate.schema.types import arrow_schema
from tidegate.specs.files import Format, PathSource
from tidegate.specs.locations import Location
from tidegate.specs.table import FieldSpec, SchemaSpec
from tidegate.tasks.dead_letters import DeadLetterTarget
from tidegate.tasks.read_task import GroupResult, ReadTask, infer_files, list_files, scan_files
from tidegate.tasks.task import read_group

FIELDS = (
    FieldSpec("id", "int64"),
    FieldSpec("at", "timestamp"),
    FieldSpec("text", "string"),
    FieldSpec("share", "float64"),
    FieldSpec("raw", "binary"),
)
KINDS = [
    (format, packing)
    for format in ENDINGS
    for packing in ("", ".gz", ".zst")
    if packing == "" or format in ("ndjson", "csv", "json")
]
EXAMPLES = examples(10_000, 60) // len(KINDS) + 1
pytestmark = pytest.mark.timeout(3600)
TELLING = [
    b"\0",
    b"\xff",
    b"\x80",
    b"\x7f",
    b"\n",
    b'"',
    b"{",
    b"[",
    b"\\u",
    b"\xff" * 9 + b"\x01",
    b"\xff\xff\xff\x7f",
    b"1e999",
    b"-",
]

Edit = Callable[[bytes], bytes]


@cache
def whole(format: str, packing: str) -> bytes:
    """A small valid file."""
    rows: list[dict[str, Any]] = [
        {"id": n, "at": datetime(2026, 1, 28, 12, n, tzinfo=UTC), "text": "é" * n, "share": n / 3, "raw": b"\0" * n}
        for n in range(12)
    ]
    rows.append({"id": None, "at": None, "text": None, "share": None, "raw": None})
    data = written(format, rows, row_group=5)
    return gzip.compress(data, mtime=0) if packing == ".gz" else zstandard.compress(data) if packing == ".zst" else data


def put(place: float, new: bytes, over: int) -> Edit:
    """``new`` in the place of ``over`` bytes."""
    return lambda data: data[: int(place * len(data))] + new + data[int(place * len(data)) + over :]


def repeat(place: float, length: int, times: int) -> Edit:
    """A stretch several times."""
    return lambda data: (
        data[: int(place * len(data))]
        + data[int(place * len(data)) : int(place * len(data)) + length] * times
        + data[int(place * len(data)) + length :]
    )


PLACES = st.floats(0, 1, exclude_max=True)
EDITS = st.lists(
    st.builds(put, PLACES, st.binary(max_size=6) | st.sampled_from(TELLING), st.integers(0, 12))
    | st.builds(repeat, PLACES, st.integers(1, 40), st.integers(0, 4)),
    min_size=1,
    max_size=4,
)
INSIDE = st.booleans()


def read(data: bytes, format: str, packing: str) -> tuple[GroupResult, int, int] | None:
    """What a task makes of a file, with how many rows and letters it wrote; None for an error of ours."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("source", "table", "letters"):
            (root / name).mkdir()
        name = f"a{ENDINGS[format]}{packing}"
        (root / "source" / name).write_bytes(data)
        task = ReadTask(
            source=Location((root / "source").as_uri()),
            table=Location((root / "table").as_uri()),
            fields=FIELDS,
            file_schema=arrow_schema(FIELDS).serialize().to_pybytes(),
            format=Format(format),
            letters=DeadLetterTarget(Location((root / "letters").as_uri()), "p", "s", "r"),
        )
        try:
            (result,) = read_group(task, FileGroup(0, (FileSlice(name, len(data)),)))
        except TidegateError:
            return None
        rows = sum(pq.read_table(root / "table" / file.path).num_rows for file in result.data_files)
        letters = sum(pq.read_table(root / "letters" / file.path).num_rows for file in result.letter_files)
        return result, rows, letters


def check(data: bytes, format: str, packing: str) -> None:
    found = read(data, format, packing)
    if found is None:
        return
    result, rows, letters = found
    assert result.failure is None
    (outcome,) = result.outcomes
    assert isinstance(outcome, Covered | Refused), outcome
    if isinstance(outcome, Refused):
        assert outcome.reason
        assert (rows, letters) == (0, 0)
    else:
        assert outcome.eof
        assert (rows, letters) == (outcome.rows, outcome.bad)
        assert rows + letters <= outcome.end


def edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    for edit in edits:
        data = edit(data)
    return data


def unpacked(data: bytes, packing: str) -> bytes:
    return gzip.decompress(data) if packing == ".gz" else zstandard.decompress(data) if packing == ".zst" else data


def packed(data: bytes, packing: str) -> bytes:
    return (
        gzip.compress(data, 1, mtime=0) if packing == ".gz" else zstandard.compress(data) if packing == ".zst" else data
    )


@pytest.mark.parametrize(("format", "packing"), KINDS)
def test_a_damaged_file_gives_rows_letters_or_a_refusal(format: str, packing: str) -> None:
    data = whole(format, packing)
    check(data, format, packing)

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(EDITS, INSIDE)
    def tried(edits: list[Edit], inside: bool) -> None:
        if inside and packing:
            check(packed(edited(unpacked(data, packing), edits), packing), format, packing)
        else:
            check(edited(data, edits), format, packing)

    tried()


@settings(max_examples=4 * EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(KINDS), EDITS)
def test_the_columns_of_a_damaged_file_are_inferred_or_refused(kind: tuple[str, str], edits: list[Edit]) -> None:
    format, packing = kind
    with tempfile.TemporaryDirectory() as folder:
        data = packed(edited(unpacked(whole(format, packing), packing), edits), packing)
        (Path(folder) / f"a{ENDINGS[format]}{packing}").write_bytes(data)
        source, schema = PathSource("s", Location(Path(folder).as_uri()), format=Format(format)), SchemaSpec(infer=True)
        try:
            found = list_files(source)
            fields = infer_files(source, found, schema)
            assert not fields or sum(batch.num_rows for batch in scan_files(source, fields, schema, found)) >= 0
        except TidegateError:
            return


@settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(KINDS), st.binary(max_size=200))
@example(("ndjson", ""), b"")
def test_random_bytes_give_rows_letters_or_a_refusal(kind: tuple[str, str], data: bytes) -> None:
    check(data, *kind)
