"""One marked secret in every place that takes one, every command in every form: no byte that leaves has it.

The server repeats whatever it is sent, in several encodings, and so does the user's function. Commands succeed in one
world and fail in the other. All output and all files are searched.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import click
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

import tidegate
from servers import api as api_server
from servers.api import Answer, Asked
from support.commands import walk
from tidegate.cli.main import cli
from tidegate.runs.in_process import InProcessEngine

CONFIG = """\
connections:
  api:
    type: http
    url: "{url}/${{STAGE}}"
    headers: {{X-Tenant-Key: "{literal_1}", X-More: "${{MARK_2_TOKEN}}"}}
    auth: {{type: api_key, place: path, name: bot, token: "${{MARK_3_TOKEN}}"}}
    retries: {{attempts: 0}}
  basic:
    type: http
    url: "{url}"
    auth: {{type: basic, user: "${{MARK_4_TOKEN}}", password: "{literal_5}"}}
    retries: {{attempts: 0}}
  db:
    type: jdbc
    url: "jdbc:postgresql://127.0.0.1:1/shop?options=-c%20app.word%3D{literal_6}"
    user: "${{MARK_7_TOKEN}}"
    password: "{literal_8}"
    properties: {{ApplicationName: "{literal_9}"}}
pipelines:
  files:
    source: {{source_uri: in, storage_options: {{AWS_SECRET_ACCESS_KEY: "{literal_10}", other: "${{MARK_11_TOKEN}}"}}}}
    schema: {{fields: [{{name: id, type: int64}}]}}
    sink:
      table_uri: "lake/${{STAGE}}/files"
      metadata_columns: [_source_file]
      storage_options: {{token: "{literal_12}"}}
  api:
    source:
      connection: api
      path: "/bot{{{{bot}}}}/items"
      params: {{sig: "${{MARK_13_TOKEN}}", code: "{literal_14}"}}
      watermark_columns: [id]
    sink: {{table_uri: lake/api}}
  posted:
    source:
      connection: basic
      path: /posted
      method: POST
      body: {{key: "${{MARK_15_TOKEN}}", deep: [{{password: "{literal_16}"}}]}}
      watermark_columns: [id]
    sink: {{table_uri: lake/posted}}
  units:
    source:
      connection: basic
      path: "/units/{{{{unit}}}}"
      headers: {{X-Sig: "{literal_17}"}}
      params: {{since: {{watermark: day, bound: low}}}}
      watermark:
        - {{name: day, type: datetime, range: {{from: "2026-01-01", to: "2026-01-03"}}}}
        - {{name: unit, type: unit, units: [a, b]}}
      work_unit: {{partition: daily}}
    sink: {{table_uri: lake/units}}
  bots:
    source:
      connection: api
      path: "/bot{{{{bot}}}}/units/{{{{unit}}}}"
      params: {{since: {{watermark: day, bound: low}}}}
      watermark:
        - {{name: day, type: datetime, range: {{from: "2026-01-01", to: "2026-01-03"}}}}
        - {{name: unit, type: unit, units: [a]}}
    sink: {{table_uri: lake/bots}}
  rows:
    source:
      connection: db
      query: "select * from t where secret = '${{MARK_18_TOKEN}}'"
      watermark_columns: [id]
      filter_expression: "word <> '${{MARK_19_TOKEN}}'"
    sink: {{table_uri: lake/rows}}
  code:
    source:
      type: python
      function: "planted_code:read"
      options: {{endpoint: "{literal_20}"}}
      watermark_columns: [id]
    sink: {{table_uri: lake/code}}
spark:
  config: {{spark.hadoop.fs.s3a.secret.key: "{literal_21}", spark.word: "${{MARK_22_TOKEN}}"}}
state: {{provider: file, url: state, storage_options: {{token: "{literal_23}"}}}}
notify:
  - to: {{webhook: "{url}/hooks/{literal_24}"}}
    on: [failed, recovered, late, no_data, new_column, dead_letters, unit_given_up]
    dead_letters_above: 0
    late_after: PT1H
  - to: {{command: [sh, -c, "cat >> messages.txt; echo $0", "${{MARK_25_TOKEN}}"]}}
    dead_letters_above: 0
"""
MARKS = {number: f"zQ{number:02}x9Wk2Vb4Lm8Tn" for number in range(1, 26)}
CODE = """
import pyarrow as pa

def read(session, request):
    if "%s" == "fails":
        raise SystemExit("no way in with " + request.options["endpoint"])
    return pa.table({"id": [1]})
"""
COMMANDS = {
    "config check": "",
    "config show": "",
    "plan": "",
    "status": "",
    "notify": "",
    "report": "",
    "doctor": "",
    "commit": "",
    "files": "-p files",
    "watermark show": "-p files",
    "watermark history": "-p files",
    "watermark set": "-p posted --value id=1 --dry-run",
    "watermark reset": "-p posted --all --dry-run",
    "schema infer": "-p files",
    "schema show": "-p files",
    "schema diff": "-p files",
    "schema replace": "-p files --dry-run",
    "units list": "-p units",
    "units show": "-p units --unit a",
    "units retry": "-p units --failed --dry-run",
    "units reset": "-p units --unit a --dry-run",
    "dlq list": "-p files",
    "dlq show": "-p files 1",
    "dlq retry": "-p files",
    "dlq discard": "-p files --dry-run",
    "table optimize": "-p files --dry-run",
    "table vacuum": "-p files --dry-run",
    "table checkpoint": "-p files",
    "table widen": "-p files --column id --type int64 --dry-run",
    "reconcile": "",
    "recover": "-p api",
    "adopt": "-p files --dry-run",
    "replay": "-p files --files ** --dry-run",
    "run": "",
}
ELSEWHERE = {"setup", "demo", "init", "chaos", "version", "serve", "ingest", "config schema", "config import"}
"""They take no configuration, or one of their own: tests of theirs look for secrets."""

FORMS = [(), ("--json",), ("--debug", "--log-level", "debug", "--log-format", "json")]


def encodings(mark: str) -> Iterator[str]:
    yield mark
    yield mark.encode().hex()
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + mark.encode()).decode()
        yield text[4 if shift else 0 : 8 * (shift + len(mark)) // 6]


def leaks(text: str) -> list[int]:
    return [number for number, mark in MARKS.items() if any(form in text for form in encodings(mark))]


def echo(asked: Asked) -> str:
    """Everything that came, in more than one form."""
    came = json.dumps([asked.path, dict(asked.params), dict(asked.headers), asked.body])
    return f"{came} {quote(came)} {base64.b64encode(came.encode()).decode()} {came.encode().hex()}"


@pytest.fixture(params=["succeeds", "fails"])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    def answer(asked: Asked) -> Answer:
        if request.param == "fails":
            return Answer({"error": echo(asked)}, status=400)
        return Answer([{"id": 1}])

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STAGE", "prod")
    monkeypatch.delitem(sys.modules, "planted_code", raising=False)
    for number, mark in MARKS.items():
        monkeypatch.setenv(f"MARK_{number}_TOKEN", mark)
    (tmp_path / "planted_code.py").write_text(CODE % request.param)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.ndjson").write_text('{"id": 1}\n{"id": "x"}\n')

    @contextlib.contextmanager
    def in_process(*given: object, **more: object) -> Iterator[InProcessEngine]:
        yield InProcessEngine()

    for module in ("run", "replay", "reconcile", "dead_letters"):
        monkeypatch.setattr(f"tidegate.commands.{module}.open_engine", in_process)
    with api_server.running() as server:
        own = f"/prod/bot{MARKS[3]}"
        for path in ("/posted", "/units/a", "/units/b", f"{own}/items", f"{own}/units/a"):
            server.routes[path] = answer
        server.routes[f"/hooks/{MARKS[24]}"] = lambda asked: Answer({"error": echo(asked)}, status=400)
        text = CONFIG.format(url=server.url, **{f"literal_{number}": mark for number, mark in MARKS.items()})
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "p.yml").write_text(text)
        for link in ("in", "lake", "state"):
            (tmp_path / link).mkdir(exist_ok=True)
            (tmp_path / "conf" / link).symlink_to(tmp_path / link)
        yield tmp_path


def said(*words: str) -> str:
    """Both streams of a command; its exit is none that nobody foresaw."""
    result = CliRunner().invoke(cli, words)
    assert result.exit_code != 70, result.output
    return f"{result.stdout}\n{result.stderr}"


def written(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every file that was written, as text; without what the test itself put there."""
    for path in folder.rglob("*"):
        if path.is_file() and path.parent.name != "in" and path.suffix not in (".py", ".pyc", ".yml"):
            content = path.read_bytes()
            text = content.decode("latin-1")
            if content[:4] == b"PAR1":
                text += str(pq.read_table(io.BytesIO(content)).to_pylist())
            yield path, f"{path} {text}"


def test_no_byte_that_leaves_has_a_planted_secret(world: Path) -> None:
    config = "conf/p.yml"
    runs = said("run", config, "--debug", "--log-level", "debug") + said("run", config, "--json")
    assert leaks(runs) == [], runs
    tables = {path.parent.name for path in (world / "lake").rglob("_delta_log")}
    assert tables >= ({"files"} if "answered 400" in runs else {"files", "api", "posted", "units", "bots", "code"})
    assert "prod/bot" in runs
    assert "could not be delivered to webhook 127.0.0.1: answers 400" in runs
    assert '"dead_letters"' in (world / "messages.txt").read_text()
    for command, options in COMMANDS.items():
        for form in FORMS:
            words = (*command.split(), config, *options.split(), *form)
            text = said(*words)
            assert text.strip(), words
            assert leaks(text) == [], (words, text)
    for path, text in written(world):
        assert leaks(text) == [], path


def test_every_command_is_looked_at() -> None:
    every = {
        name.removeprefix("tidegate ") for name, each in walk(cli, "tidegate") if not isinstance(each, click.Group)
    }
    assert every == {*COMMANDS, *ELSEWHERE}


def test_ordinary_words_as_settings_leave_logs_and_results_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "2026-orders.ndjson").write_text(json.dumps({"id": "x" * 4085}))
    day = datetime.now(UTC).date().isoformat()
    options = {"year": "2026", "day": day, "block_size": "4096", "mode": "level", "password": "pipeline"}
    source = {"source_uri": "in", "storage_options": options}
    pipeline = {"source": source, "schema": {"infer": True}, "sink": {"table_uri": "lake"}}
    (tmp_path / "p.yml").write_text(yaml.safe_dump({"pipelines": {"orders": pipeline}}))
    monkeypatch.setattr("tidegate.commands.run.open_engine", lambda *given, **more: nullcontext(InProcessEngine()))
    result = CliRunner().invoke(cli, ["run", "p.yml", "--log-level", "debug", "--log-format", "json"])
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert len(lines) > 5
    assert lines[0]["event"] == "run_started"
    assert {line["run"] for line in lines} == {lines[0]["fields"]["run"]}
    assert all(line["ts"].startswith(day[:4]) and line["pipeline"] == "orders" for line in lines[1:])
    assert "***" not in result.stdout
    (status,) = json.loads(CliRunner().invoke(cli, ["status", "p.yml", "--json"]).stdout)["sources"]
    assert (status["pipeline"], status["updated"][:4]) == ("orders", day[:4])


def test_health_and_metrics_have_no_planted_secret(world: Path) -> None:
    from tidegate.migrate.foreign import FOREIGN
    from tidegate.observe.pages import RecordedPages, health_page, metrics_page

    pages = RecordedPages(lambda: tidegate.status("conf/p.yml"), 0)
    health = health_page(pages.sources()).body.decode()
    metrics = metrics_page(pages.families(), pages.sources(), FOREIGN.metric_names).body.decode()
    assert leaks(health + metrics) == []


def test_what_earlier_versions_left_behind_is_found(world: Path) -> None:
    assert CliRunner().invoke(cli, ["run", "conf/p.yml"]).exit_code != 70
    assert all(each.verdict == "ok" for each in tidegate.search_secrets("conf/p.yml") if each.name.startswith("table"))
    table = world / "lake" / "prod" / "files"
    (table / "_tidegate" / "files").mkdir(parents=True, exist_ok=True)
    (table / "_tidegate" / "files" / "default.attempts.json").write_text(json.dumps({"error": quote(MARKS[12])}))
    (world / "conf" / "old.yml").write_text(f"token: {MARKS[3]}\n")
    (world / "state").mkdir(exist_ok=True)
    (world / "state" / "old.json").write_text(json.dumps({"error": MARKS[5]}))
    (world / "home").mkdir(exist_ok=True)
    (world / "home" / "spark-run.log").write_text(
        f"java.lang.Exception: {base64.b64encode(MARKS[8].encode()).decode()}"
    )
    checks = {each.name: each for each in tidegate.search_secrets("conf/p.yml")}
    assert (checks["table of files"].verdict, checks["table of api"].verdict) == ("fail", "ok")
    assert "_tidegate/files/default.attempts.json" in checks["table of files"].detail
    assert "old.json" in checks["copies of the state"].detail
    assert "old.yml" in checks["configurations"].detail
    assert "spark-run.log" in checks["kept logs"].detail
    result = CliRunner().invoke(cli, ["doctor", "conf/p.yml", "--secrets", "--json"])
    assert (result.exit_code, leaks(result.output)) == (1, [])
