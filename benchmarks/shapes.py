"""JSON of real shapes into snappy Parquet, beside DuckDB and Spark.

    python -m benchmarks.shapes [--megabytes 60] [--rounds 3] [--best] [--quick] [--spark] [--only events]

One process and one thread for each: Tidegate is the code of a task (``tasks.task``), DuckDB has ``threads = 1``, Spark
``local[1]``. The contenders take turns; CPU seconds (threads and children included) stand beside wall seconds, medians
of the rounds, or with ``--best`` the best, for a machine with much other work. Ratios are of CPU seconds, which a busy
machine changes less.

Each shape is read with declared columns, with columns that are inferred, with 0.1 % and 10 % bad lines
(``ignore_errors`` for DuckDB, ``DROPMALFORMED`` for Spark), with as many records in which a value does not fit its
column, with a part of the fields undeclared, and with those rescued; then as one JSON array.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import psutil

from benchmarks.record_shapes import NEAT, SHAPES, Shape, corrupt, misfit
from benchmarks.report import machine, store, table
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.schema.inference import infer_json
from tidegate.schema.literals import describe_reader
from tidegate.schema.types import arrow_schema
from tidegate.specs.files import Format
from tidegate.specs.locations import Location
from tidegate.specs.table import FieldSpec
from tidegate.tasks.dead_letters import DeadLetterTarget
from tidegate.tasks.read_task import GroupResult, ReadTask
from tidegate.tasks.task import read_group_at_once

RESCUED = FieldSpec("_rescued", "string")
SAMPLED = 10_000
SPARK_CASES = ("declared", "0.1 % bad", "array")
_DUCKDB = {
    "string": "VARCHAR",
    "json": "JSON",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMPTZ",
}


Choose = Callable[[Iterable[float]], float]
"""Which of the rounds tells: the median, or the best."""


@dataclass(slots=True)
class Case:
    """One file and what is asked of it; ``fields`` are None where they are to be found."""

    name: str
    file: Path
    fields: tuple[FieldSpec, ...] | None
    rescued: bool = False
    seconds: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def spent(self, contender: str, choose: Choose) -> tuple[float, float]:
        """CPU and wall seconds."""
        cpu, wall = zip(*self.seconds[contender], strict=True)
        return choose(cpu), choose(wall)


def cpu_seconds() -> float:
    """What this process and all that it started have used."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    others = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return own.ru_utime + own.ru_stime + sum(each.user + each.system for each in others)


def inferred(file: Path) -> tuple[FieldSpec, ...]:
    """The columns that the first records of a file have."""
    with file.open("rb") as lines:
        first = [line for line, _ in zip(lines, range(SAMPLED), strict=False)]
    return infer_json([first], coerce_conflicts_to_utf8=True).fields


def with_tidegate(case: Case, folder: Path) -> GroupResult:
    """Read one file as a task does; bad lines become dead letters."""
    fields = case.fields or inferred(case.file)
    fields = (*fields, RESCUED) if case.rescued else fields
    root = case.file.parent
    task = ReadTask(
        source=Location(root.as_uri()),
        table=Location((folder / "table").as_uri()),
        fields=fields,
        file_schema=arrow_schema(fields).serialize().to_pybytes(),
        format=Format.JSON if case.file.suffix == ".json" else Format.NDJSON,
        rescued=RESCUED.name if case.rescued else None,
        letters=DeadLetterTarget(Location((folder / "letters").as_uri()), "p", "s", "r"),
    )
    return read_group_at_once(task, FileGroup(0, (FileSlice(case.file.name, case.file.stat().st_size),)))


def duckdb_type(declared: FieldSpec) -> str:
    """The type of a column in DuckDB."""
    if declared.items is not None:
        return f"{duckdb_type(declared.items)}[]"
    if declared.fields:
        inner = ", ".join(f'"{each.name}" {duckdb_type(each)}' for each in declared.fields)
        return f"STRUCT({inner})"
    return _DUCKDB[declared.type]


def with_duckdb(case: Case, folder: Path) -> None:
    """The same by DuckDB."""
    columns = ""
    if case.fields is not None:
        named = ", ".join(f"'{each.name}': '{duckdb_type(each)}'" for each in case.fields)
        columns = f", columns = {{{named}}}"
    kind = "array" if case.file.suffix == ".json" else "newline_delimited"
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.execute(
            f"COPY (SELECT * FROM read_json('{case.file}', format = '{kind}', ignore_errors = "
            f"{str(kind != 'array').lower()}{columns})) "
            f"TO '{folder / 'duckdb.parquet'}' (FORMAT parquet, COMPRESSION snappy)"
        )


def with_spark(case: Case, folder: Path) -> None:
    """The same by Spark."""
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas.types import from_arrow_schema

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    reader = spark.read.option("mode", "DROPMALFORMED").option("multiLine", case.file.suffix == ".json")
    if case.fields is not None:
        reader = reader.schema(from_arrow_schema(arrow_schema(case.fields)))
    reader.json(str(case.file)).write.mode("overwrite").parquet(str(folder / "spark"))


def cases(shape: Shape, folder: Path, megabytes: float) -> list[Case]:
    """The files of one shape, each with what is asked of it."""
    some = list(shape.lines(200))
    lines = list(shape.lines(int(megabytes * 1e6 / (sum(map(len, some)) / len(some)))))
    contents = {
        "whole.ndjson": b"".join(lines),
        "few-bad.ndjson": b"".join(corrupt(lines, 0.001)),
        "many-bad.ndjson": b"".join(corrupt(lines, 0.1)),
        "few-misfits.ndjson": b"".join(misfit(lines, 0.001)),
        "many-misfits.ndjson": b"".join(misfit(lines, 0.1)),
        "whole.json": b"[" + b",\n".join(line[:-1] for line in lines) + b"]\n",
    }
    files = {name: folder / name for name in contents}
    for name, content in contents.items():
        files[name].write_bytes(content)
    whole = inferred(files["whole.ndjson"])
    some_fields = tuple(each for each in whole if each.name not in shape.left_out)
    return [
        Case("declared", files["whole.ndjson"], whole),
        Case("inferred", files["whole.ndjson"], None),
        Case("0.1 % bad", files["few-bad.ndjson"], whole),
        Case("10 % bad", files["many-bad.ndjson"], whole),
        Case("0.1 % misfits", files["few-misfits.ndjson"], whole),
        Case("10 % misfits", files["many-misfits.ndjson"], whole),
        Case("undeclared", files["whole.ndjson"], some_fields),
        Case("rescued", files["whole.ndjson"], some_fields, rescued=True),
        Case("rescued, nothing left", files["whole.ndjson"], whole, rescued=True),
        Case("array", files["whole.json"], whole),
    ]


def measure(
    found: list[Case], contenders: Mapping[str, Callable[[Case, Path], Any]], rounds: int, folder: Path
) -> None:
    """Let the contenders take turns; Spark is warm when its first turn comes."""
    if "Spark" in contenders:
        contenders["Spark"](found[0], folder)
    for turn in range(rounds):
        for case in found:
            names = list(contenders)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                if name == "Spark" and (case.name not in SPARK_CASES or turn > 1):
                    continue
                cpu, wall = cpu_seconds(), time.perf_counter()
                contenders[name](case, folder)
                spent = (cpu_seconds() - cpu, time.perf_counter() - wall)
                case.seconds.setdefault(name, []).append(spent)
                for written in ("table", "letters", "spark"):
                    shutil.rmtree(folder / written, ignore_errors=True)


def main() -> None:
    """Measure every shape and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--best", action="store_true", help="the best round instead of the median")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--spark", action="store_true", help="Spark takes part in two rounds of some cases")
    parser.add_argument("--quick", action="store_true", help="6 MB of each shape, one round")
    arguments, _ = parser.parse_known_args()
    megabytes, rounds = (6.0, 1) if arguments.quick else (arguments.megabytes, arguments.rounds)
    choose: Choose = min if arguments.best else statistics.median
    contenders: dict[str, Callable[[Case, Path], Any]] = {"Tidegate": with_tidegate, "DuckDB": with_duckdb}
    if arguments.spark:
        contenders["Spark"] = with_spark
    print(f"{machine()}; reader: {describe_reader()}; {megabytes:.0f} MB of each shape, {rounds} rounds")
    results: dict[str, object] = {}
    for shape in (NEAT, *SHAPES):
        if arguments.only and shape.name not in arguments.only:
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            found = cases(shape, folder, megabytes)
            measure(found, contenders, rounds, folder)
        plain = found[0].spent("Tidegate", choose)[0]
        size = megabytes
        rows = []
        for case in found:
            cpu, wall = case.spent("Tidegate", choose)
            ratios = [
                f"{case.spent(other, choose)[0] / cpu:.2f}" if other in case.seconds else ""
                for other in list(contenders)[1:]
            ]
            rows.append([case.name, f"{cpu:.2f}", f"{wall:.2f}", f"{size / cpu:.0f}", *ratios, f"{cpu / plain:.2f}"])
            results[f"{shape.name}, {case.name}"] = {
                name: [cpu for cpu, _ in spent] for name, spent in case.seconds.items()
            }
        against = [f"times as fast as {other}" for other in list(contenders)[1:]]
        table(shape.name, ["", "CPU s", "wall s", "MB per CPU s", *against, "time beside declared"], rows)
    store("shapes", {"seconds": results, "megabytes": megabytes})


if __name__ == "__main__":
    main()
