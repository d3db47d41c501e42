"""Bad input through the command line: one clear message with a remedy, a code that is not 0, nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from deltalake import CommitProperties, DeltaTable, write_deltalake

from servers.s3 import Server
from support.lake import Lake
from tidegate.cli.main import cli


def tidegate(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/1.ndjson")
    return lake


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a quarter of a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder]).returncode:
        pytest.skip("mounting needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def refused(result: Result, code: int, *words: str) -> str:
    told = result.stderr + result.stdout
    assert result.exit_code == code, told
    assert "Traceback" not in told
    for word in words:
        assert word in told, told
    return told


def test_all_problems_of_a_configuration_are_told_at_once(tmp_path: Path) -> None:
    config = tmp_path / "bad.yml"
    config.write_text("pipelines:\n  a:\n    source: {source_uri: x, use_watermrk: true}\n    sink: {table_ur: y}\n")
    told = refused(tidegate("run", config), 2, "use_watermrk", "did you mean 'use_watermark'", "table_ur")
    assert "bad.yml:3" in told


def test_a_configuration_that_is_not_there_is_named(tmp_path: Path) -> None:
    refused(tidegate("run", tmp_path / "no.yml"), 2, "no.yml")


def test_a_source_that_does_not_exist_is_named(lake: Lake) -> None:
    lake.source_settings = {"source_uri": "elsewhere/"}
    refused(tidegate("run", lake.config), 4, "elsewhere", "does not exist", "source_uri")


def test_an_empty_source_is_no_error_and_stays_initial(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    result = tidegate("run", lake.config, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["sources"][0]["state"] == "Initial"
    assert not list(tmp_path.glob("lake/**/_delta_log"))
    (found,) = json.loads(tidegate("status", lake.config, "--json").stdout)["sources"]
    assert (found["last_run"]["outcome"], found["last_run"]["rows"]) == ("succeeded", 0)


def test_a_table_with_other_columns_is_refused_before_anything_is_read(lake: Lake) -> None:
    columns = pa.table({"id": pa.array(["text"]), "other": pa.array([1], pa.int64())})
    write_deltalake(str(lake.root / "lake/events"), columns)
    refused(tidegate("run", lake.config), 5, "'id'", "string", "int64")
    assert DeltaTable(str(lake.root / "lake/events")).version() == 0


def test_a_table_of_another_tool_with_blizzards_traces_is_refused(lake: Lake) -> None:
    table = str(lake.root / "lake/events")
    columns = pa.table({"id": pa.array([1], pa.int64())})
    from deltalake import Transaction

    write_deltalake(
        table, columns, commit_properties=CommitProperties(app_transactions=[Transaction("blizzard:e30=", 1)])
    )
    refused(tidegate("run", lake.config), 5, "blizzard", "table_uri")


def test_a_read_only_place_for_the_table_is_named(lake: Lake, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    lake.sink_settings = {"table_uri": str(small_disk / "events")}
    report = lake.run()
    assert not report.ok
    assert "disk/events" in (report.sources[0].error or "")
    assert "read-only" in (report.sources[0].error or "").lower()


@pytest.mark.parametrize("ballast", [250_000, 258_048], ids=["at-the-commit", "while-writing"])
def test_a_full_disk_is_named_and_loses_nothing(lake: Lake, small_disk: Path, ballast: int) -> None:
    lake.sink_settings = {"table_uri": str(small_disk / "events")}
    lake.settings = {"global": {"commit_deadline_secs": 1}}
    (small_disk / "ballast").write_bytes(b"\0" * ballast)
    report = lake.run()
    assert not report.ok
    assert "no space left" in (report.sources[0].error or "").lower(), report.sources[0].error
    (small_disk / "ballast").unlink()
    assert lake.run().ok


@pytest.mark.s3
def test_a_missing_bucket_is_named(lake: Lake, s3: Server) -> None:
    options = dict(s3.location("any").options)
    lake.source_settings = {"source_uri": "s3://no-such-bucket-here/events/", "storage_options": options}
    told = refused(tidegate("run", lake.config), 4, "no-such-bucket-here")
    assert options["AWS_SECRET_ACCESS_KEY"] not in told


@pytest.mark.s3
def test_missing_permission_is_named_without_the_secret(lake: Lake, s3: Server) -> None:
    location = s3.location("lake")
    options = {**location.options, "AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "wrong-secret-canary"}
    lake.sink_settings = {"table_uri": location.uri, "storage_options": options}
    told = refused(tidegate("run", lake.config), 4, location.uri)
    assert "wrong-secret-canary" not in told


def test_with_fail_file_a_bad_line_is_named_and_its_file_is_read_once_it_is_corrected(lake: Lake) -> None:
    lake.pipeline_settings = {"error_handling": {"on_bad_record": "fail_file"}}
    bad = "date=2026-01-28/2.ndjson"
    lake.write(bad, '{"id": 100, "event": "a"}\nnot json\n')
    lake.arrive("date=2026-01-28/3.ndjson")
    report = lake.run()
    (failed,) = report.sources[0].failed
    assert (failed.path, "line 2" in failed.reason) == (bad, True)
    assert report.sources[0].watermark == "date=2026-01-28/1.ndjson"
    lake.assert_exactly_once()
    lake.write(bad, '{"id": 100, "event": "a"}\n{"id": 101, "event": "b"}\n')
    lake.expected += [100, 101]
    report = lake.run()
    assert (report.ok, report.sources[0].watermark) == (True, "date=2026-01-28/3.ndjson")
    lake.assert_exactly_once()


def test_a_file_that_stays_bad_waits_and_is_reported_until_it_becomes_a_letter(lake: Lake) -> None:
    lake.source_settings = {"max_attempts": 2}
    lake.write("date=2026-01-28/2.ndjson.gz", "")
    (lake.root / "data" / "date=2026-01-28" / "2.ndjson.gz").write_bytes(b"no gzip")
    assert [each.attempts for each in lake.run().sources[0].failed] == [1]
    result = tidegate("status", lake.config, "--json")
    status = json.loads(result.stdout)["sources"][0]
    assert [each["path"] for each in status["failed"]] == ["date=2026-01-28/2.ndjson.gz"]
    assert lake.run().sources[0].failed == ()
    listed = json.loads(tidegate("dlq", "list", lake.config, "-p", "events", "--json").stdout)
    assert [each["file"] for each in listed["letters"]] == ["date=2026-01-28/2.ndjson.gz"]
