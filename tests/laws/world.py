"""A small world for laws: a source that grows, a table that remembers every row, and runs that may die.

Listing, planning and advancing are the real, pure functions; storage and Spark are dictionaries. A commit
puts rows and state in place together, as the real one does.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tidegate.core.files.advance import Advance, advance
from tidegate.core.files.discovery import (
    PathListing,
    Reason,
    ReasonCounts,
    accepts,
    cold_prefixes,
    is_directory_sealed,
    is_new,
    is_sealed,
    list_after,
    seal_cold_start,
    survey_directories,
)
from tidegate.core.files.paths import Layout, SourceFile, sort_key, split
from tidegate.core.files.plan import FileSlice, Plan
from tidegate.core.files.planner import Sizing, plan_paths
from tidegate.core.files.state import (
    Changed,
    Covered,
    FileOutcome,
    NotReached,
    PathState,
    Refused,
    decode_paths,
    drop_window,
    encode_paths,
)
from tidegate.specs.files import PathSource
from tidegate.specs.locations import Location

NOW = datetime(2024, 3, 1, 12, 30, tzinfo=UTC)
SIZING = Sizing(target_bytes=10_000_000, max_files=50, parallelism=4)
SOURCE = PathSource("asia", Location("memory://world"))


def source(**settings: object) -> PathSource:
    """A source with other settings than the usual ones."""
    return replace(SOURCE, **settings)  # type: ignore[arg-type]  # field names are checked by replace


def files(*paths: str) -> tuple[SourceFile, ...]:
    """Files of one size and no etag."""
    return tuple(SourceFile(path, 100) for path in paths)


def read(*paths: str) -> tuple[Covered, ...]:
    """Outcomes of files that were read whole."""
    return tuple(Covered(path, 100, None, 0, 10, eof=True) for path in paths)


def is_open(of: PathSource, state: PathState, directory: str, now: datetime = NOW) -> bool:
    """Whether ``directory`` or anything below it may hold files to read."""
    return not is_directory_sealed(Layout.of(of), seal_cold_start(of, state, now), directory)


def is_partition_open(of: PathSource, state: PathState, partition: str, now: datetime = NOW) -> bool:
    """Whether the files that lie directly in ``partition`` are looked at."""
    return not is_sealed(Layout.of(of), seal_cold_start(of, state, now), partition)


def listing(
    of: PathSource,
    state: PathState,
    there: Iterable[SourceFile],
    now: datetime = NOW,
    *,
    limit: int | None = None,
    hidden: Collection[str] = (),
) -> PathListing:
    """What a poll would show of the files that are there; ``hidden`` ones arrive while it runs."""
    ordered = sorted((file for file in there if file.path not in hidden), key=lambda file: sort_key(file.path))
    prefixes = cold_prefixes(of, state, now)
    tally = ReasonCounts()
    found: list[SourceFile] = []
    directories: set[str] = set()
    for file in ordered:
        partition, name = split(file.path)
        levels = partition.split("/") if partition else []
        above = ["/".join(levels[:depth]) for depth in range(1, len(levels) + 1)]
        if prefixes is not None and not any(level in prefixes for level in above):
            continue
        directories.update(above)
        reason = accepts(of, file.path)
        sealed = not all(is_open(of, state, level, now) for level in above)
        if sealed or not is_partition_open(of, state, partition, now):
            reason = reason or Reason.SEALED
        after = list_after(of, state, partition)
        if reason is not None:
            tally.add(reason, file.path)
        elif after is None or name > after:
            found.append(file)
    shown = tuple(_up_to(limit, found, is_new(of, state)))
    return PathListing(
        shown,
        tally.result(),
        survey_directories(of, state, sorted(directories), now),
        listed_keys=len(shown),
        complete=len(shown) == len(found),
        any_files=bool(ordered),
    )


def _up_to(limit: int | None, found: list[SourceFile], is_new: Callable[[str], bool]) -> Iterator[SourceFile]:
    """The files before the first new one that exceeds the limit."""
    room = len(found) if limit is None else limit
    for file in found:
        room -= is_new(file.path)
        if room < 0:
            return
        yield file


def is_empty(plan: Plan) -> bool:
    """Whether there is nothing to read and nothing to commit."""
    return not plan.groups and plan.opens is None and not plan.given_up


def planned(of: PathSource, state: PathState, *paths: str, now: datetime = NOW) -> Plan:
    """The plan over a source with exactly these files."""
    return plan_paths("events", of, state, 1, listing(of, state, files(*paths), now), now, sizing=SIZING)


def paths_of(plan: Plan) -> list[str]:
    """The files that a plan reads, in its order."""
    return [each.path for group in plan.groups for each in group.slices]


def advanced(
    of: PathSource,
    state: PathState,
    listed: Sequence[str],
    outcomes: Sequence[FileOutcome],
    now: datetime = NOW,
) -> Advance[PathState]:
    """One step over a complete listing of these files."""
    return advance(of, state, files(*listed), outcomes, now, complete=True)


@dataclass
class World:
    """The source, the table, and the state that was committed with its rows."""

    of: PathSource
    now: datetime = NOW
    there: dict[str, SourceFile] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    rows: Counter[tuple[str, int]] = field(default_factory=Counter)
    state: PathState = field(default_factory=PathState)
    commits: int = 0
    letters: dict[str, int] = field(default_factory=dict)

    def arrive(self, path: str, lines: int = 3) -> None:
        """A file appears; names are written once."""
        if path not in self.there:
            self.there[path] = SourceFile(path, lines * 10, f"etag-{path}")
            self.lines[path] = lines

    def remove(self, path: str) -> None:
        """A file disappears; it may come back as it was."""
        del self.there[path]

    def plan(self, limit: int | None = None, hidden: Collection[str] = ()) -> Plan:
        """List and plan."""
        shown = listing(self.of, self.state, self.there.values(), self.now, limit=limit, hidden=hidden)
        return plan_paths("events", self.of, self.state, self.commits, shown, self.now, sizing=SIZING)

    def commit(self, plan: Plan, outcomes: Sequence[FileOutcome]) -> Advance:
        """Rows and state at once."""
        step = advance(
            self.of,
            self.state,
            plan.listed,
            outcomes,
            plan.now,
            complete=plan.complete,
            directories=plan.directories,
        )
        if step.changed:
            self.commits += 1
            self.state = step.state
            covered = (each for each in outcomes if isinstance(each, Covered))
            self.rows.update((each.path, line) for each in covered for line in range(each.start, each.end))
        return step

    def open(self, plan: Plan) -> None:
        """Commit what is due although nothing is read; what is not read on becomes a letter from some line on."""
        if plan.given_up:
            slices = [each.slice for each in plan.given_up]
            assert not {each.path for each in slices} & set(self.letters)
            self.letters |= {each.path: each.start_record for each in slices}
            ends = (Covered(one.path, one.size, one.etag, *(one.start_record,) * 2, eof=True) for one in slices)
            assert self.commit(plan, tuple(ends)).changed
        elif plan.opens is not None:
            self.commits += 1
            self.state = plan.opens

    def restart(self, *, from_log: bool = False) -> None:
        """Another process reads the state back, from its document or from the log."""
        data = encode_paths(self.state)
        self.state = decode_paths(json.loads(json.dumps(drop_window(data) if from_log else data)))

    def outcome(self, piece: FileSlice, fate: str) -> FileOutcome:
        """What a task would report about one slice."""
        total, file = self.lines[piece.path], self.there[piece.path]
        match fate:
            case "whole":
                return Covered(piece.path, file.size, file.etag, piece.start_record, total, eof=True)
            case "part" if piece.start_record < total - 1:
                middle = piece.start_record + 1
                return Covered(piece.path, file.size, file.etag, piece.start_record, middle, eof=False)
            case "fail":
                return Refused(piece.path, file.size, file.etag, "bad line")
            case "changed" if piece.start_record == 0:
                return Changed(piece.path)
            case _:
                return NotReached(piece.path)

    def drain(self, polls: int = 40) -> None:
        """Read everything that can be read."""
        for _ in range(polls):
            plan = self.plan()
            self.open(plan)
            if is_empty(plan):
                return
            if plan.given_up:
                continue
            slices = [each for group in plan.groups for each in group.slices]
            self.commit(plan, [self.outcome(each, "whole") for each in slices])
        raise AssertionError("the source does not come to rest")

    def missing(self, wanted: Callable[[str], bool] = lambda path: True) -> set[tuple[str, int]]:
        """Rows of the source that are not in the table."""
        rows = {
            (path, line)
            for path in self.there
            if wanted(path)
            for line in range(self.letters.get(path, self.lines[path]))
        }
        return rows - set(self.rows)

    def doubled(self) -> set[tuple[str, int]]:
        """Rows that are in the table more than once."""
        return {row for row, count in self.rows.items() if count > 1}
