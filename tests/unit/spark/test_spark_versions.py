"""What goes with each version of Spark, and which versions are refused."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from support.errors import raises
from tidegate.errors import EnvironmentProblem
from tidegate.spark import jars
from tidegate.spark.jars import DELTA, RELEASES, S3, SparkRelease, check_version, coordinate_of, runtime, spark_home


@pytest.mark.parametrize(
    ("version", "delta", "s3"),
    [
        ("4.0.5", "io.delta:delta-spark_4.0_2.13:4.4.0", "org.apache.hadoop:hadoop-aws:3.4.1"),
        ("4.1.4", "io.delta:delta-spark_4.1_2.13:4.4.0", "org.apache.hadoop:hadoop-aws:3.4.2"),
        ("4.2.1", "io.delta:delta-spark_4.2_2.13:4.4.0", "org.apache.hadoop:hadoop-aws:3.5.0"),
    ],
)
def test_delta_and_hadoop_follow_the_read_spark_version(
    monkeypatch: pytest.MonkeyPatch, version: str, delta: str, s3: str
) -> None:
    monkeypatch.setattr(jars, "read_spark_version", lambda: version)
    assert (coordinate_of(DELTA), coordinate_of(S3)) == (delta, s3)


@pytest.mark.parametrize("version", ["3.5.6", "4.3.0", "4.20.0", "5.0.0"])
def test_a_spark_that_delta_has_no_jars_for_is_refused_by_name(version: str) -> None:
    with raises(EnvironmentProblem, f"Spark {version}", "4.0, 4.1, 4.2") as problem:
        check_version(version)
    assert "pip install 'pyspark>=4.0,<4.3'" in problem.value.remedy


def test_hadoop_and_its_sdk_are_those_of_the_read_spark_version() -> None:
    of_spark = {path.name for path in (spark_home() / "jars").glob("hadoop-client-api-*.jar")}
    assert of_spark == {f"hadoop-client-api-{runtime().hadoop}.jar"}


@pytest.mark.parametrize("each", RELEASES, ids=lambda each: each.spark)
def test_the_pinned_sdk_is_the_one_that_is_asked_for(each: SparkRelease) -> None:
    of_sdk = [name for name in jars.pinned_digests()[each.s3] if name.startswith("software.amazon.awssdk_")]
    assert of_sdk
    assert {Path(name).stem.rpartition("-")[2] for name in of_sdk} == {each.aws_sdk}


@pytest.mark.parametrize("each", RELEASES, ids=lambda each: each.spark)
def test_every_log_store_is_there_under_one_class_name(each: SparkRelease) -> None:
    source = files("tidegate.spark").joinpath(each.log_store).read_text()
    package, _, name = jars.CLASS.rpartition(".")
    assert f"package {package};" in source
    assert f"class {name} " in source
