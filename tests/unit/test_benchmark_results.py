"""Results of benchmarks are gathered in one file, and two of them are compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import report
from benchmarks.compare import Change, compare, main

BEFORE = {
    "machine": "m",
    "benchmarks": {
        "jdbc": {"rows": 5, "seconds": {"tidegate": [2.0, 9.0, 2.2], "spark": [4.0]}},
        "memory": {"rows": [{"records": 7, "peak_mib": 300}]},
        "old": {"seconds": 1.0},
    },
}


def changed(**values: object) -> dict[str, object]:
    benchmarks = {**BEFORE["benchmarks"], **values}  # type: ignore[dict-item]  # a mapping
    return {**BEFORE, "benchmarks": benchmarks}


def test_what_got_slower_and_faster_is_told_by_medians() -> None:
    after = changed(jdbc={"rows": 50, "seconds": {"tidegate": [4.4, 4.4, 0.1], "spark": [2.0]}})
    found = compare(BEFORE, after)
    assert found.slower == (Change("benchmarks · jdbc · tidegate", 2.2, 4.4),)
    assert found.faster == (Change("benchmarks · jdbc · spark", 4.0, 2.0),)
    assert not found.only_before
    assert not found.only_after


def test_memory_counts_and_other_numbers_do_not() -> None:
    after = changed(memory={"rows": [{"records": 70, "peak_mib": 600}]})
    assert [each.name for each in compare(BEFORE, after).slower] == ["benchmarks · memory · rows · 1"]


def test_small_differences_are_noise() -> None:
    after = changed(old={"seconds": 1.1})
    assert compare(BEFORE, after).slower == ()
    assert [each.ratio for each in compare(BEFORE, after, noise=1.05).slower] == [1.1]


def test_what_only_one_of_the_two_measured_is_named() -> None:
    after = changed(new={"seconds": 1.0})
    del after["benchmarks"]["old"]  # type: ignore[attr-defined]  # a mapping
    found = compare(BEFORE, after)
    assert (found.only_before, found.only_after) == (("benchmarks · old",), ("benchmarks · new",))


def test_the_exit_code_says_whether_something_got_slower(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    before.write_text(json.dumps(BEFORE))
    after.write_text(json.dumps({**changed(old={"seconds": 3.0}), "machine": "other"}))
    assert main([str(before), str(before)]) == 0
    assert "nothing got slower" in capsys.readouterr().out
    assert main([str(before), str(after)]) == 1
    told = capsys.readouterr().out
    assert "two machines: m; other" in told
    assert "| benchmarks · old | 1.000 | 3.000 | 3.00 |" in told


def test_results_are_gathered_in_one_dated_file(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    assert report.gather(tmp_path / "history", results) is None
    (results / "jdbc.json").write_text(json.dumps({"seconds": {"a": 1.0}}))
    path = report.gather(tmp_path / "history", results)
    assert path is not None
    whole = json.loads(path.read_text())
    assert whole["benchmarks"] == {"jdbc": {"seconds": {"a": 1.0}}}
    assert whole["date"].startswith(path.stem[:10])
    assert compare(whole, whole).slower == ()
