"""Programs on the Spark of this test run: a process of their own for Python, and the Java machine that runs already.

A Java machine of its own costs ten seconds and comes cold. Where the driver's Python is killed, stopped or raced, it
has nothing to do with that: at a failpoint no query runs. Tests of the end of whole process trees start their own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from support import scripts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(__file__).parents[1]
PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
RUN = """
import sys
from support.attached import attach
attach()
import tidegate
report = tidegate.run(sys.argv[1])
for source in report.sources:
    if source.error:
        print(source.error)
sys.exit(not report.ok)
"""


def start(session: SparkSession, *words: str | Path, failpoints: str = "") -> scripts.Process:
    """Begin a program in a process of its own; it calls :func:`attach`, and has the Java machine of ``session``."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    address = {PORT: str(gateway.gateway_parameters.port), SECRET: str(gateway.gateway_parameters.auth_token)}
    return scripts.start(*words, failpoints=failpoints, env=address)


def start_run(session: SparkSession, config: Path, failpoints: str = "") -> scripts.Process:
    """Begin a run of everything in ``config``, which ends with 0 where all went well."""
    return start(session, "-c", RUN, config, failpoints=failpoints)


def attach() -> None:
    """Make a session on the Java machine whose address is in the environment the one of this process."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    SparkContext._ensure_initialized()
    java = SparkContext._jvm
    assert java is not None
    context = java.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(
        java.org.apache.spark.SparkContext.getOrCreate()
    )
    SparkContext(conf=SparkConf(_jconf=context.getConf()), jsc=context)
    SparkSession.builder.getOrCreate()
