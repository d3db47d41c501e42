"""Whole databases in one block: a pipeline whose source has ``tables`` stands for a pipeline per table.

The block itself is read and checked like any pipeline, with placeholders for what only a table knows. Given the tables
of its database, each becomes an ordinary pipeline in the tree of the file, which is then read like every other one: so
all checks, defaults and masks hold for it, and no other module knows of blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import quote

from tidegate.config.column_source import NEEDS_COLUMNS, JdbcSourceModel
from tidegate.config.document import Block, Items, Node, Problem, Scalar, Spot
from tidegate.config.models import Model, Parts, kinds_of, part
from tidegate.config.sink import LoadModel
from tidegate.core.database_tables import (
    PLACES,
    BlockSink,
    BlockTable,
    DatabaseTable,
    fill_place,
    plan_block,
    split_pipeline_name,
)
from tidegate.core.dialects.registry import READ_WITHOUT_JAVA, dialect_of
from tidegate.specs.columns import MERGES, WHOLE, ColumnSource
from tidegate.specs.foreign import Foreign
from tidegate.specs.keys import Key
from tidegate.specs.project import PipelineSpec, ProjectSpec, TableBlock
from tidegate.specs.table_block import TableRules, TableSelection
from tidegate.storage.options import absolute_uri

SELECTS = ("tables", "exclude", "without_watermark", "per_table")
"""Keys of a block's source that no source of one table has."""

_ANY_TABLE, _ANY_COLUMN, _ANY_KEY = "{schema}.{table}", "{watermark}", "{key}"
_PLACES = (("sink", "table_uri"), ("sink", "table"), ("error_handling", "dlq_path"))
_IN_BRACES = re.compile(r"(?<!\$)\{([^{}]*)\}")


class TableRulesModel(Model):
    """What holds for one table instead of what the block says."""

    spec: ClassVar = TableRules
    step: ClassVar[str] = "<table>"
    takes: ClassVar[Parts] = (part(TableRules),)


class TablesSourceModel(JdbcSourceModel):
    """The tables of a database, each as a pipeline of its own."""

    step: ClassVar[str] = "<tables source>"
    takes: ClassVar[Parts] = (part(TableSelection),)
    per_table: Annotated[dict[str, TableRulesModel], Key("What holds for one table instead, by schema.table.")] = field(
        default_factory=dict
    )

    @classmethod
    def show_selection(cls, source: ColumnSource, selection: TableSelection) -> dict[str, Any]:
        """The source of a block, in the words of the file."""
        shown = JdbcSourceModel.show_source(source)
        rules = {name: _show_rules(each) for name, each in selection.per_table.items()}
        left = {key: value for key, value in shown.items() if key not in ("table", "query", "watermark_mode")}
        return left | {
            "tables": [*selection.tables],
            "exclude": [*selection.exclude],
            "watermark_columns": [*selection.watermark_columns],
            "without_watermark": selection.without_watermark.value,
            "per_table": rules,
        }


def _show_rules(rules: TableRules) -> dict[str, Any]:
    """Only what differs from the block."""
    shown = TableRulesModel.show(rules)
    return {each.name: shown[each.name] for each in fields(rules) if getattr(rules, each.name)}


@dataclass(frozen=True, slots=True)
class FileTree:
    """The file in full form, with its blocks as they are written, and what else reading it takes."""

    root: Block
    origin: str
    base: Path
    foreign: Foreign


def is_made_up(columns: Iterable[str]) -> bool:
    """Whether columns of a template are placeholders for those of a table."""
    return not {_ANY_COLUMN, _ANY_KEY}.isdisjoint(columns)


def is_block_source(source: Block) -> bool:
    """Whether a source stands for the tables of a database."""
    return source.get("tables") is not None and source.get("connection") is not None


def blocks_in(root: Block) -> Iterator[tuple[str, str, Spot]]:
    """The name, the name of the source, and the place of each block."""
    for name, pipeline in Spot(root, (), root).each("pipelines"):
        for source, block in pipeline.block.blocks("sources"):
            if is_block_source(block):
                yield name, source, pipeline
                break


def put_templates(root: Block) -> tuple[Block, list[Problem]]:
    """A copy of the tree with placeholders in its blocks for what only a table knows, and what is wrong with them."""
    found = [*blocks_in(root)]
    if not found:
        return root, []
    top = _copy(root)
    assert isinstance(top, Block)
    problems = [problem for _, source, pipeline in found for problem in _block_problems(pipeline, source)]
    for name, source, _ in found:
        pipeline = top.block("pipelines").block(name)
        read, sink = pipeline.block("sources").block(source), pipeline.block("sink")
        pipeline.block("schema").drop("fields")
        _put(read, "table", _ANY_TABLE)
        kind = str(sink.text("load_type") or "append")
        if kind not in WHOLE and read.get("watermark_columns") is None:
            _put(read, "watermark_columns", _ANY_COLUMN)
        if kind in MERGES and sink.get("merge_keys") is None:
            _put(sink, "merge_keys", _ANY_KEY)
    return top, problems


def _block_problems(pipeline: Spot, source: str) -> Iterator[Problem]:
    read, sink = pipeline.below("sources", source), pipeline.below("sink")
    if len(pipeline.below("sources").block) > 1:
        yield read.problem("a block of tables has one source; give the others a pipeline of their own", "tables")
    for key in ("table", "query"):
        yield from read.both(key, "tables")
    if read.has("watermark_mode"):
        text = "works only below per_table: a block follows each table by the first of watermark_columns that it has"
        yield read.problem(text, "watermark_mode")
    if pipeline.below("schema").has("fields"):
        text = "are those of one table, and a block takes the columns of each of its tables; remove them"
        yield pipeline.problem(text, "schema", "fields")
    for pattern in read.words("tables"):
        if "." not in pattern:
            yield read.problem(f"{pattern.raw!r} has no schema; write schema.table, such as public.*", "tables")
    url = read.top.below("connections", str(read.text("connection") or "")).text("url")
    if url is not None and dialect_of(url).python is None:
        text = f"tables are listed for {READ_WITHOUT_JAVA}, and the connection is another database"
        yield read.problem(f"{text}; give each table a pipeline of its own", "tables")
    for above, key in _PLACES:
        place = pipeline.below(above).text(key)
        wrong = [each for each in _IN_BRACES.findall(place or "") if f"{{{each}}}" not in PLACES]
        if wrong:
            text = f"{{{wrong[0]}}} is no part of a table's name; allowed: {', '.join(PLACES)}"
            yield pipeline.problem(text, above, key)
    places = [place for key in ("table_uri", "table") if (place := sink.text(key)) is not None]
    if places and not any(PLACES[1] in place for place in places):
        text = f"every table needs a place of its own; write {PLACES[1]} into it, such as lake/{{schema}}/{{table}}"
        yield sink.problem(text, "table_uri" if sink.has("table_uri") else "table")


def make_blocks(project: ProjectSpec, selections: Mapping[str, Any], tree: FileTree) -> ProjectSpec:
    """The project with its templates moved from ``pipelines`` to ``blocks``; ``selections`` are their source models."""
    made = []
    for name, model in selections.items():
        template = _with_braces(project.pipeline(name))
        columns = tuple(each for each in model["watermark_columns"] if each != _ANY_COLUMN)
        rules = {table: each.build(None) for table, each in model["per_table"].items()}
        selection = TableSelection(model["tables"], model["exclude"], columns, model["without_watermark"], rules)
        made.append(TableBlock(name, template, selection, tree))
    kept = tuple(each for each in project.pipelines if each.name not in selections)
    return replace(project, pipelines=kept, blocks=tuple(made))


def _with_braces(template: PipelineSpec) -> PipelineSpec:
    """The template with its placeholders as they are written: in addresses of files they are escaped."""

    def restore(uri: str) -> str:
        for place in PLACES:
            uri = uri.replace(quote(place), place)
        return uri

    sink, letters = template.sink, template.error_handling
    table = replace(sink.table, uri=restore(sink.table.uri))
    uri = None if letters.dlq_uri is None else restore(letters.dlq_uri)
    return replace(template, sink=replace(sink, table=table), error_handling=replace(letters, dlq_uri=uri))


def plan_tables(block: TableBlock, tables: Iterable[DatabaseTable]) -> tuple[BlockTable, ...]:
    """What becomes of the tables of a block's database."""
    load, pipeline = block.template.sink.load, _node_of(block)
    places = (text for above, key in _PLACES[:2] if (text := pipeline.block(above).text(key)) is not None)
    keys = tuple(each for each in load.merge_keys if each != _ANY_KEY)
    return plan_block(block.name, tables, block.selection, BlockSink(tuple(map(str, places)), load.type.value, keys))


def _node_of(block: TableBlock) -> Block:
    tree: FileTree = block.tree
    return tree.root.block("pipelines").block(block.name)


def expand_tree(tree: FileTree, planned: Mapping[str, tuple[TableBlock, tuple[BlockTable, ...]]]) -> Block:
    """The tree of the file with pipelines of tables instead of its blocks; those not in ``planned`` are left out."""
    top = tree.root.copy()
    pipelines = Block(top.line)
    names = {name for name, _, _ in blocks_in(tree.root)}
    for name, node in tree.root.block("pipelines").items():
        line = tree.root.block("pipelines").lines[name]
        if name not in names:
            pipelines.put(name, node, line)
        elif name in planned:
            block, tables = planned[name]
            for each in tables:
                if each.refused is None:
                    pipelines.put(each.pipeline, _pipeline_of(block, each), line)
    top.put("pipelines", pipelines, top.line)
    return top


def _pipeline_of(block: TableBlock, planned: BlockTable) -> Block:
    """The pipeline of one table, as a file would have it."""
    made = _copy(_node_of(block))
    assert isinstance(made, Block)
    (source,) = dict(made.blocks("sources")).values()
    sink, rules = made.block("sink"), planned.rules
    for key in SELECTS:
        source.drop(key)
    _put(source, "table", planned.table.quote(dialect_of(block.read.url)))
    _put_list(source, "watermark_columns", planned.watermark_columns)
    given: dict[str, object] = {
        "watermark_mode": rules.watermark_mode,
        "filter_expression": rules.filter_expression,
        "partition_column": rules.partition_column,
        "parallelism": rules.parallelism,
    }
    for key, value in given.items():
        if value is not None:
            _put(source, key, str(value))
    for above, key in _PLACES:
        holder = made.block(above)
        if (place := holder.text(key)) is not None:
            holder[key] = _fill(place, planned.table)
    load_type = planned.load_type
    _put(sink, "load_type", load_type)
    if not planned.watermark_columns:
        for key in (*NEEDS_COLUMNS, *(each for each in source if each.startswith("backward_"))):
            source.drop(key)
    for key, kinds in kinds_of(LoadModel).items():
        if load_type not in kinds.allowed:
            sink.drop(key)
    if load_type in MERGES:
        _put_list(sink, "merge_keys", planned.merge_keys)
    return made


def refuse_pipeline(block: TableBlock, planned: BlockTable) -> PipelineSpec:
    """The pipeline of a refused table: a name and a place, for reports; it is never read or written."""
    sink, tree = block.template.sink, block.tree
    place = _node_of(block).block("sink").text("table_uri")
    if place is not None:
        uri = absolute_uri(fill_place(place, planned.table), tree.base)
        sink = replace(sink, table=replace(sink.table, uri=uri))
    return replace(block.template, name=planned.pipeline, sink=sink, block=block.name, refused=planned.refused)


def _fill(place: Scalar, table: DatabaseTable) -> Scalar:
    value, raw = fill_place(place, table), fill_place(place.raw, table)
    return Scalar(value, raw, place.line, quoted=True, variables=place.variables)


def table_named(block: TableBlock, name: str) -> str | None:
    """The ``schema.table`` of a pipeline of the block, by its name."""
    try:
        found = split_pipeline_name(block.name, name)
    except ValueError:
        return None
    return None if found is None else ".".join(found)


def _copy(node: Node) -> Node:
    match node:
        case Block():
            made = node.copy()
            for key, below in node.items():
                made[key] = _copy(below)
            return made
        case Items():
            items = Items(node.line)
            for below, line in zip(node, node.lines, strict=True):
                items.add(_copy(below), line)
            return items
        case _:
            return node


def _put(block: Block, key: str, value: str) -> None:
    block.put(key, Scalar(value, value, block.line, quoted=True), block.lines.get(key, block.line))


def _put_list(block: Block, key: str, values: Iterable[str]) -> None:
    items = Items(block.line)
    for value in values:
        items.add(Scalar(value, value, block.line, quoted=True), block.line)
    block.drop(key)
    if items:
        block.put(key, items, block.line)
