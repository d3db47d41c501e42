"""A canary in every place that may hold a secret shows up nowhere: not in errors, repr or show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate.config import load, show
from tidegate.config.keys import every_key
from tidegate.errors import ConfigError
from tidegate.specs.columns import HttpRead, JdbcRead
from tidegate.specs.locations import Secret
from tidegate.specs.project import ProjectSpec

CANARY = "hunter2canary"
GOOD = f"""\
pipelines:
  p:
    sources:
      s:
        source_uri: s3://bucket/in
        use_watermark: true
        storage_options: {{AWS_SECRET_ACCESS_KEY: "{CANARY}", AWS_TOKEN: "${{SECRET}}", region: x-{CANARY}}}
    sink:
      table_uri: s3://bucket/lake
      storage_options: {{AWS_ACCESS_KEY_ID: {CANARY}, PASSWORD: "a ${{SECRET}} b"}}
spark:
  remote: "sc://host:15002/;use_ssl=true;token={CANARY}"
  config:
    spark.hadoop.fs.s3a.secret.key: {CANARY}
    spark.ssl.keyPassword: "${{SECRET}}"
    spark.driver.extraJavaOptions: "-Djavax.net.ssl.trustStorePassword={CANARY}"
    spark.jars.repositories: "https://user:{CANARY}@repo.example.org/maven"
    spark.executor.memory: 4g
"""


WITH_CONNECTIONS = f"""\
connections:
  db:
    type: jdbc
    url: jdbc:postgresql://host/db
    user: me
    password: "${{SECRET}}"
    properties: {{sslkey: {CANARY}}}
  api:
    type: http
    url: https://host/v1
    headers: {{X-Tenant: {CANARY}}}
    auth: {{type: oauth2, token_url: "https://host/t", client_id: me, client_secret: {CANARY}}}
pipelines:
  p:
    source: {{connection: db, table: t, watermark_columns: [at]}}
    sink: {{table_uri: lake/p}}
  q:
    source: {{connection: api, headers: {{Key: {CANARY}}}, method: POST, body: {{password: {CANARY}}}}}
    sink: {{table_uri: lake/q, load_type: overwrite}}
  r:
    source: {{type: python, function: "a:b", options: {{x: {CANARY}}}, watermark_columns: [at]}}
    sink: {{table_uri: lake/r}}
state:
  provider: sql
  url: "postgresql://me:{CANARY}@host/state"
"""


def project(tmp_path: Path) -> ProjectSpec:
    path = tmp_path / "pipelines.yml"
    path.write_text(GOOD)
    return load(path, env={"SECRET": CANARY})


def test_secrets_arrive_where_they_are_needed(tmp_path: Path) -> None:
    made = project(tmp_path)
    source = made.pipelines[0].sources[0]
    assert source.location.options["AWS_TOKEN"] == CANARY
    assert made.pipelines[0].sink.table.options["PASSWORD"] == f"a {CANARY} b"
    assert made.spark.config["spark.ssl.keyPassword"] == CANARY
    assert made.spark.remote == f"sc://host:15002/;use_ssl=true;token={CANARY}"


def test_no_secret_shows_in_repr_or_show(tmp_path: Path) -> None:
    made = project(tmp_path)
    for text in (repr(made), str(made), show(made), f"{made.pipelines[0]!r}", f"{made.spark.config}"):
        assert CANARY not in text
    assert "4g" in show(made)
    assert "AWS_SECRET_ACCESS_KEY: '***'" in show(made)


def error(text: str, tmp_path: Path) -> str:
    path = tmp_path / "pipelines.yml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path, env={"SECRET": CANARY})
    shown = [str(caught.value), repr(caught.value), repr(caught.value.args)]
    shown += [repr(caught.value.__context__), repr(caught.value.__cause__)]
    return "\n".join(shown)


def test_secrets_of_connections_arrive_and_do_not_show(tmp_path: Path) -> None:
    made = load(WITH_CONNECTIONS, env={"SECRET": CANARY}, base=tmp_path)
    reads = [pipeline.sources[0].read for pipeline in made.pipelines]
    assert isinstance(reads[0], JdbcRead)
    assert isinstance(reads[1], HttpRead)
    assert (reads[0].password, reads[0].properties["sslkey"]) == (Secret(CANARY), CANARY)
    assert (reads[1].auth.client_secret, reads[1].headers["Key"]) == (Secret(CANARY), CANARY)
    for text in (repr(made), str(made), show(made), *map(repr, reads), *map(str, reads), f"{made.state}"):
        assert CANARY not in text


def problems_of(text: str, tmp_path: Path) -> str:
    """What is told of ``text``; nothing where it is good."""
    try:
        load(text, env={"SECRET": CANARY}, base=tmp_path)
    except ConfigError as error:
        return str(error)
    return ""


def test_no_secret_of_connections_shows_whatever_line_is_wrong(tmp_path: Path) -> None:
    for at in range(WITH_CONNECTIONS.count("\n")):
        lines = WITH_CONNECTIONS.splitlines()
        key, _, rest = lines[at].partition(":")
        for line in (f"{key}x:{rest}", f"{key}: [a]", f"{key}: ${{SECRET}}"):
            broken = "\n".join([*lines[:at], line, *lines[at + 1 :]]) + "\n"
            assert CANARY not in problems_of(broken, tmp_path), line


BREAKAGES = [
    ("    sink:", "    sinc:"),
    ("pipelines:", "pipeline:"),
    ("storage_options: {A", "storage_option: {A"),
    ("table_uri: s3://bucket/lake", f"table_uri: s3://id:{CANARY}@bucket/lake"),
    ("table_uri: s3://bucket/lake", f"table_uri: 's3://bucket/lake?sig={CANARY}'"),
    ("table_uri: s3://bucket/lake", 'table_uri: "${SECRET}://x"'),
    ("use_watermark: true", 'use_watermark: "${SECRET}"'),
    ("config:\n", "confg:\n"),
    ('remote: "sc:', 'remote: "cs:'),
    ("  config:\n", '  master: "${SECRET}"\n  config:\n'),
    ("  p:\n", f"  p:\n    password: {CANARY}\n"),
    ("pipelines:\n", f"connections: {{db: {{password: {CANARY}, token: '${{SECRET}}'}}}}\npipelines:\n"),
    ("pipelines:\n", f"auth: {{token: {CANARY}}}\npipelines:\n"),
    ("    spark.executor.memory: 4g", f"    spark.executor.memory: [{CANARY}]"),
    ("    spark.executor.memory: 4g", f"    spark.executor.memory: *{CANARY}"),
    ("    spark.executor.memory: 4g", f"    spark.executor.memory: !{CANARY} x"),
    ("    spark.executor.memory: 4g", f"    spark.executor.memory: [{CANARY}"),
    ("    spark.executor.memory: 4g", f"    spark.executor.memory: 'x{CANARY}"),
    ("    spark.executor.memory: 4g", f"    spark.ssl.keyPassword: {CANARY}"),
]


@pytest.mark.parametrize(("good", "bad"), BREAKAGES)
def test_no_secret_shows_in_errors(good: str, bad: str, tmp_path: Path) -> None:
    assert good in GOOD
    assert CANARY not in error(GOOD.replace(good, bad, 1), tmp_path)


@pytest.mark.slow
def test_a_secret_put_by_mistake_into_any_other_key_does_not_show_in_errors(tmp_path: Path) -> None:
    tried = 0
    for key in every_key():
        path = re.sub(r"<pipeline>", "p", re.sub(r"<[a-z ]+>", "s", key.path)).replace("[]", "")
        lines = [f"{'  ' * depth}{part}:" for depth, part in enumerate(path.split("."))]
        for value in ('"${SECRET}"', f"{{token: {CANARY}}}", f"[{{password: {CANARY}}}]"):
            text = "\n".join(lines) + f" {value}\n"
            assert CANARY not in error(text, tmp_path), text
            tried += 1
    assert tried > 200


def test_secrets_that_are_too_short_to_be_masked_are_told(tmp_path: Path) -> None:
    import tidegate

    (tmp_path / "p.yml").write_text(
        """
connections:
  api: {type: http, url: "https://h", auth: {type: bearer, token: abc}, headers: {X-Api-Key: "12345", X-Plain: x}}
  db: {type: jdbc, url: "jdbc:h2:mem:x", user: b, password: b, properties: {ssl: "1", trustPassword: "long enough"}}
pipelines:
  p:
    source: {type: python, function: "m:f", options: {api_key: k, depth: "3"}}
    sink: {path: lake, load_type: full_load}
"""
    )
    project = load(tmp_path / "p.yml", env={})
    places = [notice.split(" has ")[0] for notice in project.notices]
    assert places == [
        "connections.api.auth.token",
        "connections.api.headers.X-Api-Key",
        "connections.db.password",
        "pipelines.p.source.options.api_key",
    ]
    assert all("fewer than 6 characters" in notice for notice in project.notices)
    checks = tidegate.doctor(tmp_path / "p.yml")
    warned = [each for each in checks if each.verdict == "warn" and "characters" in each.detail]
    assert len(warned) == 4
