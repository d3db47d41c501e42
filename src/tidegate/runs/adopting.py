"""Taking over the position that Blizzard left in a table, so that the next run reads exactly what is new.

Looks at every trace, says what it read and what the old program may have left out or doubled, and writes the first
position by an empty commit of the ordinary protocol. It refuses while the old program moves: what that reads or commits
afterwards would be doubled or lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.errors import StateError, TidegateError
from tidegate.observe.wording import count
from tidegate.reports import Adoption, Check
from tidegate.runs.place import Clock, Place, utc_now, watermarks_of
from tidegate.sources.files.discovery import discover
from tidegate.state import legacy
from tidegate.state.files import Change
from tidegate.state.leftovers import Contents, contents, unreferenced
from tidegate.state.legacy import Look, OldCommit, Trace
from tidegate.state.opened import Opened
from tidegate.state.opening import Accept
from tidegate.state.table import Snapshot
from tidegate.watermarks.codec import embedded, encode
from tidegate.watermarks.legacy import Older, Settled, is_about, is_absolute, paths_in, read_older, settled
from tidegate.watermarks.path_state import PathState
from tidegate.watermarks.paths import SourceFile, sort_key

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for: only to look, how long the old program must have been quiet, and two decisions."""

    dry_run: bool = False
    quiet_for: float = 600.0
    fresh: bool = False
    read_skipped: bool = False


def adopt(place: Place, wish: Wish, clock: Clock = utc_now) -> Adoption:
    """The old position of a source, taken over unless something speaks against it."""
    blank = Adoption(place.pipeline.name, place.source.name, place.pipeline.sink.table.uri)
    adopting = _Adopting(place, wish, clock, blank)
    try:
        return adopting.run()
    except TidegateError as error:
        return replace(adopting.report, error=str(error))


class _Adopting:
    """One adoption; ``report`` holds what is known so far."""

    def __init__(self, place: Place, wish: Wish, clock: Clock, blank: Adoption) -> None:
        self._place, self._wish, self._clock = place, wish, clock
        self._store, self._key = place.table_store, place.key
        self.report = blank

    def run(self) -> Adoption:
        """Look, decide, look again, and write."""
        opened = self._place.positions.open([Accept.BLIZZARD], read_only=True)
        if not opened.first_run:
            return self._already(opened)
        snapshot = self._snapshot()
        known = contents(self._store, snapshot)
        before = legacy.look(self._store, self._key, known.named)
        older = self._older()
        listed = self._everything()
        now = self._clock()
        result = settled(older.state, listed, read_skipped=self._wish.read_skipped)
        state = replace(result.state, last_update_ts=result.state.last_update_ts or int(now.timestamp()))
        self._show(state)
        self.report = replace(
            self.report,
            findings=(*self.report.findings, *self._findings(result, older, known)),
            next_files=self._next_files(state, now),
        )
        self._check_quiet(before, now)
        if self._wish.dry_run:
            return self.report
        return self._write(state, before, known)

    def _already(self, opened: Opened) -> Adoption:
        text = f"this source has a position of its own ({opened.version}): nothing to adopt"
        told = Check("position", "ok", text)
        self._show(watermarks_of(opened))
        return replace(self.report, version=opened.version, table_version=opened.table_version, findings=(told,))

    def _snapshot(self) -> Snapshot:
        snapshot = self._place.positions.site.delta.snapshot()
        if snapshot is None:
            raise StateError(
                f"{self._key}: there is no table at {self.report.table_uri}: nothing of the old program is committed",
                "run without adopting; remove the _blizzard folder first if there is one",
            )
        return snapshot

    def _older(self) -> Older:
        """The state to take over, with the report told where it comes from."""
        bases = _bases(self._place.source.location.uri)
        in_log = self._in_log(bases)
        file = legacy.checkpoint_file(self._store, self._key)
        trace, remarks = self._chosen(file, in_log, bases)
        if self._wish.fresh:
            return self._fresh(trace)
        if trace is None:
            raise self._nothing()
        older = read_older(trace.data, bases)
        self.report = replace(self.report, trace=trace.found, form=older.form, written=trace.written, findings=remarks)
        return older

    def _fresh(self, trace: Trace | None) -> Older:
        if trace is not None:
            raise StateError(
                f"{self._key}: the old program did read this source: {trace.found} says so; from the beginning "
                "its rows would be doubled",
                "adopt without `--fresh`",
            )
        self.report = replace(self.report, trace="none of this source", form="it starts at the beginning")
        return Older(PathState(), self.report.form)

    def _in_log(self, bases: Sequence[str]) -> tuple[OldCommit, Trace] | None:
        """The newest checkpoint in the log that is about this source.

        It has no name in it, so the paths tell; relative ones only where the pipeline has no other source.
        """
        alone = len(self._place.pipeline.sources) == 1
        for commit in legacy.old_commits(self._store):
            data = legacy.decoded(commit) if commit.is_writers else {}
            if any(is_about(path, bases) and (alone or is_absolute(path)) for path in paths_in(data)):
                where = f"table version {commit.table_version}" if commit.table_version >= 0 else "the Delta checkpoint"
                return commit, Trace(f"the transaction of Blizzard in {where}", commit.written, data)
        return None

    def _chosen(
        self, file: Trace | None, in_log: tuple[OldCommit, Trace] | None, bases: Sequence[str]
    ) -> tuple[Trace | None, tuple[Check, ...]]:
        """The trace to believe where there are two, and what is to be said about the other.

        What the log says was committed with its rows. The checkpoint file is believed only if the committer of staged
        files came after the last such transaction: then the log's is left over from before.
        """
        if file is None or in_log is None:
            return (file if in_log is None else in_log[1]), ()
        commit, trace = in_log
        ours, theirs = (read_older(each.data, bases).state.value for each in (trace, file))
        if ours == theirs:
            return trace, ()
        staged = legacy.newest_staged(self._store)
        later = staged is not None and staged.table_version > commit.table_version
        ahead = theirs is not None and (ours is None or sort_key(theirs) > sort_key(ours))
        if later and ahead:
            text = f"{trace.found} ends at {ours}, before the staged commits; {file.found} at {theirs}, which is taken"
            return file, (Check("two traces", "warn", text),)
        text = f"{file.found} ends at {theirs}, the log at {ours}; the log is taken: its rows were committed with it"
        return trace, (Check("two traces", "warn", text),)

    def _nothing(self) -> StateError:
        others = [
            *legacy.other_checkpoint_files(self._store, self._key),
            *_abouts(legacy.old_commits(self._store)),
        ]
        if not others:
            return StateError(f"{self._key}: there is no trace of Blizzard in {self.report.table_uri}", "just run it")
        return StateError(
            f"{self._key}: nothing of this source is in {self.report.table_uri}: no {self._key.legacy_mirror}, and "
            f"what there is belongs to others or does not say what was read: {_examples(others)}",
            "name pipeline and source as the old program did, and set source_uri to what it read; or, if it never read "
            "this source, start it at the beginning with `--fresh`",
        )

    def _everything(self) -> tuple[SourceFile, ...]:
        whole = replace(self._place.source, partition_filter=None)
        return discover(self._place.source_store, whole, PathState(), self._clock()).files

    def _show(self, state: PathState) -> None:
        self.report = replace(
            self.report,
            state=type(state.watermark).__name__,
            watermark=state.value,
            partitions=dict(state.partition_watermarks),
            in_progress={path: progress.records for path, progress in state.unfinished()},
            last_committed_file=state.last_committed_file,
        )

    def _next_files(self, state: PathState, now: datetime) -> int:
        listing = self._place.discover(state, now, polls=0)
        return self._place.plan(state, 0, listing, now).files

    def _findings(self, result: Settled, older: Older, known: Contents) -> Iterator[Check]:
        if older.state.sealed_below and not self._wish.fresh:
            below = f"everything in partitions below {older.state.sealed_below!r} counts as read"
            yield Check("earlier partitions", "ok", f"{below}: the old form had one watermark for all")
        yield from _finding("left out", result.left_out, _LEFT_OUT, "`--read-skipped` reads them")
        yield from _finding("in progress below the watermark", result.resumed, _RESUMED)
        yield from _finding("in a gap", result.gaps, _IN_A_GAP)
        yield from _finding("in progress and gone", result.gone, "in progress and not at the source any more")
        sized = tuple(path for path, _ in result.state.unfinished() if path not in result.gone)
        if sized:
            text = "read in part; size and etag are those of now, as the old program noted none"
            yield Check("in progress", "ok", f"{count(len(sized), 'file')} {text}: {_examples(sized)}")
        yield from _finding("added twice", known.twice, "added to the table again while visible")
        yield from _finding("in no commit", unreferenced(self._store, known), _IN_NO_COMMIT)

    def _check_quiet(self, seen: Look, now: datetime) -> None:
        if seen.pending:
            raise StateError(
                f"{self._key}: {count(len(seen.pending), 'staged file')} of the old program wait for their commit: "
                f"{_examples(seen.pending)}; its position counts them as read",
                "let its committer (Penguin) finish; or, if their rows are not wanted, move these files away",
            )
        moving = seen.not_quiet(now, self._wish.quiet_for)
        if moving:
            raise StateError(
                f"{self._key}: the old program still moves: {'; '.join(moving)}",
                f"stop it, wait until it was quiet for {self._wish.quiet_for:.0f} s (`--quiet-for`), and adopt again",
            )

    def _write(self, state: PathState, before: Look, known: Contents) -> Adoption:
        opened = self._place.positions.open([Accept.BLIZZARD])
        again = legacy.look(self._store, self._key, known.named).moved_since(before)
        if again or not opened.first_run:
            moved = "; ".join(again) or f"position {opened.version} was written"
            raise StateError(
                f"{self._key}: something moved while adopting: {moved}", "stop the old program; adopt again"
            )
        data = encode(state)
        change = Change(state=data, embedded=embedded(data), action="adopt")
        after = self._place.positions.commit(opened, change)
        self.report = replace(self.report, adopted=True, version=after.version, table_version=after.table_version)
        return replace(self.report, findings=(*self.report.findings, *self._moved_after(before, known)))

    def _moved_after(self, before: Look, known: Contents) -> Iterator[Check]:
        """What moved since; its checkpoint file by ourselves, if our mirror is kept there too."""
        try:
            after = legacy.look(self._store, self._key, known.named)
        except TidegateError as error:
            yield Check("moved afterwards", "warn", f"taken over, but a last look failed ({error.problem})")
            return
        if self._place.source.mirror_legacy:
            after = replace(after, checkpoint=before.checkpoint)
        for text in after.moved_since(before):
            yield Check("moved afterwards", "warn", f"{text}: stop it, its rows may be doubled")


_LEFT_OUT = (
    "at or below its watermark in partitions that it has no entry for: they count as read, whether they were or not"
)
_RESUMED = "read in part and passed over by its watermark: the rest is read by the next run"
_IN_A_GAP = "below one that it had begun or finished, and not read: the next run reads them"
_IN_NO_COMMIT = "in the table's folder and in no commit of the log: their rows are not in the table"


def _abouts(commits: Iterable[OldCommit]) -> list[str]:
    """What the transactions of the old program are about, each place once."""
    found: dict[str, None] = {}
    for commit in commits:
        paths = paths_in(legacy.decoded(commit)) if commit.is_writers else ()
        found[f"a transaction about {paths[0]}" if paths else f"the transaction id {commit.app_id[:30]!r}"] = None
    return list(found)


def _bases(uri: str) -> tuple[str, ...]:
    """The ways in which the old program may have written the source's location."""
    plain = uri.rstrip("/")
    if plain.startswith("file://"):
        return plain, plain.removeprefix("file://")
    return (plain, f"s3a://{plain.removeprefix('s3://')}") if plain.startswith("s3://") else (plain,)


def _finding(name: str, paths: Sequence[str], text: str, remedy: str = "") -> Iterator[Check]:
    if paths:
        yield Check(name, "warn", f"{count(len(paths), 'file')} {text}: {_examples(paths)}", remedy)


def _examples(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - EXAMPLES:,} more" if len(paths) > EXAMPLES else ""
    return f"{', '.join(paths[:EXAMPLES])}{more}"
