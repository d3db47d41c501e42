"""Explains what stops a source, and continues past it once a person has accepted that.

Without an acceptance this only explains. With one, it opens the position past that stop and records it anew by an
empty commit of the ordinary protocol, so that the next run finds it in order. Rows are never touched.

A lost state is searched rung by rung (``protocol.recovery``). Continuing from an earlier one reads again what later
positions have read, unless their documents say what that was; it never skips anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidegate.commands.project import Config, load, sources_of
from tidegate.core.json_shape import is_newer
from tidegate.errors import StateError, TidegateError
from tidegate.protocol.change import Coverage
from tidegate.protocol.open import Accept, StateUnreadable, Winner
from tidegate.protocol.position import Position, utc_now
from tidegate.protocol.recovery import Ladder, Rung
from tidegate.reports.checks import Check
from tidegate.runs.tracker import Clock, InParts, Recoverable, TrackedSource


class Acceptance(StrEnum):
    """What a person can accept; the first two are stops of OPEN, ``set`` rebuilds a lost part of a path set."""

    IDENTITY = Accept.IDENTITY.value
    RESTORE = Accept.RESTORE.value
    MIRROR = "mirror"
    PREVIOUS = "previous"
    DOUBLES = "doubles"
    SET = "set"


ACCEPTED = tuple(choice.value for choice in Acceptance)


def recover(
    config: Config, pipeline: str, source: str | None = None, *, accept: Collection[str] = ()
) -> tuple[Check, ...]:
    """Explain what stops the sources of a pipeline, and what is left of an unreadable state.

    ``accept`` (``identity``, ``restore``, ``mirror``, ``previous``, ``doubles``, ``set``) continues past it: an empty
    commit records the position anew. It reads, writes and removes no rows.
    """
    sources = sources_of(load(config, pipeline=pipeline), pipeline, source)
    return tuple(check for each in sources for check in recover_source(each, accept))


def recover_source(source: TrackedSource, accept: Collection[str] = (), clock: Clock = utc_now) -> tuple[Check, ...]:
    """Check whether a source can be opened; past the stops in ``accept``, record its position anew."""
    choices = frozenset(Acceptance(each) for each in accept)
    tracker = source.tracker
    if not isinstance(tracker, InParts):
        choices -= {Acceptance.SET}
    name = str(source.key)
    try:
        opened = source.open(read_only=True)
        state = source.state_of(opened)
        if isinstance(tracker, InParts):
            tracker.check_parts(state)
    except StateUnreadable as error:
        return _Unreadable(source, choices, clock).explain(error)
    except TidegateError as error:
        if not choices & {Acceptance.IDENTITY, Acceptance.RESTORE, Acceptance.SET}:
            return (Check(name, "fail", error.problem, error.remedy),)
        return (_accept(source, choices),)
    where = (
        "nothing recorded yet"
        if opened.first_run
        else f"position {opened.version}, table version {opened.table_version}"
    )
    return (Check(name, "ok", f"in order: {where}; nothing to accept"),)


def _accept(source: TrackedSource, choices: frozenset[Acceptance]) -> Check:
    name, tracker = str(source.key), source.tracker
    try:
        opened = source.positions.open(_stops(choices))
        if opened.state is None:
            return Check(
                name, "fail", "there is no recorded state to continue from", "see the message of `tidegate run`"
            )
        state = source.state_of(opened)
        if isinstance(tracker, InParts):
            if Acceptance.SET in choices:
                state = tracker.rebuild(source, opened, state)
            else:
                tracker.check_parts(state)
        # A commit of its own, so that the next OPEN finds a position after the stop, and need not be told again.
        after = source.record_edit(opened, tracker.encode(state), "recover")
    except TidegateError as error:
        return Check(name, "fail", error.problem, error.remedy)
    accepted = ", ".join(each for each in Acceptance if each in choices)
    return Check(name, "ok", f"accepted ({accepted}): {_outcome(opened, after)}")


def _stops(choices: Collection[Acceptance]) -> tuple[Accept, ...]:
    """The stops to pass; staged units that wait are planned again on top of the recovered position."""
    return (Accept.PENDING, *(each for each in Accept if each.value in choices))


def _outcome(opened: Position, after: Position) -> str:
    """The effect of recording a position anew, in words."""
    recorded = f"position {opened.version} recorded anew as {after.version}, table version {after.table_version}"
    return f"{recorded}; no row was touched"


@dataclass(frozen=True, slots=True)
class _Rebuilt:
    """A state to continue from; ``unknown`` are later positions whose reads are not recorded."""

    winner: Winner
    state: Any
    added: tuple[int, ...]
    unknown: tuple[int, ...]


class _Unreadable:
    """A source whose newest state cannot be read."""

    def __init__(self, source: TrackedSource, choices: frozenset[Acceptance], clock: Clock) -> None:
        self._source, self._choices, self._clock = source, choices, clock
        self._name = str(source.key)

    def explain(self, error: TidegateError) -> tuple[Check, ...]:
        """The findings, and what was done about them."""
        try:
            ladder = self._source.positions.ladder(self._usable)
            rebuilt = self._rebuild(ladder)
            if Acceptance.MIRROR in self._choices and ladder.mirror is not None:
                return self._from_mirror(ladder, ladder.mirror)
            if Acceptance.PREVIOUS in self._choices and rebuilt and self._may_go_on(rebuilt):
                return self._from_earlier(ladder, rebuilt)
            return self._findings(error, ladder, rebuilt)
        except TidegateError as problem:
            return (Check(self._name, "fail", problem.problem, problem.remedy),)

    def _may_go_on(self, rebuilt: _Rebuilt) -> bool:
        """Whether rows cannot come twice, or the user accepted that they may."""
        return not rebuilt.unknown or not self._source.doubles or Acceptance.DOUBLES in self._choices

    def _usable(self, state: Mapping[str, Any]) -> bool:
        """Whether the state can be decoded; one of a newer version raises."""
        try:
            self._source.tracker.decode(state)
        except StateError:
            # It is not lost: a newer program reads it, and going back to an older one would read rows again.
            if is_newer(state):
                raise
            return False
        return True

    def _rebuild(self, ladder: Ladder) -> _Rebuilt | None:
        """The newest usable state, with what later positions are known to have read."""
        base = ladder.base
        if base is None or base.winner is None:
            return None
        tracker = self._source.tracker
        state = tracker.decode(base.winner.state)
        commits = list(_since(ladder.rungs, base.version))
        carried = None
        if isinstance(tracker, Recoverable):
            # Documents of later commits may survive their states: what they covered is not read a second time.
            carried = tracker.carry_forward(self._source, state, [coverage for _, coverage in commits], self._clock())
        added = () if carried is None else tuple(version for version, _ in commits)
        unknown = tuple(range(max((base.version, *added)) + 1, ladder.version + 1))
        return _Rebuilt(base.winner, carried or state, added, unknown)

    def _from_mirror(self, ladder: Ladder, winner: Winner) -> tuple[Check, ...]:
        opened, after = self._go_on(ladder, winner, dict(winner.state))
        return (
            Check(self._name, "ok", f"continued from the mirror: {_outcome(opened, after)}"),
            *self._warnings(opened),
        )

    def _from_earlier(self, ladder: Ladder, rebuilt: _Rebuilt) -> tuple[Check, ...]:
        doubles = self._could_double(rebuilt)
        state = self._source.tracker.encode(rebuilt.state)
        opened, after = self._go_on(ladder, rebuilt.winner, state)
        gone_on = Check(self._name, "ok", f"continued from {self._basis(rebuilt)}: {_outcome(opened, after)}")
        return (gone_on, *doubles, *self._warnings(opened))

    def _go_on(self, ladder: Ladder, winner: Winner, state: Mapping[str, object]) -> tuple[Position, Position]:
        """Record ``state`` anew and replace its copies elsewhere."""
        opened = self._source.positions.open_rebuilt(ladder, winner, _stops(self._choices))
        return opened, self._source.for_edit().record_edit(opened, state, "recover")

    def _warnings(self, opened: Position) -> tuple[Check, ...]:
        return tuple(Check(f"{self._name} notice", "warn", text) for text in opened.warnings)

    def _findings(self, error: TidegateError, ladder: Ladder, rebuilt: _Rebuilt | None) -> tuple[Check, ...]:
        head = Check(self._name, "fail", error.problem, self._way_on(ladder, rebuilt))
        rungs = tuple(
            Check(f"{self._name} position {rung.version}", "ok" if rung.usable else "fail", rung.found)
            for rung in ladder.rungs
        )
        shown = Check(f"{self._name} mirror", "ok" if ladder.mirror else "warn", ladder.mirror_found)
        doubles = () if rebuilt is None else self._could_double(rebuilt)
        return (head, *rungs, shown, *doubles)

    def _way_on(self, ladder: Ladder, rebuilt: _Rebuilt | None) -> str:
        ways = ["put the documents back from a backup"]
        if ladder.mirror is not None:
            ways.append("`--accept mirror` continues from the state in the mirror, which is that of this position")
        if rebuilt is None:
            ways.append("no earlier state is left either: write into a new table_uri")
        elif not rebuilt.unknown:
            basis = self._basis(rebuilt)
            ways.append(f"`--accept previous` continues from {basis}; it loses nothing and doubles nothing")
        else:
            more = " --accept doubles" if self._source.doubles else ""
            then = "its rows will be in the table twice" if self._source.doubles else "its rows replace themselves"
            since = f"the next run reads again what {_positions(rebuilt.unknown)} read, and {then}"
            ways.append(f"`--accept previous{more}` continues from {self._basis(rebuilt)}; {since}")
        return "; or ".join(ways)

    def _basis(self, rebuilt: _Rebuilt) -> str:
        added = f" and what {_positions(rebuilt.added)} read" if rebuilt.added else ""
        brief = self._source.tracker.summary(rebuilt.state).brief
        stored = f" ({brief})" if brief else ""
        return f"the state of position {rebuilt.winner.parent.version}{stored}{added}"

    def _could_double(self, rebuilt: _Rebuilt) -> tuple[Check, ...]:
        """What the unknown positions may have read: whatever would be read next."""
        tracker = self._source.tracker
        if not rebuilt.unknown or not isinstance(tracker, Recoverable):
            return ()
        version = rebuilt.winner.parent.version
        text = tracker.read_next(self._source, rebuilt.state, version, self._clock())
        if text is None:
            return ()
        detail = f"{_positions(rebuilt.unknown)} cannot be proven; read again and possibly doubled: {text}"
        return (Check(f"{self._name} doubles", "warn", f"{detail}; nothing is left out"),)


def _since(rungs: Sequence[Rung], version: int) -> Iterator[tuple[int, tuple[Coverage, ...]]]:
    """What the commits after ``version`` read, as long as each is known to follow the one before; some move the source
    by several positions at once.
    """
    following = {rung.follows: rung for rung in rungs if rung.coverage is not None}
    while (rung := following.get(version)) is not None and rung.coverage is not None:
        version = rung.version
        yield version, rung.coverage


def _positions(versions: tuple[int, ...]) -> str:
    if len(versions) == 1:
        return f"position {versions[0]}"
    return f"positions {versions[0]} to {versions[-1]}"
