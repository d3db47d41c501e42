"""Which values of folder names become columns of the table, and why the others do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.errors import check_names
from tidegate.commands.path_columns import MOST_VALUES, PathColumns, path_columns
from tidegate.specs.files import PathSource
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store


def found(root: Path, *paths: str, content: str = '{"id": 1}\n', asked: str | None = None) -> PathColumns:
    """The keys of files of this content."""
    for path in paths:
        (root / "in" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "in" / path).write_text(content)
    source = Location((root / "in").as_uri())
    store = open_store(source)
    return path_columns(store, PathSource("s", source), list(store.list()), Location((root / "t").as_uri()), asked)


def test_keys_become_columns_in_the_order_of_the_folders(tmp_path: Path) -> None:
    columns = found(tmp_path, "date=2026-01-28/region=eu/a.ndjson", "date=2026-01-29/region=us/a.ndjson")
    assert columns == PathColumns(("date", "region"))
    ((label, words),) = columns.words
    assert label == "columns"
    check_names(words, "date, region", "date=…/region=…/")


def test_folders_without_keys_give_none(tmp_path: Path) -> None:
    assert found(tmp_path, "2026/a.ndjson") == PathColumns()


@pytest.mark.parametrize(
    ("paths", "key", "reason"),
    [
        (["a-b=1/x.ndjson"], "a-b", "name"),
        (["k=1/K=2/x.ndjson"], "k", "case"),
        (["k=1/x.ndjson", "x.ndjson"], "k", "--partition-by 'k=*'"),
        ([f"k={number}v/x.ndjson" for number in range(MOST_VALUES + 1)], "k", f"{MOST_VALUES} … --partition-by 'k=*'"),
        (["ID=1/x.ndjson"], "ID", "records … column"),
    ],
    ids=["no name", "case", "not everywhere", "many", "of the records"],
)
def test_a_key_that_is_not_kept_has_its_reason(paths: list[str], key: str, reason: str, tmp_path: Path) -> None:
    columns = found(tmp_path, *paths)
    assert columns.kept == ()
    check_names(dict(columns.dropped)[key], reason)


def test_many_times_are_kept(tmp_path: Path) -> None:
    hours = [f"hour={day:02}T{hour:02}/x.ndjson" for day in range(1, 7) for hour in range(24)]
    dates = [f"date=2026-{month:02}-{day:02}/x.ndjson" for month in range(1, 6) for day in range(1, 28)]
    assert len(dates) > MOST_VALUES
    assert found(tmp_path / "dates", *dates).kept == ("date",)
    assert found(tmp_path / "hours", *hours).kept == ()


def test_what_was_asked_for_leaves_the_other_keys_out(tmp_path: Path) -> None:
    columns = found(tmp_path, "date=2026-01-28/region=eu/a.ndjson", asked="date=*")
    assert (columns.kept, [key for key, _ in columns.dropped]) == ((), ["region"])
    check_names(columns.dropped[0][1], "--partition-by")
