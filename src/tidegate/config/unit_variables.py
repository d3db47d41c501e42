"""What units are made of, and the ``{{variables}}`` that requests, queries and addresses have of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, WithJsonSchema

from tidegate.config import values as v
from tidegate.config.column_source import Context
from tidegate.config.document import Block, Items, Loc, Node, Scalar, Where, path_of, problem, words
from tidegate.config.file_source import CsvModel
from tidegate.config.models import Model, dump, entry, fill, section
from tidegate.config.problems import Problem, masked, nearest, sentence
from tidegate.config.values import choice, one_of, options, refusal, text
from tidegate.locations import Location, Options
from tidegate.masking import looks_secret
from tidegate.unit_specs import Bounding, InputFormat, RangeParam, SecondaryInput

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
InputCategory = Annotated[Literal["units", "authentication"], BeforeValidator(choice(("units", "authentication")))]
InputKind = Annotated[InputFormat, one_of(InputFormat)]
BoundKind = Annotated[Bounding, one_of(Bounding)]


class SecondaryInputModel(Model):
    """Rows that units are made of, or credentials for all of them."""

    at: ClassVar = {"as_": "variable", "storage_options": "location.options"}
    path: v.Address | None = entry("Where the rows are: a path or an address.", None)
    pipeline: v.Name | None = entry("The pipeline of this file whose table it is.", None)
    format: InputKind = entry("What it is.", InputFormat.DELTA)
    fields: v.Columns = entry("The fields whose values make a unit; each is a variable.")
    as_: Variable | None = entry(
        "The variable of a single field; the unit watermark's name when unset.", None, alias="as"
    )
    filters: Filters = entry("Regular expressions that the whole text of fields has to fit.", default_factory=dict)
    auth_fields: v.Columns = entry("Fields that are secret variables of their unit.", ())
    category: InputCategory = entry(
        "units; authentication: one row whose fields are secret variables of all units.", "units"
    )
    csv: CsvModel = section(CsvModel, "How CSV files are written.")
    storage_options: v.SecretOptions = entry(
        "Settings and credentials of the object store; never shown.", default_factory=Options
    )

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
        given = {"path": masked(spec.location.uri), "category": AUTHENTICATION if spec.for_all else "units"}
        return dump(cls, spec, (*keys, *(key for key in fits if fits[key])), given)


class ParamModel(Model):
    """A parameter of requests, or a variable: a text, or a bound of the range that is read."""

    step: ClassVar[str] = "<param>"
    value: v.Text | None = entry("The text itself.", None)
    watermark: Variable | None = entry("The name of the datetime watermark.", None)
    bound: BoundKind = entry("Which end of the range.", Bounding.LOW)
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


def uses(where: Loc, source: Block) -> Iterator[Use]:
    """Every text of ``source`` that variables are put into and that has braces."""
    for key in _TEMPLATES:
        yield from uses_below((*where, key), source.get(key))


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


def is_clear(source: Block) -> bool:
    """Whether watermarks and inputs have the shape that tells which variables there are; else the models say more."""
    kinds = [each.text("type") if isinstance(each, Block) else None for _, each in _listed(source, "watermark")]
    fields = [
        words(each.get("fields")) if isinstance(each, Block) else [] for _, each in _listed(source, "secondary_input")
    ]
    lists = all(isinstance(source.get(key), Items | None) for key in ("watermark", "secondary_input"))
    return lists and all(kind in ("datetime", "unit") for kind in kinds) and all(fields)


def _listed(source: Block, key: str) -> list[tuple[int, Node]]:
    found = source.get(key)
    return [*enumerate(found)] if isinstance(found, Items) else []


def watermarks(source: Block, kind: str) -> list[tuple[int, Block]]:
    """The watermarks of one type, with their places in the list."""
    found = _listed(source, "watermark")
    return [(at, each) for at, each in found if isinstance(each, Block) and each.text("type") == kind]


def inputs(source: Block) -> list[tuple[int, Block]]:
    """The secondary inputs, with their places in the list."""
    return [(at, each) for at, each in _listed(source, "secondary_input") if isinstance(each, Block)]


def makes_units(each: Block) -> bool:
    """Whether a secondary input makes units; others have credentials for all of them."""
    return each.text("category") != AUTHENTICATION


def unit_variables(source: Block) -> tuple[str, ...]:
    """The variables that a unit's value is made of; the first is the one that is meant for it."""
    made = [each for _, each in inputs(source) if makes_units(each)][:1]
    names = [each.text("as") for each in made if len(words(each.get("fields"))) == 1]
    names += [each.text("name") for _, each in watermarks(source, "unit")]
    names += [word for each in made for word in words(each.get("fields"))]
    return tuple(dict.fromkeys(str(name) for name in names if name is not None))


def secret_variables(source: Block) -> tuple[str, ...]:
    """The variables that must never show."""
    found = [word for _, each in inputs(source) for word in words(each.get("auth_fields"))]
    shared = [each for _, each in inputs(source) if not makes_units(each)]
    found += [word for each in shared for key in ("fields", "as") for word in words(each.get(key))]
    return tuple(str(word) for word in found)


def range_params(source: Block) -> tuple[str, ...]:
    """The variables that are made of the range."""
    return tuple(name for name, each in source.blocks("params") if each.get("watermark") is not None)


def variables(source: Block) -> tuple[str, ...]:
    """Every variable of ``source``."""
    return (*unit_variables(source), *secret_variables(source), *range_params(source))


def input_problems(root: Block, where: Where, source: Block) -> Iterator[Problem]:
    """Problems of the secondary inputs of one source."""
    made = [(at, each) for at, each in inputs(source) if makes_units(each)]
    for at, each in made[1:]:
        for key in _ALIKE:
            if words(each.get(key)) != words(made[0][1].get(key)):
                text = f"other {key!r} than input [{made[0][0]}], which makes units too; allowed: the same"
                yield problem(root, (*where, "secondary_input", at), text)
    for at, each in inputs(source):
        place: Loc = (*where, "secondary_input", at)
        yield from _place_problems(root, place, each)
        yield from _field_problems(root, place, each)


def _place_problems(root: Block, at: Loc, each: Block) -> Iterator[Problem]:
    """Where the rows are: a path, or the table of a pipeline that is there."""
    path, pipeline = each.get("path"), each.text("pipeline")
    if (path is None) == (each.get("pipeline") is None):
        both = path is not None
        text = "given beside 'path'; allowed: one of them" if both else "neither 'path' nor 'pipeline' is given"
        yield problem(root, (*at, "pipeline") if both else at, text)
        return
    known = root.block("pipelines")
    if each.get("csv") is not None and str(each.text("format") or "delta") != "csv":
        yield problem(root, (*at, "csv"), "is about CSV files; set format: csv, or remove it")
    if pipeline is not None and pipeline not in known:
        hint = nearest(pipeline, known) or f"allowed: {', '.join(known)}"
        yield problem(root, (*at, "pipeline"), sentence(f"there is no pipeline {pipeline.raw!r}", hint))
    elif pipeline is not None and (given := each.text("format")) is not None and given != "delta":
        yield problem(root, (*at, "format"), f"the table of {pipeline.raw!r} is delta; remove it")


def _field_problems(root: Block, at: Loc, each: Block) -> Iterator[Problem]:
    """Which fields are shown, which are secrets, and by which names they are used."""
    fields = [str(word) for word in words(each.get("fields"))]
    if each.get("as") is not None and len(fields) > 1:
        text = "names the variable of a single field; several fields are variables by their own names; remove it"
        yield problem(root, (*at, "as"), text)
    for word in words(each.get("auth_fields")):
        if word in fields:
            yield problem(
                root, (*at, "auth_fields"), f"{word.raw!r} is in 'fields' too, which are shown; remove it there"
            )


def param_problems(root: Block, where: Where, source: Block) -> Iterator[Problem]:
    """Each parameter is a text or a bound of the range, and has a name of its own."""
    ranges = [str(each.text("name") or "") for _, each in watermarks(source, "datetime")]
    taken = (*unit_variables(source), *secret_variables(source))
    sent = source.get("connection") is not None and source.text("type") != "jdbc"
    for name, node in source.block("params").items():
        at = (*where, "params", name)
        watermark = node.text("watermark") if isinstance(node, Block) else None
        plain = isinstance(node, Scalar) or (isinstance(node, Block) and node.get("value") is not None)
        if isinstance(node, Block) and plain == (node.get("watermark") is not None):
            yield problem(root, at, "needs one of 'watermark' and 'value'")
        if watermark is not None and watermark not in ranges:
            hint = nearest(watermark, ranges) or (f"allowed: {', '.join(ranges)}" if ranges else "")
            hint = hint or "give a watermark of the type datetime"
            yield problem(root, (*at, "watermark"), sentence(f"{watermark.raw!r} is no datetime watermark", hint))
        if plain and not sent:
            yield problem(root, at, "is sent to no server; allowed: {watermark: …, bound: low | high}")
        if plain and looks_secret(name) and not _is_variable(node):
            text = "put it into the connection's auth: {type: api_key, place: params, …}"
            yield problem(root, at, f"looks like a secret; {text}")
        if name in taken and not plain:
            yield problem(root, at, f"{{{{{name}}}}} is a variable of the units too; allowed: another name")


def _is_variable(node: Node) -> bool:
    """Whether a text is a variable as a whole, so that the file holds no secret."""
    text = node.text("value") if isinstance(node, Block) else node
    return isinstance(text, Scalar) and VARIABLE.fullmatch(text) is not None


def variable_problems(root: Block, where: Where, source: Block) -> Iterator[Problem]:
    """Variables that nothing defines, and braces that are none."""
    known = variables(source)
    connection = str(source.text("connection") or "")
    above = ("connections", connection, "headers")
    shared = root.block("connections").block(connection).get("headers")
    for use in (*uses(where, source), *uses_below(above, shared)):
        if use.broken:
            yield problem(root, use.loc, "has braces without a name; allowed: {{name}}")
            continue
        for name in use.names:
            if name not in known:
                allowed = f"allowed: {', '.join(known)}" if known else "give units, or params with 'watermark'"
                hint = nearest(name, known) or allowed
                yield problem(root, use.loc, sentence(f"nothing defines {{{{{name}}}}}", hint))


def unused_units(root: Block, where: tuple[str, ...], source: Block, used: set[str]) -> Iterator[str]:
    """Requests that are the same for every unit."""
    names = unit_variables(source)
    if names and not used.intersection(names) and _has_several(source):
        yield f"{path_of(root, where)}: {{{{{names[0]}}}}} is used nowhere, so that every unit reads the same"


def _has_several(source: Block) -> bool:
    """Whether there may be more than one unit."""
    if any(makes_units(each) for _, each in inputs(source)):
        return True
    lists = [each.get("units") for _, each in watermarks(source, "unit")]
    return any(len(found) > 1 or "," in found[0] for found in map(words, lists) if found)


def unused_range(root: Block, where: tuple[str, ...], source: Block, used: set[str]) -> Iterator[str]:
    """Reads that are the same for every range, though it is cut or read on, and bounds that reach no request."""
    params = range_params(source)
    sent = source.get("connection") is not None and source.text("type") != "jdbc"
    lost = [] if sent else [name for name in params if name not in used]
    for name in lost:
        yield f"{path_of(root, (*where, 'params', name))} means nothing where {{{{{name}}}}} is used nowhere"
    whole = source.text("replace") == "unit" and source.block("work_unit").text("partition") in (None, "none")
    if len(lost) == len(params) and source.get("time_column") is None and not whole:
        yield (
            f"{path_of(root, where)}: the range is used nowhere, so that every range reads the same; "
            "give 'time_column', or params with 'watermark'"
        )
