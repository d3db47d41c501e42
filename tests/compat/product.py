"""The product as these tests use it: its command line, in this process or in one that may be killed.

Everything else in this folder goes through :func:`command`, so that a rebuilt product meets the same tests. The one
place that knows a module of the product is :func:`without_spark`: it lets commands read and write in this process.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What ``--json`` printed."""
        return json.loads(self.out)


@contextlib.contextmanager
def without_spark() -> Iterator[None]:
    """Commands that would start Spark work in this process instead; merges and SCD2 cannot."""
    from support.unit_lake import InProcessUnitEngine

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("tidegate.spark.engine.SparkEngine", lambda *given, **named: InProcessUnitEngine())
        yield


def command(*arguments: str | Path, spark: bool = False) -> Outcome:
    """Run ``tidegate ARGUMENTS`` here; with ``spark`` on the session of this process."""
    out, err = io.StringIO(), io.StringIO()
    before, code = sys.argv, 0
    sys.argv = ["tidegate", *map(str, arguments)]
    try:
        with (
            contextlib.nullcontext() if spark else without_spark(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            runpy.run_module("tidegate", run_name="__main__")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.argv = before
    return Outcome(code, out.getvalue(), err.getvalue())


def succeed(*arguments: str | Path, spark: bool = False) -> Any:
    """What a command that must go well prints as JSON."""
    outcome = command(*arguments, "--json", spark=spark)
    assert outcome.code == 0, f"{' '.join(map(str, arguments))}: {outcome.code}\n{outcome.out}\n{outcome.err}"
    return outcome.data


def kill(failpoint: str, *arguments: str | Path) -> None:
    """Run ``tidegate ARGUMENTS`` in another process, which dies at the failpoint.

    It is forked from one that has imported everything and done nothing.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "support.unit_lake", "tidegate.commands.run", "deltalake"])
    process = context.Process(target=_until_killed, args=(failpoint, tuple(map(str, arguments)), dict(os.environ)))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL, f"{arguments} ended with {process.exitcode}, not at {failpoint}"


def _until_killed(failpoint: str, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    from tidegate import failpoints

    os.environ.update(environment)
    failpoints.arm(failpoint)
    outcome = command(*arguments)
    print(outcome.out, outcome.err, file=sys.stderr)
