"""What stops a source, and how to go on once a person has decided to.

Without an acceptance this only explains. With one, the position is opened past that stop and recorded anew by an
empty commit of the ordinary protocol, so that the next run finds it in order. Rows are never touched.

A state that cannot be read is looked for rung by rung (``state.ladder``). Going on from an earlier one reads again what
the positions since have read, as far as their documents do not say what that was; it never leaves anything out.

Without an acceptance this only explains. With one, the position is recorded anew by an empty commit; rows are never
touched. Going on from an earlier watermark reads again what was read since: harmless where the load strategy replaces
rows by their keys, doubled rows where it appends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidegate.core.columns.state import ColumnState, column_watermark_text, decode_columns
from tidegate.core.files.advance import covered
from tidegate.core.files.state import Covered
from tidegate.core.json_shape import is_newer
from tidegate.core.units.state import decode_units
from tidegate.core.units.state import unit_watermark_text as unit_text
from tidegate.errors import StateError, TidegateError
from tidegate.observe.wording import count
from tidegate.protocol.change import Change, Coverage
from tidegate.protocol.ledger import finished_files
from tidegate.protocol.open import Accept
from tidegate.protocol.position import Position
from tidegate.protocol.recovery import Ladder, Rung
from tidegate.protocol.store import PositionStore
from tidegate.protocol.winner import StateUnreadable, Winner
from tidegate.reports.run import Check
from tidegate.runs.bound_source import Clock, ColumnPlace, Place, UnitPlace, decoded, decoded_units, utc_now
from tidegate.runs.replay_record import OtherPlace
from tidegate.runs.tracker import SourceState
from tidegate.specs.project import Tracking
from tidegate.specs.units import Replace

EXAMPLES = 10


class Acceptance(StrEnum):
    """What a person can accept; the first two are stops of OPEN, ``set`` rebuilds a lost part of a set of paths."""

    IDENTITY = Accept.IDENTITY.value
    RESTORE = Accept.RESTORE.value
    MIRROR = "mirror"
    PREVIOUS = "previous"
    DOUBLES = "doubles"
    SET = "set"


ACCEPTED = tuple(choice.value for choice in Acceptance)


def recover(place: Place, accept: Collection[str] = (), clock: Clock = utc_now) -> tuple[Check, ...]:
    """Whether the position of a source can be opened; past the stops in ``accept``, it is recorded anew."""
    choices = frozenset(Acceptance(each) for each in accept)
    name = str(place.key)
    try:
        opened = place.positions.open(read_only=True)
        place.tracker.check(place.opened_state(opened))
    except StateUnreadable as error:
        return _Unreadable(place, choices, clock).told(error)
    except TidegateError as error:
        if not choices & {Acceptance.IDENTITY, Acceptance.RESTORE, Acceptance.SET}:
            return (Check(name, "fail", error.problem, error.remedy),)
        return (_accepted(place, choices),)
    return (in_order(opened),)


def in_order(opened: Position) -> Check:
    """Nothing stops the source."""
    where = (
        "nothing recorded yet"
        if opened.first_run
        else f"position {opened.version}, table version {opened.table_version}"
    )
    return Check(str(opened.key), "ok", f"in order: {where}; nothing to accept")


def stops(choices: Collection[Acceptance]) -> tuple[Accept, ...]:
    """What a person decided to pass; staged units that wait are planned again on top of the recovered position."""
    return (Accept.PENDING, *(each for each in Accept if each.value in choices))


def _accepted(place: Place, choices: frozenset[Acceptance]) -> Check:
    name = str(place.key)
    try:
        opened = place.positions.open(stops(choices))
        if opened.state is None:
            return Check(name, "fail", "there is no recorded state to go on from", "see the message of `tidegate run`")
        state = _restored(place, opened, rebuild=Acceptance.SET in choices)
        after = _record(place, opened, place.tracker.encode(state))
    except TidegateError as error:
        return Check(name, "fail", error.problem, error.remedy)
    accepted = ", ".join(each for each in Acceptance if each in choices)
    return Check(name, "ok", f"accepted ({accepted}): {told(opened, after)}")


def _restored(place: Place, opened: Position, *, rebuild: bool) -> SourceState:
    """The recorded state; with ``rebuild`` what it refers to is made anew, without it everything must be there."""
    state = place.opened_state(opened)
    if rebuild:
        made: SourceState = place.tracker.rebuilt(state, finished_files(place.positions.site, opened))
        return made
    place.tracker.check(state)
    return state


def _record(place: Place, opened: Position, state: Mapping[str, object]) -> Position:
    return record(place.positions, opened, state, place.tracker.embedded(state))


def record(
    positions: PositionStore,
    opened: Position,
    state: Mapping[str, object],
    embedded: Mapping[str, object] | None = None,
    debts: tuple[Mapping[str, Any], ...] = (),
) -> Position:
    """Commit a state without any rows; ``embedded`` is the part of it for the log, all of it where none is given."""
    return positions.commit(opened, Change(state=state, embedded=embedded or state, action="recover", debts=debts))


def told(opened: Position, after: Position) -> str:
    """What recording a position anew did."""
    recorded = f"position {opened.version} recorded anew as {after.version}, table version {after.table_version}"
    return f"{recorded}; no row was touched"


@dataclass(frozen=True, slots=True)
class _Rebuilt:
    """A state to go on from; ``unknown`` are the positions since whose reading nothing tells."""

    winner: Winner
    state: SourceState
    added: tuple[int, ...]
    unknown: tuple[int, ...]


class _Unreadable:
    """A source whose newest state cannot be read."""

    def __init__(self, place: Place, choices: frozenset[Acceptance], clock: Clock) -> None:
        self._place, self._choices, self._clock = place, choices, clock
        self._name = str(place.key)

    def told(self, error: TidegateError) -> tuple[Check, ...]:
        """What was found, and what was done about it."""
        try:
            ladder = self._place.positions.ladder(self._usable)
            rebuilt = self._rebuilt(ladder)
            if Acceptance.MIRROR in self._choices and ladder.mirror is not None:
                return self._from_mirror(ladder, ladder.mirror)
            if (
                Acceptance.PREVIOUS in self._choices
                and rebuilt
                and (not rebuilt.unknown or Acceptance.DOUBLES in self._choices)
            ):
                return self._from_earlier(ladder, rebuilt)
            return self._explained(error, ladder, rebuilt)
        except TidegateError as problem:
            return (Check(self._name, "fail", problem.problem, problem.remedy),)

    def _usable(self, state: Mapping[str, Any]) -> bool:
        """Whether the state can be understood; one that a newer program wrote raises."""
        try:
            self._place.tracker.decode(state)
        except StateError:
            if is_newer(state):
                raise
            return False
        return True

    def _rebuilt(self, ladder: Ladder) -> _Rebuilt | None:
        """The newest usable state, and what the positions since are known to have read."""
        base = ladder.base
        if base is None or base.winner is None:
            return None
        state = self._place.state_of(base.winner.state)
        commits = list(_since(ladder.rungs, base.version))
        carried = self._carried_forward(state, [coverage for _, coverage in commits])
        added = () if carried is None else tuple(version for version, _ in commits)
        unknown = tuple(range(max((base.version, *added)) + 1, ladder.version + 1))
        return _Rebuilt(base.winner, carried or state, added, unknown)

    def _carried_forward(self, state: Any, commits: list[tuple[Coverage, ...]]) -> SourceState | None:
        """The state after those commits, None where there is none, they do not follow on it, or it is a set."""
        if not commits or self._place.source.tracking is not Tracking.WATERMARK:
            return None
        now = self._clock()
        listing = self._place.discover(state, now, polls=0)
        ranges = [
            [Covered(each.file, each.size, each.etag, each.start, each.end, each.eof) for each in coverage]
            for coverage in commits
        ]
        try:
            return covered(self._place.source, state, ranges, listing.files, now)
        except StateError:
            return None

    def _from_mirror(self, ladder: Ladder, winner: Winner) -> tuple[Check, ...]:
        opened = self._place.positions.open_rebuilt(ladder, winner, stops(self._choices))
        after = _record(self._place, opened, dict(winner.state))
        return (Check(self._name, "ok", f"went on from the mirror: {told(opened, after)}"), *self._warned(opened))

    def _from_earlier(self, ladder: Ladder, rebuilt: _Rebuilt) -> tuple[Check, ...]:
        doubles = self._could_double(rebuilt)
        opened = self._place.positions.open_rebuilt(ladder, rebuilt.winner, stops(self._choices))
        after = _record(self._place, opened, self._place.tracker.encode(rebuilt.state))
        gone_on = Check(self._name, "ok", f"went on from {_basis(rebuilt)}: {told(opened, after)}")
        return (gone_on, *doubles, *self._warned(opened))

    def _warned(self, opened: Position) -> tuple[Check, ...]:
        return tuple(Check(f"{self._name} notice", "warn", text) for text in opened.warnings)

    def _explained(self, error: TidegateError, ladder: Ladder, rebuilt: _Rebuilt | None) -> tuple[Check, ...]:
        head = Check(self._name, "fail", error.problem, self._way_on(ladder, rebuilt))
        rungs = tuple(rung_check(self._name, rung) for rung in ladder.rungs)
        shown = Check(f"{self._name} mirror", "ok" if ladder.mirror else "warn", ladder.mirror_found)
        doubles = () if rebuilt is None else self._could_double(rebuilt)
        return (head, *rungs, shown, *doubles)

    def _way_on(self, ladder: Ladder, rebuilt: _Rebuilt | None) -> str:
        ways = ["put the documents back from a backup"]
        if ladder.mirror is not None:
            ways.append(
                "`--accept mirror` goes on from the state that the mirror shows, which is that of this position"
            )
        if rebuilt is not None and not rebuilt.unknown:
            ways.append(f"`--accept previous` goes on from {_basis(rebuilt)}, which misses nothing and doubles nothing")
        elif rebuilt is not None:
            ways.append(
                f"`--accept previous --accept doubles` goes on from {_basis(rebuilt)}; what "
                f"{_positions(rebuilt.unknown)} read is read again, and its rows are then in the table twice"
            )
        else:
            ways.append("no earlier state is left either: write into a new table_uri")
        return "; or ".join(ways)

    def _could_double(self, rebuilt: _Rebuilt) -> tuple[Check, ...]:
        """The files that the unknown positions may have read: those that would be read next."""
        if not rebuilt.unknown:
            return ()
        now = self._clock()
        listing = self._place.discover(rebuilt.state, now, polls=0)
        plan = self._place.plan(rebuilt.state, rebuilt.winner.parent.version, listing, now)
        paths = [each.path for unit in plan.units for each in unit.slices]
        if not paths:
            text = "no file: nothing at the source lies above that state any more"
        else:
            more = f" and {count(len(paths) - EXAMPLES, 'more', 'more')}" if len(paths) > EXAMPLES else ""
            listed = "" if plan.complete else "at least "
            text = f"{listed}{count(len(paths), 'file')}: {', '.join(paths[:EXAMPLES])}{more}"
        detail = f"{_positions(rebuilt.unknown)} cannot be proven; read again and possibly doubled: {text}"
        return (Check(f"{self._name} doubles", "warn", f"{detail}; nothing is left out"),)


def _since(rungs: Sequence[Rung], version: int) -> Iterator[tuple[int, tuple[Coverage, ...]]]:
    """What the commits after ``version`` read, as far as each is known to follow the one before; some move the source
    by several positions at once.
    """
    following = {rung.follows: rung for rung in rungs if rung.coverage is not None}
    while (rung := following.get(version)) is not None and rung.coverage is not None:
        version = rung.version
        yield version, rung.coverage


def rung_check(name: str, rung: Rung) -> Check:
    """Whether one position of the ladder can be gone on from."""
    return Check(f"{name} position {rung.version}", "ok" if rung.usable else "fail", rung.found)


def _basis(rebuilt: _Rebuilt) -> str:
    added = f" and what {_positions(rebuilt.added)} read" if rebuilt.added else ""
    return f"the state of position {rebuilt.winner.parent.version}{added}"


def _positions(versions: tuple[int, ...]) -> str:
    if len(versions) == 1:
        return f"position {versions[0]}"
    return f"positions {versions[0]} to {versions[-1]}"


def recover_columns(place: OtherPlace, accept: Collection[str] = ()) -> tuple[Check, ...]:
    """Whether the position of a source can be opened; past the stops in ``accept``, it is recorded anew."""
    choices = frozenset(Acceptance(each) for each in accept)
    name = str(place.key)
    try:
        opened = place.open(read_only=True)
    except StateUnreadable as error:
        return _from_ladder(place, choices, error)
    except TidegateError as error:
        if not choices & {Acceptance.IDENTITY, Acceptance.RESTORE}:
            return (Check(name, "fail", error.problem, error.remedy),)
        return (_accepted_column_recovering(place, choices),)
    return (in_order(opened),)


def _accepted_column_recovering(place: OtherPlace, choices: frozenset[Acceptance]) -> Check:
    name = str(place.key)
    try:
        opened = place.positions.open(stops(choices))
        if opened.state is None:
            return Check(name, "fail", "there is no recorded state to go on from", "see the message of `tidegate run`")
        place.state_of(opened)
        after = record(place.positions, opened, opened.state)
    except TidegateError as error:
        return Check(name, "fail", error.problem, error.remedy)
    accepted = ", ".join(each for each in Acceptance if each in choices)
    return Check(name, "ok", f"accepted ({accepted}): {told(opened, after)}")


def _from_ladder(place: OtherPlace, choices: frozenset[Acceptance], error: TidegateError) -> tuple[Check, ...]:
    """What is left of a state that cannot be read, and going on from it."""
    name = str(place.key)
    try:
        ladder = place.positions.ladder(_usable_by(decode_units if isinstance(place, UnitPlace) else decode_columns))
        earlier = None if ladder.base is None else ladder.base.winner
        doubles = _doubles(place)
        if Acceptance.MIRROR in choices and ladder.mirror is not None:
            return (_gone_on(place, ladder, ladder.mirror, choices, "the mirror"),)
        if Acceptance.PREVIOUS in choices and earlier and (not doubles or Acceptance.DOUBLES in choices):
            return (_gone_on(place, ladder, earlier, choices, f"position {earlier.parent.version}"),)
        shown = None if earlier is None else _watermark(place, earlier)
        head = Check(name, "fail", error.problem, _ways(ladder, shown, doubles=doubles))
        mirror = Check(f"{name} mirror", "ok" if ladder.mirror else "warn", ladder.mirror_found)
        return (head, *(rung_check(name, rung) for rung in ladder.rungs), mirror)
    except TidegateError as problem:
        return (Check(name, "fail", problem.problem, problem.remedy),)


def _usable_by(codec: Callable[[Mapping[str, Any]], object]) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a state can be understood; one that a newer program wrote raises."""

    def usable(state: Mapping[str, Any]) -> bool:
        try:
            codec(state)
        except StateError:
            if is_newer(state):
                raise
            return False
        return True

    return usable


def _doubles(place: OtherPlace) -> bool:
    """Whether rows that are read again are in the table twice then."""
    if isinstance(place, UnitPlace):
        return place.source.replace is not Replace.MERGE_KEYS
    return not place.pipeline.sink.load.type.is_idempotent


def _watermark(place: OtherPlace, winner: Winner) -> str:
    if isinstance(place, UnitPlace):
        state = decoded_units(winner.state)
        return (None if state is None else unit_text(state)) or "nothing"
    return str(column_watermark_text(decoded(winner.state)))


def _gone_on(place: OtherPlace, ladder: Ladder, winner: Winner, choices: frozenset[Acceptance], basis: str) -> Check:
    opened = place.positions.open_rebuilt(ladder, winner, stops(choices))
    debts: tuple[Mapping[str, Any], ...] = ()
    if isinstance(place, ColumnPlace):
        place = place.moving_both()
        debts = place.debts(None, decoded(winner.state) or ColumnState())
    after = record(place.positions, opened, dict(winner.state), debts=debts)
    return Check(str(place.key), "ok", f"went on from {basis}: {told(opened, after)}")


def _ways(ladder: Ladder, earlier: str | None, *, doubles: bool) -> str:
    """``earlier`` is the watermark of an earlier position, as text."""
    ways = ["put the documents back from a backup"]
    if ladder.mirror is not None:
        ways.append("`--accept mirror` goes on from the state that the mirror shows, which is that of this position")
    if earlier is not None:
        then = "their rows are then in the table twice" if doubles else "which replaces their rows by themselves"
        more = " --accept doubles" if doubles else ""
        ways.append(f"`--accept previous{more}` goes on from {earlier}; what was read since is read again, and {then}")
    return "; or ".join(ways)
