from __future__ import annotations

from tidegate.core.database_tables import (
    BlockSink,
    BlockTable,
    DatabaseTable,
    TableKind,
    find_unused_rules,
    plan_block,
    split_pipeline_name,
)
from tidegate.core.dialects.registry import DIALECTS
from tidegate.specs.columns import LoadType, WatermarkMode
from tidegate.specs.table_block import TableRules, TableSelection, WithoutWatermark

ORDERS = DatabaseTable("public", "orders", columns=("id", "updated_at"), key=("id",))
VIEW = DatabaseTable("public", "totals", TableKind.VIEW, ("id", "updated_at"))
LOGS = DatabaseTable("public", "logs", columns=("line",))
MERGE = BlockSink(("lake/{schema}/{table}",), "merge_upsert")
ALL = TableSelection(("public.*",), (), ("updated_at", "id"))


def plan(*tables: DatabaseTable, selection: TableSelection = ALL, sink: BlockSink = MERGE) -> dict[str, BlockTable]:
    return {each.table.name: each for each in plan_block("shop", tables, selection, sink)}


def refused(planned: BlockTable) -> str:
    assert planned.refused is not None
    return planned.refused.problem


def test_a_table_is_followed_by_the_first_column_that_it_has_and_merged_by_its_key() -> None:
    found = plan(ORDERS)["orders"]
    assert (found.pipeline, found.watermark_columns, found.merge_keys) == (
        "shop.public.orders",
        ("updated_at",),
        ("id",),
    )
    assert (found.load_type, found.refused) == ("merge_upsert", None)
    odd = DatabaseTable("public", "odd", columns=("ID",), key=("ID",))
    assert plan(odd)["odd"].watermark_columns == ("ID",)


def test_a_table_without_a_key_is_refused_by_name_and_the_others_are_not() -> None:
    found = plan(ORDERS, VIEW)
    assert found["orders"].refused is None
    assert refused(found["totals"]).startswith("public.totals is a view and has no primary key, and load_type merge_up")
    rules = TableRules(merge_keys=("id",))
    with_keys = plan(VIEW, selection=TableSelection(("*.*",), (), ("id",), per_table={"public.totals": rules}))
    assert (with_keys["totals"].refused, with_keys["totals"].merge_keys) == (None, ("id",))
    assert "has no column 'no'" in refused(plan(ORDERS, sink=BlockSink(MERGE.places, "scd2", ("no",)))["orders"])


def test_a_table_without_a_watermark_is_refused_or_read_whole() -> None:
    assert refused(plan(LOGS)["logs"]) == "public.logs has none of the watermark columns updated_at, id"
    whole = TableSelection(("public.*",), (), ("id",), WithoutWatermark.OVERWRITE)
    found = plan(ORDERS, LOGS, selection=whole)
    assert (found["logs"].refused, found["logs"].load_type) == (None, "overwrite")
    assert found["orders"].load_type == "merge_upsert"
    assert plan(LOGS, sink=BlockSink(MERGE.places, "full_load"))["logs"].refused is None


def test_a_rule_for_one_table_wins() -> None:
    both = TableRules(("updated_at", "id"), WatermarkMode.TUPLE, load_type=LoadType.APPEND)
    found = plan(ORDERS, selection=TableSelection(("public.*",), (), ("id",), per_table={"public.orders": both}))
    assert found["orders"].watermark_columns == ("updated_at", "id")
    assert (found["orders"].load_type, found["orders"].merge_keys) == ("append", ())
    lacking = TableRules(("updated_at", "no"), WatermarkMode.TUPLE)
    found = plan(ORDERS, selection=TableSelection(("public.*",), (), ("id",), per_table={"public.orders": lacking}))
    assert refused(found["orders"]) == "public.orders has not all of the watermark columns updated_at, no"


def test_tables_that_would_share_a_name_or_a_place_are_all_refused() -> None:
    upper = DatabaseTable("public", "Orders", columns=("id",), key=("id",))
    found = plan(ORDERS, upper)
    assert {*map(refused, found.values())} == {
        "public.Orders and public.orders have one name but for upper and lower case, or had it once"
    }
    sales = DatabaseTable("sales", "orders", columns=("id",), key=("id",))
    one_folder = BlockSink(("lake/{table}",))
    everything = TableSelection(("*.*",), (), ("id",))
    both = plan_block("shop", [ORDERS, sales], everything, one_folder)
    assert ["lake/orders" in refused(each) for each in both] == [True, True]
    letters = DatabaseTable("public", "orders_dead_letters", columns=("id",), key=("id",))
    found = plan(ORDERS, letters)
    assert found["orders"].refused is None
    assert "dead letters of public.orders" in refused(found["orders_dead_letters"])


def test_a_name_that_no_file_system_takes_is_refused() -> None:
    long = DatabaseTable("public", "ö" * 60, columns=("id",), key=("id",))
    assert "a name of 372 characters" in refused(plan(long)["ö" * 60])


def test_a_table_is_quoted_only_where_it_must_be() -> None:
    postgresql, mysql = DIALECTS["postgresql"], DIALECTS["mysql"]
    assert DatabaseTable("public", "order").quote(postgresql) == "public.order"
    assert DatabaseTable("public", "Orders").quote(postgresql) == '"public"."Orders"'
    assert DatabaseTable("user", "orders").quote(postgresql) == '"user"."orders"'
    assert DatabaseTable("shop", 'a`b"c').quote(mysql) == '`shop`.`a``b"c`'


def test_what_concerns_no_table_is_told() -> None:
    selection = TableSelection(("public.*", "sale.*"), ("logs",), per_table={"public.order": TableRules()})
    assert [*find_unused_rules([ORDERS, LOGS], selection)] == [
        "tables: 'sale.*' matches no table of the database",
        "per_table: 'public.order' is none of the selected tables",
    ]


def test_a_table_is_remembered_as_it_is() -> None:
    assert DatabaseTable.from_json(VIEW.to_json()) == VIEW
    assert split_pipeline_name("shop", "shop.orders") is None
