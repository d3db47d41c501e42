"""Connections to HTTP APIs, and lists of records in their answers as sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, WithJsonSchema

from tidegate.config import values as v
from tidegate.config.column_source import ColumnSourceModel, LookBackModel, WatermarkParamModel
from tidegate.config.document import Block, Items, Node, Problem, Scalar, Spot, mask, nearest, sentence
from tidegate.config.models import Context, Model, choices, dump, entry, fields, fill, kinds_of, section, values_for
from tidegate.config.values import names_to_texts, refusal, text, texts
from tidegate.specs.columns import (
    AuthKind,
    HttpAuth,
    HttpRead,
    Pagination,
    PaginationKind,
    RateLimit,
    Retries,
    WatermarkParams,
)
from tidegate.specs.locations import NotOrigin, Options, looks_secret, origin_of
from tidegate.specs.locations import refusal as origin_refusal
from tidegate.specs.masking import MASK

_PATH = re.compile(r"[^.\s]+(?:\.[^.\s]+)*")
_VARIABLES = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_WORDS = {"true": True, "false": False}
_PAGED = ("offset", "page", "cursor", "next_link")


def http_url(value: object) -> str:
    """The address that all paths of an API begin with, without credentials, parameters and a slash at its end."""
    where = text(value).strip()
    if not re.match(r"https?://[^/?#\s]+", where):
        raise refusal("is not an HTTP address", "write it like https://api.example.org/v1")
    if "@" in where.split("/")[2]:
        raise refusal("contains credentials", "put them into auth")
    if "?" in where or "#" in where:
        raise refusal("contains '?' or '#'", "put parameters into params")
    try:
        origin_of(where)
    except NotOrigin as error:
        raise refusal(f"is not an HTTP address: {error}", "write it like https://api.example.org/v1") from None
    return where.rstrip("/")


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


def http_path(value: object) -> str:
    """What follows the address of an API."""
    path = text(value).strip()
    if "://" in path or "?" in path or "#" in path:
        raise refusal("is not a path", "write it like /orders; put parameters into params")
    return "/" + path.lstrip("/")


def place(value: object) -> str:
    """A path inside an answer: names joined by dots."""
    found = text(value).strip()
    if not _PATH.fullmatch(found):
        raise refusal("is not a path of names", "write it like data, or paging.next")
    return found


def places(value: object) -> tuple[str, ...]:
    """Paths inside an answer; a single one counts as a list of one."""
    return tuple(dict.fromkeys(map(place, value if isinstance(value, Items) else (value,))))


def params(value: object) -> dict[str, str]:
    """Parameters of a request; secrets belong in ``auth`` instead, further ones into environment variables."""
    found = names_to_texts(value)
    for name, below in value.items() if isinstance(value, Block) else ():
        if looks_secret(name) and not (isinstance(below, Scalar) and below.variables):
            remedy = "put it into the connection's auth: {type: api_key, place: params, …}, or into a variable"
            raise refusal(f"contains {name!r}", remedy)
    return found


def content_types(value: object) -> tuple[str, ...]:
    """Content types without their parameters; a single type counts as a list of one."""
    found = tuple(each.partition(";")[0].strip().lower() for each in texts(value))
    for each in found:
        if not re.fullmatch(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+", each):
            raise refusal(f"contains {each!r}, which is not a content type", "write it like text/plain")
    return tuple(dict.fromkeys(found))


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


Origins = Annotated[tuple[str, ...], BeforeValidator(origins), v.LIST]
ContentTypes = Annotated[tuple[str, ...], BeforeValidator(content_types), v.LIST]
HttpUrl = Annotated[str, BeforeValidator(http_url)]
HttpPath = Annotated[str, BeforeValidator(http_path)]
Place = Annotated[str, BeforeValidator(place)]
Places = Annotated[tuple[str, ...], BeforeValidator(places), v.LIST]
Params = Annotated[dict[str, str], BeforeValidator(params), v.OBJECT]
Body = Annotated[dict[str, object], BeforeValidator(json_object), WithJsonSchema({"type": "object"})]


class AuthModel(Model):
    """How requests authenticate."""

    at: ClassVar = {"type": "kind"}
    spec: ClassVar = HttpAuth
    type: AuthKind = entry("How requests authenticate.", AuthKind.NONE)
    token: v.SecretText | None = entry("The token, or the API key; never shown.", None, needed=("bearer", "api_key"))
    user: v.Text | None = entry("The user, for basic.", None, needed=("basic",))
    password: v.SecretText | None = entry("The password, for basic; never shown.", None, needed=("basic",))
    name: v.Text = entry("The header, parameter or part of the path for an API key.", "X-API-Key", kinds=("api_key",))
    place: Literal["header", "params", "path"] = entry(
        "Where an API key goes; path: where the source's path has {{name}}.", "header", kinds=("api_key",)
    )
    token_url: HttpUrl | None = entry("The address that issues OAuth2 tokens.", None, needed=("oauth2",))
    client_id: v.Text | None = entry("The client id, for OAuth2.", None, needed=("oauth2",))
    client_secret: v.SecretText | None = entry("The client's secret; never shown.", None, needed=("oauth2",))
    scope: v.Text | None = entry("The scope, for OAuth2.", None, kinds=("oauth2",))

    @classmethod
    def show(cls, spec: HttpAuth) -> dict[str, Any]:
        """The keys of the kind."""
        own = [key for key, kinds in kinds_of(cls).items() if spec.kind in kinds.allowed]
        return dump(cls, spec, ("type", *own))


class RateLimitModel(Model):
    """How many requests the server gets per time, all tasks together."""

    spec: ClassVar = RateLimit
    requests: v.Count = entry("Requests")
    per_seconds: v.Seconds = entry("in this many seconds.", 1.0)


class RetriesModel(Model):
    """What happens on 429, 5xx and time-outs."""

    spec: ClassVar = Retries
    attempts: v.CountOrNone = entry("Retries after the first try.", 5)
    base_secs: v.Seconds = entry("Seconds before the first retry; they double each time.", 0.5)
    max_wait_secs: v.Seconds = entry("The longest wait in seconds; a Retry-After above it is an error.", 60.0)


class HttpConnectionModel(Model):
    """An HTTP API."""

    step: ClassVar[str] = "<http connection>"
    type: Literal["http"] = entry("The kind of connection.")
    url: HttpUrl = entry("The beginning of every address, without credentials.")
    headers: v.SecretOptions = entry("Sent with each request; never shown.", Options)
    auth: AuthModel = section(AuthModel, "Who asks.")
    rate_limit: RateLimitModel | None = entry("How many requests the server gets per time.", None)
    retries: RetriesModel = section(RetriesModel, "What happens after errors of the server.")
    timeout_secs: v.Seconds = entry("Seconds that one request may take.", 60.0)
    max_in_flight: v.Whole = entry("Requests at once, over all tasks.", 16, ge=1, le=10_000)
    allowed_origins: Origins = entry("Other servers that links and redirects may lead to; they get no credentials.", ())
    configure: LookBackModel = section(LookBackModel, "Look-back of sources without one of their own.")

    @classmethod
    def show(cls, spec: HttpRead) -> dict[str, Any]:
        """The connection of a read; its headers and its look-back are shown with the sources."""
        keys = [key for key in fields(cls) if key not in ("headers", "configure")]
        return dump(cls, spec, keys, {"url": mask(spec.url)})


class PaginationModel(Model):
    """How the server divides an answer into pages."""

    at: ClassVar = {"type": "kind"}
    spec: ClassVar = Pagination
    type: PaginationKind | None = entry("The kind of pages; unset: one response, which must be everything.", None)
    param: v.Text | None = entry(
        "The parameter for the offset, page number or cursor.", None, kinds=("offset", "page", "cursor")
    )
    size_param: v.Text | None = entry("The parameter for the page size.", None, kinds=_PAGED)
    size: v.Count | None = entry("Records per page.", None, kinds=_PAGED)
    start: v.CountOrNone | None = entry(
        "The first offset or page; unset: offset 0, page 1.", None, kinds=("offset", "page")
    )
    next: Place | None = entry(
        "The path to the cursor or link in the answer; links may also come in a header.",
        None,
        kinds=("next_link", "cursor"),
    )
    last_field: v.Text | None = entry(
        "The field of the last record whose value is the next cursor; instead of next.", None, kinds=("cursor",)
    )
    more: Place | None = entry("The path to a flag that is true while there is more.", None, kinds=_PAGED)
    total: Place | None = entry("The path to the total number of records in the answer.", None, kinds=_PAGED)
    ignore: Places = entry("Paths to fields that seem to say there is more, and do not.", (), kinds=_PAGED)
    max_pages: v.Count = entry("More pages than this are an error.", 10_000, kinds=_PAGED)

    def build(self) -> Pagination | None:
        """None without a type: only who writes ``none`` accepts a response that says there is more."""
        return None if self.type is None else fill(Pagination, self)

    @classmethod
    def show(cls, spec: Pagination) -> dict[str, Any]:
        """The keys that are set, if there are pages."""
        if spec.kind is PaginationKind.NONE:
            return {"type": "none"}
        return {key: value for key, value in dump(cls, spec).items() if value not in (None, [])}


class RequestModel(Model):
    """What a request to an API has."""

    step: ClassVar[str] = "<http source>"
    method: Literal["GET", "POST"] = entry("GET or POST.", "GET")
    headers: v.SecretOptions = entry("Additional headers; never shown.", Options)
    body: Body | None = entry("The JSON object that a POST sends.", None)
    idempotent: v.Flag = entry("Whether a POST may be repeated after a failure.", False)
    parallelism: v.Whole | None = entry("Requests at once.", None, ge=1, le=10_000)
    max_response_mb: v.Whole = entry("A larger answer is an error (MB of 1,048,576 bytes).", 512, ge=1, le=65_536)

    def request(self, name: str, context: Context, **given: Any) -> HttpRead:
        """Requests to the server of the connection ``name``; ``given`` comes from the source."""
        connection = context.connections[name]
        assert isinstance(connection, HttpConnectionModel)
        headers = Options({**connection.headers, **self.headers})
        found = values_for(HttpRead, connection) | values_for(HttpRead, self)
        found |= {"connection": name, "headers": headers, "watermark": WatermarkParams()}
        return HttpRead(**{**found, **given})


class HttpRequestModel(RequestModel):
    """Requests to an API that answer with records."""

    connection: v.Name = entry("The name of a connection of type http.")
    records: Place | None = entry("The path to the list of records in the answer; unset: the answer is the list.", None)
    error: Place | None = entry("The path to an error in answers with status 200.", None)
    response_types: ContentTypes = entry("Further content types to read as JSON, such as text/plain.", ())
    pagination: PaginationModel | None = entry("How the server divides an answer into pages.", None)

    def records_read(self, path: str | None, params: Mapping[str, str], context: Context, **given: Any) -> HttpRead:
        """Requests that answer with records."""
        return self.request(
            self.connection, context, path=path or "", params=params, records=self.records or "", **given
        )


class HttpSourceModel(ColumnSourceModel, WatermarkParamModel, HttpRequestModel):
    """Records of an HTTP API."""

    reads: ClassVar = HttpRead
    step: ClassVar[str] = "<http source>"
    type: Literal["http"] = entry("The kind of source; unset: that of the connection.", "http")
    path: HttpPath | None = entry("What follows the connection's url.", None)
    params: Params = entry("Query parameters of each request.", dict)

    def read(self, context: Context) -> HttpRead:
        keys = WatermarkParamModel.model_fields.keys()
        blocks = (self.configure, self)
        given = {key: getattr(block, key) for block in blocks for key in keys & block.model_fields_set}
        bounds = fill(WatermarkParams, WatermarkParamModel.model_construct(**given))
        return self.records_read(self.path, self.params, context, watermark=bounds)

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
    above = Spot(source.root, ("connections",), source.root.block("connections"))
    auth = above.below(str(source.text("connection") or "")).below("auth")
    if auth.text("type") != "api_key" or auth.text("place") != "path":
        return None
    return str(auth.text("name") or "X-API-Key")


def key_problems(source: Spot) -> Iterator[Problem]:
    """An API key that goes into the path, and a path that has no place for it."""
    name = key_in_path(source)
    if name is not None and name not in _VARIABLES.findall(str(source.text("path") or "")):
        yield source.problem(f"lacks {{{{{name}}}}}, where the connection's API key goes (place: path)", "path")


def path_problems(source: Spot) -> Iterator[Problem]:
    """Variables in the path of a column source: only the API key has one."""
    yield from key_problems(source)
    for name in _VARIABLES.findall(str(source.text("path") or "")):
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
    for key, kinds in kinds_of(model).items() if kind in choices(fields(model)["type"]) else ():
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


def declared_problems(source: Spot, declared: Mapping[str, str]) -> Iterator[Problem]:
    """Watermark columns of an API source that the schema does not declare."""
    for word in source.words("watermark_columns"):
        if declared and word not in declared:
            text = sentence(f"{word.raw!r} is not a declared column", nearest(word, declared))
            yield source.problem(text, "watermark_columns")
