"""``doctor`` on sources that are followed by columns: who listens, driver, provider, table, and windows that miss."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

import tidegate
from support.column_lake import ColumnLake
from tidegate import Check
from tidegate.core.dialects.address import jdbc_address
from tidegate.protocol.store import metadata_provider

WINDOW = {"load_type": "merge_overwrite", "merge_keys": ["id"], "replace_by_watermark": True}


def told(config: Path, *names: str) -> list[Check]:
    wanted = names or ("source orders/default", "table of orders/default", "state of orders/default")
    return [each for each in tidegate.doctor(config) if each.name in wanted]


def database(root: Path, connection: dict[str, Any], reader: str | None = None, **sink: Any) -> Path:
    path = root / "tidegate.yml"
    source: dict[str, Any] = {"connection": "db", "table": "orders", "watermark_columns": ["updated_at"]}
    source |= {"backward": {"days": 1}, **({} if reader is None else {"reader": reader})}
    pipeline = {"source": source, "sink": {"table_uri": "lake/orders", **WINDOW, **sink}}
    path.write_text(json.dumps({"connections": {"db": connection}, "pipelines": {"orders": pipeline}}))
    return path


def test_a_folder_and_its_table_are_looked_at(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    assert [(each.verdict, "nothing at" in each.detail) for each in told(lake.config, "source orders/default")] == [
        ("warn", True)
    ]
    lake.arrive({"id": 2})
    lake.run()
    found = told(lake.config)
    assert {each.verdict for each in found} == {"ok"}
    assert any("1 commit of this source (id=2)" in each.detail for each in found)
    (counted,) = [each for each in tidegate.doctor(lake.config) if each.name == "configuration"]
    assert counted.detail.endswith("1 source")


def test_a_database_that_cannot_be_asked_is_only_looked_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # Without a user, each driver would log in as somebody else.
        config = database(
            tmp_path, {"type": "jdbc", "url": f"jdbc:postgresql://127.0.0.1:{port}/x", "password": "hidden"}
        )
        first, untried, driver, warned = told(config, "source orders/default")
        assert (first.result, f"127.0.0.1:{port} answers" in first.detail) == ("passed", True)
        assert (untried.result, "its connection has no user" in untried.detail) == ("not tried", True)
        assert "--deep" in untried.remedy
        server.settimeout(5)
        with server.accept()[0] as client:
            client.settimeout(5)
            assert client.recv(1) == b"", "nothing is sent, no credentials either"
    assert (driver.verdict, "org.postgresql:postgresql" in driver.detail) == ("ok", True)
    assert (warned.verdict, "'updated_at' looks like the time of an update" in warned.detail) == ("warn", True)
    (refused, *_) = told(config, "source orders/default")
    assert (refused.verdict, "nobody answers" in refused.detail) == ("fail", True)
    assert not any("hidden" in f"{each}" for each in tidegate.doctor(config))


@pytest.mark.parametrize(
    ("url", "module", "words"),
    [
        ("jdbc:postgresql://127.0.0.1:1/x", "psycopg", "install 'tidegate[postgres]', or run"),
        ("jdbc:mysql://127.0.0.1:1/x", "pymysql", "install 'tidegate[mysql]', or run"),
        ("jdbc:oracle:thin:@127.0.0.1:1:XE", None, "run `tidegate doctor CONFIG --deep`"),
    ],
)
def test_a_database_without_a_driver_here_is_not_tried(
    tmp_path: Path, url: str, module: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if module is not None:
        monkeypatch.setitem(sys.modules, module, None)
    config = database(tmp_path, {"type": "jdbc", "url": url, "user": "me", "password": "hidden"})
    (left,) = (each for each in told(config, "source orders/default") if each.result == "not tried")
    assert left.remedy.startswith(words)


def test_a_setting_of_jdbc_alone_is_no_reason_to_install_a_driver(tmp_path: Path) -> None:
    url = {"type": "jdbc", "url": "jdbc:postgresql://127.0.0.1:1/x?currentSchema=y", "user": "me"}
    (left,) = (each for each in told(database(tmp_path, url), "source orders/default") if each.result == "not tried")
    assert ("'currentschema'" in left.detail, left.remedy.startswith("run `tidegate doctor CONFIG --deep`")) == (
        True,
        True,
    )


@pytest.mark.parametrize(
    ("connection", "verdict", "words"),
    [
        ({"user": "me"}, "ok", "rows come by ADBC (reader: adbc)"),
        ({}, "fail", "rows cannot be read by ADBC: its connection has no user"),
        ({"user": "me", "properties": {"currentSchema": "x"}}, "fail", "the setting 'currentschema' works only with"),
    ],
)
def test_a_source_that_adbc_cannot_read_fails(
    tmp_path: Path, connection: dict[str, Any], verdict: str, words: str
) -> None:
    config = database(tmp_path, {"type": "jdbc", "url": "jdbc:postgresql://127.0.0.1:1/x", **connection}, "adbc")
    *_, found = (each for each in told(config, "source orders/default") if words in each.detail)
    assert (found.verdict, "leave out reader: adbc" in found.remedy) == (verdict, verdict == "fail")


@pytest.mark.parametrize(
    ("connection", "verdict", "words"),
    [
        ({"driver": "a.B"}, "warn", "names no packages or jars"),
        ({"driver": "a.B", "jars": ["/nowhere/b.jar"]}, "fail", "/nowhere/b.jar is not there"),
        ({"driver": "a.B", "packages": ["a:b:1"]}, "ok", "the first run fetches the driver: a:b:1"),
    ],
)
def test_a_driver_that_is_not_there_is_told(
    tmp_path: Path, connection: dict[str, Any], verdict: str, words: str
) -> None:
    config = database(tmp_path, {"type": "jdbc", "url": "jdbc:duckling:/x", **connection})
    _, _, driver, untested, _ = told(config, "source orders/default")
    assert (driver.verdict, words in driver.detail) == (verdict, True)
    assert "no test of Tidegate runs against a database of jdbc:duckling" in untested.detail


def test_a_provider_that_differs_or_does_not_answer_fails(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    lake = ColumnLake(tmp_path, settings={"state": {"provider": "file", "url": str(folder)}})
    lake.arrive({"id": 1})
    lake.run()
    written, answer = told(lake.config, "state of orders/default")
    assert (written.detail, answer.detail) == (f"{folder} can be written", 'the provider answers: {"id": 1}')
    metadata_provider(str(folder)).update_watermark("orders/default", '{"id": 5}', job_id=None, dataflow_run_id=None)
    _, differs = told(lake.config, "table of orders/default")
    assert (differs.verdict, "the state provider has the watermark" in differs.detail) == ("fail", True)
    (folder / "orders" / "default" / "current.json").write_text("{oops")
    _, damaged = told(lake.config, "state of orders/default")
    assert damaged.verdict == "fail"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("jdbc:postgresql://a:1,b:2/x?user=me", ("a", 1)),
        ("jdbc:mysql://me:secret@db:3307/x", ("db", 3307)),
        ("jdbc:sqlserver://db;encrypt=true", ("db", 1433)),
        ("jdbc:oracle:thin:@//db:1600/service", ("db", 1600)),
        ("jdbc:oracle:thin:@(DESCRIPTION=(HOST=db))", None),
        ("jdbc:postgresql://[::1]:9/x", ("::1", 9)),
        ("jdbc:postgresql:x", None),
        ("jdbc:unknown://db/x", None),
        ("jdbc:h2:mem:x", None),
    ],
)
def test_where_a_database_listens(url: str, address: tuple[str, int] | None) -> None:
    assert jdbc_address(url) == address
