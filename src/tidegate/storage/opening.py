"""From a location to a store, and from what people write to a location's URI.

A URI is a URL: its path is percent-encoded where it must be (``%20`` is a space, ``%23`` is ``#``). A bare
path is the path as it is on disk, relative to the file it was written in.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from tidegate.errors import StorageError
from tidegate.specs import Location
from tidegate.storage.local import LocalStore
from tidegate.storage.memory import MemoryStore, space
from tidegate.storage.options import client_settings, of_scheme, retries, split_uri, unknown
from tidegate.storage.port import ObjectStore

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client


def open_store(location: Location) -> ObjectStore:
    """The store at ``location``; makes clients, sends nothing yet."""
    scheme, authority, path = split_uri(location.uri)
    match scheme:
        case "file":
            return LocalStore(location, f"/{path}")
        case "memory":
            return MemoryStore(location, space(authority), path)
        case _:
            return _remote(location, scheme, authority, path)


def remove_empty_directories(location: Location) -> None:
    """Take away the local directories at and below ``location`` that hold nothing; object stores have none."""
    scheme, _, path = split_uri(location.uri)
    if scheme != "file":
        return
    for directory, _, _ in os.walk(f"/{path}", topdown=False):
        with suppress(OSError):
            os.rmdir(directory)


def _remote(location: Location, scheme: str, authority: str, path: str) -> ObjectStore:
    from obstore.exceptions import BaseError, UnknownConfigurationKeyError

    from tidegate.storage.remote import RemoteStore

    config = of_scheme(location.options, scheme)
    try:
        client = _client(location, scheme, authority, path, config)
    except UnknownConfigurationKeyError as error:
        raise unknown(location.uri, scheme, config, error) from None
    except (BaseError, ValueError) as error:
        raise StorageError(
            f"{location.uri}: the storage options make no {scheme}:// client ({type(error).__name__})",
            f"check the values of {', '.join(map(str.upper, config)) or 'the environment variables'}",
        ) from None
    return RemoteStore(location, client)


def _client(location: Location, scheme: str, bucket: str, path: str, config: dict[str, str]) -> Client:
    from obstore.store import AzureStore, GCSStore, S3Store

    http, again = client_settings(location.options), retries(location.options)
    prefix = path or None
    match scheme:
        case "s3":
            return S3Store(
                bucket,
                prefix=prefix,
                config=config,  # type: ignore[arg-type]  # names are checked by the client itself
                client_options=http,
                retry_config=again,
            )
        case "gs":
            return GCSStore(
                bucket,
                prefix=prefix,
                config=config,  # type: ignore[arg-type]  # names are checked by the client itself
                client_options=http,
                retry_config=again,
            )
        case _:
            container, _, host = bucket.partition("@")
            account = {"azure_storage_account_name": host.partition(".")[0]} if host else {}
            return AzureStore(
                container,
                prefix=prefix,
                config={**account, **config},  # type: ignore[arg-type]  # names are checked by the client itself
                client_options=http,
                retry_config=again,
            )
