"""What a database or its driver says when it refuses, and what to do about it: one table for all of them.

Drivers put the SQLSTATE of an error into its class (``SQLSyntaxErrorException`` is 42) or, as PostgreSQL's, nowhere
but into the words. So each cause is known by the words that the servers and drivers use for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

REFUSED = "tidegate refused: "
"""How the words about a value begin that fits no type of a table; see :func:`refusal`."""

_REFUSED = re.compile(rf"{REFUSED}(column .*?, which is no [a-z_]+(\(\d+,\d+\))?)", re.DOTALL)
_DRIVERS = re.compile(
    r"\bjava\.sql\.\w*Exception|\borg\.postgresql\.|\bcom\.mysql\.|\borg\.mariadb\.|\bcom\.microsoft\.sqlserver\.|"
    r"\boracle\.jdbc\.|\borg\.sqlite\."
)
_CLASS = re.compile(r"^(?:[\w.$]+\.)?[\w$]*(?:Exception|Error|SQLException): ")
_CONNECTION = re.compile(r"^\(conn=\d+\) ")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a database refuses: the words it is known by, and the remedy."""

    words: re.Pattern[str]
    remedy: str


def _cause(words: str, remedy: str) -> Cause:
    return Cause(re.compile(words, re.IGNORECASE | re.DOTALL), remedy)


VALUE = "leave such rows out with filter_expression, cast the column in a query, or declare it as string in the schema"
OTHER = "check the connection, the table and the columns"
CAUSES = (
    _cause(
        r"password authentication failed|Access denied for user|no pg_hba\.conf entry|Login failed for user|ORA-01017|"
        r"SQLInvalidAuthorizationSpecException|role \S+ does not exist",
        "correct user and password of the connection, or let this account in from this machine",
    ),
    _cause(
        r"database \S+ does not exist|Unknown database|Cannot open database|ORA-12514",
        "correct the name of the database in the connection's url",
    ),
    _cause(
        r"Connection (to \S+ )?refused|Communications link failure|fail(ed)? to connect|Could not connect|UnknownHost|"
        r"connection attempt failed|The TCP/IP connection to the host|ORA-1254\d|SQLNonTransientConnectionException|"
        r"SQLTransientConnectionException|Connection reset|terminating connection|An I/O error occurred",
        "check host and port of the connection's url and that the server runs; nothing is lost, run again",
    ),
    _cause(
        r"permission denied|command denied to user|ORA-01031|permission was denied",
        "grant SELECT on it to the connection's user",
    ),
    _cause(
        r"relation \S+ does not exist|Table '[^']*' doesn't exist|Invalid object name|ORA-00942|no such table",
        "correct the table or the query; a table outside the default schema needs its schema's name",
    ),
    _cause(
        r"column \S+ does not exist|Unknown column|Invalid column name|ORA-00904|no such column",
        "correct filter_expression, the query or watermark_columns",
    ),
    _cause(
        r"division by zero|divide by zero|Division by 0|ORA-01476",
        "guard the divisor in filter_expression or in the query: nullif(x, 0)",
    ),
    _cause(
        r"UNRECOGNIZED_SQL_TYPE|Unrecognized SQL type|unsupported (JDBC )?type|UNSUPPORTED_DATATYPE",
        "Spark knows no type for that: read by a query that casts it, such as: cast(x as char)",
    ),
    _cause(
        r"statement timeout|lock timeout|max_statement_time|Query execution was interrupted|Lock wait timeout|deadlock|"
        r"SQLTimeoutException|canceling statement",
        "run again; an index on the watermark columns makes it shorter, more parallelism too",
    ),
    _cause(
        r"syntax error|error in your SQL syntax|Incorrect syntax|ORA-009\d\d",
        "correct filter_expression or the query: they are in the language of the database",
    ),
    _cause(
        r"invalid input syntax|Bad value for type|out of range|Data truncation|Zero date value|Incorrect \w+ value|"
        r"numeric field overflow|SQLDataException|exceeds max precision|cannot be represented as Decimal",
        VALUE,
    ),
)
"""The first that fits is taken."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was refused, in one line, and what to do."""

    problem: str
    remedy: str


def refusal(text: str, said: str) -> Refusal:
    """What ``said``, the telling line of the error ``text``, means."""
    value = _REFUSED.search(text)
    if value is not None:
        return Refusal(value.group(1), VALUE)
    words = _CONNECTION.sub("", _CLASS.sub("", said)).strip()
    remedy = next((each.remedy for each in CAUSES if each.words.search(said)), OTHER)
    return Refusal(f"the database refused: {words}", remedy)


def is_of_database(text: str) -> bool:
    """Whether an error came from a database, its driver, or a value that does not fit."""
    return REFUSED in text or _DRIVERS.search(text) is not None


def telling_cause(text: str) -> str | None:
    """The line that tells most of an error with Java's causes in it: the innermost that a driver has thrown."""
    lines = [line.strip().removeprefix("Caused by: ") for line in text.splitlines()]
    thrown = [line for line in lines if _CLASS.match(line) and _DRIVERS.match(line)]
    if thrown:
        return thrown[-1]
    inside = re.findall(r"(?:java\.sql|org\.postgresql|com\.mysql|org\.mariadb)[\w.]*Exception: [^\n]+", text)
    return inside[-1] if inside else None
