"""Addresses of databases, as a JDBC driver understands them, and which of them other drivers understand alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, unquote_plus

from tidegate.errors import SourceError
from tidegate.specs.columns import JdbcRead

_URL = re.compile(r"jdbc:(postgresql|mysql|mariadb)://([\w.-]+|\[[0-9A-Fa-f:.]+\])(?::(\d+))?/([^/?;&#]+)(?:\?(.*))?")
SETTINGS_WITHOUT_MEANING = frozenset(
    (
        *("applicationname", "connecttimeout", "sockettimeout", "logintimeout", "tcpkeepalive", "fetchsize"),
        *("preparethreshold", "defaultrowfetchsize", "rewritebatchedinserts", "binarytransfer", "querytimeout"),
        *("usecursorfetch", "tinyint1isbit", "rewritebatchedstatements", "useserverprepstmts", "cacheprepstmts"),
        *("allowpublickeyretrieval", "permitmysqlscheme", "useunicode"),
    )
)
"""Settings of JDBC drivers that change no answer and protect no connection."""

_TLS = frozenset(("sslmode", "sslrootcert"))
_TLS_MODES = frozenset(("disable", "allow", "prefer", "require", "verify-ca", "verify-full"))
"""Common to PostgreSQL's Java and C drivers."""


class Unsupported(Exception):
    """Only the JDBC driver can do it; ``reason`` is for people, empty if nobody can change it."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def scheme_of(url: str) -> str:
    """The kind of database in a JDBC address, such as ``postgresql``."""
    return url.partition(":")[2].partition(":")[0].lower()


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """A database as in a JDBC address; ``settings`` are those to keep."""

    scheme: str
    host: str
    port: int | None
    database: str
    settings: Mapping[str, str]

    @classmethod
    def of(cls, read: JdbcRead, ignored: frozenset[str] = SETTINGS_WITHOUT_MEANING) -> DatabaseAddress:
        """The address of ``read``; :class:`Unsupported` if a setting is neither known nor ``ignored``."""
        found = _URL.fullmatch(read.url)
        if found is None or "+" in found[4]:  # Java reads a plus as a blank there
            raise Unsupported("only its JDBC driver understands its address")
        scheme, host, port, database, query = found.groups()
        if int(port or 0) > 65_535:
            raise SourceError(f"there is no port {port}", "correct the port in the connection's url")
        given = dict(part.partition("=")[::2] for part in (query or "").split("&") if part)
        settings = {name.lower(): value for name, value in read.properties.items()}
        settings |= {name.lower(): unquote_plus(value) for name, value in given.items()}
        carried = {name: value for name, value in settings.items() if name not in ignored}
        unknown = sorted(carried.keys() - (_TLS if scheme == "postgresql" else set()))
        # A setting that only one driver knows may decide about the answer or the connection's protection.
        if unknown or carried.get("sslmode", "prefer") not in _TLS_MODES:
            raise Unsupported(f"the setting {(unknown or ['sslmode'])[0]!r} works only with its JDBC driver")
        # Without a user, each driver takes another default: the operating system's, or one from its own files.
        if read.user is None or read.driver is not None:
            raise Unsupported("its connection has no user" if read.user is None else "it has a driver of its own")
        return cls(scheme, host.strip("[]"), None if port is None else int(port), unquote(database), carried)
