"""Where a database or an HTTP API listens, read off its address; nothing is asked here."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from tidegate.column_specs import ColumnSource, HttpRead, JdbcRead

Address = tuple[str, int]

_PORTS = {"postgresql": 5432, "redshift": 5439, "mysql": 3306, "mariadb": 3306, "sqlserver": 1433, "oracle": 1521}
_HOST = r"(\[[0-9A-Fa-f:.]+\]|[^\[\]/:;,?@\\()=\s]+)"
_PLACES = re.compile(rf"{_HOST}(?:\\[^:;/,?]*)?(?::(\d+))?(?=$|[/:;,?])")


def address_of(source: ColumnSource) -> Address | None:
    """Host and port of a source; None where it has none, or where its address has a form that we do not know."""
    match source.read:
        case JdbcRead(url=url):
            return jdbc_address(url)
        case HttpRead(url=url):
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            return None if parts.hostname is None else (parts.hostname, port)
        case _:
            return None


def jdbc_address(url: str) -> Address | None:
    r"""The first host and port in a JDBC address.

    >>> jdbc_address("jdbc:postgresql://db/orders")
    ('db', 5432)
    >>> jdbc_address("jdbc:oracle:thin:@db:1600:XE")
    ('db', 1600)
    >>> jdbc_address("jdbc:sqlserver://db\\sales:1500;encrypt=true")
    ('db', 1500)
    >>> jdbc_address("jdbc:sqlite:/orders.db")
    """
    kind, _, rest = url.removeprefix("jdbc:").partition(":")
    port = _PORTS.get(kind.lower())
    _, slashes, place = rest.partition("//")
    if not slashes:
        _, _, place = rest.partition("@")
    found = _PLACES.match(place.rpartition("@")[2] if "@" in place.split("/")[0] else place)
    if found is None or (found[2] is None and port is None):
        return None
    return found[1].strip("[]"), int(found[2] or port or 0)
