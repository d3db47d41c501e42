"""Takes over the position that Blizzard left in a table, so that the next run reads exactly what is new.

A checkpoint lies in ``_blizzard/{pipeline}_{source}_checkpoint.json``, or in a transaction id ``blizzard:<base64>``
that was committed with its rows; ``penguin-<table>`` only shows that the committer was here. Checkpoints have the
fields of our state in several older forms: a watermark as a string or an object, with or without an entry per
partition, or only the last finished file; paths may be full URIs.

If the newest checkpoint is damaged, ``adopt`` takes the one before it in the log and reports what is read again. If
there is no other, that is an error, never a fresh start. The first position is an empty commit of the ordinary
protocol. ``adopt`` refuses while Blizzard is active: what it reads or commits later would be doubled or lost.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate.core.files.paths import SourceFile, sort_key, split
from tidegate.core.files.state import FileProgress, Finished, PathState, decode_paths, encode_paths
from tidegate.core.json_shape import is_newer, load_json
from tidegate.errors import ObjectMissing, StateError, TidegateError
from tidegate.migrate.foreign import BLIZZARD, WRITER
from tidegate.protocol.change import SourceKey
from tidegate.protocol.log import (
    Contents,
    DeltaLog,
    checkpoint_actions,
    contents,
    entry_path,
    find_unreferenced,
    is_second_mirror,
    newest_checkpoint,
)
from tidegate.protocol.open import Accept
from tidegate.protocol.position import Position, utc_now
from tidegate.protocol.table import Snapshot
from tidegate.reports.checks import Adoption, Check
from tidegate.reports.wording import count
from tidegate.runs.file_source import FileSource, plan_files, watermarks_of
from tidegate.runs.tracker import Clock
from tidegate.sources.file_discovery import discover

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectInfo, ObjectStore


class Damaged(StateError):
    """A checkpoint of the old program cannot be read."""


def _damage_error(found: str, problem: object) -> Damaged:
    return Damaged(
        f"{found} is not a readable checkpoint ({problem})",
        "let the old program write it again, or restore it from a backup; Tidegate does not treat it as a fresh start",
    )


@dataclass(frozen=True, slots=True)
class OlderState:
    """A state of the old program, and the name of its form."""

    state: PathState
    form: str


@dataclass(frozen=True, slots=True)
class AdoptedState:
    """The state to continue from, and the files to report.

    ``left_out`` count as read without an entry: the old program never returned to them. ``resumed`` are in progress at
    or below a watermark, where it would have skipped the rest. ``gone`` are in progress but missing from the source.
    ``gaps`` are unread and lie below a file that it had begun or finished.
    """

    state: PathState
    left_out: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


def paths_in(data: Mapping[str, Any]) -> list[str]:
    watermark, kept = data.get("watermark"), data.get("source_state")
    value = watermark.get("value") if isinstance(watermark, Mapping) else watermark
    last, files = (kept.get("last_committed_file"), kept.get("files")) if isinstance(kept, Mapping) else (None, None)
    return [*(path for path in (value, last) if isinstance(path, str)), *(files if isinstance(files, Mapping) else ())]


def is_absolute(path: str) -> bool:
    """Whether a path is a URI or starts at the root."""
    return "://" in path or path.startswith("/")


def is_about(path: str, bases: Sequence[str]) -> bool:
    """Whether a path is relative, or lies below one of ``bases``."""
    return not is_absolute(path) or any(path.startswith(f"{base}/") for base in bases)


def read_older(data: Mapping[str, Any], bases: Sequence[str], found: str = "the old checkpoint") -> OlderState:
    """Decode an older checkpoint of the source at ``bases``, spellings of one place; ``found`` names the checkpoint.

    ``StateError`` for a path of another place or a newer form, ``Damaged`` for anything else it cannot decode.
    """
    paths = paths_in(data)
    # A checkpoint of another place would pass over everything here that sorts below its watermark.
    foreign = next((path for path in paths if not is_about(path, bases)), None)
    if foreign is not None:
        raise StateError(
            f"the old checkpoint is about another place: it names {foreign}, and this source reads {bases[0]}",
            "set source_uri to the place that the old program read, or choose another source",
        )
    base = next((base for base in bases if any(path.startswith(f"{base}/") for path in paths)), bases[0])
    try:
        return OlderState(decode_paths(data, source_uri=base), _form(data))
    except StateError as error:
        if is_newer(data):
            raise
        raise _damage_error(found, error.problem) from error


def _form(data: Mapping[str, Any]) -> str:
    if not data:
        return "empty: nothing was read yet"
    watermark = data.get("watermark")
    if data.get("partition_watermarks"):
        return "a watermark per partition"
    if isinstance(watermark, str):
        return "one watermark for everything, as a string"
    if isinstance(watermark, Mapping):
        return "one watermark for everything, with its state"
    return "the last finished file, and the files in progress"


def carry_over(older: PathState, listed: Sequence[SourceFile], *, read_skipped: bool = False) -> AdoptedState:
    """Convert an older state, given all files at the source.

    Files at or below the old watermark in partitions without an entry count as read: nobody knows whether they were,
    and reading them could double their rows. ``read_skipped`` leaves them unread. Files in progress get their current
    size and etag.
    """
    state, at_source = _unseal(older, listed), {file.path: file for file in listed}
    left_out = () if read_skipped else _without_entry(state, listed)
    state = replace(state, partition_watermarks={**state.partition_watermarks, **_last_names(left_out)})
    in_progress = [path for path, _ in state.find_unfinished()]
    return AdoptedState(
        replace(
            state, files={path: _with_current_size(each, at_source.get(path)) for path, each in state.files.items()}
        ),
        left_out,
        tuple(path for path in in_progress if not _is_above(state, path)),
        tuple(path for path in in_progress if path not in at_source),
        _gaps(state, listed),
    )


def _unseal(state: PathState, listed: Sequence[SourceFile]) -> PathState:
    """Unseal from the first partition with a file in progress; all other files there stay read."""
    waiting = [partition for partition in state.first_unfinished if partition < state.sealed_below]
    if not waiting:
        return state
    first = min(waiting)
    reopen_partitions = [file.path for file in listed if first <= split(file.path)[0] < state.sealed_below]
    entries = {**_last_names(reopen_partitions), **state.partition_watermarks}
    return replace(state, partition_watermarks=entries, sealed_below=first)


def _without_entry(state: PathState, listed: Sequence[SourceFile]) -> tuple[str, ...]:
    """The files at or below the watermark in open partitions without an entry."""
    if state.value is None:
        return ()
    watermark, found = sort_key(state.value), []
    for file in listed:
        partition, name = split(file.path)
        known = partition in state.partition_watermarks or (partition and partition < state.sealed_below)
        begun = state.first_unfinished.get(partition)
        if not known and sort_key(file.path) <= watermark and (begun is None or name < begun):
            found.append(file.path)
    return tuple(found)


def _gaps(state: PathState, listed: Sequence[SourceFile]) -> tuple[str, ...]:
    """The unread files between a partition's watermark and its greatest begun or finished file."""
    greatest = _last_names(tuple(state.files))

    def is_passed_over(path: str) -> bool:
        partition, name = split(path)
        return path not in state.files and name < greatest.get(partition, "")

    return tuple(file.path for file in listed if _is_above(state, file.path) and is_passed_over(file.path))


def _last_names(paths: Sequence[str]) -> dict[str, str]:
    last: dict[str, str] = {}
    for partition, name in map(split, paths):
        last[partition] = max(name, last.get(partition, name))
    return last


def _is_above(state: PathState, path: str) -> bool:
    partition, name = split(path)
    return name > state.partition_watermarks.get(partition, "")


def _with_current_size(progress: FileProgress, file: SourceFile | None) -> FileProgress:
    if isinstance(progress, Finished) or file is None:
        return progress
    # Without a size, the next plan could not tell whether the file was changed since.
    return replace(progress, size=file.size, etag=file.etag)


PENDING = "_staging/pending"


@dataclass(frozen=True, slots=True)
class Trace:
    """One checkpoint of the old program: its place, time and content."""

    found: str
    written: datetime | None
    data: Mapping[str, Any]
    table_version: int = -1


@dataclass(frozen=True, slots=True)
class OldCommit:
    """A transaction of the old program; ``table_version`` is -1 if its log entry was cleaned up."""

    app_id: str
    table_version: int
    written: datetime | None

    @property
    def is_writers(self) -> bool:
        """Whether it holds a checkpoint."""
        return self.app_id.startswith(WRITER)


@dataclass(frozen=True, slots=True)
class Activity:
    """The newest activity of the old program at one moment; ``pending`` are staged files in no commit."""

    checkpoint: ObjectInfo | None
    commit: OldCommit | None
    pending: tuple[str, ...]

    def describe_changes_since(self, before: Activity) -> tuple[str, ...]:
        """What changed, in words."""
        moved = []
        if self.checkpoint != before.checkpoint:
            moved.append("its checkpoint file was written again")
        if self.commit != before.commit:
            moved.append("it committed to the table" if self.commit is None else _describe_commit(self.commit))
        if self.pending != before.pending:
            moved.append(f"{PENDING} changed")
        return tuple(moved)

    def not_quiet(self, now: datetime, seconds: float) -> tuple[str, ...]:
        """What happened less than ``seconds`` ago, in words."""
        moments: list[tuple[str, datetime | None]] = []
        if self.checkpoint is not None:
            moments.append(("its checkpoint file was written", self.checkpoint.modified))
        if self.commit is not None:
            moments.append((_describe_commit(self.commit), self.commit.written))
        ages = ((what, (now - moment).total_seconds()) for what, moment in moments if moment is not None)
        return tuple(f"{what} {max(0, age):.0f} s ago" for what, age in ages if seconds and age < seconds)


def _describe_commit(commit: OldCommit) -> str:
    where = f"table version {commit.table_version}" if commit.table_version >= 0 else "the table"
    return f"{commit.app_id[:20]}… committed {where}"


def _checkpoint_of(key: SourceKey) -> str:
    return BLIZZARD.checkpoint_of(key.pipeline, key.source)


def checkpoint_file(store: ObjectStore, key: SourceKey) -> Trace | None:
    """The old checkpoint file of this source; None if there is none, or if it is our mirror."""
    path = _checkpoint_of(key)
    try:
        content, info = store.get(path), store.head(path)
    except ObjectMissing:
        return None
    data = _load_mapping(content, f"{store.location.uri}/{path}")
    return None if isinstance(data.get("tidegate"), dict) else Trace(path, info.modified, data)


def other_checkpoint_files(store: ObjectStore, key: SourceKey) -> tuple[str, ...]:
    """The checkpoint files of other sources."""
    listed = (item.path for item in store.list(BLIZZARD.folder) if item.path.endswith("_checkpoint.json"))
    return tuple(path for path in listed if path != _checkpoint_of(key) and not is_second_mirror(store, path))


def old_commits(store: ObjectStore) -> Iterator[OldCommit]:
    """The transactions of the old program that the log still has, newest first; read lazily."""
    log, seen = DeltaLog(store), set[str]()
    for number in reversed(log.versions()):
        entry = log.entry(number)
        for app_id in () if entry is None else entry.transactions:
            if _is_old(app_id):
                seen.add(app_id)
                yield OldCommit(app_id, number, store.head(entry_path(number)).modified)
    # Transactions outlive the log entries that brought them, in the checkpoint.
    _, files = newest_checkpoint(store)
    older = [
        OldCommit(str(txn["appId"]), -1, _moment(txn.get("lastUpdated")))
        for path in files
        for txn in checkpoint_actions(store, path, "txn", ("appId", "lastUpdated"))
        if _is_old(str(txn.get("appId"))) and txn["appId"] not in seen
    ]
    yield from sorted(older, key=_age_of)


def _is_old(app_id: str) -> bool:
    return app_id.startswith(BLIZZARD.app_ids)


def _age_of(commit: OldCommit) -> tuple[float, int]:
    """Sort key, newest first: by time, then by the table version inside."""
    written = 0.0 if commit.written is None else commit.written.timestamp()
    try:
        inside = decode_transaction(commit).get("delta_version") if commit.is_writers else None
    except Damaged:
        inside = None
    return -written, -(inside if isinstance(inside, int) else -1)


def _moment(milliseconds: object) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if isinstance(milliseconds, int) else None


def decode_transaction(commit: OldCommit) -> Mapping[str, Any]:
    """The checkpoint in a transaction id; ``Damaged`` if it cannot be read."""
    where = f"the transaction id {commit.app_id[:40]!r}… (table version {commit.table_version})"
    # Written with either alphabet, and with or without padding.
    text = commit.app_id.removeprefix(WRITER).replace("-", "+").replace("_", "/")
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _damage_error(where, error) from error
    return _load_mapping(content, where)


def _load_mapping(content: bytes, where: str) -> Mapping[str, Any]:
    try:
        data = load_json(content)
    except ValueError as error:
        raise _damage_error(where, error) from error
    if not isinstance(data, dict):
        raise _damage_error(where, "not a JSON object")
    return data


def activity(store: ObjectStore, key: SourceKey, committed: frozenset[str]) -> Activity:
    """The current activity of the old program; ``committed`` are the data files in the log."""
    try:
        info = store.head(_checkpoint_of(key))
        checkpoint = None if is_second_mirror(store, info.path) else info
    except ObjectMissing:
        checkpoint = None
    return Activity(checkpoint, next(old_commits(store), None), tuple(_find_pending(store, committed)))


def _find_pending(store: ObjectStore, committed: frozenset[str]) -> Iterator[str]:
    """The metas of staged files that no commit names."""
    for item in store.list(PENDING):
        if not item.path.endswith(".meta.json"):
            continue
        try:
            meta = load_json(store.get(item.path))
            filename = str(meta["filename"])
        # A meta that cannot be read may stand for a file that waits: it counts as pending.
        except (ObjectMissing, ValueError, KeyError, TypeError):
            filename = ""
        if filename not in committed:
            yield item.path


EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class AdoptOptions:
    """Options of ``tidegate adopt``."""

    dry_run: bool = False
    quiet_for: float = 600.0
    fresh: bool = False
    read_skipped: bool = False


def adopt(bound: FileSource, options: AdoptOptions, clock: Clock = utc_now) -> Adoption:
    """Take over the old position of a source, unless something speaks against it."""
    blank = Adoption(bound.pipeline.name, bound.source.name, bound.pipeline.sink.table.uri)
    adopting = _Adopting(bound, options, clock, blank)
    try:
        return adopting.run()
    except TidegateError as error:
        return replace(adopting.report, error=str(error))


class _Adopting:
    """One adoption; ``report`` has what is known so far."""

    def __init__(self, bound: FileSource, options: AdoptOptions, clock: Clock, blank: Adoption) -> None:
        self._bound, self._options, self._clock = bound, options, clock
        self._store, self._key = bound.table_store, bound.key
        self.report = blank

    def run(self) -> Adoption:
        """Look, decide, look again, and write."""
        opened = self._bound.positions.open([Accept.FOREIGN], read_only=True)
        if not opened.first_run:
            return self._keep(opened)
        snapshot = self._snapshot()
        known = contents(self._store, snapshot)
        before = activity(self._store, self._key, known.named)
        # After the first look at its activity: what moves from here on shows in the second look.
        older = self._older()
        listed = self._list_all()
        now = self._clock()
        result = carry_over(older.state, listed, read_skipped=self._options.read_skipped)
        state = replace(result.state, last_update_ts=result.state.last_update_ts or int(now.timestamp()))
        self._show(state)
        self.report = replace(
            self.report,
            findings=(*self.report.findings, *self._findings(result, older, known)),
            next_files=plan_files(self._bound, state, 0, now).files,
        )
        self._check_quiet(before, now)
        if self._options.dry_run:
            return self.report
        return self._write(state, before, known)

    def _keep(self, opened: Position) -> Adoption:
        text = f"this source has a position of its own ({opened.version}): nothing to adopt"
        self._show(watermarks_of(opened))
        return replace(
            self.report,
            version=opened.version,
            table_version=opened.table_version,
            findings=(Check("position", "ok", text),),
        )

    def _snapshot(self) -> Snapshot:
        snapshot = self._bound.positions.site.delta.snapshot()
        if snapshot is None:
            raise StateError(
                f"{self._key}: there is no table at {self.report.table_uri}: nothing of the old program is committed",
                "run without adopting; remove the _blizzard folder first if there is one",
            )
        return snapshot

    def _older(self) -> OlderState:
        """The state to take over; the report names its origin."""
        bases = _bases(self._bound.source.location.uri)
        damaged: list[Damaged] = []
        in_log = self._in_log(bases, damaged)
        file = self._in_file(bases, damaged)
        trace, remarks = self._choose(file, in_log, bases)
        if trace is None and damaged:
            raise damaged[0]
        if self._options.fresh:
            return self._fresh(trace)
        if trace is None:
            raise self._no_trace_error()
        older = read_older(trace.data, bases)
        remarks = (*remarks, *(self._fall_back(each, trace) for each in damaged))
        self.report = replace(self.report, trace=trace.found, form=older.form, written=trace.written, findings=remarks)
        return older

    def _fresh(self, trace: Trace | None) -> OlderState:
        if trace is not None:
            raise StateError(
                f"{self._key}: the old program did read this source: {trace.found} says so; from the beginning "
                "its rows would be doubled",
                "adopt without `--fresh`",
            )
        self.report = replace(self.report, trace="none of this source", form="it starts at the beginning")
        return OlderState(PathState(), self.report.form)

    def _in_log(self, bases: Sequence[str], damaged: list[Damaged]) -> tuple[OldCommit, Trace] | None:
        """The newest readable checkpoint of this source in the log; damaged ones above it go to ``damaged``.

        It has no name, so its paths identify the source; relative ones only if the pipeline has one source.
        """
        alone = len(self._bound.pipeline.sources) == 1
        for commit in old_commits(self._store):
            where = f"table version {commit.table_version}" if commit.table_version >= 0 else "the Delta checkpoint"
            found = f"the transaction of Blizzard in {where}"
            try:
                data = decode_transaction(commit) if commit.is_writers else {}
                if any(is_about(path, bases) and (alone or is_absolute(path)) for path in paths_in(data)):
                    read_older(data, bases, found)
                    return commit, Trace(found, commit.written, data, commit.table_version)
            except Damaged as error:
                damaged.append(error)
        return None

    def _in_file(self, bases: Sequence[str], damaged: list[Damaged]) -> Trace | None:
        """The checkpoint file of this source; None without one, or if it is damaged: then ``damaged`` gets it."""
        try:
            file = checkpoint_file(self._store, self._key)
            if file is not None:
                read_older(file.data, bases, file.found)
        except Damaged as error:
            damaged.append(error)
            return None
        return file

    def _fall_back(self, damaged: Damaged, taken: Trace) -> Check:
        """Report what is read again because an older checkpoint replaces the damaged one."""
        log = DeltaLog(self._store)
        later = [log.entry(number) for number in log.versions(taken.table_version + 1) if taken.table_version >= 0]
        added = sum(each.adds for each in later if each and any(map(_is_old, each.transactions)))
        since = f", after which {count(added, 'data file')} came in" if taken.table_version >= 0 else ""
        return Check(
            "damaged checkpoint",
            "warn",
            f"{damaged.problem}: {taken.found} is taken{since}; records that only the damaged one counts as read are "
            "read again, and their rows are then in the table twice",
            "put the damaged one back from a backup and adopt again; or remove those rows after the next run",
        )

    def _choose(
        self, file: Trace | None, in_log: tuple[OldCommit, Trace] | None, bases: Sequence[str]
    ) -> tuple[Trace | None, tuple[Check, ...]]:
        """The trace to trust if there are two, and what to report about the other.

        The log's was committed with its rows. The checkpoint file is trusted only if the committer of staged files
        came after the last such transaction: then the log's is left over from before.
        """
        if file is None or in_log is None:
            return (file if in_log is None else in_log[1]), ()
        commit, trace = in_log
        ours, theirs = (read_older(each.data, bases).state.value for each in (trace, file))
        if ours == theirs:
            return trace, ()
        staged = next((each for each in old_commits(self._store) if not each.is_writers), None)
        later = staged is not None and staged.table_version > commit.table_version
        ahead = theirs is not None and (ours is None or sort_key(theirs) > sort_key(ours))
        if later and ahead:
            text = f"{trace.found} ends at {ours}, before the staged commits; {file.found} at {theirs}, which is taken"
            return file, (Check("two traces", "warn", text),)
        text = f"{file.found} ends at {theirs}, the log at {ours}; the log is taken: its rows were committed with it"
        return trace, (Check("two traces", "warn", text),)

    def _no_trace_error(self) -> StateError:
        others = [*other_checkpoint_files(self._store, self._key), *_describe(old_commits(self._store))]
        if not others:
            return StateError(
                f"{self._key}: there is no trace of Blizzard in {self.report.table_uri}", "run it without adopting"
            )
        return StateError(
            f"{self._key}: nothing of this source is in {self.report.table_uri}: no {_checkpoint_of(self._key)}, and "
            f"what there is belongs to others or does not say what was read: {_examples(others)}",
            "name pipeline and source as the old program did, and set source_uri to what it read; or, if it never read "
            "this source, start it at the beginning with `--fresh`",
        )

    def _list_all(self) -> tuple[SourceFile, ...]:
        # The old program had no such filter: what it read outside of it has to count as read.
        whole = replace(self._bound.source, partition_filter=None)
        return discover(self._bound.tracker.store, whole, PathState(), self._clock()).files

    def _show(self, state: PathState) -> None:
        self.report = replace(
            self.report,
            state=type(state.watermark).__name__,
            watermark=state.value,
            partitions=dict(state.partition_watermarks),
            in_progress={path: progress.records for path, progress in state.find_unfinished()},
            last_committed_file=state.last_committed_file,
        )

    def _findings(self, result: AdoptedState, older: OlderState, known: Contents) -> Iterator[Check]:
        if older.state.sealed_below and not self._options.fresh:
            below = f"everything in partitions below {older.state.sealed_below!r} counts as read"
            yield Check("earlier partitions", "ok", f"{below}: the old form had one watermark for all")
        yield from _warn_about("left out", result.left_out, _LEFT_OUT, "`--read-skipped` reads them")
        yield from _warn_about("in progress below the watermark", result.resumed, _RESUMED)
        yield from _warn_about("in a gap", result.gaps, _IN_A_GAP)
        yield from _warn_about("in progress and gone", result.gone, "in progress and not at the source any more")
        sized = tuple(path for path, _ in result.state.find_unfinished() if path not in result.gone)
        if sized:
            text = "read in part; size and etag are those of now, as the old program noted none"
            yield Check("in progress", "ok", f"{count(len(sized), 'file')} {text}: {_examples(sized)}")
        yield from _warn_about("added twice", known.twice, "added to the table again while visible")
        yield from _warn_about("in no commit", find_unreferenced(self._store, known), _IN_NO_COMMIT)

    def _check_quiet(self, seen: Activity, now: datetime) -> None:
        if seen.pending:
            raise StateError(
                f"{self._key}: {count(len(seen.pending), 'staged file')} of the old program wait for their commit: "
                f"{_examples(seen.pending)}; its position counts them as read",
                "let its committer (Penguin) finish; or, if their rows are not wanted, move these files away",
            )
        seconds = self._options.quiet_for
        if moving := seen.not_quiet(now, seconds):
            raise StateError(
                f"{self._key}: the old program still moves: {'; '.join(moving)}",
                f"stop it, wait until it was quiet for {seconds:.0f} s (`--quiet-for`), and adopt again",
            )

    def _write(self, state: PathState, before: Activity, known: Contents) -> Adoption:
        opened = self._bound.positions.open([Accept.FOREIGN])
        # The listing may have taken minutes; a commit of the old program in between would be counted by nobody.
        again = activity(self._store, self._key, known.named).describe_changes_since(before)
        if again or not opened.first_run:
            moved = "; ".join(again) or f"position {opened.version} was written"
            raise StateError(
                f"{self._key}: something moved while adopting: {moved}", "stop the old program; adopt again"
            )
        after = self._bound.record_edit(opened, encode_paths(state), "adopt")
        self.report = replace(self.report, adopted=True, version=after.version, table_version=after.table_version)
        return replace(self.report, findings=(*self.report.findings, *self._check_moved_after(before, known)))

    def _check_moved_after(self, before: Activity, known: Contents) -> Iterator[Check]:
        """What changed since ``before``, without the checkpoint file if our own mirror is written there."""
        try:
            after = activity(self._store, self._key, known.named)
        except TidegateError as error:
            yield Check("moved afterwards", "warn", f"taken over, but a last look failed ({error.problem})")
            return
        if self._bound.source.mirror_legacy:
            after = replace(after, checkpoint=before.checkpoint)
        for text in after.describe_changes_since(before):
            yield Check("moved afterwards", "warn", f"{text}: stop it, its rows may be doubled")


_LEFT_OUT = (
    "at or below its watermark in partitions that it has no entry for: they count as read, whether they were or not"
)
_RESUMED = "read in part and passed over by its watermark: the rest is read by the next run"
_IN_A_GAP = "below one that it had begun or finished, and not read: the next run reads them"
_IN_NO_COMMIT = "in the table's folder and in no commit of the log: their rows are not in the table"


def _describe(commits: Iterable[OldCommit]) -> list[str]:
    """The places that transactions of the old program name, each once."""
    found: dict[str, None] = {}
    for commit in commits:
        paths = paths_in(decode_transaction(commit)) if commit.is_writers else ()
        found[f"a transaction about {paths[0]}" if paths else f"the transaction id {commit.app_id[:30]!r}"] = None
    return list(found)


def _bases(uri: str) -> tuple[str, ...]:
    """The spellings that the old program may have used for the source's location."""
    plain = uri.rstrip("/")
    if plain.startswith("file://"):
        return plain, plain.removeprefix("file://")
    # Hadoop's spelling of the same bucket.
    return (plain, f"s3a://{plain.removeprefix('s3://')}") if plain.startswith("s3://") else (plain,)


def _warn_about(name: str, paths: Sequence[str], text: str, remedy: str = "") -> Iterator[Check]:
    if paths:
        yield Check(name, "warn", f"{count(len(paths), 'file')} {text}: {_examples(paths)}", remedy)


def _examples(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - EXAMPLES:,} more" if len(paths) > EXAMPLES else ""
    return f"{', '.join(paths[:EXAMPLES])}{more}"
