"""The wheels in empty environments outside the repository: set-up, demo, an own pipeline, extras, no Java, no Spark.

`make test-dist` builds them first. The user has empty folders; only what pip has downloaded before is used again.
``TIDEGATE_DIST_PYTHON`` names another interpreter to install them for.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.environments import DIST, Environment, only
from support.extras import EXTRAS

pytestmark = [
    pytest.mark.skipif(DIST is None, reason="make test-dist"),
    pytest.mark.timeout(1800),
    pytest.mark.spark,
]

ROOT = Path(__file__).parents[2]
HAS_NATIVE = any(Path(DIST or ".").glob("tidegate_native-*.whl"))
WITHOUT_JAVA = """
import sys
from tidegate.spark import jars
jars._FOLDERS = ()
from tidegate.cli.main import cli
cli.main(sys.argv[1:], prog_name="tidegate")
"""
OWN = """\
source: {source_uri: orders/, format: csv}
schema: {infer: true}
sink: {table_uri: lake/orders}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    found = Environment(tmp_path_factory.mktemp("installed"))
    extras = "spark,native" if HAS_NATIVE else "spark"
    found.install("--find-links", str(DIST), f"tidegate[{extras}] @ {only('tidegate-*.whl').as_uri()}")
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Tidegate alone, as on a platform that brings Spark, or for the local engine."""
    found = Environment(tmp_path_factory.mktemp("plain"))
    found.install(str(only("tidegate-*.whl")))
    return found


def test_a_stranger_sets_up_and_sees_the_demo(installed: Environment) -> None:
    assert "no problems found" in installed.run("tidegate", "setup", "--yes")
    assert "every record exactly once" in installed.run("tidegate", "demo")


def test_a_pipeline_of_their_own_runs_and_has_a_status(installed: Environment) -> None:
    work = installed.root / "work"
    (work / "orders").mkdir()
    (work / "orders" / "1.csv").write_text("id,name\n1,one\n2,two\n")
    (work / "own.yml").write_text(OWN)
    assert "2 rows" in installed.run("tidegate", "run", "own.yml")
    found = json.loads(installed.run("tidegate", "status", "own.yml", "--json", "-q"))
    assert (found["sources"][0]["version"], found["sources"][0]["backlog_files"]) == (1, 0)


def test_a_folder_is_ingested_a_bad_line_mended_and_one_new_file_read(installed: Environment) -> None:
    work = installed.root / "work"
    (work / "landing").mkdir()
    (work / "landing" / "monday.csv").write_text("id,price\n1,1.20\n2,8.00\n")
    assert "2 rows" in installed.run("tidegate", "ingest", "landing", "lake/landing", "--save", "landing.yml")
    (work / "landing" / "tuesday.csv").write_text("id,price\n3,4.50\n4,n/a\n")
    assert "1 bad record became a dead letter (tidegate dlq list landing.yml" in installed.run(
        "tidegate", "run", "landing.yml"
    )
    assert "tuesday.csv" in installed.run("tidegate", "dlq", "list", "landing.yml")
    config = (work / "landing.yml").read_text()
    (work / "landing.yml").write_text(config.replace("format: csv", "format: csv\n      csv: {null_values: [n/a]}"))
    assert "1 of 1 letter read again, 1 row committed" in installed.run("tidegate", "dlq", "retry", "landing.yml")
    (work / "landing" / "wednesday.csv").write_text("id,price\n5,2.00\n")
    told = json.loads(installed.run("tidegate", "run", "landing.yml", "--json", "-q"))
    assert [(each["files"], each["rows"]) for each in told["sources"]] == [(1, 1)]


def test_without_java_one_sentence_helps(installed: Environment, tmp_path: Path) -> None:
    no_java = {"PATH": str(tmp_path)}
    told = installed.run(str(installed.python), "-c", WITHOUT_JAVA, "demo", "elsewhere", code=3, env=no_java)
    assert told.splitlines() == [
        "error: no Java 17 or 21 in JAVA_HOME, PATH or the usual folders",
        "remedy: run `tidegate setup`, which finds or installs one, or set JAVA_HOME to a Java 17 or 21; "
        "`--engine local` appends rows without Java",
    ]


@pytest.mark.skipif(not HAS_NATIVE, reason="make dist builds the native reader with cargo")
def test_the_native_reader_is_used(installed: Environment) -> None:
    assert "native (tidegate-native" in installed.run("tidegate", "version")
    assert "exactly once" in installed.run(str(installed.python), str(ROOT / "scripts" / "try_installed.py"))


def test_without_spark_the_local_engine_appends(plain: Environment) -> None:
    work = plain.root / "work"
    (work / "orders").mkdir()
    (work / "orders" / "1.csv").write_text("id,name\n1,one\n2,two\n")
    (work / "own.yml").write_text(OWN)
    assert "2 rows" in plain.run("tidegate", "run", "own.yml", "--engine", "local")
    assert "nothing failed" in plain.run("tidegate", "doctor", "own.yml", "--engine", "local")
    assert "not installed" in plain.run("tidegate", "version")


def test_without_spark_a_run_that_needs_it_says_what_to_install(plain: Environment) -> None:
    (plain.root / "work" / "spark.yml").write_text(OWN)
    (plain.root / "work" / "orders").mkdir(exist_ok=True)
    (plain.root / "work" / "orders" / "9.csv").write_text("id,name\n9,nine\n")
    told = plain.run("tidegate", "run", "spark.yml", code=3)
    assert "pip install 'tidegate[spark]', or append rows without Spark by `--engine local`" in told


@pytest.mark.parametrize("extra", [each for each in EXTRAS if HAS_NATIVE or each != "native"])
def test_each_extra_alone_gives_what_it_is_named_for(plain: Environment, extra: str, tmp_path: Path) -> None:
    alone = Environment(tmp_path)
    (shared,) = (plain.root / "env" / "lib").glob("python*/site-packages")
    (own,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (own / "shared.pth").write_text(f"{shared}\n")
    alone.install("--find-links", str(DIST), f"tidegate[{extra}] @ {only('tidegate-*.whl').as_uri()}")
    alone.run(str(alone.python), "-c", EXTRAS[extra])
