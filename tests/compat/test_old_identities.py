"""Positions of database sources that earlier releases recorded with the host in their identity."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tidegate import load
from tidegate.commands.project import sources_of
from tidegate.errors import StateError
from tidegate.protocol.change import Change, Identity
from tidegate.runs.tracker import ColumnBound, UnitBound

OLD = Path(__file__).parent / "old_identities"
BEFORE = "jdbc:postgresql://db-1.example:5432/shop?sslmode=require"
MOVED = "jdbc:postgresql://db-2.example:5433,db-3.example/shop?sslmode=require"


def places(folder: Path, url: str, table: str = "public.orders") -> tuple[ColumnBound, UnitBound]:
    """A column source and a source of work units on copies of what an earlier release wrote."""
    for name in ("columns", "units"):
        if not (folder / name).exists():
            shutil.copytree(OLD / name, folder / name)
    file = folder / "p.yml"
    watermark = '{name: day, type: datetime, range: {from: "2026-01-01", to: "-"}}'
    file.write_text(
        f"""
connections: {{shop: {{type: jdbc, url: "{url}"}}}}
pipelines:
  shop:
    source: {{connection: shop, table: {table}, watermark_columns: [id]}}
    sink: {{table_uri: columns}}
  work:
    source: {{connection: shop, query: "SELECT 1", replace: none, watermark: [{watermark}]}}
    sink: {{table_uri: units}}
"""
    )
    project = load(file)
    (column,) = sources_of(project, "shop")
    (unit,) = sources_of(project, "work")
    return column, unit


@pytest.mark.parametrize("url", [BEFORE, MOVED], ids=["as it was", "after a failover"])
def test_a_position_of_an_earlier_release_is_accepted_and_rewritten(tmp_path: Path, url: str) -> None:
    for place, name in zip(places(tmp_path, url), ("public.orders", "query"), strict=True):
        opened = place.positions.open()
        assert (opened.version, opened.warnings) == (1, ())
        assert opened.state is not None
        place.positions.commit(opened, Change(opened.state, opened.state))
        folder = tmp_path / ("columns" if name == "public.orders" else "units")
        document = next(folder.glob("_tidegate/*/*/00000000000000000002-*.json"))
        identity = json.loads(document.read_text())["identity"]
        assert identity["source_uri"] == f"jdbc:postgresql:shop#{name}"
        hosts = "db-1.example:5432" if url == BEFORE else "db-2.example:5433, db-3.example"
        assert identity["notes"] == {"hosts": hosts}
        assert place.positions.open().version == 2


def test_a_failover_is_told_and_is_no_other_source(tmp_path: Path) -> None:
    column, _ = places(tmp_path, BEFORE)
    opened = column.positions.open()
    assert opened.state is not None
    column.positions.commit(opened, Change(opened.state, opened.state))
    moved, _ = places(tmp_path, MOVED)
    (warning,) = moved.positions.open().warnings
    assert warning.startswith("the hosts of the source were db-1.example:5432 and are now db-2.example:5433")


@pytest.mark.parametrize(
    ("url", "table", "words"),
    [
        (BEFORE.replace("/shop", "/other"), "public.orders", "was 'jdbc:postgresql:shop#public.orders' and is now"),
        (BEFORE, "public.others", "is now 'jdbc:postgresql:shop#public.others'"),
        ("jdbc:mysql://db-1.example:5432/shop", "public.orders", "is now 'jdbc:mysql:shop#public.orders'"),
    ],
)
def test_another_database_is_another_source(tmp_path: Path, url: str, table: str, words: str) -> None:
    column, _ = places(tmp_path, url, table)
    with pytest.raises(StateError, match="the source is not the one of its position") as raised:
        column.positions.open()
    assert words in str(raised.value)


def test_a_password_that_an_earlier_release_recorded_is_not_shown() -> None:
    leaking = "jdbc:mysql://address=(host=h)(user=me)(password=canary)/shop#t"
    assert Identity("column", "jdbc:mysql:shop#t").differences(Identity("column", leaking)) == ()
    (told,) = Identity("column", "jdbc:mysql:other#t").differences(Identity("column", leaking))
    assert "canary" not in told
