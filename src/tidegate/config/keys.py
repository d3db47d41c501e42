"""The keys that exist, read off the models: for suggestions, documentation and the editor schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from tidegate.config.aliases import ALIASES
from tidegate.config.blocks import Model
from tidegate.config.models import ElementModel, ProjectModel
from tidegate.config.ms_keys import MS_KEYS
from tidegate.config.notes import MEANINGLESS, REFUSED
from tidegate.config.tree import Loc


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


def fields(model: type[Model]) -> dict[str, FieldInfo]:
    """The keys of one block, by the names they have in a file."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def models_in(annotation: Any) -> tuple[type[Model], ...]:
    """The blocks that values of this type are, hold by name, or list; several where there are several kinds."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return (annotation,)
    return tuple(model for part in get_args(annotation) for model in models_in(part))


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
