"""Declared columns, checked as a whole: each name once, containers with what they contain."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.config.problems import Problem, problem
from tidegate.config.tree import Block, Items, Loc, Node, Scalar, find
from tidegate.schema.names import MOST_LEVELS, name_problem

_NEEDS = {"struct": ("fields",), "list": ("items",), "map": ("keys", "values")}
_CHILDREN = ("fields", "items", "keys", "values")
_FALSE = ("false", "no", "off")


def schema_problems(root: Block, at: Loc, schema: Block) -> Iterator[Problem]:
    """Problems of one schema block."""
    infer, fields = schema.text("infer"), schema.get("fields")
    declared = isinstance(fields, Items) and bool(fields)
    if infer is not None and infer.lower() not in _FALSE and declared:
        yield problem(root, (*at, "infer"), "given beside 'fields'; allowed: one of them")
    if infer is not None and infer.lower() in _FALSE and not declared:
        yield problem(root, (*at, "infer"), "false, and no 'fields' are given; declare fields, or set infer: true")
    if isinstance(fields, Items):
        yield from _fields(root, (*at, "fields"), fields)


def _fields(root: Block, at: Loc, fields: Items, *, nested: bool = False) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for number, item in enumerate(fields):
        if not isinstance(item, Block):
            continue
        here = (*at, number)
        name = item.text("name")
        if name is not None:
            yield from _name(root, (*here, "name"), str(name), seen, nested=nested)
        yield from _element(root, here, item)


def _name(root: Block, at: Loc, name: str, seen: dict[str, str], *, nested: bool) -> Iterator[Problem]:
    twin = seen.get(name.lower())
    seen[name.lower()] = name
    if twin is not None:
        how = "twice" if twin == name else f"as {twin!r} too, and columns must differ in more than upper and lower case"
        yield problem(root, at, f"{name!r} is declared {how}; allowed: each column once")
    if wrong := name_problem(name, nested=nested):
        yield problem(root, at, f"{name!r} {wrong}")


def _element(root: Block, at: Loc, element: Node) -> Iterator[Problem]:
    """One column, list item, map key or map value; a bare type name stands for an element of that type."""
    if isinstance(element, Scalar):
        kind: str | None = str(element)
        block = Block(element.line)
    elif isinstance(element, Block):
        kind, block = element.text("type"), element
    else:
        return
    if kind is None:
        return
    needs = _NEEDS.get(kind, ())
    if needs and sum(part in _CHILDREN for part in at) == MOST_LEVELS + 1:
        yield problem(
            root, at, f"a {kind} {MOST_LEVELS + 1} levels deep; a table has at most {MOST_LEVELS}; declare it as json"
        )
    for key in needs:
        if not block.get(key):
            yield problem(root, at, f"a {kind} needs {' and '.join(needs)}; {key!r} is missing")
    for key in _CHILDREN:
        if block.get(key) is not None and key not in needs:
            yield problem(root, (*at, key), f"a {kind} has no {key!r}; allowed: {', '.join(needs) or 'none of these'}")
    yield from _below(root, at, block, kind)


def _below(root: Block, at: Loc, block: Block, kind: str) -> Iterator[Problem]:
    fields = block.get("fields")
    if isinstance(fields, Items):
        yield from _fields(root, (*at, "fields"), fields, nested=True)
    for key in ("items", "keys", "values"):
        yield from _element(root, (*at, key), block.get(key))
    keys = find(block, ("keys", "type")) or block.get("keys")
    if kind == "map" and isinstance(keys, Scalar) and keys != "string":
        yield problem(root, (*at, "keys"), "the keys of a map are strings, JSON has no others; allowed: string")
