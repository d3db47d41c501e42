"""The keys that exist, read off the models; the models' complaints in the words of the file; the JSON Schema.

The schema is for editors. Old names are in it, marked as deprecated; a value may always be text with a ``${VAR}`` in
it, or left empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tidegate.config.document import LACKS_SPACE, Block, Loc, Problem, Scalar, find, nearest, problem, quote, sentence
from tidegate.config.models import Model, choices, fields, models_in, tag_of
from tidegate.config.normal_form import ALIASES, PIPELINE_KEYS, STRUCTURED, Alias
from tidegate.config.project import ProjectModel
from tidegate.config.schema import ElementModel
from tidegate.config.units import ParamModel
from tidegate.config.values import NAME
from tidegate.config.work_units import MS_KEYS, DownloadModel, UnitHttpModel, UnitJdbcModel, UnitPythonModel

_SHAPES = {
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping of names to settings",
    "tuple_type": "must be a list",
    "too_short": "is empty; allowed: one or more",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key: ``block`` is the path of what holds it, ``sources.<source>.checkpoint``-like."""

    block: str
    name: str
    info: FieldInfo

    @property
    def path(self) -> str:
        """The whole path of the key."""
        return f"{self.block}.{self.name}" if self.block else self.name


@cache
def every_key() -> tuple[Key, ...]:
    """Every key of the configuration, block by block; keys shared by several kinds of sources appear once."""
    return tuple({key.path: key for key in _below(ProjectModel, "")}.values())


def _below(model: type[Model], block: str) -> Iterator[Key]:
    """The keys of ``model``; ``block`` is its path without the step that tells kinds apart."""
    keys = [Key(block + _step_of(model, name), name, info) for name, info in fields(model).items()]
    yield from keys
    for key in keys:
        for inner in models_in(key.info.annotation):
            if not issubclass(model, ElementModel):
                yield from _below(inner, key.path + ("[]" if get_origin(key.info.annotation) is tuple else ""))


def _step_of(model: type[Model], name: str) -> str:
    """What stands for the name of a block, in the words of the kind that the key belongs to."""
    if not model.step:
        return ""
    owners = [each for each in model.__mro__ if issubclass(each, Model) and each.step and name in fields(each)]
    return f".{owners[-1].step}"


def every_model() -> dict[str, type[Model]]:
    """Every block of the configuration, by the name of its model."""
    found: dict[str, type[Model]] = {}
    waiting: list[type[Model]] = [ProjectModel]
    while waiting:
        model = waiting.pop()
        if model.__name__ not in found:
            found[model.__name__] = model
            waiting += [inner for info in fields(model).values() for inner in models_in(info.annotation)]
    return found


def model_at(loc: Loc) -> type[Model]:
    """The block at ``loc``, which has a tag behind the name of what exists in several kinds."""
    model: type[Model] = ProjectModel
    parts = list(loc)
    while parts:
        part = parts.pop(0)
        if isinstance(part, int):
            continue
        info = fields(model)[part]
        kinds = models_in(info.annotation)
        if get_origin(info.annotation) is dict and parts:
            parts.pop(0)
            tag = parts.pop(0) if len(kinds) > 1 and parts else None
            kinds = tuple(each for each in kinds if tag in (None, tag_of(each)))
        model = kinds[0] if kinds else model
    return model


def without_tags(loc: Loc) -> tuple[str | int, ...]:
    """``loc`` as the file has it, without the tags of kinds."""
    match tuple(loc):
        case ("pipelines", pipeline, "sources", source, _, *rest):
            return ("pipelines", pipeline, "sources", source, *rest)
        case ("connections", name, _, *rest):
            return ("connections", name, *rest)
        case other:
            return other


def accepted_at(loc: Loc) -> tuple[str, ...]:
    """Every accepted word in the block at ``loc``: keys and old names."""
    kind = kind_of(without_tags(loc))
    old = [alias.old.split(".")[-1] for alias in ALIASES if kind_of_alias(alias.old) == kind]
    old += MS_KEYS if kind == "source" else ()
    return (*fields(model_at(loc)), *old)


def kind_of(loc: Loc) -> str:
    """``pipeline``, ``source``, ``sink``, ``schema`` …, or empty at the top."""
    words = [part for part in loc if isinstance(part, str)]
    if words[:1] != ["pipelines"]:
        return ".".join(words)
    if len(words) == 2:
        return "pipeline"
    if words[2] == "sources":
        return "source" if len(words) == 4 else ".".join(words[4:])
    return words[-1]


def kind_of_alias(old: str) -> str:
    """The kind of block that holds an old name."""
    return {"": "pipeline", "sources.*": "source"}.get(old.rpartition(".")[0], old.rpartition(".")[0])


def describe(error: ValidationError, root: Block) -> Iterator[tuple[tuple[str | int, ...], Problem]]:
    """Each of pydantic's errors with its place, except for values with missing variables."""
    for detail in error.errors(include_url=False, include_input=False):
        loc = _place(root, detail["loc"])
        node = find(root, loc)
        if not (isinstance(node, Scalar) and node.broken):
            yield loc, problem(root, loc, _text(detail, loc, root))


def _place(root: Block, loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """``loc`` without the marks that pydantic adds for keys, kinds and short forms."""
    if loc and loc[-1] == "[key]":
        return without_tags(loc[:-1])
    loc = without_tags(loc)
    while len(loc) > 1 and isinstance(find(root, loc[:-1]), Scalar):
        loc = loc[:-1]
    return loc


def _text(detail: ErrorDetails, loc: tuple[str | int, ...], root: Block) -> str:
    kind, facts = detail["type"], detail.get("ctx", {})
    value = quote(root, loc) or "the value"
    if detail["loc"][-1:] == ("[key]",):
        return f"{str(loc[-1])!r} {facts['text']}"
    match kind:
        case "extra_forbidden":
            return _unknown(detail["loc"])
        case "missing":
            return _missing(detail["loc"])
        case "tidegate":
            return f"{value} {facts['text']}"
        case "enum" | "literal_error":
            *block, name = detail["loc"]
            allowed = choices(fields(model_at(block))[str(name)])
            return sentence(f"{value} is not one of {', '.join(allowed)}", nearest(_word(root, loc), allowed))
        case "greater_than_equal":
            return f"{value} is too small; allowed: {facts['ge']} or more"
        case "less_than_equal":
            return f"{value} is too large; allowed: {facts['le']} or less"
        case "model_type" if LACKS_SPACE.match(_word(root, loc)):
            return f"{_SHAPES[kind]}; write a space after the colon of its first line"
        case _:
            return _SHAPES.get(kind, f"{value} cannot be used")


def _word(root: Block, loc: Loc) -> str:
    node = find(root, loc)
    return node.strip() if isinstance(node, Scalar) else ""


def _unknown(loc: tuple[str | int, ...]) -> str:
    name, block = str(loc[-1]), loc[:-1]
    homes = sorted({key.block for key in every_key() if key.name == name and key.block})
    if homes:
        return sentence("unknown key here", f"it belongs to {' or '.join(repr(home) for home in homes)}")
    hint = nearest(name, accepted_at(block))
    return sentence("unknown key", hint or f"allowed: {', '.join(fields(model_at(block)))}")


def _missing(loc: Loc) -> str:
    name = str(loc[-1])
    description = fields(model_at(loc[:-1]))[name].description or ""
    return sentence("is missing", description[:1].lower() + description[1:].rstrip("."))


Schema = dict[str, Any]
_VARIABLE: Schema = {"type": "string", "pattern": r"\$\{"}
_NULL: Schema = {"type": "null"}
_HOLDERS = {
    "pipeline": ("PipelineModel",),
    "source": ("SourceModel", "TableSourceModel"),
    "sink": ("SinkModel",),
    "schema": ("SchemaModel",),
}
_OF_UNITS = tuple(each.__name__ for each in (UnitHttpModel, UnitJdbcModel, UnitPythonModel, DownloadModel))


def editor_schema(ignored: Iterable[str]) -> Schema:
    """The whole schema, as data for ``json.dumps``; keys at the paths ``ignored`` may be anything."""
    schema = ProjectModel.model_json_schema()
    blocks: dict[str, Schema] = schema.pop("$defs")
    _relax(schema, ProjectModel)
    for name, model in every_model().items():
        if name in blocks:
            _relax(blocks[name], model)
    for alias in ALIASES:
        _add_alias(blocks, alias)
    for name in _OF_UNITS:
        _add_ms_keys(blocks[name], blocks)
    for path in ignored:
        *above, name = path.split(".")
        for holder in _holders(above):
            about = {"description": "A key of another system; has no effect here.", "deprecated": True}
            blocks[holder.__name__]["properties"][name] = about
    _add_short_form(schema, blocks["PipelineModel"])
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Tidegate configuration"}
    return {**schema, **head, "$defs": blocks}


def _holders(path: Sequence[str]) -> list[type[Model]]:
    """The models of the blocks at ``path``, where ``*`` is any name."""
    holders: list[type[Model]] = [ProjectModel]
    for part in path:
        if part != "*":
            holders = [inner for model in holders for inner in models_in(fields(model)[part].annotation)]
    return holders


def _relax(block: Schema, model: type[Model]) -> None:
    """Describe every key, and let it hold a variable or nothing where that is allowed."""
    needed = block.get("required", ())
    for key, info in fields(model).items():
        value: Schema = block["properties"][key]
        about = {"description": info.description}
        if "default" in value:
            about["default"] = value["default"]
        kinds = [_kind(each) for each in value.get("anyOf", [value]) if each != _NULL]
        if key in ("items", "keys", "values") or ((key,) in STRUCTURED and model is not ParamModel):
            kinds.append({"type": "string"})
        if not any(_takes_any_text(kind) for kind in kinds):
            kinds.append(_VARIABLE)
        if key not in needed:
            kinds.append(_NULL)
        block["properties"][key] = {**(kinds[0] if len(kinds) == 1 else {"anyOf": kinds}), **about}


def _kind(value: Schema) -> Schema:
    """The type part of a schema, without its description."""
    words = {"ge": "minimum", "le": "maximum"}
    named = {"propertyNames": {"pattern": f"^{NAME}$"}} if "minProperties" in value else {}
    about = ("title", "description", "default")
    kind = {words.get(key, key): each for key, each in value.items() if key not in about} | named
    by_name = kind.get("additionalProperties")
    if isinstance(by_name, dict) and "oneOf" in by_name:
        kind["additionalProperties"] = {"anyOf": by_name["oneOf"]}
    if isinstance(by_name, dict) and by_name.get("$ref", "").endswith(f"/{ParamModel.__name__}"):
        kind["additionalProperties"] = {"anyOf": [by_name, {"type": ["string", "number", "boolean"]}]}
    return kind


def _takes_any_text(kind: Schema) -> bool:
    """Whether ``${VAR}`` is already allowed: in free text, lists of text, and blocks."""
    if "$ref" in kind:
        return bool(kind["$ref"].endswith("Model"))
    return kind.get("type") in ("object", "array") or ("string" in kind.get("type", ()) and "const" not in kind)


def _add_alias(blocks: dict[str, Schema], alias: Alias) -> None:
    for holder in _HOLDERS[kind_of_alias(alias.old)]:
        _add_alias_to(blocks[holder], blocks, alias)


def _add_alias_to(block: Schema, blocks: dict[str, Schema], alias: Alias) -> None:
    old = alias.old.rpartition(".")[2]
    about = {
        "description": f"For {alias.new.replace('*', '<source>')}: {alias.why}.",
        "deprecated": old != "source",
    }
    block["properties"][old] = {**_target(blocks, alias.new), **about}
    new = "sources" if old == "source" else alias.new.rpartition(".")[2]
    if new in block.get("required", ()):
        block["required"].remove(new)
        block.setdefault("allOf", []).append({"anyOf": [{"required": [new]}, {"required": [old]}]})


def _add_ms_keys(block: Schema, blocks: dict[str, Schema]) -> None:
    """Adds the names of properties files; each takes the value of its key, or JSON text."""
    for old, new in MS_KEYS.items():
        holder = blocks["WorkUnitModel"] if len(new) > 1 else block
        about = {"description": f"For {'.'.join(new)}: the name in properties files.", "deprecated": True}
        value = {
            key: each for key, each in holder["properties"][new[-1]].items() if key not in ("description", "default")
        }
        block["properties"][old] = {"anyOf": [value, {"type": "string"}], **about}


def _target(blocks: dict[str, Schema], new: str) -> Schema:
    """The schema of what an old name stands for."""
    if new == "sources.default":
        return dict(blocks["PipelineModel"]["properties"]["sources"]["additionalProperties"])
    holder = "SourceModel" if new.startswith("sources.") else "SinkModel" if "." in new else "PipelineModel"
    return dict(blocks[holder]["properties"][new.rpartition(".")[2]])


def _add_short_form(schema: Schema, pipeline: Schema) -> None:
    """A pipeline's keys at the top of the file, instead of ``pipelines:``."""
    for key in PIPELINE_KEYS:
        if key in pipeline["properties"]:
            schema["properties"][key] = pipeline["properties"][key]
    del schema["required"]
    schema["anyOf"] = [{"required": ["pipelines"]}, {"allOf": pipeline["allOf"]}]
