"""What keys of sources of work units mean together, and with the rest of their pipeline.

Works on the tree, like ``checks``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidegate.config.column_checks import pipeline_problems, table_or_query_problems
from tidegate.config.http_checks import request_problems
from tidegate.config.load_checks import key_problems
from tidegate.config.notes import NOT_FOR_FILES
from tidegate.config.problems import Problem, nearest, problem, sentence
from tidegate.config.source_kinds import is_of_units
from tidegate.config.tree import Block, Node, Scalar
from tidegate.config.unit_input_checks import input_problems
from tidegate.config.unit_variables import (
    VARIABLE,
    inputs,
    is_clear,
    makes_units,
    secret_variables,
    unit_variables,
    uses,
    uses_below,
    variables,
    watermarks,
)
from tidegate.config.words import declared_types
from tidegate.specs.masking import looks_secret
from tidegate.specs.units import SEGMENT_COLUMN, UNIT_COLUMN

Path = tuple[str, ...]
_PERIODS = ("grace_period", "abstinent_period")
_REQUEST_KEYS = ("path", "method", "headers", "body", "idempotent", "parallelism", "max_response_mb")
_OF_OTHER_LOADS = tuple(key for key in NOT_FOR_FILES["sink"] if key not in ("merge_keys", "tie_break"))
_TIMES = ("timestamp", "date")


def unit_problems(root: Block, where: Path, pipeline: Block, sources: Mapping[str, Block]) -> Iterator[Problem]:
    """Problems of one pipeline; ``sources`` are those that are not reported already."""
    units = {name: block for name, block in sources.items() if is_of_units(block)}
    others = [name for name in sources if name not in units]
    if units and others:
        text = f"is no source of work units, and {next(iter(units))!r} is; allowed: a pipeline of its own for each kind"
        yield problem(root, (*where, "sources", others[0]), text)
    for name, source in units.items():
        at = (*where, "sources", name)
        yield from input_problems(root, at, source)
        yield from _period_problems(root, at, source)
        yield from _kind_problems(root, at, source)
        if is_clear(source):
            yield from _watermark_problems(root, at, source)
            yield from _range_problems(root, at, source, pipeline)
            yield from _param_problems(root, at, source)
            yield from _variable_problems(root, at, source)
        yield from _column_problems(root, at, source, pipeline)
    if units:
        yield from _pipeline_problems(root, where, pipeline)


def _watermark_problems(root: Block, where: Path, source: Block) -> Iterator[Problem]:
    """At most one time range and one list of units, each with what it needs."""
    for kind in ("datetime", "unit"):
        for at, _ in watermarks(source, kind)[1:]:
            text = f"is a second watermark of the type {kind}; allowed: at most one of each type"
            yield problem(root, (*where, "watermark", at), text)
    for at, each in watermarks(source, "datetime"):
        if each.get("range") is None:
            yield problem(root, (*where, "watermark", at, "range"), "is missing; a datetime watermark needs it")
        if each.get("units") is not None:
            text = "means nothing for a datetime watermark; give units a watermark of the type unit"
            yield problem(root, (*where, "watermark", at, "units"), text)
    made = [at for at, each in inputs(source) if makes_units(each)]
    for at, each in watermarks(source, "unit"):
        place: tuple[str | int, ...] = (*where, "watermark", at, "units")
        if each.get("range") is not None:
            text = "means nothing for a unit watermark; give the range a watermark of the type datetime"
            yield problem(root, (*where, "watermark", at, "range"), text)
        if each.get("units") is not None and made:
            yield problem(root, place, "given beside 'secondary_input', which has units too; allowed: one of them")
        if each.get("units") is None and not made:
            yield problem(root, place, "is missing, and no 'secondary_input' has units; give one of them")
    named = [each.text("name") for kind in ("datetime", "unit") for _, each in watermarks(source, kind)[:1]]
    if len(named) == 2 and named[0] is not None and named[0] == named[1]:
        text = f"two watermarks are called {named[0].raw!r}; allowed: a name of its own for each"
        yield problem(root, (*where, "watermark"), text)


def _period_problems(root: Block, where: Path, source: Block) -> Iterator[Problem]:
    for key in _PERIODS:
        if source.get(key) is not None and source.get(f"{key}_days") is not None:
            yield problem(root, (*where, key), f"given beside '{key}_days'; allowed: one of them")


def _range_problems(root: Block, where: Path, source: Block, pipeline: Block) -> Iterator[Problem]:
    """What needs a time range."""
    if watermarks(source, "datetime"):
        return
    kind = source.block("work_unit").get("partition")
    if kind is not None and kind != "none":
        text = "cuts a time range, and there is none; give a watermark of the type datetime, or remove it"
        yield problem(root, (*where, "work_unit", "partition"), text)
    if source.text("replace") == "segments" and pipeline.block("sink").text("load_type") != "merge_upsert":
        yield problem(root, (*where, "replace"), "segments are parts of a time range, and there is none; set unit")
    if source.text("time_column") is not None:
        yield problem(root, (*where, "time_column"), "is compared with a time range, and there is none; remove it")


def _param_problems(root: Block, where: Path, source: Block) -> Iterator[Problem]:
    """Each parameter is a text or a bound of the range, and has a name of its own."""
    ranges = [str(each.text("name") or "") for _, each in watermarks(source, "datetime")]
    taken = (*unit_variables(source), *secret_variables(source))
    sent = source.get("connection") is not None and source.text("type") != "jdbc"
    for name, node in source.block("params").items():
        at = (*where, "params", name)
        watermark = node.text("watermark") if isinstance(node, Block) else None
        plain = isinstance(node, Scalar) or (isinstance(node, Block) and node.get("value") is not None)
        if isinstance(node, Block) and plain == (node.get("watermark") is not None):
            yield problem(root, at, "needs one of 'watermark' and 'value'")
        if watermark is not None and watermark not in ranges:
            hint = nearest(watermark, ranges) or (f"allowed: {', '.join(ranges)}" if ranges else "")
            hint = hint or "give a watermark of the type datetime"
            yield problem(root, (*at, "watermark"), sentence(f"{watermark.raw!r} is no datetime watermark", hint))
        if plain and not sent:
            yield problem(root, at, "is sent to no server; allowed: {watermark: …, bound: low | high}")
        if plain and looks_secret(name) and not _is_variable(node):
            text = "put it into the connection's auth: {type: api_key, place: params, …}"
            yield problem(root, at, f"looks like a secret; {text}")
        if name in taken and not plain:
            yield problem(root, at, f"{{{{{name}}}}} is a variable of the units too; allowed: another name")


def _is_variable(node: Node) -> bool:
    """Whether a text is a variable as a whole, so that the file holds no secret."""
    text = node.text("value") if isinstance(node, Block) else node
    return isinstance(text, Scalar) and VARIABLE.fullmatch(text) is not None


def _variable_problems(root: Block, where: Path, source: Block) -> Iterator[Problem]:
    """Variables that nothing defines, and braces that are none."""
    known = variables(source)
    connection = str(source.text("connection") or "")
    above = ("connections", connection, "headers")
    shared = root.block("connections").block(connection).get("headers")
    for use in (*uses(where, source), *uses_below(above, shared)):
        if use.broken:
            yield problem(root, use.loc, "has braces without a name; allowed: {{name}}")
            continue
        for name in use.names:
            if name not in known:
                allowed = f"allowed: {', '.join(known)}" if known else "give units, or params with 'watermark'"
                hint = nearest(name, known) or allowed
                yield problem(root, use.loc, sentence(f"nothing defines {{{{{name}}}}}", hint))


def _kind_problems(root: Block, where: Path, source: Block) -> Iterator[Problem]:
    """What belongs to one type of source."""
    kind = str(source.text("type"))
    if kind == "jdbc":
        yield from table_or_query_problems(root, where, source)
    if kind in ("http", "download"):
        yield from request_problems(root, where, source)
    if kind != "download":
        return
    connected, placed = source.get("connection") is not None, source.get("source_uri") is not None
    if connected == placed:
        text = "given beside 'connection'; allowed: one of them" if placed else "neither it nor 'connection' is given"
        yield problem(root, (*where, "source_uri"), text)
        return
    if connected and source.get("path") is None:
        yield problem(root, (*where, "path"), "is missing; the connection's server has more than one file")
    if connected and source.get("storage_options") is not None:
        text = "is about object storage, and the connection is of the type http; remove it"
        yield problem(root, (*where, "storage_options"), text)
    if connected and source.get("max_response_mb") is not None:
        text = "is about pages of records; a file may be as large as the disk allows; remove it"
        yield problem(root, (*where, "max_response_mb"), text)
    for key in _REQUEST_KEYS if placed else ():
        if source.get(key) is not None:
            yield problem(root, (*where, key), "is about requests to a server; give 'connection', or remove it")


def _column_problems(root: Block, where: Path, source: Block, pipeline: Block) -> Iterator[Problem]:
    """How rows that are read again are told from those that stay."""
    merges = pipeline.block("sink").text("load_type") == "merge_upsert"
    if merges and source.get("replace") is not None:
        text = "means nothing with load_type merge_upsert, which replaces rows with equal merge_keys; remove it"
        yield problem(root, (*where, "replace"), text)
    declared = declared_types(pipeline)
    column = source.text("time_column")
    if column is not None and declared and column not in declared:
        text = sentence(f"{column.raw!r} is not a declared column", nearest(column, declared))
        yield problem(root, (*where, "time_column"), text)
    elif column is not None and declared and declared[column] not in _TIMES:
        text = f"{column.raw!r} is of type {declared[column]}; allowed: a timestamp or date column"
        yield problem(root, (*where, "time_column"), text)
    yield from _made_column_problems(root, where, source, declared, merges=merges)


def _made_column_problems(
    root: Block, where: Path, source: Block, declared: Mapping[str, str], *, merges: bool
) -> Iterator[Problem]:
    """The columns that tell rows of one work unit from others have names of their own."""
    made = {key: str(source.text(key) or name) for key, name in _MADE.items()}
    if made["unit_column"].lower() == made["segment_column"].lower():
        yield problem(root, (*where, "segment_column"), "is the unit_column too; allowed: another name")
    for key, name in made.items():
        if not merges and name.lower() in {column.lower() for column in declared}:
            yield problem(root, (*where, key), f"{name!r} is a declared column too; allowed: another name")
        if merges and source.get(key) is not None:
            text = "means nothing with load_type merge_upsert, whose tables have no such column; remove it"
            yield problem(root, (*where, key), text)


def same_unit_column_problems(root: Block, names: Sequence[str]) -> Iterator[Problem]:
    """Sources of pipelines ``names``, all of one table, that would take rows of each other for their own."""
    first: dict[str, str] = {}
    for name in names:
        pipeline = root.block("pipelines").block(name)
        if pipeline.block("sink").text("load_type") == "merge_upsert":
            continue
        for source, block in pipeline.blocks("sources"):
            if not is_of_units(block):
                continue
            column = str(block.text("unit_column") or UNIT_COLUMN)
            title = first.setdefault(column.lower(), f"{name}/{source}")
            if title != f"{name}/{source}":
                text = f"{column!r} tells rows of work units of {title} too, in the same table; allowed: another name"
                yield problem(root, ("pipelines", name, "sources", source, "unit_column"), text)


_MADE = {"unit_column": UNIT_COLUMN, "segment_column": SEGMENT_COLUMN}


def _pipeline_problems(root: Block, where: Path, pipeline: Block) -> Iterator[Problem]:
    """Parts of a pipeline that work units cannot have."""
    yield from pipeline_problems(root, where, pipeline)
    sink = pipeline.block("sink")
    kind = sink.text("load_type")
    if kind is not None and kind not in ("append", "merge_upsert"):
        text = f"{kind.raw!r} is not for sources of work units; allowed: append, merge_upsert"
        yield problem(root, (*where, "sink", "load_type"), text)
    else:
        yield from key_problems(root, (*where, "sink"), sink, str(kind or "append"), _OF_OTHER_LOADS)
    for key in _OF_OTHER_LOADS:
        if sink.get(key) is not None:
            yield problem(root, (*where, "sink", key), "means nothing with sources of work units; remove it")
    if pipeline.text("schema_evolution") == "overwrite":
        text = "overwrite takes the rows of other work units; allowed: merge, strict"
        yield problem(root, (*where, "schema_evolution"), text)
