"""Connections by ADBC to a real PostgreSQL: which server, which session, which types; and statements that are left."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from servers import postgres as postgres_server
from support.errors import raises
from tidegate.errors import SourceError
from tidegate.sources import adbc
from tidegate.sources.adbc import AdbcShare, answer, check_share, connection_of, share_rows
from tidegate.sources.exact import ExactColumn
from tidegate.specs.columns import JdbcRead
from tidegate.specs.locations import Secret

USER = {"user": postgres_server.USER, "password": Secret(postgres_server.PASSWORD)}


def connection(server: postgres_server.Server, database: str) -> Secret:
    return connection_of(JdbcRead(server.jdbc_url(database), table="t", **USER))  # type: ignore[arg-type]


def execute(server: postgres_server.Server, database: str, statement: str) -> None:
    with server.connect(database) as opened:
        opened.execute(statement.encode())


@pytest.mark.parametrize("name", ["PGHOSTADDR", "PGSERVICE"])
def test_the_environment_does_not_decide_which_server_is_read(
    postgres: postgres_server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    told = connection(postgres, "postgres")
    with postgres_server.with_impostor(postgres) as (address, _):
        services = tmp_path / "services"
        services.write_text(f"[wrong]\nhostaddr={address}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(services))
        monkeypatch.setenv(name, address if name == "PGHOSTADDR" else "wrong")
        with raises(SourceError, "environment variable", name, "reader: adbc"):
            answer(told, "select 1 as a")


def test_the_session_is_in_utc_and_iso_whatever_the_role_and_the_environment_have(
    postgres: postgres_server.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = postgres.new_database()
    for setting in ("timezone = 'Asia/Tokyo'", "datestyle = 'German'", "extra_float_digits = 0"):
        execute(postgres, database, f"alter database {database} set {setting}")
    monkeypatch.setenv("PGTZ", "America/New_York")
    monkeypatch.setenv("PGOPTIONS", "-c TimeZone=America/New_York -c search_path=nowhere")
    names = ("TimeZone", "DateStyle", "extra_float_digits", "search_path")
    asked = ", ".join(f"current_setting('{name}') as \"{name}\"" for name in names)
    assert list(answer(connection(postgres, database), f"select {asked}")[0].values()) == [
        "UTC",
        "ISO, MDY",
        "3",
        '"$user", public',
    ]


SESSION = "select current_setting('TimeZone') as zone, transaction_timestamp() < statement_timestamp() as is_later"


def test_settings_and_rows_are_of_one_transaction_also_where_a_pooler_refuses_options(
    postgres: postgres_server.Server,
) -> None:
    """A pooler may give the next transaction to another session of the server."""
    database = postgres.new_database()
    execute(postgres, database, f"alter database {database} set timezone = 'Asia/Tokyo'")
    assert answer(connection(postgres, database), SESSION) == [{"zone": "UTC", "is_later": True}]
    with postgres_server.without_options(postgres) as pooler:
        assert answer(connection(pooler, database), SESSION) == [{"zone": "UTC", "is_later": True}]
        with raises(SourceError, 'ERROR: relation "nowhere" does not exist'):
            answer(connection(pooler, database), "select * from nowhere")


def test_what_a_function_of_a_query_writes_stays(postgres: postgres_server.Server) -> None:
    database = postgres.new_database()
    execute(
        postgres,
        database,
        "create table seen (a int); create function see() returns int language sql as "
        "'insert into seen values (1) returning a'",
    )
    assert answer(connection(postgres, database), "select see() as a") == [{"a": 1}]
    with postgres.connect(database) as opened:
        assert opened.execute("select count(*) from seen").fetchone() == (1,)


@pytest.mark.parametrize(
    ("kind", "sql", "other"),
    [
        (pa.int32(), "int", "bigint using 3000000000"),
        (pa.int32(), "int", "text using '12'"),
        (pa.string(), "text", "float8 using 0.1"),
        (pa.bool_(), "boolean", "int using 5"),
        (pa.float32(), "real", "double precision using 0.1"),
    ],
)
def test_a_column_that_changes_between_the_look_at_it_and_the_rows_stops_the_run(
    postgres: postgres_server.Server, kind: pa.DataType, sql: str, other: str
) -> None:
    database = postgres.new_database()
    execute(postgres, database, f"create table t (a {sql}); insert into t values (null)")
    share = AdbcShare(connection(postgres, database), "select a from t", (ExactColumn("a", kind),))
    check_share(share)
    execute(postgres, database, f"alter table t alter a type {other}")
    with raises(SourceError, "'a'", "changed", "run again") as told:
        list(share_rows(share))
    assert "run again" in told.value.remedy


def test_an_error_of_our_own_is_not_told_as_the_words_of_the_server(
    postgres: postgres_server.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise pa.ArrowInvalid("ours")

    monkeypatch.setattr(adbc, "exact", fails)
    share = AdbcShare(connection(postgres, "postgres"), "select 1 as a", (ExactColumn("a", pa.int32()),))
    with raises(pa.ArrowInvalid, "ours"):
        list(share_rows(share))


def test_a_signal_cancels_the_statement(postgres: postgres_server.Server) -> None:
    told = connection(postgres, "postgres")
    began = time.monotonic()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores interrupts
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            answer(told, "select pg_sleep(60)::text as nap")
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 30
    with postgres.connect() as opened:
        asleep = opened.execute("select count(*) from pg_stat_activity where query like 'COPY%pg_sleep(60)%'")
        assert asleep.fetchone() == (0,)
