"""Sends messages about the sources of a run, beside it: it never stops, delays or changes what the run does.

A :class:`Messenger` listens to the events. What it learns of a source waits until the run ends, in a continuous run a
few seconds, so that many sources that fail together are one message. A :class:`Dispatcher` decides what is due,
delivers it, and remembers what was sent in a :class:`SentStore`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from tidegate.core.health import TOLERATED_DEAD_LETTERS, Evidence, Health, HealthLevel, Outcome, judge, name_command
from tidegate.core.messages import LONGEST_TEXT, FoundReason, SentMessages, SourceNews, name_destinations
from tidegate.errors import TidegateError, safe_text
from tidegate.observe import events
from tidegate.observe.delivery import DeliveryTimes, deliver
from tidegate.observe.events import Emit, Event
from tidegate.reports.messages import Message, MessageDelivery, SourceMessage
from tidegate.reports.page import names
from tidegate.reports.wording import count
from tidegate.specs.masking import Mask, shorten
from tidegate.specs.notify import MessageReason, NotifySpec, count_tolerated
from tidegate.specs.project import PipelineSpec, ProjectSpec

GROUP_SECS = 5.0
"""What happens within so many seconds of a continuous run is one message."""

END_SECS = 15.0
"""How long the end of a run waits for messages to be delivered."""

STOP_SECS = 1.0
PAUSE_SECS = 60.0
LONGEST_PAUSE_SECS = 900.0
"""A destination that cannot be reached is left alone for a while, longer each time."""

SHOWN_NAMES = 10

Name = tuple[str, str]
THE_RUN: Name = ("", "")
Deliver = Callable[..., str | None]


class SentStore(Protocol):
    """Remembers what was sent about each source; it may forget, which costs a repeated message."""

    def read(self, name: Name) -> SentMessages:
        """What was sent about a source; a ``TidegateError`` if that cannot be read."""

    def write(self, name: Name, sent: SentMessages) -> None:
        """Remember what was sent about a source; a ``TidegateError`` if that is not possible."""


class MemorySentStore:
    """Remembers as long as the process lives."""

    def __init__(self) -> None:
        self.sent: dict[Name, SentMessages] = {}

    def read(self, name: Name) -> SentMessages:
        """What was sent about a source."""
        return self.sent.get(name, SentMessages())

    def write(self, name: Name, sent: SentMessages) -> None:
        """Remember it."""
        self.sent[name] = sent


@dataclass(slots=True)
class _Destination:
    """One destination, what happened once and is still to be told there, and how long it is left alone."""

    name: str
    rule: NotifySpec
    left: dict[Name, SourceNews] = field(default_factory=dict)
    pause: float = 0.0
    resumes_at: float = 0.0


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Dispatcher:
    """Decides which messages about a project are due, delivers them, and remembers that."""

    def __init__(
        self,
        project: ProjectSpec,
        store: SentStore,
        *,
        now: Callable[[], datetime] = _utc_now,
        clock: Callable[[], float] = time.monotonic,
        times: DeliveryTimes | None = None,
        deliver: Deliver = deliver,
    ) -> None:
        self._project = project
        self._store = store
        self._now = now
        self._clock = clock
        self._times = times or DeliveryTimes()
        self._deliver = deliver
        self._mask = Mask.around(project)
        self._sent: dict[Name, SentMessages] = {}
        self._destinations = [
            _Destination(name, rule)
            for name, rule in zip(name_destinations(project.notify), project.notify, strict=True)
        ]

    @property
    def project(self) -> ProjectSpec:
        """The project that the messages are about."""
        return self._project

    def mask(self, text: str) -> str:
        """The text without the secrets of the project."""
        return str(self._mask(text))

    def now(self) -> datetime:
        """The time of messages."""
        return self._now()

    def recall(self, name: Name) -> SentMessages:
        """What was sent about a source; read once."""
        if name not in self._sent:
            try:
                self._sent[name] = SentMessages() if name == THE_RUN else self._store.read(name)
            except TidegateError:
                self._sent[name] = SentMessages()
        return self._sent[name]

    def dispatch(
        self, news: Sequence[SourceNews], run: str | None, stop: threading.Event
    ) -> tuple[MessageDelivery, ...]:
        """Send what is due of ``news``, to all destinations at once; returns what became of each."""
        due = [(each, self._find_due(each, news)) for each in self._destinations]
        messages = {
            each.name: Message(self._project.origin, self._now(), tuple(SourceMessage.of(*pair) for pair in found), run)
            for each, found in due
            if found
        }
        problems = self.send(messages, stop)
        return tuple(self._settle(each, found, problems.get(each.name)) for each, found in due)

    def test(self, stop: threading.Event) -> tuple[MessageDelivery, ...]:
        """Send a test message to every destination."""
        message = Message(self._project.origin, self._now(), kind="test")
        problems = self.send({each.name: message for each in self._destinations}, stop)
        return tuple(
            MessageDelivery(each.name, 0, each.name not in problems, problems.get(each.name))
            for each in self._destinations
        )

    def send(self, messages: dict[str, Message], stop: threading.Event) -> dict[str, str]:
        """Deliver messages side by side; returns why which did not arrive."""
        problems = dict.fromkeys(messages, f"no answer within {self._times.deadline:.0f} s")

        def attempt(destination: _Destination) -> None:
            name = destination.name
            try:
                problem = self._deliver(destination.rule.to, messages[name], self._mask, stop, self._times)
            # The outermost edge: whatever goes wrong with a message, the run goes on.
            except Exception as error:
                problem = self._mask(f"unexpected {type(error).__name__}: {safe_text(error)}")
            if problem is None:
                problems.pop(name, None)
            else:
                problems[name] = problem

        # Daemons: a server that answers by one byte a minute must not keep the process alive.
        threads = [
            threading.Thread(target=attempt, args=(each,), name=f"message to {each.name}", daemon=True)
            for each in self._destinations
            if each.name in messages
        ]
        for each in threads:
            each.start()
        end = self._clock() + self._times.deadline + 1
        for each in threads:
            while each.is_alive() and self._clock() < end and not stop.is_set():
                each.join(0.05)
        return dict(problems)

    def _find_due(
        self, destination: _Destination, news: Sequence[SourceNews]
    ) -> list[tuple[SourceNews, tuple[FoundReason, ...]]]:
        rule, now = destination.rule, self._now()
        found = []
        for each in news:
            name = (each.pipeline, each.source)
            if name != THE_RUN and not rule.concerns(each.pipeline, each.block):
                continue
            before = destination.left.pop(name, None)
            whole = each if before is None else before.add(each)
            due = self.recall(name).find_due(destination.name, rule, whole, now)
            is_open = self._clock() >= destination.resumes_at
            told = {finding.reason for finding in due} if is_open else set()
            waiting = tuple(once for once in whole.once if once.reason in rule.on and once.reason not in told)
            if waiting:
                destination.left[name] = replace(whole, once=waiting)
            if due and is_open:
                found.append((whole, due))
        return found

    def _settle(
        self,
        destination: _Destination,
        found: list[tuple[SourceNews, tuple[FoundReason, ...]]],
        problem: str | None,
    ) -> MessageDelivery:
        """Remember what a destination was told, or that it could not be."""
        for news, due in found:
            name = (news.pipeline, news.source)
            if problem is None:
                self._remember(name, self.recall(name).note(destination.name, due, self._now()))
                continue
            reasons = {each.reason for each in due}
            once = tuple(each for each in news.once if each.reason in reasons)
            if once:
                waiting = destination.left.get(name)
                untold = replace(news, once=once)
                destination.left[name] = untold if waiting is None else untold.add(waiting)
        if found:
            destination.pause = 0.0 if problem is None else min(LONGEST_PAUSE_SECS, destination.pause * 2 or PAUSE_SECS)
            destination.resumes_at = self._clock() + destination.pause if problem is not None else 0.0
        return MessageDelivery(destination.name, len(found), bool(found) and problem is None, problem)

    def _remember(self, name: Name, sent: SentMessages) -> None:
        self._sent[name] = sent
        try:
            if name != THE_RUN:
                self._store.write(name, sent)
        except TidegateError:
            # It is told once more by the next run, which does no harm.
            return


@dataclass(slots=True)
class _PassNotes:
    """What was heard of a source since its pass began."""

    error: str | None = None
    columns: list[str] = field(default_factory=list)
    given_up: int = 0
    example: str = ""
    is_unit: bool = False
    sealed_ahead: bool = False


class Messenger:
    """Listens to the events of a run and sends messages in a thread of its own; see :func:`send_messages`.

    ``groups`` is how long what happens is gathered into one message; None gathers until the end.
    """

    def __init__(self, dispatcher: Dispatcher, emit: Emit, *, groups: float | None = None) -> None:
        self._dispatcher = dispatcher
        self._project = dispatcher.project
        self._emit = emit
        self._groups = groups
        self._tolerated = count_tolerated(self._project.notify, TOLERATED_DEAD_LETTERS)
        self._pipelines = {each.name: each for each in self._project.pipelines}
        self._run: str | None = None
        self._notes: dict[Name, _PassNotes] = {}
        self._news: dict[Name, SourceNews] = {}
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._ending = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._unreachable: set[str] = set()

    def __call__(self, event: Event) -> None:
        """Take note of an event; quick, since the run waits for it."""
        if isinstance(event, events.RunStarted):
            self._run = event.run
            return
        name = (event.pipeline, event.source)
        with self._lock:
            news = self._take_note(name, event)
            if news is not None:
                before = self._news.get(name)
                self._news[name] = news if before is None else before.add(news)
                self._wake()

    def note_crash(self, error: Exception) -> None:
        """Take note of an error that ends the run as a whole."""
        text = shorten(Mask.around(self._project)(safe_text(error)), LONGEST_TEXT)
        finding = FoundReason(MessageReason.FAILED, f"the run ended: {text or type(error).__name__}")
        with self._lock:
            self._news[THE_RUN] = SourceNews(*THE_RUN, Health(HealthLevel.FAILING), once=(finding,))
            self._wake()

    def close(self, seconds: float = END_SECS) -> None:
        """Send what waits, and wait for it; not for long."""
        self._ending.set()
        self._woken.set()
        thread = self._thread
        if thread is None:
            return
        try:
            thread.join(seconds)
        # Whoever interrupts waits for the end of the run, not for its messages.
        except KeyboardInterrupt:
            seconds = 0.0
        if thread.is_alive():
            self._stop.set()
            # A program that it has started is ended by it.
            thread.join(STOP_SECS)
            self._tell(f"messages about this run were not delivered within {seconds:.0f} s, and are given up")

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="messages", daemon=True)
            self._thread.start()
        self._woken.set()

    def _work(self) -> None:
        """Send what is gathered, again and again, until the run has ended."""
        try:
            while not self._stop.is_set():
                self._woken.wait()
                self._woken.clear()
                is_last = self._ending.is_set()
                with self._lock:
                    waiting = list(self._news)
                # While the run goes on: at its end there is less to wait for.
                for name in waiting:
                    self._dispatcher.recall(name)
                if not is_last and self._groups is None:
                    continue
                if not is_last:
                    is_last = self._ending.wait(self._groups)
                self._send_gathered()
                if is_last:
                    return
        # The outermost edge: the run goes on without messages, and says so.
        except Exception as error:
            text = Mask.around(self._project)(f"{type(error).__name__}: {safe_text(error)}")
            self._tell(f"no more messages are sent, because of an unexpected {text}")

    def _send_gathered(self) -> None:
        with self._lock:
            news = tuple(self._news.values())
            self._news.clear()
        for each in self._dispatcher.dispatch(news, self._run, self._stop) if news else ():
            if each.error is None:
                self._unreachable.difference_update({each.destination} if each.sent else ())
            elif each.destination not in self._unreachable and not self._stop.is_set():
                self._unreachable.add(each.destination)
                about = count(each.sources, "source")
                self._tell(f"a message about {about} could not be delivered to {each.destination}: {each.error}")

    def _tell(self, text: str) -> None:
        try:
            self._emit(events.Notice("", "", text))
        except (OSError, ValueError):
            # The listener is gone; there is nobody left to tell.
            return

    def _take_note(self, name: Name, event: Event) -> SourceNews | None:
        notes = self._notes.setdefault(name, _PassNotes())
        match event:
            case events.PollStarted():
                notes.sealed_ahead = False
            case events.FutureSealFound():
                notes.sealed_ahead = True
            case events.SourceFailed(error=error):
                notes.error = error
            case events.ColumnsAdded(columns=columns):
                notes.columns += columns
            case events.FileRefused(will_retry=False):
                notes.given_up += 1
                notes.example, notes.is_unit = notes.example or f"{event.path}: {event.reason}", False
            case events.WorkUnitFailed(outcome="retired"):
                notes.given_up += 1
                notes.example, notes.is_unit = notes.example or f"{event.unit}: {event.reason}", True
            case events.SourceFinished():
                self._notes[name] = _PassNotes(sealed_ahead=notes.sealed_ahead)
                return self._make_news(name, notes, event)
            case events.CommitterLooked(error=str(error)):
                return self._make_committer_news(name, error)
        return None

    def _make_news(self, name: Name, notes: _PassNotes, event: events.SourceFinished) -> SourceNews:
        outcome = Outcome(event.outcome) if event.outcome else None
        known: Evidence | None = None
        pipeline = self._pipelines.get(name[0])
        if outcome not in (None, Outcome.STOPPED):
            known = Evidence(
                name[0],
                self._project.origin,
                outcome=outcome,
                outcome_since=event.outcome_since,
                error=notes.error,
                exit_code=event.exit_code,
                position=int(event.state != "Initial"),
                failed_files=event.failed_files,
                failed_units=event.failed_units,
                open_letters=event.open_letters or 0,
                tolerated_letters=self._tolerated,
                empty=event.empty,
                sealed_ahead=notes.sealed_ahead,
                expect_every=_find_expected(pipeline, name[1]),
                last_data_at=event.last_data_at,
                first_seen_at=event.first_run_at,
            )
        asked = known or Evidence(name[0], self._project.origin)
        return SourceNews(
            *name,
            Health(HealthLevel.UNKNOWN) if known is None else judge(known, self._dispatcher.now()),
            known,
            tuple(_find_once(notes, asked)),
            event.source_files,
            event.rows,
            self._find_block(name[0]),
        )

    def _make_committer_news(self, name: Name, error: str) -> SourceNews:
        known = Evidence(name[0], self._project.origin, outcome=Outcome.FAILED, error=error, position=1)
        return SourceNews(*name, judge(known, self._dispatcher.now()), known, block=self._find_block(name[0]))

    def _find_block(self, pipeline: str) -> str | None:
        """The block of a pipeline, also of one that joined while the run went on."""
        known = self._pipelines.get(pipeline)
        if known is not None:
            return known.block
        return next((each.name for each in self._project.blocks if each.is_named(pipeline)), None)


def _find_expected(pipeline: PipelineSpec | None, source: str) -> timedelta | None:
    sources = () if pipeline is None else pipeline.sources
    return next((each.expect_every for each in sources if each.name == source), None)


def _find_once(notes: _PassNotes, asked: Evidence) -> Iterator[FoundReason]:
    """What happened in a pass and does not last."""
    if notes.columns:
        columns = tuple(dict.fromkeys(notes.columns))
        text = f"the table has new columns: {names(columns, SHOWN_NAMES)}"
        yield FoundReason(MessageReason.NEW_COLUMN, text, None, name_command(asked, "schema show"))
    if notes.given_up:
        what = "work unit" if notes.is_unit else "file"
        text = shorten(f"{count(notes.given_up, what)} given up, e.g. {notes.example}", LONGEST_TEXT)
        command = name_command(asked, "units list" if notes.is_unit else "dlq list")
        yield FoundReason(MessageReason.UNIT_GIVEN_UP, text, None, command)


@contextmanager
def send_messages(dispatcher: Dispatcher, emit: Emit, *, groups: float | None = None) -> Iterator[Emit]:
    """An ``Emit`` that passes events on and sends messages about them; waits a little for those at its end.

    Notices about messages go to ``emit``, also from another thread: it must take one event after the other.
    """
    messenger = Messenger(dispatcher, emit, groups=groups)
    listens = [True]

    def emit_and_listen(event: Event) -> None:
        if listens[0]:
            try:
                messenger(event)
            # The outermost edge: no mistake in here may cost the run.
            except Exception as error:
                listens[0] = False
                told = dispatcher.mask(
                    f"no more messages are sent: unexpected {type(error).__name__}: {safe_text(error)}"
                )
                emit(events.Notice("", "", told))
        emit(event)

    try:
        yield emit_and_listen
    except Exception as error:
        messenger.note_crash(error)
        raise
    finally:
        messenger.close()
