"""Partition columns of a table: whether their template can be used, alone and with the declared columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.config.problems import Problem, nearest, problem, sentence
from tidegate.config.templates import directive_problem, fields_of, shape_problem
from tidegate.config.tree import Block, Loc

_NO_KEYS = ("struct", "list", "map", "float32", "float64", "binary")


def partition_keys(template: str) -> tuple[str, ...]:
    """The partition columns that a template names.

    >>> partition_keys("date=%Y-%m-%d/country")
    ('date', 'country')
    """
    return tuple(part.partition("=")[0] for part in template.strip("/").split("/"))


def partition_problems(root: Block, where: Loc, sink: Block, declared: Mapping[str, str] | None) -> Iterator[Problem]:
    """Problems of ``sink.partition_by``; ``declared`` is type by column, None: inferred."""
    block = sink.block("partition_by")
    at = (*where, "sink", "partition_by")
    template, column = block.text("prefix_template"), block.text("column")
    if template is None or not template.strip():
        return
    plain = template.strip("/")
    if wrong := _template_problem(plain, column):
        yield problem(root, (*at, "prefix_template"), wrong)
    elif declared is not None:
        if column is not None and (wrong := _column_problem(plain, str(column), declared)):
            yield problem(root, (*at, "column"), wrong)
        for wrong in _key_problems(plain, column, declared):
            yield problem(root, (*at, "prefix_template"), wrong)


def _template_problem(template: str, column: str | None) -> str:
    if wrong := shape_problem(template) or (directive_problem(template) if column is not None else ""):
        return f"the template {wrong}"
    keys = partition_keys(template)
    if any(not key or "%" in key for key in keys):
        return "each directory is 'key=…' or a key alone, such as date=%Y-%m-%d/hour=%H"
    if len({key.lower() for key in keys}) < len(keys):
        return "a key occurs twice; allowed: each once"
    constant = [part for part in template.split("/") if "=" in part and not fields_of(part)]
    if column is not None and constant:
        return f"{constant[0]!r} has no field of time; allowed: %Y %m %d %H %F, or the key alone"
    return ""


def _column_problem(template: str, column: str, declared: Mapping[str, str]) -> str:
    fields = fields_of(template)
    kind = next((kind for name, kind in declared.items() if name.lower() == column.lower()), None)
    if kind is None:
        names = f"allowed: {', '.join(declared)}"
        return sentence(f"{column!r} is not a declared column", names, nearest(column, declared))
    if fields and kind not in ("timestamp", "date"):
        return f"{column!r} is of type {kind}; allowed: a timestamp or date column"
    if kind == "date" and "hour" in fields:
        return f"{column!r} is a date and has no hours; allowed: a timestamp column, or no %H"
    return ""


def _key_problems(template: str, column: str | None, declared: Mapping[str, str]) -> Iterator[str]:
    """Keys that are declared columns too, or that would take values which make no directory."""
    same = {name.lower(): name for name in declared}
    for part in template.split("/"):
        key = part.partition("=")[0]
        itself = column is not None and part == key and key in declared
        if key.lower() in same and not itself:
            yield f"{key!r} is a declared column too; allowed: a new name"
        elif column is not None and part == key:
            taken = same.get((key if itself else str(column)).lower(), key)
            if declared.get(taken) in _NO_KEYS:
                yield f"{taken!r} is of type {declared[taken]}, which makes no directory; take another column"
