"""All databases that Tidegate knows, by the word after ``jdbc:`` in their addresses."""

from __future__ import annotations

from tidegate.core.dialects.dialect import Dialect
from tidegate.core.dialects.jdbc_only import Oracle, Sqlite, Sqlserver
from tidegate.core.dialects.mysql import Mariadb, Mysql
from tidegate.core.dialects.postgresql import Postgresql, Redshift

DIALECTS: dict[str, Dialect] = {
    dialect.scheme: dialect
    for dialect in (Postgresql(), Redshift(), Mysql(), Mariadb(), Sqlserver(), Oracle(), Sqlite())
}

_TITLES = [dialect.title for dialect in DIALECTS.values() if dialect.python is not None]
READ_WITHOUT_JAVA = f"{', '.join(_TITLES[:-1])} and {_TITLES[-1]}"


def dialect_of(jdbc_url: str) -> Dialect:
    """Return the database behind a JDBC address; one that is unknown has standard SQL."""
    kind, _, rest = jdbc_url.partition(":")
    scheme = rest.partition(":")[0].lower()
    known = DIALECTS.get(scheme) if kind.lower() == "jdbc" else None
    return known or Dialect(scheme)
