"""Progress shows what happens: lines at a steady pace where nobody draws, bars on a terminal."""

from __future__ import annotations

import io
import subprocess
import sys

from rich.console import Console

from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.progress import BarProgress, PlainProgress, SilentProgress


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


def test_between_milestones_a_line_comes_once_per_period() -> None:
    stream, clock = io.StringIO(), Clock()
    with PlainProgress(stream, period=10, clock=clock) as view:
        view(planned(8))
        view(WAVE)
        for second in range(25):
            clock.time = float(second)
            view(progressed(min(second // 6, 4)))
    assert stream.getvalue().splitlines()[1:] == [
        "p/s: 0 of 8 files, 2.0 KiB of 8.0 KiB, 0 rows, 0 commits",
        "p/s: 0 of 8 files, 6.0 KiB of 8.0 KiB, 0 rows, 0 commits",
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


def test_a_bar_shows_files_bytes_rows_and_commits_on_80_columns() -> None:
    text = drawn(planned(8), WAVE, progressed(2))
    assert "0/8 files, 4.0/8.0 KiB, 0 rows, 0 commits 0:00:00" in text
    assert max(map(len, text.splitlines())) <= 80


def test_before_anything_is_planned_the_stage_is_shown() -> None:
    assert "p/s" in drawn(events.PollStarted("p", "s", version=0))
    assert "listing" in drawn(events.PollStarted("p", "s", version=0))


def test_the_start_of_spark_disappears_when_tasks_run() -> None:
    starting = events.SessionStarting("", "", where="local[2]")
    assert "starting Spark (local[2])" in drawn(planned(8), starting)
    assert "Spark" not in drawn(planned(8), starting, WAVE)


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


def test_the_terminal_library_is_not_loaded_without_a_terminal() -> None:
    code = "import tidegate.observe.progress, tidegate.observe.logs, sys; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
