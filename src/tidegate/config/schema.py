"""The columns of a pipeline: declared, or inferred from the first files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from tidegate.config.document import FLAGS, Block, Items, Loc, Node, Problem, Scalar, Spot, find, nearest, problem
from tidegate.config.models import Context, Model, Parts, Shorthand, dump, fields, make, part
from tidegate.config.values import check, refusal, text
from tidegate.schema.names import CONTAINERS, MOST_LEVELS, RESCUED, SCALARS, decimal_of, name_problem
from tidegate.specs.keys import Key
from tidegate.specs.table import FieldSpec, SchemaSpec

_NEEDS = {"struct": ("fields",), "list": ("items",), "map": ("keys", "values")}
_CHILDREN = ("fields", "items", "keys", "values")
# Words of other type systems, for the hint alone: a type has one name here.
_FOREIGN_TYPES = {
    "utf8": "string",
    "text": "string",
    "varchar": "string",
    "long": "int64",
    "bigint": "int64",
    "int": "int64",
    "integer": "int64",
    "double": "float64",
    "float": "float64",
    "number": "float64",
    "bool": "boolean",
    "datetime": "timestamp",
    "array": "list",
    "object": "struct",
    "bytes": "binary",
}


@check()
def type_name(value: object) -> str:
    """A name of the type list."""
    word = "".join(text(value).split())
    if word in SCALARS or word in CONTAINERS or decimal_of(word):
        return word
    known = (*SCALARS, "decimal(p,s)", *CONTAINERS)
    hint = _FOREIGN_TYPES.get(word.lower())
    if word.startswith("decimal"):
        raise refusal("is not a decimal type", "allowed: decimal(p,s) with p from 1 to 38 and s from 0 to p")
    raise refusal(
        f"is not a type; allowed: {', '.join(known)}",
        f"did you mean {hint!r}?" if hint else nearest(word, known),
    )


@check({"type": ["string", "boolean"]})
def rescue_column(value: object) -> str | None:
    """The name of the rescued column: ``true`` means ``_rescued``, ``false`` none."""
    word = text(value).strip()
    found = FLAGS.get(word.lower())
    if found is not None:
        return RESCUED if found else None
    if wrong := name_problem(word):
        raise refusal(wrong)
    return word


class ElementModel(Model):
    """The type of list items, map keys and map values; a type name alone is short for it."""

    takes: ClassVar[Parts] = (part(FieldSpec, "type:fields"),)
    items: Annotated[Element | None, Key("The items of a list.")] = None
    keys: Annotated[Element | None, Key("The keys of a map: string.")] = None
    values: Annotated[Element | None, Key("The values of a map.")] = None

    def field(self, name: str, context: Context) -> FieldSpec:
        """The type as a named field."""
        children = {"items": "element", "keys": "key", "values": "value"}
        inner = {key: self[key].field(word, context) if self[key] else None for key, word in children.items()}
        return make(FieldSpec, self.given, context, name=name, **inner)

    @classmethod
    def show(cls, spec: FieldSpec) -> dict[str, Any]:
        """The type; of its children only those it has."""
        inner = {key: child for key in ("items", "keys", "values") if (child := getattr(spec, key)) is not None}
        given = {key: ElementModel.show(child) for key, child in inner.items()}
        name, below = ("name",) if cls is FieldModel else (), ("fields",) if spec.fields else ()
        return dump(cls, spec, (*name, "type", "nullable", *below, *given), given)


class FieldModel(ElementModel):
    """One column, or one field of a struct."""

    spec: ClassVar = FieldSpec
    takes: ClassVar[Parts] = (part(FieldSpec, "name"),)

    def build(self, context: Context) -> FieldSpec:
        """The field."""
        return self.field(self["name"], context)


Element = Annotated[ElementModel, Shorthand("type")]


class SchemaModel(Model):
    """The columns: declared, or inferred from the first files."""

    spec: ClassVar = SchemaSpec
    takes: ClassVar[Parts] = (part(SchemaSpec, "fields:coerce_conflicts_to_utf8", "numbers:rescued"),)

    @classmethod
    def show(cls, spec: SchemaSpec) -> dict[str, Any]:
        """The columns, if they are declared, and how values become them."""
        return dump(cls, spec, [key for key in fields(cls) if key != "fields" or spec.fields])


def column_types(pipeline: Spot) -> dict[str, str]:
    """Type by name of the declared columns; nothing where they are inferred."""
    found = pipeline.below("schema").get("fields")
    blocks = [item for item in found if isinstance(item, Block)] if isinstance(found, Items) else []
    return {str(each.text("name") or ""): str(each.text("type") or "") for each in blocks}


def schema_problems(schema: Spot) -> Iterator[Problem]:
    """Problems of one schema block: each name once, containers with what they contain."""
    infer, found = schema.text("infer"), schema.get("fields")
    declared = isinstance(found, Items) and bool(found)
    is_off = infer is not None and FLAGS.get(infer.lower()) is False
    if infer is not None and not is_off and declared:
        yield schema.problem("given together with 'fields'; remove one of the two", "infer")
    if is_off and not declared:
        yield schema.problem("false, and no 'fields' are given; declare fields, or set infer: true", "infer")
    if isinstance(found, Items):
        yield from _fields(schema.root, (*schema.loc, "fields"), found)


def _fields(root: Block, at: Loc, found: Items, *, nested: bool = False) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for number, item in enumerate(found):
        if not isinstance(item, Block):
            continue
        name = item.text("name")
        if name is not None:
            for text in _name_problems(str(name), seen, nested=nested):
                yield problem(root, (*at, number, "name"), f"{str(name)!r} {text}")
        yield from _element_problems(root, (*at, number), item)


def _name_problems(name: str, seen: dict[str, str], *, nested: bool) -> Iterator[str]:
    # Delta does not allow columns that differ by case alone.
    twin = seen.get(name.lower())
    seen[name.lower()] = name
    if twin is not None:
        how = (
            "twice" if twin == name else f"also as {twin!r}, and columns must differ in more than upper and lower case"
        )
        yield f"is declared {how}; declare each column once"
    if wrong := name_problem(name, nested=nested):
        yield wrong


def _element_problems(root: Block, at: Loc, element: Node) -> Iterator[Problem]:
    """One column, list item, map key or map value; a bare type name stands for an element of that type."""
    block = element if isinstance(element, Block) else Block(0)
    kind = str(element) if isinstance(element, Scalar) else block.text("type")
    if kind is None:
        return
    needs = _NEEDS.get(kind, ())
    if needs and sum(part in _CHILDREN for part in at) == MOST_LEVELS + 1:
        text = f"a {kind} {MOST_LEVELS + 1} levels deep; a table has at most {MOST_LEVELS}; declare it as json"
        yield problem(root, at, text)
    for key in needs:
        if not block.get(key):
            yield problem(root, at, f"a {kind} needs {' and '.join(needs)}; {key!r} is missing")
    for key in _CHILDREN:
        if block.get(key) is not None and key not in needs:
            yield problem(root, (*at, key), f"a {kind} has no {key!r}; allowed: {', '.join(needs) or 'none of these'}")
    inner = block.get("fields")
    if isinstance(inner, Items):
        yield from _fields(root, (*at, "fields"), inner, nested=True)
    for key in ("items", "keys", "values"):
        yield from _element_problems(root, (*at, key), block.get(key))
    keys = find(block, ("keys", "type")) or block.get("keys")
    if kind == "map" and isinstance(keys, Scalar) and keys != "string":
        yield problem(root, (*at, "keys"), "the keys of a JSON map are strings; write keys: string")
