"""The columns of a pipeline: declared, or inferred from the first files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from tidegate.config import values as v
from tidegate.config.document import Block, Items, Loc, Node, Problem, Scalar, Spot, find, nearest, problem
from tidegate.config.models import Model, dump, entry, fields, fill, short_for
from tidegate.config.values import FLAGS, refusal, text
from tidegate.schema.names import CONTAINERS, MOST_LEVELS, RESCUED, SCALARS, decimal_of, name_problem
from tidegate.specs.project import Evolution, FieldSpec, Numbers, SchemaSpec

_NEEDS = {"struct": ("fields",), "list": ("items",), "map": ("keys", "values")}
_CHILDREN = ("fields", "items", "keys", "values")
_FALSE = ("false", "no", "off")
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


def rescued(value: object) -> str | None:
    """The name of the rescued column: ``true`` means ``_rescued``, ``false`` none."""
    word = text(value).strip()
    found = FLAGS.get(word.lower())
    if found is not None:
        return RESCUED if found else None
    if wrong := name_problem(word):
        raise refusal(wrong)
    return word


TypeName = Annotated[str, BeforeValidator(type_name)]
RescuedColumn = Annotated[str, BeforeValidator(rescued), WithJsonSchema({"type": ["string", "boolean"]})]


class ElementModel(Model):
    """The type of list items, map keys and map values; a type name alone is short for it."""

    type: TypeName = entry("A name of the type list.")
    nullable: v.Flag = entry("Whether null is allowed.", True)
    fields: tuple[FieldModel, ...] = entry("The fields of a struct.", ())
    items: Element | None = entry("The items of a list.", None)
    keys: Element | None = entry("The keys of a map: string.", None)
    values: Element | None = entry("The values of a map.", None)

    def field(self, name: str) -> FieldSpec:
        """The type as a named field."""
        children = {"items": "element", "keys": "key", "values": "value"}
        inner = {key: child.field(word) for key, word in children.items() if (child := getattr(self, key)) is not None}
        return FieldSpec(name, self.type, self.nullable, tuple(each.field(each.name) for each in self.fields), **inner)

    @classmethod
    def show(cls, spec: FieldSpec) -> dict[str, Any]:
        """The type; of its children only those it has."""
        inner = {key: child for key in ("items", "keys", "values") if (child := getattr(spec, key)) is not None}
        given: dict[str, Any] = {"fields": [FieldModel.show(child) for child in spec.fields]} if spec.fields else {}
        given |= {key: ElementModel.show(child) for key, child in inner.items()}
        return dump(cls, spec, (*(("name",) if cls is FieldModel else ()), "type", "nullable", *given), given)


class FieldModel(ElementModel):
    """One column, or one field of a struct."""

    name: v.Text = entry("The name of the column.")


Element = Annotated[ElementModel, short_for("type")]


class SchemaModel(Model):
    """The columns: declared, or inferred from the first files."""

    fields: tuple[FieldModel, ...] = entry("The declared columns, in order.", ())
    infer: v.Flag = entry("Infers the columns from samples; the default without fields.", False)
    coerce_conflicts_to_utf8: v.Flag = entry("Keeps values that do not fit a string column as JSON text.", False)
    numbers: Numbers = entry(
        "strict: values that would lose digits are bad records; lenient: whole numbers and decimals are cut, floats"
        " rounded, to infinity or 0 if they must be.",
        Numbers.STRICT,
    )
    rescued: RescuedColumn | None = entry(
        "The text column for fields and values that fit no other column, as JSON: a name, or true for _rescued.", None
    )

    def schema_spec(self, evolution: Evolution) -> SchemaSpec:
        """The columns; inferred if none are declared."""
        declared = tuple(each.field(each.name) for each in self.fields)
        return fill(SchemaSpec, self, fields=declared, infer=not declared, evolution=evolution)

    @classmethod
    def show(cls, spec: SchemaSpec) -> dict[str, Any]:
        """The columns, if they are declared, and how values become them."""
        given = {"fields": [FieldModel.show(each) for each in spec.fields]}
        return dump(cls, spec, [key for key in fields(cls) if key != "fields" or spec.fields], given)


def declared_types(pipeline: Spot) -> dict[str, str]:
    """Type by name of the declared columns; nothing where they are inferred."""
    found = pipeline.below("schema").get("fields")
    blocks = [item for item in found if isinstance(item, Block)] if isinstance(found, Items) else []
    return {str(each.text("name") or ""): str(each.text("type") or "") for each in blocks}


def schema_problems(schema: Spot) -> Iterator[Problem]:
    """Problems of one schema block: each name once, containers with what they contain."""
    infer, found = schema.text("infer"), schema.get("fields")
    declared = isinstance(found, Items) and bool(found)
    if infer is not None and infer.lower() not in _FALSE and declared:
        yield schema.problem("given together with 'fields'; remove one of the two", "infer")
    if infer is not None and infer.lower() in _FALSE and not declared:
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
