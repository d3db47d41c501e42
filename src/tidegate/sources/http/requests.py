"""Requests as values: where, with which parameters and which body; nothing secret is in them.

Credentials are added where a request is sent, and only for the server they belong to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urljoin, urlsplit, urlunsplit

from tidegate.column_specs import HttpRead
from tidegate.errors import ConfigError, SourceError
from tidegate.http_origins import NotOrigin, Origin, origin_of
from tidegate.sources.http.bounds import Part


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``params`` take the place of parameters of the same name in ``url``."""

    method: str
    url: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    body: Mapping[str, object] | None = None

    def with_values(self, values: Mapping[str, str | int], location: str) -> Request:
        """The same with more parameters, in the query or in the body."""
        if location == "body":
            return replace(self, body=body_of(self.body, values))
        return replace(self, params={**self.params, **values})

    def following(self, link: str) -> Request:
        """The request of a link in the answer to this one; it carries its own parameters."""
        return replace(self, url=joined(self.url, link), params={})


def request_of(read: HttpRead, part: Part) -> Request:
    """The first request of one part of a read."""
    home_of(read)
    url = f"{read.url.rstrip('/')}/{read.path.lstrip('/')}" if read.path else read.url
    request = Request(read.method.upper(), url, dict(read.params), read.body)
    return request.with_values(dict(part.values), read.watermark.location)


def home_of(read: HttpRead) -> Origin:
    """The server that is asked, which credentials belong to; raises where the address names none."""
    try:
        parsed = urlsplit(read.url)
        if parsed.username or parsed.password:
            raise ConfigError((f"url: {shown(read.url)!r} holds credentials; give them as `auth: {{type: basic, …}}`",))
        return origin_of(read.url)
    except ValueError as error:
        why = str(error) if isinstance(error, NotOrigin) else "it cannot be read"
        text = f"url is no address of an HTTP server: {why}; begin it with https:// and the name of the host"
        raise ConfigError((text,)) from None


def joined(url: str, link: str) -> str:
    """Where a link leads that was found at ``url``; raises where that is no address of an HTTP server."""
    try:
        target = urljoin(url, link)
        origin_of(target)
    except NotOrigin as error:
        raise leads_nowhere(url, str(error)) from None
    except ValueError:
        raise leads_nowhere(url) from None
    return target


def leads_nowhere(url: str, why: str = "it is no address of an HTTP server") -> SourceError:
    """A link or a redirect that cannot be followed."""
    return SourceError(
        f"{shown(url)} leads to something that is no address of an HTTP server, or none to be followed: {why}",
        "see what the server does",
    )


def shown(url: str) -> str:
    """An address for messages: without user, password, parameters and fragment."""
    parsed = urlsplit(url)
    port = f":{parsed.port}" if parsed.port else ""
    return urlunsplit((parsed.scheme, f"{parsed.hostname or ''}{port}", parsed.path, "", ""))


def body_of(base: Mapping[str, object] | None, values: Mapping[str, object]) -> dict[str, object] | None:
    """The body with values put in; a dot in a name goes one level down."""
    if base is None and not values:
        return None
    body: dict[str, object] = dict(base or {})
    for name, value in values.items():
        _put(body, name.split("."), value)
    return body


def _put(target: dict[str, object], path: list[str], value: object) -> None:
    head, *rest = path
    if not rest:
        target[head] = value
        return
    inner = target.get(head)
    below: dict[str, object] = dict(inner) if isinstance(inner, Mapping) else {}
    target[head] = below
    _put(below, rest, value)
