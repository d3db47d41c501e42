"""Time ranges, units and how work units are cut: the blocks ``watermark``, ``secondary_input`` and ``work_unit``.

Units give ``{{variables}}`` to requests, queries and addresses; ``params`` give those of a range.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from tidegate.config.column_source import connection_of
from tidegate.config.document import Block, Items, Node, Problem, Scalar, Spot, nearest, problem, sentence, words
from tidegate.config.http import key_in_path, key_problems
from tidegate.config.models import Context, Model, Parts, Shorthand, dump, fields, make, part
from tidegate.config.values import VARIABLE, RefusedValue, check, choose, flag, number, options, refusal, text, word_of
from tidegate.core.calendar import zone_named
from tidegate.core.units.time_range import parse_bound, parse_span
from tidegate.errors import WatermarkError
from tidegate.specs.keys import Checked, Key
from tidegate.specs.locations import Location, looks_secret
from tidegate.specs.units import (
    InputFormat,
    PartialPartition,
    PartitionKind,
    RangeParam,
    Rounding,
    SecondaryInput,
    Span,
    SubRange,
    TimeRange,
    TimeWatermark,
    UnitSource,
    UnitWatermark,
    WorkUnits,
    filter_expression,
)

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_TEMPLATES = ("path", "params", "headers", "body", "query", "source_uri")
AUTHENTICATION = "authentication"
_ALIKE = ("fields", "as", "auth_fields")


@check()
def variable(value: object) -> str:
    """A name that may stand between ``{{`` and ``}}``."""
    found = text(value).strip()
    if not VARIABLE_NAME.fullmatch(found):
        raise refusal(
            "is not the name of a variable", "allowed: letters, digits, '_', '.', '-', starting with a letter or '_'"
        )
    return found


@check({"additionalProperties": {"type": "string"}, "type": "object"})
def filters(value: object) -> dict[str, str]:
    """A regular expression per field, which must match its whole text."""
    found = dict(options(value))
    for name, pattern in found.items():
        try:
            filter_expression(pattern)
        except re.error as exc:
            raise refusal(
                f"has no regular expression for {name!r}: {exc.msg}", "write one such as (open|closed)"
            ) from None
    return found


class SecondaryInputModel(Model):
    """Rows that units are made of, or credentials for all of them."""

    spec: ClassVar = SecondaryInput
    takes: ClassVar[Parts] = (
        part(SecondaryInput, "path", "pipeline", "format", "fields", "as", "filters", "auth_fields"),
        "category",
        part(SecondaryInput, "csv"),
        part(Location, "storage_options"),
    )
    category: Annotated[
        Literal["units", "authentication"],
        Key("units: one row per unit; authentication: one row whose fields are secret variables of all units."),
    ] = "units"

    def build(self, context: Context) -> SecondaryInput:
        """The input; a path that a pipeline writes is known to be its table."""
        uri = context.absolute(self["path"] or "")
        written = (name for name, sink in context.sinks.items() if sink.table.uri == uri)
        writer = self["pipeline"] or next(written, None)
        location = context.sinks[writer].table if writer is not None else Location(uri)
        if self["storage_options"]:
            location = Location(location.uri, self["storage_options"])
        for_all = self["category"] == AUTHENTICATION
        return make(SecondaryInput, self.given, context, location=location, pipeline=writer, for_all=for_all)

    @classmethod
    def show(cls, spec: SecondaryInput) -> dict[str, Any]:
        """Where the rows are, and the keys that have a value."""
        fits = {"csv": spec.format is InputFormat.CSV, "auth_fields": spec.auth_fields, "as": spec.variable is not None}
        keys = ("pipeline" if spec.pipeline else "path", "format", "fields", "filters", "category", "storage_options")
        given = {"category": AUTHENTICATION if spec.for_all else "units"}
        return dump(cls, spec, (*keys, *(key for key in fits if fits[key])), given)


class ParamModel(Model):
    """A parameter of requests, or a variable: a text, or a bound of the range that is read."""

    step: ClassVar[str] = "<param>"
    takes: ClassVar[Parts] = ("value", "watermark", part(RangeParam))
    value: Annotated[str | None, Key("The text itself.")] = None
    watermark: Annotated[str | None, Checked("variable"), Key("The name of the datetime watermark.")] = None

    @classmethod
    def show_of(cls, watermark: str, param: RangeParam) -> dict[str, Any]:
        """A bound of the range of ``watermark``."""
        return dump(cls, param, ("watermark", "bound", "format", "timezone"), {"watermark": watermark})


Param = Annotated[ParamModel, Shorthand("value")]


@dataclass(frozen=True, slots=True)
class Use:
    """One text that may hold variables: where it is and which it names; ``broken``: braces that name none."""

    loc: tuple[str | int, ...]
    names: tuple[str, ...]
    broken: bool


def uses(source: Spot) -> Iterator[Use]:
    """Every text of ``source`` that may use variables and has braces."""
    for key in _TEMPLATES:
        yield from uses_below((*source.loc, key), source.get(key))


def uses_below(loc: tuple[str | int, ...], node: Node) -> Iterator[Use]:
    """The same for what is at ``loc``."""
    match node:
        case Scalar() if not node.broken and ("{{" in node or "}}" in node):
            names = tuple(VARIABLE.findall(node))
            rest = VARIABLE.sub("", node)
            yield Use(loc, names, "{{" in rest or "}}" in rest or not all(map(VARIABLE_NAME.fullmatch, names)))
        case Block():
            for key, below in node.items():
                yield from uses_below((*loc, key), below)
        case Items():
            for at, below in enumerate(node):
                yield from uses_below((*loc, at), below)


def is_clear(source: Spot) -> bool:
    """Whether watermarks and inputs are well-formed enough to tell the variables; if not, the models report it."""
    marks, rows = source.get("watermark"), source.get("secondary_input")
    if not isinstance(marks, Items | None) or not isinstance(rows, Items | None):
        return False
    kinds = [each.text("type") if isinstance(each, Block) else None for each in marks or ()]
    named = [bool(words(each.get("fields"))) if isinstance(each, Block) else False for each in rows or ()]
    return all(kind in ("datetime", "unit") for kind in kinds) and all(named)


def _blocks_in(source: Spot, key: str) -> list[Spot]:
    found = source.get(key)
    blocks = enumerate(found) if isinstance(found, Items) else ()
    return [Spot(source.root, (*source.loc, key, at), each) for at, each in blocks if isinstance(each, Block)]


def watermarks(source: Spot, kind: str) -> list[Spot]:
    """The watermarks of one type."""
    return [each for each in _blocks_in(source, "watermark") if each.text("type") == kind]


def inputs(source: Spot) -> list[Spot]:
    """The secondary inputs."""
    return _blocks_in(source, "secondary_input")


def unit_inputs(source: Spot) -> list[Spot]:
    """The secondary inputs that make units; others have credentials for all of them."""
    return [each for each in inputs(source) if each.text("category") != AUTHENTICATION]


def unit_variables(source: Spot) -> tuple[str, ...]:
    """The variables that make up the value of a unit; the first is the usual one."""
    made = unit_inputs(source)[:1]
    names = [each.text("as") for each in made if len(each.words("fields")) == 1]
    names += [each.text("name") for each in watermarks(source, "unit")]
    names += [word for each in made for word in each.words("fields")]
    return tuple(dict.fromkeys(str(name) for name in names if name is not None))


def secret_variables(source: Spot) -> tuple[str, ...]:
    """The variables that must never show."""
    found = [word for each in inputs(source) for word in each.words("auth_fields")]
    shared = [each for each in inputs(source) if each.text("category") == AUTHENTICATION]
    found += [word for each in shared for key in ("fields", "as") for word in each.words(key)]
    return tuple(str(word) for word in found)


def range_params(source: Spot) -> tuple[str, ...]:
    """The variables that are made of the range."""
    return tuple(name for name, each in source.each("params") if each.has("watermark"))


def input_problems(source: Spot) -> Iterator[Problem]:
    """Problems of the secondary inputs of one source."""
    made = unit_inputs(source)
    for each in made[1:]:
        for key in _ALIKE:
            if each.words(key) != made[0].words(key):
                text = f"other {key!r} than input [{made[0].loc[-1]}], which also makes units; make them equal"
                yield each.problem(text)
    for each in inputs(source):
        yield from _place_problems(each)
        yield from _field_problems(each)


def _place_problems(each: Spot) -> Iterator[Problem]:
    """Problems of where the rows are: a path, or the table of an existing pipeline."""
    yield from each.both("pipeline", "path")
    if not each.has("path") and not each.has("pipeline"):
        yield each.problem("needs 'path' or 'pipeline'")
    if each.has("path") == each.has("pipeline"):
        return
    kind, pipeline, known = each.text("format"), each.text("pipeline"), each.root.block("pipelines")
    if each.has("csv") and str(kind or "delta") != "csv":
        yield each.problem("works only with CSV files; set format: csv, or remove it", "csv")
    if pipeline is not None and pipeline not in known:
        hint = nearest(pipeline, known) or f"allowed: {', '.join(known)}"
        yield each.problem(sentence(f"there is no pipeline {pipeline.raw!r}", hint), "pipeline")
    elif pipeline is not None and kind is not None and kind != "delta":
        yield each.problem(f"the table of {pipeline.raw!r} is delta; remove it", "format")


def _field_problems(each: Spot) -> Iterator[Problem]:
    """Problems of the fields: which are secret, and by which names they are used."""
    names = [str(word) for word in each.words("fields")]
    if each.has("as") and len(names) > 1:
        text = "names the variable of a single field; several fields are variables by their own names; remove it"
        yield each.problem(text, "as")
    for word in each.words("auth_fields"):
        if word in names:
            yield each.problem(
                f"{word.raw!r} is also in 'fields', whose values are shown; remove it there", "auth_fields"
            )


def param_problems(source: Spot) -> Iterator[Problem]:
    """Each parameter is a text or a bound of the range, and has a name of its own."""
    ranges = [str(each.text("name") or "") for each in watermarks(source, "datetime")]
    taken = (*unit_variables(source), *secret_variables(source))
    sent = _sends_params(source)
    for name, node in source.below("params").block.items():
        at = ("params", name)
        block = node if isinstance(node, Block) else None
        value = node if isinstance(node, Scalar) else block.get("value") if block is not None else None
        watermark, plain = block.text("watermark") if block is not None else None, value is not None
        if block is not None and plain == (block.get("watermark") is not None):
            yield source.problem("needs one of 'watermark' and 'value'", *at)
        if watermark is not None and watermark not in ranges:
            hint = nearest(watermark, ranges) or (f"allowed: {', '.join(ranges)}" if ranges else "")
            hint = hint or "give a watermark of type datetime"
            yield source.problem(sentence(f"{watermark.raw!r} is no datetime watermark", hint), *at, "watermark")
        if plain and not sent:
            yield source.problem("goes to no server; allowed: {watermark: …, bound: low | high}", *at)
        if plain and looks_secret(name) and not _is_variable(value, secret_variables(source)):
            text = "put it into the connection's auth: {type: api_key, place: params, …}, or into a variable"
            yield source.problem(f"looks like a secret; {text}", *at)
        if name in taken and not plain:
            yield source.problem(f"{{{{{name}}}}} is also a variable of the units; use another name", *at)


def _is_variable(text: Node, secrets: Collection[str]) -> bool:
    """Whether a text comes from a variable, or has one of ``secrets`` in it, so that the file holds no secret."""
    if not isinstance(text, Scalar) or text.broken:
        return False
    if text.variables:
        return True
    return VARIABLE.fullmatch(text) is not None or any(name in secrets for name in VARIABLE.findall(text))


def variable_problems(source: Spot) -> Iterator[Problem]:
    """Variables that nothing defines, and braces that are none."""
    known = (*unit_variables(source), *secret_variables(source), *range_params(source))
    in_path = key_in_path(source)
    yield from key_problems(source)
    connection = connection_of(source)
    for use in (*uses(source), *uses_below((*connection.loc, "headers"), connection.get("headers"))):
        if use.broken:
            yield problem(source.root, use.loc, "has braces without a name; write {{name}}")
            continue
        for name in use.names:
            if name not in known and not (name == in_path and use.loc[-1] == "path"):
                allowed = f"allowed: {', '.join(known)}" if known else "give units, or params with 'watermark'"
                text = sentence(f"nothing defines {{{{{name}}}}}", nearest(name, known) or allowed)
                yield problem(source.root, use.loc, text)


def notice_unused_units(source: Spot, used: Collection[str]) -> Iterator[str]:
    """Notices about requests that ignore the unit, so that every unit reads the same."""
    names = unit_variables(source)
    lists = [each.words("units") for each in watermarks(source, "unit")]
    several = bool(unit_inputs(source)) or any(len(found) > 1 or "," in found[0] for found in lists if found)
    if names and several and not any(name in used for name in names):
        yield f"{source.path()}: {{{{{names[0]}}}}} is used nowhere, so every unit reads the same"


def uses_range(source: Spot) -> bool:
    """Whether requests contain the time range; a function is handed it, and a server is sent every bound."""
    if source.text("type") == "python":
        return True
    params = range_params(source)
    return bool(params) if _sends_params(source) else any(name in variables_used(source) for name in params)


def variables_used(source: Spot) -> frozenset[str]:
    """The variables in the texts of a source."""
    return frozenset(name for use in uses(source) for name in use.names)


def _sends_params(source: Spot) -> bool:
    return source.has("connection") and source.text("type") != "jdbc"


def notice_unused_params(source: Spot, used: Collection[str]) -> Iterator[str]:
    """Notices about bounds of the range that no request uses."""
    for name in () if _sends_params(source) else range_params(source):
        if name not in used:
            yield f"{source.path('params', name)} has no effect where {{{{{name}}}}} is used nowhere"


_KINDS = tuple(each.value for each in PartitionKind)
_PARTIAL: dict[PartialPartition, bool | str] = {
    PartialPartition.NEVER: False,
    PartialPartition.MULTI_DAY: True,
    PartialPartition.ALWAYS: "all",
}


@check(of=Span)
def span(value: object) -> Span:
    """A length of time: ``P3D``, ``P3DT6H``."""
    written = text(value).strip()
    try:
        return parse_span(written)
    except WatermarkError as error:
        raise _refusal(error, written) from None


def _refusal(error: WatermarkError, written: str) -> RefusedValue:
    """The reason in an error, without the text it quotes."""
    return refusal(error.problem.removeprefix(f"{written!r} "), error.remedy)


@check()
def start_bound(value: object) -> str:
    """The beginning of a time range."""
    return _bound(value, is_end=False)


@check()
def end_bound(value: object) -> str:
    """The end of a time range."""
    return _bound(value, is_end=True)


def _bound(value: object, *, is_end: bool) -> str:
    written = text(value).strip()
    try:
        parse_bound(written, is_end=is_end)
    except WatermarkError as error:
        raise _refusal(error, written) from None
    return written


@check({"minimum": 0, "type": "number"})
def pause(value: object) -> float:
    """A number of seconds from 0 on."""
    found = float(number(value))
    if found > 86_400:
        raise refusal("is too long", "allowed: at most 86400 seconds")
    return found


@check({"anyOf": [{"type": "string"}, {"items": {"type": ["string", "number"]}, "type": "array"}]})
def units(value: object) -> tuple[str, ...]:
    """Values of a unit watermark, as a list or as text with commas; each once."""
    # Properties files have lists as text with commas.
    items = value.split(",") if isinstance(value, Scalar) else value
    if not isinstance(items, list) or any(not isinstance(item, str) for item in items):
        raise refusal("must be a list of texts, or a text with commas")
    found = tuple(str(item).strip() for item in items)
    if not found or not all(found):
        raise refusal("contains an empty value", "give one value or more, none of them empty")
    seen: set[str] = set()
    for each in found:
        if each in seen:
            raise refusal(f"has {each!r} twice", "allowed: each once")
        seen.add(each)
    return found


@check({"anyOf": [{"enum": list(_KINDS)}, {"type": "string"}, {"type": "object"}, {"type": "array"}]})
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
        raise refusal(f"has a part that lacks a bound: {kind}", f"allowed: {kind}: [2020-01-01, 2021-01-01]")
    for written, is_end in ((str(start).strip(), False), (str(end).strip(), True)):
        try:
            parse_bound(written, is_end=is_end)
        except WatermarkError as error:
            raise refusal(f"has an impossible bound: {error.problem}", error.remedy) from None
    return SubRange(str(start).strip(), str(end).strip(), PartitionKind(kind))


@check({"anyOf": [{"type": "boolean"}, {"const": "all"}]}, show=_PARTIAL.__getitem__)
def partial(value: object) -> PartialPartition:
    """Whether the last partition is read before it is full: ``true``, ``false`` or ``all``."""
    if word_of(value) == "all":
        return PartialPartition.ALWAYS
    try:
        return PartialPartition.MULTI_DAY if flag(value) else PartialPartition.NEVER
    except ValueError:
        raise refusal("is not a yes or no", "allowed: true, false, all") from None


class RangeModel(Model):
    """The time that is covered: from, inclusive, to, exclusive."""

    spec: ClassVar = TimeRange
    takes: ClassVar[Parts] = (part(TimeRange, "from:to"), "round", part(TimeRange, "from_round:allow_future"))
    round: Annotated[Rounding | None, Key("Rounds both bounds down to this.")] = None

    def build(self, context: Context) -> TimeRange:
        """The range; each end is rounded by its own key, else by that of both."""
        start, end = (self[key] or self["round"] for key in ("from_round", "to_round"))
        return make(TimeRange, self.given, context, start_round=start, end_round=end)

    @classmethod
    def show(cls, spec: TimeRange) -> dict[str, Any]:
        """The range, with the rounding of each end."""
        return dump(cls, spec, [key for key in fields(cls) if key != "round"])


class WatermarkModel(Model):
    """The time range or the units that a source is read for."""

    takes: ClassVar[Parts] = (
        part(UnitWatermark, "name"),
        "type",
        part(TimeWatermark, "range"),
        part(UnitWatermark, "units"),
    )
    type: Annotated[Literal["datetime", "unit"], Key("datetime: a time range; unit: values such as ids.")]

    def build(self, context: Context) -> TimeWatermark | UnitWatermark:
        """One or the other."""
        if self["type"] == "unit":
            return make(UnitWatermark, self.given, context)
        return make(TimeWatermark, self.given, context, name=self["name"])

    @classmethod
    def show(cls, spec: TimeWatermark | UnitWatermark) -> dict[str, Any]:
        """The range, or the units where there are some."""
        given = {"name": spec.name, "type": "datetime" if isinstance(spec, TimeWatermark) else "unit"}
        more = ("range",) if isinstance(spec, TimeWatermark) else ("units",) if spec.units else ()
        return dump(cls, spec, ("name", "type", *more), given)


class WorkUnitModel(Model):
    """How work units are cut, chosen and run."""

    spec: ClassVar = WorkUnits
    takes: ClassVar[Parts] = (part(WorkUnits),)

    def build(self, context: Context) -> WorkUnits:
        """How work units are cut, chosen and run."""
        if isinstance(self["partition"], PartitionKind):
            return make(WorkUnits, self.given, context)
        return make(WorkUnits, self.given, context, partition=PartitionKind.NONE, sub_ranges=self["partition"])

    @classmethod
    def show_of(cls, source: UnitSource) -> dict[str, Any]:
        """The keys that mean something for the source."""
        work = source.work
        parts = [{"partition": each.kind.value, "from": each.start, "to": each.end} for each in work.sub_ranges]
        last = {
            "min_records_after": bool(work.min_records) and work.min_records_after is not None,
            "not_found": source.http is not None,
        }
        keys = [key for key in fields(cls) if key not in last] + [key for key in last if last[key]]
        return dump(cls, work, keys, {"partition": parts or work.partition.value})


def is_fixed_end(watermark: Spot) -> bool:
    """Whether the range of a datetime watermark ends at a date, so that it never moves on."""
    end = watermark.below("range").text("to")
    try:
        return end is not None and not parse_bound(end.strip(), is_end=True).is_relative
    except WatermarkError:
        return False


def is_period(source: Spot, key: str) -> bool:
    """Whether ``grace_period`` or ``abstinent_period`` is given, in days or as a duration, and longer than nothing."""
    days, duration = source.text(f"{key}_days"), source.text(key)
    if days is not None and days.strip().strip("0"):
        return True
    try:
        return duration is not None and not parse_span(duration.strip()).is_zero
    except WatermarkError:
        return False


def _is_empty_range(bounds: Spot, timezone: str) -> bool:
    """Whether the end can never lie after the start, at whatever time."""
    start, end = bounds.text("from"), bounds.text("to")
    if start is None or end is None:
        return False
    try:
        first, last, zone = parse_bound(start, is_end=False), parse_bound(end, is_end=True), zone_named(timezone)
    except WatermarkError:
        return False
    return first.is_relative == last.is_relative and first.at(0, zone) >= last.at(0, zone)


def watermark_problems(source: Spot) -> Iterator[Problem]:
    """At most one time range and one list of units, each with what it needs."""
    for kind in ("datetime", "unit"):
        for each in watermarks(source, kind)[1:]:
            yield each.problem(f"is a second watermark of type {kind}; give at most one of each type")
    for each in watermarks(source, "datetime"):
        if not each.has("range"):
            yield each.problem("is missing; a datetime watermark needs it", "range")
        elif _is_empty_range(each.below("range"), source.text("timezone") or "UTC"):
            yield each.problem("does not lie after 'from', so nothing would ever be read", "range", "to")
        if each.has("units"):
            text = "has no effect on a datetime watermark; give the units a watermark of type unit"
            yield each.problem(text, "units")
    made = unit_inputs(source)
    for each in watermarks(source, "unit"):
        if each.has("range"):
            text = "has no effect on a unit watermark; give the range a watermark of type datetime"
            yield each.problem(text, "range")
        if each.has("units") and made:
            yield each.problem(
                "given together with 'secondary_input', which also has units; remove one of the two", "units"
            )
        if not each.has("units") and not made:
            yield each.problem("is missing, and no 'secondary_input' has units; give one of the two", "units")
    named = [each.text("name") for kind in ("datetime", "unit") for each in watermarks(source, kind)[:1]]
    if len(named) == 2 and named[0] is not None and named[0] == named[1]:
        text = f"two watermarks are called {named[0].raw!r}; give each a name of its own"
        yield source.problem(text, "watermark")
