"""Text becomes a tree with lines, with variables put in; what cannot be read is one readable problem."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.errors import check_names, raises
from tidegate import load
from tidegate.config.document import MAX_DEPTH, Block, Scalar, find, line_of, parse, path_of, put_in
from tidegate.errors import ConfigError
from tidegate.specs.project import ProjectSpec


def tree(text: str) -> Block:
    root, problems = parse(text, {})
    assert root is not None
    assert problems == []
    return root


def complaints(text: str) -> list[tuple[int, str, str]]:
    return [(each.line, each.path, each.text) for each in parse(text, {})[1]]


def test_every_key_and_item_knows_its_line() -> None:
    root = tree("a:\n  b: 1\n  c:\n    - x\n    -\n      d: 2\n")
    lines = {loc: line_of(root, loc) for loc in (("a",), ("a", "b"), ("a", "c", 0), ("a", "c", 1, "d"))}
    assert lines == {("a",): 1, ("a", "b"): 2, ("a", "c", 0): 4, ("a", "c", 1, "d"): 6}


def test_the_line_of_something_missing_is_that_of_what_should_hold_it() -> None:
    assert line_of(tree("a:\n  b:\n    c: 1\n"), ("a", "b", "nothing", "below")) == 2


def test_a_path_is_written_as_people_say_it() -> None:
    assert path_of(tree("a:\n  c:\n    - d: 2\n"), ("a", "c", 0, "d")) == "a.c[0].d"


def test_scalars_stay_text_until_their_key_is_known() -> None:
    root = tree("a: 007\nb: on\nc: 1e3\nd: 'null'\ne: null\nf:\ng: !!str 5\n")
    assert {key: root[key] for key in "abcdefg"} == {
        "a": "007",
        "b": "on",
        "c": "1e3",
        "d": "null",
        "e": None,
        "f": None,
        "g": "5",
    }


def test_a_repeated_key_is_a_problem_with_both_lines() -> None:
    assert complaints("a:\n  b: 1\n  c: 2\n  b: 3\n") == [(4, "a.b", "given twice, first in line 2; remove one")]


def test_aliases_and_merges_share_values() -> None:
    root = tree("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\nc: {<<: [*x, {r: 4}]}\n")
    assert root["b"] == {"p": "1", "q": "3"}
    assert root["c"] == {"p": "1", "q": "2", "r": "4"}


def test_aliases_that_grow_without_bound_are_refused() -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 9))
    ((line, _, text),) = complaints("l0: &l0 [x, x]\n" + levels)
    assert line <= 9
    assert "more than 100,000 values" in text


@pytest.mark.parametrize("text", ["a: &x [*x]\n", "a: *secret\n"])
def test_an_alias_without_its_anchor_is_refused_without_its_name(text: str) -> None:
    ((_, _, words),) = complaints(text)
    assert words.startswith("an alias ('*…') without its anchor")
    assert "secret" not in words


@pytest.mark.parametrize("deep", ["[" * 200_000, "a: " + "[" * 200_000 + "]" * 200_000, "? " * 5_000])
def test_deep_nesting_is_refused_and_does_not_exhaust_the_stack(deep: str) -> None:
    ((_, _, text),) = complaints(deep)
    assert f"deeper than {MAX_DEPTH} levels" in text or "not a plain name" in text or "not valid YAML" in text


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: [1, 2\nb: 3\n", 2, "not valid YAML"),
        ("a: 1\n b: 2\n", 2, "not valid YAML"),
        ("a: 1\nb: !secret x\n", 2, "a tag ('!…')"),
        ("a: !!python/object:os.system x\n", 1, "a tag ('!…')"),
        ("a: 1\n---\nb: 2\n", 2, "a second document"),
        ("[a, b]: 1\n", 1, "a key that is not a plain name"),
        ("a: {<<: 5}\n", 1, "'<<' must be a mapping"),
        ("a: \x00\n", 1, "not valid YAML"),
        ('a:\n  b: "in/\n  c: 1\n', 2, "the quote that opens in this line is never closed; close it"),
        ("a:\n  b: 'in/\n  c: 1\n", 2, "the quote that opens in this line is never closed; close it"),
        ('a:\n  b: "in/\n  c: csv\n  d: {e: "t"}\n', 4, "is the quote in line 2 closed?"),
        ("a:\n  b:in/\n  c: csv\n", 3, "write a space after the colon in line 2"),
        ("", 1, "a configuration must be a mapping"),
        ("# nothing\n", 1, "a configuration must be a mapping"),
        ("- a\n", 1, "a configuration must be a mapping"),
        ("hello\n", 1, "a configuration must be a mapping"),
    ],
)
def test_what_is_not_a_configuration_says_so_with_its_line(text: str, line: int, words: str) -> None:
    ((at, _, told),) = complaints(text)
    assert (at, words in told) == (line, True), told


def test_problems_found_before_the_unreadable_line_are_kept() -> None:
    found = complaints("a: ${MISSING}\nb: [\n")
    assert [words.partition(":")[0][:22] for _, _, words in found] == [
        "the variable MISSING i",
        "not valid YAML",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "password: *canary\n",
        "password: !canary x\n",
        "password: &canary 1\nb: [",
        "p: 'canary\n",
        'p: "\\canary"\n',
    ],
)
def test_an_error_never_quotes_the_file(text: str) -> None:
    assert "canary" not in repr(complaints(text))


def test_a_scalar_remembers_what_the_file_says() -> None:
    root, _ = parse("a: ${X}\n", {"X": "value"})
    node = find(root, ("a",))
    assert isinstance(node, Scalar)
    assert (str(node), node.raw) == ("value", "${X}")


Load = Callable[..., ProjectSpec]
Problems = Callable[..., tuple[str, ...]]
FILE = """\
source:
  source_uri: in
  use_watermark: {flag}
  max_attempts: {number}
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
    assert source.max_attempts == 512
    assert loaded(text, env={"ON": "yes", "N": "7"}).pipelines[0].sources[0].max_attempts == 7


def test_a_value_cannot_change_the_shape_of_the_file(loaded: Load) -> None:
    nasty = "lake} spark: {master: yarn} # 'x' \"y\" [a, b"
    project = loaded(FILE.format(flag="true", number=1, table="a/${T}"), env={"T": nasty})
    assert project.spark.master is None
    assert project.pipelines[0].sink.table.uri.endswith("%22y%22%20%5Ba,%20b")


def test_every_missing_variable_is_named_once_with_its_line(problems: Problems) -> None:
    text = FILE.format(flag="true", number="${SIZE}", table="s3://${BOX}/${DIR}")
    assert problems(text) == (
        "pipelines.yml:4: source.max_attempts: the variable SIZE is not set; set it, or write ${SIZE:-default}",
        "pipelines.yml:5: sink.table_uri: the variable BOX is not set; set it, or write ${BOX:-default}",
        "pipelines.yml:5: sink.table_uri: the variable DIR is not set; set it, or write ${DIR:-default}",
    )


def test_a_wrong_value_from_a_variable_is_shown_as_the_file_has_it(problems: Problems) -> None:
    (line,) = problems(FILE.format(flag="true", number="${SIZE}", table="lake"), env={"SIZE": "huge"})
    assert line == "pipelines.yml:4: source.max_attempts: '${SIZE}' is not a whole number"


def test_a_variable_that_is_not_text_is_named(problems: Problems) -> None:
    (line,) = problems(FILE.format(flag="true", number=1, table="${T}"), env={"T": "a\udcff"})
    assert line == "pipelines.yml:5: sink.table_uri: the variable's value is not valid UTF-8; set it to text"


def test_an_unquoted_variable_in_braces_gets_a_hint(problems: Problems) -> None:
    (line,) = problems("source: {path: ${P}, use_watermark: true}\n")
    assert line.startswith("pipelines.yml:1: not valid YAML: did not find expected ',' or '}'")
    assert line.endswith("; quote a value with ${…} inside braces or brackets")


def test_keys_are_never_replaced(problems: Problems) -> None:
    (line,) = problems(FILE.format(flag="true", number=1, table="lake") + "${K}: 1\n", env={"K": "metrics"})
    check_names(line, "${K} … unknown")


def test_a_value_that_lacks_the_space_after_its_colon_says_so(tmp_path: Path) -> None:
    config = tmp_path / "p.yml"
    config.write_text("pipelines:\n  a:\n    source:\n      source_uri:in/\n    sink: {table_uri: t}\n")
    with raises(ConfigError, "3: pipelines.a.source", "colon"):
        load(config)
