"""What stops a source of columns or of work units, and going on past it once a person has decided to.

Without an acceptance this only explains. With one, the position is recorded anew by an empty commit; rows are never
touched. Going on from an earlier watermark reads again what was read since: harmless where the load strategy replaces
rows by their keys, doubled rows where it appends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tidegate.errors import StateError, TidegateError
from tidegate.reports import Check
from tidegate.runs.column_place import ColumnPlace, decoded
from tidegate.runs.fencing import OtherPlace
from tidegate.runs.recovering import Choice, in_order, record, rung_check, stops, told
from tidegate.runs.unit_place import UnitPlace
from tidegate.runs.unit_place import decoded as decoded_units
from tidegate.state.ladder import Ladder
from tidegate.state.winner import StateUnreadable, Winner
from tidegate.unit_specs import Replace
from tidegate.watermarks.column_codec import decode, is_newer
from tidegate.watermarks.column_state import ColumnState, watermark_text
from tidegate.watermarks.unit_codec import decode as decode_units
from tidegate.watermarks.unit_state import watermark_text as unit_text


def recover_columns(place: OtherPlace, accept: Collection[str] = ()) -> tuple[Check, ...]:
    """Whether the position of a source can be opened; past the stops in ``accept``, it is recorded anew."""
    choices = frozenset(Choice(each) for each in accept)
    name = str(place.key)
    try:
        opened = place.open(read_only=True)
    except StateUnreadable as error:
        return _from_ladder(place, choices, error)
    except TidegateError as error:
        if not choices & {Choice.IDENTITY, Choice.RESTORE}:
            return (Check(name, "fail", error.problem, error.remedy),)
        return (_accepted(place, choices),)
    return (in_order(opened),)


def _accepted(place: OtherPlace, choices: frozenset[Choice]) -> Check:
    name = str(place.key)
    try:
        opened = place.positions.open(stops(choices))
        if opened.state is None:
            return Check(name, "fail", "there is no recorded state to go on from", "see the message of `tidegate run`")
        place.state_of(opened)
        after = record(place.positions, opened, opened.state)
    except TidegateError as error:
        return Check(name, "fail", error.problem, error.remedy)
    accepted = ", ".join(each for each in Choice if each in choices)
    return Check(name, "ok", f"accepted ({accepted}): {told(opened, after)}")


def _from_ladder(place: OtherPlace, choices: frozenset[Choice], error: TidegateError) -> tuple[Check, ...]:
    """What is left of a state that cannot be read, and going on from it."""
    name = str(place.key)
    try:
        ladder = place.positions.ladder(_usable_by(decode_units if isinstance(place, UnitPlace) else decode))
        earlier = None if ladder.base is None else ladder.base.winner
        doubles = _doubles(place)
        if Choice.MIRROR in choices and ladder.mirror is not None:
            return (_gone_on(place, ladder, ladder.mirror, choices, "the mirror"),)
        if Choice.PREVIOUS in choices and earlier and (not doubles or Choice.DOUBLES in choices):
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
    return str(watermark_text(decoded(winner.state)))


def _gone_on(place: OtherPlace, ladder: Ladder, winner: Winner, choices: frozenset[Choice], basis: str) -> Check:
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
