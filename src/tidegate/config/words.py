"""Single facts about a source or a sink, read off the tree for the checks."""

from __future__ import annotations

from tidegate.config.tree import Block, Items, Node, Scalar

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


def looks_back(root: Block, source: Block) -> bool:
    """Whether a read begins below the watermark: by the source's own look-back, else by its connection's."""
    own = _backward(source) | _backward(source.block("configure"))
    if not own:
        connection = root.block("connections").block(str(source.text("connection") or ""))
        own = _backward(connection.block("configure"))
    return any(_is_above_zero(word) for word in own.values())


def _backward(block: Block) -> dict[str, Scalar]:
    """What a block says of look-back, by key; the nested keys win."""
    flat = {key.removeprefix("backward_"): key for key in block if key.startswith("backward_")}
    found = {name: block.text(key) for name, key in flat.items()}
    found |= {key: block.block("backward").text(key) for key in block.block("backward")}
    return {name: word for name, word in found.items() if word is not None}


def _is_above_zero(word: str) -> bool:
    return bool(word.strip("0._ "))
