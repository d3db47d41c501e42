"""Documents, notes, marks and mirrors: what is written is read back, and what is damaged is noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.errors import raises
from tidegate.errors import StateError
from tidegate.protocol import documents
from tidegate.protocol.change import Coverage, DataFile, Identity, SourceKey
from tidegate.protocol.documents import (
    Document,
    Mirror,
    Name,
    Parent,
    Won,
    parse_name,
    read_mirror,
    read_recorded,
    write_mirror,
)
from tidegate.specs.locations import Location
from tidegate.storage.memory import forget
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store

KEY = SourceKey("events", "asia")
IDENTITY = Identity("path", "s3://landing/asia", "*.gz")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
states = st.dictionaries(st.text(max_size=10), json_values, max_size=5)


def document(version: int = 2, attempt: str = "a", state: Any = None) -> Document:
    return Document(
        key=KEY,
        identity=IDENTITY,
        version=version,
        attempt=attempt,
        parent=Parent(version - 1, "before", "00") if version > 1 else None,
        table_id="t",
        delta_version=7,
        state={"next": version} if state is None else state,
        coverage=(Coverage("date=1/f.gz", 10, '"e"', 0, 5, False), Coverage("g.gz", 1, None, 2, 3, True)),
        data_files=(DataFile("date=1/x.parquet", 99, 5, {"date": "1", "hour": None}),),
        rows=5,
        written_at="2026-01-28T00:00:00+00:00",
        dead_letter_files=(DataFile("d.parquet", 9, 1, {}),),
        debts=({"kind": "letters", "path": "d.parquet"},),
    )


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    name = uuid4().hex
    yield open_store(Location(f"memory://{name}/table"))
    forget(name)


@given(states)
def test_a_document_is_read_back_as_it_was_written(state: dict[str, Any]) -> None:
    written = document(state=state)
    assert Document.from_bytes(written.to_bytes()) == written


def test_the_same_document_has_one_hash() -> None:
    one, two = document(state={"a": 1, "b": 2}), document(state={"b": 2, "a": 1})
    assert documents.digest(one.to_bytes()) == documents.digest(two.to_bytes())
    assert documents.digest(one.to_bytes()) != documents.digest(document(3).to_bytes())


def test_names_carry_version_and_attempt_and_sort_by_version() -> None:
    assert KEY.document(2, "x-y") == "_tidegate/events/asia/00000000000000000002-x-y.json"
    assert parse_name(KEY.document(2, "x-y")) == Name(2, "x-y", "json")
    assert parse_name(KEY.won(12, "x-y")) == Name(12, "x-y", "won")
    assert KEY.document(9, "z") < KEY.document(10, "a")


@pytest.mark.parametrize(
    "path",
    [
        KEY.cold_start,
        f"{KEY.directory}/{2:020d}-.json",
        f"{KEY.directory}/2-a.json",
        f"{KEY.directory}/{2:020d}-a.txt",
        f"{KEY.directory}/{2:020d}_a.json",
        f"{KEY.directory}/٢{2:019d}-a.json",
    ],
)
def test_other_names_are_no_documents(path: str) -> None:
    assert parse_name(path) is None


def test_names_are_listed_from_a_version_on(store: ObjectStore) -> None:
    for version in (1, 2, 10):
        store.put(KEY.document(version, "a"), b"")
    store.put(KEY.won(10, "a"), b"")
    store.put(KEY.cold_start, b"")
    store.put(SourceKey("events", "asia2").document(3, "b"), b"")
    assert sorted((name.version, name.ending) for name in documents.names(store, KEY, 2)) == [
        (2, "json"),
        (10, "json"),
        (10, "won"),
    ]
    assert {name.version for name in documents.names(store, KEY)} == {1, 2, 10}


@pytest.mark.parametrize("content", [b"", b"nonsense", b"{}", b"[1]", b'"text"', b'{"schema_version":1}', b"\xff\xfe"])
def test_a_damaged_document_is_found_and_has_no_content(store: ObjectStore, content: bytes) -> None:
    store.put(KEY.document(1, "a"), content)
    found = documents.read(store, KEY, 1, "a")
    assert found is not None
    assert found.document is None
    assert documents.read(store, KEY, 1, "b") is None


@pytest.mark.parametrize("other", [document(3), document(2, "b")])
def test_a_document_under_a_foreign_name_is_not_believed(store: ObjectStore, other: Document) -> None:
    store.put(KEY.document(2, "a"), other.to_bytes())
    found = documents.read(store, KEY, 2, "a")
    assert found is not None
    assert found.document is None


def test_a_newer_document_is_refused_and_not_taken_for_damaged(store: ObjectStore) -> None:
    store.put(KEY.document(2, "a"), json.dumps({"schema_version": 2, "all": "different"}).encode())
    with raises(StateError, "schema_version 2", "1") as refused:
        documents.read(store, KEY, 2, "a")
    assert "upgrade" in refused.value.remedy


def test_a_note_is_read_back_and_a_damaged_one_says_nothing() -> None:
    note = Won(3, "a", "00", 9, "t", 11)
    assert Won.from_bytes(note.to_bytes()) == note
    for content in (b"", b"{}", b"null", b'{"version": "x"}'):
        assert Won.from_bytes(content) is None


@given(states)
def test_a_tag_brings_its_state_back_from_the_log(state: dict[str, Any]) -> None:
    text = documents.user_metadata([documents.new_tag(document(), "00", state)])
    (found,) = documents.parse_tags(text)
    assert (found.key, found.identity, found.version, found.attempt, found.sha256) == (KEY, IDENTITY, 2, "a", "00")
    assert found.state() == state


@given(states)
def test_a_tag_has_nothing_that_spark_replaces(state: dict[str, Any]) -> None:
    """Spark gets it as a setting, and replaces ``${…}`` in settings."""
    hostile = {**state, "${env:HOME}": "$$ \\${system:line.separator} ${a}", "debts": ["$"]}
    text = documents.user_metadata([documents.new_tag(document(), "00", hostile)])
    assert "$" not in text
    assert documents.parse_tags(text)[0].state() == hostile


def test_a_tag_of_an_earlier_version_is_read_as_it_is() -> None:
    text = documents.user_metadata([documents.new_tag(document(), "00", {"x": "${a}"})]).replace("\\u0024", "$")
    assert "${a}" in text
    assert documents.parse_tags(text)[0].state() == {"x": "${a}"}


def test_large_states_are_compressed() -> None:
    small, large = {"x": "a" * 100}, {"x": "a" * 10_000}
    assert "state" in documents.new_tag(document(), "00", small).packed
    packed = documents.new_tag(document(), "00", large)
    assert "state" not in packed.packed
    assert len(documents.user_metadata([packed])) < 1000
    assert packed.state() == large


def test_several_sources_may_be_tagged_in_one_commit() -> None:
    other = SourceKey("events", "europe")
    pair = [
        documents.new_tag(document(), "0", {}),
        documents.new_tag(replace(document(9, "b"), key=other), "1", {}),
    ]
    found = documents.parse_tags(documents.user_metadata(pair))
    assert [(tag.key, tag.version) for tag in found] == [(KEY, 2), (other, 9)]


@pytest.mark.parametrize(
    "text",
    [
        None,
        5,
        "",
        "a note by hand",
        '{"other": 1}',
        '{"tidegate": 5}',
        '{"tidegate": [{}]}',
        '{"tidegate": [1]}',
        '"tidegate"',
    ],
)
def test_what_others_write_into_the_log_is_no_tag(text: object) -> None:
    assert documents.parse_tags(text) == ()


@pytest.mark.parametrize("packed", [{}, {"state": 5}, {"state_zlib": "!"}, {"state_zlib": "aGFsbG8="}])
def test_a_tag_without_a_readable_state_stops(packed: dict[str, Any]) -> None:
    with raises(StateError, "events/asia", "position 2", "commit tag", "state"):
        documents.CommitTag(KEY, 2, "a", "00", None, packed).state()


def test_a_tag_of_a_newer_version_stops() -> None:
    with raises(StateError, "events/asia", "position 2", "commit tag", "schema_version 9"):
        documents.CommitTag(KEY, 2, "a", "00", None, {"schema_version": 9, "state": {}}).state()


def mirror(version: int = 2, key: SourceKey = KEY) -> Mirror:
    state = {"schema_version": 1, "watermark": {"state": "Active", "value": "date=1/f"}, "last_update_ts": 5}
    return Mirror(key, version, "a", 9, 7, state, 3, "2026-01-28T00:00:00+00:00")


def test_the_mirror_shows_the_fields_of_the_state_on_top(store: ObjectStore) -> None:
    write_mirror(store, mirror())
    shown = json.loads(store.get("_tidegate/events_asia_checkpoint.json"))
    assert shown["watermark"] == {"state": "Active", "value": "date=1/f"}
    assert (shown["schema_version"], shown["last_update_ts"], shown["delta_version"]) == (1, 5, 7)
    assert shown["tidegate"]["version"] == 2
    assert read_mirror(store, KEY) == mirror()


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"tidegate": {}}', b'{"tidegate": 5}'])
def test_a_damaged_mirror_shows_nothing(store: ObjectStore, content: bytes) -> None:
    store.put(KEY.mirror, content)
    assert read_mirror(store, KEY) is None


class TestWhatStatusShows:
    def test_nothing_before_anything_was_recorded(self, store: ObjectStore) -> None:
        store.put(KEY.document(1, "a"), document(1).to_bytes())
        assert read_recorded(store, KEY) is None

    def test_the_mirror_when_it_is_the_newest(self, store: ObjectStore) -> None:
        write_mirror(store, mirror(2))
        store.put(KEY.document(2, "a"), document(2).to_bytes())
        store.put(KEY.won(2, "a"), Won(2, "a", "00", 9, "t", 9).to_bytes())
        shown = read_recorded(store, KEY)
        assert shown is not None
        assert (shown.version, shown.polls, shown.shown_by) == (2, 3, "mirror")

    def test_a_newer_winner_when_the_mirror_stayed_behind(self, store: ObjectStore) -> None:
        write_mirror(store, mirror(2))
        for version in (3, 4):
            store.put(KEY.document(version, "a"), document(version).to_bytes())
        store.put(KEY.won(3, "a"), Won(3, "a", "00", 12, "t", 12).to_bytes())
        shown = read_recorded(store, KEY)
        assert shown is not None
        assert (shown.version, shown.state, shown.table_version, shown.shown_by) == (3, {"next": 3}, 12, "document")

    def test_the_winner_below_one_that_is_damaged(self, store: ObjectStore) -> None:
        store.put(KEY.document(1, "a"), document(1).to_bytes())
        store.put(KEY.won(1, "a"), b"")
        store.put(KEY.document(2, "a"), b"damaged")
        store.put(KEY.won(2, "a"), b"")
        shown = read_recorded(store, KEY)
        assert shown is not None
        assert (shown.version, shown.table_version) == (1, -1)


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "a\nb"])
def test_a_name_that_would_leave_its_place_is_refused(name: str) -> None:
    with raises(ValueError, "name of a pipeline"):
        SourceKey(name, "s")
    with raises(ValueError, "name of a source"):
        SourceKey("p", name)


def test_an_identity_names_what_changed() -> None:
    changed = Identity("path", "s3://landing/asia", "*.json")
    assert changed.differences(IDENTITY) == ("pattern was '*.gz' and is now '*.json'",)
    assert IDENTITY.differences(IDENTITY) == ()
    assert Identity.from_json(IDENTITY.to_json()) == IDENTITY
