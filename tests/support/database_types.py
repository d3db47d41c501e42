"""Every type of a database, a value of it, and what becomes of it in the rows: what the page about databases says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, slots=True)
class Typed:
    """A column of type ``sql`` that holds ``literal``; its values have the type ``spark`` and are ``value``."""

    sql: str
    literal: str
    spark: str
    value: Any

    @property
    def called(self) -> str:
        """The type without its sizes and sets, as the page has it."""
        return self.sql.partition("(")[0].strip()


DIGITS = "12345678901234567890123456789012345.123456789012345678901234567891"
MARIADB = (
    Typed("tinyint(1)", "7", "tinyint", 7),
    Typed("boolean", "true", "tinyint", 1),
    Typed("tinyint", "-128", "tinyint", -128),
    Typed("tinyint unsigned", "255", "smallint", 255),
    Typed("smallint", "-32768", "smallint", -32768),
    Typed("smallint unsigned", "65535", "int", 65535),
    Typed("mediumint", "-8388608", "int", -8388608),
    Typed("int", "-2147483648", "int", -2147483648),
    Typed("int unsigned", "4294967295", "bigint", 4294967295),
    Typed("bigint", "-9223372036854775808", "bigint", -(2**63)),
    Typed("bigint unsigned", "18446744073709551615", "decimal(20,0)", Decimal(2**64 - 1)),
    Typed("decimal(12,2)", "-1234567890.12", "decimal(12,2)", Decimal("-1234567890.12")),
    Typed("decimal(38,10)", "1234567890123456789012345678.0123456789", "decimal(38,10)", None),
    Typed("decimal(40,0)", "12345678901234567890123456789012345678", "decimal(38,0)", None),
    Typed("decimal(65,30)", DIGITS, "string", DIGITS),
    Typed("float", "16777216", "float", 16777216.0),
    Typed("float", "0.1", "float", 0.10000000149011612),
    Typed("float unsigned", "0.1", "double", 0.10000000149011612),
    Typed("double", "0.1", "double", 0.1),
    Typed("double(12,3)", "-1.25", "double", -1.25),
    Typed("bit(1)", "b'1'", "boolean", True),
    Typed("bit(1)", "b'0'", "boolean", False),
    Typed("bit(8)", "b'10000001'", "bigint", 129),
    Typed("bit(63)", "x'7fffffffffffffff'", "bigint", 2**63 - 1),
    Typed("year", "2026", "int", 2026),
    Typed("char(5)", "'ab'", "string", "ab"),
    Typed("varchar(5)", "'ab '", "string", "ab "),
    Typed("varchar(5) character set latin1", "'Zürs'", "string", "Zürs"),
    Typed("tinytext", "'☃'", "string", "☃"),
    Typed("text", "'☃'", "string", "☃"),
    Typed("longtext", "'☃'", "string", "☃"),
    Typed("json", "'{\"a\":  1.10}'", "string", '{"a":  1.10}'),
    Typed("enum('a','long')", "'a'", "string", "a"),
    Typed("set('x','y')", "'x,y'", "string", "x,y"),
    Typed("binary(3)", "x'00ff'", "binary", b"\x00\xff\x00"),
    Typed("varbinary(3)", "x'00ff'", "binary", b"\x00\xff"),
    Typed("blob", "x'00ff'", "binary", b"\x00\xff"),
    Typed("date", "'0001-01-01'", "date", date(1, 1, 1)),
    Typed("datetime", "'9999-12-31 23:59:59'", "timestamp", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    Typed("datetime(6)", "'2026-03-08 02:30:00.000001'", "timestamp", None),
    Typed("timestamp", "'2026-03-08 02:30:00'", "timestamp", datetime(2026, 3, 8, 2, 30, tzinfo=UTC)),
    Typed("timestamp(6)", "'2026-03-08 02:30:00.000001'", "timestamp", None),
    Typed("time", "'-838:59:59'", "string", "-838:59:59"),
    Typed("time(6)", "'10:20:30.000001'", "string", "10:20:30.000001"),
    Typed("inet6", "'::1'", "string", "::1"),
)
"""Where ``value`` is None, it is what the literal says."""

POSTGRESQL = (
    Typed("smallint", "-32768", "smallint", -32768),
    Typed("integer", "-2147483648", "int", -2147483648),
    Typed("bigint", "-9223372036854775808", "bigint", -(2**63)),
    Typed("numeric(12,2)", "-1234567890.12", "decimal(12,2)", Decimal("-1234567890.12")),
    Typed("numeric(38,10)", "1234567890123456789012345678.0123456789", "decimal(38,10)", None),
    Typed("numeric(40,0)", "12345678901234567890123456789012345678", "decimal(38,0)", None),
    Typed("numeric(50,20)", "1.00000000000000000001", "string", "1.00000000000000000001"),
    Typed("numeric(5,-2)", "1234500", "string", "1234500"),
    Typed("numeric", "1.5", "decimal(38,18)", Decimal("1.5")),
    Typed("real", "'Infinity'", "float", float("inf")),
    Typed("double precision", "0.1", "double", 0.1),
    Typed("money", "1234.56", "string", "$1,234.56"),
    Typed("boolean", "true", "boolean", True),
    Typed("char(5)", "'ab'", "string", "ab   "),
    Typed("varchar(5)", "'ab '", "string", "ab "),
    Typed("text", "'☃'", "string", "☃"),
    Typed("uuid", "'ffffffff-0000-0000-0000-000000000000'", "string", "ffffffff-0000-0000-0000-000000000000"),
    Typed("json", "'{\"a\":  1.10}'", "string", '{"a":  1.10}'),
    Typed("jsonb", "'{\"a\":  1.10}'", "string", '{"a": 1.10}'),
    Typed("inet", "'::1'", "string", "::1"),
    Typed("bytea", r"'\x00ff'", "binary", b"\x00\xff"),
    Typed("bit(1)", "b'1'", "boolean", True),
    Typed("bit(8)", "b'10000001'", "string", "10000001"),
    Typed("varbit(8)", "b'101'", "string", "101"),
    Typed("date", "'0001-01-01'", "date", date(1, 1, 1)),
    Typed("timestamp", "'9999-12-31 23:59:59.999999'", "timestamp", None),
    Typed("timestamptz", "'2026-03-08 02:30:00.000001+02'", "timestamp", datetime(2026, 3, 8, 0, 30, 0, 1, UTC)),
    Typed("time", "'24:00:00'", "string", "24:00:00"),
    Typed("timetz", "'10:20:30+02'", "string", "10:20:30+02"),
    Typed("interval", "'1 mon 2 days 03:00:00'", "string", "1 mon 2 days 03:00:00"),
    Typed("point", "'(1,2)'", "string", "(1,2)"),
    Typed("int4range", "'[1,3)'", "string", "[1,3)"),
    Typed("integer[]", "'{1,null,3}'", "array<int>", [1, None, 3]),
    Typed("text[]", "'{a,null}'", "array<string>", ["a", None]),
    Typed("numeric[]", "'{1.00000000000000000001,NaN}'", "string", "{1.00000000000000000001,NaN}"),
    Typed("timestamp[]", "'{2026-03-08 02:30:00}'", "string", '{"2026-03-08 02:30:00"}'),
    Typed("date[]", "'{infinity}'", "string", "{infinity}"),
)


@dataclass(frozen=True, slots=True)
class Unfit:
    """A value that no type of a table can be, and the words about it."""

    sql: str
    literal: str
    told: str


MARIADB_UNFIT = (
    Unfit("date", "'0000-00-00'", "column 'c' holds 0000-00-00, which is no date"),
    Unfit("datetime", "'0000-00-00 00:00:00'", "column 'c' holds 0000-00-00 00:00:00, which is no timestamp_ntz"),
    Unfit("timestamp", "0", "column 'c' holds 0000-00-00 00:00:00, which is no timestamp"),
    Unfit("date", "'2026-00-00'", "column 'c' holds 2026-00-00, which is no date"),
    Unfit("bit(64)", "x'ffffffffffffffff'", "column 'c' holds 18446744073709551615, which is no bigint"),
    Unfit("decimal(40,0)", "9" * 40, f"column 'c' holds {'9' * 40}, which is no decimal(38,0)"),
)
POSTGRESQL_UNFIT = (
    Unfit("timestamptz", "'infinity'", "column 'c' holds infinity, which is no timestamp"),
    Unfit("timestamp", "'-infinity'", "column 'c' holds -infinity, which is no timestamp_ntz"),
    Unfit("date", "'infinity'", "column 'c' holds infinity, which is no date"),
    Unfit("date", "'0044-03-15 BC'", "column 'c' holds 0044-03-15 BC, which is no date"),
    Unfit("timestamp", "'0044-03-15 BC'", "column 'c' holds 0044-03-15 00:00:00 BC, which is no timestamp_ntz"),
    Unfit("numeric(12,2)", "'NaN'", "column 'c' holds NaN, which is no decimal(12,2)"),
    Unfit("numeric", "'Infinity'", "column 'c' holds Infinity, which is no decimal(38,18)"),
    Unfit("numeric", f"1.{'1' * 19}", f"column 'c' holds 1.{'1' * 19}, which is no decimal(38,18)"),
    Unfit("numeric(40,0)", "9" * 40, f"column 'c' holds {'9' * 40}, which is no decimal(38,0)"),
)
