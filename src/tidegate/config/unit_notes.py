"""What a source of work units says that has no effect: told as notices, never refused."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.config.tree import Block, path_of
from tidegate.config.unit_variables import inputs, is_clear, makes_units, range_params, unit_variables, uses, watermarks
from tidegate.config.words import words

_OF_TIME = ("grace_period_days", "grace_period", "abstinent_period_days", "abstinent_period", "catch_up")


def unit_notices(root: Block, where: tuple[str, ...], source: Block) -> Iterator[str]:
    """Notices about one source; none where the problems are enough."""
    if not is_clear(source):
        return
    followed = bool(watermarks(source, "datetime"))
    for key in _OF_TIME if not followed else ():
        if source.get(key) is not None:
            yield f"{path_of(root, (*where, key))} means nothing without a datetime watermark"
    provider = root.block("state").text("provider")
    if provider in ("file", "sql"):
        yield f"{path_of(root, where)}: the state provider {provider} gets no copy of positions of work units"
    sink = root.block("pipelines").block(where[1]).block("sink")
    if (
        sink.text("load_type") == "merge_upsert"
        and source.get("time_column") is None
        and not words(sink.get("tie_break"))
    ):
        yield (
            f"{path_of(root, where)}: of rows with equal merge_keys the one that is read last stays, also where it is "
            "older; give 'time_column', or sink.tie_break"
        )
    work = source.block("work_unit")
    if work.get("min_records_after") is not None and not str(work.text("min_records") or "0").strip("0"):
        yield f"{path_of(root, (*where, 'work_unit', 'min_records_after'))} means nothing without min_records"
    if work.get("not_found") is not None and source.get("connection") is None:
        yield f"{path_of(root, (*where, 'work_unit', 'not_found'))} means nothing without an HTTP server"
    if source.text("type") == "python":
        return
    used = {name for use in uses(where, source) for name in use.names}
    yield from _unused_units(root, where, source, used)
    if followed:
        yield from _unused_range(root, where, source, used)


def _unused_units(root: Block, where: tuple[str, ...], source: Block, used: set[str]) -> Iterator[str]:
    """Requests that are the same for every unit."""
    names = unit_variables(source)
    if names and not used.intersection(names) and _has_several(source):
        yield f"{path_of(root, where)}: {{{{{names[0]}}}}} is used nowhere, so that every unit reads the same"


def _has_several(source: Block) -> bool:
    """Whether there may be more than one unit."""
    if any(makes_units(each) for _, each in inputs(source)):
        return True
    lists = [each.get("units") for _, each in watermarks(source, "unit")]
    return any(len(found) > 1 or "," in found[0] for found in map(words, lists) if found)


def _unused_range(root: Block, where: tuple[str, ...], source: Block, used: set[str]) -> Iterator[str]:
    """Reads that are the same for every range, though it is cut or read on, and bounds that reach no request."""
    params = range_params(source)
    sent = source.get("connection") is not None and source.text("type") != "jdbc"
    lost = [] if sent else [name for name in params if name not in used]
    for name in lost:
        yield f"{path_of(root, (*where, 'params', name))} means nothing where {{{{{name}}}}} is used nowhere"
    whole = source.text("replace") == "unit" and source.block("work_unit").text("partition") in (None, "none")
    if len(lost) == len(params) and source.get("time_column") is None and not whole:
        yield (
            f"{path_of(root, where)}: the range is used nowhere, so that every range reads the same; "
            "give 'time_column', or params with 'watermark'"
        )
