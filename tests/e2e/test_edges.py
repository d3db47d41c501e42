"""Odd input at its edges: refused with a reason, or read exactly; never a table nobody can read, never a run that ends.

Every file here lies beside a good one, whose rows must arrive whatever the odd one does.
"""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from support.lake import FIELDS, Lake
from tidegate.core.files.plan import FileGroup
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.tasks.read_task import GroupResult, Hear, ReadTask

BY_EVENT = {"partition_by": {"prefix_template": "event", "column": "event"}}
MOMENT = pa.timestamp("us", tz="UTC")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    lake.arrive("d/1.ndjson")
    return lake


def reasons(lake: Lake) -> dict[str, str]:
    report = lake.run()
    assert report.sources[0].error is None
    return {failed.path: failed.reason for failed in report.sources[0].failed}


def test_half_a_surrogate_pair_in_a_value_refuses_its_file_only(lake: Lake) -> None:
    lake.pipeline_settings = {"error_handling": {"on_bad_record": "fail_file"}}
    lake.write("d/2.ndjson", '{"id": "\\ud800"}\n')
    assert "\\ud800" in reasons(lake)["d/2.ndjson"]
    lake.assert_exactly_once()


def test_half_a_surrogate_pair_in_the_name_of_an_unknown_field_refuses_its_file_only(lake: Lake) -> None:
    lake.pipeline_settings = {"error_handling": {"on_bad_record": "fail_file"}}
    lake.write("d/2.ndjson", '{"id": 99, "\\ud800": 1}\n')
    assert "\\ud800" in reasons(lake)["d/2.ndjson"]
    lake.assert_exactly_once()


@pytest.mark.parametrize("depth", [300, 800])
@pytest.mark.parametrize("kind", ["json", "string", "int64"])
def test_deep_nesting_is_read_or_refuses_its_file_only(lake: Lake, kind: str, depth: int) -> None:
    lake.pipeline_settings = {"error_handling": {"on_bad_record": "fail_file"}}
    lake.schema = {"fields": [*FIELDS, {"name": "deep", "type": kind}]}
    lake.write("d/2.ndjson", '{"id": 99, "deep": ' + "[" * depth + "1.50" + "]" * depth + "}\n")
    refused = reasons(lake)
    kept = [number for number in lake.ids() if number != 99]
    assert kept == lake.expected
    assert ("d/2.ndjson" in refused) != (99 in lake.ids())


@pytest.mark.parametrize(("depth", "is_read"), [(199, True), (200, False), (400, False)])
def test_deep_nesting_in_an_unknown_field_is_read_up_to_the_limit(lake: Lake, depth: int, is_read: bool) -> None:
    lake.pipeline_settings = {"error_handling": {"on_bad_record": "fail_file"}}
    lake.write("d/2.ndjson", '{"id": 99, "deep": ' + "[" * depth + "]" * depth + "}\n")
    assert ("d/2.ndjson" in reasons(lake)) is not is_read
    assert (99 in lake.ids()) is is_read


@pytest.mark.parametrize("moment", ["0000-06-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
@pytest.mark.parametrize("neighbour", ["", "nonsense\n"])
def test_a_moment_outside_the_calendar_is_a_bad_record_whatever_its_neighbours(
    lake: Lake, moment: str, neighbour: str
) -> None:
    lake.pipeline_settings = {"error_handling": {"on_bad_record": "fail_file"}}
    lake.sink_settings = {"partition_by": {"prefix_template": "day=%Y-%m-%d", "column": "ts"}}
    lake.write("d/2.ndjson", json.dumps({"id": 99, "ts": moment}) + f"\n{neighbour}")
    assert "line 1" in reasons(lake)["d/2.ndjson"]
    lake.assert_exactly_once()


def test_the_first_and_the_last_moment_of_the_calendar_are_read_and_found(lake: Lake) -> None:
    ends = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z")
    lake.write("d/2.ndjson", "".join(json.dumps({"id": 90 + n, "ts": end}) + "\n" for n, end in enumerate(ends)))
    assert reasons(lake) == {}
    data = DeltaTable(lake.root / "lake/events").to_pyarrow_dataset()
    early, late = (pa.scalar(datetime(year, 6, 1, tzinfo=UTC), MOMENT) for year in (1, 9999))
    assert data.to_table(filter=pc.field("ts") < early)["id"].to_pylist() == [90]
    assert data.to_table(filter=pc.field("ts") > late)["id"].to_pylist() == [91]


def existing(lake: Lake, event: pa.Field, value: object) -> None:
    """A table that is partitioned by ``event``, with one row."""
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("ts", MOMENT), event]
    row = pa.Table.from_pylist([{"id": 1000, "ts": None, "event": value}], pa.schema(fields))
    write_deltalake(lake.root / "lake/events", row, partition_by=["event"])


@pytest.mark.parametrize(
    ("event", "value", "word"),
    [
        (pa.field("event", pa.int64()), 5, "int64"),
        (pa.field("event", pa.string(), nullable=False), "x", "required"),
    ],
)
def test_partition_values_that_the_table_cannot_hold_are_refused(
    lake: Lake, event: pa.Field, value: object, word: str
) -> None:
    lake.sink_settings = BY_EVENT
    existing(lake, event, value)
    error = lake.run().sources[0].error or ""
    assert "'event'" in error
    assert word in error
    assert lake.ids() == [1000]


def test_narrower_integers_fit_a_partition_column(lake: Lake) -> None:
    lake.schema = {"fields": [*FIELDS[:2], {"name": "event", "type": "int32"}]}
    lake.sink_settings = BY_EVENT
    existing(lake, pa.field("event", pa.int64()), 5)
    lake.write("d/1.ndjson", '{"id": 1, "event": 7}\n')
    assert reasons(lake) == {}
    assert [row["event"] for row in lake.rows("select event from t order by id")] == [7, 5]


@pytest.mark.parametrize("neighbour", ["", "nonsense\n"])
def test_an_empty_text_in_a_required_partition_column_is_a_bad_record(lake: Lake, neighbour: str) -> None:
    lake.pipeline_settings = {"error_handling": {"on_bad_record": "fail_file"}}
    lake.schema = {"fields": [*FIELDS[:2], {"name": "event", "type": "string", "nullable": False}]}
    lake.sink_settings = BY_EVENT
    lake.write("d/2.ndjson", '{"id": 98, "event": "x"}\n{"id": 99, "event": ""}\n' + neighbour)
    assert "line 2" in reasons(lake)["d/2.ndjson"]
    lake.assert_exactly_once()


ODD = ["a b", "a%b", "a%20b", "a#b", "a+b", "a=b", "a/b", "a?b", "é", "e\u0301", "\U0001f600", "..", "a:b", "a\nb", "%"]


def test_odd_partition_values_come_back_as_they_are(tmp_path: Path) -> None:
    lake = Lake(tmp_path, sink_settings=BY_EVENT)
    for number, value in enumerate(ODD):
        lake.write(f"k={number} %#+é/x y.ndjson", json.dumps({"id": number, "event": value}) + "\n")
    assert reasons(lake) == {}
    assert {row["id"]: row["event"] for row in lake.rows("select * from t")} == dict(enumerate(ODD))
    read = DeltaTable(tmp_path / "lake/events").to_pyarrow_table().to_pydict()
    assert dict(zip(read["id"], read["event"], strict=True)) == dict(enumerate(ODD))
    assert lake.run().sources[0].files == 0


def test_a_column_with_the_name_of_another_ones_field_is_written(lake: Lake) -> None:
    inner = {"name": "a", "type": "struct", "fields": [{"name": "b", "type": "int64"}]}
    lake.schema = {"fields": [*FIELDS, {"name": "a.b", "type": "string"}, inner]}
    records = [{"id": 90 + n, "a.b": f"t{n}", "a": {"b": n}} for n in range(9)]
    lake.write("d/2.ndjson", "".join(f"{json.dumps(record)}\n" for record in records))
    assert reasons(lake) == {}
    assert lake.rows('select "a.b" as text, a from t where id = 91') == [{"text": "t1", "a": {"b": 1}}]


class Growing(InProcessEngine):
    """Somebody appends to a file just before each task; after too many tasks the run is stopped."""

    def __init__(self, path: Path, stop: threading.Event) -> None:
        self.begun = 0
        self._path, self._stop = path, stop

    def read(self, task: ReadTask, group: FileGroup, hear: Hear) -> tuple[GroupResult, ...]:
        self.begun += 1
        if self.begun > 20:
            self._stop.set()
        with self._path.open("a") as file:
            file.write('{"id": 99}\n')
        return super().read(task, group, hear)


def test_a_file_that_always_grows_below_a_full_row_of_islands_does_not_keep_a_pass_going(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"max_islands": 3})
    growing = lake.write("d/0.ndjson", '{"id": 99}\n')
    for name in range(1, 4):
        lake.arrive(f"d/{name}.ndjson", 1)
    stop = threading.Event()
    lane = Growing(growing, stop)
    Loop(lake.project, lane, 2, lake.seen.append, stop).once(lake.project.pipelines)
    assert not stop.is_set()
    lake.assert_exactly_once()


def test_a_failing_file_below_a_full_row_of_islands_keeps_attempts_for_later(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"max_islands": 3})
    lake.pipeline_settings = {"error_handling": {"on_bad_record": "fail_file"}}
    lake.write("d/0.ndjson", "nonsense\n")
    for name in range(1, 4):
        lake.arrive(f"d/{name}.ndjson", 1)
    assert lake.run().sources[0].failed[0].attempts < 5
    lake.assert_exactly_once()
