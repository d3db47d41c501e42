"""Staging: what writers leave below a table for its committer, and where.

``{table_uri}/_staging/pending/`` holds one meta per Parquet file and, per source, numbered units:

    pending/{uuid}.meta.json                                  one Parquet file (the format of seed 004, and more)
    pending/{pipeline}/{source}/{seq:020d}.unit.json          the signal: everything of one step of that source

A writer leaves the Parquet files first, their metas next and the unit last, by put-if-absent. ``seq`` is the position
that the unit makes of the source: one more than the greatest of what is pending and what is committed. A unit is a
step of the source's state with everything that the committer needs to repeat it: nobody has to list the source again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.state.documents import SCHEMA_VERSION, check_schema_version, encoded
from tidegate.state.files import Coverage, DataFile
from tidegate.state.identity import Identity, SourceKey

STAGING = "_staging"
PENDING = f"{STAGING}/pending"
ARCHIVE = f"{STAGING}/archive"
REJECTED = f"{STAGING}/rejected"
META = ".meta.json"
UNIT = ".unit.json"


def pending_of(key: SourceKey) -> str:
    """Where the units of one source wait."""
    return f"{PENDING}/{key.pipeline}/{key.source}"


def unit_path(key: SourceKey, seq: int) -> str:
    """The signal of one unit."""
    return f"{pending_of(key)}/{seq:020d}{UNIT}"


def meta_path(filename: str) -> str:
    """The meta of one Parquet file, by the name of the file without its directory."""
    return f"{PENDING}/{filename.rpartition('/')[2].removesuffix('.parquet')}{META}"


def seq_of(path: str) -> int | None:
    """The number of a unit by its path; None for anything else."""
    stem = path.rpartition("/")[2].removesuffix(UNIT)
    return int(stem) if path.endswith(UNIT) and len(stem) == 20 and stem.isascii() and stem.isdigit() else None


@dataclass(frozen=True, slots=True)
class StagedUnit:
    """One step of one source: which files it adds, what they cover, and the step itself.

    ``identity`` is that of the source as for a position. ``step`` has the arguments of the step as JSON, as the
    writer's run knows them. ``schema_json`` are the columns of the data files in Delta's form, partition columns
    included. ``letter_files`` lie in the dead-letter table at ``letters_uri``; ``letters`` is how many they hold.
    ``base`` is the table version that the writer planned on, -1 without a table.
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
        """The signal's content."""
        return encoded(
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
                "data_files": [_file_json(each) for each in self.data_files],
                "rows": self.rows,
                "schema": None if self.schema_json is None else json.loads(self.schema_json),
                "partition_columns": list(self.partition_columns),
                "letter_files": [_file_json(each) for each in self.letter_files],
                "letters": self.letters,
                "letters_uri": self.letters_uri,
                "action": self.action,
            }
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> StagedUnit:
        """The content read back; ``ValueError``, ``KeyError`` or ``TypeError`` when it is not a unit, ``StateError``
        when a newer Tidegate wrote it.
        """
        data = json.loads(content)
        if not isinstance(data, dict):
            raise ValueError("not a JSON object")
        key = SourceKey(str(data["pipeline"]), str(data["source"]))
        check_schema_version(data, f"unit {data.get('seq')} of {key}")
        schema = data["schema"]
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
            data_files=tuple(map(_file, data["data_files"])),
            rows=int(data["rows"]),
            schema_json=None if schema is None else json.dumps(schema),
            partition_columns=tuple(map(str, data["partition_columns"])),
            letter_files=tuple(map(_file, data["letter_files"])),
            letters=int(data["letters"]),
            letters_uri=None if data["letters_uri"] is None else str(data["letters_uri"]),
            action=str(data["action"]),
        )


@dataclass(frozen=True, slots=True)
class Meta:
    """What is said about one Parquet file: the five fields of seed 004, and ours where a Tidegate wrote it.

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
        """Whether no unit will name the file."""
        return self.pipeline is None

    def to_bytes(self) -> bytes:
        """The meta's content."""
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
                "stats": None if self.stats is None else json.loads(self.stats),
                "schema": None if self.schema_json is None else json.loads(self.schema_json),
            }
        return encoded(data)

    @classmethod
    def from_bytes(cls, content: bytes) -> Meta:
        """The content read back; raises as :meth:`StagedUnit.from_bytes` does. Unknown fields are left alone."""
        data = json.loads(content)
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


def _file_json(file: DataFile) -> dict[str, object]:
    """A data file with its statistics, which a document leaves to the log."""
    return {**file.to_json(), "stats": None if file.stats is None else json.loads(file.stats)}


def _file(data: Mapping[str, Any]) -> DataFile:
    stats = data["stats"]
    values = {str(name): None if value is None else str(value) for name, value in data["partition_values"].items()}
    return DataFile(
        str(data["path"]),
        int(data["size"]),
        int(data["record_count"]),
        values,
        None if stats is None else json.dumps(stats),
    )
