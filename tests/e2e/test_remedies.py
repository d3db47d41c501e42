"""Whatever a refusal advises can be done: each command that its remedy names is given, and does not refuse."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from support.commands import child
from support.lake import FIELDS, Lake
from support.unit_lake import survey_lake
from tidegate import load
from tidegate.cli.invocation import Invocation
from tidegate.cli.main import cli
from tidegate.failpoints import arm
from tidegate.protocol.delta import query
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri

FILLED = {"PATTERN": "**/*", "PATH": "h=11/0.ndjson", "CONFIG": ""}
NEEDED = {
    "replay": "--files **/*",
    "units reset": "--all",
    "units retry": "--failed",
    "table widen": "--column id --type int64",
    "watermark set": "--to h=11/0.ndjson",
}
"""What a command needs that its remedy leaves to the reader."""

NAMED = re.compile(r"`tidegate ([^`]+)`")


def give(config: Path, arguments: str) -> tuple[int, str]:
    """The exit code of a command and what it says; it asks nobody."""
    words = shlex.split(arguments)
    depth = 2 if words[0] in ("watermark", "units", "schema", "dlq", "table") else 1
    command = cli
    for word in words[:depth]:
        command = child(command, word)  # type: ignore[arg-type,assignment]  # groups down to the command
    options = {option for parameter in command.params for option in parameter.opts}
    more = [] if {"--yes", "--dry-run"} & set(words) or "--yes" not in options else ["--yes"]
    of = ["-p", next(iter(load(config).pipelines)).name] if "-p" in options and "-p" not in words else []
    every = [*words[:depth], str(config), *of, *words[depth:], *more]
    result = CliRunner().invoke(cli, every, prog_name="tidegate", obj=Invocation())
    return result.exit_code, result.output


def follow(config: Path, refused: str) -> list[str]:
    """Give a command that is refused, then each that its remedy names; returns these."""
    code, said = give(config, refused)
    assert code, f"{refused} was not refused: {said}"
    return follow_advice(config, said)


def follow_advice(config: Path, said: str) -> list[str]:
    advised = list(dict.fromkeys(match[1] for match in NAMED.finditer(" ".join(said.split()))))
    for command in advised:
        for name, value in FILLED.items():
            command = command.replace(name, value)
        bare = command.partition(" --")[0].strip()
        needed = NEEDED.get(bare, "") if "--" not in command else ""
        code, answer = give(config, f"{command} {needed}")
        assert code == 0, f"{said}\n$ tidegate {command} {needed}\n{answer}"
    return advised


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Hours 11 and 12 of two files of ten rows each; an hour is a commit."""
    lake = Lake(tmp_path, settings={"engine": "local"})
    for hour in (11, 12):
        for number in range(2):
            lake.arrive(f"h={hour}/{number}.ndjson")
        assert lake.run().ok
    return lake


@pytest.fixture
def path_set(lake: Lake, tmp_path: Path) -> Lake:
    """The same, tracked by the set of its paths."""
    lake = Lake(tmp_path / "set", source_settings={"use_watermark": False}, settings={"engine": "local"})
    lake.arrive("h=11/0.ndjson")
    lake.arrive("h=11/1.ndjson")
    assert lake.run().ok
    return lake


def test_a_watermark_for_a_set_of_paths(path_set: Lake) -> None:
    advised = follow(path_set.config, "watermark set --to h=11/0.ndjson")
    assert advised == ["replay --files PATTERN", "watermark reset --all"]
    assert path_set.run().ok
    assert len(path_set.ids()) == 40
    assert follow(path_set.config, "watermark reset --partition h=11")[0] == "replay --partition 'h=11'"
    assert len(path_set.ids()) == 20


def test_a_watermark_that_goes_down_or_up(lake: Lake) -> None:
    _, said = give(lake.config, "watermark set --to h=11/0.ndjson --dry-run")
    assert follow_advice(lake.config, said) == ["replay"]
    _, said = give(lake.config, "watermark set --to h=13/0.ndjson --dry-run")
    lake.arrive("h=13/0.ndjson")
    _, said = give(lake.config, "watermark set --to h=13/0.ndjson")
    assert follow_advice(lake.config, said) == ["replay"]
    lake.assert_exactly_once()


def test_a_watermark_before_the_first_run(tmp_path: Path) -> None:
    lake = Lake(tmp_path, settings={"engine": "local"})
    lake.arrive("h=11/0.ndjson")
    assert follow(lake.config, "watermark reset --all") == ["watermark set --to PATH"]
    sets = Lake(tmp_path / "set", source_settings={"use_watermark": False}, settings={"engine": "local"})
    sets.arrive("h=11/0.ndjson")
    assert follow(sets.config, "watermark reset --all") == []


def test_a_partition_that_is_unknown(lake: Lake) -> None:
    assert follow(lake.config, "watermark reset --partition h=10") == ["watermark show"]


def test_a_partition_that_is_sealed(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"lateness": "2 periods"}, settings={"engine": "local"})
    for day in range(10, 20):
        lake.arrive(f"date=2026-01-{day}/1.ndjson")
        assert lake.run().ok
    advised = follow(lake.config, "watermark reset --partition date=2026-01-11")
    assert advised == ["replay --partition 'date=2026-01-11'"]
    lake.assert_exactly_once()


def test_files_that_share_data_files(lake: Lake) -> None:
    code, said = give(lake.config, "replay --files h=11/0.ndjson")
    assert (code, "--widen" in said) == (1, True)
    assert give(lake.config, "replay --files h=11/0.ndjson --widen")[0] == 0
    (lake.root / "data/h=11/1.ndjson").unlink()
    code, said = give(lake.config, "replay --files h=11/0.ndjson")
    assert (code, "--widen --drop-missing" in said) == (1, True)
    assert give(lake.config, "replay --files h=11/0.ndjson --widen --drop-missing")[0] == 0


def test_a_table_that_was_restored(lake: Lake) -> None:
    DeltaTable(str(lake.root / "lake/events")).restore(0)
    assert follow(lake.config, "run") == ["recover --accept restore"]
    assert lake.run().ok


def test_a_set_that_lost_a_segment(path_set: Lake) -> None:
    for segment in (path_set.root / "lake/events/_tidegate/events_default_set").glob("*.parquet"):
        segment.unlink()
    assert follow(path_set.config, "run") == ["recover --accept set"]
    assert give(path_set.config, "run")[0] == 0
    path_set.assert_exactly_once()


def test_staged_units_beside_a_run(lake: Lake) -> None:
    lake.pipeline_settings = {"delivery": "staged"}
    lake.arrive("h=13/0.ndjson")
    assert lake.run().ok
    lake.pipeline_settings = {}
    assert follow(lake.config, "replay --files h=11/*") == ["commit CONFIG --once"]
    assert give(lake.config, "replay --files h=11/*")[0] == 0
    lake.assert_exactly_once()


def test_a_remembered_schema_that_is_damaged(tmp_path: Path) -> None:
    lake = Lake(tmp_path, settings={"engine": "local"}, schema={"infer": True})
    lake.arrive("h=11/0.ndjson")
    assert lake.run().ok
    (lake.root / "lake/events/_tidegate/events/schema.json").write_text("{")
    lake.arrive("h=11/1.ndjson")
    assert follow(lake.config, "run") == ["schema infer --update"]
    assert give(lake.config, "run")[0] == 0
    lake.assert_exactly_once()


@pytest.mark.parametrize("use_watermark", [True, False], ids=["watermark", "set"])
def test_columns_that_replace_a_table(tmp_path: Path, use_watermark: bool) -> None:
    lake = Lake(tmp_path, source_settings={"use_watermark": use_watermark}, settings={"engine": "local"})
    lake.pipeline_settings = {"schema_evolution": "overwrite"}
    lake.arrive("h=11/0.ndjson")
    assert lake.run().ok
    lake.schema = {"fields": [{"name": "id", "type": "string"}, *FIELDS[1:]]}
    lake.write("h=11/1.ndjson", json.dumps({"id": "a"}) + "\n")
    _, said = give(lake.config, "schema replace --dry-run")
    assert follow(lake.config, "run") == ["schema replace"]
    assert follow_advice(lake.config, said) == ["watermark reset --all"]
    assert lake.run().ok


def test_a_column_that_is_too_narrow(tmp_path: Path) -> None:
    lake = Lake(tmp_path, settings={"engine": "local"})
    lake.schema = {"fields": [{"name": "id", "type": "int32", "nullable": False}, *FIELDS[1:]]}
    lake.arrive("h=11/0.ndjson")
    assert lake.run().ok
    lake.schema = {"fields": FIELDS}
    lake.arrive("h=11/1.ndjson")
    assert follow(lake.config, "run") == ["table widen"]
    assert give(lake.config, "run")[0] == 0
    lake.assert_exactly_once()


@pytest.mark.parametrize("use_watermark", [True, False], ids=["watermark", "set"])
def test_letters_of_a_file_that_changed(tmp_path: Path, use_watermark: bool) -> None:
    lake = Lake(tmp_path, source_settings={"use_watermark": use_watermark}, settings={"engine": "local"})
    lake.write("h=11/0.ndjson", '{"id": 1}\n{"id": "x"}\n')
    assert lake.run().ok
    lake.write("h=11/0.ndjson", '{"id": 1}\n{"id": 2}\n')
    assert give(lake.config, "reconcile")[0] == 1
    assert give(lake.config, "replay --files h=11/0.ndjson")[0] == 0
    assert lake.ids() == [1, 2]
    assert give(lake.config, "reconcile")[0] == 0


def test_letters_that_were_lost_before_they_were_visible(lake: Lake) -> None:
    lake.write("h=13/0.ndjson", '{"id": "x"}\n')
    arm("state.debt.before=raise")
    try:
        lake.run()
    finally:
        arm("")
    for letter in (lake.root / "lake/events_dead_letters").glob("*.parquet"):
        letter.unlink()
    assert follow(lake.config, "run") == []


def test_a_state_that_is_damaged(lake: Lake) -> None:
    folder = lake.root / "lake/events/_tidegate/events/default"
    for document in folder.glob("*.json"):
        document.write_text("{}")
    for entry in (lake.root / "lake/events/_delta_log").glob("*.json"):
        text = entry.read_text().replace("partition_watermarks", "elsewhere")
        entry.write_text(text)
    _, said = give(lake.config, "run")
    assert "`tidegate recover`" in said
    _, said = give(lake.config, "recover")
    assert "`--accept mirror`" in said
    assert give(lake.config, "recover --accept mirror")[0] == 0
    assert give(lake.config, "run")[0] == 0
    lake.assert_exactly_once()


def test_work_units_have_commands_of_their_own(tmp_path: Path) -> None:
    with survey_lake(tmp_path) as surveys:
        surveys.arrive("a", "01-05")
        assert surveys.run("02-10").ok
        of = "-p responses"
        assert follow(surveys.config, f"units reset --unit zzz {of}") == ["units list"]
        assert follow(surveys.config, f"watermark reset --all {of}") == ["units reset", "units retry"]
        assert follow(surveys.config, f"replay --files x {of}") == ["units reset"]


@pytest.mark.parametrize("drafted", ["ingest", "init"])
def test_what_is_drafted_can_be_taken_back(drafted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "pipelines.yml"
    landing = tmp_path / "landing"
    if drafted == "init":
        assert CliRunner().invoke(cli, ["init", "."], prog_name="tidegate", obj=Invocation()).exit_code == 0
        config.write_text(f"engine: local\n{config.read_text()}")
    landing.mkdir(exist_ok=True)
    for name, number in (("a", 3), ("b", 4)):
        (landing / f"{name}.csv").write_text(f"id,ordered_at,amount\n{number},2026-01-28T14:00:00Z,1.5\n")
    words = ["ingest", "landing", "lake/orders", "--engine", "local", "--save", str(config)]
    first = words if drafted == "ingest" else ["run", str(config)]
    assert CliRunner().invoke(cli, first, prog_name="tidegate", obj=Invocation()).exit_code == 0
    (landing / "b.csv").write_text("id,ordered_at,amount\n40,2026-01-28T14:00:00Z,1.5\n")
    assert give(config, "replay --files b.csv")[0] == 0
    rows = query(Location(absolute_uri("lake/orders", tmp_path)), "select id, _source_file as f from t where id > 2")
    found = {row["id"]: str(row["f"]).rpartition("/")[2] for row in rows}
    assert found == {3: "a.csv", 40: "b.csv"}
    assert give(config, "watermark reset --all")[0] == 0
    assert give(config, "run")[0] == 0
    assert give(config, "replay --files **")[0] == 0
    ids = [row["id"] for row in query(Location(absolute_uri("lake/orders", tmp_path)), "select id from t")]
    assert len(ids) == len(set(ids))
