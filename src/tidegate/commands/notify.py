"""Notify: sends the messages that are due about sources as they are now, or tries every destination."""

from __future__ import annotations

import threading
from datetime import timedelta

from tidegate.commands.project import Config, load
from tidegate.commands.status import status
from tidegate.core.health import TOLERATED_DEAD_LETTERS, Evidence
from tidegate.core.messages import SourceNews
from tidegate.errors import ConfigError
from tidegate.observe.delivery import DeliveryTimes
from tidegate.observe.messenger import Dispatcher
from tidegate.protocol.sent_record import TableSentStore
from tidegate.reports.messages import NotifyReport
from tidegate.reports.status import SourceStatus
from tidegate.specs.notify import count_tolerated
from tidegate.specs.project import ProjectSpec


def notify(config: Config, pipeline: str | None = None, *, test: bool = False) -> NotifyReport:
    """Send the messages that are due about sources as they are now; with ``test`` one to every destination instead.

    Looks at the sources as :func:`status` does, for sources that nobody runs. :class:`ConfigError` if the configuration
    has no destination.
    """
    project = load(config, pipeline=pipeline)
    if not project.notify:
        raise ConfigError((f"{project.origin}: nobody is notified; give a destination below 'notify:'",))
    # Somebody waits for the result of a test, and tries again.
    times = DeliveryTimes(pauses=()) if test else DeliveryTimes()
    dispatcher = Dispatcher(project, TableSentStore(project.pipelines), times=times)
    stop = threading.Event()
    if test:
        return NotifyReport(test, dispatcher.test(stop))
    places = {each.name: each.is_located for each in project.pipelines}
    # A table that Spark's catalog has to find has not run yet; nothing else is wrong with it.
    known = [each for each in status(project, pipeline) if places.get(each.pipeline) and not each.vanished]
    return NotifyReport(test, dispatcher.dispatch([_make_news(project, each) for each in known], None, stop))


def _make_news(project: ProjectSpec, status: SourceStatus) -> SourceNews:
    last = status.last_run
    expected = None if status.expect_every_seconds is None else timedelta(seconds=status.expect_every_seconds)
    since = None if last is None else last.began_at
    known = Evidence(
        status.pipeline,
        project.origin,
        problem=status.error,
        outcome=None if last is None else last.outcome,
        outcome_since=status.health.since or since,
        error=None if last is None else last.error,
        exit_code=0 if last is None else last.exit_code,
        position=status.version,
        failed_files=len(status.failed),
        failed_units=0 if status.work_units is None else status.work_units.failed,
        open_letters=status.open_letters,
        tolerated_letters=count_tolerated(project.notify, TOLERATED_DEAD_LETTERS),
        empty=status.empty,
        sealed_ahead=bool(status.future_seals),
        expect_every=expected,
        last_data_at=status.last_data_at,
        first_seen_at=status.first_run_at,
    )
    return SourceNews(
        status.pipeline,
        status.source,
        status.health,
        known,
        files=0 if last is None else last.files,
        rows=0 if last is None else last.rows,
        block=status.block,
    )
