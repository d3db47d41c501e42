from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from support.errors import check_names, raises
from tidegate.commands.block_tables import ask_tables, recall_tables
from tidegate.config import expand, load, show
from tidegate.config.known_tables import KnownBlock, KnownBlocks
from tidegate.core.database_tables import DatabaseTable, TableKind
from tidegate.errors import ConfigError
from tidegate.specs.columns import ColumnSource, LoadType
from tidegate.specs.project import ProjectSpec

ORDERS = DatabaseTable("public", "orders", columns=("id", "updated_at"), key=("id",))
LOGS = DatabaseTable("public", "logs", columns=("line",))
VIEW = DatabaseTable("sales", "All Orders", TableKind.VIEW, ("id",))
CONFIG = """
connections:
  shop:
    type: jdbc
    url: "jdbc:postgresql://db/shop"
    user: me
    password: ${SHOP_PASSWORD}
    configure: {backward_days: 1}
pipelines:
  shop:
    source:
      connection: shop
      tables: ["*.*"]
      watermark_columns: [updated_at, id]
      without_watermark: overwrite
      safety_lag: PT5M
      per_table: {sales.All Orders: {merge_keys: [id]}}
    sink:
      table_uri: "${BUCKET}/{schema}/{table}"
      load_type: merge_upsert
      tie_break: [id]
"""
ENV = {"SHOP_PASSWORD": "a-very-long-secret", "BUCKET": "s3://lake"}


def project(text: str = CONFIG, *tables: DatabaseTable) -> ProjectSpec:
    return expand(load(text, env=ENV), {"shop": tables or (ORDERS, LOGS, VIEW)}, {})


def source(project: ProjectSpec, name: str) -> Any:
    (found,) = project.pipeline(name).of(ColumnSource)
    return found


def test_a_block_is_checked_without_a_database_and_has_no_pipelines_then() -> None:
    loaded = load(CONFIG, env=ENV)
    assert (loaded.pipelines, [each.name for each in loaded.blocks]) == ((), ["shop"])
    assert loaded.blocks[0].read.url == "jdbc:postgresql://db/shop"


def test_each_table_becomes_an_ordinary_pipeline() -> None:
    found = project()
    assert [each.name for each in found.pipelines] == [
        "shop.public.logs",
        "shop.public.orders",
        "shop.sales.All-20Orders",
    ]
    orders = found.pipeline("shop.public.orders")
    assert (orders.block, orders.refused, orders.sink.table.uri) == ("shop", None, "s3://lake/public/orders")
    assert (orders.sink.load.type, orders.sink.load.merge_keys) == (LoadType.MERGE_UPSERT, ("id",))
    read = source(found, "shop.public.orders")
    assert (read.name, read.read.table, read.watermark_columns) == ("default", "public.orders", ("updated_at",))
    assert read.look_back.days == 1
    assert read.safety_lag is not None
    assert source(found, "shop.sales.All-20Orders").read.table == '"sales"."All Orders"'
    assert found.pipeline("shop.sales.All-20Orders").sink.table.uri == "s3://lake/sales/All-20Orders"


def test_a_table_that_is_read_whole_has_no_key_that_only_others_support() -> None:
    logs = project().pipeline("shop.public.logs")
    assert (logs.sink.load.type, logs.sink.load.merge_keys, logs.sink.load.tie_break) == (LoadType.OVERWRITE, (), ())
    assert source(project(), "shop.public.logs").watermark_columns == ()


def test_what_is_shown_is_the_block_and_means_itself() -> None:
    shown = show(project())
    assert "a-very-long-secret" not in shown
    data = yaml.safe_load(shown)
    assert [*data["pipelines"]] == ["shop"]
    assert data["pipelines"]["shop"]["sink"]["table_uri"] == "${BUCKET}/{schema}/{table}"
    assert data["pipelines"]["shop"]["sources"]["default"]["per_table"] == {"sales.All Orders": {"merge_keys": ["id"]}}
    assert "{" not in str(data["pipelines"]["shop"]["sink"].get("merge_keys"))
    again = load(shown, env=ENV)
    assert again.blocks[0].selection == project().blocks[0].selection
    assert expand(again, {"shop": (ORDERS, VIEW)}, {}).pipelines == project(CONFIG, ORDERS, VIEW).pipelines


def test_a_table_with_the_name_or_the_place_of_a_pipeline_of_the_file_is_refused() -> None:
    own = "  shop.public.ORDERS: {source: {connection: shop, table: x}, sink: {table_uri: y, load_type: overwrite}}\n"
    found = project(CONFIG + own, ORDERS)
    assert found.pipeline("shop.public.ORDERS").refused is None
    refused = found.pipeline("shop.public.orders").refused
    assert refused is not None
    check_names(refused, "public.orders … name … shop.public.ORDERS … exclude")


def test_tables_of_two_blocks_never_share_a_place() -> None:
    """Both would merge by their own keys, and overwrite each other's rows."""
    second = CONFIG[CONFIG.rindex("  shop:\n") :].replace("  shop:\n", "  copy:\n", 1)
    found = expand(load(CONFIG + second, env=ENV), {"shop": (ORDERS,), "copy": (ORDERS,)}, {})
    tables = {each.name: each.refused for each in found.pipelines if each.block is not None}
    assert set(tables) == {"shop.public.orders", "copy.public.orders"}
    check_names(tables["shop.public.orders"], "public.orders … place … copy")
    check_names(tables["copy.public.orders"], "public.orders … place … shop")


def test_a_table_that_no_configuration_can_name_is_refused_alone() -> None:
    odd = DatabaseTable("public", "odd", columns=("id", "ID", "updated_at"), key=("id", "ID"))
    found = project(CONFIG, ORDERS, odd)
    assert [(each.name, each.refused is None) for each in found.pipelines] == [
        ("shop.public.odd", False),
        ("shop.public.orders", True),
    ]
    refused = found.pipeline("shop.public.odd").refused
    assert refused is not None
    check_names(refused.problem, "public.odd … sink.merge_keys")


def test_a_database_that_cannot_be_listed_is_refused_with_the_file() -> None:
    with raises(ConfigError, "source.tables … PostgreSQL, MySQL and MariaDB"):
        load(CONFIG.replace("postgresql", "oracle"), env=ENV)


def written(folder: Path) -> ProjectSpec:
    path = folder / "p.yml"
    path.write_text(CONFIG)
    return load(path, env=ENV)


def test_a_list_is_remembered_beside_the_file_without_secrets_and_forgotten_for_another_database(
    tmp_path: Path,
) -> None:
    found = written(tmp_path)
    (refused,) = recall_tables(found).pipelines
    assert (refused.name, refused.block) == ("shop", "shop")
    ask_tables(found, None, remember=True, list_tables=lambda block: [ORDERS, VIEW])
    (path,) = (tmp_path / ".tidegate").iterdir()
    assert "secret" not in path.read_text()
    assert len(recall_tables(found).pipelines) == 2
    assert KnownBlocks(found.origin).read(found.blocks[0]) == KnownBlock("jdbc:postgresql:shop", (ORDERS, VIEW))
    (tmp_path / "p.yml").write_text(CONFIG.replace("db/shop", "db/other"))
    (unknown,) = recall_tables(load(tmp_path / "p.yml", env=ENV)).pipelines
    assert unknown.refused is not None
    path.write_text("{")
    assert recall_tables(found).pipelines[0].refused is not None
    assert KnownBlocks(found.origin).save({"shop": KnownBlock("x", ())})


def test_a_command_that_changes_nothing_leaves_the_news_to_the_next_run(tmp_path: Path) -> None:
    found = written(tmp_path)
    for remember, tables, told in (
        (False, [ORDERS], 0),
        (False, [ORDERS, LOGS], 1),
        (True, [ORDERS, LOGS], 1),
        (True, [ORDERS, LOGS], 0),
        (True, [LOGS], 1),
        (True, [LOGS], 0),
    ):
        asked = ask_tables(found, None, remember=remember, list_tables=lambda block, tables=tables: tables)  # type: ignore[misc]
        news = [each for each in asked.notices if "database" in each and "per_table" not in each]
        assert len(news) == told, (remember, tables, asked.notices)
    assert [(each.name, each.vanished) for each in asked.pipelines] == [
        ("shop.public.logs", False),
        ("shop.public.orders", True),
    ]


def test_a_table_that_somebody_excludes_has_not_vanished(tmp_path: Path) -> None:
    ask_tables(written(tmp_path), None, remember=True, list_tables=lambda block: [ORDERS, LOGS])
    (tmp_path / "p.yml").write_text(CONFIG.replace('["*.*"]', '["*.*"]\n      exclude: [logs]'))
    found = load(tmp_path / "p.yml", env=ENV)
    asked = ask_tables(found, None, remember=True, list_tables=lambda block: [ORDERS, LOGS])
    assert [each.name for each in asked.pipelines] == ["shop.public.orders"]
