"""Where things are and how they are reached: locations, secrets, origins of HTTP requests.

A link or a redirect is the word of a server. It is followed to the server itself, and to origins that the configuration
names; never from https to http, and never to this machine or to services that hand out credentials inside a network,
unless the API itself is there. Names are not resolved here: those that are allowed were chosen by the user.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class Location:
    """An absolute URI (``file:///…``, ``s3://…``, ``memory://…``) without trailing slash, and how to reach it.

    ``sync``: what is written there is forced to disk before it counts. Object stores do so whatever it says.
    """

    uri: str
    options: Options = field(default_factory=Options)
    sync: bool = True

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


PORTS = {"http": 80, "https": 443}

_ADDRESS = re.compile(r"(https?)://([^/?#]*)", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    )
)
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.azure.internal", "instance-data"})
_OWN_NAMES = frozenset({"localhost", "localhost.localdomain", "localhost6", "ip6-localhost", "ip6-loopback"})
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_OLD_COMPATIBLE = ipaddress.ip_network("::/96")
_THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class NotOrigin(ValueError):
    """An address that names no HTTP server, or in a way that programs read differently; the argument says why."""


class Reach(StrEnum):
    """Who can be behind a host, as far as its name or number tells."""

    ANYONE = "an ordinary host"
    OWN = "this machine"
    LINK_LOCAL = "a link-local address"
    METADATA = "a metadata service"
    NOBODY = "an address that is no host"


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
        """Who can be behind it."""
        number = _number(self.host)
        if number is not None:
            return _reach(number)
        if self.host in _OWN_NAMES or self.host.endswith(".localhost"):
            return Reach.OWN
        return Reach.METADATA if self.host in _METADATA_NAMES else Reach.ANYONE


def origin_of(url: str) -> Origin:
    """The origin of an absolute address; :class:`NotOrigin` where it holds a user, or can be read in two ways.

    >>> origin_of("https://api.example@evil.example/")
    Traceback (most recent call last):
    tidegate.specs.locations.NotOrigin: it holds a user or a password
    """
    found = _ADDRESS.match(url)
    if found is None or not found[2]:
        raise NotOrigin("it is no address of an HTTP server")
    scheme, authority = found[1].lower(), found[2]
    if "@" in authority:
        raise NotOrigin("it holds a user or a password")
    host, port = _divided(authority)
    return Origin(scheme, _host(host), PORTS[scheme] if port is None else port)


def refusal(home: Origin, target: Origin, allowed: Collection[Origin]) -> tuple[str, str] | None:
    """Why an address that the server at ``home`` gave is not followed to ``target``, and the remedy; None if it is."""
    if target == home:
        return None
    if target.reach is not Reach.ANYONE and target.reach is not home.reach:
        return f"{target} is {target.reach}", "see what the server does; such an address is never followed"
    if home.scheme == "https" and target.scheme == "http":
        return f"{target} is not encrypted, and {home} is", "see what the server does; https is never left for http"
    if target not in allowed:
        return f"{target} is not {home}", f"if it belongs to the API, allow it: allowed_origins: ['{target}']"
    return None


def _divided(authority: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]*))?", authority)
    if found is None:
        raise NotOrigin("its host cannot be read")
    port = int(found[2]) if found[2] else None
    if port is not None and not 0 < port < 65_536:
        raise NotOrigin("its port is none")
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
    if _is_numeric(name):
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError:
            raise NotOrigin("its host is a number in an unusual form") from None
    return name


def _is_numeric(name: str) -> bool:
    """Whether a resolver may take a name for a number: ``2130706433``, ``0x7f.1``, ``0177.0.0.1``."""
    return re.fullmatch(r"[0-9]+|0x[0-9a-f]*", name.rpartition(".")[2]) is not None


def _number(host: str) -> IpAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _reach(number: IpAddress) -> Reach:
    inner = _inside(number)
    if inner is not None:
        return _reach(inner)
    if number in _METADATA:
        return Reach.METADATA
    if number.is_loopback or number.is_unspecified or (number.version == 4 and number in _THIS_NETWORK):
        return Reach.OWN
    if number.is_link_local:
        return Reach.LINK_LOCAL
    return Reach.NOBODY if number.is_multicast or number.is_reserved else Reach.ANYONE


def _inside(number: IpAddress) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address carries."""
    if isinstance(number, ipaddress.IPv4Address) or number.is_loopback or number.is_unspecified:
        return None
    if number in _NAT64 or number in _OLD_COMPATIBLE:
        return ipaddress.IPv4Address(int(number) & 0xFFFF_FFFF)
    teredo = number.teredo
    return number.ipv4_mapped or number.sixtofour or (teredo[1] if teredo else None)
