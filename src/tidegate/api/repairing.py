"""Go on past what stops a source, and put right what is missing, late or wrong in its table."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import TYPE_CHECKING

from tidegate.api.opening import (
    Config,
    agreed,
    load,
    open_places,
    other_places,
    pipelines_of,
    places_of,
    refuse_others,
    refuse_units,
    spark_lane,
)
from tidegate.observe.events import Emit, ignore
from tidegate.reports.correction import ReplayReport
from tidegate.reports.run import Adoption, Check

if TYPE_CHECKING:
    from tidegate.reports.correction import ReconcileReport
    from tidegate.runs.bound_source import ColumnPlace, UnitPlace


def recover(
    config: Config, pipeline: str, source: str | None = None, *, accept: Collection[str] = ()
) -> tuple[Check, ...]:
    """What stops the sources of a pipeline, and what is left of a state that cannot be read.

    ``accept`` (``identity``, ``restore``, ``mirror``, ``previous``, ``doubles``, ``set``) goes on past it: the
    position is recorded anew by an empty commit, which reads, writes and removes no rows.
    """
    from tidegate.commands.recover import recover as recover_place

    project = load(config, pipeline=pipeline)
    others = other_places(project, pipeline, source)
    if others:
        from tidegate.commands.recover import recover_columns

        return tuple(check for place in others for check in recover_columns(place, accept))
    places = places_of(project, pipeline, source)
    return tuple(check for place in places for check in recover_place(place, accept))


def reconcile(
    config: Config,
    pipeline: str | None = None,
    source: str | None = None,
    *,
    ingest: bool = False,
    clean: bool = False,
    older_than: timedelta = timedelta(hours=24),
    force: bool = False,
    emit: Emit = ignore,
    stop: threading.Event | None = None,
) -> ReconcileReport:
    """Lists sources and tables completely and compares them with what was committed.

    ``ingest`` reads the late files, with Spark; ``clean`` removes orphans older than ``older_than``, which must be a
    day or more unless ``force``. Without either nothing is written.
    """
    from tidegate.runs.bound_source import Place, places_named
    from tidegate.runs.loop import stops_on_signals
    from tidegate.runs.reconcile import ReconcileOptions, Reconciling, checked_age

    flag = stop or threading.Event()
    age = checked_age(older_than, force=force) if clean else older_than
    project = load(config)
    names = {each.name for each in pipelines_of(project, pipeline)}
    every = open_places(project, None, emit)
    others = other_places(project, None, emit=emit)
    known: list[Place | ColumnPlace | UnitPlace] = [*every, *others]
    chosen = places_named([each for each in known if each.pipeline.name in names], source)
    places = tuple(each for each in chosen if isinstance(each, Place))
    asked = tuple(each for each in chosen if not isinstance(each, Place))
    spark = spark_lane(project.spark, emit, flag, lambda: places) if ingest else contextlib.nullcontext()
    with spark as lane, stops_on_signals(flag):
        wanted = ReconcileOptions(lane, clean, age)
        return Reconciling(places, every, wanted, emit, flag, others=asked, other_neighbours=others).all()


def adopt(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    dry_run: bool = False,
    quiet_for: float = 600.0,
    fresh: bool = False,
    read_skipped: bool = False,
) -> tuple[Adoption, ...]:
    """Take over the positions that Blizzard left in a pipeline's table; what speaks against it is in the report.

    It must not have moved for ``quiet_for`` seconds. ``fresh`` starts a source at the beginning that it never read,
    ``read_skipped`` leaves the files to be read that it passed over in partitions of which it noted nothing.
    """
    from tidegate.migrate.blizzard import AdoptOptions
    from tidegate.migrate.blizzard import adopt as adopt_place

    wish = AdoptOptions(dry_run, quiet_for, fresh, read_skipped)
    return tuple(adopt_place(place, wish) for place in places_of(config, pipeline, source))


def replay(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    files: str | None = None,
    partition: str | None = None,
    drop_missing: bool = False,
    confirm: Callable[[ReplayReport], bool] = agreed,
    emit: Emit = ignore,
    stop: threading.Event | None = None,
) -> ReplayReport:
    """Read finished files again and replace exactly their rows, in one commit, if ``confirm`` agrees.

    ``files`` is a pattern, ``partition`` a directory of the source: give one of them. Needs ``_source_file`` in
    ``sink.metadata_columns``. A file that cannot be read raises and nothing changes. With ``drop_missing`` the rows of
    files that are no longer in the source are removed too. Uses Spark as ``run`` does, once there is something to read.
    """
    from tidegate.commands.replay import Replay, other_locations
    from tidegate.core.files.edit import Selection
    from tidegate.runs.bound_source import place_named
    from tidegate.runs.loop import stops_on_signals

    selection = Selection(files, None if partition is None else partition.strip("/"))
    flag = stop or threading.Event()
    project = load(config)
    refuse_units(project, pipeline, "reset")
    refuse_others(project, pipeline)
    place = place_named(open_places(project, pipeline), source)
    with spark_lane(project.spark, emit, flag) as lane, stops_on_signals(flag):
        carried = Replay(place, lane, others=other_locations(project, place), emit=emit, stop=flag)
        return carried.run(selection, confirm, drop_missing=drop_missing)
