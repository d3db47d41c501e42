"""Streams of plain bytes out of compressed files, and every way a file can be broken."""

from __future__ import annotations

import gzip
import io
import os

import pytest
import zstandard

from support.errors import raises
from tidegate.errors import ObjectChanged, SourceError
from tidegate.formats.port import LARGEST_PIECE, chunks, compression_of
from tidegate.specs.files import Compression

TEXT = b"".join(b'{"id":%d,"v":"%x"}\n' % (number, number * 7919) for number in range(50_000))
GZIP = gzip.compress(TEXT)
ZSTD = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)


def plain(data: bytes, path: str, declared: Compression = Compression.AUTO) -> bytes:
    return b"".join(chunks(io.BytesIO(data), path, declared))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b.ndjson.gz", Compression.GZIP),
        ("a/b.NDJSON.GZ", Compression.GZIP),
        ("a/b.zst", Compression.ZSTD),
        ("a/b.json", Compression.NONE),
        ("a.gz/b", Compression.NONE),
    ],
)
def test_auto_goes_by_the_ending(path: str, expected: Compression) -> None:
    assert compression_of(path, Compression.AUTO) is expected
    assert compression_of(path, Compression.ZSTD) is Compression.ZSTD


@pytest.mark.parametrize(
    ("data", "path", "content"),
    [
        (TEXT, "a.ndjson", TEXT),
        (GZIP, "a.gz", TEXT),
        (GZIP + GZIP, "a.gz", TEXT + TEXT),
        (GZIP + bytes(512), "a.gz", TEXT),
        (GZIP + bytes(512) + GZIP, "a.gz", TEXT + TEXT),
        (gzip.compress(b""), "a.gz", b""),
        (ZSTD, "a.zst", TEXT),
        (ZSTD + ZSTD, "a.zst", TEXT + TEXT),
        (b"", "a.ndjson", b""),
    ],
)
def test_whole_files_give_their_content(data: bytes, path: str, content: bytes) -> None:
    assert plain(data, path) == content


@pytest.mark.parametrize("cut", [1, 4, 8, 9, 1000, len(GZIP) - 12])
def test_a_truncated_gzip_file_is_refused(cut: int) -> None:
    with raises(SourceError, "a.gz", "gzip data", "truncated"):
        plain(GZIP[:-cut], "a.gz")


@pytest.mark.parametrize("cut", [1, 4, 100, len(ZSTD) - 5])
def test_a_truncated_zstd_file_is_refused(cut: int) -> None:
    with raises(SourceError, "a.zst", "zstd data", "truncated"):
        plain(ZSTD[:-cut], "a.zst")


def test_a_second_member_that_is_cut_off_is_refused() -> None:
    with raises(SourceError, "a.gz", "truncated"):
        plain(GZIP + GZIP[:-100], "a.gz")


@pytest.mark.parametrize("data", [GZIP + b"garbage behind the last member", GZIP + b"xx", ZSTD + b"garbage"])
def test_garbage_behind_the_end_is_refused(data: bytes) -> None:
    with pytest.raises(SourceError):
        plain(data, "a.gz" if data.startswith(GZIP) else "a.zst")


@pytest.mark.parametrize(("whole", "path"), [(GZIP, "a.gz"), (ZSTD, "a.zst")])
@pytest.mark.parametrize("position", [0.2, 0.5, 0.9])
def test_a_flipped_byte_never_gives_other_content(whole: bytes, path: str, position: float) -> None:
    at = int(len(whole) * position)
    damaged = whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
    with raises(SourceError, path):
        plain(damaged, path)


@pytest.mark.parametrize(
    ("data", "path", "declared", "words"),
    [
        (TEXT, "a.gz", Compression.AUTO, "gzip … ending … plain text … `compression`"),
        (ZSTD, "a.gz", Compression.AUTO, "gzip … zstd data"),
        (TEXT, "a.ndjson", Compression.GZIP, "gzip … configured … plain text … `compression`"),
        (GZIP, "a.ndjson", Compression.AUTO, "not compressed … ending … gzip data"),
        (GZIP, "a.gz", Compression.NONE, "not compressed … configured … gzip data"),
        (GZIP, "a.gz", Compression.ZSTD, "zstd … configured … gzip data"),
        (b"", "a.gz", Compression.AUTO, "gzip … empty"),
    ],
)
def test_another_compression_than_declared_is_named(data: bytes, path: str, declared: Compression, words: str) -> None:
    with raises(SourceError, words):
        plain(data, path, declared)


@pytest.mark.slow
def test_memory_stays_bounded_while_a_highly_compressed_file_is_read() -> None:
    pieces = chunks(io.BytesIO(gzip.compress(bytes(300 * 1024 * 1024))), "zeros.gz", Compression.AUTO)
    assert max(len(piece) for piece in pieces) <= LARGEST_PIECE


def zstd_of_repeats(blocks: int, window: int = 0x38) -> bytes:
    """A frame whose blocks of four bytes each stand for 128 KiB of the same byte; the window byte says 128 KiB."""
    block = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"x"
    last = (0 << 3 | 0 << 1 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd" + bytes([0x00, window]) + block * blocks + last


def test_a_few_bytes_of_zstd_are_never_hundreds_of_megabytes_at_once() -> None:
    bomb = zstd_of_repeats(4000)
    assert len(bomb) < 17_000
    sizes = [len(piece) for piece in chunks(io.BytesIO(bomb), "bomb.zst", Compression.AUTO)]
    assert sum(sizes) == 4000 * 128 * 1024
    assert max(sizes) <= LARGEST_PIECE


def test_a_zstd_frame_that_wants_more_memory_than_the_limit_is_refused() -> None:
    with raises(SourceError, "bomb.zst", "zstd", "128 MiB"):
        plain(zstd_of_repeats(1, window=0xA0), "bomb.zst")


def test_what_a_zstd_file_says_is_to_be_skipped_is_skipped() -> None:
    skippable = b"\x50\x2a\x4d\x18" + (3_000).to_bytes(4, "little") + bytes(3_000)
    assert plain(ZSTD + skippable + ZSTD + skippable, "a.zst") == TEXT + TEXT


class ChangesUnderway(io.RawIOBase):
    """A stream that is replaced after its first bytes."""

    def __init__(self) -> None:
        self._rest = io.BytesIO(gzip.compress(os.urandom(1_000_000)))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._rest.tell() > 400_000:
            raise ObjectChanged("a.gz: its etag differs")
        return self._rest.readinto(buffer)


def test_a_change_noticed_by_the_store_passes_through() -> None:
    with pytest.raises(ObjectChanged):
        list(chunks(ChangesUnderway(), "a.gz", Compression.AUTO))  # type: ignore[arg-type]
