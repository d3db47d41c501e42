"""What a configuration may say about a transform."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate import ProjectSpec
from tidegate.specs.project import TransformSpec

TEXT = """
pipelines:
  p:
    source: {{source_uri: in, use_watermark: true}}
    sink: {{table_uri: out}}
    transform: {0}
"""


def test_a_query_may_have_many_lines_and_comments(loaded: Callable[[str], ProjectSpec]) -> None:
    query = "\n      sql: |\n        -- what we keep\n        select id\n        from source"
    (pipeline,) = loaded(TEXT.format(query)).pipelines
    assert pipeline.transform == TransformSpec(sql="-- what we keep\nselect id\nfrom source")


def test_sql_and_python_reach_the_pipeline(loaded: Callable[[str], ProjectSpec]) -> None:
    (by_sql,) = loaded(TEXT.format("{sql: 'with a as (select 1) select * from source'}")).pipelines
    (by_function,) = loaded(TEXT.format("{python: 'shop.cleaning:clean'}")).pipelines
    (plain,) = loaded(TEXT.format("{}")).pipelines
    assert by_sql.transform == TransformSpec(sql="with a as (select 1) select * from source")
    assert by_function.transform == TransformSpec(python="shop.cleaning:clean")
    assert plain.transform is None


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("{sql: select 1, python: 'a:b'}", "given beside 'sql'; allowed: one of them"),
        ("{sql: drop table source}", "is not a query; allowed: select … from source"),
        ("{python: clean}", "is not module:function"),
        ("{python: 'clean.py:run me'}", "is not module:function"),
        ("{sq: select 1}", "did you mean 'sql'?"),
    ],
)
def test_what_is_wrong_is_said(problems: Callable[[str], tuple[str, ...]], given: str, named: str) -> None:
    (found,) = problems(TEXT.format(given))
    assert named in found
    assert "pipelines.p.transform" in found


def test_a_long_query_is_shown_short() -> None:
    assert str(TransformSpec(sql="select\n  " + "a, " * 100)).endswith("…")
    assert str(TransformSpec(python="a:b")) == "transform.python a:b"
