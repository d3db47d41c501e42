"""Load strategies: what becomes of the rows that were read, and what each strategy needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator

from tidegate.column_specs import LoadType
from tidegate.config import values as v
from tidegate.config.column_source import backward
from tidegate.config.document import Scalar, Spot, problem
from tidegate.config.models import Model, entry, fields
from tidegate.config.problems import Problem, nearest, sentence
from tidegate.config.schema import declared_types
from tidegate.config.values import choice, one_of, refusal
from tidegate.specs import PipelineSpec

WHOLE = ("overwrite", "full_load")
"""Load types that read the source in full and replace the table."""
MERGES = ("merge_upsert", "merge_overwrite", "scd2")
_OF_LOADS = {
    "merge_keys": MERGES,
    "replace_by_watermark": ("merge_overwrite",),
    "deduplicate": ("append",),
    "scd2_effective_column": ("scd2",),
    "scd2_attributes": ("scd2",),
    "tie_break": ("append", "merge_upsert", "scd2"),
}
_OF_WINDOWS = {
    "max_delete_fraction": ("merge_overwrite",),
    "allow_empty_window": ("append", "merge_overwrite", *WHOLE),
}
"""Guards of a replaced window, and the loads of which a replay replaces one; of an overwrite it is the whole table."""

VERSION_COLUMNS = ("__valid_from", "__valid_to", "__is_current")


def sink_format(value: object) -> str:
    """Delta, the only format that is written; folders of Parquet files were, too, in earlier releases."""
    if isinstance(value, Scalar) and value.strip() == "parquet":
        raise refusal(
            "is no longer supported, since a folder of Parquet files has no log to commit to",
            "set format: delta and another table_uri, and see decision 0021 for the rows that are there",
        )
    return choice(("delta",))(value)


LoadKind = Annotated[LoadType, one_of(LoadType)]
SinkFormat = Annotated[Literal["delta"], BeforeValidator(sink_format)]


class LoadModel(Model):
    """The table, and what becomes of the rows that were read."""

    at: ClassVar = {"load_type": "type"}
    table_uri: v.Address = entry("The table: a path or an object storage address.")
    load_type: LoadKind = entry("How rows are written.", LoadType.APPEND)
    merge_keys: v.Columns = entry("The columns that tell rows apart, for merging.", ())
    tie_break: v.Columns = entry(
        "Columns that decide between rows with equal keys and watermarks: the greatest wins.", ()
    )
    replace_by_watermark: v.Flag = entry(
        "Replace everything in the window that was read again, also what the source deleted.", False
    )
    max_delete_fraction: v.Fraction = entry("Share of the window's rows that may disappear by one replacement.", 0.5)
    allow_empty_window: v.Flag = entry("Whether an empty read may empty its window.", False)
    deduplicate: v.Columns = entry("Keys by which an append with look-back leaves out what the table has.", ())
    window_columns: v.Names = entry("Watermark column to its name after the transform.", default_factory=dict)
    scd2_effective_column: v.Text | None = entry("The column that tells when a version began.", None)
    scd2_attributes: v.Columns = entry(
        "The columns whose change makes a version; all but keys and watermarks when unset.", ()
    )
    format: SinkFormat = entry("A Delta table; nothing else is written.", "delta")


STRATEGY_KEYS = tuple(key for key in fields(LoadModel) if key not in ("table_uri", "load_type", "format"))
"""Keys that say more about a load type; they mean nothing for files, whose rows are appended."""


def keys_of(pipeline: PipelineSpec) -> tuple[str, ...]:
    """The keys of the pipeline's load strategy that mean something with it, in the order of ``config show``."""
    load = pipeline.sink.load
    if pipeline.unit_sources:
        return ("merge_keys", "tie_break") if load.type is LoadType.MERGE_UPSERT else ()
    if not pipeline.column_sources:
        return ()
    only_given = {"tie_break": load.tie_break, "window_columns": load.window_columns}
    kinds = _OF_LOADS | _OF_WINDOWS
    return tuple(key for key in STRATEGY_KEYS if (only_given[key] if key in only_given else load.type in kinds[key]))


def load_problems(pipeline: Spot, sources: Mapping[str, Spot]) -> Iterator[Problem]:
    """Problems of the sink of one pipeline whose ``sources`` are followed by columns."""
    sink = pipeline.below("sink")
    kind = str(sink.text("load_type") or "append")
    yield from key_problems(sink, kind)
    for source in sources.values():
        if sink.is_on("replace_by_watermark"):
            yield from _window_problems(source)
        elif kind == "append":
            yield from _append_problems(sink, source)
    if kind == "scd2":
        yield from _version_problems(pipeline, sources)
    yield from _column_problems(pipeline, sources)


def key_problems(sink: Spot, kind: str, without: Collection[str] = ()) -> Iterator[Problem]:
    """Keys that a load type needs or has no use for; those in ``without`` are looked at elsewhere."""
    if kind in MERGES and not sink.words("merge_keys"):
        yield sink.problem(f"is missing; {kind} needs the columns that tell rows apart", "merge_keys")
    for key, kinds in _OF_LOADS.items():
        given = sink.is_on(key) if key == "replace_by_watermark" else bool(sink.words(key))
        if given and kind not in kinds and key not in without:
            yield sink.problem(f"means nothing with load_type {kind}; allowed: with {', '.join(kinds)}", key)
    for key, kinds in _OF_WINDOWS.items():
        if sink.has(key) and kind not in kinds and key not in without:
            yield sink.problem(f"is about replaced windows; allowed: with {', '.join(kinds)}", key)


def _window_problems(source: Spot) -> Iterator[Problem]:
    """Replacing by watermark deletes what lies in the window and does not come back."""
    if not source.words("watermark_columns"):
        yield source.problem("is missing; replace_by_watermark needs it", "watermark_columns")
    elif not backward(source).keys:
        text = "is missing; replace_by_watermark replaces what look-back reads again, such as {days: 7}"
        yield source.problem(text, "backward")
    if source.text("watermark_mode") == "tuple":
        text = "tuple, and a cursor has no window; replace_by_watermark needs watermark_mode: any"
        yield source.problem(text, "watermark_mode")


def _append_problems(sink: Spot, source: Spot) -> Iterator[Problem]:
    """Appending writes what is read again once more."""
    if not source.words("watermark_columns"):
        text = "is missing: each run would append everything again; give it, or another load_type than append"
        yield source.problem(text, "watermark_columns")
    elif (found := backward(source)).keys and not sink.words("deduplicate"):
        text = (
            "look-back reads rows again, and append would write them twice; set load_type: merge_upsert or "
            "merge_overwrite, or give deduplicate: [keys]"
        )
        yield problem(source.root, found.place, text)
    if source.text("null_watermark") == "include":
        text = "include reads such rows each time, and append would write them again; allowed: with merge or replace"
        yield source.problem(text, "null_watermark")


def _version_problems(pipeline: Spot, sources: Mapping[str, Spot]) -> Iterator[Problem]:
    """A version has a time, and columns of its own."""
    followed = all(source.words("watermark_columns") for source in sources.values())
    if not pipeline.below("sink").has("scd2_effective_column") and not followed:
        text = "is missing; without watermark_columns nothing else tells when a version began"
        yield pipeline.problem(text, "sink", "scd2_effective_column")
    for column in declared_types(pipeline):
        if column.lower() in VERSION_COLUMNS:
            yield pipeline.problem(f"{column!r} is a column that scd2 makes; allowed: another name", "schema", "fields")


def _column_problems(pipeline: Spot, sources: Mapping[str, Spot]) -> Iterator[Problem]:
    """Columns that a table cannot have, or that no source has."""
    sink = pipeline.below("sink")
    transformed = any(pipeline.below("transform").has(key) for key in ("sql", "python"))
    followed = {str(word) for source in sources.values() for word in source.words("watermark_columns")}
    spelled = {name.lower() for name in followed}
    for column in sink.below("window_columns").block:
        if column.lower() not in spelled:
            allowed = nearest(column, followed) or f"allowed: {', '.join(sorted(followed))}"
            yield sink.problem(sentence(f"{column!r} is no watermark column", allowed), "window_columns", column)
        elif not transformed:
            yield sink.problem("columns keep their names without a transform; remove it", "window_columns", column)
    declared = {name.lower(): name for name in declared_types(pipeline)}
    for key in () if transformed or not declared else ("merge_keys", "tie_break", "deduplicate", "scd2_attributes"):
        for word in sink.words(key):
            if word.lower() not in declared:
                text = sentence(f"{word.raw!r} is not a declared column", nearest(word, declared.values()))
                yield sink.problem(text, key)
