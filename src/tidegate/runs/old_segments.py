"""Parts of a set of paths that nothing refers to any more: merged into larger ones long ago, or left by a dead run.

Whatever a recovery may go back to keeps its parts: every state document that is still there, winner or not, the
mirror, and the states inside the newest entries of the log. A part is never written twice under one name, so once
nothing refers to it, nothing will.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.errors import StateError
from tidegate.runs.place import Place
from tidegate.state import documents
from tidegate.state.mirror import read_mirror
from tidegate.storage.port import ObjectInfo

KIND = "path-set"


def segments_of(place: Place) -> Iterator[ObjectInfo]:
    """The parts of a source's set that are there; nothing where it is tracked otherwise."""
    if place.tracker.kind == KIND:
        folder = place.key.segment("").rpartition("/")[0]
        yield from (info for info in place.table_store.list(folder) if info.path.endswith(".parquet"))


def referred_to(place: Place) -> Iterator[str]:
    """The paths of the parts that something refers to; all that are there where that cannot be told."""
    unexplained = {info.path for info in segments_of(place)}
    try:
        for state in _states(place) if unexplained else ():
            found = {place.key.segment(segment) for segment in _segments(state)}
            yield from found
            unexplained -= found
            if not unexplained:
                return
    except StateError:
        yield from unexplained


def _states(place: Place) -> Iterator[Mapping[str, Any]]:
    store, key, site = place.table_store, place.key, place.positions.site
    shown = read_mirror(store, key)
    if shown is not None:
        yield shown.state
    for name in documents.names(store, key):
        if name.ending == "json":
            stored = documents.read(store, key, name.version, name.attempt)
            if stored is not None and stored.document is None:
                raise StateError(f"document {name.version} of {key} is damaged", "see `tidegate recover`")
            if stored is not None and stored.document is not None:
                yield stored.document.state
    newest = site.log.versions()[-1:]
    for entry in site.log.backwards(newest[0], site.search_commits) if newest else ():
        mark = entry.mark_of(key)
        if mark is not None:
            yield mark.state()


def _segments(state: Mapping[str, Any]) -> Iterator[str]:
    match state.get("set"):
        case {"segments": list(segments)}:
            yield from (str(each["sha256"]) for each in segments)
        case _:
            return
