"""Edits of a file source by a person: moves its watermarks, answers its dead letters.

The consequences come first, from the recorded state and a listing, for the person who has to agree. Then the ordinary
protocol commits the new state: of two at once, one learns that the other came first. Rows never change. The same commit
answers open dead letters of files that will be read from their start again: the run finds their lines anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from tidegate.core.files.discovery import accepts
from tidegate.core.files.edit import (
    Consequences,
    Found,
    begin_behind,
    blank_state,
    consequences,
    describe_forgotten,
    forget_partition,
    move_watermark,
)
from tidegate.core.files.paths import SourceFile, join, matches_path, split
from tidegate.core.files.state import PathState, SetState, encode_paths, encode_set
from tidegate.errors import CommitLost, TidegateError
from tidegate.parquet.parquet_file import uuid7
from tidegate.protocol.change import LetterFiles, State
from tidegate.reports.watermark import FileSet, WatermarkMove
from tidegate.reports.wording import count
from tidegate.runs.file_source import FileSource, watermarks_of
from tidegate.runs.file_walk import letter_debts, letter_writer
from tidegate.runs.tracker import ConfirmMove, WatermarkEdit
from tidegate.schema.dead_letter import READ_AGAIN, Letter
from tidegate.sources.file_discovery import scope_of
from tidegate.specs.files import PathSource
from tidegate.storage.port import Scope

_FILES_AT_ONCE = 10_000
"""Listed files that are looked up in a path set at a time."""


@dataclass(frozen=True, slots=True)
class EditTarget:
    """The target of a watermark: ``name`` in ``partition``; without a name it is forgotten, without both all are."""

    partition: str | None = None
    name: str | None = None

    @property
    def action(self) -> str:
        """The name of the change, for the document and the ledger."""
        return "watermark reset" if self.name is None else "watermark set"

    def state(self, source: PathSource, before: PathState, now: datetime, *, is_first: bool = False) -> PathState:
        """The state after the move; ``is_first``: nothing is recorded yet, and earlier partitions are skipped."""
        if is_first and self.partition is not None and self.name is not None:
            return begin_behind(self.partition, self.name, now)
        if self.partition is None:
            return blank_state(now)
        if self.name is None:
            return forget_partition(source, before, self.partition, now)
        return move_watermark(source, before, self.partition, self.name, now)


def _target_of(bound: FileSource, edit: WatermarkEdit) -> EditTarget:
    """The target of an edit; its path may be relative to the source's location, or below it."""
    if edit.values is not None or (edit.to is None) != edit.reset:
        problem = f"{bound.pipeline.name!r} has another kind of watermark"
        raise TidegateError(problem, "give the path of a file (to)")
    if edit.to is None:
        return EditTarget(None if edit.partition is None else edit.partition.strip("/"))
    uri = bound.source.location.uri
    # People paste what `files` and the object store show them, which is the whole address.
    relative = edit.to.removeprefix(f"{uri}/")
    levels = relative.split("/")
    if "://" in relative or not all(levels) or {".", ".."} & set(levels):
        raise TidegateError(
            f"{edit.to!r} is not a file of source {bound.source.name!r}",
            f"give its path below {uri}, for instance date=2026-01-28/hour=14/0007.ndjson.gz",
        )
    return EditTarget(*split(relative))


def edit_files(bound: FileSource, edit: WatermarkEdit, now: datetime, confirm: ConfirmMove) -> WatermarkMove:
    """Set the watermark of one partition to a path, or forget a position, if ``confirm`` agrees to the consequences.

    Returns what was done, or would have been. A source that never ran begins after the path: everything up to it counts
    as read, by whoever filled the table. ``CommitLost`` if somebody moved the source meanwhile: then nothing was
    changed.
    """
    target = _target_of(bound, edit)
    # A person decides: a provider that contradicts the log is overwritten, which no run may do.
    bound = bound.for_edit()
    opened = bound.positions.open()
    is_first = opened.first_run
    if is_first and target.name is None:
        raise TidegateError(
            f"{bound.key}: nothing is recorded yet, so there is no watermark to forget",
            "run the pipeline, or let it begin after a file with `tidegate watermark set --to PATH`",
        )
    before = watermarks_of(opened)
    after = target.state(bound.source, before, now, is_first=is_first)
    letters = [] if after == before else list(select_letters(bound, DeadLetterSelection()))
    files = frozenset(letter.file for letter in letters if letter.file is not None)
    scope = scope_of(bound.source)
    listed = _list_files(bound, EditTarget() if is_first else target, scope)
    found = consequences(bound.source, before, after, listed, now, files)
    # A file that is continued in the middle does not meet its old bad lines again, so their letters stay open.
    letters = [letter for letter in letters if letter.file in found.from_start]
    remarks = _remarks(bound, target, found, len(letters), moves=after != before)
    move = WatermarkMove(
        *bound.names,
        action=target.action,
        partition=target.partition,
        before=_watermark(before, target.partition),
        after=_watermark(after, target.partition),
        read_again=_file_set(found.again),
        never_read=_file_set(found.never),
        notes=(*opened.warnings, *found.notes, *remarks, *map(str, scope.left_out)),
        version=opened.version,
        table_version=opened.table_version,
        letters=len(letters),
    )
    if after == before or not confirm(move):
        return move
    answers = write_answers(bound, letters, READ_AGAIN, uuid7()) if letters else LetterFiles()
    state = encode_paths(after)
    # Nothing can be committed without a table; the start is fixed beside it, by the same put-if-absent as a cold start.
    if opened.table_version < 0:
        return _begin(bound, move, state)
    done = bound.record_edit(opened, state, target.action, answers, letter_debts(answers, bound, opened))
    return replace(move, version=done.version, table_version=done.table_version, applied=True)


def forget_paths(bound: FileSource, edit: WatermarkEdit, now: datetime, confirm: ConfirmMove) -> WatermarkMove:
    """Empty the path set of a source, if ``confirm`` agrees to the consequences; otherwise as ``edit_files``."""
    target = _target_of(bound, edit)
    if target.name is not None or target.partition is not None:
        chosen = "--files PATTERN" if target.name is not None else f"--partition '{target.partition}'"
        raise TidegateError(
            f"{bound.key}: it remembers every path that was read, so that no path or folder of it has a watermark",
            f"to read files again and replace their rows, use `tidegate replay {chosen}`; to forget every path, use "
            "`tidegate watermark reset --all`",
        )
    bound = bound.for_edit()
    opened = bound.positions.open()
    if opened.first_run:
        raise TidegateError(f"{bound.key}: nothing is recorded yet, so there is no path to forget", "run the pipeline")
    before: SetState = bound.state_of(opened)
    after = SetState(last_update_ts=int(now.timestamp()))
    scope = scope_of(bound.source)
    moves = bool(before.segments or before.files)
    letters = list(select_letters(bound, DeadLetterSelection())) if moves else []
    asked = {letter.file for letter in letters}
    again, listed, from_start = Found(), 0, set[str | None]()
    stream = _list_files(bound, target, scope) if moves else iter(())
    while files := list(islice(stream, _FILES_AT_ONCE)):
        listed += len(files)
        for file in bound.tracker.sort_files(before, files, now).finished:
            again.add(file)
            from_start |= {file.path} & asked
    from_start |= {path for path, progress in before.files.items() if progress.records}
    letters = [letter for letter in letters if letter.file in from_start]
    found = Consequences(again, Found(), listed, tuple(describe_forgotten(before.files)))
    move = WatermarkMove(
        *bound.names,
        action=target.action,
        partition=None,
        before=before.value,
        after=None,
        read_again=_file_set(again),
        never_read=_file_set(Found()),
        notes=(
            *opened.warnings,
            *found.notes,
            *_remarks(bound, target, found, len(letters), moves=moves),
            *map(str, scope.left_out),
        ),
        version=opened.version,
        table_version=opened.table_version,
        letters=len(letters),
    )
    if not moves or not confirm(move):
        return move
    answers = write_answers(bound, letters, READ_AGAIN, uuid7()) if letters else LetterFiles()
    done = bound.record_edit(opened, encode_set(after), target.action, answers, letter_debts(answers, bound, opened))
    return replace(move, version=done.version, table_version=done.table_version, applied=True)


def _begin(bound: FileSource, move: WatermarkMove, state: State) -> WatermarkMove:
    """Record where a source begins until there is a table; ``CommitLost`` if that was fixed before."""
    if bound.positions.put_cold_start(state) != state:
        raise CommitLost(
            f"{bound.key}: the beginning of the first run is already fixed",
            f"remove {bound.pipeline.sink.table.uri}/{bound.key.cold_start} and set the watermark again",
        )
    return replace(move, applied=True)


def _list_files(bound: FileSource, target: EditTarget, scope: Scope) -> Iterator[SourceFile]:
    """Every file that the move may concern, as a stream."""
    for info in bound.tracker.store.list(target.partition or "", scope=scope):
        meant = target.partition is None or split(info.path)[0] == target.partition
        if meant and accepts(bound.source, info.path) is None:
            yield SourceFile(info.path, info.size, info.etag)


def _file_set(found: Found) -> FileSet:
    return FileSet(found.files, found.bytes, tuple(found.examples))


def _watermark(state: PathState, partition: str | None) -> str | None:
    if partition is None:
        return state.value
    name = state.partition_watermarks.get(partition)
    return None if name is None else join(partition, name)


def _remarks(bound: FileSource, target: EditTarget, found: Consequences, letters: int, *, moves: bool) -> Iterator[str]:
    if letters:
        are = "is" if letters == 1 else "are"
        yield f"{count(letters, 'dead letter')} of these files {are} resolved: the run reads the files again"
    if not moves:
        yield "the watermark is already there: nothing changes"
    if found.again.files:
        yield (
            "rows of files that are read again will be in the table twice, unless you remove them first; to replace"
            " the rows of files instead, use `tidegate replay`"
        )
    if found.never.files:
        yield "files that are skipped stay out of the table; only `tidegate replay` reads them later"
    if target.name is not None and not found.listed:
        yield f"there is no file in partition {target.partition or '(top level)'!r} of the source"
    if target.partition is None and bound.source.partition_filter is not None:
        yield "partition_filter limits the next run like a first run: it does not read older partitions again"


@dataclass(frozen=True, slots=True)
class DeadLetterSelection:
    """A selection of letters by all conditions: ``ids`` are prefixes of ids, ``file`` a glob, ``reason`` a part."""

    ids: tuple[str, ...] = ()
    file: str | None = None
    reason: str | None = None
    kind: str | None = None

    def selects(self, letter: Letter) -> bool:
        """Whether this letter is selected."""
        return (
            (not self.ids or any(letter.id.startswith(each) for each in self.ids))
            and (self.file is None or matches_path(self.file, letter.file or ""))
            and (self.reason is None or self.reason.lower() in (letter.reason or "").lower())
            and self.kind in (None, letter.kind)
        )


def select_letters(bound: FileSource, choice: DeadLetterSelection) -> Iterator[Letter]:
    """The selected open letters of a source."""
    found = bound.tracker.letters.open_letters(bound.pipeline.name, bound.source.name)
    return (letter for letter in found if choice.selects(letter))


def write_answers(bound: FileSource, letters: Sequence[Letter], how: str, run: str, schema: str = "") -> LetterFiles:
    """Write answers to letters, for a commit to bring along."""
    box = letter_writer(bound, run, schema)
    with contextlib.closing(box):
        box.mark_resolved(letters, how)
        return LetterFiles(box.cut(), -len(letters))
