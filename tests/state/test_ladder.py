"""The rungs below OPEN, against real Delta tables: what is left when documents, notes or log entries are lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state.lake import IDENTITY, Lake, following, ingest
from support.changes import moved
from support.errors import check_names, raises
from support.long_runs import examples
from tidegate.errors import StateError
from tidegate.protocol import documents
from tidegate.protocol.change import Identity, SourceKey, State
from tidegate.protocol.open import Accept, StateUnreadable
from tidegate.protocol.recovery import Ladder


@pytest.fixture
def filled(tmp_path: Path) -> Lake:
    """A table at position 3 of source ``s``, with five records."""
    lake = Lake.local(tmp_path / "table")
    positions = lake.positions()
    opened = positions.open()
    for start, end in ((0, 2), (2, 3), (3, 5)):
        opened = positions.commit(opened, lake.change(start, end))
    return lake


def one(lake: Lake, version: int, ending: str = "json") -> str:
    """The path of the only document, or note, of a position."""
    (path,) = [
        item.path
        for item in lake.store.list("_tidegate/p/s")
        if f"/{version:020d}-" in item.path and item.path.endswith(f".{ending}")
    ]
    return path


def foreign(lake: Lake, count: int = 1) -> None:
    for number in range(count):
        write_deltalake(lake.location.uri, pa.table({"id": [number], "source": ["other"]}), mode="append")


def cleaned(lake: Lake) -> None:
    """Make a checkpoint and remove every entry up to it, as clean-up does after the log's retention."""
    table = lake.table()
    table.create_checkpoint()
    foreign(lake)
    for version in range(table.version() + 1):
        lake.store.delete(f"_delta_log/{version:020d}.json")


def usable(state: State) -> bool:
    return "next" in state


def climbed(lake: Lake, **settings: Any) -> Ladder:
    return lake.positions(**settings).ladder(usable)


def go_on(lake: Lake, ladder: Ladder) -> None:
    """Record the base of the ladder anew."""
    positions = lake.positions()
    assert ladder.base is not None
    assert ladder.base.winner is not None
    opened = positions.open_rebuilt(ladder, ladder.base.winner)
    state = ladder.base.winner.state
    positions.commit(opened, moved(state, action="recover"))


class TestOnePositionIsReadWhateverIsLeftOfIt:
    """Document, note and entry of the newest position: any of them may be lost without reading anything twice."""

    @pytest.mark.parametrize("document", ["whole", "truncated", "missing", "of another source"])
    @pytest.mark.parametrize("note", ["whole", "damaged", "missing", "of another commit"])
    @pytest.mark.parametrize("loser", [False, True])
    def test_while_its_log_entry_is_there(self, filled: Lake, document: str, note: str, loser: bool) -> None:
        if loser:
            self.lose_beside(filled)
        spoil_document(filled, document)
        spoil_note(filled, note)
        opened = filled.positions().open()
        assert (opened.version, opened.state) == (3, {"next": 5})
        assert opened.from_log == (document != "whole")
        assert any("late window, which starts empty" in text for text in opened.warnings) == (document != "whole")
        ingest(filled, filled.positions(), 7)
        assert filled.ids() == list(range(7))

    @pytest.mark.parametrize("note", ["whole", "damaged"])
    @pytest.mark.parametrize("loser", [False, True])
    def test_and_without_it_as_long_as_document_and_note_are_there(self, filled: Lake, note: str, loser: bool) -> None:
        if loser:
            self.lose_beside(filled)
        spoil_note(filled, note)
        foreign(filled, 2)
        cleaned(filled)
        opened = filled.positions().open()
        assert (opened.version, opened.state, opened.from_log) == (3, {"next": 5}, False)
        assert "were cleaned up: so Tidegate cannot see whether the table was restored in between" in opened.warnings[0]
        ingest(filled, filled.positions(), 7)
        assert filled.ids() == list(range(7))

    def test_a_readable_note_beside_a_damaged_one_names_the_winner(self, filled: Lake) -> None:
        filled.store.put(f"_tidegate/p/s/{3:020d}-other.won", b"{")
        cleaned(filled)
        assert filled.positions().open().state == {"next": 5}

    def test_a_note_that_points_nowhere_is_no_reason_to_give_up_the_log(self, filled: Lake) -> None:
        note = one(filled, 3, "won")
        data = json.loads(filled.store.get(note))
        filled.store.put(note, json.dumps({**data, "table_version": 2_000}).encode())
        filled.store.delete(one(filled, 3))
        assert filled.positions().open().state == {"next": 5}

    @staticmethod
    def lose_beside(lake: Lake) -> None:
        """A document of an attempt that wanted the same position and did not get it."""
        document = json.loads(lake.store.get(one(lake, 3)))
        document |= {"attempt": "11111111-loser", "state": {"next": 99}}
        lake.store.put(f"_tidegate/p/s/{3:020d}-11111111-loser.json", json.dumps(document).encode())


def spoil_document(lake: Lake, how: str) -> None:
    path = next(
        item.path
        for item in lake.store.list("_tidegate/p/s")
        if f"/{3:020d}-" in item.path and item.path.endswith(".json") and "loser" not in item.path
    )
    content = lake.store.get(path)
    match how:
        case "truncated":
            lake.store.put(path, content[: len(content) // 2])
        case "missing":
            lake.store.delete(path)
        case "of another source":
            lake.store.put(path, json.dumps({**json.loads(content), "source": "t"}).encode())


def spoil_note(lake: Lake, how: str) -> None:
    path = one(lake, 3, "won")
    match how:
        case "damaged":
            lake.store.put(path, b'{"version": 3')
        case "missing":
            lake.store.delete(path)
        case "of another commit":
            lake.store.put(path, lake.store.get(one(lake, 2, "won")))


def lost_document(lake: Lake) -> None:
    lake.store.delete(one(lake, 3))


def damaged_document(lake: Lake) -> None:
    lake.store.put(one(lake, 3), b"{")


def damaged_mark(lake: Lake) -> None:
    """The state inside the newest log entry cannot be unpacked any more, and the document is gone."""
    lost_document(lake)
    entry = lake.path / "_delta_log" / f"{2:020d}.json"
    lines = []
    for line in entry.read_text().splitlines():
        action = json.loads(line)
        if "commitInfo" in action:
            data = json.loads(action["commitInfo"]["userMetadata"])
            data["tidegate"][0].pop("state")
            data["tidegate"][0]["state_zlib"] = "no zlib"
            action["commitInfo"]["userMetadata"] = json.dumps(data)
        lines.append(json.dumps(action))
    entry.write_text("\n".join(lines) + "\n")


class TestAnEarlierPosition:
    @pytest.mark.parametrize("loss", [lost_document, damaged_document])
    def test_is_found_when_the_newest_is_gone_with_its_log_entry(
        self, filled: Lake, loss: Callable[[Lake], None]
    ) -> None:
        loss(filled)
        cleaned(filled)
        with raises(StateUnreadable, "p/s", "position 3", ".won") as stop:
            filled.positions().open()
        assert "`tidegate recover`" in stop.value.remedy
        ladder = climbed(filled)
        assert [(rung.version, rung.usable) for rung in ladder.rungs] == [(3, False), (2, True)]
        assert ladder.base is not None
        assert ladder.base.winner is not None
        assert ladder.base.winner.state == {"next": 3}

    def test_is_found_when_the_state_in_the_log_is_damaged(self, filled: Lake) -> None:
        damaged_mark(filled)
        with raises(StateUnreadable, "commit tag", "p/s", "position 3"):
            filled.positions().open()
        ladder = climbed(filled)
        assert ladder.rungs[0].found.endswith("the state in the log is damaged too")
        assert ladder.base is not None
        assert ladder.base.version == 2

    def test_is_read_from_the_log_when_all_documents_are_gone(self, filled: Lake) -> None:
        damaged_mark(filled)
        shutil.rmtree(filled.path / "_tidegate")
        ladder = climbed(filled)
        assert ladder.base is not None
        assert (ladder.base.version, ladder.base.found.count("no document")) == (2, 1)
        assert "from the log" in ladder.base.found

    def test_recorded_anew_is_the_next_position_with_the_gap_in_its_parent(self, filled: Lake) -> None:
        lost_document(filled)
        cleaned(filled)
        go_on(filled, climbed(filled))
        opened = filled.positions().open()
        assert (opened.version, opened.state) == (4, {"next": 3})
        document = json.loads(filled.store.get(one(filled, 4)))
        assert (document["action"], document["parent"]["version"]) == ("recover", 2)

    def test_does_not_get_past_a_restore_or_another_source(self, filled: Lake) -> None:
        damaged_mark(filled)
        ladder = climbed(filled)
        assert ladder.base is not None
        assert ladder.base.winner is not None
        elsewhere = filled.positions(identity=Identity("path", "file:///elsewhere"))
        with raises(StateError, "p/s", "source_uri", "'file:///landing/events'", "'file:///elsewhere'"):
            elsewhere.open_rebuilt(ladder, ladder.base.winner)
        filled.table().restore(1)
        restored = climbed(filled)
        with raises(StateError, "p/s", "version 3", "tidegate recover --accept restore"):
            filled.positions().open_rebuilt(restored, ladder.base.winner)
        opened = filled.positions().open_rebuilt(restored, ladder.base.winner, [Accept.RESTORE])
        assert opened.version == 3

    def test_looking_writes_nothing(self, filled: Lake) -> None:
        lost_document(filled)
        cleaned(filled)
        before = {item.path: item.etag for item in filled.store.list()}
        climbed(filled)
        assert {item.path: item.etag for item in filled.store.list()} == before


class TestWithoutANote:
    def test_the_document_whose_files_are_in_the_table_is_the_winners(self, filled: Lake) -> None:
        TestOnePositionIsReadWhateverIsLeftOfIt.lose_beside(filled)
        spoil_loser_files(filled)
        filled.store.delete(one(filled, 3, "won"))
        cleaned(filled)
        with pytest.raises(StateUnreadable):
            filled.positions().open()
        ladder = climbed(filled)
        assert ladder.base is not None
        assert ladder.base.version == 3
        go_on(filled, ladder)
        ingest(filled, filled.positions(), 7)
        assert filled.ids() == list(range(7))

    def test_a_document_whose_files_were_compacted_away_proves_nothing(self, filled: Lake) -> None:
        filled.store.delete(one(filled, 3, "won"))
        filled.table().optimize.compact()
        cleaned(filled)
        ladder = climbed(filled)
        assert [(rung.version, rung.usable) for rung in ladder.rungs] == [(3, False), (2, True)]
        assert "does not prove who won" in ladder.rungs[0].found


def spoil_loser_files(lake: Lake) -> None:
    """The loser wrote files of its own, which no commit names."""
    path = f"_tidegate/p/s/{3:020d}-11111111-loser.json"
    document = json.loads(lake.store.get(path))
    document["data_files"][0]["path"] = "never-committed.parquet"
    lake.store.put(path, json.dumps(document).encode())


class TestTheMirror:
    def test_shows_the_state_of_the_newest_position(self, filled: Lake) -> None:
        lost_document(filled)
        cleaned(filled)
        ladder = climbed(filled)
        assert ladder.mirror is not None
        assert ladder.mirror.state == {"next": 5}

    @pytest.mark.parametrize(
        ("content", "found"),
        [
            (b"{", "missing or damaged"),
            (None, "missing or damaged"),
            ({"version": 2}, "shows position 2, not 3"),
            ({"attempt": "another"}, "and the note names"),
        ],
    )
    def test_is_not_taken_when_it_is_damaged_or_about_something_else(
        self, filled: Lake, content: bytes | dict[str, Any] | None, found: str
    ) -> None:
        lost_document(filled)
        cleaned(filled)
        path = "_tidegate/p_s_checkpoint.json"
        shown = json.loads(filled.store.get(path))
        if isinstance(content, dict):
            filled.store.put(path, json.dumps({**shown, "tidegate": {**shown["tidegate"], **content}}).encode())
        elif content is None:
            filled.store.delete(path)
        else:
            filled.store.put(path, content)
        ladder = climbed(filled)
        assert ladder.mirror is None
        assert found in ladder.mirror_found


class TestNewerState:
    def test_in_the_log_it_stops_when_the_document_is_gone(self, filled: Lake) -> None:
        lost_document(filled)
        entry = filled.path / "_delta_log" / f"{2:020d}.json"
        entry.write_text(entry.read_text().replace('\\"schema_version\\":1', '\\"schema_version\\":9'))
        with raises(StateError, "commit tag", "p/s", "position 3", "schema_version 9", "upgrade"):
            filled.positions().open()
        with raises(StateError, "commit tag", "p/s", "position 3", "schema_version 9"):
            climbed(filled)

    def test_in_a_document_it_stops_the_ladder_too(self, filled: Lake) -> None:
        path = one(filled, 3)
        filled.store.put(path, json.dumps({**json.loads(filled.store.get(path)), "schema_version": 9}).encode())
        cleaned(filled)
        with raises(StateError, "p/s", "schema_version 9", "upgrade"):
            climbed(filled)


class TestOthersAtTheTable:
    def test_optimize_vacuum_other_pipelines_and_foreign_commits_change_nothing(self, filled: Lake) -> None:
        other = filled.positions("t", identity=Identity("path", "file:///landing/other"))
        other.commit(other.open(), filled.change(0, 3, "t"))
        foreign(filled, 2)
        table = filled.table()
        table.optimize.compact()
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
        opened = filled.positions().open()
        assert (opened.version, opened.state, opened.from_log, opened.warnings) == (3, {"next": 5}, False, ())
        ingest(filled, filled.positions(), 7)
        assert (filled.ids(), filled.ids("t")) == (list(range(7)), [0, 1, 2])

    def test_a_full_vacuum_leaves_documents_notes_and_mirror(self, filled: Lake) -> None:
        before = {item.path for item in filled.store.list("_tidegate")}
        filled.table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
        assert {item.path for item in filled.store.list("_tidegate")} == before

    def test_the_search_passes_over_others_marks(self, filled: Lake) -> None:
        other = filled.positions("t", identity=Identity("path", "file:///landing/other"))
        other.commit(other.open(), filled.change(0, 3, "t"))
        shutil.rmtree(filled.path / "_tidegate")
        assert filled.positions().open().state == {"next": 5}


class TestTheLimitOfTheSearch:
    def test_reached_the_error_names_the_key_and_that_older_entries_are_there(self, filled: Lake) -> None:
        shutil.rmtree(filled.path / "_tidegate")
        foreign(filled, 5)
        with raises(StateUnreadable, "p/s", "position 3", "recovery.max_commits is 3") as stop:
            filled.positions(search_commits=3).open()
        check_names(stop.value.remedy, "recovery.max_commits", 3)

    def test_is_not_blamed_when_the_log_was_cleaned_up(self, filled: Lake) -> None:
        shutil.rmtree(filled.path / "_tidegate")
        cleaned(filled)
        with pytest.raises(StateUnreadable) as stop:
            filled.positions(search_commits=3).open()
        assert "max_commits" not in str(stop.value)

    def test_does_not_bound_what_recover_looks_at(self, filled: Lake) -> None:
        shutil.rmtree(filled.path / "_tidegate")
        foreign(filled, 5)
        ladder = climbed(filled, search_commits=3)
        assert ladder.base is not None
        assert ladder.base.version == 3
        go_on(filled, ladder)
        assert following(filled.positions(search_commits=1).open()) == 5


def test_a_source_without_a_position_has_no_ladder(filled: Lake) -> None:
    with raises(StateError, "p/t", "no position", "tidegate run"):
        filled.positions("t").ladder(usable)


def test_a_large_state_is_damaged_when_it_does_not_unpack() -> None:
    document = documents.Document(
        SourceKey("p", "s"), IDENTITY, 1, "a", None, None, -1, {}, (), (), 0, "2026-01-28T00:00:00+00:00"
    )
    tag = documents.new_tag(document, "h", {"next": "x" * 5000})
    assert tag.state() == {"next": "x" * 5000}
    broken = documents.CommitTag(tag.key, 1, "a", "h", IDENTITY, {"schema_version": 1, "state_zlib": "AAAA"})
    with raises(documents.DamagedCommitTag, "commit tag", "p/s", "position 1"):
        broken.state()


FATES = ("kept", "kept", "removed", "truncated", "swapped")


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(FATES), min_size=7, max_size=7), st.booleans(), st.integers(0, 1_000_000))
def test_whatever_is_lost_a_state_is_the_right_one_or_there_is_none(
    filled: Lake, fates: list[str], clean: bool, number: int
) -> None:
    copy = Lake.local(filled.path.parent / f"copy-{number}")
    shutil.rmtree(copy.path, ignore_errors=True)
    shutil.copytree(filled.path, copy.path)
    paths = [item.path for item in copy.store.list("_tidegate")]
    assert len(paths) == len(fates)
    for path, other, fate in zip(paths, reversed(paths), fates, strict=True):
        suffer(copy, path, other, fate)
    if clean:
        cleaned(copy)
    states = {1: {"next": 2}, 2: {"next": 3}, 3: {"next": 5}}
    try:
        opened = copy.positions().open(read_only=True)
        assert (opened.version, opened.state) == (3, states[3])
    except StateUnreadable:
        ladder = climbed(copy)
        assert ladder.mirror is None or ladder.mirror.state == states[3]
        for rung in ladder.rungs:
            assert rung.winner is None or rung.winner.state == states[rung.version]
    finally:
        shutil.rmtree(copy.path)


def suffer(lake: Lake, path: str, other: str, fate: str) -> None:
    """What can befall one object; swapped, it holds what another one held."""
    content = (lake.path.parent / "table" / (other if fate == "swapped" else path)).read_bytes()
    match fate:
        case "removed":
            lake.store.delete(path)
        case "truncated":
            lake.store.put(path, content[:-20])
        case "swapped":
            lake.store.put(path, content)
