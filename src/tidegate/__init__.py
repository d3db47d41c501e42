"""Tidegate moves only what is new into Delta Lake tables, exactly once, on Apache Spark.

>>> import tidegate
>>> report = tidegate.run("pipelines.yml")      # doctest: +SKIP
>>> tidegate.status("pipelines.yml")            # doctest: +SKIP
"""

from tidegate.api import (
    demo,
    doctor,
    load,
    plan,
    recover,
    replay,
    reset_watermark,
    run,
    set_watermark,
    show_watermarks,
    status,
)
from tidegate.corrections import FileSet, ReplayReport, WatermarkMove
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
    "DemoReport",
    "Evolution",
    "FailedFile",
    "FieldSpec",
    "FileSet",
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
    "ReplayReport",
    "RunReport",
    "SchemaSpec",
    "SinkSpec",
    "SourcePlan",
    "SourceReport",
    "SourceStatus",
    "SparkSpec",
    "TidegateError",
    "WatermarkMove",
    "WatermarkView",
    "__version__",
    "demo",
    "doctor",
    "load",
    "plan",
    "recover",
    "replay",
    "reset_watermark",
    "run",
    "set_watermark",
    "show_watermarks",
    "status",
]
