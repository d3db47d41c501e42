"""Messages of a run: grouped, told once, delivered beside the run, and remembered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.webhook import serve_webhook
from tidegate.core.messages import SentMessages
from tidegate.errors import StorageUnavailable
from tidegate.observe import events
from tidegate.observe.delivery import DeliveryTimes
from tidegate.observe.events import Event
from tidegate.observe.messenger import PAUSE_SECS, Dispatcher, MemorySentStore, Messenger, SentStore, send_messages
from tidegate.reports.messages import Message
from tidegate.specs.locations import Location, Secret
from tidegate.specs.notify import DestinationSpec, MessageReason, NotifySpec
from tidegate.specs.project import PipelineSpec, ProjectSpec, TableBlock
from tidegate.specs.table import SchemaSpec, SinkSpec
from tidegate.specs.table_block import TableSelection

NOW = datetime(2026, 1, 28, 14, 30, tzinfo=UTC)
RUN = "20260128T143002-3f9a2c"
QUICK = DeliveryTimes(timeout=5.0, pauses=(), deadline=10.0)
PAGE = NotifySpec(DestinationSpec(command=("page",)), on=tuple(MessageReason))


def pipeline(name: str) -> PipelineSpec:
    return PipelineSpec(name, (), SchemaSpec(), SinkSpec(Location(f"memory://lake/{name}")))


def project(*rules: NotifySpec, names: tuple[str, ...] = ("orders", "clicks")) -> ProjectSpec:
    return ProjectSpec("shop.yml", tuple(map(pipeline, names)), notify=rules or (PAGE,))


@dataclass
class Post:
    """Delivers into a list; ``problems`` are those of the next deliveries."""

    messages: list[Message] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __call__(self, to: DestinationSpec, message: Message, *more: Any) -> str | None:
        if self.problems:
            return self.problems.pop(0)
        self.messages.append(message)
        return None

    @property
    def told(self) -> list[list[str]]:
        return [
            [f"{source.pipeline}: {each.reason.value}" for source in message.sources for each in source.reasons]
            for message in self.messages
        ]


@dataclass
class Ground:
    """What outlives a run: the clock, what was sent, and what was noticed."""

    spec: ProjectSpec = field(default_factory=project)
    post: Post = field(default_factory=Post)
    store: SentStore = field(default_factory=MemorySentStore)
    now: datetime = NOW
    seen: list[Event] = field(default_factory=list)

    def dispatcher(self, deliver: Callable[..., str | None] | None = None) -> Dispatcher:
        seconds: Callable[[], float] = lambda: self.now.timestamp()  # noqa: E731
        return Dispatcher(
            self.spec, self.store, now=lambda: self.now, clock=seconds, times=QUICK, deliver=deliver or self.post
        )

    def run(self, *happened: Event) -> list[list[str]]:
        """A single run in which these events happen; returns what was told."""
        before = len(self.post.told)
        with send_messages(self.dispatcher(), self.seen.append) as emit:
            emit(events.RunStarted("", "", RUN, "once"))
            for event in happened:
                emit(event)
        return self.post.told[before:]

    @property
    def notices(self) -> list[str]:
        return [each.text for each in self.seen if isinstance(each, events.Notice)]


def finished(name: str = "orders", **more: Any) -> events.SourceFinished:
    facts: dict[str, Any] = {"outcome": "succeeded", "last_data_at": NOW, "first_run_at": NOW, **more}
    return events.SourceFinished(name, "default", "Active", "a", 2, 30, 0, 1, 0.5, **facts)


def failed(name: str = "orders", error: str = "no bucket") -> list[Event]:
    ended = finished(name, outcome="failed", failed=True, exit_code=4, outcome_since=NOW)
    return [events.SourceFailed(name, "default", error), ended]


def test_a_run_that_is_well_tells_nothing() -> None:
    ground = Ground()
    assert ground.run(finished()) == []
    assert ground.seen == [events.RunStarted("", "", RUN, "once"), finished()]


def test_a_failed_source_is_told_with_its_health_its_run_and_the_command_to_go_on_with() -> None:
    ground = Ground()
    assert ground.run(*failed()) == [["orders: failed"]]
    (message,) = ground.post.messages
    assert (message.project, message.run, message.at) == ("shop.yml", RUN, NOW)
    (source,) = message.sources
    assert (source.health.value, source.files, source.rows) == ("failing", 2, 30)
    (reason,) = source.reasons
    assert (reason.text, reason.since) == ("no bucket", NOW)
    assert reason.command == "tidegate doctor shop.yml -p orders"


def test_fifty_sources_that_fail_together_are_one_message() -> None:
    names = tuple(f"t{at}" for at in range(50))
    ground = Ground(project(names=names))
    (told,) = ground.run(*(event for name in names for event in failed(name)))
    assert len(told) == 50


def test_a_second_run_repeats_nothing_and_the_recovery_is_told() -> None:
    ground = Ground()
    assert ground.run(*failed()) == [["orders: failed"]]
    ground.now += timedelta(minutes=5)
    assert ground.run(*failed()) == []
    ground.now += timedelta(hours=1)
    assert ground.run(*failed()) == [["orders: failed"]]
    ground.now += timedelta(minutes=5)
    assert ground.run(finished()) == [["orders: recovered"]]
    assert ground.run(finished()) == []


def test_what_was_sent_is_kept_for_the_next_process() -> None:
    store = MemorySentStore()
    assert Ground(store=store).run(*failed()) == [["orders: failed"]]
    assert Ground(store=store).run(*failed()) == []


class BrokenStore(MemorySentStore):
    """A storage that is down."""

    def read(self, name: tuple[str, str]) -> SentMessages:
        raise StorageUnavailable("down", "wait")

    def write(self, name: tuple[str, str], sent: SentMessages) -> None:
        raise StorageUnavailable("down", "wait")


def test_without_a_memory_messages_are_sent_all_the_same() -> None:
    ground = Ground(store=BrokenStore())
    assert ground.run(*failed()) == [["orders: failed"]]
    assert ground.run(*failed()) == [["orders: failed"]]
    assert ground.notices == []


def test_new_columns_and_files_given_up_are_told() -> None:
    ground = Ground()
    refused = events.FileRefused("orders", "default", "d/1.json", "line 3: not JSON", 5, False)
    retried = replace(refused, path="d/2.json", will_retry=True)
    brought = events.ColumnsAdded("orders", "default", ("more", "u.b"))
    assert ground.run(brought, refused, replace(refused, path="d/3.json"), retried, finished()) == [
        ["orders: new_column", "orders: unit_given_up"]
    ]
    new, given_up = ground.post.messages[0].sources[0].reasons
    assert (new.text, new.command) == (
        "the table has new columns: more, u.b",
        "tidegate schema show shop.yml -p orders",
    )
    assert given_up.text == "2 files given up, e.g. d/1.json: line 3: not JSON"
    assert given_up.command == "tidegate dlq list shop.yml -p orders"


def test_a_retired_work_unit_is_given_up_and_a_failed_one_is_not() -> None:
    ground = Ground()
    retired = events.WorkUnitFailed("orders", "default", "fox", "2026-01-01", "retired", "not found", 1)
    assert ground.run(replace(retired, outcome="failed"), finished()) == []
    assert ground.run(retired, finished()) == [["orders: unit_given_up"]]
    assert ground.post.messages[0].sources[0].reasons[0].text == "1 work unit given up, e.g. fox: not found"


def test_dead_letters_an_empty_location_and_late_data_are_told() -> None:
    ground = Ground(project(replace(PAGE, late_after=timedelta(hours=2), dead_letters_above=3)))
    assert ground.run(finished(open_letters=3)) == []
    assert ground.run(finished(open_letters=4)) == [["orders: dead_letters"]]
    assert ground.run(finished("clicks", empty=True)) == [["clicks: no_data"]]
    ground.now += timedelta(hours=3)
    assert ground.run(finished()) == [["orders: late"]]


def test_a_source_that_was_stopped_or_left_to_another_run_says_nothing_of_its_health() -> None:
    ground = Ground()
    ground.run(*failed())
    assert ground.run(finished(outcome="stopped"), finished(outcome="")) == []


def test_a_committer_that_fails_is_told_and_one_that_works_takes_nothing_back() -> None:
    ground = Ground()
    assert ground.run(events.CommitterLooked("orders", "default", 3, 1, "conflict")) == [["orders: failed"]]
    assert ground.run(events.CommitterLooked("orders", "default", 4, 0)) == []


def test_an_entry_is_told_of_its_pipelines_only() -> None:
    chat = replace(PAGE, to=DestinationSpec(command=("chat",)), pipelines=("cl*",))
    ground = Ground(project(PAGE, chat))
    told = ground.run(*failed(), *failed("clicks"))
    # Side by side, so either may come first.
    assert sorted(told, key=len) == [["clicks: failed"], ["orders: failed", "clicks: failed"]]


def test_a_table_that_joined_meanwhile_belongs_to_its_block() -> None:
    block = TableBlock("crm", pipeline("crm"), TableSelection(("public.*",)))
    ground = Ground(replace(project(replace(PAGE, pipelines=("crm",))), blocks=(block,)))
    assert ground.run(*failed("crm.public.new"), *failed("orders")) == [["crm.public.new: failed"]]


def test_an_error_that_ends_the_run_as_a_whole_is_told_and_raised() -> None:
    ground = Ground()
    with (
        pytest.raises(RuntimeError),
        send_messages(ground.dispatcher(), ground.seen.append),
    ):
        raise RuntimeError("no Java")
    assert ground.post.told == [[": failed"]]
    assert ground.post.messages[0].sources[0].reasons[0].text == "the run ended: no Java"


def test_whoever_interrupts_a_run_gets_no_message() -> None:
    ground = Ground()
    with pytest.raises(KeyboardInterrupt), send_messages(ground.dispatcher(), ground.seen.append):
        raise KeyboardInterrupt
    assert ground.post.told == []


def test_what_is_not_delivered_is_noticed_and_told_by_the_next_run() -> None:
    ground = Ground()
    ground.post.problems = ["answers 500"]
    assert ground.run(*failed()) == []
    assert ground.notices == ["a message about 1 source could not be delivered to command page: answers 500"]
    assert ground.run(*failed()) == [["orders: failed"]]


def test_a_mistake_in_a_delivery_costs_the_run_nothing() -> None:
    ground = Ground()

    def explode(*given: object) -> str | None:
        raise ArithmeticError("oops")

    with send_messages(ground.dispatcher(explode), ground.seen.append) as emit:
        for event in failed():
            emit(event)
    assert ground.notices == [
        "a message about 1 source could not be delivered to command page: unexpected ArithmeticError: oops"
    ]


def test_an_event_that_cannot_be_understood_ends_messages_and_not_the_run() -> None:
    ground = Ground()
    with send_messages(ground.dispatcher(), ground.seen.append) as emit:
        emit(finished(outcome="unheard of"))
        emit(finished())
    assert ground.seen[-2:] == [finished(outcome="unheard of"), finished()]
    assert ground.notices[0].startswith("no more messages are sent: unexpected ValueError")


class TestContinuous:
    """Runs that go on: messages are sent meanwhile."""

    @contextmanager
    def running(self, ground: Ground) -> Iterator[Callable[[Event], None]]:
        with send_messages(ground.dispatcher(), ground.seen.append, groups=0.2) as emit:
            yield emit

    def wait_for(self, happened: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < end, "nothing happened"
            time.sleep(0.01)

    def test_what_happens_together_is_one_message_while_the_run_goes_on(self) -> None:
        ground = Ground()
        with self.running(ground) as emit:
            for event in (*failed(), *failed("clicks")):
                emit(event)
            self.wait_for(lambda: bool(ground.post.messages))
            assert ground.post.told == [["orders: failed", "clicks: failed"]]
            emit(finished())
            self.wait_for(lambda: len(ground.post.messages) == 2)
        assert ground.post.told[1] == ["orders: recovered"]

    def test_what_happened_once_is_kept_until_it_can_be_told(self) -> None:
        ground = Ground()
        brought = events.ColumnsAdded("orders", "default", ("a",))
        dispatcher, stop = ground.dispatcher(), threading.Event()
        collected: list[Any] = []

        class Collecting(Dispatcher):
            def dispatch(self, news: Any, *more: Any) -> Any:
                collected.extend(news)
                return ()

        with send_messages(Collecting(ground.spec, ground.store), ground.seen.append) as emit:
            emit(brought)
            emit(finished())
        ground.post.problems = ["answers 500"]
        dispatcher.dispatch(collected, RUN, stop)
        assert ground.post.told == []
        quiet = [replace(collected[0], once=())]
        # It is left alone for a while, and then gets what it missed.
        dispatcher.dispatch(quiet, RUN, stop)
        assert ground.post.told == []
        ground.now += timedelta(seconds=PAUSE_SECS)
        dispatcher.dispatch(quiet, RUN, stop)
        assert ground.post.told == [["orders: new_column"]]
        # A second column within the interval waits for the next message, and is not lost.
        dispatcher.dispatch(collected, RUN, stop)
        ground.now += timedelta(minutes=59)
        dispatcher.dispatch(quiet, RUN, stop)
        assert len(ground.post.told) == 1
        ground.now += timedelta(minutes=1)
        dispatcher.dispatch(quiet, RUN, stop)
        assert ground.post.told[1:] == [["orders: new_column"]]
        dispatcher.dispatch(quiet, RUN, stop)
        assert len(ground.post.told) == 2

    def test_a_destination_that_is_away_is_noticed_once(self) -> None:
        ground = Ground()
        ground.post.problems = ["answers 500"] * 2
        with self.running(ground) as emit:
            for event in failed():
                emit(event)
            self.wait_for(lambda: len(ground.post.problems) == 1)
            ground.now += timedelta(seconds=PAUSE_SECS)
            for event in failed():
                emit(event)
            self.wait_for(lambda: not ground.post.problems)
        assert len(ground.notices) == 1


def test_a_webhook_that_hangs_neither_delays_a_run_nor_fails_it() -> None:
    with serve_webhook() as hook:
        hook.hangs = threading.Event()
        spec = project(NotifySpec(DestinationSpec(Secret(hook.url))))
        seen: list[Event] = []
        times = DeliveryTimes(timeout=60.0, pauses=(1.0,), deadline=120.0)
        with send_messages(Dispatcher(spec, MemorySentStore(), times=times), seen.append, groups=0.01) as emit:
            for event in failed():
                emit(event)
            end = time.monotonic() + 60
            while not hook.requests:
                assert time.monotonic() < end
                time.sleep(0.01)
            # The server has the message and does not answer: the run goes on meanwhile.
            began = time.monotonic()
            for _ in range(1_000):
                emit(finished())
            assert time.monotonic() - began < 30
            hook.hangs.set()
        assert [each for each in seen if isinstance(each, events.Notice)] == []
        assert hook.reasons[0] == ["orders: failed"]


def test_the_end_of_a_run_does_not_wait_for_a_webhook_that_hangs() -> None:
    with serve_webhook() as hook:
        hook.hangs = threading.Event()
        spec = project(NotifySpec(DestinationSpec(Secret(hook.url))))
        seen: list[Event] = []
        messenger = Messenger(Dispatcher(spec, MemorySentStore()), seen.append)
        for event in failed():
            messenger(event)
        messenger.close(0.2)
        (notice,) = seen
        assert isinstance(notice, events.Notice)
        assert notice.text == "messages about this run were not delivered within 0 s, and are given up"
