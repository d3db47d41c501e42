"""The keys that exist, read off the models: for suggestions, documentation and the editor schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from tidegate.config.aliases import ALIASES
from tidegate.config.models import ElementModel, Model, ProjectModel
from tidegate.config.notes import MEANINGLESS, REFUSED
from tidegate.config.tree import Loc

_NAMES = {"pipelines": "<pipeline>", "sources": "<source>"}


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


def every_key() -> Iterator[Key]:
    """Every key of the configuration, block by block."""
    yield from _below(ProjectModel, "")


def _below(model: type[Model], block: str) -> Iterator[Key]:
    keys = [Key(block, name, info) for name, info in fields(model).items()]
    yield from keys
    for key in keys:
        inner = model_in(key.info.annotation)
        if inner is not None and not issubclass(model, ElementModel):
            yield from _below(inner, key.path + _step(key))


def _step(key: Key) -> str:
    origin = get_origin(key.info.annotation)
    return f".{_NAMES[key.name]}" if origin is dict else "[]" if origin is tuple else ""


def fields(model: type[Model]) -> dict[str, FieldInfo]:
    """The keys of one block, by the names they have in a file."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def model_in(annotation: Any) -> type[Model] | None:
    """The block that values of this type are, hold by name, or list."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    found = (model_in(part) for part in get_args(annotation))
    return next((model for model in found if model is not None), None)


def model_at(loc: Loc) -> type[Model]:
    """The block at ``loc``."""
    model: type[Model] = ProjectModel
    named = False
    for part in loc:
        if isinstance(part, int) or named:
            named = False
            continue
        info = fields(model)[part]
        model = model_in(info.annotation) or model
        named = get_origin(info.annotation) is dict
    return model


def allowed_at(loc: Loc) -> tuple[str, ...]:
    """The keys that the block at ``loc`` may have, without old names."""
    return tuple(fields(model_at(loc)))


def accepted_at(loc: Loc) -> tuple[str, ...]:
    """All words that are understood in the block at ``loc``: keys, old names, keys of later releases."""
    kind = kind_of(loc)
    old = [alias.old.split(".")[-1] for alias in ALIASES if kind_of_alias(alias.old) == kind]
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
