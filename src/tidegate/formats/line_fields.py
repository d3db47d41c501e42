"""Lines against the schema: fields it lacks are counted and learned, values no parser can take are rewritten.

*Undeclared fields.* The quick parser is silent about fields that the schema lacks, so it is asked for them, too: once
a field is known, it is read into a column of its own, which nobody gets to see but whose values are counted. The proof
of :mod:`~tidegate.formats.json_parsing` shows that these are all. Where something else is in a block, every line of it
is looked at, names are counted there, and the next blocks are read with what was learned. Fields whose values are of
several kinds have no column, nor have those with punctuation in their names, which the proof counts, so blocks with
them are always looked at line by line.

*Line repair.* No parser can help with ``json`` columns, with conflicting values that ``coerce_conflicts_to_utf8`` keeps
as text, or with unknown fields beside maps. A rewritten line means the same, to the digit: a line goes through the
quick JSON library only if that gives back the very same characters (spaces aside), else through the exact one, which
keeps numbers as they were written and repeated keys for others to find.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from tidegate.formats.strict_lines import RecordRules
from tidegate.schema.literals import Literal, NotJson, Pairs, compact, parse, rescued_text
from tidegate.specs.project import FieldSpec

MOST_SHAPES = 2000
"""From so many undeclared fields on, those inside others included, no columns are made for them."""

NOT_COUNTED = frozenset('":,\\\0')
"""Characters in a name that upset the counting, and the zero character, at which the parser would cut the name."""

Place = tuple[str, ...]
"""The names that lead to a struct; lists and maps on the way have no name of their own."""

Look = Callable[[Any, Counter[str]], None]


@dataclass(slots=True)
class _Shape:
    """What the values of an undeclared field were so far; ``kind`` is empty while there was none but null."""

    kind: str = ""
    members: dict[str, _Shape] = field(default_factory=dict)
    items: _Shape | None = None

    def add(self, name: str, value: Any) -> int:
        """Take a value of the field with that name in; how many new things that was."""
        if value is None or self.kind == "mixed":
            return 0
        if NOT_COUNTED & set(name):
            self.kind = "mixed"
            return 1
        kind = _kind(value)
        news = int(kind != self.kind)
        if news:
            self.kind = "mixed" if self.kind else kind
        if self.kind == "object":
            for key, item in value.items() if isinstance(value, dict) else value:
                news += key not in self.members
                news += self.members.setdefault(key, _Shape()).add(key, item)
        elif self.kind == "array":
            self.items = self.items or _Shape()
            news += sum(self.items.add("", item) for item in value)
        return news

    def type(self) -> pa.DataType:
        """The column type to ask the quick parser for."""
        match self.kind:
            case "boolean":
                return pa.bool_()
            case "number":
                return pa.float64()
            case "string":
                return pa.string()
            case "object":
                return pa.struct([pa.field(name, shape.type()) for name, shape in self.members.items()])
            case "array":
                return pa.list_(pa.field("element", pa.null() if self.items is None else self.items.type()))
            case _:
                return pa.null()

    def is_mixed(self) -> bool:
        """Whether no type takes all values."""
        children = [*self.members.values(), *([] if self.items is None else [self.items])]
        return self.kind == "mixed" or any(child.is_mixed() for child in children)


class Undeclared:
    """The fields that records have and the schema lacks; forbidden names do not count.

    ``are_columns`` unless some of them can have no column.
    """

    def __init__(self, rules: RecordRules) -> None:
        self.are_columns = True
        self._shapes: dict[Place, dict[str, _Shape]] = {}
        self._learned = 0
        self._look = self._struct(rules.known, (), rules.forbidden)

    def look(self, lines: Iterable[bytes]) -> tuple[Counter[str], bool]:
        """The names in lines, with their counts, and whether something was learned; what is not JSON has none."""
        names: Counter[str] = Counter()
        before = self._learned
        for line in lines:
            try:
                self._look(_value(line), names)
            except NotJson:
                continue
        learned = self._learned > before
        if learned:
            found = [shape for shapes in self._shapes.values() for shape in shapes.values()]
            self.are_columns = self._learned <= MOST_SHAPES and not any(shape.is_mixed() for shape in found)
        return names, learned

    def columns(self, declared: pa.Schema) -> pa.Schema:
        """``declared`` with the names that were learned behind it, at any depth, for the quick parser."""
        return pa.schema(self._fields(list(declared), ()))

    def count(self, batch: pa.RecordBatch) -> Counter[str]:
        """The names with a value in a batch of such columns."""
        names: Counter[str] = Counter()
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        self._count(columns, (), names)
        return names

    def _fields(self, declared: list[pa.Field], place: Place) -> list[pa.Field]:
        known = [each.with_type(self._type(each.type, (*place, each.name))) for each in declared]
        return known + [pa.field(name, shape.type()) for name, shape in self._shapes.get(place, {}).items()]

    def _type(self, kind: pa.DataType, place: Place) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct(self._fields(list(kind), place))
        if pa.types.is_map(kind):
            return pa.map_(kind.key_field, kind.item_field.with_type(self._type(kind.item_type, place)))
        if pa.types.is_list(kind):
            return pa.list_(kind.value_field.with_type(self._type(kind.value_type, place)))
        return kind

    def _count(self, columns: dict[str, pa.Array], place: Place, names: Counter[str]) -> None:
        shapes = self._shapes.get(place, {})
        for name, column in columns.items():
            if name in shapes:
                if found := len(column) - column.null_count:
                    names[".".join((*place, name))] += found
            else:
                self._count_inside(column, (*place, name), names)

    def _count_inside(self, column: pa.Array, place: Place, names: Counter[str]) -> None:
        kind = column.type
        if pa.types.is_struct(kind):
            self._count({each.name: column.field(index) for index, each in enumerate(kind)}, place, names)
        elif pa.types.is_map(kind):
            self._count_inside(column.items, place, names)
        elif pa.types.is_list(kind):
            self._count_inside(column.values, place, names)

    def _look_at(self, declared: FieldSpec, place: Place) -> Look | None:
        """What finds undeclared fields inside a column; None where there can be none."""
        if declared.type == "struct":
            return self._struct(declared.fields, place)
        if declared.type == "list" and declared.items is not None:
            return _each(self._look_at(declared.items, place), list)
        if declared.type == "map" and declared.values is not None:
            return _each(self._look_at(declared.values, place), dict)
        return None

    def _struct(self, fields: tuple[FieldSpec, ...], place: Place, ignored: tuple[str, ...] = ()) -> Look:
        looks = {each.name: self._look_at(each, (*place, each.name)) for each in fields} | dict.fromkeys(ignored)
        inner = [(name, look) for name, look in looks.items() if look is not None]
        shapes = self._shapes.setdefault(place, {})

        def look(value: Any, names: Counter[str]) -> None:
            if not isinstance(value, dict | Pairs):
                return
            found = value if isinstance(value, dict) else dict(value)
            for name in found.keys() - looks.keys():
                if (item := found[name]) is not None:
                    names[".".join((*place, name))] += 1
                    if name not in shapes:
                        shapes[name] = _Shape()
                    if self._learned <= MOST_SHAPES:
                        self._learned += shapes[name].add(name, item)
            for name, deeper in inner:
                if (item := found.get(name)) is not None:
                    deeper(item, names)

        return look


def _value(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:  # perhaps a number beyond every double
        return parse(line)


def _each(look: Look | None, kind: type[list[Any]] | type[dict[str, Any]]) -> Look | None:
    if look is None:
        return None

    def look_at_each(value: Any, names: Counter[str]) -> None:
        if isinstance(value, Pairs):
            value = dict(value)
        if isinstance(value, kind):
            for item in value.values() if isinstance(value, dict) else value:
                look(item, names)

    return look_at_each


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int() | float() | Literal():
            return "number"
        case str():
            return "string"
        case dict() | Pairs():
            return "object"
        case _:
            return "array"


_KEY = "\0"
"""Marks a key of a map in a path: part of where a value stood, but not of the name of its field."""

_MEMBER = re.compile(rf"\[\d+\]|{_KEY}[^.]*\.")

Rewrite = Callable[[Any, str], Any]
"""A JSON value (never null) and its path, to the value that is written instead."""


class LineRepair:
    """Rewrites lines, and counts the fields with a value that it leaves out.

    Where values are rescued, what it leaves out goes into that field of the record, as JSON text by path.
    """

    def __init__(self, rules: RecordRules) -> None:
        self._coerce = rules.coerce
        self._rescued = rules.rescued
        self._left: list[tuple[str, Any]] = []
        self._unknown: Counter[str] = Counter()
        self._record = self._object(rules.known, rules.forbidden)

    def take_unknown(self) -> Counter[str]:
        """The fields left out since the last call, by path."""
        taken, self._unknown = self._unknown, Counter()
        return taken

    def rewrite(self, line: bytes) -> bytes:
        """The line to read instead; one that is no JSON object is given back as it is."""
        try:
            value = orjson.loads(line)
            written = orjson.dumps(value)
        except (orjson.JSONDecodeError, orjson.JSONEncodeError):
            # a number beyond its range, or nested deeper than it writes
            return self._rewrite_exactly(line)
        if written != line and written.replace(b" ", b"") != line.replace(b" ", b""):
            return self._rewrite_exactly(line)
        if not isinstance(value, dict):
            return line
        record = self._record(value, "")
        if self._left:
            record[self._rescued] = self._rescue()
        return orjson.dumps(record)

    def _rewrite_exactly(self, line: bytes) -> bytes:
        try:
            value = parse(line)
            if not isinstance(value, Pairs):
                return line
            record = self._record(value, "")
            if self._left:
                record.append((self._rescued, self._rescue()))
            return compact(record).encode()
        except (NotJson, UnicodeEncodeError, RecursionError):
            self._left.clear()
            return line

    def _rescue(self) -> str:
        """What the record left out so far, as text."""
        left, self._left = self._left, []
        return rescued_text((path, _text(value, path)) for path, value in left)

    def _leave_out(self, path: str, value: Any) -> None:
        self._unknown[_MEMBER.sub("", path)] += 1
        if self._rescued is not None:
            self._left.append((path.replace(_KEY, ""), value))

    def _column(self, field: FieldSpec) -> Rewrite | None:
        """What rewrites the values of a column; None to keep them."""
        match field.type:
            case "json":
                return _text
            case "string" if self._coerce:
                return _text_of_other
            case "struct":
                return self._object(field.fields)
            case "list" if field.items is not None:
                return _items(self._column(field.items))
            case "map" if field.values is not None:
                return _values(self._column(field.values))
            case _:
                return None

    def _object(self, fields: tuple[FieldSpec, ...], kept: tuple[str, ...] = ()) -> Rewrite:
        rewrites = {field.name: self._column(field) for field in fields} | dict.fromkeys(kept)

        def rewrite(value: Any, path: str) -> Any:
            if isinstance(value, dict):
                return dict(changed(value.items(), path))
            return Pairs(changed(value, path)) if isinstance(value, Pairs) else value

        def changed(pairs: Iterable[tuple[str, Any]], path: str) -> Iterator[tuple[str, Any]]:
            for key, item in pairs:
                if key in rewrites:
                    change = rewrites[key]
                    yield key, item if change is None or item is None else change(item, f"{path}{key}.")
                elif item is not None:
                    self._leave_out(f"{path}{key}", item)

        return rewrite


def _items(change: Rewrite | None) -> Rewrite | None:
    if change is None:
        return None

    def rewrite(value: Any, path: str) -> Any:
        if not isinstance(value, list) or isinstance(value, Pairs):
            return value
        return [item if item is None else change(item, f"{path[:-1]}[{index}].") for index, item in enumerate(value)]

    return rewrite


def _values(change: Rewrite | None) -> Rewrite | None:
    if change is None:
        return None

    def rewrite(value: Any, path: str) -> Any:
        if isinstance(value, Pairs):
            return Pairs((key, item if item is None else change(item, f"{path}{_KEY}{key}.")) for key, item in value)
        if isinstance(value, dict):
            return {key: item if item is None else change(item, f"{path}{_KEY}{key}.") for key, item in value.items()}
        return value

    return rewrite


def _text(value: Any, path: str) -> str:
    return compact(value) if _is_exact(value) else orjson.dumps(value).decode()


def _text_of_other(value: Any, path: str) -> str:
    return value if isinstance(value, str) and not isinstance(value, Literal) else _text(value, path)


def _is_exact(value: Any) -> bool:
    return isinstance(value, Literal | Pairs) or (isinstance(value, list) and any(map(_is_exact, value)))
