"""JDBC addresses, taken apart: which kind of database, where, which database; and whether credentials are inside.

What is shown and recorded is put together from parts that were understood, never cut out of the text: every driver has
a form of its own to hide a password in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from tidegate.specs.masking import looks_secret

_ADDRESS = re.compile(r"jdbc:([A-Za-z0-9_.-]+)(?:\+[A-Za-z0-9]+)?:(.*)", re.DOTALL)
_FLAVOURS = re.compile(r"(?:[A-Za-z0-9_-]+:)*//")
_HOST = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)"
_PLAIN_HOST = re.compile(rf"{_HOST}(?:\\[A-Za-z0-9_$-]+)?(?::([0-9]+))?")
_DATABASE = re.compile(r"[\w.$~ /:+-]*")
_FILE = re.compile(r"[\w.$~ /\\:+@!,-]*")
_ORACLE = re.compile(r"[a-z0-9]+:[^@]*@(.*)", re.DOTALL | re.IGNORECASE)
_PAIR = re.compile(r"(?:^|[?&;,(:/\s])\s*([A-Za-z][\w .%-]*?)\s*=\s*([^?&;,()]*)")
_USERS = frozenset({"user", "username", "usr", "userid", "uid", "login", "logon", "pwd", "pass", "pw", "logdata"})
_NAMES = ("databasename", "database", "initialcatalog", "dbname", "db")
_OF_FILES = frozenset({"sqlite", "duckdb", "derby", "h2", "hsqldb", "ucanaccess"})
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
    found = _ADDRESS.fullmatch(url.strip())
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
    return JdbcAddress(subprotocol, hosts, database or _named(rest))


def identity_of(url: str) -> str:
    """What an address stands for in identities: kind and database, or, of a form that is not known, a digest.

    >>> identity_of("jdbc:mysql://me:secret@db/shop"), identity_of("jdbc:sqlserver://db;databaseName=shop")
    ('jdbc:mysql:shop', 'jdbc:sqlserver:shop')
    """
    known = jdbc_address_of(url)
    if known is not None:
        return str(known)
    kind = _ADDRESS.match(url)
    name = f"jdbc:{kind[1].lower()}" if kind else "jdbc"
    text = re.split(r"[?;]", url, maxsplit=1)[0]
    digest = "" if holds_credentials(url) else hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{name}:~{digest}"


def hosts_of(url: str) -> str:
    """Where the database is, as a note; empty where that is not known."""
    known = jdbc_address_of(url)
    return "" if known is None else ", ".join(known.hosts)


def former_identity(url: str) -> str:
    """What identities had for an address before hosts were notes."""
    return re.sub(r"//[^/@]*@", "//", url.split("?")[0].split(";")[0])


def current_identity(source_uri: str) -> str:
    """The identity of a database source in today's form, whichever form it was recorded in; others stay.

    >>> current_identity("jdbc:postgresql://db:5432/shop#public.orders")
    'jdbc:postgresql:shop#public.orders'
    """
    if not source_uri.startswith("jdbc:"):
        return source_uri
    url, mark, name = source_uri.partition("#")
    return source_uri if re.fullmatch(r"jdbc:[a-z0-9_.-]+:~[0-9a-f]*", url) else f"{identity_of(url)}{mark}{name}"


def holds_credentials(url: str) -> bool:
    """Whether a user or a password is anywhere in an address, also in one that cannot be taken apart."""
    return any(_holds(each) for each in _unfolded(url))


def shown_address(url: str) -> str:
    """An address for people: whole where it is understood and holds no credentials, else its kind alone."""
    if jdbc_address_of(url) is not None and not holds_credentials(url):
        return url
    kind = _ADDRESS.match(url)
    return f"jdbc:{kind[1].lower()}:***" if kind else "***"


def _holds(url: str) -> bool:
    found = _ADDRESS.fullmatch(url.strip())
    kind, rest = (found[1].lower(), found[2]) if found else ("", url)
    if kind == "oracle":
        before = re.match(r"[A-Za-z0-9]*:?([^@]*)@", rest)
        has_user = rest.count("@") > 1 or (before is not None and bool(before[1].strip()))
    elif kind in _OF_FILES and not _FLAVOURS.match(rest):
        has_user = False
    else:
        has_user = "@" in rest
    names = (re.sub(r"[^a-z0-9]", "", name.lower()) for name, _ in _PAIR.findall(rest))
    return has_user or any(looks_secret(name) or name in _USERS for name in names)


def _unfolded(url: str) -> Iterator[str]:
    """The address, and what it is with its percent signs resolved, again and again."""
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
            text = _of_pairs(dict(_pairs(text)))
        plain = _PLAIN_HOST.fullmatch(text)
        if plain is None:
            return None
        found.append(plain[1] + (f":{plain[2]}" if plain[2] else ""))
    return tuple(found)


def _of_pairs(pairs: dict[str, str]) -> str:
    port = pairs.get("port", "")
    return pairs.get("host", "") + (f":{port}" if port else "")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for name, value in _PAIR.findall(text):
        yield re.sub(r"[^a-z0-9]", "", name.lower()), value.strip().strip("{}")


def _database(path: str) -> str | None:
    """The database that follows the hosts; empty where there is none, None where it is not understood."""
    first = path.partition(":")[0]
    if "=" in path and "=" not in first and _DATABASE.fullmatch(first):
        return first.strip("/")
    if "=" in path:
        return _named(path) or ""
    return path.strip("/") if _DATABASE.fullmatch(path) else None


def _named(text: str) -> str | None:
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
