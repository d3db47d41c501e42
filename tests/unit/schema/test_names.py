"""Names of columns: which a table can have, and what is said about the others."""

from __future__ import annotations

import pytest

from support.errors import raises
from tidegate.errors import SchemaMismatch, TidegateError
from tidegate.schema.names import check, merge_fields, name_problem, spell
from tidegate.specs.table import FieldSpec


@pytest.mark.parametrize("name", ["id", "user.name", "straße", "名前", "a-b", "x" * 200, "_id", "élan", "🜁", 'quo"te'])
def test_good_names(name: str) -> None:
    assert name_problem(name) is None
    check((FieldSpec(name, "string"),))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "is empty"),
        ("user name", "'user_name'"),
        ("a,b;c", "'a_b_c'"),
        ("{x}", "'x'"),
        ("f(x)=1", "'f_x_1'"),
        ("tab\there", "'tab_here'"),
        ("line\nend", "'line_end'"),
        ("=", "keep it with schema.rescued"),
        ("_change_type", "change data feed"),
        ("_COMMIT_version", "change data feed"),
        ("_commit_timestamp", "change data feed"),
        ("_source_file", "sink.metadata_columns"),
        ("_Source_Record", "sink.metadata_columns"),
        ("_ingested_at", "sink.metadata_columns"),
    ],
)
def test_names_that_no_column_can_have(name: str, words: str) -> None:
    assert words in (name_problem(name) or "")
    with pytest.raises(TidegateError):
        check((FieldSpec(name, "string"),))


@pytest.mark.parametrize("letter", ["\0", "\x01", "\x08", "\x0b", "\r", "\x1f", "\x7f", "\x85", "\x9f"])
def test_no_name_has_a_control_character_at_any_depth(letter: str) -> None:
    name = f"a{letter}b"
    assert "'a_b'" in (name_problem(name) or "")
    with raises(TidegateError, "'a_b'", "schema.fields", "schema.rescued"):
        check((FieldSpec("u", "struct", fields=(FieldSpec(name, "string"),)),))


def test_fields_of_structs_may_have_names_that_are_kept_for_columns() -> None:
    check((FieldSpec("u", "struct", fields=(FieldSpec("_change_type", "string"),)),))
    with raises(TidegateError, "'a_b'", "schema.fields", "schema.rescued"):
        check((FieldSpec("u", "struct", fields=(FieldSpec("a b", "string"),)),))


@pytest.mark.parametrize(("first", "second"), [("id", "ID"), ("straße", "STRAßE"), ("é", "É")])
def test_names_differ_in_more_than_case(first: str, second: str) -> None:
    with raises(TidegateError, "schema.fields", "upper and lower case"):
        check((FieldSpec(first, "string"), FieldSpec(second, "string")))


def test_what_was_seen_later_comes_behind_what_is_known() -> None:
    known = (
        FieldSpec("id", "int64"),
        FieldSpec("u", "struct", fields=(FieldSpec("a", "string"),)),
        FieldSpec("l", "list", items=FieldSpec("element", "struct", fields=(FieldSpec("a", "string"),))),
    )
    seen = (
        FieldSpec("new", "string"),
        FieldSpec("ID", "string"),
        FieldSpec("id", "float64"),
        FieldSpec("u", "struct", fields=(FieldSpec("b", "int64"), FieldSpec("a", "int64"))),
        FieldSpec("l", "list", items=FieldSpec("element", "struct", fields=(FieldSpec("b", "int64"),))),
    )
    merged = merge_fields(known, seen)
    assert [field.name for field in merged] == ["id", "u", "l", "new"]
    assert merged[0].type == "int64"
    assert [(field.name, field.type) for field in merged[1].fields] == [("a", "string"), ("b", "int64")]
    assert merged[2].items is not None
    assert [field.name for field in merged[2].items.fields] == ["a", "b"]


def test_a_column_is_found_in_any_spelling_and_its_own_goes_first() -> None:
    assert spell("updated_at", ["ID", "UPDATED_AT"]) == "UPDATED_AT"
    assert spell("a", ["A", "a"]) == "a"
    assert spell("nothing", ["a"]) == "nothing"


def test_a_name_that_may_be_two_columns_is_refused() -> None:
    with raises(SchemaMismatch, "'aB'", "'AB'", "'ab'"):
        spell("aB", ["AB", "ab"])
