"""What is committed: the owner of a position and the paths of its objects; the next state; and one way to write rows.

A change is a value: it says what becomes visible and under which conditions, and a change that makes no sense cannot be
built. The protocol around it is the same for all: the document first, a fresh look at the position before, and only the
log says afterwards what happened. Nothing here knows Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tidegate.protocol.table import Add, CommitNote

if TYPE_CHECKING:
    import pyarrow as pa


ROOT = "_tidegate"


@dataclass(frozen=True, slots=True)
class SourceKey:
    """One source of one pipeline; all names are constant over its life.

    >>> SourceKey("events", "asia").app_id
    'tidegate/events/asia'
    """

    pipeline: str
    source: str

    def __post_init__(self) -> None:
        for role, name in (("pipeline", self.pipeline), ("source", self.source)):
            if not name or "/" in name or name.startswith(".") or not name.isprintable():
                raise ValueError(
                    f"{name!r} cannot be the name of a {role}: use printable characters other than '/', "
                    "and do not begin with '.'"
                )

    def __str__(self) -> str:
        return f"{self.pipeline}/{self.source}"

    @property
    def app_id(self) -> str:
        """The application id whose ``txn`` version is the position."""
        # Constant, never one id per commit or file: each distinct id stays in the table's checkpoints forever
        # (decision 0001).
        return f"tidegate/{self.pipeline}/{self.source}"

    @property
    def directory(self) -> str:
        """The folder of the documents, relative to the table."""
        return f"{ROOT}/{self.pipeline}/{self.source}"

    def document(self, version: int, attempt: str) -> str:
        """The document of one attempt to reach ``version``."""
        # Twenty digits, so that a listing is ascending and OPEN can begin it at the current position.
        return f"{self.directory}/{version:020d}-{attempt}.json"

    def won(self, version: int, attempt: str) -> str:
        """The note that this attempt is the one in the log."""
        return f"{self.directory}/{version:020d}-{attempt}.won"

    def file_list(self, version: int, attempt: str) -> str:
        """The data files of a commit by Spark, read from the log after it.

        Not beside the document: every OPEN lists those.
        """
        return f"{self.directory}/written/{version:020d}-{attempt}.files"

    @property
    def work(self) -> str:
        """The folder of work areas."""
        return f"{self.directory}/work"

    @property
    def ledger(self) -> str:
        """The folder of ledger blocks: what old documents said, 256 positions to a file."""
        return f"{self.directory}/ledger"

    @property
    def cold_start(self) -> str:
        """The state that a first, filtered plan fixed before there was a table."""
        return f"{self.directory}/cold_start.json"

    @property
    def at_work(self) -> str:
        """The note of a run at work on the source.

        Not below ``directory``: every OPEN lists that one, and everything there has tried to make a position.
        """
        return f"{ROOT}/{self.pipeline}/{self.source}.at-work.json"

    @property
    def attempts(self) -> str:
        """Failures before there was any position."""
        return f"{ROOT}/{self.pipeline}/{self.source}.attempts.json"

    @property
    def runs(self) -> str:
        """How the last runs ended."""
        return f"{ROOT}/{self.pipeline}/{self.source}.runs.json"

    @property
    def sent(self) -> str:
        """The messages that were sent about the source."""
        return f"{ROOT}/{self.pipeline}/{self.source}.sent.json"

    def segment(self, sha256: str) -> str:
        """A segment of the path set of a source.

        Not below ``directory``: every OPEN lists that one from the newest document on.
        """
        return f"{ROOT}/{self.pipeline}_{self.source}_set/{sha256}.parquet"

    @property
    def mirror(self) -> str:
        """The newest state, for people."""
        return f"{ROOT}/{self.pipeline}_{self.source}_checkpoint.json"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a position is a position *in*: it means nothing for another location or another set of names.

    ``notes`` are recorded beside it and may change, such as the hosts of a database.
    """

    kind: str
    source_uri: str
    pattern: str | None = None
    # Not compared: a database that moves to another host keeps its rows, and so its position.
    notes: Mapping[str, str] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, object]:
        data: dict[str, object] = {"kind": self.kind, "source_uri": self.source_uri, "pattern": self.pattern}
        return data | ({"notes": dict(self.notes)} if self.notes else {})

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Identity:
        """Decode the stored form; ``KeyError`` if something is missing."""
        pattern, notes = data["pattern"], data.get("notes")
        kept = {str(name): str(note) for name, note in notes.items()} if isinstance(notes, Mapping) else {}
        return cls(str(data["kind"]), str(data["source_uri"]), None if pattern is None else str(pattern), kept)

    def differences(self, recorded: Identity) -> tuple[str, ...]:
        """One phrase per field that differs from the recorded one."""
        pairs = (
            ("kind", recorded.kind, self.kind),
            ("source_uri", recorded.source_uri, self.source_uri),
            ("pattern", recorded.pattern, self.pattern),
        )
        return tuple(f"{name} was {old!r} and is now {new!r}" for name, old, new in pairs if old != new)


State = Mapping[str, Any]
"""A watermark state as JSON; opaque here."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A finished Parquet file below the table; ``path`` is the path on disk, relative to the table.

    ``stats`` is the Delta statistics JSON, or None if only the row count is known.
    """

    path: str
    size: int
    record_count: int
    partition_values: Mapping[str, str | None]
    stats: str | None = None

    def to_add(self, modified: datetime) -> Add:
        """The action that makes the file visible."""
        stats = self.stats if self.stats is not None else json.dumps({"numRecords": self.record_count})
        return Add(self.path, self.size, self.partition_values, int(modified.timestamp() * 1000), stats)

    def to_json(self, *, stats: bool = False) -> dict[str, object]:
        """The stored form; documents leave the statistics to the log."""
        data: dict[str, object] = {
            "path": self.path,
            "size": self.size,
            "record_count": self.record_count,
            "partition_values": dict(self.partition_values),
        }
        return data | ({"stats": None if self.stats is None else json.loads(self.stats)} if stats else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DataFile:
        values = {str(name): None if value is None else str(value) for name, value in data["partition_values"].items()}
        stats = data.get("stats")
        known = str(data["path"]), int(data["size"]), int(data["record_count"])
        return cls(*known, values, None if stats is None else json.dumps(stats))


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Records ``start <= n < end`` of one source file: a data file has its rows from there only."""

    file: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Records ``start <= n < end`` of one source file are in this commit; ``eof``: there are no more.

    ``rows`` of them became rows of the table, ``bad`` went to the dead-letter table, the rest are blank lines. A
    given-up file has one letter more than records: the letter stands for the file, from record ``end`` on.
    """

    file: str
    size: int
    etag: str | None
    start: int
    end: int
    eof: bool
    rows: int = 0
    bad: int = 0

    @property
    def given_up(self) -> bool:
        """Whether the file ends here because the rest of it was not read."""
        return self.bad > self.end - self.start

    def to_json(self) -> dict[str, object]:
        return {
            "file": self.file,
            "size": self.size,
            "etag": self.etag,
            "from": self.start,
            "to": self.end,
            "eof": self.eof,
            "rows": self.rows,
            "bad": self.bad,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Coverage:
        etag = data["etag"]
        return cls(
            str(data["file"]),
            int(data["size"]),
            None if etag is None else str(etag),
            int(data["from"]),
            int(data["to"]),
            bool(data["eof"]),
            # Documents of the first versions have neither number.
            int(data.get("rows", 0)),
            int(data.get("bad", 0)),
        )


@dataclass(frozen=True, slots=True)
class Written:
    """Columns as written, partition columns included, and the files that have them."""

    schema: pa.Schema
    partition_columns: tuple[str, ...]
    data_files: tuple[DataFile, ...] = ()


class Requirement(Enum):
    """What must be true of the table, in the snapshot that a commit builds on; ``table_checks`` checks it."""

    TABLE = "there is a table"
    PLAIN_APPEND = "the Delta library may append to it"
    REMOVABLE_ROWS = "the Delta library may remove rows from it"


class _WrittenFiles:
    """What writes of finished files have in common."""

    __slots__ = ()
    groups: tuple[Written, ...]

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        return tuple(file for group in self.groups for file in group.data_files)

    @property
    def rows(self) -> int:
        return sum(file.record_count for file in self.data_files)


@dataclass(frozen=True, slots=True)
class AppendFiles(_WrittenFiles):
    """Finished files become visible; ``groups`` has them by their columns."""

    # Staged batches of one commit may have been written with different columns; each group is checked by itself.
    groups: tuple[Written, ...]
    requires: ClassVar = (Requirement.PLAIN_APPEND,)

    def __post_init__(self) -> None:
        if not self.data_files:
            raise ValueError("AppendFiles without a data file: a change that writes nothing is NoRows")


@dataclass(frozen=True, slots=True)
class ReplaceRows:
    """Rows leave the table, and others take their place, in one commit.

    ``predicate`` is SQL over the table's columns; a row for which it is null stays. Without one, every row leaves, and
    the table gets the columns of ``schema``. ``read`` is called for every attempt with the table's current columns, or
    with ``schema`` if they are replaced, and returns the new rows in exactly these; each must meet the predicate.
    There are no data files: the library names those that it writes, and the log entry has them.
    """

    predicate: str | None
    read: Callable[[pa.Schema], pa.RecordBatchReader]
    schema: pa.Schema
    partition_columns: tuple[str, ...] = ()
    rows: int = 0
    data_files: ClassVar[tuple[DataFile, ...]] = ()
    requires: ClassVar = (Requirement.TABLE, Requirement.PLAIN_APPEND, Requirement.REMOVABLE_ROWS)

    def __post_init__(self) -> None:
        # An empty text is what a broken join of conditions gives; it must not be read as "every row".
        if self.predicate is not None and not self.predicate.strip():
            raise ValueError("ReplaceRows with an empty predicate: give None to replace every row")

    @property
    def groups(self) -> tuple[Written, ...]:
        return (Written(self.schema, self.partition_columns),)


@dataclass(frozen=True, slots=True)
class ReplaceFiles(_WrittenFiles):
    """Data files leave the table whole, and finished files, possibly none, take their place, in one commit.

    ``removed`` are paths relative to the table. Each must be visible in the snapshot that the commit builds on: whoever
    rewrote one has moved its rows, and they would stay.
    """

    removed: frozenset[str]
    groups: tuple[Written, ...]
    requires: ClassVar = (Requirement.TABLE, Requirement.PLAIN_APPEND, Requirement.REMOVABLE_ROWS)

    def __post_init__(self) -> None:
        if not self.removed:
            raise ValueError("ReplaceFiles without a file to remove: a change that only adds files is AppendFiles")


@dataclass(frozen=True, slots=True)
class RowChanges:
    """What a commit did to the rows of the table; None for a number that nobody counted.

    ``unchanged`` rows of the batch left the table as it was: it has them already, or newer ones, or another row of the
    batch has the same key.
    """

    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0
    unchanged: int | None = 0

    def __add__(self, other: RowChanges) -> RowChanges:
        return RowChanges(
            _add(self.inserted, other.inserted),
            _add(self.updated, other.updated),
            _add(self.deleted, other.deleted),
            _add(self.unchanged, other.unchanged),
        )

    def count_rest(self, rows: int | None) -> RowChanges:
        """Count as unchanged what is neither inserted nor updated of ``rows``; None: these were not counted."""
        written = _add(self.inserted, self.updated)
        if rows is None or written is None:
            return self
        # Never below zero: where the table has a key twice, one row of the batch updates both.
        return replace(self, unchanged=max(rows - written, 0))


NOT_COUNTED = RowChanges(None, None, None, None)


def _add(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


class RowCount(Enum):
    """Which number of rows counts after a write by Spark."""

    EXACT = "each gathered row becomes one of the table, so the log entry must have as many"
    LOGGED = "a transform adds and drops rows: the log entry has the number"
    GATHERED = "a merge rewrites more rows than it brings: the number that was gathered"


@dataclass(frozen=True, slots=True)
class SparkWrite:
    """Spark writes the ``rows`` gathered rows of ``frame``, and commits them itself.

    ``debts`` of the commit remove the work areas that have the rows.
    """

    frame: Frame
    schema: pa.Schema
    partition_columns: tuple[str, ...]
    rows: int
    counts: RowCount = RowCount.LOGGED
    debts: tuple[Mapping[str, Any], ...] = ()
    data_files: ClassVar[tuple[DataFile, ...]] = ()
    # None: OPEN has chosen the lane by the features of the table, and Spark itself refuses what it cannot write.
    requires: ClassVar[tuple[Requirement, ...]] = ()

    @property
    def groups(self) -> tuple[Written, ...]:
        return (Written(self.schema, self.partition_columns),)


@dataclass(frozen=True, slots=True)
class NoRows:
    """Only the state moves; ``groups`` has columns that the table gets, and is created with if there is none."""

    groups: tuple[Written, ...] = ()
    rows: ClassVar[int] = 0
    data_files: ClassVar[tuple[DataFile, ...]] = ()

    def __post_init__(self) -> None:
        if any(group.data_files for group in self.groups):
            raise ValueError("NoRows with data files: files that become visible are AppendFiles")

    @property
    def requires(self) -> tuple[Requirement, ...]:
        """Without any columns a table cannot be created."""
        return () if self.groups else (Requirement.TABLE,)


Write = AppendFiles | ReplaceRows | ReplaceFiles | SparkWrite | NoRows
"""What a change does to the rows of the table."""


def write_files(groups: Sequence[Written]) -> AppendFiles | NoRows:
    """The write of these files; of their columns alone if there is none."""
    return (AppendFiles if any(group.data_files for group in groups) else NoRows)(tuple(groups))


@dataclass(frozen=True, slots=True)
class NextState:
    """The state that becomes the position: ``complete`` goes into the document, ``embedded`` into the log.

    Every later reader of the log loads what is embedded, so a kind leaves out what it could do without, as the late
    window.
    """

    complete: State
    embedded: State

    @classmethod
    def of(cls, state: State) -> NextState:
        """A state small enough to be embedded as it is."""
        return cls(state, state)


@dataclass(frozen=True, slots=True)
class LetterFiles:
    """Files of the dead-letter table that the commit owes; ``opened``: letters they open minus those they answer."""

    files: tuple[DataFile, ...] = ()
    opened: int = 0

    def __add__(self, other: LetterFiles) -> LetterFiles:
        return LetterFiles((*self.files, *other.files), self.opened + other.opened)


@dataclass(frozen=True, slots=True)
class StagedStep:
    """What a committer needs to repeat the step of a staged run.

    ``step`` has its arguments as JSON, ``run`` names the run that made it, and ``ranges`` has, by data file, the
    coverage of its task.
    """

    run: str
    step: Mapping[str, Any]
    ranges: Mapping[str, tuple[Coverage, ...]]


class Precondition(Protocol):
    """A condition outside the table under which a change may be committed."""

    def check(self) -> None:
        """Raise ``RowsRefused`` if the change must not be written any more."""


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a source: its rows are written and its state becomes the position, together.

    ``coverage``, ``letters`` and ``action``, which is ``run`` or the command that made the change, are for the ledger.
    ``debts`` are further duties of the commit, each a mapping with a ``kind`` that a payer is registered for.
    ``preconditions`` are checked before each attempt to write, beside what the write itself requires of the table.
    """

    next: NextState
    write: Write = field(default_factory=NoRows)
    coverage: tuple[Coverage, ...] = ()
    letters: LetterFiles = field(default_factory=LetterFiles)
    debts: tuple[Mapping[str, Any], ...] = ()
    action: str = "run"
    staged: StagedStep | None = None
    preconditions: tuple[Precondition, ...] = ()

    def __post_init__(self) -> None:
        if self.staged is not None and not isinstance(self.write, AppendFiles | NoRows):
            raise ValueError("a staged change replaces rows or needs Spark: a committer can only append its files")
        if any("kind" not in debt for debt in self.debts):
            raise ValueError(f"a debt without a kind has no payer: {list(self.debts)}")


class Frame(Protocol):
    """Rows that wait to be written."""

    @property
    def offered(self) -> int | None:
        """How many rows were written or left out because the table has them; None if it does not compare them."""

    def write(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        """Append the rows, possibly none, in one Delta commit with ``note``.

        ``table`` has the columns of the table; None without a table, which is then created. With ``new_columns``
        missing ones are added in the same commit. An exception does not say whether the commit is durable;
        ``RowsRefused`` says that if it is not, another try would end the same way.
        """
