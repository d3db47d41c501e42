"""``config show``: the specs as a configuration file again, with every default and without any secret.

What it prints loads to the same specs, except for the secrets, which are masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from tidegate.config.column_canonical import column_source, connections, csv_keys, duration, load_keys, state_keys
from tidegate.config.notes import WATERMARK_ONLY
from tidegate.config.problems import masked
from tidegate.config.unit_canonical import unit_source
from tidegate.specs.locations import Location
from tidegate.specs.masking import MASK, looks_secret
from tidegate.specs.project import (
    FieldSpec,
    Format,
    Lateness,
    PathSource,
    PipelineSpec,
    ProjectSpec,
    ReconcileSpec,
    SchemaSpec,
    SparkSpec,
    Tracking,
    TransformSpec,
)


def show(project: ProjectSpec) -> str:
    """The canonical YAML of ``project``."""
    return yaml.safe_dump(as_data(project), sort_keys=False, allow_unicode=True, width=100)


def as_data(project: ProjectSpec) -> dict[str, Any]:
    """The canonical form as plain data."""
    found = connections(project.pipelines)
    return {
        **({"connections": found} if found else {}),
        "pipelines": {pipeline.name: _pipeline(pipeline) for pipeline in project.pipelines},
        "spark": _spark(project.spark),
        "global": {
            "total_concurrency": project.total_concurrency,
            "poll_jitter_secs": project.poll_jitter_secs,
            "commit_deadline_secs": project.commit_deadline_secs,
        },
        "recovery": {"max_commits": project.recovery_max_commits},
        "reconcile": {"every": _every(project.reconcile), "ingest": project.reconcile.ingest},
        "metrics": {
            "enabled": project.metrics.enabled,
            "address": project.metrics.address,
            "legacy_names": project.metrics.legacy_names,
        },
        "state": state_keys(project.state),
    }


def _pipeline(pipeline: PipelineSpec) -> dict[str, Any]:
    errors = pipeline.error_handling
    return {
        "sources": {
            **{source.name: _source(source) for source in pipeline.sources},
            **{source.name: column_source(pipeline, source) for source in pipeline.column_sources},
            **{source.name: unit_source(pipeline, source) for source in pipeline.unit_sources},
        },
        "schema": _schema(pipeline.schema),
        "schema_evolution": pipeline.schema.evolution.value,
        "transform": _transform(pipeline.transform or TransformSpec()),
        "sink": _sink(pipeline),
        "delivery": pipeline.delivery.value,
        "staging": {
            "archive": pipeline.staging.archive,
            "max_files_per_commit": pipeline.staging.max_files_per_commit,
            "poll_interval_secs": pipeline.staging.poll_interval_secs,
        },
        "on_conflict": None if pipeline.on_conflict is None else pipeline.on_conflict.value,
        "max_concurrent_files": pipeline.max_concurrent_files,
        "error_handling": {
            "on_bad_record": errors.on_bad_record.value,
            "max_failures": errors.max_failures,
            "max_bad_records": errors.max_bad_records,
            "max_bad_fraction": errors.max_bad_fraction,
            "dlq_path": errors.dlq_uri,
        },
    }


def _transform(transform: TransformSpec) -> dict[str, Any]:
    return {"sql": transform.sql, "python": transform.python}


def _source(source: PathSource) -> dict[str, Any]:
    data = _source_keys(source)
    if source.format is not Format.CSV:
        del data["csv"]
    if source.tracking is Tracking.WATERMARK:
        return data
    return {key: value for key, value in data.items() if key not in ("partition_filter", *WATERMARK_ONLY)}


def _source_keys(source: PathSource) -> dict[str, Any]:
    bounds = source.partition_filter
    return {
        "type": "files",
        "source_uri": masked(source.location.uri),
        "use_watermark": source.tracking is Tracking.WATERMARK,
        "pattern": source.pattern,
        "exclude": list(source.exclude),
        "follow_links": source.follow_links,
        "compression": source.compression.value,
        "format": source.format.value,
        "csv": csv_keys(source.csv),
        "batch_size": source.batch_size,
        "poll_interval_secs": source.poll_interval_secs,
        "max_attempts": source.max_attempts,
        "partition_filter": {"prefix_template": bounds.prefix_template, "lookback": bounds.lookback}
        if bounds
        else None,
        "checkpoint": {
            "interval_files": source.interval_files,
            "interval_secs": source.interval_secs,
            "mirror_legacy": source.mirror_legacy,
        },
        "late_files": source.late_files.value,
        "late_window": source.late_window,
        "late_window_total": source.late_window_total,
        "lateness": lateness_text(source.lateness),
        "deep_listing_every": source.deep_listing_every,
        "max_islands": source.max_islands,
        "storage_options": _hidden(source.location),
    }


def lateness_text(lateness: Lateness) -> str:
    """A lateness as the file has it.

    >>> lateness_text(Lateness())
    '48 periods'
    """
    if lateness.never:
        return "none"
    if lateness.fixed is None:
        return f"{lateness.periods} periods"
    return duration(lateness.fixed)


def _every(reconcile: ReconcileSpec) -> str:
    return duration(reconcile.every)


def _schema(schema: SchemaSpec) -> dict[str, Any]:
    columns: dict[str, Any] = {"fields": [_field(field) for field in schema.fields]} if schema.fields else {}
    return {
        **columns,
        "infer": schema.infer,
        "coerce_conflicts_to_utf8": schema.coerce_conflicts_to_utf8,
        "numbers": schema.numbers.value,
        "rescued": schema.rescued,
    }


def _field(field: FieldSpec, named: bool = True) -> dict[str, Any]:
    data: dict[str, Any] = {"name": field.name} if named else {}
    data |= {"type": field.type, "nullable": field.nullable}
    if field.fields:
        data["fields"] = [_field(child) for child in field.fields]
    for key, child in (("items", field.items), ("keys", field.keys), ("values", field.values)):
        if child is not None:
            data[key] = _field(child, named=False)
    return data


def _sink(pipeline: PipelineSpec) -> dict[str, Any]:
    sink = pipeline.sink
    by = sink.partition_by
    return {
        "table_uri": masked(sink.table.uri),
        **load_keys(pipeline),
        "partition_by": {"prefix_template": by.prefix_template, "column": by.column} if by else None,
        "file_size_mb": sink.file_size_mb,
        "row_group_size_bytes": sink.row_group_size_bytes,
        "compression": sink.compression.value,
        "rollover_timeout_secs": sink.rollover_timeout_secs,
        "inactivity_timeout_secs": sink.inactivity_timeout_secs,
        "commit_batch_files": sink.commit_batch_files,
        "delta_checkpoint_interval": sink.delta_checkpoint_interval,
        "sync": sink.table.sync,
        "metadata_columns": list(sink.metadata_columns),
        "max_concurrent_uploads": sink.max_concurrent_uploads,
        "part_size_mb": sink.part_size_mb,
        "min_multipart_size_mb": sink.min_multipart_size_mb,
        "max_concurrent_parts": sink.max_concurrent_parts,
        "maintenance": {
            "optimize_every_commits": sink.maintenance.optimize_every_commits,
            "vacuum_every_commits": sink.maintenance.vacuum_every_commits,
            "vacuum_retention_hours": sink.maintenance.vacuum_retention_hours,
        },
        "table_properties": dict(sink.table_properties),
        "storage_options": _hidden(sink.table),
    }


def _hidden(location: Location) -> dict[str, str]:
    return dict.fromkeys(location.options, MASK)


def _spark(spark: SparkSpec) -> dict[str, Any]:
    remote = masked(spark.remote) if spark.remote is not None else None
    return {"master": spark.master, "remote": remote, "config": _settings(spark.config)}


def _settings(config: Mapping[str, str]) -> dict[str, str]:
    """Spark settings; one whose name or value looks like a secret is masked whole."""
    return {
        name: MASK if looks_secret(name) or looks_secret(value) else masked(value) for name, value in config.items()
    }
