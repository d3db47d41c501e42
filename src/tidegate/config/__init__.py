"""The configuration: YAML in, checked :class:`~tidegate.specs.project.ProjectSpec` out, and every problem at once.

The walk: text → tree with line numbers (``document``), short forms and old names spelled out (``normal_form``), then
the sections, from ``project`` down. A key is declared at the attribute of its spec; the module of a section has what a
declaration cannot say: checks of values, blocks whose shape differs from the spec's, and what keys mean together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import Any

import yaml

from tidegate.config.database_block import (
    FileTree,
    blocks_in,
    expand_tree,
    make_blocks,
    plan_tables,
    put_templates,
    refuse_pipeline,
    table_named,
)
from tidegate.config.document import Block, Problem, nearest, parse, sentence
from tidegate.config.file_source import take_globs_apart
from tidegate.config.keys import describe_unknown, editor_schema
from tidegate.config.models import BlockReader
from tidegate.config.normal_form import normal_form, set_types
from tidegate.config.project import ProjectModel, answer_foreign_files, project_problems, take_notes
from tidegate.config.secrets import find_interpolated, find_secrets, with_variables
from tidegate.config.work_units import MS_KEYS
from tidegate.core.database_tables import BlockTable, DatabaseTable, fill_place
from tidegate.errors import ConfigError
from tidegate.specs.foreign import Foreign
from tidegate.specs.masking import Mask, remember
from tidegate.specs.project import PipelineSpec, ProjectSpec, TableBlock
from tidegate.specs.table_block import TableRefusal
from tidegate.storage.options import absolute_uri, secrets_of_environment
from tidegate.storage.stores import comparable_uri

__all__ = ["expand", "json_schema", "load", "select", "show"]

MAX_BYTES = 4_000_000
IN_MEMORY = "<text>"


def load(
    config: str | os.PathLike[str],
    *,
    env: Mapping[str, str],
    pipelines: Sequence[str] = (),
    base: Path | None = None,
    foreign: Foreign | None = None,
) -> ProjectSpec:
    """The specs of a configuration file, or of YAML text (a ``str`` with a line break in it).

    ``pipelines`` keeps only those named; the whole file is checked all the same. Relative paths start at the
    file's directory, for text at ``base`` (the working directory). Keys of other systems that ``foreign`` names are
    left out, with a notice each. Raises :class:`ConfigError` with all that is wrong.
    """
    foreign = foreign or Foreign()
    if isinstance(config, str) and "\n" in config:
        found = _load(config, IN_MEMORY, "default", base or Path.cwd(), env, foreign)
    else:
        path = Path(config)
        found = _load(_read(path), str(path), path.stem, base or path.absolute().parent, env, foreign)
    return select(found, pipelines) if pipelines else found


def show(project: ProjectSpec) -> str:
    """The canonical YAML of ``project``: every default, and no secret.

    What came from an environment variable is that variable again; other secrets are masked. In the same environment it
    loads to the same specs, except for the masked secrets.
    """
    return _dump(with_variables(ProjectModel.show(project), project))


def json_schema(foreign: Foreign | None = None) -> dict[str, Any]:
    """The JSON Schema of a configuration file, for editors."""
    return editor_schema((foreign or Foreign()).keys)


def _dump(data: dict[str, Any]) -> str:
    """``data`` as YAML: by libyaml, which is much faster than PyYAML, unless it escapes what people can read."""
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 100}
    made: str = yaml.dump(data, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), **options)
    return yaml.safe_dump(data, **options) if "\\U" in made or "\\N" in made else made


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError((f"{path}: no such file; give the path of a YAML file",)) from None
    except OSError as exc:
        raise ConfigError((f"{path}: cannot be read: {exc.strerror}",)) from None
    if len(data) > MAX_BYTES:
        raise ConfigError((f"{path}: larger than {MAX_BYTES:,} bytes; this is no configuration",))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        raise ConfigError((f"{path}:{line}: not UTF-8 text; save the file as UTF-8",)) from None


def _load(text: str, origin: str, stem: str, base: Path, env: Mapping[str, str], foreign: Foreign) -> ProjectSpec:
    def resolve(uri: str) -> str:
        return absolute_uri(uri, base)

    written, problems = parse(text, env)
    if written is None:
        raise _error(origin, problems)
    # Before anything is said about the file, and whether it loads or not.
    mask = Mask.around(*find_interpolated(written)) | Mask.of(*find_secrets(written), *secrets_of_environment(env))
    remember(mask)
    full, more = normal_form(written, stem, MS_KEYS)
    if foreign_file := [*answer_foreign_files(full, foreign.files)]:
        raise mask.error(_error(origin, foreign_file))
    globs = take_globs_apart(full, base)
    root, wrong = put_templates(full)
    model, notices = _read_tree(root, origin, base, foreign, mask, [*problems, *more, *globs.problems, *wrong])
    project = model.project(origin, resolve, (*globs.notices, *notices))
    project = replace(project, interpolated=tuple(find_interpolated(root)), foreign=foreign)
    blocks = {name: model["pipelines"][name]["sources"][source] for name, source, _ in blocks_in(full)}
    return make_blocks(project, blocks, FileTree(full, origin, base, foreign)) if blocks else project


def _read_tree(
    root: Block, origin: str, base: Path, foreign: Foreign, mask: Mask, problems: list[Problem]
) -> tuple[ProjectModel, tuple[str, ...]]:
    """The model of a tree in full form, and notices; :class:`ConfigError` with all problems, those given included."""

    def resolve(uri: str) -> str:
        return absolute_uri(uri, base)

    kinds = list(set_types(root))
    notes = take_notes(root, [where for where, _ in kinds], foreign.keys)
    found = [*problems, *(each for _, each in kinds), *notes.problems]
    found += project_problems(root, resolve, notes.covers)
    reader = BlockReader(root, describe_unknown)
    model = reader.read(ProjectModel, root)
    found += [problem for loc, problem in reader.problems if not notes.covers(loc)]
    if found or reader.problems:
        raise mask.error(_error(origin, found))
    assert isinstance(model, ProjectModel)
    return model, tuple(notes.notices)


def expand(
    project: ProjectSpec,
    tables: Mapping[str, Sequence[DatabaseTable]],
    vanished: Mapping[str, Sequence[DatabaseTable]],
) -> ProjectSpec:
    """The project with a pipeline for each table of its blocks, by the name of the block; others it has already stay.

    ``vanished`` are tables that a block had before and the database no longer has. A block in neither has no pipeline.
    """
    if not project.blocks:
        return project
    tree: FileTree | None = project.blocks[0].tree
    if tree is None:
        said = f"{project.origin}: the block {project.blocks[0].name!r} was made in Python, and has no configuration"
        raise ConfigError((f"{said}; write it as YAML, and load that",))
    planned: _Planned = {
        block.name: (
            block,
            plan_tables(block, (*tables.get(block.name, ()), *vanished.get(block.name, ()))),
        )
        for block in project.blocks
    }
    planned = _refuse_claimed(project, planned)
    mask = Mask.around(project)
    try:
        read = _read_tables(tree, planned, mask)
    except ConfigError as error:
        planned = _refuse_tables(tree, planned, mask, error)
        read = _read_tables(tree, planned, mask)
    own = {each.name: each for each in project.pipelines if each.block is None}
    kept = list(own.values())
    for block, found in planned.values():
        gone = {(each.schema, each.name) for each in vanished.get(block.name, ())}
        for each in found:
            is_gone = (each.table.schema, each.table.name) in gone
            if each.refused is None:
                kept.append(replace(read[each.pipeline], block=block.name, vanished=is_gone))
            elif not is_gone:
                kept.append(refuse_pipeline(block, each))
    return replace(project, pipelines=tuple(kept))


_Planned = Mapping[str, tuple[TableBlock, tuple[BlockTable, ...]]]
"""What becomes of the tables of each block, by its name."""


def _read_tables(tree: FileTree, planned: _Planned, mask: Mask) -> dict[str, PipelineSpec]:
    """The pipelines of the file and of the tables that are not refused, by name."""
    root = expand_tree(tree, planned)
    if not root.block("pipelines"):
        return {}
    model, _ = _read_tree(root, tree.origin, tree.base, tree.foreign, mask, [])
    made = model.project(tree.origin, lambda uri: absolute_uri(uri, tree.base), ())
    return {each.name: each for each in made.pipelines}


def _refuse_tables(tree: FileTree, planned: _Planned, mask: Mask, error: ConfigError) -> _Planned:
    """What becomes of the tables, if those are refused whose pipelines are wrong; raises ``error`` if none is.

    A table may have columns that no configuration can name, and must not stop the others. Each is tried alone, which
    takes time, and hardly ever happens.
    """
    found = {}
    for name, (block, tables) in planned.items():
        tried = []
        for each in tables:
            try:
                _read_tables(tree, {name: (block, (each,))}, mask)
            except ConfigError as wrong:
                _, _, text = wrong.problems[0].partition(f"pipelines.{each.pipeline}.")
                problem = f"{each.table.full_name} cannot be a pipeline: {text or wrong.problems[0]}"
                each = replace(each, refused=TableRefusal(problem, "exclude it, or read it by a pipeline of its own"))
            tried.append(each)
        found[name] = (block, tuple(tried))
    if found == planned:
        raise error
    return found


def _refuse_claimed(project: ProjectSpec, planned: _Planned) -> _Planned:
    """Refuse tables whose name or place belongs to a pipeline of the file, or to a table of another block.

    Two tables of a database in one place would overwrite each other's rows; those of one block are refused already.
    """
    owners: dict[str, set[str]] = {}
    for written in project.pipelines:
        if written.block is None:
            owners.setdefault(f"name {written.name.lower()}", set()).add(written.name)
            owners.setdefault(f"place {_place_of(written)}", set()).add(written.name)
    made = {each.pipeline: refuse_pipeline(block, each) for block, found in planned.values() for each in found}
    for name, (_, found) in planned.items():
        for each in found:
            owners.setdefault(f"name {each.pipeline.lower()}", set()).add(name)
            if each.refused is None:
                owners.setdefault(f"place {_place_of(made[each.pipeline], each.table)}", set()).add(name)

    def check(block: str, each: BlockTable) -> BlockTable:
        place = _place_of(made[each.pipeline], each.table)
        for claim, what in ((f"name {each.pipeline.lower()}", "name"), (f"place {place}", "place")):
            others = sorted(owners.get(claim, {block}) - {block})
            if each.refused is None and others:
                problem = f"{each.table.full_name} would have the same {what} as a table of {', '.join(others)}"
                remedy = "exclude it, or choose a sink.table_uri that keeps them apart"
                return replace(each, refused=TableRefusal(problem, remedy))
        return each

    return {name: (block, tuple(check(name, each) for each in found)) for name, (block, found) in planned.items()}


def _place_of(pipeline: PipelineSpec, table: DatabaseTable | None = None) -> str:
    """The place of a table, as it is compared; its name in a catalog, if it has one, may be a pattern of a block."""
    name = pipeline.sink.name
    if name is not None:
        return (name if table is None else fill_place(name, table)).lower()
    return comparable_uri(pipeline.sink.table.uri).lower()


def _error(origin: str, problems: list[Problem]) -> ConfigError:
    ordered = dict.fromkeys(problem.at(origin) for problem in sorted(problems))
    return ConfigError(tuple(ordered) or (f"{origin}: cannot be used",))


def select(project: ProjectSpec, names: Sequence[str]) -> ProjectSpec:
    """The project with those pipelines alone that ``names`` has, by their own name or that of their block."""
    blocks = [each.name for each in project.blocks]
    unlisted = [each for each in project.pipelines if each.block == each.name and each.refused is not None]
    # Of a database that cannot be asked, every table stands for the block, which says why.
    names = [next((each.name for each in unlisted if name.startswith(f"{each.name}.")), name) for name in names]
    # A block may have hundreds of tables: its own name stands for them in the list.
    allowed = [*blocks, *(each.name for each in project.pipelines if each.block is None)]
    known = [*blocks, *(each.name for each in project.pipelines)]
    wrong = [
        sentence(f"{project.origin}: no pipeline {name!r}", f"allowed: {', '.join(allowed)}", nearest(name, known))
        for name in names
        if name not in known
    ]
    if wrong:
        raise ConfigError(tuple(wrong))
    kept = tuple(each for each in project.pipelines if any(map(each.is_named, names)))
    return replace(project, pipelines=kept, blocks=tuple(_narrow(project.blocks, names)))


def _narrow(blocks: Sequence[TableBlock], names: Sequence[str]) -> Iterator[TableBlock]:
    """The blocks that ``names`` has, with the named tables alone where it has no block but some of its tables."""
    for block in blocks:
        tables = tuple(escape(found) for name in names if (found := table_named(block, name)) is not None)
        if block.name in names:
            yield block
        elif tables:
            yield replace(block, selection=replace(block.selection, tables=tables))
