"""Requests as values, and the credentials that are added for their own server only.

Credentials are added where a request is sent, and only for the server they belong to.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote_plus, urljoin, urlsplit, urlunsplit

from tidegate.errors import ConfigError, SourceError
from tidegate.sources.http.bounds import Part
from tidegate.specs.columns import AuthKind, HttpAuth, HttpRead
from tidegate.specs.locations import NotOrigin, Origin, Secret, origin_of


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


@dataclass(frozen=True, slots=True)
class Credentials:
    """Headers and parameters of one request; they never show."""

    headers: dict[str, str] = field(default_factory=dict, repr=False)
    params: dict[str, str] = field(default_factory=dict, repr=False)


class Authentication:
    """The credentials of a server; a token of OAuth2 is asked for once, and again when it is refused.

    ``ask`` sends one request for a token: address, headers, form; it gives the token.
    """

    def __init__(self, auth: HttpAuth, ask: Callable[[str, dict[str, str], dict[str, str]], str]) -> None:
        self._auth = auth
        self._ask = ask
        self._token: str | None = None

    def credentials(self) -> Credentials:
        """What to add to a request."""
        auth = self._auth
        match auth.kind:
            case AuthKind.NONE:
                return Credentials()
            case AuthKind.BEARER:
                return Credentials({"Authorization": f"Bearer {_text(auth.token, 'token')}"})
            case AuthKind.BASIC:
                return Credentials({"Authorization": basic(auth.user or "", _text(auth.password, "password"))})
            case AuthKind.API_KEY:
                key = {auth.name: _text(auth.token, "token")}
                return Credentials(params=key) if auth.place == "params" else Credentials(key)
            case AuthKind.OAUTH2:
                self._token = self._token or self._new_token()
                return Credentials({"Authorization": f"Bearer {self._token}"})

    def forget(self) -> bool:
        """Drop a token that was refused; False where there is no other to be had."""
        refreshes = self._token is not None
        self._token = None
        return refreshes

    def secrets(self) -> tuple[str, ...]:
        """Texts that must not show in any message."""
        auth = self._auth
        known = [each.value for each in (auth.token, auth.password, auth.client_secret) if each is not None]
        for user, password in ((auth.user, auth.password), (auth.client_id, auth.client_secret)):
            if password is not None:
                quoted = (quote_plus(each, errors="surrogatepass") for each in (user or "", password.value))
                known += [f"{user or ''}:{password.value}", ":".join(quoted)]
        return tuple(each for each in [*known, self._token or ""] if each)

    def _new_token(self) -> str:
        auth = self._auth
        if auth.token_url is None or auth.client_id is None:
            raise ConfigError(("auth: oauth2 needs token_url, client_id and client_secret",))
        secret = _text(auth.client_secret, "client_secret")
        form = {"grant_type": "client_credentials"} | ({"scope": auth.scope} if auth.scope else {})
        header = basic(quote_plus(auth.client_id), quote_plus(secret))
        return self._ask(auth.token_url, {"Authorization": header}, form)


def basic(user: str, password: str) -> str:
    """The header of HTTP Basic."""
    return f"Basic {_encoded(user, password)}"


def _encoded(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _text(secret: Secret | None, name: str) -> str:
    if secret is None:
        raise ConfigError((f"auth: {name} is missing",))
    return secret.value
