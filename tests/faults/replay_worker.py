"""A replay without Spark in a process of its own, to be killed: ``python replay_worker.py CONFIG PATTERN``."""

from __future__ import annotations

import sys
from pathlib import Path

from tidegate import TidegateError, load
from tidegate.commands.replay import Replay
from tidegate.core.files.edit import Selection
from tidegate.runs.bound_source import open_place
from tidegate.runs.engine import InProcessLane


def replay(config: Path, pattern: str) -> bool:
    """Whether the rows of these files were replaced."""
    project = load(config)
    pipeline = project.pipelines[0]
    place = open_place(project, pipeline, pipeline.sources[0], 2)
    return Replay(place, InProcessLane()).run(Selection(pattern), lambda planned: True).applied


def main() -> int:
    """0 when the rows were replaced."""
    try:
        return 0 if replay(Path(sys.argv[1]), sys.argv[2]) else 1
    except TidegateError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
