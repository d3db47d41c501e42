"""Keys that this release does not act on and refuses, and keys of other systems that mean nothing here: two tables
and what reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.config.problems import Problem, problem
from tidegate.config.tree import Block, Loc, Scalar, find, path_of

FILES_ONLY = "allowed: file sources ('source_uri')"
_APPEND = "allowed: 'load_type: append'"
_COLUMNS = f"column watermarks; {FILES_ONLY}"
_UNITS = f"time and unit watermarks; {FILES_ONLY}"

REFUSED: dict[str, dict[str, str]] = {
    "": {
        "connections": f"databases and APIs; {FILES_ONLY}",
        "state": "other state providers; remove it, positions live in the table's own log",
    },
    "pipeline": {},
    "source": {
        "connection": f"databases and APIs; {FILES_ONLY}",
        "watermark_columns": _COLUMNS,
        "watermark": _UNITS,
        "secondary_input": _UNITS,
        "work_unit": _UNITS,
        "grace_period": _UNITS,
        "grace_period_days": _UNITS,
        "abstinent_period": _UNITS,
        "abstinent_period_days": _UNITS,
        "time_column": _UNITS,
        "configure": _COLUMNS,
        "watermark_mode": _COLUMNS,
        "watermark_operator": _COLUMNS,
        "null_watermark": _COLUMNS,
        "safety_lag": _COLUMNS,
        "filter_expression": "filters on rows; filter in a view over the table",
    },
    "sink": {
        "merge_keys": f"merging; {_APPEND}",
        "tie_break": f"merging; {_APPEND}",
        "replace_by_watermark": f"replacing windows; {_APPEND}",
        "deduplicate": f"deduplication; {_APPEND}",
        "scd2_effective_column": f"history tables; {_APPEND}",
    },
}

WATERMARK_ONLY = ("late_files", "late_window", "late_window_total", "lateness", "deep_listing_every")
"""Keys of a source that mean something only with ``use_watermark: true``."""

MEANINGLESS = {("global", "connection_pooling"): "connections are always pooled"}


@dataclass(slots=True)
class Notes:
    """What was found; ``settled`` places need no further problem."""

    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    settled: list[tuple[str | int, ...]] = field(default_factory=list)

    def covers(self, loc: Loc) -> bool:
        """Whether ``loc`` is at or below a place that is reported already."""
        return any(tuple(loc[: len(done)]) == done for done in self.settled)


def take_notes(root: Block) -> Notes:
    """Refused keys, notices and meaningless keys; the last are removed from ``root``."""
    notes = Notes()
    _refuse(root, (), "", notes)
    for name, pipeline in root.blocks("pipelines"):
        where = ("pipelines", name)
        _refuse(root, where, "pipeline", notes)
        _refuse(root, (*where, "sink"), "sink", notes)
        for source, block in pipeline.blocks("sources"):
            _take_source(root, (*where, "sources", source), block, notes)
    _drop_meaningless(root, notes)
    return notes


def _refuse(root: Block, where: tuple[str, ...], kind: str, notes: Notes) -> None:
    block = find(root, where)
    if not isinstance(block, Block):
        return
    for key, what in REFUSED[kind].items():
        if block.get(key) is not None:
            notes.problems.append(problem(root, (*where, key), f"not supported yet: {what}"))
            notes.settled.append((*where, key))


def _take_source(root: Block, where: tuple[str, ...], source: Block, notes: Notes) -> None:
    kinds = [key for key in ("use_watermark", "watermark_columns", "watermark") if _given(source, key)]
    kind = source.text("type")
    if len(kinds) > 1:
        text = f"two kinds of watermark at once ({', '.join(kinds)}); allowed: one per source"
        notes.problems.append(problem(root, (*where, kinds[1]), text))
    elif "connection" in source:
        text = f"not supported yet: {REFUSED['source']['connection']}"
        notes.problems.append(problem(root, (*where, "connection"), text))
    elif kind is not None and kind in LATER_TYPES:
        text = f"not supported yet: sources of the type {str(kind)!r}; {FILES_ONLY}"
        notes.problems.append(problem(root, (*where, "type"), text))
    else:
        _refuse(root, where, "source", notes)
        if not kinds:
            _note_set(root, where, source, notes)
        if not kinds or kinds == ["use_watermark"]:
            return
    notes.settled.append(where)


def _note_set(root: Block, where: tuple[str, ...], source: Block, notes: Notes) -> None:
    """What is said about watermarks where there are none."""
    if source.get("partition_filter") is not None:
        text = "bounds the first run of watermarks, and this source has none; set use_watermark: true, or remove it"
        notes.problems.append(problem(root, (*where, "partition_filter"), text))
        notes.settled.append((*where, "partition_filter"))
    for key in WATERMARK_ONLY:
        if source.get(key) is not None:
            notes.notices.append(f"{path_of(root, (*where, key))} means nothing without use_watermark: true")


LATER_TYPES = ("delta", "iceberg", "parquet", "csv", "json", "excel", "avro", "jdbc", "http")


def _given(source: Block, key: str) -> bool:
    value = source.get(key)
    return value is not None and not (isinstance(value, Scalar) and value.lower() in ("false", "no", "off"))


def _drop_meaningless(root: Block, notes: Notes) -> None:
    for loc, why in MEANINGLESS.items():
        *above, last = loc
        holder = find(root, above)
        if isinstance(holder, Block) and last in holder:
            notes.notices.append(f"{path_of(root, loc)} means nothing here and is ignored: {why}")
            fresh = holder.copy()
            fresh.drop(last)
            root[above[0]] = fresh
