"""What a single value may be: text → whole number, flag, name, duration, choice … and its way back into a file.

A check gets the node of a value, usually a :class:`~tidegate.config.document.Scalar`, and returns the value or raises a
:class:`RefusedValue`, which says what is wrong without quoting it: whoever reports the problem quotes or hides it.
Checks of one section are beside its models; all are found by the names of their functions, or by the type of the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, available_timezones

from tidegate.config.document import FLAGS, Items, Scalar, mask, nearest, sentence
from tidegate.core.files.paths import compile_glob
from tidegate.specs.columns import ParamFormat
from tidegate.specs.files import Lateness
from tidegate.specs.locations import CATALOG, Location, Options, Secret
from tidegate.specs.masking import MASK
from tidegate.specs.units import Span
from tidegate.storage.options import describe_misspelling

VARIABLE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_SCHEMES = ("file", "s3", "s3a", "s3n", "gs", "gcs", "az", "azure", "abfs", "abfss", "adl", "memory")
# Up to here readers of JSON keep every whole number exact, and the schema is for them.
_LARGEST = 2**53

Schema = dict[str, Any]
STRING: Schema = {"type": "string"}
OBJECT: Schema = {"additionalProperties": {"type": ["string", "number", "boolean"]}, "type": "object"}
LIST: Schema = {"anyOf": [{"type": "string"}, {"items": {"type": "string"}, "type": "array"}]}
CheckT = TypeVar("CheckT", bound=Callable[[Any], Any])


class RefusedValue(ValueError):
    """What is wrong with a value, in words that do not quote it."""


def refusal(*parts: str) -> RefusedValue:
    """The error of a check: what the value is or must be; what is allowed; did you mean."""
    return RefusedValue(sentence(*parts))


def word_of(value: object) -> str:
    """The text of a scalar without blanks around it; empty for anything else."""
    return value.strip() if isinstance(value, Scalar) else ""


def to_yaml(value: Any) -> Any:
    """A value as a file has it; secrets are masked."""
    match value:
        case Enum():
            return value.value
        case Secret():
            return MASK
        case Location():
            return mask(value.uri)
        case Options():
            # Any option of a storage may hold a key, whatever its name.
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
            return [to_yaml(item) for item in value]
        case Mapping():
            return dict(value)
        case _:
            return value


@dataclass(frozen=True, slots=True)
class ValueKind:
    """What a value may be: its check, what an editor accepts for it, and how it is shown."""

    check: Callable[[Any], Any]
    schema: Schema
    show: Callable[[Any], Any]


KINDS: dict[str | type, ValueKind] = {}
"""By the name of the check, and by the types that need no name."""


def check(
    schema: Schema = STRING, *, show: Callable[[Any], Any] = to_yaml, of: type | None = None
) -> Callable[[CheckT], CheckT]:
    """Make a function the check of its name, and of values of the type ``of``."""

    def register(function: CheckT) -> CheckT:
        for name in (function.__name__, of):
            if name is not None:
                KINDS[name] = ValueKind(function, schema, show)
        return function

    return register


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
    """A lateness as a file has it.

    >>> lateness_text(Lateness())
    '48 periods'
    """
    if lateness.never:
        return "none"
    if lateness.fixed is None:
        return f"{lateness.periods} periods"
    return duration(lateness.fixed)


def span_text(span: Span) -> str:
    """A length of time as a file has it.

    >>> span_text(Span(3))
    'P3D'
    """
    text = duration(span.elapsed).removeprefix("P") if span.elapsed else ""
    return f"P{span.days}D{text}"


@check(of=str)
def text(value: object) -> str:
    """A value that is text and not empty."""
    if not isinstance(value, Scalar):
        raise refusal("must be a single value")
    if not value.strip() or any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise refusal("is empty or contains control characters", "allowed: text")
    return str(value)


@check({"items": {"type": "string"}, "type": "array"})
def texts(value: object) -> tuple[str, ...]:
    """A list of texts; a single text counts as a list of one."""
    if isinstance(value, Scalar):
        return (text(value),)
    if not isinstance(value, Items):
        raise refusal("must be a list of texts")
    return tuple(text(item) for item in value)


@check({"type": "integer"}, of=int)
def integer(value: object) -> int:
    """A whole number; its range belongs to the key."""
    digits = word_of(value).replace("_", "")
    if not re.fullmatch(r"[+-]?[0-9]+", digits):
        raise refusal("is not a whole number")
    # The length first: Python refuses to convert texts of more than 4,300 digits.
    if len(digits) > 17 or abs(int(digits)) > _LARGEST:
        raise refusal("is too large", f"allowed: at most {_LARGEST}")
    return int(digits)


@check({"type": "boolean"}, of=bool)
def flag(value: object) -> bool:
    """True or false, in the words of YAML."""
    found = FLAGS.get(word_of(value).lower())
    if found is None:
        raise refusal("is not a yes or no", "allowed: true, false")
    return found


@check({"minimum": 0, "type": "number"})
def number(value: object) -> int | Decimal:
    """A number from 0 on, exactly as it is written."""
    words = word_of(value)
    if not re.fullmatch(r"[0-9]{1,30}(?:\.[0-9]{1,18})?", words, re.ASCII):
        raise refusal("is not a number of 0 or more")
    return Decimal(words) if "." in words else int(words)


@check({"type": "number"})
def seconds(value: object) -> float:
    """A number of seconds, above zero."""
    found = float(number(value))
    if not 0 < found <= 86_400:
        raise refusal("is not a number of seconds", "allowed: above 0, at most 86400")
    return found


@check()
def zone(value: object) -> str:
    """The name of a time zone."""
    name = text(value).strip()
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        hint = nearest(name, available_timezones())
        raise refusal("is not a time zone", hint or "allowed: UTC, Europe/Berlin …") from None
    return name


@check({"minimum": 0, "maximum": 1, "type": "number"})
def fraction(value: object) -> float:
    """A share from 0 to 1."""
    words = word_of(value)
    if not re.fullmatch(r"0|1|[01]?\.[0-9]{1,12}", words) or not 0 <= float(words) <= 1:
        raise refusal("is not a share", "allowed: a number from 0 to 1, such as 0.01")
    return float(words)


def choose(value: object, *allowed: str) -> str:
    """One of ``allowed``."""
    word = word_of(value)
    if word not in allowed:
        raise refusal(f"is not one of {', '.join(allowed)}", nearest(word, allowed))
    return word


@check()
def name(value: object) -> str:
    """The name of a pipeline or source; it becomes part of paths and ids."""
    if not isinstance(value, str) or not re.fullmatch(NAME, value):
        raise refusal("is not a name", "allowed: letters, digits, '_', '.', '-', starting with a letter or digit")
    return str(value)


@check(OBJECT, of=Options)
def options(value: object) -> Options:
    """Names and texts whose values are never shown."""
    return Options(names_to_texts(value))


@check(OBJECT)
def names_to_texts(value: object) -> dict[str, str]:
    """Names and texts that may be shown."""
    if not isinstance(value, Mapping):
        raise refusal("must be a mapping of names to texts")
    wrong = [str(name) for name, below in value.items() if not isinstance(below, Scalar)]
    if wrong:
        raise refusal(f"must be a mapping of names to texts; {', '.join(wrong)} is not a text")
    return {str(name): str(below) for name, below in value.items()}


@check(of=Location)
def address(value: object) -> str:
    """A path or an address of object storage, without credentials in it."""
    where = text(value)
    # Made from `table`, the name of a table; a catalog knows the address.
    if where.startswith(CATALOG):
        return where
    if wrong := describe_misspelling(where):
        raise refusal(wrong)
    scheme, found, rest = where.partition("://")
    scheme = scheme.lower()
    if found and scheme not in _SCHEMES:
        allowed = ", ".join(f"{name}://" for name in _SCHEMES)
        raise refusal("is an address of an unknown kind", f"allowed: a path, {allowed}", nearest(scheme, _SCHEMES))
    authority = rest.partition("/")[0]
    # An "@" alone is a container of Azure: abfss://container@account.dfs.core.windows.net/path.
    if ":" in authority.partition("@")[0] and "@" in authority:
        raise refusal("contains credentials", "put them into storage_options")
    if found and ("?" in rest or "#" in rest):
        raise refusal("contains '?' or '#'", "put settings into storage_options")
    if found and scheme != "file" and not authority:
        raise refusal("names no bucket", f"allowed: {scheme}://bucket/prefix")
    if scheme != "file" and re.search(r"[*\[\]{}]", authority if found else ""):
        raise refusal("has a glob in the name of the bucket", "give each bucket a source of its own")
    return where


@check()
def glob(value: object) -> str:
    """A glob over paths below a source."""
    pattern = text(value)
    try:
        compile_glob(pattern)
    except re.error:
        raise refusal("is not a glob", "allowed: text with *, **, ?, [a-z]") from None
    if pattern.startswith("//") or pattern == "/":
        raise refusal("is not a path below source_uri", "allowed: a name, or a path such as /*.csv or old/*.csv")
    return pattern


@check()
def query(value: object) -> str:
    """A SQL query, over as many lines as it takes."""
    found = word_of(value)
    if not re.match(r"(?:--[^\n]*\n\s*)*\(*\s*(?:select|with|from|values)\b", found, re.IGNORECASE):
        raise refusal("is not a query", "write select … from source")
    return found


@check()
def function(value: object) -> str:
    """``module:function``."""
    found = text(value).strip()
    if not re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", found, re.ASCII):
        raise refusal("is not module:function", "write it like my_package.cleaning:clean")
    return found


@check(LIST)
def column_names(value: object) -> tuple[str, ...]:
    """Column names, unique regardless of case; a single name counts as a list of one."""
    found = texts(value)
    if len({name.lower() for name in found}) < len(found):
        raise refusal("names a column twice", "allowed: each once")
    return found


@check({"type": ["string", "number"]}, of=Secret)
def secret(value: object) -> Secret:
    """A text that is never shown."""
    if not isinstance(value, Scalar):
        raise refusal("must be a single value")
    if not value:
        raise refusal("is empty", "allowed: text, or leave the key out")
    return Secret(str(value))


@check()
def param_format(value: object) -> str:
    """A name of the formats, or a strftime pattern."""
    found = text(value)
    names = tuple(each.value for each in ParamFormat)
    if found not in names and "%" not in found:
        raise refusal(
            f"is not one of {', '.join(names)}", nearest(found, names) or "or a strftime pattern, such as %Y-%m-%d"
        )
    return found
