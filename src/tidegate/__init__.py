"""Tidegate moves only what is new into Delta Lake tables, exactly once, on Apache Spark.

>>> import tidegate
>>> report = tidegate.run("pipelines.yml")      # doctest: +SKIP
>>> tidegate.status("pipelines.yml")            # doctest: +SKIP
"""

from tidegate.api import chaos, demo, doctor, load, plan, recover, run, show_watermarks, status
from tidegate.chaos_report import ChaosReport
from tidegate.errors import ConfigError, TidegateError
from tidegate.reports import (
    Check,
    DemoReport,
    FailedFile,
    RunReport,
    SourcePlan,
    SourceReport,
    SourceStatus,
    WatermarkView,
)
from tidegate.specs import (
    Compression,
    Evolution,
    FieldSpec,
    LateFiles,
    Lateness,
    Location,
    Numbers,
    Options,
    ParquetCodec,
    PartitionBy,
    PartitionFilter,
    PathSource,
    PipelineSpec,
    ProjectSpec,
    SchemaSpec,
    SinkSpec,
    SparkSpec,
)

__version__ = "0.1.0"

__all__ = [
    "ChaosReport",
    "Check",
    "Compression",
    "ConfigError",
    "DemoReport",
    "Evolution",
    "FailedFile",
    "FieldSpec",
    "LateFiles",
    "Lateness",
    "Location",
    "Numbers",
    "Options",
    "ParquetCodec",
    "PartitionBy",
    "PartitionFilter",
    "PathSource",
    "PipelineSpec",
    "ProjectSpec",
    "RunReport",
    "SchemaSpec",
    "SinkSpec",
    "SourcePlan",
    "SourceReport",
    "SourceStatus",
    "SparkSpec",
    "TidegateError",
    "WatermarkView",
    "__version__",
    "chaos",
    "demo",
    "doctor",
    "load",
    "plan",
    "recover",
    "run",
    "show_watermarks",
    "status",
]
