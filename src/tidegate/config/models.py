"""A block of the file as a model: read from the tree, made into a spec, and shown again from the spec.

A key is one field of a model: its name, type, limits, default and the sentence about it. Documentation, the editor
schema, the suggestions in errors and ``config show`` read the fields, so a key exists in all of them or in none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from operator import attrgetter
from types import UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticUndefined, core_schema

from tidegate.config.document import Absolute, Block, Scalar, mask
from tidegate.specs.locations import Location, Options, Secret
from tidegate.specs.masking import MASK
from tidegate.specs.project import Lateness, SinkSpec
from tidegate.specs.units import Span
from tidegate.storage.stores import TablePlaces

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Context:
    """For building sources: connections and sinks by name, how an address becomes absolute, and what runs write."""

    connections: Mapping[str, Any]
    sinks: Mapping[str, SinkSpec]
    absolute: Absolute
    tables: TablePlaces


class Model(BaseModel):
    """A block of the file; a key without a value counts as not given."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
        defer_build=True,
    )
    step: ClassVar[str] = ""
    """What stands for the block's name in paths, where a mapping of names holds it."""
    spec: ClassVar[type[Any] | None] = None
    """The spec that the block becomes, where each value keeps its place."""
    at: ClassVar[Mapping[str, str]] = {}
    """Where the spec has the value of a field, if not under the name of the field; dots lead into its parts."""

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        """Without nulls; a choice is a word without spaces around it."""
        if not isinstance(data, dict):
            return data
        known = fields(cls)
        data = {key: value for key, value in data.items() if value is not None or key not in known}
        words = {key: value for key, value in data.items() if key in known and choices(known[key])}
        return data | {key: value.strip() if isinstance(value, str) else "" for key, value in words.items()}

    def build(self) -> Any:
        """The spec of a block that depends on no other block."""
        assert self.spec is not None, type(self)
        return fill(self.spec, self)

    @classmethod
    def show(cls, spec: Any) -> dict[str, Any]:
        """The block that ``spec`` was made from, with every default and without secrets."""
        return dump(cls, spec)


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of a block that support a key, and those that require it."""

    allowed: tuple[str, ...]
    needed: tuple[str, ...]


class OldName(str):
    """The name of a key in properties files."""


def entry(
    description: str,
    default: Any = PydanticUndefined,
    *,
    kinds: tuple[str, ...] = (),
    needed: tuple[str, ...] = (),
    old: str = "",
    **more: Any,
) -> Any:
    """One key: the sentence about it, its default or what makes one, its limits; without a default it is needed.

    ``kinds`` are the kinds of its block that support it, ``needed`` those that require it. ``old`` is
    its name in properties files.
    """
    more["default_factory" if callable(default) else "default"] = default
    made: FieldInfo = Field(description=description, **more)
    if kinds or needed:
        made.metadata.append(Kinds((*needed, *kinds), needed))
    if old:
        made.metadata.append(OldName(old))
    return made


def kinds_of(model: type[Model]) -> dict[str, Kinds]:
    """The keys that only some kinds of a block support."""
    return {key: each for key, info in fields(model).items() for each in info.metadata if isinstance(each, Kinds)}


def old_names(model: type[Model]) -> dict[str, tuple[str, ...]]:
    """Name in properties files → the path of the key, in a block and the blocks below it."""
    found: dict[str, tuple[str, ...]] = {}
    for key, info in fields(model).items():
        found |= {str(each): (key,) for each in info.metadata if isinstance(each, OldName)}
        for inner in models_in(info.annotation):
            found |= {old: (key, *path) for old, path in old_names(inner).items()}
    return found


def section(model: type[Model], description: str, **more: Any) -> Any:
    """A key that holds a block; without it all defaults of the block apply."""
    return entry(description, model.model_construct, **more)


def short_for(key: str) -> BeforeValidator:
    """Accepts a scalar instead of a block, as the value of its ``key``."""

    def spell_out(value: object) -> object:
        if not isinstance(value, Scalar):
            return value
        block = Block(value.line)
        block.put(key, value, value.line, written="")
        return block

    return BeforeValidator(spell_out)


class OfKind:
    """A block of several kinds, a union of models. Only the models that a file uses are built."""

    def __init__(self, tag_of_block: Callable[[Any], str | None]) -> None:
        self._tag_of_block = tag_of_block

    def __get_pydantic_core_schema__(self, union: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        self._models = models_in(union)
        return self._union(lambda model: core_schema.no_info_plain_validator_function(model.model_validate))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        for model in self._models:
            model.model_rebuild()
        return handler(self._union(lambda model: model.__pydantic_core_schema__))

    def _union(self, schema: Callable[[type[Model]], CoreSchema]) -> CoreSchema:
        return core_schema.tagged_union_schema(
            {tag_of(each): schema(each) for each in self._models}, self._tag_of_block
        )


def tag_of(model: type[Model]) -> str:
    """The tag of a kind: the first word of its placeholder name."""
    word = model.step.strip("<>").split()[0]
    return "files" if word == "source" else word


def fields(model: type[Model]) -> dict[str, FieldInfo]:
    """The keys of one block, by the names they have in a file."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def choices(info: FieldInfo) -> tuple[str, ...]:
    """The words that a key allows; empty if it is not a choice."""
    kind = get_args(info.annotation)[0] if get_origin(info.annotation) in (Union, UnionType) else info.annotation
    if any(isinstance(each, BeforeValidator) for each in info.metadata):
        return ()
    if get_origin(kind) is Literal:
        return tuple(str(each) for each in get_args(kind))
    return tuple(map(str, kind)) if isinstance(kind, type) and issubclass(kind, StrEnum) else ()


def models_in(annotation: Any) -> tuple[type[Model], ...]:
    """The blocks that values of this type are, hold by name, or list; several where there are several kinds."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return (annotation,)
    return tuple(model for part in get_args(annotation) for model in models_in(part))


def values_for(spec: type[Any], model: Model, without: Collection[str] = ()) -> dict[str, Any]:
    """The values that ``model`` has for the attributes of ``spec``; blocks as the specs they become."""
    attributes = {each.name for each in dataclasses.fields(spec)}.difference(without)
    found = {model.at.get(name, name): getattr(model, name) for name in type(model).model_fields}
    return {
        name: value.build() if isinstance(value, Model) else value
        for name, value in found.items()
        if name in attributes
    }


def fill(spec: type[Made], model: Model, **given: Any) -> Made:
    """A spec with the values of ``model``; ``given`` are those that the model has in another form, or not at all."""
    return spec(**values_for(spec, model, given), **given)


def dump(
    model: type[Model], spec: object, keys: Iterable[str] | None = None, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """``spec`` in the words of the file: the ``keys`` of ``model``, all of them if none are named.

    ``given`` overrides values that the spec keeps in another form. A key with one allowed word gets that word.
    """
    found = dict(given or {})
    names = {info.alias or name: name for name, info in model.model_fields.items()}
    keys = tuple(names if keys is None else keys)
    for key in keys:
        if key not in found:
            name, info = names[key], model.model_fields[names[key]]
            only, inner = choices(info), models_in(info.annotation)
            value = only[0] if len(only) == 1 else attrgetter(model.at.get(name, name))(spec)
            found[key] = inner[0].show(value) if inner and value is not None else plain(value)
    return {key: found[key] for key in keys}


def plain(value: Any) -> Any:
    """A value as YAML has it; secrets are masked."""
    match value:
        case Enum():
            return value.value
        case Secret():
            return MASK
        case Location():
            return mask(value.uri)
        case Options():
            return dict.fromkeys(value, MASK)
        case timedelta():
            return duration(value)
        case Span():
            return span_text(value)
        case Lateness():
            return lateness_text(value)
        case Decimal():
            return str(value)
        case tuple() | list():
            return [plain(each) for each in value]
        case Mapping():
            return dict(value)
        case _:
            return value


def duration(lag: timedelta | None) -> str:
    """A duration as ISO 8601; ``none``.

    >>> duration(timedelta(days=1, minutes=5))
    'P1DT5M'
    """
    if lag is None:
        return "none"
    hours, rest = divmod(lag.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    times = "".join(f"{value}{unit}" for value, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if value)
    days = f"{lag.days}D" if lag.days else ""
    return f"P{days}T{times}" if times else f"P{days}"


def lateness_text(lateness: Lateness) -> str:
    """A lateness as the file has it.

    >>> lateness_text(Lateness())
    '48 periods'
    """
    if lateness.never:
        return "none"
    if lateness.fixed is None:
        return f"{lateness.periods} periods"
    return duration(lateness.fixed)


def span_text(span: Span) -> str:
    """A length of time as the file has it.

    >>> span_text(Span(3))
    'P3D'
    """
    text = duration(span.elapsed).removeprefix("P") if span.elapsed else ""
    return f"P{span.days}D{text}"
