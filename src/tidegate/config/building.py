"""Checked models → specs, the plain values that everything else works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.config.column_building import Connections, column_source, csv_options, load, state
from tidegate.config.column_models import ColumnSourceModel
from tidegate.config.models import (
    ElementModel,
    ErrorHandlingModel,
    FieldModel,
    PipelineModel,
    ProjectModel,
    SchemaModel,
    SinkModel,
    SourceModel,
    TransformModel,
)
from tidegate.config.unit_building import Sinks, in_order, unit_source
from tidegate.config.unit_models import UnitSourceModel
from tidegate.specs.locations import Location
from tidegate.specs.project import (
    ErrorHandling,
    FieldSpec,
    Maintenance,
    MetricsSpec,
    PartitionBy,
    PartitionFilter,
    PathSource,
    PipelineSpec,
    ProjectSpec,
    ReconcileSpec,
    SchemaSpec,
    SinkSpec,
    SparkSpec,
    StagingSpec,
    Tracking,
    TransformSpec,
)
from tidegate.storage.stores import kept_apart, tables_of

Absolute = Callable[[str], str]


def project(model: ProjectModel, origin: str, absolute: Absolute, notices: tuple[str, ...]) -> ProjectSpec:
    """The specs of a whole file."""
    sinks = {name: _sink(each.sink, absolute) for name, each in model.pipelines.items()}
    spec = ProjectSpec(
        origin=origin,
        pipelines=in_order(
            tuple(_pipeline(name, each, model.connections, sinks, absolute) for name, each in model.pipelines.items())
        ),
        spark=SparkSpec(model.spark.master, model.spark.remote, model.spark.config),
        total_concurrency=model.global_.total_concurrency,
        poll_jitter_secs=model.global_.poll_jitter_secs,
        recovery_max_commits=model.recovery.max_commits,
        commit_deadline_secs=model.global_.commit_deadline_secs,
        metrics=MetricsSpec(model.metrics.enabled, model.metrics.address, model.metrics.legacy_names),
        reconcile=ReconcileSpec(model.reconcile.every.fixed, model.reconcile.ingest),
        notices=notices,
        state=state(model.state, absolute),
    )
    tables = tables_of(spec)
    return replace(spec, pipelines=tuple(_kept_apart(each, tables) for each in spec.pipelines))


def _kept_apart(pipeline: PipelineSpec, tables: tuple[str, ...]) -> PipelineSpec:
    """The pipeline with sources of files that know where the tables of the whole file are."""
    return replace(pipeline, sources=tuple(kept_apart(source, tables) for source in pipeline.sources))


def _pipeline(
    name: str, model: PipelineModel, connections: Connections, sinks: Sinks, absolute: Absolute
) -> PipelineSpec:
    return PipelineSpec(
        name=name,
        sources=tuple(
            _source(each, source, absolute) for each, source in model.sources.items() if isinstance(source, SourceModel)
        ),
        column_sources=tuple(
            column_source(each, source, connections, absolute)
            for each, source in model.sources.items()
            if isinstance(source, ColumnSourceModel)
        ),
        unit_sources=tuple(
            unit_source(each, source, connections, sinks, sinks[name], absolute)
            for each, source in model.sources.items()
            if isinstance(source, UnitSourceModel)
        ),
        schema=_schema(model.schema_, model),
        sink=sinks[name],
        max_concurrent_files=model.max_concurrent_files,
        error_handling=_error_handling(model.error_handling, absolute),
        delivery=model.delivery,
        staging=StagingSpec(
            model.staging.archive, model.staging.max_files_per_commit, model.staging.poll_interval_secs
        ),
        transform=_transform(model.transform),
        on_conflict=model.on_conflict,
    )


def _transform(model: TransformModel) -> TransformSpec | None:
    return TransformSpec(model.sql, model.python) if model.sql or model.python else None


def _source(name: str, model: SourceModel, absolute: Absolute) -> PathSource:
    bounds = model.partition_filter
    return PathSource(
        name=name,
        location=Location(absolute(model.source_uri), model.storage_options),
        pattern=model.pattern,
        exclude=model.exclude,
        follow_links=model.follow_links,
        compression=model.compression,
        format=model.format,
        csv=csv_options(model.csv),
        partition_filter=PartitionFilter(bounds.prefix_template, bounds.lookback) if bounds else None,
        late_files=model.late_files,
        late_window=model.late_window,
        late_window_total=model.late_window_total,
        lateness=model.lateness,
        deep_listing_every=model.deep_listing_every,
        max_attempts=model.max_attempts,
        max_islands=model.max_islands,
        batch_size=model.batch_size,
        interval_files=model.checkpoint.interval_files,
        interval_secs=model.checkpoint.interval_secs,
        mirror_legacy=model.checkpoint.mirror_legacy,
        poll_interval_secs=model.poll_interval_secs,
        tracking=Tracking.WATERMARK if model.use_watermark else Tracking.SET,
    )


def _schema(model: SchemaModel, pipeline: PipelineModel) -> SchemaSpec:
    return SchemaSpec(
        fields=tuple(_field(field.name, field) for field in model.fields),
        infer=not model.fields,
        coerce_conflicts_to_utf8=model.coerce_conflicts_to_utf8,
        evolution=pipeline.schema_evolution,
        numbers=model.numbers,
        rescued=model.rescued,
    )


def _field(name: str, model: ElementModel) -> FieldSpec:
    return FieldSpec(
        name=name,
        type=model.type,
        nullable=model.nullable,
        fields=tuple(_field(field.name, field) for field in model.fields),
        items=_child("element", model.items),
        keys=_child("key", model.keys),
        values=_child("value", model.values),
    )


def _child(name: str, model: ElementModel | FieldModel | None) -> FieldSpec | None:
    return _field(name, model) if model is not None else None


def _sink(model: SinkModel, absolute: Absolute) -> SinkSpec:
    by = model.partition_by
    return SinkSpec(
        table=Location(absolute(model.table_uri), model.storage_options, model.sync),
        partition_by=PartitionBy(by.prefix_template, by.column) if by else None,
        file_size_mb=model.file_size_mb,
        row_group_size_bytes=model.row_group_size_bytes,
        compression=model.compression,
        rollover_timeout_secs=model.rollover_timeout_secs,
        inactivity_timeout_secs=model.inactivity_timeout_secs,
        commit_batch_files=model.commit_batch_files,
        delta_checkpoint_interval=model.delta_checkpoint_interval,
        metadata_columns=model.metadata_columns,
        max_concurrent_uploads=model.max_concurrent_uploads,
        part_size_mb=model.part_size_mb,
        min_multipart_size_mb=model.min_multipart_size_mb,
        max_concurrent_parts=model.max_concurrent_parts,
        maintenance=Maintenance(
            model.maintenance.optimize_every_commits,
            model.maintenance.vacuum_every_commits,
            model.maintenance.vacuum_retention_hours,
        ),
        table_properties=model.table_properties,
        load=load(model),
    )


def _error_handling(model: ErrorHandlingModel, absolute: Absolute) -> ErrorHandling:
    letters = absolute(model.dlq_path) if model.dlq_path else None
    return ErrorHandling(
        model.on_bad_record, model.max_failures, model.max_bad_records, model.max_bad_fraction, letters
    )
