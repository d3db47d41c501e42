"""The JSON Schema of a configuration file, made from the models: what editors complete and underline.

Old names are in it, marked as deprecated; a value may always be text with a ``${VAR}`` in it, or left empty.
"""

from __future__ import annotations

from typing import Any

from tidegate.config.keys import every_model, kind_of_alias
from tidegate.config.models import Model, fields, models_in
from tidegate.config.normal_form import ALIASES, MS_KEYS, PIPELINE_KEYS, STRUCTURED, Alias
from tidegate.config.project import MEANINGLESS, ProjectModel
from tidegate.config.unit_variables import ParamModel
from tidegate.config.values import NAME
from tidegate.config.work_units import DownloadModel, UnitHttpModel, UnitJdbcModel, UnitPythonModel

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


def editor_schema() -> Schema:
    """The whole schema, as data for ``json.dumps``."""
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
    for above, name in MEANINGLESS:
        (holder,) = models_in(fields(ProjectModel)[above].annotation)
        ignored = {"description": "Of another system; means nothing here.", "deprecated": True}
        blocks[holder.__name__]["properties"][name] = ignored
    _add_short_form(schema, blocks["PipelineModel"])
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Tidegate configuration"}
    return {**schema, **head, "$defs": blocks}


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
    """What a value is, without what is said about it."""
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
    """Whether a variable needs no word of its own: free text, lists of it, and blocks."""
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
    """Names of properties files, for what they stand for or for JSON text."""
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
