"""Connections to HTTP APIs, and lists of records in their responses as sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal

from tidegate.config.column_source import ColumnSourceModel, LookBackModel, WatermarkParamModel, connection_of
from tidegate.config.document import Block, Items, Node, Problem, Scalar, Spot, mask, nearest, sentence
from tidegate.config.models import Context, Model, Parts, dump, fields, keys_of, kinds_of, make, part
from tidegate.config.values import LIST, OBJECT, VARIABLE, check, names_to_texts, refusal, text, texts
from tidegate.specs.columns import HttpAuth, HttpRead, Pagination, PaginationKind, WatermarkParams
from tidegate.specs.keys import Key
from tidegate.specs.locations import NotOrigin, Options, looks_secret, origin_of
from tidegate.specs.locations import refusal as origin_refusal
from tidegate.specs.masking import MASK

_PATH = re.compile(r"[^.\s]+(?:\.[^.\s]+)*")
_WORDS = {"true": True, "false": False}


@check()
def http_url(value: object) -> str:
    """The address that all paths of an API begin with, without credentials, parameters and a slash at its end."""
    where = text(value).strip()
    if not re.match(r"https?://[^/?#\s]+", where):
        raise refusal("is not an HTTP address", "write it like https://api.example.org/v1")
    # Addresses are shown in reports and errors.
    if "@" in where.split("/")[2]:
        raise refusal("contains credentials", "put them into auth")
    if "?" in where or "#" in where:
        raise refusal("contains '?' or '#'", "put parameters into params")
    try:
        origin_of(where)
    except NotOrigin as error:
        raise refusal(f"is not an HTTP address: {error}", "write it like https://api.example.org/v1") from None
    # Paths begin with a slash, so that "https://host/v1/" and "https://host/v1" are one server.
    return where.rstrip("/")


@check(LIST)
def origins(value: object) -> tuple[str, ...]:
    """Servers by scheme, host and port; a single server counts as a list of one."""
    found = []
    for each in texts(value):
        try:
            origin = origin_of(each)
        except NotOrigin as error:
            raise refusal(
                f"contains something that is not a server: {error}", "write it like https://files.example.org"
            ) from None
        if each.rstrip("/").count("/") > 2 or "?" in each or "#" in each:
            raise refusal("contains more than a server", f"allowed: {origin}")
        found.append(str(origin))
    return tuple(dict.fromkeys(found))


@check()
def http_path(value: object) -> str:
    """What follows the address of an API."""
    path = text(value).strip()
    if "://" in path or "?" in path or "#" in path:
        raise refusal("is not a path", "write it like /orders; put parameters into params")
    return "/" + path.lstrip("/")


@check()
def place(value: object) -> str:
    """A path inside a response: names joined by dots."""
    found = text(value).strip()
    if not _PATH.fullmatch(found):
        raise refusal("is not a path of names", "write it like data, or paging.next")
    return found


@check(LIST)
def places(value: object) -> tuple[str, ...]:
    """Paths inside a response; a single one counts as a list of one."""
    return tuple(dict.fromkeys(map(place, value if isinstance(value, Items) else (value,))))


@check(OBJECT)
def params(value: object) -> dict[str, str]:
    """Parameters of a request; secrets belong in ``auth`` instead, further ones into environment variables."""
    found = names_to_texts(value)
    for name, below in value.items() if isinstance(value, Block) else ():
        # A variable keeps the secret out of the file, which is all that matters here.
        if looks_secret(name) and not (isinstance(below, Scalar) and below.variables):
            remedy = "put it into the connection's auth: {type: api_key, place: params, …}, or into a variable"
            raise refusal(f"contains {name!r}", remedy)
    return found


@check(LIST)
def content_types(value: object) -> tuple[str, ...]:
    """Content types without their parameters; a single type counts as a list of one."""
    found = tuple(each.partition(";")[0].strip().lower() for each in texts(value))
    for each in found:
        if not re.fullmatch(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+", each):
            raise refusal(f"contains {each!r}, which is not a content type", "write it like text/plain")
    return tuple(dict.fromkeys(found))


@check({"type": "object"})
def json_object(value: object) -> dict[str, object]:
    """A JSON object; unquoted numbers and flags keep their types."""
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
            return _parse_plain(str(node))
        case Scalar():
            return str(node)
        case None:
            return None


def _parse_plain(word: str) -> object:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    # No leading zeros: "007" is an identifier. Eighteen digits fit into 64 bits.
    if re.fullmatch(r"[+-]?(?:0|[1-9][0-9]{0,17})", word, re.ASCII):
        return int(word)
    if re.fullmatch(r"[+-]?[0-9]{1,17}\.[0-9]{1,17}", word, re.ASCII):
        return float(word)
    return word


class AuthModel(Model):
    """How requests authenticate."""

    spec: ClassVar = HttpAuth
    takes: ClassVar[Parts] = (part(HttpAuth),)

    @classmethod
    def show(cls, spec: HttpAuth) -> dict[str, Any]:
        """The keys of the kind."""
        own = [name for name, key in kinds_of(cls).items() if spec.kind in key.allowed]
        return dump(cls, spec, ("type", *own))


class HttpConnectionModel(Model):
    """An HTTP API."""

    step: ClassVar[str] = "<http connection>"
    takes: ClassVar[Parts] = (
        "type",
        part(HttpRead, "url"),
        "headers",
        part(HttpRead, "auth", "rate_limit:timeout_secs", "max_in_flight", "allowed_origins"),
    )
    type: Annotated[Literal["http"], Key("The kind of connection.")]
    headers: Annotated[Options, Key("Sent with each request; never shown.")] = field(default_factory=Options)
    configure: Annotated[LookBackModel, Key("Look-back of sources without one of their own.")]

    @classmethod
    def show(cls, spec: HttpRead) -> dict[str, Any]:
        """The connection of a read; its headers and its look-back are shown with the sources."""
        keys = [key for key in fields(cls) if key not in ("headers", "configure")]
        return dump(cls, spec, keys, {"url": mask(spec.url)})


class PaginationModel(Model):
    """How the server divides an answer into pages."""

    spec: ClassVar = Pagination
    takes: ClassVar[Parts] = (part(Pagination, "type:next", "last_field:more", "total", "ignore", "max_pages"),)

    def build(self, context: Context) -> Pagination | None:
        """None without a type: only who writes ``none`` accepts a response that says there is more."""
        return None if self["type"] is None else make(Pagination, self.given, context)

    @classmethod
    def show(cls, spec: Pagination) -> dict[str, Any]:
        """The keys that are set, if there are pages."""
        if spec.kind is PaginationKind.NONE:
            return {"type": "none"}
        return {key: value for key, value in dump(cls, spec).items() if value not in (None, [])}


class RequestModel(Model):
    """What a request to an API has."""

    step: ClassVar[str] = "<http source>"
    takes: ClassVar[Parts] = (part(HttpRead, "method", "headers:body", "idempotent", "parallelism:max_response_mb"),)

    def request(self, context: Context, **given: Any) -> HttpRead:
        """Requests to the server of the connection; ``given`` comes from the source."""
        connection = context.connections[self["connection"]]
        headers = Options({**connection["headers"], **self["headers"]})
        return make(HttpRead, {**connection.given, **self.given}, context, **{"headers": headers, **given})


class HttpRequestModel(RequestModel):
    """Requests to an API that answer with records."""

    takes: ClassVar[Parts] = (part(HttpRead, "connection", "records:error", "response_types", "pagination"),)


class HttpSourceModel(ColumnSourceModel, WatermarkParamModel, HttpRequestModel):
    """Records of an HTTP API."""

    reads: ClassVar = HttpRead
    step: ClassVar[str] = "<http source>"
    takes: ClassVar[Parts] = ("type", part(HttpRead, "path", "params"))
    type: Annotated[Literal["http"], Key("The kind of source; unset: that of the connection.")] = "http"

    def read(self, context: Context) -> HttpRead:
        # No key may be given in both places, so whichever is not the default counts.
        changed = {
            name: block[name]
            for block in (self["configure"], self)
            for name, key in keys_of(WatermarkParams).items()
            if block[name] != key.make_default()
        }
        return self.request(context, watermark=make(WatermarkParams, changed, context))

    @classmethod
    def show_read(cls, read: HttpRead) -> dict[str, Any]:
        return {**show_request(cls, read), **WatermarkParamModel.show(read.watermark)}


REQUEST_KEYS = (
    "type",
    "connection",
    "path",
    "method",
    "params",
    "headers",
    "body",
    "idempotent",
    "records",
    "error",
    "response_types",
    "pagination",
    "parallelism",
    "max_response_mb",
)
"""Keys of a request in the order of ``config show``."""


def show_request(model: type[Model], read: HttpRead) -> dict[str, Any]:
    """The parts of a request for which ``model`` has keys."""
    about_post = ("body", "idempotent") if read.method == "GET" else ()
    keys = [key for key in REQUEST_KEYS if key in fields(model) and key not in about_post]
    body = _without_secrets(read.body) if read.body is not None else None
    return dump(
        model,
        read,
        keys,
        {
            "path": read.path or None,
            "params": _without_secrets(read.params),
            "body": body,
            "records": read.records or None,
        },
    )


def _without_secrets(body: Mapping[str, object]) -> dict[str, Any]:
    return {name: MASK if looks_secret(name) else _show(value) for name, value in body.items()}


def _show(value: object) -> object:
    if isinstance(value, Mapping):
        return _without_secrets(value)
    return [_show(each) for each in value] if isinstance(value, list | tuple) else value


def connection_problems(connection: Spot) -> Iterator[Problem]:
    """Problems of one HTTP connection, such as allowed origins to which no link is ever followed."""
    if connection.has("auth"):
        yield from _kind_problems(connection.below("auth"), AuthModel)
    try:
        home = origin_of(str(connection.text("url") or ""))
        named = [origin_of(str(word)) for word in connection.words("allowed_origins")]
    except NotOrigin:
        return
    for each in named:
        refused = origin_refusal(home, each, named)
        if refused is not None:
            text = f"{refused[0]}; allowed: another server, by https where the connection's url has it"
            yield connection.problem(text, "allowed_origins")


def key_in_path(source: Spot) -> str | None:
    """The name that stands for the API key in the path of a source; None where it goes elsewhere."""
    auth = connection_of(source).below("auth")
    if auth.text("type") != "api_key" or auth.text("place") != "path":
        return None
    return str(auth.text("name") or "X-API-Key")


def key_problems(source: Spot) -> Iterator[Problem]:
    """An API key that goes into the path, and a path that has no place for it."""
    name = key_in_path(source)
    if name is not None and name not in VARIABLE.findall(str(source.text("path") or "")):
        yield source.problem(f"lacks {{{{{name}}}}}, where the connection's API key goes (place: path)", "path")


def path_problems(source: Spot) -> Iterator[Problem]:
    """Variables in the path of a column source: only the API key has one."""
    yield from key_problems(source)
    for name in VARIABLE.findall(str(source.text("path") or "")):
        if name != key_in_path(source):
            auth = f"{{type: api_key, place: path, name: {name}, token: …}}"
            yield source.problem(
                f"contains '{{{{{name}}}}}', and only work units have variables; give 'watermark' or a plain path or, "
                f"for a secret, the connection's auth: {auth}",
                "path",
            )


def request_problems(source: Spot) -> Iterator[Problem]:
    """Problems of one HTTP source."""
    pages = source.below("pagination")
    yield from _kind_problems(pages, PaginationModel)
    if pages.has("size") and not pages.has("size_param"):
        yield pages.problem("is missing; name the parameter for the page size", "size_param")
    if pages.text("type") == "cursor" and pages.has("next") == pages.has("last_field"):
        text = "is given beside last_field; give one of them" if pages.has("next") else "is missing; cursor needs it"
        yield pages.problem(text, "next")
    posts = source.text("method") == "POST"
    for key in ("body", "idempotent"):
        if source.has(key) and not posts:
            yield source.problem("works only with POST; set method: POST, or remove it", key)
    yield from _bound_problems(source, posts=posts)


def _kind_problems(block: Spot, model: type[Model]) -> Iterator[Problem]:
    """Keys that the kind of a block needs but lacks, and keys of other kinds."""
    kind = str(block.text("type") or "none")
    for key, kinds in kinds_of(model).items() if kind in fields(model)["type"].choices else ():
        if kind in kinds.needed and not block.has(key):
            yield block.problem(f"is missing; {kind} needs it", key)
        if kind not in kinds.allowed and block.has(key):
            yield block.problem(f"has no effect with type {kind}; remove it, or set another type", key)


def _bound_problems(source: Spot, *, posts: bool) -> Iterator[Problem]:
    def place(key: str) -> Spot:
        return source if source.has(key) else source.below("configure")

    columns = [str(word) for word in source.words("watermark_columns")]
    mapping = place("watermark_param_mapping").below("watermark_param_mapping")
    mapped = [str(column) for column in mapping.block]
    for column in mapped:
        if column not in columns:
            known = f"allowed: {', '.join(columns)}" if columns else "give watermark_columns"
            text = sentence(f"{column!r} is not a watermark column", nearest(column, columns) or known)
            yield mapping.problem(text, column)
    if mapped and len(columns) > 1 and (source.text("watermark_mode") != "tuple" or mapped != columns[:1]):
        yield mapping.problem(
            "a server returns records that meet all parameters, so records that are new by one column alone would be "
            "missing; give one watermark column, or watermark_mode: tuple with the first column mapped"
        )
    key = "watermark_param_location"
    if place(key).get(key) == "body" and not posts:
        yield place(key).problem(
            "body does not work with GET; set method: POST, or watermark_param_location: params", key
        )
    key, to = "watermark_split", "watermark_to_param"
    split = place(key).get(key)
    if split is not None and split != "1" and not (mapped and place(to).has(to)):
        text = "needs both bounds in each request: watermark_param_mapping and watermark_to_param"
        yield place(key).problem(text, key)


def watermark_column_problems(source: Spot, declared: Mapping[str, str]) -> Iterator[Problem]:
    """Watermark columns of an API source that the schema does not declare."""
    for word in source.words("watermark_columns"):
        if declared and word not in declared:
            text = sentence(f"{word.raw!r} is not a declared column", nearest(word, declared))
            yield source.problem(text, "watermark_columns")
