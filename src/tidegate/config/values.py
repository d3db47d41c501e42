"""What a single value may be: text → whole number, flag, name, duration, choice … each with what is allowed.

A validator gets a :class:`~tidegate.config.tree.Scalar` and says what is wrong without quoting it; who
reports the problem adds the value, or hides it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from tidegate.config.problems import nearest, sentence
from tidegate.config.templates import period_problem
from tidegate.config.tree import Items, Scalar, plain
from tidegate.core.globs import compiled
from tidegate.schema.names import CONTAINERS, MADE_COLUMNS, RESCUED, SCALARS, decimal_of, name_problem
from tidegate.specs.locations import Options
from tidegate.specs.project import (
    Compression,
    Delivery,
    Evolution,
    Format,
    LateFiles,
    Lateness,
    Numbers,
    OnBadRecord,
    OnConflict,
    ParquetCodec,
)

Chosen = TypeVar("Chosen", bound=StrEnum)
NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_DURATION = re.compile(r"P(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?)?")
_PERIODS = re.compile(r"(\d{1,6})(?: periods?)?")
_SCHEMES = ("file", "s3", "s3a", "s3n", "gs", "gcs", "az", "azure", "abfs", "abfss", "adl", "memory")
_LARGEST = 2**53


def refusal(*parts: str) -> PydanticCustomError:
    """The error a validator raises: what the value is or must be; what is allowed; did you mean."""
    return PydanticCustomError("tidegate", "{text}", {"text": sentence(*parts)})


def text(value: object) -> str:
    """A value that is text and not empty."""
    if not isinstance(value, Scalar):
        raise refusal("must be a single value")
    if not value.strip() or any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise refusal("is empty or holds control characters", "allowed: text")
    return str(value)


def whole(value: object) -> int:
    """A whole number; its range belongs to the key."""
    digits = value.strip().replace("_", "") if isinstance(value, Scalar) else ""
    if not re.fullmatch(r"[+-]?[0-9]+", digits):
        raise refusal("is not a whole number")
    if len(digits) > 17 or abs(int(digits)) > _LARGEST:
        raise refusal("is too large", f"allowed: at most {_LARGEST}")
    return int(digits)


def fraction(value: object) -> float:
    """A share from 0 to 1."""
    words = value.strip() if isinstance(value, Scalar) else ""
    if not re.fullmatch(r"0|1|[01]?\.[0-9]{1,12}", words) or not 0 <= float(words) <= 1:
        raise refusal("is not a share", "allowed: a number from 0 to 1, such as 0.01")
    return float(words)


def flag(value: object) -> bool:
    """True or false, in the words of YAML."""
    found = _FLAGS.get(value.strip().lower()) if isinstance(value, Scalar) else None
    if found is None:
        raise refusal("is not a yes or no", "allowed: true, false")
    return found


def rescued(value: object) -> str | None:
    """The name of the column for what fits no other: ``true`` means ``_rescued``, ``false`` none."""
    word = text(value).strip()
    found = _FLAGS.get(word.lower())
    if found is not None:
        return RESCUED if found else None
    if wrong := name_problem(word):
        raise refusal(wrong)
    return word


def choice(allowed: tuple[str, ...], later: tuple[str, ...] = (), use: str = "") -> Callable[[object], str]:
    """One of ``allowed``; one of ``later`` is refused by name."""

    def chosen(value: object) -> str:
        word = str(value).strip() if isinstance(value, Scalar) else ""
        if word in allowed:
            return word
        if word in later:
            raise refusal("is not supported yet", use or f"allowed: {', '.join(allowed)}")
        raise refusal(f"is not one of {', '.join(allowed)}", nearest(word, (*allowed, *later)))

    return chosen


def name(value: object) -> str:
    """The name of a pipeline or source; it becomes part of paths and ids."""
    if not isinstance(value, str) or not re.fullmatch(NAME, value):
        raise refusal("is not a name", "allowed: letters, digits, '_', '.', '-', starting with a letter or digit")
    return str(value)


def template(value: object) -> str:
    """A strftime template of partition directories."""
    found = text(value).strip("/")
    if wrong := period_problem(found):
        raise refusal(wrong)
    return found


def directories(value: object) -> str:
    """A template of directories, without slashes around it."""
    return text(value).strip("/")


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


def lateness(value: object) -> Lateness:
    """``none``, a number of periods, or an ISO 8601 duration of days and hours."""
    word = value.strip() if isinstance(value, Scalar) else ""
    if word.lower() == "none":
        return Lateness(never=True)
    periods = _PERIODS.fullmatch(word)
    if periods and int(periods[1]):
        return Lateness(periods=int(periods[1]))
    duration = _DURATION.fullmatch(word)
    days, hours = (int(part or 0) for part in duration.groups()) if duration else (0, 0)
    if not days and not hours:
        raise refusal("is not a lateness", "allowed: '48 periods', 'P2D', 'P1DT12H', 'none'; above zero")
    return Lateness(fixed=timedelta(days=days, hours=hours))


def every(value: object) -> Lateness:
    """``none``, or an ISO 8601 duration of days and hours."""
    word = value.strip() if isinstance(value, Scalar) else ""
    if word.lower() != "none" and not _DURATION.fullmatch(word):
        raise refusal("is not a duration", "allowed: 'P1D', 'PT6H', 'P1DT12H', 'none'")
    return lateness(value)


def options(value: object) -> Options:
    """Names and texts whose values are never shown."""
    if not isinstance(value, Mapping):
        raise refusal("must be a mapping of names to texts")
    wrong = [str(name) for name, below in value.items() if not isinstance(below, Scalar)]
    if wrong:
        raise refusal(f"must be a mapping of names to texts; {', '.join(wrong)} is none")
    return Options(plain(value))


def address(value: object) -> str:
    """A path or an address of object storage, without credentials in it."""
    where = text(value)
    scheme, found, rest = where.partition("://")
    scheme = scheme.lower()
    if found and scheme not in _SCHEMES:
        allowed = ", ".join(f"{name}://" for name in _SCHEMES)
        raise refusal("is an address of an unknown kind", f"allowed: a path, {allowed}", nearest(scheme, _SCHEMES))
    authority = rest.partition("/")[0]
    if ":" in authority.partition("@")[0] and "@" in authority:
        raise refusal("holds credentials", "put them into storage_options")
    if found and ("?" in rest or "#" in rest):
        raise refusal("holds '?' or '#'", "allowed: a plain address; settings belong into storage_options")
    if found and scheme != "file" and not authority:
        raise refusal("names no bucket", f"allowed: {scheme}://bucket/prefix")
    return where


def texts(value: object) -> tuple[str, ...]:
    """A list of texts; a single one stands for itself."""
    if isinstance(value, Scalar):
        return (text(value),)
    if not isinstance(value, Items):
        raise refusal("must be a list of texts")
    return tuple(text(item) for item in value)


def cells(value: object) -> tuple[str, ...]:
    """A list of texts, which may be empty ones; a single one stands for itself."""
    items = value if isinstance(value, Items) else [value]
    if not all(isinstance(item, Scalar) for item in items):
        raise refusal("must be a list of texts", "put words such as NULL in quotes")
    return tuple(str(item) for item in items)


def character(value: object) -> str:
    """One ASCII character; ``tab`` is the word for a tab."""
    found = str(value) if isinstance(value, Scalar) else ""
    found = "\t" if found == "tab" else found
    if len(found) != 1 or not (found == "\t" or " " <= found <= "~"):
        raise refusal("is not one character", "allowed: one ASCII character, or tab")
    return found


def character_or_none(value: object) -> str:
    """The same, or ``none``."""
    return "none" if isinstance(value, Scalar) and value == "none" else character(value)


def glob(value: object) -> str:
    """A glob over paths below a source."""
    pattern = text(value)
    try:
        compiled(pattern)
    except re.error:
        raise refusal("is not a glob", "allowed: text with *, **, ?, [a-z]") from None
    if pattern.startswith("/"):
        raise refusal("starts with '/'", "allowed: a name, or a path below source_uri")
    return pattern


def globs(value: object) -> tuple[str, ...]:
    """A list of globs; a single one stands for itself."""
    texts(value)
    return tuple(glob(item) for item in (value if isinstance(value, Items) else [value]))


def columns(value: object) -> tuple[str, ...]:
    """Names of metadata columns, each once."""
    found = texts(value)
    for name in found:
        if name not in METADATA_COLUMNS:
            raise refusal(
                f"holds an unknown column; allowed: {', '.join(METADATA_COLUMNS)}",
                nearest(name, METADATA_COLUMNS),
            )
    return tuple(name for name in METADATA_COLUMNS if name in found)


METADATA_COLUMNS = MADE_COLUMNS


def master(value: object) -> str:
    """Where Spark runs."""
    where = text(value)
    if not re.fullmatch(r"local(\[.+\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+", where):
        raise refusal("is not a Spark master", "allowed: local, local[N], local[*], spark://host:port, yarn, k8s://…")
    return where


def remote(value: object) -> str:
    """A Spark Connect server."""
    where = text(value)
    if not re.fullmatch(r"sc://.+|local(\[.+\])?", where):
        raise refusal("is not a Spark Connect address", "allowed: sc://host:port")
    return where


def query(value: object) -> str:
    """A SQL query, over as many lines as it takes."""
    found = str(value).strip() if isinstance(value, Scalar) else ""
    if not re.match(r"(?:--[^\n]*\n\s*)*\(*\s*(?:select|with|from|values)\b", found, re.IGNORECASE):
        raise refusal("is not a query", "allowed: select … from source")
    return found


def function(value: object) -> str:
    """``module:function``."""
    found = text(value).strip()
    if not re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", found, re.ASCII):
        raise refusal("is not module:function", "allowed: such as my_package.cleaning:clean")
    return found


def listening(value: object) -> str:
    """``host:port``."""
    where = text(value)
    host, _, port = where.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise refusal("is not an address to listen at", "allowed: host:port, such as 127.0.0.1:9090")
    return where


def table_properties(value: object) -> dict[str, str]:
    """Properties of a Delta table; which of them may be set is looked at elsewhere, so that all are told at once."""
    return dict(options(value))


def one_of(kind: type[Chosen]) -> BeforeValidator:
    """One of the values of ``kind``."""
    return BeforeValidator(choice(tuple(each.value for each in kind)))


Text = Annotated[str, BeforeValidator(text)]
Glob = Annotated[str, BeforeValidator(glob)]
Globs = Annotated[
    tuple[str, ...],
    BeforeValidator(globs),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Texts = Annotated[tuple[str, ...], BeforeValidator(texts)]
Cells = Annotated[tuple[str, ...], BeforeValidator(cells)]
Character = Annotated[str, BeforeValidator(character)]
CharacterOrNone = Annotated[str, BeforeValidator(character_or_none)]
Name = Annotated[str, BeforeValidator(name)]
Template = Annotated[str, BeforeValidator(template)]
Directories = Annotated[str, BeforeValidator(directories)]
TypeName = Annotated[str, BeforeValidator(type_name)]
Whole = Annotated[int, BeforeValidator(whole)]
Count = Annotated[int, BeforeValidator(whole), Field(ge=1, le=2**31 - 1)]
CountOrNone = Annotated[int, BeforeValidator(whole), Field(ge=0, le=2**31 - 1)]
Fraction = Annotated[float, BeforeValidator(fraction), Field(ge=0, le=1)]
Flag = Annotated[bool, BeforeValidator(flag)]
Address = Annotated[str, BeforeValidator(address)]
Master = Annotated[str, BeforeValidator(master)]
Remote = Annotated[str, BeforeValidator(remote)]
Query = Annotated[str, BeforeValidator(query)]
Function = Annotated[str, BeforeValidator(function)]
Listening = Annotated[str, BeforeValidator(listening)]
SecretOptions = Annotated[
    Options,
    BeforeValidator(options),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}),
]
EveryText = Annotated[Lateness, BeforeValidator(every), WithJsonSchema({"type": "string"})]
TableProperties = Annotated[
    dict[str, str],
    BeforeValidator(table_properties),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}),
]
LatenessText = Annotated[Lateness, BeforeValidator(lateness), WithJsonSchema({"type": ["string", "integer"]})]
MetadataColumns = Annotated[
    tuple[str, ...],
    BeforeValidator(columns),
    WithJsonSchema({"type": "array", "items": {"enum": list(METADATA_COLUMNS)}}),
]
SourceCompression = Annotated[Compression, one_of(Compression)]
FileFormat = Annotated[Format, one_of(Format)]
Encoding = Annotated[Literal["utf-8"], BeforeValidator(choice(("utf-8",)))]
Codec = Annotated[ParquetCodec, one_of(ParquetCodec)]
Late = Annotated[LateFiles, one_of(LateFiles)]
EvolutionMode = Annotated[Evolution, one_of(Evolution)]
RescuedColumn = Annotated[str, BeforeValidator(rescued), WithJsonSchema({"type": ["string", "boolean"]})]
NumbersMode = Annotated[Numbers, one_of(Numbers)]
BadRecordMode = Annotated[OnBadRecord, one_of(OnBadRecord)]
FilesOnly = Annotated[Literal["files"], BeforeValidator(choice(("files",)))]
DeliveryMode = Annotated[Delivery, one_of(Delivery)]
ConflictMode = Annotated[OnConflict, one_of(OnConflict)]
