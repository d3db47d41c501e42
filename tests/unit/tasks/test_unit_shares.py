"""The work units of one task: how many are under way, when it stops, and what the files that they share hold."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from servers.api import Answer, Api, Asked, running
from support.unit_waves import FIELDS, PAGED, carried_out, failure, inferred, ms, rows, source, surveys, wave, work
from tidegate.sources.units.work import Fetched, UnitFailure, UnitWritten
from tidegate.specs.columns import AuthKind, HttpAuth, Pagination, Retries
from tidegate.specs.locations import Secret
from tidegate.specs.table import FieldSpec, PartitionBy, SchemaSpec
from tidegate.specs.units import NotFound, WorkUnits
from tidegate.tasks import unit_share
from tidegate.tasks.unit_share import carry_out_here, fetch_share, most_in_flight
from tidegate.tasks.unit_task import fetch_task

ONE_PAGE = {"pagination": Pagination(), "retries": Retries(0, 0.0, 1.0)}


@pytest.fixture
def api() -> Iterator[Api]:
    with running() as server:
        yield server


def serve(api: Api, answers: dict[str, Callable[[Asked], Answer]]) -> None:
    for name, answer in answers.items():
        api.routes[f"/surveys/{name}/responses"] = answer


def records(*ids: int) -> Callable[[Asked], Answer]:
    return lambda asked: Answer({"data": [{"id": number} for number in ids]})


def stored(folder: Path) -> list[dict[str, Any]]:
    """All rows of all files in the table's folder."""
    return [row for path in sorted((folder / "table").rglob("*.parquet")) for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize(("most", "parallelism", "wanted"), [(4, None, 4), (4, 3, 3), (2, 8, 2), (64, None, 12)])
def test_so_many_requests_are_under_way_at_once(
    api: Api, tmp_path: Path, most: int, parallelism: int | None, wanted: int
) -> None:
    together = threading.Barrier(wanted, timeout=60)
    guard, here, greatest = threading.Lock(), [0], [0]

    def answer(asked: Asked) -> Answer:
        with guard:
            here[0] += 1
            greatest[0] = max(greatest[0], here[0])
        together.wait()
        with guard:
            here[0] -= 1
        return Answer({"data": [{"id": 1}]})

    serve(api, {f"u{number}": answer for number in range(12)})
    of = source(surveys(api, max_in_flight=most, parallelism=parallelism, **ONE_PAGE))
    results = carried_out(wave(tmp_path, of, [work(f"u{number}") for number in range(12)]))
    assert all(isinstance(each, UnitWritten) for each in results)
    assert greatest[0] == wanted == most_in_flight(of, 12)


def test_a_bad_record_or_too_few_of_them_keep_out_that_unit_alone(api: Api, tmp_path: Path) -> None:
    serve(api, {"a": records(1, 2), "thin": records(3), "none": records(), "b": records(4, 5)})
    serve(api, {"bad": lambda asked: Answer({"data": [{"id": 6}, {"id": "x"}]})})
    of = source(surveys(api, **ONE_PAGE), work=WorkUnits(min_records=2))
    results = carried_out(wave(tmp_path, of, [work(name) for name in ("a", "thin", "bad", "none", "b")]))
    assert [each.rows if isinstance(each, UnitWritten) else None for each in results] == [2, 1, None, 0, 2]
    assert "page 1, record 2: " in failure(results[2]).problem
    assert sorted((row["_tidegate_unit"], row["id"]) for row in stored(tmp_path)) == [
        ("a", 1),
        ("a", 2),
        ("b", 4),
        ("b", 5),
    ]
    assert [bool(each.data_files) for each in results if isinstance(each, UnitWritten)] == [True, False, False, True]


def test_units_decoded_together_give_what_each_gives_alone(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times outside the range, values without a column, segments, rescued fields: the same rows and counts."""
    day = "2026-02-{:02d}T12:00:00Z".format
    for name, days in {"a": (1, 5, 15), "b": (2, 25), "c": (), "d": (19, 20)}.items():
        found = [{"id": number, "at": day(each), "more": {"x": each}} for number, each in enumerate(days)]
        serve(api, {name: lambda asked, found=found: Answer({"data": [*found, {"id": 9, "at": None}]})})
    works = [work(name, 1, 11, 21) for name in "abcd"]
    of = source(surveys(api, **ONE_PAGE), time_column="at")
    schema = SchemaSpec(FIELDS, rescued="rest")
    outcomes = []
    for folder, limit in ((tmp_path / "together", 10**6), (tmp_path / "alone", -1)):
        monkeypatch.setattr(unit_share, "_TOGETHER_BYTES", limit)
        results = carried_out(wave(folder, of, works, schema))
        counts = [(each.rows, each.left_out) for each in results if isinstance(each, UnitWritten)]
        found = [rows(folder, *each) for each in zip(results, works, strict=True)]
        outcomes.append((counts, found))
    assert outcomes[0] == outcomes[1]
    assert [count for count, _ in outcomes[0][0]] == [3, 1, 0, 2]
    unknown = carried_out(wave(tmp_path / "unknown", of, works))
    assert sum(sum(each.unknown_fields.values()) for each in unknown if isinstance(each, UnitWritten)) == 7 * 2


def test_a_large_unit_has_files_of_its_own(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_share, "_TOGETHER_BYTES", 2000)
    monkeypatch.setattr(unit_share, "_HELD_BYTES", 2000)
    serve(api, {"a": records(1), "large": records(*range(1000)), "b": records(2)})
    results = carried_out(
        wave(tmp_path, source(surveys(api, **ONE_PAGE)), [work(name) for name in ("a", "large", "b")])
    )
    a, large, b = [{file.path for file in each.data_files} for each in results if isinstance(each, UnitWritten)]
    assert a == b
    assert not a & large
    assert len(stored(tmp_path)) == 1002


def test_where_a_shared_file_cannot_be_written_only_the_unit_to_blame_fails(api: Api, tmp_path: Path) -> None:
    """No file system has a folder with so long a name."""
    keys = {"a": "x", "long": "y" * 300, "b": "z"}
    for name, key in keys.items():
        serve(api, {name: lambda asked, key=key: Answer({"data": [{"id": 1, "key": key}]})})
    schema = SchemaSpec((FieldSpec("id", "int64"), FieldSpec("key", "string")))
    by = PartitionBy("key", "key")
    works = [work(name) for name in keys]
    results = carried_out(wave(tmp_path, source(surveys(api, **ONE_PAGE)), works, schema, partition_by=by))
    assert [isinstance(each, UnitWritten) for each in results] == [True, False, True]
    files = [
        file.partition_values["key"] for each in results if isinstance(each, UnitWritten) for file in each.data_files
    ]
    assert files == ["x", "z"]


def test_a_group_has_one_file_per_partition_value(api: Api, tmp_path: Path) -> None:
    for number in range(30):
        serve(api, {f"u{number}": lambda asked, n=number: Answer({"data": [{"id": n, "key": k} for k in "pq"]})})
    schema = SchemaSpec((FieldSpec("id", "int64"), FieldSpec("key", "string")))
    works = [work(f"u{number}") for number in range(30)]
    given = wave(tmp_path, source(surveys(api, **ONE_PAGE)), works, schema, partition_by=PartitionBy("key", "key"))
    results = carried_out(given)
    files = {file.path: file for each in results if isinstance(each, UnitWritten) for file in each.data_files}
    assert sorted(file.partition_values["key"] or "" for file in files.values()) == ["p", "q"]
    assert sum(file.record_count for file in files.values()) == 60


def test_after_its_time_a_task_begins_nothing_more_but_always_something(api: Api, tmp_path: Path) -> None:
    serve(api, {f"u{number}": records(number) for number in range(6)})
    given = wave(tmp_path, source(surveys(api, **ONE_PAGE)), [work(f"u{number}") for number in range(6)])
    clock = itertools.count(0, 4).__next__
    done = dict(fetch_share(fetch_task(replace(given, seconds=10.0)), list(enumerate(given.works)), clock=clock))
    assert 0 < len(done) < 6
    assert list(done) == list(range(len(done)))
    result = carry_out_here(replace(given, seconds=0.0))
    assert [isinstance(each, UnitWritten) for each in result.results] == [True] + [False] * 5
    assert result.results[1:] == (None,) * 5
    assert [row["id"] for row in stored(tmp_path)] == [0]


def test_a_task_stops_after_so_many_failures_in_a_row(api: Api, tmp_path: Path) -> None:
    names = [f"u{number}" for number in range(40)]
    given = wave(tmp_path, source(surveys(api, max_in_flight=8, **ONE_PAGE)), [work(name) for name in names])
    serve(api, {name: lambda asked: Answer("down", 500) for name in names})
    results = carry_out_here(replace(given, failures=3)).results
    assert [isinstance(each, UnitFailure) for each in results] == [True] * 3 + [False] * 37
    assert len(api.asked) == 3
    serve(api, {name: records(1) for name in names[::2]})
    assert None not in carry_out_here(replace(given, failures=10)).results, "no ten fail in a row"
    assert None not in carry_out_here(replace(given, failures=None)).results


def test_what_a_server_does_not_know_is_no_failure_where_that_is_said(api: Api, tmp_path: Path) -> None:
    of = source(surveys(api, **ONE_PAGE), work=WorkUnits(not_found=NotFound.EMPTY))
    given = wave(tmp_path, of, [work(f"u{number}") for number in range(9)])
    assert None not in carry_out_here(replace(given, failures=2)).results


def test_a_token_that_is_refused_under_way_is_asked_for_once_more(api: Api, tmp_path: Path) -> None:
    """Four requests are refused together; one of them brings a new token, and all go on with that."""
    tokens = itertools.count(1)
    refused = threading.Barrier(4, timeout=60)
    api.routes["/token"] = lambda asked: Answer({"access_token": f"canary-{next(tokens)}"})

    def answer(asked: Asked) -> Answer:
        if asked.headers["authorization"] == "Bearer canary-1":
            refused.wait()
            return Answer({"error": "expired"}, 401)
        return Answer({"data": [{"id": 1}]})

    serve(api, {f"u{number}": answer for number in range(4)})
    auth = HttpAuth(AuthKind.OAUTH2, token_url=f"{api.url}/token", client_id="i", client_secret=Secret("canary-s"))
    of = source(surveys(api, auth=auth, max_in_flight=4, **ONE_PAGE))
    results = carried_out(wave(tmp_path, of, [work(f"u{number}") for number in range(4)]))
    assert all(isinstance(each, UnitWritten) for each in results), results
    assert len(api.to("/token")) == 2
    assert "canary" not in str(results)


def test_small_answers_wait_in_few_packs(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the columns are told by all units of the wave, what came lies in the scratch area meanwhile."""
    monkeypatch.setattr(unit_share, "_PACK_BYTES", 400)
    serve(api, {f"u{number}": records(number, number + 100) for number in range(30)})
    works = [work(f"u{number}") for number in range(30)]
    given = wave(tmp_path, source(surveys(api, **ONE_PAGE)), works, inferred())
    fetched = dict(unit_share.pack_share(fetch_task(given, 1, 4), list(enumerate(works))))
    paths = {file.slice.path for each in fetched.values() if isinstance(each, Fetched) for file in each.files}
    packs = [each for each in (tmp_path / "scratch").rglob("*") if each.is_file()]
    assert {each.name for each in packs} == paths
    assert 1 < len(paths) < 15
    result = unit_share.write_fetched(given, fetched, lambda plan, left: dict(_written(plan, left)))
    found = [sorted(row["id"] for row in rows(tmp_path, *each)) for each in zip(result.results, works, strict=True)]
    assert found == [[number, number + 100] for number in range(30)]
    assert not [each for each in (tmp_path / "scratch").rglob("*") if each.is_file()]


def _written(plan: Any, left: Any) -> Iterator[Any]:
    return unit_share.write_packed(plan, list(left.items()))


def test_an_answer_that_is_not_small_is_a_file_of_the_scratch_area(api: Api, tmp_path: Path) -> None:
    import random

    noise = random.Random(1)
    texts = [{"id": number, "text": noise.randbytes(600).hex()} for number in range(1000)]
    serve(api, {"a": lambda asked: Answer({"data": texts}), "b": records(7)})
    schema = SchemaSpec((FieldSpec("id", "int64"), FieldSpec("text", "string")))
    given = wave(tmp_path, source(surveys(api, **ONE_PAGE)), [work("a"), work("b")], schema)
    (_, large), (_, small) = sorted(fetch_share(fetch_task(given), list(enumerate(given.works))))
    assert isinstance(large, Fetched)
    assert isinstance(small, Fetched)
    assert [file.content is None for each in (large, small) for file in each.files] == [True, False]
    assert (tmp_path / "scratch" / large.files[0].slice.path).stat().st_size == large.files[0].slice.size


def test_the_pages_of_a_unit_count_whole_or_not_at_all(api: Api, tmp_path: Path) -> None:
    def pages(asked: Asked) -> Answer:
        return Answer({"data": [{"id": 1}]}) if asked.params["page"] == "1" else Answer("down", 500)

    serve(
        api,
        {"half": pages, "whole": lambda asked: Answer({"data": [{"id": 2}] if asked.params["page"] == "1" else []})},
    )
    of = source(surveys(api, pagination=PAGED, retries=Retries(0, 0.0, 1.0)))
    results = carried_out(wave(tmp_path, of, [work("half"), work("whole")]))
    assert "failed: status 500" in failure(results[0]).problem
    assert [row["id"] for row in stored(tmp_path)] == [2]


def test_rows_know_their_unit_and_segment(api: Api, tmp_path: Path) -> None:
    serve(api, {name: records(*range(size)) for name, size in {"a": 3, "b": 1, "c": 2}.items()})
    works = [work("a", 1, 2), work("b", 3, 4), work("c", 5, 6)]
    carried_out(wave(tmp_path, source(surveys(api, **ONE_PAGE)), works))
    found = [(row["_tidegate_unit"], int(row["_tidegate_segment"].timestamp() * 1000)) for row in stored(tmp_path)]
    assert sorted(found) == [("a", ms(1))] * 3 + [("b", ms(3))] + [("c", ms(5))] * 2
