"""Ingest without a configuration: what is found out, what it amounts to, and that it goes on from the same position."""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner, Result
from deltalake import write_deltalake

import tidegate
from servers import api as api_server
from servers import s3 as s3_server
from servers.api import Answer, Api
from support.canary import CANARY
from support.errors import raises
from tidegate import ConfigError, IngestOptions
from tidegate.cli.main import cli
from tidegate.commands import ingest as command
from tidegate.config import load
from tidegate.protocol.delta import query
from tidegate.reports.run import IngestReport, RunReport
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs happen in this process, and everything in this folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "run", lambda project, **other: in_process(project))
    return tmp_path


def in_process(project: Any) -> RunReport:
    return Loop(project, InProcessEngine(), 2).once(project.pipelines)


def run_saved(path: Path) -> RunReport:
    return in_process(load(path, env=os.environ))


def rows(table: str) -> int:
    return int(query(Location(Path(table).absolute().as_uri()), "select count(*) as n from t")[0]["n"])


def write(path: str, text: str) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(text.encode()) if path.endswith(".gz") else text.encode())


def done(report: IngestReport) -> RunReport:
    assert report.run is not None
    assert report.run.ok, [each.error for each in report.run.sources]
    return report.run


def said(report: IngestReport, label: str) -> str:
    return dict(report.found)[label]


FOLDERS = {
    "csv": ("a.csv", "id,name\n1,one\n2,two\n"),
    "ndjson": ("a.ndjson.gz", '{"id": 1}\n{"id": 2}\n'),
    "json": ("a.json.gz", ' [{"id": 1}, {"id": 2}]'),
}


@pytest.mark.parametrize("format", FOLDERS)
def test_the_format_of_a_folder_is_found_and_told(format: str) -> None:
    name, text = FOLDERS[format]
    write(f"in/{name}", text)
    report = tidegate.ingest("in", "lake/t")
    assert said(report, "format") == f"{format} (1 file: 1 in .{name.partition('.')[2]})"
    assert (done(report).sources[0].rows, rows("lake/t")) == (2, 2)


def test_a_saved_configuration_goes_on_from_the_same_position() -> None:
    write("in/a.csv", "id\n1\n2\n")
    first = done(tidegate.ingest("in", "lake/orders", save=Path("pipelines.yml")))
    assert (first.sources[0].pipeline, first.sources[0].rows) == ("orders", 2)
    write("in/b.csv", "id\n3\n")
    again = run_saved(Path("pipelines.yml"))
    assert (again.sources[0].files, again.sources[0].rows) == (1, 1)
    assert done(tidegate.ingest("in", "lake/orders")).sources[0].rows == 0
    assert rows("lake/orders") == 3


def test_a_configuration_in_another_folder_names_the_same_places() -> None:
    write("in/a.csv", "id\n1\n")
    Path("conf").mkdir()
    tidegate.ingest("in", "lake/t", save=Path("conf/p.yml"))
    assert "source_uri: ../in" in Path("conf/p.yml").read_text()
    assert run_saved(Path("conf/p.yml")).sources[0].files == 0


def test_a_file_that_is_there_is_not_overwritten_and_nothing_is_run() -> None:
    write("in/a.csv", "id\n1\n")
    write("p.yml", "mine")
    with raises(ConfigError, "p.yml", "--save"):
        tidegate.ingest("in", "lake/t", save=Path("p.yml"))
    assert (Path("p.yml").read_text(), Path("lake").exists()) == ("mine", False)


def test_a_dry_run_shows_and_reads_nothing() -> None:
    write("in/a.csv", "id\n1\n")
    report = tidegate.ingest("in", "lake/t", dry_run=True)
    assert (report.run, Path("lake").exists(), "format: csv" in report.yaml) == (None, False, True)


def test_a_folder_followed_by_a_column_is_read_as_a_table() -> None:
    write("in/a.csv", "id\n1\n2\n")
    report = tidegate.ingest("in", "lake/t", IngestOptions(watermark=("id",)), save=Path("p.yml"))
    assert done(report).sources[0].rows == 2
    write("in/b.csv", "id\n2\n3\n")
    assert run_saved(Path("p.yml")).sources[0].rows == 1


def test_a_delta_table_is_known_by_its_log() -> None:
    write_deltalake("from", pa.table({"id": [1, 2]}))
    report = tidegate.ingest("from", "lake/t", IngestOptions(watermark=("id",), name="copy"))
    assert said(report, "source") == "a Delta table at from"
    assert (done(report).sources[0].pipeline, rows("lake/t")) == ("copy", 2)


def test_an_iceberg_table_is_known_by_its_metadata() -> None:
    write("from/metadata/00000.metadata.json", "{}")
    assert "type: iceberg" in tidegate.ingest("from", "lake/t", dry_run=True).yaml


@pytest.mark.s3
def test_a_bucket_is_read_with_the_credentials_of_the_environment(
    s3: s3_server.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.options.items():
        monkeypatch.setenv(name, value)
    options = IngestOptions(storage_options={"AWS_ALLOW_HTTP": "true"})
    place = s3.location()
    open_store(place).put("in/a.csv", b"id\n1\n2\n")
    report = tidegate.ingest(f"{place.uri}/in/", f"{place.uri}/lake/orders", options, save=Path("p.yml"))
    assert (report.pipeline, said(report, "format"), done(report).sources[0].rows) == (
        "orders",
        "csv (1 file: 1 in .csv)",
        2,
    )
    assert "AWS_ALLOW_HTTP: ${AWS_ALLOW_HTTP}" in Path("p.yml").read_text()
    assert s3_server.SECRET_KEY not in Path("p.yml").read_text()
    open_store(place).put("in/b.csv", b"id\n3\n")
    assert run_saved(Path("p.yml")).sources[0].rows == 1


def test_a_table_inside_its_own_source_is_no_part_of_it() -> None:
    write("in/a.csv", "id\n1\n2\n")
    for expected in (2, 0):
        assert done(tidegate.ingest("in", "in/lake/t")).sources[0].rows == expected


@pytest.fixture
def server() -> Iterator[Api]:
    with api_server.running() as found:
        yield found


def test_an_api_is_read_and_its_key_is_no_part_of_the_configuration(
    server: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.routes["/orders"] = lambda asked: Answer({"data": [{"id": 1}, {"id": 2}]})
    options = IngestOptions(records="data", watermark=("id",))
    report = tidegate.ingest(f"{server.url}/orders?size=5&api_key={CANARY}", "lake/t", options, save=Path("p.yml"))
    assert done(report).sources[0].rows == 2
    assert server.asked[0].params == {"size": "5", "api_key": CANARY}
    assert CANARY not in report.yaml + Path("p.yml").read_text()
    assert report.variables == ("_127_0_0_1_API_KEY",)
    monkeypatch.setenv(report.variables[0], CANARY)
    assert run_saved(Path("p.yml")).sources[0].rows == 0


@pytest.mark.parametrize(
    ("path", "params", "variables"),
    [
        ("/orders", "key=AIzaSyD9tSrke72PouQMnMX", ["KEY"]),
        ("/orders", "sig=abc%2Fdef&page=2", ["SIG"]),
        ("/orders", "app_key=a1b2c3d4e5f6&app_secret=zzzzzz", ["APP_KEY", "APP_SECRET"]),
        ("/bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/orders", "", ["TOKEN"]),
        ("/orders", "code=a1b2c3d4e5f6", ["CODE"]),
    ],
)
def test_every_credential_of_an_address_is_a_variable(
    server: Api, monkeypatch: pytest.MonkeyPatch, path: str, params: str, variables: list[str]
) -> None:
    server.routes[path] = lambda asked: Answer([{"id": 1}])
    options = IngestOptions(watermark=("id",))
    report = tidegate.ingest(f"{server.url}{path}?{params}", "lake/t", options, save=Path("p.yml"))
    assert done(report).sources[0].rows == 1
    assert report.variables == tuple(f"_127_0_0_1_{each}" for each in variables)
    sent = dict(parse_qsl(params))
    assert server.asked[-1].params == sent
    secrets = [sent[each.lower()] for each in variables if each != "TOKEN"] or ["AAHdq"]
    shown = f"{report} {Path('p.yml').read_text()}"
    assert not [each for each in secrets if each in shown], shown
    for name, value in zip(report.variables, secrets, strict=True):
        token = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
        monkeypatch.setenv(name, token if name.endswith("TOKEN") else value)
    assert run_saved(Path("p.yml")).ok


@pytest.mark.parametrize(
    ("source", "url"),
    [
        ("jdbc:sqlite:/x.db", "jdbc:sqlite:/x.db"),
        ("jdbc:oracle:thin:@//h:1521/svc", "jdbc:oracle:thin:@//h:1521/svc"),
        ("jdbc:sqlserver://h:1433;databaseName=x", "jdbc:sqlserver://h:1433;databaseName=x"),
        ("jdbc:postgresql:shop", "jdbc:postgresql:shop"),
        ("jdbc:mysql://h1:3306,h2:3306/db", "jdbc:mysql://h1:3306,h2:3306/db"),
        ("postgresql://SCOTT:tiger12@h1:5432,h2:5432/orders", "jdbc:postgresql://h1:5432,h2:5432/orders"),
        ("postgresql://me:orders@h/orders", "jdbc:postgresql://h/orders"),
    ],
)
def test_every_form_of_a_database_address_is_drafted_and_shown_as_yaml(source: str, url: str) -> None:
    result = invoke(source, "lake/orders", "--table", "orders", "--dry-run")
    assert result.exit_code == 0, result.output
    text = result.stdout[result.stdout.index("  connections:") :].partition("\n\n")[0]
    drafted = yaml.safe_load(text)
    assert drafted["connections"]["database"]["url"] == url
    assert drafted["connections"]["database"].get("user") in (None, "SCOTT", "me")
    assert drafted["pipelines"]["orders"]["source"]["table"] == "orders"


def test_two_credentials_of_one_name_are_two_variables_and_a_key_as_user_is_one(server: Api) -> None:
    server.routes["/orders"] = lambda asked: Answer([{"id": 1}])
    address = f"{server.url}/orders?password=pwtwo22".replace("://", "://zQ7x9Wk2Vb4Lm8Tn:pwone11@")
    report = tidegate.ingest(address, "lake/t", IngestOptions(watermark=("id",)), save=Path("p.yml"))
    assert done(report).sources[0].rows == 1
    asked = server.asked[-1]
    assert asked.params == {"password": "pwtwo22"}
    assert asked.headers["authorization"] == f"Basic {base64.b64encode(b'zQ7x9Wk2Vb4Lm8Tn:pwone11').decode()}"
    assert len(set(report.variables)) == 3
    assert not [each for each in ("zQ7x9", "pwone11", "pwtwo22") if each in Path("p.yml").read_text()]


def test_a_wrong_call_repeats_no_credential_of_its_arguments() -> None:
    secret = "hunter2canary"
    address = f"postgresql://me:{secret}@h/d"
    for words in (
        ("ingest", "lake/t", address, address),
        (address, "lake/t"),
        ("ingest", "in", "lake/t", "extra", f"AWS_SECRET_ACCESS_KEY={secret}"),
        ("config", "check", address),
        ("config", "import", address),
    ):
        result = CliRunner().invoke(cli, words)
        assert result.exit_code not in (0, 70), words
        assert secret not in result.output + result.stderr, words


def test_a_file_in_a_folder_that_does_not_exist_is_refused_before_anything_is_read() -> None:
    write("in/a.csv", "id\n1\n")
    assert invoke("in", "lake/t", "--save", "nowhere/p.yml").exit_code == 2
    assert not Path("lake").exists()


@pytest.mark.parametrize(
    "source",
    [
        "s3://KEY:hunter2canary@b/x",
        "ftp://me:hunter2canary@h/x",
        "redis://:hunter2canary@h",
        "mongodb+srv://me:hunter2canary@h",
        "azure://x?sig=hunter2canary",
        "postgres://me:hunter2canary",
        "postgresql://me:hunter2canary@[::1/db",
        "https://me:hunter2canary@[::1/db",
        "https://127.0.0.1:1/a1B2c3hunter2canary4D5e6F7/zQ7x9Wk2Vb4Lm8Tn",
        "jdbc:sqlserver://h;user=me;password=hunter2canary",
    ],
)
def test_no_error_repeats_a_credential_of_an_address_and_nothing_is_saved(source: str) -> None:
    for form in ((), ("--json",), ("--debug",)):
        result = invoke(source, "lake/t", "--table", "t", "--save", "p.yml", *form)
        assert result.exit_code not in (0, 70), result.output
        assert "hunter2canary" not in result.output + result.stderr
        assert not Path("p.yml").exists()


def test_a_run_that_fails_saves_nothing(server: Api) -> None:
    server.routes["/orders"] = lambda asked: Answer({"error": "no"}, 403)
    result = invoke(f"{server.url}/orders?token={CANARY}", "lake/t", "--save", "p.yml")
    assert result.exit_code != 0
    assert not Path("p.yml").exists()
    assert CANARY not in result.output + result.stderr


DATABASE = """\
connections:
  database:
    type: jdbc
    url: jdbc:postgresql://db:5433/my-shop?sslmode=require
    user: reader
    password: ${MY_SHOP_PASSWORD}
pipelines:
  orders:
    source:
      connection: database
      table: public.orders
      watermark_columns: [modified_at]
    sink:
      table_uri: lake/orders
      load_type: merge_upsert
      merge_keys: [id]
"""


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://reader:{CANARY}@db:5433/my-shop?sslmode=require",
        f"jdbc:postgresql://db:5433/my-shop?user=reader&password={CANARY}&sslmode=require",
    ],
)
def test_the_password_of_a_database_is_a_variable(address: str) -> None:
    options = IngestOptions(table="public.orders", watermark=("modified_at",), merge_keys=("id",))
    report = tidegate.ingest(address, "lake/orders", options, dry_run=True)
    assert (report.yaml, report.variables) == (DATABASE, ("MY_SHOP_PASSWORD",))


@pytest.mark.parametrize(
    ("source", "options", "told"),
    [
        ("nowhere", IngestOptions(), "nowhere … folder"),
        ("empty", IngestOptions(), "empty … no file … --format: ndjson"),
        ("mixed", IngestOptions(), "mixed … 1 in .avro, 1 in .csv … --format"),
        ("odd", IngestOptions(), "odd … 1 in .txt … --format"),
        ("odd", IngestOptions(table="t"), "--table … odd … files"),
        ("mixed", IngestOptions(format="avro", watermark=("id",)), "avro … --watermark … --merge-key"),
        ("postgresql://db/shop", IngestOptions(), "--table"),
        ("https://api.example.org/x", IngestOptions(format="csv"), "--table … --format … API"),
        ("https://u:p12345678@127.0.0.1:1/zQ7x9Wk2Vb4Lm8Tn/x", IngestOptions(), "secret"),
        ("csv", IngestOptions(name="a b"), "'a b'"),
    ],
)
def test_what_cannot_be_found_out_is_asked_for(source: str, options: IngestOptions, told: str) -> None:
    Path("empty").mkdir()
    write("mixed/a.csv", "id\n")
    write("mixed/a.avro", "")
    write("odd/a.txt", "")
    write("csv/a.csv", "id\n1\n")
    with raises(ConfigError, told):
        tidegate.ingest(source, "lake/t", options)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["ingest", *arguments])


def test_the_command_tells_what_it_found_then_what_it_did_then_the_configuration() -> None:
    write("in/a.csv", "id\n1\n")
    result = invoke("in", "lake/t", "--save", "p.yml")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    told = [
        next(number for number, line in enumerate(lines) if each in line)
        for each in ("format", "1 row in", "pipelines:")
    ]
    assert told == sorted(told)
    assert lines[-1] == "  $ tidegate run p.yml"


def test_a_storage_option_takes_its_value_from_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    write("in/a.csv", "id\n1\n")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    options = ("--storage-option", "AWS_SECRET_ACCESS_KEY", "--storage-option", "AWS_REGION=eu-west-1")
    result = invoke("in", "s3://lake/t", "--dry-run", *options)
    assert result.exit_code == 0
    assert "AWS_SECRET_ACCESS_KEY: ${AWS_SECRET_ACCESS_KEY}" in result.output
    assert (CANARY in result.output, "eu-west-1" in result.output) == (False, False)
    assert "there is no such variable" in invoke("in", "s3://lake/t", "--storage-option", "NO_SUCH_NAME").stderr


def test_the_command_is_json_when_asked() -> None:
    write("in/a.csv", "id\n1\n")
    found = json.loads(invoke("in", "lake/t", "--json", "--dry-run").stdout)
    assert (found["pipeline"], found["run"], found["saved"]) == ("t", None, None)


def test_a_glob_is_saved_as_a_folder_and_a_pattern() -> None:
    write("in/a.json", '{"n": 1}\n')
    write("in/b.csv", "n\n2\n")
    write("in/old/c.json", '{"n": 3}\n')
    tidegate.ingest("in/*.json", "lake/t", save=Path("t.yml"))
    assert rows("lake/t") == 1
    saved = yaml.safe_load(Path("t.yml").read_text())["pipelines"]["t"]["source"]
    assert (saved["source_uri"], saved["pattern"]) == ("in/", "/*.json")


@pytest.mark.parametrize("place", ["s3:/lake/x", "dbfs:/mnt/x"])
def test_an_address_without_both_slashes_is_refused(place: str) -> None:
    for source, table in ((place, "lake/t"), ("in", place)):
        with raises(ConfigError, place, "write"):
            tidegate.ingest(source, table)


def test_hints_name_no_configuration_that_was_not_saved() -> None:
    write("in/a.json", '{"n": 1}\nnot JSON\n')
    first = CliRunner().invoke(cli, ["ingest", "in", "lake/t"])
    assert "tidegate dlq list CONFIG -p t" in first.stdout
    assert "CONFIG is the configuration below, once it is saved" in first.stdout
    write("in/b.json", "not JSON\n")
    saved = CliRunner().invoke(cli, ["ingest", "in", "lake/t", "--save", "t.yml"])
    assert "tidegate dlq list t.yml -p t" in saved.stdout
    assert "once it is saved" not in saved.stdout


def test_a_format_is_given_in_the_words_of_the_configuration() -> None:
    write("in/a.txt", '{"n": 1}\n')
    assert CliRunner().invoke(cli, ["ingest", "in", "lake/t", "--format", "ndjson", "--dry-run"]).exit_code == 0


def test_what_an_engine_cannot_do_is_told_by_the_key() -> None:
    write("in/a.csv", "n\n1\n")
    with pytest.raises(ConfigError) as caught:
        tidegate.ingest("in", "lake/t", IngestOptions(watermark=("n",), merge_keys=("n",)), engine="local")
    assert str(caught.value).startswith("pipelines.t.sink.load_type: merge_upsert needs Spark")
