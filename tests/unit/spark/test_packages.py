"""Which jars a session must begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.core.dialects.dialect import JdbcDriver
from tidegate.core.dialects.registry import DIALECTS, dialect_of
from tidegate.spark.jars import S3, packages_for, packages_of, resolve_jars
from tidegate.specs.columns import ColumnSource, FunctionRead, JdbcRead
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import SchemaSpec, SinkSpec
from tidegate.specs.units import UnitSource

DRIVERS = {scheme: each.driver for scheme, each in DIALECTS.items() if each.driver is not None}
POSTGRESQL = DRIVERS["postgresql"].package


def database(url: str, **more: object) -> ColumnSource:
    return ColumnSource("orders", JdbcRead(url, table="t", **more))  # type: ignore[arg-type]  # fields of a JdbcRead


def test_drivers_of_known_databases_are_found_by_the_address_and_fetched_once() -> None:
    sources = [database("jdbc:postgresql://h/d"), database("jdbc:postgresql://h/e"), database("jdbc:mysql://h/d")]
    assert packages_of([*sources, ColumnSource("f", FunctionRead("a:b"))]) == (POSTGRESQL, DRIVERS["mysql"].package)
    assert dialect_of("jdbc:oracle:thin:@//h:1521/x").driver == DRIVERS["oracle"]
    assert dialect_of("jdbc:h2:mem:x").driver is None


def test_sources_of_work_units_need_the_same() -> None:
    units = UnitSource("answers", JdbcRead("jdbc:postgresql://h/d", query="select 1"))
    pipeline = PipelineSpec("p", (units,), SchemaSpec(), SinkSpec(Location("s3://b/t")))
    assert packages_for([pipeline]) == (POSTGRESQL, S3)


def test_what_is_named_is_taken_and_nothing_else() -> None:
    own = database("jdbc:postgresql://h/d", packages=("a:b:1",), jars=("/x/driver.jar",))
    assert packages_of([own]) == ("a:b:1", "/x/driver.jar")
    assert packages_of([database("jdbc:postgresql://h/d", driver="my.Driver")]) == ()
    assert packages_of([database("jdbc:h2:mem:x")]) == ()


def test_a_jar_file_is_not_fetched() -> None:
    assert resolve_jars("/x/driver.jar") == (Path("/x/driver.jar"),)


@pytest.mark.parametrize("driver", DRIVERS.values(), ids=DRIVERS)
def test_drivers_are_pinned(driver: JdbcDriver) -> None:
    group, artifact, version = driver.package.split(":")
    assert group
    assert artifact
    assert version[0].isdigit()
