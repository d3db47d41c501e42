"""The models' complaints in the words of the file: line, path, value as written, what is allowed."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tidegate.config.keys import accepted_at, allowed_at, fields, homes_of, model_at, without_tags
from tidegate.config.problems import Problem, nearest, problem, sentence, shown
from tidegate.config.tree import Block, Loc, Scalar, find

_SHAPES = {
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping of names to settings",
    "tuple_type": "must be a list",
    "too_short": "is empty; allowed: one or more",
}


def reported(error: ValidationError, root: Block) -> Iterator[tuple[tuple[str | int, ...], Problem]]:
    """Each complaint with its place; those about values whose variables are missing are left out."""
    for detail in error.errors(include_url=False, include_input=False):
        loc = _place(root, detail["loc"])
        node = find(root, loc)
        if not (isinstance(node, Scalar) and node.broken):
            yield loc, problem(root, loc, _text(detail, loc, root))


def _place(root: Block, loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """``loc`` without the marks for keys and kinds, and for short forms that a scalar stands for."""
    if loc and loc[-1] == "[key]":
        return without_tags(loc[:-1])
    loc = without_tags(loc)
    while len(loc) > 1 and isinstance(find(root, loc[:-1]), Scalar):
        loc = loc[:-1]
    return loc


def _text(detail: ErrorDetails, loc: tuple[str | int, ...], root: Block) -> str:
    kind, facts = detail["type"], detail.get("ctx", {})
    value = shown(root, loc) or "the value"
    if detail["loc"][-1:] == ("[key]",):
        return f"{str(loc[-1])!r} {facts['text']}"
    match kind:
        case "extra_forbidden":
            return _unknown(detail["loc"])
        case "missing":
            return _missing(detail["loc"])
        case "tidegate":
            return f"{value} {facts['text']}"
        case "greater_than_equal":
            return f"{value} is too small; allowed: {facts['ge']} or more"
        case "less_than_equal":
            return f"{value} is too large; allowed: {facts['le']} or less"
        case _:
            return _SHAPES.get(kind, f"{value} cannot be used")


def _unknown(loc: tuple[str | int, ...]) -> str:
    name, block = str(loc[-1]), loc[:-1]
    homes = sorted({home for home in homes_of(name) if home})
    if homes:
        return sentence("unknown key here", f"it belongs to {' or '.join(repr(home) for home in homes)}")
    hint = nearest(name, accepted_at(block))
    return sentence("unknown key", hint or f"allowed: {', '.join(allowed_at(block))}")


def _missing(loc: Loc) -> str:
    name = str(loc[-1])
    description = fields(model_at(loc[:-1]))[name].description or ""
    return sentence("is missing", description[:1].lower() + description[1:].rstrip("."))
