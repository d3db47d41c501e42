"""The tables of a database behind one block of a configuration: which are selected, and what becomes of each.

A table becomes a pipeline, or a refusal that concerns no other table. The same tables and the same block give the same
answer in any order. Names are reversible: no two tables share a name or a place, also not by case, since file systems
and catalogs may ignore it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from tidegate.core.dialects.dialect import Dialect
from tidegate.specs.columns import MERGES, WHOLE, LoadType
from tidegate.specs.table_block import TableRefusal, TableRules, TableSelection, WithoutWatermark

LONGEST_NAME = 180
"""The characters of a pipeline's name: files are named after it, and file systems take names of 255 bytes."""

DEAD_LETTERS = "_dead_letters"
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_ESCAPED = re.compile(r"-([0-9a-f]{2})")
_SCHEMA, _TABLE = "{schema}", "{table}"
PLACES = (_SCHEMA, _TABLE)
"""What a block writes in the address of its tables."""

_WORDS = """
all analyse analyze and any array as asc between both by case cast check collate column constraint create cross
current database databases default deferrable delete desc describe distinct div do drop dual each else end except
exists explain false fetch for force foreign from fulltext function grant group grouping groups having if in index
initially inner insert intersect interval into is join key keys kill lateral leading left like limit linear lines load
localtime lock long match mod natural not null numeric of offset on only optimize option or order outer over partition
placing primary procedure purge range rank read recursive references rename repeat replace require restrict return
returning revoke right row rows schema schemas select session_user set show some sql symmetric system table then to
trailing trigger true undo union unique unlock update usage use user using values variadic verbose when where while
window with write xor
"""
_RESERVED = frozenset(_WORDS.split())
"""Words that no schema is named by without quotes; after a dot every word may stand."""


class TableKind(StrEnum):
    """What a database calls a table; a partition of a partitioned table is none."""

    TABLE = "table"
    VIEW = "view"
    PARTITIONED = "partitioned"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table as its database describes it; ``key`` is its primary key, empty without one."""

    schema: str
    name: str
    kind: TableKind = TableKind.TABLE
    columns: tuple[str, ...] = ()
    key: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """Schema and table, as people write them."""
        return f"{self.schema}.{self.name}"

    def to_json(self) -> dict[str, Any]:
        """The form in which it is remembered."""
        return {
            "schema": self.schema,
            "name": self.name,
            "kind": self.kind.value,
            "columns": [*self.columns],
            "key": [*self.key],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> DatabaseTable:
        """The table in its remembered form; ValueError, KeyError or TypeError if it is none."""
        schema, name = found["schema"], found["name"]
        return cls(str(schema), str(name), TableKind(found["kind"]), tuple(found["columns"]), tuple(found["key"]))

    def quote(self, dialect: Dialect) -> str:
        """Write it for a statement; with quotes only where they are needed, so that a source keeps a readable name."""
        if _PLAIN.fullmatch(self.schema) and _PLAIN.fullmatch(self.name) and self.schema not in _RESERVED:
            return self.full_name
        return f"{dialect.quote(self.schema)}.{dialect.quote(self.name)}"


@dataclass(frozen=True, slots=True)
class BlockSink:
    """What a block says about the tables that it writes; ``places`` are their addresses with ``{schema}, {table}``."""

    places: tuple[str, ...]
    load_type: str = "append"
    merge_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockTable:
    """What becomes of one table of a block: a pipeline with these keys, or a refusal.

    ``load_type`` is that of the block, unless the table has none of the watermark columns or a rule of its own.
    """

    table: DatabaseTable
    pipeline: str
    load_type: str
    watermark_columns: tuple[str, ...] = ()
    merge_keys: tuple[str, ...] = ()
    rules: TableRules = field(default_factory=TableRules)
    refused: TableRefusal | None = None


def escape_name(name: str) -> str:
    """Write a name of a database with letters, digits and underscores; others become ``-`` and two hex digits a byte.

    >>> escape_name("order items"), escape_name("order_items")
    ('order-20items', 'order_items')
    """
    return "".join(
        sign
        if sign.isascii() and (sign.isalnum() or sign == "_")
        else "".join(f"-{byte:02x}" for byte in sign.encode())
        for sign in name
    )


def restore_name(escaped: str) -> str:
    """Read a name that :func:`escape_name` wrote.

    >>> restore_name("order-20items")
    'order items'
    """
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), escaped).encode("latin-1").decode()


def name_pipeline(block: str, schema: str, table: str) -> str:
    """Name the pipeline of a table.

    >>> name_pipeline("shop", "public", "orders")
    'shop.public.orders'
    """
    return f"{block}.{escape_name(schema)}.{escape_name(table)}"


def split_pipeline_name(block: str, name: str) -> tuple[str, str] | None:
    """Read schema and table off the name of a pipeline; None if it is not of this block.

    >>> split_pipeline_name("shop", "shop.public.orders")
    ('public', 'orders')
    """
    schema, dot, table = name.removeprefix(f"{block}.").partition(".")
    if not name.startswith(f"{block}.") or not dot or "." in table:
        return None
    return restore_name(schema), restore_name(table)


def fill_place(place: str, table: DatabaseTable) -> str:
    """Write the address of a table.

    >>> fill_place("s3://lake/{schema}/{table}", DatabaseTable("public", "orders"))
    's3://lake/public/orders'
    """
    # In one go: a name may itself contain the other placeholder's letters.
    filled = {_SCHEMA: escape_name(table.schema), _TABLE: escape_name(table.name)}
    return re.sub(r"(?<!\$)\{schema\}|(?<!\$)\{table\}", lambda found: filled[found[0]], place)


def select_tables(tables: Iterable[DatabaseTable], selection: TableSelection) -> tuple[DatabaseTable, ...]:
    """The selected tables, by name; what is excluded is left out, whatever selects it."""
    chosen = {(each.schema, each.name): each for each in tables if _is_selected(each, selection)}
    return tuple(chosen[key] for key in sorted(chosen))


def _is_selected(table: DatabaseTable, selection: TableSelection) -> bool:
    names = (table.name, table.full_name)
    if any(fnmatchcase(name, pattern) for pattern in selection.exclude for name in names):
        return False
    return any(fnmatchcase(table.full_name, pattern) for pattern in selection.tables)


def find_unused_rules(tables: Iterable[DatabaseTable], selection: TableSelection) -> Iterator[str]:
    """What of the selection concerns no table, in words: most often a name that was mistyped."""
    found = [*tables]
    chosen = {each.full_name for each in select_tables(found, selection)}
    for pattern in selection.tables:
        if not any(fnmatchcase(each.full_name, pattern) for each in found):
            yield f"tables: {pattern!r} matches no table of the database"
    for name in selection.per_table:
        if name not in chosen:
            yield f"per_table: {name!r} is none of the selected tables"


def plan_block(
    block: str, tables: Iterable[DatabaseTable], selection: TableSelection, sink: BlockSink
) -> tuple[BlockTable, ...]:
    """What becomes of each selected table; two that would share a name or a place are both refused."""
    chosen = select_tables(tables, selection)
    taken = _claim(block, chosen, sink)
    return tuple(_plan_table(block, each, selection, sink, taken) for each in chosen)


def _claim(block: str, tables: Sequence[DatabaseTable], sink: BlockSink) -> Mapping[str, Sequence[str]]:
    """The tables that want each name and place; both are compared without regard to case."""
    claims: dict[str, list[str]] = defaultdict(list)
    for each in tables:
        claims[f"name {name_pipeline(block, each.schema, each.name).lower()}"].append(each.full_name)
        for place in _places(each, sink):
            claims[f"place {place}"].append(each.full_name)
    return claims


def _places(table: DatabaseTable, sink: BlockSink) -> Iterator[str]:
    return (fill_place(place, table).rstrip("/").lower() for place in sink.places)


def _plan_table(
    block: str, table: DatabaseTable, selection: TableSelection, sink: BlockSink, taken: Mapping[str, Sequence[str]]
) -> BlockTable:
    rules = selection.per_table.get(table.full_name, TableRules())
    name = name_pipeline(block, table.schema, table.name)
    found = _find_watermark(table, selection, rules)
    load_type = (rules.load_type or LoadType(sink.load_type)).value
    policy = rules.without_watermark or selection.without_watermark
    if not found and load_type not in WHOLE and policy is WithoutWatermark.OVERWRITE:
        load_type = LoadType.OVERWRITE.value
    keys = (rules.merge_keys or sink.merge_keys or table.key) if load_type in MERGES else ()
    refused = (
        _refuse_name(table, name, sink, taken)
        or _refuse_columns(table, selection, rules, found, load_type)
        or _refuse_keys(table, keys, load_type)
    )
    spelled = tuple(_find_column(table, key) or key for key in keys)
    return BlockTable(table, name, load_type, () if load_type in WHOLE else found, spelled, rules, refused)


def _find_column(table: DatabaseTable, name: str) -> str | None:
    """The column as the table spells it: case counts only where two columns differ in nothing else."""
    if name in table.columns:
        return name
    return next((each for each in table.columns if each.lower() == name.lower()), None)


def _find_watermark(table: DatabaseTable, selection: TableSelection, rules: TableRules) -> tuple[str, ...]:
    candidates = rules.watermark_columns or selection.watermark_columns
    has = tuple(found for each in candidates if (found := _find_column(table, each)) is not None)
    if rules.watermark_columns and rules.watermark_mode is not None:
        return has if len(has) == len(candidates) else ()
    return has[:1]


def _refuse_name(
    table: DatabaseTable, name: str, sink: BlockSink, taken: Mapping[str, Sequence[str]]
) -> TableRefusal | None:
    exclude = f"exclude one of them: exclude: [{table.full_name!r}]"
    if len(name) > LONGEST_NAME:
        problem = f"{table.full_name} would be a pipeline with a name of {len(name)} characters, and {LONGEST_NAME} fit"
        return TableRefusal(problem, f"exclude: [{table.full_name!r}], or read it by a pipeline of its own")
    if len(claims := taken[f"name {name.lower()}"]) > 1:
        both = " and ".join(claims)
        return TableRefusal(f"{both} have one name but for upper and lower case, or had it once", exclude)
    for place in _places(table, sink):
        if len(claims := taken[f"place {place}"]) > 1:
            problem = f"{' and '.join(claims)} would be written to one place, {place}"
            return TableRefusal(problem, f"give sink.table_uri both {{schema}} and {{table}}, or {exclude}")
        letters = taken.get(f"place {place.removesuffix(DEAD_LETTERS)}")
        if place.endswith(DEAD_LETTERS) and letters:
            problem = f"{table.full_name} would be written to {place}, the place for the dead letters of {letters[0]}"
            return TableRefusal(problem, exclude)
    return None


def _refuse_columns(
    table: DatabaseTable, selection: TableSelection, rules: TableRules, found: tuple[str, ...], load_type: str
) -> TableRefusal | None:
    if found or load_type in WHOLE:
        return None
    wanted = ", ".join(rules.watermark_columns or selection.watermark_columns)
    problem = f"{table.full_name} has none of the watermark columns {wanted}" if wanted else ""
    if rules.watermark_columns and rules.watermark_mode is not None:
        problem = f"{table.full_name} has not all of the watermark columns {wanted}"
    name_one = f"name one in per_table: {{{table.full_name}: {{watermark_columns: […]}}}}"
    remedy = f"{name_one}, set without_watermark: overwrite, or exclude the table"
    return TableRefusal(problem or f"{table.full_name}: no watermark column is named for it", remedy)


def _refuse_keys(table: DatabaseTable, keys: Sequence[str], load_type: str) -> TableRefusal | None:
    if load_type not in MERGES:
        return None
    remedy = f"name them in per_table: {{{table.full_name}: {{merge_keys: […]}}}}, or exclude the table"
    if not keys:
        what = "is a view and has" if table.kind is TableKind.VIEW else "has"
        problem = f"{table.full_name} {what} no primary key, and load_type {load_type} needs key columns"
        return TableRefusal(problem, remedy)
    missing = [key for key in keys if _find_column(table, key) is None]
    if missing:
        return TableRefusal(f"{table.full_name} has no column {missing[0]!r}, which merge_keys names", remedy)
    return None
