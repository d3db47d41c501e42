"""Which files were read, from the documents alone: what a lost part of a set is rebuilt from.

Every document says what its commit covered and names the one before it by hash, so the chain that leads to a
position holds each finished file once. A link that is missing or damaged stops: half a set would read files again.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.errors import StateError
from tidegate.state import documents
from tidegate.state.opened import Opened
from tidegate.state.site import Site
from tidegate.watermarks.paths import SourceFile


def finished_files(site: Site, opened: Opened) -> Iterator[SourceFile]:
    """Every file that some commit up to this position read to its end, newest commit first."""
    link = opened.parent
    while link is not None:
        stored = documents.read(site.store, site.key, link.version, link.attempt)
        if stored is None or stored.document is None or stored.sha256 != link.sha256:
            how = "missing" if stored is None else "damaged"
            raise StateError(
                f"{site.key}: what was read cannot be told from the documents: "
                f"{site.uri}/{site.key.document(link.version, link.attempt)} is {how}; nothing was written",
                "put it back from a backup, or write into a new table_uri to read everything anew",
            )
        for each in stored.document.coverage:
            if each.eof:
                yield SourceFile(each.file, each.size, each.etag)
        link = stored.document.parent
