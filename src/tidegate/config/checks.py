"""What keys mean together: within a schema, within a pipeline, and between pipelines of one table.

Works on the tree, not on the models, and passes over what has the wrong shape (the models report that), so
that a file's problems come out all at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidegate.config.column_checks import column_problems, connections_problems
from tidegate.config.overlap_checks import overlap_problems
from tidegate.config.partition_checks import partition_keys, partition_problems
from tidegate.config.problems import Problem, problem
from tidegate.config.schema_checks import schema_problems
from tidegate.config.source_kinds import DOWNLOAD, is_prefix_of_files
from tidegate.config.state_checks import state_problems
from tidegate.config.tree import Block, Loc, Scalar, find
from tidegate.config.unit_checks import same_unit_column_problems, unit_problems
from tidegate.config.unit_input_checks import order_problems
from tidegate.config.words import WHOLE, declared_types, is_on, words
from tidegate.schema.names import RESCUED
from tidegate.specs.project import why_not

Absolute = Callable[[str], str]


def together(root: Block, absolute: Absolute, covers: Callable[[Loc], bool]) -> Iterator[Problem]:
    """Problems between keys; ``absolute`` makes an address comparable, ``covers`` knows what is reported already."""
    yield from connections_problems(root)
    yield from state_problems(root)
    for name, pipeline in root.blocks("pipelines"):
        where = ("pipelines", name)
        yield from schema_problems(root, (*where, "schema"), pipeline.block("schema"))
        yield from partition_problems(root, where, pipeline.block("sink"), _declared(pipeline))
        yield from _column_problems(root, where, pipeline)
        yield from _dead_letter_problems(root, where, pipeline, absolute)
        yield from _property_problems(root, where, pipeline)
        for source, block in pipeline.blocks("sources"):
            if is_prefix_of_files(block) or block.text("type") == DOWNLOAD:
                yield from _format_problems(root, (*where, "sources", source), block)
        yield from _transform_problems(root, where, pipeline)
        at = (*where, "sources")
        sources = {name: block for name, block in pipeline.blocks("sources") if not covers((*at, name))}
        yield from column_problems(root, where, pipeline, sources)
        yield from unit_problems(root, where, pipeline, sources)
    yield from overlap_problems(root, absolute)
    yield from order_problems(root, absolute)
    yield from _table_problems(root, absolute)
    spark = root.block("spark")
    if spark.text("master") is not None and spark.text("remote") is not None:
        yield problem(root, ("spark", "remote"), "given beside 'master'; allowed: one of them")


def _declared(pipeline: Block) -> dict[str, str] | None:
    """Type by name of the declared columns; None where they are inferred."""
    return declared_types(pipeline) if pipeline.block("schema").get("fields") else None


def _column_problems(root: Block, where: Loc, pipeline: Block) -> Iterator[Problem]:
    """Metadata columns beside partition keys, the rescued column beside both and declared ones."""
    sink = pipeline.block("sink")
    template = sink.block("partition_by").text("prefix_template")
    keys = {name.lower() for name in partition_keys(template or "")}
    taken = {*keys, *(name.lower() for name in _declared(pipeline) or ())}
    rescued = str(pipeline.block("schema").text("rescued") or "").lower()
    rescued = RESCUED if rescued in ("true", "yes", "on") else rescued
    if rescued and rescued in taken:
        text = f"{rescued!r} is a declared or partition column too; give it another name"
        yield problem(root, (*where, "schema", "rescued"), text)
    for source, block in pipeline.blocks("sources") if rescued else ():
        if is_prefix_of_files(block) and (block.text("format") or "ndjson") not in ("ndjson", "json"):
            text = f"source {source!r} reads {block.text('format')} files; allowed: with ndjson and json only"
            yield problem(root, (*where, "schema", "rescued"), text)
    for name in words(sink.get("metadata_columns")):
        if name.lower() in keys:
            text = f"{str(name)!r} is a partition column too; rename that one"
            yield problem(root, (*where, "sink", "metadata_columns"), text)


def _dead_letter_problems(root: Block, where: Loc, pipeline: Block, absolute: Absolute) -> Iterator[Problem]:
    letters, table = (
        pipeline.block("error_handling").text("dlq_path"),
        pipeline.block("sink").text("table_uri"),
    )
    if letters and table and absolute(letters) == absolute(table):
        text = "is the table itself; allowed: a place of its own"
        yield problem(root, (*where, "error_handling", "dlq_path"), text)


def _property_problems(root: Block, where: Loc, pipeline: Block) -> Iterator[Problem]:
    """Each property of the table that a configuration may not set."""
    for key, value in pipeline.block("sink").block("table_properties").items():
        reason = why_not(str(key), str(value)) if isinstance(value, Scalar) and not value.broken else None
        if reason is not None:
            yield problem(root, (*where, "sink", "table_properties", key), f"cannot be set here; {reason}")


def _format_problems(root: Block, where: Loc, source: Block) -> Iterator[Problem]:
    """Keys that say something about another format than the source's."""
    kind = str(source.text("format") or "ndjson")
    compression = source.text("compression")
    if kind in ("parquet", "avro") and compression not in (None, "auto", "none"):
        text = f"{kind} files are compressed inside, not as a whole; allowed: remove it"
        yield problem(root, (*where, "compression"), text)
    if source.get("csv") is None:
        return
    if kind != "csv":
        yield problem(root, (*where, "csv"), f"the format of this source is {kind}; set format: csv, or remove it")
    csv = source.block("csv")
    if words(csv.get("columns")) and (csv.text("header") or "true").lower() in ("true", "yes", "on"):
        text = "the header of each file names its columns; set header: false, or remove it"
        yield problem(root, (*where, "csv", "columns"), text)
    marks = {key: str(mark) for key in ("delimiter", "quote", "escape") if (mark := csv.text(key)) is not None}
    if len(set(marks.values())) < len(marks):
        text = f"{', '.join(marks)} are not all different; allowed: a character of its own for each"
        yield problem(root, (*where, "csv"), text)


def _transform_problems(root: Block, where: Loc, pipeline: Block) -> Iterator[Problem]:
    transform = pipeline.block("transform")
    if transform.text("sql") is not None and transform.text("python") is not None:
        yield problem(root, (*where, "transform", "python"), "given beside 'sql'; allowed: one of them")
    if (transform.text("sql") or transform.text("python")) and pipeline.text("delivery") == "staged":
        text = "staged, and the pipeline has a transform, which Spark commits itself; allowed: direct"
        yield problem(root, (*where, "delivery"), text)


@dataclass(frozen=True, slots=True)
class _Writer:
    """One source of one pipeline, as seen from the table it writes."""

    pipeline: str
    source: str
    uri: str
    filters: str

    @property
    def loc(self) -> tuple[str, ...]:
        return ("pipelines", self.pipeline, "sources", self.source)

    @property
    def title(self) -> str:
        return f"{self.pipeline}/{self.source}"


def _table_problems(root: Block, absolute: Absolute) -> Iterator[Problem]:
    tables: dict[str, list[str]] = defaultdict(list)
    for name, pipeline in root.blocks("pipelines"):
        written = pipeline.block("sink").text("table_uri")
        if written is not None:
            tables[absolute(written)].append(name)
    for names in tables.values():
        writers = [writer for name in names for writer in _writers(root, name, absolute)]
        yield from _writer_problems(root, writers)
        yield from _overwrite_problems(root, names, writers)
        yield from _agreement_problems(root, names)
        yield from same_unit_column_problems(root, names)


def _writers(root: Block, name: str, absolute: Absolute) -> Iterator[_Writer]:
    for source, block in root.block("pipelines").block(name).blocks("sources"):
        uri = block.text("source_uri")
        filters = repr(
            [words(block.get(key)) for key in ("pattern", "exclude", "filter_expression")] + [_endings(block)]
        )
        yield _Writer(name, source, absolute(uri) if uri else "", filters)


def _endings(source: Block) -> str:
    """What tells the files of one source by their names, where it has no pattern."""
    kind = str(source.text("format") or "ndjson")
    return "" if source.get("pattern") is not None else "ndjson" if kind == "json" else kind


def _writer_problems(root: Block, writers: list[_Writer]) -> Iterator[Problem]:
    mirrors: dict[str, _Writer] = {}
    inputs: dict[tuple[str, str], _Writer] = {}
    for writer in writers:
        twin = mirrors.setdefault(f"{writer.pipeline}_{writer.source}", writer)
        if twin is not writer:
            text = f"{writer.title} and {twin.title} write one table and would share the mirror "
            yield problem(root, writer.loc, f"{text}'{twin.pipeline}_{twin.source}_checkpoint.json'; rename one")
        if not writer.uri:
            continue
        same = inputs.setdefault((writer.uri, writer.filters), writer)
        if same is not writer:
            text = f"{writer.title} and {same.title} read the same files into one table, which doubles rows"
            yield problem(root, (*writer.loc, "source_uri"), f"{text}; remove one")


def _overwrite_problems(root: Block, names: list[str], writers: list[_Writer]) -> Iterator[Problem]:
    """Who replaces a table's columns, its rows or those of a window is its only source."""
    others = ", ".join(writer.title for writer in writers)
    alone = f"wants to be the only source of its table, which has {others}"
    for name in names if len(writers) > 1 else ():
        pipeline = root.block("pipelines").block(name)
        where, sink = ("pipelines", name), pipeline.block("sink")
        if pipeline.text("schema_evolution") == "overwrite":
            yield problem(root, (*where, "schema_evolution"), f"overwrite {alone}; allowed: merge, strict")
        if (kind := sink.text("load_type")) in WHOLE:
            yield problem(root, (*where, "sink", "load_type"), f"{kind} {alone}; allowed: merge_upsert, append")
        if is_on(sink, "replace_by_watermark"):
            text = f"{alone}; allowed: false, or a table of its own"
            yield problem(root, (*where, "sink", "replace_by_watermark"), text)


def _agreement_problems(root: Block, names: list[str]) -> Iterator[Problem]:
    """Pipelines of one table partition it alike and want the same properties."""
    first, wanted = _template(root, names[0]), _properties(root, names[0])
    for name in names[1:]:
        if _properties(root, name) != wanted:
            text = f"pipeline {names[0]!r} writes this table with other table_properties; allowed: the same"
            yield problem(root, ("pipelines", name, "sink"), text)
        if partition_keys(_template(root, name)) != partition_keys(first):
            text = f"pipeline {names[0]!r} writes this table with other partition columns; allowed: the same"
            yield problem(root, ("pipelines", name, "sink"), text)


def _properties(root: Block, name: str) -> dict[str, str]:
    block = root.block("pipelines").block(name).block("sink").block("table_properties")
    return {str(key): str(value) for key, value in block.items() if isinstance(value, Scalar)}


def _template(root: Block, name: str) -> str:
    found = find(root, ("pipelines", name, "sink", "partition_by", "prefix_template"))
    return str(found) if isinstance(found, Scalar) else ""
