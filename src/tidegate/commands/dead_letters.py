"""Dead letters: list them, read them again, answer them.

Retrying and discarding are commits of the source by the ordinary protocol: the rows that are good now, and the
answers to their letters as a debt. So two retries at once, or a retry beside a run, never write a row twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice

from tidegate.commands.project import Config, file_sources, load, on_engine, open_engine, without_secrets
from tidegate.core.files.paths import SourceFile, same_content
from tidegate.core.files.plan import FileGroup, FileSlice, Plan, Stage
from tidegate.core.files.state import Covered, Refused
from tidegate.errors import CommitLost, ObjectChanged, ObjectMissing, TidegateError
from tidegate.observe.events import Emit, ignore
from tidegate.parquet.parquet_file import uuid7
from tidegate.protocol.change import Change, Coverage, LetterFiles, NextState, NoRows, Write, Written, write_files
from tidegate.protocol.position import Position
from tidegate.reports.replay import LettersReport
from tidegate.runs.engine import FileTasks
from tidegate.runs.file_edit import DeadLetterSelection, select_letters, write_answers
from tidegate.runs.file_source import FileSource
from tidegate.runs.file_walk import coverage_of, letter_debts, letters_of, read_all
from tidegate.runs.lanes import FrameLane, TableColumnsPlan, as_read, frame_reasons, resolve_columns
from tidegate.runs.pass_ import Pass
from tidegate.runs.tracker import PassRules
from tidegate.schema.dead_letter import DISCARDED, FILE, RECORD, RETRIED, Letter, fingerprint
from tidegate.tasks.read_task import GroupResult, ReadTask
from tidegate.tasks.task import Reread, reread

# A retry is one commit: a task must not stop in the middle of a file because a batch is full.
MANY_FILES = 10**9
_MIXED = (
    "so a retry would mix old and new content; `tidegate replay` replaces its rows, `tidegate dlq discard` drops the "
    "letter"
)


def list_letters(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    ids: Collection[str] = (),
    file: str | None = None,
    reason: str | None = None,
    limit: int | None = None,
) -> tuple[Letter, ...]:
    """The open dead letters of a pipeline, oldest first.

    ``ids`` may be prefixes of ids, ``file`` is a glob over paths in the source, ``reason`` a part of the reason.
    """
    choice = DeadLetterSelection(tuple(ids), file, reason)
    sources = file_sources(config, pipeline, source)
    return tuple(islice(chain.from_iterable(select_letters(bound, choice) for bound in sources), limit))


def retry_letters(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    ids: Collection[str] = (),
    file: str | None = None,
    reason: str | None = None,
    emit: Emit = ignore,
    engine: str | None = None,
) -> tuple[LettersReport, ...]:
    """Read dead letters again with today's schema, and commit the good rows to the table, exactly once.

    Lines are decoded here; the engine reads files that were given up, from where they had stopped.
    """
    project = on_engine(load(config, pipeline=pipeline), engine)
    choice = DeadLetterSelection(tuple(ids), file, reason)
    sources = file_sources(project, pipeline, source)
    told = without_secrets(emit, project)
    with open_engine(project, told, threading.Event(), lambda: sources) as opened:
        return tuple(retry(bound, choice, lambda: opened, told) for bound in sources)


def discard_letters(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    ids: Collection[str] = (),
    file: str | None = None,
    reason: str | None = None,
) -> tuple[LettersReport, ...]:
    """Answer dead letters without reading them; they stay in the dead-letter table but are no longer listed."""
    choice = DeadLetterSelection(tuple(ids), file, reason)
    return tuple(discard(bound, choice) for bound in file_sources(config, pipeline, source))


def retry(
    bound: FileSource, choice: DeadLetterSelection, lane: Callable[[], FileTasks], emit: Emit = ignore
) -> LettersReport:
    """Read letters again; ``lane`` starts the engine, which only files need."""
    return _LettersWalk(bound, lambda opened: _plan_retry(bound, opened, choice, lane, emit)).run()


def discard(bound: FileSource, choice: DeadLetterSelection) -> LettersReport:
    """Answer letters without reading them; their lines stay in the dead-letter table."""
    return _LettersWalk(bound, lambda opened: _plan_discard(bound, opened, choice)).run()


@dataclass(frozen=True, slots=True)
class _Answer:
    """A change that answers letters, None if there is nothing to commit, and its report."""

    change: Change | None
    report: LettersReport


# Files that were written here and are gone or changed before their commit are written again, as after a lost commit.
_RULES = PassRules(20, (CommitLost, ObjectMissing, ObjectChanged))


class _LettersWalk:
    """Plans an answer on top of each position, until one of them is committed or nothing is left to commit."""

    def __init__(self, bound: FileSource, answer: Callable[[Position], _Answer]) -> None:
        self._pass = Pass(bound, rules=_RULES)
        self._answer = answer
        self._report: LettersReport | None = None

    def run(self) -> LettersReport:
        self._pass.run(self)
        assert self._report is not None
        return self._report

    def open(self) -> Position:
        return self._pass.source.positions.open()

    def go(self, position: Position) -> Position:
        made = self._answer(position)
        self._report = made.report
        if made.change is None:
            return position
        after = self._pass.commit(position, made.change)
        # A transform may add or drop rows, so that only the commit knows their number.
        rows = made.report.rows and after.rows
        self._report = replace(made.report, rows=rows, position=after.version, table_version=after.table_version)
        return after


def _plan_discard(bound: FileSource, opened: Position, choice: DeadLetterSelection) -> _Answer:
    letters = list(select_letters(bound, choice))
    report = _report(bound, len(letters))
    if not letters:
        return _Answer(None, report)
    answers = write_answers(bound, letters, DISCARDED, uuid7())
    change = _change(opened, bound, answers, NoRows(), "dlq discard")
    return _Answer(change, replace(report, answered=len(letters)))


def _plan_retry(
    bound: FileSource, opened: Position, choice: DeadLetterSelection, lane: Callable[[], FileTasks], emit: Emit
) -> _Answer:
    letters = list(select_letters(bound, choice))
    report = _report(bound, len(letters))
    if not letters:
        return _Answer(None, report)
    run = uuid7()
    columns = _columns(bound, as_read(bound, opened), emit)
    task = columns.task(bound.pipeline, bound.source, None, run)
    frames = FrameLane.of(bound, lane(), opened, datetime.now(UTC)) if frame_reasons(bound, opened) else None
    task = task if frames is None else frames.task(task)
    records = [letter for letter in letters if letter.kind == RECORD]
    given_up = [letter for letter in letters if letter.kind == FILE]
    lines = reread(task, records) if records else Reread()
    whole = _reread_files(bound, task, given_up, lane) if given_up else _Files()
    good = [*lines.good, *whole.good]
    bad = [*lines.bad, *whole.bad]
    told = replace(report, still_bad=tuple((letter.id, letter.file or "", reason) for letter, reason in bad))
    if not good:
        return _Answer(None, told)
    new = letters_of(whole.results)
    # Rows and answers go into one commit: a letter is never answered without its row, nor the row written twice.
    answers = write_answers(bound, good, RETRIED, run, fingerprint(columns.fields))
    files = (*lines.files, *(file for result in whole.results for file in result.data_files))
    write: Write = write_files([Written(columns.table, columns.partition_columns, files)])
    if frames is not None:
        write = frames.write_files(frames.place_files(task, files), opened, columns)
    change = _change(opened, bound, new + answers, write, "dlq retry", coverage_of(whole.results))
    return _Answer(change, replace(told, answered=len(good), rows=write.rows, new_letters=new.opened))


@dataclass(slots=True)
class _Files:
    """Files that were given up, read again from where they had stopped."""

    results: tuple[GroupResult, ...] = ()
    good: list[Letter] = field(default_factory=list)
    bad: list[tuple[Letter, str]] = field(default_factory=list)


def _reread_files(
    bound: FileSource, task: ReadTask, letters: Sequence[Letter], lane: Callable[[], FileTasks]
) -> _Files:
    found = _Files()
    by_path: dict[str, list[Letter]] = {}
    for letter in letters:
        by_path.setdefault(letter.file or "", []).append(letter)
    slices = []
    for path, own in by_path.items():
        try:
            now = bound.tracker.store.head(path)
            problem = _against(own, SourceFile(path, now.size, now.etag))
        except ObjectMissing:
            problem = "the file is gone"
        if problem:
            found.bad.extend((letter, problem) for letter in own)
        else:
            slices.append(FileSlice(path, now.size, now.etag, (own[0].line or 1) - 1))
    if not slices:
        return found
    whole = replace(task, whole_files=True, commit_batch_files=MANY_FILES, seconds=None)
    units = [FileGroup(number, (each,)) for number, each in enumerate(slices, 1)]
    found.results = read_all(lane(), whole, units, at_once=bound.slots)
    for result in found.results:
        for outcome in result.outcomes:
            own = by_path[outcome.path]
            match outcome:
                case Covered():
                    found.good.extend(own)
                case Refused(reason=reason):
                    found.bad.extend((letter, reason) for letter in own)
                case _:
                    found.bad.extend((letter, "changed while it was read") for letter in own)
    return found


def _against(letters: Sequence[Letter], now: SourceFile) -> str:
    """Why a file cannot be read from where its letters say; empty if it can."""
    for letter in letters:
        if letter.stage == Stage.CHANGED:
            return f"it changed after a part of it was committed, {_MIXED}"
        if letter.stage == Stage.REMOVED and not same_content(letter.size, letter.etag, now):
            return f"it came back with another size or etag after a part of it was committed, {_MIXED}"
    if len({letter.line for letter in letters}) > 1:
        return "its letters begin at different lines; discard all but the right one"
    return ""


def _columns(bound: FileSource, opened: Position, emit: Emit) -> TableColumnsPlan:
    plan = Plan(bound.pipeline.name, bound.source.name, opened.version, datetime.now(UTC))
    return resolve_columns(bound, opened, plan, emit)


def _change(
    opened: Position,
    bound: FileSource,
    letters: LetterFiles,
    write: Write,
    action: str,
    coverage: tuple[Coverage, ...] = (),
) -> Change:
    if opened.state is None:
        raise TidegateError(f"{bound.key}: nothing was ever committed, so it has no dead letters", "run it first")
    return Change(
        NextState(opened.state, bound.abridge(opened.state)),
        write,
        coverage=coverage,
        letters=letters,
        debts=letter_debts(letters, bound, opened),
        action=action,
    )


def _report(bound: FileSource, letters: int) -> LettersReport:
    return LettersReport(bound.pipeline.name, bound.source.name, bound.tracker.letters.uri, letters)
