"""Replay: chosen source files are read again, and their rows take the place of the old ones, in one commit.

The files are read by the ordinary tasks into a work area below the table that no commit refers to. From there the
rows stream into one Delta commit that removes the old rows, adds the new ones and moves the position by one. A file
that cannot be read refuses the whole replay, and nothing changes. Bad lines become dead letters as in a run, and the
letters that the files had before are answered.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from tidegate.corrections import FileSet, ReplayReport
from tidegate.errors import CommitLost, ObjectChanged, RunStopped, SourceError, StorageError, TidegateError
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.planning.grouping import Sizing, grouped
from tidegate.planning.plan import FileSlice, Plan, Unit
from tidegate.planning.reasons import EXAMPLES
from tidegate.planning.selecting import Selection
from tidegate.runs.batches import coverage_of, left_of
from tidegate.runs.columns import Columns, resolve_columns
from tidegate.runs.dead_lettering import Letters
from tidegate.runs.frames import refuse_frames
from tidegate.runs.lanes import Lane, deal, raise_failures
from tidegate.runs.letters import Choice as LetterChoice
from tidegate.runs.letters import answered, chosen
from tidegate.runs.place import UNIT_BYTES, Clock, Place, utc_now
from tidegate.runs.replay_choice import Choice, check_rows_are_told_apart, choose, file_set
from tidegate.runs.source_pass import SLOTS_PER_CORE, TRIES_AGAINST_OTHERS
from tidegate.schema.letter import REPLAYED
from tidegate.sink.names import uuid7
from tidegate.sink.task import ReadTask, UnitResult
from tidegate.sink.written_rows import FILE_BYTES, rows_of
from tidegate.specs import Location
from tidegate.state.files import Change, Coverage, Replacement
from tidegate.state.opened import Opened
from tidegate.state.work_areas import clean_old, new_work_area, remove_work
from tidegate.storage.opening import open_store
from tidegate.watermarks.outcomes import Changed, FileOutcome, Refused
from tidegate.watermarks.paths import SourceFile

Confirm = Callable[[ReplayReport], bool]


class Replay:
    """One replay of one source; ``others`` are the locations of the table's other sources."""

    def __init__(
        self,
        place: Place,
        lane: Lane,
        *,
        others: Sequence[str] = (),
        emit: events.Emit = events.ignore,
        stop: threading.Event | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._place = place
        self._lane = lane
        self._others = tuple(others)
        self._emit = emit
        self._stop = stop or threading.Event()
        self._clock = clock
        self._names = (place.pipeline.name, place.source.name)
        self._run = uuid7()

    def run(self, selection: Selection, confirm: Confirm, *, drop_missing: bool = False) -> ReplayReport:
        """Replace the rows of the selected files, if ``confirm`` agrees; what was done, or would have been."""
        started = time.monotonic()
        opened = self._opened()
        state = self._place.opened_state(opened)
        choice = choose(self._place, self._others, selection, state, self._clock(), drop_missing=drop_missing)
        if not (choice.files or choice.due or choice.missing or choice.unseen):
            raise TidegateError(
                f"{self._place.key}: there is no file that is meant by {selection}",
                "paths begin below source_uri, and * stays inside one level: **/*.gz crosses them",
            )
        report = self._report(selection, choice, opened, drop_missing=drop_missing)
        if choice.is_empty or not confirm(report):
            return report
        with self._work_area() as work:
            columns, results = self._read(opened, choice.files, work)
            done = self._commit(choice, columns, results, work)
        return replace(
            report,
            rows_written=sum(result.rows for result in results),
            version=done.version,
            table_version=done.table_version,
            applied=True,
            seconds=time.monotonic() - started,
        )

    def _opened(self) -> Opened:
        opened = self._place.positions.open()
        refuse_frames(self._place, opened, "rows of it cannot be replaced by `tidegate replay`")
        check_rows_are_told_apart(self._place, opened, self._others)
        return opened

    def _read(
        self, opened: Opened, files: Sequence[SourceFile], work: Location
    ) -> tuple[Columns, tuple[UnitResult, ...]]:
        """Every file, whole, by the ordinary tasks; or an error."""
        units = self._units(files)
        plan = Plan(*self._names, version=opened.version, now=self._clock(), units=units)
        columns = resolve_columns(self._place, opened, plan, self._emit)
        task = self._task(columns, work)
        results: list[UnitResult] = []
        left = units
        while left:
            if self._stop.is_set():
                raise RunStopped("stopped while files were read again; nothing was changed")
            wave = self._wave(task, left)
            raise_failures(wave)
            results.extend(wave)
            outcomes = [outcome for result in wave for outcome in result.outcomes]
            _check(outcomes)
            before, left = left, left_of(left, outcomes)
            if left == before:
                raise TidegateError(f"{self._place.key}: nothing was read of {len(left)} units", "see the tasks' log")
        failpoint("runs.read")
        return columns, tuple(results)

    def _units(self, files: Sequence[SourceFile]) -> tuple[Unit, ...]:
        slices = [FileSlice(file.path, file.size, file.etag) for file in files]
        return grouped(slices, Sizing(UNIT_BYTES, self._place.source.interval_files, self._place.parallelism))

    def _task(self, columns: Columns, work: Location) -> ReadTask:
        """The task of a run, but for where it writes: whole files, in pieces that are read back one at a time."""
        task = columns.task(self._place.pipeline, self._place.source, None, self._run)
        writer = replace(task.writer, file_size=min(task.writer.file_size, FILE_BYTES))
        return replace(task, table=work, writer=writer, whole_files=True)

    def _wave(self, task: ReadTask, units: Sequence[Unit]) -> tuple[UnitResult, ...]:
        self._lane.prepare()
        slots = deal(units, self._place.parallelism * SLOTS_PER_CORE)
        files, size = sum(unit.files for unit in units), sum(unit.bytes for unit in units)
        self._emit(events.WaveStarted(*self._names, len(slots), files, size))
        return self._lane.execute(
            task, slots, lambda done: self._emit(events.WaveProgressed(*self._names, done, len(slots)))
        )

    def _commit(self, choice: Choice, columns: Columns, results: Sequence[UnitResult], work: Location) -> Opened:
        """Replace the rows; when another run of the source was first, once more on top of that.

        What was read stays right: the rows of a finished file do not depend on the position.
        """
        store = open_store(work)
        files = [file for result in results for file in result.data_files]
        change = Change(
            state={},
            embedded={},
            coverage=(*coverage_of(results), *(Coverage(path, 0, None, 0, 0, True) for path in choice.dropped)),
            rows=sum(result.rows for result in results),
            schema=columns.table,
            partition_columns=columns.partition_columns,
            action="replay",
            replacement=Replacement(choice.predicate, lambda schema: rows_of(store, files, schema)),
        )
        tries = 0
        while True:
            opened = self._opened()
            state = self._still_finished(self._place.opened_state(opened), choice)
            embedded = self._place.tracker.embedded(state)
            whole = replace(self._with_letters(opened, change, choice, results), state=state, embedded=embedded)
            tries += 1
            try:
                failpoint("runs.commit.before")
                done = self._place.positions.commit(opened, whole)
                failpoint("runs.commit.after")
                return done
            except CommitLost:
                if tries == TRIES_AGAINST_OTHERS or self._stop.is_set():
                    raise

    def _with_letters(self, opened: Opened, change: Change, choice: Choice, results: Sequence[UnitResult]) -> Change:
        """The change with the letters that the files bring now, and answers to those they brought before."""
        new = Letters.of(results)
        paths = {*(file.path for file in choice.files), *choice.dropped}
        before = [letter for letter in chosen(self._place, LetterChoice()) if letter.file in paths]
        answers = answered(self._place, before, REPLAYED, self._run)
        together = Letters((*new.files, *answers.files), new.count)
        return replace(
            change,
            dead_letter_files=together.files,
            debts=together.debts(self._place, opened),
            letters=new.count - len(before),
        )

    def _still_finished(self, state: Any, choice: Choice) -> dict[str, object]:
        """The state as it is now, unless it says by now that one of the files is to be read."""
        now = self._clock()
        due = self._place.tracker.sorted(state, choice.files, now).due
        if due:
            raise TidegateError(
                f"{self._place.key}: {due[0].path} was finished when the replay began, and now waits to be read: the "
                "watermark was moved meanwhile",
                "nothing was replaced; replay again",
            )
        return self._place.tracker.encode(replace(state, last_update_ts=int(now.timestamp())))

    @contextmanager
    def _work_area(self) -> Iterator[Location]:
        """A place below the table for one replay; removed at its end, like those that were left a day ago."""
        place = self._place
        clean_old(place.table_store, place.key, self._clock())
        work = new_work_area(place.key, place.pipeline.sink.table)
        try:
            yield work.location
        finally:
            with suppress(StorageError):
                remove_work(place.table_store, work.directory)

    def _report(self, selection: Selection, choice: Choice, opened: Opened, *, drop_missing: bool) -> ReplayReport:
        return ReplayReport(
            pipeline=self._place.pipeline.name,
            source=self._place.source.name,
            table_uri=self._place.pipeline.sink.table.uri,
            selected=str(selection),
            replayed=file_set(choice.files),
            left_to_run=file_set(choice.due),
            missing=FileSet(len(choice.missing), 0, choice.missing[:EXAMPLES]),
            drop_missing=drop_missing,
            rows_removed=choice.rows,
            rows_written=None,
            notes=(*opened.warnings, *choice.notes()),
            version=opened.version,
            table_version=opened.table_version,
        )


def _check(outcomes: Sequence[FileOutcome]) -> None:
    """Give the replay up if a file could not be read; nothing was changed."""
    for outcome in outcomes:
        match outcome:
            case Changed(path=path):
                raise ObjectChanged(f"{path} changed while it was read again", "nothing was replaced; replay again")
            case Refused(path=path, reason=reason):
                raise SourceError(
                    f"{path} cannot be read again: {reason}",
                    "nothing was replaced: correct the file and replay again, or leave it out",
                )
            case _:
                pass
