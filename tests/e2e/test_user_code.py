"""User code that fails, in whatever way, is an error of its own source: others run, and no secret is shown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow as pa
import pytest

from support.lake import Lake
from tidegate import ProjectSpec, load
from tidegate.observe.events import Event
from tidegate.protocol.delta import query
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop, stops_on_signals

PASSWORD = "swordfish-20261118"
SOURCE, ENVIRONMENT, STATE = 4, 3, 5


def numbers(session: object, request: Any) -> pa.Table:
    """A source that works."""
    return pa.table({"id": pa.array([1, 2], pa.int64())})


class _Own(BaseException):
    """No error that ``except Exception`` would see."""


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class _WithoutArguments(Exception):
    @property  # type: ignore[override]
    def args(self) -> tuple[object, ...]:  # type: ignore[override]
        raise RuntimeError("no arguments")


class _ExitingText(Exception):
    def __str__(self) -> str:
        sys.exit(7)


class _Shy:
    """What is no table and cannot be shown either."""

    def __repr__(self) -> str:
        raise SystemExit(PASSWORD)

    def __getattr__(self, name: str) -> object:
        raise SystemExit(PASSWORD)


def failing(session: object, request: Any) -> object:
    """A source that fails in the way that its options name, and says its password if it can."""
    password = request.options["password"]
    match request.options["how"]:
        case "exit":
            sys.exit(f"cannot log in with {password}")
        case "exit, far along":
            sys.exit("x" * 190 + f" {password}")
        case "interrupt":
            raise KeyboardInterrupt(password)
        case "generator":
            raise GeneratorExit(password)
        case "own":
            raise _Own(password)
        case "unprintable":
            raise _Unprintable(password)
        case "without arguments":
            raise _WithoutArguments(password)
        case "exits while it is printed":
            raise _ExitingText(password)
        case "a chain":
            try:
                raise _Unprintable(password)
            except _Unprintable as error:
                raise ValueError("sorry") from error
        case "recursion":
            return failing(session, request)
        case "result":
            return _Shy()
        case other:
            raise AssertionError(other)


WAYS = (
    "exit",
    "exit, far along",
    "interrupt",
    "generator",
    "own",
    "unprintable",
    "without arguments",
    "exits while it is printed",
    "a chain",
    "recursion",
    "result",
)


def project(root: Path, **sources: dict[str, Any]) -> ProjectSpec:
    """A pipeline for each source, and one that works after them."""
    sources["works"] = {"function": f"{__name__}:numbers"}
    pipelines = {
        name: {
            "source": {"type": "python", "watermark_columns": ["id"], **source},
            "sink": {"table_uri": f"lake/{name}"},
        }
        for name, source in sources.items()
    }
    (root / "p.yml").write_text(json.dumps({"pipelines": pipelines}))
    return load(root / "p.yml")


def errors_of(made: ProjectSpec) -> tuple[dict[str, int], str]:
    """The exit code of each source of a run, and everything that it told."""
    seen: list[Event] = []
    with stops_on_signals(threading.Event()):
        report = Loop(made, InProcessEngine(), 1, seen.append).once(made.pipelines)
    assert not report.ok
    assert report.sources[-1].rows == 2
    assert [row["id"] for row in query(made.pipelines[-1].sink.table, "select id from t order by id")] == [1, 2]
    return {each.pipeline: each.exit_code for each in report.sources}, repr(report.sources)


@pytest.mark.parametrize("how", WAYS)
def test_a_function_that_fails_in_any_way_fails_its_source(tmp_path: Path, how: str) -> None:
    options = {"password": PASSWORD, "how": how}
    made = project(tmp_path, bad={"function": f"{__name__}:failing", "options": options})
    codes, told = errors_of(made)
    assert codes == {"bad": SOURCE, "works": 0}
    assert "failing" in told
    assert PASSWORD not in told
    assert "swordfish" not in told


def test_what_ends_a_process_keeps_its_name_and_its_words(tmp_path: Path) -> None:
    options = {"password": PASSWORD, "how": "exit"}
    _, told = errors_of(project(tmp_path, bad={"function": f"{__name__}:failing", "options": options}))
    assert "SystemExit: cannot log in with ***" in told


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.environ['NO_SUCH_VARIABLE']",
        "def rows(session, request)\n    return",
        "import sys\nsys.exit('not here')",
        "def again():\n    again()\nagain()",
        "raise KeyboardInterrupt",
        "class Own(BaseException):\n    pass\nraise Own('mine')",
        "class Shy(Exception):\n    def __str__(self):\n        raise SystemExit(3)\nraise Shy",
        "import no_such_module_anywhere",
        "rows = 7",
        "\0",
        "",
    ],
    ids=[
        "KeyError",
        "SyntaxError",
        "SystemExit",
        "RecursionError",
        "KeyboardInterrupt",
        "own",
        "unprintable",
        "ImportError",
        "number",
        "null byte",
        "empty",
    ],
)
def test_code_that_fails_at_import_fails_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, text: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = f"broken_{abs(hash(request.node.name))}"
    (tmp_path / f"{module}.py").write_text(text)
    codes, told = errors_of(project(tmp_path, bad={"function": f"{module}:rows"}))
    assert codes == {"bad": ENVIRONMENT, "works": 0}
    assert module in told


def test_a_module_that_failed_is_imported_again_once_it_is_corrected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "corrected.py").write_text("raise SystemExit")
    made = project(tmp_path, bad={"function": "corrected:rows"})
    assert errors_of(made)[0]["bad"] == ENVIRONMENT
    (tmp_path / "corrected.py").write_text("from test_user_code_numbers import numbers as rows")
    (tmp_path / "test_user_code_numbers.py").write_text(
        "import pyarrow as pa\ndef numbers(session, request):\n    return pa.table({'id': [1, 2]})"
    )
    report = Loop(made, InProcessEngine(), 1).once(made.pipelines)
    assert report.ok


def chosen_operator(**_: object) -> str:
    raise KeyboardInterrupt


def chosen_rows(*_: object) -> object:
    raise _Own("rows")


@pytest.mark.parametrize(
    ("key", "code"), [("watermark_operator", "chosen_operator"), ("watermark_filter", "chosen_rows")]
)
def test_the_other_functions_of_a_source_fail_it_too(tmp_path: Path, key: str, code: str) -> None:
    """They are called once there is a watermark."""
    source = {"function": f"{__name__}:numbers"}
    first = project(tmp_path, bad=source)
    assert Loop(first, InProcessEngine(), 1).once(first.pipelines).ok
    made = project(tmp_path, bad={**source, key: f"{__name__}:{code}"})
    with stops_on_signals(threading.Event()):
        bad, works = Loop(made, InProcessEngine(), 1).once(made.pipelines).sources
    assert (bad.exit_code, works.exit_code, works.error) == (SOURCE, 0, None)
    assert code in str(bad.error)


def test_a_real_interrupt_ends_the_run(tmp_path: Path) -> None:
    """The first signal stops the run after this source, the second one at once, even inside user code."""
    made = project(tmp_path, bad={"function": f"{__name__}:slow"})
    stop = threading.Event()
    with pytest.raises(KeyboardInterrupt), stops_on_signals(stop):
        Loop(made, InProcessEngine(), 1, stop=stop).once(made.pipelines)
    assert stop.is_set()


def slow(session: object, request: Any) -> object:
    """Gets two signals, and never ends by itself."""
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)  # two of a kind at once are one signal
    time.sleep(60)
    return None


def test_an_interrupt_of_an_earlier_run_is_forgotten(tmp_path: Path) -> None:
    stop = threading.Event()
    with stops_on_signals(stop):
        os.kill(os.getpid(), signal.SIGINT)
    assert stop.wait(5)
    made = project(tmp_path, bad={"function": f"{__name__}:failing", "options": {"password": "", "how": "interrupt"}})
    assert errors_of(made)[0]["bad"] == SOURCE


PROVIDERS = {
    "import": "import sys\nsys.exit('not today')",
    "constructor": """
        class Provider:
            def __init__(self, password):
                raise SystemExit("refused: " + password)
        """,
    "method": """
        class Shy(Exception):
            def __str__(self):
                raise SystemExit(3)
        class Provider:
            def __init__(self, password):
                self.password = password
            def get_watermark(self, dataflow_id):
                raise Shy(self.password)
            def update_watermark(self, *_, **__):
                pass
        """,
    "attribute": """
        class Provider:
            def __init__(self, password):
                self._password = password
            def __getattr__(self, name):
                raise SystemExit(self._password)
        """,
}


@pytest.fixture
def provided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Lake:
    """A lake with one file, whose provider fails as the parameter says."""
    module = f"provider_{request.param}"
    (tmp_path / f"{module}.py").write_text(dedent(PROVIDERS[request.param]))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PASSWORD", PASSWORD)
    lake = Lake(
        tmp_path, settings={"state": {"provider": f"{module}:Provider", "options": {"password": "${PASSWORD}"}}}
    )
    lake.arrive("date=2026-01-01/a.ndjson")
    return lake


@pytest.mark.parametrize("provided", PROVIDERS, indirect=True)
def test_a_provider_that_fails_in_any_way_fails_its_sources(provided: Lake) -> None:
    (source,) = provided.run().sources
    assert source.exit_code in (ENVIRONMENT, STATE)
    assert "provider_" in str(source.error)
    assert PASSWORD not in f"{source} {provided.seen}"


@pytest.mark.parametrize("provided", ["method"], indirect=True)
def test_the_command_exits_with_the_code_of_the_source(provided: Lake) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "run", str(provided.config), "--debug"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(provided.root), *sys.path])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == STATE, done.stderr
    assert "provider_method:Provider" in done.stdout
    assert PASSWORD not in done.stdout + done.stderr
