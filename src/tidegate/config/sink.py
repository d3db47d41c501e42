"""The table and how its files are written: partition columns, sizes, maintenance, properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, WithJsonSchema

from tidegate.column_specs import Load
from tidegate.config import values as v
from tidegate.config.document import Absolute, Scalar, Spot
from tidegate.config.file_source import directive_problem, fields_of, shape_problem
from tidegate.config.load_strategy import LoadModel, keys_of
from tidegate.config.models import Model, dump, entry, fields, fill, section
from tidegate.config.problems import Problem, masked, nearest, sentence
from tidegate.config.values import names_to_texts, one_of, refusal, text, texts
from tidegate.locations import Location, Options
from tidegate.schema.names import MADE_COLUMNS
from tidegate.specs import Maintenance, ParquetCodec, PartitionBy, PipelineSpec, SinkSpec
from tidegate.table_properties import why_not

_NO_KEYS = ("struct", "list", "map", "float32", "float64", "binary")
METADATA_COLUMNS = MADE_COLUMNS


def directories(value: object) -> str:
    """A template of directories, without slashes around it."""
    return text(value).strip("/")


def columns(value: object) -> tuple[str, ...]:
    """Names of metadata columns, each once."""
    found = texts(value)
    for name in found:
        if name not in METADATA_COLUMNS:
            raise refusal(
                f"holds an unknown column; allowed: {', '.join(METADATA_COLUMNS)}",
                nearest(name, METADATA_COLUMNS),
            )
    return tuple(name for name in METADATA_COLUMNS if name in found)


Directories = Annotated[str, BeforeValidator(directories)]
TableProperties = Annotated[dict[str, str], BeforeValidator(names_to_texts), v.OBJECT]
MetadataColumns = Annotated[
    tuple[str, ...],
    BeforeValidator(columns),
    WithJsonSchema({"type": "array", "items": {"enum": list(METADATA_COLUMNS)}}),
]
Codec = Annotated[ParquetCodec, one_of(ParquetCodec)]


class PartitionByModel(Model):
    """How the table is partitioned."""

    spec: ClassVar = PartitionBy
    prefix_template: Directories = entry("The partition columns as directories, such as date=%Y-%m-%d/hour=%H.")
    column: v.Text | None = entry(
        "The timestamp or date column that the template formats; else the source path is used.", None
    )


class MaintenanceModel(Model):
    """What a run does for its table after commits."""

    spec: ClassVar = Maintenance
    optimize_every_commits: v.CountOrNone = entry(
        "Small files are put together after this many commits of a source; 0 = never.", 0
    )
    vacuum_every_commits: v.CountOrNone = entry(
        "Files that left the table are removed after this many commits of a source; 0 = never.", 0
    )
    vacuum_retention_hours: v.Whole = entry(
        "How long files that left the table are kept for readers.", 168, ge=24, le=87_600
    )


class SinkModel(LoadModel):
    """The table and how its files are written."""

    at: ClassVar = {**LoadModel.at, "sync": "table.sync", "storage_options": "table.options"}
    partition_by: PartitionByModel | None = entry("Partition columns of the table.", None)
    file_size_mb: v.Whole = entry(
        "A Parquet file is finished at this size (MB of 1,048,576 bytes).", 128, ge=1, le=65_536
    )
    row_group_size_bytes: v.Whole = entry(
        "A row group is written at this many buffered bytes.", 134_217_728, ge=65_536, le=2**33
    )
    compression: Codec = entry("Parquet compression.", ParquetCodec.SNAPPY)
    rollover_timeout_secs: v.Count | None = entry(
        "A file is finished after being open this long; unset: off, 300 in continuous runs.", None
    )
    inactivity_timeout_secs: v.Count | None = entry(
        "A file is finished after this long without a write; unset: off, 60 in continuous runs.", None
    )
    commit_batch_files: v.Whole = entry("A commit is due after this many Parquet files.", 10, ge=1, le=10_000)
    delta_checkpoint_interval: v.CountOrNone = entry("A Delta checkpoint every this many commits; 0 = never.", 10)
    sync: v.Flag = entry("On local disks: force files, documents and log entries to disk before a commit counts.", True)
    metadata_columns: MetadataColumns = entry("Extra columns: _source_file, _source_record, _ingested_at.", ())
    max_concurrent_uploads: v.Count = entry("Files uploaded at once.", 4)
    part_size_mb: v.Whole = entry("Part size of multipart uploads.", 32, ge=5, le=5120)
    min_multipart_size_mb: v.Count = entry("Smaller files are uploaded by one request.", 5)
    max_concurrent_parts: v.Count = entry("Parts uploaded at once.", 8)
    maintenance: MaintenanceModel = section(MaintenanceModel, "Table care after commits.")
    table_properties: TableProperties = entry(
        "Properties of the Delta table, set when it is created and when they change.", default_factory=dict
    )
    storage_options: v.SecretOptions = entry(
        "Settings and credentials of the object store; never shown.", default_factory=Options
    )

    def sink(self, absolute: Absolute) -> SinkSpec:
        """The table with its load strategy."""
        table = Location(absolute(self.table_uri), self.storage_options, self.sync)
        return fill(SinkSpec, self, table=table, load=fill(Load, self))

    @classmethod
    def shown_of(cls, pipeline: PipelineSpec) -> dict[str, Any]:
        """The sink of a pipeline; of its load strategy the keys that mean something."""
        spec = pipeline.sink
        loading = keys_of(pipeline)
        others = [key for key in fields(cls) if key not in fields(LoadModel)]
        keys = ("table_uri", "load_type", "format", *loading, *others)
        strategy = dump(cls, spec.load, ("load_type", *loading))
        return dump(cls, spec, keys, {"table_uri": masked(spec.table.uri), "format": "delta", **strategy})


def property_problems(sink: Spot) -> Iterator[Problem]:
    """Each property of the table that a configuration may not set."""
    for key, value in sink.below("table_properties").block.items():
        reason = why_not(str(key), str(value)) if isinstance(value, Scalar) and not value.broken else None
        if reason is not None:
            yield sink.problem(f"cannot be set here; {reason}", "table_properties", key)


def partition_keys(template: str) -> tuple[str, ...]:
    """The partition columns that a template names.

    >>> partition_keys("date=%Y-%m-%d/country")
    ('date', 'country')
    """
    return tuple(part.partition("=")[0] for part in template.strip("/").split("/"))


def partition_problems(sink: Spot, declared: Mapping[str, str] | None) -> Iterator[Problem]:
    """Problems of ``sink.partition_by``; ``declared`` is type by column, None: inferred."""
    by = sink.below("partition_by")
    template, column = by.text("prefix_template"), by.text("column")
    if template is None or not template.strip():
        return
    plain = template.strip("/")
    if wrong := _template_problem(plain, column):
        yield by.problem(wrong, "prefix_template")
    elif declared is not None:
        if column is not None and (wrong := _column_problem(plain, str(column), declared)):
            yield by.problem(wrong, "column")
        for wrong in _key_problems(plain, column, declared):
            yield by.problem(wrong, "prefix_template")


def _template_problem(template: str, column: str | None) -> str:
    if wrong := shape_problem(template) or (directive_problem(template) if column is not None else ""):
        return f"the template {wrong}"
    keys = partition_keys(template)
    if any(not key or "%" in key for key in keys):
        return "each directory is 'key=…' or a key alone, such as date=%Y-%m-%d/hour=%H"
    if len({key.lower() for key in keys}) < len(keys):
        return "a key occurs twice; allowed: each once"
    constant = [part for part in template.split("/") if "=" in part and not fields_of(part)]
    if column is not None and constant:
        return f"{constant[0]!r} has no field of time; allowed: %Y %m %d %H %F, or the key alone"
    return ""


def _column_problem(template: str, column: str, declared: Mapping[str, str]) -> str:
    fields = fields_of(template)
    kind = next((kind for name, kind in declared.items() if name.lower() == column.lower()), None)
    if kind is None:
        names = f"allowed: {', '.join(declared)}"
        return sentence(f"{column!r} is not a declared column", names, nearest(column, declared))
    if fields and kind not in ("timestamp", "date"):
        return f"{column!r} is of type {kind}; allowed: a timestamp or date column"
    if kind == "date" and "hour" in fields:
        return f"{column!r} is a date and has no hours; allowed: a timestamp column, or no %H"
    return ""


def _key_problems(template: str, column: str | None, declared: Mapping[str, str]) -> Iterator[str]:
    """Keys that are declared columns too, or that would take values which make no directory."""
    same = {name.lower(): name for name in declared}
    for part in template.split("/"):
        key = part.partition("=")[0]
        itself = column is not None and part == key and key in declared
        if key.lower() in same and not itself:
            yield f"{key!r} is a declared column too; allowed: a new name"
        elif column is not None and part == key:
            taken = same.get((key if itself else str(column)).lower(), key)
            if declared.get(taken) in _NO_KEYS:
                yield f"{taken!r} is of type {declared[taken]}, which makes no directory; take another column"
