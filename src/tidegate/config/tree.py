"""The configuration file as a tree that remembers lines: what the parser makes and everything later reads.

A scalar stays text: whether it is a number, a flag or a name is decided by the key it belongs to, after
variables were put in. So ``name: on`` is a column called "on", and ``lookback: ${DAYS}`` is a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Self, TypeAlias

Node: TypeAlias = "Scalar | Block | Items | None"
Loc: TypeAlias = Sequence[str | int]


class Scalar(str):
    """One value as text, with variables put in; ``raw`` is what the file says, the only form ever shown."""

    __slots__ = ("broken", "line", "quoted", "raw")
    raw: str
    line: int
    broken: bool
    quoted: bool

    def __new__(cls, value: str, raw: str, line: int, *, broken: bool = False, quoted: bool = False) -> Self:
        """``broken``: a variable is missing, which is reported already; the value means nothing."""
        made = super().__new__(cls, value)
        made.raw, made.line, made.broken, made.quoted = raw, line, broken, quoted
        return made


class Items(list[Node]):
    """A list; ``lines`` has one entry per item."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []

    def add(self, item: Node, line: int) -> None:
        """Append ``item``, which stands at ``line``."""
        self.append(item)
        self.lines.append(line)


class Block(dict[str, Node]):
    """A mapping that knows the line of each key, and its name in the file if that was another one."""

    __slots__ = ("line", "lines", "written")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}
        self.written: dict[str, str] = {}

    def put(self, key: str, node: Node, line: int, written: str | None = None) -> None:
        """Set ``key``; ``written`` is its name in the file, empty where the file has no such level."""
        self[key] = node
        self.lines[key] = line
        if written is not None:
            self.written[key] = written

    def drop(self, key: str) -> None:
        """Remove ``key`` if it is there."""
        for part in (self, self.lines, self.written):
            part.pop(key, None)

    def copy(self) -> Block:
        """The same entries in a new block; what they hold is shared."""
        made = Block(self.line)
        made.update(self)
        made.lines.update(self.lines)
        made.written.update(self.written)
        return made

    def blocks(self, key: str) -> Iterator[tuple[str, Block]]:
        """The named blocks below ``key``; nothing where the shape is another one."""
        below = self.get(key)
        if isinstance(below, Block):
            yield from below.named()

    def named(self) -> Iterator[tuple[str, Block]]:
        """The entries of this block that are blocks."""
        return ((name, node) for name, node in self.items() if isinstance(node, Block))

    def block(self, key: str) -> Block:
        """The block at ``key``, or an empty one."""
        below = self.get(key)
        return below if isinstance(below, Block) else Block(self.line)

    def text(self, key: str) -> Scalar | None:
        """The scalar at ``key``, if there is one and it is complete."""
        below = self.get(key)
        return below if isinstance(below, Scalar) and not below.broken else None


def find(root: Node, loc: Loc) -> Node:
    """The node at ``loc``, or None."""
    node = root
    for part in loc:
        if isinstance(node, Block) and isinstance(part, str):
            node = node.get(part)
        elif isinstance(node, Items) and isinstance(part, int) and part < len(node):
            node = node[part]
        else:
            return None
    return node


def line_of(root: Block, loc: Loc) -> int:
    """The line of the deepest part of ``loc`` that the file has."""
    node: Node = root
    line = root.line
    for part in loc:
        match node, part:
            case Block(), str() if part in node:
                line, node = node.lines[part], node[part]
            case Items(), int() if part < len(node):
                line, node = node.lines[part], node[part]
            case _:
                return line
    return line


def path_of(root: Block, loc: Loc) -> str:
    """``loc`` in the words of the file: ``pipelines.events.sources.asia.pattern``, ``fields[2].type``."""
    node: Node = root
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = node.written.get(part, part) if isinstance(node, Block) else part
            text += f".{name}" if text and name else name
        node = find(node, (part,))
    return text


def plain(options: Mapping[str, Node]) -> dict[str, str]:
    """The scalars of a mapping as plain strings."""
    return {str(name): str(value) for name, value in options.items() if isinstance(value, Scalar)}
