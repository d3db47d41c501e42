"""Short forms and old names, in one table: the file may use them, everything after this module does not.

Each rename is relative to a pipeline. A file that has a pipeline's keys at its top and no ``pipelines:`` is
one pipeline named after the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.config.ms_keys import with_ms_keys
from tidegate.config.problems import Problem, problem
from tidegate.config.tree import Block, Loc, Node, find


@dataclass(frozen=True, slots=True)
class Alias:
    """``old`` is accepted for ``new``; both are paths inside a pipeline, ``*`` stands for every source."""

    old: str
    new: str
    why: str


ALIASES = (
    Alias("source", "sources.default", "short for a single source, which is then called 'default'"),
    Alias("destination", "sink", "another word for the same thing"),
    Alias("sources.*.path", "sources.*.source_uri", "the name in older configurations"),
    Alias("sink.path", "sink.table_uri", "the name in older configurations"),
    Alias("schema.evolution", "schema_evolution", "short, where a schema is declared anyway"),
    Alias("sink.schema_evolution", "schema_evolution", "the name in older configurations"),
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


def canonical(root: Block, stem: str) -> tuple[Block, list[Problem]]:
    """A copy of the file's tree with the names of today; ``stem`` names the pipeline of a short file."""
    top, problems = _with_pipelines(root, stem)
    pipelines = top.get("pipelines")
    if isinstance(pipelines, Block):
        fresh = pipelines.copy()
        for name, pipeline in pipelines.items():
            if isinstance(pipeline, Block):
                fresh[name] = copied = _copied(pipeline)
                top["pipelines"] = fresh
                for alias in ALIASES:
                    problems += _rename(top, ("pipelines", name), copied, alias)
                for source, block in copied.blocks("sources"):
                    problems += with_ms_keys(top, ("pipelines", name, "sources", source), block)
    return top, problems


def _with_pipelines(root: Block, stem: str) -> tuple[Block, list[Problem]]:
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


def _copied(pipeline: Block) -> Block:
    """The pipeline with those blocks copied that renames write to."""
    fresh = pipeline.copy()
    for key, node in pipeline.items():
        if isinstance(node, Block):
            below = node.copy()
            if key == "sources":
                below.update({name: each.copy() for name, each in node.named()})
            fresh[key] = below
    return fresh


def _rename(top: Block, where: Loc, pipeline: Block, alias: Alias) -> Iterator[Problem]:
    for old, new in _expanded(pipeline, alias):
        *above, last = old
        holder = find(pipeline, above)
        if not isinstance(holder, Block) or last not in holder:
            continue
        if _taken(pipeline, old, new):
            meant = alias.new.replace("*", "<source>")
            text = f"{last!r} stands for {meant!r}, which is given too; allowed: one of them"
            yield problem(top, (*where, *old), text)
        else:
            _move(pipeline, holder, last, new)
        holder.drop(last)


def _expanded(pipeline: Block, alias: Alias) -> Iterator[tuple[list[str], list[str]]]:
    old, new = alias.old.split("."), alias.new.split(".")
    if "*" not in old:
        yield old, new
        return
    for name, source in pipeline.blocks("sources"):
        if "connection" not in source and source.text("type") not in WITHOUT_PLACE:
            yield (
                [name if part == "*" else part for part in old],
                [name if part == "*" else part for part in new],
            )


def _taken(pipeline: Block, old: list[str], new: list[str]) -> bool:
    """Whether the new place is in use; ``source`` and ``sources`` exclude each other whatever the names."""
    return find(pipeline, new) is not None or (old == ["source"] and pipeline.get("sources") is not None)


def _move(pipeline: Block, holder: Block, last: str, new: list[str]) -> None:
    node: Node = holder[last]
    line = holder.lines[last]
    if new == ["sources", "default"]:
        sources = Block(line)
        sources.put("default", node.copy() if isinstance(node, Block) else node, line, written="")
        pipeline.put("sources", sources, line, written="source")
        return
    target = find(pipeline, new[:-1])
    if isinstance(target, Block):
        written = last if target is holder else f"{_block_of(pipeline, holder)}.{last}"
        target.put(new[-1], node, line, written=written)


def _block_of(pipeline: Block, holder: Block) -> str:
    return next(pipeline.written.get(key, key) for key, node in pipeline.items() if node is holder)
