"""The keys that exist, read off the models, and the models' complaints in the words of the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tidegate.config.document import Block, Loc, Scalar, find, problem, shown
from tidegate.config.models import Model, choices, fields, models_in
from tidegate.config.normal_form import ALIASES, MS_KEYS
from tidegate.config.problems import Problem, nearest, sentence
from tidegate.config.project import MEANINGLESS, REFUSED, ProjectModel
from tidegate.config.schema import ElementModel

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
    """Every key of the configuration, block by block; what kinds of sources share is named once."""
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
            kinds = tuple(each for each in kinds if tag in (None, _tag(each)))
        model = kinds[0] if kinds else model
    return model


def _tag(model: type[Model]) -> str:
    """The tag of a kind: the first word of what stands for its name."""
    word = model.step.strip("<>").split()[0]
    return "files" if word == "source" else word


def without_tags(loc: Loc) -> tuple[str | int, ...]:
    """``loc`` as the file has it, without the tags of kinds."""
    match tuple(loc):
        case ("pipelines", pipeline, "sources", source, _, *rest):
            return ("pipelines", pipeline, "sources", source, *rest)
        case ("connections", name, _, *rest):
            return ("connections", name, *rest)
        case other:
            return other


def allowed_at(loc: Loc) -> tuple[str, ...]:
    """The keys that the block at ``loc`` may have, without old names."""
    return tuple(fields(model_at(loc)))


def accepted_at(loc: Loc) -> tuple[str, ...]:
    """All words that are understood in the block at ``loc``: keys, old names, keys of later releases."""
    kind = kind_of(without_tags(loc))
    old = [alias.old.split(".")[-1] for alias in ALIASES if kind_of_alias(alias.old) == kind]
    old += MS_KEYS if kind == "source" else ()
    ignored = [path[-1] for path in MEANINGLESS if path[:-1] == tuple(loc)]
    return (*allowed_at(loc), *old, *ignored, *REFUSED.get(kind, ()))


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


def homes_of(name: str) -> tuple[str, ...]:
    """The blocks of the configuration that have a key of this name."""
    return tuple(key.block for key in every_key() if key.name == name)


def reported(error: ValidationError, root: Block) -> Iterator[tuple[tuple[str | int, ...], Problem]]:
    """Each complaint with its place; those about values whose variables are missing are left out."""
    for detail in error.errors(include_url=False, include_input=False):
        loc = _place(root, detail["loc"])
        node = find(root, loc)
        if not (isinstance(node, Scalar) and node.broken):
            yield loc, problem(root, loc, _text(detail, loc, root))


def _place(root: Block, loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """``loc`` without the marks for keys and kinds, and for short forms that a scalar stands for."""
    if loc and loc[-1] == "[key]":
        return without_tags(loc[:-1])
    loc = without_tags(loc)
    while len(loc) > 1 and isinstance(find(root, loc[:-1]), Scalar):
        loc = loc[:-1]
    return loc


def _text(detail: ErrorDetails, loc: tuple[str | int, ...], root: Block) -> str:
    kind, facts = detail["type"], detail.get("ctx", {})
    value = shown(root, loc) or "the value"
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
        case _:
            return _SHAPES.get(kind, f"{value} cannot be used")


def _word(root: Block, loc: Loc) -> str:
    node = find(root, loc)
    return node.strip() if isinstance(node, Scalar) else ""


def _unknown(loc: tuple[str | int, ...]) -> str:
    name, block = str(loc[-1]), loc[:-1]
    homes = sorted({home for home in homes_of(name) if home})
    if homes:
        return sentence("unknown key here", f"it belongs to {' or '.join(repr(home) for home in homes)}")
    hint = nearest(name, accepted_at(block))
    return sentence("unknown key", hint or f"allowed: {', '.join(allowed_at(block))}")


def _missing(loc: Loc) -> str:
    name = str(loc[-1])
    description = fields(model_at(loc[:-1]))[name].description or ""
    return sentence("is missing", description[:1].lower() + description[1:].rstrip("."))
