"""What a single value of a connection, a source that is followed by columns, or a load strategy may be.

As in ``values``: a validator says what is wrong without quoting the value.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from pydantic import BeforeValidator, WithJsonSchema

from tidegate.config.problems import nearest
from tidegate.config.tree import Block, Items, Node, Scalar
from tidegate.config.values import choice, one_of, options, refusal, text, texts
from tidegate.specs.columns import (
    AuthKind,
    LoadType,
    NullWatermark,
    PaginationKind,
    ParamFormat,
    ProviderKind,
    TableFormat,
    WatermarkMode,
)
from tidegate.specs.jdbc_addresses import holds_credentials
from tidegate.specs.locations import NotOrigin, Secret, origin_of
from tidegate.specs.masking import looks_secret

_TIME = re.compile(r"P(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?")
_COORDINATE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+", re.ASCII)
_PATH = re.compile(r"[^.\s]+(?:\.[^.\s]+)*")
_WORDS = {"true": True, "false": False}
_HTTP_METHODS = ("GET", "POST")


def number(value: object) -> int | Decimal:
    """A number from 0 on, exactly as it is written."""
    words = value.strip() if isinstance(value, Scalar) else ""
    if not re.fullmatch(r"[0-9]{1,30}(?:\.[0-9]{1,18})?", words, re.ASCII):
        raise refusal("is not a number from 0 on")
    return Decimal(words) if "." in words else int(words)


def seconds(value: object) -> float:
    """A number of seconds, above zero."""
    found = float(number(value))
    if not 0 < found <= 86_400:
        raise refusal("is not a number of seconds", "allowed: above 0, at most 86400")
    return found


def lag(value: object) -> timedelta | None:
    """An ISO 8601 duration of days, hours, minutes and seconds; ``none``."""
    word = value.strip() if isinstance(value, Scalar) else ""
    if word.lower() == "none":
        return None
    match = _TIME.fullmatch(word)
    days, hours, minutes, rest = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    found = timedelta(days=days, hours=hours, minutes=minutes, seconds=rest)
    if not found:
        raise refusal("is not a duration", "allowed: 'PT5M', 'PT90S', 'PT2H', 'P1D', 'none'; above zero")
    return found


def sink_format(value: object) -> str:
    """Delta, the only format that is written; folders of Parquet files were, too, in earlier releases."""
    if isinstance(value, Scalar) and value.strip() == "parquet":
        raise refusal(
            "is no longer supported, since a folder of Parquet files has no log to commit to",
            "set format: delta and another table_uri, and see decision 0021 for the rows that are there",
        )
    return choice(("delta",))(value)


def zone(value: object) -> str:
    """The name of a time zone."""
    name = text(value).strip()
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        hint = nearest(name, available_timezones())
        raise refusal("is not a time zone", hint or "allowed: UTC, Europe/Berlin …") from None
    return name


def column_names(value: object) -> tuple[str, ...]:
    """Names of columns, each once whatever the case of its letters; a single one stands for itself."""
    found = texts(value)
    if len({name.lower() for name in found}) < len(found):
        raise refusal("names a column twice", "allowed: each once")
    return found


def secret(value: object) -> Secret:
    """A text that is never shown."""
    if not isinstance(value, Scalar):
        raise refusal("must be a single value")
    if not value:
        raise refusal("is empty", "allowed: text, or leave the key out")
    return Secret(str(value))


def jdbc_url(value: object) -> str:
    """The address of a database, without credentials in it."""
    where = text(value).strip()
    if not re.match(r"jdbc:[a-z0-9]+(?:[+_.-][a-z0-9]+)*:.", where) or not where.isprintable():
        raise refusal("is not a JDBC address", "allowed: such as jdbc:postgresql://host:5432/database")
    if "${" in where:
        raise refusal(
            "holds '${'", "allowed: an address; variables of the environment are filled in unless '$' is doubled"
        )
    if holds_credentials(where):
        raise refusal("holds credentials", "put them into user, password and properties")
    return where


def http_url(value: object) -> str:
    """The address that all paths of an API begin with, without credentials, parameters and a slash at its end."""
    where = text(value).strip()
    if not re.match(r"https?://[^/?#\s]+", where):
        raise refusal("is not an HTTP address", "allowed: such as https://api.example.org/v1")
    if "@" in where.split("/")[2]:
        raise refusal("holds credentials", "put them into auth")
    if "?" in where or "#" in where:
        raise refusal("holds '?' or '#'", "allowed: a plain address; parameters belong into params")
    try:
        origin_of(where)
    except NotOrigin as error:
        raise refusal(f"is not an HTTP address: {error}", "allowed: such as https://api.example.org/v1") from None
    return where.rstrip("/")


def origins(value: object) -> tuple[str, ...]:
    """Servers by scheme, host and port; a single one stands for itself."""
    found = []
    for each in texts(value):
        try:
            origin = origin_of(each)
        except NotOrigin as error:
            raise refusal(f"holds what is no server: {error}", "allowed: such as https://files.example.org") from None
        if each.rstrip("/").count("/") > 2 or "?" in each or "#" in each:
            raise refusal("holds more than a server", f"allowed: {origin}")
        found.append(str(origin))
    return tuple(dict.fromkeys(found))


def http_path(value: object) -> str:
    """What follows the address of an API."""
    path = text(value).strip()
    if "{{" in path:
        raise refusal("holds '{{…}}'", "variables belong to units; give 'watermark', or a plain path")
    if "://" in path or "?" in path or "#" in path:
        raise refusal("is not a path", "allowed: such as /orders; parameters belong into params")
    return "/" + path.lstrip("/")


def place(value: object) -> str:
    """The way to something in an answer: names with dots between them."""
    found = text(value).strip()
    if not _PATH.fullmatch(found):
        raise refusal("is not a path of names", "allowed: such as data, or paging.next")
    return found


def param_format(value: object) -> str:
    """A name of the formats, or a strftime pattern."""
    found = text(value)
    names = tuple(each.value for each in ParamFormat)
    if found not in names and "%" not in found:
        raise refusal(
            f"is not one of {', '.join(names)}", nearest(found, names) or "or a strftime pattern, such as %Y-%m-%d"
        )
    return found


def packages(value: object) -> tuple[str, ...]:
    """Maven coordinates."""
    found = texts(value)
    if not all(_COORDINATE.fullmatch(each) for each in found):
        raise refusal("holds what is not a Maven coordinate", "allowed: group:artifact:version")
    return found


def names_to_texts(value: object) -> dict[str, str]:
    """Names and texts that may be shown."""
    return dict(options(value))


def params(value: object) -> dict[str, str]:
    """Parameters of a request; a key that looks like a secret belongs into the credentials."""
    found = names_to_texts(value)
    for name in found:
        if looks_secret(name):
            raise refusal(f"holds {name!r}", "put it into the connection's auth: {type: api_key, place: params, …}")
    return found


def json_object(value: object) -> dict[str, object]:
    """An object of JSON; numbers and flags are those without quotes."""
    if not isinstance(value, Block):
        raise refusal("must be a mapping")
    found = _json(value)
    assert isinstance(found, dict)
    return found


def _json(node: Node) -> object:
    match node:
        case Block():
            return {str(name): _json(below) for name, below in node.items()}
        case Items():
            return [_json(below) for below in node]
        case Scalar() if not node.quoted:
            return _plain(str(node))
        case Scalar():
            return str(node)
        case None:
            return None


def _plain(word: str) -> object:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if re.fullmatch(r"[+-]?(?:0|[1-9][0-9]{0,17})", word, re.ASCII):
        return int(word)
    if re.fullmatch(r"[+-]?[0-9]{1,17}\.[0-9]{1,17}", word, re.ASCII):
        return float(word)
    return word


_OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
_STRING = WithJsonSchema({"type": "string"})
_LIST = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})

Number = Annotated[int | Decimal, BeforeValidator(number), WithJsonSchema({"type": "number", "minimum": 0})]
Seconds = Annotated[float, BeforeValidator(seconds), WithJsonSchema({"type": "number"})]
Lag = Annotated[timedelta | None, BeforeValidator(lag), _STRING]
Zone = Annotated[str, BeforeValidator(zone)]
Columns = Annotated[tuple[str, ...], BeforeValidator(column_names), _LIST]
SecretText = Annotated[Secret, BeforeValidator(secret), WithJsonSchema({"type": ["string", "number"]})]
JdbcUrl = Annotated[str, BeforeValidator(jdbc_url)]
Origins = Annotated[tuple[str, ...], BeforeValidator(origins), _LIST]
HttpUrl = Annotated[str, BeforeValidator(http_url)]
HttpPath = Annotated[str, BeforeValidator(http_path)]
Place = Annotated[str, BeforeValidator(place)]
ParamFormatText = Annotated[str, BeforeValidator(param_format)]
Packages = Annotated[tuple[str, ...], BeforeValidator(packages), _LIST]
Names = Annotated[dict[str, str], BeforeValidator(names_to_texts), WithJsonSchema(_OBJECT)]
Params = Annotated[dict[str, str], BeforeValidator(params), WithJsonSchema(_OBJECT)]
Body = Annotated[dict[str, object], BeforeValidator(json_object), WithJsonSchema({"type": "object"})]
Method = Annotated[Literal["GET", "POST"], BeforeValidator(choice(_HTTP_METHODS))]
AuthPlace = Annotated[Literal["header", "params"], BeforeValidator(choice(("header", "params")))]
ParamLocation = Annotated[Literal["params", "body"], BeforeValidator(choice(("params", "body")))]
JdbcType = Annotated[Literal["jdbc"], BeforeValidator(choice(("jdbc",)))]
HttpType = Annotated[Literal["http"], BeforeValidator(choice(("http",)))]
PythonType = Annotated[Literal["python"], BeforeValidator(choice(("python",)))]
TableType = Annotated[TableFormat, one_of(TableFormat)]
Mode = Annotated[WatermarkMode, one_of(WatermarkMode)]
Nulls = Annotated[NullWatermark, one_of(NullWatermark)]
Auth = Annotated[AuthKind, one_of(AuthKind)]
Pages = Annotated[PaginationKind, one_of(PaginationKind)]
LoadKind = Annotated[LoadType, one_of(LoadType)]
Provider = Annotated[ProviderKind, one_of(ProviderKind)]
SinkFormat = Annotated[Literal["delta"], BeforeValidator(sink_format)]
