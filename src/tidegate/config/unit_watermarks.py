"""Time ranges, units and how work units are cut: the blocks ``watermark`` and ``work_unit`` of a source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from tidegate.config import values as v
from tidegate.config.document import Block, Items, Scalar, Spot
from tidegate.config.models import Model, dump, entry, fields, fill
from tidegate.config.problems import Problem, nearest
from tidegate.config.unit_variables import Variable, unit_inputs, watermarks
from tidegate.config.values import choose, flag, number, refusal, text
from tidegate.core.units.time_range import check_bound, parse_span
from tidegate.errors import WatermarkError
from tidegate.specs.columns import HttpRead
from tidegate.specs.units import (
    NOW,
    FileRead,
    NotFound,
    PartialPartition,
    PartitionKind,
    Rounding,
    Span,
    SubRange,
    TimeRange,
    TimeWatermark,
    UnitSource,
    UnitWatermark,
    WorkUnits,
)

_WORK = WorkUnits()
_KINDS = tuple(each.value for each in PartitionKind)
_PARTIAL: dict[PartialPartition, bool | str] = {
    PartialPartition.NEVER: False,
    PartialPartition.MULTI_DAY: True,
    PartialPartition.ALWAYS: "all",
}


def span(value: object) -> Span:
    """A length of time: ``P3D``, ``P3DT6H``."""
    written = text(value).strip()
    try:
        return parse_span(written)
    except WatermarkError as error:
        raise _refusal(error, written) from None


def _refusal(error: WatermarkError, written: str) -> PydanticCustomError:
    """What an error says of a text, without the text itself."""
    return refusal(error.problem.removeprefix(f"{written!r} "), error.remedy)


def bound(*, is_end: bool) -> BeforeValidator:
    """A bound of a time range."""

    def checked(value: object) -> str:
        written = text(value).strip()
        try:
            check_bound(written, is_end=is_end)
        except WatermarkError as error:
            raise _refusal(error, written) from None
        return written

    return BeforeValidator(checked)


def pause(value: object) -> float:
    """A number of seconds from 0 on."""
    found = float(number(value))
    if found > 86_400:
        raise refusal("is too long", "allowed: at most 86400 seconds")
    return found


def units(value: object) -> tuple[str, ...]:
    """Values of a unit watermark, as a list or as text with commas; each once."""
    items = value.split(",") if isinstance(value, Scalar) else value
    if not isinstance(items, list) or any(not isinstance(item, str) for item in items):
        raise refusal("must be a list of texts, or a text with commas")
    found = tuple(str(item).strip() for item in items)
    if not found or not all(found):
        raise refusal("holds an empty value", "allowed: one value or more, none of them empty")
    twice = next((each for at, each in enumerate(found) if each in found[:at]), None) if _repeats(found) else None
    if twice is not None:
        raise refusal(f"has {twice!r} twice", "allowed: each once")
    return found


def _repeats(found: tuple[str, ...]) -> bool:
    return len(set(found)) < len(found)


def partition(value: object) -> PartitionKind | tuple[SubRange, ...]:
    """A kind of partition, or parts of the range with one each."""
    if isinstance(value, Scalar):
        return PartitionKind(choose(value, *_KINDS))
    pairs = value.items() if isinstance(value, Block) else value if isinstance(value, Items) else ()
    found = tuple(_sub_range(each) for each in pairs)
    if not found:
        raise refusal("must be a kind, or parts of the range with one each", f"allowed: {', '.join(_KINDS)}")
    return found


def _sub_range(part: object) -> SubRange:
    match part:
        case (str() as kind, Items() as bounds):
            start, end = ([*bounds, None, None][:2]) if len(bounds) == 2 else (None, None)
        case Block():
            kind, start, end = str(part.text("partition") or ""), part.text("from"), part.text("to")
            unknown = [key for key in part if key not in ("partition", "from", "to")]
            if unknown:
                raise refusal(f"has the unknown key {unknown[0]!r}", "allowed: partition, from, to")
        case _:
            kind, start, end = "", None, None
    if kind not in _KINDS:
        raise refusal(f"has a part that is not one of {', '.join(_KINDS)}", nearest(kind, _KINDS))
    if not isinstance(start, Scalar) or not isinstance(end, Scalar):
        raise refusal(f"has a part without both bounds: {kind}", f"allowed: {kind}: [2020-01-01, 2021-01-01]")
    for written, is_end in ((str(start).strip(), False), (str(end).strip(), True)):
        try:
            check_bound(written, is_end=is_end)
        except WatermarkError as error:
            raise refusal(f"has a bound that cannot be: {error.problem}", error.remedy) from None
    return SubRange(str(start).strip(), str(end).strip(), PartitionKind(kind))


def partial(value: object) -> PartialPartition:
    """Whether the last partition is read before it is full: ``true``, ``false`` or ``all``."""
    if isinstance(value, Scalar) and value.strip() == "all":
        return PartialPartition.ALWAYS
    try:
        return PartialPartition.MULTI_DAY if flag(value) else PartialPartition.NEVER
    except ValueError:
        raise refusal("is not a yes or no", "allowed: true, false, all") from None


StartBound = Annotated[str, bound(is_end=False)]
EndBound = Annotated[str, bound(is_end=True)]
SpanText = Annotated[Span, BeforeValidator(span), v.STRING]
Pause = Annotated[float, BeforeValidator(pause), WithJsonSchema({"type": "number", "minimum": 0})]
UnitValues = Annotated[
    tuple[str, ...],
    BeforeValidator(units),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": ["string", "number"]}}]}),
]
Partition = Annotated[
    PartitionKind | tuple[SubRange, ...],
    BeforeValidator(partition),
    WithJsonSchema({"anyOf": [{"enum": list(_KINDS)}, {"type": "string"}, {"type": "object"}, {"type": "array"}]}),
]
Partial = Annotated[
    Literal[PartialPartition.NEVER, PartialPartition.MULTI_DAY, PartialPartition.ALWAYS],
    BeforeValidator(partial),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"const": "all"}]}),
]


class RangeModel(Model):
    """The time that is covered: from, inclusive, to, exclusive."""

    at: ClassVar = {"from_": "start", "to": "end", "from_round": "start_round", "to_round": "end_round"}
    from_: StartBound = entry("Where it begins: a date or time, or PnD, PnDTmH before now.", alias="from")
    to: EndBound = entry("Where it ends: the same, or - for now.", NOW)
    round: Rounding | None = entry("To what both bounds are rounded down.", None)
    from_round: Rounding | None = entry("The same for the beginning alone.", None)
    to_round: Rounding | None = entry("The same for the end alone.", None)
    allow_future: v.Flag = entry("Whether the end may lie in the future.", False)

    def time_range(self) -> TimeRange:
        """The range; each end is rounded by its own key, else by that of both."""
        start, end = self.from_round or self.round, self.to_round or self.round
        return fill(TimeRange, self, start_round=start, end_round=end)

    @classmethod
    def shown(cls, spec: TimeRange) -> dict[str, Any]:
        """The range, with the rounding of each end."""
        return dump(cls, spec, ("from", "to", "from_round", "to_round", "allow_future"))


class WatermarkModel(Model):
    """The time range or the units that a source is read for."""

    name: Variable = entry("Its name; that of units is also their variable.")
    type: Literal["datetime", "unit"] = entry("datetime: a time range; unit: values such as ids.")
    range: RangeModel | None = entry("The time range, for datetime.", None)
    units: UnitValues = entry("The values, for unit; unset: a secondary input has them.", ())

    @classmethod
    def shown(cls, spec: TimeWatermark | UnitWatermark) -> dict[str, Any]:
        """The range, or the units where there are some."""
        if isinstance(spec, TimeWatermark):
            return dump(cls, spec, ("name", "type", "range"), {"type": "datetime"})
        return dump(cls, spec, ("name", "type", "units") if spec.units else ("name", "type"), {"type": "unit"})


class WorkUnitModel(Model):
    """How work units are cut, chosen and carried out."""

    at: ClassVar = {"partial_partition": "partial"}
    partition: Partition = entry("Into which pieces the range is cut.", PartitionKind.NONE)
    partial_partition: Partial = entry("Whether the last piece is read before it is full.", PartialPartition.MULTI_DAY)
    min_units: v.CountOrNone = entry("Fewer units than this are an error.", _WORK.min_units)
    min_records: v.CountOrNone = entry("A work unit that reads fewer records than this has failed.", _WORK.min_records)
    min_records_after: SpanText | None = entry(
        "How long after its end a piece may have fewer; until then it is left for later.", None
    )
    parallelism_max: v.Count | None = entry("Most work units of one run.", None)
    pacing_seconds: Pause = entry("Seconds between the starts of two.", _WORK.pacing_seconds)
    not_found: NotFound = entry("What 404 means: failed, done without rows, or never again.", NotFound.FAIL)
    breaker_failures: v.CountOrNone = entry(
        "Failures in a row after which the rest is left; 0 = never.", _WORK.breaker_failures
    )
    group_units: v.Count = entry("Work units of one commit.", _WORK.group_units)
    group_seconds: v.Seconds = entry("Seconds until a commit is due.", _WORK.group_seconds)

    def work(self) -> WorkUnits:
        """How work units are cut, chosen and carried out."""
        if isinstance(self.partition, PartitionKind):
            return fill(WorkUnits, self)
        return fill(WorkUnits, self, partition=PartitionKind.NONE, sub_ranges=self.partition)

    @classmethod
    def shown_of(cls, source: UnitSource) -> dict[str, Any]:
        """The keys that mean something for the source."""
        work, read = source.work, source.read
        parts = [{"partition": each.kind.value, "from": each.start, "to": each.end} for each in work.sub_ranges]
        asks = isinstance(read, HttpRead) or (isinstance(read, FileRead) and bool(read.http))
        last = {
            "min_records_after": bool(work.min_records) and work.min_records_after is not None,
            "not_found": asks,
        }
        keys = [key for key in fields(cls) if key not in last] + [key for key in last if last[key]]
        given = {"partition": parts or work.partition.value, "partial_partition": _PARTIAL[work.partial]}
        return dump(cls, work, keys, given)


def watermark_problems(source: Spot) -> Iterator[Problem]:
    """At most one time range and one list of units, each with what it needs."""
    for kind in ("datetime", "unit"):
        for each in watermarks(source, kind)[1:]:
            yield each.problem(f"is a second watermark of the type {kind}; allowed: at most one of each type")
    for each in watermarks(source, "datetime"):
        if not each.has("range"):
            yield each.problem("is missing; a datetime watermark needs it", "range")
        if each.has("units"):
            text = "means nothing for a datetime watermark; give units a watermark of the type unit"
            yield each.problem(text, "units")
    made = unit_inputs(source)
    for each in watermarks(source, "unit"):
        if each.has("range"):
            text = "means nothing for a unit watermark; give the range a watermark of the type datetime"
            yield each.problem(text, "range")
        if each.has("units") and made:
            yield each.problem("given beside 'secondary_input', which has units too; allowed: one of them", "units")
        if not each.has("units") and not made:
            yield each.problem("is missing, and no 'secondary_input' has units; give one of them", "units")
    named = [each.text("name") for kind in ("datetime", "unit") for each in watermarks(source, kind)[:1]]
    if len(named) == 2 and named[0] is not None and named[0] == named[1]:
        text = f"two watermarks are called {named[0].raw!r}; allowed: a name of its own for each"
        yield source.problem(text, "watermark")
