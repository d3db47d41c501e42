"""Formats whose files become lines of JSON: an object per line, and one array per file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from tidegate.planning.plan import FileSlice
from tidegate.sink.decoder import Decoded, Decoder
from tidegate.sink.decompression import chunks
from tidegate.sink.formats.json_array import element_lines
from tidegate.sink.lines import blocks, skip, without_mark
from tidegate.specs import Compression, Format


class LineFormat:
    """Files as blocks of lines, which may be decoded together with those of other files."""

    seeks = False

    def __init__(self, decoder: Decoder, format: Format, compression: Compression) -> None:
        self._decoder = decoder
        self._is_array = format is Format.JSON
        self._compression = compression
        self.noun = "record" if self._is_array else "line"

    @property
    def unknown(self) -> Counter[str]:
        """Fields that the schema does not have, with how often they had a value."""
        return self._decoder.unknown

    def blocks(self, raw: BinaryIO, each: FileSlice) -> Iterator[bytes]:
        """The lines of a file that are not committed yet."""
        plain = chunks(raw, each.path, self._compression)
        whole = blocks(element_lines(without_mark(plain), each.path) if self._is_array else plain)
        return skip(whole, each.start_record, each.path) if each.start_record else whole

    def decode(self, block: bytes) -> Decoded:
        """The records of a block of lines."""
        return self._decoder.decode(block)

    def decoded(self, raw: BinaryIO, each: FileSlice) -> Iterator[Decoded]:
        """The records from ``each.start_record`` on."""
        return map(self._decoder.decode, self.blocks(raw, each))

    def reread(self, contents: Sequence[bytes], path: str) -> Decoded:
        """The records that dead letters keep, a line each."""
        return self._decoder.decode(b"".join(content + b"\n" for content in contents))
