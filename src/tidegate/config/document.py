"""YAML text → tree, from the parser's events: lines kept, repeated keys refused, depth and size bounded.

Nothing is constructed from tags, an alias costs what it expands to, and an error never quotes the file, which
may hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml
from yaml import events as ev

from tidegate.config.problems import Problem
from tidegate.config.tree import Block, Items, Node, Scalar
from tidegate.config.variables import put_in

MAX_DEPTH = 40
MAX_NODES = 100_000
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULLS = ("", "~", "null", "Null", "NULL")
_STANDARD_TAG = "tag:yaml.org,2002:"
_TAGS = frozenset(_STANDARD_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq"))


class _Unusable(Exception):
    """The file cannot be read further."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(line, text)
        self.line = line
        self.text = text


def parse(text: str, env: Mapping[str, str]) -> tuple[Block | None, list[Problem]]:
    """The tree of ``text`` with variables put in; None where the problems leave nothing to look at."""
    builder = _Builder(env)
    if not _encodable(text):
        return None, [Problem(1, "", "not valid text; allowed: text that UTF-8 can hold")]
    try:
        root = builder.document(text)
    except yaml.YAMLError as exc:
        line = _line_of_error(exc)
        return None, [
            *builder.problems,
            Problem(line, "", f"not valid YAML: {_wording(exc)}{_hint(text, line)}"),
        ]
    except _Unusable as exc:
        return None, [*builder.problems, Problem(exc.line, "", exc.text)]
    if isinstance(root, Block):
        return root, builder.problems
    return None, [
        *builder.problems,
        Problem(1, "", "a configuration is a mapping; allowed: 'pipelines:' at its top"),
    ]


def _line_of_error(exc: yaml.YAMLError) -> int:
    mark = getattr(exc, "problem_mark", None) or getattr(exc, "context_mark", None)
    return mark.line + 1 if mark is not None else 1


def _wording(exc: yaml.YAMLError) -> str:
    """The parser's words without anything it quotes from the file."""
    words = getattr(exc, "problem", None) or getattr(exc, "reason", None) or "unreadable"
    return re.sub(r"(['\"])(?!<)[^'\"\s]{2,}\1", "…", str(words))


def _hint(text: str, line: int) -> str:
    """The usual reason: braces of a variable inside braces or brackets."""
    lines = text.split("\n")
    near = lines[max(line - 2, 0) : line]
    return "; quote a value with ${…} inside braces or brackets" if any("${" in each for each in near) else ""


@dataclass(slots=True)
class _Anchored:
    node: Node
    size: int


@dataclass(slots=True)
class _Builder:
    env: Mapping[str, str]
    problems: list[Problem] = field(default_factory=list)
    anchors: dict[str, _Anchored] = field(default_factory=dict)
    nodes: int = 0
    path: list[str] = field(default_factory=list)

    def document(self, text: str) -> Node:
        stream = _Events(text)
        stream.next()
        if isinstance(stream.peek(), ev.StreamEndEvent):
            return None
        stream.next()
        root = self._node(stream)
        stream.next()
        if not isinstance(more := stream.peek(), ev.StreamEndEvent):
            raise _Unusable(_line(more), "a second document ('---'); allowed: one document per file")
        return root

    def _node(self, stream: _Events) -> Node:
        event = stream.next()
        before = self.nodes
        self._count(1, event)
        if getattr(event, "tag", None) not in (None, "!", *_TAGS):
            raise _Unusable(_line(event), "a tag ('!…') that has no meaning here; allowed: plain YAML")
        node: Node
        match event:
            case ev.AliasEvent():
                return self._alias(event)
            case ev.MappingStartEvent():
                node = self._block(stream, _line(event))
            case ev.SequenceStartEvent():
                node = self._items(stream, _line(event))
            case ev.ScalarEvent():
                node = self._scalar(event)
            case _:
                raise _Unusable(_line(event), "unreadable")
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(node, self.nodes - before)
        return node

    def _count(self, size: int, event: ev.Event) -> None:
        self.nodes += size
        if self.nodes > MAX_NODES:
            raise _Unusable(_line(event), f"more than {MAX_NODES:,} values after aliases are expanded")
        if len(self.path) > MAX_DEPTH:
            raise _Unusable(_line(event), f"nested deeper than {MAX_DEPTH} levels")

    def _alias(self, event: ev.AliasEvent) -> Node:
        anchored = self.anchors.get(event.anchor or "")
        if anchored is None:
            raise _Unusable(_line(event), "an alias ('*…') without its anchor; quote a text that starts with '*'")
        self._count(anchored.size, event)
        return anchored.node

    def _scalar(self, event: ev.ScalarEvent) -> Node:
        if not event.style and event.value in _NULLS and event.tag in (None, _STANDARD_TAG + "null"):
            return None
        value, wrong = put_in(event.value, self.env)
        if not _encodable(value):
            wrong.append("a variable here is not valid UTF-8 text; set it to text")
        line = _line(event)
        self.problems += [Problem(line, _joined(self.path), text) for text in wrong]
        return Scalar(value, event.value, line, broken=bool(wrong), quoted=bool(event.style))

    def _items(self, stream: _Events, line: int) -> Items:
        items = Items(line)
        while not isinstance(stream.peek(), ev.SequenceEndEvent):
            self.path.append(f"[{len(items)}]")
            at = _line(stream.peek())
            items.add(self._node(stream), at)
            self.path.pop()
        stream.next()
        return items

    def _block(self, stream: _Events, line: int) -> Block:
        block = Block(line)
        merged: list[Node] = []
        while not isinstance(stream.peek(), ev.MappingEndEvent):
            event = self._key(stream.next())
            key, at = str(event.value), _line(event)
            self.path.append(key)
            if key in block:
                twice = f"given twice, first in line {block.lines[key]}; allowed: once"
                self.problems.append(Problem(at, _joined(self.path), twice))
            node = self._node(stream)
            if key == "<<" and not event.style:
                merged.append(node)
            else:
                block.put(key, node, at)
            self.path.pop()
        end = stream.next()
        for node in merged:
            self._merge(block, node, end)
        return block

    def _key(self, event: ev.Event) -> ev.ScalarEvent:
        if not isinstance(event, ev.ScalarEvent):
            raise _Unusable(_line(event), "a key that is not a plain name")
        return event

    def _merge(self, block: Block, node: Node, end: ev.Event) -> None:
        """``<<: *defaults``: entries that the block does not have itself."""
        for other in node if isinstance(node, Items) else [node]:
            if not isinstance(other, Block):
                raise _Unusable(_line(end), "'<<' takes a mapping, usually an alias like *defaults")
            for key in other:
                if key not in block:
                    block.put(key, other[key], other.lines[key])


class _Events:
    """The parser's events, one ahead."""

    __slots__ = ("_ahead", "_events")

    def __init__(self, text: str) -> None:
        self._events = yaml.parse(text, Loader=_LOADER)
        self._ahead: ev.Event = next(self._events)

    def peek(self) -> ev.Event:
        return self._ahead

    def next(self) -> ev.Event:
        event = self._ahead
        self._ahead = next(self._events, event)
        return event


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _line(event: ev.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 1


def _joined(path: list[str]) -> str:
    text = ""
    for part in path:
        text += part if not text or part.startswith("[") else f".{part}"
    return text
