"""Few records tell the columns of all."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.long_runs import examples
from tidegate.schema.inference import infer_json
from tidegate.sources.http.answers import Shapes

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-5, 5) | st.sampled_from(["a", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
RECORDS = st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), min_size=1, max_size=12)


def telling(records: list[Any]) -> list[bytes]:
    shapes = Shapes()
    found = [shapes.sample(json.dumps(record).encode()) for record in records]
    return [each for each in found if each is not None]


def without_nothing(value: Any) -> Any:
    """What is left where nothing is learnt from null and emptiness."""
    if isinstance(value, dict):
        kept = {key: without_nothing(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, [], {})}
    if isinstance(value, list):
        return [item for each in value if (item := without_nothing(each)) not in (None, [], {})]
    return value


@settings(deadline=None, max_examples=examples(60))
@given(RECORDS)
def test_the_telling_records_give_the_columns_of_all(records: list[Any]) -> None:
    everything = infer_json([[json.dumps(without_nothing(record)).encode() for record in records]], rescued=False)
    few = infer_json([telling(records)], rescued=False)
    assert sorted(few.fields, key=str) == sorted(everything.fields, key=str)
    assert {each.split(" is ")[0] for each in few.problems} == {each.split(" is ")[0] for each in everything.problems}


def test_only_what_is_new_is_kept() -> None:
    records = [{"id": number, "tags": ["x"], "gone": None, "none": {}} for number in range(1000)]
    records[500] = {"id": 1.5}
    records[501] = {"id": 7, "more": [None, {"deep": True}]}
    assert [json.loads(line) for line in telling(records)] == [
        {"id": 0, "tags": ["x"]},
        {"id": 1.5},
        {"id": 7, "more": [{"deep": True}]},
    ]


def test_an_object_with_keys_without_end_does_not_fill_the_memory() -> None:
    shapes = Shapes()
    kept = [shapes.sample(json.dumps({"map": {f"key {number}": number}}).encode()) for number in range(5000)]
    lines = [each for each in kept if each is not None]
    assert 1000 < len(lines) < 1100
    assert infer_json([lines]).fields[0].type == "json"


def test_what_is_no_record_is_left_for_who_reads_it() -> None:
    assert Shapes().sample(b"{oops") == b"{oops"
