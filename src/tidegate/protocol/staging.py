"""Staged units: what writers leave below a table for its committer.

``{table_uri}/_staging/pending/`` has one meta per Parquet file and, per source, numbered units:

    pending/{uuid}.meta.json                                  one Parquet file (the format of seed 004, and more)
    pending/{pipeline}/{source}/{seq:020d}.unit.json          the signal: everything of one step of that source

A writer leaves the Parquet files first, their metas next and the unit last, by put-if-absent. ``seq`` is the position
of the source after the unit: one more than the greatest pending or committed one. A unit is a step of the source's
state with everything that the committer needs to repeat it: nobody has to list the source again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.core.json_shape import load_json
from tidegate.errors import ObjectMissing
from tidegate.protocol.change import Coverage, DataFile, Identity, SourceKey
from tidegate.protocol.documents import SCHEMA_VERSION, check_schema_version, encode

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectInfo, ObjectStore

STAGING = "_staging"
PENDING = f"{STAGING}/pending"
ARCHIVE = f"{STAGING}/archive"
REJECTED = f"{STAGING}/rejected"
META = ".meta.json"
UNIT = ".unit.json"


def pending_of(key: SourceKey) -> str:
    """The folder of the pending units of one source."""
    return f"{PENDING}/{key.pipeline}/{key.source}"


def unit_path(key: SourceKey, seq: int) -> str:
    return f"{pending_of(key)}/{seq:020d}{UNIT}"


def meta_path(filename: str) -> str:
    """The path of a Parquet file's meta, by its name without the directory."""
    return f"{PENDING}/{filename.rpartition('/')[2].removesuffix('.parquet')}{META}"


def seq_of(path: str) -> int | None:
    """The number of a unit by its path; None for anything else."""
    stem = path.rpartition("/")[2].removesuffix(UNIT)
    return int(stem) if path.endswith(UNIT) and len(stem) == 20 and stem.isascii() and stem.isdigit() else None


@dataclass(frozen=True, slots=True)
class StagedUnit:
    """One step of one source: the files it adds, their coverage, and the step itself.

    ``identity`` is that of the source, as for a position. ``step`` has the arguments of the step as JSON, as the
    writer's run knows them. ``schema_json`` are the columns of the data files in Delta's form, partition columns
    included. ``letter_files`` lie in the dead-letter table at ``letters_uri`` and have ``letters`` letters. ``base`` is
    the table version that the writer planned on, -1 without a table.
    """

    key: SourceKey
    seq: int
    attempt: str
    identity: Identity
    run: str
    written_at: str
    base: int
    step: Mapping[str, Any]
    coverage: tuple[Coverage, ...] = ()
    data_files: tuple[DataFile, ...] = ()
    rows: int = 0
    schema_json: str | None = None
    partition_columns: tuple[str, ...] = ()
    letter_files: tuple[DataFile, ...] = ()
    letters: int = 0
    letters_uri: str | None = None
    action: str = "run"

    def to_bytes(self) -> bytes:
        return encode(
            {
                "schema_version": SCHEMA_VERSION,
                "pipeline": self.key.pipeline,
                "source": self.key.source,
                "seq": self.seq,
                "attempt": self.attempt,
                "identity": self.identity.to_json(),
                "run": self.run,
                "written_at": self.written_at,
                "base": self.base,
                "step": dict(self.step),
                "coverage": [each.to_json() for each in self.coverage],
                "data_files": [each.to_json(stats=True) for each in self.data_files],
                "rows": self.rows,
                "schema": None if self.schema_json is None else load_json(self.schema_json),
                "partition_columns": list(self.partition_columns),
                "letter_files": [each.to_json(stats=True) for each in self.letter_files],
                "letters": self.letters,
                "letters_uri": self.letters_uri,
                "action": self.action,
            }
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> StagedUnit:
        """Decode a unit; ``ValueError``, ``KeyError`` or ``TypeError`` if it is none, ``StateError`` if it is newer."""
        data = load_json(content)
        if not isinstance(data, dict):
            raise ValueError("not a JSON object")
        key = SourceKey(str(data["pipeline"]), str(data["source"]))
        check_schema_version(data, f"unit {data.get('seq')} of {key}")
        schema = data["schema"]
        # Units always carry it, if only as null; an object without it is not one.
        if any("stats" not in file for file in (*data["data_files"], *data["letter_files"])):
            raise KeyError("stats")
        return cls(
            key=key,
            seq=int(data["seq"]),
            attempt=str(data["attempt"]),
            identity=Identity.from_json(data["identity"]),
            run=str(data["run"]),
            written_at=str(data["written_at"]),
            base=int(data["base"]),
            step=dict(data["step"]),
            coverage=tuple(map(Coverage.from_json, data["coverage"])),
            data_files=tuple(map(DataFile.from_json, data["data_files"])),
            rows=int(data["rows"]),
            schema_json=None if schema is None else json.dumps(schema),
            partition_columns=tuple(map(str, data["partition_columns"])),
            letter_files=tuple(map(DataFile.from_json, data["letter_files"])),
            letters=int(data["letters"]),
            letters_uri=None if data["letters_uri"] is None else str(data["letters_uri"]),
            action=str(data["action"]),
        )


@dataclass(frozen=True, slots=True)
class Meta:
    """A writer's note on one Parquet file: the five fields of seed 004, and ours if Tidegate wrote it.

    ``filename`` is the path below the table. A meta without ``pipeline`` comes from a foreign writer and is committed
    by itself; one with it belongs to a unit and is committed with that.
    """

    filename: str
    size: int
    record_count: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    source_file: str | None = None
    pipeline: str | None = None
    source: str | None = None
    attempt: str | None = None
    ranges: tuple[Coverage, ...] = ()
    stats: str | None = None
    schema_json: str | None = None

    @property
    def foreign(self) -> bool:
        """Whether the file belongs to no unit."""
        return self.pipeline is None

    def to_bytes(self) -> bytes:
        data: dict[str, Any] = {
            "filename": self.filename,
            "size": self.size,
            "record_count": self.record_count,
            "partition_values": dict(self.partition_values),
            "source_file": self.source_file,
        }
        if not self.foreign:
            data |= {
                "schema_version": SCHEMA_VERSION,
                "pipeline": self.pipeline,
                "source": self.source,
                "attempt": self.attempt,
                "ranges": [each.to_json() for each in self.ranges],
                "stats": None if self.stats is None else load_json(self.stats),
                "schema": None if self.schema_json is None else load_json(self.schema_json),
            }
        return encode(data)

    @classmethod
    def from_bytes(cls, content: bytes) -> Meta:
        """Decode a meta; raises as :meth:`StagedUnit.from_bytes` does. Unknown fields are ignored."""
        data = load_json(content)
        if not isinstance(data, dict):
            raise ValueError("not a JSON object")
        check_schema_version(data, f"the meta of {data.get('filename')}")
        filename, size, count = data["filename"], data["size"], data["record_count"]
        if not isinstance(filename, str) or not isinstance(size, int) or not isinstance(count, int):
            raise TypeError("filename must be text, size and record_count whole numbers")
        values = data.get("partition_values") or {}
        stats, schema = data.get("stats"), data.get("schema")
        return cls(
            filename=filename,
            size=size,
            record_count=count,
            partition_values={str(name): None if value is None else str(value) for name, value in values.items()},
            source_file=data.get("source_file"),
            pipeline=data.get("pipeline"),
            source=data.get("source"),
            attempt=data.get("attempt"),
            ranges=tuple(map(Coverage.from_json, data.get("ranges") or ())),
            stats=None if stats is None else json.dumps(stats),
            schema_json=None if schema is None else json.dumps(schema),
        )


T = TypeVar("T")

COMMITTER = SourceKey("_committer", "staging")
"""The key whose position a committer moves with every commit; no pipeline can have that name."""

COMMITTER_IDENTITY = Identity("committer", PENDING)


@dataclass(frozen=True, slots=True)
class Signal:
    """A waiting unit: its source, number and time."""

    key: SourceKey
    seq: int
    path: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Pending:
    """Units by source, ascending, metas by path with their time, and other paths."""

    units: Mapping[SourceKey, tuple[Signal, ...]] = field(default_factory=dict)
    metas: Mapping[str, datetime] = field(default_factory=dict)
    strays: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing for a committer."""
        return not (self.units or self.metas)


def list_pending(store: ObjectStore) -> Pending:
    """Everything that waits, by one listing."""
    units: dict[SourceKey, list[Signal]] = {}
    metas: dict[str, datetime] = {}
    strays: list[str] = []
    for info in store.list(PENDING):
        signal = _signal(info)
        if signal is not None:
            units.setdefault(signal.key, []).append(signal)
        elif info.path.endswith(META) and info.path.count("/") == PENDING.count("/") + 1:
            metas[info.path] = info.modified
        else:
            strays.append(info.path)
    by_name = sorted(units.items(), key=lambda item: str(item[0]))
    return Pending({key: _sort_by_number(found) for key, found in by_name}, dict(sorted(metas.items())), tuple(strays))


def signals_of(store: ObjectStore, key: SourceKey) -> tuple[Signal, ...]:
    """The waiting units of one source, ascending."""
    found = (_signal(info) for info in store.list(pending_of(key)))
    return _sort_by_number(each for each in found if each is not None and each.key == key)


def list_staged_files(store: ObjectStore) -> Iterator[str]:
    """The data files that wait for a commit: those of units, and those of metas without a unit.

    A meta whose unit never came protects nothing: its attempt is over, and its records are read again.
    """
    pending = list_pending(store)
    for signals in pending.units.values():
        for signal in signals:
            unit = _content(store, signal.path, StagedUnit.from_bytes)
            yield from (file.path for file in unit.data_files) if unit else ()
    for path in pending.metas:
        meta = _content(store, path, Meta.from_bytes)
        if meta is not None and meta.foreign:
            yield meta.filename


def _content(store: ObjectStore, path: str, parse: Callable[[bytes], T]) -> T | None:
    """The content of an object; None if it is gone or damaged."""
    try:
        return parse(store.get(path))
    except (ObjectMissing, ValueError, KeyError, TypeError, AttributeError):
        return None


def _signal(info: ObjectInfo) -> Signal | None:
    parts = info.path.removeprefix(f"{PENDING}/").split("/")
    seq = seq_of(info.path)
    if seq is None or len(parts) != 3:
        return None
    with contextlib.suppress(ValueError):
        return Signal(SourceKey(parts[0], parts[1]), seq, info.path, info.modified)
    return None


def _sort_by_number(signals: Iterable[Signal]) -> tuple[Signal, ...]:
    return tuple(sorted(signals, key=lambda signal: signal.seq))
