"""What to list and what to take: bounds, open directories, accepted names."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from laws.world import NOW, is_open, is_partition_open, source
from tidegate.core.files.discovery import (
    Directories,
    Reason,
    ReasonCounts,
    Skipped,
    accepts,
    accepts_directory,
    cold_prefixes,
    count_reasons,
    list_after,
    survey_directories,
)
from tidegate.core.files.paths import compile_glob
from tidegate.core.files.state import Active, Failed, Finished, LateWindow, PathState, RecordsRead, Seal
from tidegate.specs.files import Format, LateFiles, PartitionFilter

OF = source()
FILTERED = source(partition_filter=PartitionFilter("date=%Y-%m-%d", 1))
STATE = PathState(Active("d/m"), {"d": "m"})


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        *(
            (f"d=1/a{ending}{packing}", None)
            for ending in (".ndjson", ".jsonl", ".json")
            for packing in ("", ".gz", ".zst")
        ),
        ("a.json", None),
        ("d=1/", Reason.MARKER),
        ("_SUCCESS", Reason.INTERNAL),
        ("d=1/.a.json", Reason.INTERNAL),
        ("_tmp/d=1/a.json", Reason.INTERNAL),
        ("d=1/.staging/a.json", Reason.INTERNAL),
        ("d=1", Reason.SUFFIX),
        ("d=1/a.csv", Reason.SUFFIX),
        ("d=1/a.json.bz2", Reason.SUFFIX),
        ("d=1/a_.json", None),
    ],
)
def test_names_of_the_format_are_taken_and_others_have_a_reason(path: str, reason: Reason | None) -> None:
    assert accepts(OF, path) is reason


@pytest.mark.parametrize(
    ("format", "taken", "left"),
    [
        (Format.CSV, ("a.csv", "a.tsv", "a.csv.gz", "a.tsv.zst"), ("a.json", "a.parquet")),
        (Format.PARQUET, ("d=1/a.parquet", "a.snappy.parquet"), ("a.parquet.gz", "a.csv")),
        (Format.AVRO, ("a.avro",), ("a.avro.gz", "a.json")),
        (Format.JSON, ("a.json", "a.json.gz", "a.json.zst"), ("a.ndjson", "a.jsonl")),
    ],
)
def test_every_format_has_its_endings(format: Format, taken: tuple[str, ...], left: tuple[str, ...]) -> None:
    one = replace(OF, format=format)
    assert [accepts(one, path) for path in taken] == [None] * len(taken)
    assert [accepts(one, path) for path in left] == [Reason.SUFFIX] * len(left)
    assert accepts(replace(one, pattern="*.txt"), "a.txt") is None


@pytest.mark.parametrize(
    ("pattern", "path", "taken"),
    [
        ("*.log.gz", "d=1/a.log.gz", True),
        ("*.log.gz", "d=1/a.json", False),
        ("a?.x", "d=1/ab.x", True),
        ("a[0-9].x", "a7.x", True),
        ("a[!0-9].x", "a7.x", False),
        ("d=*/*.x", "d=1/a.x", True),
        ("d=*/*.x", "d=1/h=2/a.x", False),
        ("**/*.x", "d=1/h=2/a.x", True),
        ("**/*.x", "a.x", True),
        ("in/**", "in/d=1/a", True),
        ("in/**", "out/a", False),
        ("a.x", "axx", False),
    ],
)
def test_a_pattern_replaces_the_endings(pattern: str, path: str, taken: bool) -> None:
    assert (accepts(replace(OF, pattern=pattern), path) is None) is taken


def test_a_pattern_never_takes_internal_names() -> None:
    assert accepts(replace(OF, pattern="*"), "_x/a") is Reason.INTERNAL


@pytest.mark.parametrize(
    ("exclude", "path", "taken"),
    [
        ("tmp", "tmp/a.json", False),
        ("tmp", "d=1/tmp/a.json", False),
        ("*-draft*", "d=1/a-draft.json", False),
        ("d=1/*", "d=1/a.json", False),
        ("d=1/*", "d=1/h=2/a.json", True),
        ("d=1/**", "d=1/h=2/a.json", False),
        ("tmp", "d=1/a.json", True),
    ],
)
def test_excluded_paths_are_not_taken(exclude: str, path: str, taken: bool) -> None:
    assert accepts(replace(OF, exclude=(exclude,)), path) is (None if taken else Reason.EXCLUDED)


def test_directories_that_hold_nothing_to_take_need_not_be_listed() -> None:
    of = replace(OF, exclude=("tmp", "d=1/*"))
    assert accepts_directory(of, "_x") is Reason.INTERNAL
    assert accepts_directory(of, "d=1/.x") is Reason.INTERNAL
    assert accepts_directory(of, "d=1/tmp") is Reason.EXCLUDED
    assert accepts_directory(of, "d=1") is None


def test_an_unclosed_bracket_is_taken_as_it_is() -> None:
    assert compile_glob("a[b").fullmatch("a[b")


@pytest.mark.parametrize(
    ("state", "after"),
    [
        pytest.param(PathState(), None, id="a partition without entry is listed whole"),
        pytest.param(PathState(files={"d/x": Finished()}), None, id="also with names above a gap"),
        pytest.param(STATE, "m", id="from the watermark"),
        pytest.param(replace(STATE, late_window={"d": LateWindow(("m",), "k")}), "k", id="from the window"),
        pytest.param(replace(STATE, late_window={"d": LateWindow(("m",))}), None, id="window from the start"),
        pytest.param(replace(STATE, files={"d/cab": Failed(1, "bad", 1)}), "ca", id="below a failed late file"),
        pytest.param(replace(STATE, files={"d/c": RecordsRead(1, 1)}), None, id="below a name of one letter"),
        pytest.param(replace(STATE, files={"d/z": Failed(1, "bad", 1)}), "m", id="a failed file above"),
        pytest.param(replace(STATE, files={"e/a": Failed(1, "bad", 1)}), "m", id="a failed file elsewhere"),
        pytest.param(replace(STATE, files={"d/c": Finished()}), "m", id="a finished name does not matter"),
    ],
)
def test_a_partition_is_listed_from(state: PathState, after: str | None) -> None:
    assert list_after(OF, state, "d") == after


def test_a_strict_source_lists_from_the_watermark() -> None:
    state = replace(STATE, late_window={"d": LateWindow(("m",), "k")})
    assert list_after(replace(OF, late_files=LateFiles.STRICT), state, "d") == "m"


def test_only_the_first_poll_is_filtered() -> None:
    assert cold_prefixes(OF, PathState(), NOW) is None
    assert cold_prefixes(FILTERED, PathState(), NOW) == ("date=2024-02-29", "date=2024-03-01")
    assert cold_prefixes(FILTERED, STATE, NOW) is None
    assert cold_prefixes(FILTERED, PathState(sealed={"": Seal(NOW)}), NOW) is None
    assert cold_prefixes(FILTERED, PathState(files={"d/a": Failed(1, "bad", 1)}), NOW) is None


def test_what_a_cold_start_will_seal_is_not_open() -> None:
    assert not is_open(FILTERED, PathState(), "date=2024-02-28", NOW)
    assert is_open(FILTERED, PathState(), "date=2024-02-29", NOW)
    assert not is_partition_open(FILTERED, PathState(), "date=2024-02-28/hour=23", NOW)
    assert is_partition_open(FILTERED, PathState(), "", NOW)


def test_a_filtered_cold_start_surveys_nothing() -> None:
    assert survey_directories(FILTERED, PathState(), ["date=2024-03-01"], NOW) == Directories()


def test_a_partly_sealed_day_is_open_for_its_later_hours() -> None:
    state = PathState(sealed={"": Seal(datetime(2024, 2, 20, 12, tzinfo=UTC))})
    assert is_open(OF, state, "date=2024-02-20", NOW)
    assert not is_partition_open(OF, state, "date=2024-02-20/hour=03", NOW)
    assert is_partition_open(OF, state, "date=2024-02-20/hour=12", NOW)


def test_skipped_things_are_counted_with_three_examples() -> None:
    tally = ReasonCounts()
    for number in range(5):
        tally.add(Reason.SUFFIX, f"{number}.csv")
    tally.include(Skipped(Reason.INTERNAL, 2, ("_a", "_b")))
    assert tally.result() == (
        Skipped(Reason.INTERNAL, 2, ("_a", "_b")),
        Skipped(Reason.SUFFIX, 5, ("0.csv", "1.csv", "2.csv")),
    )
    assert count_reasons([*tally.result(), Skipped(Reason.INTERNAL, 1, ("_c",))])[0] == Skipped(
        Reason.INTERNAL, 3, ("_a", "_b", "_c")
    )
