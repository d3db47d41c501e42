"""What units are made of, and the ``{{variables}}`` that requests, queries and addresses have of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, WithJsonSchema

from tidegate.config import values as v
from tidegate.config.document import Block, Items, Node, Scalar, Spot, find, problem, words
from tidegate.config.file_source import CsvModel
from tidegate.config.models import Context, Model, dump, entry, fill, section
from tidegate.config.problems import Problem, nearest, sentence
from tidegate.config.values import options, refusal, text
from tidegate.specs.locations import Location, Options, looks_secret
from tidegate.specs.units import Bounding, InputFormat, RangeParam, SecondaryInput

VARIABLE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_TEMPLATES = ("path", "params", "headers", "body", "query", "source_uri")
AUTHENTICATION = "authentication"
_ALIKE = ("fields", "as", "auth_fields")


def variable(value: object) -> str:
    """A name that may stand between ``{{`` and ``}}``."""
    found = text(value).strip()
    if not VARIABLE_NAME.fullmatch(found):
        raise refusal(
            "is not the name of a variable", "allowed: letters, digits, '_', '.', '-', starting with a letter or '_'"
        )
    return found


def filters(value: object) -> dict[str, str]:
    """Fields and the regular expressions that their whole text has to fit."""
    found = dict(options(value))
    for name, pattern in found.items():
        try:
            re.compile(pattern)
        except re.error as exc:
            raise refusal(
                f"has no regular expression for {name!r}: {exc.msg}", "allowed: such as (open|closed)"
            ) from None
    return found


Variable = Annotated[str, BeforeValidator(variable)]
Filters = Annotated[
    dict[str, str],
    BeforeValidator(filters),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
]


class SecondaryInputModel(Model):
    """Rows that units are made of, or credentials for all of them."""

    at: ClassVar = {"path": "location", "as_": "variable", "storage_options": "location.options"}
    path: v.Address | None = entry("Where the rows are: a path or an address.", None)
    pipeline: v.Name | None = entry("The pipeline of this file whose table it is.", None)
    format: InputFormat = entry("What it is.", InputFormat.DELTA)
    fields: v.Columns = entry("The fields whose values make a unit; each is a variable.")
    as_: Variable | None = entry(
        "The variable of a single field; the unit watermark's name when unset.", None, alias="as"
    )
    filters: Filters = entry("Regular expressions that the whole text of fields has to fit.", dict)
    auth_fields: v.Columns = entry("Fields that are secret variables of their unit.", ())
    category: Literal["units", "authentication"] = entry(
        "units; authentication: one row whose fields are secret variables of all units.", "units"
    )
    csv: CsvModel = section(CsvModel, "How CSV files are written.")
    storage_options: v.SecretOptions = entry("Settings and credentials of the object store; never shown.", Options)

    def secondary_input(self, context: Context) -> SecondaryInput:
        """The input; a path that a pipeline writes is known to be its table."""
        uri = context.absolute(self.path or "")
        writer = self.pipeline or next((name for name, each in context.sinks.items() if each.table.uri == uri), None)
        sink = context.sinks[writer] if writer is not None else None
        location = sink.table if sink is not None else Location(uri)
        if self.storage_options:
            location = Location(location.uri, self.storage_options)
        return fill(
            SecondaryInput,
            self,
            location=location,
            pipeline=writer,
            for_all=self.category == AUTHENTICATION,
        )

    @classmethod
    def shown(cls, spec: SecondaryInput) -> dict[str, Any]:
        """Where the rows are, and the keys that have a value."""
        fits = {"csv": spec.format is InputFormat.CSV, "auth_fields": spec.auth_fields, "as": spec.variable is not None}
        keys = ("pipeline" if spec.pipeline else "path", "format", "fields", "filters", "category", "storage_options")
        given = {"category": AUTHENTICATION if spec.for_all else "units"}
        return dump(cls, spec, (*keys, *(key for key in fits if fits[key])), given)


class ParamModel(Model):
    """A parameter of requests, or a variable: a text, or a bound of the range that is read."""

    step: ClassVar[str] = "<param>"
    value: v.Text | None = entry("The text itself.", None)
    watermark: Variable | None = entry("The name of the datetime watermark.", None)
    bound: Bounding = entry("Which end of the range.", Bounding.LOW)
    format: v.ParamFormatText = entry("How it is written.", "iso")
    timezone: v.Zone | None = entry("The zone it is written in; the source's when unset.", None)

    @classmethod
    def shown_of(cls, watermark: str, param: RangeParam) -> dict[str, Any]:
        """A bound of the range of ``watermark``."""
        return dump(cls, param, ("watermark", "bound", "format", "timezone"), {"watermark": watermark})


def as_param(value: object) -> object:
    """A text alone is short for ``{value: text}``."""
    if not isinstance(value, Scalar):
        return value
    block = Block(value.line)
    block.put("value", value, value.line, written="")
    return block


Param = Annotated[ParamModel, BeforeValidator(as_param)]


@dataclass(frozen=True, slots=True)
class Use:
    """One text that may hold variables: where it is and which it names; ``broken``: braces that name none."""

    loc: tuple[str | int, ...]
    names: tuple[str, ...]
    broken: bool


def uses(source: Spot) -> Iterator[Use]:
    """Every text of ``source`` that variables are put into and that has braces."""
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
    """Whether watermarks and inputs have the shape that tells which variables there are; else the models say more."""
    marks, rows = source.get("watermark"), source.get("secondary_input")
    if not isinstance(marks, Items | None) or not isinstance(rows, Items | None):
        return False
    kinds = [each.text("type") if isinstance(each, Block) else None for each in marks or ()]
    named = [bool(words(each.get("fields"))) if isinstance(each, Block) else False for each in rows or ()]
    return all(kind in ("datetime", "unit") for kind in kinds) and all(named)


def _listed(source: Spot, key: str) -> list[Spot]:
    found = source.get(key)
    blocks = enumerate(found) if isinstance(found, Items) else ()
    return [Spot(source.root, (*source.loc, key, at), each) for at, each in blocks if isinstance(each, Block)]


def watermarks(source: Spot, kind: str) -> list[Spot]:
    """The watermarks of one type."""
    return [each for each in _listed(source, "watermark") if each.text("type") == kind]


def inputs(source: Spot) -> list[Spot]:
    """The secondary inputs."""
    return _listed(source, "secondary_input")


def unit_inputs(source: Spot) -> list[Spot]:
    """The secondary inputs that make units; others have credentials for all of them."""
    return [each for each in inputs(source) if each.text("category") != AUTHENTICATION]


def unit_variables(source: Spot) -> tuple[str, ...]:
    """The variables that a unit's value is made of; the first is the one that is meant for it."""
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
                text = f"other {key!r} than input [{made[0].loc[-1]}], which makes units too; allowed: the same"
                yield each.problem(text)
    for each in inputs(source):
        yield from _place_problems(each)
        yield from _field_problems(each)


def _place_problems(each: Spot) -> Iterator[Problem]:
    """Where the rows are: a path, or the table of a pipeline that is there."""
    if each.has("path") and each.has("pipeline"):
        yield each.problem("given beside 'path'; allowed: one of them", "pipeline")
        return
    if not each.has("path") and not each.has("pipeline"):
        yield each.problem("neither 'path' nor 'pipeline' is given")
        return
    kind, pipeline, known = each.text("format"), each.text("pipeline"), each.root.block("pipelines")
    if each.has("csv") and str(kind or "delta") != "csv":
        yield each.problem("is about CSV files; set format: csv, or remove it", "csv")
    if pipeline is not None and pipeline not in known:
        hint = nearest(pipeline, known) or f"allowed: {', '.join(known)}"
        yield each.problem(sentence(f"there is no pipeline {pipeline.raw!r}", hint), "pipeline")
    elif pipeline is not None and kind is not None and kind != "delta":
        yield each.problem(f"the table of {pipeline.raw!r} is delta; remove it", "format")


def _field_problems(each: Spot) -> Iterator[Problem]:
    """Which fields are shown, which are secrets, and by which names they are used."""
    names = [str(word) for word in each.words("fields")]
    if each.has("as") and len(names) > 1:
        text = "names the variable of a single field; several fields are variables by their own names; remove it"
        yield each.problem(text, "as")
    for word in each.words("auth_fields"):
        if word in names:
            yield each.problem(f"{word.raw!r} is in 'fields' too, which are shown; remove it there", "auth_fields")


def param_problems(source: Spot) -> Iterator[Problem]:
    """Each parameter is a text or a bound of the range, and has a name of its own."""
    ranges = [str(each.text("name") or "") for each in watermarks(source, "datetime")]
    taken = (*unit_variables(source), *secret_variables(source))
    sent = source.has("connection") and source.text("type") != "jdbc"
    for name, node in source.below("params").block.items():
        at = ("params", name)
        block = node if isinstance(node, Block) else None
        value = node if isinstance(node, Scalar) else block.get("value") if block is not None else None
        watermark, plain = block.text("watermark") if block is not None else None, value is not None
        if block is not None and plain == (block.get("watermark") is not None):
            yield source.problem("needs one of 'watermark' and 'value'", *at)
        if watermark is not None and watermark not in ranges:
            hint = nearest(watermark, ranges) or (f"allowed: {', '.join(ranges)}" if ranges else "")
            hint = hint or "give a watermark of the type datetime"
            yield source.problem(sentence(f"{watermark.raw!r} is no datetime watermark", hint), *at, "watermark")
        if plain and not sent:
            yield source.problem("is sent to no server; allowed: {watermark: …, bound: low | high}", *at)
        if plain and looks_secret(name) and not _is_variable(value):
            text = "put it into the connection's auth: {type: api_key, place: params, …}"
            yield source.problem(f"looks like a secret; {text}", *at)
        if name in taken and not plain:
            yield source.problem(f"{{{{{name}}}}} is a variable of the units too; allowed: another name", *at)


def _is_variable(text: Node) -> bool:
    """Whether a text is a variable as a whole, so that the file holds no secret."""
    return isinstance(text, Scalar) and not text.broken and VARIABLE.fullmatch(text) is not None


def variable_problems(source: Spot) -> Iterator[Problem]:
    """Variables that nothing defines, and braces that are none."""
    known = (*unit_variables(source), *secret_variables(source), *range_params(source))
    above = ("connections", str(source.text("connection") or ""), "headers")
    for use in (*uses(source), *uses_below(above, find(source.root, above))):
        if use.broken:
            yield problem(source.root, use.loc, "has braces without a name; allowed: {{name}}")
            continue
        for name in use.names:
            if name not in known:
                allowed = f"allowed: {', '.join(known)}" if known else "give units, or params with 'watermark'"
                text = sentence(f"nothing defines {{{{{name}}}}}", nearest(name, known) or allowed)
                yield problem(source.root, use.loc, text)


def unused_units(source: Spot, used: Collection[str]) -> Iterator[str]:
    """Requests that are the same for every unit, where there may be more than one."""
    names = unit_variables(source)
    lists = [each.words("units") for each in watermarks(source, "unit")]
    several = bool(unit_inputs(source)) or any(len(found) > 1 or "," in found[0] for found in lists if found)
    if names and several and not any(name in used for name in names):
        yield f"{source.path()}: {{{{{names[0]}}}}} is used nowhere, so that every unit reads the same"


def unused_range(source: Spot, used: Collection[str]) -> Iterator[str]:
    """Reads that are the same for every range, though it is cut or read on, and bounds that reach no request."""
    params = range_params(source)
    sent = source.has("connection") and source.text("type") != "jdbc"
    lost = [] if sent else [name for name in params if name not in used]
    for name in lost:
        yield f"{source.path('params', name)} means nothing where {{{{{name}}}}} is used nowhere"
    whole = source.text("replace") == "unit" and source.below("work_unit").text("partition") in (None, "none")
    if len(lost) == len(params) and not source.has("time_column") and not whole:
        yield (
            f"{source.path()}: the range is used nowhere, so that every range reads the same; "
            "give 'time_column', or params with 'watermark'"
        )
