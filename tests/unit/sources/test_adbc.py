"""Text of PostgreSQL becomes exactly its value, or is refused by name; and where ADBC is not to be used at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.errors import check_names, raises
from support.long_runs import examples
from tidegate.core.dialects.remedies import VALUE
from tidegate.errors import SourceError
from tidegate.sources.adbc import AdbcShare, _problem, connection_of, share_rows
from tidegate.sources.exact import ExactColumn, exact
from tidegate.specs.columns import JdbcRead
from tidegate.specs.locations import Options, Secret

READ = JdbcRead("jdbc:postgresql://db.example:5433/shop", user="me", password=Secret("it's a \\ secret"), table="t")
MOMENT, DAY = pa.timestamp("us", "UTC"), pa.date32()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parsed(kind: pa.DataType, *texts: str | None) -> pa.Array:
    return exact(pa.array(texts, pa.string()), ExactColumn("c", kind, str(kind)))


def fits(number: Decimal, kind: pa.DataType) -> bool:
    """Whether a decimal of this type can be ``number``, by arithmetic with whole numbers."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits))) * 10 ** max(0, exponent + kind.scale)
    dropped = 10 ** max(0, -(exponent + kind.scale))
    return unscaled % dropped == 0 and unscaled // dropped < 10**kind.precision


@st.composite
def numbers(draw: st.DrawFn) -> str:
    """Numbers as PostgreSQL writes them, of any length."""
    digits = st.text("0123456789", max_size=45)
    whole = (draw(digits) or "0").lstrip("0") or "0"
    rest = draw(digits) + "0" * draw(st.integers(0, 45))
    return f"{draw(st.sampled_from(['', '-']))}{whole}{'.' if rest else ''}{rest}"


@settings(max_examples=examples(2000, 400))
@given(numbers(), st.integers(1, 38), st.data())
@example("9" * 39, 38, None)
@example("1" + "0" * 30, 38, None)
@example("1." + "0" * 2000, 38, None)
@example("9" * 2000, 38, None)
@example("120000000000000000000", 38, None)
def test_a_number_is_a_decimal_of_the_type_or_is_refused(text: str, precision: int, data: st.DataObject | None) -> None:
    kind = pa.decimal128(precision, 18 if data is None else data.draw(st.integers(0, precision)))
    if fits(Decimal(text), kind):
        assert parsed(kind, text, None, "0").to_pylist() == [Decimal(text), None, 0]
    else:
        with raises(SourceError, "column 'c'", text[:80], kind) as refused:
            parsed(kind, "0", None, text)
        assert refused.value.remedy == VALUE


def written(moment: datetime, years: int) -> str:
    """As PostgreSQL writes it, so many years later."""
    text = f"{moment.year + years:04}{moment.isoformat(' ')[4:]}"
    return text.rstrip("0") if "." in text else text


@settings(max_examples=examples(1000, 200))
@given(st.datetimes(), st.sampled_from([0, 0, 0, 400, 8000, 280_000]))
@example(datetime(1, 1, 1), 0)
@example(datetime(9999, 12, 31, 23, 59, 59, 999_999), 0)
def test_a_moment_is_that_moment_also_in_years_of_five_digits(moment: datetime, years: int) -> None:
    since = (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    expected = since + years // 400 * 146_097 * 86_400_000_000
    found = parsed(MOMENT, written(moment, years), None)
    assert found.type == MOMENT
    assert found.cast(pa.int64()).to_pylist() == [expected, None]
    days = (moment.date() - date(1970, 1, 1)).days + years // 400 * 146_097
    assert parsed(DAY, written(moment, years)[:-9].split(" ")[0]).cast(pa.int32()).to_pylist() == [days]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((MOMENT, each) for each in ("infinity", "-infinity", "0044-03-15 00:00:00 BC", "294276-12-31 23:59:59")),
        *((MOMENT, each) for each in ("2026-03-08 24:00:00", "2026-02-30 00:00:00", "", "10000-01-01")),
        *((DAY, each) for each in ("infinity", "0044-03-15 BC", "2026-02-30", "1000000-01-01", "")),
        *((pa.decimal128(12, 2), each) for each in ("NaN", "Infinity", "-Infinity", "1.005", "", "1,5")),
    ],
)
def test_what_no_type_can_hold_is_refused_by_its_text(kind: pa.DataType, text: str) -> None:
    usual = {MOMENT: "2026-03-08 00:00:00", DAY: "2026-03-08"}.get(kind, "1")
    with raises(SourceError, "column 'c'", text, kind):
        parsed(kind, usual, text)


def test_bytes_that_are_no_text_are_refused() -> None:
    odd = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"], pa.binary()).buffers())
    with raises(SourceError, "'c'", "UTF8", "filter_expression"):
        exact(odd, ExactColumn("c", pa.string()))


def test_the_driver_is_told_the_address_the_session_and_what_protects_the_connection() -> None:
    told = connection_of(replace(READ, url=f"{READ.url}?sslmode=verify-full&ApplicationName=x")).value
    assert "host='db.example' port='5433' dbname='shop' user='me'" in told
    assert r"password='it\'s a \\ secret'" in told
    assert "sslmode='verify-full'" in told
    assert "options='-c DateStyle=ISO'" in told
    assert "secret" not in repr(connection_of(READ))


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (replace(READ, url="jdbc:mariadb://h/shop"), "PostgreSQL"),
        (replace(READ, url="jdbc:postgresql://a,b/shop"), "JDBC driver … address"),
        (replace(READ, url="jdbc:postgresql://h/a+b"), "JDBC driver … address"),
        (replace(READ, user=None), "no user"),
        (replace(READ, driver="x.Driver"), "driver of its own"),
        *((replace(READ, properties=Options({name: "1"})), f"'{name}'") for name in ("sockettimeout",)),
        (
            replace(READ, properties=Options({"sessionInitStatement": "set x = 1"})),
            "'sessioninitstatement'",
        ),
    ],
)
def test_what_only_a_jdbc_driver_knows_is_refused(read: JdbcRead, reason: str) -> None:
    with raises(SourceError, "ADBC", reason, "reader: adbc"):
        connection_of(read)


@pytest.mark.parametrize("name", ["PGHOSTADDR", "PGSERVICE", "PGSSLROOTCERT", "PGTARGETSESSIONATTRS", "PGDATESTYLE"])
def test_a_variable_that_would_change_the_connection_is_refused_also_where_rows_are_read(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = AdbcShare(connection_of(READ), "select 1", ())
    monkeypatch.setenv(name, "")
    connection_of(READ)
    monkeypatch.setenv(name, "x")
    for ask in (lambda: connection_of(READ), lambda: list(share_rows(share))):
        with raises(SourceError, "environment variable", name, "reader: adbc"):
            ask()


def test_the_address_has_the_last_word_on_a_setting_as_for_the_jdbc_driver() -> None:
    both = replace(READ, url=f"{READ.url}?sslmode=verify-full", properties=Options({"sslmode": "disable"}))
    assert "sslmode='verify-full'" in connection_of(both).value


def test_the_words_of_the_server_are_told_without_the_statement() -> None:
    told = _problem(
        'NOT_FOUND: Failed to prepare query: ERROR:  relation "x" does not exist\nLINE 1: s\n\nQuery was: s'
    )
    check_names(told.problem, 'ERROR: relation "x" does not exist')
    assert "LINE 1" not in told.problem
    check_names(told.remedy, "table")
    lost = _problem("[libpq] Fetch failed: server closed the connection unexpectedly\n\tThis probably means")
    check_names(lost.remedy, "run again")
