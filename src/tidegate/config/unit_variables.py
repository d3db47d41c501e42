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


def is_clear(source: Block) -> bool:
    """Whether watermarks and inputs have the shape that tells which variables there are; else the models say more."""
    kinds = [each.text("type") if isinstance(each, Block) else None for _, each in _listed(source, "watermark")]
    fields = [
        words(each.get("fields")) if isinstance(each, Block) else [] for _, each in _listed(source, "secondary_input")
    ]
    lists = all(isinstance(source.get(key), Items | None) for key in ("watermark", "secondary_input"))
    return lists and all(kind in ("datetime", "unit") for kind in kinds) and all(fields)


def _listed(source: Block, key: str) -> list[tuple[int, Node]]:
    found = source.get(key)
    return [*enumerate(found)] if isinstance(found, Items) else []


def watermarks(source: Block, kind: str) -> list[tuple[int, Block]]:
    """The watermarks of one type, with their places in the list."""
    found = _listed(source, "watermark")
    return [(at, each) for at, each in found if isinstance(each, Block) and each.text("type") == kind]


def inputs(source: Block) -> list[tuple[int, Block]]:
    """The secondary inputs, with their places in the list."""
    return [(at, each) for at, each in _listed(source, "secondary_input") if isinstance(each, Block)]


def makes_units(each: Block) -> bool:
    """Whether a secondary input makes units; others have credentials for all of them."""
    return each.text("category") != AUTHENTICATION


def unit_variables(source: Block) -> tuple[str, ...]:
    """The variables that a unit's value is made of; the first is the one that is meant for it."""
    made = [each for _, each in inputs(source) if makes_units(each)][:1]
    names = [each.text("as") for each in made if len(words(each.get("fields"))) == 1]
    names += [each.text("name") for _, each in watermarks(source, "unit")]
    names += [word for each in made for word in words(each.get("fields"))]
    return tuple(dict.fromkeys(str(name) for name in names if name is not None))


def secret_variables(source: Block) -> tuple[str, ...]:
    """The variables that must never show."""
    found = [word for _, each in inputs(source) for word in words(each.get("auth_fields"))]
    shared = [each for _, each in inputs(source) if not makes_units(each)]
    found += [word for each in shared for key in ("fields", "as") for word in words(each.get(key))]
    return tuple(str(word) for word in found)


def range_params(source: Block) -> tuple[str, ...]:
    """The variables that are made of the range."""
    return tuple(name for name, each in source.blocks("params") if each.get("watermark") is not None)


def variables(source: Block) -> tuple[str, ...]:
    """Every variable of ``source``."""
    return (*unit_variables(source), *secret_variables(source), *range_params(source))
