"""What is committed: the owner of a position and the paths of its objects; data files or replaced rows; the next state.

The protocol around it is the same for all: the document first, a fresh look at the position before, and only the log
says afterwards what happened. Nothing here knows Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

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
        return f"tidegate/{self.pipeline}/{self.source}"

    @property
    def directory(self) -> str:
        """The folder of the documents, relative to the table."""
        return f"{ROOT}/{self.pipeline}/{self.source}"

    def document(self, version: int, attempt: str) -> str:
        """The document of one attempt to reach ``version``."""
        return f"{self.directory}/{version:020d}-{attempt}.json"

    def won(self, version: int, attempt: str) -> str:
        """The note that this attempt is the one in the log."""
        return f"{self.directory}/{version:020d}-{attempt}.won"

    def written(self, version: int, attempt: str) -> str:
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
    notes: Mapping[str, str] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, object]:
        """As it is stored."""
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
        """Decode the stored form."""
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
        """The form in the document."""
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
        """Decode the stored form."""
        etag = data["etag"]
        return cls(
            str(data["file"]),
            int(data["size"]),
            None if etag is None else str(etag),
            int(data["from"]),
            int(data["to"]),
            bool(data["eof"]),
            int(data.get("rows", 0)),
            int(data.get("bad", 0)),
        )


@dataclass(frozen=True, slots=True)
class Replacement:
    """Rows that leave the table in this commit, and the rows that replace them.

    ``predicate`` is SQL over the table's columns; a row for which it is null stays. ``rows`` is called for every
    attempt with the table's current columns, and returns the new rows in exactly these; each of them must meet the
    predicate. With ``columns`` all rows leave and the table gets these columns, partition columns included.
    """

    predicate: str
    rows: Callable[[pa.Schema], pa.RecordBatchReader]
    columns: pa.Schema | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """Columns as written, partition columns included, and the files that have them."""

    schema: pa.Schema
    partition_columns: tuple[str, ...]
    data_files: tuple[DataFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a source: these files become visible and this state becomes the position, together.

    ``state`` is complete; ``embedded`` goes into the log (the state without its late window). ``schema`` has the
    columns as written, partition columns included; a change without data files may omit it, unless it has to create the
    table. ``debts`` are further duties of the commit, each a mapping with a ``kind`` that a payer is registered for.
    ``action`` is what made the change: ``run`` or a command. ``letters`` is the number of dead letters it opens minus
    those it answers. With a ``replacement`` there are no data files: the library names those that it writes, and the
    log entry has them. With a ``frame`` Spark writes the rows, and there are none either; the log entry has the number
    of rows, unless ``rows_known``: a merge writes more than it brings. ``written_rows`` is the number that the entry
    must have, if each gathered row becomes one of the table. If the files have different columns, ``groups`` maps them,
    and ``schema`` is ignored. ``step`` has the arguments of the state's step as JSON, if somebody else has to repeat
    it; ``run`` names the run that made it, and ``ranges`` has, by data file, the coverage of its task.
    """

    state: State
    embedded: State
    coverage: tuple[Coverage, ...] = ()
    data_files: tuple[DataFile, ...] = ()
    rows: int = 0
    schema: pa.Schema | None = None
    partition_columns: tuple[str, ...] = ()
    dead_letter_files: tuple[DataFile, ...] = ()
    debts: tuple[Mapping[str, Any], ...] = ()
    action: str = "run"
    letters: int = 0
    replacement: Replacement | None = None
    groups: tuple[Written, ...] = ()
    step: Mapping[str, Any] | None = None
    run: str = ""
    ranges: Mapping[str, tuple[Coverage, ...]] = field(default_factory=dict)
    frame: Frame | None = None
    rows_known: bool = False
    written_rows: int | None = None

    @property
    def written(self) -> tuple[Written, ...]:
        """The files by their columns; nothing if no columns are known."""
        if self.groups or self.schema is None:
            return self.groups
        return (Written(self.schema, self.partition_columns, self.data_files),)


class Frame(Protocol):
    """Rows that wait to be written."""

    def write(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        """Append the rows, possibly none, in one Delta commit with ``note``.

        ``table`` has the columns of the table; None without a table, which is then created. With ``new_columns``
        missing ones are added in the same commit. An exception does not say whether the commit is durable;
        ``RowsRefused`` says that if it is not, another try would end the same way.
        """
