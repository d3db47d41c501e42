"""Columns that change under pipelines: rows stay, positions stay, nothing goes without a word."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import Field, PrimitiveType

import tidegate
from support.errors import raises
from support.lake import FIELDS, Lake
from tidegate.errors import (
    AccessDenied,
    ConfigError,
    SourceError,
    StorageUnavailable,
    TableError,
    TidegateError,
    UnsupportedTable,
)
from tidegate.failpoints import arm
from tidegate.observe.events import ColumnsAdded, CommitContested, Event, Notice
from tidegate.protocol.delta import DeltaLakeTable
from tidegate.reports.table import SchemaInference, TableRewrite
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.storage.local import LocalStore

NARROW = [{"name": "id", "type": "int32", "nullable": False}, *FIELDS[1:]]
TEXT = [{"name": "id", "type": "string", "nullable": False}, *FIELDS[1:]]
OVERWRITE = {"schema_evolution": "overwrite"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    lake.arrive("d/1.ndjson")
    return lake


def table(lake: Lake) -> DeltaTable:
    return DeltaTable(lake.root / "lake/events")


def kinds(lake: Lake) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in pa.schema(table(lake).schema())}


def good(lake: Lake) -> None:
    assert [source.error for source in lake.run().sources] == [None]


def position(lake: Lake) -> int | None:
    return table(lake).transaction_version("tidegate/events/default")


def during_the_read(lake: Lake, happens: Callable[[], object]) -> list[Event]:
    """A run in the middle of which, once, something happens to the table."""
    seen: list[Event] = []
    waiting = [happens]

    class Engine(InProcessEngine):
        def read(self, *args: Any) -> Any:
            results = super().read(*args)
            if waiting:
                waiting.pop()()
            return results

    report = Loop(lake.project, Engine(), 2, seen.append).once(lake.project.pipelines)
    assert [source.error for source in report.sources] == [None]
    assert not waiting
    return seen


class TestWiden:
    def test_every_row_and_every_position_stays_in_one_commit(self, lake: Lake) -> None:
        lake.schema = {"fields": NARROW}
        lake.sink_settings = {"partition_by": {"prefix_template": "day=%Y-%m-%d", "column": "ts"}}
        good(lake)
        before, at = table(lake).version(), position(lake)
        lake.schema = {"fields": FIELDS}
        lake.arrive("d/2.ndjson")
        assert "`tidegate table widen`" in (lake.run().sources[0].error or "")
        report = tidegate.widen_table(lake.config, "events", column="id", to="int64")
        assert (report.applied, report.rows, report.table_version) == (True, 10, before + 1)
        assert kinds(lake)["id"] == pa.int64()
        assert position(lake) == at
        good(lake)
        lake.assert_exactly_once()

    def test_the_error_names_both_types_and_both_ways_out(self, lake: Lake) -> None:
        lake.schema = {"fields": NARROW}
        good(lake)
        lake.schema = {"fields": FIELDS}
        lake.arrive("d/2.ndjson")
        error = lake.run().sources[0].error or ""
        for word in ("'id'", "int32", "int64", "`tidegate table widen`", "type widening", "Spark writes the table"):
            assert word in error

    @pytest.mark.parametrize(
        ("path", "to", "kind"),
        [
            ("u.a", "int64", pa.struct([("a", pa.int64()), ("l", pa.list_(pa.field("element", pa.int32())))])),
            (
                "u.l.element",
                "float64",
                pa.struct([("a", pa.int32()), ("l", pa.list_(pa.field("element", pa.float64())))]),
            ),
            ("m.value", "int64", pa.map_(pa.string(), pa.int64())),
            ("d", "timestamp", pa.timestamp("us", tz="UTC")),
            ("n", "decimal(12,4)", pa.decimal128(12, 4)),
        ],
    )
    def test_any_depth_and_every_wider_type(self, lake: Lake, path: str, to: str, kind: pa.DataType) -> None:
        struct = pa.struct([("a", pa.int32()), ("l", pa.list_(pa.int32()))])
        schema = pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False, metadata={"comment": "kept"}),
                ("u", struct),
                ("m", pa.map_(pa.string(), pa.int32())),
                ("d", pa.date32()),
                ("n", pa.decimal128(6, 2)),
            ]
        )
        full = {"u": {"a": 1, "l": [1, None]}, "m": [("x", 1)], "d": date(2026, 1, 28), "n": Decimal("1.50")}
        rows = [{"id": 1, **full}, {"id": 2}]
        write_deltalake(lake.root / "lake/events", pa.Table.from_pylist(rows, schema))
        tidegate.widen_table(lake.config, "events", column=path, to=to)
        assert kinds(lake)[path.split(".")[0]] == kind
        found = {row["id"]: row for row in pa.table(table(lake).scan()).to_pylist()}
        midnight = datetime(2026, 1, 28, tzinfo=UTC)
        expected = {"id": 1, **full, **({"d": midnight} if path == "d" else {})}
        assert found[1] == expected
        assert found[2] == {"id": 2, **dict.fromkeys(full)}
        assert b"kept" in (pa.schema(table(lake).schema()).field("id").metadata or {}).values()

    def test_a_look_changes_nothing_and_done_twice_it_is_done(self, lake: Lake) -> None:
        lake.schema = {"fields": NARROW}
        good(lake)
        shown: list[TableRewrite] = []
        tidegate.widen_table(lake.config, "events", column="id", to="int64", confirm=lambda it: bool(shown.append(it)))
        assert [change.path for change in shown[0].changes] == ["id"]
        assert kinds(lake)["id"] == pa.int32()
        tidegate.widen_table(lake.config, "events", column="id", to="int64")
        version = table(lake).version()
        assert not tidegate.widen_table(lake.config, "events", column="id", to="int64").changes
        assert table(lake).version() == version

    @pytest.mark.parametrize(
        ("column", "to", "words"),
        [
            ("id", "int32", "which does not always fit int32"),
            ("event", "int64", "which does not always fit int64"),
            ("nothing", "int64", "there is no column 'nothing'"),
            ("event.x", "int64", "which has no fields"),
            ("id", "struct", "name the field inside"),
            ("id", "bigint", "'bigint' is not a type; allowed: string"),
        ],
    )
    def test_what_cannot_be_widened_is_named(self, lake: Lake, column: str, to: str, words: str) -> None:
        good(lake)
        with pytest.raises(TidegateError) as caught:
            tidegate.widen_table(lake.config, "events", column=column, to=to)
        assert words in str(caught.value)

    def test_a_table_that_only_grows_and_no_table_are_refused(self, lake: Lake) -> None:
        with raises(TableError, "no table", "lake/events"):
            tidegate.widen_table(lake.config, "events", column="id", to="int64")
        good(lake)
        table(lake).alter.set_table_properties({"delta.appendOnly": "true"})
        with raises(UnsupportedTable, "delta.appendOnly", "UNSET TBLPROPERTIES"):
            tidegate.widen_table(lake.config, "events", column="id", to="float64")

    @pytest.mark.parametrize("trouble", ["a run commits", "an OPTIMIZE", "a lost answer"])
    def test_whatever_happens_at_the_commit_every_row_is_there_once(
        self, lake: Lake, trouble: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lake.schema = {"fields": NARROW}
        good(lake)
        lake.arrive("d/2.ndjson")
        waiting = [trouble]
        overwrite = DeltaLakeTable.overwrite

        def troubled(delta: DeltaLakeTable, *arguments: Any) -> None:
            happens = waiting.pop() if waiting else ""
            if happens == "a run commits":
                good(lake)
            elif happens == "an OPTIMIZE":
                table(lake).optimize.compact()
                write_deltalake(table(lake), pa.table(table(lake).scan()).slice(0, 0), mode="append")
            overwrite(delta, *arguments)
            if happens == "a lost answer":
                raise StorageUnavailable("the answer was lost", "")

        monkeypatch.setattr(DeltaLakeTable, "overwrite", troubled)
        assert tidegate.widen_table(lake.config, "events", column="id", to="int64").applied
        good(lake)
        assert kinds_of_files(lake) == {pa.int64()}
        lake.assert_exactly_once()

    def test_a_run_that_was_reading_meanwhile_goes_on_with_the_new_type(self, lake: Lake) -> None:
        lake.schema = {"fields": NARROW}
        good(lake)
        lake.arrive("d/2.ndjson")
        config = lake.config
        seen = during_the_read(lake, lambda: tidegate.widen_table(config, "events", column="id", to="int64"))
        assert not [event for event in seen if isinstance(event, CommitContested)]
        assert kinds(lake)["id"] == pa.int64()
        assert kinds_of_files(lake) == {pa.int64()}
        lake.assert_exactly_once()


def kinds_of_files(lake: Lake) -> set[pa.DataType]:
    """The types that ``id`` has in the files of the table."""
    import pyarrow.parquet as pq

    return {pq.read_schema(path).field("id").type for path in table(lake).file_uris()}


class TestNewColumns:
    def test_somebody_adds_a_column_while_files_are_read(self, lake: Lake) -> None:
        good(lake)
        lake.arrive("d/2.ndjson")
        during_the_read(lake, lambda: table(lake).alter.add_columns([Field("extra", PrimitiveType("string"))]))
        lake.assert_exactly_once()
        good(lake)
        assert "extra" in kinds(lake)

    def test_a_declared_column_is_added_at_the_next_start(self, lake: Lake) -> None:
        good(lake)
        lake.schema = {"fields": [*FIELDS, {"name": "more", "type": "int64"}]}
        lake.arrive("d/2.ndjson", more=7)
        good(lake)
        rows = pa.table(table(lake).scan()).to_pylist()
        assert sorted(row["more"] for row in rows if row["more"] is not None) == [7] * 10
        lake.assert_exactly_once()

    def test_new_fields_join_inferred_columns_and_are_remembered(self, lake: Lake) -> None:
        lake.schema = {"infer": True}
        good(lake)
        lake.arrive("d/2.ndjson", more=7, u={"a": 1}, j={}, gone=None, empty=[])
        good(lake)
        told = [event.text for event in lake.seen if isinstance(event, Notice)]
        new = "more (int64), u (struct), u.a (int64), j (string)"
        assert f"the table gets new columns: {new}; they are null in its old rows" in told
        left = "fields that the schema does not declare were left out: empty (10), gone (10)"
        assert f"{left}; no sampled record showed their type" in told
        lake.arrive("d/3.ndjson", u={"a": 2, "b": "x"}, j={"any": [1]}, gone="here")
        good(lake)
        rows = pa.table(table(lake).scan()).to_pylist()
        assert sum(row["more"] == 7 and row["u"] == {"a": 1, "b": None} and row["j"] == "{}" for row in rows) == 10
        assert sum(row["u"] == {"a": 2, "b": "x"} and row["j"] == '{"any":[1]}' for row in rows) == 10
        assert sum(row["gone"] == "here" for row in rows) == 10
        brought = [event.columns for event in lake.seen if isinstance(event, ColumnsAdded)]
        assert brought == [("more", "u", "j"), ("u.b", "gone")]
        lake.assert_exactly_once()

    def test_a_field_that_the_table_has_another_column_for_keeps_no_other_field_out(self, lake: Lake) -> None:
        lake.schema = {"infer": True}
        good(lake)
        table(lake).alter.add_columns([Field("extra", PrimitiveType("string"))])
        lake.arrive("d/2.ndjson", extra=5, more=7)
        good(lake)
        rows = pa.table(table(lake).scan()).to_pylist()
        assert sorted(row["more"] for row in rows if row["more"] is not None) == [7] * 10
        assert {row["extra"] for row in rows} == {None}
        lake.assert_exactly_once()

    def test_a_file_that_may_not_be_read_stops_no_other_file_of_inferred_columns(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lake.schema = {"infer": True}
        good(lake)
        for name in ("2", "3", "4"):
            lake.arrive(f"d/{name}.ndjson")
        really = LocalStore.open_input

        def open_input(store: LocalStore, path: str, *others: Any, **named: Any) -> Any:
            if path.endswith("d/2.ndjson"):
                raise AccessDenied(f"cannot read {path}: permission denied", "grant it")
            return really(store, path, *others, **named)

        monkeypatch.setattr(LocalStore, "open_input", open_input)
        (source,) = lake.run().sources
        assert (source.error, source.rows, [each.path for each in source.failed]) == (None, 20, ["d/2.ndjson"])
        (alone,) = lake.run().sources
        assert (alone.error, [each.path for each in alone.failed]) == (None, ["d/2.ndjson"])
        monkeypatch.undo()
        good(lake)
        lake.assert_exactly_once()

    def test_a_field_whose_values_contradict_each_other_stops_nothing_and_is_left_out(self, lake: Lake) -> None:
        lake.schema = {"infer": True}
        good(lake)
        lake.arrive("d/2.ndjson", more=7, date=[1], code=1)
        lake.arrive("d/3.ndjson", more=7, date="x", code="A")
        good(lake)
        assert "more" in kinds(lake)
        assert not {"date", "code"} & set(kinds(lake))
        lake.assert_exactly_once()

    def test_a_crash_before_new_fields_are_remembered_forgets_none(self, lake: Lake) -> None:
        lake.schema = {"infer": True}
        good(lake)
        lake.arrive("d/2.ndjson", j={})
        arm("state.won.before=raise")
        try:
            lake.run()
        finally:
            arm("")
        lake.arrive("d/3.ndjson", j={"a": 1})
        good(lake)
        rows = pa.table(table(lake).scan()).to_pylist()
        assert sum(row["j"] == '{"a":1}' for row in rows) == 10
        lake.assert_exactly_once()

    def test_a_field_that_a_source_found_before_it_died_is_read_by_the_other_source(self, lake: Lake) -> None:
        """Its sample misses the field: only what is remembered can tell it."""
        lake.schema = {"infer": True}
        sources = {each: {"source_uri": f"data/{each}/", "use_watermark": True} for each in ("asia", "europe")}
        pipeline = {"sources": sources, "schema": {"infer": True}, "sink": {"table_uri": "lake/events"}}
        project = lake.config.with_name("both.yml")
        project.write_text(json.dumps({"pipelines": {"events": pipeline}}))

        def both() -> list[str | None]:
            loop = Loop(tidegate.load(project), InProcessEngine(), 1, lake.seen.append)
            return [source.error for source in loop.once(tidegate.load(project).pipelines).sources]

        (lake.root / "data/d/1.ndjson").unlink()
        lake.expected.clear()
        lake.arrive("asia/1.ndjson")
        lake.arrive("europe/1.ndjson")
        assert both() == [None, None]
        lake.arrive("europe/2.ndjson", more=7)
        arm("state.won.before=raise")
        try:
            both()
        finally:
            arm("")
        lake.arrive("asia/2.ndjson", records=1_100)
        late = lake.arrive("asia/3.ndjson", records=1_100)
        late.write_text(late.read_text().removesuffix("}\n") + ', "more": 8}\n')
        assert both() == [None, None]
        assert lake.rows("select count(*) as n from t where more = 8") == [{"n": 1}]
        lake.assert_exactly_once()

    def test_unknown_fields_of_an_inferred_schema_are_named_until_somebody_adds_them(self, lake: Lake) -> None:
        lake.schema = {"infer": True}
        good(lake)
        lake.pipeline_settings = {"schema_evolution": "strict"}
        lake.arrive("d/2.ndjson", more=7, u={"a": 1})
        good(lake)
        told = [event.text for event in lake.seen if isinstance(event, Notice)]
        assert any("were left out: more (10), u (10); schema_evolution: strict adds no" in text for text in told)
        lake.pipeline_settings = {}
        looked = tidegate.infer_schema(lake.config, "events")
        assert looked.new == ("more", "u", "u.a")
        assert not tidegate.infer_schema(lake.config, "events", update=True, confirm=lambda _: False).applied
        assert tidegate.infer_schema(lake.config, "events", update=True).applied
        lake.arrive("d/3.ndjson", more=8, u={"a": 2})
        good(lake)
        assert kinds(lake)["more"] == pa.int64()
        rows = pa.table(table(lake).scan()).to_pylist()
        assert sum(row["more"] == 8 and row["u"] == {"a": 2} for row in rows) == 10
        lake.assert_exactly_once()

    def test_nothing_is_added_to_declared_fields(self, lake: Lake) -> None:
        with raises(TidegateError, "events", "schema.fields", "inferred schema"):
            tidegate.infer_schema(lake.config, "events", update=True)


class TestOverwrite:
    def test_rows_go_only_when_somebody_says_so(self, lake: Lake) -> None:
        good(lake)
        before, at = table(lake).version(), position(lake) or 0
        lake.schema, lake.pipeline_settings = {"fields": TEXT}, OVERWRITE
        lake.write("d/2.ndjson", '{"id": "a"}\n')
        error = lake.run().sources[0].error or ""
        assert "'id' is int64 in the table and string in the declared schema" in error
        assert "`tidegate schema replace`" in error
        assert table(lake).version() == before
        shown = tidegate.replace_schema(lake.config, "events", confirm=lambda _: False)
        assert (shown.rows, shown.applied, table(lake).version()) == (10, False, before)
        done = tidegate.replace_schema(lake.config, "events")
        assert (done.rows, done.table_version) == (10, before + 1)
        assert position(lake) == at + 1
        assert [each.notes for each in tidegate.reconcile(lake.config).sources] == [()]
        good(lake)
        assert pa.table(table(lake).scan(columns=["id"])).to_pylist() == [{"id": "a"}]
        old = DeltaTable(lake.root / "lake/events", version=before)
        assert pa.table(old.scan(columns=["id"])).num_rows == 10

    def test_a_table_without_rows_takes_the_columns_of_the_run(self, lake: Lake) -> None:
        good(lake)
        table(lake).delete()
        lake.schema, lake.pipeline_settings = {"fields": TEXT}, OVERWRITE
        lake.write("d/2.ndjson", '{"id": "a"}\n')
        good(lake)
        assert kinds(lake)["id"] == pa.string()
        assert pa.table(table(lake).scan(columns=["id"])).to_pylist() == [{"id": "a"}]
        entries = [json.loads(line) for line in log_entry(lake, table(lake).version() - 1)]
        assert any("metaData" in entry for entry in entries), "the columns come before the rows that need them"

    def test_what_keeps_every_row_needs_nobody(self, lake: Lake) -> None:
        good(lake)
        lake.schema = {"fields": [*FIELDS[:2], {"name": "more", "type": "int64"}]}
        lake.pipeline_settings = OVERWRITE
        lake.arrive("d/2.ndjson", more=1)
        good(lake)
        lake.assert_exactly_once()
        assert {"event", "more"} <= kinds(lake).keys()

    def test_other_modes_never_replace(self, lake: Lake) -> None:
        good(lake)
        with raises(ConfigError, "events", "schema_evolution", "merge", "schema_evolution: overwrite") as caught:
            tidegate.replace_schema(lake.config, "events")
        assert caught.value.exit_code == 2


def log_entry(lake: Lake, version: int) -> list[str]:
    return (lake.root / f"lake/events/_delta_log/{version:020d}.json").read_text().splitlines()


class TestRescued:
    def test_what_fits_no_column_is_kept_and_told(self, lake: Lake) -> None:
        lake.schema = {"fields": FIELDS, "rescued": True}
        lake.write("d/2.ndjson", '{"id": 90, "event": {"x": 1}, "more": 1.50}\nnonsense\n{"id": "x"}\n')
        report = lake.run()
        assert report.sources[0].bad_records == 2
        rows = {row["id"]: row for row in pa.table(table(lake).scan()).to_pylist()}
        assert rows[90]["_rescued"] == '{"event":{"x":1},"more":1.50}'
        assert rows[0]["_rescued"] is None
        told = [event.text for event in lake.seen if isinstance(event, Notice)]
        assert any("kept in '_rescued': event (1), more (1)" in text for text in told)

    def test_an_inferred_schema_leaves_to_it_what_no_column_can_take(self, lake: Lake) -> None:
        lake.schema = {"infer": True, "rescued": "leftovers"}
        lake.write("d/0.ndjson", '{"id": 90, "code": 1, "a b": 2}\n{"id": 91, "code": 2}\n{"id": 92, "code": "x"}\n')
        good(lake)
        rows = {row["id"]: row for row in pa.table(table(lake).scan()).to_pylist()}
        assert (rows[90]["code"], rows[90]["leftovers"]) == (1, '{"a b":2}')
        assert (rows[92]["code"], rows[92]["leftovers"]) == (None, '{"code":"x"}')
        good(lake)


class TestLooking:
    def test_infer_touches_nothing_and_says_how_sure_it_is(self, lake: Lake) -> None:
        lake.write("d/2.ndjson", '{"id": 90, "code": 1, "n": null}\n{"id": 91, "code": "A"}\nnonsense\n')
        found = tidegate.infer_schema(lake.config, "events")
        seen = {column.path: column for column in found.columns}
        assert (seen["id"].type, seen["id"].confidence, seen["id"].seen) == ("int64", "low", 12)
        assert (seen["code"].confidence, dict(seen["code"].kinds), seen["code"].absent) == (
            "none",
            {"integer": 1, "string": 1},
            10,
        )
        assert (seen["n"].nulls, seen["n"].confidence) == (1, "none")
        assert found.unreadable == 1
        assert any("'code' is integer (1) and string" in problem for problem in found.problems)
        assert not (lake.root / "lake").exists()

    @pytest.mark.parametrize("watermark", [True, False])
    def test_the_newest_of_many_files_is_looked_at(self, lake: Lake, watermark: bool) -> None:
        lake.source_settings = {"use_watermark": watermark}
        for number in range(60):
            lake.arrive(f"e/{number:02d}.ndjson.gz", 1)
        lake.write("f/1.ndjson", '{"id": 1, "new": 1}\n')
        found = tidegate.infer_schema(lake.config, "events", sample=5)
        assert found.files == 10
        assert "new" in [column.path for column in found.columns]
        assert found.records == 5 + 8 + 1

    def test_the_printed_columns_are_a_configuration(self, lake: Lake) -> None:
        import yaml

        lake.arrive("d/2.ndjson", u={"a": [1], "true": {"b": "x"}}, l=[{"v": 1}])
        found: SchemaInference = tidegate.infer_schema(lake.config, "events")
        lake.schema = yaml.safe_load(found.yaml)["schema"]
        good(lake)
        lake.assert_exactly_once()

    def test_show_has_every_side(self, lake: Lake) -> None:
        lake.schema = {"infer": True}
        good(lake)
        lake.schema = {"fields": [*FIELDS, {"name": "more", "type": "int64"}]}
        view = tidegate.show_schema(lake.config, "events")
        sides = {each.path: (each.declared, each.remembered, each.table) for each in view.columns}
        assert sides["id"] == ("int64 not null", "int64", "int64")
        assert sides["more"] == ("int64", None, None)
        assert sides["ts"] == ("timestamp", "timestamp", "timestamp")

    def test_diff_foresees_the_next_run(self, lake: Lake) -> None:
        assert [change.effect for change in tidegate.diff_schema(lake.config, "events").changes] == ["created"] * 3
        lake.schema = {"fields": NARROW}
        good(lake)
        lake.schema = {"fields": [*NARROW[:2], {"name": "more", "type": "int64"}]}
        found = tidegate.diff_schema(lake.config, "events")
        assert found.ok
        assert {change.path: change.kind for change in found.changes} == {"event": "missing", "more": "new"}
        lake.schema = {"fields": FIELDS}
        found = tidegate.diff_schema(lake.config, "events")
        assert (found.ok, found.changes[0].kind) == (False, "narrower table")
        lake.schema = {"infer": True}
        assert tidegate.diff_schema(lake.config, "events").changes == ()
        lake.sink_settings = {"partition_by": {"prefix_template": "day"}}
        assert not tidegate.diff_schema(lake.config, "events").ok

    def test_an_empty_source_has_nothing_to_say(self, tmp_path: Path) -> None:
        with raises(SourceError, "events/default", "no file", "source_uri", "pattern"):
            tidegate.infer_schema(Lake(tmp_path).config, "events")


class TestTransforms:
    """The columns of a table behind a transform are those of its result."""

    def test_they_are_not_compared_with_what_is_read(self, lake: Lake) -> None:
        lake.pipeline_settings = {"transform": {"sql": "select id, 1 as more from source"}}
        found = tidegate.diff_schema(lake.config, "events")
        assert (found.changes, found.ok) == ((), True)
        assert "has a transform" in found.notes[0]
        assert "has a transform" in tidegate.show_schema(lake.config, "events").notes[0]

    def test_they_are_not_replaced_by_what_is_read(self, lake: Lake) -> None:
        lake.pipeline_settings = {"transform": {"sql": "select id from source"}, **OVERWRITE}
        with raises(ConfigError, "events", "transform", "another table"):
            tidegate.replace_schema(lake.config, "events")

    def test_doctor_does_not_compare_them_either(self, lake: Lake) -> None:
        good(lake)
        lake.pipeline_settings = {"transform": {"sql": "select cast(id as string) as id from source"}}
        lake.schema = {"fields": TEXT}
        verdicts = {check.verdict for check in tidegate.doctor(lake.config) if check.name == "table of events/default"}
        assert verdicts == {"ok"}
