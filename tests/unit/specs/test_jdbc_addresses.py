"""JDBC addresses of every form: what is understood of them, and that no credentials come out of them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from support.errors import check_names, raises
from tidegate.config import load
from tidegate.errors import ConfigError
from tidegate.specs.columns import ColumnSource, JdbcRead
from tidegate.specs.locations import (
    holds_credentials,
    hosts_of,
    identity_of,
    jdbc_address_of,
    public_address,
)

CANARY = "canary-4711"


@pytest.mark.parametrize(
    ("url", "identity", "hosts"),
    [
        ("jdbc:postgresql://db:5432/shop?sslmode=require", "jdbc:postgresql:shop", "db:5432"),
        ("jdbc:postgresql://db/shop?sslkey=/etc/key.pk8&sslcert=/etc/cert", "jdbc:postgresql:shop", "db"),
        ("jdbc:postgresql://db-1:5432,db-2/shop", "jdbc:postgresql:shop", "db-1:5432, db-2"),
        ("jdbc:postgresql://[::1]:5432/shop", "jdbc:postgresql:shop", "[::1]:5432"),
        ("jdbc:postgresql:shop", "jdbc:postgresql:shop", ""),
        ("jdbc:mysql://db/shop", "jdbc:mysql:shop", "db"),
        ("jdbc:mysql://db", "jdbc:mysql:", "db"),
        ("jdbc:mysql:loadbalance://db-1:3306,db-2:3306/shop", "jdbc:mysql:shop", "db-1:3306, db-2:3306"),
        ("jdbc:mysql+srv://db/shop", "jdbc:mysql:shop", "db"),
        ("jdbc:mysql://address=(host=db-1)(port=3306),address=(host=db-2)/shop", "jdbc:mysql:shop", "db-1:3306, db-2"),
        ("jdbc:mysql://(host=db-1,port=3306),(host=db-2)/shop", "jdbc:mysql:shop", "db-1:3306, db-2"),
        ("jdbc:sqlserver://db\\sales:1433;databaseName={shop};encrypt=true", "jdbc:sqlserver:shop", "db:1433"),
        ("jdbc:sqlserver://db;encrypt=true", "jdbc:sqlserver:", "db"),
        ("jdbc:oracle:thin:@//db:1521/shop", "jdbc:oracle:shop", "db:1521"),
        ("jdbc:oracle:thin:@db:1521:shop", "jdbc:oracle:shop", "db:1521"),
        ("jdbc:oracle:thin:@tcps://db:1521/shop?wallet_location=/w", "jdbc:oracle:shop", "db:1521"),
        ("jdbc:oracle:thin:@shop_alias", "jdbc:oracle:shop_alias", ""),
        (
            "jdbc:oracle:thin:@(DESCRIPTION=(ADDRESS=(HOST=db)(PORT=1))(CONNECT_DATA=(SERVICE_NAME=shop)))",
            "jdbc:oracle:shop",
            "db:1",
        ),
        ("jdbc:teradata://db/DATABASE=shop,TMODE=ANSI", "jdbc:teradata:shop", "db"),
        ("jdbc:db2://db:50000/shop:currentSchema=x;", "jdbc:db2:shop", "db:50000"),
        ("jdbc:snowflake://a.example/?db=shop&schema=s", "jdbc:snowflake:shop", "a.example"),
        ("jdbc:trino://db:8080/hive/shop", "jdbc:trino:hive/shop", "db:8080"),
        ("jdbc:sqlite:/data/a@b/shop.db", "jdbc:sqlite:/data/a@b/shop.db", ""),
        ("jdbc:h2:mem:shop", "jdbc:h2:mem:shop", ""),
    ],
)
def test_an_address_is_what_the_user_names_and_where_it_is(url: str, identity: str, hosts: str) -> None:
    assert (identity_of(url), hosts_of(url)) == (identity, hosts)
    assert not holds_credentials(url)
    assert public_address(url) == url


SECRETS = [
    "jdbc:mysql://address=(host=h)(user=me)(password={0})/shop",
    "jdbc:mysql://(host=h,user=me,password={0})/shop",
    "jdbc:mysql://me:{0}@h/shop",
    "jdbc:mysql://me:pa/{0}@h/shop",
    "jdbc:mysql://me:pa?{0}@h/shop",
    "jdbc:mysql://{0}@h/shop",
    "jdbc:mysql://h1,me:{0}@h2/shop",
    "jdbc:postgresql://h/shop?user=me&password={0}",
    "jdbc:postgresql://h/shop?sslpassword={0}",
    "jdbc:teradata://h/DATABASE=d,USER=me,PASSWORD={0}",
    "jdbc:sqlserver://h;databaseName=d;user=me;password={{{0}}}",
    "jdbc:sqlserver://h;PWD={0}",
    "jdbc:sqlserver://h; Trust Store Password = {0}",
    "jdbc:oracle:thin:me/{0}@//h:1521/shop",
    "jdbc:oracle:thin:me/{0}@h:1521:shop",
    "jdbc:oracle:thin:@(DESCRIPTION=(ADDRESS=(HOST=h))(SECURITY=(PASSWORD={0})))",
    "jdbc:db2://h:50000/shop:user=me;password={0};",
    "jdbc:h2:tcp://h/~/shop;USER=me;PASSWORD={0}",
    "jdbc:h2:mem:shop;USER=sa;PASSWORD={0}",
    "jdbc:snowflake://h/?db=shop&token={0}",
    "jdbc:databricks://h:443;UID=token;AccessToken={0}",
    "jdbc:strange:!me:{0}@h!",
    "jdbc:mysql://address=(host=h) (key1=a)(key={0})/shop",
    "jdbc:mysql://h/shop?'password'={0}",
    "jdbc:oracle:thin:me/{0}",
    "jdbc:snowflake://h/?db=shop&passcode={0}",
    "jdbc:clickhouse://h/shop?custom_http_params=password={0}",
    "jdbc:bigquery://https://h:443;ProjectId=p;OAuthPvtKey={0}",
    "jdbc:sqlserver://h;databaseName=d;keyVaultProviderClientKey={0}",
    "jdbc:sqlite:/data/shop.db?cipher=chacha20&key={0}",
    "jdbc:sqlite:/data/shop.db?hexkey={0}",
    "jdbc:derby:shop;encryptionKey={0}",
]


@pytest.mark.parametrize("form", SECRETS)
def test_no_credentials_come_out_of_an_address(form: str) -> None:
    for secret in (CANARY, quote(CANARY + "/@", safe="")):
        url = form.format(secret)
        told = [ColumnSource("s", JdbcRead(url, table="t")).uri, hosts_of(url), public_address(url)]
        assert CANARY not in f"{told} {jdbc_address_of(url)}"
        assert holds_credentials(url)
        assert holds_credentials(quote(url, safe=":/"))
        assert holds_credentials(quote(quote(url, safe=":/"), safe=":/"))


def test_credentials_behind_a_fragment_are_seen() -> None:
    assert holds_credentials("jdbc:mysql://h/shop?a=b#password=x")


@pytest.mark.parametrize("form", [*SECRETS, "jdbc:postgresql://$${{HOST}}/{0}", "jdbc:postgresql://h/a\tb {0}"])
def test_credentials_in_an_address_are_refused_without_showing_them(form: str, tmp_path: Path) -> None:
    file = tmp_path / "p.yml"
    url = json.dumps(form.format(CANARY))
    source = "{connection: db, table: t, watermark_columns: [id]}"
    file.write_text(
        f"connections: {{db: {{type: jdbc, url: {url}}}}}\npipelines: {{p: {{source: {source}, sink: {{path: x}}}}}}\n"
    )
    with raises(ConfigError, "connections.db.url") as raised:
        load(file, env={})
    (problem,) = raised.value.problems
    if form in SECRETS:
        check_names(problem, "user, password", "properties")
        assert CANARY not in problem
