"""Decides what counts as a credential: by the name that holds it, by its looks, or by its place in an address.

A configuration holds credentials in three ways. Keys made for them (passwords, tokens, headers, storage options) are
credentials whatever they contain. Other places, such as parameters and paths, may get one from an environment variable.
And addresses carry them before the host or among their parameters. The last two are guesses, so the rules are here, in
one place, with examples of both sides:

1. A name that says "secret" (``API_TOKEN``, ``db.password``, ``sig``) makes any value a credential.
2. A name that says what else it is (``STAGE``, ``BUCKET``, ``RUN_ID``) makes any value an ordinary one.
3. Otherwise the value decides: one that looks random is a credential, ``prod`` is not.

:func:`secrets_in` collects all of them from a specification; :mod:`tidegate.specs.masking` takes them out of texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any
from urllib.parse import unquote, unquote_plus

from tidegate.specs.locations import Location, Options, Secret, jdbc_credentials, looks_secret

SHORTEST = 6
"""Characters from which on a value is taken out wherever it stands."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = frozenset({"password", "passwd", "pwd", "passcode", "secret", "token", "apikey", "bearer", "cookie"})
_SECRET_WORDS |= {"credential", "credentials", "signature", "sig", "sas", "jwt", "authorization"}
# Only at the end of a name: PASS_RATE and PIN_CODE_LENGTH hold nothing secret.
_SECRET_AT_END = frozenset({"pass", "pw", "pin", "otp", "pat"})
_AMBIGUOUS_WORDS = frozenset({"key", "auth", "code", "session", "sid"})
"""Words for credentials and for ordinary things: ``key=AIzaSy…`` and ``key=country``."""

_PLACE_WORDS = frozenset(
    {"dir", "directory", "folder", "path", "file", "table", "schema", "column", "columns", "bucket"}
)
_PLACE_WORDS |= {"prefix", "host", "name", "format"}
"""At the end of a name they win over words for credentials: ``TOKENS_DIR``, ``PASSWORD_RESETS_TABLE``."""

_PLAIN_TEXT = (
    "id uuid sha hash commit build run ref tag version container account hostname port server endpoint region zone "
    "stage env environment tenant user username login date day month year hour time from to database db catalog field "
    "batch topic pod workspace"
)
_PLAIN_WORDS = _PLACE_WORDS | frozenset(_PLAIN_TEXT.split())
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SEGMENTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
# From 32 digits on, as keys have them; shorter ones are hashes in names of builds and buckets.
_HEX = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{32,}", re.IGNORECASE)
_ISSUED = re.compile(
    r"(?:gh[oprsu]_|github_pat_|glpat-|xox[abprs]-|sk_live_|rk_live_|sk-|AIza|SG\.|ya29\.)[\w.-]{8,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{12,}|eyJ[\w-]{8,}\.[\w-]{8,}\..*"
)
"""Keys that well-known services issue."""

_PLAIN_SETTING = re.compile(
    r"[A-Za-z]+(?:_[A-Za-z]+)*|[0-9]{1,5}(?:\.[0-9]{1,5})*|[0-9]{4}-[0-9]{2}(?:-[0-9]{2}(?:[T ][0-9:.]+Z?)?)?"
    r"|[a-z]{2}-[a-z]+-[0-9]|\{\{[^{}]*\}\}",
    re.ASCII,
)
_AUTHORITY = re.compile(r"([A-Za-z][\w+.-]*)://([^\s]*)")
_PARAMETERS = re.compile(r"[?&;#]\s*([A-Za-z][\w.%~-]*)\s*=\s*([^&;#\s]+)")


def looks_random(value: str) -> bool:
    """Whether a value looks like a generated key, whatever its name.

    One that a well-known service issued, 32 hexadecimal digits, or a long word whose kinds of characters change often.
    A path, a UUID, a host name or a bucket with a hash in its name is not.

    >>> looks_random("AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"), looks_random("company-lake-7d9f8b6c5d")
    (True, False)
    """
    # A path may hold words that look like anything, and masking it would hide where something is.
    if re.search(r"[\s/]", value):
        return False
    if _ISSUED.fullmatch(value):
        return True
    return any(_is_random_word(word) for word in re.findall(r"[A-Za-z0-9]+", _UUID.sub(" ", value)))


def _is_random_word(word: str) -> bool:
    if not any(map(str.isdigit, word)) or not any(map(str.isalpha, word)):
        return False
    is_mixed = any(map(str.islower, word)) and any(map(str.isupper, word))
    # Names such as dataLake2026 change a few times, keys change all along.
    changes = len(_SEGMENTS.findall(word)) > max(4, len(word) / 4)
    return (len(word) >= (14 if is_mixed else 20) and changes) or _HEX.fullmatch(word) is not None


def is_credential(name: str, value: str) -> bool:
    """Whether ``value`` is a credential, going by the name of what holds it and by its looks.

    >>> is_credential("API_TOKEN", "abc"), is_credential("STAGE", "prod"), is_credential("key", "country")
    (True, False, False)
    """
    if not value.strip():
        return False
    words = _words(name)
    if words[-1:] and words[-1] in _PLACE_WORDS:
        return False
    if names_secret(name):
        return True
    if _AMBIGUOUS_WORDS.intersection(words[-1:]) and re.fullmatch(r"(?=.*[0-9])[^\s=._-]{12,}", value):
        return not value.count("/") > 1
    return looks_random(value) and (not words or words[-1] not in _PLAIN_WORDS)


def names_secret(name: str) -> bool:
    """Whether a name says that it holds a credential."""
    words = _words(name)
    return looks_secret(name) or bool(_SECRET_WORDS.intersection(words) or _SECRET_AT_END.intersection(words[-1:]))


def may_name_secret(name: str) -> bool:
    """Whether a name says or may say that it holds a credential: ``key``, ``code``."""
    return names_secret(name) or bool(_AMBIGUOUS_WORDS.intersection(_words(name)[-1:]))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def is_plain_setting(name: str, value: str) -> bool:
    """Whether a free-form setting is ordinary: ``mode: append``, ``region: eu-west-1``, ``X-Tenant: acme``, a date.

    Masking it would garble every sentence that happens to use the same word. A variable, ``{{token}}``, is no secret.
    """
    return not may_name_secret(name) and _PLAIN_SETTING.fullmatch(value) is not None


def credentials_in_address(address: str) -> Iterator[str]:
    """The credentials inside an address of any scheme: what stands before its host, and parameters.

    >>> sorted(credentials_in_address("s3://KEY:pass%2Fword@bucket/x?sig=abc&page=2"))
    ['KEY', 'abc', 'pass%2Fword', 'pass/word']
    """
    for found in _AUTHORITY.finditer(address):
        yield from (form for part in _before_host(found[1].lower(), found[2]) for form in {part, unquote(part)})
    for name, value in _PARAMETERS.findall(address):
        named, held = unquote_plus(name), unquote_plus(value)
        if is_credential(named, held) or (may_name_secret(named) and not _PLAIN_SETTING.fullmatch(held)):
            yield from {value, held}


def _before_host(scheme: str, text: str) -> Iterator[str]:
    """The credentials of ``user:password@host/path``; a password may hold ``@`` and ``/`` that should be encoded."""
    user, _, rest = text.partition(":")
    if re.search(r"[/?#@]", user) or re.match(r"[0-9]*(?:[/?#,;]|$)", rest) or user.startswith("["):
        # No password: what follows the colon is a port. The user may be a token, as in https://ghp_…@host.
        token, is_user, _ = re.split(r"[/?#]", text, maxsplit=1)[0].partition("@")
        if is_user and looks_random(token):
            yield token
    elif "@" in rest:
        password = rest.rpartition("@")[0]
        yield from (password,) if password else ()
        # Buckets have keys for users, and some APIs take a key as user without a password.
        if looks_random(user) or (user and not password) or scheme.startswith("s3"):
            yield user
    elif ":" not in rest:
        # The host is missing, and the password stands where a port would be.
        yield re.split(r"[/?#]", rest, maxsplit=1)[0]


PLAIN_HEADERS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_PLAIN_PARAMETERS = frozenset({"grpc_max_message_size", "session_id", "use_ssl", "user_agent", "user_id"})
"""What a Spark Connect address says openly."""

# Every repetition is bounded: text from a server must not make the search quadratic.
_ASSIGNED = re.compile(r"(?i)(?:passw\w{0,40}|pass|pwd|secret\w{0,40}|token|sig|key)\s{0,20}=\s{0,20}([^&;\s]+)")


@dataclass(frozen=True, slots=True)
class Interpolated:
    """One value of a configuration file with environment variables in it: its place, its text and what they held."""

    place: tuple[str | int, ...]
    written: str = field(repr=False)
    text: str = field(repr=False)
    values: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def credentials(self) -> tuple[tuple[str, str], ...]:
        """The variables that hold a credential, with their values."""
        return tuple((name, value) for name, value in self.values if is_credential(name, value))


def texts_in(value: object) -> Iterator[str]:
    """The texts of a value of any depth; of one that is written in JSON also those inside it, and lines one by one.

    A text with blanks or a line break around it is there without them, too: who repeats it mostly drops them.
    """
    match value:
        case str():
            yield value
            if value != value.strip():
                yield value.strip()
            if "\n" in value.strip():
                yield from (line.strip() for line in value.splitlines() if line.strip())
            if value.lstrip()[:1] in ("{", "["):
                try:
                    inside = json.loads(value)
                except (ValueError, RecursionError):
                    return
                yield from texts_in(inside)
        case Mapping():
            yield from (text for each in value.values() for text in texts_in(each))
        case list() | tuple():
            yield from (text for each in value for text in texts_in(each))
        # "True" as a secret would mask half of every message.
        case int() | float() if not isinstance(value, bool):
            yield str(value)
        case _:
            return


def secrets_in(value: object) -> Iterator[str]:
    """The secrets of a specification, of a single connection as of a whole project.

    Those are secrets by their type, whatever is handed to functions, sent as headers or set as properties of a
    connection, and what in storage options, settings, parameters, bodies, addresses and environment variables is
    called or looks like one.
    """
    match value:
        case Secret():
            yield value.value
            yield from _in_address(value.value)
        case Interpolated():
            yield from (held for _, held in value.credentials)
            yield from (secret for _, held in value.values for secret in _in_address(held))
        case Location():
            yield from _of_names(value.options)
        case Mapping():
            yield from _of_names(value)
        case list() | tuple():
            yield from (secret for each in value for secret in secrets_in(each))
        case _ if is_dataclass(value) and not isinstance(value, type):
            for each in fields(value):
                yield from _of_field(value, each.name)
        case _:
            return


def _of_field(holder: object, name: str) -> Iterator[str]:
    value = getattr(holder, name)
    match name, value:
        case "headers", Mapping():
            sent = {key: text for key, text in value.items() if str(key).lower() not in PLAIN_HEADERS}
            yield from _in_arguments(sent)
        case "options" | "properties", Options() if name == "properties" or hasattr(holder, "function"):
            yield from _in_arguments(value)
        case "arguments", Options():
            yield from _in_arguments(value)
        case "remote", str():
            yield from _of_remote(value)
        case "url" | "push_url", Secret():
            # The place of a state provider or a Pushgateway is shown; only what it holds besides is secret.
            yield from _in_address(value.value)
        case "webhook", Secret():
            yield from _of_webhook(value.value)
        case "url" | "path", str():
            yield from jdbc_credentials(value) if value.startswith("jdbc:") else credentials_in_address(value)
        case _:
            yield from secrets_in(value)


def _in_arguments(value: object, name: str = "") -> Iterator[str]:
    """Texts of the value at any depth, without ordinary words and short numbers under ordinary names."""
    match value:
        case Mapping():
            for key, each in value.items():
                yield from _in_arguments(each, f"{name}_{key}" if looks_secret(name) else str(key))
        case list() | tuple():
            yield from (text for each in value for text in _in_arguments(each, name))
        # A retry count of 3 would otherwise be masked in every text with a 3 in it.
        case int() | float() if not looks_secret(name) and len(str(value)) < SHORTEST:
            return
        case _:
            yield from (text for text in texts_in(value) if not is_plain_setting(name, text))


def _of_names(value: Mapping[Any, Any]) -> Iterator[str]:
    """Texts at any depth with a secret name, or that look like a secret."""
    for key, each in value.items():
        if looks_secret(str(key)):
            yield from texts_in(each)
        elif isinstance(each, str):
            yield from (text for text in texts_in(each) if is_credential(str(key), text) or _may_be_key(text))
            yield from (secret for part in {each, *each.split(","), *each.split()} for secret in _in_address(part))
        else:
            yield from secrets_in(each)


def _may_be_key(value: str) -> bool:
    """Whether a setting may be a key: settings are masked on less suspicion than what people read in addresses."""
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return len(value) >= 16 and mixed and not re.search(r"[\s/]", value)


def _of_remote(url: str) -> Iterator[str]:
    """The secrets of a Spark Connect address: parameters that Spark does not know go as headers with every call."""
    yield from _in_address(url)
    for name, _, value in (each.partition("=") for each in url.split(";")[1:]):
        if name.strip().lower() not in _PLAIN_PARAMETERS:
            yield value
            yield unquote(value)


def _of_webhook(url: str) -> Iterator[str]:
    """An address that is a key as a whole: itself, and what follows its host, which servers and proxies repeat."""
    yield url
    yield from _in_address(url)
    _, _, path = url.partition("://")[2].partition("/")
    last = path.rpartition("/")[2]
    # An ordinary word, as in https://example.com/alerts, would be masked in every message.
    yield from (path,) if path != last else ()
    yield from (last,) if looks_random(last) or _may_be_key(last) else ()


def _in_address(url: str) -> Iterator[str]:
    """The passwords inside an address, and of assignments such as ``-Dpassword=…``."""
    yield from credentials_in_address(url)
    for found in _ASSIGNED.findall(url):
        yield found
        yield unquote(found)
