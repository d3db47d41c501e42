"""What a single value may be: text → whole number, flag, name, duration, choice … each with what is allowed.

These values belong to more than one section; others are beside their models. A validator gets a
:class:`~tidegate.config.document.Scalar` and says what is wrong without quoting it. The reporter of the problem adds
the value, or hides it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from tidegate.config.document import Items, Scalar, nearest, sentence
from tidegate.core.files.paths import compile_glob
from tidegate.specs.columns import ParamFormat
from tidegate.specs.locations import Options, Secret

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
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
        raise refusal("is empty or contains control characters", "allowed: text")
    return str(value)


def texts(value: object) -> tuple[str, ...]:
    """A list of texts; a single text counts as a list of one."""
    if isinstance(value, Scalar):
        return (text(value),)
    if not isinstance(value, Items):
        raise refusal("must be a list of texts")
    return tuple(text(item) for item in value)


def whole(value: object) -> int:
    """A whole number; its range belongs to the key."""
    digits = value.strip().replace("_", "") if isinstance(value, Scalar) else ""
    if not re.fullmatch(r"[+-]?[0-9]+", digits):
        raise refusal("is not a whole number")
    if len(digits) > 17 or abs(int(digits)) > _LARGEST:
        raise refusal("is too large", f"allowed: at most {_LARGEST}")
    return int(digits)


def flag(value: object) -> bool:
    """True or false, in the words of YAML."""
    found = FLAGS.get(value.strip().lower()) if isinstance(value, Scalar) else None
    if found is None:
        raise refusal("is not a yes or no", "allowed: true, false")
    return found


def number(value: object) -> int | Decimal:
    """A number from 0 on, exactly as it is written."""
    words = value.strip() if isinstance(value, Scalar) else ""
    if not re.fullmatch(r"[0-9]{1,30}(?:\.[0-9]{1,18})?", words, re.ASCII):
        raise refusal("is not a number of 0 or more")
    return Decimal(words) if "." in words else int(words)


def seconds(value: object) -> float:
    """A number of seconds, above zero."""
    found = float(number(value))
    if not 0 < found <= 86_400:
        raise refusal("is not a number of seconds", "allowed: above 0, at most 86400")
    return found


def zone(value: object) -> str:
    """The name of a time zone."""
    name = text(value).strip()
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        hint = nearest(name, available_timezones())
        raise refusal("is not a time zone", hint or "allowed: UTC, Europe/Berlin …") from None
    return name


def fraction(value: object) -> float:
    """A share from 0 to 1."""
    words = value.strip() if isinstance(value, Scalar) else ""
    if not re.fullmatch(r"0|1|[01]?\.[0-9]{1,12}", words) or not 0 <= float(words) <= 1:
        raise refusal("is not a share", "allowed: a number from 0 to 1, such as 0.01")
    return float(words)


def choose(value: object, *allowed: str) -> str:
    """One of ``allowed``."""
    word = str(value).strip() if isinstance(value, Scalar) else ""
    if word not in allowed:
        raise refusal(f"is not one of {', '.join(allowed)}", nearest(word, allowed))
    return word


def name(value: object) -> str:
    """The name of a pipeline or source; it becomes part of paths and ids."""
    if not isinstance(value, str) or not re.fullmatch(NAME, value):
        raise refusal("is not a name", "allowed: letters, digits, '_', '.', '-', starting with a letter or digit")
    return str(value)


def options(value: object) -> Options:
    """Names and texts whose values are never shown."""
    return Options(names_to_texts(value))


def names_to_texts(value: object) -> dict[str, str]:
    """Names and texts that may be shown."""
    if not isinstance(value, Mapping):
        raise refusal("must be a mapping of names to texts")
    wrong = [str(name) for name, below in value.items() if not isinstance(below, Scalar)]
    if wrong:
        raise refusal(f"must be a mapping of names to texts; {', '.join(wrong)} is not a text")
    return {str(name): str(below) for name, below in value.items()}


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
        raise refusal("contains credentials", "put them into storage_options")
    if found and ("?" in rest or "#" in rest):
        raise refusal("contains '?' or '#'", "put settings into storage_options")
    if found and scheme != "file" and not authority:
        raise refusal("names no bucket", f"allowed: {scheme}://bucket/prefix")
    return where


def glob(value: object) -> str:
    """A glob over paths below a source."""
    pattern = text(value)
    try:
        compile_glob(pattern)
    except re.error:
        raise refusal("is not a glob", "allowed: text with *, **, ?, [a-z]") from None
    if pattern.startswith("/"):
        raise refusal("starts with '/'", "allowed: a name, or a path below source_uri")
    return pattern


def query(value: object) -> str:
    """A SQL query, over as many lines as it takes."""
    found = str(value).strip() if isinstance(value, Scalar) else ""
    if not re.match(r"(?:--[^\n]*\n\s*)*\(*\s*(?:select|with|from|values)\b", found, re.IGNORECASE):
        raise refusal("is not a query", "write select … from source")
    return found


def function(value: object) -> str:
    """``module:function``."""
    found = text(value).strip()
    if not re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", found, re.ASCII):
        raise refusal("is not module:function", "write it like my_package.cleaning:clean")
    return found


def column_names(value: object) -> tuple[str, ...]:
    """Column names, unique regardless of case; a single name counts as a list of one."""
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


def param_format(value: object) -> str:
    """A name of the formats, or a strftime pattern."""
    found = text(value)
    names = tuple(each.value for each in ParamFormat)
    if found not in names and "%" not in found:
        raise refusal(
            f"is not one of {', '.join(names)}", nearest(found, names) or "or a strftime pattern, such as %Y-%m-%d"
        )
    return found


OBJECT = WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}})
STRING = WithJsonSchema({"type": "string"})
LIST = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
Text = Annotated[str, BeforeValidator(text)]
Texts = Annotated[tuple[str, ...], BeforeValidator(texts)]
Whole = Annotated[int, BeforeValidator(whole)]
Count = Annotated[int, BeforeValidator(whole), Field(ge=1, le=2**31 - 1)]
CountOrNone = Annotated[int, BeforeValidator(whole), Field(ge=0, le=2**31 - 1)]
Fraction = Annotated[float, BeforeValidator(fraction), Field(ge=0, le=1)]
Flag = Annotated[bool, BeforeValidator(flag)]
Number = Annotated[int | Decimal, BeforeValidator(number), WithJsonSchema({"type": "number", "minimum": 0})]
Seconds = Annotated[float, BeforeValidator(seconds), WithJsonSchema({"type": "number"})]
Zone = Annotated[str, BeforeValidator(zone)]
Name = Annotated[str, BeforeValidator(name)]
Address = Annotated[str, BeforeValidator(address)]
Glob = Annotated[str, BeforeValidator(glob)]
Query = Annotated[str, BeforeValidator(query)]
Function = Annotated[str, BeforeValidator(function)]
Columns = Annotated[tuple[str, ...], BeforeValidator(column_names), LIST]
SecretText = Annotated[Secret, BeforeValidator(secret), WithJsonSchema({"type": ["string", "number"]})]
Names = Annotated[dict[str, str], BeforeValidator(names_to_texts), OBJECT]
ParamFormatText = Annotated[str, BeforeValidator(param_format)]
SecretOptions = Annotated[Options, BeforeValidator(options), OBJECT]
