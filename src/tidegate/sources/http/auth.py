"""Who asks: what is added to requests for the server that the credentials belong to, and to no other."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote_plus

from tidegate.column_specs import AuthKind, HttpAuth
from tidegate.errors import ConfigError
from tidegate.locations import Secret


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
