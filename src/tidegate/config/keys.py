"""The keys that exist, read off the models; what is said about unknown ones; the JSON Schema.

The schema is for editors. Old names are in it, marked as deprecated; a value may always be text with a ``${VAR}`` in
it, or left empty.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass
from functools import cache

from tidegate.config.document import Loc, nearest, sentence
from tidegate.config.models import Blocks, Choice, Field, Model, Value, fields, show_value
from tidegate.config.normal_form import ALIASES, PIPELINE_KEYS, STRUCTURED, Alias
from tidegate.config.project import ProjectModel
from tidegate.config.schema import ElementModel
from tidegate.config.values import NAME, STRING, Schema
from tidegate.config.work_units import MS_KEYS, DownloadModel, UnitHttpModel, UnitJdbcModel, UnitPythonModel


@dataclass(frozen=True, slots=True)
class KeyPath:
    """One key: ``block`` is the path of what holds it, ``sources.<source>.checkpoint``-like."""

    block: str
    field: Field

    @property
    def name(self) -> str:
        """The key itself."""
        return self.field.name

    @property
    def path(self) -> str:
        """The whole path of the key."""
        return f"{self.block}.{self.name}" if self.block else self.name


@cache
def every_key() -> tuple[KeyPath, ...]:
    """Every key of the configuration, block by block; keys shared by several kinds of sources appear once."""
    return tuple({key.path: key for key in _walk_keys(ProjectModel, "")}.values())


def _walk_keys(model: type[Model], block: str) -> Iterator[KeyPath]:
    """The keys of ``model``; ``block`` is its path without the step that tells kinds apart."""
    keys = [KeyPath(block + _step_of(model, name), field) for name, field in fields(model).items()]
    yield from keys
    for key in keys:
        for inner in key.field.models:
            if not issubclass(model, ElementModel):
                is_list = isinstance(key.field.shape, Blocks) and key.field.shape.holder == "list"
                yield from _walk_keys(inner, key.path + ("[]" if is_list else ""))


def _step_of(model: type[Model], name: str) -> str:
    """What stands for the name of a block, in the words of the kind that the key belongs to."""
    if not model.step:
        return ""
    owners = [each for each in model.__mro__ if issubclass(each, Model) and each.step and name in fields(each)]
    return f".{owners[-1].step}"


def describe_unknown(name: str, model: type[Model], loc: Loc) -> str:
    """What is said about a key that the block at ``loc`` does not have: where it belongs, or what is meant."""
    homes = sorted({key.block for key in every_key() if key.name == name and key.block})
    if homes:
        return sentence("unknown key here", f"it belongs to {' or '.join(repr(home) for home in homes)}")
    kind = _kind_of(loc)
    old = [alias.old.split(".")[-1] for alias in ALIASES if _kind_of_alias(alias.old) == kind]
    old += MS_KEYS if kind == "source" else ()
    hint = nearest(name, (*fields(model), *old))
    return sentence("unknown key", hint or f"allowed: {', '.join(fields(model))}")


def _kind_of(loc: Loc) -> str:
    """``pipeline``, ``source``, ``sink``, ``schema`` …, or empty at the top."""
    words = [part for part in loc if isinstance(part, str)]
    if words[:1] != ["pipelines"]:
        return ".".join(words)
    if len(words) == 2:
        return "pipeline"
    if words[2] == "sources":
        return "source" if len(words) == 4 else ".".join(words[4:])
    return words[-1]


def _kind_of_alias(old: str) -> str:
    """The kind of block that holds an old name."""
    return {"": "pipeline", "sources.*": "source"}.get(old.rpartition(".")[0], old.rpartition(".")[0])


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
    found: dict[str, Schema] = {}
    _collect(ProjectModel, found)
    blocks = dict(sorted(found.items()))
    schema = blocks.pop(ProjectModel.__name__)
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
    for step in path:
        if step != "*":
            holders = [inner for model in holders for inner in fields(model)[step].models]
    return holders


def _collect(model: type[Model], found: dict[str, Schema]) -> None:
    """The schema of a block, and of the blocks and choices below it."""
    if model.__name__ in found:
        return
    block: Schema = {"additionalProperties": False, "description": inspect.getdoc(model)}
    found[model.__name__] = block
    block["properties"] = {name: _property(field) for name, field in fields(model).items()}
    if needed := [name for name, field in fields(model).items() if field.is_required]:
        block["required"] = needed
    block |= {"title": model.__name__, "type": "object"}
    for field in fields(model).values():
        if isinstance(field.shape, Choice) and (enum := field.shape.enum) is not None:
            words = {"description": inspect.getdoc(enum), "enum": [*field.choices]}
            found[enum.__name__] = {**words, "title": enum.__name__, "type": "string"}
        for inner in field.models:
            _collect(inner, found)


def _property(field: Field) -> Schema:
    """The schema of a key, which may hold a variable, and nothing if it has a default."""
    kinds = _kinds(field)
    if not any(_accepts_any_text(kind) for kind in kinds):
        kinds.append(_VARIABLE)
    if not field.is_required:
        kinds.append(_NULL)
    about: Schema = {"description": field.key.about}
    if field.default is not MISSING:
        about["default"] = None if field.default is None else show_value(field.shape, field.default)
    return {**(kinds[0] if len(kinds) == 1 else {"anyOf": kinds}), **about}


def _kinds(field: Field) -> list[Schema]:
    """What a key may hold."""
    match field.shape:
        case Value(kind, limits):
            bounds = {"maximum": limits.high, "minimum": limits.low} if limits is not None else {}
            schema = {**bounds, **kind.schema}
            return list(schema.get("anyOf", [schema]))
        case Choice(words, enum):
            allowed: Schema = {"enum": [*words]} if len(words) > 1 else {"const": next(iter(words))}
            return [_reference(enum) if enum is not None else {**allowed, "type": "string"}]
        case Blocks(models, "list"):
            # Lists of blocks may be JSON text, as in properties files.
            text = [STRING] if (field.name,) in STRUCTURED else []
            return [{"items": _reference(models[0]), "type": "array"}, *text]
        case Blocks(models, "mapping"):
            below = [_reference(each) for each in models]
            below += [{"type": ["string", "number", "boolean"]}] if field.shape.short is not None else []
            least = field.shape.named.least if field.shape.named is not None else 0
            named = {"propertyNames": {"pattern": f"^{NAME}$"}} if least else {}
            held = {"additionalProperties": below[0] if len(below) == 1 else {"anyOf": below}}
            return [{**held, **({"minProperties": least} if least else {}), "type": "object", **named}]
        case Blocks(models):
            return [_reference(models[0]), *([STRING] if field.shape.short is not None else [])]


def _reference(block: type) -> Schema:
    return {"$ref": f"#/$defs/{block.__name__}"}


def _accepts_any_text(kind: Schema) -> bool:
    """Whether ``${VAR}`` is already allowed: in free text, lists of text, and blocks."""
    if "$ref" in kind:
        return bool(kind["$ref"].endswith("Model"))
    return kind.get("type") in ("object", "array") or ("string" in kind.get("type", ()) and "const" not in kind)


def _add_alias(blocks: dict[str, Schema], alias: Alias) -> None:
    old = alias.old.rpartition(".")[2]
    new = "sources" if old == "source" else alias.new.rpartition(".")[2]
    about = {
        "description": f"For {alias.new.replace('*', '<source>')}: {alias.why}.",
        "deprecated": old != "source",
    }
    for block in (blocks[holder] for holder in _HOLDERS[_kind_of_alias(alias.old)]):
        block["properties"][old] = {**_target(blocks, alias.new), **about}
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
