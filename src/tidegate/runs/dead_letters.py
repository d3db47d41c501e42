"""Bad records and given-up files of a source: what they add to its commits, and answers to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.core.files.paths import matches_path
from tidegate.core.files.plan import GivenUp
from tidegate.core.files.state import Covered
from tidegate.errors import StateError
from tidegate.protocol.change import DataFile
from tidegate.protocol.dead_letters import debt
from tidegate.protocol.position import Position
from tidegate.runs.file_source import FileSource
from tidegate.schema.dead_letter import Letter
from tidegate.sink.dead_letters import DeadLetterTarget, DeadLetterWriter
from tidegate.sink.read_task import GroupResult


@dataclass(frozen=True, slots=True)
class WrittenLetters:
    """Letter files that a commit brings along, and how many letters they hold."""

    files: tuple[DataFile, ...] = ()
    count: int = 0

    @classmethod
    def of(cls, results: Iterable[GroupResult]) -> WrittenLetters:
        """Those that tasks wrote."""
        files = tuple(file for result in results for file in result.letter_files)
        return cls(files, sum(file.record_count for file in files))

    def debts(self, bound: FileSource, opened: Position) -> tuple[dict[str, Any], ...]:
        """What the commit owes to the dead-letter table; checks that it may."""
        if not self.files:
            return ()
        bound.tracker.letters.check(self.files)
        _check_not_ahead(bound, opened)
        return (debt(bound.tracker.letters.uri, self.files),)


def _check_not_ahead(bound: FileSource, opened: Position) -> None:
    """Stop where new letters would be taken for known ones: the dead-letter table is ahead of the table.

    A rival that moved the source meanwhile is no such case: then the table is ahead, too, and the commit is lost.
    """
    ahead = bound.tracker.letters.position(opened)
    if ahead > opened.version and bound.positions.position() == opened.version:
        raise StateError(
            f"{bound.key}: dead-letter table {bound.tracker.letters.uri} is at position {ahead}, and its table at "
            f"{opened.version}: one of them was put back from a copy; new letters would be taken for known ones",
            "set error_handling.dlq_path to a new place",
        )


def give_up_files(bound: FileSource, run: str, files: Sequence[GivenUp]) -> tuple[WrittenLetters, tuple[Covered, ...]]:
    """Letters for files that are not read on, written here; the outcomes that let the watermark pass them."""
    letters = letter_writer(bound, run)
    with contextlib.closing(letters):
        for each in files:
            letters.file(each.slice, each.reason, each.stage.value)
        finished = letters.cut()
    outcomes = tuple(
        Covered(one.path, one.size, one.etag, one.start_record, one.start_record, eof=True, bad=1)
        for one in (each.slice for each in files)
    )
    return WrittenLetters(finished, len(files)), outcomes


def letter_writer(bound: FileSource, run: str, fingerprint: str = "") -> DeadLetterWriter:
    """For letters that are written by the driver."""
    target = bound.pipeline.dead_letters
    return DeadLetterWriter(DeadLetterTarget(target, bound.pipeline.name, bound.source.name, run, fingerprint))


@dataclass(frozen=True, slots=True)
class DeadLetterSelection:
    """Which letters; all of these hold. ``ids`` are beginnings of ids, ``file`` a glob, ``reason`` a part of it."""

    ids: tuple[str, ...] = ()
    file: str | None = None
    reason: str | None = None
    kind: str | None = None

    def takes(self, letter: Letter) -> bool:
        """Whether this letter is meant."""
        return (
            (not self.ids or any(letter.id.startswith(each) for each in self.ids))
            and (self.file is None or matches_path(self.file, letter.file or ""))
            and (self.reason is None or self.reason.lower() in (letter.reason or "").lower())
            and self.kind in (None, letter.kind)
        )


def select_letters(bound: FileSource, choice: DeadLetterSelection) -> Iterator[Letter]:
    """The open letters of a source that are meant."""
    found = bound.tracker.letters.open_letters(bound.pipeline.name, bound.source.name)
    return (letter for letter in found if choice.takes(letter))


def write_answers(bound: FileSource, letters: Sequence[Letter], how: str, run: str, schema: str = "") -> WrittenLetters:
    """Answers to letters, written, for a commit to bring along."""
    box = letter_writer(bound, run, schema)
    with contextlib.closing(box):
        box.resolved(letters, how)
        return WrittenLetters(box.cut(), 0)
