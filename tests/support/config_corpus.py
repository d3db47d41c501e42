"""A corpus of configurations and what becomes of each: canonical form, specs and notices, or every problem.

The recorded outcomes are the contract of ``tidegate.config``. After a change that is meant to change them, run
``python tests/support/config_corpus.py`` and look at what it prints before you commit the file.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from pathlib import Path
from typing import Any

from tidegate.config import json_schema, load, show
from tidegate.errors import ConfigError
from tidegate.migrate.foreign import FOREIGN

CORPUS = Path(__file__).parents[1] / "unit" / "config" / "corpus.json.xz"
BASE = Path("/srv/project")


def outcome(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What becomes of one configuration; ``folder`` takes its file."""
    path = folder / f"{case['stem']}.yml"
    path.write_text(case["text"], encoding="utf-8", newline="")
    try:
        project = load(path, env=case["env"], base=BASE, foreign=FOREIGN)
    except ConfigError as error:
        return {"problems": [line.replace(f"{folder}/", "") for line in error.problems]}
    specs = repr(project).replace(f"{folder}/", "")
    return {"show": show(project), "specs": specs, "notices": list(project.notices)}


def editor_schema() -> str:
    """The editor schema as the command prints it."""
    return json.dumps(json_schema(FOREIGN), indent=2)


def read() -> dict[str, Any]:
    """The corpus as it was recorded."""
    found: dict[str, Any] = json.loads(lzma.decompress(CORPUS.read_bytes()))
    return found


def write(corpus: dict[str, Any]) -> None:
    """Keep ``corpus``."""
    CORPUS.write_bytes(lzma.compress(json.dumps(corpus, indent=0).encode(), preset=9))


def record() -> None:
    """Record the outcomes of today, and print each that differs."""
    corpus = read()
    with tempfile.TemporaryDirectory() as folder:
        for case in corpus["cases"]:
            found = outcome(case, Path(folder))
            if found != case["outcome"]:
                print(f"--- {case['origin']}", json.dumps(case["outcome"]), json.dumps(found), sep="\n")
            case["outcome"] = found
    corpus["schema"] = editor_schema()
    write(corpus)


if __name__ == "__main__":
    sys.exit(record())
