"""Paths inside a store: checked once, before they meet a disk or a network."""

from __future__ import annotations

from tidegate.storage import failures


def checked(uri: str, path: str) -> str:
    """``path``, if it can name an object below the store at ``uri``; otherwise raises ``StorageError``."""
    if not path:
        raise failures.unusable_path(uri, path, "it is empty")
    return checked_prefix(uri, path)


def checked_prefix(uri: str, path: str) -> str:
    """Like ``checked``, for a directory: the empty path is the store's root."""
    if path and (reason := why_not(path)):
        raise failures.unusable_path(uri, path, reason)
    return path


def why_not(path: str) -> str | None:
    """Why nothing can be named ``path``; None for a path as it should be."""
    segments = path.split("/")
    if "" in segments:
        return "it has an empty segment"
    if "." in segments or ".." in segments:
        return "it has a segment '.' or '..'"
    if "\0" in path or not is_text(path):
        return "it is not valid UTF-8 text"
    return None


def is_text(path: str) -> bool:
    """Whether ``path`` can be written as UTF-8; names from a disk may hold bytes that are none."""
    if path.isascii():
        return True
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def below(prefix: str, name: str) -> str:
    """``name`` inside directory ``prefix``."""
    return f"{prefix}/{name}" if prefix else name


def may_hold_after(directory: str, after: str | None) -> bool:
    """Whether a path inside ``directory`` can be greater than ``after``."""
    inside = f"{directory}/"
    return after is None or inside > after or after.startswith(inside)
