"""Log lines carry the event, above their level only; every event has words."""

from __future__ import annotations

import dataclasses
import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from support.all_cases import for_all
from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.logs import LOGGER, JsonLog, Level, TextLog, keep_records, log_events, sentence, subject

NOW = datetime(2026, 1, 28, 14, 30, 5, 123_000, tzinfo=UTC)
NOTICE = events.Notice("events", "asia", text="careful")


def every_event() -> list[type[Event]]:
    return [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]


def sample(kind: type[Event]) -> Event:
    values: dict[str, Any] = {"int": 3, "int | None": 3, "float": 1.5, "bool": True, "Mapping[str, float]": {"a": 1.5}}
    fields = dataclasses.fields(kind)
    return kind(**{each.name: values.get(str(each.type), f"the {each.name}") for each in fields})


def lines_of(log: type[TextLog] | type[JsonLog], level: Level, *happened: Event) -> list[str]:
    lines: list[str] = []
    consumer = log(lines.append, level, lambda: NOW)
    for event in happened:
        consumer(event)
    return lines


def test_a_text_line_has_time_level_source_and_words() -> None:
    assert lines_of(TextLog, Level.INFO, NOTICE) == ["2026-01-28 14:30:05Z warning events/asia: careful\n"]


def test_a_json_line_has_the_documented_fields() -> None:
    (line,) = lines_of(JsonLog, Level.INFO, NOTICE)
    assert json.loads(line) == {
        "ts": "2026-01-28T14:30:05.123Z",
        "level": "warning",
        "event": "notice",
        "run": None,
        "pipeline": "events",
        "source": "asia",
        "fields": {"text": "careful"},
    }


@pytest.mark.parametrize("log", [TextLog, JsonLog])
def test_events_below_the_level_are_not_written(log: type[TextLog] | type[JsonLog]) -> None:
    assert lines_of(log, Level.ERROR, NOTICE) == []
    assert len(lines_of(log, Level.WARNING, NOTICE)) == 1


@for_all(every_event(), lambda kind: kind.__name__)
def test_every_event_makes_one_text_line_and_one_json_line(kind: type[Event]) -> None:
    event = sample(kind)
    (text,) = lines_of(TextLog, Level.DEBUG, event)
    (line,) = lines_of(JsonLog, Level.DEBUG, event)
    assert text.count("\n") == line.count("\n") == 1
    own = {each.name for each in dataclasses.fields(kind)} - {"pipeline", "source"}
    assert set(json.loads(line)["fields"]) == own


@for_all(every_event(), lambda kind: kind.__name__)
def test_every_level_of_an_event_is_a_level_of_the_log(kind: type[Event]) -> None:
    assert Level.parse(kind.level).name.lower() == kind.level


def test_names_of_events_are_unique() -> None:
    names = [kind.name for kind in every_event()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (events.PlanMade("p", "s", units=0, files=0, bytes=0), "nothing new"),
        (
            events.RunRecorded("p", "s", {"times": 1200.0, "failures": 3.0}),
            "recorded as run 1,200 of this source, 3 of which failed",
        ),
        (events.PlanMade("p", "s", units=1, files=2, bytes=2048), "planned 2 files (2.0 KiB) in 1 unit"),
        (
            events.FileRefused("p", "s", path="a", reason="line 1: bad", attempts=5, will_retry=False),
            "cannot read a: line 1: bad (5 attempts; it goes to the dead letters)",
        ),
        (
            events.PartitionAdvanced("p", "s", partition="d=1", before=None, after="b"),
            "watermark of partition 'd=1' moved from its start to b",
        ),
        (
            events.WatermarkStateChanged("p", "s", before="Active", after="Idle", value="d=1/b"),
            "state changed from Active to Idle at d=1/b",
        ),
    ],
)
def test_an_event_reads_as_a_sentence(event: Event, words: str) -> None:
    assert sentence(event) == words


def test_a_line_break_in_a_reason_does_not_break_the_log_line() -> None:
    event = events.SourceFailed("p", "s", error="first\nsecond")
    assert sentence(event) == r"failed: first\x0asecond"


def test_an_event_about_the_whole_run_has_no_subject() -> None:
    assert subject(events.SessionStarting("", "", where="local")) == ""
    assert subject(events.SessionStarting("p", "", where="local")) == "p"


def test_a_trace_keeps_its_lines_and_is_written_at_any_level_where_it_is_asked_for() -> None:
    lines: list[str] = []
    for traces in (False, True):
        TextLog(lines.append, Level.ERROR, lambda: NOW, traces)(
            events.FailureTraced("p", "s", "Traceback\n  in \x1b[31m")
        )
    assert lines == ["2026-01-28 14:30:05Z debug   p/s: Traceback\n    in \\x1b[31m\n"]


def test_an_event_is_a_record_of_the_standard_logging_with_its_names_and_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[Event] = []
    emit = log_events(seen.append)
    happened = [events.RunStarted("", "", "20260128T143005-abc", "once"), NOTICE]
    with caplog.at_level(logging.INFO, logger="tidegate"):
        for event in happened:
            emit(event)
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == ("tidegate", "WARNING", "events/asia: careful")
    told = {name: getattr(record, name) for name in ("event", "pipeline", "source", "run", "fields")}
    assert told == {
        "event": "notice",
        "pipeline": "events",
        "source": "asia",
        "run": "20260128T143005-abc",
        "fields": {"text": "careful"},
    }
    assert seen == happened


def test_without_a_configured_logging_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    assert any(isinstance(each, logging.NullHandler) for each in LOGGER.handlers)
    root = logging.getLogger()
    before, root.handlers = root.handlers, []
    try:
        log_events(events.ignore)(events.SourceFailed("p", "s", "broken"))
    finally:
        root.handlers = before
    assert capfd.readouterr().err == ""


def test_the_command_line_keeps_records_from_the_root_logger(caplog: pytest.LogCaptureFixture) -> None:
    emit = log_events(events.ignore)
    with keep_records():
        emit(NOTICE)
    assert caplog.records == []
    emit(NOTICE)
    assert len(caplog.records) == 1
