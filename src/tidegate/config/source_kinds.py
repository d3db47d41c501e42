"""Of which kind each source and connection is: by its type, by its connection, or a prefix of files.

A source whose kind cannot be told is one problem, and nothing else in it is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.config.problems import Problem, nearest, problem, sentence
from tidegate.config.tree import Block, Loc, Scalar
from tidegate.specs.columns import TableFormat

FILES = "files"
TABLES = tuple(each.value for each in TableFormat)
CONNECTED = ("jdbc", "http")
DOWNLOAD = "download"
TYPES = (FILES, *TABLES, *CONNECTED, "python", DOWNLOAD)
OF_UNITS = (*CONNECTED, "python", DOWNLOAD)
"""Types of sources that may be followed by time ranges and units."""

UNIT_MARKS = ("watermark", "secondary_input", "work_unit")
"""Keys by which a source is known to be followed by time ranges and units."""


def tag_of_source(source: object) -> str:
    """The kind of a source: ``files``, ``table``, ``jdbc``, ``http``, ``python``, ``http-unit`` …, ``download``."""
    kind = str(source.text("type") or FILES) if isinstance(source, Block) else FILES
    if isinstance(source, Block) and kind != DOWNLOAD and kind in OF_UNITS and is_of_units(source):
        return f"{kind}-unit"
    return "table" if kind in TABLES else kind if kind in TYPES else FILES


def tag_of_connection(connection: object) -> str:
    """The kind of a connection: ``jdbc`` or ``http``."""
    kind = connection.text("type") if isinstance(connection, Block) else None
    return "http" if kind == "http" else "jdbc"


def is_followed_by_columns(source: Block) -> bool:
    """Whether the position of a source is the greatest values of its columns."""
    return not is_prefix_of_files(source) and not is_of_units(source)


def is_prefix_of_files(source: Block) -> bool:
    """Whether files are read by their names."""
    return tag_of_source(source) == FILES


def is_of_units(source: Block) -> bool:
    """Whether a source is followed by time ranges and units."""
    return source.text("type") == DOWNLOAD or unit_mark(source) is not None


def unit_mark(source: Block) -> str | None:
    """The first key that tells that a source is followed by time ranges and units."""
    return next((key for key in UNIT_MARKS if source.get(key) is not None), None)


def kinds_of_watermark(source: Block) -> list[str]:
    """The keys that each ask for a kind of watermark; more than one is too many."""
    given = [key for key in ("use_watermark", "watermark_columns") if _is_given(source, key)]
    mark = unit_mark(source)
    return [*given, mark] if mark else given


def _is_given(source: Block, key: str) -> bool:
    value = source.get(key)
    return value is not None and not (isinstance(value, Scalar) and value.lower() in ("false", "no", "off"))


def with_kinds(root: Block) -> Iterator[tuple[tuple[str, ...], Problem]]:
    """Give each source of a connection its type; yields the places of unknown kind, with what is wrong there.

    The source blocks of ``root`` are changed.
    """
    known = dict(root.blocks("connections"))
    for name, connection in known.items():
        yield from _connection_problems(root, ("connections", name), connection)
    for name, pipeline in root.blocks("pipelines"):
        for source, block in pipeline.blocks("sources"):
            where = ("pipelines", name, "sources", source)
            text = _settle(block, known)
            if text is not None:
                key, wrong = text
                yield where, problem(root, (*where, key), wrong)


def _connection_problems(root: Block, where: Loc, connection: Block) -> Iterator[tuple[tuple[str, ...], Problem]]:
    kind = connection.text("type")
    if kind is None and isinstance(connection.get("type"), Scalar):
        return
    if kind not in CONNECTED:
        at = tuple(str(part) for part in where)
        given = f"{kind.raw!r} is not one of" if kind is not None else "is missing; allowed:"
        hint = nearest(str(kind), CONNECTED) if kind is not None else ""
        yield at, problem(root, (*where, "type"), sentence(f"{given} {', '.join(CONNECTED)}", hint))


def _settle(source: Block, connections: dict[str, Block]) -> tuple[str, str] | None:
    """What is wrong with the kind of ``source``, and at which key; else its type is set."""
    kind, connection = source.text("type"), source.text("connection")
    if kind is not None and kind not in TYPES:
        return "type", _unknown_type(str(kind), kind.raw)
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
            return "connection", f"{connection.raw!r} is of the type {found}; files are downloaded by http"
    elif kind not in CONNECTED:
        return "connection", f"sources of the type {kind.raw!r} have none; remove it, or set type: {found}"
    elif kind != found:
        return "type", f"{kind.raw!r}, and the connection {connection.raw!r} is of the type {found}; allowed: {found}"
    return None


def _not_of_units(source: Block) -> tuple[str, str] | None:
    """Why a table or a prefix of files cannot have time ranges and units."""
    mark, kind = unit_mark(source), source.text("type") or FILES
    if mark is None or kind in OF_UNITS or len(kinds_of_watermark(source)) > 1:
        return None
    text = (
        f"is for APIs, databases, functions and downloads, and the type is {kind}; "
        "give a 'connection', or set type: download or python"
    )
    return mark, text


def _unknown_type(kind: str, raw: str) -> str:
    if kind in ("avro", "ndjson"):
        return f"{raw!r} is a format of files; set type: files and format: {kind}"
    return sentence(f"{raw!r} is not one of {', '.join(TYPES)}", nearest(kind, TYPES))
