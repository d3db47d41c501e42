"""What to do when a database refuses, and the words by which every JDBC driver and Spark say so.

A database adds its own words in :attr:`~tidegate.core.dialects.dialect.Dialect.refusals`.
"""

from __future__ import annotations

LOGIN = "correct user and password of the connection, or allow this account to connect from this machine"
PASSWORD = "name the password of the connection"
DATABASE = "correct the name of the database in the connection's url"
CONNECTION = "check host and port of the connection's url and that the server runs; nothing is lost, run again"
PERMISSION = "grant SELECT on it to the connection's user"
TABLE = "correct the table or the query; a table outside the default schema needs its schema's name"
COLUMN = "correct filter_expression, the query or watermark_columns"
DIVISION = "guard the divisor in filter_expression or in the query: nullif(x, 0)"
TYPE = "Spark has no such type: use a query that casts it, such as cast(x as char)"
TIMEOUT = "run again; an index on the watermark columns or more parallelism makes the query faster"
SYNTAX = "correct filter_expression or the query: they must be SQL of that database"
VALUE = "leave such rows out with filter_expression, cast the column in a query, or declare it as string in the schema"
OTHER = "check the connection, the table and the columns"

COMMON_WORDS = {
    LOGIN: r"SQLInvalidAuthorizationSpecException",
    PASSWORD: "",
    DATABASE: "",
    CONNECTION: r"fail(ed)? to connect|Could not connect|UnknownHost|connection attempt failed|"
    r"SQLNonTransientConnectionException|SQLTransientConnectionException|Connection reset|'idna' codec",
    PERMISSION: r"permission denied",
    TABLE: "",
    COLUMN: "",
    DIVISION: r"division by zero|divide by zero",
    TYPE: r"UNRECOGNIZED_SQL_TYPE|Unrecognized SQL type|unsupported (JDBC )?type|UNSUPPORTED_DATATYPE",
    TIMEOUT: r"SQLTimeoutException|deadlock",
    SYNTAX: r"syntax error",
    VALUE: r"out of range|SQLDataException|exceeds max precision|cannot be represented as Decimal",
}
"""In the order in which they are tried: the first that fits counts."""
