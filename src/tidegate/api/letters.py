"""Dead letters: listed, read again, answered."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING

from tidegate.api.opening import Config, load, places_of, spark_lane
from tidegate.observe.events import Emit, ignore
from tidegate.reports.run import LettersReport

if TYPE_CHECKING:
    from tidegate.schema.dead_letter import Letter


def list_letters(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    ids: Collection[str] = (),
    file: str | None = None,
    reason: str | None = None,
    limit: int | None = None,
) -> tuple[Letter, ...]:
    """The dead letters of a pipeline that nobody has answered, oldest first.

    ``ids`` may be beginnings of ids, ``file`` is a glob over the path in the source, ``reason`` a part of the reason.
    """
    from itertools import chain, islice

    from tidegate.commands.dead_letters import DeadLetterSelection, chosen

    choice = DeadLetterSelection(tuple(ids), file, reason)
    places = places_of(config, pipeline, source)
    return tuple(islice(chain.from_iterable(chosen(place, choice) for place in places), limit))


def retry_letters(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    ids: Collection[str] = (),
    file: str | None = None,
    reason: str | None = None,
    emit: Emit = ignore,
) -> tuple[LettersReport, ...]:
    """Read dead letters again with today's schema; what is good now is committed to the table, exactly once.

    Lines are decoded here; files that were given up are read by Spark, from where they had stopped.
    """
    from tidegate.commands.dead_letters import DeadLetterSelection, retry

    project = load(config, pipeline=pipeline)
    choice = DeadLetterSelection(tuple(ids), file, reason)
    places = places_of(project, pipeline, source)
    with spark_lane(project.spark, emit, threading.Event(), lambda: places) as lane:
        return tuple(retry(place, choice, lambda: lane, emit) for place in places)


def discard_letters(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    ids: Collection[str] = (),
    file: str | None = None,
    reason: str | None = None,
) -> tuple[LettersReport, ...]:
    """Answer dead letters without reading them; they stay in the dead-letter table and are not listed any more."""
    from tidegate.commands.dead_letters import DeadLetterSelection, discard

    choice = DeadLetterSelection(tuple(ids), file, reason)
    return tuple(discard(place, choice) for place in places_of(config, pipeline, source))
