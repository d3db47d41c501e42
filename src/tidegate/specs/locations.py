"""Where things are and how they are reached: locations, secrets, origins of HTTP requests, JDBC addresses.

**HTTP.** A link or a redirect is the word of a server. It is followed to the server itself and to origins that the
configuration names; never from https to http, and never to this machine or to services that hand out credentials inside
a network, unless the API itself is there. Names are not resolved here: the user chose those that are allowed.

**JDBC.** An address is shown and recorded only by the parts that were understood, never by cutting text out of it:
every driver has its own way to hide a password in an address.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated
from urllib.parse import SplitResult, unquote, urlsplit

from tidegate.errors import ConfigError
from tidegate.specs.keys import Key


class Options(Mapping[str, str]):
    """Storage options: a mapping whose values never show in ``repr``, logs or errors."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._values.items())))

    def __repr__(self) -> str:
        return "Options({" + ", ".join(f"{key!r}: '***'" for key in self._values) + "})"


CATALOG = "catalog://"
"""Before the name of a table whose place is not known yet."""


@dataclass(frozen=True, slots=True)
class Location:
    """An absolute URI (``file:///…``, ``s3://…``, ``memory://…``) without trailing slash, and how to reach it.

    ``sync``: what is written there is forced to disk before it counts. Object stores do so whatever it says.
    """

    uri: str
    options: Annotated[
        Options, Key("Settings and credentials of the object store; never shown.", name="storage_options")
    ] = field(default_factory=Options)
    sync: Annotated[
        bool, Key("On local disks: force files, documents and log entries to disk before a commit counts.")
    ] = True

    @property
    def is_located(self) -> bool:
        """Whether the place is known; that of a table by name may still have to be asked of Spark's catalog."""
        return not self.uri.startswith(CATALOG)

    @property
    def is_forced(self) -> bool:
        """Whether writers have to force what they write to disk: on local disks, unless ``sync`` says otherwise."""
        return self.sync and self.uri.lower().startswith("file:")


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that never shows: not in ``repr``, logs, errors, plans or states."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "***"


_SECRET_KEY = re.compile(
    r"(?i)passw|passphrase|secret|token|credential|signature|sas_|api[._-]?key|access[._-]?key|private[._-]?key"
)


def looks_secret(key: str) -> bool:
    """Whether a key of this name holds something that must not be shown.

    >>> looks_secret("AWS_SECRET_ACCESS_KEY"), looks_secret("spark.executor.memory")
    (True, False)
    """
    return bool(_SECRET_KEY.search(key))


def split_address(address: str, name: str = "the address") -> SplitResult:
    """The parts of an address that a person wrote, with a port that is a number; ``name`` is what errors call it.

    :class:`ConfigError` if it cannot be read. Nobody knows then where its password ends, so only the scheme is shown.
    """
    try:
        parts = urlsplit(address)
        # Reading the port is what checks it.
        _ = parts.port
    except ValueError:
        scheme, found, _ = address.partition("://")
        shown = f" {scheme}://…" if found and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.:-]*", scheme) else ""
        raise ConfigError(
            (
                f"{name}{shown} cannot be read: its host or port is not valid; write SCHEME://HOST:PORT/PATH, an IPv6 "
                "host in brackets as in http://[::1]:8080, and special characters of a password as %XX",
            )
        ) from None
    return parts


PORTS = {"http": 80, "https": 443}

_ADDRESS = re.compile(r"(https?)://([^/?#]*)", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
# Addresses at which clouds hand out credentials to whatever runs inside them: a redirect there would fetch them.
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    )
)
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.azure.internal", "instance-data"})
_OWN_NAMES = frozenset({"localhost", "localhost.localdomain", "localhost6", "ip6-localhost", "ip6-loopback"})
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# IPv6 has several ways to carry an IPv4 address, and each would lead past a check of the number alone.
_OLD_COMPATIBLE = ipaddress.ip_network("::/96")
_THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class NotOrigin(ValueError):
    """An address that names no HTTP server, or in a way that programs read differently; the argument says why."""


class Reach(StrEnum):
    """What a host name or address can lead to."""

    ANYONE = "an ordinary host"
    OWN = "this machine"
    LINK_LOCAL = "a link-local address"
    METADATA = "a metadata service"
    NOBODY = "an address that is not a host"


@dataclass(frozen=True, slots=True)
class Origin:
    """What credentials belong to; the host is in small letters, without a dot at its end, numbers in their usual form.

    >>> str(origin_of("HTTPS://API.example.:443/v1"))
    'https://api.example'
    """

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == PORTS[self.scheme] else f":{self.port}")

    @property
    def reach(self) -> Reach:
        """What it can lead to."""
        with suppress(ValueError):
            return _reach(ipaddress.ip_address(self.host))
        if self.host in _OWN_NAMES or self.host.endswith(".localhost"):
            return Reach.OWN
        return Reach.METADATA if self.host in _METADATA_NAMES else Reach.ANYONE


def origin_of(url: str) -> Origin:
    """The origin of an absolute address; :class:`NotOrigin` where it holds a user, or can be read in two ways.

    >>> origin_of("https://api.example@evil.example/")
    Traceback (most recent call last):
    tidegate.specs.locations.NotOrigin: it contains a user or a password
    """
    found = _ADDRESS.match(url)
    if found is None or not found[2]:
        raise NotOrigin("it is not the address of an HTTP server")
    scheme, authority = found[1].lower(), found[2]
    # Programs disagree about which part is the host, as in https://api.example@evil.example.
    if "@" in authority:
        raise NotOrigin("it contains a user or a password")
    host, port = _split_authority(authority)
    return Origin(scheme, _host(host), PORTS[scheme] if port is None else port)


def refusal(home: Origin, target: Origin, allowed: Collection[Origin]) -> tuple[str, str] | None:
    """Why a link from ``home`` to ``target`` is not followed, and the remedy; None if it is followed."""
    if target == home:
        return None
    # A server in the same place may link to its neighbours, as in tests and inside a cluster.
    if target.reach is not Reach.ANYONE and target.reach is not home.reach:
        return f"{target} is {target.reach}", "check the server; Tidegate never follows such an address"
    if home.scheme == "https" and target.scheme == "http":
        return f"{target} is not encrypted, and {home} is", "check the server; Tidegate never goes from https to http"
    if target not in allowed:
        return f"{target} is not {home}", f"if it belongs to the API, allow it: allowed_origins: ['{target}']"
    return None


def _split_authority(authority: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]*))?", authority)
    if found is None:
        raise NotOrigin("its host cannot be read")
    port = int(found[2]) if found[2] else None
    if port is not None and not 0 < port < 65_536:
        raise NotOrigin("its port is not between 1 and 65535")
    return found[1], port


def _host(text: str) -> str:
    if text.startswith("["):
        try:
            return str(ipaddress.IPv6Address(text[1:-1]))
        except ValueError:
            raise NotOrigin("its host cannot be read") from None
    try:
        name = (text if text.isascii() else text.encode("idna").decode("ascii")).lower().removesuffix(".")
    except UnicodeError:
        raise NotOrigin("its host cannot be read") from None
    if not _NAME.fullmatch(name):
        raise NotOrigin("its host cannot be read")
    # What a resolver may take for a number: 2130706433, 0x7f.1, 0177.0.0.1.
    if re.fullmatch(r"[0-9]+|0x[0-9a-f]*", name.rpartition(".")[2]):
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError:
            # Resolvers read 0177.0.0.1 as octal, others as decimal: what cannot be read one way only is refused.
            raise NotOrigin("its host is a number in an unusual form") from None
    return name


def _reach(number: IpAddress) -> Reach:
    inner = _extract_ipv4(number)
    if inner is not None:
        return _reach(inner)
    if number in _METADATA:
        return Reach.METADATA
    if number.is_loopback or number.is_unspecified or (number.version == 4 and number in _THIS_NETWORK):
        return Reach.OWN
    if number.is_link_local:
        return Reach.LINK_LOCAL
    return Reach.NOBODY if number.is_multicast or number.is_reserved else Reach.ANYONE


def _extract_ipv4(number: IpAddress) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address carries."""
    if isinstance(number, ipaddress.IPv4Address) or number.is_loopback or number.is_unspecified:
        return None
    if number in _NAT64 or number in _OLD_COMPATIBLE:
        return ipaddress.IPv4Address(int(number) & 0xFFFF_FFFF)
    teredo = number.teredo
    return number.ipv4_mapped or number.sixtofour or (teredo[1] if teredo else None)


_JDBC = re.compile(r"jdbc:([A-Za-z0-9_.-]+)(?:\+[A-Za-z0-9]+)?:(.*)", re.DOTALL)
_FLAVOURS = re.compile(r"(?:[A-Za-z0-9_-]+:)*//")
_HOST = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)"
_PLAIN_HOST = re.compile(rf"{_HOST}(?:\\[A-Za-z0-9_$-]+)?(?::([0-9]+))?")
_DATABASE = re.compile(r"[\w.$~ /:+-]*")
_FILE = re.compile(r"[\w.$~ /\\:+@!,-]*")
_ORACLE = re.compile(r"[a-z0-9]+:[^@]*@(.*)", re.DOTALL | re.IGNORECASE)
_PAIR = re.compile(r"(?:^|[?&;,(:/\s])\s*([A-Za-z][\w .%-]*?)\s*=\s*([^?&;,()]*)")
_PARAMETER = re.compile(r"(?<![\w.%-])([A-Za-z][\w .%-]*?)[\"']?\s*=")
_USER_NAMES = frozenset({"user", "username", "usr", "userid", "uid", "login", "logon"})
_USERS = _USER_NAMES | {"pwd", "pass", "pw", "logdata", "passcode"}
_KEY_FILES = frozenset({"sslkey"})
_NAMES = ("databasename", "database", "initialcatalog", "dbname", "db")
_OF_FILES = frozenset({"sqlite", "duckdb", "derby", "h2", "hsqldb", "ucanaccess"})
# Encoded more often than that, no driver would understand it either.
_UNFOLDED = 3


@dataclass(frozen=True, slots=True)
class JdbcAddress:
    """The parts of an address that were understood; ``hosts`` are with their ports, as the address has them."""

    subprotocol: str
    hosts: tuple[str, ...] = ()
    database: str | None = None

    def __str__(self) -> str:
        """What the user names: the kind of database and the database; not where it is today."""
        return f"jdbc:{self.subprotocol}:{self.database or ''}"


def jdbc_address_of(url: str) -> JdbcAddress | None:
    """The parts of ``url``; None where its form is not known.

    >>> address = jdbc_address_of("jdbc:postgresql://db-1:5432,db-2/shop?sslmode=require")
    >>> str(address), address.hosts
    ('jdbc:postgresql:shop', ('db-1:5432', 'db-2'))
    """
    found = _JDBC.fullmatch(url.strip())
    if found is None:
        return None
    subprotocol, rest = found[1].lower(), found[2]
    if subprotocol == "oracle":
        return _oracle(rest)
    body = re.split(r"[?;]", rest, maxsplit=1)[0]
    flavours = _FLAVOURS.match(body)
    if flavours is None:
        is_plain = _FILE.fullmatch(body) is not None and (subprotocol in _OF_FILES or "@" not in body)
        return JdbcAddress(subprotocol, (), body) if is_plain else None
    place = body[flavours.end() :]
    authority, _, path = place.rpartition("@")[2].partition("/")
    hosts = _hosts(authority)
    database = _database(path)
    if hosts is None or database is None:
        return None
    return JdbcAddress(subprotocol, hosts, database or _find_database(rest))


def identity_of(url: str) -> str:
    """What an address stands for in identities: kind and database, or, of a form that is not known, a digest.

    >>> identity_of("jdbc:mysql://me:secret@db/shop"), identity_of("jdbc:sqlserver://db;databaseName=shop")
    ('jdbc:mysql:shop', 'jdbc:sqlserver:shop')
    """
    known = jdbc_address_of(url)
    if known is not None:
        return str(known)
    kind = _JDBC.match(url)
    name = f"jdbc:{kind[1].lower()}" if kind else "jdbc"
    text = re.split(r"[?;]", url, maxsplit=1)[0]
    # A digest of a short password can be guessed, so an address with one gets none.
    digest = "" if holds_credentials(url) else hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{name}:~{digest}"


def hosts_of(url: str) -> str:
    """Where the database is, as a note; empty where that is not known."""
    known = jdbc_address_of(url)
    return "" if known is None else ", ".join(known.hosts)


def holds_credentials(url: str) -> bool:
    """Whether an address holds a user or a password anywhere, even if it cannot be parsed."""
    return any(_holds(each) for each in _unfold(url))


def jdbc_credentials(url: str) -> Iterator[str]:
    """The passwords and keys inside a JDBC address, in the forms in which it may be repeated.

    ``options`` of PostgreSQL carries settings of any name, so that all of it counts.

    >>> sorted(jdbc_credentials("jdbc:postgresql://db/shop?user=me&password=a%2Fb"))
    ['a%2Fb', 'a/b']
    """
    found = _JDBC.fullmatch(url.strip())
    kind, rest = (found[1].lower(), found[2]) if found else ("", url)
    before = re.search(r"//[^/@:]*:(.*)@", rest) or (
        re.match(r"[a-z0-9]*:[^/@]*/(.*?)@", rest) if kind == "oracle" else None
    )
    if before:
        yield from {before[1], unquote(before[1])}
    for name, value in _pairs(rest):
        if value and (name == "options" or (_is_credential(name) and name not in _USER_NAMES)):
            yield from {value, unquote(value), unquote(value.replace("+", " "))}
            yield from (each for each in re.findall(r"=([^\s,;&]+)", unquote(value)) if len(each) > 3)


def public_address(url: str) -> str:
    """An address for people: whole if it was parsed and holds no credentials, otherwise its kind alone."""
    if jdbc_address_of(url) is not None and not holds_credentials(url):
        # PostgreSQL's options are settings of any name, with any value.
        return re.sub(r"(?i)(?<=[?&])(options=)[^&]*", r"\1***", url)
    kind = _JDBC.match(url)
    return f"jdbc:{kind[1].lower()}:***" if kind else "***"


def _holds(url: str) -> bool:
    found = _JDBC.fullmatch(url.strip())
    kind, rest = (found[1].lower(), found[2]) if found else ("", url)
    if kind == "oracle":
        before = re.match(r"[A-Za-z0-9]*:?([^@]*)@", rest)
        has_user = rest.count("@") > 1 or (before is not None and bool(before[1].strip()))
        has_user = has_user or re.match(r"[A-Za-z0-9]+:[^/@(]+/", rest) is not None
    elif kind in _OF_FILES and not _FLAVOURS.match(rest):
        has_user = False
    else:
        has_user = "@" in rest
    return has_user or any(map(_is_credential, _PARAMETER.findall(rest)))


def _is_credential(parameter: str) -> bool:
    """Whether a parameter of an address, of whatever driver, holds a user, a password or a key."""
    name = re.sub(r"[^a-z0-9]", "", parameter.lower())
    return looks_secret(name) or name in _USERS or (name.endswith("key") and name not in _KEY_FILES)


def _unfold(url: str) -> Iterator[str]:
    """The address, then with its percent-encoding undone, repeatedly."""
    for _ in range(_UNFOLDED):
        yield url
        further = unquote(url.replace("+", " "))
        if further == url:
            return
        url = further
    yield url


def _hosts(authority: str) -> tuple[str, ...] | None:
    """Hosts with their ports, of every form that drivers take; None where one is not understood."""
    if not authority:
        return ()
    found = []
    for each in re.split(r",(?![^(]*\))", authority):
        text = each.strip()
        if text.startswith(("(", "address=(")):
            pairs = dict(_pairs(text))
            text = pairs.get("host", "") + (f":{pairs['port']}" if pairs.get("port") else "")
        plain = _PLAIN_HOST.fullmatch(text)
        if plain is None:
            return None
        found.append(plain[1] + (f":{plain[2]}" if plain[2] else ""))
    return tuple(found)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for name, value in _PAIR.findall(text):
        yield re.sub(r"[^a-z0-9]", "", name.lower()), value.strip().strip("{}")


def _database(path: str) -> str | None:
    """The database that follows the hosts; empty where there is none, None where it is not understood."""
    first = path.partition(":")[0]
    if "=" in path and "=" not in first and _DATABASE.fullmatch(first):
        return first.strip("/")
    if "=" in path:
        return _find_database(path) or ""
    return path.strip("/") if _DATABASE.fullmatch(path) else None


def _find_database(text: str) -> str | None:
    """The database among parameters."""
    pairs = dict(_pairs(text))
    name = next((pairs[each] for each in _NAMES if pairs.get(each)), None)
    return name if name is not None and _DATABASE.fullmatch(name) else None


def _oracle(rest: str) -> JdbcAddress | None:
    found = _ORACLE.fullmatch(rest)
    if found is None:
        return JdbcAddress("oracle", (), rest) if re.fullmatch(r"[\w.$-]*", rest) else None
    place = found[1].rpartition("@")[2].strip()
    if place.startswith("("):
        pairs = [*_pairs(place)]
        hosts = [value for name, value in pairs if name == "host"]
        ports = [value for name, value in pairs if name == "port"]
        name = next((value for key, value in pairs if key in ("servicename", "sid")), None)
        whole = [f"{host}:{port}" for host, port in zip(hosts, ports, strict=False)] or hosts
        is_plain = all(_PLAIN_HOST.fullmatch(each) for each in whole) and name and _DATABASE.fullmatch(name)
        return JdbcAddress("oracle", tuple(whole), name) if is_plain else None
    plain = re.fullmatch(
        rf"(?:[a-z]*:?//)?{_HOST}(?::([0-9]+))?(?:[/:]([\w.$-]+))?(?::\w+)?(?:/\w+)?", place.split("?")[0]
    )
    if plain is None:
        return None
    if plain[2] is None and plain[3] is None and "//" not in place:
        return JdbcAddress("oracle", (), plain[1])
    return JdbcAddress("oracle", (plain[1] + (f":{plain[2]}" if plain[2] else ""),), plain[3])
