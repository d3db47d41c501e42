"""The commit protocol under every interleaving: the real OPEN, COMMIT and RESOLVE over the in-memory twin.

Two or three runs of one source, runs of two sources and foreign writers take turns at every access to
storage, from the creation of the table on; processes die, responses get lost, requests arrive late, the log
is unreadable for a while. After each log entry: every record that the position covers is in the table exactly
once, positions go up one by one, the winner's document is readable. ``TIDEGATE_MODEL_DEPTH=1`` (or more)
allows more switches between processes.
"""

from __future__ import annotations

import os

import pytest

from model.explorer import Run, explore, wander
from model.world import Scene
from tidegate.protocol import commit, memory
from tidegate.protocol import open as open_module
from tidegate.protocol.commit import NotThere, Outcome, commit_lost
from tidegate.protocol.documents import Parent
from tidegate.protocol.open import Winner, WinnerEvidence
from tidegate.protocol.table import Snapshot

DEEPER = int(os.environ.get("TIDEGATE_MODEL_DEPTH", "0"))
MANY = 1_000_000 if DEEPER else 6_000


@pytest.mark.parametrize(
    ("scene", "budgets"),
    [
        pytest.param(Scene(), {"switches": 3}, id="two runs"),
        pytest.param(Scene(), {"switches": 1, "crashes": 1}, id="two runs, one dies"),
        pytest.param(Scene(records=1), {"switches": 2, "crashes": 1}, id="two runs, one dies, more turns"),
        pytest.param(Scene(records=1), {"switches": 2, "faults": 1}, id="two runs, a response lost or late"),
        pytest.param(
            Scene(sources=("s",), records=1), {"crashes": 1, "faults": 2}, id="one run, two faults, one death"
        ),
        pytest.param(Scene(sources=("s", "s", "s"), records=1), {"switches": 2}, id="three runs"),
        pytest.param(Scene(sources=("s", "t"), records=1), {"switches": 3}, id="two sources create the table"),
        pytest.param(Scene(sources=("s", "t", "u"), records=1), {"switches": 2}, id="three sources side by side"),
        pytest.param(Scene(sources=("s+t", "s"), records=1), {"switches": 2}, id="one for two sources, one for one"),
        pytest.param(
            Scene(sources=("s+t", "s+t"), records=1), {"switches": 1, "crashes": 1}, id="two for two, one dies"
        ),
        pytest.param(Scene(sources=("s+t",), records=1), {"faults": 2}, id="two sources at once, two faults"),
        pytest.param(Scene(records=1, operations=("append", "add column")), {"switches": 2}, id="append, add column"),
        pytest.param(
            Scene(records=1, operations=("optimize", "append", "delete")),
            {"switches": 2},
            id="optimize, delete",
        ),
        pytest.param(Scene(how=("no rows",)), {"switches": 2}, id="states that move without rows"),
        pytest.param(
            Scene(records=1, how=("no rows", "append")), {"switches": 1, "faults": 1}, id="no rows, a response lost"
        ),
        pytest.param(Scene(how=("spark",)), {"switches": 2}, id="two runs by Spark"),
        pytest.param(Scene(records=1, how=("spark",)), {"switches": 1, "crashes": 1}, id="by Spark, one dies"),
        pytest.param(
            Scene(records=1, how=("spark", "append")), {"switches": 2, "faults": 1}, id="by Spark, a response lost"
        ),
        pytest.param(Scene(how=("replace", "append")), {"switches": 2}, id="rows are replaced beside an append"),
        pytest.param(Scene(how=("replace",), sources=("s", "t")), {"switches": 2}, id="two sources replace their rows"),
        pytest.param(
            Scene(how=("replace",), sources=("s",)), {"crashes": 1, "faults": 2}, id="replaced, two faults, one death"
        ),
        pytest.param(
            Scene(how=("replace",), sources=("s",), operations=("append", "optimize")),
            {"switches": 3},
            id="replaced beside a foreign writer",
        ),
    ],
)
def test_every_record_is_in_the_table_exactly_once_whatever_happens(scene: Scene, budgets: dict[str, int]) -> None:
    report = explore(scene, {**budgets, "switches": budgets.get("switches", 0) + DEEPER}, MANY)
    assert report.violation is None, f"{report.violation}, by the choices {report.choices}"
    assert report.complete, f"only {report.runs} runs were made"
    assert report.states > 100


def test_long_random_runs_of_many_writers_end_with_every_record_once() -> None:
    scene = Scene(records=4, sources=("s", "s", "s", "t"), operations=("append", "optimize", "add column", "delete"))
    report = wander(scene, {"crashes": 2, "faults": 3}, range(100 * (1 + 20 * DEEPER)))
    assert report.violation is None, f"{report.violation}, by the choices {report.choices}"


def test_long_random_runs_that_write_in_every_way_end_with_every_record_once() -> None:
    how = ("append", "spark", "replace", "no rows")
    scene = Scene(records=4, sources=("s", "s", "s", "t"), how=how, operations=("append", "optimize"))
    report = wander(scene, {"crashes": 2, "faults": 3}, range(100 * (1 + 20 * DEEPER)))
    assert report.violation is None, f"{report.violation}, by the choices {report.choices}"


class TestTheModelCanFail:
    """Each safeguard is taken away in turn; the exploration must notice."""

    def test_without_the_fresh_look_at_the_position(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(commit.Attempt, "_is_unmoved", lambda self, snapshot: True)
        assert explore(Scene(), {"switches": 3}, MANY).violation is not None

    # Not by Spark: Delta itself skips a transaction that the table has seen.
    @pytest.mark.parametrize("how", ["replace", "no rows"])
    def test_without_the_fresh_look_before_any_other_write(self, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(commit.Attempt, "_is_unmoved", lambda self, snapshot: True)
        assert explore(Scene(how=(how,)), {"switches": 3}, MANY).violation is not None

    def test_without_the_look_at_every_source_of_a_commit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def only_the_lead(self: commit.Attempt, snapshot: Snapshot | None) -> bool:
            return self.site.position_in(snapshot) == self.lead.opened.version

        monkeypatch.setattr(commit.Attempt, "_is_unmoved", only_the_lead)
        assert explore(Scene(sources=("s+t", "t"), records=1), {"switches": 3}, MANY).violation is not None

    def test_without_the_guard_against_a_second_creator(self) -> None:
        assert explore(Scene(guarded=False), {"switches": 3}, MANY).violation is not None

    def test_without_the_conflict_of_the_same_application(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory, "in_the_way", lambda ours, theirs: None)
        assert explore(Scene(), {"switches": 3}, MANY).violation is not None

    def test_when_an_error_is_taken_for_a_failure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        believed = commit.Attempt._resolve

        def believe(self: commit.Attempt) -> object:
            if self._problem is not None:
                raise commit_lost(self.site, self.lead.opened.version, "an error")
            return believed(self)

        monkeypatch.setattr(commit.Attempt, "_resolve", believe)
        assert explore(Scene(records=1), {"switches": 1, "faults": 1}, MANY).violation is not None

    def test_when_a_rivals_document_is_taken_for_the_winners(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def greatest(site: object, entry: object, tag: object, evidence: WinnerEvidence) -> Winner:
            other = evidence.stored[max(evidence.stored)]
            assert other.document is not None
            parent = Parent(other.document.version, other.attempt, other.sha256)
            return Winner(parent, other.document.state, None, other.document, None, 0, 0, 0, False)

        monkeypatch.setattr(open_module, "_from_tag", greatest)
        assert explore(Scene(), {"switches": 2, "crashes": 1}, MANY).violation is not None


def test_a_resolve_that_finds_nothing_costs_time_but_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fresh look before each attempt and OPEN are enough for exactly once; RESOLVE spares the repeated
    work.
    """

    def blind(*args: object) -> Outcome:
        return NotThere()

    monkeypatch.setattr(commit, "resolve", blind)
    report = explore(Scene(records=1, sources=("s",)), {"faults": 2}, MANY)
    assert report.violation is None


def test_a_run_is_repeated_exactly_by_its_choices() -> None:
    first = Run((0, 1), {"switches": 3}, set())
    Scene()(first)
    first.execute()
    again = Run(first.taken, {"switches": 3}, set())
    Scene()(again)
    again.execute()
    assert again.taken == first.taken
    assert [actor.history for actor in again.actors] == [actor.history for actor in first.actors]
