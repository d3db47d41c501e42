"""Dead letters: listed, read again, answered.

Retrying and discarding are commits of the source by the ordinary protocol: the rows of what is good now, and the
answers to its letters as a debt. So two retries at once, or a retry beside a run, never give a row twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tidegate.core.files.paths import SourceFile, same_content
from tidegate.core.files.plan import FileGroup, FileSlice, Plan, Stage
from tidegate.core.files.state import Covered, Refused
from tidegate.core.globs import matches_path
from tidegate.errors import CommitLost, ObjectChanged, ObjectMissing, TidegateError
from tidegate.observe.events import Emit, ignore
from tidegate.protocol.change import Change
from tidegate.protocol.position import Position
from tidegate.reports.run import LettersReport
from tidegate.runs.bound_source import Place
from tidegate.runs.engine import FrameCommit, Lane, as_read, deal, frame_reasons, raise_failures
from tidegate.runs.file_pass import coverage_of
from tidegate.runs.source_report import DeadLetters, letterbox
from tidegate.runs.table_columns import TableColumnsPlan, resolve_columns
from tidegate.schema.dead_letter import DISCARDED, FILE, RECORD, RETRIED, Letter, fingerprint
from tidegate.sink.parquet_file import uuid7
from tidegate.sink.read_task import GroupResult, ReadTask
from tidegate.sink.task import Reread, reread

TRIES_AGAINST_OTHERS = 20
MANY_FILES = 10**9
_MIXED = "so going on would mix two contents; `tidegate replay` replaces its rows, `tidegate dlq discard` leaves it"


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


def chosen(place: Place, choice: DeadLetterSelection) -> Iterator[Letter]:
    """The open letters of a source that are meant."""
    found = place.letters.open_letters(place.pipeline.name, place.source.name)
    return (letter for letter in found if choice.takes(letter))


def retry(place: Place, choice: DeadLetterSelection, lane: Callable[[], Lane], emit: Emit = ignore) -> LettersReport:
    """Read letters again; ``lane`` is asked for only where files are among them."""
    return _committed(place, lambda opened: _retried(place, opened, choice, lane, emit))


def discard(place: Place, choice: DeadLetterSelection) -> LettersReport:
    """Answer letters without reading them; their lines stay in the dead-letter table."""
    return _committed(place, lambda opened: _discarded(place, opened, choice))


@dataclass(frozen=True, slots=True)
class _Answer:
    """A change that answers letters, None when there is nothing to commit, and what to tell of it."""

    change: Change | None
    report: LettersReport


def _committed(place: Place, answer: Callable[[Position], _Answer]) -> LettersReport:
    for attempt in range(TRIES_AGAINST_OTHERS):
        opened = place.positions.open()
        made = answer(opened)
        if made.change is None:
            return made.report
        try:
            after = place.positions.commit(opened, made.change)
        except (CommitLost, ObjectMissing, ObjectChanged):
            if attempt + 1 == TRIES_AGAINST_OTHERS:
                raise
            continue
        rows = made.report.rows and after.rows
        return replace(made.report, rows=rows, position=after.version, table_version=after.table_version)
    raise AssertionError("unreachable")


def _discarded(place: Place, opened: Position, choice: DeadLetterSelection) -> _Answer:
    letters = list(chosen(place, choice))
    report = _report(place, len(letters))
    if not letters:
        return _Answer(None, report)
    answers = answered(place, letters, DISCARDED, uuid7())
    change = _change(opened, place, answers, -len(letters), "dlq discard")
    return _Answer(change, replace(report, answered=len(letters)))


def _retried(
    place: Place, opened: Position, choice: DeadLetterSelection, lane: Callable[[], Lane], emit: Emit
) -> _Answer:
    letters = list(chosen(place, choice))
    report = _report(place, len(letters))
    if not letters:
        return _Answer(None, report)
    run = uuid7()
    columns = _columns(place, as_read(place, opened), emit)
    task = columns.task(place.pipeline, place.source, None, run)
    frames = FrameCommit.of(place, lane(), opened, datetime.now(UTC)) if frame_reasons(place, opened) else None
    task = task if frames is None else frames.task(task)
    records = [letter for letter in letters if letter.kind == RECORD]
    files = [letter for letter in letters if letter.kind == FILE]
    lines = reread(task, records) if records else Reread()
    whole = _reread_files(place, task, files, lane) if files else _Files()
    good = [*lines.good, *whole.good]
    bad = [*lines.bad, *whole.bad]
    told = replace(report, still_bad=tuple((letter.id, letter.file or "", reason) for letter, reason in bad))
    if not good:
        return _Answer(None, told)
    new = DeadLetters.of(whole.results)
    answers = answered(place, good, RETRIED, run, fingerprint(columns.fields))
    together = DeadLetters((*new.files, *answers.files), new.count)
    change = replace(
        _change(opened, place, together, new.count - len(good), "dlq retry"),
        coverage=coverage_of(whole.results),
        data_files=(*lines.files, *(file for result in whole.results for file in result.data_files)),
        rows=lines.rows + sum(result.rows for result in whole.results),
        schema=columns.table,
        partition_columns=columns.partition_columns,
    )
    if frames is not None:
        change = frames.change(change, opened, columns)
    return _Answer(change, replace(told, answered=len(good), rows=change.rows, new_letters=new.count))


@dataclass(slots=True)
class _Files:
    """Files that were given up, read again from where they had stopped."""

    results: tuple[GroupResult, ...] = ()
    good: list[Letter] = field(default_factory=list)
    bad: list[tuple[Letter, str]] = field(default_factory=list)


def _reread_files(place: Place, task: ReadTask, letters: Sequence[Letter], lane: Callable[[], Lane]) -> _Files:
    found = _Files()
    by_path: dict[str, list[Letter]] = {}
    for letter in letters:
        by_path.setdefault(letter.file or "", []).append(letter)
    slices = []
    for path, own in by_path.items():
        try:
            now = place.source_store.head(path)
            problem = _against(own, SourceFile(path, now.size, now.etag))
        except ObjectMissing:
            problem = "the file is not there any more"
        if problem:
            found.bad.extend((letter, problem) for letter in own)
        else:
            slices.append(FileSlice(path, now.size, now.etag, (own[0].line or 1) - 1))
    if not slices:
        return found
    whole = replace(task, whole_files=True, commit_batch_files=MANY_FILES, deadline=None)
    units = [FileGroup(number, (each,)) for number, each in enumerate(slices, 1)]
    runner = lane()
    runner.prepare()
    found.results = runner.execute(whole, deal(units, place.parallelism * 2), lambda done: None)
    raise_failures(found.results)
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
    """Why a file cannot be read on from where its letters say."""
    for letter in letters:
        if letter.stage == Stage.CHANGED:
            return f"it changed after a part of it was committed, {_MIXED}"
        if letter.stage == Stage.REMOVED and not same_content(letter.size, letter.etag, now):
            return f"it came back with another size or etag after a part of it was committed, {_MIXED}"
    if len({letter.line for letter in letters}) > 1:
        return "its letters begin at different lines; discard all but the right one"
    return ""


def _columns(place: Place, opened: Position, emit: Emit) -> TableColumnsPlan:
    plan = Plan(place.pipeline.name, place.source.name, opened.version, datetime.now(UTC))
    return resolve_columns(place, opened, plan, emit)


def answered(place: Place, letters: Sequence[Letter], how: str, run: str, schema: str = "") -> DeadLetters:
    """Answers to letters, written, for a commit to bring along."""
    box = letterbox(place, run, schema)
    with contextlib.closing(box):
        box.resolved(letters, how)
        return DeadLetters(box.cut(), 0)


def _change(opened: Position, place: Place, letters: DeadLetters, difference: int, action: str) -> Change:
    if opened.state is None:
        raise TidegateError(f"{place.key}: nothing was ever committed, so it has no dead letters", "run it first")
    return Change(
        state=opened.state,
        embedded=place.tracker.embedded(opened.state),
        dead_letter_files=letters.files,
        debts=letters.debts(place, opened),
        letters=difference,
        action=action,
    )


def _report(place: Place, letters: int) -> LettersReport:
    return LettersReport(place.pipeline.name, place.source.name, place.letters.uri, letters)
