"""Progress of a run for people: bars on a terminal, a line now and then elsewhere.

``rich`` is imported only when a bar is shown. Use the views as context managers, so that the terminal is restored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Self

from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.logs import label_event, sentence, subject
from tidegate.reports.wording import broken, count, duration, short, size, size_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

BAR_WIDTH = 12


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """The progress of one pass over one source.

    ``files``, ``bytes`` and ``rows`` are committed or staged; ``read_…`` are read and wait for their commit; ``open_…``
    were read by tasks in unfinished groups.
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
    read_rows: int = 0
    open_bytes: int = 0
    open_rows: int = 0

    @property
    def bytes_so_far(self) -> int:
        """Committed bytes and those that tasks have read since; never more than planned."""
        return min(self.planned_bytes, self.bytes + self.read_bytes + self.open_bytes)

    @property
    def rows_so_far(self) -> int:
        """Committed rows and those that tasks have read since."""
        return self.rows + self.read_rows + self.open_rows

    @property
    def busy(self) -> bool:
        """Whether planned work is unfinished."""
        return self.planned_files > 0 and not self.finished

    def after(self, event: Event) -> SourceProgress:
        """The progress after an event."""
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
                return replace(self, stage="reading", read_bytes=0, read_rows=0)
            case events.WaveProgressed():
                return replace(self, stage="reading", read_bytes=event.bytes, read_rows=event.rows)
            case events.TasksReading():
                return replace(self, open_bytes=event.bytes, open_rows=event.rows)
            case _:
                return self._after_result(event)

    def _after_result(self, event: Event) -> SourceProgress:
        match event:
            case events.Committed():
                return replace(self._with_rows(event), stage="committed", commits=self.commits + 1)
            case events.Staged():
                return replace(self._with_rows(event), stage="staged", staged=self.staged + 1)
            case events.CommitContested():
                return replace(self, stage="planning again", read_bytes=0, read_rows=0)
            case events.FileRefused():
                return replace(self, refused=self.refused + 1)
            case events.DeadLetters():
                return replace(self, letters=self.letters + event.records + event.files)
            case events.SourceFinished():
                return replace(
                    self, stage="failed" if event.failed else event.state, finished=True, open_bytes=0, open_rows=0
                )
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
            read_rows=0,
        )

    def short_words(self) -> str:
        """The numbers, short enough for a bar on 80 columns; before there are any, the stage."""
        if not self.planned_files:
            return self.stage
        numbers = (
            f"{self.files:,}/{count(self.planned_files, 'file')}",
            size_of(self.bytes_so_far, self.planned_bytes),
            f"{short(self.rows_so_far)} rows",
            f"{self.refused:,} failed" if self.refused else "",
            f"{self.letters:,} bad" if self.letters else "",
        )
        return ", ".join(filter(None, numbers))

    def words(self) -> str:
        """The numbers in one line: ``120 of 480 files, 1.2 of 4.0 GiB…``."""
        return self._numbers(
            f"{self.files:,} of {count(self.planned_files, 'file')}",
            f"{size(self.bytes_so_far)} of {size(self.planned_bytes)}",
            count(self.rows_so_far, "row"),
            refused=f"{count(self.refused, 'file')} failed",
            letters=count(self.letters, "dead letter"),
        )

    def _numbers(self, *so_far: str, refused: str, letters: str) -> str:
        results = count(self.staged, "staged unit") if self.staged else count(self.commits, "commit")
        return ", ".join([*so_far, results, *([refused] if self.refused else []), *([letters] if self.letters else [])])


class RunProgress:
    """The progress of all sources, by ``(pipeline, source)``, in order of appearance."""

    def __init__(self) -> None:
        self._by_source: dict[tuple[str, str], SourceProgress] = {}

    def count(self, event: Event) -> SourceProgress:
        """Count an event and return the new progress of its source."""
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
        """Make room for other output."""
        return nullcontext()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the terminal."""


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
    """Writes lines: when something begins or ends, and every ``period`` seconds in between.

    A thread watches the clock, so that a line comes even while the run is silent.
    """

    def __init__(self, stream: IO[str], period: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._period = period
        self._clock = clock
        self._bars = ProgressView(clock)
        self._last = clock()
        # Events come from any thread, and the watching thread writes, too.
        self._writing = threading.RLock()
        self._over = threading.Event()

    def __call__(self, event: Event) -> None:
        with self._writing:
            self._bars.count(event)
            if isinstance(event, events.ColumnsInferred):
                self.write(_summarize_columns(event))
            elif isinstance(event, _MILESTONES):
                self._tell(label_event(event, sentence(event)))
            else:
                self.look()

    def look(self) -> None:
        """Write the progress of busy sources, if that is due."""
        with self._writing:
            if self._clock() - self._last >= self._period:
                for bar in self._bars.busy(self._period):
                    self._tell(f"{bar.about}: {bar.words()}" if bar.about else bar.words())

    def _tell(self, text: str) -> None:
        self._last = self._clock()
        self.write(f"{text}\n")

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="progress", daemon=True).start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(min(1.0, self._period)):
            with suppress(OSError, ValueError):  # the reader is gone
                self.look()

    def __exit__(self, *error: object) -> None:
        self._over.set()


_SESSION_IS_THERE = (
    events.WaveStarted,
    events.WaveProgressed,
    events.ReadFixed,
    events.WorkUnitsFinished,
    events.Committed,
    events.SourceFinished,
    events.SourceFailed,
)
SURE_AFTER = 3.0
"""Seconds of reading after which the remaining time can be estimated."""


@dataclass(slots=True)
class SourceBar:
    """The progress of one source, with times: ``began`` its pass, ``entered`` its stage, ``reads`` its first bytes."""

    about: str
    clock: Callable[[], float]
    tally: SourceProgress = field(default_factory=SourceProgress)
    began: float = 0.0
    entered: float = 0.0
    reads: float | None = None

    def count(self, tally: SourceProgress, event: Event) -> None:
        """Update the progress after an event."""
        now = self.clock()
        if isinstance(event, events.PollStarted) and not tally.commits and not tally.staged:
            self.began, self.reads = now, None
        if tally.stage.partition(":")[0] != self.tally.stage.partition(":")[0]:
            self.entered = now
        if self.reads is None and isinstance(event, events.WaveStarted | events.WorkUnitsPlanned):
            self.reads = now
        self.tally = tally

    def is_slow(self, seconds: float) -> bool:
        """Whether its stage has lasted that long."""
        is_at_work = not self.tally.finished and self.tally.stage != "waiting"
        return is_at_work and self.clock() - self.entered >= seconds

    def words(self) -> str:
        """The numbers and the remaining time; before there are numbers, the stage and its duration."""
        return self._with_time(self.tally.words())

    def short_words(self) -> str:
        """The same, short enough for a bar on 80 columns."""
        return self._with_time(self.tally.short_words())

    def _with_time(self, numbers: str) -> str:
        if self.tally.finished:
            return numbers if self.tally.planned_files else self.tally.stage
        if not self.tally.planned_files:
            left = self.estimate_left()
            since = self.entered if self.reads is None else self.reads
            return f"{self.tally.stage}, {left or _seconds(self.clock() - since)}"
        return f"{numbers}, {self.estimate_left() or _seconds(self.clock() - self.began)}"

    def estimate_left(self) -> str:
        """The remaining time at the current pace; empty if unknown."""
        done, whole = self.tally.bytes_so_far, self.tally.planned_bytes
        spent = 0.0 if self.reads is None else self.clock() - self.reads
        if spent < SURE_AFTER or not 0 < done < whole:
            return ""
        return f"{duration(max(1.0, round(spent * (whole - done) / done)))} left".replace(".0 s", " s")


def _summarize_columns(event: events.ColumnsInferred) -> str:
    """One line; ``tidegate schema show`` has the columns."""
    return label_event(event, f"{event.text.partition(': ')[0]} (`tidegate schema show` lists them)") + "\n"


def _count_others(bars: Sequence[SourceBar]) -> str:
    """What became of the sources so far, in a few words."""
    done = [bar.tally for bar in bars if bar.tally.finished]
    failed = sum(each.stage == "failed" for each in done)
    words = (f"{len(done) - failed:,} done", f"{failed:,} failed" if failed else "", f"{short(_rows(bars))} rows")
    return ", ".join(filter(None, words))


def _rows(bars: Sequence[SourceBar]) -> int:
    return sum(bar.tally.rows_so_far for bar in bars)


def _seconds(spent: float) -> str:
    """Whole seconds, so that a line changes once a second."""
    return f"{int(spent)} s" if spent < 60 else duration(int(spent))


class ProgressView:
    """The sources of a run in order of appearance; starting Spark is one of them, until it is done."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tallies = RunProgress()
        self._bars: dict[str, SourceBar] = {}
        self._lock = threading.Lock()

    def count(self, event: Event) -> None:
        """Count an event."""
        with self._lock:
            now = self._clock()
            tally, about = self._tallies.count(event), subject(event)
            bar = self._bars.setdefault(about, SourceBar(about, self._clock, began=now, entered=now))
            bar.count(tally, event)
            if isinstance(event, _SESSION_IS_THERE):
                self._bars.pop("", None)

    def shown(self) -> list[SourceBar]:
        """All of them."""
        with self._lock:
            return list(self._bars.values())

    def busy(self, seconds: float) -> list[SourceBar]:
        """Sources that are read, or have been at one stage for that long; while Spark starts, only that."""
        found = [bar for bar in self.shown() if bar.tally.busy or bar.is_slow(seconds)]
        return [bar for bar in found if not bar.about] or found


MOST_BARS = 8
"""The most sources that have a line of their own on a terminal."""


class BarProgress(SilentProgress):
    """A bar per source on a terminal, a spinner while there is nothing to measure; a thread redraws them.

    Where there are many sources, those at work have a bar, and the others are counted.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.spinner import Spinner

        super().__init__(console.file)
        self._console = console
        self._bars = ProgressView(clock)
        self._spinner = Spinner("dots")
        self._live = self._new_live()

    def _new_live(self) -> Live:
        from rich.live import Live

        return Live(console=self._console, get_renderable=self.renderable, refresh_per_second=8, transient=True)

    def __call__(self, event: Event) -> None:
        self._bars.count(event)
        if isinstance(event, events.ColumnsInferred):
            self.write(_summarize_columns(event))

    def write(self, text: str) -> object:
        """Print a line above the bars, wrapped between words."""
        for line in text.rstrip("\n").splitlines():
            self._console.print(broken(line, self._console.width), markup=False, highlight=False, soft_wrap=True)
        return len(text)

    def renderable(self) -> RenderableType:
        """The bars as they stand now."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=1)
        grid.add_column(no_wrap=True, overflow="ellipsis", max_width=24)
        grid.add_column(width=BAR_WIDTH)
        grid.add_column(no_wrap=True, overflow="ellipsis")
        # The start of Spark is what all of them wait for.
        bars = sorted(self._bars.shown(), key=lambda bar: bool(bar.about))
        chosen = bars if len(bars) <= MOST_BARS else [bar for bar in bars if not bar.tally.finished][:MOST_BARS]
        for bar in chosen:
            tally = bar.tally
            total = float(tally.planned_bytes) if tally.planned_bytes else 1.0 if tally.finished else None
            done = tally.bytes_so_far if tally.planned_bytes else int(tally.finished)
            mark = Text("✓") if tally.finished else self._spinner
            drawn = ProgressBar(total=total, completed=done, width=BAR_WIDTH)
            grid.add_row(mark, Text(bar.about or "tidegate"), drawn, Text(bar.short_words()))
        if len(chosen) < len(bars):
            grid.add_row(Text(" "), Text(f"{len(bars) - len(chosen)} more"), Text(""), Text(_count_others(bars)))
        return grid

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Remove the bars, and restore them afterwards; a stopped display would draw over the output."""
        self._live.stop()
        try:
            yield
        finally:
            self._live = self._new_live()
            self._live.start()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()
