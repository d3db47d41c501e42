"""What a load strategy needs: keys, watermarks, look-back, a table of its own; and which keys belong to which."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tidegate.config.problems import Problem, nearest, problem, sentence
from tidegate.config.tree import Block, Loc
from tidegate.config.words import WHOLE, backward, declared_types, is_on, words

Path = tuple[str, ...]
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


def load_problems(root: Block, where: Path, pipeline: Block, sources: Mapping[str, Block]) -> Iterator[Problem]:
    """Problems of the sink of one pipeline whose ``sources`` are followed by columns."""
    sink = pipeline.block("sink")
    kind = str(sink.text("load_type") or "append")
    yield from key_problems(root, (*where, "sink"), sink, kind)
    if is_on(sink, "replace_by_watermark"):
        yield from _window_problems(root, where, sources)
    elif kind == "append":
        yield from _append_problems(root, where, sink, sources)
    if kind == "scd2":
        yield from _version_problems(root, where, pipeline, sources)
    yield from _column_problems(root, where, pipeline, sources)


def key_problems(root: Block, at: Loc, sink: Block, kind: str, without: Collection[str] = ()) -> Iterator[Problem]:
    """Keys that a load type needs or has no use for; those in ``without`` are looked at elsewhere."""
    if kind in MERGES and not words(sink.get("merge_keys")):
        yield problem(root, (*at, "merge_keys"), f"is missing; {kind} needs the columns that tell rows apart")
    for key, kinds in _OF_LOADS.items():
        given = is_on(sink, key) if key == "replace_by_watermark" else bool(words(sink.get(key)))
        if given and kind not in kinds and key not in without:
            text = f"means nothing with load_type {kind}; allowed: with {', '.join(kinds)}"
            yield problem(root, (*at, key), text)
    for key, kinds in _OF_WINDOWS.items():
        if sink.get(key) is not None and kind not in kinds and key not in without:
            text = f"is about replaced windows; allowed: with {', '.join(kinds)}"
            yield problem(root, (*at, key), text)


def _window_problems(root: Block, where: Path, sources: Mapping[str, Block]) -> Iterator[Problem]:
    """Replacing by watermark deletes what lies in the window and does not come back."""
    for name, source in sources.items():
        at = (*where, "sources", name)
        if not words(source.get("watermark_columns")):
            yield problem(root, (*at, "watermark_columns"), "is missing; replace_by_watermark needs it")
        elif not backward(root, at, source).keys:
            text = "is missing; replace_by_watermark replaces what look-back reads again, such as {days: 7}"
            yield problem(root, (*at, "backward"), text)
        if source.text("watermark_mode") == "tuple":
            text = "tuple, and a cursor has no window; replace_by_watermark needs watermark_mode: any"
            yield problem(root, (*at, "watermark_mode"), text)


def _append_problems(root: Block, where: Path, sink: Block, sources: Mapping[str, Block]) -> Iterator[Problem]:
    """Appending writes what is read again once more."""
    for name, source in sources.items():
        at = (*where, "sources", name)
        if not words(source.get("watermark_columns")):
            text = "is missing: each run would append everything again; give it, or another load_type than append"
            yield problem(root, (*at, "watermark_columns"), text)
        elif backward(root, at, source).keys and not words(sink.get("deduplicate")):
            text = (
                "look-back reads rows again, and append would write them twice; set load_type: merge_upsert or "
                "merge_overwrite, or give deduplicate: [keys]"
            )
            yield problem(root, backward(root, at, source).place, text)
        if source.text("null_watermark") == "include":
            text = (
                "include reads such rows each time, and append would write them again; allowed: with merge or replace"
            )
            yield problem(root, (*at, "null_watermark"), text)


def _version_problems(root: Block, where: Path, pipeline: Block, sources: Mapping[str, Block]) -> Iterator[Problem]:
    """A version has a time, and columns of its own."""
    followed = all(words(source.get("watermark_columns")) for source in sources.values())
    if pipeline.block("sink").get("scd2_effective_column") is None and not followed:
        text = "is missing; without watermark_columns nothing else tells when a version began"
        yield problem(root, (*where, "sink", "scd2_effective_column"), text)
    for column in declared_types(pipeline):
        if column.lower() in VERSION_COLUMNS:
            text = f"{column!r} is a column that scd2 makes; allowed: another name"
            yield problem(root, (*where, "schema", "fields"), text)


def _column_problems(root: Block, where: Path, pipeline: Block, sources: Mapping[str, Block]) -> Iterator[Problem]:
    """Columns that a table cannot have, or that no source has."""
    sink = pipeline.block("sink")
    transformed = any(pipeline.block("transform").get(key) is not None for key in ("sql", "python"))
    followed = {str(word) for source in sources.values() for word in words(source.get("watermark_columns"))}
    spelled = {name.lower() for name in followed}
    for column in sink.block("window_columns"):
        at = (*where, "sink", "window_columns", column)
        if column.lower() not in spelled:
            allowed = nearest(column, followed) or f"allowed: {', '.join(sorted(followed))}"
            text = sentence(f"{column!r} is no watermark column", allowed)
            yield problem(root, at, text)
        elif not transformed:
            yield problem(root, at, "columns keep their names without a transform; remove it")
    declared = {name.lower(): name for name in declared_types(pipeline)}
    for key in () if transformed or not declared else ("merge_keys", "tie_break", "deduplicate", "scd2_attributes"):
        for word in words(sink.get(key)):
            if word.lower() not in declared:
                text = sentence(f"{word.raw!r} is not a declared column", nearest(word, declared.values()))
                yield problem(root, (*where, "sink", key), text)
