"""Uploads of one store: counted, and their parts held together to as many as may be under way at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UploadCounts:
    """Files that arrived whole, those of them that went in parts, and the most of either that were under way at once.

    Parts are counted by the places that uploads hold for them, so ``most_parts`` is never too low.
    """

    files: int = 0
    multipart: int = 0
    most_files: int = 0
    most_parts: int = 0

    def __add__(self, other: UploadCounts) -> UploadCounts:
        """Both together; what was under way in two places at once is not known, so the greater is kept."""
        return UploadCounts(
            self.files + other.files,
            self.multipart + other.multipart,
            max(self.most_files, other.most_files),
            max(self.most_parts, other.most_parts),
        )


class Uploads:
    """What a store is uploading; safe to use from several threads."""

    def __init__(self) -> None:
        self.active_files = 0
        self.active_parts = 0
        self._counts = UploadCounts()
        self._changed = threading.Condition()

    @property
    def counts(self) -> UploadCounts:
        """Everything so far."""
        return self._counts

    @contextmanager
    def file(self) -> Iterator[None]:
        """While one file is uploaded."""
        with self._changed:
            self.active_files += 1
            self._counts += UploadCounts(most_files=self.active_files)
        try:
            yield
            with self._changed:
                self._counts += UploadCounts(files=1)
        finally:
            with self._changed:
                self.active_files -= 1

    @contextmanager
    def parts(self, wanted: int, most: int) -> Iterator[int]:
        """While a file is uploaded in parts: how many of them at once, at least one and at most ``wanted``.

        The parts of all uploads of the store stay within ``most`` together; waits until one more fits.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.active_parts < most)
            granted = min(wanted, most - self.active_parts)
            self.active_parts += granted
            self._counts += UploadCounts(most_parts=self.active_parts)
        try:
            yield granted
            with self._changed:
                self._counts += UploadCounts(multipart=1)
        finally:
            with self._changed:
                self.active_parts -= granted
                self._changed.notify_all()
