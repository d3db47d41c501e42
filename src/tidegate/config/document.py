"""The configuration file as a tree that remembers lines: YAML text in, blocks, lists and scalars out; and its problems.

The tree is made from the parser's events: repeated keys are refused, depth and size are bounded, nothing is constructed
from tags, an alias costs what it expands to, and an error never quotes the file, which may hold secrets.

A scalar stays text: whether it is a number, a flag or a name is decided by the key it belongs to, after variables were
put in. So ``name: on`` is a column called "on", and ``lookback: ${DAYS}`` is a number.

Problems are collected, never raised one by one, and worded so that no secret shows.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

import yaml
from yaml import events as ev

from tidegate.specs.locations import looks_secret, public_address
from tidegate.specs.masking import MASK

Node: TypeAlias = "Scalar | Block | Items | None"
Loc: TypeAlias = Sequence[str | int]
Absolute = Callable[[str], str]
"""Makes an address or a path of the file absolute."""

MAX_DEPTH = 40
MAX_NODES = 100_000
# PyYAML may be built without libyaml.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULLS = ("", "~", "null", "Null", "NULL")
_STANDARD_TAG = "tag:yaml.org,2002:"
_TAGS = frozenset(_STANDARD_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq"))
# The last group finds names with dots, the variables of properties files, to say what is written instead.
_FORM = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|(\$\{)(?:([a-z]+(?:\.[a-z]+)+)\})?")
OF_PROPERTIES = {
    "job.dir": "paths are relative to the file; write the path of the table",
    "preceding.table.name": "write secondary_input: [{pipeline: NAME, fields: [id]}], or the path of the table",
    "job.name": "write the name of the pipeline",
    "extract.table.name": "write the name of the table",
}
"""Variables of properties files, and what is written instead."""
_SECRET_BLOCKS = ("storage_options", "dlq_storage_options", "auth", "headers", "properties", "options", "config")
FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Scalar(str):
    """One value as text, with variables replaced; ``raw`` is the text of the file, the only form ever shown."""

    __slots__ = ("broken", "line", "quoted", "raw", "variables")
    raw: str
    line: int
    broken: bool
    quoted: bool
    variables: tuple[tuple[str, str], ...]

    def __new__(
        cls,
        value: str,
        raw: str,
        line: int,
        *,
        broken: bool = False,
        quoted: bool = False,
        variables: tuple[tuple[str, str], ...] = (),
    ) -> Self:
        """``broken``: a variable is missing and already reported; the value is meaningless.

        ``variables`` are those in ``raw`` that are set, with their values.
        """
        made = super().__new__(cls, value)
        made.raw, made.line, made.broken, made.quoted, made.variables = raw, line, broken, quoted, variables
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
    """A mapping that remembers the line of each key, and its name in the file if that differs."""

    __slots__ = ("line", "lines", "written")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}
        self.written: dict[str, str] = {}

    def put(self, key: str, node: Node, line: int, written: str | None = None) -> None:
        """Set ``key``; ``written`` is its name in the file, empty if the file lacks this level."""
        self[key] = node
        self.lines[key] = line
        if written is not None:
            self.written[key] = written

    def drop(self, key: str) -> None:
        """Remove ``key`` if it is there."""
        for part in (self, self.lines, self.written):
            part.pop(key, None)

    def copy(self) -> Block:
        """A shallow copy."""
        made = Block(self.line)
        made.update(self)
        made.lines.update(self.lines)
        made.written.update(self.written)
        return made

    def block(self, key: str) -> Block:
        """The block at ``key``, or an empty one."""
        below = self.get(key)
        return below if isinstance(below, Block) else Block(self.line)

    def blocks(self, key: str) -> Iterator[tuple[str, Block]]:
        """The named blocks below ``key``; nothing if it holds anything else."""
        return ((name, node) for name, node in self.block(key).items() if isinstance(node, Block))

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
            case (Block(), str()) if part in node:
                line = node.lines[part]
            case (Items(), int()) if part < len(node):
                line = node.lines[part]
            case _:
                return line
        node = find(node, (part,))
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


def problem(root: Block, loc: Loc, text: str) -> Problem:
    """A problem with the value at ``loc``."""
    return Problem(line_of(root, loc), path_of(root, loc), text)


def quote(root: Block, loc: Loc) -> str:
    """The value at ``loc`` as the file has it, quoted; empty for secrets and for what is not a scalar."""
    node = find(root, loc)
    # The address of a state provider or a Pushgateway may hold a password in a form that no rule of ours finds; that of
    # a webhook is one.
    hidden = tuple(loc) in (("state", "url"), ("metrics", "push_url")) or loc[-1] == "webhook"
    if not isinstance(node, Scalar) or hidden:
        return ""
    if any(isinstance(part, str) and (part in _SECRET_BLOCKS or looks_secret(part)) for part in loc):
        return ""
    if loc[-1] in ("url", "token_url"):
        text = public_address(node.raw) if node.raw.lstrip().startswith("jdbc:") else mask_address(node.raw)
    else:
        text = mask(node.raw)
    return repr(text if len(text) <= 60 else text[:57] + "…")


def words(node: Node) -> list[Scalar]:
    """The texts of a list; a single text counts as a list of one."""
    return [item for item in (node if isinstance(node, Items) else [node]) if isinstance(item, Scalar)]


@dataclass(frozen=True, slots=True)
class Spot:
    """A block and where it is: what a check looks at, and where its problems belong."""

    root: Block
    loc: tuple[str | int, ...]
    block: Block

    @property
    def top(self) -> Spot:
        """The whole file."""
        return Spot(self.root, (), self.root)

    def below(self, *path: str) -> Spot:
        """The block at ``path``, an empty one where there is none."""
        found = find(self.block, path)
        return Spot(self.root, (*self.loc, *path), found if isinstance(found, Block) else Block(self.block.line))

    def each(self, key: str) -> Iterator[tuple[str, Spot]]:
        """The named blocks below ``key``."""
        for name, block in self.block.blocks(key):
            yield name, Spot(self.root, (*self.loc, key, name), block)

    def get(self, key: str) -> Node:
        """The value at ``key``."""
        return self.block.get(key)

    def both(self, key: str, other: str) -> Iterator[Problem]:
        """A problem if both ``key`` and ``other`` are given."""
        if self.has(key) and self.has(other):
            yield self.problem(f"given together with {other!r}; remove one of the two", key)

    def has(self, key: str) -> bool:
        """Whether ``key`` has a value."""
        return self.block.get(key) is not None

    def text(self, key: str) -> Scalar | None:
        """The scalar at ``key``, if there is one and it is complete."""
        return self.block.text(key)

    def words(self, key: str) -> list[Scalar]:
        """The texts at ``key``; a single text counts as a list of one."""
        return words(self.block.get(key))

    def is_on(self, key: str) -> bool:
        """Whether a flag is set."""
        return FLAGS.get(str(self.text(key) or "").strip().lower(), False)

    def problem(self, text: str, *path: str | int) -> Problem:
        """A problem with this block, or with the value at ``path`` below it."""
        return problem(self.root, (*self.loc, *path), text)

    def path(self, *keys: str) -> str:
        """The place, as the file names it."""
        return path_of(self.root, (*self.loc, *keys))


def parse(text: str, env: Mapping[str, str]) -> tuple[Block | None, list[Problem]]:
    """The tree of ``text`` with variables replaced; None if the text cannot be parsed."""
    builder = _Builder(env)
    if not _encodable(text):
        return None, [Problem(1, "", "not valid text; save the file as UTF-8")]
    try:
        root = builder.document(text)
    except yaml.YAMLError as exc:
        line = _line_of_error(exc)
        wrong = Problem(line, "", f"not valid YAML: {_describe_error(exc)}{_hint(text, line)}")
    except _Unusable as exc:
        wrong = Problem(exc.line, "", exc.text)
    else:
        if isinstance(root, Block):
            return root, builder.problems
        wrong = Problem(1, "", "a configuration must be a mapping; begin it with 'pipelines:'")
    return None, [*builder.problems, wrong]


class _Unusable(Exception):
    """Parsing cannot continue."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(line, text)
        self.line = line
        self.text = text


def _is_open_quote(exc: yaml.YAMLError) -> bool:
    return "quoted scalar" in str(getattr(exc, "context", None)) and "end of stream" in str(getattr(exc, "problem", ""))


def _line_of_error(exc: yaml.YAMLError) -> int:
    marks = [getattr(exc, "problem_mark", None), getattr(exc, "context_mark", None)]
    # For an open quote the parser's own mark is the end of the file; the context is where it opens.
    mark = next(filter(None, reversed(marks) if _is_open_quote(exc) else marks), None)
    return mark.line + 1 if mark is not None else 1


def _describe_error(exc: yaml.YAMLError) -> str:
    """The parser's message without its quotes from the file."""
    if _is_open_quote(exc):
        return "the quote that opens in this line is never closed; close it"
    words = getattr(exc, "problem", None) or getattr(exc, "reason", None) or "unreadable"
    # The parser quotes what it could not read, such as the name of an anchor, and that may be a secret.
    return re.sub(r"(['\"])(?!<)[^'\"\s]{2,}\1", "…", str(words))


def _hint(text: str, line: int) -> str:
    """The usual reasons: braces of a variable inside braces or brackets, no space after a colon, an open quote."""
    lines = text.split("\n")
    near = range(max(line - 2, 0), min(line, len(lines)))
    if any("${" in lines[each] for each in near):
        return "; quote a value with ${…} inside braces or brackets"
    for each in near:
        if LACKS_SPACE.match(lines[each]):
            return f"; write a space after the colon in line {each + 1}"
    opened = next((each for each in range(min(line, len(lines))) if lines[each].count('"') % 2), line)
    return f"; is the quote in line {opened + 1} closed?" if opened + 1 < line else ""


LACKS_SPACE = re.compile(r"\s*(?:- )?[A-Za-z_]\w*:(?!//)[^\s:]")
"""A line such as ``source_uri:in/``, which is text and no key with a value."""


@dataclass(slots=True)
class _Builder:
    env: Mapping[str, str]
    problems: list[Problem] = field(default_factory=list)
    anchors: dict[str, tuple[Node, int]] = field(default_factory=dict)
    nodes: int = 0
    path: list[str] = field(default_factory=list)

    def document(self, text: str) -> Node:
        events = yaml.parse(text, Loader=_LOADER)
        next(events)
        if isinstance(next(events), ev.StreamEndEvent):
            return None
        root = self._node(next(events), events)
        next(events)
        if not isinstance(more := next(events), ev.StreamEndEvent):
            raise _Unusable(_line(more), "a second document ('---'); write one document per file")
        return root

    def _node(self, event: ev.Event, events: Iterator[ev.Event]) -> Node:
        before = self.nodes
        self._count(1, event)
        if getattr(event, "tag", None) not in (None, "!", *_TAGS):
            raise _Unusable(_line(event), "a tag ('!…'), which has no meaning here; write plain YAML")
        node: Node
        match event:
            case ev.AliasEvent():
                return self._alias(event)
            case ev.MappingStartEvent():
                node = self._block(events, _line(event))
            case ev.SequenceStartEvent():
                node = self._items(events, _line(event))
            case ev.ScalarEvent():
                node = self._scalar(event)
            case _:
                raise _Unusable(_line(event), "unreadable")
        if event.anchor is not None:
            self.anchors[event.anchor] = node, self.nodes - before
        return node

    def _count(self, size: int, event: ev.Event) -> None:
        self.nodes += size
        if self.nodes > MAX_NODES:
            raise _Unusable(_line(event), f"more than {MAX_NODES:,} values after aliases are expanded")
        if len(self.path) > MAX_DEPTH:
            raise _Unusable(_line(event), f"nested deeper than {MAX_DEPTH} levels")

    def _alias(self, event: ev.AliasEvent) -> Node:
        if event.anchor not in self.anchors:
            raise _Unusable(_line(event), "an alias ('*…') without its anchor; quote a text that starts with '*'")
        # Aliases of aliases grow exponentially: ten short lines can mean billions of values.
        node, size = self.anchors[event.anchor]
        self._count(size, event)
        return node

    def _scalar(self, event: ev.ScalarEvent) -> Node:
        # Quoted, an empty text or the word null is text.
        if not event.style and event.value in _NULLS and event.tag in (None, _STANDARD_TAG + "null"):
            return None
        value, wrong = put_in(event.value, self.env)
        if not _encodable(value):
            wrong.append("the variable's value is not valid UTF-8; set it to text")
        line = _line(event)
        self.problems += [Problem(line, _join_path(self.path), text) for text in wrong]
        used = variables_in(event.value, self.env)
        return Scalar(value, event.value, line, broken=bool(wrong), quoted=bool(event.style), variables=used)

    def _items(self, events: Iterator[ev.Event], line: int) -> Items:
        items = Items(line)
        while not isinstance(event := next(events), ev.SequenceEndEvent):
            self.path.append(f"[{len(items)}]")
            items.add(self._node(event, events), _line(event))
            self.path.pop()
        return items

    def _block(self, events: Iterator[ev.Event], line: int) -> Block:
        block = Block(line)
        merged: list[Node] = []
        while not isinstance(event := next(events), ev.MappingEndEvent):
            if not isinstance(event, ev.ScalarEvent):
                raise _Unusable(_line(event), "a key that is not a plain name")
            key, at = str(event.value), _line(event)
            self.path.append(key)
            if key in block:
                twice = f"given twice, first in line {block.lines[key]}; remove one"
                self.problems.append(Problem(at, _join_path(self.path), twice))
            node = self._node(next(events), events)
            if key == "<<" and not event.style:
                merged.append(node)
            else:
                block.put(key, node, at)
            self.path.pop()
        for node in merged:
            self._merge(block, node, event)
        return block

    def _merge(self, block: Block, node: Node, end: ev.Event) -> None:
        """``<<: *defaults``: adds the entries that the block lacks."""
        for other in node if isinstance(node, Items) else [node]:
            if not isinstance(other, Block):
                raise _Unusable(_line(end), "'<<' must be a mapping, usually an alias such as *defaults")
            for key in other:
                if key not in block:
                    block.put(key, other[key], other.lines[key])


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _line(event: ev.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 1


def _join_path(path: list[str]) -> str:
    text = ""
    for part in path:
        text += part if not text or part.startswith("[") else f".{part}"
    return text


def put_in(text: str, env: Mapping[str, str]) -> tuple[str, list[str]]:
    """``text`` with its variables replaced, and what is wrong with them.

    >>> put_in("s3://${BUCKET}/${DIR:-raw}/$$", {"BUCKET": "lake"})
    ('s3://lake/raw/$', [])
    """
    problems: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        name, default, malformed, old = match.groups()
        if old is not None:
            instead = OF_PROPERTIES.get(old, "write ${NAME}, an environment variable")
            problems.append(f"${{{old}}} is a variable of properties files; {instead}")
        elif malformed:
            problems.append("'${' starts no variable here; write ${NAME} or ${NAME:-default}, or $${ for the text ${")
        elif name is None:
            return "$"
        elif default is not None:
            # As in a shell, an empty variable takes the default.
            return env.get(name) or default
        elif name not in env:
            problems.append(f"the variable {name} is not set; set it, or write ${{{name}:-default}}")
        else:
            return env[name]
        return ""

    return _FORM.sub(replacement, text), problems


def variables_in(text: str, env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables that ``text`` names, with their values or defaults; without those that have none."""
    held = ((found[1], env.get(found[1]) or found[2]) for found in _FORM.finditer(text) if found[1])
    return tuple(dict.fromkeys((name, value) for name, value in held if value))


_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*(?=@)")
_ASSIGNED = re.compile(r"(?i)((?:passw\w*|secret\w*|token|sig|\w*key)\s*=\s*)[^&;\s]+")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong, at one line."""

    line: int
    path: str
    text: str

    def at(self, origin: str) -> str:
        """``FILE:LINE: path.to.key: what``, on one line whatever the file holds."""
        where = f"{origin}:{self.line}: {self.path}" if self.path else f"{origin}:{self.line}"
        line = f"{where}: {self.text}"
        return "".join(letter if letter.isprintable() else "?" for letter in line)


@dataclass(slots=True)
class Notes:
    """Problems and notices found so far; ``settled`` places need no further problem."""

    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    settled: list[tuple[str | int, ...]] = field(default_factory=list)

    def add(self, found: Problem, settles: tuple[str | int, ...]) -> None:
        """Add a problem after which the place needs no other."""
        self.problems.append(found)
        self.settled.append(settles)

    def covers(self, loc: Sequence[str | int]) -> bool:
        """Whether ``loc`` is at or below a place that is reported already."""
        return any(tuple(loc[: len(done)]) == done for done in self.settled)


def mask(text: str) -> str:
    """``text`` without the passwords and tokens inside addresses and assignments.

    >>> mask("sc://spark:15002/;token=abc;use_ssl=true")
    'sc://spark:15002/;token=***;use_ssl=true'
    """
    return _ASSIGNED.sub(rf"\1{MASK}", _IN_ADDRESS.sub(MASK, text))


def mask_address(url: str) -> str:
    """``url`` with all that may be secret masked: what is before the last ``@``, and parameters.

    >>> mask_address("postgresql://me:p@ss/w@host/state?sslmode=require")
    'postgresql://***@host/state?***'
    >>> mask_address("jdbc:oracle:thin:scott/tiger@//host/service")
    'jdbc:oracle:thin:***@//host/service'
    """
    plain = re.sub(r"^((?:[\w+.-]+:)+(?://)?).*@", rf"\1{MASK}@", url)
    return re.sub(r"([?;]).*", rf"\1{MASK}", plain)


def nearest(word: str, allowed: Iterable[str]) -> str:
    """``did you mean 'x'?``, or nothing."""
    names = {name.lower(): name for name in allowed}
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.6)
    return f"did you mean {names[close[0]]!r}?" if close else ""


def sentence(*parts: str) -> str:
    """The parts that are not empty, joined by semicolons."""
    return "; ".join(part for part in parts if part)
