"""How far a listing of source files goes: which links it follows, and what it leaves out.

By default links below a local directory are not followed. If they are, each file counts once, under one name: its own
if it lies below the root and no part of that name is internal, else that of the first link by path; links with an
internal name give none. Only paths decide this, not what was read before or when a link was made, so making a link
again does not rename its files.
"""

from __future__ import annotations

import heapq
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate.core.files.discovery import Reason, ReasonCounts, Skipped
from tidegate.observe.wording import visible

INTERNAL = ("_", ".")
"""Prefixes of names that no source reads."""

_UNSEEN = (Reason.LINK, Reason.LINK_BROKEN, Reason.NAME)


class Scope:
    """One listing of a source, or several that belong together; thread-safe.

    ``apart`` are real local directories that no link may lead into, such as those of written tables.
    """

    def __init__(self, *, follow_links: bool = False, apart: tuple[str, ...] = ()) -> None:
        self.follow_links = follow_links
        self._apart = apart
        self._tally = ReasonCounts()
        self._unseen: dict[str, Reason] = {}
        self._lock = threading.Lock()
        self._links: dict[str, Links] = {}

    def leave_out(self, reason: Reason, path: str) -> None:
        """Count a path that is not listed; its name is escaped for terminals and JSON."""
        with self._lock:
            self._tally.add(reason, visible(path))
            if reason in _UNSEEN:
                self._unseen[path] = reason

    @property
    def left_out(self) -> tuple[Skipped, ...]:
        """What was left out so far."""
        with self._lock:
            return self._tally.result()

    @property
    def unseen(self) -> dict[str, Reason]:
        """Every path left out so far that may hide files without another name."""
        with self._lock:
            return dict(self._unseen)

    def reaches(self, root: str, path: str) -> bool:
        """Whether every link on the way from the local directory ``root`` is followed; counts one that is not."""
        parts = path.split("/") if path else []
        for depth in range(1, len(parts) + 1):
            part = "/".join(parts[:depth])
            if reason := self.links(root).refusal(part, is_link=os.path.islink(os.path.join(root, part))):
                self.leave_out(reason, part)
                return False
        return True

    def links(self, root: str) -> Links:
        """The links below the local directory ``root``; read once."""
        with self._lock:
            if root not in self._links:
                self._links[root] = followed_links(root, self._apart) if self.follow_links else Links()
            return self._links[root]


@dataclass(frozen=True, slots=True)
class Links:
    """The links below a directory that are followed, and why other paths are not listed."""

    followed: frozenset[str] = frozenset()
    refused: dict[str, Reason] = field(default_factory=dict)

    def refusal(self, path: str, *, is_link: bool) -> Reason | None:
        """Why nothing at ``path`` is listed; None to list it."""
        if path in self.refused:
            return self.refused[path]
        return Reason.LINK if is_link and path not in self.followed else None


def followed_links(root: str, apart: tuple[str, ...] = ()) -> Links:
    """Which links below ``root`` name their files: the first by path wins.

    Reads every directory, but only the names of files.
    """
    return _Walk(os.path.realpath(root), frozenset(apart)).result()


class _Walk:
    """Gives each real directory and each linked file one visible path, the root's own first."""

    def __init__(self, root: str, apart: frozenset[str]) -> None:
        self._root = root
        self._apart = apart
        self._named: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._waiting: list[tuple[str, str]] = []
        self._followed: set[str] = set()
        self._refused: dict[str, Reason] = {}

    def result(self) -> Links:
        self._enter(self._root, "")
        while self._waiting:
            path, real = heapq.heappop(self._waiting)
            self._follow(path, real)
        return Links(frozenset(self._followed), self._refused)

    def _enter(self, real: str, path: str) -> None:
        """Visit a directory without a name; its links come later."""
        left = [(real, path)]
        while left:
            real, path = left.pop()
            if real in self._named or real in self._apart:
                self._refused[path] = Reason.LINK_AGAIN if real in self._named else Reason.TABLE
                continue
            self._named[real] = path
            for entry in _entries(real):
                at = f"{path}/{entry.name}" if path else entry.name
                if entry.is_symlink():
                    self._put_off(entry, at)
                elif entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith(INTERNAL):
                        left.append((entry.path, at))
                elif entry.path in self._files:
                    self._refused[at] = Reason.LINK_AGAIN

    def _put_off(self, entry: os.DirEntry[str], path: str) -> None:
        if entry.name.startswith(INTERNAL):
            self._refused[path] = Reason.INTERNAL
            return
        try:
            heapq.heappush(self._waiting, (path, os.path.realpath(entry.path, strict=True)))
        except OSError:
            self._refused[path] = Reason.LINK_BROKEN

    def _follow(self, path: str, real: str) -> None:
        if any(part == real or real.startswith(f"{part}/") for part in self._apart):
            self._refused[path] = Reason.TABLE
        elif os.path.isdir(real):
            if real in self._named:
                self._refused[path] = Reason.LINK_AGAIN
            else:
                self._followed.add(path)
                self._enter(real, path)
        elif real in self._files or self._has_own_name(real):
            self._refused[path] = Reason.LINK_AGAIN
        else:
            self._followed.add(path)
            self._files[real] = path

    def _has_own_name(self, real: str) -> bool:
        directory, name = os.path.split(real)
        return directory in self._named and not name.startswith(INTERNAL)


def _entries(directory: str) -> Iterator[os.DirEntry[str]]:
    """The entries by name; none if the directory is gone or unreadable, which its listing reports."""
    try:
        with os.scandir(directory) as entries:
            yield from sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
