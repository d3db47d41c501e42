"""``tidegate config``: files are checked, shown and imported, with the code that fits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tidegate import load
from tidegate.cli.main import cli
from tidegate.errors import ConfigError
from unit.cli.standin import StandIn, document, invoke

PULL = """\
job.name=answers
ms.source.uri=https://h/answers
ms.authentication={"method": "bearer", "token": "hunter2"}
ms.watermark=[{"name": "id", "type": "unit", "units": "a"}]
job.group=surveys
"""


def test_problems_of_a_configuration_stand_on_a_line_each() -> None:
    error = ConfigError(("t.yml: a: unknown key", "t.yml: b: not a number"))
    result = invoke("config", "check", "t.yml", api=StandIn(raises=error))
    assert result.stderr.splitlines() == [
        "error: 2 problems in the configuration",
        "  t.yml: a: unknown key",
        "  t.yml: b: not a number",
    ]
    assert result.exit_code == 2


def test_one_problem_of_a_configuration_is_one_line() -> None:
    result = invoke("config", "check", "t.yml", api=StandIn(raises=ConfigError(("t.yml: a: unknown key",))))
    assert result.stderr == "error: t.yml: a: unknown key\n"


def test_a_checked_configuration_names_sources_tables_and_notices() -> None:
    shown = invoke("config", "check", "t.yml").stdout
    assert "pipelines.yml is correct: 1 pipeline, 2 sources" in shown
    assert "notice: global.connection_pooling has no effect here" in shown


def test_a_checked_configuration_is_json_when_asked() -> None:
    found = document(invoke("config", "check", "t.yml", "--json"))
    assert set(found) == {"ok", "config", "pipelines", "notices"}
    assert found["pipelines"][0]["sources"][1] == {"name": "europe", "source_uri": "file:///data/europe"}


def test_the_canonical_form_is_yaml_with_defaults_and_is_printed_alone() -> None:
    result = invoke("config", "show", "t.yml")
    assert "source_uri: file:///data/asia" in result.stdout
    assert "late_window: 1000" in result.stdout
    assert (result.exit_code, result.stderr) == (0, "")


def test_the_canonical_form_is_json_when_asked() -> None:
    found = document(invoke("config", "show", "t.yml", "--json"))
    assert found == yaml.safe_load(invoke("config", "show", "t.yml").stdout)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_the_schema_of_configurations_is_json(more: tuple[str, ...]) -> None:
    assert "pipelines" in document(invoke("config", "schema", *more))["properties"]


def imported(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["config", "import", *arguments], prog_name="tidegate")


@pytest.fixture
def pull(tmp_path: Path) -> Path:
    file = tmp_path / "answers.pull"
    file.write_text(PULL, encoding="utf-8")
    return file


def test_the_configuration_is_printed_and_the_rest_is_told_aside(pull: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = imported(str(pull))
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        f"{pull}:5: not needed: job.group: a pipeline has a name and no group",
        "set before use: ANSWERS_TOKEN",
        "4 converted, 0 not converted, 1 not needed",
    ]
    assert "hunter2" not in result.output
    monkeypatch.setenv("ANSWERS_TOKEN", "x")
    assert load(result.stdout).pipelines[0].name == "answers"


def test_a_new_file_is_written_and_one_that_is_there_stays(pull: Path) -> None:
    out = pull.with_suffix(".yml")
    assert imported(str(pull), "--out", str(out)).stdout == ""
    assert out.read_text(encoding="utf-8").startswith("# Made from answers.pull\nconnections:\n")
    out.write_text("mine", encoding="utf-8")
    result = imported(str(pull), "--out", str(out))
    assert result.exit_code == 2
    assert "already exists; give another file" in result.stderr
    assert out.read_text(encoding="utf-8") == "mine"


def test_strict_ends_with_1_where_something_is_left(pull: Path) -> None:
    assert imported(str(pull), "--strict").exit_code == 0
    pull.write_text(PULL + "ms.ssl={}\n", encoding="utf-8")
    assert imported(str(pull)).exit_code == 0
    result = imported(str(pull), "--strict")
    assert result.exit_code == 1
    assert f"{pull}:6: not converted: ms.ssl: client certificates are not supported" in result.stderr


def test_json_has_both(pull: Path) -> None:
    found = json.loads(imported(str(pull), "--json").stdout)
    assert found["variables"] == ["ANSWERS_TOKEN"]
    assert found["left"] == []
    assert [note["name"] for note in found["not_needed"]] == ["job.group"]
    assert found["yaml"].startswith("# Made from answers.pull\n")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = imported(str(tmp_path / "nothing.pull"))
    assert result.exit_code == 2
    assert "nothing.pull: cannot be read" in result.stderr
