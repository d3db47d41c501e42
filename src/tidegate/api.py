"""What the command line does, as functions that take values and return values.

``config`` is the path of a YAML file, YAML text with a line break in it, or a :class:`ProjectSpec`. Imports that cost
time happen inside the functions: ``plan``, ``status`` and ``show_watermarks`` never load pyspark.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tidegate.chaos_report import ChaosLimits, ChaosProgress, ChaosReport
from tidegate.corrections import ReplayReport, WatermarkMove
from tidegate.errors import ConfigError
from tidegate.ledger_reports import FilesReport, LedgerCompaction, LedgerExport, WatermarkHistory
from tidegate.observe.events import Emit, Notice, ignore
from tidegate.reports import (
    Adoption,
    Check,
    DemoReport,
    DemoStep,
    LettersReport,
    RunReport,
    SourcePlan,
    SourceStatus,
    TableCareReport,
    WatermarkView,
)
from tidegate.schema_reports import SchemaDiff, SchemaInference, SchemaView, TableRewrite
from tidegate.specs import PipelineSpec, ProjectSpec, SparkSpec
from tidegate.staging_reports import CommitReport, FileAdoption

if TYPE_CHECKING:
    from tidegate.comparisons import ReconcileReport
    from tidegate.runs.lanes import Lane
    from tidegate.runs.place import Place
    from tidegate.runs.table_care import Care
    from tidegate.schema.letter import Letter

Config = str | Path | ProjectSpec
Mode = Literal["once", "continuous"]


def agreed(planned: object) -> bool:
    """Agrees to whatever is planned."""
    return True


def load(config: Config, *, pipeline: str | None = None) -> ProjectSpec:
    """The checked configuration; :class:`ConfigError` holds every problem of the file."""
    if isinstance(config, ProjectSpec):
        return config
    from tidegate.config import load as load_file

    return load_file(config, env=os.environ, pipelines=() if pipeline is None else (pipeline,))


def plan(config: Config, pipeline: str | None = None, *, now: datetime | None = None) -> tuple[SourcePlan, ...]:
    """What a run would read, per source, and why everything else is skipped. Touches nothing."""
    from tidegate.runs.looking import planned

    moment = now or datetime.now(UTC)
    return tuple(planned(place, moment) for place in _places(load(config, pipeline=pipeline), pipeline))


def run(
    config: Config,
    pipeline: str | None = None,
    *,
    mode: Mode = "once",
    emit: Emit = ignore,
    stop: threading.Event | None = None,
) -> RunReport:
    """Read what is new into the tables; ``mode="continuous"`` polls until ``stop`` is set or a signal comes.

    Failures of one source are in its report and keep no other source from running; a configuration that is
    wrong raises. Uses the Spark session that is active in this process, or starts one when the first file is
    to be read and stops it at the end. A continuous run serves metrics and health where ``metrics.enabled`` says so.
    """
    from tidegate.web.watching import watched

    flag = stop or threading.Event()
    project = load(config, pipeline=pipeline)
    goes_on = watched(project, _pipelines(project, pipeline), emit)
    watching = goes_on if mode == "continuous" else contextlib.nullcontext(emit)
    with watching as told, _lane(project.spark, told, flag, lambda: _places(project, pipeline)) as lane:
        return _run(project, pipeline, mode, told, flag, lane)


def commit(
    config: Config,
    pipeline: str | None = None,
    *,
    mode: Mode = "once",
    emit: Emit = ignore,
    stop: threading.Event | None = None,
) -> CommitReport:
    """Commit what staged runs and foreign writers left below the tables; ``mode="continuous"`` until ``stop`` is set.

    With ``pipeline`` only its table, for everyone of the configuration who writes into it. Starts no Spark.
    """
    from tidegate.runs.staged_committing import Committing
    from tidegate.runs.stopping import stops_on_signals
    from tidegate.web.watching import watched

    flag = stop or threading.Event()
    project = load(config)
    chosen = _pipelines(project, pipeline)
    with stops_on_signals(flag):
        if mode == "once":
            return Committing(project, emit, flag).once(chosen)
        with watched(project, chosen, emit) as told:
            return Committing(project, told, flag).continuously(chosen)


def adopt_files(
    config: Config,
    pipeline: str | None = None,
    *,
    prefix: str,
    confirm: Callable[[FileAdoption], bool] = agreed,
    emit: Emit = ignore,
) -> FileAdoption:
    """Add Parquet files below ``prefix`` of a table that its log does not name, if ``confirm`` agrees to the list."""
    from tidegate.runs.staged_adopting import FileAdopting

    project = load(config)
    tables = {each.sink.table.uri for each in _pipelines(project, pipeline)}
    if len(tables) > 1:
        raise ConfigError((f"{project.origin}: it has {len(tables)} tables; name a pipeline of the one that is meant",))
    places = tuple(place for place in _places(project, None, emit) if place.pipeline.sink.table.uri in tables)
    return FileAdopting(places, emit).run(prefix, confirm)


def status(config: Config, pipeline: str | None = None) -> tuple[SourceStatus, ...]:
    """Where every source stands: state, watermark, lag and backlog; from mirror or documents, without Spark."""
    from tidegate.runs.looking import status_of

    now = datetime.now(UTC)
    return tuple(status_of(place, now) for place in _places(load(config, pipeline=pipeline), pipeline))


def serve(
    config: Config,
    pipeline: str | None = None,
    *,
    address: str | None = None,
    every: float = 15.0,
    started: Callable[[str], None] = lambda address: None,
    stop: threading.Event | None = None,
) -> None:
    """Serve metrics and health of pipelines that run elsewhere, until ``stop`` is set or a signal comes.

    The numbers are those of ``status``, at most ``every`` seconds old. ``address`` is that of the configuration unless
    it is given; ``started`` hears it once it answers.
    """
    from tidegate.runs.stopping import stops_on_signals
    from tidegate.web.standing import standing

    flag = stop or threading.Event()
    project = load(config, pipeline=pipeline)
    where, legacy = address or project.metrics.address, project.metrics.legacy_names
    with (
        stops_on_signals(flag),
        standing(lambda: status(project, pipeline), where, every, legacy_names=legacy) as found,
    ):
        started(found)
        flag.wait()


def show_watermarks(config: Config, pipeline: str, source: str | None = None) -> tuple[WatermarkView, ...]:
    """The recorded state of a pipeline's sources, in full."""
    from tidegate.runs.looking import places_named, watermark_of

    places = _places(load(config, pipeline=pipeline), pipeline)
    return tuple(watermark_of(place) for place in places_named(places, source))


def watermark_history(
    config: Config, pipeline: str, source: str | None = None, *, limit: int = 20
) -> tuple[WatermarkHistory, ...]:
    """The positions of a pipeline's sources, newest first, with the watermark that each left; ``limit`` 0: all."""
    from tidegate.runs.ledger import history_of

    return tuple(history_of(place, limit) for place in _places_of(config, pipeline, source))


def files(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    match: str | None = None,
    since: datetime | None = None,
    position: int | None = None,
    limit: int = 50,
) -> FilesReport:
    """Which files were ingested when and by which commit, newest first; ``limit`` 0: all."""
    from tidegate.runs.file_lines import Wanted
    from tidegate.runs.ledger import files_of

    return files_of(_places_of(config, pipeline, source), Wanted(match, since, position), limit)


def export_ledger(config: Config, pipeline: str, source: str | None = None, *, to: Path) -> LedgerExport:
    """The complete ledger of a pipeline's sources as one local Parquet file, for SQL."""
    from tidegate.runs.ledger import export

    return export(_places_of(config, pipeline, source), to)


def compact_ledger(config: Config, pipeline: str, source: str | None = None) -> tuple[LedgerCompaction, ...]:
    """Gathers old documents of a pipeline's sources into blocks of the ledger; runs do the same bit by bit."""
    from tidegate.runs.ledger import compact_place

    return tuple(compact_place(place) for place in _places_of(config, pipeline, source))


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

    from tidegate.runs.letters import Choice, chosen

    choice = Choice(tuple(ids), file, reason)
    places = _places_of(config, pipeline, source)
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
    from tidegate.runs.letters import Choice, retry

    project = load(config, pipeline=pipeline)
    choice = Choice(tuple(ids), file, reason)
    places = _places_of(project, pipeline, source)
    with _lane(project.spark, emit, threading.Event(), lambda: places) as lane:
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
    from tidegate.runs.letters import Choice, discard

    choice = Choice(tuple(ids), file, reason)
    return tuple(discard(place, choice) for place in _places_of(config, pipeline, source))


def recover(
    config: Config, pipeline: str, source: str | None = None, *, accept: Collection[str] = ()
) -> tuple[Check, ...]:
    """What stops the sources of a pipeline, and what is left of a state that cannot be read.

    ``accept`` (``identity``, ``restore``, ``mirror``, ``previous``, ``doubles``, ``set``) goes on past it: the
    position is recorded anew by an empty commit, which reads, writes and removes no rows.
    """
    from tidegate.runs.looking import places_named
    from tidegate.runs.recovering import recover as recover_place

    places = _places(load(config, pipeline=pipeline), pipeline)
    return tuple(check for place in places_named(places, source) for check in recover_place(place, accept))


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
    from tidegate.runs.looking import places_named
    from tidegate.runs.reconciling import Reconciling, Wanted, checked_age
    from tidegate.runs.stopping import stops_on_signals

    flag = stop or threading.Event()
    age = checked_age(older_than, force=force) if clean else older_than
    project = load(config)
    names = {each.name for each in _pipelines(project, pipeline)}
    every = _places(project, None, emit)
    places = places_named(tuple(each for each in every if each.pipeline.name in names), source)
    spark = _lane(project.spark, emit, flag, lambda: places) if ingest else contextlib.nullcontext()
    with spark as lane, stops_on_signals(flag):
        return Reconciling(places, every, Wanted(lane, clean, age), emit, flag).all()


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
    from tidegate.runs.adopting import Wish
    from tidegate.runs.adopting import adopt as adopt_place
    from tidegate.runs.looking import places_named

    wish = Wish(dry_run, quiet_for, fresh, read_skipped)
    places = _places(load(config, pipeline=pipeline), pipeline)
    return tuple(adopt_place(place, wish) for place in places_named(places, source))


def set_watermark(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    to: str,
    confirm: Callable[[WatermarkMove], bool] = agreed,
) -> WatermarkMove:
    """Set the watermark of one partition to the path ``to``, up or down, if ``confirm`` agrees to what that means.

    The position is committed by the ordinary protocol and no row is touched: files below a watermark that moved up
    are never read, files above one that moved down are read again. ``CommitLost`` when another run was first.
    """
    from tidegate.runs.looking import place_named
    from tidegate.runs.moving import move_watermark, target_of

    place = place_named(_places(load(config, pipeline=pipeline), pipeline), source)
    return move_watermark(place, target_of(place.source, to), datetime.now(UTC), confirm)


def reset_watermark(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    partition: str | None = None,
    confirm: Callable[[WatermarkMove], bool] = agreed,
) -> WatermarkMove:
    """Forget the position of one partition (``""`` is the top level), or of the whole source; see ``set_watermark``."""
    from tidegate.runs.looking import place_named
    from tidegate.runs.moving import Target, move_watermark

    place = place_named(_places(load(config, pipeline=pipeline), pipeline), source)
    target = Target(None if partition is None else partition.strip("/"))
    return move_watermark(place, target, datetime.now(UTC), confirm)


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
    from tidegate.planning.selecting import Selection
    from tidegate.runs.looking import place_named
    from tidegate.runs.replay_choice import other_locations
    from tidegate.runs.replaying import Replay
    from tidegate.runs.stopping import stops_on_signals

    selection = Selection(files, None if partition is None else partition.strip("/"))
    flag = stop or threading.Event()
    project = load(config)
    place = place_named(_places(project, pipeline), source)
    with _lane(project.spark, emit, flag) as lane, stops_on_signals(flag):
        carried = Replay(place, lane, others=other_locations(project, place), emit=emit, stop=flag)
        return carried.run(selection, confirm, drop_missing=drop_missing)


def infer_schema(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    sample: int = 1000,
    update: bool = False,
    confirm: Callable[[SchemaInference], bool] = agreed,
) -> SchemaInference:
    """What the first ``sample`` lines of each of up to ten files say about the columns. Touches nothing.

    With ``update``, fields that the remembered schema of the pipeline lacks are added to it if ``confirm`` agrees.
    """
    from tidegate.runs.schema_looking import inferred, updated

    place = _places_of(config, pipeline, source)[0]
    now = datetime.now(UTC)
    return updated(place, now, sample, confirm) if update else inferred(place, now, sample)


def show_schema(config: Config, pipeline: str) -> SchemaView:
    """The declared, the remembered and the table's columns of a pipeline, side by side. Touches nothing."""
    from tidegate.runs.schema_looking import shown

    return shown(_places_of(config, pipeline, None)[0])


def diff_schema(config: Config, pipeline: str) -> SchemaDiff:
    """What the next run would do about the columns of its table. Touches nothing."""
    from tidegate.runs.schema_looking import compared

    return compared(_places_of(config, pipeline, None)[0])


def replace_schema(config: Config, pipeline: str, *, confirm: Callable[[TableRewrite], bool] = agreed) -> TableRewrite:
    """Give a table exactly the columns of its pipeline, without a row, if ``confirm`` agrees; the position stays.

    For ``schema_evolution: overwrite`` only. One commit by the ordinary protocol; ``CommitLost`` when another run was
    first.
    """
    from tidegate.runs.table_rewriting import replace_columns

    return replace_columns(_places_of(config, pipeline, None)[0], confirm)


def widen_table(
    config: Config,
    pipeline: str,
    *,
    column: str,
    to: str,
    confirm: Callable[[TableRewrite], bool] = agreed,
) -> TableRewrite:
    """Rewrite a table with the wider type ``to`` of one column, in one commit, if ``confirm`` agrees.

    ``column`` may be a path (``user.age``, ``tags.element``, ``prices.value``). The positions of all sources stay.
    """
    from tidegate.runs.table_rewriting import widen

    return widen(_places_of(config, pipeline, None)[0], column, to, confirm)


def optimize_table(
    config: Config, pipeline: str, *, target_mb: int | None = None, dry_run: bool = False
) -> TableCareReport:
    """Put the rows of small data files together; no row changes, and runs may go on meanwhile. No Spark."""
    return _care(config, pipeline).optimize(target_mb, dry_run=dry_run)


def vacuum_table(
    config: Config, pipeline: str, *, retention_hours: int | None = None, force: bool = False, dry_run: bool = False
) -> TableCareReport:
    """Remove data files that left the table longer ago than that; at least a day unless ``force``. No Spark.

    Versions that need them cannot be read or restored any more. What runs have written and not committed stays.
    """
    return _care(config, pipeline).vacuum(retention_hours, force=force, dry_run=dry_run)


def checkpoint_table(config: Config, pipeline: str, *, dry_run: bool = False) -> TableCareReport:
    """Write a Delta checkpoint of the newest version, so that the table loads fast. No Spark."""
    return _care(config, pipeline).checkpoint(dry_run=dry_run)


def _care(config: Config, pipeline: str) -> Care:
    from tidegate.runs.table_care import Care

    return Care(_pipelines(load(config, pipeline=pipeline), pipeline)[0])


def doctor(config: Config | None = None) -> tuple[Check, ...]:
    """Looks at this machine and, with a configuration, at its sources and tables; changes nothing."""
    from tidegate.runs.examining import examine_machine, examine_project

    checks = examine_machine()
    if config is None:
        return checks
    try:
        project = load(config)
    except ConfigError as error:
        problems = tuple(Check("configuration", "fail", problem) for problem in error.problems)
        return (*checks, *problems)
    return (*checks, *examine_project(project, _places(project, None)))


def demo(
    folder: Path | None = None, emit: Emit = ignore, show: Callable[[DemoStep], None] = lambda step: None
) -> DemoReport:
    """A first run that needs nothing: makes data, ingests it twice, and shows table, watermarks and status."""
    from tidegate.runs.demo import Demo

    flag = threading.Event()
    with _lane(SparkSpec(), emit, flag) as lane:

        def run_again(config: Path) -> RunReport:
            return _run(load(config), None, "once", emit, flag, lane)

        return Demo(folder or Path("tidegate-demo"), run_again, status, show).play()


def chaos(
    uri: str,
    *,
    failures: int = 1000,
    kills: int = 10,
    spark_kills: int = 0,
    seed: int | None = None,
    minutes: float = 10.0,
    keep: bool = False,
    options: Mapping[str, str] | None = None,
    show: Callable[[ChaosProgress], None] = lambda progress: None,
) -> ChaosReport:
    """Try to make Tidegate lose or double a row, in tables of its own below ``uri``, which must be empty.

    Ends when that many failures were injected and that many processes killed, or after ``minutes``. ``options`` are
    the storage options of ``uri``, ``keep`` leaves everything there. Not for use beside other runs in this process.
    """
    from tidegate.runs.chaos import Chaos, any_seed
    from tidegate.specs import Location, Options
    from tidegate.storage.opening import absolute

    place = Location(absolute(uri, Path.cwd()), Options(options or {}))
    limits = ChaosLimits(failures, kills, spark_kills, minutes)
    return Chaos(place, limits, any_seed() if seed is None else seed, keep, show).play()


@contextlib.contextmanager
def _lane(
    spec: SparkSpec, emit: Emit, stop: threading.Event, places: Callable[[], tuple[Place, ...]] = tuple
) -> Iterator[Lane]:
    """Spark, started when it is first needed; with what it needs to write those of ``places`` that only it can."""
    from tidegate.observe.events import SessionStarting
    from tidegate.runs.frames import any_frames, frame_packages
    from tidegate.spark.arrow_lane import SparkArrowLane

    lane = SparkArrowLane(
        spec,
        stop=stop,
        starting=lambda where: emit(SessionStarting("", "", where)),
        delta=lambda: any_frames(places()),
        packages=lambda: frame_packages(places()),
    )
    try:
        yield lane
    finally:
        lane.close()


def _run(
    project: ProjectSpec, pipeline: str | None, mode: Mode, emit: Emit, stop: threading.Event, lane: Lane
) -> RunReport:
    from tidegate.runs.running import Running
    from tidegate.runs.stopping import stops_on_signals

    for notice in project.notices:
        emit(Notice("", "", notice))
    running = Running(project, lane, parallelism_of(project.spark), emit, stop)
    chosen = _pipelines(project, pipeline)
    with stops_on_signals(stop):
        if mode == "continuous":
            return running.continuously([each.continuous() for each in chosen])
        return running.once(chosen)


def parallelism_of(spec: SparkSpec) -> int:
    """How many tasks would run at once; read off the configuration."""
    from tidegate.spark.session import parallelism

    return parallelism(spec)


def _pipelines(project: ProjectSpec, name: str | None) -> tuple[PipelineSpec, ...]:
    chosen = tuple(each for each in project.pipelines if name in (None, each.name))
    if not chosen:
        from tidegate.config.problems import nearest, sentence

        known = [each.name for each in project.pipelines]
        allowed = f"allowed: {', '.join(known)}"
        raise ConfigError((sentence(f"{project.origin}: no pipeline {name!r}", allowed, nearest(name or "", known)),))
    return chosen


def _places_of(config: Config, pipeline: str, source: str | None) -> tuple[Place, ...]:
    """The sources of one pipeline, or the one that is named."""
    from tidegate.runs.looking import places_named

    return places_named(_places(load(config, pipeline=pipeline), pipeline), source)


def _places(project: ProjectSpec, name: str | None, emit: Emit = ignore) -> tuple[Place, ...]:
    from tidegate.runs.place import open_place

    width = parallelism_of(project.spark)
    return tuple(
        open_place(project, pipeline, source, width, emit)
        for pipeline in _pipelines(project, name)
        for source in pipeline.sources
    )
