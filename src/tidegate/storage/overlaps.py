"""Which places lie in which others, however their addresses are written: alias of the scheme, percent signs, links."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from tidegate.errors import StorageError
from tidegate.specs import PathSource, ProjectSpec
from tidegate.storage.options import split_uri


def comparable(uri: str) -> str:
    """A text that is the same for all addresses of one place; local ones without links in them.

    >>> comparable("S3A://lake/raw%20files/"), comparable("s3://lake/raw files")
    ('s3://lake/raw files', 's3://lake/raw files')
    """
    try:
        scheme, authority, path = split_uri(uri)
    except StorageError:
        return uri.rstrip("/")
    if scheme == "file":
        return f"file://{os.path.realpath(f'/{path}')}".rstrip("/")
    return "/".join((f"{scheme}://{authority}", *filter(None, path.split("/"))))


def inside(place: str, other: str) -> str | None:
    """The path from ``place`` to ``other`` (both comparable): ``""`` if they are one; None if it is not in it.

    >>> inside("s3://lake", "s3://lake/raw/x"), inside("s3://lake", "s3://lake"), inside("s3://lake", "s3://lake2")
    ('raw/x', '', None)
    """
    if place == other:
        return ""
    return other[len(place) + 1 :] if other.startswith(f"{place}/") else None


def tables_of(project: ProjectSpec) -> tuple[str, ...]:
    """The addresses that the pipelines of a project write: tables and dead letters."""
    return tuple(uri for pipeline in project.pipelines for uri in (pipeline.sink.table.uri, pipeline.dead_letters.uri))


def kept_apart(source: PathSource, tables: Iterable[str]) -> PathSource:
    """The source, whose listings leave the tables alone that lie in it.

    Where links are followed also those that lie elsewhere on this machine: a link may lead there.
    """
    place = comparable(source.location.uri)
    found = dict.fromkeys(source.apart)
    for table in map(comparable, tables):
        path = inside(place, table)
        if path:
            found[path] = None
        if source.follow_links and table.startswith("file://") and path != "":
            found[table.removeprefix("file://")] = None
    return replace(source, apart=tuple(found))
