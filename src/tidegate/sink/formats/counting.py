"""Going on in a file that was read in part."""

from __future__ import annotations

from tidegate.errors import SourceError
from tidegate.planning.plan import FileSlice


def check_start(each: FileSlice, records: int) -> None:
    """Raise :class:`SourceError` when a file has fewer records than are committed of it."""
    if records < each.start_record:
        raise SourceError(
            f"{each.path}: has {records} records, but {each.start_record} of its records are committed",
            "the file was cut after it was read; restore it",
        )
