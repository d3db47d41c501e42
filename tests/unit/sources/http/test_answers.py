"""Records are found in answers that arrive in pieces of any size; few of them tell the columns of all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.long_runs import examples
from tidegate.schema.inference import infer_json
from tidegate.sources.http.answers import CutOff, NotAnswer, Scanner, Shapes

TEXTS = st.text(alphabet=st.sampled_from('ab"\\{}[],: \n\t\u00e9\u4e2d'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
SIZES = st.sampled_from([1, 2, 7, 60])
FEW = settings(deadline=None, max_examples=examples(30))
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)


def scanned(content: bytes, path: str, size: int) -> tuple[list[Any], Any, Scanner]:
    found: list[bytes] = []
    scanner = Scanner(tuple(path.split(".")) if path else (), found.append)
    for begin in range(0, len(content), size):
        scanner.feed(content[begin : begin + size])
    rest = scanner.finish()
    assert not any(b"\n" in line for line in found)
    return [json.loads(line) for line in found], rest, scanner


@FEW
@given(st.lists(OBJECTS, max_size=5), OBJECTS, OBJECTS, SIZES, st.sampled_from([None, 1]))
def test_whatever_the_answer_and_its_pieces(
    records: list[Any], before: dict[str, Any], after: dict[str, Any], size: int, indent: int | None
) -> None:
    inner = {**before, "items": records, "more": after}
    answer = {**after, "data": inner, "x": before}
    content = json.dumps(answer, ensure_ascii=False, indent=indent).encode()
    found, rest, scanner = scanned(content, "data.items", size)
    assert (found, scanner.count, scanner.is_found) == (records, len(records), True)
    assert rest == {**answer, "data": {**inner, "items": []}}


@FEW
@given(st.lists(OBJECTS, max_size=5), SIZES)
def test_an_answer_that_is_the_list(records: list[Any], size: int) -> None:
    assert scanned(json.dumps(records).encode(), "", size)[:2] == (records, [])


@FEW
@given(st.lists(OBJECTS, min_size=1, max_size=3), st.data())
def test_an_answer_that_ends_anywhere_is_cut_off(records: list[Any], data: st.DataObject) -> None:
    content = json.dumps({"data": records}).encode()
    with pytest.raises(CutOff):
        scanned(content[: data.draw(st.integers(0, len(content) - 1))], "data", 7)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"data": [1, 2]}', "record 1 is not an object: '1'"),
        (b'{"data": [{}, null]}', "record 2 is not an object: 'null'"),
        (b'{"data": [{}, ]}', "record 2 is not an object"),
        (b'{"data": [{"a": "x\ny"}]}', "control character"),
        (b'{"data": [{}], "data": [{}]}', "'data' twice"),
        (b'{"data": [{}}, {}]', "do not match"),
        (b'{"data": [{}]} x', "not JSON"),
        (b'{"data": [{}] "x"}', "not JSON"),
        (b"<p>hello", "not JSON"),
    ],
)
def test_what_is_no_answer(content: bytes, reason: str) -> None:
    with pytest.raises(NotAnswer, match=reason):
        scanned(content, "data", 5)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("is_rest", [False, True])
def test_a_record_is_too_long_by_its_own_length_in_pieces_of_any_size(
    is_rest: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sources.http.answers.LONGEST_RECORD", 60)

    def answer(length: int) -> bytes:
        record = {"a": "x" * (length - 8)}
        other = {"data": [{}], "b": "x" * (length - 18)}
        return json.dumps(other if is_rest else {"data": [{}, record, {}]}, separators=(",", ":")).encode()

    scanned(answer(60), "data", size)
    with pytest.raises(NotAnswer, match="of more than"):
        scanned(answer(61), "data", size)


@pytest.mark.parametrize(
    "content", [b'{"a": [[{"data": [{}]}]]}', b'{"data": {"data": [{}]}}', b'[{"data": [{}]}]', b"7"]
)
def test_a_list_of_that_name_elsewhere_is_not_it(content: bytes) -> None:
    found, rest, scanner = scanned(content, "data", 3)
    assert scanned(b'[{"a": 1, "b": [{}]}]', "a.b", 3)[2].is_found is False
    assert (found, scanner.is_found, rest) == ([], False, json.loads(content))


TYPED = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-5, 5) | st.sampled_from(["a", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
RECORDS = st.lists(st.dictionaries(st.sampled_from("abc"), TYPED, max_size=3), min_size=1, max_size=12)


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
