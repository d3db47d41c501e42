"""OPEN against real Delta tables: what it finds, and every reason to stop."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from state.lake import IDENTITY, SCHEMA, Lake, following, ingest
from support.changes import moved
from support.errors import check_names, raises
from tidegate.errors import AccessDenied, StateError, StorageError, TidegateError, UnsupportedTable
from tidegate.migrate.foreign import BLIZZARD
from tidegate.protocol.change import Identity
from tidegate.protocol.open import Accept
from tidegate.protocol.position import TableContext
from tidegate.protocol.store import open_delta
from tidegate.protocol.table import TableFacts, TableProtocol
from tidegate.protocol.table_checks import lane_reasons
from tidegate.storage.local import LocalStore


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.local(tmp_path / "table")


@pytest.fixture
def filled(lake: Lake) -> Lake:
    """A table at position 3 of source ``s``, with five records."""
    positions = lake.positions()
    opened = positions.open()
    for start, end in ((0, 2), (2, 3), (3, 5)):
        opened = positions.commit(opened, lake.change(start, end))
    return lake


def winning(lake: Lake, version: int, ending: str = "json") -> str:
    """The path of the only document, or note, of a position."""
    wanted = f"{version:020d}-"
    (path,) = [
        item.path
        for item in lake.store.list("_tidegate/p/s")
        if item.path.rpartition("/")[2].startswith(wanted) and item.path.endswith(f".{ending}")
    ]
    return path


def foreign_commits(lake: Lake, count: int) -> None:
    for number in range(count):
        write_deltalake(lake.location.uri, pa.table({"id": [number], "source": ["other"]}), mode="append")


class TestAFirstRun:
    def test_no_table_is_a_first_run(self, lake: Lake) -> None:
        opened = lake.positions().open()
        assert (opened.version, opened.state, opened.table_version, opened.table_id) == (0, None, -1, None)
        assert opened.schema() is None

    def test_a_table_without_a_position_is_a_first_run(self, lake: Lake) -> None:
        foreign_commits(lake, 2)
        opened = lake.positions().open()
        assert opened.first_run
        assert opened.table_version == 1
        assert opened.schema() == SCHEMA

    def test_a_new_source_of_a_table_that_others_fill_is_a_first_run(self, filled: Lake) -> None:
        assert filled.positions("t").open().first_run

    def test_documents_of_an_attempt_that_never_committed_are_ignored(self, lake: Lake) -> None:
        foreign_commits(lake, 1)
        positions = lake.positions()
        change = lake.change(0, 2)
        attempt = "11111111-1111-1111-1111-111111111111"
        document = {
            "schema_version": 1,
            "pipeline": "p",
            "source": "s",
            "identity": IDENTITY.to_json(),
            "version": 1,
            "attempt": attempt,
            "parent": None,
            "table_id": None,
            "delta_version": 0,
            "state": {"next": 2},
            "coverage": [],
            "data_files": [change.write.data_files[0].to_json()],
            "dead_letter_files": [],
            "debts": [],
            "rows": {"written": 2},
            "written_at": "2026-01-28T00:00:00+00:00",
        }
        lake.store.put(positions.site.key.document(1, attempt), json.dumps(document).encode())
        assert positions.open().first_run

    def test_opening_read_only_writes_nothing(self, filled: Lake) -> None:
        filled.store.delete(winning(filled, 3, "won"))
        filled.store.delete("_tidegate/p_s_checkpoint.json")
        before = [item.path for item in filled.store.list()]
        opened = filled.positions().open(read_only=True)
        assert following(opened) == 5
        assert [item.path for item in filled.store.list()] == before


class TestTheWinnersDocument:
    def test_it_is_found_by_its_note(self, filled: Lake) -> None:
        opened = filled.positions().open()
        assert (opened.version, opened.state, opened.from_log) == (3, {"next": 5}, False)
        assert opened.warnings == ()
        assert opened.committed_at == 2

    def test_it_is_found_by_the_log_when_there_is_no_note_and_the_note_is_written(self, filled: Lake) -> None:
        note = winning(filled, 3, "won")
        filled.store.delete(note)
        foreign_commits(filled, 2)
        opened = filled.positions().open()
        assert (opened.version, opened.state, opened.committed_at) == (3, {"next": 5}, 2)
        assert json.loads(filled.store.get(note))["table_version"] == 2

    def test_a_losers_document_beside_it_is_not_taken(self, filled: Lake) -> None:
        filled.store.delete(winning(filled, 3, "won"))
        path = winning(filled, 3)
        document = json.loads(filled.store.get(path))
        document["attempt"] = "00000000-0000-0000-0000-000000000000"
        document["state"] = {"next": 99}
        filled.store.put(f"_tidegate/p/s/{3:020d}-{document['attempt']}.json", json.dumps(document).encode())
        assert filled.positions().open().state == {"next": 5}

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"schema_version": 1}', None])
    def test_damaged_or_missing_it_is_replaced_by_the_state_in_the_same_log_entry(
        self, filled: Lake, content: bytes | None
    ) -> None:
        path = winning(filled, 3)
        filled.store.delete(path) if content is None else filled.store.put(path, content)
        opened = filled.positions().open()
        assert (opened.version, opened.state, opened.from_log) == (3, {"next": 5}, True)
        assert "late window" in opened.warnings[0]
        ingest(filled, filled.positions(), 7)
        assert filled.ids() == [0, 1, 2, 3, 4, 5, 6]

    def test_altered_it_does_not_match_its_hash_and_is_not_believed(self, filled: Lake) -> None:
        path = winning(filled, 3)
        document = json.loads(filled.store.get(path))
        document["state"] = {"next": 99}
        filled.store.put(path, json.dumps(document).encode())
        opened = filled.positions().open()
        assert (opened.state, opened.from_log) == ({"next": 5}, True)

    def test_another_sources_document_under_its_name_is_not_believed(self, filled: Lake) -> None:
        path = winning(filled, 3)
        document = json.loads(filled.store.get(path))
        filled.store.put(path, json.dumps({**document, "source": "t"}).encode())
        assert filled.positions().open().from_log

    def test_a_note_that_the_log_contradicts_is_not_believed(self, filled: Lake) -> None:
        path = winning(filled, 3)
        document = json.loads(filled.store.get(path))
        document["attempt"], document["state"] = "other", {"next": 99}
        content = json.dumps(document).encode()
        note = json.loads(filled.store.get(winning(filled, 3, "won")))
        filled.store.put(f"_tidegate/p/s/{3:020d}-other.json", content)
        filled.store.delete(winning(filled, 3, "won"))
        filled.store.put(
            f"_tidegate/p/s/{3:020d}-other.won", json.dumps({**note, "attempt": "other", "table_version": 0}).encode()
        )
        assert filled.positions().open().state == {"next": 5}

    def test_everything_of_ours_may_be_gone_and_the_log_still_knows(self, filled: Lake) -> None:
        shutil.rmtree(filled.path / "_tidegate")
        foreign_commits(filled, 3)
        opened = filled.positions().open()
        assert (opened.version, opened.state, opened.from_log) == (3, {"next": 5}, True)

    def test_a_search_that_is_too_short_stops_and_names_its_key(self, filled: Lake) -> None:
        shutil.rmtree(filled.path / "_tidegate")
        foreign_commits(filled, 5)
        with raises(StateError, "p/s", "position 3", "recovery.max_commits is 5"):
            filled.positions(search_commits=5).open()
        assert filled.positions(search_commits=6).open().state == {"next": 5}

    def test_a_cleaned_up_log_is_fine_while_note_and_document_are_there(self, filled: Lake) -> None:
        cleaned(filled)
        opened = filled.positions().open()
        assert (opened.version, opened.state, opened.from_log) == (3, {"next": 5}, False)
        ingest(filled, filled.positions(), 7)
        assert filled.ids() == list(range(7))

    @pytest.mark.parametrize("ending", ["json", "won"])
    def test_a_cleaned_up_log_without_document_or_note_stops(self, filled: Lake, ending: str) -> None:
        filled.store.delete(winning(filled, 3, ending))
        cleaned(filled)
        with raises(StateError, "p/s", "position 3", ".won", "tidegate recover") as stop:
            filled.positions().open()
        assert "backup" in stop.value.remedy


def cleaned(lake: Lake) -> None:
    """Make a checkpoint and remove every entry up to it, as log clean-up does after a month."""
    lake.table().create_checkpoint()
    foreign_commits(lake, 1)
    for version in range(3):
        lake.store.delete(f"_delta_log/{version:020d}.json")


class TestReasonsToStop:
    def test_another_source_location_is_not_the_same_source(self, filled: Lake) -> None:
        moved = Identity("path", "file:///elsewhere", "*.gz")
        with raises(StateError, "p/s", "source_uri", "'file:///landing/events'", "--accept identity") as stop:
            filled.positions(identity=moved).open()
        check_names(stop.value, "pattern", "None", "'*.gz'")
        accepted = filled.positions(identity=moved)
        opened = accepted.open([Accept.IDENTITY])
        accepted.commit(opened, filled.change(5, 6))
        assert following(filled.positions(identity=moved).open()) == 6

    def test_another_source_location_is_noticed_without_the_document_too(self, filled: Lake) -> None:
        filled.store.delete(winning(filled, 3))
        with raises(
            StateError,
            "p/s",
            "source_uri",
            "'file:///landing/events'",
            "'file:///elsewhere'",
            "--accept identity",
        ):
            filled.positions(identity=Identity("path", "file:///elsewhere")).open()

    def test_a_failover_is_a_warning_and_no_other_source(self, lake: Lake) -> None:
        first, second = (Identity("column", "jdbc:db:shop#t", notes={"hosts": name}) for name in ("db-1", "db-2"))
        positions = lake.positions(identity=first)
        positions.commit(positions.open(), lake.change(0, 1))
        moved = lake.positions(identity=second)
        opened = moved.open()
        assert opened.version == 1
        assert [warning.split(";")[0] for warning in opened.warnings] == [
            "the hosts of the source were db-1 and are now db-2"
        ]
        moved.commit(opened, lake.change(1, 2))
        assert lake.positions(identity=second).open().warnings == ()

    def test_a_newer_schema_version_is_refused_with_both_numbers(self, filled: Lake) -> None:
        path = winning(filled, 3)
        document = json.loads(filled.store.get(path))
        filled.store.put(path, json.dumps({**document, "schema_version": 7}).encode())
        with raises(StateError, "p/s", "schema_version 7", "upgrade"):
            filled.positions().open()

    def test_a_restore_since_the_last_commit(self, filled: Lake) -> None:
        filled.table().restore(0)
        foreign_commits(filled, 1)
        with raises(StateError, "p/s", "version 3", "tidegate recover --accept restore") as stop:
            filled.positions().open()
        assert "tidegate recover --accept restore" in stop.value.remedy
        positions = filled.positions()
        opened = positions.open([Accept.RESTORE])
        positions.commit(opened, filled.change(5, 6))
        assert filled.positions().open().version == 4

    @pytest.mark.parametrize("delete", [False, True])
    def test_a_foreign_overwrite_since_the_last_commit_is_told_and_the_position_stays(
        self, filled: Lake, delete: bool
    ) -> None:
        if delete:
            filled.table().delete()
        else:
            write_deltalake(filled.location.uri, pa.table({"id": [9], "source": ["other"]}), mode="overwrite")
        (told,) = filled.positions().open().warnings
        check_names(told, "version 3", "DELETE" if delete else "WRITE", "Tidegate did not make", "the position stays")
        positions = filled.positions()
        positions.commit(positions.open(), filled.change(5, 6))
        assert filled.positions().open().warnings == ()

    def test_a_foreign_overwrite_between_open_and_commit_is_told_by_the_commit(self, filled: Lake) -> None:
        positions = filled.positions()
        opened = positions.open()
        write_deltalake(filled.location.uri, pa.table({"id": [9], "source": ["other"]}), mode="overwrite")
        (told,) = positions.commit(opened, filled.change(5, 6)).warnings
        check_names(told, "version 3", "Tidegate did not make")

    def test_what_others_replace_in_part_is_no_overwrite(self, filled: Lake) -> None:
        foreign_commits(filled, 1)
        other = pa.table({"id": [9], "source": ["other"]})
        write_deltalake(filled.location.uri, other, mode="overwrite", predicate="source = 'other'")
        filled.table().delete("id = 9")
        assert filled.positions().open().warnings == ()

    def test_a_restore_before_the_last_commit_is_history(self, filled: Lake) -> None:
        filled.table().restore(1)
        positions = filled.positions()
        positions.commit(positions.open([Accept.RESTORE]), filled.change(5, 6))
        foreign_commits(filled, 1)
        assert filled.positions().open().version == 4

    def test_entries_that_cannot_be_seen_any_more_are_a_warning(self, filled: Lake) -> None:
        foreign_commits(filled, 3)
        filled.table().create_checkpoint()
        foreign_commits(filled, 1)
        for version in range(5):
            filled.store.delete(f"_delta_log/{version:020d}.json")
        opened = filled.positions().open()
        assert "from version 3 to 4 were cleaned up" in opened.warnings[0]

    def test_the_warning_stays_although_the_log_is_looked_through_once(self, filled: Lake) -> None:
        foreign_commits(filled, 3)
        filled.table().create_checkpoint()
        foreign_commits(filled, 60)
        for version in range(5):
            filled.store.delete(f"_delta_log/{version:020d}.json")
        first = filled.positions().open()
        assert json.loads(filled.store.get(winning(filled, 3, "won")))["checked"] == 65
        assert filled.positions().open().warnings == first.warnings
        assert "from version 3 to 4 were cleaned up" in first.warnings[0]

    def test_an_empty_state_under_a_position(self, lake: Lake) -> None:
        positions = lake.positions()
        positions.commit(positions.open(), moved({}, SCHEMA))
        with raises(StateError, "p/s", "position 1", "empty state", "tidegate recover"):
            lake.positions().open()

    def test_many_foreign_commits_are_looked_through_once(self, filled: Lake) -> None:
        foreign_commits(filled, 60)
        filled.positions().open()
        assert json.loads(filled.store.get(winning(filled, 3, "won")))["checked"] == 62
        positions = filled.positions()
        before = positions.site.store.requests.get
        positions.open()
        assert positions.site.store.requests.get - before < 10

    def test_a_table_that_went_back(self, filled: Lake) -> None:
        foreign_commits(filled, 1)
        note = winning(filled, 3, "won")
        data = json.loads(filled.store.get(note))
        filled.store.put(note, json.dumps({**data, "table_version": 9}).encode())
        filled.table().create_checkpoint()
        for version in range(4):
            filled.store.delete(f"_delta_log/{version:020d}.json")
        with raises(StateError, "p/s", "position 3", "version 9", "at 3", "table_uri"):
            filled.positions().open()

    def test_another_table_with_the_same_position(self, filled: Lake) -> None:
        entry = filled.path / "_delta_log" / f"{0:020d}.json"
        entry.write_text(entry.read_text().replace(filled.table().metadata().id, "another-id"))
        with raises(StateError, "p/s", "position 3", "another-id", "table_uri"):
            filled.positions().open()


class TestForgottenPositions:
    """No position, although there are traces of one: never a first run."""

    def test_the_table_was_removed_and_its_traces_were_not(self, filled: Lake) -> None:
        shutil.rmtree(filled.path / "_delta_log")
        with raises(StateError, "p/s", "no table", "_tidegate/p_s_checkpoint.json", "table_uri") as stop:
            filled.positions().open()
        assert "_tidegate/p/s" in stop.value.remedy

    def test_another_table_is_in_its_place(self, filled: Lake) -> None:
        shutil.rmtree(filled.path / "_delta_log")
        foreign_commits(filled, 1)
        with raises(StateError, "p/s", "no position", "_tidegate/p_s_checkpoint.json", "table_uri"):
            filled.positions().open()

    @pytest.mark.parametrize("kept", ["mirror", "won", "document"])
    def test_one_trace_is_enough(self, filled: Lake, kept: str) -> None:
        shutil.rmtree(filled.path / "_delta_log")
        paths = {
            "mirror": "_tidegate/p_s_checkpoint.json",
            "won": winning(filled, 1, "won"),
            "document": winning(filled, 2),
        }
        for item in list(filled.store.list("_tidegate")):
            if item.path != paths[kept]:
                filled.store.delete(item.path)
        with raises(StateError, "p/s", "fresh start", "table_uri"):
            filled.positions().open()

    def test_the_first_document_with_visible_files_is_a_trace(self, lake: Lake) -> None:
        positions = lake.positions()
        change = lake.change(0, 2)
        positions.commit(positions.open(), change)
        lake.store.delete(winning(lake, 1, "won"))
        lake.store.delete("_tidegate/p_s_checkpoint.json")
        entry = lake.path / "_delta_log" / f"{0:020d}.json"
        lines = [line for line in entry.read_text().splitlines() if '"txn"' not in line]
        entry.write_text("\n".join(lines) + "\n")
        with raises(StateError, "p/s", "no position", "data files"):
            lake.positions().open()

    def test_the_mirror_of_another_source_with_the_same_file_name_is_no_trace(self, lake: Lake) -> None:
        from tidegate.protocol.change import SourceKey
        from tidegate.protocol.store import PositionStore

        delta = open_delta(lake.location, lake.store)
        one = PositionStore(TableContext(SourceKey("a_b", "c"), IDENTITY, lake.store, delta))
        two = PositionStore(TableContext(SourceKey("a", "b_c"), IDENTITY, lake.store, delta))
        one.commit(one.open(), lake.change(0, 1))
        assert two.open().first_run

    def test_a_retention_for_transactions_is_refused_before_it_forgets(self, filled: Lake) -> None:
        filled.table().alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 7 days"})
        with raises(
            UnsupportedTable, "delta.setTransactionRetentionDuration", "'interval 7 days'", "UNSET TBLPROPERTIES"
        ) as stop:
            filled.positions().open()
        assert "UNSET TBLPROPERTIES" in stop.value.remedy

    def test_a_log_whose_beginning_is_missing_is_not_an_empty_one(self, filled: Lake) -> None:
        filled.store.delete(f"_delta_log/{0:020d}.json")
        with raises(TidegateError, "table", "DeltaError"):
            filled.positions().open()

    def test_a_damaged_log_is_not_an_empty_one(self, filled: Lake) -> None:
        filled.store.put(f"_delta_log/{2:020d}.json", b"{damaged")
        with raises(TidegateError, "cannot load", "'d'", "DeltaError"):
            filled.positions().open()

    def test_a_storage_error_is_not_a_first_run(self, lake: Lake) -> None:
        class Denied(LocalStore):
            def list(self, *args: Any, **more: Any) -> Any:
                raise AccessDenied("no", "ask")

        store = Denied(lake.location, str(lake.path))
        from tidegate.protocol.change import SourceKey
        from tidegate.protocol.delta import DeltaLakeTable
        from tidegate.protocol.store import PositionStore

        positions = PositionStore(
            TableContext(SourceKey("p", "s"), IDENTITY, store, DeltaLakeTable(lake.location, store))
        )
        with pytest.raises(StorageError):
            positions.open()


class TestBlizzardsTraces:
    @staticmethod
    def app_ids() -> list[str]:
        state = {"schema_version": 1, "source_state": {"files": {}, "last_committed_file": None}, "delta_version": 4}
        return ["blizzard:" + base64.b64encode(json.dumps(state).encode()).decode(), "penguin-events"]

    @pytest.mark.parametrize("which", [0, 1])
    @pytest.mark.parametrize("checkpointed", [False, True])
    def test_a_transaction_of_its_stops_until_adopted(self, lake: Lake, which: int, checkpointed: bool) -> None:
        properties = CommitProperties(app_transactions=[Transaction(self.app_ids()[which], 5, 1)])
        rows = pa.table({"id": [1], "source": ["s"]})
        write_deltalake(lake.location.uri, rows, mode="append", commit_properties=properties)
        foreign_commits(lake, 1)
        if checkpointed:
            lake.table().create_checkpoint()
            lake.store.delete(f"_delta_log/{0:020d}.json")
            foreign_commits(lake, 1)
        with raises(StateError, "p/s", "Blizzard", "tidegate adopt") as stop:
            lake.positions(foreign=BLIZZARD).open()
        assert "new table_uri" in stop.value.remedy
        assert lake.positions(foreign=BLIZZARD).open([Accept.FOREIGN]).first_run

    def test_a_checkpoint_file_of_its_stops_until_adopted(self, lake: Lake) -> None:
        lake.store.put("_blizzard/p_s_checkpoint.json", b'{"schema_version": 1}')
        with raises(StateError, "p/s", "_blizzard/p_s_checkpoint.json", "tidegate adopt"):
            lake.positions(foreign=BLIZZARD).open()

    def test_with_a_position_of_our_own_they_are_history(self, filled: Lake) -> None:
        filled.store.put("_blizzard/p_s_checkpoint.json", b"{}")
        assert filled.positions(foreign=BLIZZARD).open().version == 3


MAPPED = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "id"}


def mapping_of(metadata: dict[str, Any]) -> dict[str, Any]:
    """The second column's part of a column mapping."""
    return {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "b"} if metadata == MAPPED else {}


def crafted(
    lake: Lake,
    protocol: dict[str, Any],
    properties: dict[str, str],
    metadata: dict[str, Any],
    info: dict[str, Any] | None = None,
) -> None:
    """A table that the Delta library would not make."""
    schema = {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": metadata},
            {"name": "source", "type": "string", "nullable": True, "metadata": mapping_of(metadata)},
        ],
    }
    actions = [
        {"commitInfo": {**(info or {}), "timestamp": 1, "operation": "CREATE TABLE"}},
        {"protocol": protocol},
        {
            "metaData": {
                "id": "crafted",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": [],
                "configuration": properties,
                "createdTime": 1,
            }
        },
    ]
    lake.store.put(f"_delta_log/{0:020d}.json", "".join(json.dumps(action) + "\n" for action in actions).encode())


LEGACY = {"minReaderVersion": 1, "minWriterVersion": 2}


def featured(*writer: str, reader: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": list(reader),
        "writerFeatures": [*reader, *writer],
    }


NEED_FRAMES = [
    (featured(reader=("columnMapping",)), {"delta.columnMapping.mode": "name"}, MAPPED, "column mapping"),
    (
        {"minReaderVersion": 2, "minWriterVersion": 5},
        {"delta.columnMapping.mode": "id"},
        MAPPED,
        "column mapping",
    ),
    (featured("checkConstraints"), {"delta.constraints.c": "id > 0"}, {}, "CHECK constraint 'c'"),
    (featured("generatedColumns"), {}, {"delta.generationExpression": "1"}, "generated column"),
    (LEGACY, {}, {"delta.invariants": '{"expression":{"expression":"id > 3"}}'}, "column invariant"),
    (featured("identityColumns"), {}, {}, "identity columns"),
    ({"minReaderVersion": 1, "minWriterVersion": 6}, {}, {}, "identity columns"),
    (featured(reader=("typeWidening",)), {}, {}, "type widening"),
    (featured("rowTracking", "domainMetadata"), {"delta.enableRowTracking": "true"}, {}, "row tracking"),
    (featured("inCommitTimestamp"), {"delta.enableInCommitTimestamps": "true"}, {}, "in-commit timestamps"),
    (featured("clustering", "domainMetadata"), {}, {}, "clustering"),
    (featured("allowColumnDefaults"), {}, {}, "column defaults"),
    (featured("icebergCompatV2"), {}, {}, "Iceberg"),
    (LEGACY, {"delta.somethingNew": "on"}, {}, "delta.somethingNew"),
    (featured(reader=("vacuumProtocolCheck",)), {}, {}, "protocol check of VACUUM"),
]
"""Protocol, properties, metadata of the column ``id``, and how the reason for the DataFrame lane names it."""


class TestTablesThatOnlySparkWrites:
    @pytest.mark.parametrize(("protocol", "properties", "metadata", "named"), NEED_FRAMES)
    def test_it_is_opened_and_says_why_it_needs_the_dataframe_lane(
        self, lake: Lake, protocol: dict[str, Any], properties: dict[str, str], metadata: dict[str, Any], named: str
    ) -> None:
        crafted(lake, protocol, properties, metadata)
        opened = lake.positions().open()
        assert any(named in reason for reason in opened.needs_frames), opened.needs_frames
        assert opened.table_version == 0

    @pytest.mark.parametrize(("protocol", "properties", "metadata", "named"), NEED_FRAMES)
    def test_files_are_not_appended_to_it(
        self, lake: Lake, protocol: dict[str, Any], properties: dict[str, str], metadata: dict[str, Any], named: str
    ) -> None:
        crafted(lake, protocol, properties, metadata)
        with raises(UnsupportedTable, named, "tidegate run", "Spark"):
            ingest(lake, lake.positions(), 2)
        assert not lake.store.list_directory("_delta_log", f"_delta_log/{0:020d}.json").objects

    def test_a_position_without_rows_is_recorded_in_it(self, lake: Lake) -> None:
        crafted(lake, featured("rowTracking", "domainMetadata"), {"delta.enableRowTracking": "true"}, {})
        positions = lake.positions()
        after = positions.commit(positions.open(), moved({"next": 1}))
        assert (after.version, after.table_version) == (1, 1)
        again = lake.positions().open()
        assert (again.version, again.state, again.data_files) == (1, {"next": 1}, frozenset())

    def test_its_entries_go_on_in_time(self, lake: Lake) -> None:
        properties = {"delta.enableInCommitTimestamps": "true"}
        crafted(lake, featured("inCommitTimestamp"), properties, {}, {"inCommitTimestamp": 2**50})
        positions = lake.positions()
        after = positions.commit(positions.open(), moved({"next": 1}))
        entry = lake.positions().site.log.entry(after.table_version)
        assert entry is not None
        assert entry.in_commit_ms == 2**50 + 1

    @pytest.mark.parametrize("uri", ["gs://lake/t", "az://lake/t"])
    def test_on_storage_that_was_not_tried_it_is_refused(self, uri: str) -> None:
        facts = TableFacts(0, "t", TableProtocol(3, 7, (), ("rowTracking",)), '{"fields": []}')
        with raises(UnsupportedTable, uri, "'rowTracking'", "local disks", "S3"):
            lane_reasons(facts, uri)
        for written in ("file:///lake/t", "s3://lake/t"):
            assert lane_reasons(facts, written) == ("it uses row tracking (feature 'rowTracking')",)


class TestTablesWeMustNotTouch:
    @pytest.mark.parametrize(
        ("protocol", "properties", "metadata", "named"),
        [
            (featured("somethingNew"), {}, {}, "'somethingNew'"),
            (featured(reader=("readersMustKnow",)), {}, {}, "'readersMustKnow'"),
            (featured(reader=("catalogManaged",)), {}, {}, "'catalogManaged'"),
            ({"minReaderVersion": 4, "minWriterVersion": 8}, {}, {}, "reader version 4"),
        ],
    )
    def test_it_is_refused_by_name_with_the_way_out(
        self, lake: Lake, protocol: dict[str, Any], properties: dict[str, str], metadata: dict[str, Any], named: str
    ) -> None:
        crafted(lake, protocol, properties, metadata)
        with raises(UnsupportedTable, named, "another table"):
            lake.positions().open()
        assert [item.path for item in lake.store.list()] == [f"_delta_log/{0:020d}.json"]

    @pytest.mark.parametrize(
        ("protocol", "properties"),
        [
            (LEGACY, {"delta.appendOnly": "true", "owner": "me", "delta.enableRowTracking": "false"}),
            ({"minReaderVersion": 1, "minWriterVersion": 4}, {"delta.enableChangeDataFeed": "true"}),
            ({"minReaderVersion": 2, "minWriterVersion": 5}, {"delta.columnMapping.mode": "none"}),
            (featured("appendOnly", "invariants", "changeDataFeed"), {}),
            (featured("checkConstraints", "generatedColumns"), {}),
            (featured(reader=("deletionVectors",)), {"delta.enableDeletionVectors": "true"}),
            (featured(reader=("v2Checkpoint",)), {"delta.checkpointPolicy": "v2"}),
            (featured(reader=("timestampNtz",)), {"delta.autoOptimize.autoCompact": "true"}),
        ],
    )
    def test_what_an_append_cannot_break_is_written(
        self, lake: Lake, protocol: dict[str, Any], properties: dict[str, str]
    ) -> None:
        crafted(lake, protocol, properties, {})
        ingest(lake, lake.positions(), 2)
        assert lake.ids() == [0, 1]

    def test_constraints_made_by_the_library_are_seen(self, filled: Lake) -> None:
        filled.table().alter.add_constraint({"small": "id < 100"})
        assert filled.positions().open().needs_frames == ("it has the CHECK constraint 'small' (id < 100)",)


def test_the_schema_of_the_table_is_read_from_the_table(filled: Lake) -> None:
    positions = filled.positions()
    assert positions.table_schema() == SCHEMA
    assert Lake.local(filled.path.parent / "none").positions().table_schema() is None


def test_a_state_without_its_late_window_is_what_the_log_gives_back(lake: Lake) -> None:
    positions = lake.positions()
    change = moved({"next": 1, "late_window": ["a"]}, SCHEMA, embedded={"next": 1})
    positions.commit(positions.open(), change)
    assert lake.positions().open().state == {"next": 1, "late_window": ["a"]}
    lake.store.delete(winning(lake, 1))
    assert lake.positions().open().state == {"next": 1}


def test_two_libraries_agree_on_the_position(filled: Lake) -> None:
    assert DeltaTable(filled.location.uri).transaction_version("tidegate/p/s") == 3
