"""Opens the store of a location, and compares locations.

A URI is a URL: its path is percent-encoded (``%20`` is a space, ``%23`` is ``#``). A bare path is the path on disk,
relative to the file that names it.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidegate.errors import StorageError
from tidegate.specs.files import PathSource
from tidegate.specs.locations import Location
from tidegate.specs.project import ProjectSpec
from tidegate.storage.local import LocalStore
from tidegate.storage.memory import MemoryStore, space
from tidegate.storage.options import (
    FAMILIES,
    check_endpoints,
    client_settings,
    of_scheme,
    retries,
    split_uri,
    unknown_option,
)
from tidegate.storage.port import ObjectStore

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client


def open_store(location: Location) -> ObjectStore:
    """The store at ``location``; creates clients, sends nothing yet."""
    scheme, authority, path = split_uri(location.uri)
    match scheme:
        case "file":
            return LocalStore(location, f"/{path}")
        case "memory":
            return MemoryStore(location, space(authority), path)
        case _:
            return _remote(location, scheme)


def remove_empty_directories(location: Location) -> None:
    """Remove empty local directories at and below ``location``; object stores have none."""
    scheme, _, path = split_uri(location.uri)
    if scheme != "file":
        return
    for directory, _, _ in os.walk(f"/{path}", topdown=False):
        # One that is not empty, or already gone, is as it should be.
        with suppress(OSError):
            os.rmdir(directory)


_CLIENTS = 128
"""How many clients a process keeps: a worker has those of the sources and tables that it read and wrote last."""


def _remote(location: Location, scheme: str) -> ObjectStore:
    from obstore.exceptions import BaseError, UnknownConfigurationKeyError

    from tidegate.storage.remote import RemoteStore

    config = of_scheme(location.options, scheme)
    check_endpoints(config)
    try:
        # A client does not survive a fork, and reads settings from the environment too.
        client = _client(location, os.getpid(), frozenset(os.environ.items()))
    except UnknownConfigurationKeyError as error:
        raise unknown_option(location.uri, scheme, config, error) from None
    except (BaseError, ValueError) as error:
        prefixes = tuple(map(str.upper, FAMILIES[scheme]))
        names = dict.fromkeys(
            (*map(str.upper, config), *sorted(each for each in os.environ if each.startswith(prefixes)))
        )
        raise StorageError(
            f"{location.uri}: cannot create a {scheme}:// client from the storage options and the environment "
            f"({type(error).__name__})",
            f"check the values of {', '.join(names) or 'the environment variables'}",
        ) from None
    return RemoteStore(location, client)


# To make one takes 5 ms, since it loads all certificates, and its first request a new connection; small files are read
# in less.
@lru_cache(_CLIENTS)
def _client(location: Location, process: int, environment: frozenset[tuple[str, str]]) -> Client:
    """The client of ``location``; the same one in the same process and environment."""
    from obstore.store import AzureStore, GCSStore, S3Store

    scheme, bucket, path = split_uri(location.uri)
    config = of_scheme(location.options, scheme)
    settings: dict[str, Any] = {  # the client itself checks the names in ``config``
        "config": config,
        "prefix": path or None,
        "client_options": client_settings(location.options, scheme),
        "retry_config": retries(location.options),
    }
    match scheme:
        case "s3":
            return S3Store(bucket, **settings)
        case "gs":
            return GCSStore(bucket, **settings)
        case _:
            # `abfss://container@account.dfs.core.windows.net` names the account; other forms leave it to the options.
            container, _, host = bucket.partition("@")
            account = {"azure_storage_account_name": host.partition(".")[0]} if host else {}
            return AzureStore(container, **settings | {"config": account | config})


def comparable_uri(uri: str) -> str:
    """A normalised address, equal for all spellings of one place; local links are resolved.

    >>> comparable_uri("S3A://lake/raw%20files/"), comparable_uri("s3://lake/raw files")
    ('s3://lake/raw files', 's3://lake/raw files')
    """
    try:
        scheme, authority, path = split_uri(uri)
    except StorageError:
        return uri.rstrip("/")
    if scheme == "file":
        # By another spelling, or through a link, a source could read the table that it writes.
        return f"file://{os.path.realpath(f'/{path}')}".rstrip("/")
    return "/".join((f"{scheme}://{authority}", *filter(None, path.split("/"))))


def path_inside(place: str, other: str) -> str | None:
    """The path from ``place`` to ``other`` (both comparable): ``""`` if they are equal; None if it is not inside.

    >>> path_inside("s3://lake", "s3://lake/raw/x"), path_inside("s3://lake", "s3://lake"), path_inside("s3://lake", "s3://lake2")
    ('raw/x', '', None)
    """
    if place == other:
        return ""
    return other[len(place) + 1 :] if other.startswith(f"{place}/") else None


class TablePlaces:
    """The comparable addresses that the pipelines of a project write: tables and dead letters, resolved once."""

    def __init__(self, uris: Iterable[str]) -> None:
        self._places = sorted(set(map(comparable_uri, uris)))

    @classmethod
    def of(cls, project: ProjectSpec) -> TablePlaces:
        # Copied first: another thread may put its own project there meanwhile.
        for known, places in tuple(_newest):
            if known is project:
                return places
        sinks = ((pipeline.sink.table.uri, pipeline.dead_letters.uri) for pipeline in project.pipelines)
        places = cls(uri for uris in sinks for uri in uris)
        _newest[:] = [(project, places)]
        return places

    def paths_inside(self, place: str) -> Iterator[str]:
        """The paths from ``place`` to the tables inside it."""
        for at in range(bisect_left(self._places, f"{place}/"), len(self._places)):
            path = path_inside(place, self._places[at])
            if path is None:
                return
            yield path

    def local_tables_elsewhere(self, place: str) -> Iterator[str]:
        """The local tables other than ``place``, as paths of the system."""
        return (each.removeprefix("file://") for each in self._places if each.startswith("file://") and each != place)


_newest: list[tuple[ProjectSpec, TablePlaces]] = []
"""The last project, and its table places."""


def keep_apart(source: PathSource, tables: TablePlaces) -> PathSource:
    """The source with ``apart`` set, so that listings skip the tables that lie in it.

    If links are followed, also tables elsewhere on this machine: a link may lead there.
    """
    place = comparable_uri(source.location.uri)
    found = [
        *source.apart,
        *tables.paths_inside(place),
        *(tables.local_tables_elsewhere(place) if source.follow_links else ()),
    ]
    return replace(source, apart=tuple(dict.fromkeys(found)))
