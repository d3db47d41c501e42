"""Decides what counts as a credential: by the name that holds it, by its looks, or by its place in an address.

A configuration holds credentials in three ways. Keys made for them (passwords, tokens, headers, storage options) are
credentials whatever they contain. Other places, such as parameters and paths, may get one from an environment variable.
And addresses carry them before the host or among their parameters. The last two are guesses, so the rules are here, in
one place, with examples of both sides:

1. A name that says "secret" (``API_TOKEN``, ``db.password``, ``sig``) makes any value a credential.
2. A name that says what else it is (``STAGE``, ``BUCKET``, ``RUN_ID``) makes any value an ordinary one.
3. Otherwise the value decides: one that looks random is a credential, ``prod`` is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote, unquote_plus

from tidegate.specs.locations import looks_secret

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = frozenset({"password", "passwd", "pwd", "passcode", "secret", "token", "apikey", "bearer", "cookie"})
_SECRET_WORDS |= {"credential", "credentials", "signature", "sig", "sas", "jwt", "authorization"}
_AMBIGUOUS_WORDS = frozenset({"key", "auth", "code", "pass", "pw", "session", "sid", "hash", "pin", "otp"})
"""Words for credentials and for ordinary things: ``key=AIzaSy…`` and ``key=country``."""

_PLAIN_WORDS_TEXT = (
    "id uuid sha commit build run ref tag version dir directory folder path file prefix bucket container "
    "account host hostname port server endpoint region zone stage env environment tenant user username "
    "login date day month year hour time from to table schema database db catalog name column columns "
    "field format"
)
_PLAIN_WORDS = frozenset(_PLAIN_WORDS_TEXT.split())
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SEGMENTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_HEX = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{32,}", re.IGNORECASE)
_AUTHORITY = re.compile(r"://([^\s]*)")
_PARAMETERS = re.compile(r"[?&;#]\s*([A-Za-z][\w.%~-]*)\s*=\s*([^&;#\s]+)")


def looks_random(value: str) -> bool:
    """Whether a value looks like a generated key, whatever its name.

    A word is random if its kinds of characters change often. A path, a UUID, a host name or a bucket is not.

    >>> looks_random("AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"), looks_random("company-data-lake-2026-prod")
    (True, False)
    """
    if re.search(r"[\s/]", value):
        return False
    return any(_is_random_word(word) for word in re.findall(r"[A-Za-z0-9]+", _UUID.sub(" ", value)))


def _is_random_word(word: str) -> bool:
    if not any(map(str.isdigit, word)) or not any(map(str.isalpha, word)):
        return False
    changes = len(_SEGMENTS.findall(word))
    # Short keys change at nearly every letter; long ones have runs of one kind, but more of them than dataLake2026.
    is_dense = len(word) >= 8 and changes >= 0.6 * len(word)
    return is_dense or (len(word) >= 12 and changes > max(4, len(word) / 4)) or _HEX.fullmatch(word) is not None


def is_credential(name: str, value: str) -> bool:
    """Whether ``value`` is a credential, going by the name of what holds it and by its looks.

    >>> is_credential("API_TOKEN", "abc"), is_credential("STAGE", "prod"), is_credential("key", "country")
    (True, False, False)
    """
    if not value.strip():
        return False
    words = [word.lower() for word in _WORDS.findall(name)]
    if looks_secret(name) or _SECRET_WORDS.intersection(words):
        return True
    if _AMBIGUOUS_WORDS.intersection(words[-1:]):
        return looks_random(value) or (
            len(value) >= 12 and any(map(str.isdigit, value)) and not re.search(r"\s", value)
        )
    return looks_random(value) and words[-1:] != [] and words[-1] not in _PLAIN_WORDS


def is_plain_word(name: str, value: str) -> bool:
    """Whether a free-form setting is an ordinary word under an ordinary name: ``mode: append``, ``X-Tenant: acme``.

    Masking such a word would garble every sentence that happens to use it. A variable, ``{{token}}``, is no secret.
    """
    if re.fullmatch(r"\{\{[^{}]*\}\}", value):
        return True
    words = {word.lower() for word in _WORDS.findall(name)}
    said = looks_secret(name) or words & (_SECRET_WORDS | _AMBIGUOUS_WORDS)
    return not said and re.fullmatch(r"[A-Za-z]{1,20}", value, re.ASCII) is not None


def credentials_in_address(address: str) -> Iterator[str]:
    """The credentials inside an address of any scheme: what stands before its host, and parameters.

    >>> sorted(credentials_in_address("s3://KEY:pass%2Fword@bucket/x?sig=abc&page=2"))
    ['KEY', 'abc', 'pass%2Fword', 'pass/word']
    """
    for found in _AUTHORITY.finditer(address):
        yield from (form for part in _before_host(found[1]) for form in {part, unquote(part)})
    for name, value in _PARAMETERS.findall(address):
        if is_credential(unquote_plus(name), unquote_plus(value)):
            yield from {value, unquote_plus(value)}


def _before_host(text: str) -> Iterator[str]:
    """The credentials of ``user:password@host/path``; a password may hold ``@`` and ``/`` that should be encoded."""
    user, _, rest = text.partition(":")
    if re.search(r"[/?#@]", user) or re.match(r"[0-9]*(?:[/?#,]|$)", rest) or user.startswith("["):
        # No password: what follows the colon is a port. The user may be a token, as in https://ghp_…@host.
        token, is_user, _ = re.split(r"[/?#]", text, maxsplit=1)[0].partition("@")
        if is_user and looks_random(token):
            yield token
        return
    # Without an @ the host is missing, and the password stands where a port would be.
    yield rest.rpartition("@")[0] or re.split(r"[/?#]", rest, maxsplit=1)[0]
    if looks_random(user) or user.isupper():
        yield user


@dataclass(frozen=True, slots=True)
class Interpolated:
    """One value of a configuration file with environment variables in it: its place, its text and what they held."""

    place: tuple[str | int, ...]
    written: str = field(repr=False)
    values: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def credentials(self) -> tuple[tuple[str, str], ...]:
        """The variables that hold a credential, with their values."""
        return tuple((name, value) for name, value in self.values if is_credential(name, value))
