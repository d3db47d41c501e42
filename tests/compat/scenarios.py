"""What the fixtures are made of: one lake per kind of source and of state, and how each of them goes on.

``make`` writes a lake with whatever code is there. ``steps`` are what a test does with a copy of the fixture, one
after the other. ``ids`` is what each table holds afterwards, told by hand: rows of new data, each exactly once.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from compat.ground import FIELDS, PATHS, ROWS, UNITS, Ground

Ids = Mapping[str, Sequence[int]]
EVENTS, LETTERS = "lake/events", "lake/events_dead_letters"
DAY = "date=2026-01-28"


@dataclass(frozen=True)
class Step:
    """Something that is done with a lake; what it prints is recorded."""

    name: str
    act: Callable[[Ground], Any]
    ids: Ids = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """One fixture; one that ``is_long`` is made anew in long runs alone."""

    name: str
    make: Callable[[Ground], None]
    ids: Ids
    steps: tuple[Step, ...]
    look: Sequence[str] = PATHS
    needs_spark: bool = False
    needs_server: bool = False
    is_long: bool = False


SCENARIOS: dict[str, Scenario] = {}


def scenario(ids: Ids, *steps: Step, **more: Any) -> Callable[[Callable[[Ground], None]], Callable[[Ground], None]]:
    """Declare the function below as the making of a lake of its name."""

    def declare(make: Callable[[Ground], None]) -> Callable[[Ground], None]:
        SCENARIOS[make.__name__] = Scenario(make.__name__, make, ids, steps, **more)
        return make

    return declare


def events(
    ground: Ground,
    source: Mapping[str, Any] | None = None,
    sink: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    **pipeline: Any,
) -> None:
    """One pipeline ``events`` over files."""
    body = {
        "source": {"source_uri": "data/", "use_watermark": True, **(source or {})},
        "schema": {"fields": FIELDS},
        "sink": {"table_uri": EVENTS, **(sink or {})},
        **pipeline,
    }
    ground.configure({"events": body}, **(settings or {}))


TEXT_TIME = "2026-01-28T12:00:00z"
"""A time that inference takes for text, as it took every time when the lakes were made."""


def run(ground: Ground) -> Any:
    """``tidegate run``."""
    return ground.tidegate("run")


def arrives(path: str, *ids: int, **extra: object) -> Callable[[Ground], Any]:
    """A new file, and a run."""

    def act(ground: Ground) -> Any:
        ground.arrive(path, ids, **extra)
        return run(ground)

    return act


def does(words: str, *options: str, code: int = 0) -> Callable[[Ground], Any]:
    """One command."""
    return lambda ground: ground.tidegate(words, *options, code=code)


IDLE = Step("a run with nothing new", run)


# Files by path watermark


@scenario(
    {EVENTS: [1, 2, 3, 4]},
    Step("a new file", arrives("c.ndjson", 5, 6), {EVENTS: [1, 2, 3, 4, 5, 6]}),
    Step("a late file", arrives("a2.ndjson", 7), {EVENTS: [1, 2, 3, 4, 5, 6, 7]}),
    Step("a dead letter is read again and is still bad", does("dlq retry", "-p", "events", code=1)),
    Step("and is discarded", does("dlq discard", "-p", "events", "--yes")),
    IDLE,
)
def one_partition(ground: Ground) -> None:
    """Files without folders, one bad line, and an idle poll after the last commit."""
    events(ground)
    ground.arrive("a.ndjson.gz", [1, 2])
    run(ground)
    ground.arrive("b.ndjson", [3])
    with (ground.root / "data/b.ndjson").open("a") as file:
        file.write('{"id": "x"}\n\n{"id": 4}\n')
    run(ground)
    run(ground)


DAYS = [f"date=2026-01-{day}" for day in (24, 26, 27, 28)]


@scenario(
    {EVENTS: [1, 2, 3, 4, 5, 6, 7]},
    Step("a new file", arrives(f"{DAY}/3.ndjson", 8), {EVENTS: [1, 2, 3, 4, 5, 6, 7, 8]}),
    Step("a late file in a sealed folder", arrives(f"{DAYS[0]}/9.ndjson", 9), {EVENTS: [1, 2, 3, 4, 5, 6, 7, 8]}),
    Step("which is read by reconcile", does("reconcile", "--ingest"), {EVENTS: [1, 2, 3, 4, 5, 6, 7, 8, 9]}),
    Step(
        "files are replayed",
        lambda ground: (
            ground.arrive(f"{DAY}/1.ndjson", [4, 40]),
            ground.tidegate("replay", "-p", "events", "--partition", DAY, "--yes"),
        )[1],
        {EVENTS: [1, 2, 3, 4, 5, 7, 8, 9, 40]},
    ),
    Step("a new folder", arrives("date=2026-01-30/1.ndjson", 10), {EVENTS: [1, 2, 3, 4, 5, 7, 8, 9, 10, 40]}),
    IDLE,
)
def sealed_partitions(ground: Ground) -> None:
    """Folders by day: the older are sealed, of the others each has a watermark and a late window."""
    events(
        ground,
        {"lateness": "P2D", "late_window": 3},
        {
            "compression": "uncompressed",
            "metadata_columns": ["_source_file", "_source_record"],
            "partition_by": {"prefix_template": "date=%Y-%m-%d", "column": "ts"},
        },
    )
    ground.arrive(f"{DAYS[0]}/1.ndjson", [1])
    ground.arrive(f"{DAYS[1]}/1.ndjson", [2])
    ground.arrive(f"{DAYS[2]}/1.ndjson.gz", [3])
    run(ground)
    ground.arrive(f"{DAY}/1.ndjson", [4, 6])
    ground.arrive(f"{DAY}/2.ndjson", [5])
    run(ground)
    ground.arrive(f"{DAYS[2]}/0.ndjson", [7])
    run(ground)


@scenario(
    {EVENTS: [1, 2, 3, 4]},
    Step(
        "both sources go on",
        lambda ground: (ground.arrive("asia/2.ndjson", [5]), ground.arrive("europe/k/2.ndjson", [6]), run(ground))[2],
        {EVENTS: [1, 2, 3, 4, 5, 6]},
    ),
    IDLE,
)
def two_sources(ground: Ground) -> None:
    """Two sources of one pipeline, one with a pattern, which both write one table."""
    body = {
        "sources": {
            "asia": {"source_uri": "data/asia/", "use_watermark": True},
            "europe": {"source_uri": "data/europe/", "use_watermark": True, "pattern": "*.ndjson"},
        },
        "schema": {"fields": FIELDS},
        "sink": {"table_uri": EVENTS},
    }
    ground.configure({"events": body})
    ground.arrive("asia/1.ndjson", [1, 2])
    ground.arrive("europe/k/1.ndjson", [3])
    ground.arrive("europe/k/1.txt", [99])
    run(ground)
    ground.arrive("europe/l/1.ndjson", [4])
    run(ground)


BIG, BEGUN = 60, 41


@scenario(
    {EVENTS: list(range(BEGUN))},
    Step("the run goes on in the middle of the file", run, {EVENTS: list(range(BIG))}),
    Step("a new file", arrives("b.ndjson", 100), {EVENTS: [*range(BIG), 100]}),
    IDLE,
)
def begun_file(ground: Ground) -> None:
    """A file of which a part was committed when the run was killed, and the documents of the next attempt."""
    events(
        ground,
        sink={
            "file_size_mb": 1,
            "row_group_size_bytes": 1024 * 1024,
            "commit_batch_files": 1,
            "compression": "uncompressed",
        },
    )
    lines = (json.dumps({"id": number, "event": f"{number:06d}" + "x" * 100_000}) for number in range(BIG))
    ground.write("a.ndjson.gz", "".join(f"{line}\n" for line in lines))
    ground.kill("state.commit.before=kill@2", "run")


@scenario(
    {EVENTS: [1, 2]},
    Step(
        "a new file, and the other one is given up",
        lambda ground: (ground.arrive(f"{DAY}/4.ndjson", [3]), ground.tidegate("run", code=1))[1],
        {EVENTS: [1, 2, 3]},
    ),
    Step(
        "the repaired file is read again",
        lambda ground: (
            ground.arrive(f"{DAY}/2.ndjson.gz", [20]),
            ground.tidegate("dlq retry", "-p", "events", code=1),
        )[1],
        {EVENTS: [1, 2, 3, 20]},
    ),
    Step("the other one stays with its letter", does("run"), {EVENTS: [1, 2, 3, 20]}),
)
def given_up_files(ground: Ground) -> None:
    """A file that was given up, with its dead letter, and one that failed once."""
    events(ground, {"max_attempts": 2})
    ground.arrive(f"{DAY}/1.ndjson", [1])
    ground.write(f"{DAY}/2.ndjson.gz", b"no gzip")
    ground.tidegate("run", code=1)
    ground.arrive(f"{DAY}/3.ndjson", [2])
    ground.tidegate("run", code=1)
    ground.write(f"{DAY}/3x.ndjson.gz", b"no gzip either")
    ground.tidegate("run", code=1)


@scenario(
    {},
    Step("the file is repaired", lambda ground: (ground.arrive("a.ndjson.gz", [1]), run(ground))[1], {EVENTS: [1]}),
    IDLE,
)
def first_attempts(ground: Ground) -> None:
    """Two runs failed before there was any position."""
    events(ground)
    ground.write("a.ndjson.gz", b"no gzip")
    ground.tidegate("run", code=1)
    ground.tidegate("run", code=1)


@scenario(
    {EVENTS: [1]},
    Step("a run goes on past the note of a dead one", arrives("b.ndjson", 2), {EVENTS: [1, 2]}),
    IDLE,
)
def at_work(ground: Ground) -> None:
    """A run died and left its note that it is at work."""
    events(ground, on_conflict="wait")
    ground.arrive("a.ndjson", [1])
    run(ground)
    ground.arrive("b.ndjson", [2])
    ground.kill("runs.planned", "run")


@scenario({}, Step("what lies above the bound", arrives("date=2029-01-01/1.ndjson", 1), {EVENTS: [1]}), IDLE)
def cold_start(ground: Ground) -> None:
    """A bounded first run found nothing and recorded its bound."""
    events(ground, {"partition_filter": {"prefix_template": "date=%Y-%m-%d", "lookback": 1}})
    ground.arrive(f"{DAY}/1.ndjson", [99])
    run(ground)


def _undecided(ground: Ground, place: str) -> None:
    events(ground)
    ground.arrive("a.ndjson", [1])
    run(ground)
    ground.arrive("b.ndjson", [2, 3])
    with (ground.root / "data/b.ndjson").open("a") as file:
        file.write("no json\n")
    ground.kill(place, "run")


@scenario(
    {EVENTS: [1]},
    Step("the next run", run, {EVENTS: [1, 2, 3]}),
    Step("a new file", arrives("c.ndjson", 4), {EVENTS: [1, 2, 3, 4]}),
    IDLE,
)
def undecided_attempt(ground: Ground) -> None:
    """Killed after the document and before the commit: an attempt that never was."""
    _undecided(ground, "state.commit.before")


@scenario(
    {EVENTS: [1, 2, 3]},
    Step("the next run", run, {EVENTS: [1, 2, 3], LETTERS: []}),
    Step("a new file", arrives("c.ndjson", 4), {EVENTS: [1, 2, 3, 4]}),
    IDLE,
)
def unpaid_commit(ground: Ground) -> None:
    """Killed right after the commit: no note of the winner, no dead letters, an old mirror."""
    _undecided(ground, "state.commit.after")


@scenario({EVENTS: [1, 2, 3]}, Step("the next run", run, {EVENTS: [1, 2, 3]}), IDLE)
def unpaid_letters(ground: Ground) -> None:
    """Killed between the rows and their dead letters."""
    _undecided(ground, "state.letters.before")


@scenario(
    {EVENTS: [1, 2, 3, 4]},
    Step("a new file", arrives("p/9.ndjson", 9), {EVENTS: [1, 2, 3, 4, 9]}),
    Step(
        "moved over a file",
        lambda ground: (
            ground.arrive("q/5.ndjson", [5]),
            ground.tidegate("watermark set", "-p", "events", "--to", "q/5.ndjson", "--yes"),
        )[1],
        {EVENTS: [1, 2, 3, 4, 9]},
    ),
    Step("a partition is forgotten", does("watermark reset", "-p", "events", "--partition", "q", "--yes")),
    Step("and read again", run, {EVENTS: [1, 2, 2, 3, 4, 5, 9]}),
)
def moved_watermark(ground: Ground) -> None:
    """A watermark that was set by hand, and one that was reset and read again."""
    events(ground)
    ground.arrive("p/1.ndjson", [1])
    ground.arrive("q/1.ndjson", [2])
    run(ground)
    ground.arrive("p/2.ndjson", [98])
    ground.tidegate("watermark set", "-p", "events", "--to", "p/2.ndjson", "--yes")
    ground.arrive("p/3.ndjson", [3, 4])
    run(ground)


@scenario(
    {EVENTS: [1, 2, 3]},
    Step("a new file with a new field", arrives("c.ndjson", 4, city="Ghent"), {EVENTS: [1, 2, 3, 4]}),
    Step("the remembered schema", does("schema show", "-p", "events")),
    IDLE,
    look=(*PATHS, "schema show"),
)
def inferred_schema(ground: Ground) -> None:
    """Columns that were inferred and are remembered; a new one came with the second run, which took up none then."""
    events(ground, schema={"infer": True}, schema_evolution="strict")
    ground.arrive("a.ndjson", [1, 2], ts=TEXT_TIME, price=1.5, tags=["a"], user={"name": "x", "age": 3})
    run(ground)
    ground.arrive("b.ndjson", [3], ts=TEXT_TIME, price=2, added="2026-01-28")
    run(ground)
    events(ground, schema={"infer": True})
    ground.tidegate("schema infer", "-p", "events", "--update", "--yes")


@scenario(
    {EVENTS: list(range(20))},
    Step("a new file", arrives("f0100.ndjson", 100), {EVENTS: [*range(20), 100]}),
    Step("table care", does("table checkpoint", "-p", "events")),
    IDLE,
    look=[each for each in PATHS if each != "reconcile"],
)
def checkpointed_log(ground: Ground) -> None:
    """A log with a checkpoint, a state too large to stand in it as it is, and small files put together.

    Reconcile is not asked: what left the table becomes an orphan with the days.
    """
    events(
        ground,
        {"lateness": "none", "checkpoint": {"interval_files": 5}},
        {"delta_checkpoint_interval": 2, "table_properties": {"delta.appendOnly": "false"}},
    )
    for number in range(20):
        ground.arrive(
            f"a-long-name-of-a-region-{number:04d}/and-a-longer-name-of-a-place-within-it-{number:04d}/"
            + f"{number * 7919:0120d}.ndjson",
            [number],
        )
    run(ground)
    ground.tidegate("table optimize", "-p", "events")


LEDGER = 530


@scenario(
    {EVENTS: list(range(0, LEDGER, 60))},
    Step("a new file", arrives("f9999.ndjson", 9999), {EVENTS: [*range(0, LEDGER, 60), 9999]}),
    Step("old files of the ledger", does("files", "-p", "events", "--match", "f000*", "--ranges")),
    Step("nothing is due", does("files", "-p", "events", "--compact")),
    IDLE,
    is_long=True,
)
def ledger_blocks(ground: Ground) -> None:
    """So many positions that the older ones are in a block; most brought nothing but their file."""
    events(ground, {"late_window": 5}, {"delta_checkpoint_interval": 300})
    for number in range(LEDGER):
        ground.arrive(f"f{number:04d}.ndjson", [number] if number % 60 == 0 else [])
        run(ground)
    ground.tidegate("files", "-p", "events", "--compact")


# Files by the set of their paths


@scenario(
    {EVENTS: [*range(12), 50]},
    Step(
        "a new file of any name, and the one that failed",
        lambda ground: (ground.arrive("0/00.ndjson", [12]), ground.arrive("bad.ndjson.gz", [13]), run(ground))[2],
        {EVENTS: [*range(14), 50]},
    ),
    IDLE,
)
def path_set(ground: Ground) -> None:
    """A set of paths in several parts, of which some were put together; one file failed."""
    events(ground, {"use_watermark": False})
    for number in range(12):
        ground.arrive(f"{'abc'[number % 3]}/{(number * 7919) % 1000:03d}.ndjson", [number])
        run(ground)
    ground.write("bad.ndjson.gz", b"no gzip")
    ground.arrive("d.ndjson", [50])
    ground.tidegate("run", code=1)


# Staged delivery


def _damaged_unit(ground: Ground) -> Any:
    """The newest unit is damaged, and the committer rejects it."""
    unit = max((ground.root / EVENTS / "_staging/pending/events/default").glob("*.unit.json"))
    unit.write_text(unit.read_text()[:-20])
    return ground.tidegate("commit", "--once", code=1)


@scenario(
    {EVENTS: [1, 2, 3]},
    Step("another unit", arrives(f"{DAY}/5.ndjson", 5), {EVENTS: [1, 2, 3]}),
    Step("the committer", does("commit", "--once"), {EVENTS: [1, 2, 3, 4, 5, 6]}),
    Step("another unit", arrives(f"{DAY}/6.ndjson", 7), {EVENTS: [1, 2, 3, 4, 5, 6]}),
    Step("is damaged and rejected", _damaged_unit, {EVENTS: [1, 2, 3, 4, 5, 6]}),
    Step("its file is read again", run, {EVENTS: [1, 2, 3, 4, 5, 6]}),
    Step("and committed", does("commit", "--once"), {EVENTS: [1, 2, 3, 4, 5, 6, 7]}),
    Step("nothing waits", does("commit", "--once")),
)
def staged_units(ground: Ground) -> None:
    """Units and metas that wait, some that were committed and archived, one that was rejected, a dead letter."""
    events(ground, delivery="staged", staging={"archive": True})
    ground.arrive(f"{DAY}/1.ndjson", [1, 2])
    run(ground)
    ground.tidegate("commit", "--once")
    ground.arrive(f"{DAY}/2.ndjson", [3])
    with (ground.root / f"data/{DAY}/2.ndjson").open("a") as file:
        file.write("no json\n")
    run(ground)
    ground.arrive(f"{DAY}/3.ndjson", [6])
    run(ground)
    _damaged_unit(ground)
    ground.arrive(f"{DAY}/4.ndjson", [4])
    run(ground)


@scenario(
    {EVENTS: [1]},
    Step("the committer", does("commit", "--once"), {EVENTS: [1, 2, 77]}),
    Step("nothing waits", does("commit", "--once")),
)
def foreign_metas(ground: Ground) -> None:
    """A Parquet file and its meta from another writer beside a unit, both waiting; set tracking."""
    events(ground, {"use_watermark": False}, delivery="staged")
    ground.arrive("1.ndjson", [1])
    run(ground)
    ground.tidegate("commit", "--once")
    ground.arrive("2.ndjson", [2])
    run(ground)
    import pyarrow.parquet as pq

    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("ts", pa.timestamp("us", "UTC")), ("event", pa.string())]
    )
    path = ground.root / EVENTS / "foreign-1.parquet"
    pq.write_table(pa.table({"id": [77], "ts": [None], "event": ["view"]}, schema=schema), path)
    meta = {
        "filename": "foreign-1.parquet",
        "size": path.stat().st_size,
        "record_count": 1,
        "partition_values": {},
        "source_file": "elsewhere",
    }
    (ground.root / EVENTS / "_staging/pending/foreign-1.meta.json").write_text(json.dumps(meta))


@scenario(
    {EVENTS: [1, 2]},
    Step("the next committer", does("commit", "--once"), {EVENTS: [1, 2]}),
    Step("a new file", arrives("3.ndjson", 3)),
    Step("and its commit", does("commit", "--once"), {EVENTS: [1, 2, 3]}),
)
def unpaid_committer(ground: Ground) -> None:
    """A committer that was killed after its commit: what it took still waits."""
    events(ground, delivery="staged")
    ground.arrive("1.ndjson", [1])
    run(ground)
    ground.arrive("2.ndjson", [2])
    run(ground)
    ground.kill("staging.clear.before", "commit", "--once")


# Tables of Blizzard


def _blizzard(ground: Ground) -> None:
    events(ground)
    for path, number in (("27/a", 1), ("27/b", 2), ("28/a", 3), ("28/b", 4)):
        ground.arrive(f"date=2026-01-{path}.ndjson", [number])
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("ts", pa.timestamp("us", tz="UTC")), ("event", pa.string())]
    )
    state = {
        "schema_version": 1,
        "source_state": {"files": {}, "last_committed_file": "date=2026-01-28/a.ndjson"},
        "delta_version": 0,
    }
    app = "blizzard:" + base64.b64encode(json.dumps(state).encode()).decode()
    transactions = [
        Transaction("penguin-events", 1, int(time.time() * 1000)),
        Transaction(app, 1, int(time.time() * 1000)),
    ]
    write_deltalake(
        str(ground.root / EVENTS),
        pa.table({"id": [1, 2, 3], "ts": [None] * 3, "event": ["view"] * 3}, schema=schema),
        commit_properties=CommitProperties(app_transactions=transactions),
    )
    checkpoint = {
        "schema_version": 1,
        "watermark": {"state": "Active", "value": "date=2026-01-28/a.ndjson"},
        "partition_watermarks": {"date=2026-01-27": "b.ndjson", DAY: "a.ndjson"},
        "last_update_ts": 1706450500,
    }
    folder = ground.root / EVENTS / "_blizzard"
    folder.mkdir()
    (folder / "events_default_checkpoint.json").write_text(json.dumps(checkpoint))


@scenario(
    {EVENTS: [1, 2, 3]},
    Step("a run stops", does("run", code=5), {EVENTS: [1, 2, 3]}),
    Step("adopted", does("adopt", "-p", "events", "--yes", "--quiet-for", "0")),
    Step("and read on", run, {EVENTS: [1, 2, 3, 4]}),
    IDLE,
)
def blizzard_table(ground: Ground) -> None:
    """A table as Blizzard left it."""
    _blizzard(ground)


@scenario(
    {EVENTS: [1, 2, 3, 4]},
    Step("a new file", arrives(f"{DAY}/c.ndjson", 5), {EVENTS: [1, 2, 3, 4, 5]}),
    IDLE,
)
def adopted_table(ground: Ground) -> None:
    """A table of Blizzard that was adopted and read on."""
    _blizzard(ground)
    ground.tidegate("adopt", "-p", "events", "--yes", "--quiet-for", "0")
    run(ground)


# Rows by columns


def orders(
    ground: Ground, source: Mapping[str, Any] | None = None, sink: Mapping[str, Any] | None = None, **more: Any
) -> None:
    """One pipeline ``orders`` over a Parquet file of rows."""
    body = {
        "source": {"type": "parquet", "source_uri": "data", "watermark_columns": ["id"], **(source or {})},
        "sink": {"table_uri": "lake/orders", **(sink or {})},
    }
    ground.configure({"orders": body}, **more)


def has_rows(*numbers: int, **more: Any) -> Callable[[Ground], Any]:
    """The source has these rows, and a run."""

    def act(ground: Ground) -> Any:
        ground.rows(*numbers, **more)
        return run(ground)

    return act


COLUMN_STEPS = (
    Step("new rows", has_rows(*range(1, 8)), {"lake/orders": [1, 2, 3, 4, 5, 6, 7]}),
    Step("the watermark is set", does("watermark set", "-p", "orders", "--value", "id=9", "--yes")),
    Step("and rows below it are not read", has_rows(*range(1, 11)), {"lake/orders": [1, 2, 3, 4, 5, 6, 7, 10]}),
    IDLE,
)


def _three_runs(ground: Ground) -> None:
    ground.rows(1, 2)
    run(ground)
    ground.rows(1, 2, 3, 4, 5)
    run(ground)
    run(ground)


@scenario({"lake/orders": [1, 2, 3, 4, 5]}, *COLUMN_STEPS, look=ROWS)
def columns_append(ground: Ground) -> None:
    """Rows by one column, appended."""
    orders(ground)
    _three_runs(ground)


@scenario({"lake/orders": [1, 2, 3, 4, 5]}, *COLUMN_STEPS, look=ROWS)
def state_in_files(ground: Ground) -> None:
    """The watermark also in files of a provider."""
    orders(ground, state={"provider": "file", "url": "state"})
    _three_runs(ground)


@scenario({"lake/orders": [1, 2, 3, 4, 5]}, *COLUMN_STEPS, look=ROWS)
def state_in_sqlite(ground: Ground) -> None:
    """The watermark also in a database."""
    (ground.root / "state").mkdir()
    orders(ground, state={"provider": "sql", "url": "sqlite:///state/state.db"})
    _three_runs(ground)


@scenario({"lake/orders": [1, 2, 3, 4, 5]}, *COLUMN_STEPS, look=ROWS)
def unpaid_provider(ground: Ground) -> None:
    """Killed after the commit and before the provider had the watermark."""
    orders(ground, state={"provider": "file", "url": "state"})
    ground.rows(1, 2)
    run(ground)
    ground.rows(1, 2, 3, 4, 5)
    ground.kill("state.provider.before", "run")


@scenario(
    {"lake/orders": [1, 2, 3, 4, 5, 6]},
    Step("new rows of two columns", has_rows(1, 2, 3, 4, 5, 6, 7, 8), {"lake/orders": [1, 2, 3, 4, 5, 6, 7, 8]}),
    Step("the watermark is reset", does("watermark reset", "-p", "orders", "--all", "--yes")),
    look=ROWS,
)
def columns_reset(ground: Ground) -> None:
    """Two watermark columns, a watermark that was set to a time, and one that was reset."""
    orders(ground, {"watermark_columns": ["at", "id"]})
    ground.rows(1, 2, 3)
    run(ground)
    ground.tidegate("watermark set", "-p", "orders", "--value", "at=2026-03-04T00:00:00Z", "--value", "id=3", "--yes")
    ground.rows(1, 2, 3, 4, 5, 6)
    run(ground)


REPLAY = ("replay", "-p", "orders", "--start", "1", "--end", "9", "--chunk", "step=2", "--yes")


@scenario(
    {"lake/orders": list(range(1, 9))},
    Step("the replay goes on", does(*REPLAY), {"lake/orders": list(range(1, 9))}),
    Step("new rows", has_rows(*range(1, 12)), {"lake/orders": list(range(1, 12))}),
    Step("another replay begins anew", does(*REPLAY), {"lake/orders": list(range(1, 12))}),
    look=ROWS,
)
def replay_in_the_middle(ground: Ground) -> None:
    """A replay that was killed in its third chunk of four: its record, and its work area."""
    orders(ground)
    ground.rows(*range(1, 9))
    run(ground)
    ground.rows(*range(1, 9), n3="newer")
    ground.kill("state.commit.before=kill@3", *REPLAY)


SHOP = {"shop": {"type": "jdbc", "url": "jdbc:postgresql://db-1.example:5432/shop?sslmode=require"}}


@scenario(
    {},
    Step(
        "the watermark is moved, and its identity rewritten",
        does("watermark set", "-p", "shop", "--value", "id=9", "--yes"),
    ),
    look=("watermark show", "watermark history", "recover"),
)
def jdbc_identity(ground: Ground) -> None:
    """A database source whose position names no host, as present code writes it."""
    body = {
        "source": {"connection": "shop", "table": "public.orders", "watermark_columns": ["id"]},
        "sink": {"table_uri": "lake/columns"},
    }
    ground.configure({"shop": body}, connections=SHOP)
    write_deltalake(str(ground.root / "lake/columns"), pa.table({"id": pa.array([], pa.int64())}))
    ground.tidegate("watermark set", "-p", "shop", "--value", "id=42", "--yes")
    ground.tidegate("watermark set", "-p", "shop", "--value", "id=7", "--yes")


# Time x unit


def surveys(ground: Ground, until: str, source: Mapping[str, Any] | None = None, **work: Any) -> None:
    """One pipeline ``responses`` over a server, by month and survey, up to a day of 2020."""
    bound = {"watermark": "system", "format": "%Y-%m-%dT%H:%M:%SZ"}
    body = {
        "source": {
            "connection": "surveys",
            "path": "/surveys/{{surveyId}}/responses",
            "records": "data",
            "params": {"since": {**bound, "bound": "low"}, "until": {**bound, "bound": "high"}},
            "watermark": [
                {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": f"2020-{until}"}},
                {"name": "surveyId", "type": "unit", "units": "a,b,c"},
            ],
            "work_unit": {"partition": "monthly", **work},
            **(source or {}),
        },
        "schema": {"fields": [{"name": "id", "type": "int64"}, {"name": "at", "type": "timestamp"}]},
        "sink": {"table_uri": "lake/responses"},
    }
    connection = {"type": "http", "url": "${COMPAT_API}", "retries": {"attempts": 0, "base_secs": 0.01}}
    ground.configure({"responses": body}, connections={"surveys": connection})


def until(day: str) -> Callable[[dict[str, Any]], None]:
    """The source goes up to another day of 2020."""

    def change(data: dict[str, Any]) -> None:
        data["pipelines"]["responses"]["source"]["watermark"][0]["range"]["to"] = f"2020-{day}"

    return change


FIRST = {"a": [(1, "01-05"), (2, "02-05")], "b": [(3, "01-06"), (4, "02-06")], "c": [(5, "01-07")]}
MORE = {**FIRST, "a": [*FIRST["a"], (6, "03-01")], "b": [*FIRST["b"], (7, "03-02")]}


def on_to(day: str, **records: Any) -> Callable[[Ground], Any]:
    """The server has more, the source goes further, and a run."""

    def act(ground: Ground) -> Any:
        ground.responses(MORE | records)
        ground.adjust(until(day))
        return run(ground)

    return act


@scenario(
    {"lake/responses": [1, 2, 3, 5]},
    Step("what failed, and what is new", on_to("04-01"), {"lake/responses": [1, 2, 3, 4, 5, 6, 7]}),
    Step("a unit is read anew", does("units reset", "-p", "responses", "--unit", "a", "--yes")),
    Step(
        "and its rows replaced",
        on_to("04-01", a=[(1, "01-05"), (2, "02-05"), (8, "03-09")]),
        {"lake/responses": [1, 2, 3, 4, 5, 7, 8]},
    ),
    IDLE,
    look=UNITS,
    needs_server=True,
)
def work_units(ground: Ground) -> None:
    """Months of three surveys from a server; one work unit failed twice."""
    surveys(ground, "03-01")
    ground.responses(FIRST, ["b@02-01"])
    ground.tidegate("run", code=1)
    ground.tidegate("run", code=1)


@scenario(
    {"lake/responses": [1, 3]},
    Step("the server is well", on_to("03-01"), {"lake/responses": [1, 2, 3, 4]}),
    IDLE,
    look=UNITS,
    needs_server=True,
)
def work_units_breaker(ground: Ground) -> None:
    """The breaker left the rest to the next run; days at the end are read again."""
    surveys(ground, "02-01", breaker_failures=2, group_units=1)
    ground.responses({**FIRST, "c": []})
    run(ground)
    ground.responses(FIRST, ["a", "b", "c"])
    ground.adjust(until("03-01"))
    ground.tidegate("run", code=1)


@scenario(
    {"lake/responses": [1, 2, 3, 4]},
    Step("a retired unit comes back", does("units retry", "-p", "responses", "--unit", "c", "--yes")),
    Step("and is read", on_to("04-01"), {"lake/responses": [1, 2, 3, 4, 5, 6, 7]}),
    look=UNITS,
    needs_server=True,
)
def work_units_retired(ground: Ground) -> None:
    """A unit that the server does not know is retired."""
    surveys(ground, "03-01", not_found="retire")
    ground.responses({unit: rows for unit, rows in FIRST.items() if unit != "c"})
    run(ground)


@scenario(
    {},
    Step("the server is well", on_to("03-01"), {"lake/responses": [1, 2, 3, 4, 5]}),
    IDLE,
    look=UNITS,
    needs_server=True,
)
def work_units_first_attempts(ground: Ground) -> None:
    """Everything failed before there was any position."""
    surveys(ground, "03-01")
    ground.responses(FIRST, ["a", "b", "c"])
    ground.tidegate("run", code=1)


@scenario(
    {"lake/responses": [1, 2, 3, 4, 5]},
    Step("the run goes on past the note of a dead one", on_to("04-01"), {"lake/responses": [1, 2, 3, 4, 5, 6, 7]}),
    IDLE,
    look=UNITS,
    needs_server=True,
)
def work_units_at_work(ground: Ground) -> None:
    """A run died after its commit: its note, no note of the winner, and the last days are read again."""
    surveys(ground, "03-01", {"grace_period_days": 3})
    ground.responses(FIRST)
    ground.kill("state.commit.after", "run")


# What only Spark can do

UPSERT = {"load_type": "merge_upsert", "merge_keys": ["id"]}
OVERWRITE = {"load_type": "merge_overwrite", "merge_keys": ["id"]}
BACK = {"watermark_columns": ["at"], "configure": {"backward": {"days": 2}}}
COLUMNS = [{"name": "id", "type": "int64"}, {"name": "at", "type": "timestamp"}, {"name": "note", "type": "string"}]
LOADS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "upsert": ({"type": "delta", "source_uri": "data/delta", **BACK}, UPSERT),
    "replaced": (
        {"type": "parquet", "source_uri": "data/parquet", **BACK},
        {**OVERWRITE, "replace_by_watermark": True},
    ),
    "versions": (
        {"type": "csv", "source_uri": "data/csv", "watermark_columns": ["at"]},
        {**UPSERT, "load_type": "scd2"},
    ),
    "appended": ({"type": "delta", "source_uri": "data/delta", "watermark_columns": ["id"]}, {"load_type": "append"}),
}


def _source_rows(ground: Ground, rows: Sequence[tuple[int, int, str]]) -> None:
    """The same rows as Delta table, Parquet file and CSV file: number, day and note."""
    import pyarrow.parquet as pq

    start = datetime(2026, 3, 1, tzinfo=UTC)
    found = [{"id": number, "at": start + timedelta(days=day), "note": note} for number, day, note in rows]
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("note", pa.string())])
    table = pa.Table.from_pylist(found, schema)
    write_deltalake(str(ground.root / "data/delta"), table, mode="overwrite")
    for name in ("parquet", "csv"):
        (ground.root / "data" / name).mkdir(parents=True, exist_ok=True)
    pq.write_table(table, ground.root / "data/parquet/rows.parquet")
    lines = [f"{each['id']},{each['at'].isoformat()},{each['note']}\n" for each in found]
    (ground.root / "data/csv/rows.csv").write_text("id,at,note\n" + "".join(lines))


def _load_again(ground: Ground) -> Any:
    _source_rows(ground, [(1, 1, "new"), (2, 2, "new"), (3, 8, "again"), (4, 4, "new"), (5, 9, "new")])
    return run(ground)


LOADED = {
    "lake/upsert": [1, 2, 3, 4],
    "lake/replaced": [1, 2, 3, 4],
    "lake/versions": [1, 2, 3, 3, 4],
    "lake/appended": [1, 2, 3, 4],
}
LOADED_AGAIN = {
    "lake/upsert": [1, 2, 3, 4, 5],
    "lake/replaced": [1, 2, 3, 4, 5],
    "lake/versions": [1, 2, 3, 3, 3, 4, 5],
    "lake/appended": [1, 2, 3, 4, 5],
}


@scenario(LOADED, Step("changed and new rows", _load_again, LOADED_AGAIN), look=ROWS, needs_spark=True)
def load_strategies(ground: Ground) -> None:
    """Rows by columns of Delta, Parquet and CSV, merged, replaced, kept as versions and appended; with look-back."""
    pipelines = {
        name: {"source": source, "schema": {"fields": COLUMNS}, "sink": {"table_uri": f"lake/{name}", **sink}}
        for name, (source, sink) in LOADS.items()
    }
    ground.configure(pipelines, spark={"master": "local[2]"})
    _source_rows(ground, [(1, 1, "new"), (2, 2, "new"), (3, 3, "new")])
    run(ground)
    _source_rows(ground, [(1, 1, "new"), (2, 2, "new"), (3, 4, "newer"), (4, 5, "new")])
    run(ground)


@scenario(
    {EVENTS: [1, 2, 3]},
    Step("a new file", arrives("c.ndjson", 4), {EVENTS: [1, 2, 3, 4]}),
    needs_spark=True,
)
def transformed_files(ground: Ground) -> None:
    """Files through a transform: Spark names the data files, which are noted beside the documents."""
    sql = "select id, event, id * 2 as twice from source"
    events(ground, transform={"sql": sql}, settings={"spark": {"master": "local[2]"}})
    ground.arrive("a.ndjson", [1, 2])
    run(ground)
    ground.arrive("b.ndjson", [3])
    with (ground.root / "data/b.ndjson").open("a") as file:
        file.write("no json\n")
    run(ground)


def _more_tickets(ground: Ground) -> Any:
    def change(data: dict[str, Any]) -> None:
        source = data["pipelines"]["tickets"]["source"]
        source["options"] = {"north": "1@01-05,2@02-05,5@03-05", "south": "3@01-06,4@02-06"}
        source["watermark"][0]["range"]["to"] = "2020-04-01"

    ground.adjust(change)
    return run(ground)


@scenario(
    {"lake/tickets": [1, 2]},
    Step("what failed, and what is new", _more_tickets, {"lake/tickets": [1, 2, 3, 4, 5]}),
    look=UNITS,
    needs_spark=True,
)
def function_units(ground: Ground) -> None:
    """Work units of a Python function; one branch failed."""
    body = {
        "source": {
            "type": "python",
            "function": "compat.functions:tickets",
            "options": {"north": "1@01-05,2@02-05"},
            "watermark": [
                {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "2020-03-01"}},
                {"name": "branch", "type": "unit", "units": "north,south"},
            ],
            "work_unit": {"partition": "monthly"},
            "time_column": "sold_at",
        },
        "sink": {"table_uri": "lake/tickets"},
    }
    ground.configure({"tickets": body}, spark={"master": "local[2]"})
    ground.tidegate("run", code=1)
