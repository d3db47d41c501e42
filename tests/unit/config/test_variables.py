"""Variables are put into values after parsing, and a missing one is a problem with its name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.config.variables import put_in
from tidegate.specs.project import ProjectSpec

Load = Callable[..., ProjectSpec]
Problems = Callable[..., tuple[str, ...]]
FILE = """\
source:
  source_uri: in
  use_watermark: {flag}
  batch_size: {number}
sink: {{table_uri: "{table}"}}
"""


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("${A}", "1"),
        ("x${A}y${B}z", "x1y2z"),
        ("${EMPTY}", ""),
        ("${NONE:-d}", "d"),
        ("${EMPTY:-d}", "d"),
        ("${A:-d}", "1"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-b}", "a:-b"),
        ("$$", "$"),
        ("$${A}", "${A}"),
        ("$$${A}", "$1"),
        (r"\.json$", r"\.json$"),
        ("$A costs 5$", "$A costs 5$"),
        ("${TRICK}", "${A}"),
    ],
)
def test_forms(text: str, result: str) -> None:
    assert put_in(text, {"A": "1", "B": "2", "EMPTY": "", "TRICK": "${A}"}) == (result, [])


@pytest.mark.parametrize("text", ["${", "${}", "${1A}", "${A-b}", "${A", "${A:?x}"])
def test_other_forms_are_named_and_not_guessed(text: str) -> None:
    _, wrong = put_in(text, {"A": "1"})
    assert len(wrong) == 1
    assert "${NAME:-default}" in wrong[0]


def test_numbers_and_flags_are_recognised_after_variables_are_put_in(loaded: Load) -> None:
    text = FILE.format(flag="${ON}", number='"${N:-512}"', table="lake")
    (source,) = loaded(text, env={"ON": "true"}).pipelines[0].sources
    assert source.batch_size == 512
    assert loaded(text, env={"ON": "yes", "N": "7"}).pipelines[0].sources[0].batch_size == 7


def test_a_value_cannot_change_the_shape_of_the_file(loaded: Load) -> None:
    nasty = "lake} spark: {master: yarn} # 'x' \"y\" [a, b"
    project = loaded(FILE.format(flag="true", number=1, table="a/${T}"), env={"T": nasty})
    assert project.spark.master is None
    assert project.pipelines[0].sink.table.uri.endswith("%22y%22%20%5Ba,%20b")


def test_every_missing_variable_is_named_once_with_its_line(problems: Problems) -> None:
    text = FILE.format(flag="true", number="${SIZE}", table="s3://${BOX}/${DIR}")
    assert problems(text) == (
        "pipelines.yml:4: source.batch_size: the variable SIZE is not set; set it, or write ${SIZE:-default}",
        "pipelines.yml:5: sink.table_uri: the variable BOX is not set; set it, or write ${BOX:-default}",
        "pipelines.yml:5: sink.table_uri: the variable DIR is not set; set it, or write ${DIR:-default}",
    )


def test_a_wrong_value_from_a_variable_is_shown_as_the_file_has_it(problems: Problems) -> None:
    (line,) = problems(FILE.format(flag="true", number="${SIZE}", table="lake"), env={"SIZE": "huge"})
    assert line == "pipelines.yml:4: source.batch_size: '${SIZE}' is not a whole number"


def test_a_variable_that_is_not_text_is_named(problems: Problems) -> None:
    (line,) = problems(FILE.format(flag="true", number=1, table="${T}"), env={"T": "a\udcff"})
    assert line == "pipelines.yml:5: sink.table_uri: a variable here is not valid UTF-8 text; set it to text"


def test_an_unquoted_variable_in_braces_gets_a_hint(problems: Problems) -> None:
    (line,) = problems("source: {path: ${P}, use_watermark: true}\n")
    assert line.startswith("pipelines.yml:1: not valid YAML: did not find expected ',' or '}'")
    assert line.endswith("; quote a value with ${…} inside braces or brackets")


def test_keys_are_never_replaced(problems: Problems) -> None:
    (line,) = problems(FILE.format(flag="true", number=1, table="lake") + "${K}: 1\n", env={"K": "metrics"})
    assert "${K}: unknown key" in line
