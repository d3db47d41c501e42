"""A lake under a test's feet: its sources, its configuration, its tables, and the commands given to it."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import json
import os
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from compat.product import Outcome, command, kill
from servers.api import Answer, Api, Asked

FIELDS = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "ts", "type": "timestamp"},
    {"name": "event", "type": "string"},
]
PATHS = ("status", "plan", "watermark show", "watermark history", "files", "dlq list", "doctor", "reconcile", "recover")
ROWS = ("status", "plan", "watermark show", "watermark history", "doctor", "recover")
UNITS = (*ROWS, "units list")
_ALL_PIPELINES = ("status", "plan", "doctor", "reconcile")
_MACHINE = ("python", "packages", "json reader", "java", "delta jars", "disk space", "jars", "spark", "configuration")
_NOW = r"2026-(?:0[6-9]|1\d)-\d\d|202[7-9]-\d\d-\d\d|20[3-9]\d-\d\d-\d\d"
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<sha256>"),
    (re.compile(r"\b[0-9a-f]{2,16}-[0-9a-f]{14,16}-[0-9a-f]+\b"), "<etag>"),
    (re.compile(rf"(?:{_NOW})(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "<id>"),
    (re.compile(r"\b\d+ (?:days?|h|min|s)\b(?: ago)?"), "<span>"),
)
_RUN_ID = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")
_VOLATILE = frozenset(
    {"seconds", "lag_seconds", "pending_seconds", "update_ts", "last_update_ts", "process", "beat", "modificationTime"}
    | {
        "timestamp",
        "createdTime",
        "lastUpdated",
        "execution_time_ms",
        "operationMetrics",
        "clientVersion",
        "engineInfo",
    }
    | {"age_seconds", "oldest", "delta_log_size", "spark", "stats", "snapshot_load_secs", "tick_ms"}
)


@dataclass
class Ground:
    """One lake in ``root``; ``api`` answers for it, where it needs a server."""

    root: Path
    api: Api | None = None
    spark: bool = False
    acts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        if self.api is not None:
            os.environ["COMPAT_API"] = self.api.url
            for unit in "abc":
                self.api.routes[f"/surveys/{unit}/responses"] = self._answer

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.root / "tidegate.yml"

    def configure(self, pipelines: Mapping[str, Any], **more: Any) -> None:
        """Write the configuration."""
        self.config.write_text(json.dumps({"pipelines": pipelines, **more}, indent=1))

    def adjust(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change something in the configuration that is there."""
        data = json.loads(self.config.read_text())
        change(data)
        self.config.write_text(json.dumps(data, indent=1))

    def arrive(self, path: str, ids: Iterable[int], **extra: object) -> None:
        """A file with one good record per id."""
        self.write(path, "".join(json.dumps(_record(number) | extra) + "\n" for number in ids))

    def write(self, path: str, text: str | bytes) -> None:
        """Any file of a source, compressed if its name says so."""
        content = text.encode() if isinstance(text, str) else text
        target = self.root / "data" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(
            gzip.compress(content, mtime=0) if isinstance(text, str) and path.endswith(".gz") else content
        )

    def rows(self, *numbers: int, name: str = "rows", days: Mapping[int, int] | None = None, **notes: str) -> None:
        """A column source: a Parquet file that has one row per number."""
        self.write_rows(
            [_row(each, (days or {}).get(each, each), notes.get(f"n{each}", "new")) for each in numbers], name
        )

    def write_rows(self, rows: list[dict[str, Any]], name: str = "rows") -> None:
        """The same with rows as they are given."""
        kinds = [("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("note", pa.string())]
        target = self.root / "data" / f"{name}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(kinds)), target)

    def responses(self, records: Mapping[str, list[tuple[int, str]]], broken: Iterable[str] = ()) -> None:
        """What the server has: by unit, ids and days of 2020; a broken unit or ``unit@day`` is refused."""
        found = {
            unit: [{"id": number, "at": f"2020-{day}T00:00:00Z"} for number, day in rows]
            for unit, rows in records.items()
        }
        (self.root / "server.json").write_text(json.dumps({"records": found, "broken": sorted(broken)}))

    def _answer(self, asked: Asked) -> Answer:
        told = json.loads((self.root / "server.json").read_text())
        unit, since, until = asked.path.split("/")[2], asked.params["since"], asked.params["until"]
        if unit in told["broken"] or f"{unit}@{since[5:10]}" in told["broken"]:
            return Answer({"error": "no"}, status=400)
        if unit not in told["records"]:
            return Answer({"error": "unknown"}, status=404)
        return Answer({"data": [each for each in told["records"][unit] if since <= each["at"] < until]})

    def command(self, words: str, *options: str) -> Outcome:
        """One command on this lake."""
        return command(*words.split(), self.config, *options, "--json", spark=self.spark)

    def tidegate(self, words: str, *options: str, code: int = 0) -> Any:
        """One command that must end with ``code``; what it prints."""
        outcome = self.command(words, *options)
        assert outcome.code == code, f"{words} {options}: {outcome.code}\n{outcome.out}\n{outcome.err}"
        return outcome.data

    def kill(self, failpoint: str, words: str, *options: str) -> None:
        """One command in a process that dies at the failpoint."""
        kill(f"{failpoint}=kill" if "=" not in failpoint else failpoint, *words.split(), self.config, *options)

    def look(self, commands: Iterable[str]) -> dict[str, Any]:
        """What look-only commands print, without what differs from one machine or moment to the next."""
        found: dict[str, Any] = {}
        for words in commands:
            named = () if words in _ALL_PIPELINES else tuple(json.loads(self.config.read_text())["pipelines"])
            for pipeline in named or ("",):
                outcome = self.command(words, *(("-p", pipeline) if pipeline else ()))
                printed = self.masked(outcome.data) if outcome.out else self.masked(outcome.err)
                if words == "doctor":
                    printed = [each for each in printed["checks"] if each["name"] not in _MACHINE]
                found[f"{words} {pipeline}".strip()] = {"code": outcome.code, "printed": printed}
        return found

    def table(self, name: str) -> pa.Table:
        """A Delta table below the lake, as it is now."""
        return DeltaTable(str(self.root / name)).to_pyarrow_table()

    def ids(self, name: str) -> list[int]:
        """Every id in a table, sorted, repeats included."""
        if not (self.root / name / "_delta_log").exists():
            return []
        return sorted(self.table(name)["id"].to_pylist())

    def checksum(self, name: str) -> str:
        """All rows of a table as one hash, whatever their order; without the columns that tell when they were read."""
        if not (self.root / name / "_delta_log").exists():
            return "no table"
        rows = self.table(name).to_pylist()
        texts = sorted(self.masked(json.dumps(each, sort_keys=True, default=str)) for each in rows)
        return f"{len(texts)} rows, {hashlib.sha256(chr(10).join(texts).encode()).hexdigest()[:16]}"

    def tables(self) -> list[str]:
        """Where the tables lie."""
        found = (self.root / "lake").rglob("_delta_log")
        return sorted(str(path.parent.relative_to(self.root)) for path in found)

    def masked(self, value: Any) -> Any:
        """``value`` without places, ids and moments of this lake."""
        if isinstance(value, Mapping):
            return {
                self.masked(key): "<…>" if key in _VOLATILE and each not in (None, 0, "") else self.masked(each)
                for key, each in value.items()
                # Newer than the fixtures; work units count their runs, and staged units have had an id of their own.
                if key != "run" or not (isinstance(each, str) and _RUN_ID.fullmatch(each))
            }
        if isinstance(value, list | tuple):
            return [self.masked(each) for each in value]
        return self._masked_text(value) if isinstance(value, str) else value

    def _masked_text(self, text: str) -> str:
        text = text.replace(str(self.root), "<root>")
        if self.api is not None:
            text = text.replace(self.api.url, "<api>").replace(f"127.0.0.1:{self.api.port}", "<api>")
        for pattern, word in _MASKS:
            text = pattern.sub(word, text)
        return text

    def documents(self) -> dict[str, Any]:
        """Every JSON document of tables, state and staging by its masked path, masked; log entries by their actions.

        Of very many positions, those from 50 to 519 are left out.
        """
        found: dict[str, list[Any]] = {}
        for path in sorted(self.root.glob("state/*.db")):
            found[str(path.relative_to(self.root))] = [self.masked(_database(path))]
        for path in sorted((*self.root.rglob("ledger/*.parquet"), *self.root.rglob("*_set/*.parquet"))):
            name = self._masked_text(str(path.relative_to(self.root)))
            found.setdefault(name, []).append(self.masked(_columns(path)))
        for folder in ("lake", "state"):
            for path in sorted((self.root / folder).rglob("*")):
                # How runs ended is recorded since then, and only tells.
                if path.name.endswith(".runs.json"):
                    continue
                if path.is_file() and path.suffix in (".json", ".won", ".files", ".lock"):
                    name = self._masked_text(str(path.relative_to(self.root)))
                    if re.fullmatch(r"0{17}(?!0[0-4]\d|5[23]\d)\d{3}\D.*", path.name):
                        continue
                    with contextlib.suppress(UnicodeDecodeError):
                        found.setdefault(name, []).append(self._document(path))
        return {name: each[0] if len(each) == 1 else sorted(each, key=str) for name, each in sorted(found.items())}

    def _document(self, path: Path) -> Any:
        text = path.read_text()
        if "_staging/rejected" in str(path) and not text.endswith("}"):
            return "<damaged>"
        if path.parent.name != "_delta_log":
            return _shape(self.masked(json.loads(text)) if text else text)
        return _shape([self.masked(_entry(json.loads(line))) for line in text.splitlines()])


def _database(path: Path) -> dict[str, Any]:
    """The rows of every table of an SQLite database, by column."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        return {name: [dict(row) for row in connection.execute(f"select * from {name}")] for name in sorted(names)}


def _columns(path: Path) -> dict[str, Any]:
    """The columns of a Parquet file of ours, and what it says about itself."""
    schema = pq.read_schema(path)
    told = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    told = {key: "<…>" if key == "mark" else value for key, value in told.items() if key != "ARROW:schema"}
    return {"columns": {each.name: str(each.type) for each in schema}, "metadata": told}


def _entry(action: dict[str, Any]) -> dict[str, Any]:
    """One action of the log, as far as it is ours: the commit's own tag and the transactions."""
    if "commitInfo" in action:
        tag = json.loads(action["commitInfo"].get("userMetadata") or "{}")
        for mark in tag.get("tidegate", ()):
            if "state_zlib" in mark:
                mark["state_zlib"] = json.loads(zlib.decompress(base64.b64decode(mark["state_zlib"])))
        return {"commitInfo": tag}
    return action if "txn" in action else {next(iter(action)): "<…>"}


def _shape(value: Any) -> Any:
    """A document without the sizes of Parquet files, which differ with the library that writes them."""
    if isinstance(value, dict):
        parquet = "record_count" in value or "count" in value
        return {key: "<size>" if key == "size" and parquet else _shape(each) for key, each in value.items()}
    return [_shape(each) for each in value] if isinstance(value, list) else value


def _record(number: int) -> dict[str, object]:
    return {"id": number, "ts": "2026-01-28T12:00:00Z", "event": "view"}


def _row(number: int, day: int, note: str) -> dict[str, Any]:
    from datetime import UTC, datetime, timedelta

    return {"id": number, "at": datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day), "note": note}
