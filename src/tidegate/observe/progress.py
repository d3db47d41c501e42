"""Progress of a run for people: bars on a terminal, a line now and then elsewhere.

``rich`` is imported only when a bar is shown. Use the views as context managers, so that the terminal is left as it
was found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Self

from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.logs import labelled, sentence, subject
from tidegate.observe.wording import count, short, size, size_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, TaskID


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """Where one pass over one source stands.

    ``files`` and ``bytes`` are committed or staged, ``read_bytes`` are read and wait for their commit.
    """

    stage: str = "waiting"
    finished: bool = False
    planned_files: int = 0
    planned_bytes: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    commits: int = 0
    staged: int = 0
    refused: int = 0
    letters: int = 0
    read_bytes: int = 0

    @property
    def bytes_so_far(self) -> int:
        """Committed bytes, and those that finished tasks have read besides; never more than planned."""
        return min(self.planned_bytes, self.bytes + self.read_bytes)

    @property
    def busy(self) -> bool:
        """Whether there is something planned that is not finished."""
        return self.planned_files > 0 and not self.finished

    def after(self, event: Event) -> SourceProgress:
        """The tally with that event counted in."""
        match event:
            case events.PollStarted():
                return replace(SourceProgress() if self.finished else self, stage="listing")
            case events.ComparisonProgressed():
                return replace(self, stage=f"{event.stage}: {event.count:,}")
            case events.AnotherRun():
                return replace(self, stage="waiting for another run")
            case events.SessionStarting():
                return replace(self, stage=f"starting Spark ({event.where})")
            case events.PlanMade():
                return replace(
                    self,
                    stage="planned",
                    planned_files=self.files + event.files,
                    planned_bytes=self.bytes + event.bytes,
                )
            case events.ReadFixed():
                return replace(self, stage="reading rows")
            case events.ChunkFinished():
                stage = f"{event.done:,} of {count(event.chunks, 'chunk')}"
                return replace(self, stage=stage, planned_bytes=event.chunks, bytes=event.done, read_bytes=0)
            case events.WorkUnitsPlanned():
                return replace(self, stage="reading work units", planned_bytes=event.units, bytes=0, read_bytes=0)
            case events.WorkUnitsFinished():
                stage = f"{event.done:,} of {count(event.planned, 'work unit')}"
                return replace(self, stage=stage, bytes=event.done + event.failed, read_bytes=0)
            case events.WaveStarted():
                return replace(self, stage="reading", read_bytes=0)
            case events.WaveProgressed():
                return replace(self, stage="reading", read_bytes=event.bytes)
            case _:
                return self._after_result(event)

    def _after_result(self, event: Event) -> SourceProgress:
        match event:
            case events.Committed():
                return replace(self._with_rows(event), stage="committed", commits=self.commits + 1)
            case events.Staged():
                return replace(self._with_rows(event), stage="staged", staged=self.staged + 1)
            case events.CommitContested():
                return replace(self, stage="planning again", read_bytes=0)
            case events.FileRefused():
                return replace(self, refused=self.refused + 1)
            case events.DeadLetters():
                return replace(self, letters=self.letters + event.records + event.files)
            case events.SourceFinished():
                return replace(self, stage="failed" if event.failed else event.state, finished=True)
            case events.SourceFailed():
                return replace(self, stage="failed", finished=True)
            case _:
                return self

    def _with_rows(self, event: events.Committed | events.Staged) -> SourceProgress:
        return replace(
            self,
            files=self.files + event.source_files,
            bytes=self.bytes + event.source_bytes,
            rows=self.rows + event.rows,
            read_bytes=0,
        )

    def short_words(self) -> str:
        """The numbers in as little space as a bar leaves on 80 columns; before there are any, the stage."""
        if not self.planned_files:
            return self.stage
        return self._numbers(
            f"{self.files:,}/{count(self.planned_files, 'file')}",
            size_of(self.bytes_so_far, self.planned_bytes),
            f"{short(self.rows)} rows",
            refused=f"{self.refused:,} failed",
            letters=f"{self.letters:,} bad",
        )

    def words(self) -> str:
        """The numbers in one line: ``120 of 480 files, 1.2 of 4.0 GiB…``."""
        return self._numbers(
            f"{self.files:,} of {count(self.planned_files, 'file')}",
            f"{size(self.bytes_so_far)} of {size(self.planned_bytes)}",
            count(self.rows, "row"),
            refused=f"{count(self.refused, 'file')} failed",
            letters=count(self.letters, "dead letter"),
        )

    def _numbers(self, *so_far: str, refused: str, letters: str) -> str:
        results = count(self.staged, "staged unit") if self.staged else count(self.commits, "commit")
        return ", ".join([*so_far, results, *([refused] if self.refused else []), *([letters] if self.letters else [])])


class RunProgress:
    """The tallies of all sources, by ``(pipeline, source)``, in the order in which they appeared."""

    def __init__(self) -> None:
        self._by_source: dict[tuple[str, str], SourceProgress] = {}

    def count(self, event: Event) -> SourceProgress:
        """Count the event in and give the new tally of its source."""
        key = (event.pipeline, event.source)
        tally = self._by_source.get(key, SourceProgress()).after(event)
        self._by_source[key] = tally
        return tally


class SilentProgress:
    """Shows nothing; lines written beside it go to the stream. Other views show events as they come."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __call__(self, event: Event) -> None:
        """Show the event, if there is something to show."""

    def write(self, text: str) -> object:
        """Write a line beside the view and flush, so that a log can be followed."""
        written = self._stream.write(text)
        self._stream.flush()
        return written

    def aside(self) -> AbstractContextManager[None]:
        """Clear the way for output of any other kind."""
        return nullcontext()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Put back what was there."""


_MILESTONES = (
    events.SessionStarting,
    events.PlanMade,
    events.SourceFinished,
    events.AnotherRun,
    events.ReadFixed,
    events.ChunkFinished,
    events.WorkUnitsPlanned,
    events.WorkUnitsFinished,
)


class PlainProgress(SilentProgress):
    """Writes lines: when something begins or ends, and every ``period`` seconds in between."""

    def __init__(self, stream: IO[str], period: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._period = period
        self._clock = clock
        self._tallies = RunProgress()
        self._last = clock()

    def __call__(self, event: Event) -> None:
        tally = self._tallies.count(event)
        text = sentence(event) if isinstance(event, _MILESTONES) else ""
        if not text and self._clock() - self._last >= self._period:
            compares = isinstance(event, events.ComparisonProgressed)
            text = sentence(event) if compares else tally.words() if tally.busy else ""
        if text:
            self._last = self._clock()
            self.write(labelled(event, text) + "\n")


_SESSION_IS_THERE = (
    events.WaveStarted,
    events.WaveProgressed,
    events.ReadFixed,
    events.WorkUnitsFinished,
    events.Committed,
    events.SourceFinished,
    events.SourceFailed,
)


class BarProgress(SilentProgress):
    """One bar per source on a terminal, a spinner while there is nothing to measure yet."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        super().__init__(console.file)
        self._progress: Progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[words]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._tallies = RunProgress()
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, event: Event) -> None:
        tally = self._tallies.count(event)
        task = self._task(subject(event))
        if tally.planned_bytes:
            self._progress.update(task, total=tally.planned_bytes, completed=tally.bytes_so_far)
        else:
            self._progress.update(task, total=1 if tally.finished else None, completed=int(tally.finished))
        self._progress.update(task, words=tally.short_words())
        if isinstance(event, events.PollStarted) and not tally.commits and not tally.staged:
            self._progress.reset(task, total=None, words=tally.short_words())
        if isinstance(event, _SESSION_IS_THERE) and "" in self._tasks:
            self._progress.remove_task(self._tasks.pop(""))

    def _task(self, about: str) -> TaskID:
        if about not in self._tasks:
            self._tasks[about] = self._progress.add_task(about or "tidegate", total=None, words="")
        return self._tasks[about]

    def write(self, text: str) -> object:
        """Print a line above the bars."""
        self._progress.console.print(text.rstrip("\n"), markup=False, highlight=False, soft_wrap=True)
        return len(text)

    def renderable(self) -> RenderableType:
        """The bars as they stand now."""
        return self._progress.get_renderable()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bars away, and put them back afterwards."""
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()
