"""Lakes as fixtures: packed with nothing of the machine that made them, unpacked as if they had always been here.

A state records where its source lies and the etags of local files, and documents, notes and the log record hashes of
each other. So a lake is *moved*: places and etags are replaced in every text, ledger block and part of a path set, and
the hashes of what changed are replaced wherever they stand, from the oldest document to the newest. Packing moves a
lake to ``HOME``, unpacking moves it from there to a folder of a test. Both names are of one length, because rows and
statistics in Parquet files name sources too, and are replaced byte by byte. Nothing else of any file changes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HOME = "/tmp/compat-xxxxxxxx"
API = "http://api.compat"
LONG_AGO = 1_772_000_000 * 10**9
"""When the files of a fixture were modified, in nanoseconds: nothing of it is young, today or in years."""

FIXTURES = Path(__file__).parent / "lakes"
_MANIFEST = "manifest.json"
_TEXTS = (".json", ".won", ".files")
_DOCUMENT = re.compile(r"/(\d{20})-[0-9a-f-]{36}\.json$")
_SEGMENT = re.compile(r"_set/([0-9a-f]{64})\.parquet$")
_BLOCK = re.compile(r"/ledger/\d{20}-\d{20}\.parquet$")


@contextmanager
def folder() -> Iterator[Path]:
    """A new folder whose name is as long as ``HOME``, for as long as the block."""
    root = Path(tempfile.mkdtemp(prefix="compat-", dir="/tmp"))
    assert len(str(root)) == len(HOME)
    try:
        yield root
    finally:
        shutil.rmtree(root)


def etag(path: Path) -> str:
    """What the product records of a local file beside its size."""
    found = path.stat()
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"


def files(root: Path, below: str = "") -> list[Path]:
    """Every file, in order."""
    return sorted(path for path in (root / below).rglob("*") if path.is_file())


def pack(root: Path, target: Path, api: str | None = None) -> None:
    """Write the lake in ``root`` as a fixture; ``root`` itself is moved by it and of no use any more."""
    sources = {str(path.relative_to(root)): path for path in files(root) if _is_source(root, path)}
    old = {name: etag(path) for name, path in sources.items()}
    by_age = sorted(sources, key=lambda name: (sources[name].stat().st_mtime_ns, name))
    told: dict[str, dict[str, Any]]
    told = {name: {"mtime_ns": LONG_AGO + number * 10**9} for number, name in enumerate(by_age)}
    for number, (name, about) in enumerate(told.items(), 0xC0):
        about["etag"] = f"{number:x}-{about['mtime_ns']:x}-{sources[name].stat().st_size:x}"
    words = {str(root): HOME, **({} if api is None else {api: API})}
    words |= {before: told[name]["etag"] for name, before in old.items()}
    move(root, words)
    (root / _MANIFEST).write_text(json.dumps(told, indent=1, sort_keys=True))
    left = [path for path in files(root) if str(root).encode() in path.read_bytes()]
    assert not left, f"these name the place where they were made: {left}"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in files(root):
            about = tarfile.TarInfo(str(path.relative_to(root)))
            about.size, about.mtime = path.stat().st_size, LONG_AGO // 10**9
            with path.open("rb") as content:
                archive.addfile(about, content)
    target.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))


def unpack(name: str, root: Path, api: str | None = None) -> None:
    """A fresh copy of a fixture in ``root``."""
    root.mkdir(parents=True, exist_ok=True)
    with tarfile.open(FIXTURES / f"{name}.tar.gz") as archive:
        archive.extractall(root, filter="data")
    manifest = root / _MANIFEST
    told = json.loads(manifest.read_text())
    manifest.unlink()
    words = {HOME: str(root), **({} if api is None else {API: api})}
    for path, about in told.items():
        os.utime(root / path, ns=(about["mtime_ns"], about["mtime_ns"]))
        words[about["etag"]] = etag(root / path)
    move(root, words)


def move(root: Path, words: Mapping[str, str]) -> None:
    """Replace ``words`` in everything that records them, and the hashes of whatever changed by that."""
    known = {old.encode(): new.encode() for old, new in words.items() if old != new}
    places = {old: new for old, new in known.items() if old.startswith(b"/")}
    sizes: dict[bytes, int] = {}
    for path in files(root):
        if found := _SEGMENT.search(str(path)):
            old, (sha256, size) = found[1].encode(), _moved_segment(path, known)
            known[old], sizes[sha256] = sha256, size
    state = [path for path in files(root) if not _is_source(root, path)]
    texts = [path for path in state if path.suffix in _TEXTS and not _is_log(path)]
    for path in (*sorted(texts, key=_age), *filter(_is_log, state)):
        if path.suffix in _TEXTS:
            _move_text(path, known, sizes)
    for path in state:
        if _BLOCK.search(str(path)):
            _move_block(path, known)
        elif path.suffix == ".parquet" and not _SEGMENT.search(str(path)):
            _move_rows(path, places)


def _is_source(root: Path, path: Path) -> bool:
    return path.relative_to(root).parts[0] not in ("lake", "state")


def _is_log(path: Path) -> bool:
    return path.parent.name == "_delta_log"


def _age(path: Path) -> tuple[int, str, bool]:
    """Documents from the oldest to the newest, each before its note; whatever has no position at the end."""
    name = path.name
    return (int(name[:20]) if name[:20].isdigit() else 10**20, str(path.parent), path.suffix != ".json")


def _move_text(path: Path, known: dict[bytes, bytes], sizes: Mapping[bytes, int]) -> None:
    before = path.read_bytes()
    after = _replaced(before, known)
    for sha256, size in sizes.items():
        pattern = rb'(%b\\*"(?:,\s*\\*"count\\*":\s*\d+)?,\s*\\*"size\\*":\s*)\d+' % sha256
        after = re.sub(pattern, lambda found, size=size: found[1] + str(size).encode(), after)  # type: ignore[misc]
    if after == before:
        return
    _rewrite(path, after)
    if _DOCUMENT.search(str(path)):
        known[hashlib.sha256(before).hexdigest().encode()] = hashlib.sha256(after).hexdigest().encode()


def _replaced(content: bytes, known: Mapping[bytes, bytes]) -> bytes:
    for old, new in known.items():
        content = content.replace(old, new)
    return content


def _moved_segment(path: Path, known: Mapping[bytes, bytes]) -> tuple[bytes, int]:
    table = pq.read_table(path)
    column = pa.array([_text(each, known) for each in table["etag"].to_pylist()], pa.string())
    table = table.set_column(table.schema.get_field_index("etag"), table.schema.field("etag"), column)
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", use_dictionary=False)
    sha256 = hashlib.sha256(sink.getvalue()).hexdigest()
    mtime = path.stat().st_mtime_ns
    path.unlink()
    target = path.with_name(f"{sha256}.parquet")
    target.write_bytes(sink.getvalue())
    os.utime(target, ns=(mtime, mtime))
    return sha256.encode(), len(sink.getvalue())


def _move_block(path: Path, known: Mapping[bytes, bytes]) -> None:
    table = pq.read_table(path)
    for name in ("etag", "sha256", "parent_sha256"):
        column = pa.array([_text(each, known) for each in table[name].to_pylist()], pa.string())
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    _rewrite(path, sink.getvalue())


def _move_rows(path: Path, places: Mapping[bytes, bytes]) -> None:
    before = path.read_bytes()
    after = _replaced(before, places)
    if after != before:
        _rewrite(path, after)


def _text(value: str | None, known: Mapping[bytes, bytes]) -> str | None:
    return None if value is None else known.get(value.encode(), value.encode()).decode()


def _rewrite(path: Path, content: bytes) -> None:
    """New content at the same time; the checksum that Spark keeps of a local file goes."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    mtime = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(mtime, mtime))


def names() -> Iterator[str]:
    """The fixtures there are."""
    yield from sorted(path.name.removesuffix(".tar.gz") for path in FIXTURES.glob("*.tar.gz"))
