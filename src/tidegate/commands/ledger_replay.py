"""The files of a replay whose rows no column tells apart: by the ledger, whole data files are theirs.

A data file can be taken back if every source file with rows in it is replayed. Where others have rows in it, too, the
replay is refused, or widened to them; what the ledger and the log do not explain is refused in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.core.files.discovery import EXAMPLES, Skipped, accepts, is_behind
from tidegate.core.files.edit import Selection
from tidegate.core.files.paths import SourceFile, sort_key
from tidegate.errors import TidegateError
from tidegate.protocol.change import SourceKey
from tidegate.protocol.commit import commit_lost
from tidegate.protocol.ledger import Ledger
from tidegate.protocol.lineage import Lineage, RowFiles, history_of
from tidegate.protocol.position import Position
from tidegate.reports.wording import count
from tidegate.runs.file_source import FileSource, SourceState
from tidegate.sources.file_discovery import scope_of

_NEW_TABLE = (
    "write into a new table_uri with `metadata_columns: [_source_file]` in the sink: that reads everything again, and"
    " every file of it can be replayed"
)


@dataclass(frozen=True, slots=True)
class LedgerChoice:
    """Files to read again, and how many ``data_files`` they replace whole.

    ``due``, ``missing``, ``dropped`` and ``unseen`` are as in a replay by name. ``widened`` were not selected, and have
    rows in the same data files.
    """

    files: tuple[SourceFile, ...]
    due: tuple[SourceFile, ...]
    missing: tuple[str, ...]
    dropped: tuple[str, ...]
    rows: int
    data_files: int
    widened: tuple[str, ...] = ()
    left_out: tuple[Skipped, ...] = ()
    unseen: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to replace."""
        return not self.files and not self.dropped

    def notes(self) -> Iterator[str]:
        """Notes to read before the replay."""
        yield from map(str, self.left_out)
        if not self.is_empty:
            whole = f"{count(self.data_files, 'data file')} of the table {'is' if self.data_files == 1 else 'are'}"
            yield f"the rows do not name their file, so the ledger says where they are: {whole} replaced whole"
        if self.widened:
            yield f"with rows in the same data files: {count(len(self.widened), 'more file')}, read again, too"
        yield from describe_rest(self.due, self.unseen, self.missing, removes=bool(self.dropped))

    def find_again(self, bound: FileSource, beside: Sequence[SourceKey], opened: Position) -> frozenset[str]:
        """The data files to remove on top of ``opened``; raises if other files have rows in them by now."""
        paths = [*(file.path for file in self.files), *self.dropped]
        held = trace(bound, beside, opened).find(paths)
        if not held.is_alone:
            problem = "the rows of these files were moved while they were read again"
            raise TidegateError(f"{bound.key}: {problem}", "nothing was replaced; give the same command again")
        return frozenset(file.path for file in held.data_files)


def describe_rest(
    due: Sequence[SourceFile], unseen: Sequence[str], missing: Sequence[str], *, removes: bool
) -> Iterator[str]:
    """Notes on the selected files that are not read again; ``removes``: the rows of missing ones go."""
    if due:
        yield f"not finished yet: {count(len(due), 'file')}, left to the next run"
    if unseen:
        yield f"behind what is left out: {count(len(unseen), 'file')}, e.g. {unseen[0]}; their rows stay"
    if missing:
        fate = "are removed" if removes else "stay (--drop-missing removes them)"
        yield f"gone from the source: {count(len(missing), 'file')}; their rows {fate}"


def trace(bound: FileSource, beside: Sequence[SourceKey], opened: Position) -> Lineage:
    """The lineage of a source as of an opened position; ``beside`` are the other file sources of its table.

    ``CommitLost`` if the source has moved since: then the ledger up to there does not explain the table.
    """
    site = bound.positions.site
    snapshot = site.delta.snapshot()
    if snapshot is None or site.position_in(snapshot) != opened.version:
        raise commit_lost(site, opened.version, "another run")
    others = [history_of(key, Ledger(bound.table_store, key).entries()) for key in beside]
    own = history_of(bound.key, bound.ledger.entries(newest=opened.parent))
    return Lineage(bound.table_store, snapshot, own, others)


def choose_by_ledger(
    bound: FileSource,
    beside: Sequence[SourceKey],
    selection: Selection,
    opened: Position,
    now: datetime,
    *,
    drop_missing: bool,
    widen: bool,
) -> LedgerChoice:
    """The selected files, found in source and ledger; with ``widen`` all that share data files with them."""
    search = _FileSearch(bound, trace(bound, beside, opened), selection, bound.state_of(opened), now)
    found = search.look(drop_missing=drop_missing, widen=widen)
    if found.held.is_alone:
        return found.choice
    # Only what was tried is advised: with these options, the same command would be carried out.
    for more in (("widen",), ("drop_missing",), ("widen", "drop_missing")):
        wider = search.look(drop_missing=drop_missing or "drop_missing" in more, widen=widen or "widen" in more)
        if wider.held.is_alone:
            raise _shares(bound, found, wider, more)
    raise _cannot(bound, wider)


@dataclass(frozen=True, slots=True)
class _Found:
    """A choice, the data files with its rows, and why files with rows in these are not part of it."""

    choice: LedgerChoice
    held: RowFiles


@dataclass(frozen=True, slots=True)
class _FileSearch:
    """Looks for the files of a selection, in the source as it is now and in the ledger."""

    bound: FileSource
    lineage: Lineage
    selection: Selection
    state: SourceState
    now: datetime

    def look(self, *, drop_missing: bool, widen: bool) -> _Found:
        source, scope = self.bound.source, scope_of(self.bound.source)
        listed = {
            info.path: SourceFile(info.path, info.size, info.etag)
            for info in self.bound.tracker.store.list("" if widen else self.selection.prefix, scope=scope)
        }
        more: frozenset[str] = frozenset()
        while True:
            wanted = {path for path in listed.keys() | self.lineage.read if self.selection.selects(path)} | more
            there = sorted((path for path in wanted if path in listed and accepts(source, path) is None), key=sort_key)
            by_state = self.bound.tracker.sort_files(self.state, [listed[path] for path in there], self.now)
            not_there = sorted(wanted - listed.keys())
            # A link that is not followed, or a broken mount, must not look like files that were deleted.
            missing = tuple(path for path in not_there if not is_behind(path, scope.unseen))
            dropped = missing if drop_missing else ()
            held = self.lineage.find([*(file.path for file in by_state.finished), *dropped])
            if not widen or held.shared <= more:
                break
            more |= held.shared
        choice = LedgerChoice(
            by_state.finished,
            by_state.due,
            missing,
            dropped,
            held.rows,
            len(held.data_files),
            tuple(sorted(path for path in more if not self.selection.selects(path))),
            scope.left_out,
            tuple(path for path in not_there if is_behind(path, scope.unseen)),
        )
        return _Found(choice, held)


def _shares(bound: FileSource, found: _Found, wider: _Found, options: Sequence[str]) -> TidegateError:
    """The refusal of files that can be replayed only together with others."""
    held, flags = found.held, " ".join(f"--{each.replace('_', '-')}" for each in options)
    where = f"{count(len(held.data_files), 'data file')} of {bound.table_uri} ({count(held.rows, 'row')})"
    also = "also has" if len(held.data_files) == 1 else "also have"
    wide = f"{count(len(wider.choice.files), 'file')}, {count(wider.held.rows, 'row')}"
    gone = f"; the rows of {count(len(wider.choice.dropped), 'file')} that are gone from the source are removed"
    return TidegateError(
        f"{bound.key}: the rows do not name their file, and {where} {also} rows of "
        f"{count(len(held.shared), 'other file')}: {_examples(sorted(held.shared))}",
        f"replay them together, with {flags} ({wide}{gone if wider.choice.dropped else ''})",
    )


def _cannot(bound: FileSource, widest: _Found) -> TidegateError:
    """The refusal of files that cannot be replayed together with others either."""
    choice, held = widest.choice, widest.held
    begin = f"{bound.key}: the rows of these files cannot be taken back: they do not name their file"
    if held.obstacles:
        more = f" (and {len(held.obstacles) - 1:,} more such)" if len(held.obstacles) > 1 else ""
        return TidegateError(f"{begin}, and {held.obstacles[0]}{more}", _NEW_TABLE)
    unfinished = sorted(held.shared & {file.path for file in choice.due})
    if unfinished:
        beside = f"{count(len(unfinished), 'file is', 'files are')} not finished that have rows in the same data files"
        remedy = "run the pipeline until they are finished, then replay"
        return TidegateError(f"{begin}, and {beside}: {_examples(unfinished)}", remedy)
    behind = f"{count(len(held.shared), 'file')} with rows in the same data files cannot be read"
    remedy = "set follow_links: true if they are behind a link, or put the files themselves there"
    return TidegateError(f"{begin}, and {behind}: {_examples(sorted(held.shared))}", remedy)


def _examples(paths: Sequence[str]) -> str:
    left = len(paths) - EXAMPLES
    return ", ".join(paths[:EXAMPLES]) + (f" and {left:,} more" if left > 0 else "")
