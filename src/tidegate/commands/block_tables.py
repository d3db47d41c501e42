"""The tables of a project's blocks: as runs remember them, or as their databases have them now.

A database that cannot be asked fails its block, and no other pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tidegate.config import expand
from tidegate.config.known_tables import KnownBlock, KnownBlocks
from tidegate.core.database_tables import DatabaseTable, find_unused_rules, select_tables
from tidegate.errors import TidegateError
from tidegate.reports.page import names
from tidegate.specs.masking import Mask
from tidegate.specs.project import PipelineSpec, ProjectSpec, TableBlock
from tidegate.specs.table_block import TableRefusal

NAMES_SHOWN = 5
UNKNOWN = TableRefusal("its tables are not known yet", "run it once, or `tidegate plan`")

ListTables = Callable[[TableBlock], Sequence[DatabaseTable]]


def recall_tables(project: ProjectSpec) -> ProjectSpec:
    """The project with the tables that runs remember; needs no database."""
    known = KnownBlocks(project.origin)
    found = {block.name: known.read(block) for block in project.blocks}
    refused = {name: UNKNOWN for name, each in found.items() if each is None}
    return _put_tables(project, {name: each for name, each in found.items() if each is not None}, refused)


def ask_tables(
    project: ProjectSpec, pipeline: str | None, *, remember: bool, list_tables: ListTables | None = None
) -> ProjectSpec:
    """The project with the tables that databases have now, for the blocks that ``pipeline`` concerns.

    Tables that join or vanish are in its notices. Without ``remember`` a list is saved only where there was none, so
    that the next run tells of them, too.
    """
    known = KnownBlocks(project.origin)
    now: dict[str, KnownBlock] = {}
    refused: dict[str, TableRefusal] = {}
    fresh: dict[str, KnownBlock] = {}
    notices: list[str] = []
    for block in project.blocks:
        before = known.read(block)
        if not block.is_named(pipeline):
            refused |= {block.name: UNKNOWN} if before is None else {}
            now |= {block.name: before} if before is not None else {}
            continue
        try:
            tables = (list_tables or ask_database)(block)
        except TidegateError as error:
            masked = Mask.around(project).error(error)
            refused[block.name] = TableRefusal(masked.problem, masked.remedy)
            continue
        notices += (f"{block.name}: {text}" for text in find_unused_rules(tables, block.selection))
        now[block.name] = found = _compare(block, before, select_tables(tables, block.selection), notices)
        if remember or before is None:
            fresh[block.name] = found
        if not found.tables:
            refused[block.name] = _nothing_selected(block)
    if not known.save(fresh):
        notices.append(f"the tables of {', '.join(fresh)} could not be saved in {known.path}; status needs that file")
    return _put_tables(replace(project, notices=(*project.notices, *notices)), now, refused)


def ask_database(block: TableBlock) -> Sequence[DatabaseTable]:
    """The tables that the database of a block has now."""
    # Loaded by commands that ask alone: the drivers need Arrow.
    from tidegate.sources.databases import list_tables

    return list_tables(block.read, block.read.connection)


def _nothing_selected(block: TableBlock) -> TableRefusal:
    selection = block.selection
    left = f" outside {', '.join(selection.exclude)}" if selection.exclude else ""
    return TableRefusal(
        f"the database has no table that matches {', '.join(selection.tables)}{left}",
        f"correct tables and exclude, or let the user of connection {block.read.connection!r} see the tables",
    )


def _compare(
    block: TableBlock, before: KnownBlock | None, tables: tuple[DatabaseTable, ...], notices: list[str]
) -> KnownBlock:
    """What is known of a block now; tells which tables joined and which vanished."""
    if before is None:
        return KnownBlock.of(block, tables)
    has = {(each.schema, each.name) for each in tables}
    # Those that the block no longer selects have not vanished: somebody has excluded them.
    had = select_tables((*before.tables, *before.vanished), block.selection)
    known = {(each.schema, each.name) for each in select_tables(before.tables, block.selection)}
    vanished = tuple(each for each in had if (each.schema, each.name) not in has)
    joined = [each.full_name for each in tables if (each.schema, each.name) not in known]
    left = [each.full_name for each in vanished if (each.schema, each.name) in known]
    if joined:
        notices.append(f"{block.name}: new in the database, and read from now on: {names(joined, NAMES_SHOWN)}")
    if left:
        notices.append(
            f"{block.name}: no longer in the database: {names(left, NAMES_SHOWN)}; tables and positions are kept"
        )
    return replace(before, tables=tables, vanished=vanished)


def _put_tables(project: ProjectSpec, known: dict[str, KnownBlock], refused: dict[str, TableRefusal]) -> ProjectSpec:
    tables = {name: each.tables for name, each in known.items()}
    found = expand(project, tables, {name: each.vanished for name, each in known.items()})
    failed = tuple(
        replace(block.template, block=block.name, refused=refused[block.name])
        for block in project.blocks
        if block.name in refused
    )
    return replace(found, pipelines=(*found.pipelines, *failed))


def refuse_tables(project: ProjectSpec, problems: dict[str, TableRefusal]) -> ProjectSpec:
    """The project with these pipelines of blocks refused."""

    def refuse(pipeline: PipelineSpec) -> PipelineSpec:
        found = problems.get(pipeline.name) if pipeline.refused is None else None
        return pipeline if found is None else replace(pipeline, refused=found)

    return replace(project, pipelines=tuple(map(refuse, project.pipelines)))
