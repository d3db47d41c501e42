"""Sources and tables that lie in each other are refused, however their addresses are written."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.errors import check_names
from tidegate.config import load
from tidegate.config.overlaps import cycle, sort_by_needs
from tidegate.errors import ConfigError
from tidegate.runs.bind import bind
from tidegate.specs.files import PathSource
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, ProjectSpec
from tidegate.specs.table import SchemaSpec, SinkSpec
from tidegate.storage import stores
from tidegate.storage.stores import TablePlaces, comparable_uri, keep_apart, path_inside

Pipeline = str


def one(name: str, source: str, table: str, more: str = "") -> Pipeline:
    return f"  {name}:\n    source: {{{source}}}\n    sink: {{table_uri: '{table}'}}\n{more}"


@pytest.fixture
def problems(tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    (tmp_path / "real").mkdir()
    (tmp_path / "door").symlink_to("real")

    def problems_of(*pipelines: str) -> tuple[str, ...]:
        path = tmp_path / "x.yml"
        path.write_text("pipelines:\n" + "".join(pipelines).replace("BASE", str(tmp_path)))
        try:
            load(path, env=os.environ)
        except ConfigError as error:
            return error.problems
        return ()

    return problems_of


@pytest.mark.parametrize(
    ("source", "table"),
    [
        ("source_uri: pin/, format: parquet", "pin/table"),
        ("source_uri: ./pin/../pin, format: parquet", "file://BASE/pin/table/"),
        ("source_uri: 'file://BASE/pin//', format: parquet", "pin/deep/table"),
        ("source_uri: door, format: parquet", "real/table"),
        ("source_uri: real, format: parquet", "door/table"),
        ("source_uri: 'S3://lake/in/', format: parquet", "s3a://lake/in/table"),
        ("source_uri: 's3n://lake', format: parquet", "s3://lake/in%20x/table"),
        ("source_uri: pin, pattern: '*'", "pin/table"),
        ("source_uri: pin, pattern: '**/*.parquet', format: parquet", "pin/a/table"),
        ("type: parquet, source_uri: pin, watermark_columns: [id]", "pin/table"),
        ("source_uri: pin, format: parquet", "pin/lake/../table"),
    ],
)
def test_a_table_that_its_own_source_would_read_is_refused(
    problems: Callable[..., tuple[str, ...]], source: str, table: str
) -> None:
    found = problems(one("a", source, table))
    check_names("\n".join(found), "the table of pipeline 'a'", "the dead-letter table of pipeline 'a'")


@pytest.mark.parametrize(
    ("source", "table"),
    [
        ("source_uri: pin", "pin/table"),
        ("source_uri: pin, format: parquet, exclude: [table, table_dead_letters]", "pin/table"),
        ("source_uri: pin, format: parquet, pattern: 'raw/*.parquet'", "pin/table"),
        ("source_uri: pin, format: parquet", "pin/_out/table"),
        ("source_uri: pin, format: parquet", "pin2/table"),
        ("source_uri: 's3://one/in', format: parquet", "s3://two/in/table"),
    ],
)
def test_a_table_that_a_listing_does_not_take_may_lie_there(
    problems: Callable[..., tuple[str, ...]], source: str, table: str
) -> None:
    assert problems(one("a", source, table)) == ()


@pytest.mark.parametrize("source", ["lake/a", "lake/a/", "lake/a/date=1", "file://BASE/lake/a", "./lake/../lake/a"])
def test_files_of_another_pipelines_table_are_no_source_but_the_table_is(
    problems: Callable[..., tuple[str, ...]], source: str
) -> None:
    first = one("a", "source_uri: in", "lake/a")
    (line,) = problems(first, one("b", f"source_uri: '{source}', format: parquet", "lake/b"))
    check_names(line, "'a' … lies")
    check_names(line, "type … delta")
    if not source.endswith("date=1"):
        assert problems(first, one("b", f"type: delta, source_uri: '{source}', watermark_columns: [x]", "lake/b")) == ()


def test_a_source_above_the_table_of_another_pipeline_is_refused(problems: Callable[..., tuple[str, ...]]) -> None:
    found = problems(one("a", "source_uri: in", "lake/a"), one("b", "source_uri: lake, format: parquet", "out"))
    check_names("\n".join(found), "the table of pipeline 'a'", "(a)")


def test_downloads_and_secondary_inputs_are_looked_at_too(problems: Callable[..., tuple[str, ...]]) -> None:
    unit = "watermark: [{name: id, type: unit, units: [a]}], replace: unit"
    reads = one("a", f"type: download, format: parquet, source_uri: 'pin/{{{{id}}}}/*.parquet', {unit}", "pin/table")
    check_names("\n".join(problems(reads)), "the table of pipeline 'a'")
    other = one("a", f"type: download, format: csv, source_uri: 'pin/{{{{id}}}}/*.csv', {unit}", "pin/table")
    assert problems(other) == ()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_pipelines_that_read_each_others_tables_are_refused_by_name(
    problems: Callable[..., tuple[str, ...]], kind: str
) -> None:
    def reading(name: str, other: str) -> str:
        return one(name, f"type: {kind}, source_uri: './lake/{other}/', watermark_columns: [x]", f"lake/{name}")

    assert problems(reading("a", "b"), reading("b", "other")) == ()
    (line,) = problems(reading("a", "b"), reading("b", "c"), reading("c", "a"))
    check_names(line, "a → b → c → a")


@pytest.mark.parametrize(
    ("table", "letters", "what"),
    [
        ("lake/a_dead_letters", "", "the dead-letter table of pipeline 'a' is the table of pipeline 'b'"),
        ("lake/b", "./lake/x/../a", "the dead-letter table of pipeline 'b' is the table of pipeline 'a'"),
    ],
)
def test_the_dead_letters_of_one_are_not_the_table_of_another(
    problems: Callable[..., tuple[str, ...]], table: str, letters: str, what: str
) -> None:
    handling = f"    error_handling: {{dlq_path: '{letters}'}}\n" if letters else ""
    found = problems(one("a", "source_uri: in", "lake/a"), one("b", "source_uri: in2", table, handling))
    assert any(what in line for line in found), found


def test_one_place_for_the_dead_letters_of_several_is_fine_and_the_table_itself_is_none(
    problems: Callable[..., tuple[str, ...]],
) -> None:
    letters = "    error_handling: {dlq_path: letters}\n"
    assert problems(one("a", "source_uri: in", "a", letters), one("b", "source_uri: in2", "b", letters)) == ()
    (line,) = problems(one("a", "source_uri: in", "real", "    error_handling: {dlq_path: ./door}\n"))
    check_names(line, "itself")


@pytest.mark.parametrize(
    ("first", "second", "is_doubled"),
    [
        ("source_uri: real", "source_uri: door", True),
        ("source_uri: real", "source_uri: ./door/sub", True),
        ("source_uri: in", "source_uri: in/eu", True),
        ("source_uri: in/eu", "source_uri: in", True),
        ("source_uri: in", "source_uri: in/eu, pattern: '*.json'", True),
        ("source_uri: in, exclude: [eu]", "source_uri: in/eu", False),
        ("source_uri: in, pattern: 'raw/*.json'", "source_uri: in/eu", False),
        ("source_uri: in, format: csv", "source_uri: in/eu, format: parquet", False),
        ("source_uri: in", "source_uri: in2", False),
    ],
)
def test_two_sources_of_one_table_that_read_the_same_files_are_refused(
    problems: Callable[..., tuple[str, ...]], first: str, second: str, is_doubled: bool
) -> None:
    found = problems(one("a", first, "lake/t"), one("b", second, "lake/t"))
    assert any("doubles rows" in line for line in found) == is_doubled, found
    assert is_doubled or found == ()


def test_places_compare_whatever_their_spelling(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "door").symlink_to("real")
    assert comparable_uri(f"file://{tmp_path}/door/x%20y/") == comparable_uri(f"FILE://{tmp_path}/real/x y")
    assert comparable_uri("s3a://b//k/") == comparable_uri("S3://b/k")
    assert path_inside(comparable_uri("s3://b/in"), comparable_uri("s3a://b/in/t")) == "t"
    assert path_inside(comparable_uri("s3://b/in"), comparable_uri("s3://b/in2")) is None


def test_listings_leave_tables_alone_and_links_do_not_lead_to_others(tmp_path: Path) -> None:
    source = PathSource("s", Location(f"file://{tmp_path}/in"))
    tables = TablePlaces((f"file://{tmp_path}/in/table", f"file://{tmp_path}/in2", f"file://{tmp_path}/lake"))
    assert keep_apart(source, tables).apart == ("table",)
    linked = PathSource("s", Location(f"file://{tmp_path}/in"), follow_links=True)
    assert keep_apart(linked, tables).apart == (
        "table",
        *(f"{tmp_path}/{each}" for each in ("in/table", "in2", "lake")),
    )


def test_threads_with_projects_of_their_own_each_get_their_own_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def project(name: str) -> ProjectSpec:
        sink = SinkSpec(Location(f"file://{tmp_path}/in/{name}"))
        return ProjectSpec(name, (PipelineSpec(name, (), SchemaSpec(), sink),))

    asked: list[str] = []
    monkeypatch.setattr(stores, "comparable_uri", lambda uri: asked.append(uri) or comparable_uri(uri))
    monkeypatch.setattr(stores, "_newest", [])
    projects, wrong, begin = [project(f"t{number}") for number in range(4)], [], threading.Barrier(4)

    def look(own: ProjectSpec) -> None:
        begin.wait()
        for _ in range(200):
            places = list(TablePlaces.of(own).paths_inside(f"file://{tmp_path}/in"))
            if places[0] != own.origin:
                wrong.append((own.origin, places))

    threads = [threading.Thread(target=look, args=(each,)) for each in projects]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
    TablePlaces.of(projects[0])
    asked.clear()
    assert TablePlaces.of(projects[0]) is TablePlaces.of(projects[0])
    assert asked == []
    assert TablePlaces.of(project("t0")) is not TablePlaces.of(projects[0])


def test_a_thousand_sources_are_compared_with_their_neighbours_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    find = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path: looked.append(path) or find(path))
    pipelines = {
        f"p{number}": {"source": {"source_uri": f"in/{number}"}, "sink": {"table_uri": f"lake/{number}"}}
        for number in range(50)
    }
    config = tmp_path / "tidegate.yml"
    config.write_text(json.dumps({"pipelines": pipelines}))
    project = load(config, env={})
    for pipeline in project.pipelines:
        bind(project, pipeline, pipeline.sources[0])
    assert len(looked) < 20 * len(pipelines)


NAMES = "abcdef"
NEEDS = st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES), max_size=3), max_size=6)


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({}, "abcdef"),
        ({"a": "f"}, "fabcde"),
        ({"a": "c", "c": "f", "b": "f"}, "fcabde"),
        ({"f": "abc"}, "abcdef"),
        ({"a": "ed", "d": "e"}, "edabcf"),
    ],
)
def test_the_order(needs: dict[str, str], expected: str) -> None:
    assert "".join(sort_by_needs(NAMES, needs)) == expected


@given(NEEDS)
def test_each_comes_after_what_it_needs_unless_they_wait_for_each_other(needs: dict[str, set[str]]) -> None:
    found = sort_by_needs(NAMES, needs)
    assert sorted(found) == sorted(NAMES)
    circle = cycle(NAMES, needs)
    if circle:
        assert all(after in needs[name] for name, after in zip(circle, circle[1:] + circle[:1], strict=True))
    else:
        assert all(found.index(other) < found.index(name) for name in needs for other in needs[name])


@given(NEEDS)
def test_a_circle_is_found_where_there_is_one(needs: dict[str, set[str]]) -> None:
    reached = {name: set(needs.get(name, ())) for name in NAMES}
    for _ in NAMES:
        reached = {name: below.union(*(reached[each] for each in below)) for name, below in reached.items()}
    assert bool(cycle(NAMES, needs)) == any(name in below for name, below in reached.items())
