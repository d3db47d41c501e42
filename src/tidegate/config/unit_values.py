"""What a single value of a source of work units may be: bounds, lengths of time, units, partitions, templates.

As in ``values``: a validator says what is wrong without quoting the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from tidegate.config.column_values import number
from tidegate.config.problems import nearest
from tidegate.config.tree import Block, Items, Scalar
from tidegate.config.unit_variables import VARIABLE, VARIABLE_NAME
from tidegate.config.values import address, choice, flag, one_of, options, refusal, text
from tidegate.core.units.time_bounds import check_bound, parse_span
from tidegate.errors import WatermarkError
from tidegate.schema.names import name_problem
from tidegate.specs.units import (
    Bounding,
    FileFormat,
    InputFormat,
    NotFound,
    PartialPartition,
    PartitionKind,
    Replace,
    Rounding,
    Span,
    SubRange,
)

_KINDS = tuple(each.value for each in PartitionKind)


def span(value: object) -> Span:
    """A length of time: ``P3D``, ``P3DT6H``."""
    written = text(value).strip()
    try:
        return parse_span(written)
    except WatermarkError as error:
        raise _refusal(error, written) from None


def _refusal(error: WatermarkError, written: str) -> PydanticCustomError:
    """What an error says of a text, without the text itself."""
    return refusal(error.problem.removeprefix(f"{written!r} "), error.remedy)


def bound(*, is_end: bool) -> BeforeValidator:
    """A bound of a time range."""

    def checked(value: object) -> str:
        written = text(value).strip()
        try:
            check_bound(written, is_end=is_end)
        except WatermarkError as error:
            raise _refusal(error, written) from None
        return written

    return BeforeValidator(checked)


def pause(value: object) -> float:
    """A number of seconds from 0 on."""
    found = float(number(value))
    if found > 86_400:
        raise refusal("is too long", "allowed: at most 86400 seconds")
    return found


def variable(value: object) -> str:
    """A name that may stand between ``{{`` and ``}}``."""
    found = text(value).strip()
    if not VARIABLE_NAME.fullmatch(found):
        raise refusal(
            "is not the name of a variable", "allowed: letters, digits, '_', '.', '-', starting with a letter or '_'"
        )
    return found


def units(value: object) -> tuple[str, ...]:
    """Values of a unit watermark, as a list or as text with commas; each once."""
    items = value.split(",") if isinstance(value, Scalar) else value
    if not isinstance(items, list) or any(not isinstance(item, str) for item in items):
        raise refusal("must be a list of texts, or a text with commas")
    found = tuple(str(item).strip() for item in items)
    if not found or not all(found):
        raise refusal("holds an empty value", "allowed: one value or more, none of them empty")
    twice = next((each for at, each in enumerate(found) if each in found[:at]), None) if _repeats(found) else None
    if twice is not None:
        raise refusal(f"has {twice!r} twice", "allowed: each once")
    return found


def _repeats(found: tuple[str, ...]) -> bool:
    return len(set(found)) < len(found)


def partition(value: object) -> PartitionKind | tuple[SubRange, ...]:
    """A kind of partition, or parts of the range with one each."""
    if isinstance(value, Scalar):
        return PartitionKind(choice(_KINDS)(value))
    pairs = value.items() if isinstance(value, Block) else value if isinstance(value, Items) else ()
    found = tuple(_sub_range(each) for each in pairs)
    if not found:
        raise refusal("must be a kind, or parts of the range with one each", f"allowed: {', '.join(_KINDS)}")
    return found


def _sub_range(part: object) -> SubRange:
    match part:
        case (str() as kind, Items() as bounds):
            start, end = ([*bounds, None, None][:2]) if len(bounds) == 2 else (None, None)
        case Block():
            kind, start, end = str(part.text("partition") or ""), part.text("from"), part.text("to")
            unknown = [key for key in part if key not in ("partition", "from", "to")]
            if unknown:
                raise refusal(f"has the unknown key {unknown[0]!r}", "allowed: partition, from, to")
        case _:
            kind, start, end = "", None, None
    if kind not in _KINDS:
        raise refusal(f"has a part that is not one of {', '.join(_KINDS)}", nearest(kind, _KINDS))
    if not isinstance(start, Scalar) or not isinstance(end, Scalar):
        raise refusal(f"has a part without both bounds: {kind}", f"allowed: {kind}: [2020-01-01, 2021-01-01]")
    for written, is_end in ((str(start).strip(), False), (str(end).strip(), True)):
        try:
            check_bound(written, is_end=is_end)
        except WatermarkError as error:
            raise refusal(f"has a bound that cannot be: {error.problem}", error.remedy) from None
    return SubRange(str(start).strip(), str(end).strip(), PartitionKind(kind))


def partial(value: object) -> PartialPartition:
    """Whether the last partition is read before it is full: ``true``, ``false`` or ``all``."""
    if isinstance(value, Scalar) and value.strip() == "all":
        return PartialPartition.ALWAYS
    try:
        return PartialPartition.MULTI_DAY if flag(value) else PartialPartition.NEVER
    except ValueError:
        raise refusal("is not a yes or no", "allowed: true, false, all") from None


def http_template(value: object) -> str:
    """What follows the address of an API, with ``{{variables}}``."""
    path = text(value).strip()
    fixed = VARIABLE.sub("", path)
    if "://" in fixed or "?" in fixed or "#" in fixed:
        raise refusal("is not a path", "allowed: such as /surveys/{{surveyId}}; parameters belong into params")
    return "/" + path.lstrip("/")


def file_template(value: object) -> str:
    """A path or an address of object storage with ``{{variables}}``, in whose last parts are ``*`` and ``?``."""
    written = text(value)
    address(Scalar(VARIABLE.sub("x", written).replace("?", "x"), written, 0))
    return written


def filters(value: object) -> dict[str, str]:
    """Fields and the regular expressions that their whole text has to fit."""
    found = dict(options(value))
    for name, pattern in found.items():
        try:
            re.compile(pattern)
        except re.error as exc:
            raise refusal(
                f"has no regular expression for {name!r}: {exc.msg}", "allowed: such as (open|closed)"
            ) from None
    return found


def column(value: object) -> str:
    """The name of a column of the table."""
    found = text(value)
    if wrong := name_problem(found):
        raise refusal(wrong)
    return found


def as_param(value: object) -> object:
    """A text alone is short for ``{value: text}``."""
    if not isinstance(value, Scalar):
        return value
    block = Block(value.line)
    block.put("value", value, value.line, written="")
    return block


_LIST: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": ["string", "number"]}}]}
_TEXTS: Mapping[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
_PARTITION: dict[str, Any] = {
    "anyOf": [{"enum": list(_KINDS)}, {"type": "string"}, {"type": "object"}, {"type": "array"}]
}
_STRING = WithJsonSchema({"type": "string"})

StartBound = Annotated[str, bound(is_end=False)]
EndBound = Annotated[str, bound(is_end=True)]
SpanText = Annotated[Span, BeforeValidator(span), _STRING]
Pause = Annotated[float, BeforeValidator(pause), WithJsonSchema({"type": "number", "minimum": 0})]
Variable = Annotated[str, BeforeValidator(variable)]
UnitValues = Annotated[tuple[str, ...], BeforeValidator(units), WithJsonSchema(_LIST)]
Partition = Annotated[PartitionKind | tuple[SubRange, ...], BeforeValidator(partition), WithJsonSchema(_PARTITION)]
Partial = Annotated[
    Literal[PartialPartition.NEVER, PartialPartition.MULTI_DAY, PartialPartition.ALWAYS],
    BeforeValidator(partial),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"const": "all"}]}),
]
HttpTemplate = Annotated[str, BeforeValidator(http_template)]
FileTemplate = Annotated[str, BeforeValidator(file_template)]
Filters = Annotated[dict[str, str], BeforeValidator(filters), WithJsonSchema(dict(_TEXTS))]
Column = Annotated[str, BeforeValidator(column)]
WatermarkKind = Annotated[Literal["datetime", "unit"], BeforeValidator(choice(("datetime", "unit")))]
InputCategory = Annotated[Literal["units", "authentication"], BeforeValidator(choice(("units", "authentication")))]
DownloadType = Annotated[Literal["download"], BeforeValidator(choice(("download",)))]
RoundingKind = Annotated[Rounding, one_of(Rounding)]
InputKind = Annotated[InputFormat, one_of(InputFormat)]
NotFoundKind = Annotated[NotFound, one_of(NotFound)]
BoundKind = Annotated[Bounding, one_of(Bounding)]
DownloadFormat = Annotated[FileFormat, one_of(FileFormat)]
ReplaceKind = Annotated[
    Literal[Replace.SEGMENTS, Replace.UNIT], BeforeValidator(choice((Replace.SEGMENTS.value, Replace.UNIT.value)))
]
