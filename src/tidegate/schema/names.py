"""Type names, column names and the JSON form of declared columns; standard library only."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate.errors import EnvironmentProblem, SchemaMismatch, TidegateError
from tidegate.specs.table import FieldSpec

SCALARS = (
    "string",
    "int32",
    "int64",
    "float32",
    "float64",
    "boolean",
    "timestamp",
    "date",
    "json",
    "binary",
)
CONTAINERS = ("struct", "list", "map")

MOST_LEVELS = 32
"""How deep structs, lists and maps may lie inside each other, the column itself counted.

What is nested deeper can be written, and then not every reader can open it again: pyarrow refuses Parquet files from
about 46 nested lists on, the Delta library tables from about 41 nested structs on.
"""

MOST_COLUMNS = 20_000
"""A file with more columns contributes none when columns are inferred: nobody wants them as a table."""

UNFIT = " ,;{}()\n\t=" + "".join(map(chr, (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))))
"""Characters that neither Parquet nor a Delta table without column mapping has in a name, and all control characters:
Arrow hands names to other libraries up to the first zero character.
"""

CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""Columns of Delta's change data feed: a table with one of its own cannot have a feed."""

MADE_COLUMNS = ("_source_file", "_source_record", "_ingested_at")
"""Columns that ``sink.metadata_columns`` adds."""

RESCUED = "_rescued"
"""The column for what fits no other, unless ``schema.rescued`` names it."""

_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")


def decimal_of(type_name: str) -> tuple[int, int] | None:
    """Precision and scale of ``decimal(p,s)``; None for every other type.

    >>> decimal_of("decimal(10,2)")
    (10, 2)
    """
    match = _DECIMAL.fullmatch(type_name)
    if match is None:
        return None
    precision, scale = int(match[1]), int(match[2])
    # Delta's decimals end at 38 digits.
    return (precision, scale) if 1 <= precision <= 38 and scale <= precision else None


def name_problem(name: str, *, nested: bool = False, rescue: bool = True) -> str | None:
    """Why no column can have this name, and what to do; None for a good one. Fields of structs may use more.

    ``rescue`` says whether ``schema.rescued`` would help.

    >>> name_problem("user name")
    "contains ' ', which no column name may contain; write the field as 'user_name', or keep it with schema.rescued"
    """
    if not name:
        return "is empty; give it a name"
    wrong = next((letter for letter in UNFIT if letter in name), None)
    if wrong is not None:
        better = fit_name(name)
        ways = [f"write the field as {better!r}"] * bool(better) + ["keep it with schema.rescued"] * rescue
        return f"contains {wrong!r}, which no column name may contain; {', or '.join(ways) or 'rename it'}"
    if nested:
        return None
    if name.lower() in CHANGE_COLUMNS:
        return f"is a column of Delta's change data feed; write the field as {name.lstrip('_')!r}"
    if name.lower() in MADE_COLUMNS:
        return f"is a column that sink.metadata_columns adds; write the field as {name.lstrip('_')!r}"
    return None


def fit_name(name: str) -> str:
    """``name`` with an underscore for what a table cannot have in a name; empty where nothing is left.

    >>> fit_name("total (EUR)")
    'total_EUR'
    """
    return re.sub(f"[{re.escape(UNFIT)}]+", "_", name).strip("_") if set(UNFIT) & set(name) else name


def problems(fields: Iterable[FieldSpec], where: str = "") -> Iterator[str]:
    """What is wrong with these declarations, one line per problem, each with the path of the field."""
    seen: dict[str, str] = {}
    for field in fields:
        path = f"{where}{field.name}"
        if wrong := name_problem(field.name, nested=bool(where)):
            yield f"{where}{field.name!r} {wrong}"
        if field.name.lower() in seen:
            twin = seen[field.name.lower()]
            yield f"{path}: declared twice (as {twin!r}); columns differ in more than upper and lower case"
        seen[field.name.lower()] = field.name
        yield from _type_problems(field, path)
        if not where and (found := levels(field)) > MOST_LEVELS:
            yield (
                f"{path}: nested {found} levels deep; a table that can be read again has at most {MOST_LEVELS}: "
                "declare an inner field as json"
            )


def levels(field: FieldSpec) -> int:
    """How deep a column is nested: 0 for a scalar.

    >>> levels(FieldSpec("tags", "list", items=FieldSpec("element", "string")))
    1
    """
    inner = [*field.fields, *(child for child in (field.items, field.keys, field.values) if child is not None)]
    return 1 + max(map(levels, inner)) if inner else 0


def _type_problems(field: FieldSpec, path: str) -> Iterator[str]:
    children = {"struct": bool(field.fields), "list": field.items is not None}
    children["map"] = field.keys is not None and field.values is not None
    if field.type in CONTAINERS:
        if not children[field.type]:
            needs = {"struct": "fields", "list": "items", "map": "keys and values"}[field.type]
            yield f"{path}: a {field.type} needs {needs}"
        if field.type == "map" and field.keys is not None and field.keys.type != "string":
            yield f"{path}: the keys of a map are strings (JSON has no others), not {field.keys.type!r}"
    elif field.type not in SCALARS and decimal_of(field.type) is None:
        known = ", ".join((*SCALARS, "decimal(p,s)", *CONTAINERS))
        yield f"{path}: unknown type {field.type!r}; one of {known}"
    yield from problems(field.fields, f"{path}.")
    for child, name in ((field.items, "items"), (field.keys, "keys"), (field.values, "values")):
        if child is not None:
            yield from _type_problems(child, f"{path}.{name}")


def check(fields: tuple[FieldSpec, ...]) -> None:
    """Raise one error that names every problem of these declarations."""
    found = tuple(problems(fields))
    if found:
        raise TidegateError("schema: " + "; ".join(found), "correct schema.fields")


def field_to_json(field: FieldSpec) -> dict[str, Any]:
    """One declared column as JSON data."""
    data: dict[str, Any] = {"name": field.name, "type": field.type, "nullable": field.nullable}
    if field.fields:
        data["fields"] = [field_to_json(child) for child in field.fields]
    for key in ("items", "keys", "values"):
        child = getattr(field, key)
        if child is not None:
            data[key] = field_to_json(child)
    return data


def field_from_json(data: Mapping[str, Any]) -> FieldSpec:
    """The column that :func:`field_to_json` wrote."""

    def child(key: str) -> FieldSpec | None:
        return field_from_json(data[key]) if key in data else None

    return FieldSpec(
        name=data["name"],
        type=data["type"],
        nullable=data.get("nullable", True),
        fields=tuple(field_from_json(item) for item in data.get("fields", ())),
        items=child("items"),
        keys=child("keys"),
        values=child("values"),
    )


def yaml_lines(fields: Iterable[FieldSpec]) -> Iterator[str]:
    """Columns as a configuration has them, each on one line.

    >>> list(yaml_lines([FieldSpec("id", "int64"), FieldSpec("tags", "list", items=FieldSpec("element", "string"))]))
    ['{name: id, type: int64}', '{name: tags, type: list, items: string}']
    """
    return (_flow(_short(field)) for field in fields)


def _short(field: FieldSpec, *, named: bool = True) -> Any:
    """A column without defaults; only the type if nothing else is left."""
    data = field_to_json(field)
    shorter: dict[str, Any] = {"name": field.name} if named else {}
    shorter["type"] = field.type
    if not data["nullable"]:
        shorter["nullable"] = False
    if field.fields:
        shorter["fields"] = [_short(child) for child in field.fields]
    for key in ("items", "keys", "values"):
        child = getattr(field, key)
        if child is not None:
            shorter[key] = _short(child, named=False)
    return field.type if shorter.keys() == {"type"} else shorter


def _flow(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case str() if value.isidentifier() and value.lower() not in _YAML_WORDS:
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)


# YAML 1.1 reads these words as booleans or null.
_YAML_WORDS = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")


def explain_forbidden(path: str) -> str:
    """The remedy for a field named like a partition column that comes from the path."""
    return (
        f"{path!r} is also the key of sink.partition_by, whose value comes from the path: that would give two values; "
        f"rename the field where it is written, or take its value: "
        f"`partition_by: {{prefix_template: {path}, column: {path}}}`"
    )


DECLARE_OTHERS = "declare schema.fields with the columns you want; Tidegate leaves out and counts all others"
"""What helps against names that a table cannot have."""


def table_names(names: Sequence[str], forbidden: Sequence[str] = ()) -> tuple[str, ...]:
    """The columns that a file's columns become: a name that a table cannot have is written with underscores.

    It stays as it is where another column of the file has, or would get, the same name, or where it is ``forbidden``:
    which column is meant must not depend on their order.

    >>> table_names(["Order Date", "total (EUR)", "a b", "a_b", "c d", "c(d"])
    ('Order_Date', 'total_EUR', 'a b', 'a_b', 'c d', 'c(d')
    """
    fitted = [fit_name(name) for name in names]
    taken = Counter(name.lower() for name in (*fitted, *forbidden))
    return tuple(
        better if better and taken[better.lower()] == 1 else name for name, better in zip(names, fitted, strict=True)
    )


def column_problems(names: Sequence[str], forbidden: tuple[str, ...]) -> list[str]:
    """What is wrong with the names of a file's columns, a sentence each; ``forbidden`` ones come from the path.

    >>> column_problems(["id", "ID", ""], ())
    ["'ID' differs from another column only in upper and lower case", "'' is empty; give it a name"]
    """
    first = {name.lower(): name for name in reversed(names)}
    problems = []
    for name in names:
        if first[name.lower()] != name:
            problems.append(f"{name!r} differs from another column only in upper and lower case")
        if name in forbidden:
            problems.append(explain_forbidden(name))
        if wrong := name_problem(name, rescue=False):
            problems.append(f"{name!r} {wrong}")
    return problems


def spell(name: str, names: Sequence[str]) -> str:
    """``name`` as the rows spell it: exactly, or the only one of ``names`` that differs in upper and lower case.

    ``name`` itself where there is none, ``SchemaMismatch`` where it may be one of several.

    >>> spell("updated_at", ["ID", "Updated_At"])
    'Updated_At'
    """
    if name in names:
        return name
    alike = [each for each in names if each.lower() == name.lower()]
    if len(alike) > 1:
        raise SchemaMismatch(
            f"column {name!r} could be {' or '.join(map(repr, alike))}", "spell it exactly like one of them"
        )
    return alike[0] if alike else name


def avro_library() -> Any:
    """The library that reads Avro; raises :class:`EnvironmentProblem` where it is not installed."""
    try:
        import fastavro
    except ImportError as error:
        raise EnvironmentProblem("reading Avro files needs fastavro", "pip install 'tidegate[avro]'") from error
    return fastavro


def merge_fields(known: tuple[FieldSpec, ...], seen: tuple[FieldSpec, ...]) -> tuple[FieldSpec, ...]:
    """``known``, each with the new fields inside it, then the new ones; a known type is never changed."""
    found = {field.name: field for field in seen}
    names = {field.name.lower() for field in known}
    # A remembered type never changes by itself: rows with the old one are in the table.
    grown = tuple(_grow_field(field, found[field.name]) if field.name in found else field for field in known)
    return grown + tuple(field for field in seen if field.name.lower() not in names)


def _grow_field(known: FieldSpec, seen: FieldSpec) -> FieldSpec:
    if known.type != seen.type:
        return known
    if known.type == "struct":
        return replace(known, fields=merge_fields(known.fields, seen.fields))
    if known.items is not None and seen.items is not None:
        return replace(known, items=_grow_field(known.items, seen.items))
    return known
