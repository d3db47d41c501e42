"""Processes that poll the same or different pipelines at the same time."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from support import scripts

POLLER = Path(__file__).with_name("poller.py")
COMMITTER = Path(__file__).with_name("committer.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(POLLER.parents[1]), *sys.path]))}
"""What this process finds, its scripts find, too."""


@contextlib.contextmanager
def polling(folder: Path, *configs: Path, well: bool = True, committers: int = 0) -> Iterator[None]:
    """While inside, one process per configuration polls; all begin at once and end with the block.

    With ``well`` no pass of any of them may fail. So many ``committers`` commit beside them what the first
    configuration stages.
    """
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        programs = [*((POLLER, config) for config in configs), *[(COMMITTER, configs[0])] * committers]
        pollers = [scripts.start(program, config, folder) for program, config in programs]
        for poller in pollers:
            stack.callback(poller.wait)
            stack.callback(poller.kill)
        while len(list(folder.glob("ready-*"))) < len(pollers):
            assert all(poller.poll() is None for poller in pollers), "a process ended before the start"
            time.sleep(0.01)
        (folder / "go").touch()
        yield
        (folder / "enough").touch()
        codes = [poller.wait(timeout=120) for poller in pollers]
        assert all(code in ((0,) if well else (0, 1)) for code in codes), codes
