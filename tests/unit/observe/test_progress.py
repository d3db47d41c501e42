"""Progress shows what happens: lines at a steady pace where nobody draws, bars on a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
import time

import pytest
from rich.console import Console

from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.logs import TerminalLog
from tidegate.observe.progress import BarProgress, PlainProgress, SilentProgress, SourceProgress


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def planned(files: int) -> Event:
    return events.PlanMade("p", "s", units=4, files=files, bytes=files * 1024)


def progressed(done: int) -> Event:
    return events.WaveProgressed("p", "s", done=done, units=4, bytes=done * 2048)


def finished() -> Event:
    return events.SourceFinished(
        "p", "s", state="Active", watermark="w", source_files=8, rows=80, failed_files=1, commits=2, seconds=3
    )


WAVE = events.WaveStarted("p", "s", units=4, files=8, bytes=8192)


def test_a_quiet_view_shows_no_event_but_passes_lines_on() -> None:
    stream = io.StringIO()
    with SilentProgress(stream) as view, view.aside():
        view(planned(8))
        view.write("a line\n")
    assert stream.getvalue() == "a line\n"


def test_milestones_are_told_at_once() -> None:
    stream = io.StringIO()
    with PlainProgress(stream, clock=Clock()) as view:
        view(events.SessionStarting("", "", where="local[2]"))
        view(planned(8))
        view(finished())
    assert stream.getvalue().splitlines() == [
        "starting Spark (local[2])",
        "p/s: planned 8 files (8.0 KiB) in 4 units",
        "p/s: Active: 8 files, 80 rows, 2 commits, 1 file failed in 3.0 s",
    ]


def test_rows_and_bytes_of_open_tasks_count_until_they_are_finished() -> None:
    tally = SourceProgress().after(planned(8)).after(WAVE)
    reading = tally.after(events.TasksReading("p", "s", bytes=3000, rows=70))
    assert reading.words() == "0 of 8 files, 2.9 KiB of 8.0 KiB, 70 rows, 0 commits"
    done = reading.after(events.TasksReading("p", "s", bytes=0, rows=0))
    done = done.after(events.WaveProgressed("p", "s", done=1, units=4, bytes=4096, rows=90))
    assert (done.bytes_so_far, done.rows_so_far) == (4096, 90)


def test_between_milestones_a_line_comes_once_per_period() -> None:
    stream, clock = io.StringIO(), Clock()
    with PlainProgress(stream, period=10, clock=clock) as view:
        view(planned(8))
        view(WAVE)
        for second in range(25):
            clock.time = float(second)
            view(progressed(min(second // 6, 4)))
    assert stream.getvalue().splitlines()[1:] == [
        "p/s: 0 of 8 files, 2.0 KiB of 8.0 KiB, 0 rows, 0 commits, 30 s left",
        "p/s: 0 of 8 files, 6.0 KiB of 8.0 KiB, 0 rows, 0 commits, 7 s left",
    ]


def test_an_idle_source_is_silent_between_polls() -> None:
    stream, clock = io.StringIO(), Clock()
    with PlainProgress(stream, period=10, clock=clock) as view:
        view(finished())
        clock.time = 100.0
        view(events.PollStarted("p", "s", version=2))
    assert len(stream.getvalue().splitlines()) == 1


def drawn(*happened: Event, width: int = 80) -> str:
    """What stands on the terminal after the last event."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    with BarProgress(console) as view:
        for event in happened:
            view(event)
        with console.capture() as captured:
            console.print(view.renderable())
    return captured.get()


def test_a_line_comes_while_nothing_is_heard_of_a_run() -> None:
    stream, clock = io.StringIO(), Clock()
    with PlainProgress(stream, period=10, clock=clock) as view:
        view(planned(8))
        view(events.SessionStarting("", "", where="local[2]"))
        for clock.time in (9.0, 12.0, 15.0, 25.0):
            view.look()
    assert stream.getvalue().splitlines()[2:] == ["starting Spark (local[2]), 12 s", "starting Spark (local[2]), 25 s"]


def test_inferred_columns_are_one_line() -> None:
    text = "inferred 2 columns from 9 records: id: int64 (in 100% of 9 records); `tidegate schema show` lists all"
    stream = io.StringIO()
    with PlainProgress(stream, clock=Clock()) as view:
        view(events.ColumnsInferred("p", "s", text))
    told = "p/s: inferred 2 columns from 9 records (`tidegate schema show` lists them)\n"
    assert stream.getvalue() == told
    screen = io.StringIO()
    with BarProgress(Console(file=screen, force_terminal=True, width=120, color_system=None)) as bars:
        bars(events.ColumnsInferred("p", "s", text))
    assert told in screen.getvalue()


def test_lines_above_the_bars_are_broken_between_words() -> None:
    screen = io.StringIO()
    with BarProgress(Console(file=screen, force_terminal=True, width=30, color_system=None)) as bars:
        log = TerminalLog(bars.write)
        log(events.LateFilesFound("p", "s", 3, "date=2026-01-28/hour=14/0007.ndjson.gz"))
    told = "info: p/s: 3 files arrived\n  late, e.g.\n  date=2026-01-28/hour=14/0007.ndjson.gz\n"
    assert told in screen.getvalue()


def test_the_thread_looks_by_itself() -> None:
    stream = io.StringIO()
    with PlainProgress(stream, period=0.05) as view:
        view(events.SessionStarting("", "", where="local[2]"))
        until = time.monotonic() + 20
        while len(stream.getvalue().splitlines()) < 3 and time.monotonic() < until:
            time.sleep(0.01)
    assert stream.getvalue().splitlines()[1:3] == ["starting Spark (local[2]), 0 s"] * 2


def test_a_bar_shows_files_bytes_rows_and_time_on_80_columns() -> None:
    text = drawn(planned(8), WAVE, progressed(2))
    assert "0/8 files, 4.0/8.0 KiB, 0 rows, 0 s" in text
    assert max(map(len, text.splitlines())) <= 80


def test_before_anything_is_planned_the_stage_is_shown() -> None:
    assert "p/s" in drawn(events.PollStarted("p", "s", version=0))
    assert "listing" in drawn(events.PollStarted("p", "s", version=0))


def test_the_start_of_spark_disappears_when_tasks_run() -> None:
    starting = events.SessionStarting("", "", where="local[2]")
    assert "starting Spark (local[2])" in drawn(planned(8), starting)
    assert "Spark" not in drawn(planned(8), starting, WAVE)


@pytest.mark.parametrize(
    ("happened", "told"),
    [
        ((planned(8), WAVE, progressed(1)), "0/8 files, 2.0/8.0 KiB, 0 rows, 36 s left"),
        ((events.WorkUnitsPlanned("p", "s", 10, 0, 1), events.WorkUnitsFinished("p", "s", 4, 1, 10)), "12 s left"),
        ((events.SessionStarting("", "", where="local[2]"),), "starting Spark (local[2]), 12 s"),
        ((events.PollStarted("p", "s", version=0),), "listing, 12 s"),
    ],
)
def test_time_goes_on_between_events(happened: tuple[Event, ...], told: str) -> None:
    clock = Clock()
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    with BarProgress(console, clock) as view:
        for event in happened:
            view(event)
        clock.time = 12.0
        with console.capture() as captured:
            console.print(view.renderable())
    assert told in captured.get()


ON_A_TERMINAL = """
import sys, time
from tidegate.cli.terminal import console_for
from tidegate.observe.events import SessionStarting
from tidegate.observe.progress import BarProgress

with BarProgress(console_for(sys.stdout, colour=True)) as view:
    view(SessionStarting("", "", where="local[2]"))
    time.sleep(2.5)
    with view.aside():
        print("<a table>\\n")
    time.sleep(0.5)
"""


@pytest.mark.slow
def test_a_terminal_sees_the_seconds_count_up_without_an_event() -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", ON_A_TERMINAL], stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    with contextlib.suppress(OSError):  # the other end of a terminal that closed
        while part := os.read(master, 65_536):
            seen += part
    os.close(master)
    assert process.wait(60) == 0
    text = seen.decode()
    for seconds in (0, 1, 2):
        assert f"starting Spark (local[2]), {seconds} s" in text
    _, below = text.split("<a table>")
    assert "starting Spark" in below
    assert "\x1b[1A" not in below.partition("starting Spark")[0]


def test_markup_in_a_name_is_shown_as_it_is() -> None:
    assert "p/[red]" in drawn(events.PollStarted("p", "[red]", version=0))


def test_lines_are_written_above_the_bars_and_the_bars_come_back() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, color_system=None)
    with BarProgress(console) as view:
        view(planned(8))
        view.write("warning [bold]x[/bold]\n")
        with view.aside():
            stream.write("<table>")
        view(WAVE)
    assert "warning [bold]x[/bold]\n" in stream.getvalue()
    assert "0/8 files" in stream.getvalue().partition("<table>")[2]


@pytest.mark.slow
def test_the_terminal_library_is_not_loaded_without_a_terminal() -> None:
    code = "import tidegate.observe.progress, tidegate.observe.logs, sys; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_of_many_sources_those_at_work_have_a_line_and_the_rest_is_counted() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, color_system=None)
    view = BarProgress(console)
    for number in range(30):
        view(events.PollStarted(f"p{number}", "s", 0, 0))
    for number in range(25):
        state = "failed" if number == 3 else "Active"
        view(ended(f"p{number}", state=state, failed=number == 3))
    console.print(view.renderable())
    lines = screen.getvalue().strip().splitlines()
    assert len(lines) == 6
    assert [f"p{number}/s" in line for number, line in zip(range(25, 30), lines, strict=False)] == [True] * 5
    assert "25 more" in lines[-1]
    assert "24 done, 1 failed" in lines[-1]


def ended(pipeline: str, *, state: str, failed: bool) -> events.SourceFinished:
    return events.SourceFinished(
        pipeline,
        "s",
        state=state,
        watermark=None,
        source_files=0,
        rows=0,
        failed_files=0,
        commits=0,
        seconds=0.0,
        failed=failed,
    )
