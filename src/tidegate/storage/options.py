"""Addresses and storage options as people write them, and as the client of one scheme takes them.

Names are those of the cloud providers' environment variables, in upper or lower case. Options of another scheme are
ignored, so that one set of options serves a local source and an S3 table alike; an unknown option of the own scheme is
an error. Time-outs and retries are bounded (``timeout``, ``connect_timeout``, ``max_retries``, ``retry_timeout``), for
the store and for the Delta library alike.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from tidegate.errors import ConfigError, StorageError
from tidegate.specs.locations import CATALOG, Options, split_address

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "s3": ("aws_",),
    "gs": ("google_", "gcs_"),
    "az": ("azure_",),
}
"""Prefixes of the option names of each scheme."""

_CLIENT = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "pool_idle_timeout",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "read_timeout",
    "root_certificate",
    "timeout",
    "user_agent",
}
_ELSEWHERE = ("aws_s3_allow_unsafe_rename", "aws_s3_locking_provider", "aws_dynamodb_", "aws_profile")
"""Options for other readers of the same set; the client does not know them."""

_KNOWN = {
    "s3": (
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "aws_region",
        "aws_endpoint_url",
        "aws_allow_http",
        "aws_skip_signature",
        "aws_virtual_hosted_style_request",
        "aws_server_side_encryption",
    ),
    "gs": ("google_service_account", "google_service_account_key", "google_application_credentials"),
    "az": ("azure_storage_account_name", "azure_storage_account_key", "azure_storage_sas_token"),
}
# `use_fabric_endpoint` is a switch, not an address.
_ENDPOINT = re.compile(r"(?<!use_fabric_)endpoint(_url)?(_s3)?$")
# Bounded: a store that does not respond must fail the pass, not block it forever.
_RETRIES = {"max_retries": "7", "retry_timeout": "90s"}
_UNITS = {"ms": timedelta(milliseconds=1), "s": timedelta(seconds=1), "m": timedelta(minutes=1)}
_SECRET_WORDS = ("secret", "key", "token", "password", "credential", "sas")


def client_settings(options: Options, scheme: str) -> ClientConfig:
    """Settings of the HTTP client: bounded times, which options may change, also under names of the scheme.

    Under those names the environment may change them, too: clients take what else is there by themselves, but not
    these, once they are given any.
    """
    settings: dict[str, Any] = {"connect_timeout": "5s", "timeout": "60s"}
    given = {name.lower(): value for name, value in options.items()}
    for prefix in FAMILIES[scheme]:
        around = {name: os.environ.get(f"{prefix}{name}".upper()) for name in _CLIENT}
        settings |= {name: value for name, value in around.items() if value}
    for prefix in ("", *FAMILIES[scheme]):
        settings |= {name: given[prefix + name] for name in _CLIENT if prefix + name in given}
    return settings  # type: ignore[return-value]  # a TypedDict whose keys were checked above


def pick_option(names: Sequence[str], *places: Mapping[str, str]) -> str | None:
    """The first of ``names`` (in lower case) that has a value in the first of ``places`` that has any of them."""
    for place in places:
        given = {name.lower(): value for name, value in place.items()}
        if found := next((given[name] for name in names if given.get(name)), None):
            return found
    return None


def retries(options: Options) -> RetryConfig:
    """At most eight tries within ninety seconds, unless options say otherwise."""
    chosen = retry_options(options)
    backoff = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=10), "base": 2}
    timeout = _duration("retry_timeout", chosen["retry_timeout"])
    return {"max_retries": int(chosen["max_retries"]), "retry_timeout": timeout, "backoff": backoff}  # type: ignore[typeddict-item]  # same keys


def retry_options(options: Options) -> dict[str, str]:
    """The retry settings as options: number and deadline."""
    given = {name.lower(): value for name, value in options.items()}
    chosen = {name: given.get(name, default) for name, default in _RETRIES.items()}
    if not re.fullmatch(r"\d{1,4}", chosen["max_retries"]):
        raise StorageError(
            f"storage option max_retries: {chosen['max_retries']!r} is not a whole number", "write 7, or 0 for none"
        )
    _duration("retry_timeout", chosen["retry_timeout"])
    return chosen


def _duration(name: str, text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})(ms|s|m)", text)
    if found is None:
        raise StorageError(f"storage option {name}: {text!r} is not a duration", "write 90s, 2m or 500ms")
    return int(found[1]) * _UNITS[found[2]]


def of_scheme(options: Options, scheme: str) -> dict[str, str]:
    """The options that belong to ``scheme``, with lower-case names."""
    given = {name.lower(): value for name, value in options.items()}
    mine = {name: value for name, value in given.items() if name.startswith(FAMILIES[scheme])}
    return {name: value for name, value in mine.items() if not name.startswith(_ELSEWHERE)}


def check_endpoints(config: Mapping[str, str]) -> None:
    """Raise :class:`ConfigError` for an endpoint that is not an http(s) address: the client itself would panic."""
    for name, value in config.items():
        if not _ENDPOINT.search(name):
            continue
        parts = split_address(value, f"storage option {name.upper()}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError((f"storage option {name.upper()} is not the address of a server; write https://HOST",))


def unknown_option(uri: str, scheme: str, config: Mapping[str, str], error: Exception) -> StorageError:
    """The error for an option that the client of ``scheme`` does not have."""
    name = next((name for name in config if f"'{name}'" in str(error)), "?")
    near = get_close_matches(name, _KNOWN[scheme], n=1)
    hint = f"did you mean {near[0].upper()}?" if near else f"known are {', '.join(_KNOWN[scheme])}"
    return StorageError(f"{uri}: {name.upper()!r} is not a storage option of {scheme}://", hint)


def secrets(options: Options) -> tuple[str, ...]:
    """Values that must never be shown: those of options, and those of the environment, which clients take as well."""
    return (*_pick_secrets(options), *secrets_of_environment(os.environ))


def secrets_of_environment(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The credentials of stores among the variables of the environment."""
    families = tuple(prefix.upper() for prefixes in FAMILIES.values() for prefix in prefixes)
    # The path of a file with credentials is none.
    others = ("_FILE", "_APPLICATION_CREDENTIALS")
    return _pick_secrets(
        {name: value for name, value in environment.items() if name.startswith(families) and not name.endswith(others)}
    )


def _pick_secrets(options: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        value for name, value in options.items() if value and any(word in name.lower() for word in _SECRET_WORDS)
    )


ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "az", "abfs": "az", "abfss": "az", "adl": "az"}


SCHEMES = ("file", "s3", "gs", "az", "memory")


def absolute_uri(uri: str, base: Path) -> str:
    """The absolute URI of what a person wrote in a file in directory ``base``, without trailing slash.

    >>> absolute_uri("data/new files/", Path("/srv"))
    'file:///srv/data/new%20files'
    >>> absolute_uri("s3a://lake/raw/", Path("/srv"))
    's3://lake/raw'
    """
    if "://" not in uri and not uri.startswith("file:"):
        path = os.path.normpath(os.path.join(base, os.path.expanduser(uri)))
        return f"file://{quote(os.path.abspath(path), safe='/=:+,@~')}".rstrip("/") or "file://"
    scheme, _, rest = uri.partition(":")
    scheme = scheme.lower()
    if scheme == "file":
        return f"file:///{rest.removeprefix('//').removeprefix('localhost').strip('/')}".rstrip("/")
    plain = scheme if scheme in ("abfs", "abfss") else ALIASES.get(scheme, scheme)
    return f"{plain}:{rest}".rstrip("/")


def describe_misspelling(uri: str) -> str:
    """What is wrong with an address that has a scheme but not ``://``; empty for every other.

    ``file:/path`` is right, as in Hadoop. Without this check ``s3:/lake/x`` would be a folder of this machine.

    >>> describe_misspelling("s3:/lake/x")
    "has one slash after 's3:'; write s3://lake/x"
    """
    scheme, found, rest = uri.partition(":")
    name = scheme.lower()
    if not found or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]+", scheme) or name in ("file", "jdbc"):
        return ""
    if name == "dbfs":
        path = rest.strip("/")
        return f"is a path of Databricks' own file system; write /dbfs/{path}, or the address of the bucket behind it"
    if rest.startswith("//") or not (rest.startswith("/") or name in (*SCHEMES, *ALIASES)):
        return ""
    if name in (*SCHEMES, *ALIASES):
        slashes = "one slash" if rest.startswith("/") else "no slashes"
        return f"has {slashes} after {scheme + ':'!r}; write {scheme}://{rest.lstrip('/')}"
    known = ", ".join(f"{each}://" for each in SCHEMES)
    return f"begins like an address, and {scheme + ':'!r} is no store; write one of {known}, or ./{uri} for a folder"


def check_spelling(*uris: str) -> None:
    """Raise :class:`ConfigError` for an address of the command line that has a scheme but not ``://``."""
    for uri in uris:
        if wrong := describe_misspelling(uri):
            raise ConfigError((f"{uri}: {wrong}",))


_GLOB = re.compile(r"\*|\?(?![^/]*=)|\[!?\]?[^\]/]+\]")
_BRACES = re.compile(r"(?<!\{)\{[^{}/]*,[^{}/]*\}")


def split_glob(uri: str, base: Path) -> tuple[str, str] | None:
    """The folder and the pattern of an address that has a glob in it.

    None for every other address, and for the very name of a file or folder of this machine. Raises
    :class:`ConfigError` for a glob that cannot be taken apart.

    >>> split_glob("s3://lake/raw/*.csv", Path("/srv"))
    ('s3://lake/raw/', '/*.csv')
    >>> split_glob("data/2026-*/", Path("/srv"))
    ('data/', '2026-*/**')
    """
    is_address = "://" in uri
    start = uri.index("/", uri.index("://") + 3) + 1 if is_address and "/" in uri.partition("://")[2] else 0
    levels = uri[start:].split("/") if start or not is_address else []
    first = next((at for at, level in enumerate(levels) if _GLOB.search(level) or _BRACES.search(level)), None)
    if first is None or _exists_literally(uri, base):
        return None
    place, globs = uri[:start] + "".join(f"{level}/" for level in levels[:first]), levels[first:]
    if any(_BRACES.search(level) for level in globs):
        raise ConfigError(("has {…,…} in it, which no glob here has; use *, or give each alternative a source",))
    last = globs[-1]
    if last and last != "**" and "." not in re.sub(r"\[[^\]]*\]", "", last) and "=" not in last:
        names = "/".join(globs) if len(globs) > 1 else f"/{last}"
        files = f"for files write source_uri: {place or '.'} and pattern: {names!r}"
        folders = f"for the files of folders end it with '/'; {place or './'} alone reads everything there"
        raise ConfigError((f"ends in {last!r}, which may mean files or folders; {files}; {folders}",))
    if last != "**" and "." not in last:
        globs = [*(globs if last else globs[:-1]), "**"]
    pattern = "/".join(globs)
    if is_address:
        # A pattern is compared with names as they are, and what was encoded is no wildcard.
        pattern = re.sub(r"(?:%[0-9A-Fa-f]{2})+", lambda found: escape(unquote(found[0])), pattern)
    return place or ".", pattern if "/" in pattern or pattern == "**" else f"/{pattern}"


def _exists_literally(uri: str, base: Path) -> bool:
    absolute = absolute_uri(uri, base)
    return absolute.startswith("file://") and os.path.lexists(unquote(absolute.removeprefix("file://")))


def scheme_of(uri: str) -> str:
    """The scheme of an address, whichever of its names is used.

    >>> scheme_of("abfss://box@account/x?"), scheme_of("S3A://lake")
    ('az', 's3')
    """
    scheme = uri.partition("://")[0].lower()
    return ALIASES.get(scheme, scheme)


def split_uri(uri: str) -> tuple[str, str, str]:
    """Split into scheme, bucket or host, and path as plain text without outer slashes; raises ``StorageError``."""
    scheme, (_, found, rest) = scheme_of(uri), uri.partition("://")
    if uri.startswith(CATALOG):
        raise StorageError(
            f"it is not known yet where the table {rest} lies", "run the pipeline once, or give its 'location'"
        )
    if not found or scheme not in SCHEMES:
        raise StorageError(
            f"{uri!r} is not a location",
            f"give a path or a URI that begins with one of {', '.join(SCHEMES)}://",
        )
    if "\0" in unquote(rest):
        raise StorageError(f"{uri!r} is not a location: a path cannot contain a NUL character", "remove it")
    if "?" in rest or "#" in rest:
        raise StorageError(f"{uri}: a location cannot contain '?' or '#'", "write them as %3F and %23")
    authority, _, path = rest.partition("/")
    if scheme != "file" and not authority:
        raise StorageError(f"{uri} names no bucket", f"write {scheme}://BUCKET/PATH")
    return scheme, authority, unquote(path).strip("/")
