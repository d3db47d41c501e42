"""Parquet files whose footers and pages lie give rows, dead letters or a refusal, in little memory."""

from __future__ import annotations

import io
import os
import random
import resource
import signal
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.long_runs import examples
from tidegate.core.files.plan import FileSlice
from tidegate.errors import TidegateError
from tidegate.formats.parquet import ParquetFormat
from tidegate.formats.strict_lines import RecordRules
from tidegate.specs.table import FieldSpec

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="forks")]

FIELDS = (
    FieldSpec("id", "int64"),
    FieldSpec("text", "string"),
    FieldSpec("items", "list", items=FieldSpec("element", "float64")),
    FieldSpec("inner", "struct", fields=(FieldSpec("a", "int64"), FieldSpec("b", "string"))),
    FieldSpec("price", "decimal(12,2)"),
)
NUMBERS = (
    b"\xfe\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x10",
    b"\x80\x80\x80\x80\x80\x80\x01",
    b"\xff\xff\x03",
    b"\x01",
    b"\x00",
)
"""Numbers as footers and headers of pages have them: the largest, far larger ones, negative ones."""

MOST_MEGABYTES = 1000
LEVELS = b"level histogram size mismatch"
"""An error that the library does not raise but ends the process with: a worker is lost, and the file refused."""


def written(pick: random.Random) -> bytes:
    """A whole file, in one of the ways to write it."""
    rows, out = pick.choice((1, 50, 3000)), io.BytesIO()
    table = pa.table(
        {
            "id": pa.array(range(rows)),
            "text": pa.array([pick.choice(("a", "b" * 50, None)) for _ in range(rows)], pa.string()),
            "items": pa.array([[1.0] * (row % 3) for row in range(rows)], pa.list_(pa.float64())),
            "inner": pa.array([{"a": row, "b": "x"} for row in range(rows)]),
            "price": pa.array([Decimal(row) for row in range(rows)], pa.decimal128(12, 2)),
        }
    )
    pq.write_table(
        table,
        out,
        compression=pick.choice(("snappy", "zstd", "gzip", "none", "lz4")),
        use_dictionary=pick.random() < 0.6,
        data_page_version=pick.choice(("1.0", "2.0")),
        row_group_size=pick.choice((1000, 100_000)),
    )
    return out.getvalue()


def forged(content: bytes, pick: random.Random) -> bytes:
    """The file with some bytes of its footer, its first page or any place changed, or with other numbers there."""
    data = bytearray(content)
    size = int.from_bytes(data[-8:-4], "little")
    for _ in range(pick.randint(1, 3)):
        start, end = pick.choice(((len(data) - 8 - size, len(data) - 8), (4, 204), (4, len(data) - 8)))
        place, number = pick.randrange(start, end), pick.choice(NUMBERS)
        if pick.random() < 0.5:
            data[place] = pick.randrange(256)
        elif start > 4:
            data[place : place + 1] = number
            size += len(number) - 1
            data[-8:-4] = size.to_bytes(4, "little")
        else:
            data[place : min(place + len(number), end)] = number[: end - place]
    return bytes(data)


def read(content: bytes) -> str:
    """What becomes of a file."""
    try:
        for decoded in ParquetFormat(RecordRules(FIELDS)).read(io.BytesIO(content), FileSlice("a", len(content))):
            decoded.batch.validate(full=True)
    except TidegateError:
        return "refused"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "rows"


def peak_megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def outcome(content: bytes) -> str:
    """The same in a process of its own with little memory, and how that process ended."""
    with tempfile.TemporaryFile() as told:
        child = os.fork()
        if not child:
            os.dup2(told.fileno(), 2)
            signal.alarm(60)
            before = peak_megabytes()  # what it has of its parent
            found = read(content)
            taken = peak_megabytes() - before
            os.write(2, (found if taken < MOST_MEGABYTES else f"{found} in {taken} MB").encode())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        told.seek(0)
        text = told.read()
    return "ended by the library" if status == signal.SIGABRT and LEVELS in text else f"{status or ''}{text.decode()}"


def outcomes(count: int) -> Iterator[tuple[int, str]]:
    for seed in range(count):
        pick = random.Random(seed)
        yield seed, outcome(forged(written(pick), pick))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forged_file_gives_valid_rows_or_a_refusal() -> None:
    allowed = ("rows", "refused", "ended by the library")
    found = dict(outcomes(examples(10_000, 150)))
    assert {seed: each for seed, each in found.items() if each not in allowed} == {}
    assert sum(each == "ended by the library" for each in found.values()) <= len(found) // 50


@pytest.mark.parametrize("known", [b"zzzz", b"name"])
def test_texts_and_names_that_are_not_unicode_are_refused(known: bytes) -> None:
    out = io.BytesIO()
    table = pa.table({"id": [1], "text": ["zzzz"], "name": [1]})
    pq.write_table(table, out, use_dictionary=False, compression="none", store_schema=False)
    assert read(out.getvalue()) == "rows"
    assert read(out.getvalue().replace(known, b"\xff\xfezz")) == "refused"
