"""The tree of a file in its full form: short forms spelled out, old names replaced, the type of each source set.

Only files use the names in the tables of this module; later steps never see them. Each rename is relative to a
pipeline. A file with a pipeline's keys at its top and no ``pipelines:`` is one pipeline, named after the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate.config.document import (
    FLAGS,
    Block,
    Items,
    Loc,
    Node,
    Problem,
    Scalar,
    find,
    nearest,
    path_of,
    problem,
    sentence,
)
from tidegate.core.json_shape import load_json
from tidegate.specs.columns import TableFormat
from tidegate.specs.locations import CATALOG


@dataclass(frozen=True, slots=True)
class Alias:
    """``old`` is accepted for ``new``; both are paths inside a pipeline, ``*`` stands for every source."""

    old: str
    new: str
    why: str


ALIASES = (
    Alias("source", "sources.default", "short for a single source, called 'default'"),
    Alias("destination", "sink", "another word for the same thing"),
    Alias("sources.*.path", "sources.*.source_uri", "another word for the same thing"),
    Alias("sources.*.max_concurrent_files", "max_concurrent_files", "it holds for all sources of a pipeline together"),
    Alias("sink.path", "sink.table_uri", "another word for the same thing"),
    Alias("sink.location", "sink.table_uri", "the word beside 'table', the name of a table"),
    Alias("schema.evolution", "schema_evolution", "short, where a schema is declared anyway"),
)
WITHOUT_PLACE = ("jdbc", "http", "python")
"""Types of sources that have no `source_uri`."""

OPENS_A_PIPELINE = ("source", "sources", "sink", "destination")
PIPELINE_KEYS = (
    *OPENS_A_PIPELINE,
    "schema",
    "schema_evolution",
    "delivery",
    "on_conflict",
    "staging",
    "transform",
    "max_concurrent_files",
    "error_handling",
)
STRUCTURED = (("watermark",), ("secondary_input",), ("work_unit", "partition"))
"""Keys that may be JSON text, under either name."""
FILES = "files"
TABLES = tuple(each.value for each in TableFormat)
CONNECTED = ("jdbc", "http")
DOWNLOAD = "download"
TYPES = (FILES, *TABLES, *CONNECTED, "python", DOWNLOAD)
OF_UNITS = (*CONNECTED, "python", DOWNLOAD)
"""Types of sources that may have work units."""

UNIT_MARKS = ("watermark", "secondary_input", "work_unit")
"""Keys that make a source one of work units."""


def normal_form(root: Block, stem: str, of_sources: Mapping[str, tuple[str, ...]]) -> tuple[Block, list[Problem]]:
    """A copy of the tree with current names; ``stem`` names the pipeline of a short file.

    ``of_sources`` has the path of a key below a source for its old name.
    """
    top, problems = _add_pipelines(root, stem)
    pipelines = top.get("pipelines")
    if isinstance(pipelines, Block):
        fresh = pipelines.copy()
        for name, pipeline in pipelines.items():
            if isinstance(pipeline, Block):
                fresh[name] = copied = _copy(pipeline)
                top["pipelines"] = fresh
                where = ("pipelines", name)
                for alias in ALIASES:
                    meant = alias.new.replace("*", "<source>")
                    for old, new in _expand(copied, alias):
                        problems += _rename(top, where, copied, old, new, meant)
                _place_names(copied)
                for source, block in copied.blocks("sources"):
                    for old_name, key in of_sources.items():
                        problems += _rename(top, (*where, "sources", source), block, (old_name,), key, ".".join(key))
                    for path in STRUCTURED:
                        problems += _read_json(top, (*where, "sources", source), block, path)
    return top, problems


def _place_names(pipeline: Block) -> None:
    """Tables by name without a location get an address that says so; it is changed."""
    tables = [(block, "source_uri") for _, block in pipeline.blocks("sources") if block.text("type") == "delta"]
    sink = pipeline.get("sink")
    for block, key in (*tables, *([(sink, "table_uri")] if isinstance(sink, Block) else ())):
        name = block.text("table")
        if name is not None and block.get(key) is None:
            line = block.lines["table"]
            block.put(key, Scalar(f"{CATALOG}{name}", f"{CATALOG}{name.raw}", line), line)


def _add_pipelines(root: Block, stem: str) -> tuple[Block, list[Problem]]:
    """The root with ``pipelines:``, made from a short file if need be."""
    top = root.copy()
    given = [key for key in OPENS_A_PIPELINE if key in root]
    if not given:
        return top, []
    if "pipelines" in root:
        for key in PIPELINE_KEYS:
            top.drop(key)
        text = "a file has either 'pipelines:' or one pipeline at its top, not both; move it under 'pipelines:'"
        return top, [problem(root, (key,), text) for key in given]
    pipeline = Block(root.line)
    for key in PIPELINE_KEYS:
        if key in root:
            pipeline.put(key, root[key], root.lines[key])
            top.drop(key)
    pipelines = Block(root.line)
    pipelines.put(stem, pipeline, root.line, written="")
    top.put("pipelines", pipelines, root.line, written="")
    return top, []


def _copy(pipeline: Block) -> Block:
    """The pipeline with those blocks copied that renames write to."""
    fresh = pipeline.copy()
    for key, node in pipeline.items():
        if isinstance(node, Block):
            below = node.copy()
            if key == "sources":
                below.update({name: each.copy() for name, each in pipeline.blocks(key)})
            fresh[key] = below
    return fresh


def _expand(pipeline: Block, alias: Alias) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The paths of ``alias``; one per source if it belongs to sources."""
    names = [""]
    if "*" in alias.old:
        sources = dict(pipeline.blocks("sources"))
        names = [
            name
            for name, each in sources.items()
            if "connection" not in each and each.text("type") not in WITHOUT_PLACE
        ]
    for name in names:
        old, new = (tuple(name if part == "*" else part for part in path.split(".")) for path in (alias.old, alias.new))
        yield old, new


def _rename(
    top: Block, where: Loc, base: Block, old: tuple[str, ...], new: tuple[str, ...], meant: str
) -> Iterator[Problem]:
    """Move what is at ``old`` to ``new``, both below ``base``, which is at ``where``; it is changed."""
    *above, last = old
    holder = find(base, above)
    if not isinstance(holder, Block) or last not in holder:
        return
    node, line = holder[last], holder.lines[last]
    # 'source' and 'sources' exclude each other, whatever the names.
    if find(base, new) is not None or (old == ("source",) and base.get("sources") is not None):
        text = f"{last!r} means {meant!r}, which is also given; remove one of the two"
        yield problem(top, (*where, *old), text)
        holder.drop(last)
        return
    holder.drop(last)
    target: Block = base
    for part in new[:-1]:
        below = target.get(part)
        if below is None:
            target.put(part, Block(line), line, written="")
        elif isinstance(below, Block):
            target[part] = below.copy()
        target = target.block(part)
    written = last if len(above) < len(new) else f"{path_of(base, above)}.{last}"
    target.put(new[-1], node.copy() if isinstance(node, Block) else node, line, written=written)


def _read_json(root: Block, where: Loc, source: Block, path: tuple[str, ...]) -> Iterator[Problem]:
    *above, last = path
    holder = source.block(above[0]) if above else source
    written = holder.text(last)
    if written is None or not written.lstrip().startswith(("[", "{")):
        return
    try:
        found = load_json(written)
    except (ValueError, RecursionError) as exc:
        at = f" at character {exc.pos + 1}" if isinstance(exc, json.JSONDecodeError) else ""
        yield problem(root, (*where, *path), f"is not JSON{at}; write JSON text, or the same as YAML")
        # Marked, so that nothing else is said about a value that nobody could read.
        holder[last] = Scalar(written, written.raw, written.line, broken=True)
        return
    holder[last] = _tree(found, written)


def _tree(value: object, written: Scalar) -> Node:
    """JSON as a tree, all of it in the line of the text."""
    match value:
        case dict():
            block = Block(written.line)
            for key, below in value.items():
                block.put(key, _tree(below, written), written.line)
            return block
        case list():
            items = Items(written.line)
            for below in value:
                items.add(_tree(below, written), written.line)
            return items
        case None:
            return None
        case str():
            return Scalar(value, value, written.line, quoted=True)
        case _:
            return Scalar(plain := json.dumps(value), plain, written.line)


def tag_of_source(source: object) -> str:
    """The kind of a source: ``files``, ``table``, ``jdbc``, ``tables``, ``http``, ``http-unit`` …, ``download``."""
    kind = str(source.text("type") or FILES) if isinstance(source, Block) else FILES
    if isinstance(source, Block) and kind != DOWNLOAD and kind in OF_UNITS and is_unit_source(source):
        return f"{kind}-unit"
    if isinstance(source, Block) and kind == "jdbc" and source.get("tables") is not None:
        return "tables"
    return "table" if kind in TABLES else kind if kind in TYPES else FILES


def tag_of_connection(connection: object) -> str:
    """The kind of a connection: ``jdbc`` or ``http``."""
    kind = connection.text("type") if isinstance(connection, Block) else None
    return "http" if kind == "http" else "jdbc"


def is_column_source(source: Block) -> bool:
    """Whether it is a column source."""
    return not is_file_source(source) and not is_unit_source(source)


def is_file_source(source: Block) -> bool:
    """Whether it is a file source."""
    return tag_of_source(source) == FILES


def is_unit_source(source: Block) -> bool:
    """Whether a source has work units."""
    return source.text("type") == DOWNLOAD or unit_mark(source) is not None


def unit_mark(source: Block) -> str | None:
    """The first key that makes a source one of work units."""
    return next((key for key in UNIT_MARKS if source.get(key) is not None), None)


def kinds_of_watermark(source: Block) -> list[str]:
    """The keys that choose a kind of watermark; a source may have one."""
    values = {key: source.get(key) for key in ("use_watermark", "watermark_columns")}
    given = [key for key, value in values.items() if value is not None and FLAGS.get(str(value).lower()) is not False]
    mark = unit_mark(source)
    return [*given, mark] if mark else given


def set_types(root: Block) -> Iterator[tuple[tuple[str, ...], Problem]]:
    """Give each source of a connection its type; yields the places of unknown kind, with what is wrong there.

    The source blocks of ``root`` are changed.
    """
    known = dict(root.blocks("connections"))
    for name, connection in known.items():
        kind = connection.text("type")
        is_broken = kind is None and isinstance(connection.get("type"), Scalar)
        if kind not in CONNECTED and not is_broken:
            given = f"{kind.raw!r} is not one of" if kind is not None else "is missing; allowed:"
            hint = nearest(kind, CONNECTED) if kind is not None else ""
            text = sentence(f"{given} {', '.join(CONNECTED)}", hint)
            yield ("connections", name), problem(root, ("connections", name, "type"), text)
    for name, pipeline in root.blocks("pipelines"):
        for source, block in pipeline.blocks("sources"):
            where = ("pipelines", name, "sources", source)
            if (refused := _set_type(block, known)) is not None:
                key, wrong = refused
                yield where, problem(root, (*where, key), wrong)


def _set_type(source: Block, connections: dict[str, Block]) -> tuple[str, str] | None:
    """Sets the type of ``source``; otherwise returns the problem and its key."""
    kind, connection = source.text("type"), source.text("connection")
    if kind is not None and kind not in TYPES:
        if kind in ("avro", "ndjson"):
            return "type", f"{kind.raw!r} is a file format; set type: files and format: {kind}"
        return "type", sentence(f"{kind.raw!r} is not one of {', '.join(TYPES)}", nearest(kind, TYPES))
    if connection is None:
        return _not_of_units(source)
    if connection not in connections:
        allowed = f"allowed: {', '.join(connections)}" if connections else "give it a block below 'connections:'"
        hint = nearest(connection, connections)
        return "connection", sentence(f"there is no connection {connection.raw!r}", hint or allowed)
    found = tag_of_connection(connections[connection])
    if kind is None:
        source.put("type", Scalar(found, found, connection.line), connection.line)
    elif kind == DOWNLOAD:
        if found != "http":
            return "connection", f"{connection.raw!r} is of type {found}; downloads need one of type http"
    elif kind not in CONNECTED:
        return "connection", f"sources of type {kind.raw!r} have no connection; remove it, or set type: {found}"
    elif kind != found:
        return "type", f"{kind.raw!r} does not fit the connection {connection.raw!r} of type {found}; set type: {found}"
    return None


def _not_of_units(source: Block) -> tuple[str, str] | None:
    """Why a table or a prefix of files cannot have time ranges and units."""
    mark, kind = unit_mark(source), source.text("type") or FILES
    if mark is None or kind in OF_UNITS or len(kinds_of_watermark(source)) > 1:
        return None
    text = (
        f"works only with APIs, databases, functions and downloads, and the type is {kind}; "
        "give a 'connection', or set type: download or python"
    )
    return mark, text
