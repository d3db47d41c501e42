"""Progress of a run for people: bars on a terminal, a line now and then elsewhere.

Both consume events and keep their numbers in :mod:`tidegate.observe.tally`. ``rich`` is imported only when
a bar is shown. Use them as context managers, so that the terminal is left as it was found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.sentences import sentence, subject
from tidegate.observe.tally import Tallies

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, TaskID


class ProgressView(Protocol):
    """Something that shows events as they come.

    ``write`` prints a line beside it; ``aside`` clears the way for output of any other kind.
    """

    def __call__(self, event: Event) -> None: ...

    def write(self, text: str) -> object: ...

    def aside(self) -> AbstractContextManager[None]: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class SilentProgress:
    """Shows nothing; lines written beside it go to the stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: Event) -> None:
        """Nothing to show."""

    def write(self, text: str) -> object:
        """Write the text and flush, so that a log can be followed."""
        written = self._stream.write(text)
        self._stream.flush()
        return written

    def aside(self) -> AbstractContextManager[None]:
        """Nothing is in the way."""
        return nullcontext()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to put back."""


class PlainProgress(SilentProgress):
    """Writes lines: when something begins or ends, and every ``period`` seconds in between."""

    def __init__(self, stream: TextIO, period: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._period = period
        self._clock = clock
        self._tallies = Tallies()
        self._last = clock()

    def __call__(self, event: Event) -> None:
        tally = self._tallies.count(event)
        text = self._milestone(event)
        if not text and tally.busy and self._clock() - self._last >= self._period:
            text = tally.words()
        if isinstance(event, events.ComparisonProgressed) and self._clock() - self._last >= self._period:
            text = sentence(event)
        if text:
            self._last = self._clock()
            about = subject(event)
            self.write(f"{about + ': ' if about else ''}{text}\n")

    def _milestone(self, event: Event) -> str:
        match event:
            case events.SessionStarting() | events.PlanMade() | events.SourceFinished() | events.AnotherRun():
                return sentence(event)
            case events.ReadFixed() | events.ChunkFinished() | events.WorkUnitsPlanned() | events.WorkUnitsFinished():
                return sentence(event)
            case _:
                return ""


_SESSION_IS_THERE = (
    events.WaveStarted,
    events.WaveProgressed,
    events.ReadFixed,
    events.WorkUnitsFinished,
    events.Committed,
    events.SourceFinished,
    events.SourceFailed,
)


class BarProgress:
    """One bar per source on a terminal, a spinner while there is nothing to measure yet."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._progress: Progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[words]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._tallies = Tallies()
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, event: Event) -> None:
        tally = self._tallies.count(event)
        task = self._task(subject(event))
        if tally.planned_bytes:
            self._progress.update(task, total=tally.planned_bytes, completed=tally.bytes_so_far)
        else:
            self._progress.update(task, total=1 if tally.finished else None, completed=int(tally.finished))
        self._progress.update(task, words=tally.short_words())
        if isinstance(event, events.PollStarted) and not tally.results:
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
