"""The HTTP client: requests as values, credentials for their own server only, and retries where they help.

Credentials are added when a request is sent, and only for the server they belong to.

With a limit of R requests in P seconds, at most R slots work at once. Each of N slots has k = R // N requests in any P
seconds, by leaving P / k seconds between two of them; N * k <= R. A slot also waits that time before its first request,
so that a repeated task or the next read keeps the limit too. Slots share nothing, so it holds on any number of
executors. The threads of one slot share its pace, its connections and its token.

A response is processed while it arrives, as part of the attempt: a truncated one is requested again as a whole. POST
and other methods that change something are retried only if that is declared harmless.
"""

from __future__ import annotations

import base64
import json
import logging
import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TypeVar
from urllib.parse import quote, quote_plus, urljoin, urlsplit, urlunsplit

import httpx2

from tidegate.errors import ConfigError, SourceError, SourceMissing, TidegateError
from tidegate.sources.http.bounds import Part
from tidegate.specs.columns import AuthKind, HttpAuth, HttpRead, RateLimit
from tidegate.specs.credentials import secrets_in
from tidegate.specs.locations import NotOrigin, Origin, Secret, origin_of, refusal
from tidegate.specs.masking import Mask, shorten


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``params`` replace parameters of the same name in ``url``."""

    method: str
    url: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    body: Mapping[str, object] | None = None

    def with_values(self, values: Mapping[str, str | int], location: str) -> Request:
        """Add parameters, in the query or in the body."""
        if location == "body":
            return replace(self, body=merge_body(self.body, values))
        return replace(self, params={**self.params, **values})

    def follow(self, link: str) -> Request:
        """Build the request of a link in the response to this one; it has its own parameters."""
        return replace(self, url=resolve_link(self.url, link), params={})


def request_of(read: HttpRead, part: Part) -> Request:
    """Build the first request of one part of a read."""
    home_of(read)
    url = f"{read.url.rstrip('/')}/{read.path.lstrip('/')}" if read.path else read.url
    request = Request(read.method.upper(), url, dict(read.params), read.body)
    return request.with_values(dict(part.values), read.watermark.location)


def home_of(read: HttpRead) -> Origin:
    """Return the server of the credentials; raises if the address names none."""
    try:
        parsed = urlsplit(read.url)
        if parsed.username or parsed.password:
            raise ConfigError(
                (f"url: {public_url(read.url)!r} contains credentials; give them as `auth: {{type: basic, …}}`",)
            )
        return origin_of(read.url)
    except ValueError as error:
        why = str(error) if isinstance(error, NotOrigin) else "it cannot be read"
        text = f"url does not work: {why}; begin it with https:// and the host name"
        raise ConfigError((text,)) from None


def resolve_link(url: str, link: str) -> str:
    """Resolve a link found at ``url``; raises if it is not the address of an HTTP server."""
    try:
        target = urljoin(url, link)
        origin_of(target)
    except NotOrigin as error:
        raise link_error(url, str(error)) from None
    except ValueError:
        raise link_error(url) from None
    return target


def link_error(url: str, why: str = "it is not the address of an HTTP server") -> SourceError:
    """Build the error for a link or redirect that cannot be followed."""
    return SourceError(
        f"{public_url(url)} leads to an address that Tidegate does not follow: {why}",
        "check what the server does",
    )


def public_url(url: str) -> str:
    """Strip an address for messages: no user, password, parameters or fragment."""
    parsed = urlsplit(url)
    port = f":{parsed.port}" if parsed.port else ""
    return urlunsplit((parsed.scheme, f"{parsed.hostname or ''}{port}", parsed.path, "", ""))


def merge_body(base: Mapping[str, object] | None, values: Mapping[str, object]) -> dict[str, object] | None:
    """Insert values into the body; a dot in a name goes one level down."""
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
    """Headers, parameters and parts of the path of one request, and the OAuth2 token among them; never shown."""

    headers: dict[str, str] = field(default_factory=dict, repr=False)
    params: dict[str, str] = field(default_factory=dict, repr=False)
    token: str | None = field(default=None, repr=False)
    path: dict[str, str] = field(default_factory=dict, repr=False)

    def fill_path(self, url: str) -> str:
        """Replace every ``{{name}}`` in the address, never by a separator or a step upwards."""
        address, mark, query = url.partition("?")
        for name, value in self.path.items():
            if value in (".", ".."):
                raise ConfigError((f"auth: the token for {{{{{name}}}}} cannot be part of a path",))
            # Colons stay: some servers compare the path as it was sent, and their tokens hold one.
            address = quote(value, safe=":").join(re.split(r"\{\{\s*" + re.escape(name) + r"\s*\}\}", address))
        return f"{address}{mark}{query}"


AskToken = Callable[[str, dict[str, str], dict[str, str]], str]
"""Sends one request for a token (address, headers, form) and returns the token."""


class Authentication:
    """The credentials of a server; requests an OAuth2 token once, and again if it is refused.

    Threads share it: they wait while one of them requests a token, and use that.
    """

    def __init__(self, auth: HttpAuth) -> None:
        self._auth = auth
        self._tokens: list[str] = []
        self._is_refused = False
        self._lock = threading.Lock()

    def credentials(self, ask: AskToken) -> Credentials:
        """Return the credentials to add to a request."""
        auth = self._auth
        match auth.kind:
            case AuthKind.NONE:
                return Credentials()
            case AuthKind.BEARER:
                return Credentials({"Authorization": f"Bearer {_reveal(auth.token, 'token')}"})
            case AuthKind.BASIC:
                return Credentials(_basic_header(auth.user or "", _reveal(auth.password, "password")))
            case AuthKind.API_KEY:
                key = {auth.name: _reveal(auth.token, "token")}
                if auth.path_variable is not None:
                    return Credentials(path=key)
                return Credentials(params=key) if auth.place == "params" else Credentials(key)
            case AuthKind.OAUTH2:
                with self._lock:
                    if not self._tokens or self._is_refused:
                        self._tokens.append(self._request_token(ask))
                        self._is_refused = False
                    token = self._tokens[-1]
                return Credentials({"Authorization": f"Bearer {token}"}, token=token)

    def refuse(self, token: str | None) -> bool:
        """Discard ``token``, which the server refused; False if there is no other."""
        with self._lock:
            # Another thread may have requested a new token meanwhile, which nobody refused.
            self._is_refused = self._is_refused or token in self._tokens[-1:]
        return token is not None

    def secrets(self) -> tuple[str, ...]:
        """Return texts to hide in every message."""
        auth = self._auth
        texts = [secret.value for secret in (auth.token, auth.password, auth.client_secret) if secret is not None]
        for user, password in ((auth.user, auth.password), (auth.client_id, auth.client_secret)):
            if password is not None:
                quoted = (quote_plus(text, errors="surrogatepass") for text in (user or "", password.value))
                texts += [f"{user or ''}:{password.value}", ":".join(quoted)]
        return tuple(token for token in [*texts, *self._tokens] if token)

    def _request_token(self, ask: AskToken) -> str:
        auth = self._auth
        if auth.token_url is None or auth.client_id is None:
            raise ConfigError(("auth: oauth2 needs token_url, client_id and client_secret",))
        secret = _reveal(auth.client_secret, "client_secret")
        form = {"grant_type": "client_credentials"} | ({"scope": auth.scope} if auth.scope else {})
        # RFC 6749 wants both encoded like a form before they are joined.
        return ask(auth.token_url, _basic_header(quote_plus(auth.client_id), quote_plus(secret)), form)


def _basic_header(user: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def _reveal(secret: Secret | None, name: str) -> str:
    if secret is None:
        raise ConfigError((f"auth: {name} is missing",))
    return secret.value


def slot_count(limit: RateLimit | None, wanted: int) -> int:
    """Return how many slots work at once."""
    return max(1, wanted if limit is None else min(wanted, limit.requests))


def in_flight(read: HttpRead, requests: int) -> int:
    """Return how many of ``requests`` may be under way at once, over all slots."""
    return max(1, min(requests, read.max_in_flight, read.parallelism or requests))


class RequestPace:
    """Spaces the requests of one of ``slots`` slots, whichever thread sends them; the first one waits too."""

    def __init__(
        self,
        limit: RateLimit | None,
        slots: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gap = 0.0 if limit is None else limit.per_seconds / max(1, limit.requests // slots)
        self._clock = clock
        self._sleep = sleep
        self._last = clock()
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Return when the next request may begin."""
        if not self._gap:
            return
        with self._lock:
            while (left := self._last + self._gap - self._clock()) > 0:
                self._sleep(left)
            self._last = self._clock()


Received = TypeVar("Received")

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 10
_ENCODINGS = ("gzip", "deflate")
"""Accepted encodings of responses, with bounded expansion: at most a thousand times, some 64 MiB."""

_TOO_MANY = 429
_UNAUTHORIZED = 401
_NOT_FOUND = 404
_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})
_EXCERPT = 200
_LONGEST_TOKEN = 1024 * 1024


class RetryableFailure(Exception):
    """This attempt failed in a way that a retry may not; ``after`` seconds, if the server says so."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


@cache
def _tls_context() -> ssl.SSLContext:
    """One context per process: loading all certificates takes longer than many requests."""
    return httpx2.create_ssl_context()


class ConnectionPool:
    """A pool of connections to one API with its cookies and its token; thread-safe."""

    def __init__(self, read: HttpRead) -> None:
        _silence_logs()
        self.authentication = Authentication(read.auth)
        self.client = httpx2.Client(
            timeout=read.timeout_secs,
            # Followed by hand: each target is checked before anything is sent there.
            follow_redirects=False,
            headers={"Accept-Encoding": ", ".join(_ENCODINGS)},
            event_hooks={"response": [_check_redirect]},
            limits=httpx2.Limits(max_keepalive_connections=read.max_in_flight),
            verify=_tls_context(),
        )

    def close(self) -> None:
        self.client.close()


class Sender:
    """Sends the requests of one thread and counts them. Without a ``connection`` it has its own."""

    def __init__(
        self,
        read: HttpRead,
        pace: RequestPace,
        connection: ConnectionPool | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.requests = 0
        self.repeated = 0
        self._read = read
        self._home = home_of(read)
        self._allowed = frozenset(map(origin_of, read.allowed_origins))
        self._pace = pace
        self._sleep = sleep
        self._now = now
        self._chance = chance
        self._connection = connection or ConnectionPool(read)
        self._authentication = self._connection.authentication
        self._client = self._connection.client

    def close(self) -> None:
        """Close the connection that it sends by."""
        self._connection.close()

    def fetch(self, request: Request, receive: Callable[[httpx2.Response], Received]) -> Received:
        """Send a request; return what ``receive`` makes of the response. Raises if every attempt failed."""
        with self.mask_errors():
            return self._retry(request.method, public_url(request.url), lambda: self._send_once(request, receive))

    @contextmanager
    def mask_errors(self) -> Iterator[None]:
        """Mask secrets in errors raised inside, even if the server repeats them."""
        try:
            yield
        except TidegateError as error:
            clean = self._mask().error(error)
            if clean is error:
                raise
            raise clean from clean.__cause__

    def excerpt(self, value: object, longest: int) -> str:
        """Shorten what a server sent, for messages; secrets are masked before it is cut."""
        try:
            text = str(value)
        except RecursionError:
            text = "a value that is nested too deeply"
        return shorten(self._mask()(text), longest)

    def _retry(
        self, method: str, where: str, attempt: Callable[[], Received], *, is_harmless: bool = False
    ) -> Received:
        retries, is_harmless = self._read.retries, is_harmless or method in _HARMLESS or self._read.idempotent
        for number in range(retries.attempts + 1):
            try:
                return attempt()
            except RetryableFailure as failure:
                if not is_harmless:
                    raise SourceError(
                        f"{method} {where} failed: {failure}; Tidegate does not repeat it",
                        "if the server may receive it twice without harm, set idempotent: true",
                    ) from failure
                if number == retries.attempts:
                    often = f" {number + 1} times; the last failure" if number else ""
                    raise SourceError(
                        f"{method} {where} failed{often}: {failure}",
                        "see what the server says, or allow more attempts with retries.attempts",
                    ) from failure
                self._wait(number, failure, f"{method} {where}")
                self.repeated += 1
        raise AssertionError("unreachable")

    def _wait(self, number: int, failure: RetryableFailure, what: str) -> None:
        retries = self._read.retries
        if failure.after is not None and failure.after > retries.max_wait_secs:
            raise SourceError(
                f"{what} failed: {failure}; the server asks to wait {failure.after:.0f} s",
                f"run again later, or raise retries.max_wait_secs (now {retries.max_wait_secs:g})",
            ) from failure
        backed_off = min(retries.base_secs * 2**number, retries.max_wait_secs)
        # Half of it at random: requests that failed together must not come back together.
        self._sleep(backed_off * (0.5 + self._chance() / 2) if failure.after is None else failure.after)

    def _send_once(self, request: Request, receive: Callable[[httpx2.Response], Received]) -> Received:
        try:
            with self._open_response(request) as response:
                self._check_status(response, request)
                return receive(response)
        except httpx2.InvalidURL as error:
            raise link_error(request.url) from error
        except httpx2.TimeoutException as error:
            raise RetryableFailure(f"no response within {self._read.timeout_secs:g} s") from error
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise RetryableFailure(f"the connection failed ({type(error).__name__}: {error})") from error

    @contextmanager
    def _open_response(self, request: Request) -> Iterator[httpx2.Response]:
        """Open the response after redirects, with one new token if the first was refused."""
        url, refreshed = request.url, False
        params = dict(request.params)
        for _ in range(_MOST_REDIRECTS + 1):
            response, token = self._send(request, url, params)
            try:
                self._check_encoding(response)
                if response.status_code in _REDIRECTS and "location" in response.headers:
                    # The new address has its own parameters.
                    url, params = self._redirect(request, response, url), {}
                    continue
                if response.status_code == _UNAUTHORIZED and not refreshed and self._authentication.refuse(token):
                    refreshed = True
                    continue
                yield response
                return
            finally:
                response.close()
        raise SourceError(f"{public_url(request.url)} redirects in a circle", "check the address")

    def _send(self, request: Request, url: str, params: dict[str, str | int]) -> tuple[httpx2.Response, str | None]:
        """Send a request; return the unread response, and the token it was sent with."""
        address = httpx2.URL(url)
        at_home = self._check_target(request, url, address) == self._home
        try:
            own = self._authentication.credentials(self._ask_token) if at_home else Credentials()
            headers = {"Accept": "application/json"} | (dict(self._read.headers) | own.headers if at_home else {})
            check_headers(headers)
            # After the target was checked: the key goes to its own server only.
            address = httpx2.URL(own.fill_path(url)) if own.path else address
            address = address.copy_merge_params({**params, **own.params})
            built = self._client.build_request(request.method, address, headers=headers, json=request.body)
        except UnicodeError:
            raise SourceError(
                f"{request.method} {public_url(request.url)} cannot be sent: a credential, a parameter or the body "
                "holds something that is no text",
                "make sure that all values, also those of environment variables, are UTF-8",
            ) from None
        # Cookies of the API belong to its own server, like its other credentials.
        if not at_home:
            built.headers.pop("cookie", None)
        self._pace.wait()
        self.requests += 1
        return self._client.send(built, stream=True), own.token

    def _check_target(self, request: Request, url: str, address: httpx2.URL) -> Origin:
        """Return the origin of a request; every request passes here, those that a server asked for too.

        Raises if it may not go there. Elsewhere only a plain GET is sent.
        """
        try:
            # By both parsers: an address that they read differently could pass the check and lead elsewhere.
            target = origin_of(url)
            sent = origin_of(f"{address.scheme}://{address.netloc.decode('ascii')}")
        except NotOrigin as error:
            raise link_error(request.url, str(error)) from None
        if target != sent or address.username or address.password:
            raise link_error(request.url, "its host is ambiguous")
        refused = refusal(self._home, target, self._allowed)
        if refused is not None:
            raise SourceError(f"the server at {self._home} leads elsewhere: {refused[0]}; nothing was sent", refused[1])
        if target != self._home and (request.method not in _HARMLESS or request.body is not None):
            raise SourceError(
                f"the server at {self._home} leads elsewhere: a {request.method} would go to {target}; nothing was "
                "sent",
                "use another pagination (offset, page, cursor), or GET",
            )
        return target

    def _redirect(self, request: Request, response: httpx2.Response, url: str) -> str:
        target = resolve_link(url, response.headers["location"])
        if request.method in _HARMLESS or (response.status_code in (307, 308) and origin_of(target) == self._home):
            return target
        raise SourceError(
            f"{request.method} {public_url(url)} is redirected to {public_url(target)}",
            "use the address to which the server redirects",
        )

    def _check_status(self, response: httpx2.Response, request: Request) -> None:
        status = response.status_code
        self._check_busy(response)
        if status < 200 or status >= 300:
            kind = SourceMissing if status == _NOT_FOUND else SourceError
            raise kind(
                f"{request.method} {public_url(str(response.url))} answered {status}: {self._read_beginning(response)}",
                _REMEDIES.get(status, "see what the server says"),
            )

    def _check_busy(self, response: httpx2.Response) -> None:
        if response.status_code == _TOO_MANY or response.status_code >= 500:
            raise RetryableFailure(f"status {response.status_code}", self._retry_after(response))

    def _retry_after(self, response: httpx2.Response) -> float | None:
        """Read the seconds that the server asks to wait; None if it asks for nothing understandable."""
        text = response.headers.get("retry-after", "").strip()
        # `isdigit` also accepts `²`, which `float` does not.
        if text.isascii() and text.isdigit():
            return float(text)
        try:
            asked = parsedate_to_datetime(text)
            asked = asked.replace(tzinfo=UTC) if asked.tzinfo is None else asked
            return max(0.0, (asked - self._now()).total_seconds())
        except (ValueError, TypeError, IndexError, OverflowError):
            return None

    def _check_encoding(self, response: httpx2.Response) -> None:
        """Refuse other encodings, or several over each other, which unpack without limit."""
        encoding = response.headers.get("content-encoding", "").strip()
        if encoding.lower() not in ("", "identity", *_ENCODINGS):
            raise SourceError(
                f"{public_url(str(response.url))}: the response is encoded with {self.excerpt(encoding, 100)!r}",
                f"let the server respond without encoding, or with one of {', '.join(_ENCODINGS)}",
            )

    def _read_beginning(self, response: httpx2.Response) -> str:
        """Read the beginning of a response, for messages; repeated secrets are masked before it is cut."""
        taken = b""
        for chunk in response.iter_bytes(_EXCERPT * 4):
            taken += chunk
            if len(taken) >= _EXCERPT * 4:
                break
        text = self._mask()(taken.decode("utf-8", "replace"), cut=True)
        return " ".join(text.split())[:_EXCERPT] or "(empty)"

    def _mask(self) -> Mask:
        """Masks current credentials, headers, and secrets in parameters and body."""
        return Mask.of(*secrets_in(self._read), *self._authentication.secrets())

    def _ask_token(self, url: str, headers: dict[str, str], form: dict[str, str]) -> str:
        """Request a token; the request may be repeated."""

        def attempt() -> tuple[int, bytes]:
            self._pace.wait()
            self.requests += 1
            sent = {"Accept": "application/json", **headers}
            try:
                with self._client.stream("POST", url, headers=sent, data=form) as response:
                    self._check_encoding(response)
                    self._check_busy(response)
                    return response.status_code, _read_token_response(response)
            except (httpx2.TransportError, httpx2.DecodingError) as error:
                raise RetryableFailure(f"the connection failed ({type(error).__name__})") from error

        # Requesting a token changes nothing, so it may be repeated.
        status, content = self._retry("POST", public_url(url), attempt, is_harmless=True)
        try:
            token = json.loads(content)["access_token"] if status == 200 else None
        except (ValueError, KeyError, TypeError, RecursionError):
            token = None
        if not isinstance(token, str):
            raise SourceError(
                f"{public_url(url)} gave no token (status {status})", "check client_id, client_secret and scope"
            )
        return token


def _read_token_response(response: httpx2.Response) -> bytes:
    taken = bytearray()
    for chunk in response.iter_bytes():
        taken += chunk
        if len(taken) > _LONGEST_TOKEN:
            raise SourceError(
                f"{public_url(str(response.url))}: the response with the token has more than "
                f"{_LONGEST_TOKEN // 1024**2} MB",
                "check token_url",
            )
    return bytes(taken)


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse values that no header can have; the library's own error would quote them."""
    for name, value in headers.items():
        if not all(text.isascii() and text.isprintable() for text in (name, value)):
            raise SourceError(
                f"the header {name!r} would contain characters that no header may contain",
                "use printable ASCII characters",
            )


_REMEDIES = {
    401: "check the credentials in `auth`",
    403: "check what the credentials allow",
    404: "check url and path",
}


def _check_redirect(response: httpx2.Response) -> None:
    """Report a redirect that cannot be followed; the library would call it a broken connection."""
    if response.status_code in _REDIRECTS and "location" in response.headers:
        resolve_link(str(response.request.url), response.headers["location"])


def _silence_logs() -> None:
    """Silence the library, which logs every address with its parameters; those may contain keys."""
    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
