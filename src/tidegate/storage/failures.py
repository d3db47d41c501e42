"""Foreign errors become Tidegate's, once, here: from the operating system and from the object store client.

The text of a foreign error never reaches ours (it can hold signed addresses and header values): only status
numbers and error codes are taken from it.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from tidegate.errors import AccessDenied, ObjectChanged, ObjectExists, ObjectMissing, StorageError, StorageUnavailable
from tidegate.specs.masking import Mask
from tidegate.storage.options import FAMILIES, plain_scheme

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_PASSING = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.EINTR, errno.EBUSY}
_RETRY_CODES = {
    "SlowDown",
    "RequestTimeout",
    "InternalError",
    "ServiceUnavailable",
    "ServerBusy",
    "Throttling",
}
_CONTRADICTIONS = ("AlreadyExistsError", "PreconditionError")
"""Refusals of a condition that was not made."""

_WRITING = "write"
"""How actions begin for which nothing needs to be there, so that nothing can be missing."""

_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9.]+)</Code>")
_BAD_KEY = re.compile(r'Error parsing Path "(.*?)": |Path "(.*?)" contained', re.DOTALL)


def missing(uri: str) -> ObjectMissing:
    """There is nothing at ``uri``."""
    return ObjectMissing(f"{uri} does not exist", "check the path, and whether something deletes files there")


def changed(uri: str, detail: str) -> ObjectChanged:
    """What is at ``uri`` is not what was asked for."""
    return ObjectChanged(
        f"{uri} is not the object that was listed: {detail}", "list again; source files must not be rewritten"
    )


def short(uri: str, found: int, announced: int) -> StorageUnavailable:
    """Part of an answer got lost, and the rest looks whole."""
    return StorageUnavailable(
        f"cannot read {uri}: {found} bytes arrived of {announced}", "try again; something on the way cuts answers short"
    )


def exists(uri: str) -> ObjectExists:
    """Put-if-absent found something at ``uri``."""
    return ObjectExists(f"{uri} exists already", "read it to see who wrote it")


def unusable_path(uri: str, path: str, reason: str) -> StorageError:
    """A path no store could hold, or that this one cannot represent."""
    return StorageError(
        f"{uri}: the path {path!r} cannot be used: {reason}",
        "rename the object; paths are segments of printable characters separated by single slashes",
    )


def from_os(error: OSError, uri: str, action: str) -> StorageError:
    """The error for an ``action`` (read, write, list …) on ``uri`` that the operating system refused."""
    said = f"{errno.errorcode.get(error.errno or 0, 'error')}: {error.strerror or type(error).__name__}"
    problem = f"cannot {action} {uri} ({said})"
    match error.errno:
        case errno.ENOENT if not action.startswith(_WRITING):
            return missing(uri)
        case errno.EEXIST:
            return exists(uri)
        case number if number in _FULL:
            return StorageError(problem, "free space on that disk, or use another one; then run again")
        case errno.EROFS:
            return AccessDenied(problem, "the file system is mounted read-only: mount it for writing")
        case number if number in _DENIED:
            return AccessDenied(problem, "give the user who runs this the permission, or use another location")
        case errno.ENOTDIR | errno.EISDIR:
            return StorageError(problem, "a file is where a directory must be, or the other way round")
        case errno.EMFILE | errno.ENFILE:
            return StorageError(problem, "raise the limit of open files (ulimit -n)")
        case number if number in _PASSING:
            return StorageUnavailable(problem, "try again; if it stays, check the disk or the mount")
        case _:
            return StorageError(problem, "check the location and its file system")


def from_client(error: Exception, uri: str, action: str) -> StorageError:
    """The error for ``action`` on ``uri`` that the object store, or the way to it, refused."""
    text, kind = str(error), type(error).__name__
    bad_key = _BAD_KEY.search(text)
    if bad_key and (kind == "InvalidPathError" or isinstance(error, ValueError)):
        return unusable_path(uri, bad_key[1] or bad_key[2], "the store's client cannot represent it")
    if kind == "AlreadyExistsError" and action == "create":
        return exists(uri)
    if isinstance(error, OSError) and error.errno is not None:
        return from_os(error, uri, action)
    code = found[1] if (found := _CODE.search(text)) else ""
    if action.startswith(_WRITING) and code == "NoSuchUpload":
        return StorageUnavailable(
            f"cannot {action} {uri} (the store answered {code})", "try again; something removed the unfinished upload"
        )
    if action == "read" and (kind == "PreconditionError" or status_of(error) == 412):
        return changed(uri, "its etag differs")
    return _by_answer(error, uri, f"cannot {action} {uri}", status_of(error), code)


def status_of(error: Exception) -> int:
    """The HTTP status in an error of the client; 0 if there was no answer."""
    found = _STATUS.search(str(error))
    return int(found[1] or found[2]) if found else 0


def is_past_the_end(error: Exception) -> bool:
    """Whether a range begins behind the last byte, as the store says or its client finds."""
    return status_of(error) == 416 or "StartTooLarge" in str(error)


def _by_answer(error: Exception, uri: str, problem: str, status: int, code: str) -> StorageError:
    kind, text = type(error).__name__, str(error)
    answered = f"{problem} (the store answered {' '.join(filter(None, (str(status or ''), code)))})"
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return StorageError(answered, f"{_bucket(uri)} does not exist: create it, or correct the URI")
    if isinstance(error, FileNotFoundError) or status == 404:
        return missing(uri)
    if "BadScheme" in text:
        prefix = FAMILIES[plain_scheme(uri)][0].upper()
        return StorageError(f"{problem}: the endpoint is plain http", f"set {prefix}ALLOW_HTTP: 'true', or use https")
    if "169.254." in text or "metadata" in text.lower():
        return AccessDenied(f"{problem}: no credentials", "set the storage options or the environment variables")
    if status in (401, 403) or kind in ("PermissionDeniedError", "UnauthenticatedError"):
        return AccessDenied(answered, "check the credentials in the storage options and what they may do there")
    if status >= 500 or status in (408, 409, 412, 429) or code in _RETRY_CODES or kind in _CONTRADICTIONS:
        return StorageUnavailable(answered, "try again later; the store is overloaded or out of order")
    if "invalid list response" in text:
        return StorageUnavailable(f"{problem}: the answer is cut short", "try again; nothing of it was used")
    if "HTTP error" in text or "error sending request" in text or isinstance(error, TimeoutError):
        return StorageUnavailable(f"{problem}: no answer", "check the endpoint and the network, then try again")
    if kind == "NotSupportedError":
        return StorageError(f"{problem}: the store does not support it", "use a store with conditional writes")
    return StorageError(answered if status else f"{problem} ({kind})", "check the location and storage options")


def _bucket(uri: str) -> str:
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}"


def safe_cause(error: Exception, secrets: Iterable[str]) -> Exception | None:
    """``error`` as a cause to show, unless its text holds one of ``secrets``."""
    return None if Mask.of(*secrets).hides(str(error)) else error
