"""Columns from samples: what every field was seen to be, the type that holds all of it, and a report.

Whole numbers become ``int64``, other numbers ``float64``, and a field that is both ``float64``. Text stays
``string``, also where it looks like a moment: a type that a later record would not fit must be declared, not
guessed. A field that was null whenever it was there is a ``string``, an empty list a list of strings, an
object without keys ``json``; the report says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.errors import SourceError
from tidegate.schema.literals import Literal, NotJson, Pairs, parse, shortened
from tidegate.schema.names import field_from_json, field_to_json, name_problem
from tidegate.specs import FieldSpec

MOST_KEYS = 1000
"""An object with more different keys is data, not a struct: it is kept as ``json``."""

MANY = 100
"""From so many values of one kind on a type is called sure."""

LONGEST_WHOLE = 20
"""Letters of a number that 64 bits may hold; Python refuses to look at whole numbers of some thousand digits."""

_NUMBERS = frozenset({"integer", "number"})
_SCALARS = {"boolean": "boolean", "integer": "int64", "number": "float64", "string": "string"}


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
        if not self.seen or (len(self.kinds) > 1 and not self.kinds.keys() <= _NUMBERS):
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
        return f"{self.path}: {self.type} (in {self.share:.0%} of {self.records} records: {kinds}{note})"


@dataclass(frozen=True, slots=True)
class Inference:
    """Inferred columns and how they came about; ``unreadable`` lines of the sample were left out."""

    fields: tuple[FieldSpec, ...]
    report: tuple[FieldReport, ...]
    records: int
    unreadable: int = 0
    problems: tuple[str, ...] = ()

    def describe(self) -> tuple[str, ...]:
        """Lines for people."""
        return tuple(each.describe() for each in self.report)

    def to_json(self) -> dict[str, Any]:
        """In JSON types, as it is remembered beside the table."""
        report = [
            {
                "path": each.path,
                "type": each.type,
                "records": each.records,
                "seen": each.seen,
                "kinds": dict(each.kinds),
                "note": each.note,
                "nulls": each.nulls,
                "examples": dict(each.examples),
            }
            for each in self.report
        ]
        return {
            "schema_version": 1,
            "fields": [field_to_json(each) for each in self.fields],
            "report": report,
            "records": self.records,
            "unreadable": self.unreadable,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Inference:
        """What :meth:`to_json` wrote."""
        return cls(
            fields=tuple(field_from_json(each) for each in data["fields"]),
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

    def add(self, value: Any) -> None:
        kind = _kind(value)
        if kind == "null":
            self.nulls += 1
            return
        self.kinds[kind] += 1
        self.examples.setdefault(kind, shortened(value))
        if isinstance(value, Pairs):
            for key, item in value:
                self.members.setdefault(key, _Seen()).add(item)
        elif kind == "list":
            self.items = self.items or _Seen()
            for item in value:
                self.items.add(item)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case Literal():
            whole = len(value) <= LONGEST_WHOLE and value.lstrip("-").isdigit() and -(2**63) <= int(value) < 2**63
            return "integer" if whole else "number"
        case str():
            return "string"
        case Pairs():
            return "object"
        case _:
            return "list"


def look(
    samples: Iterable[Iterable[bytes]],
    *,
    coerce_conflicts_to_utf8: bool = False,
    forbidden: tuple[str, ...] = (),
    rescued: bool = False,
) -> Inference:
    """Columns that hold every sampled record; ``samples`` has the first lines of each of several files.

    ``forbidden`` are names that records must not have (partition columns that come from the path). With ``rescued``
    what fits no column is kept elsewhere: names that no column can have are left out, and values that contradict
    each other go by the kind that most of them have. What is in the way is told in ``problems``, and such fields are
    text. Raises :class:`SourceError` when there is no record.
    """
    root = _Seen()
    records = unreadable = 0
    for lines in samples:
        for line in lines:
            if not line.strip():
                continue
            value = _record(line)
            if value is None:
                unreadable += 1
                continue
            records += 1
            root.add(value)
    if not records:
        raise SourceError(
            f"no record to infer a schema from ({unreadable} lines are not JSON objects)",
            "declare schema.fields, or wait for data",
        )
    shaping = _Shaping(coerce=coerce_conflicts_to_utf8, rescued=rescued)
    fields = shaping.fields(root.members, "", records, forbidden)
    return Inference(fields, tuple(shaping.report), records, unreadable, tuple(shaping.problems))


def agreeing(found: Inference) -> Inference:
    """The same, unless something was in the way: then :class:`SourceError` with all of it."""
    if found.problems:
        raise SourceError(
            "the sampled records do not agree: " + "; ".join(found.problems),
            "declare schema.fields, set coerce_conflicts_to_utf8 to keep conflicting values as text, or schema.rescued "
            "to keep apart what does not fit",
        )
    return found


def _record(line: bytes) -> Pairs | None:
    try:
        value = parse(line.strip().removeprefix(b"\xef\xbb\xbf"))
    except NotJson:
        return None
    return value if isinstance(value, Pairs) else None


class _Shaping:
    """From what was seen to types; collects the report and every problem."""

    def __init__(self, *, coerce: bool, rescued: bool) -> None:
        self._coerce = coerce
        self._rescued = rescued
        self.report: list[FieldReport] = []
        self.problems: list[str] = []

    def fields(
        self, members: Mapping[str, _Seen], where: str, records: int, forbidden: tuple[str, ...] = ()
    ) -> tuple[FieldSpec, ...]:
        good = self._good_names(list(members), where, forbidden)
        return tuple(self._field(name, members[name], where + name, records) for name in good)

    def _field(self, name: str, seen: _Seen, path: str, records: int) -> FieldSpec:
        count = sum(seen.kinds.values())
        place = len(self.report)
        found, note = self._shape(name, seen, path, count)
        kinds = dict(seen.kinds.most_common())
        told = FieldReport(path, found.type, records, count, kinds, note, seen.nulls, dict(seen.examples))
        self.report.insert(place, told)
        return found

    def _shape(self, name: str, seen: _Seen, path: str, count: int) -> tuple[FieldSpec, str]:
        kinds = set(seen.kinds)
        if not kinds:
            return FieldSpec(name, "string"), "never had a value; taken for text"
        if kinds <= _NUMBERS:
            return FieldSpec(name, "float64" if "number" in kinds else "int64"), ""
        if len(kinds) > 1 and self._rescued and not self._coerce:
            return self._most(name, seen, path)
        if len(kinds) > 1:
            return FieldSpec(name, "string"), self._conflict(path, seen)
        if kinds == {"object"}:
            return self._struct(name, seen, path, count)
        if kinds == {"list"}:
            return self._list(name, seen, path)
        return FieldSpec(name, _SCALARS[kinds.pop()]), ""

    def _most(self, name: str, seen: _Seen, path: str) -> tuple[FieldSpec, str]:
        """The shape of the kind that most values have."""
        kind, count = seen.kinds.most_common(1)[0]
        only = replace(seen, kinds=Counter({kind: count}))
        found, _ = self._shape(name, only, path, count)
        others = sum(seen.kinds.values()) - count
        return found, f"{others} of another kind are rescued: {_kinds(seen)}"

    def _struct(self, name: str, seen: _Seen, path: str, count: int) -> tuple[FieldSpec, str]:
        if not seen.members:
            return FieldSpec(name, "json"), "always an object without keys; kept as text"
        if len(seen.members) > MOST_KEYS:
            return FieldSpec(name, "json"), f"more than {MOST_KEYS} different keys; kept as text"
        return FieldSpec(name, "struct", fields=self.fields(seen.members, f"{path}.", count)), ""

    def _list(self, name: str, seen: _Seen, path: str) -> tuple[FieldSpec, str]:
        items = seen.items or _Seen()
        count = sum(items.kinds.values())
        found, note = self._shape("element", items, f"{path}[]", count)
        if not items.kinds:
            note = "always an empty list; its items are taken for text"
        return FieldSpec(name, "list", items=found), note

    def _conflict(self, path: str, seen: _Seen) -> str:
        kinds = _kinds(seen)
        if not self._coerce:
            self.problems.append(f"{path!r} is {kinds}")
        return f"kept as text: {kinds}"

    def _good_names(self, names: list[str], where: str, forbidden: tuple[str, ...]) -> list[str]:
        known: dict[str, str] = {}
        good = []
        for name in names:
            path = f"{where}{name}"
            twin = known.setdefault(name.lower(), name)
            wrong = None
            if twin != name:
                wrong = f"{path!r} and {where + twin!r} differ only in upper and lower case"
            elif unfit := name_problem(name, nested=bool(where)):
                wrong = f"{path!r} {unfit}"
            if name in forbidden:
                self.problems.append(f"{path!r} is also a partition column that comes from the path")
            if wrong is not None and not self._rescued:
                self.problems.append(wrong)
            if wrong is None:
                good.append(name)
        return good


def _kinds(seen: _Seen) -> str:
    return " and ".join(f"{kind} ({seen.examples[kind]})" for kind, _ in seen.kinds.most_common())
