"""Lineage: which source files the visible data files of a table have rows of, as far as the ledger and the log know.

A commit names its source files and its data files, and not which of these came from which of those: a commit is the
smallest part that can be told apart. Whoever takes a source file back takes the data files of its commits, and with
them the rows of every other source file of these commits.

OPTIMIZE, DELETE and UPDATE move rows into other data files. Their log entries say from where, as long as the log has
them. What the ledger and the log do not explain is never guessed: it is a reason to refuse.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tidegate.core.json_shape import load_json
from tidegate.errors import ObjectMissing
from tidegate.protocol.change import SourceKey
from tidegate.protocol.ledger_blocks import REPLAYED_FILES, LedgerEntry
from tidegate.protocol.log import DeltaLog, entry_path, parse_entry, relative_path
from tidegate.protocol.table import ActiveFile, Snapshot
from tidegate.reports.wording import count
from tidegate.storage.port import ObjectStore

_KEEPS_ROWS = frozenset({"DELETE", "UPDATE"})
"""Operations whose new files have rows of those that they remove, and no others."""


@dataclass(frozen=True, slots=True)
class SourceCommit:
    """A commit that wrote rows: the source files that they may be from, and the data files.

    Without ``whole`` its data files also have rows of other commits: the replay rewrote them by a predicate.
    """

    key: SourceKey
    version: int
    files: frozenset[str]
    data_files: tuple[str, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class SourceHistory:
    """The commits of a source whose rows may be in the table; ``read`` are all files that it ever covered.

    ``gaps`` are positions of which the ledger does not know what they brought. ``begun_elsewhere`` are files whose
    first records no commit covers: another program had read them before the source was adopted.
    """

    commits: tuple[SourceCommit, ...]
    read: frozenset[str]
    gaps: tuple[str, ...] = ()
    begun_elsewhere: frozenset[str] = frozenset()


def history_of(key: SourceKey, entries: Iterable[LedgerEntry]) -> SourceHistory:
    """Gather the commits from the ledger of a source, in ascending order."""
    commits: list[SourceCommit] = []
    read: set[str] = set()
    bad: set[str] = set()
    gaps: list[str] = []
    reached: dict[str, int] = {}
    begun_elsewhere: set[str] = set()
    for entry in entries:
        for each in entry.coverage:
            if each.start > reached.get(each.file, 0):
                begun_elsewhere.add(each.file)
            reached[each.file] = max(each.end, reached.get(each.file, 0))
        covered = {each.file for each in entry.coverage}
        if entry.gap is not None or (entry.rows and not entry.data_files):
            gaps.append(f"position {entry.version} ({entry.gap or 'its data files were not noted'})")
            continue
        # Documents of the first versions do not count rows by file.
        counts = sum(each.rows for each in entry.coverage) == entry.rows
        files = {each.file for each in entry.coverage if each.rows or not counts}
        match entry.action:
            # A retried line leaves no coverage: its row is from one of the files that had bad lines by then.
            case "dlq retry":
                files = {*covered, *bad}
            # It took all commits of its files, which had no other file in them.
            case action if action == REPLAYED_FILES:
                commits = [each for each in commits if not each.files & covered]
            case "schema replace":
                commits = []
        if entry.data_files and not files:
            gaps.append(f"position {entry.version} ({entry.action} did not note whose rows it wrote)")
        elif entry.data_files:
            whole = entry.action != "replay"
            commits.append(SourceCommit(key, entry.version, frozenset(files), entry.data_files, whole))
        read |= covered
        # Whoever reads a file whole again answers its earlier letters.
        bad -= covered if entry.action in ("replay", REPLAYED_FILES) else set()
        bad |= {each.file for each in entry.coverage if each.bad}
    return SourceHistory(tuple(commits), frozenset(read), tuple(gaps), frozenset(begun_elsewhere))


@dataclass(frozen=True, slots=True)
class RowFiles:
    """The ``data_files`` that have rows of some source files, and ``shared``: other source files with rows in them.

    ``obstacles`` say which rows cannot be found, or are not of this source; then the rest is not complete.
    """

    data_files: tuple[ActiveFile, ...] = ()
    shared: frozenset[str] = frozenset()
    obstacles: tuple[str, ...] = ()

    @property
    def is_alone(self) -> bool:
        """Whether the data files have rows of the asked source files only, and all of them."""
        return not self.shared and not self.obstacles

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.data_files)


class Lineage:
    """The lineage of one source of a table; ``others`` are other file sources that write the table."""

    def __init__(
        self, store: ObjectStore, snapshot: Snapshot, history: SourceHistory, others: Sequence[SourceHistory] = ()
    ) -> None:
        self._store = store
        self._history = history
        self._active = {file.path: file for file in snapshot.active_files()}
        every = [*history.commits, *(commit for each in others for commit in each.commits)]
        self._origins = {path: frozenset({commit}) for commit in every if commit.whole for path in commit.data_files}
        self._known = {(commit.key, commit.version): commit for commit in every}

    @property
    def read(self) -> frozenset[str]:
        """All source files that the ledger of the source names."""
        return self._history.read

    def find(self, files: Collection[str]) -> RowFiles:
        """The data files that have rows of ``files``."""
        chosen = frozenset(files)
        obstacles: dict[str, None] = {}
        held: set[str] = set()
        for commit in self._history.commits:
            if commit.files & chosen:
                for path in commit.data_files:
                    held |= self._carriers(path, commit, obstacles)
        own = frozenset(self._history.commits)
        origins = {path: self._origins_of(path) for path in held}
        for path in sorted(held):
            foreign = sorted({_describe(each) for each in origins[path] if each not in own})
            if foreign:
                rows = count(self._active[path].rows, "row")
                obstacles[f"data file {path} ({rows}) also has rows of {', '.join(foreign)}"] = None
        obstacles |= dict.fromkeys(self._find_unexplained(chosen))
        shared = {file for path in held for each in origins[path] if each is not None for file in each.files}
        return RowFiles(
            tuple(self._active[path] for path in sorted(held)), frozenset(shared - chosen), tuple(obstacles)
        )

    def _find_unexplained(self, chosen: frozenset[str]) -> Iterator[str]:
        """The data files of an unknown writer, if rows of ``chosen`` may be in them without a trace."""
        unread = (chosen - self._history.read) | (chosen & self._history.begun_elsewhere)
        if not unread and not self._history.gaps:
            return
        unexplained = [path for path in self._active if None in self._origins_of(path)]
        if unexplained:
            what = self._history.gaps[0] if self._history.gaps else f"{count(len(unread), 'file')} (e.g. {min(unread)})"
            rows = sum(self._active[path].rows for path in unexplained)
            where = f"{count(len(unexplained), 'data file')} ({count(rows, 'row')}, e.g. {min(unexplained)})"
            yield f"the ledger knows nothing of {what}, nor whose rows are in {where}"

    def _carriers(self, path: str, commit: SourceCommit, obstacles: dict[str, None]) -> set[str]:
        """The visible data files that have the rows of ``path`` now."""
        if path in self._active:
            return {path}
        of = f"the rows of position {commit.version} ({count(len(commit.files), 'file')}, e.g. {min(commit.files)})"
        waiting, seen, found = [path], {path}, set[str]()
        while waiting:
            left = waiting.pop()
            if left in self._active:
                found.add(left)
                continue
            rewrite = self._rewrites.by_removed.get(left)
            if rewrite is None:
                obstacles[f"{of} left data file {left}, and the log no longer says where they are"] = None
            elif rewrite.obstacle:
                obstacles[f"{of} were rewritten by {rewrite.obstacle}"] = None
            else:
                waiting.extend(new for new in rewrite.added if new not in seen)
                seen.update(rewrite.added)
        return found

    def _origins_of(self, path: str) -> frozenset[SourceCommit | None]:
        """The commits that a data file may have rows of; None for a writer that the ledger does not know."""
        known = self._origins.get(path)
        return known or self._rewrites.origins(path, self._origins, self._known)

    @cached_property
    def _rewrites(self) -> RewriteLog:
        # Only if something was rewritten: the whole log is read for it.
        return RewriteLog.of(self._store)


@dataclass(frozen=True, slots=True)
class FileRewrite:
    """Data files that one log entry replaced by others; ``owners`` are the positions that it made, with rows of theirs.

    With an ``obstacle`` nothing says whose rows the added files have.
    """

    removed: tuple[str, ...]
    added: tuple[str, ...]
    owners: tuple[tuple[SourceKey, int], ...] = ()
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class RewriteLog:
    """The rewrites that the log still has, by the files that they removed and added."""

    by_removed: dict[str, FileRewrite] = field(default_factory=dict)
    by_added: dict[str, FileRewrite] = field(default_factory=dict)

    @classmethod
    def of(cls, store: ObjectStore) -> RewriteLog:
        found = cls()
        for rewrite in _read_rewrites(store):
            # Ascending, so that the last removal of a path counts, and the last entry that added it.
            found.by_removed.update(dict.fromkeys(rewrite.removed, rewrite))
            found.by_added.update(dict.fromkeys(rewrite.added, rewrite))
        return found

    def origins(
        self,
        path: str,
        known: Mapping[str, frozenset[SourceCommit]],
        commits: Mapping[tuple[SourceKey, int], SourceCommit],
    ) -> frozenset[SourceCommit | None]:
        """The commits whose rows came into ``path``."""
        waiting, seen, origins = [path], {path}, set[SourceCommit | None]()
        while waiting:
            at = waiting.pop()
            if at in known:
                origins |= known[at]
                continue
            rewrite = self.by_added.get(at)
            if rewrite is None or rewrite.obstacle:
                origins.add(None)
                continue
            origins |= {commits.get(owner) for owner in rewrite.owners}
            waiting.extend(new for new in rewrite.removed if new not in seen)
            seen.update(rewrite.removed)
        # A file that came from nowhere is not one without rows.
        return frozenset(origins or {None})


def _read_rewrites(store: ObjectStore) -> Iterator[FileRewrite]:
    for version in DeltaLog(store).versions():
        try:
            content = store.get(entry_path(version))
        except ObjectMissing:
            # Cleaned up meanwhile: as if it had been gone before.
            continue
        yield from _rewrites_in(store, version, content)


def _rewrites_in(store: ObjectStore, version: int, content: bytes) -> Iterator[FileRewrite]:
    """The rewrites of one entry: one by partition if it only compacts, else all of it."""
    lines = [load_json(line) for line in content.splitlines() if line.startswith((b'{"add"', b'{"remove"'))]
    entry = parse_entry(version, content)
    if not entry.tags and not any("remove" in each for each in lines):
        return
    actions = [(kind, fields) for line in lines for kind, fields in line.items()]
    compacts = not any(fields.get("dataChange", True) for _, fields in actions)
    owners = tuple((tag.key, tag.version) for tag in entry.tags)
    adds = any(kind == "add" for kind, _ in actions)
    keeps = compacts or owners or (entry.operation or "").upper() in _KEEPS_ROWS or not adds
    obstacle = "" if keeps else f"{entry.operation or 'another writer'} at table version {version}"
    by_partition: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"remove": [], "add": []})
    apart = compacts and all("partitionValues" in fields for _, fields in actions)
    for kind, fields in actions:
        place = json.dumps(fields["partitionValues"], sort_keys=True) if apart else ""
        by_partition[place][kind].append(relative_path(store, str(fields["path"])))
    groups = list(by_partition.values())
    # Two spellings of one partition value, such as those of two programs: told apart, the rows would seem to be gone.
    if any(bool(group["remove"]) != bool(group["add"]) for group in groups) and compacts:
        groups = [{kind: [path for group in groups for path in group[kind]] for kind in ("remove", "add")}]
    for group in groups:
        yield FileRewrite(tuple(group["remove"]), tuple(group["add"]), owners, obstacle)


def _describe(commit: SourceCommit | None) -> str:
    return "a writer that the ledger does not know" if commit is None else f"source {commit.key}"
