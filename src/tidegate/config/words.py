"""Single facts about a source or a sink, read off the tree for the checks."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.config.tree import Block, Items, Node, Scalar, find

WHOLE = ("overwrite", "full_load")
"""Load types that read the source in full and replace the table."""

_YES = ("true", "yes", "on")


def words(node: Node) -> list[Scalar]:
    """The texts of a list; a single one stands for itself."""
    items = node if isinstance(node, Items) else [node]
    return [item for item in items if isinstance(item, Scalar)]


def is_on(block: Block, key: str) -> bool:
    """Whether a flag is set."""
    return str(block.text(key) or "").strip().lower() in _YES


def setting(source: Block, key: str) -> Node:
    """What a source says, on itself or in its ``configure``."""
    found = source.get(key)
    return source.block("configure").get(key) if found is None else found


@dataclass(frozen=True, slots=True)
class Backward:
    """The look-back of a source: the keys that are above zero, and where in the file it is."""

    keys: tuple[str, ...]
    place: tuple[str, ...]


def backward(root: Block, where: tuple[str, ...], source: Block) -> Backward:
    """By the source's own look-back, else by its connection's."""
    connection = str(source.text("connection") or "")
    places = [where, (*where, "configure"), ("connections", connection, "configure")]
    for place in places:
        block = find(root, place)
        found = _backward(block) if isinstance(block, Block) else {}
        if found:
            keys = tuple(name for name, (_, word) in found.items() if _is_above_zero(word))
            first = next(iter(found.values()))[0]
            return Backward(keys, (*place, *first) if place[0] == where[0] else (*where, "connection"))
    return Backward((), where)


def _backward(block: Block) -> dict[str, tuple[tuple[str, ...], Scalar]]:
    """What a block says of look-back: place and word by key; the nested keys win."""
    places = {key.removeprefix("backward_"): (key,) for key in block if key.startswith("backward_")}
    nested = {key: ("backward", key) for key in block.block("backward")}
    words_of = {name: (place, find(block, place)) for name, place in {**places, **nested}.items()}
    return {name: (place, word) for name, (place, word) in words_of.items() if isinstance(word, Scalar)}


def declared_types(pipeline: Block) -> dict[str, str]:
    """Type by name of the declared columns; nothing where they are inferred."""
    fields = pipeline.block("schema").get("fields")
    blocks = [item for item in fields if isinstance(item, Block)] if isinstance(fields, Items) else []
    return {str(each.text("name") or ""): str(each.text("type") or "") for each in blocks}


def _is_above_zero(word: str) -> bool:
    return bool(word.strip("0._ "))
