"""Single facts about a source or a sink, read off the tree for the checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """By the source's own look-back, on itself and in its ``configure``, else by its connection's."""
    own = _given(root, (where, (*where, "configure")))
    if own:
        return Backward(_above_zero(root, own), own[next(iter(own))])
    connection = str(source.text("connection") or "")
    above = _given(root, (("connections", connection, "configure"),))
    return Backward(_above_zero(root, above), (*where, "connection") if above else where)


def _given(root: Block, places: Iterable[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Where each key of look-back is given; nested keys win over short forms."""
    found: dict[str, tuple[str, ...]] = {}
    blocks = [(place, block) for place in places if isinstance(block := find(root, place), Block)]
    for place, block in blocks:
        found |= {key.removeprefix("backward_"): (*place, key) for key in block if key.startswith("backward_")}
    for place, block in blocks:
        found |= {key: (*place, "backward", key) for key in block.block("backward")}
    return {key: place for key, place in found.items() if isinstance(find(root, place), Scalar)}


def _above_zero(root: Block, given: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(key for key, place in given.items() if str(find(root, place)).strip("0._ "))


def declared_types(pipeline: Block) -> dict[str, str]:
    """Type by name of the declared columns; nothing where they are inferred."""
    fields = pipeline.block("schema").get("fields")
    blocks = [item for item in fields if isinstance(item, Block)] if isinstance(fields, Items) else []
    return {str(each.text("name") or ""): str(each.text("type") or "") for each in blocks}
