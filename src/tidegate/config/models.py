"""A block of the file: which keys it has, how it is read from the tree, made into specs, and shown again.

A key is declared once, at the attribute of the spec that holds its value (:mod:`tidegate.specs.keys`). A block whose
keys are the attributes of one spec needs nothing else: its model is derived. Other blocks are subclasses of
:class:`Model`: they say which keys of which specs they have, and declare keys that only files have in the same way.

Reading collects every problem of a file; specs are made only if there is none.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, is_dataclass, replace
from dataclasses import fields as attributes_of
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tidegate.config import values
from tidegate.config.document import (
    LACKS_SPACE,
    Absolute,
    Block,
    Items,
    Loc,
    Node,
    Problem,
    Scalar,
    nearest,
    problem,
    quote,
    sentence,
)
from tidegate.config.values import KINDS, RefusedValue, ValueKind, to_yaml, word_of
from tidegate.specs.keys import Checked, Key, Range
from tidegate.specs.locations import Location
from tidegate.specs.table import SinkSpec
from tidegate.storage.stores import TablePlaces

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Context:
    """For making specs: connections and sinks by name, how an address becomes absolute, and what runs write."""

    connections: Mapping[str, Model]
    sinks: Mapping[str, SinkSpec]
    absolute: Absolute
    tables: TablePlaces


@dataclass(frozen=True, slots=True)
class SpecKeys:
    """Keys of a spec that a block has: all, or those that ``keys`` names, each alone or as ``first:last``."""

    spec: type[Any]
    keys: tuple[str, ...]


def part(spec: type[Any], *keys: str) -> SpecKeys:
    """The keys of ``spec`` that a block has; all, if none are named."""
    return SpecKeys(spec, keys or (":",))


@dataclass(frozen=True, slots=True)
class OfKind:
    """Marks a union of models: the tag of a block tells which of them it is."""

    tag_of_block: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class NamedBlocks:
    """Marks a mapping of names to blocks whose names become parts of paths; ``least`` is how many there must be."""

    least: int = 0


@dataclass(frozen=True, slots=True)
class Shorthand:
    """Marks a block for which a scalar may stand, as the value of its ``key``."""

    key: str


@dataclass(frozen=True, slots=True)
class Value:
    """The type of a key with one value."""

    kind: ValueKind
    limits: Range | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The type of a key that allows some words; ``enum`` names them, if it does."""

    values: Mapping[str, Any]
    enum: type[StrEnum] | None = None


@dataclass(frozen=True, slots=True)
class Blocks:
    """The type of a key with a block, a list of blocks, or blocks by name."""

    models: tuple[type[Model], ...]
    holder: Literal["", "list", "mapping"] = ""
    tag: OfKind | None = None
    named: NamedBlocks | None = None
    short: Shorthand | None = None

    def model_of(self, node: object) -> type[Model]:
        """The model of one of the blocks."""
        if self.tag is None:
            return self.models[0]
        tag = self.tag.tag_of_block(node)
        return next(model for model in self.models if tag_of(model) == tag)


Shape = Value | Choice | Blocks


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a block; ``owner`` has its value in ``attribute``, if a spec has it at all."""

    name: str
    key: Key
    shape: Shape
    default: Any
    factory: Callable[[], Any] | None = None
    owner: type[Any] | None = None
    attribute: str = ""

    @property
    def is_required(self) -> bool:
        """Whether a file has to give the key; blocks whose keys all have defaults may be left out."""
        if self.default is not MISSING or self.factory is not None:
            return False
        blocks = self.shape
        if not isinstance(blocks, Blocks) or blocks.holder:
            return True
        return any(field.is_required for model in blocks.models for field in fields(model).values())

    def make_default(self) -> Any:
        """The value if the file does not give the key."""
        if isinstance(self.shape, Blocks) and not self.shape.holder and self.default is MISSING:
            return defaults(self.shape.models[0])
        return self.factory() if self.factory is not None else self.default

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that the key allows; empty if it is not a choice."""
        return tuple(self.shape.values) if isinstance(self.shape, Choice) else ()

    @property
    def models(self) -> tuple[type[Model], ...]:
        """The models of the blocks that the key holds; several where there are several kinds."""
        return self.shape.models if isinstance(self.shape, Blocks) else ()


Parts = tuple[SpecKeys | str | Callable[[], dict[str, Field]], ...]


class Model:
    """A block of the file; the values of an instance are checked, and every key has one."""

    step: ClassVar[str] = ""
    """What stands for the block's name in paths, where a mapping of names holds it."""
    spec: ClassVar[type[Any] | None] = None
    """The spec that the block becomes; other blocks refer to the block by it."""
    takes: ClassVar[Parts] = ()
    """The keys of specs that the block has, keys made of them, and where keys of its own stand; others follow."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given

    def __init_subclass__(cls) -> None:
        if "spec" in cls.__dict__ and cls.spec is not None:
            _MODELS[cls.spec] = cls

    def __getitem__(self, key: str) -> Any:
        return self._given[key]

    def get(self, key: str) -> Any:
        """The value of ``key``; None if the block has no such key."""
        return self._given.get(key)

    @property
    def given(self) -> Mapping[str, Any]:
        """The values of all keys."""
        return self._given

    def build(self, context: Context) -> Any:
        """Make the spec of the block."""
        assert self.spec is not None, type(self)
        return make(self.spec, self._given, context)

    @classmethod
    def show(cls, spec: Any) -> dict[str, Any]:
        """The block that ``spec`` was made from, with every default and without secrets."""
        return dump(cls, spec)


_MODELS: dict[type[Any], type[Model]] = {}
# Filled on first use: most files have few kinds of blocks, and reading annotations takes time.
_FIELDS: dict[type[Model], dict[str, Field]] = {}
_KEYS: dict[type[Any], dict[str, Field]] = {}


def defaults(model: type[Model]) -> Model:
    """A block that gives no key."""
    return model({name: field.make_default() for name, field in fields(model).items()})


def tag_of(model: type[Model]) -> str:
    """The tag of a kind: the first word of its placeholder name."""
    word = model.step.strip("<>").split()[0]
    return "files" if word == "source" else word


def fields(model: type[Model]) -> dict[str, Field]:
    """The keys of one block, by the names they have in a file."""
    if model not in _FIELDS:
        # Keys of a base stand first; a key that is declared again keeps its place.
        bases = (base for base in reversed(model.__mro__) if issubclass(base, Model))
        _FIELDS[model] = {name: field for base in bases for name, field in _read_declared(base).items()}
    return _FIELDS[model]


def _read_declared(model: type[Model]) -> dict[str, Field]:
    """The keys that a model itself declares, in order."""
    own = {}
    hints = get_type_hints(model, include_extras=True)
    for name in inspect.get_annotations(model):
        if (key := _key_in(hints[name])) is not None:
            # A field object brings a factory; everything else is the default itself.
            given = model.__dict__.get(name, MISSING)
            default, factory = getattr(given, "default", given), getattr(given, "default_factory", MISSING)
            field = _field(name, key, hints[name], default, factory)
            own[field.name] = field
    found: dict[str, Field] = {}
    for each in model.__dict__.get("takes", ()):
        match each:
            case str():
                found[each] = own[each]
            case SpecKeys():
                found |= _select(keys_of(each.spec), each.keys)
            case _:
                found |= each()
    return found | own


def _select(found: dict[str, Field], slices: Iterable[str]) -> dict[str, Field]:
    names = list(found)
    chosen: dict[str, Field] = {}
    for each in slices:
        first, is_slice, last = each.partition(":")
        start = names.index(first) if first else 0
        stop = (names.index(last) + 1 if last else len(names)) if is_slice else start + 1
        chosen |= {name: found[name] for name in names[start:stop]}
    return chosen


def keys_of(spec: type[Any]) -> dict[str, Field]:
    """The keys whose values are attributes of ``spec``, by the names they have in a file."""
    if spec not in _KEYS:
        hints = get_type_hints(spec, include_extras=True)
        found = _KEYS[spec] = {}
        for each in attributes_of(spec):
            if (key := _key_in(hints[each.name])) is not None:
                field = _field(each.name, key, hints[each.name], each.default, each.default_factory)
                found[field.name] = replace(field, owner=spec)
    return _KEYS[spec]


def _key_in(annotation: Any) -> Key | None:
    if get_origin(annotation) is not Annotated:
        return None
    return next((each for each in annotation.__metadata__ if isinstance(each, Key)), None)


def _field(attribute: str, key: Key, annotation: Any, default: Any, factory: Any) -> Field:
    if key.required:
        default = factory = MISSING
    if key.unset:
        default, factory = None, MISSING
    made = None if factory is MISSING else factory
    return Field(key.name or attribute, key, _resolve(annotation), default, made, attribute=attribute)


_MARKS = (Checked, Range, OfKind, NamedBlocks, Shorthand)


def _resolve(annotation: Any, marks: tuple[Any, ...] = ()) -> Shape:
    """The type that an annotation means."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _resolve(inner, (*marks, *(each for each in more if isinstance(each, _MARKS))))
    by_kind = {type(each): each for each in marks}
    if Checked in by_kind:
        return Value(KINDS[by_kind[Checked].name], by_kind.get(Range))
    if annotation in KINDS:
        return Value(KINDS[annotation], by_kind.get(Range))
    args = tuple(each for each in get_args(annotation) if each is not NoneType)
    match get_origin(annotation):
        case origin if origin in (Union, UnionType) and len(args) == 1:
            return _resolve(args[0], marks)
        case origin if origin in (Union, UnionType):
            return Blocks(args, tag=by_kind.get(OfKind))
        case origin if origin is Literal:
            return Choice({str(each): each for each in args})
        case origin if origin is tuple and args[0] is str:
            return Value(KINDS["texts"])
        case origin if origin is tuple:
            return _hold(_resolve(args[0], marks), "list", by_kind)
        case origin if origin is dict:
            return _hold(_resolve(args[1], marks), "mapping", by_kind)
        case origin if origin is not None:
            return Value(KINDS["names_to_texts"])
    if issubclass(annotation, StrEnum):
        return Choice({each.value: each for each in annotation}, annotation)
    return Blocks((model_for(annotation),), short=by_kind.get(Shorthand))


def _hold(blocks: Shape, holder: Literal["list", "mapping"], marks: Mapping[type, Any]) -> Blocks:
    assert isinstance(blocks, Blocks)
    return replace(blocks, holder=holder, named=marks.get(NamedBlocks))


def model_for(block: type[Any]) -> type[Model]:
    """The model of a block that an annotation names: itself, that of a spec, or one derived from the spec."""
    if issubclass(block, Model):
        return block
    if block in _MODELS:
        return _MODELS[block]
    assert is_dataclass(block), block
    title = block.__name__.removesuffix("Spec") + "Model"
    about = inspect.cleandoc(block.__doc__ or "").partition("\n\n")[0]
    # Defining it enters it into _MODELS, by its spec.
    return type(title, (Model,), {"__doc__": about, "spec": block, "takes": (part(block),)})


class BlockReader:
    """Reads the blocks of a tree, and collects what is wrong with their values."""

    def __init__(self, root: Block, describe_unknown: Callable[[str, type[Model], Loc], str]) -> None:
        self.problems: list[tuple[tuple[str | int, ...], Problem]] = []
        self._root = root
        self._describe_unknown = describe_unknown

    def read(self, model: type[Model], node: Node, loc: tuple[str | int, ...] = ()) -> Model:
        """The block at ``loc``; of use only if there was no problem."""
        known = fields(model)
        if not isinstance(node, Block):
            hint = "; write a space after the colon of its first line" if LACKS_SPACE.match(word_of(node)) else ""
            self._add(loc, f"must be a mapping{hint}")
            return model({})
        for name in node:
            if name not in known:
                self._add((*loc, name), self._describe_unknown(name, model, loc))
        return model({name: self._key(field, node.get(name), (*loc, name)) for name, field in known.items()})

    def _add(self, loc: tuple[str | int, ...], text: str) -> None:
        self.problems.append((loc, problem(self._root, loc, text)))

    def _key(self, field: Field, node: Node, loc: tuple[str | int, ...]) -> Any:
        if node is not None:
            return self._value(field.shape, node, loc)
        if not field.is_required:
            return field.make_default()
        about = field.key.about
        self._add(loc, sentence("is missing", about[:1].lower() + about[1:].rstrip(".")))
        return None

    def _value(self, kind: Shape, node: Node, loc: tuple[str | int, ...]) -> Any:
        if isinstance(node, Scalar) and node.broken:
            # The missing variable is reported already, and nobody knows the value.
            return None
        match kind:
            case Value():
                return self._single(kind, node, loc)
            case Choice():
                word = word_of(node)
                if word not in kind.values:
                    text = f"{self._quote(loc)} is not one of {', '.join(kind.values)}"
                    self._add(loc, sentence(text, nearest(word, kind.values)))
                return kind.values.get(word)
            case Blocks(holder="list"):
                return self._list(kind, node, loc)
            case Blocks(holder="mapping"):
                return self._blocks_by_name(kind, node, loc)
            case Blocks():
                return self._block(kind, node, loc)

    def _single(self, kind: Value, node: Node, loc: tuple[str | int, ...]) -> Any:
        try:
            value = kind.kind.check(node)
        except RefusedValue as error:
            self._add(loc, f"{self._quote(loc)} {error}")
            return None
        if kind.limits is not None and value < kind.limits.low:
            self._add(loc, f"{self._quote(loc)} is too small; allowed: {kind.limits.low} or more")
        if kind.limits is not None and value > kind.limits.high:
            self._add(loc, f"{self._quote(loc)} is too large; allowed: {kind.limits.high} or less")
        return value

    def _list(self, kind: Blocks, node: Node, loc: tuple[str | int, ...]) -> tuple[Model, ...]:
        if not isinstance(node, Items):
            self._add(loc, "must be a list")
            return ()
        return tuple(self._block(kind, item, (*loc, at)) for at, item in enumerate(node))

    def _blocks_by_name(self, kind: Blocks, node: Node, loc: tuple[str | int, ...]) -> dict[str, Model]:
        if not isinstance(node, Block):
            self._add(loc, "must be a mapping of names to settings")
            return {}
        if kind.named is not None and len(node) < kind.named.least:
            self._add(loc, "is empty; allowed: one or more")
        for name in node if kind.named is not None else ():
            try:
                # Names become parts of paths and of commit tags.
                values.name(name)
            except RefusedValue as error:
                self._add((*loc, name), f"{name!r} {error}")
        return {name: self._block(kind, below, (*loc, name)) for name, below in node.items()}

    def _block(self, kind: Blocks, node: Node, loc: tuple[str | int, ...]) -> Model:
        model = kind.model_of(node)
        if kind.short is not None and isinstance(node, Scalar):
            key = kind.short.key
            value = self._value(fields(model)[key].shape, node, loc)
            others = {name: field.make_default() for name, field in fields(model).items() if name != key}
            return model({**others, key: value})
        if isinstance(node, Scalar) and node.broken:
            return model({})
        return self.read(model, node, loc)

    def _quote(self, loc: Loc) -> str:
        return quote(self._root, loc) or "the value"


def make(spec: type[Made], given: Mapping[str, Any], context: Context, **others: Any) -> Made:
    """A spec with the values that ``given`` has for its keys; ``others`` are attributes that files have otherwise."""
    found = {}
    for name, field in keys_of(spec).items():
        if field.attribute in others or name not in given or (given[name] is None and field.key.unset):
            continue
        found[field.attribute] = _build(field, given, context)
    return spec(**found, **others)


def _build(field: Field, given: Mapping[str, Any], context: Context) -> Any:
    value = given[field.name]
    if isinstance(field.shape, Value) and field.shape.kind is KINDS[Location]:
        # The options of a place stand beside its address, in the same block.
        return make(Location, given, context, uri=context.absolute(value))
    if isinstance(field.shape, Value) and field.shape.kind is KINDS["address"] and value is not None:
        return context.absolute(value)
    if isinstance(field.shape, Blocks) and field.shape.holder == "list":
        return tuple(item.build(context) for item in value)
    return value.build(context) if isinstance(value, Model) else value


def dump(
    model: type[Model], spec: object, keys: Iterable[str] | None = None, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """``spec`` in the words of the file: the ``keys`` of ``model``, all of them if none are named.

    ``given`` overrides values that the spec keeps in another form. A key with one allowed word gets that word.
    """
    found = dict(given or {})
    known = fields(model)
    keys = tuple(known if keys is None else keys)
    return {key: found[key] if key in found else _show(known[key], spec) for key in keys}


def _show(field: Field, spec: object) -> Any:
    if len(field.choices) == 1:
        return field.choices[0]
    holder = spec
    if field.owner is not None and not isinstance(spec, field.owner):
        # A block may have the keys of a part of its spec, such as those of a table's location.
        parts = (getattr(spec, each.name) for each in attributes_of(spec))  # type: ignore[arg-type]  # specs only
        holder = next(each for each in parts if isinstance(each, field.owner))
    return show_value(field.shape, getattr(holder, field.attribute))


def show_value(kind: Shape, value: Any) -> Any:
    """A value in the words of the file."""
    match kind:
        case Value():
            return kind.kind.show(value)
        case Blocks(holder="") if value is not None:
            return kind.models[0].show(value)
        case Blocks(holder="list"):
            return [kind.models[0].show(item) for item in value]
        case _:
            return to_yaml(value)


def kinds_of(model: type[Model]) -> dict[str, Key]:
    """The keys that only some kinds of a block support."""
    return {name: field.key for name, field in fields(model).items() if field.key.allowed}


def old_names(model: type[Model]) -> dict[str, tuple[str, ...]]:
    """Name in properties files → the path of the key, in a block and the blocks below it."""
    found: dict[str, tuple[str, ...]] = {}
    for key, field in fields(model).items():
        found |= {field.key.old: (key,)} if field.key.old else {}
        for inner in field.models:
            found |= {old: (key, *path) for old, path in old_names(inner).items()}
    return found
