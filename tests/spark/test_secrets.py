"""A canary in options, told by a function in every way: no error, event, log, report, state or commit has it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tidegate.observe.events import Event
from tidegate.observe.logs import JsonLog, TextLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CANARY = "canary-4711/top"
FUNCTIONS = """
import base64, json, urllib.parse
from pyspark.sql import functions as f

class Refused(Exception):
    pass

def forms(options):
    key = options["endpoint"]
    return " ".join([
        key, urllib.parse.quote(key), urllib.parse.quote(key, safe="").lower(),
        base64.b64encode(b"me:" + key.encode()).decode(),
        json.dumps(key).replace("/", chr(92) + "/"), key.encode().hex(), json.loads(options["deep"])["a"][0],
    ])

def raises(session, request):
    raise Refused("near the end " + "x" * 440 + " " + forms(request.options))

def returns(session, request):
    return {"got": forms(request.options)}

def is_lazy(session, request):
    told = forms(request.options)
    def broken(number):
        raise Refused(told)
    return session.range(3).withColumn("at", f.udf(broken, "long")("id"))

def chained(session, request):
    try:
        raises(session, request)
    except Refused as error:
        raise RuntimeError("the service refused " + request.options["endpoint"]) from error
"""
ENCODED = (CANARY, "canary-4711", "canary%2d4711", CANARY.encode().hex(), "deep-canary")
IN_BASE64 = base64.b64encode(b"me:" + CANARY.encode()).decode()[4:-4]


def written(folder: Path) -> str:
    """Everything below the tables, names included."""
    return " ".join(
        f"{path} {path.read_bytes().decode('latin-1')}" for path in (folder / "lake").rglob("*") if path.is_file()
    )


@pytest.mark.parametrize("how", ["raises", "returns", "is_lazy", "chained"])
def test_what_a_function_tells_of_its_options_shows_nowhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    module = f"teller_{how}"
    (tmp_path / f"{module}.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    spark.addArtifacts(str(tmp_path / f"{module}.py"), pyfile=True)
    options = {"endpoint": CANARY, "deep": json.dumps({"a": ["deep-canary"]}), "mode": "x"}
    read: dict[str, Any] = {"type": "python", "function": f"{module}:{how}", "options": options}
    days = {"name": "day", "type": "datetime", "range": {"from": "2026-01-01", "to": "2026-01-03"}}
    config = tmp_path / "p.yml"
    config.write_text(
        json.dumps(
            {
                "pipelines": {
                    "columns": {
                        "source": {**read, "watermark_columns": ["id"]},
                        "sink": {"table_uri": "lake/columns", "load_type": "merge_upsert", "merge_keys": ["id"]},
                    },
                    "units": {
                        "source": {**read, "watermark": [days]},
                        "schema": {"fields": [{"name": "id", "type": "int64"}, {"name": "at", "type": "int64"}]},
                        "sink": {"table_uri": "lake/units"},
                    },
                }
            }
        )
    )
    events: list[Event] = []
    lines: list[str] = []
    text, machine = TextLog(lines.append), JsonLog(lines.append)

    def emit(event: Event) -> None:
        events.append(event)
        text(event)
        machine(event)

    report = tidegate.run(config, emit=emit)
    assert not report.ok
    told = f"{report} {events} {''.join(lines)} {written(tmp_path)}"
    kept = {"raises": "near the end", "returns": "returned", "is_lazy": "Refused", "chained": "the service refused"}
    assert kept[how] in told
    assert "***" in told
    assert not [form for form in (*ENCODED, IN_BASE64) if form in told]
    assert [each.error for each in report.sources if each.pipeline == "columns"] != [None]
    status = f"{tidegate.status(config)}"
    assert not [form for form in (*ENCODED, IN_BASE64) if form in status]
