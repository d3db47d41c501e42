"""What databases say when they refuse: each cause has a remedy of its own."""

from __future__ import annotations

import pytest

from tidegate.sources.jdbc import CAUSES, OTHER, VALUE, innermost_cause, is_of_database, refusal

SAID = [
    ('org.postgresql.util.PSQLException: FATAL: password authentication failed for user "x"', "user and password"),
    ("java.sql.SQLException: Access denied for user 'x'@'localhost' (using password: YES)", "user and password"),
    ('org.postgresql.util.PSQLException: FATAL: database "shop" does not exist', "name of the database"),
    ("java.sql.SQLSyntaxErrorException: (conn=7) Unknown database 'shop'", "name of the database"),
    ("org.postgresql.util.PSQLException: Connection to 127.0.0.1:1 refused. Check that the hostname", "host and port"),
    ("com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure", "host and port"),
    ("org.postgresql.util.PSQLException: ERROR: permission denied for table orders", "grant SELECT"),
    ("java.sql.SQLSyntaxErrorException: SELECT command denied to user 'x'@'h' for table `d`.`t`", "grant SELECT"),
    ('org.postgresql.util.PSQLException: ERROR: relation "orderz" does not exist', "correct the table"),
    ("java.sql.SQLSyntaxErrorException: (conn=5) Table 'shop.orderz' doesn't exist", "correct the table"),
    ('org.postgresql.util.PSQLException: ERROR: column "amout" does not exist', "correct filter_expression"),
    ("java.sql.SQLSyntaxErrorException: Unknown column 'amout' in 'WHERE'", "correct filter_expression"),
    ("org.postgresql.util.PSQLException: ERROR: division by zero", "nullif"),
    ("[UNRECOGNIZED_SQL_TYPE] Unrecognized SQL type - name: uuid, id: OTHER.", "casts it"),
    ("org.postgresql.util.PSQLException: ERROR: canceling statement due to statement timeout", "run again"),
    ('org.postgresql.util.PSQLException: ERROR: syntax error at or near "wher"', "correct filter_expression"),
    ("java.sql.SQLSyntaxErrorException: You have an error in your SQL syntax; check the manual", "filter_expression"),
    ("java.sql.SQLDataException: Zero date value prohibited", "cast the column"),
]


@pytest.mark.parametrize(("said", "remedy"), SAID)
def test_each_cause_has_a_remedy_of_its_own(said: str, remedy: str) -> None:
    found = refusal(said, said)
    assert remedy in found.remedy
    assert "Exception" not in found.problem
    assert "(conn=" not in found.problem


def test_no_two_causes_are_told_alike() -> None:
    assert len({each.remedy for each in CAUSES}) == len(CAUSES)


def test_what_nobody_knows_is_told_as_it_is() -> None:
    found = refusal("", "com.example.OddException: the moon is full")
    assert (found.problem, found.remedy) == ("the database refused: the moon is full", OTHER)


def test_a_value_that_fits_no_type_is_told_with_its_column() -> None:
    text = (
        "Job aborted: [USER_RAISED_EXCEPTION] tidegate refused: column 'price' holds NaN, which is no decimal(12,2) "
        "SQLSTATE: P0001\n\tat org.apache…\n\t... 47 more"
    )
    assert is_of_database(text)
    found = refusal(text, "... 47 more")
    assert (found.problem, found.remedy) == ("column 'price' holds NaN, which is no decimal(12,2)", VALUE)


def test_the_innermost_words_of_a_driver_are_those_that_tell() -> None:
    trace = """org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler
Caused by: java.sql.SQLException: HOUR_OF_DAY: 2 -> 3
\tat com.mysql.cj.jdbc.exceptions.SQLError.createSQLException(SQLError.java:130)
Caused by: com.mysql.cj.exceptions.DataReadException: Zero date value prohibited
\t... 47 more"""
    assert innermost_cause(trace) == "com.mysql.cj.exceptions.DataReadException: Zero date value prohibited"
    assert innermost_cause("org.apache.spark.SparkException: no database here") is None
    assert not is_of_database("org.apache.spark.SparkException: no database here")
