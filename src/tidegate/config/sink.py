"""The ``sink`` block: the table, what becomes of the rows that are read, and how files are written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from tidegate.config.column_source import backward
from tidegate.config.document import Problem, Scalar, Spot, nearest, problem, sentence
from tidegate.config.file_source import directive_problem, fields_of, shape_problem
from tidegate.config.models import Context, Model, Parts, dump, fields, kinds_of, make, part
from tidegate.config.schema import column_types
from tidegate.config.values import check, refusal, text, texts
from tidegate.schema.names import MADE_COLUMNS
from tidegate.specs.columns import MERGES, ColumnSource, Load, LoadType
from tidegate.specs.keys import Key
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import SinkSpec, why_not
from tidegate.specs.units import UnitSource

_OF_WINDOWS = ("max_delete_fraction", "allow_empty_window")
"""Guards of a replaced window; a replay of an overwrite replaces the whole table."""

VERSION_COLUMNS = ("__valid_from", "__valid_to", "__is_current")


@check()
def directories(value: object) -> str:
    """A template of directories, without slashes around it."""
    return text(value).strip("/")


@check({"items": {"enum": list(MADE_COLUMNS)}, "type": "array"})
def metadata_columns(value: object) -> tuple[str, ...]:
    """Names of metadata columns, each once."""
    found = texts(value)
    for name in found:
        if name not in MADE_COLUMNS:
            raise refusal(
                f"contains an unknown column; allowed: {', '.join(MADE_COLUMNS)}",
                nearest(name, MADE_COLUMNS),
            )
    return tuple(name for name in MADE_COLUMNS if name in found)


_PART = r"(`(?:[^`]|``)+`|[\w-]+)"


@check()
def table_name(value: object) -> str:
    """The name of a table, of one to three parts."""
    name = text(value).strip()
    if not re.fullmatch(rf"{_PART}(\.{_PART}){{0,2}}", name):
        raise refusal("is not the name of a table", "allowed: table, schema.table or catalog.schema.table")
    return name


class LoadModel(Model):
    """The table, and what becomes of the rows that were read."""

    takes: ClassVar[Parts] = (part(SinkSpec, "table", "table_uri"), part(Load))
    format: Annotated[Literal["delta"], Key("The table format; only delta.")] = "delta"


STRATEGY_KEYS = tuple(key for key in fields(LoadModel) if key not in ("table", "table_uri", "load_type", "format"))
"""Keys that say more about a load type; they have no effect on files, whose rows are appended."""


def keys_of(pipeline: PipelineSpec) -> tuple[str, ...]:
    """The keys that apply to the load strategy of the pipeline, in the order of ``config show``."""
    load = pipeline.sink.load
    if pipeline.of(UnitSource):
        return ("merge_keys", "tie_break", "skip_unchanged") if load.type is LoadType.MERGE_UPSERT else ()
    if not pipeline.of(ColumnSource):
        return ()
    only_given = {"tie_break": load.tie_break, "window_columns": load.window_columns}
    kinds = kinds_of(LoadModel)
    return tuple(
        key for key in STRATEGY_KEYS if (only_given[key] if key in only_given else load.type in kinds[key].allowed)
    )


def load_problems(pipeline: Spot, sources: Mapping[str, Spot]) -> Iterator[Problem]:
    """Problems of the sink of a pipeline of column sources."""
    sink = pipeline.below("sink")
    kind = str(sink.text("load_type") or "append")
    yield from key_problems(sink, kind)
    for source in sources.values():
        if sink.is_on("replace_by_watermark"):
            yield from _window_problems(source)
        elif source.has("watermark_window"):
            yield source.problem(
                "chooses the window to replace; set replace_by_watermark: true, or remove it", "watermark_window"
            )
        elif kind == "append":
            yield from _append_problems(sink, source)
    if kind == "scd2":
        yield from _version_problems(pipeline, sources)
    yield from _load_column_problems(pipeline, sources)


def key_problems(sink: Spot, kind: str, without: Collection[str] = ()) -> Iterator[Problem]:
    """Keys that a load type needs or does not support; keys in ``without`` are checked elsewhere."""
    if kind in MERGES and not sink.words("merge_keys"):
        yield sink.problem(f"is missing; {kind} needs the columns that identify a row", "merge_keys")
    for key, kinds in kinds_of(LoadModel).items():
        given = sink.is_on(key) if key == "replace_by_watermark" else key in _OF_WINDOWS or bool(sink.words(key))
        if sink.has(key) and given and kind not in kinds.allowed and key not in without:
            wrong = "works only with replaced windows" if key in _OF_WINDOWS else f"has no effect with load_type {kind}"
            yield sink.problem(f"{wrong}; allowed: with {', '.join(kinds.allowed)}", key)


def _window_problems(source: Spot) -> Iterator[Problem]:
    """Problems of ``replace_by_watermark``, which deletes rows of the window that the read does not bring."""
    if not source.words("watermark_columns"):
        yield source.problem("is missing; replace_by_watermark needs it", "watermark_columns")
    elif not backward(source).keys:
        text = "is missing; replace_by_watermark replaces what look-back reads again, such as {days: 7}"
        yield source.problem(text, "backward")
    if source.text("watermark_mode") == "tuple":
        text = "tuple has no window to replace; replace_by_watermark needs watermark_mode: any"
        yield source.problem(text, "watermark_mode")


def _append_problems(sink: Spot, source: Spot) -> Iterator[Problem]:
    """Settings that read rows again, which ``append`` would then write twice."""
    if not source.words("watermark_columns"):
        text = "is missing: each run would append everything again; give it, or another load_type than append"
        yield source.problem(text, "watermark_columns")
    elif (found := backward(source)).keys and not sink.words("deduplicate"):
        text = (
            "look-back reads rows again, and append would write them twice; set load_type: merge_upsert or "
            "merge_overwrite, or give deduplicate: [keys]"
        )
        yield problem(source.root, found.place, text)
    if source.text("watermark_operator") == ">=" and not sink.words("deduplicate"):
        text = (
            ">= reads rows at the watermark again, and append would write them twice; set load_type: merge_upsert or "
            "merge_overwrite, or give deduplicate: [keys]"
        )
        yield source.problem(text, "watermark_operator")
    if source.text("null_watermark") == "include":
        text = "include reads such rows in every run, and append would write them again; set another load_type"
        yield source.problem(text, "null_watermark")


def _version_problems(pipeline: Spot, sources: Mapping[str, Spot]) -> Iterator[Problem]:
    """Problems of ``scd2``: versions need a time, and columns of their own."""
    followed = all(source.words("watermark_columns") for source in sources.values())
    if not pipeline.below("sink").has("scd2_effective_column") and not followed:
        text = "is missing; without watermark_columns nothing else says when a version began"
        yield pipeline.problem(text, "sink", "scd2_effective_column")
    for column in column_types(pipeline):
        if column.lower() in VERSION_COLUMNS:
            yield pipeline.problem(f"{column!r} is a column that scd2 adds; use another name", "schema", "fields")


def _load_column_problems(pipeline: Spot, sources: Mapping[str, Spot]) -> Iterator[Problem]:
    """Columns that the table cannot have, or that no source brings."""
    sink = pipeline.below("sink")
    transformed = any(pipeline.below("transform").has(key) for key in ("sql", "python"))
    followed = {str(word) for source in sources.values() for word in source.words("watermark_columns")}
    spelled = {name.lower() for name in followed}
    for column in sink.below("window_columns").block:
        if column.lower() not in spelled:
            allowed = nearest(column, followed) or f"allowed: {', '.join(sorted(followed))}"
            yield sink.problem(sentence(f"{column!r} is not a watermark column", allowed), "window_columns", column)
        elif not transformed:
            yield sink.problem("columns keep their names without a transform; remove it", "window_columns", column)
    declared = {name.lower(): name for name in column_types(pipeline)}
    for key in () if transformed or not declared else ("merge_keys", "tie_break", "deduplicate", "scd2_attributes"):
        for word in sink.words(key):
            if word.lower() not in declared:
                text = sentence(f"{word.raw!r} is not a declared column", nearest(word, declared.values()))
                yield sink.problem(text, key)


_NO_KEYS = ("struct", "list", "map", "float32", "float64", "binary")


class SinkModel(LoadModel):
    """The table and how its files are written."""

    spec: ClassVar = SinkSpec
    takes: ClassVar[Parts] = (
        part(SinkSpec, "partition_by:delta_checkpoint_interval"),
        part(Location, "sync"),
        part(SinkSpec, "metadata_columns:table_properties"),
        part(Location, "storage_options"),
    )

    def build(self, context: Context) -> SinkSpec:
        """The table with its load strategy."""
        return make(SinkSpec, self.given, context, load=make(Load, self.given, context))

    @classmethod
    def show_of(cls, pipeline: PipelineSpec) -> dict[str, Any]:
        """The sink of a pipeline; only the load keys that apply."""
        others = [key for key in fields(cls) if key not in fields(LoadModel)]
        keys = ("table", "table_uri", "load_type", "format", *keys_of(pipeline), *others)
        return dump(cls, pipeline.sink, keys, {"format": "delta"})


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
        return "each directory must be 'key=…' or only a key, such as date=%Y-%m-%d/hour=%H"
    if len({key.lower() for key in keys}) < len(keys):
        return "a key occurs twice; allowed: each once"
    constant = [part for part in template.split("/") if "=" in part and not fields_of(part)]
    # Every row would get the same value, and the column could not tell partitions apart.
    if column is not None and constant:
        return f"{constant[0]!r} has no field of time; allowed: %Y %m %d %H %F, or only the key"
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
    """Partition keys that are declared columns too, or whose values cannot name a directory."""
    same = {name.lower(): name for name in declared}
    for directory in template.split("/"):
        key = directory.partition("=")[0]
        itself = column is not None and directory == key and key in declared
        if key.lower() in same and not itself:
            yield f"{key!r} is also a declared column; use a new name"
        elif column is not None and directory == key:
            taken = same.get((key if itself else str(column)).lower(), key)
            if declared.get(taken) in _NO_KEYS:
                yield f"{taken!r} is of type {declared[taken]}, which cannot name a directory; use another column"
