"""Columns from samples of text cells, as CSV has them: the narrowest type that takes every cell, and a report.

Whole numbers become ``int64``, beyond 64 bits ``decimal(20,0)``, other numbers ``float64``, ``true`` and ``false``
``boolean``; anything else, a number with leading zeros, one that no number type holds exactly and a mixture included,
stays ``string``, which takes every cell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import SourceError
from tidegate.schema.column_names import DECLARE_OTHERS, unusable
from tidegate.schema.infer import NUMBERS, FieldReport, Inference, number_kind, number_type
from tidegate.schema.literals import shortened
from tidegate.specs import FieldSpec

Row = Mapping[str, str | None]
"""The cells of one record by column, None for null."""

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_LONG = re.compile(r"[0-9]{16}|[eE][+-]?[0-9]{3}")
"""Numbers that must be looked at one by one: sixteen digits in a row, or an exponent of three."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


@dataclass(slots=True)
class _Column:
    records: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, cell: str | None) -> None:
        self.records += 1
        if cell is not None:
            kind = cell_kind(cell)
            self.kinds[kind] += 1
            self.examples.setdefault(kind, shortened(cell))

    def type(self) -> tuple[str, str]:
        """The type, and a note where it is not plain."""
        kinds = set(self.kinds)
        if not kinds:
            return "string", "never had a value; taken for text"
        if kinds <= NUMBERS:
            number = number_type(kinds)
            return number or "string", "" if number else "no number type holds all values exactly; kept as text"
        if kinds == {"boolean"}:
            return "boolean", ""
        mixed = " and ".join(f"{kind} ({self.examples[kind]})" for kind, _ in self.kinds.most_common())
        return "string", f"kept as text: {mixed}" if len(kinds) > 1 else ""


def cell_kind(cell: str) -> str:
    """What the text of a cell looks like: a kind of number, ``boolean`` or ``string``."""
    if _NUMBER.fullmatch(cell):
        return number_kind(cell)
    return "boolean" if cell.lower() in ("true", "false") else "string"


def examples_of(cells: pa.Array) -> dict[str, str]:
    """A cell of each kind that a column of texts has."""
    filled = cells.drop_null()
    number = pc.match_substring_regex(filled, f"^(?:{_NUMBER.pattern})$")
    whole = pc.match_substring_regex(filled, f"^(?:{_INTEGER.pattern})$")
    truth = pc.is_in(pc.ascii_lower(filled), pa.array(["true", "false"], filled.type))
    plain = pc.and_not(number, pc.match_substring_regex(filled, _LONG.pattern))
    other = pc.invert(pc.or_(number, truth))
    masks = (pc.and_(plain, whole), pc.and_not(plain, whole), truth, other)
    places = (pc.index(mask, True).as_py() for mask in masks)
    found = [filled[place].as_py() for place in places if place >= 0]
    found += filled.filter(pc.and_not(number, plain)).unique().to_pylist()
    return {cell_kind(cell): cell for cell in found}


def infer_cells(samples: Iterable[Iterable[Row]], *, unreadable: int = 0, forbidden: tuple[str, ...] = ()) -> Inference:
    """Columns that take every sampled record; raises :class:`SourceError` for names that cannot be columns."""
    columns: dict[str, _Column] = {}
    records = 0
    for rows in samples:
        for row in rows:
            records += 1
            for name, cell in row.items():
                columns.setdefault(name, _Column()).add(cell)
    if not records:
        raise SourceError("no record to infer a schema from", "declare schema.fields, or wait for data")
    if problems := unusable(list(columns), forbidden):
        raise SourceError("the columns cannot be used: " + "; ".join(problems), DECLARE_OTHERS)
    fields, report = [], []
    for name, column in columns.items():
        kind, note = column.type()
        fields.append(FieldSpec(name, kind))
        seen = sum(column.kinds.values())
        report.append(FieldReport(name, kind, records, seen, dict(column.kinds.most_common()), note))
    return Inference(tuple(fields), tuple(report), records, unreadable)
