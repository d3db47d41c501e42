"""Chooses what of the pending folder goes into one commit: staged units, checked and repeated on top of their states,
then foreign files.

The first units of all sources come before the second ones, so that a source with a long queue does not delay the
others. A commit takes whole units, up to a number of files. Foreign files have no position, so the path prevents a
second commit: that of visible files, and of those committed last.

Metas of foreign writers have five fields and no columns, so their footers describe the files, as for adopted ones. A
wrong statistic hides rows, so bounds of floats are left out: a footer does not show a NaN.

The columns of a unit count for those after it, so that two units which fit the table and not each other are found. The
commit itself checks again, against the snapshot that it builds on.

A unit that cannot be taken is rejected and the others continue. If its covered files are known, they become unfinished
again, so that no watermark passes them and the next plan reads them. If they are unknown, nothing after it is taken:
units planned on top of it could pass files that nobody knows of. The table version of their plan identifies them, and
their writer plans again from what is committed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import ObjectChanged, ObjectMissing, StateError, TableError, TidegateError
from tidegate.parquet.statistics import delta_statistics, float_columns
from tidegate.protocol.change import Change, DataFile, LetterFiles, NextState, SourceKey, Written, write_files
from tidegate.protocol.commit import Member, measure
from tidegate.protocol.position import Position
from tidegate.protocol.staging import Meta, Pending, Signal, StagedUnit, meta_path
from tidegate.protocol.table import TableFacts, TableProtocol, arrow_schema, schema_json
from tidegate.protocol.table_checks import columns_to_add
from tidegate.reports.wording import count
from tidegate.runs.file_source import FileSource, SourceState
from tidegate.runs.file_walk import letter_debts, list_coverage
from tidegate.runs.staged import after_step, without_step
from tidegate.schema.types import simplify_field
from tidegate.specs.table import Evolution
from tidegate.storage.port import ObjectStore, SeekableInput
from tidegate.tasks.read_task import outcome_from_json

FOOTERS_AT_ONCE = 16
READ_AT_ONCE = 64
# Not every foreign writer renames when done: on a local disk a meta is visible while it is being written.
SETTLED_AFTER = timedelta(minutes=1)
"""An unreadable object younger than this may still be growing."""


@dataclass(frozen=True, slots=True)
class ParquetFooter:
    """A Parquet file as its footer describes it; ``columns`` are those in the file, without partition columns."""

    file: DataFile
    columns: pa.Schema


def check_path(path: str) -> None:
    """``StateError`` unless ``path`` can be a data file of the table."""
    *folders, name = path.split("/")
    # Folders of logs, state and staged files begin with an underscore, whoever wrote them; so may a partition column.
    is_hidden = any(part.startswith("_") and "=" not in part for part in folders[:1]) or name.startswith((".", "_"))
    is_outside = "://" in path or any(part in ("", ".", "..") for part in folders)
    wrong = is_hidden or is_outside or not name.endswith(".parquet")
    if wrong:
        raise StateError(f"{path!r} is not the path of a Parquet file below the table", "name it relative to the table")


def examine(
    store: ObjectStore, path: str, values: Mapping[str, str | None], size: int, rows: int | None
) -> ParquetFooter:
    """The file at ``path``, by its footer; ``StateError`` if it is not the described one."""
    check_path(path)
    try:
        found = store.head(path)
    except ObjectMissing as error:
        raise StateError(f"there is no Parquet file {path}", "write it before its meta") from error
    if found.size != size:
        raise StateError(f"{path} has {found.size} bytes, and its meta says {size}", "write the meta last")
    try:
        with pq.ParquetFile(SeekableInput(store, path)) as parquet:
            footer, columns = parquet.metadata, parquet.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise StateError(f"{path} is not a readable Parquet file ({error})", "write it again") from error
    if rows is not None and footer.num_rows != rows:
        raise StateError(f"{path} has {count(footer.num_rows, 'row')}, and its meta says {rows}", "write the meta last")
    columns = pa.schema([simplify_field(field) for field in columns])
    # Readers skip files by these bounds; one that ignores a NaN would hide rows.
    stats = delta_statistics(footer, columns, frozenset(float_columns(columns)))
    # Delta reads an empty text as null in every type.
    given = {name: value or None for name, value in values.items()}
    return ParquetFooter(DataFile(path, size, footer.num_rows, given, stats), columns)


def fit_columns(examined: ParquetFooter, table: pa.Schema, keys: tuple[str, ...]) -> pa.Schema:
    """The columns of the file fitted to the table, with its partition columns after them.

    A required column of the table must have no null in the file: its footer must show that, or it does not fit.
    """
    present = [name for name in keys if name in examined.columns.names]
    if present:
        raise StateError(
            f"{examined.file.path} contains the partition column {present[0]!r}", "leave it out of the file"
        )
    _check_values(examined.file, table, keys)
    required = {field.name for field in table if not field.nullable}
    columns = [
        field.with_nullable(False) if field.name in required and _has_no_null(examined.file, field.name) else field
        for field in examined.columns
    ]
    known = {field.name: field for field in table}
    return pa.schema([*columns, *(known[name] for name in keys)])


def _has_no_null(file: DataFile, column: str) -> bool:
    counts = json.loads(file.stats or "{}").get("nullCount", {})
    return bool(counts.get(column) == 0)


def _check_values(file: DataFile, table: pa.Schema, keys: tuple[str, ...]) -> None:
    if set(file.partition_values) != set(keys):
        raise StateError(
            f"{file.path} has values for {sorted(file.partition_values)}, and the table is partitioned by {list(keys)}",
            "give every partition column its value",
        )
    for name in keys:
        field, value = table.field(name), file.partition_values[name]
        if value is None and not field.nullable:
            raise StateError(f"{file.path}: partition column {name!r} is required and has no value", "give it one")
        if value is not None and not _is_value(field.type, value):
            raise StateError(
                f"{file.path}: {value!r} is not a valid {field.type} for partition column {name!r}", "correct it"
            )


def _is_value(kind: pa.DataType, text: str) -> bool:
    """Whether ``text`` is a value of that type in the form of the Delta protocol."""
    parse = next((parse for fits, parse in _PARSERS if fits(kind)), None)
    try:
        if parse is not None:
            parse(text)
    except (ValueError, ArithmeticError):
        return False
    return parse is not None


def _boolean(text: str) -> None:
    if text not in ("true", "false"):
        raise ValueError(text)


_PARSERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[str], Any]], ...] = (
    (pa.types.is_string, str),
    (pa.types.is_large_string, str),
    (pa.types.is_integer, int),
    (pa.types.is_date, date.fromisoformat),
    (pa.types.is_timestamp, datetime.fromisoformat),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_decimal, Decimal),
    (pa.types.is_floating, float),
)


class TableColumns:
    """The columns of a table after everything that was added; none yet without a table."""

    def __init__(self, opened: Position) -> None:
        self._facts = (
            None if opened.schema_json is None else _facts(opened.schema_json, tuple(opened.partition_columns))
        )
        self._fitting: set[tuple[str, tuple[str, ...], Evolution]] = set()

    @property
    def known(self) -> bool:
        """Whether there is a table, or something that will create one."""
        return self._facts is not None

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns of the table, or of the one to be created."""
        return () if self._facts is None else self._facts.partition_columns

    def schema(self) -> pa.Schema | None:
        """The future columns."""
        return None if self._facts is None else arrow_schema(self._facts.schema_json)

    def add(self, unit: StagedUnit, mode: Evolution) -> None:
        """Add the columns of a unit; ``SchemaMismatch`` if its files do not fit."""
        if unit.schema_json is None or not (unit.data_files or self._facts is None):
            return
        seen = (unit.schema_json, unit.partition_columns, mode)
        if seen not in self._fitting:
            self.add_files(arrow_schema(unit.schema_json), unit.partition_columns, unit.data_files[:1], mode)
            self._fitting.add(seen)

    def add_files(self, schema: pa.Schema, keys: tuple[str, ...], files: Sequence[DataFile], mode: Evolution) -> None:
        """The same for files with these columns."""
        if self._facts is None:
            self._facts = _facts(schema_json(schema), keys)
        written = Written(schema, keys, tuple(files))
        fields = {field.name: field for field in columns_to_add(self._facts, write_files([written]), mode)}
        if fields:
            table = arrow_schema(self._facts.schema_json)
            kept = [fields.pop(field.name, field) for field in table]
            self._facts = replace(self._facts, schema_json=schema_json(pa.schema([*kept, *fields.values()])))
            self._fitting.clear()


def _facts(schema: str, keys: tuple[str, ...]) -> TableFacts:
    return TableFacts(-1, "", TableProtocol(1, 2), schema, keys)


_READ_AGAIN = "the next run reads its files again"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Something that will not be committed, and why."""

    path: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """The form in a debt."""
        return {"path": self.path, "reason": self.reason}


class _Unknown(Exception):
    """The coverage of a unit is unknown, or it was planned on something that does not exist."""


class SourceSteps:
    """One source: its opened position, and the position after its units.

    ``since`` is the first table version that a writer may have planned on. With ``replan`` everything planned before
    this commit is invalid. Without ``open`` this commit takes nothing more of it.
    """

    def __init__(self, bound: FileSource, opened: Position, since: int) -> None:
        self.bound, self.opened, self.since = bound, opened, since
        self.seq = opened.version
        self.taken: list[StagedUnit] = []
        self.rejected: list[Rejection] = []
        self.open = True
        self.replan = False
        self._state: SourceState = bound.state_of(opened)

    @property
    def moved(self) -> bool:
        """Whether there is anything to commit."""
        return self.seq > self.opened.version

    @property
    def rows(self) -> int:
        """Rows of the taken units."""
        return sum(unit.rows for unit in self.taken)

    def list_waiting(self, signals: Sequence[Signal]) -> tuple[Signal, ...]:
        """The source's units that follow its position without a gap."""
        ahead = [signal for signal in signals if signal.seq > self.opened.version]
        return tuple(signal for number, signal in enumerate(ahead, self.opened.version + 1) if signal.seq == number)

    def read(self, signal: Signal, content: bytes) -> StagedUnit | None:
        """The next unit of the source; None if it is rejected at sight, and then nothing after it is taken.

        ``StateError`` for a unit of a newer Tidegate, which is left for a newer committer.
        """
        try:
            return self._understood(signal, content)
        except _Unknown as unknown:
            self._reject(signal, f"{unknown}; everything planned on top of it is planned again")
            self._plan_again()
            return None

    def take(self, signal: Signal, unit: StagedUnit, columns: TableColumns, damage: str | None = None) -> None:
        """Take a unit, or reject it; ``damage`` is what is wrong with its files."""
        try:
            self._repeat(unit, columns, damage)
        except (StateError, TableError, ObjectMissing) as error:
            self._refuse(signal, unit, str(error))
        self.seq = signal.seq

    def _understood(self, signal: Signal, content: bytes) -> StagedUnit:
        try:
            unit = StagedUnit.from_bytes(content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _Unknown(f"the unit cannot be read ({error!r})") from error
        if (unit.key, unit.seq) != (signal.key, signal.seq):
            raise _Unknown(f"the unit says that it is number {unit.seq} of {unit.key}")
        if changes := self.bound.positions.site.identity.differences(unit.identity):
            raise _Unknown(f"the unit belongs to another source than this configuration's: {'; '.join(changes)}")
        # A replay, a reset or a direct run moved the source meanwhile: the unit may cover what that has read.
        if unit.base < self.since:
            raise _Unknown(
                f"the unit was planned at table version {unit.base}, but something else moved the source at "
                f"{self.since}"
            )
        return unit

    def _repeat(self, unit: StagedUnit, columns: TableColumns, damage: str | None) -> None:
        if damage:
            raise StateError(damage, _READ_AGAIN)
        self._check_files(unit)
        _check_coverage(unit)
        step = after_step(self.bound.tracker, self._state, unit.step)
        columns.add(unit, self.bound.pipeline.schema.evolution)
        self._state = self.bound.tracker.write_state(step)
        self.taken.append(unit)

    def _check_files(self, unit: StagedUnit) -> None:
        for file in unit.data_files:
            check_path(file.path)
        if unit.data_files and unit.schema_json is None:
            raise StateError("the unit has files and does not say which columns they have", _READ_AGAIN)
        if unit.rows != sum(file.record_count for file in unit.data_files):
            raise StateError(f"the unit says {count(unit.rows, 'row')}, but its files have another number", _READ_AGAIN)
        letters = self.bound.tracker.letters
        if unit.letter_files and unit.letters_uri != letters.uri:
            raise StateError(
                f"its dead letters are in {unit.letters_uri}, but this configuration has {letters.uri}",
                f"{_READ_AGAIN}; keep error_handling.dlq_path as it is while units wait",
            )
        letters.check(unit.letter_files)

    def _refuse(self, signal: Signal, unit: StagedUnit, reason: str) -> None:
        """Reject the unit; its files are unfinished again, if they are known."""
        try:
            state = without_step(self.bound.tracker, self._state, unit.step)
        except StateError:
            state = None
        self._reject(signal, reason)
        if state is None:
            self._plan_again()
        else:
            self._state = state

    def _plan_again(self) -> None:
        self.open, self.replan = False, True

    def _reject(self, signal: Signal, reason: str) -> None:
        self.rejected.append(Rejection(signal.path, reason))
        self.seq = signal.seq

    def member(self) -> Member:
        """The source's part of the commit."""
        tracker = self.bound.tracker
        state = tracker.encode(self._state)
        letters = sum((LetterFiles(unit.letter_files, unit.letters) for unit in self.taken), LetterFiles())
        change = Change(
            NextState(state, self.bound.abridge(state)),
            write_files(group_by_columns(self.taken)),
            coverage=tuple(each for unit in self.taken for each in unit.coverage),
            letters=letters,
            debts=letter_debts(letters, self.bound, self.opened),
        )
        # Each unit was checked by its own rules already; and the committer's own position writes the checkpoints.
        site = replace(self.bound.positions.site, evolution=Evolution.MERGE, checkpoint_every=0)
        return Member(site, self.opened, change, self.seq - self.opened.version)


def group_by_columns(units: Iterable[StagedUnit]) -> tuple[Written, ...]:
    """The data files of units by their columns."""
    found: dict[tuple[str, tuple[str, ...]], list[Any]] = {}
    for unit in units:
        if unit.schema_json is not None:
            found.setdefault((unit.schema_json, unit.partition_columns), []).extend(unit.data_files)
    return tuple(Written(arrow_schema(schema), keys, tuple(files)) for (schema, keys), files in found.items())


def _check_coverage(unit: StagedUnit) -> None:
    """Check that the coverage for the ledger is that of the step."""
    try:
        outcomes = [outcome_from_json(each) for each in unit.step["outcomes"]]
    except (KeyError, TypeError) as error:
        raise StateError(f"its step cannot be read ({error!r})", _READ_AGAIN) from error
    if unit.coverage != list_coverage(outcomes):
        raise StateError("the unit covers other files than its step", _READ_AGAIN)


def since_version(opened: Position, recorded: Mapping[str, Sequence[int]]) -> int:
    """The first table version that units of a source may have been planned on.

    A committer remembers up to which position it moved the source; if something else moved it since, everything planned
    before that is invalid.
    """
    version, since = recorded.get(str(opened.key), (0, -1))
    return since if version == opened.version else max(opened.committed_at, opened.delta_version)


@dataclass(slots=True)
class ForeignFiles:
    """Files to commit by their columns, and the fate of each meta."""

    files: list[tuple[DataFile, pa.Schema]] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        """The files that become visible."""
        return tuple(file for file, _ in self.files)

    def group_files(self, keys: tuple[str, ...]) -> tuple[Written, ...]:
        """The same by columns."""
        groups: list[tuple[pa.Schema, list[DataFile]]] = []
        for file, schema in self.files:
            for known, files in groups:
                if known.equals(schema):
                    files.append(file)
                    break
            else:
                groups.append((schema, [file]))
        return tuple(Written(schema, keys, tuple(files)) for schema, files in groups)

    def add(
        self,
        store: ObjectStore,
        metas: Mapping[str, Meta],
        visible: frozenset[str],
        columns: TableColumns,
        mode: Evolution,
    ) -> None:
        """Take every meta whose file exists, fits, and is not ``visible`` yet."""
        new: dict[str, tuple[str, Meta]] = {}
        for path, meta in metas.items():
            if meta.filename in visible or meta.filename in new:
                self.duplicates.append(path)
            else:
                new[meta.filename] = (path, meta)
        found = examine_all(store, [meta for _, meta in new.values()])
        for (path, _), examined in zip(new.values(), found, strict=True):
            try:
                if isinstance(examined, StateError):
                    raise examined
                schema = schema_in(examined, columns, mode)
            except (StateError, TableError) as error:
                self.rejected.append(Rejection(path, str(error)))
                continue
            self.files.append((examined.file, schema))
            self.taken.append(path)


def schema_in(examined: ParquetFooter, columns: TableColumns, mode: Evolution) -> pa.Schema:
    """The columns of a file in a table with ``columns``, which then include them. Raises if they do not fit."""
    table = columns.schema()
    assert table is not None
    schema = fit_columns(examined, table, columns.partition_columns)
    columns.add_files(schema, columns.partition_columns, [examined.file], mode)
    return schema


def examine_all(store: ObjectStore, metas: Sequence[Meta]) -> list[ParquetFooter | StateError]:
    """The footers of the files, or what is wrong with each; reads several at once."""

    def look(meta: Meta) -> ParquetFooter | StateError:
        try:
            return examine(store, meta.filename, meta.partition_values, meta.size, meta.record_count)
        except StateError as error:
            return error

    with ThreadPoolExecutor(FOOTERS_AT_ONCE, "footer") as pool:
        return list(pool.map(look, metas))


def metas_of(unit: StagedUnit) -> tuple[str, ...]:
    """The metas of a unit."""
    return tuple(meta_path(file.path) for file in unit.data_files)


@dataclass(slots=True)
class PendingBatch:
    """Fills the steps of one commit; ``careful`` checks every data file before it is taken.

    ``paths`` are the data files of this commit and of the one before it: none of them is committed twice.
    """

    store: ObjectStore
    folds: Mapping[SourceKey, SourceSteps]
    columns: TableColumns
    max_files: int
    careful: bool = False
    files: int = 0
    full: bool = False
    paths: set[str] = field(default_factory=set)
    metas_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    errors: dict[SourceKey, TidegateError] = field(default_factory=dict)

    def units(self, pending: Pending) -> None:
        """Take the units that follow the position of their source, as many as fit."""
        queue = self._queue(pending)
        for signal, (_, content) in zip(queue, self.read([each.path for each in queue]), strict=False):
            fold = self.folds[signal.key]
            if not fold.open:
                continue
            # Another committer has taken it; what follows waits for the next look.
            if content is None:
                fold.open = False
                continue
            try:
                unit = fold.read(signal, content)
            except StateError as error:
                self.errors[signal.key] = error
                fold.open = False
                continue
            if unit is not None and not self._take(fold, signal, unit):
                self.full = True
                return

    def _queue(self, pending: Pending) -> list[Signal]:
        waiting = [
            (signal.seq - fold.opened.version, str(key), signal)
            for key, fold in self.folds.items()
            for signal in fold.list_waiting(pending.units.get(key, ()))
        ]
        # First units of all sources first: one with a long queue must not starve the others.
        return [signal for *_, signal in sorted(waiting, key=lambda item: item[:2])]

    def _take(self, fold: SourceSteps, signal: Signal, unit: StagedUnit) -> bool:
        """Take a unit; False if there is no room left. One that is too large for any commit goes alone."""
        weight = len(unit.data_files) or 1
        if self.files and self.files + weight > self.max_files:
            return False
        self.metas_of[signal.path] = metas_of(unit)
        fold.take(signal, unit, self.columns, self._damage(fold, unit))
        self.paths.update(file.path for file in unit.data_files)
        self.files += weight
        return True

    def _damage(self, fold: SourceSteps, unit: StagedUnit) -> str | None:
        again = next((file.path for file in unit.data_files if file.path in self.paths), None)
        if again is not None:
            return f"data file {again} belongs to another unit"
        try:
            measure(fold.bound.positions.site, unit.data_files if self.careful else ())
        except (ObjectMissing, ObjectChanged) as error:
            return error.problem
        return None

    def read(self, paths: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
        """Each path with its content, None if it is gone; reads a few ahead, several at once."""

        def content(path: str) -> bytes | None:
            try:
                return self.store.get(path)
            except ObjectMissing:
                return None

        with ThreadPoolExecutor(max(1, self.store.concurrency), "staged") as pool:
            for begin in range(0, len(paths), READ_AT_ONCE):
                some = paths[begin : begin + READ_AT_ONCE]
                yield from zip(some, pool.map(content, some), strict=True)

    def foreign(self, metas: Mapping[str, datetime], known: set[str], now: datetime) -> ForeignMetas:
        """The metas without a unit, as many as fit; those of units are added to ``known``."""
        named = {meta for found in self.metas_of.values() for meta in found}
        paths = [path for path in metas if path not in named and path not in known]
        found = ForeignMetas()
        for path, content in self.read(paths):
            if len(found.metas) >= self.max_files - self.files:
                break
            try:
                meta = None if content is None else Meta.from_bytes(content)
            except StateError:
                known.add(path)
                continue
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                # Absolute: the store's clock may be ahead of ours.
                if abs(now - metas[path]) > SETTLED_AFTER:
                    found.unreadable.append(Rejection(path, f"the meta cannot be read ({error!r})"))
                else:
                    found.growing.append(path)
                continue
            if meta is not None and meta.foreign:
                found.metas[path] = meta
            elif meta is not None:
                known.add(path)
        return found


@dataclass(slots=True)
class ForeignMetas:
    """Metas without a unit, by path, unreadable ones, and those that may still be growing."""

    metas: dict[str, Meta] = field(default_factory=dict)
    unreadable: list[Rejection] = field(default_factory=list)
    growing: list[str] = field(default_factory=list)
