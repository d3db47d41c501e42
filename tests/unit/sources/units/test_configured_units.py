"""From a configuration to rows: what YAML says is what is asked, listed and written."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

from servers.api import Api
from servers.surveys import keep_files, keep_surveys
from support.unit_waves import failure, rows
from tidegate.config import load
from tidegate.core.units.planner import plan_units
from tidegate.sources.units.inputs import read_units
from tidegate.sources.units.work import UnitFailure, UnitWave, UnitWork, UnitWritten
from tidegate.specs.locations import Location
from tidegate.tasks.unit_share import carry_out_here

NOW = datetime(2026, 2, 4, 0, 0, tzinfo=UTC)

CONFIG = """
connections:
  server: {{type: http, url: "{url}", auth: {{type: bearer, token: canary-of-all}}, retries: {{attempts: 0}}}}
pipelines:
  made:
    source:
{source}
      watermark:
        - {{name: system, type: datetime, range: {{from: "2026-02-01", to: "-"}}}}
        - {{name: id, type: unit{units}}}
      work_unit: {{partition: daily}}
    schema: {{fields: [{{name: id, type: int64}}]}}
    sink: {{table_uri: table}}
"""


def done(
    api: Api, folder: Path, source: str, units: str = ', units: ["a b", c]'
) -> list[tuple[UnitWork, UnitWritten | UnitFailure | None]]:
    """The first run of a configuration, in this process."""
    indented = "\n".join(f"      {line}" for line in source.strip().splitlines())
    path = folder / "made.yml"
    path.write_text(CONFIG.format(url=api.url, source=indented, units=units))
    (pipeline,) = load(path, env={}).pipelines
    (of,) = pipeline.sources
    found = read_units(of)
    works = tuple(
        UnitWork(
            each.unit,
            each.start,
            each.segments,
            found.variables.get(each.unit, {}),
            {**found.shared, **found.secrets.get(each.unit, {})},
        )
        for each in plan_units("made", of, None, found, 0, NOW).works()
    )
    scratch = Location((folder / "scratch").as_uri())
    results = carry_out_here(UnitWave(pipeline, of, works, scratch, NOW)).results
    return list(zip(works, results, strict=True))


def test_an_api_with_parameters_of_the_range(api: Api, tmp_path: Path) -> None:
    records = [{"id": day, "at": f"2026-02-0{day}T12:00:00+00:00"} for day in (1, 2, 3)]
    keep_surveys(api, {"a b": records, "c": records[:1]})
    source = """
connection: server
path: "/surveys/{{id}}/responses"
records: data
params:
  since: {watermark: system, bound: low}
  until: {watermark: system, bound: high}
  day: {watermark: system, format: date}
  fixed: "{{ day }} of {{id}}"
"""
    found = [
        (work.unit, [row["id"] for row in rows(tmp_path, result, work)]) for work, result in done(api, tmp_path, source)
    ]
    assert found == [("a b", [1]), ("c", [1]), ("a b", [2]), ("c", []), ("a b", [3]), ("c", [])]
    first = min(api.asked, key=lambda asked: asked.params["since"] + asked.params["fixed"])
    bounds = {"since": "2026-02-01T00:00:00+00:00", "until": "2026-02-02T00:00:00+00:00"}
    assert first.params == {**bounds, "fixed": "2026-02-01 of a b"}
    assert first.headers["authorization"] == "Bearer canary-of-all"


def test_files_of_a_server(api: Api, tmp_path: Path) -> None:
    content = {f"/daily/a%20b-2026020{day}.csv.gz": gzip.compress(b"id\n%d\n" % day) for day in (1, 3)}
    keep_files(api, content)
    source = """
type: download
connection: server
path: "daily/{{id}}-{{day}}.csv.gz"
format: csv
params: {day: {watermark: system, format: "%Y%m%d"}}
"""
    results = done(api, tmp_path, source, ', units: ["a b"]')
    assert [row["id"] for work, result in results[::2] for row in rows(tmp_path, result, work)] == [1, 3]
    assert failure(results[1][1]).not_found


def test_files_of_a_folder_with_wildcards(api: Api, tmp_path: Path) -> None:
    for day, unit in ((1, "a b"), (2, "a b"), (2, "c")):
        place = tmp_path / "new files" / f"2026-02-0{day}" / unit
        place.mkdir(parents=True)
        for part in ("d1-x", "d2-y", "e1-z"):
            (place / f"{part}.json").write_text(json.dumps([{"id": day * 10 + int(part[1])}]))
    source = """
type: download
source_uri: "new files/{{day}}/{{id}}/d?-*.json"
format: json
params: {day: {watermark: system, format: date}}
"""
    results = done(api, tmp_path, source)
    written = [(result, work) for work, result in results if isinstance(result, UnitWritten)]
    assert [sorted(row["id"] for row in rows(tmp_path, *each)) for each in written] == [
        [11, 12],
        [21, 22],
        [21, 22],
    ]
    assert sum(isinstance(result, UnitFailure) and result.not_found for _, result in results) == 3


def test_secrets_of_an_input_reach_the_server_and_no_message(api: Api, tmp_path: Path) -> None:
    (tmp_path / "ids.json").write_text('{"id": "x", "key": "canary-1"}\n{"id": "y", "key": "canary-2"}\n')
    keep_surveys(api, {"x": [{"id": 1}]})
    source = """
connection: server
path: "/surveys/{{id}}/responses"
records: data
headers: {X-Key: "{{key}}"}
params: {u: "{{key}}", since: {watermark: system}}
secondary_input: [{path: ids.json, format: json, fields: [id], auth_fields: [key]}]
"""
    results = done(api, tmp_path, source, "")
    assert {(each.path[9], each.headers["x-key"], each.params["u"]) for each in api.asked} == {
        ("x", "canary-1", "canary-1"),
        ("y", "canary-2", "canary-2"),
    }
    assert [isinstance(result, UnitWritten) for _, result in results] == [True, False] * 3
    assert "canary" not in repr(results)
