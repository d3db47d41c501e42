"""dlt over the same files: seconds, size, kills in the middle, a bad line, one new file.

``python -m benchmarks.dlt_peer [--dlt VENV] [--tidegate VENV]``: each is a virtual environment that has the tool, dlt
as ``pip install "dlt[deltalake]"``. Both read a folder of NDJSON into a Delta table on the local disk, each file once:
dlt by its ``filesystem`` source, incremental by the date of modification, Tidegate with a schema that is inferred.

Each kill is a SIGKILL of the whole process group, in a fresh folder: at fractions of an undisturbed run of the same
tool, and as soon as the first rows show in the log of the table. The same command is started again until it
succeeds, and the rows are counted. Not part of ``benchmarks.all``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import machine, store, table

FRACTIONS = (0.3, 0.6, 0.9)
AT_COMMIT = "as the first rows are committed"
AT_COMMIT_KILLS = 4
"""It is a matter of milliseconds what has been noted by then."""
TRIES = 3
SECONDS = 600.0

DLT = """
import sys
import dlt
from dlt.sources.filesystem import filesystem, read_jsonl

root = sys.argv[1]
files = filesystem(bucket_url=f"file://{root}/in", file_glob="*.ndjson")
files.apply_hints(incremental=dlt.sources.incremental("modification_date"))
pipeline = dlt.pipeline(
    "peer",
    pipelines_dir=f"{root}/state",
    destination=dlt.destinations.filesystem(f"file://{root}/lake"),
    dataset_name="peer",
)
rows = (files | read_jsonl()).with_name("events")
print(pipeline.run(rows, write_disposition="append", table_format="delta"))
"""

TIDEGATE = """\
pipelines:
  events:
    source: {source_uri: in/, format: ndjson}
    schema: {infer: true}
    sink: {table_uri: lake/peer/events}
"""

Work = Callable[[Path], list[str]]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: None was killed."""

    code: int | None
    seconds: float
    cpu: float
    said: str


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table against those of its files."""

    lost: int
    doubled: int


def arrive(root: Path, number: int, rows: int, bad: bool = False) -> None:
    """A file of so many rows; with ``bad`` the middle one is cut off."""
    lines = [
        json.dumps(
            {
                "id": number * rows + at,
                "ts": f"2026-01-28T{at % 24:02}:{at % 60:02}:00Z",
                "user": f"user-{at % 977}",
                "country": ("de", "fr", "it", "us")[at % 4],
                "amount": at % 1000 + 0.25,
                "paid": at % 3 == 0,
            }
        )
        for at in range(rows)
    ]
    if bad:
        lines[rows // 2] = lines[rows // 2][:30]
    (root / "in").mkdir(parents=True, exist_ok=True)
    (root / "in" / f"{number:04}.ndjson").write_text("\n".join(lines) + "\n")


def run(work: Work, root: Path, kill: Callable[[float], bool] = lambda seconds: False) -> Ended:
    """One run in ``root``; ``kill`` is asked again and again whether it is time."""
    environment = {**os.environ, "RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "ERROR"}
    with (root / "said").open("wb") as said:
        process = subprocess.Popen(
            work(root), cwd=root, stdout=said, stderr=said, env=environment, start_new_session=True
        )
        began = time.perf_counter()
        killed = False
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            seconds = time.perf_counter() - began
            if ended:
                break
            if not killed and (kill(seconds) or seconds > SECONDS):
                killed = True
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.002)
    process.returncode = os.waitstatus_to_exitcode(status)
    code = None if process.returncode == -signal.SIGKILL else process.returncode
    return Ended(code, seconds, usage.ru_utime + usage.ru_stime, (root / "said").read_text(errors="replace"))


def rows_of(root: Path, expected: int) -> Rows:
    """What the table holds of the ids from 0 on."""
    from deltalake import DeltaTable

    log = _table(root)
    if not (log / "_delta_log").exists():
        return Rows(expected, 0)
    ids = DeltaTable(str(log)).to_pyarrow_table(columns=["id"])["id"].to_pylist()
    return Rows(expected - len(set(ids)), len(ids) - len(set(ids)))


def _table(root: Path) -> Path:
    return root / "lake" / "peer" / "events"


def _commits(root: Path) -> bool:
    return any('"add"' in path.read_text() for path in (_table(root) / "_delta_log").glob("*.json"))


def fresh(folder: Path, name: str, files: int, rows: int) -> Path:
    """A new folder with so many files of so many rows each."""
    root = folder / name
    shutil.rmtree(root, ignore_errors=True)
    for number in range(files):
        arrive(root, number, rows)
    (root / "peer.yml").write_text(TIDEGATE)
    return root


def kills(work: Work, folder: Path, files: int, rows: int, whole: float) -> dict[str, Rows]:
    """By the moment of the kill: what is lost and doubled after the run that followed it."""
    found: dict[str, Rows] = {}
    moments: dict[str, Callable[[Path, float], bool]] = {
        f"at {fraction:.0%}": lambda root, seconds, fraction=fraction: seconds > fraction * whole  # type: ignore[misc]
        for fraction in FRACTIONS
    }
    for number in range(1, AT_COMMIT_KILLS + 1):
        moments[f"{AT_COMMIT} ({number})"] = lambda root, seconds: _commits(root)
    for name, due in moments.items():
        killed = None
        for _ in range(TRIES):  # one that is over before it is to be killed shows nothing
            root = fresh(folder, "killed", files, rows)
            killed = run(work, root, lambda seconds, root=root, due=due: due(root, seconds))  # type: ignore[misc]
            if killed.code is None:
                break
        assert killed is not None
        again = [run(work, root)]
        while again[-1].code and len(again) < TRIES:
            again.append(run(work, root))
        found[name] = rows_of(root, files * rows)
        state = "killed" if killed.code is None else "was over before"
        print(f"    {name}: {state} after {killed.seconds:.1f} s, then {len(again)} run(s): {found[name]}", flush=True)
    return found


def measured(name: str, work: Work, folder: Path, files: int, rows: int) -> dict[str, object]:
    """All numbers of one tool."""
    print(f"  {name}", flush=True)
    root = fresh(folder, "whole", files, rows)
    first = run(work, root)
    assert first.code == 0, first.said[-3000:]
    assert rows_of(root, files * rows) == Rows(0, 0)
    arrive(root, files, rows)
    second = run(work, root)
    assert rows_of(root, (files + 1) * rows) == Rows(0, 0)
    third = run(work, root)
    arrive(root, files + 1, rows, bad=True)
    bad = run(work, root)
    left = rows_of(root, (files + 2) * rows)
    print(f"    a bad line: exit code {bad.code}, {left.lost} rows of its file are missing\n{_indented(bad.said)}")
    return {
        "first": (first.seconds, first.cpu),
        "one new file": (second.seconds, second.cpu),
        "nothing new": (third.seconds, third.cpu),
        "bad line": {"code": bad.code, "missing": left.lost, "doubled": left.doubled},
        "kills": {
            name: (each.lost, each.doubled) for name, each in kills(work, folder, files, rows, first.seconds).items()
        },
    }


def _indented(said: str) -> str:
    return "\n".join(f"      {line[:200]}" for line in said.splitlines()[-12:])


def megabytes(environment: Path) -> float:
    """What the packages of a virtual environment take on the disk."""
    (packages,) = environment.glob("lib/python*/site-packages")
    return sum(each.lstat().st_size for each in packages.rglob("*") if each.is_file()) / 1e6


def main() -> None:
    """Measure both, print the tables and keep the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dlt", type=Path, help="a virtual environment that has dlt[deltalake]")
    parser.add_argument("--tidegate", type=Path, help="one that has Tidegate")
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--rows", type=int, default=10_000, help="in each file")
    given = parser.parse_args()
    tools: dict[str, tuple[Work, Path]] = {}
    if given.dlt:
        python = str(given.dlt.absolute() / "bin" / "python")
        tools["dlt"] = (lambda root: [python, "-c", DLT, str(root)]), given.dlt
    if given.tidegate:
        program = str(given.tidegate.absolute() / "bin" / "tidegate")
        tools["Tidegate"] = (lambda root: [program, "run", "peer.yml"]), given.tidegate
    found: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory(prefix="tidegate-peer-") as folder:
        for name, (work, environment) in tools.items():
            found[name] = measured(name, work, Path(folder), given.files, given.rows)
            found[name]["megabytes"] = megabytes(environment)
    _print(found, given.files, given.rows)
    store("dlt_peer", {"files": given.files, "rows": given.rows, **found})


def _print(found: Mapping[str, Mapping[str, object]], files: int, rows: int) -> None:
    def line(title: str, cell: Callable[[Mapping[str, object]], object]) -> tuple[object, ...]:
        return (title, *(cell(each) for each in found.values()))

    def times(key: str) -> tuple[object, ...]:
        return line(f"{key}, s (CPU s)", lambda each: "{:.1f} ({:.1f})".format(*each[key]))  # type: ignore[misc]

    (first, *_) = found.values()
    lines = [
        *map(times, ("first", "one new file", "nothing new")),
        line("bad line: exit code, rows of its file missing", lambda each: each["bad line"]),
        *(
            line(f"killed {name}: lost, doubled", lambda each, name=name: each["kills"][name])
            for name in first["kills"]
        ),  # type: ignore[misc,index]
        line("Python packages, MB", lambda each: f"{each['megabytes']:.0f}"),
    ]
    table(f"{files} files, {files * rows:,} rows ({machine()})", ("", *found), lines)


if __name__ == "__main__":
    main()
