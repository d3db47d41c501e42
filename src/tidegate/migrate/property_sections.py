"""Converts the sections of a properties file: columns, CSV, watermarks, inputs, work units, and requests.

A request has an address, a connection, credentials, parameters, pages and a body.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from tidegate.config.values import VARIABLE
from tidegate.config.work_units import MS_KEYS
from tidegate.core.json_shape import load_json
from tidegate.core.units.time_range import parse_bound
from tidegate.errors import WatermarkError
from tidegate.migrate.properties import Given, as_list, as_mapping, is_secret
from tidegate.specs.credentials import PLAIN_HEADERS, is_plain_setting
from tidegate.specs.units import PartitionKind

_TYPES = {
    "string": "string",
    "enum": "string",
    "int": "int32",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "number": "float64",
    "boolean": "boolean",
    "bytes": "binary",
    "date": "date",
    "timestamp": "timestamp",
}
_CSV = {
    "ms.csv.column.header.index": "columnHeaderIndex",
    "ms.csv.separator": "fieldSeparator",
    "ms.csv.quote.character": "quoteCharacter",
    "ms.csv.escape.character": "escapeCharacter",
    "ms.csv.skip.lines": "linesToSkip",
}
_WITHOUT_EQUAL = ("recordSeparator", "columnProjection", "defaultFieldType", "maxFailures", "keepNullString")


def columns(given: Given) -> list[dict[str, Any]]:
    """``schema.fields``; empty if there are none, or one cannot be declared."""
    name = "ms.output.schema"
    try:
        return [_column(each) for each in given.data(name, list)]
    except _NoEqual as exc:
        given.leave(name, f"{exc}; columns are inferred from the first rows, or declare schema.fields")
        return []


class _NoEqual(Exception):
    """A column that cannot be declared."""


def _column(each: Any) -> dict[str, Any]:
    if not isinstance(each, dict) or "columnName" not in each or "dataType" not in each:
        raise _NoEqual("a column has no columnName or no dataType")
    nullable = str(each.get("isNullable", "true")).lower() != "false"
    found = {"name": str(each["columnName"]), **_type(each["dataType"])}
    return found if nullable else {**found, "nullable": False}


def _type(given: Any) -> dict[str, Any]:
    """A type, from its name or an object that describes it."""
    kind = given.get("type") if isinstance(given, dict) else given
    if isinstance(kind, dict | list):
        return _union(kind) if isinstance(kind, list) else _type(kind)
    inside = given if isinstance(given, dict) else {}
    match str(kind).lower():
        case "record" | "struct":
            below = as_list(inside.get("values")) or as_list(inside.get("fields"))
            return {"type": "struct", "fields": [_column(each) for each in below]}
        case "array" | "list":
            return {"type": "list", "items": _inner(inside.get("items"))}
        case "map":
            return {"type": "map", "keys": "string", "values": _inner(inside.get("values"))}
        case word if word in _TYPES:
            return {"type": _TYPES[word]}
        case word:
            raise _NoEqual(f"the type {word!r} has no equivalent")


def _inner(given: Any) -> Any:
    if given is None:
        raise _NoEqual("a list or map has no type for its items")
    found = _type(given["dataType"] if isinstance(given, dict) and "dataType" in given else given)
    return found["type"] if set(found) == {"type"} else found


def _union(kinds: list[Any]) -> dict[str, Any]:
    others = [each for each in kinds if each != "null"]
    if len(others) != 1:
        raise _NoEqual("a union of several types has no equivalent")
    return _type(others[0])


def csv(given: Given) -> dict[str, Any]:
    """``source.csv``. Jobs default to no header and a backslash before quotes."""
    found = given.data("ms.csv", dict)
    found |= {word: text for name, word in _CSV.items() if (text := given.text(name)) is not None}
    header = _parse_int(found.get("columnHeaderIndex"), -1)
    if (given.text("ms.csv.column.header") or "").lower() == "true":
        header = max(header, 0)
    skipped = _parse_int(found.get("linesToSkip"), header + 1)
    if header >= 0 and skipped != header + 1:
        given.leave("ms.csv", "lines between the header and the data cannot be skipped; remove them from the files")
    for word in _WITHOUT_EQUAL:
        if word in found:
            given.leave("ms.csv", f"{word} has no equivalent; schema.fields sets names, order and types of columns")
    made: dict[str, Any] = {
        "delimiter": _letter(found.get("fieldSeparator", ",")),
        "quote": _letter(found.get("quoteCharacter", '"')),
        "escape": _letter(found.get("escapeCharacter", "\\")),
        "header": header >= 0,
        "skip_rows": header if header >= 0 else skipped,
    }
    return {key: value for key, value in made.items() if value != _DEFAULTS[key]}


_DEFAULTS = {"delimiter": ",", "quote": '"', "escape": None, "header": True, "skip_rows": 0}


def _parse_int(written: object, otherwise: int) -> int:
    text = str(written)
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else otherwise


def _letter(written: object) -> str:
    """A character, plain or written as ``u0009``."""
    text = str(written)
    code = re.fullmatch(r"\\?u([0-9A-Fa-f]{4})", text)
    letter = chr(int(code[1], 16)) if code else text
    return "tab" if letter == "\t" else letter


_NUMBERS = (
    "ms.work.unit.min.units",
    "ms.work.unit.min.records",
    "ms.work.unit.parallelism.max",
    "ms.work.unit.pacing.seconds",
    "ms.grace.period.days",
    "ms.abstinent.period.days",
)
_CATEGORIES = {"activation": "units", "authentication": "authentication"}


def watermarks(given: Given) -> list[dict[str, Any]]:
    """``watermark``: the first time range and the first list of units."""
    made: dict[str, dict[str, Any]] = {}
    for each in given.data("ms.watermark", list):
        kind = each.get("type") if isinstance(each, dict) else None
        if kind not in ("datetime", "unit") or kind in made:
            text = "only one datetime and one unit watermark are converted"
            given.leave("ms.watermark", text, changes=True)
        elif kind == "datetime":
            made[kind] = {"name": str(each.get("name", "system")), "type": kind, "range": _range(given, each)}
        elif str(each.get("units") or "").strip():
            made[kind] = {"name": str(each.get("name", "unit")), "type": kind, "units": _units(given, each["units"])}
    return list(made.values())


def _range(given: Given, each: dict[str, Any]) -> dict[str, str]:
    bounds = as_mapping(each.get("range"))
    return {
        "from": _bound(given, "from", str(bounds.get("from", "")), "2000-01-01"),
        "to": _bound(given, "to", str(bounds.get("to", "-")), "-"),
    }


def _bound(given: Given, which: str, text: str, sample: str) -> str:
    """A bound as written; an environment variable if it cannot be parsed."""
    try:
        parse_bound(text, is_end=which == "to")
    except WatermarkError as exc:
        variable = given.secret(which, sample)
        given.leave("ms.watermark", f"{which}: {exc}; set {variable[2:-1]}", changes=True)
        return variable
    return text


def _units(given: Given, units: Any) -> list[str]:
    words = [str(each).strip() for each in (units if isinstance(units, list) else str(units).split(","))]
    found = list(dict.fromkeys(word for word in words if word))
    if len(found) < len(words):
        given.leave("ms.watermark", "empty and repeated units are left out")
    return found


def secondary_inputs(given: Given) -> list[dict[str, Any]]:
    """``secondary_input``: inputs with units, and inputs with credentials."""
    made = []
    for each in given.data("ms.secondary.input", list):
        category = str(each.get("category", "activation")).lower() if isinstance(each, dict) else ""
        if category not in _CATEGORIES:
            text = f"the category {category!r} has no equivalent; rows are read, not sent"
            given.leave("ms.secondary.input", text, changes=True)
            continue
        if not as_list(each.get("fields")):
            given.leave("ms.secondary.input", "an input without fields is not read")
            continue
        made.append(_input(given, each, _CATEGORIES[category]))
    return made


def _input(given: Given, each: dict[str, Any], category: str) -> dict[str, Any]:
    path = str(each.get("path", ""))
    made: dict[str, Any] = {"path": path or given.secret("input")}
    if "${" in path:
        text = "set the variables in its path; for a table of this file write pipeline: NAME instead of path and format"
        given.leave("ms.secondary.input", text)
    # What jobs wrote for each other; without it, the place would have to be a Delta table.
    made["format"] = "avro"
    made["fields"] = [str(field) for field in each["fields"]]
    if filters := as_mapping(each.get("filters")):
        made["filters"] = {name: str(pattern) for name, pattern in filters.items()}
    if category != "units":
        made["category"] = category
    for key in each:
        if key not in ("path", "fields", "filters", "category", "format"):
            given.leave("ms.secondary.input", f"{key} has no equivalent; a pipeline runs after those that it names")
    return made


def settings(given: Given) -> dict[str, Any]:
    """``work_unit``, the periods and the time zone."""
    made: dict[str, Any] = {}
    values: dict[str, Any] = {name: _number(given, name) for name in _NUMBERS}
    values["ms.work.unit.partition"] = _partition(given)
    values["ms.work.unit.partial.partition"] = _partial(given, values["ms.work.unit.partition"])
    values["ms.timezone"] = given.text("ms.timezone")
    for name, value in values.items():
        if value is not None:
            *above, last = MS_KEYS[name]
            holder = made.setdefault(above[0], {}) if above else made
            holder[last] = value
    return made


def _number(given: Given, name: str) -> int | None:
    """A number above zero; None for zero, the default."""
    text = given.text(name)
    if text is not None and not text.isdecimal():
        given.leave(name, "is not a whole number", changes=True)
    return int(text) or None if text is not None and text.isdecimal() else None


def _partial(given: Given, partition: str | dict[str, list[str]] | None) -> bool | str | None:
    """Whether the last partition is read before it is whole: in jobs, also a day or an hour; None for the default."""
    if (given.text("ms.work.unit.partial.partition") or "").lower() == "false":
        return False
    last = [*partition][-1] if isinstance(partition, dict) else partition
    return "all" if last is not None and last != "none" and not PartitionKind(last).is_multi_day else None


def _partition(given: Given) -> str | dict[str, list[str]] | None:
    text = given.text("ms.work.unit.partition")
    if text is None:
        return None
    kinds = [each.value for each in PartitionKind]
    if text.lower() in kinds:
        return text.lower()
    try:
        found = load_json(text)
        parts = {kind: [str(bound) for bound in bounds] for kind, bounds in found.items()}
        for kind, (start, end) in parts.items():
            PartitionKind(kind)
            parse_bound(start, is_end=False)
            parse_bound(end, is_end=True)
    except (ValueError, AttributeError, TypeError, WatermarkError):
        text = f"is neither one of {', '.join(kinds)} nor parts of a range; set work_unit.partition"
        given.leave("ms.work.unit.partition", text, changes=True)
        return None
    return parts


_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL)
_NAMES = re.compile(r"(?![0-9])[^.\s\[\]{}]+(?:\.(?![0-9])[^.\s\[\]{}]+)*")
Pairs = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of ``ms.source.uri``."""

    scheme: str
    host: str
    path: str
    query: tuple[tuple[str, str], ...] = ()


def address_of(given: Given) -> Address | None:
    """The address of the data; None if there is none."""
    text = given.text("ms.source.uri")
    found = _ADDRESS.fullmatch(text.strip()) if text else None
    if found is None:
        return None
    user, _, host = found[2].rpartition("@")
    if user:
        given.leave("ms.source.uri", "credentials are left out; put them into auth of the connection")
    pairs = [pair.partition("=") for pair in (found[4] or "").split("&") if pair]
    return Address(
        found[1].lower(), host, found[3], tuple((unquote_plus(key), unquote_plus(value)) for key, _, value in pairs)
    )


def connection(given: Given, address: Address) -> dict[str, Any]:
    """The connection: server, credentials and rate limit."""
    url = f"{address.scheme}://{address.host}"
    if "{{" in address.host or not address.host:
        url = given.secret("url", "https://host")
        given.leave("ms.source.uri", f"a variable cannot be the server; set {url[2:-1]}")
    made: dict[str, Any] = {"type": "http", "url": url, **_auth(given)}
    interval = given.text("ms.call.interval.millis")
    if interval and interval.isdecimal() and int(interval):
        made["rate_limit"] = {"requests": 1, "per_seconds": int(interval) / 1000}
    return made


def _auth(given: Given) -> dict[str, Any]:
    """Credentials as environment variables; those from a secondary input stay with the source."""
    found = given.data("ms.authentication", dict)
    user, has_password = given.text("source.conn.username"), given.has("source.conn.password")
    given.used |= {"source.conn.password": None} if has_password else {}
    method, header = str(found.get("method", "")).lower(), str(found.get("header", "Authorization"))
    if "{{" in str(found.get("token", "")) or not (found or user or has_password):
        return {}
    encoded = str(found.get("encryption", "none")).lower() == "base64"
    if method == "basic" or not found:
        name = user if user and not is_secret("", user) else given.secret("user")
        return {"auth": {"type": "basic", "user": name, "password": given.secret("password")}}
    token = given.secret("token")
    if encoded:
        given.leave("ms.authentication", f"set {token[2:-1]} to the base64 text to send")
    if header != "Authorization":
        return {"auth": {"type": "api_key", "name": header, "token": token}}
    if method == "bearer":
        return {"auth": {"type": "bearer", "token": token}}
    word = "OAuth " if method == "oauth" else ""
    return {"headers": {"Authorization": f"{word}{token}"}}


def request(given: Given, address: Address, known: dict[str, Parameter], server: dict[str, Any]) -> dict[str, Any]:
    """Path, parameters, headers and body of the request; secrets go to ``server``."""
    method = (given.text("ms.http.request.method") or "GET").upper()
    headers = _headers(given, server, known)
    used = {
        *names_in(address.path),
        *names_in(headers),
        *(name for _, value in address.query for name in names_in(value)),
    }
    sent = [each for each in known.values() if each.name not in used]
    pairs = [
        *address.query,
        *((each.name, f"{{{{{each.name}}}}}") for each in sent if method == "GET" or each.kind in PAGES),
    ]
    made: dict[str, Any] = {"path": fill_in(address.path, known) or "/", "method": method if method != "GET" else None}
    body = {each.name: _body_value(each) for each in sent if method == "POST" and each.kind not in PAGES}
    params = _params(given, pairs, known, server)
    for name in list(names_in([made["path"], headers, body, *params.values()])):
        if name in known and known[name].bound is not None:
            params[name] = known[name].bound
    made |= {"params": params, "headers": headers, "body": body, "pagination": _pagination(given, pairs, known)}
    records = given.text("ms.data.field")
    if records and not _NAMES.fullmatch(records):
        given.leave("ms.data.field", "records is a path of names; it cannot name one element of a list", changes=True)
        records = None
    made["records"] = records
    made["response_types"] = [str(each) for each in given.data("ms.http.response.type", dict).values()]
    return {key: value for key, value in made.items() if value not in (None, {}, [], "")}


def _body_value(parameter: Parameter) -> Any:
    if parameter.unit is not None:
        return f"{{{{{parameter.unit}}}}}"
    return f"{{{{{parameter.name}}}}}" if parameter.bound is not None else parameter.value


def _headers(given: Given, server: dict[str, Any], known: dict[str, Parameter]) -> dict[str, str]:
    """Headers of the source; secret ones become environment variables of the connection."""
    found = {str(name): str(value) for name, value in given.data("ms.http.request.headers", dict).items()}
    given.leave_form(found.get("Content-Type", ""))
    # Any header may hold a secret except the usual ones, and plain words such as ``X-Tenant: acme``.
    secret = [
        name
        for name, value in found.items()
        if name.lower() not in PLAIN_HEADERS
        and "{{" not in value
        and (is_secret(name, value) or not is_plain_setting(name, value))
    ]
    for name in secret:
        server.setdefault("headers", {})[name] = given.secret(name)
    headers = {name: fill_in(value, known) for name, value in found.items() if name not in secret}
    token = given.data("ms.authentication", dict)
    if "{{" in str(token.get("token", "")):
        method = str(token.get("method", "")).lower()
        word = {"bearer": "Bearer ", "oauth": "OAuth ", "basic": "Basic "}.get(method, "")
        headers[str(token.get("header", "Authorization"))] = word + str(token["token"])
    return headers


def _params(given: Given, pairs: Pairs, known: dict[str, Parameter], server: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        alone = VARIABLE.fullmatch(value)
        parameter = known.get(alone[1]) if alone else None
        if parameter is not None and parameter.kind in PAGES:
            continue
        if parameter is not None and parameter.bound is not None:
            made[key] = parameter.bound
        elif parameter is not None and parameter.kind in STRUCTURED:
            text = f"{parameter.name!r} is an object, and an address takes only text; use method: POST"
            given.leave("ms.parameters", text, changes=True)
        elif (alone and parameter is None) or not (
            is_secret(key, value) or (parameter is not None and parameter.kind == "secret")
        ):
            made[key] = fill_in(value, known)
        elif "auth" in server:
            made[key] = given.secret(key)
        else:
            server["auth"] = {"type": "api_key", "place": "params", "name": key, "token": given.secret(key)}
    return made


def _pagination(given: Given, pairs: Pairs, known: dict[str, Parameter]) -> dict[str, Any]:
    """``pagination``, from the parameters that concern pages."""
    places = {
        known[found[1]].kind: key for key, value in pairs if (found := VARIABLE.fullmatch(value)) and found[1] in known
    }
    session, pages = given.data("ms.session.key.field", dict), given.data("ms.pagination", dict)
    total = given.text("ms.total.count.field")
    made: dict[str, Any] = {}
    if "session" in places and session.get("name"):
        made = {"type": "cursor", "param": places["session"], "next": str(session["name"])}
    elif "pageno" in places or "pagestart" in places:
        kind, parameter = ("page", "pageno") if "pageno" in places else ("offset", "pagestart")
        made = {"type": kind, "param": places[parameter]}
    first = [str(each) for each in as_list(pages.get("initialvalues"))] + [""] * 3
    if made and "pagesize" in places:
        made["size_param"] = places["pagesize"]
        made |= {"size": int(first[1])} if first[1].isdecimal() and int(first[1]) else {}
    start = first[2] if made.get("type") == "page" else first[0]
    if made.get("type") in ("page", "offset") and start.isdecimal():
        made["start"] = int(start)
    _leave_pages(given, made, session, pages, known)
    return {**made, "total": total} if made and total else made


def _leave_pages(
    given: Given, made: dict[str, Any], session: dict[str, Any], pages: dict[str, Any], known: dict[str, Parameter]
) -> None:
    """Note settings of pages and sessions that have no equivalent."""
    if made.get("type") != "cursor":
        for each in (each for each in known.values() if each.kind == "session"):
            text = f"the parameter {each.name!r} is a cursor, and ms.session.key.field does not say where it comes from"
            given.leave("ms.parameters", text, changes=True)
    if pages and not made:
        given.leave("ms.pagination", "no parameter concerns pages; set source.pagination")
    if session and made.get("type") != "cursor":
        text = "no request is repeated until the server reports a status; an empty page is the last"
        given.leave("ms.session.key.field", text, changes=True)
    for word in ("condition", "failCondition", "initValue"):
        if word in session and made.get("type") == "cursor":
            given.leave("ms.session.key.field", f"{word} has no equivalent; a page without a cursor is the last")
    if given.has("ms.total.count.field") and not made:
        given.leave("ms.total.count.field", "there are no pages; set source.pagination")


_PATTERN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|.", re.DOTALL)
_DIRECTIVES = {
    "yyyy": "%Y",
    "uuuu": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "SSSSSS": "%f",
    "DDD": "%j",
    "Z": "%z",
    "XX": "%z",
    "xx": "%z",
}
PAGES = ("pagestart", "pagesize", "pageno", "session")
STRUCTURED = ("object", "jsonobject", "jsonarray")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: a fixed ``value``, a ``bound`` of the time range, or a ``unit`` variable."""

    name: str
    kind: str
    value: Any = None
    bound: dict[str, Any] | None = None
    unit: str | None = None


def parameters(given: Given, times: tuple[str, ...], units: tuple[str, ...]) -> dict[str, Parameter]:
    """The parameters by name; ``times`` and ``units`` name the watermarks and the fields of inputs."""
    key = "ms.parameters" if given.has("ms.parameters") else "ms.parameter"
    found = [_parameter(given, key, each, times, units) for each in given.data(key, list) if isinstance(each, dict)]
    return {each.name: each for each in found if each is not None}


def _parameter(
    given: Given, key: str, each: dict[str, Any], times: tuple[str, ...], units: tuple[str, ...]
) -> Parameter | None:
    name, kind = str(each.get("name", "")), str(each.get("type", "list")).lower()
    if not name:
        given.leave(key, "a parameter has no name")
        return None
    if kind == "watermark":
        watermark = str(each.get("watermark", "system"))
        if watermark not in times and (watermark in units or not times):
            return Parameter(name, kind, unit=watermark)
        watermark = watermark if watermark in times else times[0]
        return Parameter(name, kind, bound=_parameter_bound(given, key, name, watermark, each))
    if kind in PAGES:
        return Parameter(name, kind)
    value = each.get("value")
    if kind in STRUCTURED:
        return Parameter(name, kind, _without_secrets(given, _object(value) if kind == "object" else value))
    if is_secret(name, str(value)):
        return Parameter(name, "secret", given.secret(name))
    return Parameter(name, "list", str(value) if not isinstance(value, bool) else str(value).lower())


def _without_secrets(given: Given, value: Any) -> Any:
    """A JSON value with variables in place of the secrets inside it."""
    match value:
        case dict():
            return {
                name: given.secret(str(name)) if isinstance(each, str) and is_secret(str(name), each) else inner
                for name, each in value.items()
                for inner in (_without_secrets(given, each),)
            }
        case list():
            return [_without_secrets(given, each) for each in value]
        case _:
            return value


def _object(value: Any) -> Any:
    """An object, which may be written as a list of parameters."""
    if not isinstance(value, list):
        return value
    return {str(each.get("name")): each.get("value") for each in value if isinstance(each, dict)}


def _parameter_bound(given: Given, key: str, name: str, watermark: str, each: dict[str, Any]) -> dict[str, Any]:
    end = str(each.get("value", each.get("range", "low"))).lower()
    made: dict[str, Any] = {"watermark": watermark, "bound": "high" if end in ("high", "to") else "low"}
    kind, pattern = str(each.get("format", "")).lower(), each.get("pattern")
    if kind in ("epoc-second", "epoch-second", "epoc.second", "epoch.second"):
        made["format"] = "timestamp"
    elif kind != "datetime" and not pattern:
        made["format"] = "timestamp_ms"
    elif pattern:
        written = strftime(str(pattern))
        if written is None:
            text = f"the pattern of {name!r} has no equivalent, iso is used instead: {pattern}"
            given.leave(key, text, changes=True)
        made["format"] = written or "iso"
    if each.get("timezone"):
        made["timezone"] = str(each["timezone"])
    return made


def strftime(pattern: str) -> str | None:
    """Convert a Java date pattern into a strftime format; None if a letter has no equivalent.

    >>> strftime("yyyy-MM-dd'T'HH:mm:ss'Z'")
    '%Y-%m-%dT%H:%M:%SZ'
    """
    made = ""
    for found in _PATTERN.finditer(pattern):
        if found[1] is not None:
            made += (found[1].replace("''", "'") or "'").replace("%", "%%")
        elif found[2] is None:
            made += found[0].replace("%", "%%")
        elif found[0] in _DIRECTIVES:
            made += _DIRECTIVES[found[0]]
        else:
            return None
    return made if "%" in made.replace("%%", "") else None


def names_in(value: Any) -> Iterator[str]:
    """The variables used in a text, or in the texts of a structure."""
    match value:
        case str():
            yield from VARIABLE.findall(value)
        case dict():
            yield from (name for below in value.values() for name in names_in(below))
        case list():
            yield from (name for below in value for name in names_in(below))


def fill_in(value: Any, known: dict[str, Parameter]) -> Any:
    """Replace fixed parameters in a text or structure; other variables stay."""

    def put(found: re.Match[str]) -> str:
        parameter = known.get(found[1])
        if parameter is None:
            return found[0]
        if parameter.unit is not None:
            return f"{{{{{parameter.unit}}}}}"
        return str(parameter.value) if parameter.kind in ("list", "primitive", "secret") else found[0]

    match value:
        case str():
            return VARIABLE.sub(put, value)
        case dict():
            return {name: fill_in(below, known) for name, below in value.items()}
        case list():
            return [fill_in(below, known) for below in value]
        case _:
            return value
