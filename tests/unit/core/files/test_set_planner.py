"""Planning with a set: what is not in it is read, what failed is tried again, and what it says about that."""

from __future__ import annotations

import json

from laws.world import NOW, SIZING, files, source
from tidegate.core.files.discovery import PathListing, Reason, Skipped
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.plan import FileSlice, GivenUp, Plan
from tidegate.core.files.planner import plan_set
from tidegate.core.files.state import Active, Failed, RecordsRead, SetState, Unfinished

OF = source(max_attempts=3, max_islands=2)


def plan(listing: PathListing, **unfinished: Unfinished) -> Plan:
    return plan_set("events", OF, SetState(Active("z"), files=unfinished), 4, listing, NOW, sizing=SIZING)


def slices(plan: Plan) -> list[FileSlice]:
    return [each for unit in plan.units for each in unit.slices]


def skipped(plan: Plan) -> dict[Reason, int]:
    return {each.reason: each.count for each in plan.skipped}


def test_every_listed_file_is_read_once_by_path() -> None:
    made = plan(PathListing(files("b", "a/z", "a/0", "b")))
    assert [each.path for each in slices(made)] == ["b", "a/0", "a/z"]
    assert (made.kind, made.version, made.late) == ("path-set", 4, ())


def test_unfinished_files_go_on_and_given_up_ones_wait() -> None:
    there = files("half", "tried")
    made = plan(PathListing(there), half=RecordsRead(7, 100, None, 2), tried=Failed(2, "bad", 100))
    assert slices(made) == [FileSlice("half", 100, None, 7, rounds=2), FileSlice("tried", 100, None, attempts=2)]
    made = plan(PathListing(there[1:]), tried=Failed(3, "bad", 100))
    assert (made.units, skipped(made), made.waits) == ((), {Reason.GIVEN_UP: 1}, True)
    assert made.given_up == (GivenUp(FileSlice("tried", 100, None, attempts=3), "failed 3 times: bad"),)
    assert slices(plan(PathListing((SourceFile("tried", 99),)), tried=Failed(3, "bad", 100))) == [
        FileSlice("tried", 99)
    ]


def test_a_file_that_changed_after_a_part_of_it_was_read_is_held_back() -> None:
    made = plan(PathListing((SourceFile("half", 99),)), half=RecordsRead(7, 100))
    assert (made.units, skipped(made)) == ((), {Reason.CHANGED: 1})
    assert made.given_up[0].slice == FileSlice("half", 99, None, 7, rounds=1)


def test_too_many_unfinished_files_hold_new_ones_back_and_nothing_else() -> None:
    made = plan(PathListing(files("a", "b", "new")), a=Failed(1, "bad", 100), b=Failed(3, "bad", 100))
    assert [each.path for each in slices(made)] == ["a"]
    assert skipped(made) == {Reason.GIVEN_UP: 1, Reason.TOO_MANY_FAILED: 1}
    assert made.waits
    assert any("2 others (max_islands)" in note for note in made.notes)


def test_a_removed_file_is_reported_and_leaves_the_state() -> None:
    made = plan(PathListing(()), gone=Failed(1, "bad", 100))
    assert skipped(made) == {Reason.GONE: 1}
    assert made.opens == SetState(Active("z"), last_update_ts=int(NOW.timestamp()))
    cut = plan(PathListing((), complete=False), gone=Failed(1, "bad", 100))
    assert (cut.skipped, cut.opens) == ((), None)
    assert plan(PathListing(files("new")), gone=Failed(1, "bad", 100)).opens is None


def test_a_file_that_changed_after_it_was_read_is_named() -> None:
    made = plan(PathListing((), (Skipped(Reason.READ, 5, ("r",)), Skipped(Reason.REWRITTEN, 2, ("x", "y")))))
    assert skipped(made) == {Reason.READ: 5, Reason.REWRITTEN: 2}
    (note,) = made.notes
    assert note.startswith("2 files changed after being read and are not read again, e.g. x;")
    assert not made.waits


def test_a_plan_says_what_the_listing_costs_and_when_a_watermark_would_do() -> None:
    (cost,) = plan(PathListing((), listed_keys=1234)).remarks
    assert "1,234 keys" in cost
    assert "use_watermark: true" in plan(PathListing((), sorts_in_time=True)).remarks[1]


def test_a_plan_is_read_back_as_it_was() -> None:
    made = plan(PathListing(()), gone=Failed(1, "bad", 100))
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made
