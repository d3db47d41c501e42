"""Whether names sort in time, told from a sample of files."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.sources.file_names import Order, Shape, names_sort_in_time, sample, shape_of
from tidegate.specs.locations import Location
from tidegate.storage.memory import MemoryStore, Space
from tidegate.storage.port import ObjectInfo

START = datetime(2024, 1, 28, tzinfo=UTC)


def infos(names: list[str], seconds: list[float] | None = None) -> list[ObjectInfo]:
    moments = seconds or [float(number) for number in range(len(names))]
    pairs = zip(names, moments, strict=True)
    return [ObjectInfo(name, 1, None, START + timedelta(seconds=second)) for name, second in pairs]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("1706450400-550e8400.ndjson.gz", Shape.UNIX_TIME),
        ("1706450400123.json", Shape.UNIX_TIME),
        ("2024-01-28T14:00:00Z.json", Shape.ISO_TIME),
        ("20240128-part.json", Shape.ISO_TIME),
        ("018d5e6f-1c2b-7abc-8def-0123456789ab.json", Shape.UUID7),
        ("550E8400-E29B-41D4-A716-446655440000.json", Shape.RANDOM_UUID),
        ("part-00001.json", Shape.OTHER),
        ("17.json", Shape.OTHER),
    ],
)
def test_the_shape_of_a_name_is_recognised(name: str, shape: Shape) -> None:
    assert shape_of(name) is shape


def test_names_that_follow_time_sort_in_time() -> None:
    verdict = names_sort_in_time(infos([f"part-{number:05d}.json" for number in range(200)]))
    assert (verdict.order, verdict.disorder, verdict.example) == (Order.IN_TIME, 0.0, None)


def test_random_names_do_not_sort_in_time_and_an_example_shows_it() -> None:
    rng = random.Random(7)
    names = [f"{uuid.UUID(int=rng.getrandbits(128), version=4)}.json" for _ in range(300)]
    files = infos(names)
    verdict = names_sort_in_time(files)
    assert (verdict.order, verdict.shape) == (Order.NOT_IN_TIME, Shape.RANDOM_UUID)
    assert verdict.disorder is not None
    assert 0.35 < verdict.disorder < 0.65
    assert verdict.example is not None
    greater, smaller = verdict.example
    modified = {info.path: info.modified for info in files}
    assert greater > smaller
    assert modified[greater] < modified[smaller]
    assert "do not sort in time" in verdict.describe()
    assert "random UUID" in verdict.describe()


def test_many_writers_within_a_second_still_sort_in_time() -> None:
    rng = random.Random(7)
    names, seconds = [], []
    for second in range(40):
        for _ in range(20):
            names.append(f"{1706450400 + second}-{rng.getrandbits(64):016x}.json")
            seconds.append(second + rng.random() * 1.5)
    assert names_sort_in_time(infos(names, seconds)).order is Order.IN_TIME


def test_descending_names_do_not_sort_in_time() -> None:
    names = [f"{number:05d}.json" for number in range(100, 0, -1)]
    verdict = names_sort_in_time(infos(names))
    assert (verdict.order, verdict.disorder) == (Order.NOT_IN_TIME, 1.0)


def test_files_copied_at_once_leave_it_to_the_shape() -> None:
    same = [0.0] * 50
    named = infos([f"{1706450400 + number}.json" for number in range(50)], same)
    random_names = infos([f"{uuid.uuid4()}.json" for _ in range(50)], same)
    plain = infos([f"part-{number}.json" for number in range(50)], same)
    assert names_sort_in_time(named).order is Order.IN_TIME
    assert names_sort_in_time(random_names).order is Order.NOT_IN_TIME
    assert names_sort_in_time(plain).order is Order.UNKNOWN
    assert "too little" in names_sort_in_time(plain).describe()


def test_partitions_are_judged_apart() -> None:
    later_first = [f"b={number}/x.json" for number in range(50, 0, -1)]
    assert names_sort_in_time(infos(later_first)).order is Order.UNKNOWN


def test_no_files_say_nothing() -> None:
    assert names_sort_in_time([]).order is Order.UNKNOWN


def test_a_sample_is_bounded_and_has_no_internal_files() -> None:
    store = MemoryStore(Location("memory://sample"), Space())
    for number in range(20):
        store.put(f"d/{number:02d}.json", b"")
    store.put("_tmp/a.json", b"")
    assert [info.path for info in sample(store, 3)] == ["d/00.json", "d/01.json", "d/02.json"]
    assert len(sample(store)) == 20
