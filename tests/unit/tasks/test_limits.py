"""Files that ask for far more memory than they have bytes are refused, in little memory, by a process of its own."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import zlib
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from support.errors import raises
from support.long_runs import chosen
from tidegate.errors import SourceError
from tidegate.formats.avro import LARGEST_BLOCK, AvroFile, _encode_long

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc"),
]

MEGABYTE = 1024 * 1024
PACKING = ("deflate", "bzip2", "xz", "snappy", "zstandard")
SCHEMA = {"type": "record", "name": "row", "fields": [{"name": "text", "type": "string"}]}

READ = """
import sys
from pathlib import Path
from tidegate.core.files.plan import FileSlice, FileGroup as Unit
from tidegate.schema.types import arrow_schema
from tidegate.tasks.read_task import ReadTask
from tidegate.tasks.task import read_group_at_once
from tidegate.specs.files import Format
from tidegate.specs.table import FieldSpec
from tidegate.specs.locations import Location

root, name, format, column, kind = Path(sys.argv[1]), *sys.argv[2:]
parts = {
    "map": {"keys": FieldSpec("keys", "string"), "values": FieldSpec("values", "string")},
    "list": {"items": FieldSpec("element", "float64")},
}.get(kind, {})
fields = (FieldSpec(column, kind, **parts),)
task = ReadTask(
    source=Location(root.as_uri()),
    table=Location((root / "table").as_uri()),
    fields=fields,
    file_schema=arrow_schema(fields).serialize().to_pybytes(),
    format=Format(format),
)
(root / "table").mkdir(exist_ok=True)
result = read_group_at_once(task, Unit(0, (FileSlice(name, (root / name).stat().st_size),)))
(outcome,) = result.outcomes
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024)
print(getattr(outcome, "reason", f"{result.rows} rows"))
"""


def outcome_and_peak(root: Path, name: str, format: str, column: str = "text", kind: str = "string") -> tuple[str, int]:
    """What became of a file, and how many megabytes the process took at most."""
    command = [sys.executable, "-c", READ, str(root), name, format, column, kind]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stderr[-2000:]
    megabytes, outcome = ran.stdout.strip().split("\n", 1)
    return outcome, int(megabytes)


def avro(codec: str, plain: bytes, *, declared: int | None = None, records: int = 1) -> bytes:
    """A container with one block, which unpacks to ``plain``."""
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(SCHEMA), [], sync_marker=b"s" * 16)
    head = out.getvalue().replace(b"\x08null", _encode_long(len(codec)) + codec.encode())
    packed = {
        "null": lambda data: data,
        "deflate": lambda data: zlib.compress(data, 9)[2:-4],
        "bzip2": lambda data: __import__("bz2").compress(data),
        "xz": lambda data: __import__("lzma").compress(data),
        "snappy": lambda data: bytes(__import__("cramjam").snappy.compress_raw(data)) + b"crc4",
        "zstandard": lambda data: __import__("zstandard").compress(data),
    }[codec](plain)
    return (
        head + _encode_long(records) + _encode_long(len(packed) if declared is None else declared) + packed + b"s" * 16
    )


def text_record(size: int) -> bytes:
    return _encode_long(size) + bytes(size)


@pytest.mark.parametrize("codec", ["null", *PACKING])
def test_every_codec_of_avro_is_read(codec: str) -> None:
    file = AvroFile(io.BytesIO(avro(codec, text_record(5) + text_record(7), records=2)), "a.avro")
    assert [len(text) for block in file.batches() for text in block.batch.column(0).to_pylist()] == [5, 7]


@pytest.mark.parametrize("codec", chosen(PACKING, "deflate", "snappy", "zstandard"))
def test_an_avro_block_that_unpacks_beyond_the_limit_is_refused_before_it_is_unpacked(
    tmp_path: Path, codec: str
) -> None:
    (tmp_path / "a.avro").write_bytes(avro(codec, text_record(3 * LARGEST_BLOCK)))
    outcome, peak = outcome_and_peak(tmp_path, "a.avro", "avro")
    assert "an Avro block unpacks to more than 67,108,864 bytes, the limit is 64 MiB" in outcome
    assert peak < 600


@pytest.mark.parametrize("declared", [1 << 40, 1 << 62])
def test_an_avro_block_that_declares_more_than_the_limit_is_refused(tmp_path: Path, declared: int) -> None:
    (tmp_path / "a.avro").write_bytes(avro("null", text_record(10), declared=declared))
    outcome, peak = outcome_and_peak(tmp_path, "a.avro", "avro")
    assert f"an Avro block has {declared:,} bytes, the limit is 64 MiB" in outcome
    assert peak < 400


def test_more_records_than_an_avro_block_can_hold_are_refused() -> None:
    with raises(SourceError, "Avro file"):
        list(AvroFile(io.BytesIO(avro("null", b"\0", records=1 << 50)), "a.avro").batches())


def parquet(table: pa.Table, **how: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd", **how)
    return out.getvalue()


def test_one_long_text_that_stands_for_every_row_of_a_parquet_file_takes_little_memory(tmp_path: Path) -> None:
    """A quarter of a megabyte, 8,000 times: two gigabytes of text in a file of a few kilobytes."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 8_000, pa.int32()), pa.array(["x" * (256 * 1024)]))
    (tmp_path / "a.parquet").write_bytes(parquet(pa.table({"text": texts})))
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    outcome, peak = outcome_and_peak(tmp_path, "a.parquet", "parquet")
    assert outcome == "8000 rows"
    assert peak < 1000


@pytest.mark.parametrize(
    ("kind", "length", "rows"), [(pa.string(), 3_000, 400_000), (pa.binary(100_000), 100_000, 20_000)]
)
def test_values_of_a_small_dictionary_take_little_memory(
    tmp_path: Path, kind: pa.DataType, length: int, rows: int
) -> None:
    """A dictionary too small to be noticed, or of values whose length stands in the schema: over a gigabyte each."""
    value = "x" * length if kind == pa.string() else b"x" * length
    column = pa.array([value], kind).take(pa.array(np.zeros(rows // 100, np.int32)))
    table = pa.table({"text": pa.chunked_array([column] * 100)})
    (tmp_path / "a.parquet").write_bytes(parquet(table))
    assert (tmp_path / "a.parquet").stat().st_size < 200_000
    declared = "string" if kind == pa.string() else "binary"
    outcome, peak = outcome_and_peak(tmp_path, "a.parquet", "parquet", kind=declared)
    assert outcome == f"{rows} rows"
    assert peak < 1000


def test_a_parquet_file_with_texts_beyond_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Few rows, each of them a map with a key of gigabytes, as one conformance file has them; here 100 MiB."""
    key = b"k" * (100 * MEGABYTE)
    maps = pa.array([[(key, "v")], [(key, "w")]], pa.map_(pa.string(), pa.string()))
    (tmp_path / "a.parquet").write_bytes(parquet(pa.table({"text": maps}), use_dictionary=False))
    assert (tmp_path / "a.parquet").stat().st_size < MEGABYTE
    outcome, peak = outcome_and_peak(tmp_path, "a.parquet", "parquet", kind="map")
    assert "bytes on average, the limit is 64 MiB" in outcome
    assert peak < 400


def test_a_list_of_very_many_equal_items_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    items = pa.ListArray.from_arrays(pa.array([0, 20_000_000], pa.int32()), pa.array(np.zeros(20_000_000)))
    (tmp_path / "a.parquet").write_bytes(parquet(pa.table({"text": items})))
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    outcome, peak = outcome_and_peak(tmp_path, "a.parquet", "parquet", kind="list")
    assert "the rows of row group 0 have 159,999,992 bytes on average, the limit is 64 MiB" in outcome
    assert peak < 400


def test_a_parquet_dictionary_beyond_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    entries = ["x" * (30 * MEGABYTE) + str(number) for number in range(4)]
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3] * 10, pa.int32()), pa.array(entries))
    data = parquet(pa.table({"text": texts}), dictionary_pagesize_limit=1 << 30)
    (tmp_path / "a.parquet").write_bytes(data)
    outcome, peak = outcome_and_peak(tmp_path, "a.parquet", "parquet")
    assert "the dictionary of 'text' in row group 0 has 125,829,140 bytes, the limit is 64 MiB" in outcome
    assert peak < 400


GIANTS = {
    "a.ndjson.gz": ("ndjson", b'{"text": "', b"x", "a line after line 0 is longer than 64 MiB"),
    "a.ndjson.zst": ("ndjson", b'{"text": "', b"x", "a line after line 0 is longer than 64 MiB"),
    "b.csv.zst": ("csv", b'text\n"', b"x\n", "a record after record 0 is longer than 64 MiB"),
    "c.json.zst": ("json", b'[{"text": "', b"x", "a record after record 0 is longer than 64 MiB"),
    "d.json.zst": ("json", b"[", b"[", "a record after record 0 is longer than 64 MiB"),
}


@pytest.mark.parametrize("name", chosen(list(GIANTS), "a.ndjson.zst", "b.csv.zst", "d.json.zst"))
def test_a_record_that_never_ends_is_refused_at_the_limit(tmp_path: Path, name: str) -> None:
    """300 MiB of one record: a text, a quote that is not closed, brackets."""
    format, first, more, said = GIANTS[name]
    content = first + more * (300 * MEGABYTE // len(more))
    packed = zstandard.compress(content) if name.endswith(".zst") else gzip.compress(content, 1)
    (tmp_path / name).write_bytes(packed)
    del content
    outcome, peak = outcome_and_peak(tmp_path, name, format)
    assert outcome == said
    assert peak < 1500
