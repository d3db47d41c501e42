"""Session settings, read without starting Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from support.errors import raises
from tidegate.errors import ConfigError
from tidegate.spark.jars import CLASS, DELTA, S3, SETTING, python_of_workers, resolve_jars
from tidegate.spark.session import (
    _KEPT_BYTES,
    _keep_settings,
    _not_started,
    _pythons,
    _without_query_logs,
    quick_options,
    settings,
)
from tidegate.specs.masking import Mask
from tidegate.specs.project import SparkSpec


@pytest.mark.parametrize(
    ("spec", "tasks"),
    [
        (SparkSpec(), os.cpu_count()),
        (SparkSpec(master="local"), 1),
        (SparkSpec(master="local[3]"), 3),
        (SparkSpec(master="local[*, 4]"), os.cpu_count()),
        (SparkSpec(master="local-cluster[2,3,1024]"), 6),
        (SparkSpec(remote="local"), os.cpu_count()),
        (SparkSpec(master="spark://host:7077"), 8),
        (SparkSpec(master="yarn", config={"spark.default.parallelism": "40"}), 40),
        (SparkSpec(remote="sc://host", config={"spark.executor.instances": "3", "spark.executor.cores": "4"}), 12),
    ],
)
def test_how_many_tasks_run_at_once_is_read_off_the_configuration(spec: SparkSpec, tasks: int) -> None:
    assert spec.parallelism == tasks


def test_the_session_zone_is_utc_and_the_users_settings_win() -> None:
    chosen = settings(SparkSpec(config={"spark.ui.enabled": "true"}), delta=False)
    assert chosen["spark.sql.session.timeZone"] == "UTC"
    assert chosen["spark.ui.enabled"] == "true"
    assert chosen["spark.driver.host"] == "127.0.0.1"


DRIVER, EXECUTOR = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({}, "-Duser.timezone=UTC"),
        ({DRIVER: "-XX:+UseG1GC", EXECUTOR: "-XX:+UseG1GC"}, "-Duser.timezone=UTC -XX:+UseG1GC"),
        (
            {DRIVER: "-Da='b c' -Duser.timezone=Etc/UTC", EXECUTOR: "-Da='b c' -Duser.timezone=Etc/UTC"},
            "-Duser.timezone=UTC -Da='b c' -Duser.timezone=Etc/UTC",
        ),
    ],
)
def test_options_of_java_are_ours_and_the_users(given: dict[str, str], chosen: str) -> None:
    found = settings(SparkSpec(config=given), delta=False)
    assert [found[DRIVER], found[EXECUTOR]] == [chosen, chosen]


@pytest.mark.parametrize("name", [DRIVER, EXECUTOR])
def test_java_is_not_started_in_another_zone(name: str) -> None:
    """Where a quote is not closed, too: Java may take it nevertheless."""
    for options in ("-Xmx1g -Duser.timezone=Europe/Berlin", "'-Duser.timezone=Europe/Berlin'", "-Duser.timezone=CET '"):
        with raises(ConfigError, "spark.config", name, "-Duser.timezone=", "UTC"):
            settings(SparkSpec(config={name: options}), delta=False)


def test_a_session_without_delta_is_lean_and_the_users_settings_go_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    name = "spark.sql.codegen.wholeStage"
    lean = settings(SparkSpec(), delta=False)
    assert lean[name] == "false"
    assert settings(SparkSpec(config={name: "true"}), delta=False)[name] == "true"
    assert name not in settings(SparkSpec(), delta=True)
    assert quick_options(SparkSpec(), lean, delta=False)[-1] == "-XX:+UseSerialGC"
    assert quick_options(SparkSpec(), settings(SparkSpec(), delta=True), delta=True) == ()
    assert quick_options(SparkSpec(master="spark://host:7077"), lean, delta=False) == ()


def test_java_gets_no_second_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    own = settings(SparkSpec(config={DRIVER: "-XX:+UseZGC"}), delta=False)
    assert "-XX:+UseSerialGC" not in quick_options(SparkSpec(), own, delta=False)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    assert "-XX:+UseSerialGC" not in quick_options(SparkSpec(), settings(SparkSpec(), delta=False), delta=False)


def test_a_cluster_keeps_its_own_addresses() -> None:
    assert "spark.driver.host" not in settings(SparkSpec(master="spark://host:7077"), delta=False)


def test_tables_on_s3_are_committed_to_by_our_log_store() -> None:
    chosen = settings(SparkSpec(), delta=True, packages=(S3,))
    assert chosen[SETTING] == CLASS
    jars = chosen["spark.jars"].split(",")
    assert len(jars) == len(set(jars)) == len(resolve_jars(DELTA)) + len(resolve_jars(S3)) + 1
    with ZipFile(jars[-1]) as log_store:
        assert log_store.namelist() == [CLASS.replace(".", "/") + ".class"]
    assert SETTING not in settings(SparkSpec(), delta=True)


def test_pyspark_does_not_print_the_errors_of_queries_that_it_raises(capfd: pytest.CaptureFixture[str]) -> None:
    from pyspark.logger import PySparkLogger

    _without_query_logs()
    PySparkLogger.getLogger("SQLQueryContextLogger").error("unresolved", errorClass="UNRESOLVED_COLUMN")
    assert capfd.readouterr().err == ""


def test_a_secret_that_is_cut_off_at_the_end_of_the_reason_is_masked(tmp_path: Path) -> None:
    secret = "horse+battery+staple+42"
    for room in range(len(secret) + 1):
        reason = "cannot connect " + "." * (284 - room) + secret + " refused"
        shown = Mask([secret])(str(_not_started("local[*]", tmp_path / "none.log", RuntimeError(reason), Mask())))
        assert not any(secret[:length] in shown for length in range(8, len(secret) + 1)), shown


@pytest.mark.parametrize(
    ("spec", "python"),
    [
        (SparkSpec(), sys.executable),
        (SparkSpec(master="yarn"), "./env/bin/python"),
        (SparkSpec(master="yarn", config={"spark.pyspark.python": "/opt/python"}), "/opt/python"),
        (SparkSpec(config={"spark.pyspark.python": "/opt/python"}), "/opt/python"),
    ],
)
def test_workers_run_on_the_python_that_is_configured_and_on_clusters_on_that_of_the_environment(
    spec: SparkSpec, python: str
) -> None:
    assert python_of_workers(spec, {"PYSPARK_PYTHON": "./env/bin/python"}) == python
    assert python_of_workers(SparkSpec(master="yarn"), {}) == sys.executable


def test_the_kept_log_has_no_secret_not_even_half_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    secret, mask = "horse+battery+staple+42", Mask.of("horse+battery+staple+42")
    log = tmp_path / "spark.log"
    for room in range(len(secret) + 1):
        rest = f"\nkey=horse%2Bbattery%2Bstaple%2B42 {secret}\n"
        log.write_text(f"started\npassword={secret}" + "." * (_KEPT_BYTES - room - len(rest)) + rest)
        kept, said = _keep_settings(log, "spark-run.log", mask)
        assert kept == tmp_path / "home" / "spark-run.log"
        assert (kept.read_text(), said) == ("key=*** ***\n", ["key=*** ***"])
    assert kept.stat().st_mode & 0o077 == 0


def test_the_kept_log_has_no_piece_of_a_secret_that_is_broken_over_lines_or_cut_off_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    secret, log = "horse+battery+staple+42", tmp_path / "spark.log"
    for at in range(6, len(secret)):
        for text, expected in (
            (f"key={secret[:at]}", "key=***"),
            (f"key={secret[:at]}\n{secret[at:]}\n", "key=***\n"),
            (f"key={secret[:at]}\r\n  {secret[at:]}, refused\n", "key=***, refused\n"),
        ):
            log.write_bytes(f"started\n{text}".encode())
            kept, said = _keep_settings(log, "spark-run.log", Mask.of(secret))
            assert kept.read_text() == f"started\n{expected}"
            assert said == ["started", expected.rstrip()]


def test_a_start_that_failed_leaves_a_log_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    log = tmp_path / "spark.log"
    log.write_text("Error: no room: swordfish\n")
    problem = _not_started("local[*]", log, RuntimeError("Java ended"), Mask.of("swordfish"))
    assert (tmp_path / "home" / "spark-start.log").read_text() == "Error: no room: ***\n"
    assert "swordfish" not in str(problem) + "".join(problem.__notes__)


@pytest.mark.parametrize("theirs", [None, "/their/python"])
def test_the_python_of_workers_is_not_left_in_the_environment(
    theirs: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    if theirs is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", theirs)
    with _pythons("/opt/python"):
        assert (os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"]) == ("/opt/python", sys.executable)
    assert (os.environ.get("PYSPARK_PYTHON"), os.environ.get("PYSPARK_DRIVER_PYTHON")) == (theirs, None)
