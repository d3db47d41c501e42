"""Declared columns, their Arrow form, and the way back."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.errors import raises
from tidegate.errors import TableError, TidegateError
from tidegate.schema.inference import cell_kind
from tidegate.schema.names import field_from_json, field_to_json, levels, problems
from tidegate.schema.types import TIMESTAMP, arrow_schema, arrow_type, examples_of, field_specs, simplify_schema
from tidegate.schema.types import levels as arrow_levels
from tidegate.specs.table import FieldSpec

SCALARS = st.sampled_from(
    ["string", "int32", "int64", "float32", "float64", "boolean", "timestamp", "date", "binary", "decimal(10,2)"]
)


def named(kind: st.SearchStrategy[FieldSpec]) -> st.SearchStrategy[tuple[FieldSpec, ...]]:
    children = st.lists(kind, min_size=1, max_size=4)
    return children.map(
        lambda found: tuple(
            FieldSpec(f"f{number}", each.type, each.nullable, each.fields, each.items, each.keys, each.values)
            for number, each in enumerate(found)
        )
    )


def element(field: FieldSpec, name: str, nullable: bool) -> FieldSpec:
    return FieldSpec(name, field.type, nullable, field.fields, field.items, field.keys, field.values)


FIELD = st.recursive(
    st.builds(FieldSpec, st.just("x"), SCALARS, st.booleans()),
    lambda inner: st.one_of(
        st.builds(
            lambda fields, nullable: FieldSpec("x", "struct", nullable, fields=fields), named(inner), st.booleans()
        ),
        st.builds(
            lambda item, nullable: FieldSpec("x", "list", nullable, items=element(item, "element", nullable)),
            inner,
            st.booleans(),
        ),
        st.builds(
            lambda item, nullable: FieldSpec(
                "x",
                "map",
                nullable,
                keys=FieldSpec("key", "string", nullable=False),
                values=element(item, "value", nullable),
            ),
            inner,
            st.booleans(),
        ),
    ),
    max_leaves=6,
)


@given(named(FIELD))
def test_declared_columns_survive_arrow_and_json(fields: tuple[FieldSpec, ...]) -> None:
    assert field_specs(arrow_schema(fields)) == fields
    through_json = json.loads(json.dumps([field_to_json(field) for field in fields]))
    assert tuple(field_from_json(each) for each in through_json) == fields


def test_types_have_the_arrow_form_of_delta() -> None:
    schema = arrow_schema(
        (
            FieldSpec("t", "timestamp"),
            FieldSpec("j", "json"),
            FieldSpec("n", "decimal(38, 4)", nullable=False),
            FieldSpec("l", "list", items=FieldSpec("", "int32")),
        )
    )
    assert schema.field("t").type == TIMESTAMP == pa.timestamp("us", tz="UTC")
    assert schema.field("j").type == pa.string()
    assert schema.field("n") == pa.field("n", pa.decimal128(38, 4), nullable=False)
    assert schema.field("l").type.value_field.name == "element"


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (FieldSpec("a", "int"), "a … type 'int'"),
        (FieldSpec("a", "decimal(39,2)"), "a … type 'decimal(39,2)'"),
        (FieldSpec("a", "decimal(5,6)"), "a … type 'decimal(5,6)'"),
        (FieldSpec("a", "struct"), "struct … fields"),
        (FieldSpec("a", "list"), "list … items"),
        (FieldSpec("a", "map", keys=FieldSpec("", "string")), "map … keys and values"),
        (
            FieldSpec("a", "map", keys=FieldSpec("", "int64"), values=FieldSpec("", "string")),
            "keys … map … strings",
        ),
        (FieldSpec("", "string"), "empty … name"),
        (FieldSpec("a", "struct", fields=(FieldSpec("b", "wrong"),)), "a.b … type 'wrong'"),
    ],
)
def test_wrong_declarations_are_named(field: FieldSpec, words: str) -> None:
    with raises(TidegateError, words, "schema.fields"):
        arrow_schema((field,))


def test_all_problems_are_reported_at_once() -> None:
    fields = (FieldSpec("a", "x"), FieldSpec("A", "string"), FieldSpec("b", "list"))
    assert len(list(problems(fields))) == 3


def test_physical_variants_of_arrow_are_the_same_columns() -> None:
    large = pa.schema(
        [
            ("s", pa.large_string()),
            ("v", pa.string_view()),
            ("l", pa.large_list(pa.field("item", pa.large_binary()))),
            ("u", pa.struct([("x", pa.large_string())])),
        ]
    )
    expected = pa.schema(
        [
            ("s", pa.string()),
            ("v", pa.string()),
            ("l", pa.list_(pa.field("element", pa.binary()))),
            ("u", pa.struct([("x", pa.string())])),
        ]
    )
    assert simplify_schema(large) == expected


def test_a_type_outside_the_list_is_named() -> None:
    with raises(TableError, "'a'", "int8"):
        field_specs(pa.schema([("a", pa.int8())]))


def test_both_forms_of_a_column_have_the_same_depth() -> None:
    text = FieldSpec("element", "string")
    inner = FieldSpec("element", "map", keys=FieldSpec("key", "string"), values=FieldSpec("value", "list", items=text))
    field = FieldSpec("a", "struct", fields=(FieldSpec("b", "list", items=inner), FieldSpec("c", "int64")))
    assert levels(field) == arrow_levels(arrow_type(field)) == 4


CELLS = st.sampled_from(
    ["0", "-7", "007", "1.5", "1e9", "TRUE", "false", "true\n", "5\n", "", "9" * 18, "9" * 19, "ä", "-", "."]
)


@given(st.lists(st.none() | CELLS | st.text("0123456789-.eE\n", max_size=5)))
def test_a_column_has_the_kinds_of_its_cells(cells: list[str | None]) -> None:
    found = examples_of(pa.array(cells, pa.string()))
    assert set(found) == {cell_kind(cell) for cell in cells if cell is not None}
    assert all(cell_kind(cell) == kind and cell in cells for kind, cell in found.items())
