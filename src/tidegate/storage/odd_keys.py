"""Buckets with keys that the object store client cannot represent: listed by another client, key by key.

One such key (with a line break or another control character, an empty part, ``.`` or ``..``) makes the first client
fail the whole page that holds it. S3 only: the other client has to speak the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.storage.options import of_scheme
from tidegate.storage.paths import why_not

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyarrow.fs import S3FileSystem

    from tidegate.specs import Location


def keys_below(location: Location, prefix: str, *, deep: bool) -> tuple[list[str], list[str]]:
    """The directories and the objects in ``prefix``, or everything below it, with keys as they are, ascending.

    ``OSError`` where this client gets no answer.
    """
    from pyarrow.fs import FileSelector, FileType

    from tidegate.storage.options import split_uri

    _, bucket, path = split_uri(location.uri)
    root = "/".join(filter(None, (bucket, path)))
    base = "/".join(filter(None, (root, prefix)))
    found = _client(location).get_file_info(FileSelector(base, allow_not_found=True, recursive=deep))
    names = [(info.path[len(root) + 1 :], info.type is FileType.Directory) for info in found]
    return _sorted(name for name, is_directory in names if is_directory), _sorted(
        name for name, is_directory in names if not is_directory
    )


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name})


def is_odd(key: str) -> bool:
    """Whether the object store client refuses ``key``."""
    return why_not(key) is not None or any(ord(char) < 0x20 or ord(char) == 0x7F for char in key)


def _client(location: Location) -> S3FileSystem:
    from pyarrow.fs import S3FileSystem

    given = of_scheme(location.options, "s3")
    scheme, _, host = (given.get("aws_endpoint_url") or given.get("aws_endpoint") or "").rpartition("://")
    return S3FileSystem(
        access_key=given.get("aws_access_key_id"),
        secret_key=given.get("aws_secret_access_key"),
        session_token=given.get("aws_session_token") or given.get("aws_token"),
        anonymous=given.get("aws_skip_signature", "").lower() in ("true", "1"),
        region=given.get("aws_region") or given.get("aws_default_region"),
        scheme=scheme or None,
        endpoint_override=host.rstrip("/") or None,
    )
