"""Laws of blocks of tables: names are reversible, no two tables share one, and exclusion wins."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.values import name as check_name
from tidegate.core.database_tables import (
    BlockSink,
    BlockTable,
    DatabaseTable,
    TableKind,
    escape_name,
    fill_place,
    name_pipeline,
    plan_block,
    restore_name,
    select_tables,
    split_pipeline_name,
)
from tidegate.specs.table_block import TableSelection, WithoutWatermark

words = st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable() or " " in text)
near = st.sampled_from(["orders", "Orders", "order s", "order-20s", "orders_dead_letters", "a.b", "b", "a", "ab", "ÄB"])
names = st.one_of(near, words)
columns = st.lists(st.sampled_from(["id", "ID", "updated_at", "name"]), unique_by=str.lower).map(tuple)
tables = st.builds(
    lambda schema, name, kind, columns, keyed: DatabaseTable(schema, name, kind, columns, columns[:1] if keyed else ()),
    st.one_of(st.sampled_from(["public", "Public", "a", "a.b"]), names),
    names,
    st.sampled_from(TableKind),
    columns,
    st.booleans(),
)
globs = st.lists(st.sampled_from(["*.*", "public.*", "*.orders", "a.?", "*_dead_letters", "*r*"]), min_size=1).map(
    tuple
)
selections = st.builds(
    TableSelection,
    globs,
    st.lists(st.sampled_from(["orders", "*.a", "O*", "public.*"])).map(tuple),
    st.lists(st.sampled_from(["updated_at", "id", "no"]), unique=True).map(tuple),
    st.sampled_from(WithoutWatermark),
)
sinks = st.builds(
    BlockSink,
    st.sampled_from([("lake/{schema}/{table}",), ("lake/{table}",), ("lake/{schema}{table}",)]),
    st.sampled_from(["append", "merge_upsert", "overwrite", "scd2"]),
    st.sampled_from([(), ("id",)]),
)


def planned(found: list[DatabaseTable], selection: TableSelection, sink: BlockSink) -> tuple[BlockTable, ...]:
    return plan_block("shop", found, selection, sink)


@given(names)
def test_a_name_comes_back_from_its_escaped_form(name: str) -> None:
    assert restore_name(escape_name(name)) == name


@given(names, names)
def test_schema_and_table_come_back_from_the_name_of_a_pipeline(schema: str, table: str) -> None:
    found = name_pipeline("my.shop", schema, table)
    assert check_name(found) == found
    assert split_pipeline_name("my.shop", found) == (schema, table)
    assert split_pipeline_name("shop", found) is None


@given(st.lists(tables, max_size=12), selections, sinks)
def test_no_two_tables_that_are_read_share_a_name_or_a_place(
    found: list[DatabaseTable], selection: TableSelection, sink: BlockSink
) -> None:
    read = [each for each in planned(found, selection, sink) if each.refused is None]
    shared = Counter(each.pipeline.lower() for each in read)
    shared.update(place for each in read for place in _written(each.table, sink))
    assert not [name for name, times in shared.items() if times > 1]


def _written(table: DatabaseTable, sink: BlockSink) -> set[str]:
    place = fill_place(sink.places[0], table).lower()
    return {place, f"{place}_dead_letters"}


@given(st.lists(tables, max_size=12), selections, sinks, st.randoms(use_true_random=False))
def test_the_order_in_which_tables_are_listed_does_not_matter(
    found: list[DatabaseTable], selection: TableSelection, sink: BlockSink, chance: object
) -> None:
    alone = [*{(each.schema, each.name): each for each in found}.values()]
    mixed = [*alone]
    chance.shuffle(mixed)  # type: ignore[attr-defined]  # a random.Random
    assert planned(mixed, selection, sink) == planned(alone, selection, sink)


@given(st.lists(tables, max_size=12), selections)
def test_what_is_excluded_is_never_selected(found: list[DatabaseTable], selection: TableSelection) -> None:
    chosen = select_tables(found, selection)
    for each in chosen:
        assert any(fnmatchcase(each.full_name, pattern) for pattern in selection.tables)
        assert not any(
            fnmatchcase(name, pattern) for pattern in selection.exclude for name in (each.name, each.full_name)
        )
    left = {(each.schema, each.name) for each in found} - {(each.schema, each.name) for each in chosen}
    for schema, name in left:
        full = f"{schema}.{name}"
        excluded = any(fnmatchcase(each, pattern) for pattern in selection.exclude for each in (name, full))
        assert excluded or not any(fnmatchcase(full, pattern) for pattern in selection.tables)


@given(st.lists(tables, max_size=12), selections, sinks)
def test_a_table_that_is_read_has_what_its_load_needs(
    found: list[DatabaseTable], selection: TableSelection, sink: BlockSink
) -> None:
    for each in planned(found, selection, sink):
        has = each.table.columns
        if each.refused is None:
            assert set(each.watermark_columns) <= set(has)
            assert bool(each.watermark_columns) == (each.load_type != "overwrite")
            assert set(each.merge_keys) <= set(has)
            assert bool(each.merge_keys) == (each.load_type in ("merge_upsert", "scd2"))
        else:
            assert each.table.full_name in each.refused.problem
            assert each.refused.remedy
