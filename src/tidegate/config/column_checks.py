"""What keys of sources that are followed by columns mean together, and with the rest of their pipeline.

Works on the tree, like ``checks``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.config.http_checks import connection_problems, request_problems
from tidegate.config.load_checks import load_problems
from tidegate.config.problems import Problem, nearest, problem, sentence
from tidegate.config.source_kinds import is_followed_by_columns, is_prefix_of_files, tag_of_connection
from tidegate.config.tree import Block
from tidegate.config.words import backward, declared_types, words

Path = tuple[str, ...]
_OF_FORMATS = {
    "csv": ("csv",),
    "sheet": ("excel",),
    "lines": ("json",),
    "pattern": ("parquet", "csv", "json", "excel"),
    "follow_links": ("parquet", "csv", "json", "excel"),
}
_IN_REQUESTS = (
    "watermark_param_mapping",
    "watermark_to_param",
    "watermark_param_location",
    "watermark_param_format",
    "watermark_split",
)
_TIMES = ("timestamp", "date")


def connections_problems(root: Block) -> Iterator[Problem]:
    """Problems of connections by themselves."""
    for name, connection in root.blocks("connections"):
        if tag_of_connection(connection) == "http":
            yield from connection_problems(root, ("connections", name), connection)


def column_problems(root: Block, where: Path, pipeline: Block, sources: Mapping[str, Block]) -> Iterator[Problem]:
    """Problems of one pipeline; ``sources`` are those that are not reported already."""
    followed = {name: block for name, block in sources.items() if is_followed_by_columns(block)}
    files = [name for name, block in sources.items() if is_prefix_of_files(block)]
    if not followed:
        yield from _file_sink_problems(root, where, pipeline) if files else ()
        return
    if files:
        text = (
            f"is a source of files, and {next(iter(followed))!r} is not; allowed: a pipeline of its own for each kind"
        )
        yield problem(root, (*where, "sources", files[0]), text)
    declared = declared_types(pipeline)
    for name, source in followed.items():
        yield from _source_problems(root, (*where, "sources", name), source, declared)
        yield from _look_back_problems(root, (*where, "sources", name), source, declared)
        yield from _lag_problems(root, (*where, "sources", name), source, declared)
    yield from pipeline_problems(root, where, pipeline)
    yield from load_problems(root, where, pipeline, followed)


def _file_sink_problems(root: Block, where: Path, pipeline: Block) -> Iterator[Problem]:
    sink = pipeline.block("sink")
    kind = sink.text("load_type")
    if kind is not None and kind in ("overwrite", "full_load", "merge_upsert", "merge_overwrite", "scd2"):
        text = f"{kind.raw!r} is not supported for file sources; set load_type: append"
        yield problem(root, (*where, "sink", "load_type"), text)


def _declared_problems(root: Block, where: Path, source: Block, declared: Mapping[str, str]) -> Iterator[Problem]:
    """Records of an API have the declared columns and no others."""
    for word in words(source.get("watermark_columns")):
        if declared and word not in declared:
            text = sentence(f"{word.raw!r} is not a declared column", nearest(word, declared))
            yield problem(root, (*where, "watermark_columns"), text)


def _source_problems(root: Block, where: Path, source: Block, declared: Mapping[str, str]) -> Iterator[Problem]:
    kind = str(source.text("type"))
    if kind == "jdbc":
        yield from table_or_query_problems(root, where, source)
    if kind == "http":
        yield from request_problems(root, where, source)
        yield from _declared_problems(root, where, source, declared)
    for key, kinds in _OF_FORMATS.items():
        if source.get(key) is not None and kind not in kinds and kind in ("delta", "iceberg", *_OF_FORMATS["pattern"]):
            text = f"the type of this source is {kind}; allowed: with {', '.join(kinds)} only"
            yield problem(root, (*where, key), text)
    yield from _configure_problems(root, where, source, kind)


def table_or_query_problems(root: Block, where: Path, source: Block) -> Iterator[Problem]:
    """Both or none of the two ways to say what is read of a database."""
    if (source.get("table") is None) == (source.get("query") is None):
        both = source.get("table") is not None
        text = "given beside 'table'; allowed: one of them" if both else "neither 'table' nor 'query' is given"
        yield problem(root, (*where, "query") if both else where, text)


def _configure_problems(root: Block, where: Path, source: Block, kind: str) -> Iterator[Problem]:
    """Keys that stand both in ``configure`` and beside it, and keys of requests where none are sent."""
    configure = source.block("configure")
    for key, node in configure.items():
        if node is not None and source.get(key) is not None:
            yield problem(root, (*where, "configure", key), "given on the source too; allowed: one of them")
        if key in _IN_REQUESTS and kind != "http":
            text = f"the type of this source is {kind}; allowed: with http only"
            yield problem(root, (*where, "configure", key), text)


def _look_back_problems(root: Block, where: Path, source: Block, declared: Mapping[str, str]) -> Iterator[Problem]:
    """A look-back of days on a number, and of a number on times, where the types are declared."""
    found = backward(root, where, source)
    columns = [str(word) for word in words(source.get("watermark_columns"))]
    for column in columns[:1] if source.text("watermark_mode") == "tuple" else columns:
        kind = declared.get(column, "")
        fits = [key for key in found.keys if (key == "value") == (kind not in _TIMES)]
        if found.keys and kind and (not fits or not _is_number_or_time(kind)):
            use = "backward: {value: …}" if kind not in _TIMES else "backward: {days: …}"
            use = use if _is_number_or_time(kind) else "another column; look-back is for numbers and times"
            text = f"a look-back by {', '.join(found.keys)} does not fit {column!r}, which is of type {kind}; use {use}"
            yield problem(root, found.place, text)


def _lag_problems(root: Block, where: Path, source: Block, declared: Mapping[str, str]) -> Iterator[Problem]:
    """A safety lag where no watermark column holds times, where the types are declared."""
    columns = [str(word) for word in words(source.get("watermark_columns"))]
    leading = columns[:1] if source.text("watermark_mode") == "tuple" else columns
    kinds = {column: declared.get(column, "") for column in leading}
    given = str(source.text("safety_lag") or "none").strip().lower() != "none"
    if given and kinds and all(kinds.values()) and not any(kind in _TIMES for kind in kinds.values()):
        found = ", ".join(f"{column!r}, which is of type {kind}" for column, kind in kinds.items())
        text = f"has no effect on {found}; follow a timestamp or a date, or use backward: {{value: …}} with a merge"
        yield problem(root, (*where, "safety_lag"), text)


def _is_number_or_time(kind: str) -> bool:
    return kind in (*_TIMES, "int32", "int64", "float32", "float64") or kind.startswith("decimal")


def pipeline_problems(root: Block, where: Path, pipeline: Block) -> Iterator[Problem]:
    """Parts of a pipeline that belong to files."""
    if pipeline.text("delivery") == "staged":
        text = "staged, and its sources are no files; allowed: direct"
        yield problem(root, (*where, "delivery"), text)
    if pipeline.block("schema").get("rescued") is not None:
        yield problem(
            root, (*where, "schema", "rescued"), "rescues what lines of files hold; allowed: with file sources only"
        )
    sink = pipeline.block("sink")
    for name in words(sink.get("metadata_columns")):
        text = f"{str(name)!r} tells of files, and these sources have none; allowed: a transform that adds a column"
        yield problem(root, (*where, "sink", "metadata_columns"), text)
    by = sink.block("partition_by")
    template = by.text("prefix_template")
    if template is not None and "=" in template and by.get("column") is None:
        text = "takes values from the paths of files, and these sources have none; give 'column', or column names alone"
        yield problem(root, (*where, "sink", "partition_by", "prefix_template"), text)
