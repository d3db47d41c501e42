"""Writes docs/chaos-report.md from the JSON of a chaos run: ``python scripts/chaos_report.py chaos.json "OPTIONS"``."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

PAGE = """\
# Chaos report

**{lost:,} rows lost, {doubled:,} rows doubled.** The newest long run, on {day}, on local disk:

```
tidegate chaos build/chaos/tables {options} --seed {seed}
```

| | |
|---|---|
{facts}

{findings}`make chaos` makes such a run and writes this page; `make chaos SEED={seed}` repeats this one. What each
kind of failure is: [`tidegate chaos`](reference/cli/chaos.md). The same seed repeats every failure inside
the process; which instruction a kill hits, and how far it comes in the time, is up to the machine.

## By place

A crash ends the runner, which starts again with nothing in memory. A lost answer leaves it alive. A kill is a SIGKILL
that the process gave itself at that place; the other kills came from outside, at a random moment.

| [failpoint](reference/failpoints.md) | crashes | lost answers | kills |
|---|---:|---:|---:|
{places}

Places that stay at 0 belong to commands and ways of tracking that this experiment does not use; tests kill there.
"""


def page(report: dict[str, Any], options: str) -> str:
    """The page of one run."""
    return PAGE.format(
        **{name: report[name] for name in ("lost", "doubled", "seed")},
        day=f"{datetime.now(UTC):%d %B %Y}",
        options=options,
        facts="\n".join(f"| {name} | {value} |" for name, value in facts(report)),
        findings="".join(f"- {problem}\n" for problem in report["problems"]),
        places="\n".join(places(report)),
    )


def places(report: dict[str, Any]) -> Iterator[str]:
    """The rows of the table of failpoints."""
    for each in report["places"]:
        yield f"| `{each['place']}` | {each['raised']:,} | {each['lost']:,} | {each['killed']:,} |"
    yield f"| together | {total(report, 'raised')} | {total(report, 'lost')} | {total(report, 'killed')} |"


def total(report: dict[str, Any], way: str) -> str:
    return f"{sum(each[way] for each in report['places']):,}"


def facts(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "failures injected into passes", f"{report['failures']:,}"
    yield "worker processes killed (SIGKILL)", f"{report['kills']:,}"
    yield "process trees killed with Spark in them", f"{report['spark_kills']:,}"
    yield "passes of a rival in the middle of a pass", f"{report['rival_passes']:,}"
    yield "commits that a rival was faster with", f"{report['contested']:,}"
    yield "foreign appends, OPTIMIZE", f"{report['foreign_appends']:,}, {report['optimizes']:,}"
    yield "tables (rounds)", f"{report['rounds']:,}"
    yield "passes in the process, commits", f"{report['passes']:,}, {report['commits']:,}"
    yield "files, rows, bad lines produced", f"{report['files']:,}, {report['rows']:,}, {report['letters']:,}"
    yield "comparisons, each by a batch and a streaming reader", f"{report['comparisons']:,}"
    ended = "all that was asked for was done" if report["finished"] else "the time was over before all was done"
    yield "time", f"{report['seconds'] / 60:.1f} minutes; {ended}"
    libraries = ", ".join(f"{name} {version(name)}" for name in ("deltalake", "pyarrow", "pyspark"))
    yield "machine", f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, {libraries}"


if __name__ == "__main__":
    sys.stdout.write(page(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2]))
