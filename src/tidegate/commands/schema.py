"""The columns of a pipeline: infer, show, compare, replace them.

Replacing removes rows, so it follows the commit protocol like a replay; the position stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa

from tidegate.commands.project import Config, agree, file_sources
from tidegate.commands.table import rewrite_report
from tidegate.core.files.plan import FileSlice
from tidegate.errors import (
    ConfigError,
    ReplacesTable,
    SchemaMismatch,
    SourceError,
    StateError,
    TableError,
    TidegateError,
)
from tidegate.formats.samples import spread
from tidegate.protocol.change import Change, NextState, ReplaceRows
from tidegate.protocol.position import InferredSchema, Position
from tidegate.protocol.table import Snapshot, no_rows
from tidegate.protocol.table import arrow_schema as arrow_schema_table
from tidegate.protocol.table_checks import check_partitioning, check_replaceable, costs_rows
from tidegate.reports.table import (
    ColumnSeen,
    SchemaChange,
    SchemaColumn,
    SchemaDiff,
    SchemaInference,
    SchemaView,
    TableRewrite,
)
from tidegate.reports.wording import count
from tidegate.runs.file_source import FILES_PER_PLAN, FileSource, discover_files
from tidegate.runs.lanes import fields_of_table, find_known_fields, make_columns, read_remembered, with_rescued
from tidegate.runs.lanes import sample as sample_files
from tidegate.runs.pass_ import CommitCommand, Pass
from tidegate.runs.tracker import PassRules
from tidegate.schema.evolution import Difference, Kind, differences
from tidegate.schema.inference import FieldReport, Inference, check_agreement
from tidegate.schema.names import merge_fields, yaml_lines
from tidegate.schema.types import arrow_schema, paths_of
from tidegate.specs.table import Evolution, FieldSpec

EFFECTS = {
    Kind.NEW: "added to the table, null in its old rows",
    Kind.MISSING: "null in new rows",
    Kind.NARROWER_FILE: "written with the table's type",
}
"""The effect on a run of each difference that does not stop it."""

_TRANSFORMED = "the pipeline has a transform: the table takes the columns of its result, which only a run knows"


def infer_schema(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    sample: int = 1000,
    update: bool = False,
    confirm: Callable[[SchemaInference], bool] = agree,
) -> SchemaInference:
    """Infer columns from the first ``sample`` lines of up to ten files. Changes nothing.

    With ``update``, adds missing fields to the remembered schema of the pipeline if ``confirm`` agrees.
    """
    bound = file_sources(config, pipeline, source)[0]
    if update:
        return _update(bound, sample, confirm)
    return _inference_report(bound, _look(bound, sample), read_remembered(bound))


def _update(bound: FileSource, lines: int, confirm: Callable[[SchemaInference], bool]) -> SchemaInference:
    """Add missing fields to the remembered schema, if ``confirm`` agrees.

    Without a table, or if the remembered schema is damaged, the new columns replace the old ones.
    """
    if bound.pipeline.schema.fields:
        raise TidegateError(
            f"{bound.pipeline.name}: schema.fields are declared, so no inferred schema is used",
            "change the declared fields in the configuration",
        )
    memory = InferredSchema(bound.table_store, bound.pipeline.name)
    found, files = _look(bound, lines)
    remembered, is_damaged = _read_memory(memory)
    before = _columns_to_extend(bound, remembered)
    report = _inference_report(bound, (found, files), before)
    if not report.new and before is not None and not is_damaged:
        return report
    check_agreement(found)
    # Only for its checks: remembered columns that the sink cannot take would fail every later run.
    make_columns(bound.pipeline, with_rescued(bound.pipeline, found.fields))
    if not confirm(report):
        return report
    if before is None:
        memory.replace(found)
    else:
        memory.replace(replace(before, fields=merge_fields(before.fields, found.fields), report=found.report))
    return replace(report, applied=True)


def _read_memory(memory: InferredSchema) -> tuple[Inference | None, bool]:
    """The remembered columns, and whether they are damaged: this command repairs them, so it must not stop there."""
    try:
        return memory.read(), False
    except StateError:
        return None, True


def _columns_to_extend(bound: FileSource, remembered: Inference | None) -> Inference | None:
    """The columns to add new ones to: the remembered or, if these are lost, the table's."""
    table = bound.positions.table_schema()
    if table is None:
        return None
    if remembered is not None or bound.pipeline.transform is not None:
        return remembered
    return Inference(fields_of_table(bound.pipeline, table), (), 0)


def _look(bound: FileSource, lines: int) -> tuple[Inference, int]:
    listing = discover_files(bound, bound.tracker.decode(None), datetime.now(UTC), limit=FILES_PER_PLAN)
    files = [FileSlice(file.path, file.size, file.etag) for file in listing.files]
    if not files:
        raise SourceError(f"{bound.key}: there is no file to sample", "wait for data, or check source_uri and pattern")
    chosen = spread(files)
    return sample_files(bound, chosen, lines), len(chosen)


def _inference_report(
    bound: FileSource, looked: tuple[Inference, int], remembered: Inference | None
) -> SchemaInference:
    found, files = looked
    known = {} if remembered is None else dict(paths_of(arrow_schema(remembered.fields)))
    ours = dict(paths_of(arrow_schema(found.fields)))
    return SchemaInference(
        pipeline=bound.pipeline.name,
        source=bound.source.name,
        files=files,
        records=found.records,
        unreadable=found.unreadable,
        columns=tuple(_column(each) for each in found.report),
        problems=found.problems,
        yaml=yaml_of(found.fields, found.report),
        new=tuple(path for path in ours if path not in known) if remembered is not None else (),
    )


def _column(report: FieldReport) -> ColumnSeen:
    return ColumnSeen(
        path=report.path,
        type=report.type,
        records=report.records,
        seen=report.seen,
        nulls=report.nulls,
        absent=report.absent,
        confidence=report.confidence,
        kinds=dict(report.kinds),
        examples=dict(report.examples),
        note=report.note,
    )


def yaml_of(fields: tuple[FieldSpec, ...], report: tuple[FieldReport, ...] = ()) -> str:
    """Columns as they are written in a configuration; uncertain ones with the reason as a comment.

    >>> print(yaml_of((FieldSpec("id", "int64"),)))
    schema:
      fields:
        - {name: id, type: int64}
    """
    told = {each.path: each for each in report}
    texts = zip(fields, yaml_lines(fields), strict=True)
    lines = [f"    - {text}{_remark(told.get(field.name))}" for field, text in texts]
    return "\n".join(["schema:", "  fields:", *lines])


def _remark(report: FieldReport | None) -> str:
    if report is None or report.confidence == "high":
        return ""
    return f"  # {report.note or 'only ' + count(report.seen, 'value')}"


def show_schema(config: Config, pipeline: str) -> SchemaView:
    """The declared, remembered and actual columns of a pipeline, side by side. Changes nothing."""
    bound = file_sources(config, pipeline)[0]
    spec = bound.pipeline
    remembered = read_remembered(bound)
    opened = bound.positions.site.delta.snapshot()
    table = bound.positions.table_schema()
    sides = [
        {} if fields is None else dict(paths_of(fields))
        for fields in (
            arrow_schema(spec.schema.fields) if spec.schema.fields else None,
            None if remembered is None else arrow_schema(remembered.fields),
            table,
        )
    ]
    paths = dict.fromkeys(path for side in reversed(sides) for path in side)
    return SchemaView(
        pipeline=spec.name,
        table_uri=spec.sink.table.uri,
        table_version=None if opened is None else opened.facts.version,
        evolution=spec.schema.evolution.value,
        columns=tuple(SchemaColumn(path, *(side.get(path) for side in sides)) for path in paths),
        notes=tuple(_notes(bound, remembered)),
    )


def _notes(bound: FileSource, remembered: Inference | None) -> Iterator[str]:
    if bound.pipeline.transform is not None:
        yield _TRANSFORMED
    if bound.pipeline.schema.fields:
        if remembered is not None:
            yield "schema.fields are declared: the remembered schema is not used"
    elif remembered is None:
        yield (
            "nothing is declared or remembered: the next run takes the columns of the table, or infers them from a "
            "sample"
        )


def diff_schema(config: Config, pipeline: str) -> SchemaDiff:
    """How the next run would change the columns of the table. Changes nothing."""
    return compare_columns(file_sources(config, pipeline)[0])


def compare_columns(bound: FileSource) -> SchemaDiff:
    """How the next run of a source would change the columns of its table."""
    pipeline = bound.pipeline
    opened = bound.positions.open(read_only=True)
    if pipeline.transform is not None:
        evolution = pipeline.schema.evolution.value
        return SchemaDiff(pipeline.name, pipeline.sink.table.uri, evolution, (), ok=True, notes=(_TRANSFORMED,))
    table = opened.schema()
    known = find_known_fields(bound, table)
    fields = None if known is None else with_rescued(pipeline, known)
    notes: tuple[str, ...] = ()
    changes: tuple[SchemaChange, ...] = ()
    if fields is None:
        notes = ("the columns are not known yet: the next run infers them (`tidegate schema infer`)",)
    elif table is None:
        notes = ("there is no table yet: the next run creates it",)
        whole, _ = make_columns(pipeline, fields)
        changes = tuple(SchemaChange(path, Kind.NEW.value, None, kind, "created") for path, kind in paths_of(whole))
    else:
        changes = tuple(_changes(bound, table, opened.partition_columns, fields))
    ok = all(change.error is None for change in changes)
    return SchemaDiff(pipeline.name, pipeline.sink.table.uri, pipeline.schema.evolution.value, changes, ok, notes)


def _changes(
    bound: FileSource, table: pa.Schema, partition_columns: tuple[str, ...], fields: tuple[FieldSpec, ...]
) -> Iterator[SchemaChange]:
    whole, keys = make_columns(bound.pipeline, fields)
    if keys != partition_columns:
        text = f"the table is partitioned by {list(partition_columns)}, the pipeline by {list(keys)}"
        yield SchemaChange("sink.partition_by", "partitioning", str(list(partition_columns)), str(list(keys)), "", text)
        return
    mode = bound.pipeline.schema.evolution
    for each in differences(table, whole, mode, partition_columns=keys, file_name="the pipeline"):
        yield change_of(bound, each)


def change_of(bound: FileSource, each: Difference) -> SchemaChange:
    """A difference, and its effect on the next run."""
    effect, error = EFFECTS.get(each.kind, ""), None if each.error is None else str(each.error)
    if isinstance(each.error, ReplacesTable):
        if bound.positions.has_rows():
            effect, error = "replaces the table: see `tidegate schema replace`", str(costs_rows(each.error))
        else:
            effect, error = "replaces the columns of the table, which has no rows", None
    return SchemaChange(each.path, each.kind.value, each.table, each.file, effect, error)


def replace_schema(config: Config, pipeline: str, *, confirm: Callable[[TableRewrite], bool] = agree) -> TableRewrite:
    """Give a table exactly the columns of its pipeline, without a row, if ``confirm`` agrees; the position stays.

    For ``schema_evolution: overwrite`` only. One commit by the ordinary protocol; ``CommitLost`` if another run came
    first.
    """
    return _replace_columns(file_sources(config, pipeline)[0], confirm)


def _replace_columns(bound: FileSource, confirm: Callable[[TableRewrite], bool]) -> TableRewrite:
    started = time.monotonic()
    pipeline = bound.pipeline
    if pipeline.schema.evolution is not Evolution.OVERWRITE:
        mode = pipeline.schema.evolution.value
        text = f"schema_evolution is `{mode}`, so its table is never replaced; set `schema_evolution: overwrite` first"
        raise ConfigError((f"{pipeline.name}: {text}",))
    if pipeline.transform is not None:
        text = "the columns of its table are those of a transform, which only a run knows; write into another table"
        raise ConfigError((f"{pipeline.name}: {text}",))
    # One try only: a person agrees to lose the rows that the table has now, and no others.
    run = Pass(bound, rules=PassRules(tries=1))
    report: TableRewrite | None = None

    def go(opened: Position) -> Position:
        nonlocal report
        write, report = _plan_replacement(bound, opened)
        if not report.changes or not confirm(report):
            return opened
        state = bound.tracker.encode(bound.state_of(opened))
        done = run.commit(opened, Change(NextState(state, bound.abridge(state)), write, action="schema replace"))
        seconds = time.monotonic() - started
        report = replace(report, table_version=done.table_version, applied=True, seconds=seconds)
        return done

    run.run(CommitCommand(bound.positions.open, go))
    assert report is not None
    return report


def _plan_replacement(bound: FileSource, opened: Position) -> tuple[ReplaceRows, TableRewrite]:
    pipeline = bound.pipeline
    snapshot = bound.positions.site.delta.snapshot()
    fields = find_known_fields(bound, None)
    if snapshot is None or opened.state is None:
        raise TableError(f"{bound.key}: there is no table to replace the columns of", "run the pipeline first")
    if fields is None:
        raise SchemaMismatch(f"{bound.key}: no columns are declared", "declare schema.fields")
    columns, keys = make_columns(pipeline, with_rescued(pipeline, fields))
    check_partitioning(snapshot.facts.partition_columns, keys)
    check_replaceable(snapshot.facts, pipeline.sink.table.uri)
    return ReplaceRows(None, no_rows, columns, keys), _describe_replacement(bound, snapshot, columns, keys)


def _describe_replacement(
    bound: FileSource, snapshot: Snapshot, columns: pa.Schema, keys: tuple[str, ...]
) -> TableRewrite:
    table = arrow_schema_table(snapshot.facts.schema_json)
    found = differences(table, columns, Evolution.OVERWRITE, partition_columns=keys, file_name="the pipeline")
    changes = tuple(replace(change_of(bound, each), effect="replaced", error=None) for each in found)
    version = snapshot.facts.version
    notes = (
        f"the rows stay readable as version {version} of the table until VACUUM removes their files",
        "the next run does not read old files again; `tidegate watermark reset --all` makes it do so",
    )
    return rewrite_report(
        bound, snapshot, "schema replace", changes, notes if changes else ("the columns are the same",)
    )
