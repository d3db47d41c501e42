"""What the DataFrame lane hands to a commit: rows that Spark itself writes while it commits.

The protocol around it is the same as for files: the document first, a fresh look at the position before, and the log
alone says afterwards what happened. Nothing here knows Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.state.table import CommitNote


class Frame(Protocol):
    """Rows that wait to be written."""

    def write(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        """Append the rows, possibly none, in one Delta commit that carries ``note``.

        ``table`` has the columns of the table, None where there is none yet: then it is created. With ``new_columns``
        those that it lacks are added in the same commit. An exception tells nothing about whether the commit is
        durable; ``RowsRefused`` says that if it is not, another try would end the same way.
        """
