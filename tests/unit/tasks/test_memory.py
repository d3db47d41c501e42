"""Peak memory of a real process does not depend on how large a source file is, nor on its partition values."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

READ = """
import sys
from pathlib import Path
from tidegate.core.files.plan import FileSlice, FileGroup as Unit
from tidegate.schema.types import arrow_schema
from tidegate.tasks.dead_letters import DeadLetterTarget
from tidegate.tasks.read_task import ReadTask
from tidegate.tasks.task import read_group_at_once
from tidegate.parquet.writer import WriterSettings
from tidegate.specs.files import Format
from tidegate.specs.table import (FieldSpec, PartitionBy)
from tidegate.specs.locations import Location

root, name, key, start = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
fields = (FieldSpec("id", "int64"), FieldSpec("k", "string"), FieldSpec("text", "string"))
task = ReadTask(
    source=Location(root.as_uri()),
    table=Location((root / "table").as_uri()),
    fields=fields,
    file_schema=arrow_schema([field for field in fields if field.name != key]).serialize().to_pybytes(),
    partition_by=PartitionBy(key, key) if key else None,
    writer=WriterSettings(row_group_size=16 << 20),
    held_bytes=8 << 20,
    format=Format.JSON if name.endswith(".json") else Format.NDJSON,
    letters=DeadLetterTarget(Location((root / "letters").as_uri()), "p", "s", "r"),
)
result = read_group_at_once(task, Unit(0, (FileSlice(name, (root / name).stat().st_size, start_record=start),)))
kilobytes = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
letters = sum(file.record_count for file in result.letter_files)
print(result.rows + letters, int(kilobytes) // 1024, len(result.data_files))
"""


def rows_and_peak(root: Path, name: str, start: int = 0) -> tuple[int, int]:
    rows, megabytes, _ = rows_peak_and_files(root, name, start=start)
    return rows, megabytes


def rows_peak_and_files(root: Path, name: str, key: str = "", start: int = 0) -> tuple[int, int, int]:
    """Rows and dead letters together, peak memory in MiB, data files."""
    command = [sys.executable, "-c", READ, str(root), name, key, str(start)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=200)
    rows, megabytes, files = map(int, ran.stdout.split())
    return rows, megabytes, files


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_memory_is_flat_when_a_file_is_ten_times_as_large(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    lines = (b'{"id":%d,"k":"k%d","text":"%x"}\n' % (n, n % 5, n * 7919**5) for n in range(200_000))
    member = gzip.compress(b"".join(lines), 1)
    (tmp_path / "one.gz").write_bytes(member * 3)
    (tmp_path / "ten.gz").write_bytes(member * 30)
    rows, small = rows_and_peak(tmp_path, "one.gz")
    ten_rows, large = rows_and_peak(tmp_path, "ten.gz")
    assert (rows, ten_rows) == (600_000, 6_000_000)
    assert small < 400
    assert large < small + 30


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_a_thousand_partition_values_take_little_more_memory_than_one(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    for values in (1, 1000):
        lines = (b'{"id":%d,"k":"k%d","text":"%x"}\n' % (n, n * 7919 % values, n * 7919**5) for n in range(600_000))
        (tmp_path / f"{values}.gz").write_bytes(gzip.compress(b"".join(lines), 1))
    rows, one, files = rows_peak_and_files(tmp_path, "1.gz", "k")
    assert (rows, files) == (600_000, 1)
    rows, thousand, files = rows_peak_and_files(tmp_path, "1000.gz", "k")
    assert (rows, files) == (600_000, 1000)
    assert thousand < one + 100


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
@pytest.mark.parametrize(("kind", "start"), [("json", 0), ("json", 1), ("ndjson", 0)])
def test_memory_is_flat_however_many_tiny_records_are_bad(kind: str, start: int, tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    for name, count in (("few", 300_000), ("many", 1_200_000)):
        data = b"[" + b"," * (count - 1) + b"]" if kind == "json" else b"x\n" * count
        (tmp_path / f"{name}.{kind}").write_bytes(data)
    letters, few = rows_and_peak(tmp_path, f"few.{kind}", start)
    many_letters, many = rows_and_peak(tmp_path, f"many.{kind}", start)
    assert (letters, many_letters) == (300_000 - start, 1_200_000 - start)
    assert many < few + 60
