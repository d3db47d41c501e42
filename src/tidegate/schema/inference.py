"""Columns inferred from sampled records, JSON or text cells: what each field was seen to be, and a type for all of it.

Whole numbers become ``int64``, other numbers ``float64``, and a field that is both ``float64``. Whole numbers
beyond 64 bits become ``decimal(20,0)``; numbers that none of these types holds exactly are kept as text, by the
type ``json``. Text stays ``string``; where ``moments`` are wanted, texts that all are ISO 8601 moments, with date and
time, become ``timestamp``. A field that was null whenever it was there is a ``string``, an empty list a list
of strings, an object without keys ``json``, and so is what lies deeper than a table can be nested; the report
says so.

Cells, as CSV has them, follow the same rules; ``true`` and ``false`` become ``boolean``. Anything else, a number with
leading zeros, one that no number type holds exactly and a mixture included, stays ``string``, which takes every cell.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from tidegate.errors import SourceError
from tidegate.reports.wording import count
from tidegate.schema.literals import DEEPEST, Literal, NotJson, Pairs, excerpt, find_native, parse
from tidegate.schema.names import (
    DECLARE_OTHERS,
    MOST_COLUMNS,
    MOST_LEVELS,
    column_problems,
    explain_forbidden,
    field_from_json,
    field_to_json,
    name_problem,
    yaml_lines,
)
from tidegate.specs.table import FieldSpec

MOST_KEYS = 1000
"""An object with more different keys is data, not a struct: it is kept as ``json``."""

MANY = 100
"""A type is called certain once this many values of one kind were seen."""

SHOWN = 10
"""The most columns that one line names."""

NUMBERS = frozenset({"integer", "long integer", "large integer", "number", "inexact number"})
"""The kinds of numbers, by what can hold them: see :func:`number_kind`."""

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A number as a cell has it: JSON's grammar, so that one with leading zeros is text."""

_LARGE = re.compile(r"-?[0-9]{1,20}")
Row = Mapping[str, str | None]
"""The cells of one record by column, None for null."""

MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d[T ](?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?", re.ASCII
)
"""The common forms of a moment; offsets as in ISO 8601 and as databases write them: ``+02:00``, ``+0200``, ``+02``."""
_SCALARS = {"boolean": "boolean", "moment": "timestamp", "integer": "int64", "number": "float64", "string": "string"}


@dataclass(frozen=True, slots=True)
class FieldReport:
    """What was seen of one field. ``records`` had the chance to have it, ``seen`` had a value, ``nulls`` a null.

    ``examples`` has one value of each kind.
    """

    path: str
    type: str
    records: int
    seen: int
    kinds: Mapping[str, int]
    note: str = ""
    nulls: int = 0
    examples: Mapping[str, str] = field(default_factory=dict)

    @property
    def absent(self) -> int:
        """How many records did not have it."""
        return self.records - self.seen - self.nulls

    @property
    def confidence(self) -> str:
        """``high``: many values, all of one kind; ``none``: no value, or values that contradict each other."""
        if not self.seen or (len(self.kinds) > 1 and not self.kinds.keys() <= NUMBERS):
            return "none"
        return "high" if self.seen >= MANY and not self.note else "low"

    @property
    def share(self) -> float:
        """How much of the sample speaks for the type, from 0 to 1."""
        return self.seen / self.records if self.records else 0.0

    def describe(self) -> str:
        """One line for people."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items()) or "never a value"
        note = f"; {self.note}" if self.note else ""
        return f"{self.path}: {self.type} (in {self.share:.0%} of {count(self.records, 'record')}: {kinds}{note})"


@dataclass(frozen=True, slots=True)
class Inference:
    """Inferred columns and how they came about; ``unreadable`` lines of the sample were left out.

    ``guessed`` are the paths of those whose values do not tell their type: there were none, or they contradict.
    ``set_aside`` says, a line per file, whose columns did not count because they contradict those of most files.
    """

    fields: tuple[FieldSpec, ...]
    report: tuple[FieldReport, ...]
    records: int
    unreadable: int = 0
    problems: tuple[str, ...] = ()
    guessed: frozenset[str] = field(default=frozenset(), compare=False)
    set_aside: tuple[str, ...] = field(default=(), compare=False)

    def sure(self) -> tuple[FieldSpec, ...]:
        """The fields without those that are guessed, at any depth."""
        return self._sure(self.fields, "")

    def _sure(self, fields: tuple[FieldSpec, ...], where: str) -> tuple[FieldSpec, ...]:
        found = (self._sure_field(field, where + field.name) for field in fields)
        return tuple(each for each in found if each is not None)

    def _sure_field(self, field: FieldSpec, path: str) -> FieldSpec | None:
        if path in self.guessed:
            return None
        if field.fields:
            inner = self._sure(field.fields, f"{path}.")
            return replace(field, fields=inner) if inner else None
        if field.items is not None:
            items = self._sure_field(field.items, f"{path}[]")
            return None if items is None else replace(field, items=items)
        return field

    def summary(self) -> str:
        """One line for people: how many columns, and the ones that are unsure, if they are few."""
        nested = len(self.report) - len(self.fields)
        size = count(len(self.fields), "column") + (f" ({count(nested, 'field')} inside them)" if nested > 0 else "")
        shown = self.report if len(self.report) <= SHOWN else [line for line in self.report if line.note]
        lines = "; ".join(each.describe() for each in shown[:SHOWN])
        more = f"; and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
        listed = f": {lines}{more}" if lines else ""
        return f"{size} from {count(self.records, 'record')}{listed}; `tidegate schema show` lists all"

    def to_json(self) -> dict[str, Any]:
        """In JSON types, as it is stored beside the table."""
        return {
            "schema_version": 1,
            "fields": [field_to_json(field) for field in self.fields],
            "report": [asdict(line) for line in self.report],
            "records": self.records,
            "unreadable": self.unreadable,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Inference:
        """What :meth:`to_json` wrote."""
        return cls(
            fields=tuple(field_from_json(member) for member in data["fields"]),
            report=tuple(FieldReport(**each) for each in data.get("report", ())),
            records=data.get("records", 0),
            unreadable=data.get("unreadable", 0),
        )


@dataclass(slots=True)
class _Seen:
    """Everything one field was seen to be."""

    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    members: dict[str, _Seen] = field(default_factory=dict)
    items: _Seen | None = None
    nulls: int = 0

    @classmethod
    def of(cls, kinds: Any, nulls: int, members: Any, items: Any) -> _Seen:
        """What the native reader saw."""
        return cls(
            Counter({kind: count for kind, count, _ in kinds}),
            {kind: example for kind, _, example in kinds},
            {name: cls.of(*seen) for name, seen in members},
            None if items is None else cls.of(*items),
            nulls,
        )

    def count(self, kind: str, value: Any) -> None:
        """One more value of this kind; the first of each is an example."""
        self.kinds[kind] += 1
        if kind not in self.examples:
            self.examples[kind] = excerpt(value)

    def settle_moments(self, *, moments: bool) -> _Seen:
        """The same, with moments as texts where there are others, or where they are not wanted."""
        if "moment" not in self.kinds or (moments and "string" not in self.kinds):
            return self
        kinds = Counter({"string": 0}) | self.kinds
        kinds["string"] += kinds.pop("moment")
        first = next(self.examples[kind] for kind in self.examples if kind in ("moment", "string"))
        examples = {kind: example for kind, example in self.examples.items() if kind != "moment"}
        return replace(self, kinds=kinds, examples=examples | {"string": first})

    def add(self, value: Any, levels: int = MOST_LEVELS) -> None:
        """Look into one more value, ``levels`` deep."""
        kind = _kind(value)
        if kind == "null":
            self.nulls += 1
            return
        self.count(kind, value)
        # What lies deeper becomes `json` text: not every reader could open a table with more levels.
        if not levels:
            return
        if isinstance(value, Pairs):
            for key, item in value:
                self.members.setdefault(key, _Seen()).add(item, levels - 1)
        elif kind == "list":
            self.items = self.items or _Seen()
            for item in value:
                self.items.add(item, levels - 1)


def number_kind(text: str) -> str:
    """What a number that JSON or CSV has as ``text`` needs of a column.

    >>> [number_kind(text) for text in ("1", "9007199254740993", "18446744073709551615", "1.5", "1e400")]
    ['integer', 'long integer', 'large integer', 'number', 'inexact number']
    """
    if not text.lstrip("-").isdigit():
        value = float(text)
        # `1e400` would become infinity and `1e-400` zero, without an error.
        is_bent = not math.isfinite(value) or (value == 0 and re.search("[1-9]", re.split("[eE]", text)[0]) is not None)
        return "inexact number" if is_bent else "number"
    # Python does not parse thousands of digits, and no column could hold them.
    if _LARGE.fullmatch(text) is None:
        return "inexact number"
    whole = int(text)
    if not -(2**63) <= whole < 2**63:
        return "large integer"
    # Beyond 2^53, int64 holds it and float64 does not: beside fractions it has to stay text.
    return "integer" if int(float(whole)) == whole else "long integer"


def is_moment(text: str) -> bool:
    """Whether a text is a moment in the common form, with date and time, in the years 1 to 9999.

    >>> [is_moment(text) for text in ("2026-01-28T10:11:12Z", "2026-01-28 10:11:12.5+02", "2026-01-28", "now")]
    [True, True, False, False]
    """
    if MOMENT.fullmatch(text) is None:
        return False
    try:
        found = datetime.fromisoformat(text)
        # In the first and the last year, the offset may lead out of the calendar.
        return found.tzinfo is None or found.astimezone(UTC) is not None
    except (ValueError, OverflowError):
        return False


def number_type(kinds: Iterable[str]) -> str | None:
    """The column type that holds numbers of these kinds exactly; None where there is none."""
    found = set(kinds)
    if found <= {"integer", "long integer"}:
        return "int64"
    if found <= {"integer", "long integer", "large integer"}:
        return "decimal(20,0)"
    return "float64" if found <= {"integer", "number"} else None


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case Literal():
            return number_kind(value)
        case str():
            return "moment" if is_moment(value) else "string"
        case Pairs():
            return "object"
        case _:
            return "list"


def infer_json(
    samples: Iterable[Iterable[bytes]],
    *,
    coerce_conflicts_to_utf8: bool = False,
    forbidden: tuple[str, ...] = (),
    rescued: bool = False,
    moments: bool = False,
) -> Inference:
    """Columns that hold every sampled record; ``samples`` has the first lines of each of several files.

    ``forbidden`` are names that records must not have (partition columns that come from the path). With ``rescued``
    what fits no column is kept elsewhere: names that no column can have are left out, and values that contradict
    each other go by the kind that most of them have. With ``moments``, texts may be timestamps. ``problems`` names what
    is in the way; such fields are text. Raises :class:`SourceError` when there is no record.
    """
    # A byte order mark may begin a file, and is part of no record.
    lines = [line.strip().removeprefix(b"\xef\xbb\xbf") for sample in samples for line in sample if line.strip()]
    records, unreadable, root = _look(lines)
    if not records:
        raise SourceError(
            f"no record to infer columns from ({unreadable} lines are not JSON objects{why_unreadable(lines)})",
            "declare schema.fields, or wait for data",
        )
    # So many different keys are data, not columns.
    if len(root.members) > MOST_COLUMNS:
        problem = f"there are {len(root.members):,} fields; at most {MOST_COLUMNS:,} columns are inferred"
        return Inference((), (), records, unreadable, (problem,))
    shaping = _TypeInference(coerce=coerce_conflicts_to_utf8, rescued=rescued, moments=moments)
    fields = shaping.fields(root.members, "", records, MOST_LEVELS, forbidden)
    problems, guessed = tuple(shaping.problems), frozenset(shaping.guessed)
    return Inference(fields, tuple(shaping.report), records, unreadable, problems, guessed)


def kinds_seen(found: Inference) -> tuple[dict[str, str], dict[str, str]]:
    """What one JSON file says about each field, as far as files can contradict each other; and where it does itself."""
    kinds: dict[str, str] = {}
    mixed: dict[str, str] = {}
    for line in found.report:
        seen = set(line.kinds)
        if seen <= NUMBERS:
            kinds |= {line.path: "number"} if seen else {}
        elif seen <= {"moment", "string"}:
            kinds[line.path] = "string"
        elif len(seen) == 1:
            kinds[line.path] = seen.pop()
        else:
            mixed[line.path] = " and ".join(sorted(seen))
    return kinds, mixed


_NULL = "write null for a missing number"
_REMEDIES = {"not UTF-8": "send or write it as UTF-8", "NaN": _NULL, "Infinity": _NULL, "-Infinity": _NULL}


def why_unreadable(lines: Iterable[bytes]) -> str:
    """Say what is wrong with the first line that is not JSON, and what helps; empty if every line is.

    >>> why_unreadable([b'{"a": NaN}'])
    '; the first: NaN is not JSON, write null for a missing number'
    """
    for line in lines:
        try:
            parse(line)
        except NotJson as error:
            remedy = next((text for begin, text in _REMEDIES.items() if str(error).startswith(begin)), "")
            return f"; the first: {error}{remedy and f', {remedy}'}"
    return ""


DRAFTED = 50
"""Columns of a draft in an error; more do not fit on a screen."""


def draft_of(fields: Sequence[FieldSpec]) -> str:
    """Columns to paste into a configuration and to correct, on one line of YAML.

    >>> draft_of([FieldSpec("id", "int64")])
    'schema: {fields: [{name: id, type: int64}]}'
    """
    more = ", …" if len(fields) > DRAFTED else ""
    return f"schema: {{fields: [{', '.join(yaml_lines(fields[:DRAFTED]))}{more}]}}"


def check_agreement(found: Inference) -> Inference:
    """Return ``found`` if nothing was in the way; raise :class:`SourceError` with every problem otherwise."""
    if found.problems:
        raise SourceError(
            "no columns can be inferred from the sampled records: " + "; ".join(found.problems),
            "set schema.rescued to keep what fits no column, or declare the columns you want: fields that are not "
            f"declared are left out and counted, such as `{draft_of(found.fields)}`",
        )
    return found


def _look(lines: Sequence[bytes]) -> tuple[int, int, _Seen]:
    """How many lines are records and how many are not, and what was seen in the records."""
    native = find_native()
    if native is not None:
        records, unreadable, seen = native.look_at_lines(lines, MOST_LEVELS + 1, DEEPEST)
        return records, unreadable, _Seen.of(*seen)
    root, records = _Seen(), 0
    for value in map(_record, lines):
        if value is not None:
            records += 1
            root.add(value, MOST_LEVELS + 1)
    return records, len(lines) - records, root


def _record(line: bytes) -> Pairs | None:
    try:
        value = parse(line)
    except NotJson:
        return None
    return value if isinstance(value, Pairs) else None


_TOO_DEEP = f"more than {MOST_LEVELS} levels deep; kept as text"


class _TypeInference:
    """From what was seen to types; collects the report and every problem."""

    def __init__(self, *, coerce: bool, rescued: bool, moments: bool) -> None:
        self._coerce = coerce
        self._moments = moments
        self._rescued = rescued
        self.report: list[FieldReport] = []
        self.problems: list[str] = []
        self.guessed: set[str] = set()

    def fields(
        self, members: Mapping[str, _Seen], where: str, records: int, levels: int, forbidden: tuple[str, ...] = ()
    ) -> tuple[FieldSpec, ...]:
        good = self._good_names(list(members), where, forbidden)
        return tuple(self._field(name, members[name], where + name, records, levels) for name in good)

    def _field(self, name: str, seen: _Seen, path: str, records: int, levels: int) -> FieldSpec:
        seen = seen.settle_moments(moments=self._moments)
        count = sum(seen.kinds.values())
        # Before the fields inside it are added, so that the report has a column above its fields.
        place = len(self.report)
        found, note = self._shape(name, seen, path, count, levels)
        kinds = dict(seen.kinds.most_common())
        told = FieldReport(path, found.type, records, count, kinds, note, seen.nulls, dict(seen.examples))
        self.report.insert(place, told)
        return found

    def _shape(self, name: str, seen: _Seen, path: str, count: int, levels: int) -> tuple[FieldSpec, str]:
        """The column for what was seen; ``levels`` is how deep it may still be nested."""
        kinds = set(seen.kinds)
        if not kinds:
            self.guessed.add(path)
            return FieldSpec(name, "string"), "never had a value; becomes text"
        if kinds <= NUMBERS:
            return self._number(name, seen)
        # Values that do not fit have a place of their own, so the column need not become text.
        if len(kinds) > 1 and self._rescued and not self._coerce:
            return self._most(name, seen, path, levels)
        if len(kinds) > 1:
            return FieldSpec(name, "string"), self._conflict(path, seen)
        if kinds == {"object"}:
            return self._struct(name, seen, path, count, levels)
        if kinds == {"list"}:
            return self._list(name, seen, path, levels)
        return FieldSpec(name, _SCALARS[kinds.pop()]), ""

    def _number(self, name: str, seen: _Seen) -> tuple[FieldSpec, str]:
        kind = number_type(seen.kinds)
        if kind is not None:
            return FieldSpec(name, kind), ""
        return FieldSpec(name, "json"), f"no number type holds all values exactly, kept as text: {_kinds(seen)}"

    def _most(self, name: str, seen: _Seen, path: str, levels: int) -> tuple[FieldSpec, str]:
        """The shape of the kind that most values have; numbers count as one kind."""
        numbers = Counter({kind: count for kind, count in seen.kinds.items() if kind in NUMBERS})
        others = [Counter({kind: count}) for kind, count in seen.kinds.items() if kind not in NUMBERS]
        most = max([numbers, *others], key=lambda kinds: sum(kinds.values()))
        count = sum(most.values())
        found, _ = self._shape(name, replace(seen, kinds=most), path, count, levels)
        left = sum(seen.kinds.values()) - count
        return found, f"{left} of other kinds go to the rescued column: {_kinds(seen)}"

    def _struct(self, name: str, seen: _Seen, path: str, count: int, levels: int) -> tuple[FieldSpec, str]:
        if not levels:
            return FieldSpec(name, "json"), _TOO_DEEP
        if not seen.members:
            return FieldSpec(name, "json"), "always an empty object; kept as text"
        if len(seen.members) > MOST_KEYS:
            return FieldSpec(name, "json"), f"more than {MOST_KEYS} different keys; kept as text"
        fields = self.fields(seen.members, f"{path}.", count, levels - 1)
        if not fields:
            return FieldSpec(name, "json"), "no key can be a field's name; kept as text"
        return FieldSpec(name, "struct", fields=fields), ""

    def _list(self, name: str, seen: _Seen, path: str, levels: int) -> tuple[FieldSpec, str]:
        if not levels:
            return FieldSpec(name, "json"), _TOO_DEEP
        items = (seen.items or _Seen()).settle_moments(moments=self._moments)
        count = sum(items.kinds.values())
        found, note = self._shape("element", items, f"{path}[]", count, levels - 1)
        if not items.kinds:
            note = "always an empty list; its items become text"
        return FieldSpec(name, "list", items=found), note

    def _conflict(self, path: str, seen: _Seen) -> str:
        kinds = _kinds(seen)
        if not self._coerce:
            self.guessed.add(path)
            self.problems.append(f"{path!r} is {kinds}; set coerce_conflicts_to_utf8 to keep it as text")
        return f"kept as text: {kinds}"

    def _good_names(self, names: list[str], where: str, forbidden: tuple[str, ...]) -> list[str]:
        known: dict[str, str] = {}
        good = []
        for name in names:
            path = f"{where}{name}"
            # Delta ignores case: a table cannot have both.
            twin = known.setdefault(name.lower(), name)
            wrong = None
            if twin != name:
                wrong = f"{path!r} and {where + twin!r} differ only in upper and lower case"
            elif unfit := name_problem(name, nested=bool(where)):
                wrong = f"{path!r} {unfit}"
            if name in forbidden:
                self.guessed.add(path)
                self.problems.append(explain_forbidden(path))
            if wrong is not None and not self._rescued:
                self.problems.append(wrong)
            if wrong is None:
                good.append(name)
        return good


def _kinds(seen: _Seen) -> str:
    return " and ".join(f"{kind} ({seen.examples[kind]})" for kind, _ in seen.kinds.most_common())


def cell_kind(cell: str) -> str:
    """What the text of a cell looks like: a kind of number, ``boolean`` or ``string``."""
    if NUMBER.fullmatch(cell):
        return number_kind(cell)
    return "boolean" if cell.lower() in ("true", "false") else "string"


def infer_cells(
    samples: Iterable[Iterable[Row]],
    *,
    unreadable: int = 0,
    forbidden: tuple[str, ...] = (),
    moments: bool = False,
) -> Inference:
    """Columns that take every sampled record; raises :class:`SourceError` for names that cannot be columns."""
    columns: dict[str, _Seen] = {}
    records = 0
    for row in chain.from_iterable(samples):
        records += 1
        for name, cell in row.items():
            seen = columns.setdefault(name, _Seen())
            if cell is not None:
                kind = cell_kind(cell)
                # Only on request: columns that were remembered as text stay text.
                seen.count("moment" if moments and kind == "string" and is_moment(cell) else kind, cell)
    if not records:
        raise SourceError("no record to infer columns from", "declare schema.fields, or wait for data")
    if problems := column_problems(list(columns), forbidden):
        raise SourceError("the columns cannot be used: " + "; ".join(problems), DECLARE_OTHERS)
    report = tuple(
        FieldReport(name, kind, records, sum(seen.kinds.values()), dict(seen.kinds.most_common()), note)
        for name, column in columns.items()
        for seen in [column.settle_moments(moments=moments)]
        for kind, note in [_cell_type(seen)]
    )
    guessed = frozenset(name for name, seen in columns.items() if not seen.kinds)
    fields = tuple(FieldSpec(each.path, each.type) for each in report)
    return Inference(fields, report, records, unreadable, guessed=guessed)


def _cell_type(seen: _Seen) -> tuple[str, str]:
    """The type of a column of cells, and a note where it is not plain."""
    kinds = set(seen.kinds)
    if not kinds:
        return "string", "never had a value; becomes text"
    if kinds <= NUMBERS:
        number = number_type(kinds)
        return number or "string", "" if number else "no number type holds all values exactly; kept as text"
    if kinds in ({"boolean"}, {"moment"}):
        return _SCALARS[kinds.pop()], ""
    return "string", f"kept as text: {_kinds(seen)}" if len(kinds) > 1 else ""
