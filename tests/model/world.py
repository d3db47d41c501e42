"""The model's world: one table's storage in memory, with faults, and what must hold at every instant."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import ClassVar
from urllib.parse import unquote

import pyarrow as pa

from model.explorer import Actor, Run, Violation
from support.changes import appended, moved
from tidegate.errors import CommitLost, ObjectExists, ObjectMissing, OutcomeUnknown, StorageUnavailable, TidegateError
from tidegate.protocol import documents
from tidegate.protocol.change import Change, DataFile, Identity, ReplaceRows, SourceKey, SparkWrite
from tidegate.protocol.commit import Member, commit, commit_together
from tidegate.protocol.log import DIRECTORY, parse_entry
from tidegate.protocol.memory import MemoryDelta, decode, encode
from tidegate.protocol.open import open_position
from tidegate.protocol.position import Pace, Position, TableContext
from tidegate.protocol.table import CommitNote, Snapshot, log_path
from tidegate.specs.locations import Location
from tidegate.storage.port import ObjectInfo, Requests

NOW = datetime(2026, 1, 28, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64())])
LOG = f"{DIRECTORY}/"
OURS = "data/"
FOREIGN = "foreign/"
NEVER_WRITTEN = ("_blizzard", "cold_start.json")
"""Nobody writes these in the model, so that when they are looked for makes no difference."""


entry_of = lru_cache(maxsize=100_000)(parse_entry)
actions_of = lru_cache(maxsize=100_000)(decode)


class Crash(BaseException):
    """The process dies here."""


@dataclass(slots=True)
class World:
    """Everything that outlives a process."""

    objects: dict[str, bytes] = field(default_factory=dict)
    late: list[tuple[str, bytes]] = field(default_factory=list)
    committed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def fingerprint(self) -> Hashable:
        return hash(frozenset(self.objects.items())), tuple(self.late)

    def add(self, path: str, data: bytes) -> None:
        """Put-if-absent, and the look at the table that follows every log entry."""
        if path in self.objects:
            raise ObjectExists(path)
        self.objects[path] = data
        if path.startswith(LOG):
            self.check()

    def deliver_late(self) -> None:
        """A request that was given up arrives after all."""
        path, data = self.late.pop(0)
        if path not in self.objects:
            self.add(path, data)

    def log(self) -> list[bytes]:
        return [self.objects[path] for path in sorted(self.objects) if path.startswith(LOG)]

    def rows(self) -> Counter[str]:
        """Every visible record, with how often it is there."""
        active: set[str] = set()
        for entry in self.log():
            for action in actions_of(entry):
                if "add" in action:
                    active.add(unquote(action["add"]["path"]))
                elif "remove" in action:
                    active.discard(unquote(action["remove"]["path"]))
        return Counter(record for path in active for record in json.loads(self.objects[path]))

    def check(self) -> None:
        """What must hold after each log entry, for each source that the log knows."""
        positions: dict[str, int] = {}
        newest: dict[SourceKey, tuple[int, documents.Stored | None, str, int]] = {}
        for number, content in enumerate(self.log()):
            entry = entry_of(number, content)
            for app, version in entry.transactions.items():
                if version != positions.get(app, 0) + 1:
                    raise Violation(f"{app} went from {positions.get(app, 0)} to {version}")
                positions[app] = version
            for mark in entry.tags:
                stored = self._document(mark.key, mark.version, mark.attempt)
                newest[mark.key] = (mark.version, stored, mark.sha256, mark.state()["next"])
        rows = self.rows()
        for key, (version, stored, sha256, following) in newest.items():
            if stored is None or stored.sha256 != sha256 or stored.document is None:
                raise Violation(f"the document of {key} at {version} is not readable")
            expected = {f"{key.source}:{number}" for number in range(following)}
            found = {record: times for record, times in rows.items() if record.startswith(f"{key.source}:")}
            if found != dict.fromkeys(expected, 1):
                raise Violation(f"position {version} of {key} covers {sorted(expected)}, the table has {found}")

    def _document(self, key: SourceKey, version: int, attempt: str) -> documents.Stored | None:
        content = self.objects.get(key.document(version, attempt))
        if content is None:
            return None
        return _stored(attempt, content)

    def check_claims(self) -> None:
        """What commits said about themselves is what the log says."""
        marks = {mark.attempt for number, content in enumerate(self.log()) for mark in entry_of(number, content).tags}
        for attempt in self.committed:
            if attempt not in marks:
                raise Violation(f"attempt {attempt} was reported as committed and is not in the log")
        for attempt in self.lost:
            if attempt in marks:
                raise Violation(f"attempt {attempt} was reported as lost and is in the log")


@lru_cache(maxsize=100_000)
def _stored(attempt: str, content: bytes) -> documents.Stored:
    return documents.Stored(attempt, documents.digest(content), documents.Document.from_bytes(content))


class ModelStore:
    """One process's view of the storage: where order matters it asks the run, and where things break it
    breaks.
    """

    def __init__(self, world: World, run: Run | None, actor: Actor) -> None:
        self.location = Location("memory://model/table")
        self.requests = Requests()
        self._world, self._run, self._actor = world, run, actor

    def _step(self, operation: str, path: str, faults: tuple[str, ...] = ()) -> str:
        """The run decides who goes next and how this operation ends."""
        if self._run is None:
            return "ok"
        self._run.turn(self._actor)
        options = ["ok"]
        if self._run.budgets.get("crashes", 0) > 0:
            options.append("crash")
        if self._run.budgets.get("faults", 0) > 0:
            options.extend(faults)
        if self._world.late:
            options.append("deliver")
        how = options[self._run.pick(self._actor, (operation, path), len(options))]
        self._actor.observe(operation, path, how)
        if how == "crash":
            self._run.budgets["crashes"] -= 1
            raise Crash
        if how == "deliver":
            self._world.deliver_late()
            return "ok"
        if how != "ok":
            self._run.budgets["faults"] -= 1
        if how == "unreadable":
            raise StorageUnavailable(f"{path} is unreadable", "")
        return how

    def exists(self) -> bool:
        return True

    def list(self, prefix: str = "", after: str | None = None) -> Iterator[ObjectInfo]:
        if prefix not in NEVER_WRITTEN:
            self._step("list", prefix, ("unreadable",) if prefix == DIRECTORY else ())
        inside = f"{prefix}/" if prefix else ""
        found = sorted(
            path for path in self._world.objects if path.startswith(inside) and (after is None or path > after)
        )
        self._actor.observe(*found)
        return iter([self._info(path) for path in found])

    def _info(self, path: str) -> ObjectInfo:
        return ObjectInfo(path, len(self._world.objects[path]), None, NOW)

    def head(self, path: str) -> ObjectInfo:
        if path not in self._world.objects:
            raise ObjectMissing(path)
        return self._info(path)

    def get(self, path: str) -> bytes:
        """What is there never changes, apart from mirrors; so only looking for what is missing can be too
        early.
        """
        if path not in self._world.objects and not path.endswith(NEVER_WRITTEN):
            self._step("get", path, ("unreadable",) if path.startswith(LOG) else ())
        content = self._world.objects.get(path)
        self._actor.observe(path, content)
        if content is None:
            raise ObjectMissing(path)
        return content

    def put(self, path: str, data: bytes) -> None:
        if not path.startswith(OURS) and path not in self._world.objects:
            self._step("put", path)
        self._world.objects[path] = data

    def put_if_absent(self, path: str, data: bytes) -> None:
        how = self._step("create", path, ("lost", "dropped", "late"))
        try:
            if how == "late":
                self._world.late.append((path, data))
            elif how != "dropped":
                self._world.add(path, data)
        except ObjectExists:
            self._actor.observe("exists")
            raise
        if how != "ok":
            raise StorageUnavailable(f"no answer for {path}", "")


class ModelDelta(MemoryDelta):
    """The twin with rows: a data file of the model is a list of records, so some of them can be replaced."""

    def replace(self, base: Snapshot, predicate: str, rows: pa.RecordBatchReader, note: CommitNote) -> None:
        """Replace the records of source ``predicate``; as in Delta, any entry since ``base`` is in the way."""
        old = {path: json.loads(self._store.get(path)) for path in sorted(base.active_paths())}
        gone = {path: records for path, records in old.items() if any(_is_of(predicate, each) for each in records)}
        kept = [record for records in gone.values() for record in records if not _is_of(predicate, record)]
        new = [f"{predicate}:{number}" for number in rows.read_all().column("id").to_pylist()]
        content = json.dumps([*kept, *new]).encode()
        path = f"{OURS}replaced-{abs(hash((note.user_metadata, base.facts.version)))}.parquet"
        self._store.put(path, content)
        info = {"commitInfo": {"operation": "WRITE", "userMetadata": note.user_metadata}}
        removed = [{"remove": {"path": log_path(each), "dataChange": True}} for each in gone]
        txns = [{"txn": {"appId": app, "version": number}} for app, number in note.transactions.items()]
        self._follow(base, [info, *removed, {"add": {"path": path, "size": len(content), "dataChange": True}}, *txns])


def _is_of(source: str, record: str) -> bool:
    return record.startswith(f"{source}:")


@dataclass(frozen=True, slots=True)
class ModelFrame:
    """Rows that the model's Spark writes: it takes a snapshot of its own, later than that of the commit."""

    at: TableContext
    file: DataFile

    offered: ClassVar[int | None] = None

    def write(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        """Append the file; as Delta does, skip a transaction that the table has already seen."""
        snapshot, add = self.at.delta.snapshot(), self.file.to_add(NOW)
        if snapshot is None:
            self.at.delta.create(SCHEMA, (), [add], note)
        elif all((snapshot.transaction_version(app) or 0) < number for app, number in note.transactions.items()):
            self.at.delta.append(snapshot, [add], note)


def site(world: World, run: Run | None, actor: Actor, source: str = "s", *, guarded: bool = True) -> TableContext:
    """A site of the model; time stands still except for pauses, so that a commit gives up after a few."""
    store = ModelStore(world, run, actor)
    clock = [0.0]
    attempts = iter(range(1, 1000))

    def pause(seconds: float) -> None:
        clock[0] += 30.0
        actor.observe("pause")

    by = actor.name if source == "s" else f"{actor.name}{source}"
    return TableContext(
        key=SourceKey("p", source),
        identity=Identity("path", "memory://source", None),
        store=store,  # type: ignore[arg-type]  # the part of the port that the protocol uses
        delta=ModelDelta(store, guarded=guarded, new_id=lambda: f"of-{actor.name}"),  # type: ignore[arg-type]  # same
        pace=Pace(90.0, lambda: NOW, lambda: clock[0], pause, lambda: 0.5),
        checkpoint_every=0,
        attempts=lambda: f"{by}.{next(attempts)}",
    )


def ingest(world: World, at: TableContext, records: int, batch: int = 1, how: str = "append") -> None:
    """A run of the source: open, read the next ``batch`` records, commit, until all are in."""
    opened = open_position(at)
    while True:
        start = 0 if opened.state is None else int(opened.state["next"])
        if start >= records:
            return
        change = _change(at, opened, start, min(start + batch, records), how)
        try:
            opened = commit(at, opened, change)
        except CommitLost:
            world.lost.append(_latest(world, at))
            opened = open_position(at)
        except (OutcomeUnknown, StorageUnavailable):
            opened = open_position(at)
        else:
            assert opened.parent is not None
            world.committed.append(opened.parent.attempt)


def ingest_together(world: World, sites: Sequence[TableContext], records: int, batch: int = 1) -> None:
    """A run of several sources, each of whose commits moves all that have something left."""
    while True:
        found = [(at, open_position(at)) for at in sites]
        starts = [0 if opened.state is None else int(opened.state["next"]) for _, opened in found]
        members = [
            Member(at, opened, _following(at, start, min(start + batch, records)))
            for (at, opened), start in zip(found, starts, strict=True)
            if start < records
        ]
        if not members:
            return
        try:
            after = commit_together(members)
        except CommitLost:
            world.lost.append(_latest(world, members[0].site))
        except (OutcomeUnknown, StorageUnavailable):
            continue
        else:
            world.committed.extend(opened.parent.attempt for opened in after if opened.parent is not None)


def _change(at: TableContext, opened: Position, start: int, end: int, how: str) -> Change:
    """The next step of a source, written in one of the ways in which a change can write.

    ``no rows`` moves the state alone before each append; ``replace`` writes all records so far in place of the old.
    """
    following = _following(at, start, end)
    state = following.next
    match how:
        case "append":
            return following
        case "spark":
            (file,) = following.write.data_files
            return Change(state, SparkWrite(ModelFrame(at, file), SCHEMA, (), 1))
        case "replace" if opened.table_version >= 0:
            rows = pa.table({"id": list(range(end))}, schema=SCHEMA)
            return Change(state, ReplaceRows(at.key.source, lambda columns: rows.to_reader(), SCHEMA, rows=end))
        case "no rows" if (opened.state or {}).get("looked") != start:
            return moved({"next": start, "looked": start}, SCHEMA)
        case _:
            return following


def _following(at: TableContext, start: int, end: int) -> Change:
    """The next records of a source in a data file."""
    content = json.dumps([f"{at.key.source}:{number}" for number in range(start, end)]).encode()
    path = f"{OURS}{at.attempts()}.parquet"
    at.store.put(path, content)
    state = {"next": end, "looked": start}
    return appended(state, [DataFile(path, len(content), 1, {})], SCHEMA)


def _latest(world: World, at: TableContext) -> str:
    """The attempt of the newest document that this process wrote."""
    name = at.attempts().rpartition(".")
    return f"{name[0]}.{int(name[2]) - 1}"


@dataclass(frozen=True, slots=True)
class Scene:
    """Who takes part. Writer ``n`` takes ``n + 1`` records per commit, so that rivals want different things.

    A writer of ``s+t`` moves both sources in one commit; ``how`` says by number how a writer writes, if it does not
    append files.
    """

    records: int = 2
    sources: tuple[str, ...] = ("s", "s")
    how: tuple[str, ...] = ("append",)
    operations: tuple[str, ...] = ()
    guarded: bool = True

    def __call__(self, run: Run) -> Callable[[], None]:
        """Set the scene; gives the judge of its end."""
        world = World()
        run.shared = world.fingerprint
        run.actors = [self._writer(world, run, number, source) for number, source in enumerate(self.sources)]
        if self.operations:
            run.actors.append(foreign(world, run, "f", self.operations))
        return lambda: self._judge(world)

    def _writer(self, world: World, run: Run, number: int, source: str) -> Actor:
        how = self.how[number % len(self.how)]
        return writer(world, run, f"w{number}", source, self.records, number + 1, how, guarded=self.guarded)

    def _judge(self, world: World) -> None:
        """After all that happened, one quiet run must find everything in order and finish it."""
        while world.late:
            world.deliver_late()
        sources = {source for names in self.sources for source in names.split("+")}
        for source in sorted(sources):
            quiet = Actor(f"quiet-{source}", lambda actor: None)
            try:
                ingest(world, site(world, None, quiet, source), self.records)
            except TidegateError as error:
                raise Violation(f"the run after all others stopped: {error}") from error
        world.check()
        world.check_claims()
        expected = Counter(f"{source}:{number}" for source in sources for number in range(self.records))
        ours = Counter({record: times for record, times in world.rows().items() if record != "foreign"})
        if ours != expected:
            raise Violation(f"the table holds {dict(ours)}")


def writer(
    world: World, run: Run, name: str, source: str, records: int, batch: int, how: str, *, guarded: bool = True
) -> Actor:
    """An actor that runs the real protocol; a stop that nothing justifies is a violation."""

    def body(actor: Actor) -> None:
        try:
            sites = [site(world, run, actor, name, guarded=guarded) for name in source.split("+")]
            if len(sites) == 1:
                ingest(world, sites[0], records, batch, how)
            else:
                ingest_together(world, sites, records, batch)
        except Crash:
            actor.observe("crashed")
        except StorageUnavailable:
            actor.observe("gave up")
        except TidegateError as error:
            raise Violation(f"{actor.name} stopped without a reason: {type(error).__name__}: {error}") from error

    return Actor(name, body)


def foreign(world: World, run: Run, name: str, operations: tuple[str, ...]) -> Actor:
    """Another program that writes to the table: appends, compacts, adds a column, deletes its own rows."""

    def body(actor: Actor) -> None:
        for number, operation in enumerate(operations):
            run.turn(actor)
            log = world.log()
            if log:
                actions = _foreign_actions(world, operation, f"{FOREIGN}{actor.name}{number}")
                world.add(f"{LOG}{len(log):020d}.json", encode([{"commitInfo": {"operation": operation}}, *actions]))
            actor.observe(operation, len(log))

    return Actor(name, body)


def _foreign_actions(world: World, operation: str, path: str) -> list[dict[str, object]]:
    actions = [action for entry in world.log() for action in actions_of(entry)]
    removed = {unquote(action["remove"]["path"]) for action in actions if "remove" in action}
    active = {unquote(action["add"]["path"]) for action in actions if "add" in action} - removed
    match operation:
        case "append":
            world.objects[path] = json.dumps(["foreign"]).encode()
            return [{"add": {"path": path, "dataChange": True}}]
        case "optimize":
            rows = [record for old in sorted(active) for record in json.loads(world.objects[old])]
            world.objects[path] = json.dumps(rows).encode()
            gone = [{"remove": {"path": old, "dataChange": False}} for old in sorted(active)]
            return [*gone, {"add": {"path": path, "dataChange": False}}]
        case "add column":
            metadata = [action["metaData"] for action in actions if "metaData" in action][-1]
            schema = json.loads(metadata["schemaString"])
            schema["fields"].append({"name": path.replace("/", "_"), "type": "long", "nullable": True, "metadata": {}})
            return [{"metaData": {**metadata, "schemaString": json.dumps(schema)}}]
        case "delete":
            own = [old for old in sorted(active) if set(json.loads(world.objects[old])) == {"foreign"}]
            return [{"remove": {"path": old, "dataChange": True}} for old in own]
        case _:
            raise ValueError(operation)
