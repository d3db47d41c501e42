"""Tidegate moves only what is new into Delta Lake tables, exactly once, on Apache Spark.

>>> import tidegate
>>> report = tidegate.run("pipelines.yml")      # doctest: +SKIP
>>> tidegate.status("pipelines.yml")            # doctest: +SKIP
"""

from tidegate.api import demo, doctor, load, plan, reconcile, recover, run, show_watermarks, status
from tidegate.comparisons import DataFileFound, Files, Found, ReconcileReport, SourceComparison, TableComparison
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
    "Check",
    "Compression",
    "ConfigError",
    "DataFileFound",
    "DemoReport",
    "Evolution",
    "FailedFile",
    "FieldSpec",
    "Files",
    "Found",
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
    "ReconcileReport",
    "RunReport",
    "SchemaSpec",
    "SinkSpec",
    "SourceComparison",
    "SourcePlan",
    "SourceReport",
    "SourceStatus",
    "SparkSpec",
    "TableComparison",
    "TidegateError",
    "WatermarkView",
    "__version__",
    "demo",
    "doctor",
    "load",
    "plan",
    "reconcile",
    "recover",
    "run",
    "show_watermarks",
    "status",
]
