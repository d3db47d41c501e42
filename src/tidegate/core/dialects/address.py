"""Addresses of databases, as a JDBC driver understands them, and which of them other drivers understand alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, unquote_plus

from tidegate.core.dialects.dialect import Dialect, PythonDriver
from tidegate.core.dialects.registry import DIALECTS, dialect_of
from tidegate.errors import SourceError
from tidegate.specs.columns import JdbcRead

_URL = re.compile(r"jdbc:([a-z]+)://([\w.-]+|\[[0-9A-Fa-f:.]+\])(?::(\d+))?/([^/?;&#]+)(?:\?(.*))?")
_HOST = r"(\[[0-9A-Fa-f:.]+\]|[^\[\]/:;,?@\\()=\s]+)"
_PLACES = re.compile(rf"{_HOST}(?:\\[^:;/,?]*)?(?::(\d+))?(?=$|[/:;,?])")

HARMLESS_FOR_POLLS = frozenset(("connecttimeout", "sockettimeout", "tcpkeepalive", "fetchsize", "querytimeout")).union(
    *(dialect.harmless_settings for dialect in DIALECTS.values())
)
"""Settings of JDBC drivers that change no answer to "is there a row?", and protect no connection."""

# A time limit that somebody set must hold, and a driver of Python would not keep it: refused instead of ignored.
HARMLESS_FOR_ROWS = HARMLESS_FOR_POLLS - {"sockettimeout", "querytimeout", "tinyint1isbit"}
"""Those of them that do not change which rows come, or how."""


class Unsupported(Exception):
    """Only the JDBC driver can do it; ``reason`` is for people, empty if nobody can change it."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """A database as in a JDBC address, for its driver of Python; ``settings`` are those to keep."""

    dialect: Dialect
    driver: PythonDriver
    host: str
    port: int
    database: str
    settings: Mapping[str, str]

    @classmethod
    def of(cls, read: JdbcRead, harmless: frozenset[str] = HARMLESS_FOR_ROWS) -> DatabaseAddress:
        """The address of ``read``; :class:`Unsupported` if a setting is neither known nor ``harmless``."""
        found, dialect = _URL.fullmatch(read.url), dialect_of(read.url)
        # Java reads a plus in the name of a database as a blank.
        if found is None or "+" in found[4] or dialect.python is None or dialect.port is None:
            raise Unsupported("only its JDBC driver understands its address")
        _, host, port, database, query = found.groups()
        if int(port or 0) > 65_535:
            raise SourceError(f"there is no port {port}", "correct the port in the connection's url")
        given = dict(part.partition("=")[::2] for part in (query or "").split("&") if part)
        settings = {name.lower(): value for name, value in read.properties.items()}
        settings |= {name.lower(): unquote_plus(value) for name, value in given.items()}
        carried = {name: value for name, value in settings.items() if name not in harmless}
        # A setting that only one driver knows may decide about the answer or the connection's protection.
        for name in sorted(carried, key=lambda name: (name in dialect.kept_settings, name)):
            values = dialect.kept_settings.get(name, frozenset())
            if values is not None and carried[name] not in values:
                raise Unsupported(f"the setting {name!r} works only with its JDBC driver")
        # Without a user, each driver takes another default: the operating system's, or one from its own files.
        if read.user is None or read.driver is not None:
            raise Unsupported("its connection has no user" if read.user is None else "it has a driver of its own")
        return cls(
            dialect, dialect.python, host.strip("[]"), int(port or 0) or dialect.port, unquote(database), carried
        )


def jdbc_address(url: str) -> tuple[str, int] | None:
    r"""The first host and port in a JDBC address; None if it has none, or an unknown form.

    >>> jdbc_address("jdbc:postgresql://db/orders")
    ('db', 5432)
    >>> jdbc_address("jdbc:oracle:thin:@db:1600:XE")
    ('db', 1600)
    >>> jdbc_address("jdbc:sqlserver://db\\sales:1500;encrypt=true")
    ('db', 1500)
    >>> jdbc_address("jdbc:sqlite:/orders.db")
    """
    _, _, rest = url.removeprefix("jdbc:").partition(":")
    port = dialect_of(url).port
    _, slashes, place = rest.partition("//")
    if not slashes:
        _, _, place = rest.partition("@")
    found = _PLACES.match(place.rpartition("@")[2] if "@" in place.split("/")[0] else place)
    if found is None or (found[2] is None and port is None):
        return None
    return found[1].strip("[]"), int(found[2] or port or 0)
