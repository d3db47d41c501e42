"""Files of a folder or of object storage by an address with variables, in whose parts ``*`` and ``?`` may stand.

They are read where they lie, as they were listed: one that changed since then is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from tidegate.errors import ObjectMissing, SourceError, SourceMissing
from tidegate.locations import Location
from tidegate.planning.globs import compiled
from tidegate.planning.plan import FileSlice
from tidegate.sources.files.everything import refuse_left_out
from tidegate.sources.units.fetched import FetchedFile
from tidegate.sources.units.variables import Variables, names_in
from tidegate.specs import Compression
from tidegate.storage.opening import open_store
from tidegate.storage.options import split_uri
from tidegate.storage.paths import below
from tidegate.storage.port import ObjectInfo, ObjectStore
from tidegate.storage.scope import Scope

_WILD = re.compile(r"[*?]")
_SPECIAL = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Address:
    """A folder without wildcards, and below it one pattern per level, of which the last is that of files.

    ``root`` is the part of the address that is the same for all work units.
    """

    root: Location
    folder: Location
    levels: tuple[str, ...]
    shown: str

    @property
    def is_literal(self) -> bool:
        """Whether it names exactly one file."""
        return len(self.levels) == 1 and not _WILD.search(_unclassed(self.levels[0]))


def address_of(template: Location, variables: Variables) -> Address:
    """The address of one segment. Wildcards are those of the template: in a value they stand for themselves."""
    scheme, authority, path = split_uri(template.uri.replace("?", "%3F").replace("#", "%23"))
    if any(names_in(authority)):
        raise SourceError(f"{template.uri}: variables belong behind the bucket", "give each bucket a source of its own")
    shown = variables.filled(path)
    pattern = variables.filled(re.sub(r"\[", "[[]", path), lambda value: _SPECIAL.sub(r"[\g<0>]", value))
    levels = pattern.split("/")
    if {"", ".", ".."} & set(levels):
        raise SourceError(
            f"{scheme}://{authority}/{shown}: a value makes an empty part, '.' or '..' of the address",
            "leave such units out by a filter",
        )
    first = next((place for place, each in enumerate(levels) if _WILD.search(_unclassed(each))), len(levels) - 1)
    fixed = re.split(r"\{\{|[*?]", path)[0].rpartition("/")[0]
    folder = "/".join(_unclassed(each, plain=True) for each in levels[:first])
    root, place = (
        Location(f"{scheme}://{authority}/{quote(each)}".rstrip("/"), template.options) for each in (fixed, folder)
    )
    return Address(root, place, tuple(levels[first:]), f"{scheme}://{authority}/{shown}")


def listed(address: Address, segment: int, compression: str, *, follow_links: bool = False) -> tuple[FetchedFile, ...]:
    """The files at an address, by name; raises :class:`SourceMissing` where there are none.

    A folder of all work units that is not there, as a disk that is not mounted, says nothing about any of them. A
    work unit is read as a whole: a link that is not followed, or a name that cannot be used, is an error.
    """
    scope = Scope()
    store = open_store(address.folder)
    if follow_links:
        found = _once(address, sorted(_found(store, address, None), key=lambda each: each.path))
    else:
        found = sorted(_found(store, address, scope), key=lambda each: each.path) if _is_reached(address, scope) else []
    refuse_left_out(scope, address.shown, "set follow_links: true, or put the files themselves there")
    if not found and not open_store(address.root).exists():
        raise SourceError(f"{address.root.uri} is not there", "check source_uri, and whether the folder is mounted")
    if not found:
        raise SourceMissing(f"{address.shown}: there is no such file", "check the address; it may not be there yet")
    return tuple(
        FetchedFile(
            segment,
            f"{address.folder.uri}/{each.path}",
            address.folder,
            FileSlice(each.path, each.size, each.etag),
            Compression(compression),
            is_scratch=False,
        )
        for each in found
    )


def _is_reached(address: Address, scope: Scope) -> bool:
    """Whether no link leads from the part of the address that all work units have to the folder, or to the file."""
    (scheme, _, root), (_, _, folder) = split_uri(address.root.uri), split_uri(address.folder.uri)
    path = folder[len(root) :].strip("/")
    if address.is_literal:
        path = below(path, _unclassed(address.levels[-1], plain=True))
    return scheme != "file" or scope.reaches(f"/{root}", path)


def _once(address: Address, found: list[ObjectInfo]) -> list[ObjectInfo]:
    """Each real file of a work unit under one name: its own, if that is among them."""
    scheme, _, folder = split_uri(address.folder.uri)
    if scheme != "file":
        return found
    names: dict[str, ObjectInfo] = {}
    for each in found:
        path = f"/{folder}/{each.path}"
        real = os.path.realpath(path)
        if real == path or real not in names:
            names[real] = each
    return sorted(names.values(), key=lambda each: each.path)


def _found(store: ObjectStore, address: Address, scope: Scope | None) -> Iterator[ObjectInfo]:
    *folders, last = address.levels
    if address.is_literal:
        try:
            yield store.head(_unclassed(last, plain=True))
        except ObjectMissing:
            return
        return
    prefixes = [""]
    for level in folders:
        prefixes = [
            below_it
            for prefix in prefixes
            for below_it in store.list_directory(prefix, scope=scope).directories
            if _fits(level, below_it)
        ]
    for prefix in prefixes:
        yield from (each for each in store.list_directory(prefix, scope=scope).objects if _fits(last, each.path))


def _fits(pattern: str, path: str) -> bool:
    return compiled(pattern).fullmatch(path.rpartition("/")[2]) is not None


def _unclassed(pattern: str, *, plain: bool = False) -> str:
    """A pattern without signs that stand for themselves or, ``plain``, with them as they are."""
    return re.sub(r"\[(.)\]", r"\1" if plain else "", pattern)
