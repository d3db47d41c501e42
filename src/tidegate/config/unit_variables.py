"""``{{variables}}`` of a source of work units: which it has, where they are used, and what each may be made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.config.tree import Block, Items, Loc, Node, Scalar
from tidegate.config.words import words

VARIABLE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_TEMPLATES = ("path", "params", "headers", "body", "query", "source_uri")
AUTHENTICATION = "authentication"


@dataclass(frozen=True, slots=True)
class Use:
    """One text that may hold variables: where it is and which it names; ``broken``: braces that name none."""

    loc: tuple[str | int, ...]
    names: tuple[str, ...]
    broken: bool


def uses(where: Loc, source: Block) -> Iterator[Use]:
    """Every text of ``source`` that variables are put into and that has braces."""
    for key in _TEMPLATES:
        yield from uses_below((*where, key), source.get(key))


def uses_below(loc: tuple[str | int, ...], node: Node) -> Iterator[Use]:
    """The same for what is at ``loc``."""
    match node:
        case Scalar() if not node.broken and ("{{" in node or "}}" in node):
            names = tuple(VARIABLE.findall(node))
            rest = VARIABLE.sub("", node)
            yield Use(loc, names, "{{" in rest or "}}" in rest or not all(map(VARIABLE_NAME.fullmatch, names)))
        case Block():
            for key, below in node.items():
                yield from uses_below((*loc, key), below)
        case Items():
            for at, below in enumerate(node):
                yield from uses_below((*loc, at), below)


def watermarks(source: Block, kind: str) -> list[tuple[int, Block]]:
    """The watermarks of one type, with their places in the list."""
    found = source.get("watermark")
    items = enumerate(found) if isinstance(found, Items) else ()
    return [(at, each) for at, each in items if isinstance(each, Block) and each.text("type") == kind]


def inputs(source: Block) -> list[tuple[int, Block]]:
    """The secondary inputs, with their places in the list."""
    found = source.get("secondary_input")
    return [(at, each) for at, each in enumerate(found) if isinstance(each, Block)] if isinstance(found, Items) else []


def makes_units(each: Block) -> bool:
    """Whether a secondary input makes units; others have credentials for all of them."""
    return each.text("category") != AUTHENTICATION


def unit_variables(source: Block) -> tuple[str, ...]:
    """The variables that a unit's value is made of."""
    names = [str(each.text("name") or "") for _, each in watermarks(source, "unit")]
    made = [each for _, each in inputs(source) if makes_units(each)]
    if not made:
        return tuple(names)
    fields = [str(word) for word in words(made[0].get("fields"))]
    given = made[0].text("as")
    if len(fields) != 1:
        return tuple(fields)
    return (str(given) if given else names[0] if names else fields[0],)


def secret_variables(source: Block) -> tuple[str, ...]:
    """The variables that must never show."""
    keys = [(each, "auth_fields" if makes_units(each) else "fields") for _, each in inputs(source)]
    return tuple(str(word) for each, key in keys for word in words(each.get(key)))


def range_params(source: Block) -> tuple[str, ...]:
    """The variables that are made of the range."""
    return tuple(name for name, each in source.blocks("params") if each.get("watermark") is not None)


def variables(source: Block) -> tuple[str, ...]:
    """Every variable of ``source``."""
    return (*unit_variables(source), *secret_variables(source), *range_params(source))
