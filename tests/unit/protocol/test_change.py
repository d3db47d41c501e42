"""A change that makes no sense cannot be built."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.protocol.change import (
    NOT_COUNTED,
    AppendFiles,
    Change,
    DataFile,
    LetterFiles,
    NextState,
    NoRows,
    ReplaceRows,
    Requirement,
    RowChanges,
    SparkWrite,
    StagedStep,
    Written,
    write_files,
)
from tidegate.protocol.table import CommitNote, no_rows

SCHEMA = pa.schema([("id", pa.int64())])
FILE = DataFile("a.parquet", 10, 3, {})
STATE = NextState.of({"next": 1})
STEP = StagedStep("run", {}, {})


class Rows:
    """Rows that nobody writes."""

    offered = None

    def write(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        raise AssertionError


def test_changes_of_several_commits_add_up_unless_one_was_not_counted() -> None:
    one, other = RowChanges(1, 2, 0, 4), RowChanges(10, 20, None, 40)
    assert one + other == RowChanges(11, 22, None, 44)
    assert one + NOT_COUNTED == NOT_COUNTED


def test_what_is_neither_inserted_nor_updated_is_unchanged() -> None:
    merged = RowChanges(1, 2, 0, None)
    assert merged.count_rest(10).unchanged == 7
    assert merged.count_rest(None).unchanged is None
    assert merged.count_rest(2).unchanged == 0, "a row of the batch may update two of the table"
    assert NOT_COUNTED.count_rest(10) == NOT_COUNTED


def test_an_append_has_at_least_one_file() -> None:
    with pytest.raises(ValueError):
        AppendFiles((Written(SCHEMA, ()),))
    with pytest.raises(ValueError):
        AppendFiles(())


def test_a_change_without_rows_has_no_file() -> None:
    with pytest.raises(ValueError):
        NoRows((Written(SCHEMA, (), (FILE,)),))


def test_an_empty_predicate_is_not_taken_for_every_row() -> None:
    with pytest.raises(ValueError):
        ReplaceRows(" ", no_rows, SCHEMA)


@pytest.mark.parametrize(
    "write", [ReplaceRows("id = 1", no_rows, SCHEMA), SparkWrite(Rows(), SCHEMA, (), 1)], ids=["replace", "spark"]
)
def test_only_files_are_staged(write: ReplaceRows | SparkWrite) -> None:
    with pytest.raises(ValueError):
        Change(STATE, write, staged=STEP)
    assert Change(STATE, NoRows(), staged=STEP).write.rows == 0


def test_every_debt_says_who_pays_it() -> None:
    with pytest.raises(ValueError):
        Change(STATE, debts=({"files": []},))


def test_files_are_appended_and_their_absence_is_no_rows() -> None:
    appended = write_files([Written(SCHEMA, ()), Written(SCHEMA, (), (FILE, FILE))])
    assert (type(appended), appended.rows, appended.data_files) == (AppendFiles, 6, (FILE, FILE))
    assert write_files([Written(SCHEMA, ())]) == NoRows((Written(SCHEMA, ()),))


def test_what_each_way_to_write_requires_of_the_table() -> None:
    assert write_files([Written(SCHEMA, (), (FILE,))]).requires == (Requirement.PLAIN_APPEND,)
    assert Requirement.REMOVABLE_ROWS in ReplaceRows(None, no_rows, SCHEMA).requires
    assert SparkWrite(Rows(), SCHEMA, (), 0).requires == ()
    assert NoRows().requires == (Requirement.TABLE,)
    assert NoRows((Written(SCHEMA, ()),)).requires == ()


def test_new_letters_and_answers_add_up() -> None:
    assert LetterFiles((FILE,), 3) + LetterFiles((FILE,), -2) == LetterFiles((FILE, FILE), 1)
