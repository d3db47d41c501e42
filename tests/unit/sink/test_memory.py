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
from tidegate.sink.read_task import ReadTask
from tidegate.sink.task import read_unit
from tidegate.sink.writer import WriterSettings
from tidegate.specs.project import FieldSpec, PartitionBy
from tidegate.specs.locations import Location

root, name, key = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
fields = (FieldSpec("id", "int64"), FieldSpec("k", "string"), FieldSpec("text", "string"))
task = ReadTask(
    source=Location(root.as_uri()),
    table=Location((root / "table").as_uri()),
    fields=fields,
    file_schema=arrow_schema([field for field in fields if field.name != key]).serialize().to_pybytes(),
    partition_by=PartitionBy(key, key) if key else None,
    writer=WriterSettings(row_group_size=16 << 20),
    held_bytes=8 << 20,
)
result = read_unit(task, Unit(0, (FileSlice(name, (root / name).stat().st_size),)))
kilobytes = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
print(result.rows, int(kilobytes) // 1024, len(result.data_files))
"""


def rows_and_peak(root: Path, name: str) -> tuple[int, int]:
    rows, megabytes, _ = rows_peak_and_files(root, name)
    return rows, megabytes


def rows_peak_and_files(root: Path, name: str, key: str = "") -> tuple[int, int, int]:
    ran = subprocess.run(
        [sys.executable, "-c", READ, str(root), name, key], check=True, capture_output=True, text=True, timeout=200
    )
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
