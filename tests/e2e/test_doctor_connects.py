"""``doctor`` connects: what a run would stumble over fails there, with a remedy, and nothing of it is left behind."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tidegate
from servers import api as apis
from servers import mariadb as mariadb_server
from servers import postgres as postgres_server
from servers.api import Answer, Api, by_offset, whole
from servers.s3 import Server
from support.bucket import Bucket
from support.lake import FIELDS, Lake
from tidegate import Check
from tidegate.cli.main import cli
from tidegate.storage.stores import open_store

needs_mariadb = pytest.mark.skipif(not mariadb_server.is_possible(), reason="its programs are for Linux on x86-64")
WRONG = "not-the-password-7f3a"


@dataclass
class Project:
    """A configuration with one pipeline ``orders`` of one connection."""

    root: Path
    connection: dict[str, Any]
    source: dict[str, Any] = field(default_factory=dict)
    engine: str = "spark"

    def config(
        self, sink: Mapping[str, Any] | None = None, more: Mapping[str, Any] | None = None, **source: Any
    ) -> Path:
        pipeline = {
            "source": {"connection": "there", "watermark_columns": ["id"], **self.source, **source},
            "sink": {"table_uri": "lake/orders", **(sink or {})},
            **(more or {}),
        }
        path = self.root / "tidegate.yml"
        connections = {"there": self.connection}
        path.write_text(
            json.dumps({"engine": self.engine, "connections": connections, "pipelines": {"orders": pipeline}})
        )
        return path

    def look(self, *args: Any, **given: Any) -> list[Check]:
        """The checks of the source."""
        return [each for each in tidegate.doctor(self.config(*args, **given)) if each.name == "source orders/default"]

    def failure(self, *args: Any, **given: Any) -> Check:
        """The one check of the source that fails."""
        (found,) = (each for each in self.look(*args, **given) if each.result == "failed")
        return found


@pytest.fixture
def in_postgres(postgres: postgres_server.Server, tmp_path: Path) -> Project:
    name = postgres.new_database()
    with postgres.connect(name) as connection:
        connection.execute(b"create table orders (id int primary key, updated_at timestamptz, note text, o oid)")
    url = {"type": "jdbc", "url": postgres.jdbc_url(name), "user": postgres_server.USER}
    return Project(tmp_path, url | {"password": postgres_server.PASSWORD}, {"table": "orders"})


@pytest.fixture
def in_mariadb(mariadb: mariadb_server.Server, tmp_path: Path) -> Project:
    name = mariadb.new_database()
    mariadb.execute("create table orders (id int primary key, updated_at datetime, note text)", name)
    url = {"type": "jdbc", "url": mariadb.jdbc_url(name), "user": mariadb_server.USER}
    return Project(tmp_path, url | {"password": mariadb_server.PASSWORD}, {"table": "orders"})


@pytest.fixture(params=["postgres", pytest.param("mariadb", marks=needs_mariadb)])
def shop(request: pytest.FixtureRequest) -> Project:
    found: Project = request.getfixturevalue(f"in_{request.param}")
    return found


@pytest.fixture
def api() -> Iterator[Api]:
    with apis.running() as server:
        yield server


@pytest.fixture
def project(api: Api, tmp_path: Path) -> Project:
    return Project(tmp_path, {"type": "http", "url": api.url}, {"path": "/rows", "records": "data"})


MERGED = {"load_type": "merge_upsert", "merge_keys": ["ID"]}


def test_a_database_that_is_right_passes(shop: Project) -> None:
    checks = shop.look(MERGED, filter_expression="id > 0")
    assert {each.result for each in checks} == {"passed"}
    told = " | ".join(each.detail for each in checks)
    assert "logged in to 127.0.0.1:" in told
    assert "the columns are there: id, ID" in told
    assert "filter_expression: the database accepts it" in told


def test_a_wrong_password_fails_and_shows_in_nothing(shop: Project) -> None:
    shop.connection["password"] = WRONG
    failed = shop.failure()
    assert "user and password of the connection" in failed.remedy
    outcome = CliRunner().invoke(cli, ["doctor", str(shop.config()), "--json"])
    assert outcome.exit_code == 1
    assert WRONG not in outcome.output
    assert any(each["result"] == "failed" for each in json.loads(outcome.stdout)["checks"])


def test_a_table_that_is_not_there_fails_with_the_nearest(shop: Project) -> None:
    failed = shop.failure(table="ordrs")
    assert "ordrs" in failed.detail
    assert "did you mean" in failed.remedy
    assert ".orders'?" in failed.remedy


def test_a_query_that_the_database_refuses_fails(shop: Project) -> None:
    failed = shop.failure(table=None, query="select * from nowhere")
    assert "nowhere" in failed.detail
    assert "correct the table or the query" in failed.remedy
    assert "filter_expression" in shop.failure(filter_expression="nothing_such > 1").detail


def test_each_column_that_is_not_there_fails_by_its_key(shop: Project) -> None:
    checks = shop.look(
        {"load_type": "merge_upsert", "merge_keys": ["idd"]}, watermark_columns=["update_at"], partition_column="nope"
    )
    failed = {each.detail.partition(":")[0]: each.remedy for each in checks if each.result == "failed"}
    assert set(failed) == {"watermark_columns", "merge_keys", "partition_column"}
    assert "did you mean 'updated_at'?" in failed["watermark_columns"]
    assert "did you mean 'id'?" in failed["merge_keys"]
    assert "the columns are id, updated_at, note" in failed["partition_column"]


def test_columns_after_a_transform_are_not_tried(shop: Project) -> None:
    checks = shop.look(
        {"load_type": "merge_upsert", "merge_keys": ["key"]}, {"transform": {"sql": "select id as key from source"}}
    )
    (left,) = (each for each in checks if each.result == "not tried")
    assert "merge_keys key" in left.detail


def test_no_row_is_read(shop: Project, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("postgres" if "postgresql" in shop.connection["url"] else "mariadb")
    before = len(server.statements())
    shop.look()
    reads = [each for each in server.statements()[before:] if "tidegate_read" in each]
    assert reads
    assert all("1 = 0" in each for each in reads)


def test_the_local_engine_names_no_jar_and_what_it_cannot_read(in_postgres: Project) -> None:
    in_postgres.engine = "local"
    checks = in_postgres.look()
    assert not any("org.postgresql" in each.detail for each in checks)
    (failed,) = (each for each in checks if each.result == "failed")
    assert "'o' is of type oid" in failed.detail
    assert "leave it out" in failed.remedy


def test_one_login_is_tried_for_all_tables_of_a_connection(
    in_postgres: Project, postgres: postgres_server.Server
) -> None:
    in_postgres.connection["password"] = WRONG
    config = json.loads(in_postgres.config().read_text())
    for number in range(3):
        config["pipelines"][f"more{number}"] = config["pipelines"]["orders"] | {"sink": {"table_uri": f"lake/{number}"}}
    (in_postgres.root / "many.yml").write_text(json.dumps(config))
    checks = [each for each in tidegate.doctor(in_postgres.root / "many.yml") if each.name.startswith("source")]
    assert [each.result for each in checks if "password" in f"{each.detail}{each.remedy}"] == ["failed"]
    assert [each.result for each in checks].count("not tried") == 3
    chosen = {each.name for each in tidegate.doctor(in_postgres.root / "many.yml", "more1") if "/" in each.name}
    assert chosen == {"source more1/default", "table of more1/default"}


def test_a_server_that_hangs_fails_in_time_and_stops_no_other(
    tmp_path: Path, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.commands.doctor.LIMIT_SECONDS", 0.5)
    api.routes["/rows"] = whole([{"id": 1}])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"jdbc:mariadb://127.0.0.1:{silent.getsockname()[1]}/x"
        connection = {"type": "jdbc", "url": url, "user": "me", "password": WRONG}
        config = json.loads(Project(tmp_path, connection, {"table": "t"}).config().read_text())
        config["connections"]["api"] = {"type": "http", "url": api.url}
        source = {"connection": "api", "path": "/rows", "records": "data", "watermark_columns": ["id"]}
        config["pipelines"]["rows"] = {"source": source, "sink": {"table_uri": "lake/rows"}}
        (tmp_path / "both.yml").write_text(json.dumps(config))
        checks = {each.name: each for each in tidegate.doctor(tmp_path / "both.yml")}
    assert "no answer within 0.5 s" in checks["source orders/default"].detail
    assert checks["source rows/default"].result == "passed"


def test_an_api_is_sent_one_request(project: Project, api: Api) -> None:
    api.routes["/rows"] = by_offset([{"id": number} for number in range(2500)])
    (found,) = (each for each in project.look(pagination={"type": "offset", "total": "total"}) if "GET" in each.detail)
    assert (found.result, len(api.asked)) == ("passed", 1)
    assert "1,000 records in 'data'; pages by offset: another page follows" in found.detail


def test_an_api_that_answers_404_fails(project: Project) -> None:
    failed = project.failure()
    assert "answered 404" in failed.detail
    assert "check url and path" in failed.remedy


def test_records_that_are_elsewhere_fail_with_where_they_seem_to_be(project: Project, api: Api) -> None:
    api.routes["/rows"] = whole([{"id": 1}])
    failed = project.failure(records="rows")
    assert "at 'rows'" in failed.detail
    assert "as it seems 'data'" in failed.remedy
    api.routes["/rows"] = lambda asked: Answer([{"id": 1}])
    assert "leave `records` out" in project.failure().remedy


def test_a_response_that_says_there_is_more_fails_as_a_run_would(project: Project, api: Api) -> None:
    api.routes["/rows"] = lambda asked: Answer({"data": [{"id": 1}], "next": "/rows?page=2"})
    assert "pagination" in project.failure().remedy


def test_a_watermark_column_that_no_record_has_fails(project: Project, api: Api) -> None:
    api.routes["/rows"] = whole([{"id": 1, "updated_at": 5}])
    failed = project.failure(watermark_columns=["update_at"])
    assert "did you mean 'updated_at'?" in failed.remedy


def test_a_token_that_is_refused_fails(project: Project, api: Api) -> None:
    secret = "client-secret-9c1d"
    auth = {"type": "oauth2", "token_url": f"{api.url}/token", "client_id": "me", "client_secret": secret}
    project.connection["auth"] = auth
    api.routes["/token"] = lambda asked: Answer({"error": f"no {secret}"}, status=401)
    failed = project.failure()
    assert "gave no token (status 401)" in failed.detail
    assert "client_id" in failed.remedy
    assert secret not in f"{failed}"


def test_a_slow_api_fails_with_how_long_a_run_would_wait(
    project: Project, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.runs.source_checks.REQUEST_SECONDS", 0.2)
    api.routes["/rows"] = lambda asked: Answer({"data": []}, wait=1.0)
    failed = project.failure()
    assert "no response within 0.2 s" in failed.detail
    assert "60 s" in failed.remedy
    api.routes["/rows"] = lambda asked: Answer("down", status=503)
    assert ("status 503" in project.failure().detail, len(api.to("/rows"))) == (True, 2)


def test_a_post_is_not_sent_unless_it_may_be_repeated(project: Project, api: Api) -> None:
    api.routes["/rows"] = whole([{"id": 1}])
    (left,) = (each for each in project.look(method="POST", body={}) if each.result == "not tried")
    assert ("idempotent: true" in left.remedy, api.asked) == (True, [])
    assert {each.result for each in project.look(method="POST", body={}, idempotent=True)} == {"passed"}


UNITS = {
    "path": "/rows/{{shop}}",
    "watermark_columns": None,
    "params": {"since": {"watermark": "day", "bound": "low"}},
    "watermark": [
        {"name": "day", "type": "datetime", "range": {"from": "2026-01-01", "to": "2026-01-03"}},
        {"name": "shop", "type": "unit", "units": ["a", "b"]},
    ],
    "work_unit": {"partition": "daily"},
}


def test_the_first_work_unit_is_tried(project: Project, api: Api) -> None:
    project.source = {"records": "data", **{key: value for key, value in UNITS.items() if value is not None}}
    config = json.loads(project.config().read_text())
    del config["pipelines"]["orders"]["source"]["watermark_columns"]
    path = project.root / "units.yml"

    def look(**work: Any) -> list[Check]:
        config["pipelines"]["orders"]["source"]["work_unit"] = {"partition": "daily", **work}
        path.write_text(json.dumps(config))
        return [each for each in tidegate.doctor(path) if each.name == "source orders/default"]

    (missing,) = look()
    assert (missing.result, "/rows/a answered 404" in missing.detail) == ("failed", True)
    (empty,) = look(not_found="empty")
    assert (empty.result, "not_found: empty" in empty.detail) == ("warning", True)
    api.routes["/rows/a"] = whole([{"id": 1}])
    assert [each.result for each in look()] == ["passed"]
    assert {each.path for each in api.asked} == {"/rows/a"}


@pytest.mark.s3
def test_a_bucket_that_may_only_be_read_fails_before_a_run_does(s3: Server, tmp_path: Path) -> None:
    bucket = Bucket(s3, tmp_path)
    bucket.arrive("date=2026-01-28/1.ndjson")
    assert {each.result for each in tidegate.doctor(bucket.config) if "events" in each.name} == {"passed"}
    store = open_store(bucket.table)
    assert not list(store.list()), "the probe is gone"
    config = json.loads(bucket.config.read_text())
    config["pipelines"]["events"]["sink"]["storage_options"] = dict(s3.reader_options)
    bucket.config.write_text(json.dumps(config))
    failed = {each.name: each for each in tidegate.doctor(bucket.config) if each.result == "failed"}
    assert set(failed) == {"table of events/default", "dead letters of events/default"}
    assert "403" in failed["table of events/default"].detail
    assert "credentials" in failed["table of events/default"].remedy


@pytest.mark.s3
def test_a_bucket_that_is_not_there_fails(s3: Server, tmp_path: Path) -> None:
    bucket = Bucket(s3, tmp_path, source_uri="s3://no-such-bucket-at-all/x")
    (failed,) = (each for each in tidegate.doctor(bucket.config) if each.result == "failed")
    assert "no-such-bucket-at-all" in f"{failed.detail}{failed.remedy}"


def test_a_folder_that_cannot_be_written_fails_and_nothing_is_left_of_one_that_can(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("1.ndjson")
    config = lake.config
    before = sorted(tmp_path.rglob("*"))
    assert {each.result for each in tidegate.doctor(config) if "events" in each.name} == {"passed"}
    assert sorted(tmp_path.rglob("*")) == before, "no folder is made"
    # Whoever runs this, root too: a file is no folder.
    (tmp_path / "file").write_text("")
    source = {"source_uri": "data"}
    pipeline = {"source": source, "schema": {"fields": FIELDS}, "sink": {"table_uri": "file/table"}}
    (tmp_path / "odd.yml").write_text(json.dumps({"pipelines": {"events": pipeline}}))
    failed = [each for each in tidegate.doctor(tmp_path / "odd.yml") if each.result == "failed"]
    assert "table of events/default" in {each.name for each in failed}
    assert all(each.remedy for each in failed)


def test_what_cannot_be_bound_stops_no_other(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("1.ndjson")
    config = json.loads(lake.config.read_text())
    good = next(iter(config["pipelines"].values()))
    config["pipelines"]["odd"] = good | {"sink": {"table_uri": "s3://b/x", "storage_options": {"AWS_ODD_KEY": "1"}}}
    (tmp_path / "two.yml").write_text(json.dumps(config))
    checks = tidegate.doctor(tmp_path / "two.yml")
    assert any(each.name == "table of events/default" and each.result == "passed" for each in checks)
    assert any(each.result == "failed" and "odd" in each.name.lower() for each in checks)


def test_a_database_that_hangs_while_its_tables_are_listed_fails_its_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()
    monkeypatch.setattr("tidegate.commands.doctor.LIMIT_SECONDS", 0.2)
    monkeypatch.setattr("tidegate.commands.doctor.ask_database", lambda block: held.wait())
    connection = {"type": "jdbc", "url": "jdbc:mariadb://127.0.0.1:1/x", "user": "me", "password": WRONG}
    source = {"connection": "shop", "tables": ["*.*"], "watermark_columns": ["id"]}
    block = {"source": source, "sink": {"table_uri": "lake/{schema}/{table}"}}
    text = {"engine": "local", "connections": {"shop": connection}, "pipelines": {"shop": block}}
    (tmp_path / "shop.yml").write_text(json.dumps(text))
    (failed,) = (each for each in tidegate.doctor(tmp_path / "shop.yml") if each.result == "failed")
    held.set()
    assert (failed.name, "no answer within 0.2 s" in failed.detail) == ("source shop/default", True)


def test_many_tables_of_a_block_are_one_row_and_those_that_fail_have_their_own(
    in_postgres: Project, postgres: postgres_server.Server
) -> None:
    database = in_postgres.connection["url"].rpartition("/")[2]
    with postgres.connect(database) as connection:
        for number in range(6):
            connection.execute(f"create table t{number} (id int primary key)".encode())
    source = {"connection": "there", "tables": ["public.*"], "watermark_columns": ["id"]}
    source["per_table"] = {"public.t1": {"filter_expression": "nothing_such > 1"}}
    pipeline = {"source": source, "sink": {"table_uri": "lake/{schema}/{table}"}}
    path = in_postgres.root / "block.yml"
    text = {"engine": "local", "connections": {"there": in_postgres.connection}, "pipelines": {"shop": pipeline}}
    path.write_text(json.dumps(text))
    outcome = CliRunner().invoke(cli, ["doctor", str(path)])
    assert outcome.exit_code == 1
    rows = [line for line in outcome.stdout.splitlines() if "shop" in line and line.split()[0] in ("ok", "fail")]
    assert "shop (7 tables)" in rows[0]
    assert [line.split()[2] for line in rows[1:]] == ["shop.public.orders/default", "shop.public.t1/default"]
    whole_ = json.loads(CliRunner().invoke(cli, ["doctor", str(path), "--json"]).stdout)["checks"]
    assert {each["block"] for each in whole_ if "shop.public" in each["name"]} == {"shop"}
    one = CliRunner().invoke(cli, ["doctor", str(path), "-p", "shop.public.t2"])
    assert (one.exit_code, "shop.public.t1" in one.stdout) == (0, False)
