"""The program as a process: exit codes, signals, closed pipes, terminals, and how fast it starts."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tidegate

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[2]
SRC = Path(tidegate.__file__).parents[1]

PROGRAM = """
import sys, time
from unit.cli import standin
import tidegate
from tidegate.cli.main import cli
from tidegate.errors import StateError

def status(config, pipeline=None):
    if config.name == "wait.yml":
        print("waiting", file=sys.stderr, flush=True)
        time.sleep(60)
    if config.name == "bad.yml":
        raise StateError("position forgotten", "ask doctor")
    if config.name == "odd.yml":
        raise EOFError("odd")
    return standin.STATUS * (5000 if config.name == "long.yml" else 1)

with standin.StandIn().installed():
    tidegate.status = status
    cli.main(prog_name="tidegate")
"""


def environment(**extra: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("TIDEGATE_LOG", "NO_COLOR")}
    return kept | {"PYTHONPATH": f"{TESTS}{os.pathsep}{SRC}", "TERM": "xterm-256color"} | extra


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, *arguments]


def finished(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), env=environment(**extra), capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("status", "t.yml"), 0),
        (("status", "bad.yml"), 5),
        (("status", "odd.yml"), 70),
        (("status",), 2),
        (("--version",), 0),
        (("status", "--help"), 0),
    ],
)
def test_the_process_ends_with_the_documented_code(arguments: tuple[str, ...], code: int) -> None:
    assert finished(*arguments).returncode == code


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["config", "check", "t.yml"], 0), (["config", "check", "bad.yml"], 2), (["status", "none.yml"], 2)],
)
def test_the_real_program_ends_with_its_code(tmp_path: Path, arguments: list[str], code: int) -> None:
    project_in(tmp_path)
    (tmp_path / "bad.yml").write_text("pipelins: {}\nspark: 3\n")
    result = subprocess.run(
        [sys.executable, "-m", "tidegate", *arguments],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == code
    assert bool(code) == result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr


HEEDING = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
"""Runs a command that heeds interrupts, also where this process was started in the background, deaf to them."""


def test_ctrl_c_ends_with_130_and_without_a_traceback() -> None:
    heeding = [sys.executable, "-c", HEEDING, *command("status", "wait.yml")]
    process = subprocess.Popen(heeding, env=environment(), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors.split()) == (130, ["error:", "interrupted"])


def test_a_reader_that_goes_away_makes_no_noise() -> None:
    process = subprocess.Popen(
        command("status", "long.yml"),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stream:
        errors = stream.read()
    assert (process.wait(30), errors) == (1, "")


def test_a_terminal_that_cannot_show_a_character_is_no_error() -> None:
    result = finished("watermark", "show", "t.yml", "-p", "e", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (result.returncode, result.stderr) == (0, "")
    assert "\\u2026 and 8 more partitions" in result.stdout


def on_terminal(*arguments: str, **extra: str) -> str:
    """What the program writes to a terminal of 80 columns."""
    return shown_by(command(*arguments), 0, env=environment(COLUMNS="80", **extra))


def shown_by(arguments: list[str], code: int, **settings: Any) -> str:
    """What a process that ends with this code writes, output and errors, to one terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(arguments, stdout=slave, stderr=slave, stdin=subprocess.DEVNULL, **settings)
    os.close(slave)
    pieces = []
    try:
        while piece := os.read(master, 65_536):
            pieces.append(piece)
    except OSError:
        pass  # the other end of a terminal that closed
    os.close(master)
    assert process.wait(60) == code
    return b"".join(pieces).decode()


def test_a_terminal_gets_colours_and_lines_that_fit() -> None:
    shown = on_terminal("status", "t.yml")
    assert "\x1b[32mActive" in shown


@pytest.mark.parametrize("how", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_switched_off_by_the_environment(how: dict[str, str]) -> None:
    assert "\x1b[" not in on_terminal("status", "t.yml", **how)


def test_colours_can_be_switched_off_by_an_option() -> None:
    shown = on_terminal("status", "t.yml", "--no-color")
    assert "\x1b[" not in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


@pytest.mark.parametrize(
    ("more", "titles", "without"), [((), "read rows bad", "commit, "), (("--ranges",), "commit from to rows bad", "")]
)
def test_files_fit_a_terminal_of_80_columns(more: tuple[str, ...], titles: str, without: str) -> None:
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", on_terminal("files", "t.yml", "-p", "events", *more))
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.split("\n")[0].split() == ["file", "committed", *titles.split()]
    assert re.search(r"^  europe: b.ndjson +2026-01-28 14:30:05Z .* 3,990 +10\s*$", shown, re.MULTILINE)
    assert f"no room for: {without}table version, action, records; shortened: file (--wide" in shown


def test_progress_of_a_run_leaves_only_the_result_on_the_terminal() -> None:
    shown = on_terminal("run", "t.yml")
    assert "events/asia" in shown
    assert shown.rstrip().endswith("skipped: duplicate")


def test_bars_are_taken_away_before_a_result_is_printed() -> None:
    before, _, after = on_terminal("demo").partition("1. Data")
    assert "starting Spark" in before
    assert before.rpartition("starting Spark")[2].count("\x1b[2K") >= 1
    assert "2. The table" in after


def test_commands_that_look_load_neither_spark_nor_arrow_nor_the_terminal_library() -> None:
    heavy = "'pyspark', 'pyarrow', 'deltalake', 'sqlalchemy', 'pandas', 'numpy', 'rich', 'pydantic', 'yaml'"
    program = PROGRAM.replace("StandIn()", "StandIn(unchecked=True)")
    code = program.replace("cli.main(", "try: cli.main(").rstrip() + (
        f"\n    except SystemExit: pass\nprint([name for name in ({heavy}) if name in sys.modules], file=sys.stderr)"
    )
    for arguments in (["status", "t.yml"], ["plan", "t.yml"], ["watermark", "show", "t.yml", "-p", "e"]):
        result = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stderr == "[]\n"


def project_in(folder: Path) -> None:
    """A configuration ``t.yml`` of one source with two files, never run."""
    (folder / "data" / "date=2026-01-28").mkdir(parents=True)
    for name in ("1.ndjson", "2.ndjson"):
        (folder / "data" / "date=2026-01-28" / name).write_text('{"id": 1}\n')
    source = "{source_uri: data/, use_watermark: true}"
    pipeline = f"{{source: {source}, schema: {{infer: true}}, sink: {{table_uri: lake/t}}}}"
    (folder / "t.yml").write_text(f"pipelines: {{events: {pipeline}}}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["status", "t.yml"],
        ["plan", "t.yml"],
        ["watermark", "show", "t.yml", "-p", "events"],
        ["config", "show", "t.yml"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_that_look_load_little_on_a_real_project(tmp_path: Path, arguments: list[str]) -> None:
    """What a command imports is most of its time; ``benchmarks/commands.py`` measures that."""
    project_in(tmp_path)
    code = (
        "import sys\nfrom tidegate.cli.main import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(ast.literal_eval(result.stderr.splitlines()[-1]))
    assert not loaded & {"pyspark", "pyarrow", "pandas", "numpy", "duckdb", "sqlalchemy", "httpx2", "prometheus_client"}


def test_the_status_of_a_real_source_is_told_before_its_first_run(tmp_path: Path) -> None:
    project_in(tmp_path)
    output = subprocess.run(
        [sys.executable, "-m", "tidegate", "status", "t.yml", "--json"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=True,
    ).stdout
    (source,) = json.loads(output)["sources"]
    shown = (source["state"], source["version"], source["backlog_files"], source["backlog_bytes"])
    assert shown == ("Initial", 0, 2, 20)
    assert not (tmp_path / "lake").exists()


FAILING = """\
source: {path: nowhere, use_watermark: true}
schema: {fields: [{name: id, type: int64}]}
sink: {path: lake}
"""
MESSAGE = "nowhere does not exist"


def failing(folder: Path, *more: str) -> tuple[list[str], dict[str, Any]]:
    """A run whose source is not there, and how to start it."""
    (folder / "t.yml").write_text(FAILING)
    return [sys.executable, "-m", "tidegate", "run", "t.yml", *more], {"cwd": folder, "env": environment(COLUMNS="200")}


def test_on_a_terminal_an_error_is_told_once_and_the_bar_says_that_it_failed(tmp_path: Path) -> None:
    arguments, settings = failing(tmp_path)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown_by(arguments, 4, **settings))
    assert shown.count(MESSAGE) == 1
    assert re.search(r"t/default ━+ failed", shown)


def test_somebody_who_asks_for_the_log_has_it_there_too(tmp_path: Path) -> None:
    arguments, settings = failing(tmp_path, "--log-level", "warning")
    assert shown_by(arguments, 4, **settings).count(MESSAGE) == 2


def test_where_log_and_result_go_to_different_places_both_tell(tmp_path: Path) -> None:
    arguments, settings = failing(tmp_path)
    done = subprocess.run(arguments, **settings, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.count(MESSAGE), done.stderr.count(MESSAGE)) == (1, 1)
    assert "t/default: failed: 0 files" in done.stderr


STARTING = """
import sys
from pathlib import Path
from tidegate.cli.invocation import Invocation
from tidegate.observe.events import SessionStarting
from tidegate.spark.session import _stderr_to

with Invocation().emitter() as emit, _stderr_to(Path(sys.argv[1])):
    emit(SessionStarting("", "", "local[*]"))
    print("from Java", file=sys.stderr, flush=True)
"""


def test_progress_goes_on_while_standard_error_leads_into_the_log_of_spark(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    done = subprocess.run([sys.executable, "-c", STARTING, str(log)], env=environment(), capture_output=True, text=True)
    assert (done.stderr, log.read_text()) == ("starting Spark (local[*])\n", "from Java\n")
