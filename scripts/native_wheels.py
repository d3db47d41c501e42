"""Builds the wheels of the native reader that an index takes: ``python scripts/native_wheels.py DIST [TARGET ...]``.

Without targets it builds for this machine. Zig links, because it knows the symbols of every glibc and musl: the wheels
need no newer glibc than 2.17, and one machine builds for all. maturin and Zig get an environment of their own in
``build/wheel-tools``.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "build" / "wheel-tools"
ZIG = "ziglang==0.17.0"
TARGETS = {
    "x86_64-unknown-linux-gnu": "manylinux_2_17",
    "aarch64-unknown-linux-gnu": "manylinux_2_17",
    "x86_64-unknown-linux-musl": "musllinux_1_2",
    "aarch64-unknown-linux-musl": "musllinux_1_2",
    "x86_64-apple-darwin": None,
    "aarch64-apple-darwin": None,
}
"""What we build for, and the oldest C library that each wheel promises to run with."""


def own_target() -> str:
    """The target of this machine."""
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    return f"{machine}-apple-darwin" if sys.platform == "darwin" else f"{machine}-unknown-linux-gnu"


def command(target: str, dist: Path) -> list[str]:
    """The command that builds the wheel of ``target`` into ``dist``."""
    policy = TARGETS[target]
    found = [str(TOOLS / "bin" / "maturin"), "build", "--release", "--target", target, "--out", str(dist)]
    # Linking for macOS on macOS needs no Zig.
    return found if policy is None and sys.platform == "darwin" else [*found, "--zig", *_compatible(policy)]


def _compatible(policy: str | None) -> list[str]:
    return [] if policy is None else ["--compatibility", policy]


def main(dist: str, *targets: str) -> None:
    wanted = targets or (own_target(),)
    unknown = sorted(set(wanted) - TARGETS.keys())
    if unknown:
        sys.exit(f"native_wheels: unknown target {', '.join(unknown)}; known: {', '.join(TARGETS)}")
    (maturin,) = tomllib.loads((ROOT / "native" / "pyproject.toml").read_text())["build-system"]["requires"]
    venv.create(TOOLS, with_pip=True)
    python = str(TOOLS / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", maturin, ZIG], check=True)
    for target in wanted:
        if target != own_target():
            subprocess.run(["rustup", "target", "add", target], check=True)
        subprocess.run(command(target, Path(dist).resolve()), cwd=ROOT / "native", check=True, env=_environment())


def _environment() -> dict[str, str]:
    # maturin finds Zig as a module of the Python that is first in PATH.
    return {**os.environ, "PATH": f"{TOOLS / 'bin'}:{os.environ['PATH']}", "VIRTUAL_ENV": str(TOOLS)}


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
