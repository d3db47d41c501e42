"""What commits by limit cost beside another state of the code, in turns: CPU seconds (driver, JVM, tasks) and wall.

    git worktree add ../before COMMIT
    python -m benchmarks.commits --before ../before [--rounds 3] [--small 5000] [--large 8]

One process for each state, each with a warm session of two threads that lives through all rounds; both read with the
native reader of this environment. Without ``--before`` only this state runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import events, report

TICKS = os.sysconf("SC_CLK_TCK")
HERE = Path(__file__).parents[1]
WARM_UP = ("warm up", 200, 200, {})
DUE = {"interval_files": 10_000}


@dataclass(frozen=True, slots=True)
class Case:
    """Files to read, and settings of the source's ``checkpoint``."""

    name: str
    files: int
    records: int
    checkpoint: Mapping[str, int]


def cpu_seconds(process: int) -> float:
    """What a process and all below it took so far, those that ended included."""
    children: dict[int, list[int]] = {}
    taken: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(number)
        taken[number] = sum(map(int, fields[11:15])) / TICKS
    total, below = 0.0, [process]
    while below:
        one = below.pop()
        total += taken.get(one, 0.0)
        below += children.get(one, [])
    return total


class Contender:
    """One state of the code in a process of its own, which reads a case whenever it is asked."""

    def __init__(self, name: str, tree: Path, process: subprocess.Popen[str]) -> None:
        self.name = name
        self._process = process

    @classmethod
    @contextmanager
    def started(cls, name: str, tree: Path) -> Iterator[Contender]:
        """The process, until the block ends."""
        command = [sys.executable, "-m", "benchmarks.commits", "--child"]
        env = {**os.environ, "PYTHONPATH": f"{tree.resolve() / 'src'}{os.pathsep}{HERE}"}
        with subprocess.Popen(
            command, cwd=HERE, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr
        ) as process:
            yield cls(name, tree, process)
            assert process.stdin
            process.stdin.close()

    def read(self, source: Path, case: Case) -> dict[str, Any]:
        """CPU seconds by process, wall seconds and commits of one run."""
        assert self._process.stdin
        assert self._process.stdout
        os.sync()
        self._process.stdin.write(json.dumps([str(source), case.files * case.records, dict(case.checkpoint)]) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise SystemExit(f"{self.name} ended")


def child() -> None:
    """Read what stdin names, again and again."""
    import tidegate
    from benchmarks.throughput import THREADS, configuration
    from tidegate.spark.session import open_session
    from tidegate.specs.project import SparkSpec

    open_session(SparkSpec(master=f"local[{THREADS}]"), delta=False)
    with tempfile.TemporaryDirectory(prefix="tidegate-commits-") as place:
        work = Path(place)
        for line in sys.stdin:
            source, records, checkpoint = json.loads(line)
            table = work / "table"
            config = configuration(work, Path(source), table, checkpoint=checkpoint)
            before, driver, started = cpu_seconds(os.getpid()), time.process_time(), time.perf_counter()
            outcome = tidegate.run(config)
            wall, driver = time.perf_counter() - started, time.process_time() - driver
            cpu = cpu_seconds(os.getpid()) - before
            assert outcome.ok
            assert sum(one.rows for one in outcome.sources) == records
            commits = len(list((table / "_delta_log").glob("*[0-9].json")))
            shutil.rmtree(table)
            print(json.dumps({"cpu": cpu, "driver": driver, "wall": wall, "commits": commits}), flush=True)


def measure(contenders: Sequence[Contender], cases: Sequence[Case], rounds: int, data: Path) -> None:
    """All rounds of all cases, each begun by another contender; prints and stores them."""
    warm_up = Case(*WARM_UP)
    for each in contenders:
        each.read(events.dataset(data, warm_up.files, warm_up.records)[0], warm_up)
    rows: list[tuple[object, ...]] = []
    stored: dict[str, list[float]] = {}
    for case in cases:
        source = events.dataset(data, case.files, case.records)[0]
        found: dict[str, list[dict[str, Any]]] = {each.name: [] for each in contenders}
        for turn in range(rounds):
            for each in [*contenders[turn % len(contenders) :], *contenders[: turn % len(contenders)]]:
                found[each.name].append(each.read(source, case))
                print(f"  {case.name}, round {turn + 1}, {each.name}: {found[each.name][-1]}", flush=True)
        for name, runs in found.items():
            shown = [", ".join(f"{run[what]:.2f}" for run in runs) for what in ("cpu", "driver", "wall")]
            rows.append((case.name, name, *shown, ", ".join(str(run["commits"]) for run in runs)))
            stored[f"{case.name}, {name}"] = [run["cpu"] for run in runs]
        if len(contenders) == 2:
            theirs, ours = found.values()
            ratios = (
                report.side_by_side([r[what] for r in theirs], [r[what] for r in ours]) for what in ("cpu", "wall")
            )
            rows.append((case.name, "ratio, median of rounds", *(f"{ratio:.2f}" for ratio in ratios), "", ""))
    report.table("Commits by limit", ("case", "state", "CPU s", "of it driver", "wall s", "commits"), rows)
    report.store("commits", {"seconds": stored})


def main() -> None:
    """Small files at the default limits and in one commit, then large ones."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--before", type=Path, help="a checkout of the state to compare with")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--small", type=int, default=5000, help="how many small files; 0 for none")
    arguments.add_argument("--large", type=int, default=8, help="how many large files; 0 for none")
    arguments.add_argument("--case", help="only cases whose name has this in it")
    arguments.add_argument("--data", type=Path, default=Path(__file__).parent / "data")
    arguments.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.child:
        child()
        return
    print(report.machine())
    cases = [
        Case(f"{chosen.small} small files", chosen.small, 200, {}),
        Case(f"{chosen.small} small files, interval_files: 10000", chosen.small, 200, DUE),
        Case(f"{chosen.large} files of 500,000 records", chosen.large, 500_000, {}),
    ]
    wanted = [case for case in cases if case.files and (chosen.case is None or chosen.case in case.name)]
    trees = {"before": chosen.before, "now": HERE} if chosen.before else {"now": HERE}
    with ExitStack() as stack:
        contenders = [stack.enter_context(Contender.started(name, tree)) for name, tree in trees.items()]
        measure(contenders, wanted, chosen.rounds, chosen.data)


if __name__ == "__main__":
    main()
