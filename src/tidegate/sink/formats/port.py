"""What a walk asks of a format: blocks of decoded rows out of an open file, and out of dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Protocol

from tidegate.planning.plan import FileSlice
from tidegate.sink.decoder import Decoded


class FileFormat(Protocol):
    """Reads files of one format into the declared columns, in bounded memory.

    ``unknown`` counts what the files have and the schema has not, by path. ``noun`` is what a record is called.
    ``seeks`` says that files must be opened so that they can be read from anywhere.
    """

    noun: str
    seeks: bool

    @property
    def unknown(self) -> Counter[str]: ...

    def decoded(self, raw: BinaryIO, each: FileSlice) -> Iterator[Decoded]:
        """The records from ``each.start_record`` on; raises ``SourceError`` for a file that cannot be read on."""

    def reread(self, contents: Sequence[bytes], path: str) -> Decoded:
        """The records that dead letters of the file at ``path`` keep: content ``n`` is record ``n``."""
