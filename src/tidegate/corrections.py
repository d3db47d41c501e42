"""What the commands that correct a position or its rows give back: moved watermarks and replayed files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidegate.reports import Report


@dataclass(frozen=True, slots=True)
class FileSet(Report):
    """Some source files: how many, how large together, and up to three of them."""

    files: int = 0
    bytes: int = 0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WatermarkMove(Report):
    """A watermark set or forgotten by a person, and what that means for the files that are there.

    ``partition`` is None when the whole source is meant, ``before`` and ``after`` are None where there is no
    watermark. ``read_again`` are finished files that the next run would read once more, so that their rows are
    doubled unless they were not in the table; ``never_read`` were to be read and are passed over. ``letters`` are the
    open dead letters of files that are read from their start again, which the move answers. ``version`` is the
    position after the commit if ``applied``, else the one that was looked at. ``tracking`` is ``columns`` where the
    source is followed by columns: then there is no partition, and the notes say what becomes of rows.
    """

    pipeline: str
    source: str
    action: str
    partition: str | None
    before: str | None
    after: str | None
    read_again: FileSet
    never_read: FileSet
    notes: tuple[str, ...]
    version: int
    table_version: int
    applied: bool = False
    letters: int = 0
    tracking: Literal["files", "columns"] = "files"


@dataclass(frozen=True, slots=True)
class ReplayReport(Report):
    """Files whose rows were replaced, or would be.

    ``rows_removed`` are the rows of ``replayed`` (and, with ``drop_missing``, of ``missing``) in the table,
    ``rows_written`` those that took their place: None unless ``applied``. ``left_to_run`` are files that are not
    finished, ``missing`` are in the table and no longer in the source.
    """

    pipeline: str
    source: str
    table_uri: str
    selected: str
    replayed: FileSet
    left_to_run: FileSet
    missing: FileSet
    drop_missing: bool
    rows_removed: int
    rows_written: int | None
    notes: tuple[str, ...]
    version: int
    table_version: int
    applied: bool = False
    seconds: float = 0.0
