"""Sources side by side: nobody waits for a slow, hanging or failing neighbour, and their commits do not collide."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidegate
from support.errors import check_names, raises
from tidegate import ProjectSpec, RunReport, load
from tidegate.observe import events
from tidegate.runs import schedule
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop

GATE = threading.Event()
CALLS: list[str] = []


@pytest.fixture(autouse=True)
def closed_gate() -> Any:
    GATE.clear()
    CALLS.clear()
    yield
    GATE.set()


def hang(session: object, request: Any) -> object:
    """A source that answers only when the gate is open."""
    import pyarrow as pa

    CALLS.append("hang")
    GATE.wait(30)
    return pa.table({"id": [1]})


def fail(session: object, request: Any) -> object:
    CALLS.append("fail")
    raise OSError("no such server")


def one_row(session: object, request: Any) -> object:
    import pyarrow as pa

    CALLS.append("one_row")
    return pa.table({"id": [1]})


class Project:
    """Pipelines of functions and folders; ``events`` are those of the last run."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.settings = settings
        self.pipelines: dict[str, Any] = {}
        self.events: list[events.Event] = []

    def function(self, name: str, function: Callable[..., object], **source: Any) -> None:
        read = {"type": "python", "function": f"{__name__}:{function.__name__}", "watermark_columns": ["id"], **source}
        self.pipelines[name] = {"source": read, "sink": {"table_uri": f"lake/{name}", "load_type": "append"}}

    def files(self, name: str, table: str | None = None, **source: Any) -> None:
        (self.folder / name).mkdir(exist_ok=True)
        self.pipelines[name] = {
            "source": {"source_uri": name, **source},
            "schema": {"fields": [{"name": "id", "type": "int64"}]},
            "sink": {"table_uri": f"lake/{table or name}"},
        }

    def arrive(self, name: str, number: int) -> None:
        (self.folder / name / f"{number:04}.ndjson").write_text(json.dumps({"id": number}) + "\n")

    @property
    def spec(self) -> ProjectSpec:
        path = self.folder / "pipelines.yml"
        path.write_text(json.dumps({**self.settings, "engine": "local", "pipelines": self.pipelines}))
        return load(path)

    def loop(self, stop: threading.Event | None = None, emit: events.Emit | None = None, **more: Any) -> Loop:
        self.events = []
        return Loop(self.spec, InProcessEngine(), 2, emit or self.events.append, stop or threading.Event(), **more)

    def once(self, **more: Any) -> RunReport:
        running = self.loop(**more)
        return running.once(running.project.pipelines)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_source_that_hangs_or_fails_delays_nobody(project: Project) -> None:
    project.function("hangs", hang)
    project.function("fails", fail)
    project.files("files")
    project.arrive("files", 1)
    committed = threading.Event()

    def open_after_commit(event: events.Event) -> None:
        if isinstance(event, events.Committed) and event.pipeline == "files":
            committed.set()
            GATE.set()

    report = project.once(emit=open_after_commit)
    assert committed.is_set()
    assert [(each.pipeline, each.rows, each.error is None) for each in report.sources] == [
        ("hangs", 1, True),
        ("fails", 0, False),
        ("files", 1, True),
    ]
    assert not report.ok


def test_a_continuous_source_keeps_its_interval_beside_one_that_hangs(project: Project) -> None:
    project.settings = {"global": {"poll_jitter_secs": 0}}
    project.function("hangs", hang, poll_interval_secs=1)
    project.files("files", poll_interval_secs=1)
    project.arrive("files", 1)
    stop = threading.Event()
    polls: list[str] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.Committed | events.PollStarted):
            polls.append(event.pipeline)
        if isinstance(event, events.SourceFinished) and event.pipeline == "files":
            if polls.count("files") >= 6:
                stop.set()
                GATE.set()
            else:
                project.arrive("files", polls.count("files") + 10)

    running = project.loop(stop, note)
    report = running.continuously(running.project.pipelines)
    assert polls.count("hangs") == 1 + report.sources[0].commits
    assert report.sources[1].rows >= 3
    assert CALLS == ["hang"]


def test_failures_are_told_at_the_end_and_fail_fast_stops_the_others(project: Project) -> None:
    project.settings = {"global": {"max_concurrent_sources": 1}}
    project.function("fails", fail)
    project.function("after", one_row)
    report = project.once()
    assert [(each.pipeline, each.rows) for each in report.sources] == [("fails", 0), ("after", 1)]
    project.pipelines["after"]["sink"]["table_uri"] = "lake/again"
    report = project.once(fail_fast=True)
    assert [each.pipeline for each in report.sources] == ["fails"]
    assert not report.ok
    (told,) = (each.text for each in project.events if isinstance(each, events.Notice))
    check_names(told, "after/default", "--fail-fast")
    assert not (project.folder / "lake" / "again").exists()


def test_no_more_sources_run_at_once_than_allowed(project: Project) -> None:
    project.settings = {"global": {"max_concurrent_sources": 2}}
    for number in range(5):
        project.files(f"files{number}")
        project.arrive(f"files{number}", number)
    running, most = set[str](), 0

    def count(event: events.Event) -> None:
        nonlocal most
        if isinstance(event, events.PollStarted):
            running.add(event.pipeline)
            most = max(most, len(running))
            time.sleep(0.05)
        elif isinstance(event, events.SourceFinished):
            running.discard(event.pipeline)

    assert project.once(emit=count).ok
    assert most == 2


def test_a_pass_that_takes_too_long_is_a_failure_and_the_next_one_goes_on(project: Project) -> None:
    project.files("files", max_pass_secs=1, checkpoint={"interval_files": 1})
    for number in range(3):
        project.arrive("files", number)

    def be_slow(event: events.Event) -> None:
        if isinstance(event, events.Committed):
            time.sleep(1.3)

    report = project.once(emit=be_slow)
    (source,) = report.sources
    check_names(source.error, "max_pass_secs", "1")
    assert 0 < source.rows < 3
    assert not report.ok
    assert project.once().sources[0].rows == 3 - source.rows


def test_a_pass_that_does_not_stop_is_left_behind(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "LEFT_BEHIND_SECS", 0.3)
    project.settings = {"global": {"max_concurrent_sources": 1}}
    project.function("hangs", hang, max_pass_secs=1)
    project.function("after", one_row)
    report = project.once()
    hangs, after = report.sources
    check_names(hangs.error, "max_pass_secs", "not stopped")
    assert (after.rows, after.error) == (1, None)
    assert CALLS == ["hang", "one_row"]


def test_sources_of_one_table_do_not_contest_its_log(project: Project) -> None:
    for number in range(4):
        project.files(f"files{number}", "shared", use_watermark=True, checkpoint={"interval_files": 1})
        for each in range(3):
            project.arrive(f"files{number}", number * 10 + each)
    sources = {name: each["source"] for name, each in project.pipelines.items()}
    first = project.pipelines["files0"]
    project.pipelines = {"shared": {**{key: first[key] for key in ("schema", "sink")}, "sources": sources}}
    report = project.once()
    assert [each.rows for each in report.sources] == [3, 3, 3, 3]
    assert not [event for event in project.events if isinstance(event, events.CommitContested)]
    rows = tidegate.load(project.folder / "pipelines.yml").pipelines[0].sink.table
    from tidegate.protocol.delta import query

    found = sorted(row["id"] for row in query(rows, "select id from t"))
    assert found == sorted(number * 10 + each for number in range(4) for each in range(3))


def test_a_pipeline_waits_for_the_one_whose_table_it_reads(project: Project) -> None:
    read = {"type": "delta", "source_uri": "lake/first", "watermark_columns": ["id"]}
    project.pipelines["second"] = {"source": read, "sink": {"table_uri": "lake/second", "load_type": "append"}}
    project.function("first", one_row)
    report = project.once()
    assert [(each.pipeline, each.rows, each.error) for each in report.sources] == [
        ("second", 1, None),
        ("first", 1, None),
    ]


def test_what_no_pass_should_raise_reaches_the_caller_once_the_others_have_stopped(project: Project) -> None:
    project.files("files")
    project.arrive("files", 1)

    class Broken(InProcessEngine):
        def prepare(self) -> None:
            raise ZeroDivisionError

    spec = project.spec
    with pytest.raises(ZeroDivisionError):
        Loop(spec, Broken(), 1).once(spec.pipelines)


def test_a_continuous_run_cannot_fail_fast(project: Project) -> None:
    project.files("files")
    with raises(tidegate.ConfigError, "--fail-fast", "continuous"):
        tidegate.run(project.spec, mode="continuous", fail_fast=True)
