"""One unit, read for real: files in a directory, Parquet files in another, nothing in between replaced."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate import failpoints
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Changed, Covered, NotReached, Refused
from tidegate.failpoints import InjectedFailure
from tidegate.parquet.writer import WriterSettings
from tidegate.schema.types import arrow_schema
from tidegate.specs.files import PathSource
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import FieldSpec, PartitionBy, SchemaSpec, SinkSpec
from tidegate.tasks.read_task import GroupResult, ReadTask, read_task
from tidegate.tasks.task import SMALL_FILE, read_group_at_once

FIELDS = (
    FieldSpec("id", "int64", nullable=False),
    FieldSpec("ts", "timestamp"),
    FieldSpec("text", "string"),
)


class FileSource:
    """A source and a table in a temporary directory."""

    def __init__(self, root: Path) -> None:
        self.source = root / "source"
        self.table = root / "table"
        self.source.mkdir()
        self.table.mkdir()

    def put(self, path: str, lines: list[str]) -> FileSlice:
        target = self.source / path
        target.parent.mkdir(parents=True, exist_ok=True)
        data = "".join(f"{line}\n" for line in lines).encode()
        target.write_bytes(gzip.compress(data, 1) if path.endswith(".gz") else data)
        return FileSlice(path, target.stat().st_size)

    def records(self, path: str, start: int, count: int, text: str = "x") -> FileSlice:
        return self.put(path, [record(number, text) for number in range(start, start + count)])

    def task(self, **changes: Any) -> ReadTask:
        task = ReadTask(
            source=Location(self.source.as_uri()),
            table=Location(self.table.as_uri()),
            fields=FIELDS,
            file_schema=arrow_schema(FIELDS).serialize().to_pybytes(),
        )
        return replace(task, **changes)

    def ids(self, result: GroupResult) -> list[int]:
        found = [pq.read_table(self.table / file.path, partitioning=None) for file in result.data_files]
        return sorted(number for table in found for number in table.column("id").to_pylist())

    def parquet_files(self) -> set[str]:
        return {str(path.relative_to(self.table)) for path in self.table.rglob("*.parquet")}


def record(number: int, text: str = "x") -> str:
    return json.dumps({"id": number, "ts": f"2024-01-{number % 28 + 1:02d}T00:00:00Z", "text": text})


@pytest.fixture
def place(tmp_path: Path) -> FileSource:
    return FileSource(tmp_path)


@pytest.fixture(autouse=True)
def _no_failpoints() -> Iterator[None]:
    yield
    failpoints.arm("")


def test_a_unit_is_read_into_one_file_and_every_file_is_covered(place: FileSource) -> None:
    slices = (place.records("a.ndjson.gz", 0, 100), place.records("b.ndjson", 100, 50), place.records("c.gz", 150, 0))
    result = read_group_at_once(place.task(), FileGroup(7, slices))
    assert result.number == 7
    assert result.outcomes == (
        Covered("a.ndjson.gz", slices[0].size, None, 0, 100, True, rows=100),
        Covered("b.ndjson", slices[1].size, None, 0, 50, True, rows=50),
        Covered("c.gz", slices[2].size, None, 0, 0, True),
    )
    assert place.ids(result) == list(range(150))
    assert result.rows == 150
    assert len(result.data_files) == 1
    assert place.parquet_files() == {result.data_files[0].path}
    assert result.data_files[0].size == (place.table / result.data_files[0].path).stat().st_size


def test_results_and_tasks_travel(place: FileSource) -> None:
    task = place.task(partition_by=PartitionBy("date=%Y-%m-%d", "ts"))
    slices = (place.records("a", 0, 5), place.put("bad", ["{"]), FileSlice("gone", 5))
    result = read_group_at_once(pickle.loads(pickle.dumps(task)), FileGroup(0, slices))
    assert pickle.loads(pickle.dumps(result)) == result
    assert [type(each) for each in result.outcomes] == [Covered, Refused, Changed]


def test_a_bad_record_refuses_its_file_and_the_others_go_on(place: FileSource) -> None:
    lines = [record(1), "", record(2), '{"id": 1.5}', record(4)]
    slices = (place.records("a", 10, 3), place.put("b", lines), place.records("c", 20, 3))
    result = read_group_at_once(place.task(), FileGroup(0, slices))
    assert [type(each) for each in result.outcomes] == [Covered, Refused, Covered]
    refused = result.outcomes[1]
    assert isinstance(refused, Refused)
    assert refused.reason == "line 4: 'id': 1.5 has a fraction, the column is int64"
    assert place.ids(result) == [10, 11, 12, 20, 21, 22]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "plain"])
def test_a_damaged_file_is_refused_by_name(place: FileSource, damage: str) -> None:
    good = place.records("a.gz", 0, 3000)
    data = (place.source / "a.gz").read_bytes()
    broken = {
        "truncated": data[:-20],
        "flipped": data[:200] + bytes([data[200] ^ 0x55]) + data[201:],
        "plain": b'{"id":1}\n',
    }[damage]
    (place.source / "b.gz").write_bytes(broken)
    result = read_group_at_once(place.task(), FileGroup(0, (FileSlice("b.gz", len(broken)), good)))
    refused = result.outcomes[0]
    assert isinstance(refused, Refused)
    assert refused.path == "b.gz"
    assert refused.reason
    assert place.ids(result) == list(range(3000))


def test_small_files_share_a_block_but_not_their_fate(place: FileSource) -> None:
    lines = {
        "date=1/a": [record(0), record(1)],
        "date=1/b": [record(2), "oops", record(3), "oops again"],
        "date=2/c": ["", record(4), "", record(5)],
        "date=2/d": [],
        "date=3/e": ["{}"],
        "date=3/f": [record(6)],
    }
    slices = tuple(place.put(path, content) for path, content in lines.items())
    columns = ("_source_file", "_source_record")
    declared = [*arrow_schema(FIELDS), ("_source_file", pa.string()), ("_source_record", pa.int64())]
    task = place.task(
        partition_by=PartitionBy("date=%Y"),
        metadata_columns=columns,
        file_schema=pa.schema(declared).serialize().to_pybytes(),
    )
    result = read_group_at_once(task, FileGroup(0, slices))
    assert [type(each) for each in result.outcomes] == [Covered, Refused, Covered, Covered, Refused, Covered]
    reasons = [each.reason for each in result.outcomes if isinstance(each, Refused)]
    assert reasons[0].startswith("line 2: not JSON")
    assert reasons[1] == "line 1: required field 'id' is missing"
    found = {}
    for file in result.data_files:
        for row in pq.read_table(place.table / file.path, partitioning=None).to_pylist():
            name = row["_source_file"].removeprefix(f"{place.source.as_uri()}/")
            assert name.startswith(f"date={file.partition_values['date']}/")
            found[row["id"]] = (name, row["_source_record"])
    assert found == {
        0: ("date=1/a", 0),
        1: ("date=1/a", 1),
        4: ("date=2/c", 1),
        5: ("date=2/c", 3),
        6: ("date=3/f", 0),
    }


def test_a_small_file_that_unfolds_into_a_large_one_is_read_whole(place: FileSource) -> None:
    slices = (
        place.records("a.gz", 0, 5),
        place.records("b.gz", 5, 45_000, "x" * 100),
        place.records("c.gz", 45_005, 5),
    )
    assert slices[1].size < SMALL_FILE
    result = read_group_at_once(place.task(), FileGroup(0, slices))
    assert place.ids(result) == list(range(45_010))


@pytest.mark.slow
def test_a_refused_large_file_leaves_nothing_behind(place: FileSource) -> None:
    task = place.task(held_bytes=100_000, writer=WriterSettings(file_size=200_000, row_group_size=50_000))
    text = os.urandom(50).hex()
    large = place.put("b.gz", [*(record(number, f"{text}{number}") for number in range(100_000)), "oops"])
    slices = (place.records("a", 0, 10), large, place.records("c", 200_000, 10))
    result = read_group_at_once(task, FileGroup(0, slices))
    assert [type(each) for each in result.outcomes] == [Covered, Refused, Covered]
    assert place.ids(result) == [*range(10), *range(200_000, 200_010)]
    assert place.parquet_files() == {file.path for file in result.data_files}


def test_a_missing_or_changed_file_is_reported_as_changed(place: FileSource) -> None:
    slices = (FileSlice("gone", 10), replace(place.records("a", 0, 3), size=1), place.records("b", 0, 3))
    result = read_group_at_once(place.task(), FileGroup(0, slices))
    assert result.outcomes[:2] == (Changed("gone"), Changed("a"))
    assert place.ids(result) == [0, 1, 2]


def test_the_first_committed_lines_are_skipped_exactly(place: FileSource) -> None:
    whole = place.put("a.gz", [record(0), "", *(record(number) for number in range(2, 500))])
    result = read_group_at_once(place.task(), FileGroup(0, (replace(whole, start_record=300),)))
    assert place.ids(result) == list(range(300, 500))
    assert result.outcomes == (Covered("a.gz", whole.size, None, 300, 500, True, rows=200),)


def test_a_unit_stops_after_the_file_that_filled_the_batch(place: FileSource) -> None:
    task = place.task(commit_batch_files=2, writer=WriterSettings(file_size=80_000))
    slices = tuple(
        place.put(f"f{file}", [record(file * 4000 + number, os.urandom(20).hex()) for number in range(4000)])
        for file in range(9)
    )
    result = read_group_at_once(task, FileGroup(0, slices))
    reached = [isinstance(each, Covered) for each in result.outcomes]
    assert reached == sorted(reached, reverse=True)
    assert 0 < sum(reached) < 9
    assert place.ids(result) == list(range(4000 * sum(reached)))


def test_a_task_without_time_still_reads_one_file(place: FileSource) -> None:
    slices = (place.records("a", 0, 10), place.records("b", 10, 10))
    result = read_group_at_once(place.task(seconds=0.0), FileGroup(0, slices))
    assert [type(each) for each in result.outcomes] == [Covered, NotReached]
    assert place.ids(result) == list(range(10))


@pytest.mark.slow
def test_a_large_file_is_left_in_the_middle_and_taken_up_again(place: FileSource) -> None:
    task = place.task(
        held_bytes=1_000_000,
        whole_files=False,
        commit_batch_files=1,
        writer=WriterSettings(file_size=300_000, row_group_size=1_000_000),
    )
    rest = place.put("a.gz", [record(number, os.urandom(40).hex()) for number in range(150_000)])
    ids: list[int] = []
    ends = []
    while rest is not None:
        result = read_group_at_once(task, FileGroup(0, (rest,)))
        covered = result.outcomes[0]
        assert isinstance(covered, Covered)
        assert covered.start == (ends[-1] if ends else 0)
        ids += place.ids(result)
        ends.append(covered.end)
        rest = None if covered.eof else replace(rest, start_record=covered.end, rounds=rest.rounds + 1)
    assert ids == list(range(150_000))
    assert len(ends) > 2


def test_rows_go_to_the_partition_of_their_column(place: FileSource) -> None:
    task = place.task(partition_by=PartitionBy("date=%Y-%m-%d", "ts"))
    result = read_group_at_once(task, FileGroup(0, (place.records("a", 0, 56),)))
    assert len(result.data_files) == 28
    for file in result.data_files:
        table = pq.read_table(place.table / file.path, partitioning=None)
        assert {f"{at:%Y-%m-%d}" for at in table.column("ts").to_pylist()} == {file.partition_values["date"]}
        assert file.path.startswith(f"date={file.partition_values['date']}/")
        assert "date" not in json.loads(file.stats or "")["minValues"]


def test_rows_go_to_the_partition_of_their_source_path(place: FileSource) -> None:
    slices = (
        place.records("date=2024-01-28/a", 0, 2),
        place.records("date=2024-01-29/a", 2, 2),
        place.records("x", 4, 2),
    )
    result = read_group_at_once(place.task(partition_by=PartitionBy("date=%Y-%m-%d")), FileGroup(0, slices))
    found = {file.partition_values["date"]: file.record_count for file in result.data_files}
    assert found == {"2024-01-28": 2, "2024-01-29": 2, None: 2}


def test_a_record_field_named_like_a_path_partition_is_refused(place: FileSource) -> None:
    bad = place.put("date=2024-01-28/a", ['{"id":1,"date":"2024-01-30"}'])
    result = read_group_at_once(place.task(partition_by=PartitionBy("date=%Y-%m-%d")), FileGroup(0, (bad,)))
    refused = result.outcomes[0]
    assert isinstance(refused, Refused)
    assert "'date' has the name of a partition column" in refused.reason


def test_unknown_fields_are_reported(place: FileSource) -> None:
    result = read_group_at_once(place.task(), FileGroup(0, (place.put("a", ['{"id":1,"more":2}'] * 3),)))
    assert result.unknown_fields == {"more": 3}


def test_metadata_columns_say_where_a_row_came_from(place: FileSource) -> None:
    pipeline = PipelineSpec(
        "p",
        (source := PathSource("s", Location(place.source.as_uri())),),
        SchemaSpec(fields=FIELDS),
        SinkSpec(Location(place.table.as_uri()), metadata_columns=("_source_file", "_source_record", "_ingested_at")),
    )
    one = place.put("d/a", [record(5), "", record(6)])
    result = read_group_at_once(read_task(pipeline, source, FIELDS), FileGroup(0, (one,)))
    rows = pq.read_table(place.table / result.data_files[0].path).to_pylist()
    assert [row["_source_record"] for row in rows] == [0, 2]
    assert {row["_source_file"] for row in rows} == {f"{place.source.as_uri()}/d/a"}
    assert len({row["_ingested_at"] for row in rows}) == 1


def test_narrower_declarations_are_written_as_the_table_has_them(place: FileSource) -> None:
    fields = (FieldSpec("id", "int32"), FieldSpec("u", "struct", fields=(FieldSpec("v", "float32"),)))
    pipeline = PipelineSpec(
        "p",
        (source := PathSource("s", Location(place.source.as_uri())),),
        SchemaSpec(fields=fields),
        SinkSpec(Location(place.table.as_uri())),
    )
    table = pa.schema([("id", pa.int64()), ("u", pa.struct([("v", pa.float64())]))])
    one = place.put("a", ['{"id":1,"u":{"v":0.5}}'])
    result = read_group_at_once(read_task(pipeline, source, fields, table), FileGroup(0, (one,)))
    written = pq.read_table(place.table / result.data_files[0].path)
    assert written.schema.field("id").type == pa.int64()
    assert written.to_pylist() == [{"id": 1, "u": {"v": 0.5}}]


@pytest.mark.parametrize("point", ["sink.rows.before", "sink.upload.before", "sink.upload.after", "sink.unit.after"])
def test_a_failure_anywhere_fails_the_unit(place: FileSource, point: str) -> None:
    failpoints.arm(f"{point}=raise")
    with pytest.raises(InjectedFailure):
        read_group_at_once(place.task(), FileGroup(0, (place.records("a", 0, 3),)))
