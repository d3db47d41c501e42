"""A replay without Spark in a process of its own, to be killed: ``python replay_worker.py CONFIG PATTERN``."""

from __future__ import annotations

import sys
from pathlib import Path

from tidegate import TidegateError, load
from tidegate.commands.replay import FileReplay
from tidegate.core.files.edit import Selection
from tidegate.runs.bind import bind
from tidegate.runs.in_process import InProcessEngine


def replay(config: Path, pattern: str) -> bool:
    """Whether the rows of these files were replaced."""
    project = load(config)
    pipeline = project.pipelines[0]
    place = bind(project, pipeline, pipeline.sources[0], 2)
    return FileReplay(place, InProcessEngine(), Selection(pattern)).run().applied


def main() -> int:
    """0 when the rows were replaced."""
    try:
        return 0 if replay(Path(sys.argv[1]), sys.argv[2]) else 1
    except TidegateError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
