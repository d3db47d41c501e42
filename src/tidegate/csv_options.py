"""How CSV files are written, as plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How CSV files are written; without a ``delimiter`` it is a comma, and a tab in ``.tsv`` files.

    Without an ``escape`` a quote inside quotes is doubled. ``columns`` name the cells of files without a header. An
    unquoted cell that is one of ``null_values`` is null. ``skip_rows`` lines before the header are passed over.
    """

    delimiter: str | None = None
    quote: str | None = '"'
    escape: str | None = None
    header: bool = True
    columns: tuple[str, ...] = ()
    null_values: tuple[str, ...] = ("",)
    skip_rows: int = 0
