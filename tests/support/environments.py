"""Empty environments outside the repository, and what ``make dist`` built for them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

DIST = os.environ.get("TIDEGATE_DIST")


def only(pattern: str) -> Path:
    """The one file in ``dist`` of that name."""
    (found,) = Path(DIST or ".").glob(pattern)
    return found


class Environment:
    """A virtual environment, and a user whose folders are empty."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.python = root / "env" / "bin" / "python"
        base = os.environ.get("TIDEGATE_DIST_PYTHON") or sys._base_executable  # type: ignore[attr-defined]
        self.run(base, "-m", "venv", str(root / "env"))

    def install(self, *what: str) -> None:
        self.run(str(self.python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *what)

    def run(self, *command: str, code: int = 0, env: Mapping[str, str] | None = None) -> str:
        """What a program says on both streams; it must end with ``code``."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "LANG"))}
        given = {
            **kept,
            "HOME": str(self.root / "user"),
            "PIP_CACHE_DIR": str(Path.home() / ".cache" / "pip"),
            "TIDEGATE_HOME": str(self.root / "cache"),
            "PATH": f"{self.root / 'env' / 'bin'}:/usr/bin:/bin",
            **(env or {}),
        }
        (self.root / "work").mkdir(parents=True, exist_ok=True)
        (self.root / "user").mkdir(exist_ok=True)
        done = subprocess.run(command, cwd=self.root / "work", env=given, capture_output=True, text=True, check=False)
        assert done.returncode == code, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr
